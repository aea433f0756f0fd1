//! Reading and writing attributes: descriptors of the type, the object's own `__dict__`, the hooks `__getattr__`,
//! `__getattribute__` and `__setattr__`. Follows `_PyObject_GenericGetAttrWithDict` and `slot_tp_getattr_hook`.

use std::rc::Rc;

use pyo3::exceptions::PyAttributeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFunction, PyString, PyType};

use super::descriptors::{bind_descriptor, is_own_slot, property_error, refuse_other_slot};
use super::lookup::{guard_descriptor, guard_identity, has_own_class, is_python_method, lookup, type_variable};
use super::special_methods::call_special;
use crate::cpython::{self, DescriptorKind, GetattrHook};
use crate::error::{Flow, ReasonId, Unwind};
use crate::guard::Test;
use crate::language::LANGUAGE;
use crate::machine::executor::{CallArgs, Name, OpcodeExecutor, Trace};
use crate::machine::variable::{Form, VarId};
use crate::tracker::{Key, Tracker, TrackerId};

/// `PyObject_GenericGetAttr`, and the `__getattr__` hook after it.
pub fn get_attr(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
    let payload = cx.see(this)?;
    let ty = payload.python_type(&cx.trace);
    let Ok(ty) = ty.cast::<PyType>().cloned() else { return Ok(None) };
    assume_own_reads(cx, this)?;
    match cpython::getattr_hook(&ty) {
        GetattrHook::Custom if is_python_method(cx, this, "__getattribute__")? => {
            own_get_attr(cx, this, name).map(Some)
        }
        GetattrHook::Custom if cpython::has_thread_local_attributes(&ty)? => generic_get_attr(cx, this, name),
        GetattrHook::Custom => Err(Unwind::break_graph(
            ReasonId::UnsupportedAttribute,
            format!(
                "attribute '{name}' of a {} object: its type has its own attribute lookup",
                cpython::type_name(&ty)
            ),
        )),
        GetattrHook::Generic => generic_get_attr(cx, this, name),
        GetattrHook::GetAttrHook => {
            let claim = cx.claims.take();
            let found = generic_get_attr(cx, this, name);
            if matches!(found, Ok(None)) {
                cx.claims.put_back(claim);
            }
            or_hook(cx, this, name, found)
        }
    }
}

/// Guards that reads of the object's attributes keep their rule: no `__getattribute__` or `__getattr__` is added.
pub fn assume_own_reads(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
    let payload = cx.see(this)?;
    let ty = payload.python_type(&cx.trace);
    let Some(ty) = ty.cast::<PyType>().ok().filter(|ty| cpython::is_heap_type(ty)) else { return Ok(()) };
    if cpython::uses_generic_getattr(ty) {
        let of = payload.type_tracker(cx, this);
        if !cx.trace.trackers.is_made(of) {
            cx.trace.guards.add(of, Test::PlainReads);
            return Ok(());
        }
        for base in ty.mro().iter() {
            let tracker = cx.trace.identities.of(&base).map(|base| cx.trace.vars.tracker(base));
            let heap = base.cast::<PyType>().is_ok_and(cpython::is_heap_type);
            if let Some(tracker) = tracker.filter(|tracker| heap && !cx.trace.trackers.is_made(*tracker)) {
                cx.trace.guards.add(tracker, Test::PlainReads);
            }
        }
    } else if let Some((hook, tracker)) = lookup(cx, this, &Rc::from("__getattribute__"))? {
        guard_identity(cx, &hook, tracker);
    }
    Ok(())
}

/// Returns the result of a lookup, or that of the `__getattr__` hook. The hook is also called where a descriptor has
/// raised `AttributeError`.
pub fn or_hook(
    cx: &mut OpcodeExecutor<'_>,
    this: VarId,
    name: &Name,
    found: Flow<Option<VarId>>,
) -> Flow<Option<VarId>> {
    match found {
        Ok(None) => {}
        Err(Unwind::Raise(exception)) if is_attribute_error(cx, exception)? => {}
        found => return found,
    }
    let text = cx.trace.string(name);
    call_special(cx, this, "__getattr__", &[text]).map(Some)
}

