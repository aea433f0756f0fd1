//! Texts of exceptions. The library makes them while tracing, from replicas of the trace's exceptions.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use sot_core::builtin;
use sot_core::bytecode::flags::SUSPENDS;
use sot_core::error::Flow;
use sot_core::executor::{object_model, traceback, CallArgs, OpcodeExecutor, TracebackEntry, TracebackVariable};
use sot_core::variable::VarId;

use super::{builtin_object, cannot};
use crate::classes::exception::replica::{self, ExceptionDetail, Replicas};
use crate::classes::exception::{self, ExceptionVariable};
use crate::iterators::library;

builtin! { FORMAT_EXCEPTION_ONLY = "traceback:format_exception_only" => |cx, args| {
    format(cx, "format_exception_only", args, ExceptionDetail::Alone)
} }
builtin! { FORMAT_EXCEPTION = "traceback:format_exception" => |cx, args| {
    format(cx, "format_exception", args, ExceptionDetail::WithChain)
} }
builtin! { FORMAT_TB = "traceback:format_tb" => |cx, args| format(cx, "format_tb", args, ExceptionDetail::WithChain) }

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
    let lines = format(cx, "format_exception", &args, ExceptionDetail::WithChain)?;
    print(cx, file, lines)
} }

builtin! { CLEAR_FRAMES = "traceback:clear_frames" => |cx, args| {
    let [traceback] = args.exactly("clear_frames")?;
    if super::is_none(cx, traceback)? {
        return Ok(cx.trace.none());
    }
    // No code in the trace reads the variables of a finished frame. A generator's frame may not be finished.
    for entry in entries(cx, traceback)? {
        if entry.place.code.code.flags & SUSPENDS != 0 {
            return Err(cannot("clear_frames() of a generator's frame"));
        }
    }
    Ok(cx.trace.none())
} }

builtin! { POSITIONS = "traceback:_walk_tb_with_full_positions"? => |cx, args| {
    let [traceback] = args.exactly("_walk_tb_with_full_positions")?;
    let entries = if super::is_none(cx, traceback)? { Vec::new() } else { entries(cx, traceback)? };
    let mut found = Vec::with_capacity(entries.len());
    for entry in entries {
        let frame = (cx.runtime.factories.frame)(cx, &entry.place);
        let at = entry.place.code.code.instructions.get(entry.at.index()).map(|instruction| instruction.position);
        let at = at.unwrap_or_default();
        let mut parts = Vec::with_capacity(4);
        for part in [Some(entry.line()), at.end_line, at.column, at.end_column] {
            parts.push(match part {
                Some(part) => cx.trace.integer(i64::from(part))?,
                None => cx.trace.none(),
            });
        }
        let position = cx.trace.tuple(parts);
        found.push(cx.trace.tuple(vec![frame, position]));
    }
    let found = cx.trace.list(found);
    cx.iter(found)
} }

// The underlined part of a line depends on the text of the line alone.
builtin! { ANCHORS = "traceback:_extract_caret_anchors_from_line_segment"? => |cx, args| {
    let [segment] = args.exactly("_extract_caret_anchors_from_line_segment")?;
    let segment = cx.known_str(segment)?.ok_or_else(|| cannot("a line that is not known"))?;
    let function = library(cx.py, "traceback", "_extract_caret_anchors_from_line_segment")?.into_bound(cx.py);
    let anchors = cx.fold(|py| {
        let anchors = function.call1((&*segment,))?;
        if anchors.is_none() { Ok(anchors) } else { py.get_type::<PyTuple>().call1((anchors,)) }
    })?;
    if super::is_none(cx, anchors)? {
        return Ok(anchors);
    }
    let class = library(cx.py, "traceback", "_Anchors")?.into_bound(cx.py);
    let tracker = cx.trace.trackers.constant(class.clone().unbind());
    let class = cx.trace.wrap(&class, tracker);
    let parts = cx.unpack_all(anchors)?;
    cx.call(class, &CallArgs::positional(parts))
} }

