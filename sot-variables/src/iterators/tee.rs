//! `itertools.tee`: iterators that share the items that have been taken from the source.

use std::rc::Rc;

use pyo3::prelude::*;

use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::OpcodeExecutor;
use sot_core::variable::VarId;
use sot_core::variable::{Argument, Rebuild};

use super::{emit_call, library, produce, rebuild, IteratorState, IteratorVariable};

sot_core::variable_kind! { "tee" }
sot_core::variable_kind! { "tee_items" }

/// One of the iterators.
#[derive(Clone)]
pub struct Tee {
    items: VarId,
    position: usize,
}

/// The items taken from the source, shared by all iterators.
#[derive(Clone)]
struct TeeItems {
    source: VarId,
    taken: Vec<VarId>,
}

impl Tee {
    /// Returns an iterator over `source`, which can be copied.
    pub fn over(cx: &mut OpcodeExecutor<'_>, source: VarId) -> Tee {
        let items = produce(cx, TeeItems { source, taken: Vec::new() });
        Tee { items, position: 0 }
    }
}

fn refuse() -> Unwind {
    Unwind::fallback(ReasonId::CannotRestore, "an itertools.tee whose buffered items are not known")
}

impl IteratorState for TeeItems {
    const KIND: &'static str = "tee_items";

    fn python_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(py.get_type::<PyAny>().into_any())
    }

    fn advance(&mut self, cx: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>> {
        let item = cx.next(self.source)?;
        self.taken.extend(item);
        Ok(item)
    }

    fn children(&self) -> Vec<VarId> {
        std::iter::once(self.source).chain(self.taken.iter().copied()).collect()
    }

    /// Emits the first of the iterators, at the start.
    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>) -> Flow<()> {
        emit_call(cg, rebuild::tee_of, [Argument::tuple(&self.taken), self.source.into()])
    }
}

impl IteratorState for Tee {
    const KIND: &'static str = "tee";

    fn python_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(library(py, "itertools", "_tee")?.into_bound(py))
    }

    fn advance(&mut self, cx: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>> {
        let items = cx.see_as::<IteratorVariable<TeeItems>>(self.items)?.ok_or_else(refuse)?;
        let item = match items.0.taken.get(self.position) {
            Some(&item) => Some(item),
            None => {
                cx.limits.charge(items.0.taken.len());
                let (before, mut items) = (cx.trace.vars.get(self.items), items.0.clone());
                let item = items.advance(cx)?;
                if !Rc::ptr_eq(&before, &cx.trace.vars.get(self.items)) {
                    let text = "an itertools.tee whose source advances another iterator of the same tee";
                    return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
                }
                cx.trace.vars.set(self.items, Rc::new(IteratorVariable(items)));
                item
            }
        };
        self.position += usize::from(item.is_some());
        Ok(item)
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.items]
    }

    /// Emits a copy of the first iterator, advanced to this position.
    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>) -> Flow<()> {
        let position = Argument::int(cg.py(), self.position)?;
        emit_call(cg, rebuild::tee_at, [self.items.into(), position])
    }
}
