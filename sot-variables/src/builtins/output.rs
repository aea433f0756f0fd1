//! `logging` of known values: replayed after the graph, in order with the other side effects, with file, line and
//! function of the program's call.

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyList, PyString, PyTuple};

use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::{Flow, Unwind};
use sot_core::executor::{BinaryOp, CallArgs, Frame, OpcodeExecutor};
use sot_core::language::LANGUAGE;
use sot_core::resume;
use sot_core::side_effects::Effect;
use sot_core::variable::VarId;

use super::frame::refuse_unknown_caller;
use super::{cannot, output_guard, traceback};

const DEBUG: i64 = 10;
const INFO: i64 = 20;
const WARNING: i64 = 30;
const ERROR: i64 = 40;
const CRITICAL: i64 = 50;

builtin! { LOGGER_DEBUG = "logging:Logger.debug" => |cx, args| log_method(cx, args, Some(DEBUG)) }
builtin! { LOGGER_INFO = "logging:Logger.info" => |cx, args| log_method(cx, args, Some(INFO)) }
builtin! { LOGGER_WARNING = "logging:Logger.warning" => |cx, args| log_method(cx, args, Some(WARNING)) }
builtin! { LOGGER_ERROR = "logging:Logger.error" => |cx, args| log_method(cx, args, Some(ERROR)) }
builtin! { LOGGER_CRITICAL = "logging:Logger.critical" => |cx, args| log_method(cx, args, Some(CRITICAL)) }
builtin! { LOGGER_EXCEPTION = "logging:Logger.exception" => |cx, args| {
    let args = handling(cx, args);
    log_method(cx, &args, Some(ERROR))
} }
builtin! { LOGGER_LOG = "logging:Logger.log" => |cx, args| log_method(cx, args, None) }

builtin! { LOG_DEBUG = "logging:debug" => |cx, args| log_on_root(cx, args, Some(DEBUG)) }
builtin! { LOG_INFO = "logging:info" => |cx, args| log_on_root(cx, args, Some(INFO)) }
builtin! { LOG_WARNING = "logging:warning" => |cx, args| log_on_root(cx, args, Some(WARNING)) }
builtin! { LOG_ERROR = "logging:error" => |cx, args| log_on_root(cx, args, Some(ERROR)) }
builtin! { LOG_CRITICAL = "logging:critical" => |cx, args| log_on_root(cx, args, Some(CRITICAL)) }
builtin! { LOG_EXCEPTION = "logging:exception" => |cx, args| {
    let args = handling(cx, args);
    log_on_root(cx, &args, Some(ERROR))
} }
builtin! { LOG_LOG = "logging:log" => |cx, args| log_on_root(cx, args, None) }

// The state of loggers affects messages that are still to be replayed.
builtin! { CONFIGURE = "logging:basicConfig" => |cx, args| set_up(cx, args) }
builtin! { SET_LEVEL = "logging:Logger.setLevel" => |cx, args| set_up(cx, args) }
builtin! { ADD_HANDLER = "logging:Logger.addHandler" => |cx, args| set_up(cx, args) }
builtin! { REMOVE_HANDLER = "logging:Logger.removeHandler" => |cx, args| set_up(cx, args) }

fn set_up(_: &mut OpcodeExecutor<'_>, _: &CallArgs) -> Flow<VarId> {
    Err(cannot("setting up how messages are logged"))
}