/// True if the exception is an `AttributeError`.
pub fn is_attribute_error(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> Flow<bool> {
    let class = cx.py.get_type::<PyAttributeError>();
    cx.is_of_class(exception, &class)
}

/// Looks an attribute up by the type's own `__getattribute__`, and then by the `__getattr__` hook.
pub fn own_get_attr(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<VarId> {
    let text = cx.trace.string(name);
    if is_python_method(cx, this, "__getattr__")? {
        cx.claims.take();
    }
    match call_special(cx, this, "__getattribute__", &[text]) {
        Err(Unwind::Raise(exception))
            if is_python_method(cx, this, "__getattr__")? && is_attribute_error(cx, exception)? =>
        {
            call_special(cx, this, "__getattr__", &[text])
        }
        other => other,
    }
}

/// Looks an attribute up without the `__getattr__` hook.
pub fn generic_get_attr(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
    if &**name == "__class__" && !has_own_class(cx, this)? {
        return type_variable(cx, this).map(Some);
    }
    let found = lookup(cx, this, name)?;
    if &**name == "__dict__" && found.as_ref().is_some_and(|(found, _)| is_getset(found)) {
        let payload = cx.see(this)?;
        if is_thread_local(cx, this)? {
            let text = "the __dict__ of a threading.local object";
            return Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, text));
        }
        if !matches!(payload.form(), Form::Class | Form::Module) {
            if let Some((found, _)) = &found {
                refuse_other_slot(&cx.trace, this, name, found)?;
            }
            return (cx.runtime.factories.instance_dict)(cx, this).map(Some);
        }
    }
    if let Some((descriptor, tracker)) = &found {
        if cpython::is_data_descriptor(descriptor) && cpython::is_descriptor(descriptor) {
            return bind_descriptor(cx, this, name, descriptor, *tracker).map(Some);
        }
    }
    if let Some(value) = instance_attr(cx, this, name)? {
        if let Some((hidden, tracker)) = &found {
            guard_descriptor(cx, hidden, *tracker)?;
        }
        return Ok(value);
    }
    match found {
        Some((descriptor, tracker)) => bind_descriptor(cx, this, name, &descriptor, tracker).map(Some),
        None => Ok(None),
    }
}

fn is_getset(object: &Bound<'_, PyAny>) -> bool {
    DescriptorKind::of(object).is_c_attribute()
}

/// Reads the object's own `__dict__`: `None` if the name is not there, `Some(None)` if the trace has deleted it.
#[allow(clippy::option_option, reason = "found, deleted and never there are three answers")]
fn instance_attr(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<Option<VarId>>> {
    if let Some(written) = cx.trace.effects.attribute(this, name) {
        return Ok(written.map(Some));
    }
    let payload = cx.see(this)?;
    let of = cx.trace.vars.tracker(this);
    let Some(object) = payload.object() else { return Ok(None) };
    let object = object.bind(cx.py).clone();
    if is_thread_local(cx, this)? {
        return thread_local_attr(cx, &object, of, name).map(|found| found.map(Some));
    }
    let Some(dict) = cpython::instance_dict(&object) else { return Ok(None) };
    refuse_aliased_dict(&mut cx.trace, this, &dict, true)?;
    let found_of = found_below(cx, this)?;
    if !cx.trace.trackers.is_loadable(of) {
        // The object was made while tracing, and only the trace has it, so there is nothing to guard.
        let Some(value) = dict.get_item(cpython::interned(cx.py, name))? else { return Ok(None) };
        let tracker = cx.trace.trackers.add(Tracker::Attribute { of: found_of, name: Rc::clone(name) });
        return Ok(Some(Some(cx.trace.wrap(&value, tracker))));
    }
    match dict.get_item(cpython::interned(cx.py, name))? {
        Some(value) => {
            let tracker = cx.trace.trackers.add(Tracker::Attribute { of: found_of, name: Rc::clone(name) });
            cx.trace.guards.require(tracker);
            Ok(Some(Some(cx.trace.wrap(&value, tracker))))
        }
        None => {
            cx.trace.guards.add(of, Test::LacksAttribute(Rc::clone(name)));
            Ok(None)
        }
    }
}

fn is_thread_local(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<bool> {
    let ty = cx.type_of(this)?;
    Ok(ty.cast::<PyType>().map_or(Ok(false), cpython::has_thread_local_attributes)?)
}

/// Reads an attribute that a `threading.local` object has in the current thread. The guards and the new code read
/// `__dict__` at each call, which gives the dict of the thread that they run in.
fn thread_local_attr<'py>(
    cx: &mut OpcodeExecutor<'py>,
    object: &Bound<'py, PyAny>,
    of: TrackerId,
    name: &Name,
) -> Flow<Option<VarId>> {
    if !cx.trace.trackers.is_loadable(of) {
        let text = format!("attribute '{name}' of a new threading.local object");
        return Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, text));
    }
    let dict = object.getattr(intern!(cx.py, "__dict__"))?.cast_into::<PyDict>().map_err(PyErr::from)?;
    let dict_tracker = cx.trace.trackers.add(Tracker::Getattr { of, name: Rc::from("__dict__") });
    let key = Key::Str(Rc::clone(name));
    match dict.get_item(cpython::interned(cx.py, name))? {
        Some(value) => {
            let tracker = cx.trace.trackers.add(Tracker::Item { of: dict_tracker, key });
            cx.trace.guards.require(tracker);
            Ok(Some(cx.trace.wrap(&value, tracker)))
        }
        None => {
            cx.trace.guards.add(dict_tracker, Test::LacksKey(key));
            Ok(None)
        }
    }
}

