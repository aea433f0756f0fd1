//! Modules. Attributes of a module are entries of its dict, which is also the globals of the module's functions.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyModule, PyString};
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, Globals, Name, OpcodeExecutor, Trace};
use sot_core::guard::Test;
use sot_core::tracker::{Tracker, TrackerId};
use sot_core::variable::{Form, VarId, Variable};

sot_core::variable_kind! { "module", rank: 40, when: is_module, wrap: ModuleVariable::wrap }

fn is_module(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyModule>()
}

/// A module.
pub struct ModuleVariable {
    object: Py<PyAny>,
}

impl ModuleVariable {
    fn wrap(_: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, _: TrackerId) -> Flow<Rc<dyn Variable>> {
        Ok(Rc::new(ModuleVariable { object: object.clone().unbind() }))
    }

    /// Breaks the graph for data descriptors such as `__class__`, which are not entries of the module's dict.
    fn refuse_descriptor(&self, trace: &Trace<'_>, name: &Name) -> Flow<()> {
        let found = cpython::type_lookup(&trace.py.get_type::<PyModule>(), &PyString::intern(trace.py, name));
        if found.is_some_and(|found| cpython::is_data_descriptor(&found)) {
            let text = format!("attribute '{name}' of {}, which is computed", self.text(trace));
            return Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, text));
        }
        Ok(())
    }

    /// Breaks the graph if the program's subclass of `ModuleType` overrides `__getattribute__` or has the attribute
    /// itself.
    fn refuse_what_the_class_says(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<()> {
        let usual = cx.py.get_type::<PyModule>().getattr("__getattribute__")?;
        let reader = object_model::lookup(cx, this, &Rc::from("__getattribute__"))?;
        let is_usual = reader.as_ref().is_some_and(|(reader, _)| reader.is(&usual));
        if let Some((reader, tracker)) = reader {
            object_model::guard_identity(cx, &reader, tracker);
        }
        if is_usual && object_model::lookup(cx, this, name)?.is_none() {
            return Ok(());
        }
        let text = format!("attribute '{name}' of {}, whose class has a say in it", self.text(&cx.trace));
        Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, text))
    }
}

impl Variable for ModuleVariable {
    fn kind(&self) -> &'static str {
        "module"
    }

    fn form(&self) -> Form {
        Form::Module
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.object.bind(trace.py).get_type().into_any()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        let dict = cpython::instance_dict(self.object.bind(trace.py));
        let name = dict.and_then(|dict| dict.get_item("__name__").ok()?).and_then(|name| name.extract::<String>().ok());
        format!("ModuleVariable({})", name.as_deref().unwrap_or("?"))
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        let module = self.object.bind(cx.py).clone();
        let of = cx.trace.vars.tracker(this);
        let is_dict = &**name == "__dict__" && cx.trace.trackers.is_loadable(of);
        if let Some(names) = cpython::instance_dict(&module).filter(|_| is_dict) {
            if cx.trace.effects.binds_globals(names.as_unbound()) {
                let text = "the __dict__ of a module whose variables are written";
                return Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, text));
            }
            let tracker = cx.trace.trackers.add(Tracker::Getattr { of, name: Rc::clone(name) });
            cx.trace.guards.require(tracker);
            return Ok(Some(cx.trace.wrap(&names, tracker)));
        }
        self.refuse_descriptor(&cx.trace, name)?;
        if !module.is_exact_instance_of::<PyModule>() {
            self.refuse_what_the_class_says(cx, this, name)?;
        }
        let dict = cpython::instance_dict(&module);
        if let Some(written) = dict.as_ref().and_then(|dict| cx.trace.effects.global(dict.as_unbound(), name)) {
            return Ok(written);
        }
        if let Some(dict) = &dict {
            cx.trace.refuse_written_names(dict)?;
        }
        if let Some(value) = dict.as_ref().and_then(|dict| dict.get_item(&**name).ok().flatten()) {
            let tracker = cx.trace.trackers.add(Tracker::Attribute { of, name: Rc::clone(name) });
            cx.trace.guards.require(tracker);
            return Ok(Some(cx.trace.wrap(&value, tracker)));
        }
        let class = module.get_type();
        if dict.is_none_or(|dict| dict.contains("__getattr__").unwrap_or(true))
            || cpython::type_lookup(&class, &PyString::intern(cx.py, name)).is_some()
            || !class.is(cx.py.get_type::<PyModule>())
        {
            let text = format!("attribute '{name}' of {}, which is computed", self.text(&cx.trace));
            return Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, text));
        }
        if cx.trace.trackers.is_sourced(of) {
            cx.trace.guards.add(of, Test::LacksAttribute(Rc::clone(name)));
            // The function that computes missing attributes may come later.
            cx.trace.guards.add(of, Test::LacksAttribute(Rc::from("__getattr__")));
        }
        Ok(None)
    }

    fn set_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name, value: Option<VarId>) -> Flow<()> {
        let module = self.object.bind(cx.py).clone();
        let refuse = || {
            Unwind::break_graph(
                ReasonId::UnsupportedMutation,
                format!("writing attribute '{name}' of {}, whose class may intercept the write", self.text(&cx.trace)),
            )
        };
        if !module.is_exact_instance_of::<PyModule>() {
            return Err(refuse());
        }
        let globals = cx.stack.frame().globals.dict.bind(cx.py).clone();
        if cx.runtime.backend().own_code().calls_by_name(&module, name, &globals) {
            let text = format!("replacing {name} of {}", self.text(&cx.trace));
            return Err(Unwind::break_graph(ReasonId::UnsupportedMutation, text));
        }
        self.refuse_descriptor(&cx.trace, name)?;
        let dict = cpython::instance_dict(&module).ok_or_else(refuse)?;
        // If the trace also holds the dict as an ordinary dict variable, that variable would miss the write.
        if cx.trace.identities.of(dict.as_any()).is_some_and(|met| cx.trace.vars.get(met).form() != Form::Globals) {
            return Err(refuse());
        }
        if value.is_none() && self.get_attr(cx, this, name)?.is_none() {
            // Deleting from an empty module raises the same error.
            let empty = PyModule::new(cx.py, "empty")?;
            return empty.delattr(&**name).map_err(|error| cx.raise(error));
        }
        let of = cx.trace.vars.tracker(this);
        object_model::guard_identity(cx, &module, of);
        let tracker = cx.trace.trackers.add(Tracker::Getattr { of, name: "__dict__".into() });
        cx.trace.effects.set_global(cx.py, &Globals { dict: dict.unbind(), tracker }, name, value);
        Ok(())
    }
}
