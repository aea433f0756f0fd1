//! The flat signature of replacement code: every argument of the original is positional, in the same order.

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict};

use crate::cpython::hook::fresh_frame::total_args;

/// Number of arguments of a code object, including keyword-only ones, `*args` and `**kwargs`.
pub fn total_arg_count(code: &Bound<'_, PyCode>) -> usize {
    // SAFETY: a code object has the layout of one.
    unsafe { total_args(code.as_ptr().cast()) }
}

/// Returns a copy of `code` that takes keyword-only arguments, `*args` and `**kwargs` as plain positional arguments.
/// The slots of variables do not change, because arguments come first in `co_varnames`, in this order.
pub fn flatten_signature<'py>(code: &Bound<'py, PyCode>) -> PyResult<Bound<'py, PyCode>> {
    let py = code.py();
    let flags: i32 = code.getattr(intern!(py, "co_flags"))?.extract()?;
    let changes = PyDict::new(py);
    changes.set_item(intern!(py, "co_argcount"), total_arg_count(code))?;
    changes.set_item(intern!(py, "co_posonlyargcount"), 0)?;
    changes.set_item(intern!(py, "co_kwonlyargcount"), 0)?;
    changes.set_item(intern!(py, "co_flags"), flags & !(ffi::CO_VARARGS | ffi::CO_VARKEYWORDS))?;
    let flat = code.call_method(intern!(py, "replace"), (), Some(&changes))?;
    Ok(flat.cast_into()?)
}