/// Returns the tracker from which the object's attributes are read. If the object's class has a `__getattribute__` in
/// Python, it is the tracker of the object seen as an instance of its builtin base class.
pub fn found_below(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<TrackerId> {
    let of = cx.trace.vars.tracker(this);
    let ty = cx.type_of(this)?;
    let asked = ty.cast::<PyType>().is_ok_and(has_python_getattribute);
    Ok(if asked { cx.trace.trackers.add(Tracker::AsBuiltinBase { of }) } else { of })
}

/// True if the type's `__getattribute__` is a Python function, which runs at each attribute read.
fn has_python_getattribute(ty: &Bound<'_, PyType>) -> bool {
    let found = || cpython::type_lookup(ty, intern!(ty.py(), "__getattribute__"));
    !cpython::uses_generic_getattr(ty) && found().is_some_and(|found| found.is_exact_instance_of::<PyFunction>())
}

/// Breaks the graph if the `__dict__` of the object is reached as a dict, too, or is that of another object, and is
/// written. The trace has only one record of attributes, which would miss such writes.
fn refuse_aliased_dict(trace: &mut Trace<'_>, this: VarId, dict: &Bound<'_, PyDict>, reads: bool) -> Flow<()> {
    let owner = trace.effects.owner_of_dict(dict);
    if owner.is_some_and(|owner| owner != this && (!reads || trace.effects.is_written(owner))) {
        let text = "an attribute of an object that shares its __dict__ with another one";
        return Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, text));
    }
    let met = trace.identities.of(dict.as_any());
    let met = met.filter(|met| !matches!(trace.vars.get(*met).form(), Form::InstanceDict | Form::Globals));
    let is_written = |met: VarId| {
        trace.effects.written().any(|written| trace.vars.owner_of_storage(written).unwrap_or(written) == met)
    };
    if met.is_some_and(|met| !reads || is_written(met)) {
        let text = "an attribute of an object whose __dict__ is reached as a dict, too";
        return Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, text));
    }
    if !reads {
        trace.effects.note_owner_of_dict(dict, this);
    }
    Ok(())
}

/// Breaks the graph at a dict that is the `__dict__` of an object to which the trace has written, but is reached in
/// another way.
pub(in crate::machine::executor) fn refuse_written_dict(
    trace: &Trace<'_>,
    dict: &Bound<'_, PyAny>,
    tracker: TrackerId,
) -> Flow<()> {
    let Ok(dict) = dict.cast::<PyDict>() else { return Ok(()) };
    let is_own = matches!(trace.trackers.get(tracker), Tracker::Getattr { name, .. } if &**name == "__dict__");
    let owner = trace.effects.owner_of_dict(dict).filter(|owner| trace.effects.is_written(*owner));
    if is_own || owner.is_none() {
        return Ok(());
    }
    let text = "a dict that is the __dict__ of an object whose attributes were written";
    Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, text))
}

