//! `itertools.chain` and `chain.from_iterable`.

use pyo3::prelude::*;

use sot_core::error::Flow;
use sot_core::executor::OpcodeExecutor;
use sot_core::variable::Rebuild;
use sot_core::variable::VarId;

use super::{emit_call, library, rebuild, IteratorState};

sot_core::variable_kind! { "chain" }

/// An iterator of iterables, and the iterator of the current iterable.
#[derive(Clone)]
pub struct Chain {
    /// Yields the iterables.
    pub source: VarId,
    /// Yields the items of the current iterable.
    pub active: Option<VarId>,
}

impl IteratorState for Chain {
    const KIND: &'static str = "chain";

    fn python_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(library(py, "itertools", "chain")?.into_bound(py))
    }

    fn advance(&mut self, cx: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>> {
        loop {
            let active = match self.active {
                Some(active) => active,
                None => match cx.next(self.source)? {
                    Some(iterable) => cx.iter(iterable)?,
                    None => return Ok(None),
                },
            };
            self.active = Some(active);
            if let Some(item) = cx.next(active)? {
                return Ok(Some(item));
            }
            self.active = None;
        }
    }

    fn children(&self) -> Vec<VarId> {
        self.active.into_iter().chain([self.source]).collect()
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>) -> Flow<()> {
        if let Some(active) = self.active {
            emit_call(cg, rebuild::chain_from, [active, self.source])
        } else {
            let from_iterable = |py: Python<'_>| library(py, "itertools", "chain")?.getattr(py, "from_iterable");
            emit_call(cg, from_iterable, [self.source])
        }
    }
}
