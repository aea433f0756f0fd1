//! Iterators over objects with `__getitem__` but no `__iter__`: `x[0]`, `x[1]`, ... until `IndexError`.

use pyo3::exceptions::{PyIndexError, PyStopIteration};
use pyo3::prelude::*;

use sot_core::error::{Flow, Unwind};
use sot_core::executor::OpcodeExecutor;
use sot_core::variable::VarId;
use sot_core::variable::{Argument, Rebuild};

use super::sequence_kind::SequenceKind;
use super::{emit_call, produce, rebuild, IteratorState};

sot_core::variable_kind! { "item_iterator" }

/// State of such an iterator.
#[derive(Clone)]
pub struct ItemIterator {
    object: VarId,
    /// The next index; `None` when exhausted.
    position: Option<i64>,
    backwards: bool,
    over: SequenceKind,
}

impl ItemIterator {
    /// Makes `iter(object)`.
    pub fn over(cx: &mut OpcodeExecutor<'_>, object: VarId) -> VarId {
        let over = SequenceKind::by_position(&cx.trace, object);
        produce(cx, ItemIterator { object, position: Some(0), backwards: false, over })
    }

    /// Makes `reversed(object)`, for an object of `len` items.
    pub fn reversed(cx: &mut OpcodeExecutor<'_>, object: VarId, len: i64) -> VarId {
        let over = SequenceKind::by_position(&cx.trace, object);
        let iterator = produce(cx, ItemIterator { object, position: len.checked_sub(1), backwards: true, over });
        cx.note_step(iterator);
        iterator
    }
}

impl IteratorState for ItemIterator {
    const KIND: &'static str = "item_iterator";

    fn python_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.over.iterator_type(py, self.backwards)
    }

    fn advance(&mut self, cx: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>> {
        let Some(position) = self.position.filter(|&position| position >= 0) else { return Ok(None) };
        let index = cx.trace.integer(position)?;
        match cx.get_item(self.object, index) {
            Ok(item) => {
                self.position = Some(if self.backwards { position - 1 } else { position + 1 });
                Ok(Some(item))
            }
            Err(Unwind::Raise(exception)) => {
                let [index, stop] = [cx.py.get_type::<PyIndexError>(), cx.py.get_type::<PyStopIteration>()];
                if !cx.is_of_class(exception, &index)? && !cx.is_of_class(exception, &stop)? {
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
            _ => {
                let empty = self.over.empty(cg.py())?;
                rebuild::emit_exhausted(cg, empty, self.backwards)
            }
        }
    }
}
