//! Reads the cache of a `functools.lru_cache` function without counting the access. So `cache_info()`, and the choice
//! of the value dropped next, depend only on the program's own calls.

use std::ffi::{c_int, c_void};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

use crate::cpython::import;
use crate::cpython::{dict_get, held_objects};

/// `lru_list_elem`, the same in all versions.
#[repr(C)]
struct Link {
    head: ffi::PyObject,
    neighbours: [*mut c_void; 2],
    hash: ffi::Py_hash_t,
    key: *mut ffi::PyObject,
    result: *mut ffi::PyObject,
}

/// `lru_cache_object`, as far as its layout is the same in all versions.
#[repr(C)]
struct LruCacheObject {
    root: Link,
    wrapper: *mut c_void,
    typed: c_int,
    cache: *mut ffi::PyObject,
    hits: ffi::Py_ssize_t,
    function: *mut ffi::PyObject,
    max_size: ffi::Py_ssize_t,
    misses: ffi::Py_ssize_t,
}

/// A function made by `functools.lru_cache`.
#[derive(Clone)]
pub struct LruCache<'py>(Bound<'py, PyAny>);

fn wrapper_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let find = || PyResult::Ok(import(py, "functools")?.getattr("_lru_cache_wrapper")?.cast_into()?.unbind());
    Ok(TYPE.get_or_try_init(py, find)?.bind(py))
}

/// `functools.lru_cache(max_size, typed)(function)`, by the C implementation.
fn make<'py>(function: &Bound<'py, PyAny>, max_size: Option<isize>, typed: bool) -> PyResult<Bound<'py, PyAny>> {
    let py = function.py();
    wrapper_type(py)?.call1((function, max_size, typed, py.get_type::<PyTuple>()))
}

/// A function that accepts any arguments.
fn anything(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static ANYTHING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || PyResult::Ok(py.eval(c"lambda *args, **keywords: args", None, None)?.unbind());
    Ok(ANYTHING.get_or_try_init(py, make)?.bind(py))
}

impl<'py> LruCache<'py> {
    /// Returns the object as a cache; `None` if it is no such function.
    pub fn of(object: &Bound<'py, PyAny>) -> Option<Self> {
        let ty = wrapper_type(object.py()).ok()?;
        object.get_type().is(ty).then(|| LruCache(object.clone()))
    }

    fn raw(&self) -> *mut LruCacheObject {
        self.0.as_ptr().cast()
    }

    /// True if results are cached at all (`maxsize` is not 0).
    pub fn keeps(&self) -> bool {
        // SAFETY: `of` has checked the type; the self test compares the layout.
        unsafe { (*self.raw()).max_size != 0 }
    }

    /// Returns the key of the result for these arguments.
    pub fn key(&self, args: &Bound<'py, PyTuple>, keywords: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: as in `keeps`.
        let typed = unsafe { (*self.raw()).typed != 0 };
        let probe = LruCache(make(anything(args.py())?, None, typed)?);
        probe.0.call(args, Some(keywords))?;
        probe.cache().keys().get_item(0)
    }

    fn cache(&self) -> Bound<'py, PyDict> {
        // SAFETY: as in `keeps`; the field is always a dict.
        unsafe { Bound::from_borrowed_ptr(self.0.py(), (*self.raw()).cache).cast_into_unchecked() }
    }

    /// Returns the cached result for a key.
    pub fn kept(&self, key: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        let found = dict_get(&self.cache(), key)?;
        // SAFETY: as in `keeps`; a cache with a bound holds links, which own what they keep.
        unsafe {
            if (*self.raw()).max_size < 0 {
                return Some(found);
            }
            Some(Bound::from_borrowed_ptr(self.0.py(), (*found.as_ptr().cast::<Link>()).result))
        }
    }

    /// Returns the cached result for these arguments and their key. A result that the cache has dropped since guards
    /// found it is computed now, in place of the program's own call, which will follow. That call will then count as
    /// a hit instead of a miss, so one hit is subtracted here.
    pub fn ask(
        &self,
        key: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        keywords: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Some(kept) = self.kept(key) {
            return Ok(kept);
        }
        let value = self.0.call(args, Some(keywords));
        // SAFETY: as in `keeps`.
        unsafe {
            match &value {
                Ok(_) => (*self.raw()).hits -= 1,
                Err(_) => (*self.raw()).misses -= 1,
            }
        }
        value
    }
}

/// Returns the first field of the structs that is not at its expected place.
pub(in crate::cpython) fn layout_problem(py: Python<'_>) -> PyResult<Option<&'static str>> {
    for max_size in [None, Some(3)] {
        let function = anything(py)?;
        let cache = LruCache(make(function, max_size, max_size.is_some())?);
        let (args, keywords) = (PyTuple::new(py, [(1, 2)])?, PyDict::new(py));
        let expected = cache.0.call1(&args)?;
        cache.0.call1(&args)?;
        cache.0.call1((2.5,))?;
        // SAFETY: should the layout differ, these fields are still inside the object.
        let raw = unsafe { &*cache.raw() };
        let numbers = (raw.typed != 0, raw.hits, raw.misses, raw.max_size);
        if numbers != (max_size.is_some(), 1, 2, max_size.unwrap_or(-1)) || raw.function != function.as_ptr() {
            return Ok(Some("what a function behind functools.lru_cache counts"));
        }
        let mut held = held_objects(&cache.0, usize::MAX).into_iter();
        if !held.any(|held| held.as_ptr() == raw.cache && held.is_exact_instance_of::<PyDict>()) {
            return Ok(Some("the dict of a function behind functools.lru_cache"));
        }
        let kept = cache.kept(&cache.key(&args, &keywords)?);
        if !kept.is_some_and(|kept| kept.is(&expected)) {
            return Ok(Some("what a function behind functools.lru_cache has"));
        }
    }
    Ok(None)
}
