//! `itertools.groupby`. The iterator and its groups share a state, which is a variable of its own.

use std::rc::Rc;

use pyo3::prelude::*;

use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, OpcodeExecutor};
use sot_core::variable::Rebuild;
use sot_core::variable::VarId;

use super::{emit_call, library, produce, IteratorState, IteratorVariable};

sot_core::variable_kind! { "groupby" }
sot_core::variable_kind! { "group" }
sot_core::variable_kind! { "groupby_state" }

/// The iterator `groupby(iterable, key)`.
#[derive(Clone)]
pub struct GroupBy {
    state: VarId,
}

/// The iterator over a group.
#[derive(Clone)]
struct Group {
    state: VarId,
    key: VarId,
    number: usize,
}

/// State shared by the iterator and its groups.
#[derive(Clone)]
struct GroupbyState {
    inner: VarId,
    function: Option<VarId>,
    /// The next item, which has been read from the inner iterator but not given by a group.
    item: Option<VarId>,
    /// The key of `item`.
    key: Option<VarId>,
    /// The key of the current group.
    target: Option<VarId>,
    groups: usize,
}

/// Makes `groupby(iterable, key)`.
pub fn over(cx: &mut OpcodeExecutor<'_>, inner: VarId, function: Option<VarId>) -> VarId {
    let state = produce(cx, GroupbyState { inner, function, item: None, key: None, target: None, groups: 0 });
    produce(cx, GroupBy { state })
}

fn load(cx: &mut OpcodeExecutor<'_>, state: VarId) -> Flow<GroupbyState> {
    let found = cx.see_as::<IteratorVariable<GroupbyState>>(state)?;
    found.map(|found| found.0.clone()).ok_or_else(without_state)
}

fn without_state() -> Unwind {
    Unwind::bug("a groupby without a state")
}

impl GroupbyState {
    fn step(&mut self, cx: &mut OpcodeExecutor<'_>) -> Flow<bool> {
        let Some(item) = cx.next(self.inner)? else { return Ok(false) };
        let key = match self.function {
            Some(function) => cx.call(function, &CallArgs::positional(vec![item]))?,
            None => item,
        };
        (self.item, self.key) = (Some(item), Some(key));
        Ok(true)
    }
}

impl IteratorState for GroupbyState {
    const KIND: &'static str = "groupby_state";

    fn python_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(py.get_type::<PyAny>().into_any())
    }

    fn advance(&mut self, _: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>> {
        Ok(None)
    }

    fn children(&self) -> Vec<VarId> {
        [Some(self.inner), self.function, self.item, self.key, self.target].into_iter().flatten().collect()
    }

    fn reconstruct(&self, _: &mut dyn Rebuild<'_>) -> Flow<()> {
        Err(Unwind::fallback(ReasonId::CannotRestore, "an itertools.groupby that has begun"))
    }
}

impl IteratorState for GroupBy {
    const KIND: &'static str = "groupby";

    fn python_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(library(py, "itertools", "groupby")?.into_bound(py))
    }

    fn advance(&mut self, cx: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>> {
        let mut state = load(cx, self.state)?;
        // Groups that were given before are exhausted from now on.
        state.groups += 1;
        let key = loop {
            match (state.key, state.target) {
                (Some(key), None) => break Some(key),
                (Some(key), Some(target)) if !object_model::equal(cx, target, key)? => break Some(key),
                _ => {}
            }
            if !state.step(cx)? {
                break None;
            }
        };
        state.target = key.or(state.target);
        let number = state.groups;
        cx.trace.vars.set(self.state, Rc::new(IteratorVariable(state)));
        Ok(key.map(|key| {
            let group = produce(cx, Group { state: self.state, key, number });
            cx.trace.tuple(vec![key, group])
        }))
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.state]
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>) -> Flow<()> {
        let state = cg.trace().vars.as_kind::<IteratorVariable<GroupbyState>>(self.state).ok_or_else(without_state)?;
        let state = &state.0;
        if state.groups > 0 {
            return Err(Unwind::fallback(ReasonId::CannotRestore, "an itertools.groupby that has begun"));
        }
        let args: Vec<VarId> = std::iter::once(state.inner).chain(state.function).collect();
        emit_call(cg, |py| library(py, "itertools", "groupby"), &args)
    }
}

impl IteratorState for Group {
    const KIND: &'static str = "group";

    fn python_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(library(py, "itertools", "_grouper")?.into_bound(py))
    }

    fn advance(&mut self, cx: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>> {
        let mut state = load(cx, self.state)?;
        if state.groups != self.number || (state.item.is_none() && !state.step(cx)?) {
            return Ok(None);
        }
        let belongs = match state.key {
            Some(key) => object_model::equal(cx, self.key, key)?,
            None => false,
        };
        let item = if belongs { state.item.take() } else { None };
        if belongs {
            state.key = None;
        }
        cx.trace.vars.set(self.state, Rc::new(IteratorVariable(state)));
        Ok(item)
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.state, self.key]
    }

    fn reconstruct(&self, _: &mut dyn Rebuild<'_>) -> Flow<()> {
        Err(Unwind::fallback(ReasonId::CannotRestore, "a group of itertools.groupby"))
    }
}
