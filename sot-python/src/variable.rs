//! The variable of a translated callable: inside a trace a call of it is a call of its target, which the trace
//! follows.

use std::rc::Rc;

use pyo3::prelude::*;
use sot_core::error::Flow;
use sot_core::executor::{object_model, CallArgs, Name, OpcodeExecutor, Trace};
use sot_core::tracker::{Tracker, TrackerId};
use sot_core::variable::{VarId, Variable};

use crate::translated::Translated;

sot_core::variable_kind! {
    "translated",
    types: |py| Ok(vec![py.get_type::<Translated>().into_any().unbind()]),
    wrap: TranslatedVariable::wrap
}

struct TranslatedVariable {
    object: Py<PyAny>,
    target: VarId,
}

impl TranslatedVariable {
    fn wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, of: TrackerId) -> Flow<Rc<dyn Variable>> {
        let target = object.cast::<Translated>().map_err(PyErr::from)?.borrow().target(cx.py)?;
        let tracker = cx.trace.trackers.add(Tracker::Getattr { of, name: "__wrapped__".into() });
        let target = cx.trace.wrap(&target, tracker);
        Ok(Rc::new(TranslatedVariable { object: object.clone().unbind(), target }))
    }
}

impl Variable for TranslatedVariable {
    fn kind(&self) -> &'static str {
        "translated"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.object.bind(trace.py).get_type().into_any()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("TranslatedVariable({})", trace.text(self.target))
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }

    /// Attributes of its own hide those of the target.
    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        if &**name == "__wrapped__" {
            return Ok(Some(self.target));
        }
        match object_model::generic_get_attr(cx, this, name)? {
            Some(own) => Ok(Some(own)),
            None => cx.find_attr(self.target, name),
        }
    }

    /// A translated function binds to an instance; other translated callables do not.
    fn bind(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, instance: VarId) -> Flow<Option<VarId>> {
        let target = cx.see(self.target)?.python_type(&cx.trace);
        if !target.is(cx.py.get_type::<pyo3::types::PyFunction>()) {
            return Ok(Some(this));
        }
        let method = (cx.runtime.factories.method)(this, instance);
        Ok(Some(cx.trace.produce(method)))
    }

    fn bind_to_class(&self, _: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Option<VarId>> {
        Ok(Some(this))
    }

    fn call(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
        if let Ok(translated) = self.object.bind(cx.py).cast::<Translated>() {
            translated.borrow().renew(cx.py);
        }
        cx.call_instead_of(this, self.target, args)
    }
}
