//! stub
#![allow(missing_docs, unused_variables, clippy::all, clippy::pedantic)]
use pyo3::prelude::*;
use pyo3::types::*;
use std::sync::Arc;
pub enum GetAttrHook { Generic, GetAttr, Custom }
pub fn getattr_hook(ty: &Bound<'_, PyType>) -> GetAttrHook { todo!() }
pub fn type_name(ty: &Bound<'_, PyType>) -> String { todo!() }
pub fn is_heap_type(ty: &Bound<'_, PyType>) -> bool { todo!() }
pub fn uses_generic_setattr(ty: &Bound<'_, PyType>) -> bool { todo!() }
pub fn is_data_descriptor(o: &Bound<'_, PyAny>) -> bool { todo!() }
pub fn is_descriptor(o: &Bound<'_, PyAny>) -> bool { todo!() }
pub fn type_lookup<'py>(ty: &Bound<'py, PyType>, name: &Bound<'py, PyString>) -> Option<Bound<'py, PyAny>> { todo!() }
pub fn instance_dict<'py>(o: &Bound<'py, PyAny>) -> Option<Bound<'py, PyDict>> { todo!() }
pub fn cell_contents<'py>(o: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> { todo!() }
pub fn function_code<'py>(o: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> { todo!() }
pub fn function_globals<'py>(o: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> { todo!() }
pub fn function_defaults<'py>(o: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> { todo!() }
pub fn function_kwdefaults<'py>(o: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> { todo!() }
pub fn function_closure<'py>(o: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> { todo!() }
pub fn method_function<'py>(o: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> { todo!() }
pub fn method_self<'py>(o: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> { todo!() }
pub fn code_state<T: Send + Sync + 'static>(o: &Bound<'_, PyAny>) -> Option<Arc<T>> { todo!() }
pub fn set_code_state<T: Send + Sync + 'static>(o: &Bound<'_, PyAny>, s: Arc<T>) -> PyResult<()> { todo!() }
pub struct Suspended;
pub fn suspend(py: Python<'_>) -> Suspended { todo!() }
pub enum Verdict { Original { disable_eval_frame: bool }, Replace { code: Py<PyAny>, disable_eval_frame: bool }, Raise(PyErr) }
pub trait FrameEvaluator: Send + Sync { fn evaluate(&self, frame: &FreshFrame<'_, '_>) -> Verdict; }
pub struct FreshFrame<'a, 'py>(&'a (), Python<'py>);
impl<'a, 'py> FreshFrame<'a, 'py> {
    pub fn py(&self) -> Python<'py> { self.1 }
    pub fn code(&self) -> Bound<'py, PyAny> { todo!() }
    pub fn globals(&self) -> Bound<'py, PyAny> { todo!() }
    pub fn builtins(&self) -> Bound<'py, PyAny> { todo!() }
    pub fn arg(&self, i: usize) -> Option<Bound<'py, PyAny>> { todo!() }
    pub fn closure(&self, i: usize) -> Option<Bound<'py, PyAny>> { todo!() }
}
