//! Real exceptions that stand for exceptions of the trace and have the same class name, text, notes, members, cause,
//! context and traceback. `traceback` and other modules of the standard library format them.

use std::time::SystemTime;

use pyo3::exceptions::{PyAttributeError, PyImportError, PyNameError, PySyntaxError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};
use rustc_hash::FxHashMap;

use sot_core::backend::StateTest;
use sot_core::cpython::{self, DescriptorKind};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, OpcodeExecutor, TracebackEntry, TracebackVariable};
use sot_core::language::LANGUAGE;
use sot_core::variable::VarId;

use super::layout::static_base;
use super::ExceptionVariable;

/// The parts of an exception that a formatted text contains.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ExceptionDetail {
    /// Class and text only.
    Alone,
    /// Also the cause or context, and the traceback.
    WithChain,
}

/// Makes replicas, at most one for each exception.
pub struct Replicas<'py> {
    detail: ExceptionDetail,
    made: FxHashMap<VarId, Bound<'py, PyAny>>,
    files: Vec<String>,
}

fn refuse(what: &str) -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedCall, format!("the text of {what}"))
}

impl<'py> Replicas<'py> {
    /// Returns a value without replicas yet.
    pub fn new(detail: ExceptionDetail) -> Self {
        Replicas { detail, made: FxHashMap::default(), files: Vec::new() }
    }

