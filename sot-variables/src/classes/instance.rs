//! Instances that `object.__new__` makes in the trace.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyType;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{OpcodeExecutor, Trace};
use sot_core::tracker::{self, TrackerId};
use sot_core::variable::Rebuild;
use sot_core::variable::{Form, GraphArgument, VarId, Variable};

use crate::functions::function::guard_identity;

sot_core::variable_kind! { "instance" }

/// An instance made in the trace. Its attributes are the side effects on it.
pub struct InstanceVariable {
    class: VarId,
    ty: Py<PyAny>,
}

impl InstanceVariable {
    pub(crate) fn make(cx: &mut OpcodeExecutor<'_>, class: VarId, ty: &Bound<'_, PyType>) -> VarId {
        let instance = cx.trace.produce(Rc::new(InstanceVariable { class, ty: ty.clone().into_any().unbind() }));
        if cpython::has_finalizer(ty) {
            cx.note_step(instance);
        }
        instance
    }
}

impl Variable for InstanceVariable {
    fn kind(&self) -> &'static str {
        "instance"
    }

    fn form(&self) -> Form {
        Form::Instance
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.ty.bind(trace.py).clone()
    }

    fn type_tracker(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> TrackerId {
        cx.trace.vars.tracker(self.class)
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("InstanceVariable({})", tracker::name(self.ty.bind(trace.py)))
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.class]
    }

    /// Simulates an assignment to `__class__`. CPython decides whether the layouts of the two classes are compatible,
    /// on a temporary object of the old class.
    fn set_class(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, class: VarId) -> Flow<()> {
        let refuse = || {
            let text = "attribute '__class__' is written, of an object whose classes do more than to hold attributes";
            Unwind::break_graph(ReasonId::UnsupportedMutation, text)
        };
        let wanted = cx.see(class)?.object().map(|class| class.bind(cx.py).clone());
        let (old, new) = (self.ty.bind(cx.py).cast::<PyType>().ok(), wanted.and_then(|class| class.cast_into().ok()));
        let (Some(old), Some(new)) = (old, new) else { return Err(refuse()) };
        let plain = |ty: &Bound<'_, PyType>| cpython::is_heap_type(ty) && !cpython::has_finalizer(ty);
        if !plain(old) || !plain(&new) {
            return Err(refuse());
        }
        let object = cx.py.get_type::<PyAny>();
        let Ok(trial) = object.call_method1("__new__", (old,)) else { return Err(refuse()) };
        if let Err(error) = object.call_method1("__setattr__", (trial, "__class__", &new)) {
            return Err(cx.raise(error));
        }
        guard_identity(cx, class, new.as_any().as_unbound());
        cx.trace.vars.set(this, Rc::new(InstanceVariable { class, ty: new.into_any().unbind() }));
        Ok(())
    }

    fn runs_when_dropped(&self, trace: &Trace<'_>) -> bool {
        self.ty.bind(trace.py).cast::<PyType>().is_ok_and(cpython::has_finalizer)
    }

    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<GraphArgument> {
        let text = cx.trace.text(this);
        Err(Unwind::break_graph(ReasonId::UnsupportedCall, format!("{text} as an argument of a graph operation")))
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        if cpython::is_heap_type(self.ty.bind(cg.py()).cast::<PyType>().map_err(PyErr::from)?) {
            let new = cg.py().get_type::<PyAny>().getattr("__new__")?.unbind();
            cg.call(|cg| cg.load_const(new), [self.class])?;
        } else {
            cg.call(|cg| cg.load(self.class), [] as [VarId; 0])?;
        }
        cg.define(this)
    }
}
