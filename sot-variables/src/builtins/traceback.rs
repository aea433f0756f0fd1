//! Texts of exceptions: the library makes them while tracing, of replicas that say what the exceptions of the trace do.

use pyo3::prelude::*;
use pyo3::types::PyString;

use sot_core::builtin;
use sot_core::error::Flow;
use sot_core::executor::{object_model, CallArgs, OpcodeExecutor};
use sot_core::variable::VarId;

use super::{builtin_object, cannot};
use crate::classes::exception::{self, ExceptionVariable};
use crate::classes::exception_replica::{self, Replicas, Said};
use crate::iterators::library;

builtin! { FORMAT_EXCEPTION_ONLY = "traceback:format_exception_only" => |cx, args| format(cx, "format_exception_only", args, Said::Alone) }
builtin! { FORMAT_EXCEPTION = "traceback:format_exception" => |cx, args| format(cx, "format_exception", args, Said::WithChain) }
builtin! { FORMAT_TB = "traceback:format_tb" => |cx, args| format(cx, "format_tb", args, Said::WithChain) }

builtin! { FORMAT_EXC = "traceback:format_exc" => |cx, args| {
    let lines = format_handled(cx, args)?;
    join(cx, lines)
} }

builtin! { PRINT_EXC = "traceback:print_exc" => |cx, args| {
    let mut args = args.clone();
    let file = take_file(cx, &mut args, 1)?;
    let lines = format_handled(cx, &args)?;
    print(cx, file, lines)
} }

builtin! { PRINT_EXCEPTION = "traceback:print_exception" => |cx, args| {
    let mut args = args.clone();
    let file = take_file(cx, &mut args, 4)?;
    let lines = format(cx, "format_exception", &args, Said::WithChain)?;
    print(cx, file, lines)
} }

/// The result of a function of the library.
fn format(cx: &mut OpcodeExecutor<'_>, name: &str, args: &CallArgs, said: Said) -> Flow<VarId> {
    let function = library(cx.py, "traceback", name)?.into_bound(cx.py);
    let mut replicas = Replicas::new(said);
    let (positional, keywords) = exception_replica::arguments(cx, &mut replicas, args)?;
    replicas.fold(cx, || function.call(positional, Some(&keywords)))
}

/// What `logging` says of an exception: of the one given, or of the one being handled where all that is given is that there is one.
pub(super) fn logged(cx: &mut OpcodeExecutor<'_>, exc_info: VarId) -> Flow<Option<VarId>> {
    let lines = if cx.see_as::<ExceptionVariable>(exc_info)?.is_some() {
        let class = object_model::type_variable(cx, exc_info)?;
        let traceback = cx.get_attr(exc_info, &"__traceback__".into())?;
        let args = CallArgs::positional(vec![class, exc_info, traceback]);
        format(cx, "format_exception", &args, Said::WithChain)?
    } else {
        let given = cx.known(exc_info)?.ok_or_else(|| cannot("logging with this exc_info"))?;
        if !given.is_truthy()? {
            return Ok(None);
        }
        format_handled(cx, &CallArgs::default())?
    };
    let text = join(cx, lines)?;
    let text = cx.known_str(text)?.ok_or_else(|| cannot("a traceback that is not known"))?;
    Ok(Some(cx.string(text.strip_suffix('\n').unwrap_or(&text))))
}

/// The lines for the exception that is being handled.
fn format_handled(cx: &mut OpcodeExecutor<'_>, options: &CallArgs) -> Flow<VarId> {
    let handled = match exception::handled(cx)? {
        Some(exception) => {
            let traceback = cx.handled_traceback().unwrap_or_else(|| cx.none());
            [object_model::type_variable(cx, exception)?, exception, traceback]
        }
        None => [(); 3].map(|()| cx.none()),
    };
    let positional = handled.into_iter().chain(options.positional.iter().copied()).collect();
    let args = CallArgs { positional, keywords: options.keywords.clone() };
    format(cx, "format_exception", &args, Said::WithChain)
}

/// Takes the file to print to from the arguments: it is given by name, as there are no more than so many others before it.
fn take_file(cx: &mut OpcodeExecutor<'_>, args: &mut CallArgs, before: usize) -> Flow<VarId> {
    let given = args.keywords.iter().position(|(name, _)| &**name == "file");
    match given.map(|at| args.keywords.remove(at).1) {
        Some(file) if !super::is_none(cx, file)? && args.positional.len() <= before => Ok(file),
        _ => Err(cannot("printing a traceback where errors go")),
    }
}

/// Prints each line.
fn print(cx: &mut OpcodeExecutor<'_>, file: VarId, lines: VarId) -> Flow<VarId> {
    let function = builtin_object(cx.py, "print")?;
    let tracker = cx.constant_tracker(function.clone().unbind());
    let function = cx.wrap(&function, tracker);
    let end = cx.string("");
    for line in cx.unpack_all(lines)? {
        let keywords = vec![("file".into(), file), ("end".into(), end)];
        cx.call(function, &CallArgs { positional: vec![line], keywords })?;
    }
    Ok(cx.none())
}

fn join(cx: &mut OpcodeExecutor<'_>, lines: VarId) -> Flow<VarId> {
    let lines = cx.materialize(lines)?.ok_or_else(|| cannot("a traceback that is not known"))?;
    cx.fold(|py| PyString::new(py, "").call_method1("join", (lines,)))
}
