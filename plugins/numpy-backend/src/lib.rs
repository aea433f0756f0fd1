//! NumPy as a backend: calls of ufuncs and array functions are statements, and a graph is a Python function that
//! calls them.
#![forbid(unsafe_code)]

mod backend;
mod meaning;
mod slots;

sot_core::backend! { "numpy", |py| Ok(Box::new(crate::backend::NumPy::new(py)?)) }

sot_python::extension! { module = _sot, backend = "numpy" }
