//! What exceptions keep in C fields, as opposed to their dict.

use pyo3::exceptions::{PyBaseException, PyStopIteration, PySystemExit};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use sot_core::cpython::{self, DescriptorKind};
use sot_core::error::{Flow, ReasonId, Unwind};

/// Attributes that C code keeps in every exception.
const KEPT: &[&str] = &["args", "__cause__", "__context__", "__traceback__", "__suppress_context__"];

/// Breaks the graph if a class of the program has a slot with the name of a C field: the exception then has both.
pub(super) fn refuse_hiding_slots(ty: &Bound<'_, PyType>) -> Flow<()> {
    for name in KEPT.iter().copied().chain(held_attribute(ty)) {
        let found = cpython::type_lookup(ty, &PyString::intern(ty.py(), name));
        let Some(slot) = found.filter(|found| DescriptorKind::of(found) == DescriptorKind::Member) else {
            continue;
        };
        let is_of_the_program = slot.getattr("__objclass__")?.cast::<PyType>().is_ok_and(cpython::is_heap_type);
        if is_of_the_program && has_c_attribute(ty, name)? {
            let text = format!("an exception whose class has a slot '{name}' besides its state in C");
            return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
        }
    }
    Ok(())
}

/// True if a C class in the MRO has an attribute of that name.
fn has_c_attribute(ty: &Bound<'_, PyType>, name: &str) -> PyResult<bool> {
    for class in ty.mro() {
        let Ok(class) = class.cast::<PyType>() else { continue };
        if !cpython::is_heap_type(class) && class.getattr("__dict__")?.contains(name)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// True if exceptions of the class have more C fields than `BaseException`.
pub(super) fn has_more_c_fields(ty: &Bound<'_, PyType>) -> PyResult<bool> {
    let base = static_base(ty)?;
    let size = |ty: &Bound<'_, PyAny>| ty.getattr("__basicsize__")?.extract::<usize>();
    Ok(size(base.as_any())? != size(ty.py().get_type::<PyBaseException>().as_any())?)
}

/// True if the only additional C field holds the first argument (`StopIteration.value`, `SystemExit.code`).
pub(super) fn is_simple_holder(ty: &Bound<'_, PyType>) -> bool {
    held_attribute(ty).is_some()
}

pub(super) fn held_attribute(ty: &Bound<'_, PyType>) -> Option<&'static str> {
    let py = ty.py();
    if cpython::is_subtype(ty, &py.get_type::<PyStopIteration>()) {
        return Some("value");
    }
    cpython::is_subtype(ty, &py.get_type::<PySystemExit>()).then_some("code")
}

/// Returns the nearest base that is not a heap type.
pub(super) fn static_base<'py>(ty: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyType>> {
    let mut bases = ty.mro().iter().filter_map(|base| base.cast_into::<PyType>().ok());
    let base = bases.find(|base| !cpython::is_heap_type(base));
    Ok(base.unwrap_or_else(|| ty.py().get_type::<PyBaseException>()))
}
