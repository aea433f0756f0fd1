//! Environment variables of the process, which `os.environ` sets in addition to its dict. New code repeats the calls
//! in order with the other side effects. No code in the trace reads them.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::executor::OpcodeExecutor;
use sot_core::side_effects::Effect;
use sot_core::variable::VarId;

use super::cannot;

builtin! { PUTENV = "posix:putenv" => |cx, args| {
    let [name, value] = args.exactly("putenv")?;
    require_text(cx, name, true)?;
    require_text(cx, value, false)?;
    replay(cx, "putenv", vec![name, value])
} }

builtin! { UNSETENV = "posix:unsetenv" => |cx, args| {
    let [name] = args.exactly("unsetenv")?;
    require_text(cx, name, true)?;
    replay(cx, "unsetenv", vec![name])
} }

fn replay(cx: &mut OpcodeExecutor<'_>, function: &str, args: Vec<VarId>) -> Flow<VarId> {
    let function = cpython::import(cx.py, "posix")?.getattr(function)?;
    let callable = cx.wrap_fresh(&function)?;
    cx.trace.effects.record(Effect::Call { callable, args, keywords: Vec::new() });
    Ok(cx.trace.none())
}

/// Breaks the graph for names and values that the system would refuse, so that the error is raised at the program's
/// own line.
fn require_text(cx: &mut OpcodeExecutor<'_>, text: VarId, is_name: bool) -> Flow<()> {
    let known = cx.known(text)?;
    let bytes = known.and_then(|text| match text.cast::<PyBytes>() {
        Ok(bytes) => Some(bytes.as_bytes().to_vec()),
        Err(_) => text.cast_exact::<PyString>().ok()?.to_str().ok().map(|text| text.as_bytes().to_vec()),
    });
    let fits = |bytes: &Vec<u8>| !bytes.contains(&0) && !(is_name && (bytes.is_empty() || bytes.contains(&b'=')));
    match bytes.filter(fits) {
        Some(_) => Ok(()),
        None => Err(cannot("a variable of the environment with a name or value that is not known, or not allowed")),
    }
}