    /// Returns an argument for the library function: a replica of an exception, the class of a replica, a real
    /// traceback, or a value that is known.
    pub fn argument(&mut self, cx: &mut OpcodeExecutor<'py>, value: VarId) -> Flow<Bound<'py, PyAny>> {
        if cx.see_as::<ExceptionVariable>(value)?.is_some() {
            return self.exception(cx, value);
        }
        if let Some(traceback) = cx.trace.vars.as_kind::<TracebackVariable>(value) {
            return self.traceback(cx, traceback.entry());
        }
        if let Some(value) = cx.materialize(value)? {
            return Ok(value);
        }
        let class = cx.see(value)?.object().map(|class| class.bind(cx.py).clone());
        let class = class.ok_or_else(|| refuse("what is not known while tracing"))?;
        for (of, made) in &self.made {
            if cx.trace.vars.get(*of).python_type(&cx.trace).is(&class) {
                return Ok(made.get_type().into_any());
            }
        }
        Err(refuse("an exception that was not made in the trace"))
    }

    fn traceback(&mut self, cx: &mut OpcodeExecutor<'py>, entry: &TracebackEntry) -> Flow<Bound<'py, PyAny>> {
        let mut at = Some(entry);
        while let Some(entry) = at {
            let file = &entry.place.code.code.filename;
            if !self.files.contains(file) {
                self.files.push(file.clone());
            }
            at = entry.next.as_deref();
        }
        Ok(entry.real(cx.py)?)
    }

    /// Returns the replica of an exception of the trace.
    pub fn exception(&mut self, cx: &mut OpcodeExecutor<'py>, exception: VarId) -> Flow<Bound<'py, PyAny>> {
        if let Some(made) = self.made.get(&exception) {
            return Ok(made.clone());
        }
        let payload = cx.see_as::<ExceptionVariable>(exception)?;
        let payload = payload.ok_or_else(|| refuse("an exception that was not made in the trace"))?;
        let ty = payload.python_class(cx.py)?;
        refuse_own_attribute_access(&ty)?;
        let about = needs_of_suggestions(cx, exception, &ty)?;
        let made = match payload.members() {
            Some(members) => {
                let message = payload.args().first().copied().ok_or_else(|| refuse("a group of exceptions"))?;
                let message = self.argument(cx, message)?;
                let members = cx.unpack_all(members)?;
                let members = members.iter().map(|&member| self.exception(cx, member)).collect::<Flow<Vec<_>>>()?;
                static_base(&ty)?.call_method1("__new__", (&ty, message, members))?
            }
            None if ty.is(cx.py.get_type::<PySyntaxError>()) => {
                let made = payload.real(cx.py).ok_or_else(|| refuse("a syntax error that was changed"))?;
                cpython::import(cx.py, "copy")?.call_method1("copy", (made,))?
            }
            None => replica_with_text(cx, exception, &ty)?,
        };
        self.made.insert(exception, made.clone());
        for (part, value) in about {
            made.setattr(part, value)?;
        }
        if let Some(notes) = cx.find_attr(exception, &"__notes__".into())? {
            let notes = cx.materialize(notes)?.ok_or_else(|| refuse("notes that are not known while tracing"))?;
            made.setattr("__notes__", notes)?;
        }
        if self.detail == ExceptionDetail::WithChain {
            self.chain(cx, exception, &made)?;
        }
        Ok(made)
    }

    /// Sets the replica's traceback and the exception that is shown before it: the cause, or else the context.
    fn chain(&mut self, cx: &mut OpcodeExecutor<'py>, exception: VarId, made: &Bound<'py, PyAny>) -> Flow<()> {
        let entry =
            cx.trace.raised.traceback_entry(exception).ok_or_else(|| refuse("a traceback that is not known"))?;
        let traceback = match entry {
            Some(entry) => self.traceback(cx, &entry)?,
            None => cx.py.None().into_bound(cx.py),
        };
        made.setattr("__traceback__", traceback)?;
        let suppressed = cx.get_attr(exception, &"__suppress_context__".into())?;
        let suppressed = cx.truth(suppressed)?;
        for name in ["__cause__", "__context__"] {
            let part = cx.get_attr(exception, &name.into())?;
            if cx.known(part)?.is_some_and(|part| part.is_none()) || name == "__context__" && suppressed {
                continue;
            }
            let part = self.exception(cx, part)?;
            made.setattr(name, part)?;
        }
        made.setattr("__suppress_context__", suppressed)?;
        Ok(())
    }

    /// Lets the library format the replicas, and guards the source files whose lines the text contains.
    pub fn fold(
        self,
        cx: &mut OpcodeExecutor<'py>,
        operation: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> Flow<VarId> {
        if limit_is_set(cx.py) {
            return Err(refuse("a traceback while sys.tracebacklimit is set"));
        }
        let text = operation().map_err(|_| refuse("an exception that the library fails to say"))?;
        if self.detail == ExceptionDetail::WithChain {
            assume_sources(cx, self.files)?;
        }
        cx.wrap_fresh(&text)
    }
}

/// Guards that the files are unchanged.
pub fn assume_sources(cx: &mut OpcodeExecutor<'_>, files: Vec<String>) -> Flow<()> {
    let sources = files.into_iter().map(|file| SourceFile::of(cx.py, file)).collect::<PyResult<_>>()?;
    cx.trace.guards.add_state(Box::new(SourceFilesUnchanged(sources)));
    Ok(())
}

/// Returns what the library needs to suggest a similar name for a missing one. Only supported for an attribute of an
/// object that has the attributes of its type and no others.
fn needs_of_suggestions<'py>(
    cx: &mut OpcodeExecutor<'py>,
    exception: VarId,
    ty: &Bound<'py, PyType>,
) -> Flow<Vec<(&'static str, Bound<'py, PyAny>)>> {
    let py = cx.py;
    let is = |base: Bound<'_, PyType>| cpython::is_subtype(ty, &base);
    let of_object = is(py.get_type::<PyAttributeError>());
    let part = match () {
        () if !LANGUAGE.suggests_names => return Ok(Vec::new()),
        () if is(py.get_type::<PyImportError>()) => "name_from",
        () if of_object || is(py.get_type::<PyNameError>()) => "name",
        () => return Ok(Vec::new()),
    };
    let name = cx.get_attr(exception, &part.into())?;
    let refuse = || refuse("an exception for which the library looks for names that are alike");
    let name = cx.known(name)?.ok_or_else(refuse)?;
    if name.is_none() {
        return Ok(Vec::new());
    }
    if !of_object {
        return Err(refuse());
    }
    let object = cx.get_attr(exception, &"obj".into())?;
    let object = alike(cx, object)?.ok_or_else(refuse)?;
    Ok(vec![(part, name), ("obj", object)])
}

/// Returns an object with the same attributes as a value of a simple type; `None` for other types.
fn alike<'py>(cx: &mut OpcodeExecutor<'py>, value: VarId) -> Flow<Option<Bound<'py, PyAny>>> {
    let ty = cx.type_of(value)?;
    if cx.known(value)?.is_some_and(|value| value.is_none()) {
        return Ok(Some(cx.py.None().into_bound(cx.py)));
    }
    for name in [
        "int",
        "float",
        "complex",
        "bool",
        "str",
        "bytes",
        "tuple",
        "list",
        "dict",
        "set",
        "frozenset",
        "object",
        "range",
    ] {
        if cpython::builtin(cx.py, name)?.is(&ty) {
            let arguments = PyTuple::new(cx.py, (name == "range").then_some(0))?;
            return Ok(Some(ty.call1(arguments)?));
        }
    }
    Ok(None)
}

/// Breaks the graph for classes that override attribute access: their text depends on more than the replica has.
fn refuse_own_attribute_access(ty: &Bound<'_, PyType>) -> Flow<()> {
    let py = ty.py();
    let syntax_error = py.get_type::<PySyntaxError>();
    if cpython::is_subtype(ty, &syntax_error) && !ty.is(&syntax_error) {
        return Err(refuse("a syntax error of another class"));
    }
    let in_c = |name: &str| {
        let found = cpython::type_lookup(ty, &PyString::intern(py, name));
        found.is_some_and(|found| {
            matches!(
                DescriptorKind::of(&found),
                DescriptorKind::Getset | DescriptorKind::Member | DescriptorKind::SlotWrapper
            )
        })
    };
    let parts = ["__cause__", "__context__", "__suppress_context__", "__traceback__", "__getattribute__"];
    if !parts.into_iter().all(in_c) || cpython::type_lookup(ty, &PyString::intern(py, "__getattr__")).is_some() {
        return Err(refuse("an exception that has its attributes in its own way"));
    }
    Ok(())
}

/// Makes an exception whose class has the same name and whose `__str__` gives the same text, or fails as that of the
/// program does.
fn replica_with_text<'py>(
    cx: &mut OpcodeExecutor<'py>,
    exception: VarId,
    ty: &Bound<'py, PyType>,
) -> Flow<Bound<'py, PyAny>> {
    let py = cx.py;
    let says = match object_model::call_special(cx, exception, "__str__", &[]) {
        Ok(text) => {
            let text = cx.known_str(text)?.ok_or_else(|| refuse("an exception that is not known while tracing"))?;
            PyString::new(py, &text).getattr("__str__")?
        }
        // The library ignores any exception that `__str__` raises.
        Err(Unwind::Raise(_)) => PyTuple::empty(py).call_method0("__iter__")?.getattr("__next__")?,
        Err(unwind) => return Err(unwind),
    };
    let names = PyDict::new(py);
    for name in ["__module__", "__qualname__"] {
        names.set_item(name, ty.getattr(name)?)?;
    }
    names.set_item("__str__", says)?;
    let base = static_base(ty)?;
    let class = py.get_type::<PyType>().call1((ty.getattr("__name__")?, (&base,), names))?;
    Ok(base.call_method1("__new__", (class,))?)
}

