//! Lines of source: what `linecache` has of a file is read while tracing, and assumed to stay.

use pyo3::prelude::*;

use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::variable::VarId;

use super::cannot;
use crate::classes::exception::replica::assume_sources;
use crate::iterators::library;

// Looks whether files were written since they were read: each line that is asked for is assumed to stay.
sot_core::builtin! { CHECK_CACHE = "linecache:checkcache" => |cx, args| {
    let [file] = args.exactly(cx, "checkcache")?;
    let file = known_file(cx, file)?;
    refuse_reached_cache(cx)?;
    assume_sources(cx, vec![file.clone()])?;
    let function = library(cx.py, "linecache", "checkcache")?.into_bound(cx.py);
    cx.fold(|_| function.call1((file,)))
} }

sot_core::builtin! { LAZY_CACHE = "linecache:lazycache" => |cx, args| {
    let [file, globals] = args.exactly(cx, "lazycache")?;
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

/// Which file and line; the variables of a module beside them say where else to look.
fn two(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<[VarId; 2]> {
    match args.positional[..] {
        [file, line] if args.keywords.is_empty() => Ok([file, line]),
        [file, line, globals] if args.keywords.is_empty() && super::is_none(cx, globals)? => Ok([file, line]),
        _ => Err(cannot("getline() with the variables of a module")),
    }
}

/// Where the trace has reached the cache as a dict, the functions here would not see what it wrote there.
fn refuse_reached_cache(cx: &mut OpcodeExecutor<'_>) -> Flow<()> {
    let module = cpython::import(cx.py, "linecache")?;
    // Before 3.9 the cache is cleared by putting another one in its place.
    if cx.identities.of(&module.getattr("cache")?).is_some() || cx.effects.binds_globals(&module.dict().unbind()) {
        return Err(cannot("linecache, whose cache the function has reached"));
    }
    Ok(())
}

fn known_file(cx: &mut OpcodeExecutor<'_>, file: VarId) -> Flow<String> {
    cx.known_str(file)?
        .ok_or_else(|| Unwind::break_graph(ReasonId::UnsupportedCall, "lines of a file of an unknown name"))
}
