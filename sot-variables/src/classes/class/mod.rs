//! Classes: attributes, looked up in the class and its metaclass, and calls.

mod instantiation;

use std::rc::Rc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyString, PyTuple, PyType};
use sot_core::cpython::{self, DescriptorKind};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, Name, OpcodeExecutor, Trace};
use sot_core::guard::{Identity, Test};
use sot_core::tracker::{self, Tracker, TrackerId};
use sot_core::variable::{Form, Rebuild, VarId, Variable};

use crate::classes::class_statement::{self, is_of_library, MadeClass};
use crate::classes::stand_in;
use crate::functions::call_policy::call_by_policy;
use crate::iterators::library;

use instantiation::is_plain;

sot_core::variable_kind! { "class", rank: 50, when: is_class, wrap: ClassVariable::wrap }

fn is_class(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyType>()
}

/// A class of the program.
pub struct ClassVariable {
    object: Py<PyAny>,
    made: Option<Rc<MadeClass>>,
}

impl ClassVariable {
    /// True if the program has defined the `__class_getitem__` that serves `class[key]`.
    fn is_asked_for_items(&self, trace: &Trace<'_>) -> Flow<bool> {
        let found = cpython::type_lookup(&self.class(trace)?, intern!(trace.py, "__class_getitem__"));
        let function = found.map(|found| found.getattr("__func__").unwrap_or(found));
        Ok(function.is_some_and(|function| function.is_exact_instance_of::<PyFunction>() && !is_of_library(&function)))
    }

