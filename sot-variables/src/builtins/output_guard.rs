//! Decides whether log records, warnings and printed texts are processed by C code and the standard library alone.
//! Then the output runs no code of the program, which could observe the state of the trace, and can be replayed after
//! the graph.
//!
//! Nor may the output raise an exception where the trace would catch it: a file can be closed, or unable to encode a
//! text.
//!
//! The decision is made when the trace reaches the call, and is guarded, as handlers, filters and methods may be
//! replaced later.

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyFunction, PyList, PyString, PyType};

use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::executor::{Frame, OpcodeExecutor};
use sot_core::guard::{ObjectTest, Test};
use sot_core::runtime::Runtime;
use sot_core::tracker::TrackerId;
use sot_core::variable::VarId;

use super::cannot;

/// Methods that `logging` calls on a logger, a handler and a formatter.
const OF_LOGGERS: [&str; 7] =
    ["isEnabledFor", "getEffectiveLevel", "handle", "filter", "callHandlers", "makeRecord", "_log"];
const OF_HANDLERS: [&str; 8] = ["handle", "filter", "emit", "format", "acquire", "release", "flush", "handleError"];
const OF_FORMATTERS: [&str; 6] =
    ["format", "formatTime", "formatMessage", "formatException", "formatStack", "usesTime"];

/// Handlers that only write texts, or nothing. Other handlers may keep records where the program can find them.
const HANDLERS: [&str; 7] = [
    "StreamHandler",
    "_StderrHandler",
    "FileHandler",
    "NullHandler",
    "RotatingFileHandler",
    "TimedRotatingFileHandler",
    "WatchedFileHandler",
];

/// A destination of output. The guarded object is a logger, a file, or the module that has the destination.
#[derive(Clone, Copy)]
enum Output {
    Logger,
    /// `logging.root`, which may be configured later.
    RootLogger,
    /// Warnings shown by the module `warnings`.
    Warnings,
    /// `sys.stdout`; with texts, if it must be able to encode them.
    Stdout(Option<TextCharacters>),
    /// A file that must be able to encode these texts.
    File(TextCharacters),
}

/// The characters in a set of texts.
#[derive(Clone, Copy)]
pub(super) enum TextCharacters {
    Ascii,
    Unicode,
}

impl TextCharacters {
    /// Returns the kind of these texts, if an exception would be caught within the trace; `None` otherwise.
    pub(super) fn that_must_be_taken(cx: &mut OpcodeExecutor<'_>, texts: &[VarId]) -> Flow<Option<TextCharacters>> {
        if !cx.stack.iter().any(may_catch) {
            return Ok(None);
        }
        let mut found = TextCharacters::Ascii;
        for &text in texts {
            // The other values are open numbers and tensors.
            let Some(known) = cx.known(text)?.filter(|known| !known.is_none()) else { continue };
            match known.cast::<PyString>().map(|text| text.to_str()) {
                Ok(Ok(text)) if text.is_ascii() => {}
                Ok(Ok(_)) => found = TextCharacters::Unicode,
                _ => return Err(cannot("print() of a text that no file takes, where exceptions are caught")),
            }
        }
        Ok(Some(found))
    }

    fn name(self) -> &'static str {
        match self {
            TextCharacters::Ascii => "ASCII",
            TextCharacters::Unicode => "all letters",
        }
    }

    /// True if a file is open and can encode the texts.
    fn are_taken_by(self, file: &Bound<'_, PyAny>) -> PyResult<bool> {
        let io = cpython::import(file.py(), "io")?;
        let is_text = file.is_instance(&io.getattr("TextIOWrapper")?)?;
        if !is_text && !file.is_instance(&io.getattr("StringIO")?)? {
            // A file class of a package, which writes in its own way.
            return Ok(true);
        }
        if file.getattr("closed")?.is_truthy()? {
            return Ok(false);
        }
        let is_utf8 = || -> PyResult<bool> {
            let encoding: String = file.getattr("encoding")?.extract()?;
            Ok(matches!(&*encoding.to_ascii_lowercase().replace('_', "-"), "utf-8" | "utf8"))
        };
        Ok(!is_text || matches!(self, TextCharacters::Ascii) || is_utf8()?)
    }
}

