//! `iter(callable, sentinel)`.

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;

use sot_core::error::{Flow, Unwind};
use sot_core::executor::{object_model, CallArgs, OpcodeExecutor};
use sot_core::variable::VarId;
use sot_core::variable::{Argument, Rebuild};

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

/// The type of `iter(callable, sentinel)`.
pub(crate) fn callable_iterator_type(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let iter = library(py, "builtins", "iter")?;
    Ok(iter.bind(py).call1((py.get_type::<PyAny>(), 0))?.get_type().into_any())
}

impl IteratorState for CallableIterator {
    const KIND: &'static str = "callable_iterator";

    fn python_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        callable_iterator_type(py)
    }

    fn advance(&mut self, cx: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>> {
        let Some(callable) = self.callable else { return Ok(None) };
        let item = match cx.call(callable, &CallArgs::default()) {
            Ok(item) => Some(item),
            Err(Unwind::Raise(exception)) => {
                let stop = cx.py.get_type::<PyStopIteration>();
                if !cx.is_of_class(exception, &stop)? {
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
            None => {
                let (skipping, iter) = (rebuild::skipping(cg.py())?, library(cg.py(), "builtins", "iter")?);
                let (int, zero) =
                    (Argument::Constant(library(cg.py(), "builtins", "int")?), Argument::int(cg.py(), 0)?);
                // `int()` is 0, so the iterator ends at once.
                cg.begin_call(|cg| cg.load_const(skipping))?;
                cg.call(|cg| cg.load_const(iter), [int, zero])?;
                let one = Argument::int(cg.py(), 1)?;
                cg.load_argument(one)?;
                cg.end_call(2)
            }
        }
    }
}
