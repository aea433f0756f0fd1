//! Iterators over objects with `__getitem__` but no `__iter__`: `x[0]`, `x[1]`, ... until `IndexError`.

use pyo3::exceptions::{PyIndexError, PyStopIteration};
use pyo3::prelude::*;
use pyo3::types::PyType;

use sot_core::cpython;
use sot_core::error::{Flow, Unwind};
use sot_core::executor::OpcodeExecutor;
use sot_core::variable::VarId;
use sot_core::variable::{Argument, Rebuild};

use super::{emit_call, produce, rebuild, IteratorState};

sot_core::variable_kind! { "item_iterator" }

/// State of such an iterator.
#[derive(Clone)]
pub struct ItemIterator {
    object: VarId,
    /// The next index; `None` when exhausted.
    position: Option<i64>,
    backwards: bool,
}

impl ItemIterator {
    /// Makes `iter(object)`.
    pub fn over(cx: &mut OpcodeExecutor<'_>, object: VarId) -> VarId {
        produce(cx, ItemIterator { object, position: Some(0), backwards: false })
    }

    /// Makes `reversed(object)`, for an object of `len` items.
    pub fn reversed(cx: &mut OpcodeExecutor<'_>, object: VarId, len: i64) -> VarId {
        let iterator = produce(cx, ItemIterator { object, position: len.checked_sub(1), backwards: true });
        cx.note_step(iterator);
        iterator
    }
}

impl IteratorState for ItemIterator {
    const KIND: &'static str = "item_iterator";

    fn python_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.backwards {
            return cpython::import(py, "builtins")?.getattr("reversed");
        }
        // The type has no public name; it is the type of an iterator over any such object.
        Ok(py.eval(c"iter(type('_', (), {'__getitem__': None})())", None, None)?.get_type().into_any())
    }

    fn advance(&mut self, cx: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>> {
        let Some(position) = self.position.filter(|&position| position >= 0) else { return Ok(None) };
        let index = cx.integer(position)?;
        match cx.get_item(self.object, index) {
            Ok(item) => {
                self.position = Some(if self.backwards { position - 1 } else { position + 1 });
                Ok(Some(item))
            }
            Err(Unwind::Raise(exception)) => {
                let ty = cx.type_of(exception)?;
                let ends = [cx.py.get_type::<PyIndexError>(), cx.py.get_type::<PyStopIteration>()];
                let ended =
                    ty.cast::<PyType>().is_ok_and(|ty| ends.iter().any(|end| ty.is_subclass(end).unwrap_or(false)));
                if !ended {
                    return Err(Unwind::Raise(exception));
                }
                self.position = None;
                Ok(None)
            }
            Err(unwind) => Err(unwind),
        }
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.object]
    }

    fn is_made_once(&self) -> Option<&'static str> {
        self.backwards.then_some("would ask for the length again")
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>) -> Flow<()> {
        match self.position {
            Some(position) if position >= 0 => {
                let position = Argument::int(cg.py(), position)?;
                emit_call(cg, rebuild::sequence_at, [self.object.into(), position])
            }
            _ => rebuild::emit_exhausted(cg, "tuple", self.backwards),
        }
    }
}