/// True if a frame of the trace may catch an exception at its current position.
pub(super) fn may_catch(frame: &Frame) -> bool {
    !frame.blocks.is_empty() || frame.code.code.handler_at(frame.at).is_some()
}

/// True if no code of the program processes the records of a logger. Adds the guard.
pub(super) fn guard_logger(cx: &mut OpcodeExecutor<'_>, logger: VarId) -> Flow<bool> {
    let tracker = cx.trace.vars.tracker(logger);
    let object = cx.see(logger)?.object().map(|object| object.clone_ref(cx.py));
    match object {
        Some(object) if cx.trace.trackers.is_loadable(tracker) => {
            guard_if_no_program_code(cx, Output::Logger, object, tracker)
        }
        _ => Ok(false),
    }
}

/// True if no code of the program processes the records of the root logger. Adds the guard.
pub(super) fn guard_root_logger(cx: &mut OpcodeExecutor<'_>) -> Flow<bool> {
    let module = cpython::import(cx.py, "logging")?.into_any().unbind();
    let tracker = cx.trace.trackers.constant(module.clone_ref(cx.py));
    guard_if_no_program_code(cx, Output::RootLogger, module, tracker)
}

/// True if no code of the program shows warnings. Adds the guard.
pub(super) fn guard_warnings(cx: &mut OpcodeExecutor<'_>) -> Flow<bool> {
    let module = cpython::import(cx.py, "warnings")?.into_any().unbind();
    let tracker = cx.trace.trackers.constant(module.clone_ref(cx.py));
    guard_if_no_program_code(cx, Output::Warnings, module, tracker)
}

/// True if no code of the program writes to `sys.stdout`, which the trace must not have replaced. Adds the guard.
pub(super) fn guard_stdout(cx: &mut OpcodeExecutor<'_>, texts: Option<TextCharacters>) -> Flow<bool> {
    let module = cpython::import(cx.py, "sys")?.into_any().unbind();
    let tracker = cx.trace.trackers.constant(module.clone_ref(cx.py));
    guard_if_no_program_code(cx, Output::Stdout(texts), module, tracker)
}

/// True if a file can encode these texts. Adds the guard.
pub(super) fn guard_file_takes_texts(cx: &mut OpcodeExecutor<'_>, file: VarId, texts: TextCharacters) -> Flow<bool> {
    let tracker = cx.trace.vars.tracker(file);
    let object = cx.see(file)?.object().map(|object| object.clone_ref(cx.py));
    match object {
        Some(object) if cx.trace.trackers.is_loadable(tracker) => {
            guard_if_no_program_code(cx, Output::File(texts), object, tracker)
        }
        _ => Ok(false),
    }
}

fn guard_if_no_program_code(
    cx: &mut OpcodeExecutor<'_>,
    output: Output,
    object: Py<PyAny>,
    tracker: TrackerId,
) -> Flow<bool> {
    let runs_no_program_code = output.runs_no_program_code(object.bind(cx.py))?;
    if runs_no_program_code {
        cx.trace.guards.add(tracker, Test::Object(Box::new(output)));
    }
    Ok(runs_no_program_code)
}

impl ObjectTest for Output {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        self.runs_no_program_code(object).unwrap_or(false)
    }

    fn describe(&self, subject: &str) -> String {
        match self {
            Output::Logger => format!("{subject} logs without code of the program's"),
            Output::RootLogger => format!("{subject}.root logs without code of the program's"),
            Output::Warnings => format!("{subject} shows warnings without code of the program's"),
            Output::Stdout(None) => format!("{subject}.stdout writes without code of the program's"),
            Output::Stdout(Some(texts)) => {
                format!("{subject}.stdout writes {} without code of the program's", texts.name())
            }
            Output::File(texts) => format!("{subject} takes {}", texts.name()),
        }
    }
}

