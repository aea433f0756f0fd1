//! `iter(callable, sentinel)`.

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::PyType;

use sot_core::cpython;
use sot_core::error::{Flow, Unwind};
use sot_core::executor::{object_model, CallArgs, OpcodeExecutor};
use sot_core::variable::Rebuild;
use sot_core::variable::VarId;

use super::{emit_call, library, rebuild, IteratorState};

sot_core::variable_kind! { "callable_iterator" }

/// Calls a function until its result equals the sentinel.
#[derive(Clone)]
pub struct CallableIterator {
    /// The function; `None` once exhausted.
    pub callable: Option<VarId>,
    /// The value that ends the iteration.
    pub sentinel: VarId,
}

impl IteratorState for CallableIterator {
    const KIND: &'static str = "callable_iterator";

    fn python_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let iter = cpython::import(py, "builtins")?.getattr("iter")?;
        Ok(iter.call1((py.get_type::<PyAny>(), 0))?.get_type().into_any())
    }

    fn advance(&mut self, cx: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>> {
        let Some(callable) = self.callable else { return Ok(None) };
        let item = match cx.call(callable, &CallArgs::default()) {
            Ok(item) => Some(item),
            Err(Unwind::Raise(exception)) => {
                let (ty, stop) = (cx.type_of(exception)?, cx.py.get_type::<PyStopIteration>());
                if !ty.cast::<PyType>().is_ok_and(|ty| ty.is_subclass(&stop).unwrap_or(false)) {
                    return Err(Unwind::Raise(exception));
                }
                None
            }
            Err(unwind) => return Err(unwind),
        };
        match item {
            Some(item) if !object_model::equal(cx, self.sentinel, item)? => Ok(Some(item)),
            _ => {
                self.callable = None;
                Ok(None)
            }
        }
    }

    fn children(&self) -> Vec<VarId> {
        self.callable.into_iter().chain([self.sentinel]).collect()
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>) -> Flow<()> {
        match self.callable {
            Some(callable) => emit_call(cg, |py| library(py, "builtins", "iter"), [callable, self.sentinel]),
            None => rebuild::emit_exhausted(cg, "tuple", false),
        }
    }
}
