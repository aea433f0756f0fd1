//! Instantiation: a call of a class, `type.__call__`, `object.__new__`, and `__init__` behind it.

use std::rc::Rc;

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyFunction, PyString, PyType, PyTypeMethods};
use sot_core::builtin;
use sot_core::cpython::{self, DescriptorKind};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, OpcodeExecutor, Trace};
use sot_core::tracker::{self, Tracker, TrackerId};
use sot_core::variable::{VarId, Variable};

use crate::classes::decimal;
use crate::classes::exception;
use crate::classes::instance::InstanceVariable;
use crate::classes::object::{is_struct_sequence, is_value_type};
use crate::classes::stand_in;
use crate::containers::registered;
use crate::numpy;

use super::ClassVariable;

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
pub(super) fn is_plain(class: &Bound<'_, PyType>) -> PyResult<bool> {
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

impl ClassVariable {
    /// Instantiates the class as a call of it does, including `__call__` of the metaclass.
    pub(super) fn instantiate(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
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
                make_by_function(cx, (this, class), (new, tracker), args)
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
}

/// Simulates a `__new__` written in Python, and `__init__` if the result is an instance of the class.
fn make_by_function<'py>(
    cx: &mut OpcodeExecutor<'py>,
    (this, class): (VarId, &Bound<'py, PyType>),
    (new, tracker): (Bound<'py, PyAny>, TrackerId),
    args: &CallArgs,
) -> Flow<VarId> {
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

fn is_static_function(object: &Bound<'_, PyAny>) -> bool {
    DescriptorKind::of(object) == DescriptorKind::StaticMethod
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

/// True if the frame evaluates source text, as `eval` does. Such a frame has no function that tells its module.
fn is_in_text(cx: &OpcodeExecutor<'_>) -> bool {
    cx.stack.frame().namespace.is_some() && cx.stack.frame().function.is_none()
}
