//! Functions converted by `paddle.jit.to_static` without `full_graph`: inside a trace, the original function is
//! followed. A function converted with `full_graph=True` has a program of its own and runs as it is.

use std::rc::Rc;

use pyo3::prelude::*;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CallArgs, OpcodeExecutor, Trace};
use sot_core::guard::{Identity, Test};
use sot_core::tracker::{Tracker, TrackerId};
use sot_core::variable::Rebuild;
use sot_core::variable::{VarId, Variable};

sot_core::variable_kind! { "static_function", types: static_function_types, wrap: StaticFunctionVariable::wrap }
sot_core::variable_kind! { "static_method" }

fn static_function_types(py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
    let module = cpython::import(py, "paddle.jit.dy2static.program_translator")?;
    Ok(module.getattr_opt("SymbolicStaticFunction")?.into_iter().map(Bound::unbind).collect())
}

/// A converted function, or a method that was bound to an object before it was converted.
struct StaticFunctionVariable {
    object: Py<PyAny>,
    function: VarId,
}

impl StaticFunctionVariable {
    fn wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, of: TrackerId) -> Flow<Rc<dyn Variable>> {
        let object = object.clone().unbind().into_bound(cx.py);
        let function = object.getattr("_dygraph_function")?;
        let tracker = cx.trace.trackers.add(Tracker::Attribute { of, name: "_dygraph_function".into() });
        let function = cx.trace.wrap(&function, tracker);
        Ok(Rc::new(StaticFunctionVariable { object: object.unbind(), function }))
    }

    /// Returns the object that the function was bound to. The converted function holds it weakly, so the trace must
    /// have met the object elsewhere.
    fn receiver(&self, trace: &Trace<'_>) -> Flow<Option<VarId>> {
        let object = self.object.bind(trace.py).getattr("class_instance")?;
        if object.is_none() {
            return Ok(None);
        }
        match trace.identities.of(&object) {
            Some(receiver) => Ok(Some(receiver)),
            None => Err(Unwind::break_graph(
                ReasonId::UnsupportedCall,
                "a converted method of an object the function reaches in no other way",
            )),
        }
    }
}

impl Variable for StaticFunctionVariable {
    fn kind(&self) -> &'static str {
        "static_function"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.object.bind(trace.py).get_type().into_any()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("StaticFunctionVariable({})", trace.text(self.function))
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }

    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        let identity = Identity::of(self.object.bind(cx.py));
        cx.trace.guards.add(cx.trace.vars.tracker(this), Test::Is(identity));
        Ok(())
    }

    fn bind(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, instance: VarId) -> Flow<Option<VarId>> {
        let method = StaticMethodVariable { converted: this, function: self.function, receiver: instance };
        Ok(Some(cx.trace.produce(Rc::new(method))))
    }

    fn call(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
        let receiver = self.receiver(&cx.trace)?;
        let args = receiver.map_or_else(|| args.clone(), |receiver| args.with_receiver(receiver));
        cx.without_frame(|cx| cx.call_instead_of(this, self.function, &args))
    }
}

/// A converted method that was read from an object.
struct StaticMethodVariable {
    converted: VarId,
    function: VarId,
    receiver: VarId,
}

impl Variable for StaticMethodVariable {
    fn kind(&self) -> &'static str {
        "static_method"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        trace.vars.get(self.converted).python_type(trace)
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("StaticMethodVariable({}, {})", trace.text(self.function), trace.text(self.receiver))
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.converted, self.receiver]
    }

    fn call(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
        cx.without_frame(|cx| cx.call_instead_of(this, self.function, &args.with_receiver(self.receiver)))
    }

    /// `converted.__get__(receiver, None)`, which always returns the same object for one receiver.
    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        let none = cg.py().None();
        cg.begin_call(|cg| {
            cg.load(self.converted)?;
            cg.load_attr("__get__")
        })?;
        cg.load(self.receiver)?;
        cg.load_const(none)?;
        cg.end_call(2)
    }
}
