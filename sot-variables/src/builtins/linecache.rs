//! Source lines: read from `linecache` while tracing, and guarded.

use pyo3::prelude::*;

use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::variable::VarId;

use super::cannot;
use crate::classes::exception::replica::assume_sources;
use crate::iterators::library;

// `checkcache` looks for files that have changed since they were read. The file is guarded to be unchanged.
sot_core::builtin! { CHECK_CACHE = "linecache:checkcache" => |cx, args| {
    let [file] = args.exactly("checkcache")?;
    let file = known_file(cx, file)?;
    refuse_reached_cache(cx)?;
    assume_sources(cx, vec![file.clone()])?;
    let function = library(cx.py, "linecache", "checkcache")?.into_bound(cx.py);
    cx.fold(|_| function.call1((file,)))
} }

sot_core::builtin! { LAZY_CACHE = "linecache:lazycache" => |cx, args| {
    let [file, globals] = args.exactly("lazycache")?;
    let file = known_file(cx, file)?;
    refuse_reached_cache(cx)?;
    let globals = cx.see(globals)?.object().map(|globals| globals.clone_ref(cx.py));
    let globals = globals.ok_or_else(|| cannot("lazycache() with variables that are not a module's"))?;
    let function = library(cx.py, "linecache", "lazycache")?.into_bound(cx.py);
    cx.fold(|_| function.call1((file, globals)))
} }

sot_core::builtin! { GET_LINE = "linecache:getline" => |cx, args| {
    let [file, line] = two(cx, args)?;
    let file = known_file(cx, file)?;
    refuse_reached_cache(cx)?;
    let line = cx.known_int(line)?.ok_or_else(|| cannot("a line of an unknown number"))?;
    assume_sources(cx, vec![file.clone()])?;
    let function = library(cx.py, "linecache", "getline")?.into_bound(cx.py);
    cx.fold(|_| function.call1((file, line)))
} }

/// Returns file and line. Module globals, which tell a loader for the source, are not supported.
fn two(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<[VarId; 2]> {
    match args.positional[..] {
        [file, line] if args.keywords.is_empty() => Ok([file, line]),
        [file, line, globals] if args.keywords.is_empty() && super::is_none(cx, globals)? => Ok([file, line]),
        _ => Err(cannot("getline() with the variables of a module")),
    }
}

/// Breaks the graph if the trace itself has reached the cache dict: the folded functions would not see its writes.
fn refuse_reached_cache(cx: &mut OpcodeExecutor<'_>) -> Flow<()> {
    let module = cpython::import(cx.py, "linecache")?;
    // Before 3.9, the cache is cleared by replacing the dict.
    if cx.trace.identities.of(&module.getattr("cache")?).is_some()
        || cx.trace.effects.binds_globals(&module.dict().unbind())
    {
        return Err(cannot("linecache, whose cache the function has reached"));
    }
    Ok(())
}

fn known_file(cx: &mut OpcodeExecutor<'_>, file: VarId) -> Flow<String> {
    cx.known_str(file)?
        .ok_or_else(|| Unwind::break_graph(ReasonId::UnsupportedCall, "linecache for a file whose name is not known"))
}