impl Output {
    fn runs_no_program_code(self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = object.py();
        match self {
            Output::Logger => Logging::now(py)?.logs_without_program_code(object),
            Output::RootLogger => {
                let configures = object.getattr("basicConfig")?;
                let logging = Logging::now(py)?;
                Ok(logging.has(&configures)? && logging.logs_without_program_code(&object.getattr("root")?)?)
            }
            Output::Warnings => shows_without_program_code(object),
            Output::Stdout(texts) => {
                let stdout = object.getattr("stdout")?;
                if stdout.is_none() {
                    return Ok(true);
                }
                Ok(writes_without_program_code(&stdout)?
                    && texts.map_or(Ok(true), |texts| texts.are_taken_by(&stdout))?)
            }
            Output::File(texts) => texts.are_taken_by(object),
        }
    }
}

/// The module `logging` in its current state.
struct Logging<'py> {
    module: Bound<'py, PyModule>,
    names: Bound<'py, PyDict>,
    /// The dict of `logging.handlers`, if that module is imported.
    handlers: Option<Bound<'py, PyDict>>,
}

impl<'py> Logging<'py> {
    fn now(py: Python<'py>) -> PyResult<Self> {
        let module = cpython::import(py, "logging")?;
        let handlers = module.getattr_opt("handlers")?.and_then(|handlers| handlers.cast_into::<PyModule>().ok());
        Ok(Logging { names: module.dict(), module, handlers: handlers.map(|handlers| handlers.dict()) })
    }

    /// True if a function is defined by the module.
    fn has(&self, function: &Bound<'py, PyAny>) -> PyResult<bool> {
        let Ok(function) = function.cast::<PyFunction>() else { return Ok(false) };
        let globals = cpython::function_globals(function);
        Ok(globals.is(&self.names) || self.handlers.as_ref().is_some_and(|handlers| globals.is(handlers)))
    }

