//! `enumerate`.

use pyo3::prelude::*;

use sot_core::error::Flow;
use sot_core::executor::{BinaryOp, OpcodeExecutor};
use sot_core::variable::Rebuild;
use sot_core::variable::VarId;

use super::{emit_call, library, IteratorState};

sot_core::variable_kind! { "enumerate" }

/// An inner iterator and the number of its next item.
#[derive(Clone)]
pub struct Enumerate {
    /// The inner iterator.
    pub inner: VarId,
    /// The next number, a constant.
    pub number: VarId,
}

impl IteratorState for Enumerate {
    const KIND: &'static str = "enumerate";

    fn python_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(library(py, "builtins", "enumerate")?.into_bound(py))
    }

    fn advance(&mut self, cx: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>> {
        let Some(item) = cx.next(self.inner)? else { return Ok(None) };
        let pair = cx.trace.tuple(vec![self.number, item]);
        let one = cx.trace.integer(1)?;
        self.number = cx.binary(BinaryOp::Add, self.number, one)?;
        Ok(Some(pair))
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.inner, self.number]
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>) -> Flow<()> {
        emit_call(cg, |py| library(py, "builtins", "enumerate"), self.children())
    }
}