/// Returns the arguments of `exception()`, which logs the handled exception by default.
fn handling(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> CallArgs {
    let mut args = args.clone();
    if !args.keywords.iter().any(|(name, _)| &**name == "exc_info") {
        args.keywords.push(("exc_info".into(), cx.trace.boolean(true)));
    }
    args
}

fn log_method(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, level: Option<i64>) -> Flow<VarId> {
    let Some((&logger, rest)) = args.positional.split_first() else { return Err(cannot("logging without a logger")) };
    refuse_unknown_stack_level(cx, args)?;
    if !output_guard::guard_logger(cx, logger)? {
        return Err(cannot("logging to a logger or handler of the program's own"));
    }
    log(cx, logger, rest, &args.keywords, level)
}

fn log_on_root(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, level: Option<i64>) -> Flow<VarId> {
    refuse_unknown_stack_level(cx, args)?;
    if !output_guard::guard_root_logger(cx)? {
        return Err(cannot("logging to a handler of the program's own, or one that it configures in its own way"));
    }
    // The root logger is configured at the replay, if it has no handlers then.
    let none = cx.trace.none();
    log(cx, none, &args.positional, &args.keywords, level)
}

/// Breaks the graph at a `stacklevel` that counts frames which the trace does not have.
fn refuse_unknown_stack_level(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<()> {
    let Some((_, level)) = args.keywords.iter().find(|(name, _)| &**name == "stacklevel") else { return Ok(()) };
    let level = cx.known_int(*level)?;
    refuse_unknown_caller(cx, "logging", level)
}

fn log(
    cx: &mut OpcodeExecutor<'_>,
    logger: VarId,
    rest: &[VarId],
    keywords: &[(sot_core::executor::Name, VarId)],
    level: Option<i64>,
) -> Flow<VarId> {
    if writes_to_logging(cx)? {
        return Err(cannot("logging by what the function itself has set up"));
    }
    let mut depth = 1;
    let mut raised = cx.trace.none();
    for (name, value) in keywords {
        match (&**name, cx.known_int(*value)?) {
            // Below one, `logging` names a function of its own.
            ("stacklevel", Some(level)) if level > 0 => depth = level,
            ("exc_info", _) if writes_texts(cx, logger)? => {
                raised = traceback::logged(cx, *value)?.unwrap_or(raised);
            }
            _ => return Err(cannot(&format!("logging with {name}"))),
        }
    }
    let mut rest = rest.iter().copied();
    let level = match level {
        Some(level) => cx.trace.integer(level)?,
        None => rest.next().ok_or_else(|| cannot("logging without a level"))?,
    };
    if cx.known_int(level)?.is_none() {
        return Err(cannot("logging at a level that is no known number"));
    }
    let inner = frames_of_logging(cx)?;
    if inner > 0 && depth > 1 {
        return Err(cannot("logging with stacklevel, by a function of logging itself"));
    }
    let depth = depth + inner;
    let place = place(cx, depth);
    let message = message(cx, &rest.collect::<Vec<_>>())?;
    let (callable, args) = match place {
        Some(place) => {
            let callable = replayed(cx, &wrap_pyfunction!(emit_record, cx.py)?)?;
            (callable, [logger, level, raised].into_iter().chain(place).chain(message).collect())
        }
        None => {
            let above = cx.trace.integer(depth - cx.stack.len() as i64)?;
            let callable = replayed(cx, &wrap_pyfunction!(emit_record_for_caller, cx.py)?)?;
            let here = self::place(cx, 1).ok_or_else(|| cannot("logging outside of functions"))?;
            (callable, [logger, level, raised, above].into_iter().chain(here).chain(message).collect())
        }
    };
    cx.trace.effects.record(Effect::Call { callable, args, keywords: Vec::new() });
    Ok(cx.trace.none())
}

/// Number of the innermost frames that run functions of the module `logging`, such as the methods of a
/// `LoggerAdapter`. A record does not name them.
fn frames_of_logging(cx: &OpcodeExecutor<'_>) -> Flow<i64> {
    let file: String = cpython::import(cx.py, "logging")?.getattr("__file__")?.extract()?;
    let inner = (1..=cx.stack.len() as i64)
        .take_while(|depth| frame_at(cx, *depth).is_some_and(|frame| frame.code.code.filename == file));
    Ok(inner.count() as i64)
}

/// True if all handlers are those of the module `logging`, which only write a record's text. Other handlers could
/// observe that the record has no exception object.
fn writes_texts(cx: &mut OpcodeExecutor<'_>, logger: VarId) -> Flow<bool> {
    let mut logger = match cx.see(logger)?.object() {
        Some(logger) if !logger.is_none(cx.py) => logger.bind(cx.py).clone(),
        _ => cpython::import(cx.py, "logging")?.getattr("root")?,
    };
    while !logger.is_none() {
        for handler in logger.getattr("handlers")?.try_iter()? {
            if !handler?.get_type().getattr("__module__")?.eq("logging")? {
                return Ok(false);
            }
        }
        if !logger.getattr("propagate")?.is_truthy()? {
            break;
        }
        logger = logger.getattr("parent")?;
    }
    Ok(true)
}

/// True if the trace has written to a logger, a handler or the module `logging`, which the replay would find in its
/// final state, or has replaced `sys.stderr`.
fn writes_to_logging(cx: &mut OpcodeExecutor<'_>) -> Flow<bool> {
    let logging = cpython::import(cx.py, "logging")?;
    let stderr = cx.trace.effects.global(&cpython::import(cx.py, "sys")?.dict().unbind(), &"stderr".into());
    if stderr.is_some() || cx.trace.effects.binds_globals(&logging.dict().unbind()) {
        return Ok(true);
    }
    let written: Vec<VarId> = cx.trace.effects.written().collect();
    for variable in written {
        let Some(object) = cx.trace.vars.get(variable).object().map(|object| object.bind(cx.py).clone()) else {
            continue;
        };
        let path = cx.trace.trackers.text(cx.py, cx.trace.vars.tracker(variable));
        let is_list_of_handlers =
            object.is_instance_of::<PyList>() && [".handlers", ".filters"].iter().any(|name| path.ends_with(name));
        let module = object.get_type().getattr("__module__").and_then(|module| module.extract::<String>());
        if is_list_of_handlers || module.is_ok_and(|module| module.starts_with("logging")) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the message and its arguments. Containers are formatted now, as they may change before the replay.
fn message(cx: &mut OpcodeExecutor<'_>, given: &[VarId]) -> Flow<Vec<VarId>> {
    let Some((&format, rest)) = given.split_first() else { return Err(cannot("logging without a message")) };
    let mut are_values = true;
    for &value in given {
        are_values &= cx.trace.guard_type_if_lazy(value) || cx.known(value)?.is_some();
    }
    if are_values {
        return Ok(given.to_vec());
    }
    let unknown = || cannot("logging of a value that is not known while tracing");
    let format = cx.known_str(format)?.ok_or_else(unknown)?;
    let mut values = Vec::new();
    for &value in rest {
        match cx.materialize(value)? {
            Some(value) => values.push(value),
            None => return Ok(vec![followed_message(cx, given[0], rest)?]),
        }
    }
    // A single mapping as argument is formatted by its keys.
    let values = match &values[..] {
        [one] if one.is_instance_of::<PyDict>() && !one.is_empty()? => one.clone(),
        _ => PyTuple::new(cx.py, values)?.into_any(),
    };
    match PyString::new(cx.py, &format).rem(values) {
        Ok(text) => Ok(vec![cx.wrap_fresh(&text)?]),
        Err(_) => Err(cannot("logging of a message that cannot be formatted")),
    }
}

/// Returns the message with values formatted by methods of the program, if these have no side effects.
fn followed_message(cx: &mut OpcodeExecutor<'_>, format: VarId, values: &[VarId]) -> Flow<VarId> {
    let unknown = || cannot("logging of a value that is not known while tracing");
    if let [one] = values {
        if crate::containers::dict::of(cx, *one)?.is_some() {
            return Err(unknown());
        }
    }
    let before = cx.trace.effects.len();
    let values = cx.trace.tuple(values.to_vec());
    match cx.binary(BinaryOp::Remainder, format, values) {
        Ok(text) if cx.trace.effects.len() == before && cx.known_str(text)?.is_some() => Ok(text),
        // `logging` reports formatting errors in its own way.
        Ok(_) | Err(Unwind::Raise(_) | Unwind::BreakGraph(_)) => Err(unknown()),
        Err(other) => Err(other),
    }
}

/// Returns file, line and function of the `depth`-th frame of the trace, counted from the innermost.
pub(super) fn place(cx: &mut OpcodeExecutor<'_>, depth: i64) -> Option<[VarId; 3]> {
    let frame = frame_at(cx, depth)?;
    let (at, function) = (frame.location(), frame.code.code.name.clone());
    let line = cx.trace.integer(i64::from(at.line)).ok()?;
    Some([cx.trace.string(&at.file), line, cx.trace.string(&function)])
}

pub(super) fn frame_at<'a>(cx: &'a OpcodeExecutor<'_>, depth: i64) -> Option<&'a Frame> {
    let index = cx.stack.len().checked_sub(usize::try_from(depth.max(1)).ok()?)?;
    cx.stack.get(index)
}

pub(super) fn replayed<'py>(cx: &mut OpcodeExecutor<'py>, function: &Bound<'py, PyCFunction>) -> Flow<VarId> {
    cx.wrap_fresh(function.as_any())
}

/// Calls `logger.log(level, message, *args)` as from a given file, line and function, with the text of an exception.
/// `None` stands for the root logger.
#[pyfunction]
#[pyo3(signature = (logger, level, raised, file, line, function, message, *args))]
#[allow(clippy::too_many_arguments, reason = "they are a log record's")]
fn emit_record(
    logger: &Bound<'_, PyAny>,
    level: i64,
    raised: &Bound<'_, PyAny>,
    file: &str,
    line: i64,
    function: &str,
    message: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
) -> PyResult<()> {
    let py = logger.py();
    let logging = cpython::import(py, "logging")?;
    let logger = if logger.is_none() {
        let root = logging.getattr("root")?;
        if root.getattr("handlers")?.is_empty()? {
            logging.call_method0("basicConfig")?;
        }
        root
    } else {
        logger.clone()
    };
    if !logger.call_method1("isEnabledFor", (level,))?.is_truthy()? {
        return Ok(());
    }
    let place = if logging.getattr("_srcfile")?.is_truthy()? {
        (file, line, function)
    } else {
        ("(unknown file)", 0, "(unknown function)")
    };
    let name = logger.getattr("name")?;
    let none = py.None();
    let record = logger
        .call_method1("makeRecord", (name, level, place.0, place.1, message, args, &none, place.2, &none, &none))?;
    // The text that a formatter caches on the record.
    record.setattr("exc_text", raised)?;
    logger.call_method1("handle", (record,)).map(drop)
}

/// As `emit_record`, for the frame `calls` levels above the translated function.
#[pyfunction]
#[pyo3(signature = (logger, level, raised, calls, file, line, function, message, *args))]
#[allow(clippy::too_many_arguments, reason = "they are a log record's")]
fn emit_record_for_caller(
    logger: &Bound<'_, PyAny>,
    level: i64,
    raised: &Bound<'_, PyAny>,
    calls: usize,
    file: &str,
    line: i64,
    function: &str,
    message: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
) -> PyResult<()> {
    let py = logger.py();
    let found = match resume::caller(py, calls)? {
        Some((frame, _)) => Some(place_of(&frame)?),
        // The stack has fewer frames.
        None if LANGUAGE.far_records_are_outermost => Some(outermost(py)?),
        None => None,
    };
    match found {
        Some((file, line, function)) => emit_record(logger, level, raised, &file, line, &function, message, args),
        None => emit_record(logger, level, raised, file, line, function, message, args),
    }
}

/// Returns file, line and function of a frame.
fn place_of(frame: &Bound<'_, PyAny>) -> PyResult<(String, i64, String)> {
    let code = frame.getattr("f_code")?;
    let name = |name: &str| code.getattr(name)?.extract::<String>();
    Ok((name("co_filename")?, frame.getattr("f_lineno")?.extract()?, name("co_name")?))
}

fn outermost(py: Python<'_>) -> PyResult<(String, i64, String)> {
    let frame = cpython::current_frame(py);
    let mut frame = frame.ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("no Python code runs"))?;
    loop {
        let outer = frame.getattr("f_back")?;
        if outer.is_none() {
            return place_of(&frame);
        }
        frame = outer;
    }
}
