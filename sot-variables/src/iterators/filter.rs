//! `filter`, `itertools.filterfalse`, `takewhile` and `dropwhile`: items selected by a predicate.

use pyo3::prelude::*;

use sot_core::error::Flow;
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::variable::Rebuild;
use sot_core::variable::VarId;

use super::{emit_call, library, rebuild, IteratorState};

sot_core::variable_kind! { "filter" }

/// How the predicate selects items.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rule {
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
    pub rule: Rule,
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
            Rule::Keep => ("builtins", "filter"),
            Rule::Drop => ("itertools", "filterfalse"),
            Rule::TakeWhile => ("itertools", "takewhile"),
            Rule::DropWhile => ("itertools", "dropwhile"),
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
        if self.rule == Rule::TakeWhile && self.turned {
            return Ok(None);
        }
        while let Some(item) = cx.next(self.inner)? {
            if self.rule == Rule::DropWhile && self.turned {
                return Ok(Some(item));
            }
            let accepted = self.accepts(cx, item)?;
            match self.rule {
                Rule::Keep | Rule::TakeWhile if accepted => return Ok(Some(item)),
                Rule::Drop if !accepted => return Ok(Some(item)),
                Rule::TakeWhile => {
                    self.turned = true;
                    return Ok(None);
                }
                Rule::DropWhile if !accepted => {
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
        match (self.rule, self.turned) {
            (Rule::TakeWhile, true) => rebuild::emit_exhausted(cg, "tuple", false),
            (Rule::DropWhile, true) => cg.load(self.inner),
            _ => {
                let (module, name) = self.path();
                emit_call(cg, |py| library(py, module, name), self.children())
            }
        }
    }
}
