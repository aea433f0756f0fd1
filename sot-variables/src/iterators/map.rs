//! `map`.

use pyo3::prelude::*;

use sot_core::error::Flow;
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::variable::Rebuild;
use sot_core::variable::VarId;

use super::{emit_call, library, IteratorState};

sot_core::variable_kind! { "map" }

/// A function and the iterators of its arguments.
#[derive(Clone)]
pub struct Map {
    /// The function.
    pub function: VarId,
    /// The iterators.
    pub inner: Vec<VarId>,
}

impl IteratorState for Map {
    const KIND: &'static str = "map";

    fn python_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(library(py, "builtins", "map")?.into_bound(py))
    }

    fn advance(&mut self, cx: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>> {
        let claim = cx.claims.take();
        let mut args = Vec::with_capacity(self.inner.len());
        for &inner in &self.inner {
            match cx.next(inner)? {
                Some(item) => args.push(item),
                None => return Ok(None),
            }
        }
        cx.claims.put_back(claim);
        cx.claims.redirect(self.function);
        cx.call(self.function, &CallArgs::positional(args)).map(Some)
    }

    fn children(&self) -> Vec<VarId> {
        std::iter::once(self.function).chain(self.inner.iter().copied()).collect()
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>) -> Flow<()> {
        emit_call(cg, |py| library(py, "builtins", "map"), self.children())
    }
}
