//! Locks. What a lock of the program's guards is written later than in CPython, so taking one breaks the graph. Those of
//! the standard library's caches only spare work: they are taken and released when the graph has run, or up to where it breaks.

use pyo3::prelude::*;
use sot_core::builtin;
use sot_core::error::Flow;
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::side_effects::Effect;

use super::cannot;
use crate::classes::stand_in;
use crate::iterators::library;

builtin! { NEW = "_thread:RLock" => |cx, args| {
    check(cx)?;
    let callable = library(cx.py, "_thread", "RLock")?;
    stand_in::call(cx, callable, args)
} }

builtin! { ACQUIRE = "_thread:RLock.acquire" => |cx, args| {
    later(cx, "acquire", args)?;
    Ok(cx.boolean(true))
} }

builtin! { ENTER = "_thread:RLock.__enter__" => |cx, args| {
    later(cx, "acquire", args)?;
    Ok(cx.boolean(true))
} }

builtin! { RELEASE = "_thread:RLock.release" => |cx, args| {
    later(cx, "release", args)?;
    Ok(cx.none())
} }

builtin! { EXIT = "_thread:RLock.__exit__" => |cx, args| {
    later(cx, "release", args)?;
    Ok(cx.none())
} }

fn later(cx: &mut OpcodeExecutor<'_>, method: &str, args: &CallArgs) -> Flow<()> {
    check(cx)?;
    let lock = *args.positional.first().ok_or_else(|| cannot("a method of a lock without one"))?;
    let method = library(cx.py, "_thread", "RLock")?.bind(cx.py).getattr(method)?;
    let callable = cx.constant(method.unbind());
    cx.effects.record(Effect::Call { callable, args: vec![lock], keywords: Vec::new() });
    Ok(())
}

/// Modules whose locks guard caches of their own.
const CACHES: &[&str] = &["functools", "logging"];

fn check(cx: &OpcodeExecutor<'_>) -> Flow<()> {
    let module = cx.frame().globals.dict.bind(cx.py).get_item("__name__")?;
    let name = module.and_then(|module| module.extract::<String>().ok());
    if name.is_some_and(|name| CACHES.contains(&&*name)) {
        return Ok(());
    }
    Err(cannot("a lock"))
}
