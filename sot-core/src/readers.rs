//! Functions that new code calls to load a tracker's value where no instruction can read it.

use pyo3::exceptions::{PyBaseException, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};

use crate::cpython::{self, LruCache, Upcoming};
use crate::foreign::Foreign;

/// Body of a reader.
type Read = for<'py> fn(Python<'py>, &[Bound<'py, PyAny>]) -> PyResult<Py<PyAny>>;

/// Returns the function kept in the static, creating it at first use.
fn once(py: Python<'_>, place: &PyOnceLock<Py<PyAny>>, name: &str, text: &str, read: Read) -> PyResult<Py<PyAny>> {
    let make = || cpython::fastcall(py, name, text, read).map(Bound::unbind);
    place.get_or_try_init(py, make).map(|reader| reader.clone_ref(py))
}

/// Returns a function that looks up a name in the method resolution order of a type. Reading the attribute instead
/// would run a descriptor.
pub(crate) fn lookup(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static LOOKUP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    once(py, &LOOKUP, "__lookup__", "An entry of a type, unbound.", |py, values| match values {
        [ty, name] => {
            let found = cpython::type_lookup(ty.cast::<PyType>()?, name.cast::<PyString>()?);
            Ok(found.map_or_else(|| py.None(), Bound::unbind))
        }
        _ => Err(PyTypeError::new_err("a type and a name are expected")),
    })
}

/// Returns a function that gives an item an iterator will yield, without advancing the iterator.
pub(crate) fn upcoming(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static UPCOMING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    once(py, &UPCOMING, "__upcoming__", "What an iterator is about to give.", |_, values| match values {
        [iterator, after] => match cpython::upcoming(iterator, after.extract()?) {
            Some(Upcoming::Item(item)) => Ok(item.unbind()),
            _ => Err(PyRuntimeError::new_err("an iterator that has nothing to give")),
        },
        _ => Err(PyTypeError::new_err("an iterator and a number are expected")),
    })
}

/// Returns a function that reads an item of an object by its builtin base class (dict, list or tuple), so that no
/// `__getitem__` of a subclass runs.
pub(crate) fn kept(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static KEPT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    once(py, &KEPT, "__kept__", "What an object of a subclass holds.", |py, values| match values {
        [object, key] => {
            let bases = [py.get_type::<PyDict>(), py.get_type::<PyList>(), py.get_type::<PyTuple>()];
            let get = match bases.iter().find(|base| cpython::is_subtype(&object.get_type(), base)) {
                Some(base) => base.getattr("__getitem__")?,
                None => cpython::import(py, "operator")?.getattr("getitem")?,
            };
            get.call1((object, key)).map(Bound::unbind)
        }
        _ => Err(PyTypeError::new_err("an object and a key are expected")),
    })
}

/// Returns a function that gives the dict behind a `types.MappingProxyType`.
pub(crate) fn proxied(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static PROXIED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    once(py, &PROXIED, "__proxied__", "The dict behind a proxy.", |_, values| match values {
        [proxy] => cpython::proxied_dict(proxy)
            .map(|dict| dict.into_any().unbind())
            .ok_or_else(|| PyTypeError::new_err("a proxy of a dict is expected")),
        _ => Err(PyTypeError::new_err("a proxy is expected")),
    })
}

/// Returns a function that gives the cached result of a `functools.lru_cache` function for a key and the arguments that
/// the key was made from.
pub(crate) fn cached(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static CACHED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    once(py, &CACHED, "__cached__", "What a cached function has.", |_, values| match values {
        [function, key, args, keywords] => {
            let cache = LruCache::of(function).ok_or_else(|| PyTypeError::new_err("a cache is expected"))?;
            cache.ask(key, args.cast::<PyTuple>()?, keywords.cast::<PyDict>()?).map(Bound::unbind)
        }
        _ => Err(PyTypeError::new_err("a function, a key and its arguments are expected")),
    })
}

/// Returns a function that fetches a plug-in's value from an object, as the guards have just done.
pub(crate) fn foreign(py: Python<'_>, how: &Foreign) -> PyResult<Py<PyAny>> {
    let how = how.clone();
    let read = move |_: Python<'_>, values: &[Bound<'_, PyAny>]| match values {
        [object] => how.0.load(object).map(Bound::unbind),
        _ => Err(PyTypeError::new_err("an object is expected")),
    };
    cpython::fastcall(py, "__foreign__", "What a plug-in finds in an object.", read).map(Bound::unbind)
}

/// Returns `object.__getattribute__`, which reads an attribute without calling a `__getattribute__` of the program's.
pub(crate) fn own_read(py: Python<'_>) -> PyResult<Py<PyAny>> {
    py.get_type::<PyAny>().getattr("__getattribute__").map(Bound::unbind)
}

/// Creates a function of an exception, for new code to call.
pub(crate) fn of_exception(
    py: Python<'_>,
    name: &str,
    doc: &str,
    answer: impl Fn(&Bound<'_, PyBaseException>) -> PyResult<Py<PyAny>> + Send + Sync + 'static,
) -> PyResult<Py<PyAny>> {
    let function = cpython::fastcall(py, name, doc, move |_, values| {
        let exception = values.first().ok_or_else(|| PyRuntimeError::new_err("no exception was given"))?;
        answer(exception.cast()?)
    })?;
    Ok(function.unbind())
}

/// Returns the descriptor `BaseException.__traceback__`, which a class of the user's cannot override.
pub(crate) fn accessor<'py>(exception: &Bound<'py, PyBaseException>) -> PyResult<Bound<'py, PyAny>> {
    exception.py().get_type::<PyBaseException>().getattr("__traceback__")
}

pub(crate) fn traceback_of<'py>(exception: &Bound<'py, PyBaseException>) -> PyResult<Bound<'py, PyAny>> {
    accessor(exception)?.call_method1("__get__", (exception,))
}

/// Returns a function that gives the traceback of an exception.
pub(crate) fn traceback(py: Python<'_>) -> PyResult<Py<PyAny>> {
    of_exception(py, "__traceback__", "The traceback of an exception.", |exception| {
        Ok(traceback_of(exception)?.unbind())
    })
}
