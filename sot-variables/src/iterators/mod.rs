//! Iterators made in the trace, one file per kind. An iterator is a small state that is copied, advanced and stored
//! as a new payload, so that a rollback restores it. Some iterators from outside can be advanced as well (`outside`).

pub mod chain;
pub mod dict_view;
pub mod enumerate;
pub mod filter;
pub mod groupby;
pub mod items;
pub mod itertools;
pub mod map;
pub mod outside;
pub mod rebuild;
pub mod sentinel;
pub mod sequence;
mod sequence_kind;
pub mod tee;
mod view_operators;
pub mod zip;

use std::rc::Rc;

use pyo3::prelude::*;

use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{OpcodeExecutor, Trace};
use sot_core::variable::{Argument, Rebuild};
use sot_core::variable::{VarId, Variable};

/// State and behaviour of a kind of iterator.
pub trait IteratorState: Clone + 'static {
    /// Name of the kind.
    const KIND: &'static str;

    /// The iterator's type.
    fn python_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>>;

    /// Returns the next item, or `None` once the iterator is exhausted; then also in all later calls.
    fn advance(&mut self, cx: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>>;

    /// Returns the variables that the state refers to.
    fn children(&self) -> Vec<VarId>;

    /// Returns the reason why new code cannot make an iterator with this state, if making it runs code of the
    /// program.
    fn is_made_once(&self) -> Option<&'static str> {
        None
    }

    /// Fails for a state that new code cannot rebuild, where deciding that requires a look at the iterated values.
    fn prepare(&self, cx: &mut OpcodeExecutor<'_>) -> Flow<()> {
        let _ = cx;
        Ok(())
    }

    /// Returns the state with which the iterator lives on at a graph break, if it is another one.
    fn live_on(&self, cx: &mut OpcodeExecutor<'_>) -> Flow<Option<Self>> {
        let _ = cx;
        Ok(None)
    }

    /// Emits code that makes an iterator with this state.
    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>) -> Flow<()>;
}

/// An iterator.
pub struct IteratorVariable<S: IteratorState>(pub S);

/// Makes an iterator in the trace.
pub fn produce<S: IteratorState>(cx: &mut OpcodeExecutor<'_>, state: S) -> VarId {
    cx.trace.produce(Rc::new(IteratorVariable(state)))
}

impl<S: IteratorState> Variable for IteratorVariable<S> {
    fn kind(&self) -> &'static str {
        S::KIND
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        or_object_type(trace, self.0.python_type(trace.py))
    }

    fn text(&self, _: &Trace<'_>) -> String {
        format!("IteratorVariable({})", S::KIND)
    }

    fn live_on(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        if let Some(state) = self.0.live_on(cx)? {
            cx.trace.vars.set(this, Rc::new(IteratorVariable(state)));
        }
        Ok(())
    }

    fn prepare(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<()> {
        self.0.prepare(cx)
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        if let Some(why) = self.0.is_made_once() {
            return Err(cg.plan_to_make(this, why));
        }
        self.0.reconstruct(cg)
    }

    fn children(&self) -> Vec<VarId> {
        self.0.children()
    }

    fn iter(&self, _: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        Ok(this)
    }

    fn next(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Option<VarId>> {
        cx.claims.retain_claim_on(this);
        let mut state = self.0.clone();
        let before = cx.trace.vars.get(this);
        let item = state.advance(cx);
        if !Rc::ptr_eq(&before, &cx.trace.vars.get(this)) {
            let text = "an iterator that is advanced by a function that it calls";
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
        }
        let item = item?;
        cx.trace.vars.set(this, Rc::new(IteratorVariable(state)));
        Ok(item)
    }

    fn truth(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<bool> {
        Ok(true)
    }
}

/// Emits a call of a known callable with variables as arguments.
pub fn emit_call<A: Into<Argument>>(
    cg: &mut dyn Rebuild<'_>,
    callable: impl FnOnce(Python<'_>) -> PyResult<Py<PyAny>>,
    args: impl IntoIterator<Item = A>,
) -> Flow<()> {
    let callable = callable(cg.py())?;
    cg.call(|cg| cg.load_const(callable), args)
}

/// The answer of [`Variable::python_type`] for a type that is looked up in CPython's library. `object` stands for a
/// type that is not found, which only a broken library lacks.
pub fn or_object_type<'py>(trace: &Trace<'py>, ty: PyResult<Bound<'py, PyAny>>) -> Bound<'py, PyAny> {
    ty.unwrap_or_else(|_| trace.py.get_type::<PyAny>().into_any())
}

/// Returns an object of the standard library.
pub fn library(py: Python<'_>, module: &str, name: &str) -> PyResult<Py<PyAny>> {
    if module == "builtins" {
        return Ok(cpython::builtin(py, name)?.unbind());
    }
    Ok(cpython::import(py, module)?.getattr(name)?.unbind())
}
