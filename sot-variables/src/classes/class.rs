//! Classes: attribute lookup in the class and its metaclass, and instantiation.

use std::rc::Rc;

use pyo3::exceptions::PyBaseException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyFunction, PyString, PyTuple, PyType, PyTypeMethods};
use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, Name, OpcodeExecutor, Trace};
use sot_core::guard::{Identity, Test};
use sot_core::tracker::{self, Tracker, TrackerId};
use sot_core::variable::Rebuild;
use sot_core::variable::{Form, VarId, Variable};

use crate::classes::class_statement::{self, is_of_library, MadeClass};
use crate::classes::decimal;
use crate::classes::exception;
use crate::classes::instance::InstanceVariable;
use crate::classes::object::{is_struct_sequence, is_value_type};
use crate::classes::stand_in;
use crate::containers::registered;
use crate::functions::call_policy::call_by_policy;
use crate::iterators::library;
use crate::numpy;

sot_core::variable_kind! { "class", rank: 50, when: is_class, wrap: ClassVariable::wrap }

builtin! { NEW = "object.__new__" => |cx, args| {
    let refuse = |what: &str| Unwind::break_graph(ReasonId::UnsupportedCall, format!("object.__new__() {what}"));
    let class = match args.positional[..] {
        [class] if args.keywords.is_empty() => class,
        _ => return Err(refuse("with arguments for the instance")),
    };
    let ty = cx.see(class)?.object().and_then(|ty| ty.bind(cx.py).cast::<PyType>().ok().cloned());
    match ty {
        Some(ty) if is_plain(&ty)? && !cpython::has_finalizer(&ty) => Ok(InstanceVariable::make(cx, class, &ty)),
        _ => Err(refuse("of a class whose instances C code lays out")),
    }
} }

builtin! { CALL = "type.__call__" => |cx, args| {
    let Some((&class, rest)) = args.positional.split_first() else {
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, "type.__call__() without a class"));
    };
    let rest = CallArgs { positional: rest.to_vec(), keywords: args.keywords.clone() };
    match cx.see_as::<ClassVariable>(class)? {
        Some(payload) => payload.make(cx, class, &rest),
        None => Err(Unwind::break_graph(ReasonId::UnsupportedCall, "type.__call__() of an object that is not a class")),
    }
} }

/// True if the class has abstract methods left.
fn is_abstract(class: &Bound<'_, PyType>) -> PyResult<bool> {
    let names = cpython::class_attr(class, "__abstractmethods__");
    Ok(names.is_ok_and(|names| names.is_truthy().unwrap_or(true)))
}

/// `Py_TPFLAGS_DISALLOW_INSTANTIATION` (3.10+)
const NOT_CALLED: u64 = 1 << 7;