    /// Simulates `type.__getattribute__`.
    fn type_get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        if let Some(written) = cx.trace.effects.attribute(this, name) {
            return Ok(written);
        }
        let class = self.class(&cx.trace)?;
        let in_meta = object_model::lookup(cx, this, name)?;
        if let Some((found, tracker)) = &in_meta {
            object_model::guard_descriptor(cx, found, *tracker)?;
            if DescriptorKind::of(found) == DescriptorKind::Property {
                return object_model::bind_descriptor(cx, this, name, found, *tracker).map(Some);
            }
            if cpython::is_data_descriptor(found) && cpython::is_descriptor(found) {
                return self.read(cx, this, name).map(Some);
            }
        }
        let of = cx.trace.vars.tracker(this);
        if let Some((found, tracker)) = object_model::lookup_in_type(cx, class.as_any(), of, name)? {
            return self.bind(cx, this, name, found, tracker).map(Some);
        }
        match in_meta {
            Some((found, tracker)) => object_model::bind_descriptor(cx, this, name, &found, tracker).map(Some),
            None => Ok(None),
        }
    }

    fn wrap(_: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, _: TrackerId) -> Flow<Rc<dyn Variable>> {
        Ok(Rc::new(ClassVariable { object: object.clone().unbind(), made: None }))
    }

    /// Returns the variable of a class made in the trace. `object` is the real class that stands for it.
    pub(crate) fn of(object: Py<PyAny>, made: MadeClass) -> Self {
        ClassVariable { object, made: Some(Rc::new(made)) }
    }

    /// Returns how the class was made, if it was made in the trace.
    pub(crate) fn made(&self) -> Option<Rc<MadeClass>> {
        self.made.clone()
    }

    /// True if a write to an attribute of the class, which was not made in the trace, only puts the value there: neither
    /// the old nor the new value is a descriptor, and the name is none that the interpreter looks up by itself.
    fn takes_write(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name, value: Option<VarId>) -> Flow<bool> {
        if cx.trace.effects.has_read_class_dict() {
            return Ok(false);
        }
        let class = self.class(&cx.trace)?;
        let Some(value) = value.filter(|_| !name.starts_with("__") && !cpython::is_made_by_c(&class).unwrap_or(true))
        else {
            return Ok(false);
        };
        if object_model::lookup(cx, this, name)?.is_some() {
            return Ok(false);
        }
        if cx.trace.effects.attribute(this, name).is_none() {
            let of = cx.trace.vars.tracker(this);
            if let Some((found, tracker)) = object_model::lookup_in_type(cx, class.as_any(), of, name)? {
                object_model::guard_descriptor(cx, &found, tracker)?;
                if cpython::is_descriptor(&found) {
                    return Ok(false);
                }
            }
        }
        let ty = cx.type_of(value)?;
        let binds =
            ty.cast::<PyType>().is_ok_and(|ty| cpython::type_lookup(ty, &PyString::intern(cx.py, "__get__")).is_some());
        Ok(!binds)
    }

    fn class<'py>(&self, trace: &Trace<'py>) -> Flow<Bound<'py, PyType>> {
        Ok(self.object.bind(trace.py).cast::<PyType>().map_err(PyErr::from)?.clone())
    }

    /// True if `object.__new__` makes instances of the class.
    pub(crate) fn has_plain_instances(&self, py: Python<'_>) -> bool {
        self.object.bind(py).cast::<PyType>().is_ok_and(|class| is_plain(class).unwrap_or(false))
    }

    fn bind(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        this: VarId,
        name: &Name,
        found: Bound<'_, PyAny>,
        tracker: TrackerId,
    ) -> Flow<VarId> {
        let found = found.unbind().into_bound(cx.py);
        object_model::guard_descriptor(cx, &found, tracker)?;
        match DescriptorKind::of(&found) {
            DescriptorKind::StaticMethod => {
                let inner = found.getattr("__func__")?;
                let tracker = cx.trace.trackers.add(Tracker::Getattr { of: tracker, name: "__func__".into() });
                Ok(cx.trace.wrap(&inner, tracker))
            }
            DescriptorKind::ClassMethod => object_model::bind_class_method(cx, this, &found, tracker),
            DescriptorKind::CClassMethod
            | DescriptorKind::Getset
            | DescriptorKind::Member
            | DescriptorKind::BuiltinFunction => self.read(cx, this, name),
            DescriptorKind::Function
            | DescriptorKind::Property
            | DescriptorKind::Method
            | DescriptorKind::SlotWrapper => Ok(cx.trace.wrap(&found, tracker)),
            _ if found.is_instance_of::<PyType>() || !cpython::is_descriptor(&found) => {
                Ok(cx.trace.wrap(&found, tracker))
            }
            _ if cpython::type_lookup(&found.get_type(), &PyString::intern(cx.py, "__get__"))
                .is_some_and(|get| get.is_instance_of::<PyFunction>()) =>
            {
                let descriptor = cx.trace.wrap(&found, tracker);
                let none = cx.trace.none();
                object_model::call_special(cx, descriptor, "__get__", &[none, this])
            }
            _ => {
                let descriptor = cx.trace.wrap(&found, tracker);
                let bound = cx.see(descriptor)?.bind_to_class(cx, descriptor)?;
                let kind = || cpython::type_name(&found.get_type());
                let text = || format!("attribute '{name}' of a class, implemented by a {}", kind());
                bound.ok_or_else(|| Unwind::break_graph(ReasonId::UnsupportedAttribute, text()))
            }
        }
    }

    /// Reads an attribute that C code computes, such as `__name__`.
    fn read(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<VarId> {
        match self.object.bind(cx.py).clone().getattr(&**name) {
            Ok(value) => {
                let of = cx.trace.vars.tracker(this);
                let tracker = cx.trace.trackers.add(Tracker::Getattr { of, name: Rc::clone(name) });
                Ok(cx.trace.wrap(&value, tracker))
            }
            Err(error) => Err(cx.raise(error)),
        }
    }
}

