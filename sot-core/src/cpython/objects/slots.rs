//! The slots of instances whose classes have `__slots__`.

use pyo3::exceptions::PyAttributeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::descriptor::DescriptorKind;
use super::type_::{class_dict, is_heap_type};

/// Returns the descriptors of the slots that a class and its bases have by `__slots__`.
pub fn slots_of<'py>(class: &Bound<'py, PyType>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut found = Vec::new();
    // A type of C has no `__slots__`. It may lack an MRO until an attribute of it is looked up.
    if !is_heap_type(class) {
        return Ok(found);
    }
    for base in class.mro().iter() {
        let Ok(base) = base.cast_into::<PyType>() else { continue };
        if !is_heap_type(&base) {
            continue;
        }
        let held = class_dict(base.as_any())?.call_method0(intern!(base.py(), "values"))?;
        for held in held.try_iter()? {
            let held = held?;
            if DescriptorKind::of(&held) == DescriptorKind::Member {
                found.push(held);
            }
        }
    }
    Ok(found)
}

/// Returns what is in a slot of an instance; the slot itself if it has no value.
pub fn slot_value<'py>(slot: &Bound<'py, PyAny>, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match slot.call_method1(intern!(slot.py(), "__get__"), (object, object.get_type())) {
        Err(error) if error.is_instance_of::<PyAttributeError>(slot.py()) => Ok(slot.clone()),
        value => value,
    }
}
