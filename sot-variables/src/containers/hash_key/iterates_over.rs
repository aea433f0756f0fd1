//! A guard on the keys of a collection from outside.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyFrozenSet, PyTuple, PyType};

use sot_core::backend::ObjectTest;
use sot_core::cpython::{Place, Recorder};
use sot_core::error::Flow;
use sot_core::guard::{same_constant, Identity, Test};

use super::plain::is_atom;
use super::real_key::differs_from_itself;
use super::HashKey;
use crate::classes::object::is_compared_value;

/// Guard: an object of exactly this type iterates over exactly these keys, in this order. For collections whose items
/// cannot be fetched one by one. Checking runs no code of the program.
pub(crate) struct IteratesOver {
    ty: Py<PyType>,
    /// `__iter__` of the builtin type, which subclasses may override.
    iterate: Py<PyAny>,
    keys: Vec<Identity>,
}

impl IteratesOver {
    /// Returns the test for a collection of type `ty`, which is iterated by the `__iter__` of `base`.
    pub(crate) fn test(
        py: Python<'_>,
        ty: &Bound<'_, PyAny>,
        base: &Bound<'_, PyAny>,
        keys: &[Rc<HashKey>],
    ) -> Flow<Test> {
        let ty = ty.cast::<PyType>().map_err(PyErr::from)?.clone().unbind();
        let iterate = base.getattr("__iter__")?.unbind();
        let keys = keys.iter().map(|key| Identity::of_key(key.bind(py))).collect();
        Ok(Test::Object(Box::new(IteratesOver { ty, iterate, keys })))
    }
}

impl ObjectTest for IteratesOver {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        let py = object.py();
        if !object.get_type().is(&self.ty) {
            return false;
        }
        let items = self.iterate.bind(py).call1((object,)).and_then(|items| items.try_iter());
        let Ok(mut items) = items else { return false };
        let is_next = |key: &Identity| match (items.next(), key.get(py)) {
            (Some(Ok(item)), Some(key)) => same_key(&item, &key),
            _ => false,
        };
        self.keys.iter().all(is_next) && items.next().is_none()
    }

    fn note(&self, place: &Place<'_>, recorder: &mut Recorder) -> bool {
        recorder.dict(place)
    }

    fn describe(&self, subject: &str) -> String {
        Python::attach(|py| {
            let keys: Vec<String> = self.keys.iter().map(|key| key.text(py)).collect();
            format!("list({subject}) == [{}]", keys.join(", "))
        })
    }
}

/// True if the keys are interchangeable. Equal keys of different types (`1` and `True`) are not.
fn same_key(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> bool {
    if a.is(b) {
        return true;
    }
    if let (Ok(a), Ok(b)) = (a.cast_exact::<PyTuple>(), b.cast_exact::<PyTuple>()) {
        return a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same_key(&a, &b));
    }
    if let (Ok(a), Ok(b)) = (a.cast_exact::<PyFrozenSet>(), b.cast_exact::<PyFrozenSet>()) {
        return a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same_key(&a, &b));
    }
    if is_atom(a) {
        return same_constant(a, b) && !differs_from_itself(a, 0);
    }
    is_compared_value(a) && a.get_type().is(b.get_type()) && a.eq(b).unwrap_or(false)
}
