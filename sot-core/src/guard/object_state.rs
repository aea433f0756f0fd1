//! The contents of an object in depth. A function that becomes one statement of a graph without being traced may read
//! anything of its arguments, so their contents are guarded.

use std::collections::HashSet;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFunction, PyList, PyModule, PyTuple, PyType};

use super::constants::same_constant;
use super::{Identity, ObjectTest};
use crate::cpython;
use crate::policy::MAX_STATE_PARTS;

/// Passes for an object with equal contents. Containers and instances are compared in depth, atoms by value, and all
/// other objects by identity. The walk stops at opaque objects such as tensors, which are inputs or parameters of the
/// graph themselves.
pub struct ObjectState {
    root: StatePart,
}

enum StatePart {
    /// Compared by value.
    Atom(Py<PyAny>),
    /// Compared by identity.
    Opaque(Identity),
    /// A list or tuple of these items.
    Sequence(Vec<StatePart>),
    /// A dict of these entries, in this order.
    Entries(Vec<(StatePart, StatePart)>),
    /// An instance with these entries in its `__dict__`.
    Instance(Identity, Vec<(StatePart, StatePart)>),
}

impl ObjectState {
    /// Returns the present contents of the object, and the addresses of all objects looked into. Returns `None` if
    /// the contents are too large to be compared at each call.
    pub fn of(
        object: &Bound<'_, PyAny>,
        is_opaque: &dyn Fn(&Bound<'_, PyAny>) -> bool,
    ) -> Option<(ObjectState, HashSet<usize>)> {
        let mut look = StateWalk { is_opaque, seen: HashSet::new(), left: MAX_STATE_PARTS };
        Some((ObjectState { root: look.at(object)? }, look.seen))
    }
}

/// A walk through the contents of an object.
struct StateWalk<'a> {
    is_opaque: &'a dyn Fn(&Bound<'_, PyAny>) -> bool,
    seen: HashSet<usize>,
    left: usize,
}

impl StateWalk<'_> {
    fn at(&mut self, object: &Bound<'_, PyAny>) -> Option<StatePart> {
        self.left = self.left.checked_sub(1)?;
        if !cpython::has_stack_to_go_on() {
            return None;
        }
        if cpython::is_atom(object) {
            return Some(StatePart::Atom(object.clone().unbind()));
        }
        // An object met for the second time is compared in depth where it was met first.
        if (self.is_opaque)(object) || is_code(object) || !self.seen.insert(object.as_ptr() as usize) {
            return Some(StatePart::Opaque(Identity::of(object)));
        }
        if let Ok(dict) = object.cast::<PyDict>() {
            return self.entries(dict).map(StatePart::Entries);
        }
        if let Some(items) = items(object) {
            return items.iter().map(|item| self.at(item)).collect::<Option<_>>().map(StatePart::Sequence);
        }
        match cpython::instance_dict(object) {
            Some(dict) => Some(StatePart::Instance(Identity::of(object), self.entries(&dict)?)),
            None => Some(StatePart::Opaque(Identity::of(object))),
        }
    }

    fn entries(&mut self, dict: &Bound<'_, PyDict>) -> Option<Vec<(StatePart, StatePart)>> {
        dict.iter().map(|(key, value)| Some((self.at(&key)?, self.at(&value)?))).collect()
    }
}

/// True for functions, classes and modules: what they hold is not counted as contents of a function's arguments.
fn is_code(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyType>() || object.is_instance_of::<PyModule>() || object.is_instance_of::<PyFunction>()
}

fn items<'py>(object: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    match object.cast::<PyList>() {
        Ok(list) => Some(list.iter().collect()),
        Err(_) => object.cast::<PyTuple>().ok().map(|tuple| tuple.iter().collect()),
    }
}

impl StatePart {
    fn is(&self, object: &Bound<'_, PyAny>) -> bool {
        match self {
            StatePart::Atom(value) => {
                let value = value.bind(object.py());
                value.is(object) || cpython::is_atom(object) && same_constant(value, object)
            }
            StatePart::Opaque(identity) => identity.is(object),
            StatePart::Sequence(parts) => items(object).is_some_and(|items| {
                items.len() == parts.len() && parts.iter().zip(&items).all(|(part, item)| part.is(item))
            }),
            StatePart::Entries(entries) => object.cast::<PyDict>().is_ok_and(|dict| are(entries, dict)),
            StatePart::Instance(identity, entries) => {
                identity.is(object) && cpython::instance_dict(object).is_some_and(|dict| are(entries, &dict))
            }
        }
    }
}

fn are(entries: &[(StatePart, StatePart)], dict: &Bound<'_, PyDict>) -> bool {
    dict.len() == entries.len()
        && entries.iter().zip(dict.iter()).all(|((key, value), (now_key, now))| key.is(&now_key) && value.is(&now))
}

impl ObjectTest for ObjectState {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        self.root.is(object)
    }

    fn describe(&self, subject: &str) -> String {
        format!("{subject} holds what it held")
    }
}
