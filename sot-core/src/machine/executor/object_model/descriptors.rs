//! Binding of descriptors that a type holds: bound methods, properties, slots, and descriptors of the program.
//! Follows `Objects/descrobject.c` and `Objects/funcobject.c`.

use std::rc::Rc;

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyString, PyType};

use super::attributes::found_below;
use super::lookup::{guard_descriptor, guard_identity, type_variable};
use super::special_methods::call_special;
use crate::cpython::{self, DescriptorKind};
use crate::error::{Flow, ReasonId, Unwind};
use crate::guard::Test;
use crate::machine::executor::{CallArgs, Name, OpcodeExecutor, Trace};
use crate::machine::variable::VarId;
use crate::tracker::{Tracker, TrackerId};

/// Returns the value of a class attribute that is read through an instance.
pub fn bind_descriptor<'py>(
    cx: &mut OpcodeExecutor<'py>,
    this: VarId,
    name: &Name,
    descriptor: &Bound<'py, PyAny>,
    tracker: TrackerId,
) -> Flow<VarId> {
    let kind = DescriptorKind::of(descriptor);
    match kind {
        DescriptorKind::Function => {
            guard_descriptor(cx, descriptor, tracker)?;
            let function = cx.trace.wrap(descriptor, tracker);
            let payload = (cx.runtime.factories.method)(function, this);
            Ok(cx.trace.produce(payload))
        }
        DescriptorKind::Method | DescriptorKind::SlotWrapper => {
            guard_identity(cx, descriptor, tracker);
            if !is_of_type(&cx.trace, this, descriptor)? {
                let text = format!("method '{name}' of another class");
                return Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, text));
            }
            let payload = (cx.runtime.factories.builtin_method)(descriptor.clone().unbind(), this);
            Ok(cx.trace.produce(payload))
        }
        DescriptorKind::StaticMethod | DescriptorKind::InstanceMethod => {
            guard_identity(cx, descriptor, tracker);
            let inner = descriptor.getattr("__func__")?;
            let tracker = cx.trace.trackers.add(Tracker::Getattr { of: tracker, name: "__func__".into() });
            let function = cx.trace.wrap(&inner, tracker);
            if kind == DescriptorKind::StaticMethod {
                return Ok(function);
            }
            let payload = (cx.runtime.factories.method)(function, this);
            Ok(cx.trace.produce(payload))
        }
        DescriptorKind::CClassMethod => {
            let class = type_variable(cx, this)?;
            cx.get_attr(class, name)
        }
        DescriptorKind::ClassMethod => {
            guard_identity(cx, descriptor, tracker);
            let class = type_variable(cx, this)?;
            bind_class_method(cx, class, descriptor, tracker)
        }
        DescriptorKind::Property => {
            guard_identity(cx, descriptor, tracker);
            let getter = descriptor.getattr("fget")?;
            if getter.is_none() {
                return Err(property_error(cx, this, descriptor, "__get__"));
            }
            let tracker = cx.trace.trackers.add(Tracker::Getattr { of: tracker, name: "fget".into() });
            let getter = cx.trace.wrap(&getter, tracker);
            cx.call_instead_of(this, getter, &CallArgs::positional(vec![this]))
        }
        DescriptorKind::Member | DescriptorKind::Getset => {
            guard_identity(cx, descriptor, tracker);
            refuse_other_slot(&cx.trace, this, name, descriptor)?;
            let own = is_own_slot(descriptor, name)?;
            read_slot(cx, this, name, own)
        }
        _ => {
            guard_descriptor(cx, descriptor, tracker)?;
            if cpython::is_descriptor(descriptor) {
                return bind_user_descriptor(cx, this, descriptor, tracker);
            }
            Ok(cx.trace.wrap(descriptor, tracker))
        }
    }
}

/// Returns CPython's own error for a property without a getter, setter or deleter.
pub(super) fn property_error(
    cx: &mut OpcodeExecutor<'_>,
    this: VarId,
    property: &Bound<'_, PyAny>,
    hook: &str,
) -> Unwind {
    let payload = cx.trace.vars.get(this);
    let object = match payload.object() {
        Some(object) => Ok(object.bind(cx.py).clone()),
        None if payload.runs_when_dropped(&cx.trace) => {
            let text = "a property without that accessor, of an object whose destruction runs code";
            return Unwind::break_graph(ReasonId::UnsupportedAttribute, text);
        }
        None => cx.py.get_type::<PyAny>().call_method1("__new__", (payload.python_type(&cx.trace),)),
    };
    if object.is_err() {
        let text = "a property without that accessor, of an object that only C code makes";
        return Unwind::break_graph(ReasonId::UnsupportedAttribute, text);
    }
    let asked = object.and_then(|object| match hook {
        "__delete__" => property.call_method1(hook, (object,)),
        _ => property.call_method1(hook, (object, cx.py.None())),
    });
    let error = asked.err().unwrap_or_else(|| PyAttributeError::new_err("a property without that part"));
    cx.raise(error)
}

/// Binds a `classmethod` to a class.
pub fn bind_class_method<'py>(
    cx: &mut OpcodeExecutor<'py>,
    class: VarId,
    descriptor: &Bound<'py, PyAny>,
    tracker: TrackerId,
) -> Flow<VarId> {
    let inner = descriptor.getattr("__func__")?;
    let tracker = cx.trace.trackers.add(Tracker::Getattr { of: tracker, name: "__func__".into() });
    let function = cx.trace.wrap(&inner, tracker);
    if cpython::is_descriptor(&inner) && !inner.is_exact_instance_of::<PyFunction>() {
        // Whether CPython calls the inner descriptor depends on the version.
        let what = cpython::type_name(&inner.get_type());
        let refuse = || Unwind::break_graph(ReasonId::UnsupportedAttribute, format!("a class method around a {what}"));
        return cx.see(function)?.bind(cx, function, class)?.ok_or_else(refuse);
    }
    let payload = (cx.runtime.factories.method)(function, class);
    Ok(cx.trace.produce(payload))
}

