//! Classes derived from `tuple`, such as named tuples: which methods of `tuple` they override, and whether C code that
//! gets an instance runs code of the program.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyFunction, PyInt, PyList, PyString, PyTuple, PyType};

use sot_core::backend::ObjectTest;
use sot_core::cpython::{self, Place, Recorder};
use sot_core::error::Flow;
use sot_core::executor::{OpcodeExecutor, Trace};
use sot_core::guard::Test;
use sot_core::tracker::TrackerId;

/// The methods that a subclass must not override.
pub(super) const LIKE_TUPLE: [&str; 5] = ["__getitem__", "__iter__", "__len__", "__contains__", "__eq__"];

/// Names with two underscores that C code does not look up for an instance that exists already.
const NOT_ASKED: &[&str] = &[
    "__abstractmethods__",
    "__annotate__",
    "__annotate_func__",
    "__class_getitem__",
    "__classcell__",
    "__dict__",
    "__doc__",
    "__getnewargs__",
    "__init__",
    "__init_subclass__",
    "__new__",
    "__replace__",
    "__subclasshook__",
    "__weakref__",
];

/// True if instances of the class are tuples that do not override iteration, indexing, length, containment or
/// equality.
pub(crate) fn is_like_tuple(class: &Bound<'_, PyType>) -> bool {
    let base = class.py().get_type::<PyTuple>();
    cpython::is_subtype(class, &base)
        && LIKE_TUPLE.iter().all(|name| {
            let name = PyString::intern(class.py(), name);
            match (cpython::type_lookup(class, &name), cpython::type_lookup(&base, &name)) {
                (Some(found), Some(own)) => found.is(&own),
                _ => false,
            }
        })
}

/// True if C code that gets an instance may run code of the program: the class has a special method besides those in
/// C, those that only make instances, and `__repr__` of named tuples.
pub(super) fn runs_code(class: &Bound<'_, PyType>) -> PyResult<bool> {
    let py = class.py();
    for base in class.mro().iter() {
        let base = base.cast_into::<PyType>()?;
        if cpython::is_made_by_c(&base)? {
            continue;
        }
        for entry in cpython::class_dict(base.as_any())?.call_method0("items")?.try_iter()? {
            let (name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = entry?.extract()?;
            let Ok(name) = name.cast_into::<PyString>() else { continue };
            let is_asked = name.to_str().is_ok_and(|name| {
                name.starts_with("__") && name.ends_with("__") && !NOT_ASKED.contains(&name) && !is_data(&value)
            });
            // An entry behind the one of another class is not looked up.
            let is_found = || cpython::type_lookup(class, &name).is_some_and(|found| found.is(&value));
            if is_asked && is_found() && !is_repr_of_named_tuple(py, &value)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// True if the trace has written to the class or one of its bases, which the real class does not show yet.
pub(super) fn is_written(trace: &Trace<'_>, class: &Bound<'_, PyType>) -> bool {
    let bases = class.mro();
    let is_base = |written| {
        let object = trace.vars.get(written).object().map(|object| object.clone_ref(trace.py));
        object.is_some_and(|object| bases.iter().any(|base| base.is(&object)))
    };
    trace.effects.written().any(is_base)
}

/// True if the value is no method, like `__slots__` and `__annotations__`.
fn is_data(value: &Bound<'_, PyAny>) -> bool {
    value.is_exact_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyTuple>()
        || value.is_exact_instance_of::<PyList>()
        || value.is_exact_instance_of::<PyDict>()
}

/// True if the value is the `__repr__` that `collections.namedtuple` gives each class, which only formats the items.
fn is_repr_of_named_tuple(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let Ok(function) = value.cast_exact::<PyFunction>() else { return Ok(false) };
    let code = CODE.get_or_try_init(py, || {
        let sample = cpython::import(py, "collections")?.getattr("namedtuple")?.call1(("sample", ()))?;
        PyResult::Ok(sample.getattr("__repr__")?.getattr("__code__")?.unbind())
    })?;
    Ok(cpython::function_code(function).is(code))
}

/// Passes for a class whose instances C code can use without running code of the program.
struct RunsNoCode;

impl ObjectTest for RunsNoCode {
    fn check(&self, class: &Bound<'_, PyAny>) -> bool {
        class.cast::<PyType>().is_ok_and(|class| !runs_code(class).unwrap_or(true))
    }

    fn note(&self, place: &Place<'_>, recorder: &mut Recorder) -> bool {
        recorder.lookups_of(place)
    }

    fn describe(&self, subject: &str) -> String {
        format!("{subject} has no special methods of its own")
    }
}

/// Guards that C code can still use instances of the class without running code of the program, if it can now. `of` is
/// the tracker of the class.
pub(crate) fn assume_runs_no_code(cx: &mut OpcodeExecutor<'_>, class: &Bound<'_, PyAny>, of: TrackerId) -> Flow<()> {
    let mut classes = vec![(class.clone().unbind(), of)];
    if cx.trace.trackers.is_made(of) {
        // The class itself is known, its bases from outside may change.
        for base in class.cast::<PyType>().map_err(PyErr::from)?.mro().iter() {
            classes.extend(cx.trace.identities.of(&base).map(|known| (base.unbind(), cx.trace.vars.tracker(known))));
        }
    }
    for (class, of) in classes {
        let runs = runs_code(class.bind(cx.py).cast().map_err(PyErr::from)?)?;
        if !runs && cx.trace.trackers.is_sourced(of) {
            cx.trace.guards.add(of, Test::Object(Box::new(RunsNoCode)));
        }
    }
    Ok(())
}