/// `PyObject_GenericSetAttr`: setters of properties are inlined, all other writes are effects.
pub fn set_attr(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name, value: Option<VarId>) -> Flow<()> {
    let payload = cx.see(this)?;
    let ty = payload.python_type(&cx.trace);
    let refuse = |what: &str| {
        Unwind::break_graph(ReasonId::UnsupportedMutation, format!("writing attribute '{name}' of {what}"))
    };
    let Ok(ty) = ty.cast::<PyType>() else { return Err(refuse("an object without a type")) };
    let hook_name = if value.is_some() { "__setattr__" } else { "__delattr__" };
    let mut own_hook = false;
    if let Some((hook, tracker)) = lookup(cx, this, &Rc::from(hook_name))? {
        if DescriptorKind::of(&hook) == DescriptorKind::Function || is_another_slot(&hook, hook_name)? {
            let hook = cx.trace.wrap(&hook, tracker);
            let text = cx.trace.string(name);
            let args = [this, text].into_iter().chain(value).collect();
            return cx.call_instead_of(this, hook, &CallArgs::positional(args)).map(|_| ());
        }
        guard_identity(cx, &hook, tracker);
        own_hook = !hook.is(&cx.py.get_type::<PyAny>().getattr(hook_name)?);
    }
    // Attributes of a class are looked up in many places, and the class itself must handle their writes.
    let thread_local = own_hook && cpython::has_thread_local_attributes(ty)?;
    let plain = cpython::uses_generic_setattr(ty) || !own_hook || thread_local;
    if !plain
        || payload.form() == Form::Class
        || !(cpython::uses_generic_setattr(ty) || cpython::is_heap_type(ty) || thread_local)
    {
        return Err(refuse(&format!("a {} object", cpython::type_name(ty))));
    }
    generic_set_attr(cx, this, name, value)
}

/// True if a hook is a method of a C type that has another name there, as in `__setattr__ = dict.__setitem__`.
fn is_another_slot(hook: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    let in_c = DescriptorKind::of(hook).is_c_method();
    Ok(in_c && !hook.getattr("__name__")?.eq(name)?)
}

/// `object.__setattr__`
pub fn generic_set_attr(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name, value: Option<VarId>) -> Flow<()> {
    let in_type = lookup(cx, this, name)?;
    if let Some((descriptor, tracker)) = &in_type {
        if write_through(cx, this, name, value, (descriptor, *tracker))? {
            return Ok(());
        }
    }
    let is_slot = in_type.as_ref().is_some_and(|(found, _)| DescriptorKind::of(found) == DescriptorKind::Member);
    if !is_slot && !has_instance_dict(cx, this)? {
        return Err(unwritable(cx, this, name, in_type.is_some())?);
    }
    if value.is_none() && !is_deletable(cx, this, name, is_slot)? {
        let text = if is_slot || !LANGUAGE.names_misfits {
            name.to_string()
        } else {
            format!("'{}' object has no attribute '{name}'", cx.type_name(this)?)
        };
        return Err(cx.raise(PyAttributeError::new_err(text)));
    }
    if let Some(dict) = cx.see(this)?.object().and_then(|object| cpython::instance_dict(object.bind(cx.py))) {
        refuse_aliased_dict(&mut cx.trace, this, &dict, false)?;
    }
    record_attribute(cx, this, name, value)
}

/// Records that an attribute was set or deleted, and guards that the class gets no other `__setattr__` or
/// `__delattr__`: new code repeats the write with a statement unless the hook is the program's.
pub fn record_attribute(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name, value: Option<VarId>) -> Flow<()> {
    let hook = if value.is_some() { "__setattr__" } else { "__delattr__" };
    if let Some((hook, tracker)) = lookup(cx, this, &Rc::from(hook))? {
        guard_identity(cx, &hook, tracker);
    }
    cx.trace.effects.set_attribute(this, name, value);
    Ok(())
}

