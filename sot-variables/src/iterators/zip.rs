//! `zip`, with `strict=`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use sot_core::error::{Flow, Unwind};
use sot_core::executor::OpcodeExecutor;
use sot_core::variable::Rebuild;
use sot_core::variable::VarId;

use super::{emit_call, library, rebuild, IteratorState};

sot_core::variable_kind! { "zip" }

/// Iterators that are advanced together.
#[derive(Clone)]
pub struct Zip {
    /// The inner iterators.
    pub inner: Vec<VarId>,
    /// True if all iterators must have the same length.
    pub strict: bool,
}

impl Zip {
    /// Ends the iteration: iterator `at` is the first exhausted one. If `strict`, raises a `ValueError` unless all
    /// are exhausted.
    fn end(&self, cx: &mut OpcodeExecutor<'_>, at: usize) -> Flow<()> {
        if !self.strict {
            return Ok(());
        }
        if at > 0 {
            return Err(mismatch(cx, at, "shorter"));
        }
        for (index, &inner) in self.inner.iter().enumerate().skip(1) {
            if cx.next(inner)?.is_some() {
                return Err(mismatch(cx, index, "longer"));
            }
        }
        Ok(())
    }
}

fn mismatch(cx: &mut OpcodeExecutor<'_>, at: usize, how: &str) -> Unwind {
    let others = if at == 1 { "argument 1".to_owned() } else { format!("arguments 1-{at}") };
    cx.raise(PyValueError::new_err(format!("zip() argument {} is {how} than {others}", at + 1)))
}

impl IteratorState for Zip {
    const KIND: &'static str = "zip";

    fn python_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(library(py, "builtins", "zip")?.into_bound(py))
    }

    fn advance(&mut self, cx: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>> {
        if self.inner.is_empty() {
            return Ok(None);
        }
        let mut items = Vec::with_capacity(self.inner.len());
        for (at, &inner) in self.inner.iter().enumerate() {
            if let Some(item) = cx.next(inner)? {
                items.push(item);
            } else {
                self.end(cx, at)?;
                return Ok(None);
            }
        }
        Ok(Some(cx.trace.tuple(items)))
    }

    fn children(&self) -> Vec<VarId> {
        self.inner.clone()
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>) -> Flow<()> {
        if self.strict {
            return emit_call(cg, rebuild::strict_zip, &self.inner);
        }
        emit_call(cg, |py| library(py, "builtins", "zip"), &self.inner)
    }
}