// Depends on the same text, and on whether there are anchors.
builtin! { CARETS = "traceback:StackSummary._should_show_carets"? => |cx, args| {
    let [_, start, end, lines, anchors] = args.exactly("_should_show_carets")?;
    let has_anchors = !super::is_none(cx, anchors)?;
    let given = CallArgs::positional(vec![start, end, lines]);
    let (given, _) = cx.materialize_args(&given)?.ok_or_else(|| cannot("lines that are not known"))?;
    let summary = library(cx.py, "traceback", "StackSummary")?.into_bound(cx.py).call0()?;
    cx.fold(|_| {
        let [start, end, lines] = [given.get_item(0)?, given.get_item(1)?, given.get_item(2)?];
        summary.call_method1("_should_show_carets", (start, end, lines, has_anchors))
    })
} }

/// Returns the entries of a traceback of the trace.
fn entries(cx: &mut OpcodeExecutor<'_>, traceback: VarId) -> Flow<Vec<Rc<TracebackEntry>>> {
    let first = cx.trace.vars.as_kind::<TracebackVariable>(traceback);
    let first = first.ok_or_else(|| cannot("a traceback of an exception that was not made in the trace"))?;
    let next = |entry: &Rc<TracebackEntry>| entry.next.clone();
    Ok(std::iter::successors(Some(Rc::clone(first.entry())), next).collect())
}

/// Folds a function of the module `traceback`.
fn format(cx: &mut OpcodeExecutor<'_>, name: &str, args: &CallArgs, detail: ExceptionDetail) -> Flow<VarId> {
    let function = library(cx.py, "traceback", name)?.into_bound(cx.py);
    let mut replicas = Replicas::new(detail);
    let (positional, keywords) = replica::arguments(cx, &mut replicas, args)?;
    replicas.fold(cx, || function.call(positional, Some(&keywords)))
}

/// Returns the text that `logging` adds for `exc_info`: of the given exception, or of the handled one if `exc_info`
/// is just true. `None` if `exc_info` is false.
pub(super) fn logged(cx: &mut OpcodeExecutor<'_>, exc_info: VarId) -> Flow<Option<VarId>> {
    let lines = if cx.see_as::<ExceptionVariable>(exc_info)?.is_some() {
        let class = object_model::type_variable(cx, exc_info)?;
        let traceback = cx.get_attr(exc_info, &"__traceback__".into())?;
        let args = CallArgs::positional(vec![class, exc_info, traceback]);
        format(cx, "format_exception", &args, ExceptionDetail::WithChain)?
    } else {
        let given = cx.known(exc_info)?.ok_or_else(|| cannot("logging with this exc_info"))?;
        if !given.is_truthy()? {
            return Ok(None);
        }
        format_handled(cx, &CallArgs::default())?
    };
    let text = join(cx, lines)?;
    let text = cx.known_str(text)?.ok_or_else(|| cannot("a traceback that is not known"))?;
    Ok(Some(cx.trace.string(text.strip_suffix('\n').unwrap_or(&text))))
}

/// Returns the lines for the exception that is being handled.
fn format_handled(cx: &mut OpcodeExecutor<'_>, options: &CallArgs) -> Flow<VarId> {
    let handled = match exception::handled(cx)? {
        Some(exception) => {
            let traceback = traceback::handled_traceback(cx).unwrap_or_else(|| cx.trace.none());
            [object_model::type_variable(cx, exception)?, exception, traceback]
        }
        None => [(); 3].map(|()| cx.trace.none()),
    };
    let positional = handled.into_iter().chain(options.positional.iter().copied()).collect();
    let args = CallArgs { positional, keywords: options.keywords.clone() };
    format(cx, "format_exception", &args, ExceptionDetail::WithChain)
}

/// Takes the keyword `file` out of the arguments. Breaks the graph if it is missing, or if more than `before`
/// positional arguments are given.
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
    let tracker = cx.trace.trackers.constant(function.clone().unbind());
    let function = cx.trace.wrap(&function, tracker);
    let end = cx.trace.string("");
    for line in cx.unpack_all(lines)? {
        let keywords = vec![("file".into(), file), ("end".into(), end)];
        cx.call(function, &CallArgs { positional: vec![line], keywords })?;
    }
    Ok(cx.trace.none())
}

fn join(cx: &mut OpcodeExecutor<'_>, lines: VarId) -> Flow<VarId> {
    let lines = cx.materialize(lines)?.ok_or_else(|| cannot("a traceback that is not known"))?;
    cx.fold(|py| PyString::new(py, "").call_method1("join", (lines,)))
}