/// Writes through a property or a descriptor of the program that the type has under the name. Returns whether there
/// was one.
fn write_through<'py>(
    cx: &mut OpcodeExecutor<'py>,
    this: VarId,
    name: &Name,
    value: Option<VarId>,
    (descriptor, tracker): (&Bound<'py, PyAny>, TrackerId),
) -> Flow<bool> {
    guard_descriptor(cx, descriptor, tracker)?;
    let hook = if value.is_some() { "__set__" } else { "__delete__" };
    let args: Vec<VarId> = std::iter::once(this).chain(value).collect();
    if DescriptorKind::of(descriptor) == DescriptorKind::Property {
        guard_identity(cx, descriptor, tracker);
        let part = if value.is_some() { "fset" } else { "fdel" };
        let setter = descriptor.getattr(part)?;
        if setter.is_none() {
            return Err(property_error(cx, this, descriptor, hook));
        }
        let tracker = cx.trace.trackers.add(Tracker::Getattr { of: tracker, name: part.into() });
        let setter = cx.trace.wrap(&setter, tracker);
        return cx.call_instead_of(this, setter, &CallArgs::positional(args)).map(|_| true);
    }
    let own = cpython::type_lookup(&descriptor.get_type(), &PyString::intern(cx.py, hook));
    if own.is_some_and(|own| DescriptorKind::of(&own) == DescriptorKind::Function) {
        let descriptor = cx.trace.wrap(descriptor, tracker);
        cx.claims.pass(this, descriptor);
        return call_special(cx, descriptor, hook, &args).map(|_| true);
    }
    if let Some(class) = value.filter(|_| &**name == "__class__" && is_class_of_object(descriptor)) {
        let payload = cx.see(this)?;
        return payload.set_class(cx, this, class).map(|()| true);
    }
    // The value of a slot from a class statement is known. A value that C code keeps is not.
    let is_slot = is_own_slot(descriptor, name)?;
    if is_slot {
        refuse_other_slot(&cx.trace, this, name, descriptor)?;
    }
    if cpython::is_data_descriptor(descriptor) && !is_slot {
        return Err(Unwind::break_graph(
            ReasonId::UnsupportedMutation,
            format!("attribute '{name}' is written through a {}", cpython::type_name(&descriptor.get_type())),
        ));
    }
    Ok(false)
}

/// True if the descriptor is `object.__dict__['__class__']`.
fn is_class_of_object(descriptor: &Bound<'_, PyAny>) -> bool {
    let object = descriptor.py().get_type::<PyAny>();
    let own = cpython::type_lookup(&object, &PyString::intern(descriptor.py(), "__class__"));
    own.is_some_and(|own| own.is(descriptor))
}

fn has_instance_dict(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<bool> {
    let payload = cx.see(this)?;
    Ok(match payload.object() {
        Some(object) => cpython::instance_dict(object.bind(cx.py)).is_some() || is_thread_local(cx, this)?,
        None => cpython::class_attr(&payload.python_type(&cx.trace), "__dictoffset__")?.extract::<isize>()? != 0,
    })
}

fn unwritable(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name, in_type: bool) -> Flow<Unwind> {
    let owner = cx.type_name(this)?;
    let text = match in_type {
        true => format!("'{owner}' object attribute '{name}' is read-only"),
        false if !LANGUAGE.tells_of_missing_dicts => format!("'{owner}' object has no attribute '{name}'"),
        false => format!("'{owner}' object has no attribute '{name}' and no __dict__ for setting new attributes"),
    };
    Ok(cx.raise(PyAttributeError::new_err(text)))
}

fn is_deletable(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name, is_slot: bool) -> Flow<bool> {
    if !is_slot && cx.see(this)?.form() != Form::Class {
        return Ok(instance_attr(cx, this, name)?.flatten().is_some());
    }
    match generic_get_attr(cx, this, name) {
        Err(Unwind::Raise(_)) if is_slot => Ok(false),
        found => Ok(found?.is_some()),
    }
}
