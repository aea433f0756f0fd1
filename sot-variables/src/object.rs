//! Objects with no kind of their own: instances of any class, by CPython's object model alone.

use std::rc::Rc;

use pyo3::prelude::*;
use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::executor::{object_model, Name, OpcodeExecutor};
use sot_core::tracker::{repr, TrackerId};
use sot_core::variable::{VarId, Variable};

use crate::iterators::library;

sot_core::variable_kind! { "object", rank: 0, when: |_| true, wrap: ObjectVariable::wrap }

/// A real object.
pub struct ObjectVariable {
    object: Py<PyAny>,
}

impl ObjectVariable {
    /// The variable of `object`.
    pub fn new(object: Py<PyAny>) -> Self {
        ObjectVariable { object }
    }

    fn wrap(_: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, _: TrackerId) -> Flow<Rc<dyn Variable>> {
        Ok(Rc::new(ObjectVariable::new(object.clone().unbind())))
    }
}

/// Whether the object is an immutable value that C code keeps: what it answers depends on the arguments alone.
pub fn is_c_value(object: &Bound<'_, PyAny>) -> bool {
    let ty = object.get_type();
    let known = |module: &str, name: &str| {
        cpython::type_name(&ty) == name && library(object.py(), module, name).is_ok_and(|own| own.is(&ty))
    };
    known("re", "Pattern") || known("re", "Match") || known("struct", "Struct")
}

impl Variable for ObjectVariable {
    fn kind(&self) -> &'static str {
        "object"
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        self.object.bind(cx.py).get_type().into_any()
    }

    fn text(&self, cx: &OpcodeExecutor<'_>) -> String {
        format!("ObjectVariable({})", repr(cx.py, &self.object))
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }

    fn materialize(&self, cx: &OpcodeExecutor<'_>) -> Option<Py<PyAny>> {
        is_c_value(self.object.bind(cx.py)).then(|| self.object.clone_ref(cx.py))
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        let object = self.object.bind(cx.py).clone();
        if !cx.trackers.is_loadable(cx.vars.tracker(this)) && is_c_value(&object) {
            if let Ok(value) = object.getattr(&**name) {
                if !value.is_callable() {
                    return cx.wrap_fresh(&value).map(Some);
                }
            }
        }
        object_model::get_attr(cx, this, name)
    }
}