fn limit_is_set(py: Python<'_>) -> bool {
    cpython::import(py, "sys").and_then(|sys| sys.hasattr("tracebacklimit")).unwrap_or(true)
}

/// Guard: files whose lines are part of a text are unchanged.
struct SourceFilesUnchanged(Vec<SourceFile>);

/// The source of a file's lines.
struct SourceFile {
    name: String,
    /// Size and modification time, if the file exists.
    written: Option<(u64, SystemTime)>,
    /// The entry of `linecache` that is never refreshed.
    entry: Option<Py<PyAny>>,
}

impl SourceFile {
    fn of(py: Python<'_>, name: String) -> PyResult<SourceFile> {
        Ok(SourceFile { written: written(&name), entry: entry(py, &name)?, name })
    }

    fn holds(&self, py: Python<'_>) -> bool {
        let entry = entry(py, &self.name).ok().flatten();
        let same = entry.as_ref().map(Py::as_ptr) == self.entry.as_ref().map(Py::as_ptr);
        same && written(&self.name) == self.written
    }
}

fn written(name: &str) -> Option<(u64, SystemTime)> {
    let found = std::fs::metadata(name).ok()?;
    Some((found.len(), found.modified().ok()?))
}

/// Returns the entry of `linecache` for a file, if the entry has no modification time, so that `linecache` never
/// refreshes it.
fn entry(py: Python<'_>, name: &str) -> PyResult<Option<Py<PyAny>>> {
    let cache = cpython::import(py, "linecache")?.getattr("cache")?;
    let Some(entry) = cache.cast::<PyDict>()?.get_item(name)? else { return Ok(None) };
    let from_file = entry.cast::<PyTuple>().is_ok_and(|entry| entry.get_item(1).is_ok_and(|time| !time.is_none()));
    Ok(if from_file { None } else { Some(entry.unbind()) })
}

impl StateTest for SourceFilesUnchanged {
    fn check(&self, py: Python<'_>) -> bool {
        !limit_is_set(py) && self.0.iter().all(|source| source.holds(py))
    }

    fn restore(&self, _: Python<'_>) -> PyResult<()> {
        Ok(())
    }

    fn describe(&self) -> String {
        let names: Vec<&str> = self.0.iter().map(|source| &*source.name).collect();
        format!("unchanged({})", names.join(", "))
    }
}

/// Returns the arguments for a library function, with replicas for exceptions of the trace.
pub fn arguments<'py>(
    cx: &mut OpcodeExecutor<'py>,
    replicas: &mut Replicas<'py>,
    args: &CallArgs,
) -> Flow<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
    // First the exceptions: an argument that is a class must be the class of one of them.
    for arg in args.all() {
        if cx.see_as::<ExceptionVariable>(arg)?.is_some() {
            replicas.exception(cx, arg)?;
        }
    }
    let mut positional = Vec::with_capacity(args.positional.len());
    for &arg in &args.positional {
        positional.push(replicas.argument(cx, arg)?);
    }
    let keywords = PyDict::new(cx.py);
    for (name, arg) in &args.keywords {
        keywords.set_item(&**name, replicas.argument(cx, *arg)?)?;
    }
    Ok((PyTuple::new(cx.py, positional)?, keywords))
}