    /// True if these methods of an object are defined by the module.
    fn has_methods(&self, object: &Bound<'py, PyAny>, names: &[&str]) -> PyResult<bool> {
        let py = object.py();
        let own = object.getattr("__dict__")?;
        let (own, class) = (own.cast::<PyDict>()?, object.get_type());
        for name in names {
            let name = PyString::intern(py, name);
            if own.contains(&name)? {
                return Ok(false);
            }
            // Older versions lack some of the methods.
            if let Some(method) = cpython::type_lookup(&class, &name) {
                if !self.has(&method)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn logs_without_program_code(&self, logger: &Bound<'py, PyAny>) -> PyResult<bool> {
        if !self.makes_records_without_program_code()? {
            return Ok(false);
        }
        let mut has_handlers = false;
        let mut logger = logger.clone();
        while !logger.is_none() {
            if !self.has_methods(&logger, &OF_LOGGERS)? || !is_empty(&logger.getattr("filters")?)? {
                return Ok(false);
            }
            for handler in logger.getattr("handlers")?.try_iter()? {
                has_handlers = true;
                if !self.handles_without_program_code(&handler?)? {
                    return Ok(false);
                }
            }
            if !logger.getattr("propagate")?.is_truthy()? {
                break;
            }
            logger = logger.getattr("parent")?;
        }
        let last = self.module.getattr("lastResort")?;
        Ok(has_handlers || last.is_none() || self.handles_without_program_code(&last)?)
    }

    /// True if records are made by the module's own class.
    fn makes_records_without_program_code(&self) -> PyResult<bool> {
        let factory = self.module.getattr("_logRecordFactory")?;
        let Ok(class) = factory.cast::<PyType>() else { return Ok(false) };
        match cpython::type_lookup(class, &PyString::intern(class.py(), "__init__")) {
            Some(init) => self.has(&init),
            None => Ok(false),
        }
    }

    fn handles_without_program_code(&self, handler: &Bound<'py, PyAny>) -> PyResult<bool> {
        let name = handler.get_type().name()?;
        let name = name.to_str()?;
        if !HANDLERS.contains(&name)
            || !self.has_methods(handler, &OF_HANDLERS)?
            || !is_empty(&handler.getattr("filters")?)?
        {
            return Ok(false);
        }
        let formatter = handler.getattr("formatter")?;
        if !formatter.is_none() && !self.formats_without_program_code(&formatter)? {
            return Ok(false);
        }
        // `stream` of this handler is a property that returns `sys.stderr`.
        if name == "_StderrHandler" {
            return writes_without_program_code(&cpython::import(handler.py(), "sys")?.getattr("stderr")?);
        }
        match handler.getattr_opt("stream")? {
            Some(stream) if !stream.is_none() => writes_without_program_code(&stream),
            _ => Ok(true),
        }
    }

    fn formats_without_program_code(&self, formatter: &Bound<'py, PyAny>) -> PyResult<bool> {
        if !self.has_methods(formatter, &OF_FORMATTERS)? {
            return Ok(false);
        }
        let converts_without_program_code = formatter.getattr("converter")?.is_instance_of::<PyCFunction>();
        let style = formatter.getattr("_style")?;
        Ok(converts_without_program_code && self.has_methods(&style, &["usesTime", "format", "_format"])?)
    }
}

fn is_empty(list: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(list.cast_exact::<PyList>().is_ok_and(PyListMethods::is_empty))
}

/// True if warnings are shown by the module `warnings` itself. The list in which `catch_warnings` collects warnings
/// may be used, as the function inside does not look at it.
fn shows_without_program_code(module: &Bound<'_, PyAny>) -> PyResult<bool> {
    let names = module.getattr("__dict__")?;
    for name in ["_showwarnmsg", "_showwarnmsg_impl", "_formatwarnmsg", "showwarning", "formatwarning"] {
        let shows = module.getattr(name)?;
        let is_own = match shows.cast::<PyFunction>() {
            Ok(function) => cpython::function_globals(function).is(&names),
            Err(_) => shows.is_instance_of::<PyCFunction>(),
        };
        if !is_own {
            return Ok(false);
        }
    }
    let stderr = cpython::import(module.py(), "sys")?.getattr("stderr")?;
    Ok(stderr.is_none() || writes_without_program_code(&stderr)?)
}

/// True if writing to a file runs C code, the standard library or an installed package. What a package (for notebooks
/// or test runners) keeps of the output is not read by the function that prints.
pub(super) fn writes_without_program_code(file: &Bound<'_, PyAny>) -> PyResult<bool> {
    let name = PyString::intern(file.py(), "write");
    let own = file.getattr_opt("__dict__")?;
    let has_own = match own.as_ref().map(|own| own.cast::<PyDict>()) {
        Some(Ok(own)) => own.contains(&name)?,
        _ => false,
    };
    Ok(!has_own && cpython::type_lookup(&file.get_type(), &name).is_some_and(|write| is_installed(&write)))
}

/// True if a function is implemented in C, or belongs to the standard library or an installed package.
fn is_installed(function: &Bound<'_, PyAny>) -> bool {
    let Ok(function) = function.cast::<PyFunction>() else { return true };
    let module = function.getattr("__module__").and_then(|module| module.extract::<String>());
    if module.is_ok_and(|module| module == "test" || module.starts_with("test.")) {
        return false;
    }
    let file = cpython::function_code(function).getattr("co_filename").and_then(|file| file.extract::<String>());
    match (Runtime::get(), file) {
        (Some(runtime), Ok(file)) => runtime.skips(&file) || file.contains("site-packages"),
        _ => false,
    }
}
