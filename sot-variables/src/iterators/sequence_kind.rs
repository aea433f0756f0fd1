//! The kinds of sequences that have iterators of a type of their own.

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyMemoryView, PyRange, PySet, PyString, PyTuple};

use sot_core::executor::Trace;
use sot_core::variable::{Form, VarId};

use super::library;
use crate::classes::subclass;
use crate::tensor::shape::ShapeVariable;

/// The kind of sequence that an iterator's type reveals.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SequenceKind {
    List,
    Tuple,
    Range,
    Set,
    /// A string that consists of ASCII characters and is no instance of a subclass.
    Ascii,
    Text,
    Bytes,
    Deque,
    ByteArray,
    MemoryView,
    /// An `array.array`.
    Array,
    /// Any other object with `__getitem__`.
    ByPosition,
}

impl SequenceKind {
    /// Returns the kind of a list, tuple, range, string, or `bytes`.
    pub(super) fn of(trace: &Trace<'_>, sequence: VarId) -> SequenceKind {
        let payload = trace.vars.get(sequence);
        let constant = payload.constant().map(|constant| constant.bind(trace.py));
        match payload.form() {
            Form::List => SequenceKind::List,
            _ if trace.vars.as_kind::<ShapeVariable>(sequence).is_some() => SequenceKind::List,
            Form::Range => SequenceKind::Range,
            _ if constant.is_some_and(Bound::is_instance_of::<PyBytes>) => SequenceKind::Bytes,
            _ => match constant.map(PyAnyMethods::extract::<String>) {
                Some(Ok(text)) if text.is_ascii() && subclass::owner_of(trace, sequence) == sequence => {
                    SequenceKind::Ascii
                }
                Some(_) => SequenceKind::Text,
                None => SequenceKind::Tuple,
            },
        }
    }

    /// Returns the kind of an object whose items are read one by one with `__getitem__`.
    pub(super) fn by_position(trace: &Trace<'_>, object: VarId) -> SequenceKind {
        let (py, ty) = (trace.py, trace.vars.get(object).python_type(trace));
        if ty.is(py.get_type::<PyByteArray>()) {
            return SequenceKind::ByteArray;
        }
        if ty.is(py.get_type::<PyMemoryView>()) {
            return SequenceKind::MemoryView;
        }
        let array = library(py, "array", "array");
        if array.is_ok_and(|array| ty.is(&array)) {
            return SequenceKind::Array;
        }
        SequenceKind::ByPosition
    }

    /// Returns a sequence of the kind that has at most one item.
    pub(super) fn empty(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        Ok(match self {
            SequenceKind::List => PyList::empty(py).into_any(),
            SequenceKind::Tuple => PyTuple::empty(py).into_any(),
            SequenceKind::Range => PyRange::new(py, 0, 0)?.into_any(),
            SequenceKind::Set => PySet::empty(py)?.into_any(),
            SequenceKind::Ascii => PyString::new(py, "").into_any(),
            // An empty string is ASCII.
            SequenceKind::Text => PyString::new(py, "\u{e9}").into_any(),
            SequenceKind::Bytes => PyBytes::new(py, b"").into_any(),
            SequenceKind::Deque => library(py, "collections", "deque")?.bind(py).call0()?,
            SequenceKind::ByteArray => PyByteArray::new(py, b"").into_any(),
            SequenceKind::MemoryView => PyMemoryView::from(&PyBytes::new(py, b""))?.into_any(),
            SequenceKind::Array => library(py, "array", "array")?.bind(py).call1(("b",))?,
            SequenceKind::ByPosition => {
                py.eval(c"type('_', (), {'__len__': ().__len__, '__getitem__': ().__getitem__})()", None, None)?
            }
        })
    }

    /// Returns the type of iterators over such sequences.
    pub(super) fn iterator_type(self, py: Python<'_>, backwards: bool) -> PyResult<Bound<'_, PyAny>> {
        let empty = self.empty(py)?;
        if backwards {
            return Ok(library(py, "builtins", "reversed")?.bind(py).call1((empty,))?.get_type().into_any());
        }
        Ok(empty.try_iter()?.get_type().into_any())
    }
}