/// True if `object.__new__` makes instances of the class: its MRO has no C type besides `object`, and it has no
/// abstract methods.
fn is_plain(class: &Bound<'_, PyType>) -> PyResult<bool> {
    let object = class.py().get_type::<PyAny>();
    let flags: u64 = cpython::class_attr(class, "__flags__")?.extract()?;
    if flags & NOT_CALLED != 0 || is_abstract(class)? {
        return Ok(false);
    }
    for base in class.mro().iter().filter(|base| !base.is(&object)) {
        let own_new = cpython::class_dict(&base)?.get_item("__new__");
        let in_c = own_new.is_ok_and(|new| new.is_instance_of::<PyCFunction>());
        if in_c || !base.cast::<PyType>().is_ok_and(cpython::is_heap_type) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Breaks the graph for a class with a finalizer that is not laid out like `object`: CPython makes its instances, and
/// knows when they die.
fn refuse_finalizer(class: &Bound<'_, PyType>) -> Flow<()> {
    if cpython::has_finalizer(class) {
        let text = format!("{}(): the destruction of its instances runs code", tracker::name(class.as_any()));
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
    }
    Ok(())
}

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
            if cpython::builtin_type_name(found) == "property" {
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

    /// Instantiates the class as a call of it does, including `__call__` of the metaclass.
    fn instantiate(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
        let class = self.class(&cx.trace)?;
        if let Some((call, tracker)) = object_model::lookup(cx, this, &Rc::from("__call__"))? {
            if call.is_exact_instance_of::<PyFunction>() {
                let call = cx.trace.wrap(&call, tracker);
                return cx.call_instead_of(this, call, &args.with_receiver(this));
            }
            object_model::guard_identity(cx, &call, tracker);
        }
        // If `__call__` of the metaclass is a class, it is not a descriptor, so it is called without the receiver.
        let own = cpython::type_lookup(&class.get_type(), &PyString::intern(cx.py, "__call__"));
        if let Some(own) = own.filter(Bound::is_instance_of::<PyType>) {
            let of = self.type_tracker(cx, this);
            let tracker = cx.trace.trackers.add(Tracker::Lookup { of, name: "__call__".into() });
            let own = cx.trace.wrap(&own, tracker);
            return cx.call(own, args);
        }
        self.refuse_odd_metaclass(&cx.trace, &class)?;
        self.make(cx, this, args)
    }

    /// Simulates `type.__call__`.
    fn make(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
        let class = self.class(&cx.trace)?;
        let of = cx.trace.vars.tracker(this);
        // The lookup guards `__del__`, also its absence.
        object_model::lookup_in_type(cx, class.as_any(), of, &Rc::from("__del__"))?;
        if class.is_subclass(&cx.py.get_type::<PyBaseException>())? {
            refuse_finalizer(&class)?;
            if let Some(exception) = exception::instantiate(cx, this, &class, args)? {
                return Ok(exception);
            }
        }
        if !class.get_type().is(cx.py.get_type::<PyType>()) {
            let abstracts = object_model::lookup_in_type(cx, class.as_any(), of, &Rc::from("__abstractmethods__"))?;
            if let Some((abstracts, tracker)) = abstracts {
                object_model::guard_identity(cx, &abstracts, tracker);
            }
        }
        if let Some(made) = registered::call_class(cx, &class, args)? {
            return Ok(made);
        }
        self.make_by_new(cx, this, &class, args)
    }

    /// Simulates `__new__` of the class, and `__init__` behind it.
    fn make_by_new<'py>(
        &self,
        cx: &mut OpcodeExecutor<'py>,
        this: VarId,
        class: &Bound<'py, PyType>,
        args: &CallArgs,
    ) -> Flow<VarId> {
        let of = cx.trace.vars.tracker(this);
        let new = object_model::lookup_in_type(cx, class.as_any(), of, &Rc::from("__new__"))?;
        let default_new = cx.py.get_type::<PyAny>().getattr("__new__")?;
        if let Some((new, tracker)) = &new {
            object_model::guard_descriptor(cx, new, *tracker)?;
            if new.is_instance_of::<PyCFunction>() {
                object_model::guard_identity(cx, new, *tracker);
            }
        }
        match new {
            Some((new, _)) if new.is(&default_new) && is_abstract(class)? => {
                // CPython's own error names the abstract methods, or is about arguments, whatever they are.
                let has_arguments = !args.positional.is_empty() || !args.keywords.is_empty();
                let new = default_new.clone();
                cx.fold(|py| if has_arguments { new.call1((class, py.None())) } else { new.call1((class,)) })
            }
            Some((new, _)) if new.is(&default_new) && is_plain(class)? => {
                let instance = InstanceVariable::make(cx, this, class);
                initialize(cx, this, instance, args)?;
                Ok(instance)
            }
            Some((new, tracker)) if new.is_exact_instance_of::<PyFunction>() || is_static_function(&new) => {
                let (new, tracker) = if new.is_exact_instance_of::<PyFunction>() {
                    (new, tracker)
                } else {
                    let inner = new.getattr("__func__")?;
                    (inner, cx.trace.trackers.add(Tracker::Getattr { of: tracker, name: "__func__".into() }))
                };
                let new = cx.trace.wrap(&new, tracker);
                let instance = cx.call(new, &args.with_receiver(this))?;
                let made = cx.type_of(instance)?;
                if made.cast::<PyType>().is_ok_and(|made| cpython::is_subtype(made, class)) {
                    initialize(cx, this, instance, args)?;
                }
                Ok(instance)
            }
            Some((new, _)) if cx.runtime.builtins.has(&new) => {
                refuse_finalizer(class)?;
                let instance = cx.call_builtin(&new, &args.with_receiver(this), false)?;
                initialize(cx, this, instance, args)?;
                Ok(instance)
            }
            _ if numpy::is_value_type(class) => numpy::make(cx, class, args),
            _ if is_value_type(class.as_any()) || is_struct_sequence(class.as_any()) => {
                refuse_finalizer(class)?;
                decimal::of_context(cx, class.as_any(), |cx| cx.call_builtin(class.as_any(), args, true))
            }
            _ if stand_in::is_parameter_type(class) && is_in_text(cx) => {
                Err(Unwind::break_graph(ReasonId::UnsupportedCall, "a type parameter made by a text that is evaluated"))
            }
            _ if stand_in::is_parameter_type(class) => stand_in::call(cx, class.clone().into_any().unbind(), args),
            _ => {
                let name = tracker::name(class.as_any());
                Err(Unwind::break_graph(ReasonId::UnsupportedCall, format!("{name}(): instances are made by C code")))
            }
        }
    }

    fn refuse_odd_metaclass(&self, trace: &Trace<'_>, class: &Bound<'_, PyType>) -> Flow<()> {
        let default = trace.py.get_type::<PyType>().getattr("__call__")?;
        let call = cpython::type_lookup(&class.get_type(), &PyString::intern(trace.py, "__call__"));
        if call.is_some_and(|call| call.is(&default)) {
            return Ok(());
        }
        let name = tracker::name(class.as_any());
        Err(Unwind::break_graph(
            ReasonId::UnsupportedCall,
            format!("{name}(): its metaclass makes instances in its own way"),
        ))
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
        match cpython::builtin_type_name(&found) {
            "staticmethod" => {
                let inner = found.getattr("__func__")?;
                let tracker = cx.trace.trackers.add(Tracker::Getattr { of: tracker, name: "__func__".into() });
                Ok(cx.trace.wrap(&inner, tracker))
            }
            "classmethod" => object_model::bind_class_method(cx, this, &found, tracker),
            "classmethod_descriptor" | "getset_descriptor" | "member_descriptor" | "builtin_function_or_method" => {
                self.read(cx, this, name)
            }
            "function" | "property" | "method_descriptor" | "wrapper_descriptor" => Ok(cx.trace.wrap(&found, tracker)),
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

fn is_static_function(object: &Bound<'_, PyAny>) -> bool {
    cpython::builtin_type_name(object) == "staticmethod"
}

fn initialize(cx: &mut OpcodeExecutor<'_>, class: VarId, instance: VarId, args: &CallArgs) -> Flow<()> {
    let default = cx.py.get_type::<PyAny>().getattr("__init__")?;
    match object_model::lookup(cx, instance, &Rc::from("__init__"))? {
        Some((init, tracker)) if init.is(&default) => {
            object_model::guard_identity(cx, &init, tracker);
            // If the class has its own `__new__`, the arguments are for that.
            let ty = cx.type_of(instance)?;
            let own_new = !cpython::class_attr(&ty, "__new__")?.is(cx.py.get_type::<PyAny>().getattr("__new__")?);
            if own_new || (args.positional.is_empty() && args.keywords.is_empty()) {
                return Ok(());
            }
            let name = cx.type_name(instance)?;
            Err(cx.raise(pyo3::exceptions::PyTypeError::new_err(format!("{name}() takes no arguments"))))
        }
        Some((init, tracker)) => {
            let init = object_model::bind_descriptor(cx, instance, &Rc::from("__init__"), &init, tracker)?;
            cx.claims.claim_init(class, init, instance);
            let result = cx.call(init, args)?;
            let made = cx.type_name(result)?;
            if made == "NoneType" {
                return Ok(());
            }
            let text = format!("__init__() should return None, not '{made}'");
            Err(cx.raise(pyo3::exceptions::PyTypeError::new_err(text)))
        }
        None => Ok(()),
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

/// True if the frame evaluates source text, as `eval` does. Such a frame has no function that tells its module.
fn is_in_text(cx: &OpcodeExecutor<'_>) -> bool {
    cx.stack.frame().namespace.is_some() && cx.stack.frame().function.is_none()
}
