//! `print` of known values: the text is made while tracing, the call is replayed after the graph.

use pyo3::prelude::*;

use sot_core::builtin;
use sot_core::error::Flow;
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::side_effects::Effect;
use sot_core::tracker::{Key, Tracker};
use sot_core::variable::VarId;

use super::{builtin_object, cannot};

builtin! { PRINT = "print" => |cx, args| {
    let mut texts = Vec::with_capacity(args.positional.len());
    for &arg in &args.positional {
        texts.push(text(cx, arg)?);
    }
    refuse_unknown_options(cx, args)?;
    let callable = print_variable(cx)?;
    cx.effects.record(Effect::Call { callable, args: texts, keywords: args.keywords.clone() });
    Ok(cx.none())
} }

/// Options of `print` that are not known, or name a file whose writing could be seen.
pub(super) fn refuse_unknown_options(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<()> {
    if args.keywords.iter().any(|(name, _)| !matches!(&**name, "sep" | "end" | "flush")) {
        return Err(cannot("print() to a file"));
    }
    for (_, value) in &args.keywords {
        if cx.known(*value)?.is_none() {
            return Err(cannot("print() with an unknown option"));
        }
    }
    Ok(())
}

/// What is printed, as it is now: a later change of a container must not show.
pub(super) fn text(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<VarId> {
    match cx.materialize(value)? {
        Some(value) => cx.fold(|_| Ok(value.str()?.into_any())),
        None => Err(cannot("print() of a value that is not known while tracing")),
    }
}

/// `print` itself.
pub(super) fn print_variable(cx: &mut OpcodeExecutor<'_>) -> Flow<VarId> {
    let print = builtin_object(cx.py, "print")?;
    let of = cx.trackers.add(Tracker::Builtins);
    let tracker = cx.trackers.add(Tracker::Item { of, key: Key::Str("print".into()) });
    Ok(cx.wrap(&print, tracker))
}