fn bind_user_descriptor<'py>(
    cx: &mut OpcodeExecutor<'py>,
    this: VarId,
    descriptor: &Bound<'py, PyAny>,
    tracker: TrackerId,
) -> Flow<VarId> {
    if descriptor.is_instance_of::<PyType>() || cx.runtime.builtins.has(descriptor) {
        return Ok(cx.trace.wrap(descriptor, tracker));
    }
    let descriptor = cx.trace.wrap(descriptor, tracker);
    if let Some(bound) = cx.see(descriptor)?.bind(cx, descriptor, this)? {
        return Ok(bound);
    }
    let class = type_variable(cx, this)?;
    cx.claims.pass(this, descriptor);
    call_special(cx, descriptor, "__get__", &[this, class])
}

/// True if the descriptor was made by a class statement for the same name in its `__slots__`. No other attribute
/// shares its memory.
pub(super) fn is_own_slot(descriptor: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    Ok(DescriptorKind::of(descriptor) == DescriptorKind::Member
        && descriptor.getattr("__objclass__")?.getattr("__dict__")?.contains("__slots__")?
        && descriptor.getattr("__name__")?.eq(name)?)
}

/// Breaks the graph at a slot or C getter that was taken from another class, or that has another name.
pub(super) fn refuse_other_slot(trace: &Trace<'_>, this: VarId, name: &Name, slot: &Bound<'_, PyAny>) -> Flow<()> {
    if is_of_type(trace, this, slot)? && slot.getattr("__name__")?.eq(&**name)? {
        return Ok(());
    }
    let text = format!("attribute '{name}', which is a descriptor of another class or name");
    Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, text))
}

/// True if a C descriptor is for objects of the value's type.
fn is_of_type(trace: &Trace<'_>, this: VarId, descriptor: &Bound<'_, PyAny>) -> PyResult<bool> {
    let ty = trace.vars.get(this).python_type(trace);
    let owner = descriptor.getattr("__objclass__")?;
    Ok(match (ty.cast::<PyType>(), owner.cast::<PyType>()) {
        (Ok(ty), Ok(owner)) => cpython::is_subtype(ty, owner),
        _ => true,
    })
}

/// Reads a slot or C getter, which runs only C code. The result of a getter may depend on attributes that were
/// written under other names.
fn read_slot(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name, is_own_slot: bool) -> Flow<VarId> {
    if let Some(Some(written)) = cx.trace.effects.attribute(this, name) {
        return Ok(written);
    }
    let payload = cx.see(this)?;
    let of = cx.trace.vars.tracker(this);
    let emptied = cx.trace.effects.attribute(this, name) == Some(None);
    if emptied || payload.object().is_none() {
        if let Some(error) = empty_slot(&cx.trace, &payload.python_type(&cx.trace), name)? {
            return Err(cx.raise(error));
        }
    }
    let refuse =
        || Unwind::break_graph(ReasonId::UnsupportedAttribute, format!("attribute '{name}' is implemented in C"));
    let object = payload.object().ok_or_else(refuse)?.bind(cx.py).clone();
    let found_again = cx.trace.trackers.is_loadable(of) || cx.trace.trackers.is_made(of);
    // Of a function's attributes that are getters, only `__dict__` holds what is written under other names.
    let is_alone = is_own_slot || object.is_instance_of::<PyFunction>() && &**name != "__dict__";
    if !found_again || !is_alone && cx.trace.effects.is_written(this) {
        return Err(refuse());
    }
    // Not by the `__getattribute__` of the program, which has led here.
    let read = match payload.python_type(&cx.trace).cast::<PyType>() {
        Ok(ty) if cpython::is_heap_type(ty) && !cpython::uses_generic_getattr(ty) => {
            cx.py.get_type::<PyAny>().getattr("__getattribute__")?.call1((&object, &**name))
        }
        _ => object.getattr(&**name),
    };
    match read {
        Ok(value) => {
            let of = found_below(cx, this)?;
            let tracker = cx.trace.trackers.add(Tracker::Getattr { of, name: Rc::clone(name) });
            cx.trace.guards.require(tracker);
            Ok(cx.trace.wrap(&value, tracker))
        }
        Err(error) => {
            cx.trace.guards.add(of, Test::EmptySlot(Rc::clone(name)));
            Err(cx.raise(error))
        }
    }
}

/// Returns CPython's own error for an empty slot of a class statement, from a new object of the type.
fn empty_slot<'py>(trace: &Trace<'py>, ty: &Bound<'py, PyAny>, name: &Name) -> Flow<Option<PyErr>> {
    let Some(class) = ty.cast::<PyType>().ok().filter(|class| !cpython::has_finalizer(class)) else { return Ok(None) };
    let found = cpython::type_lookup(class, &PyString::intern(trace.py, name));
    let Some(slot) = found.filter(|found| DescriptorKind::of(found) == DescriptorKind::Member) else {
        return Ok(None);
    };
    let owner = slot.getattr("__objclass__")?;
    if !owner.cast::<PyType>().is_ok_and(cpython::is_heap_type) {
        return Ok(None);
    }
    let empty = trace.py.get_type::<PyAny>().call_method1("__new__", (ty,));
    Ok(empty.ok().and_then(|empty| slot.call_method1("__get__", (empty, ty)).err()))
}
