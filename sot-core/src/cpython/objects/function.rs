//! The parts of functions, methods and cells, read from the objects themselves.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyCode, PyDict, PyFunction, PyTuple};

use crate::cpython::hook::frames;

extern "C" {
    #[link_name = "PyMethod_Type"]
    static mut METHOD_TYPE: ffi::PyTypeObject;
    #[link_name = "PyMethod_Function"]
    fn method_function(method: *mut ffi::PyObject) -> *mut ffi::PyObject;
    #[link_name = "PyMethod_Self"]
    fn method_self(method: *mut ffi::PyObject) -> *mut ffi::PyObject;
}

/// `__code__`.
#[inline]
pub fn function_code<'py>(function: &Bound<'py, PyFunction>) -> Bound<'py, PyCode> {
    // SAFETY: a live function, which always has a code object.
    unsafe { Bound::from_borrowed_ptr(function.py(), ffi::PyFunction_GetCode(function.as_ptr())).cast_into_unchecked() }
}

/// `__globals__`.
#[inline]
pub fn function_globals<'py>(function: &Bound<'py, PyFunction>) -> Bound<'py, PyDict> {
    // SAFETY: a live function, which always has globals, and they are a dict.
    unsafe {
        Bound::from_borrowed_ptr(function.py(), ffi::PyFunction_GetGlobals(function.as_ptr())).cast_into_unchecked()
    }
}

/// `__defaults__`.
#[inline]
pub fn function_defaults<'py>(function: &Bound<'py, PyFunction>) -> Option<Bound<'py, PyTuple>> {
    // SAFETY: a live function; its defaults are a tuple or not there.
    let defaults =
        unsafe { Bound::from_borrowed_ptr_or_opt(function.py(), ffi::PyFunction_GetDefaults(function.as_ptr())) };
    defaults?.cast_into().ok()
}

/// `__kwdefaults__`.
#[inline]
pub fn function_kwdefaults<'py>(function: &Bound<'py, PyFunction>) -> Option<Bound<'py, PyDict>> {
    // SAFETY: a live function; its keyword defaults are a dict or not there.
    let defaults =
        unsafe { Bound::from_borrowed_ptr_or_opt(function.py(), ffi::PyFunction_GetKwDefaults(function.as_ptr())) };
    defaults?.cast_into().ok()
}

/// `__closure__`.
#[inline]
pub fn function_closure<'py>(function: &Bound<'py, PyFunction>) -> Option<Bound<'py, PyTuple>> {
    // SAFETY: a live function; its closure is a tuple or not there.
    let closure =
        unsafe { Bound::from_borrowed_ptr_or_opt(function.py(), ffi::PyFunction_GetClosure(function.as_ptr())) };
    closure?.cast_into().ok()
}

/// Function and `self` of a bound method; `None` for other objects.
#[inline]
pub fn bound_method<'py>(object: &Bound<'py, PyAny>) -> Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let py = object.py();
    // SAFETY: a live object; after the check it is a method, which always has both parts.
    unsafe {
        if ffi::Py_IS_TYPE(object.as_ptr(), &raw mut METHOD_TYPE) == 0 {
            return None;
        }
        let function = Bound::from_borrowed_ptr(py, method_function(object.as_ptr()));
        let receiver = Bound::from_borrowed_ptr(py, method_self(object.as_ptr()));
        Some((function, receiver))
    }
}

/// Address of the C code of a builtin function or method; `None` for other objects.
pub fn c_code(function: &Bound<'_, PyAny>) -> Option<usize> {
    let function = function.cast::<PyCFunction>().ok()?;
    // SAFETY: a live function of C, which always has code.
    unsafe { ffi::PyCFunction_GetFunction(function.as_ptr()) }.map(|code| code as usize)
}

/// True if the object is a cell.
#[inline]
pub fn is_cell(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a live object.
    unsafe { ffi::PyCell_Check(object.as_ptr()) != 0 }
}

/// Contents of a cell; `None` if the cell is empty, and for other objects.
#[inline]
pub fn cell_contents<'py>(cell: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    if !is_cell(cell) {
        return None;
    }
    // SAFETY: a live cell; the answer is owned or null.
    unsafe { Bound::from_owned_ptr_or_opt(cell.py(), ffi::PyCell_Get(cell.as_ptr())) }
}

/// Fills or empties a cell. Fails with a `TypeError` for other objects.
pub fn set_cell_contents(cell: &Bound<'_, PyAny>, value: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    if !is_cell(cell) {
        return Err(pyo3::exceptions::PyTypeError::new_err("not a cell"));
    }
    // SAFETY: a live cell and a live object or null.
    if unsafe { ffi::PyCell_Set(cell.as_ptr(), value.map_or(std::ptr::null_mut(), Bound::as_ptr)) } < 0 {
        return Err(PyErr::fetch(cell.py()));
    }
    Ok(())
}

/// Creates a cell, empty or filled.
pub fn new_cell<'py>(py: Python<'py>, value: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: a live object or null; the answer is owned or null with an exception.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyCell_New(value.map_or(std::ptr::null_mut(), Bound::as_ptr))) }
}

/// Creates a function from code, globals and a cell for each free variable.
pub fn new_function<'py>(
    code: &Bound<'py, PyCode>,
    globals: &Bound<'py, PyDict>,
    cells: &[Bound<'py, PyAny>],
) -> PyResult<Bound<'py, PyAny>> {
    let py = code.py();
    // SAFETY: a live code object.
    if unsafe { frames::free_count(code.as_ptr().cast()) } != cells.len() {
        return Err(pyo3::exceptions::PyValueError::new_err("a function takes a cell for each of its free variables"));
    }
    // SAFETY: live objects of their types; the answer is owned or null with an exception.
    let function = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyFunction_New(code.as_ptr(), globals.as_ptr()))? };
    if !cells.is_empty() {
        let closure = PyTuple::new(py, cells)?;
        // SAFETY: a live function and a tuple; the answer says whether an exception is set.
        if unsafe { ffi::PyFunction_SetClosure(function.as_ptr(), closure.as_ptr()) } < 0 {
            return Err(PyErr::fetch(py));
        }
    }
    Ok(function)
}

/// Frame object of the Python code that called the running C function.
pub fn current_frame(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    // SAFETY: the GIL is held; the answer is borrowed from the thread, or null.
    unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetFrame().cast()) }
}

/// Globals of the Python code that called the running C function.
pub fn current_globals(py: Python<'_>) -> Option<Bound<'_, PyDict>> {
    // SAFETY: the GIL is held; the answer is borrowed from the running frame, or null.
    let globals = unsafe { Bound::from_borrowed_ptr_or_opt(py, ffi::PyEval_GetGlobals()) };
    globals?.cast_into().ok()
}

/// Creates a frame object that runs nothing, for tracebacks.
pub fn new_frame<'py>(code: &Bound<'py, PyAny>, globals: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    let py = code.py();
    let code = code.cast::<PyCode>()?;
    // SAFETY: the objects are a code object and a dict, which live; the frame has no locals, and is a new reference or
    // an error.
    unsafe {
        let frame =
            ffi::PyFrame_New(ffi::PyThreadState_Get(), code.as_ptr().cast(), globals.as_ptr(), std::ptr::null_mut());
        Bound::from_owned_ptr_or_err(py, frame.cast())
    }
}
