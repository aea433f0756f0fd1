//! `filter`, `itertools.filterfalse`, `takewhile` and `dropwhile`: items selected by a predicate.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use sot_core::error::Flow;
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::variable::{Argument, Rebuild, VarId};

use super::{emit_call, library, IteratorState};

sot_core::variable_kind! { "filter" }

/// How the predicate selects items.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FilterRule {
    /// Keep items for which the predicate is true (`filter`).
    Keep,
    /// Keep items for which the predicate is false (`filterfalse`).
    Drop,
    /// Stop at the first item for which the predicate is false (`takewhile`).
    TakeWhile,
    /// Start at the first item for which the predicate is false (`dropwhile`).
    DropWhile,
}

/// A predicate and an inner iterator.
#[derive(Clone)]
pub struct Filter {
    /// The predicate; `None` stands for the truth of the item itself.
    pub predicate: VarId,
    /// The inner iterator.
    pub inner: VarId,
    /// How the predicate selects items.
    pub rule: FilterRule,
    /// True once `takewhile` has stopped, or `dropwhile` has started.
    pub turned: bool,
}

impl Filter {
    fn accepts(&self, cx: &mut OpcodeExecutor<'_>, item: VarId) -> Flow<bool> {
        if cx.known(self.predicate)?.is_some_and(|predicate| predicate.is_none()) {
            return cx.truth(item);
        }
        let answer = cx.call(self.predicate, &CallArgs::positional(vec![item]))?;
        cx.truth(answer)
    }

    const fn path(&self) -> (&'static str, &'static str) {
        match self.rule {
            FilterRule::Keep => ("builtins", "filter"),
            FilterRule::Drop => ("itertools", "filterfalse"),
            FilterRule::TakeWhile => ("itertools", "takewhile"),
            FilterRule::DropWhile => ("itertools", "dropwhile"),
        }
    }
}

impl IteratorState for Filter {
    const KIND: &'static str = "filter";

    fn python_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (module, name) = self.path();
        Ok(library(py, module, name)?.into_bound(py))
    }

    fn advance(&mut self, cx: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>> {
        if self.rule == FilterRule::TakeWhile && self.turned {
            return Ok(None);
        }
        while let Some(item) = cx.next(self.inner)? {
            if self.rule == FilterRule::DropWhile && self.turned {
                return Ok(Some(item));
            }
            let accepted = self.accepts(cx, item)?;
            match self.rule {
                FilterRule::Keep | FilterRule::TakeWhile if accepted => return Ok(Some(item)),
                FilterRule::Drop if !accepted => return Ok(Some(item)),
                FilterRule::TakeWhile => {
                    self.turned = true;
                    return Ok(None);
                }
                FilterRule::DropWhile if !accepted => {
                    self.turned = true;
                    return Ok(Some(item));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.predicate, self.inner]
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>) -> Flow<()> {
        let (module, name) = self.path();
        let args = match (self.rule, self.turned) {
            (FilterRule::TakeWhile, true) => [false_for_all(cg.py())?, Argument::tuple::<VarId>([])],
            (FilterRule::DropWhile, true) => [false_for_all(cg.py())?, self.inner.into()],
            _ => [self.predicate.into(), self.inner.into()],
        };
        emit_call(cg, |py| library(py, module, name), args)
    }
}

/// A predicate that is false for each item, and looks at none.
fn false_for_all(py: Python<'_>) -> PyResult<Argument> {
    Ok(Argument::Constant(PyTuple::empty(py).getattr("__contains__")?.unbind()))
}
