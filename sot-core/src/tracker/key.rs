//! Keys of items, and objects as parts of trackers, compared by identity.

use std::hash::{Hash, Hasher};
use std::rc::Rc;

use pyo3::prelude::*;

use super::repr;
use crate::value_path::PathStep;

/// A Python object compared by identity.
#[derive(Debug)]
pub struct ById(pub Py<PyAny>);

impl ById {
    /// The object's address, which is valid while something holds the object.
    pub(super) fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }

    /// Another handle on the same object.
    pub(super) fn clone_ref(&self, py: Python<'_>) -> ById {
        ById(self.0.clone_ref(py))
    }
}

impl PartialEq for ById {
    fn eq(&self, other: &Self) -> bool {
        self.0.is(&other.0)
    }
}

impl Eq for ById {}

impl Hash for ById {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_ptr().hash(state);
    }
}

/// Key of an item: the expression between the brackets.
#[derive(PartialEq, Eq, Hash, Debug)]
pub enum Key {
    /// Position in a list or tuple, or an integer key of a dict.
    Index(i64),
    /// Position from the end of a list: 1 is the last item.
    Last(usize),
    /// String key of a dict.
    Str(Rc<str>),
    /// Any other hashable object, by identity.
    Object(ById),
}

impl Key {
    /// The path step to the item.
    pub fn step(&self) -> PathStep {
        match self {
            Key::Index(index) => PathStep::Index(*index),
            Key::Last(back) => PathStep::FromEnd(*back),
            Key::Str(text) => PathStep::Key((**text).into()),
            Key::Object(object) => PathStep::KeyObject(object.address()),
        }
    }

    /// The key as the text of a Python expression.
    pub fn text(&self, py: Python<'_>) -> String {
        match self {
            Key::Index(index) => index.to_string(),
            Key::Last(back) => format!("-{back}"),
            Key::Str(text) => format!("'{text}'"),
            Key::Object(object) => repr(py, &object.0),
        }
    }

    /// The key as a Python object.
    pub fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Key::Index(index) => index.into_pyobject(py)?.into_any(),
            Key::Last(back) => back.into_pyobject(py)?.neg()?,
            Key::Str(text) => crate::cpython::interned(py, text).into_any(),
            Key::Object(object) => object.0.bind(py).clone(),
        })
    }

    /// The key for an object: exact ints and strings by value, all others by identity.
    pub fn of(object: &Bound<'_, PyAny>) -> Key {
        if object.is_exact_instance_of::<pyo3::types::PyInt>() {
            if let Ok(index) = object.extract::<i64>() {
                return Key::Index(index);
            }
        }
        if object.is_exact_instance_of::<pyo3::types::PyString>() {
            if let Ok(text) = object.extract::<String>() {
                return Key::Str(text.into());
            }
        }
        Key::Object(ById(object.clone().unbind()))
    }
}