impl Variable for ClassVariable {
    fn kind(&self) -> &'static str {
        "class"
    }

    fn form(&self) -> Form {
        Form::Class
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.object.bind(trace.py).get_type().into_any()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("ClassVariable({})", tracker::name(self.object.bind(trace.py)))
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }

    /// A class is known to pure calls, unless its metaclass is written in Python.
    fn materialize(&self, trace: &Trace<'_>) -> Option<Py<PyAny>> {
        let object = self.object.bind(trace.py);
        (self.made.is_none() && !cpython::is_heap_type(&object.get_type())).then(|| self.object.clone_ref(trace.py))
    }

    fn children(&self) -> Vec<VarId> {
        self.made.as_ref().map_or_else(Vec::new, |made| made.children())
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        match &self.made {
            Some(made) => made.reconstruct(cg, this),
            None => Err(Unwind::fallback(ReasonId::CannotRestore, "a class that new code cannot load")),
        }
    }

    fn set_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name, value: Option<VarId>) -> Flow<()> {
        let hook = if value.is_some() { "__setattr__" } else { "__delattr__" };
        let of_type = cpython::type_lookup(&cx.py.get_type::<PyType>(), &PyString::intern(cx.py, hook));
        let found = object_model::lookup(cx, this, &Rc::from(hook))?.map(|(found, tracker)| {
            object_model::guard_identity(cx, &found, tracker);
            found
        });
        let plain = match (&found, &of_type) {
            (Some(found), Some(of_type)) => found.is(of_type),
            _ => false,
        };
        if !plain && found.is_some_and(|found| !found.is_instance_of::<PyFunction>()) {
            // Such as that of a structure of `ctypes`, which lays out the instances and may refuse that.
            let text = format!("attribute '{name}' of a class is written by C code of its metaclass");
            return Err(Unwind::break_graph(ReasonId::UnsupportedMutation, text));
        }
        match &self.made {
            Some(made) if plain => class_statement::set_attr(cx, this, made, name, value),
            None if plain && self.takes_write(cx, this, name, value)? => {
                if let Some(value) = value {
                    cx.trace.effects.set_class_attribute(this, name, value);
                }
                Ok(())
            }
            _ => object_model::set_attr(cx, this, name, value),
        }
    }

    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        let identity = Identity::of(self.object.bind(cx.py));
        cx.trace.guards.add(cx.trace.vars.tracker(this), Test::Is(identity));
        Ok(())
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        object_model::assume_own_reads(cx, this)?;
        if object_model::is_python_method(cx, this, "__getattribute__")? {
            return object_model::own_get_attr(cx, this, name).map(Some);
        }
        let found = self.type_get_attr(cx, this, name);
        if !matches!(found, Ok(Some(_))) && object_model::lookup(cx, this, &Rc::from("__getattr__"))?.is_some() {
            return object_model::or_hook(cx, this, name, found);
        }
        found
    }

    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<VarId> {
        if cx.has_special(this, "__getitem__")? {
            return object_model::call_special(cx, this, "__getitem__", &[key]);
        }
        if self.made.is_some() && !self.is_asked_for_items(&cx.trace)? {
            let getitem = library(cx.py, "operator", "getitem")?;
            return stand_in::call_with_known(cx, getitem, &CallArgs::positional(vec![this, key]));
        }
        match cx.find_attr(this, &Rc::from("__class_getitem__"))? {
            Some(method) => cx.call(method, &CallArgs::positional(vec![key])),
            None => object_model::call_special(cx, this, "__getitem__", &[key]),
        }
    }

    fn call(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
        let object = self.object.bind(cx.py).clone();
        let handled = |cx: &mut OpcodeExecutor<'_>| cx.runtime.builtins.call(cx, &object, args).transpose();
        let is_in_python = object.cast::<PyType>().is_ok_and(cpython::is_heap_type);
        if let Some(made) = if is_in_python { cx.without_frame(handled) } else { handled(cx) }? {
            return Ok(made);
        }
        if let Some(result) = call_by_policy(cx, this, &self.object, args)? {
            return Ok(result);
        }
        self.instantiate(cx, this, args)
    }
}

/// Flattens a class or nested tuple of classes, as `isinstance` accepts it.
pub fn classes_of<'py>(object: &Bound<'py, PyAny>) -> Vec<Bound<'py, PyAny>> {
    match object.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().flat_map(|item| classes_of(&item)).collect(),
        Err(_) => vec![object.clone()],
    }
}
