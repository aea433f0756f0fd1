//! `match` statements that represent a failed match by None on the stack (3.11).

use sot_core::opcode;
use sot_opcodes_py38::pattern::{match_class, match_keys};

opcode! {
    MATCH_KEYS [3.11..3.14] (subject, keys -- same, same_keys, values)
        => |cx, _| match_keys(cx, subject, keys).map(|found| [subject, keys, found.unwrap_or_else(|| cx.trace.none())])
}
opcode! { MATCH_CLASS [3.11..3.12] (subject, class, names -- found) => |cx, op| {
    let found = match_class(cx, subject, class, op.arg, names, "type")?;
    Ok(found.unwrap_or_else(|| cx.trace.none()))
} }
opcode! { MATCH_CLASS [3.12..3.14] (subject, class, names -- found) => |cx, op| {
    let found = match_class(cx, subject, class, op.arg, names, "class")?;
    Ok(found.unwrap_or_else(|| cx.trace.none()))
} }
