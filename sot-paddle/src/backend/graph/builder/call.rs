//! The call that becomes a statement.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use sot_core::backend::CallKind;

/// A call that becomes a statement of the program. Values of the graph stand for its tensors and open numbers.
#[derive(Clone)]
pub(super) struct StatementCall<'py> {
    pub(super) kind: CallKind,
    pub(super) callee: Bound<'py, PyAny>,
    pub(super) args: Bound<'py, PyTuple>,
    pub(super) keywords: Option<Bound<'py, PyDict>>,
}

impl<'py> StatementCall<'py> {
    pub(super) fn py(&self) -> Python<'py> {
        self.callee.py()
    }

    /// What is called.
    pub(super) fn what(&self) -> (CallKind, &Bound<'py, PyAny>) {
        (self.kind, &self.callee)
    }

    pub(super) fn keywords(&self) -> Option<&Bound<'py, PyDict>> {
        self.keywords.as_ref()
    }

    /// The positional and keyword arguments.
    pub(super) fn arguments(&self) -> (&Bound<'py, PyTuple>, Option<&Bound<'py, PyDict>>) {
        (&self.args, self.keywords.as_ref())
    }

    /// The same call of other arguments.
    pub(super) fn with(&self, args: Bound<'py, PyTuple>, keywords: Option<Bound<'py, PyDict>>) -> StatementCall<'py> {
        StatementCall { kind: self.kind, callee: self.callee.clone(), args, keywords }
    }

    /// True if an object of the framework, such as a layer, is called as a whole.
    pub(super) fn is_of_object(&self) -> bool {
        matches!(self.kind, CallKind::Object(_))
    }
}
