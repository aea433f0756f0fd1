//! CPython's object model for values no kind has special rules for: attribute lookup through the type's method resolution
//! order and descriptors, special methods, truth, equality. Follows `Objects/object.c` and `Objects/typeobject.c`; runs no
//! Python code, but follows it.

use std::rc::Rc;

use pyo3::exceptions::{PyAttributeError, PyStopIteration, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyFloatMethods, PyFunction, PyInt, PySlice, PyString, PyType};

use super::{BinaryOp, CallArgs, CompareOp, Name, OpcodeExecutor};
use crate::cpython::{self, GetattrHook};
use crate::error::{Flow, ReasonId, Unwind};
use crate::guard::{Identity, Test};
use crate::resume::Answer;
use crate::tracker::{repr, Tracker, TrackerId};
use crate::variable::{GraphArgument, VarId};

/// What the type's method resolution order holds under a name, with the guard that it stays so.
pub fn lookup<'py>(
    cx: &mut OpcodeExecutor<'py>,
    object: VarId,
    name: &Name,
) -> Flow<Option<(Bound<'py, PyAny>, TrackerId)>> {
    let payload = cx.see(object)?;
    let ty = payload.python_type(cx);
    let of = payload.type_tracker(cx, object);
    lookup_in_type(cx, &ty, of, name)
}

/// What a type's method resolution order holds under a name; `of` is where the type comes from.
pub fn lookup_in_type<'py>(
    cx: &mut OpcodeExecutor<'py>,
    ty: &Bound<'py, PyAny>,
    of: TrackerId,
    name: &Name,
) -> Flow<Option<(Bound<'py, PyAny>, TrackerId)>> {
    let Ok(ty) = ty.cast::<PyType>() else { return Ok(None) };
    let key = PyString::intern(cx.py, name);
    if cx.trackers.is_made(of) && cpython::is_heap_type(ty) {
        return lookup_in_made(cx, ty, of, name);
    }
    // Types that are not heap types cannot change.
    let fixed = !cpython::is_heap_type(ty);
    match cpython::type_lookup(ty, &key) {
        Some(found) if fixed => {
            let tracker = cx.constant_tracker(found.clone().unbind());
            Ok(Some((found, tracker)))
        }
        Some(found) => {
            let tracker = cx.trackers.add(Tracker::Lookup { of, name: Rc::clone(name) });
            Ok(Some((found, tracker)))
        }
        None => {
            if !fixed {
                cx.guards.add(of, Test::LacksLookup(Rc::clone(name)));
            }
            Ok(None)
        }
    }
}

/// What the method resolution order of a class made in the trace holds under a name: its own part is known, what its bases
/// from outside hold is assumed to stay.
fn lookup_in_made<'py>(
    cx: &mut OpcodeExecutor<'py>,
    ty: &Bound<'py, PyType>,
    of: TrackerId,
    name: &Name,
) -> Flow<Option<(Bound<'py, PyAny>, TrackerId)>> {
    let found = cpython::type_lookup(ty, &PyString::intern(cx.py, name));
    for base in ty.mro().iter() {
        let Some(tracker) = cx.met(&base).map(|base| cx.vars.tracker(base)) else { continue };
        if cx.trackers.is_made(tracker) {
            if cpython::class_dict(&base)?.contains(&**name)? {
                break;
            }
        } else if base.cast::<PyType>().is_ok_and(cpython::is_heap_type) {
            match lookup_in_type(cx, &base, tracker, name)? {
                Some((held, tracker)) if found.as_ref().is_some_and(|found| held.is(found)) => {
                    return Ok(Some((held, tracker)));
                }
                Some((other, tracker)) => guard_identity(cx, &other, tracker),
                None => {}
            }
        }
    }
    let tracker = cx.trackers.add(Tracker::Lookup { of, name: Rc::clone(name) });
    Ok(found.map(|found| (found, tracker)))
}

/// What a class (not its metaclass) holds under a name, unbound.
pub fn lookup_in_class<'py>(
    cx: &mut OpcodeExecutor<'py>,
    class: VarId,
    name: &Name,
) -> Flow<Option<Bound<'py, PyAny>>> {
    let of = cx.vars.tracker(class);
    let Some(object) = cx.see(class)?.object().map(|object| object.bind(cx.py).clone()) else { return Ok(None) };
    Ok(lookup_in_type(cx, &object, of, name)?.map(|(found, _)| found))
}

/// `PyObject_GenericGetAttr`, and the `__getattr__` hook after it.
pub fn get_attr(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
    let payload = cx.see(this)?;
    let ty = payload.python_type(cx);
    let Ok(ty) = ty.cast::<PyType>().cloned() else { return Ok(None) };
    assume_own_reads(cx, this)?;
    match cpython::getattr_hook(&ty) {
        GetattrHook::Custom if is_python_method(cx, this, "__getattribute__")? => {
            own_get_attr(cx, this, name).map(Some)
        }
        GetattrHook::Custom => Err(Unwind::break_graph(
            ReasonId::UnsupportedAttribute,
            format!(
                "attribute '{name}' of a {} object: its type has its own attribute lookup",
                cpython::type_name(&ty)
            ),
        )),
        GetattrHook::Generic => generic_get_attr(cx, this, name),
        GetattrHook::GetAttrHook => {
            let claim = cx.unclaim();
            let found = generic_get_attr(cx, this, name);
            if matches!(found, Ok(None)) {
                cx.claim_again(claim);
            }
            or_hook(cx, this, name, found)
        }
    }
}

/// Attribute reads go on being made as they are: no `__getattribute__` or `__getattr__` comes.
pub fn assume_own_reads(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
    let payload = cx.see(this)?;
    let ty = payload.python_type(cx);
    let Some(ty) = ty.cast::<PyType>().ok().filter(|ty| cpython::is_heap_type(ty)) else { return Ok(()) };
    if cpython::uses_generic_getattr(ty) {
        let of = payload.type_tracker(cx, this);
        if !cx.trackers.is_made(of) {
            cx.guards.add(of, Test::PlainReads);
            return Ok(());
        }
        for base in ty.mro().iter() {
            let tracker = cx.met(&base).map(|base| cx.vars.tracker(base));
            let heap = base.cast::<PyType>().is_ok_and(cpython::is_heap_type);
            if let Some(tracker) = tracker.filter(|tracker| heap && !cx.trackers.is_made(*tracker)) {
                cx.guards.add(tracker, Test::PlainReads);
            }
        }
    } else if let Some((hook, tracker)) = lookup(cx, this, &Rc::from("__getattribute__"))? {
        guard_identity(cx, &hook, tracker);
    }
    Ok(())
}

/// Whether a type's method of that name is a function of Python's.
pub fn is_python_method(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &str) -> Flow<bool> {
    let found = lookup(cx, this, &Rc::from(name))?;
    Ok(found.is_some_and(|(found, _)| cpython::builtin_type_name(&found) == "function"))
}

/// What a lookup has found, or the answer of the `__getattr__` hook: it is asked, too, where a descriptor raises an
/// `AttributeError`.
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
    let text = cx.string(name);
    call_special(cx, this, "__getattr__", &[text]).map(Some)
}

fn is_attribute_error(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> Flow<bool> {
    let (ty, base) = (cx.type_of(exception)?, cx.py.get_type::<PyAttributeError>());
    Ok(ty.cast::<PyType>().is_ok_and(|ty| cpython::is_subtype(ty, &base)))
}

/// Attribute lookup through the type's own `__getattribute__`, and the `__getattr__` hook after it.
pub fn own_get_attr(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<VarId> {
    let text = cx.string(name);
    if is_python_method(cx, this, "__getattr__")? {
        cx.unclaim();
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

/// Attribute lookup without the `__getattr__` hook.
pub fn generic_get_attr(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
    if &**name == "__class__" && !has_own_class(cx, this)? {
        return type_variable(cx, this).map(Some);
    }
    let found = lookup(cx, this, name)?;
    if &**name == "__dict__" && found.as_ref().is_some_and(|(found, _)| is_getset(found)) {
        let payload = cx.see(this)?;
        if !matches!(payload.kind(), "class" | "module") {
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

/// Whether `x.__class__` need not be the type of `x`: its type says something of its own.
pub fn has_own_class(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<bool> {
    let ty = cx.type_of(this)?;
    let Ok(ty) = ty.cast::<PyType>() else { return Ok(false) };
    if !cpython::is_heap_type(ty) {
        return Ok(false);
    }
    let usual = cx.py.get_type::<PyAny>().getattr("__dict__")?.get_item("__class__")?;
    let found = cpython::type_lookup(ty, &PyString::intern(cx.py, "__class__"));
    Ok(!found.is_some_and(|found| found.is(&usual)) || is_python_method(cx, this, "__getattribute__")?)
}

fn is_getset(object: &Bound<'_, PyAny>) -> bool {
    matches!(&*cpython::builtin_type_name(object), "getset_descriptor" | "member_descriptor")
}

/// The variable of `type(x)`.
pub fn type_variable(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
    let payload = cx.see_type(this)?;
    let ty = payload.python_type(cx);
    let tracker = payload.type_tracker(cx, this);
    Ok(cx.wrap(&ty, tracker))
}

/// What the object's own `__dict__` holds: `None` not there, `Some(None)` deleted in the trace.
#[allow(clippy::option_option, reason = "found, deleted and never there are three answers")]
fn instance_attr(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<Option<VarId>>> {
    if let Some(written) = cx.effects.attribute(this, name) {
        return Ok(written.map(Some));
    }
    let payload = cx.see(this)?;
    let of = cx.vars.tracker(this);
    let Some(object) = payload.object() else { return Ok(None) };
    let object = object.bind(cx.py).clone();
    let Some(dict) = cpython::instance_dict(&object) else { return Ok(None) };
    refuse_two_roads(cx, &dict, true)?;
    if !cx.trackers.is_loadable(of) {
        // An object made while tracing, which the trace alone has: nothing to guard.
        let Some(value) = dict.get_item(PyString::intern(cx.py, name))? else { return Ok(None) };
        let tracker = cx.trackers.add(Tracker::Attribute { of, name: Rc::clone(name) });
        return Ok(Some(Some(cx.wrap(&value, tracker))));
    }
    match dict.get_item(PyString::intern(cx.py, name))? {
        Some(value) => {
            let tracker = cx.trackers.add(Tracker::Attribute { of, name: Rc::clone(name) });
            cx.guards.require(tracker);
            Ok(Some(Some(cx.wrap(&value, tracker))))
        }
        None => {
            cx.guards.add(of, Test::LacksAttribute(Rc::clone(name)));
            Ok(None)
        }
    }
}

/// There is one truth about attributes, but not where the `__dict__` of an object is reached as a dict, too, and written.
fn refuse_two_roads(cx: &OpcodeExecutor<'_>, dict: &Bound<'_, PyDict>, reads: bool) -> Flow<()> {
    let Some(met) = cx.met(dict.as_any()).filter(|met| matches!(cx.vars.get(*met).kind(), "dict" | "lazy")) else {
        return Ok(());
    };
    if reads && !cx.effects.written().any(|written| written == met) {
        return Ok(());
    }
    let text = "an attribute of an object whose __dict__ is reached as a dict, too";
    Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, text))
}

/// What reading a class attribute through an instance gives.
pub fn bind_descriptor<'py>(
    cx: &mut OpcodeExecutor<'py>,
    this: VarId,
    name: &Name,
    descriptor: &Bound<'py, PyAny>,
    tracker: TrackerId,
) -> Flow<VarId> {
    let kind = cpython::builtin_type_name(descriptor);
    match kind.as_str() {
        "function" => {
            guard_descriptor(cx, descriptor, tracker)?;
            let function = cx.wrap(descriptor, tracker);
            let payload = (cx.runtime.factories.method)(function, this);
            Ok(cx.produce(payload))
        }
        "method_descriptor" | "wrapper_descriptor" => {
            guard_identity(cx, descriptor, tracker);
            let payload = (cx.runtime.factories.builtin_method)(descriptor.clone().unbind(), this);
            Ok(cx.produce(payload))
        }
        "staticmethod" => {
            guard_identity(cx, descriptor, tracker);
            let inner = descriptor.getattr("__func__")?;
            let tracker = cx.trackers.add(Tracker::Getattr { of: tracker, name: "__func__".into() });
            Ok(cx.wrap(&inner, tracker))
        }
        "classmethod_descriptor" => {
            let class = type_variable(cx, this)?;
            cx.get_attr(class, name)
        }
        "classmethod" => {
            guard_identity(cx, descriptor, tracker);
            let class = type_variable(cx, this)?;
            bind_class_method(cx, class, descriptor, tracker)
        }
        "property" => {
            guard_identity(cx, descriptor, tracker);
            let getter = descriptor.getattr("fget")?;
            if getter.is_none() {
                return Err(property_error(cx, this, descriptor, "__get__"));
            }
            let tracker = cx.trackers.add(Tracker::Getattr { of: tracker, name: "fget".into() });
            let getter = cx.wrap(&getter, tracker);
            cx.call_instead_of(this, getter, &CallArgs::positional(vec![this]))
        }
        "member_descriptor" | "getset_descriptor" => {
            guard_identity(cx, descriptor, tracker);
            read_slot(cx, this, name)
        }
        _ => {
            guard_descriptor(cx, descriptor, tracker)?;
            if cpython::is_descriptor(descriptor) {
                return bind_user_descriptor(cx, this, descriptor, tracker);
            }
            Ok(cx.wrap(descriptor, tracker))
        }
    }
}

/// CPython's own error for a property without that part.
fn property_error(cx: &mut OpcodeExecutor<'_>, this: VarId, property: &Bound<'_, PyAny>, hook: &str) -> Unwind {
    let payload = cx.vars.get(this);
    let object = match payload.object() {
        Some(object) => Ok(object.bind(cx.py).clone()),
        None => cx.py.get_type::<PyAny>().call_method1("__new__", (payload.python_type(cx),)),
    };
    let asked = object.and_then(|object| match hook {
        "__delete__" => property.call_method1(hook, (object,)),
        _ => property.call_method1(hook, (object, cx.py.None())),
    });
    let error = asked.err().unwrap_or_else(|| PyAttributeError::new_err("a property without that part"));
    cx.raise(error)
}

/// What a `classmethod` gives for a class.
pub fn bind_class_method<'py>(
    cx: &mut OpcodeExecutor<'py>,
    class: VarId,
    descriptor: &Bound<'py, PyAny>,
    tracker: TrackerId,
) -> Flow<VarId> {
    let inner = descriptor.getattr("__func__")?;
    if cpython::is_descriptor(&inner) && !inner.is_exact_instance_of::<PyFunction>() {
        // Whether that is asked in turn depends on the version.
        let what = cpython::type_name(&inner.get_type());
        return Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, format!("a class method around a {what}")));
    }
    let tracker = cx.trackers.add(Tracker::Getattr { of: tracker, name: "__func__".into() });
    let function = cx.wrap(&inner, tracker);
    let payload = (cx.runtime.factories.method)(function, class);
    Ok(cx.produce(payload))
}

fn bind_user_descriptor<'py>(
    cx: &mut OpcodeExecutor<'py>,
    this: VarId,
    descriptor: &Bound<'py, PyAny>,
    tracker: TrackerId,
) -> Flow<VarId> {
    if descriptor.is_instance_of::<PyType>() || cx.runtime.builtins.get(descriptor).is_some() {
        return Ok(cx.wrap(descriptor, tracker));
    }
    let descriptor = cx.wrap(descriptor, tracker);
    if let Some(bound) = cx.see(descriptor)?.bind(cx, descriptor, this)? {
        return Ok(bound);
    }
    let class = type_variable(cx, this)?;
    cx.pass_claim(this, descriptor);
    call_special(cx, descriptor, "__get__", &[this, class])
}

/// A slot or a C getter: C code reads it, nothing else runs.
fn read_slot(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<VarId> {
    if let Some(Some(written)) = cx.effects.attribute(this, name) {
        return Ok(written);
    }
    let payload = cx.see(this)?;
    let of = cx.vars.tracker(this);
    let emptied = cx.effects.attribute(this, name) == Some(None);
    if emptied || payload.object().is_none() {
        if let Some(error) = empty_slot(cx, &payload.python_type(cx), name)? {
            return Err(cx.raise(error));
        }
    }
    let refuse =
        || Unwind::break_graph(ReasonId::UnsupportedAttribute, format!("attribute '{name}' is served by C code"));
    let object = payload.object().ok_or_else(refuse)?.bind(cx.py).clone();
    let found_again = cx.trackers.is_loadable(of) || cx.trackers.is_made(of);
    if !found_again || cx.effects.is_written(this) {
        return Err(refuse());
    }
    match object.getattr(&**name) {
        Ok(value) => {
            let tracker = cx.trackers.add(Tracker::Getattr { of, name: Rc::clone(name) });
            cx.guards.require(tracker);
            Ok(cx.wrap(&value, tracker))
        }
        Err(error) => {
            cx.guards.add(of, Test::EmptySlot(Rc::clone(name)));
            Err(cx.raise(error))
        }
    }
}

/// The error for a slot of a class statement that holds nothing: CPython's own, for a new object of the type.
fn empty_slot<'py>(cx: &OpcodeExecutor<'py>, ty: &Bound<'py, PyAny>, name: &Name) -> Flow<Option<PyErr>> {
    let Ok(class) = ty.cast::<PyType>() else { return Ok(None) };
    let found = cpython::type_lookup(class, &PyString::intern(cx.py, name));
    let Some(slot) = found.filter(|found| cpython::builtin_type_name(found) == "member_descriptor") else {
        return Ok(None);
    };
    let owner = slot.getattr("__objclass__")?;
    if !owner.cast::<PyType>().is_ok_and(cpython::is_heap_type) {
        return Ok(None);
    }
    let empty = cx.py.get_type::<PyAny>().call_method1("__new__", (ty,));
    Ok(empty.ok().and_then(|empty| slot.call_method1("__get__", (empty, ty)).err()))
}

/// What a class holds stays of its type, and the type as much of a descriptor as it is.
pub fn guard_descriptor<'py>(cx: &mut OpcodeExecutor<'py>, found: &Bound<'py, PyAny>, tracker: TrackerId) -> Flow<()> {
    if !cx.trackers.is_sourced(tracker) {
        return Ok(());
    }
    let ty = found.get_type();
    cx.guards.add(tracker, Test::TypeIs(Identity::of(ty.as_any())));
    if cpython::is_heap_type(&ty) {
        let of = cx.trackers.add(Tracker::Type { of: tracker });
        for hook in ["__get__", "__set__", "__delete__"] {
            if let Some((hook, tracker)) = lookup_in_type(cx, ty.as_any(), of, &Rc::from(hook))? {
                guard_identity(cx, &hook, tracker);
            }
        }
    }
    Ok(())
}

/// The value stays the very object that it is.
pub fn guard_identity(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, tracker: TrackerId) {
    if cx.trackers.is_sourced(tracker) {
        cx.guards.add(tracker, Test::Is(Identity::of(object)));
    }
}

/// `PyObject_GenericSetAttr`: properties are followed, everything else is a write to replay.
pub fn set_attr(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name, value: Option<VarId>) -> Flow<()> {
    let payload = cx.see(this)?;
    let ty = payload.python_type(cx);
    let refuse = |what: &str| {
        Unwind::break_graph(ReasonId::UnsupportedMutation, format!("writing attribute '{name}' of {what}"))
    };
    let Ok(ty) = ty.cast::<PyType>() else { return Err(refuse("an object without a type")) };
    let hook_name = if value.is_some() { "__setattr__" } else { "__delattr__" };
    let mut own_hook = false;
    if let Some((hook, tracker)) = lookup(cx, this, &Rc::from(hook_name))? {
        if cpython::builtin_type_name(&hook) == "function" {
            let hook = cx.wrap(&hook, tracker);
            let text = cx.string(name);
            let args = [this, text].into_iter().chain(value).collect();
            return cx.call_instead_of(this, hook, &CallArgs::positional(args)).map(|_| ());
        }
        guard_identity(cx, &hook, tracker);
        own_hook = !hook.is(&cx.py.get_type::<PyAny>().getattr(hook_name)?);
    }
    // A class has C code for this, whose writes are replayed by itself; another method of C code's in that place is not known.
    let plain = cpython::uses_generic_setattr(ty) || !own_hook || payload.kind() == "class";
    if !plain || !(cpython::uses_generic_setattr(ty) || cpython::is_heap_type(ty)) {
        return Err(refuse(&format!("a {} object", cpython::type_name(ty))));
    }
    generic_set_attr(cx, this, name, value)
}

/// `object.__setattr__`
pub fn generic_set_attr(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name, value: Option<VarId>) -> Flow<()> {
    if let Some((descriptor, tracker)) = lookup(cx, this, name)? {
        let kind = cpython::builtin_type_name(&descriptor);
        guard_descriptor(cx, &descriptor, tracker)?;
        if kind == "property" {
            guard_identity(cx, &descriptor, tracker);
            let part = if value.is_some() { "fset" } else { "fdel" };
            let setter = descriptor.getattr(part)?;
            if setter.is_none() {
                let hook = if value.is_some() { "__set__" } else { "__delete__" };
                return Err(property_error(cx, this, &descriptor, hook));
            }
            let tracker = cx.trackers.add(Tracker::Getattr { of: tracker, name: part.into() });
            let setter = cx.wrap(&setter, tracker);
            let args = std::iter::once(this).chain(value).collect();
            return cx.call_instead_of(this, setter, &CallArgs::positional(args)).map(|_| ());
        }
        let hook = if value.is_some() { "__set__" } else { "__delete__" };
        let own = cpython::type_lookup(&descriptor.get_type(), &PyString::intern(cx.py, hook));
        if own.is_some_and(|own| cpython::builtin_type_name(&own) == "function") {
            let descriptor = cx.wrap(&descriptor, tracker);
            let args: Vec<VarId> = std::iter::once(this).chain(value).collect();
            cx.pass_claim(this, descriptor);
            return call_special(cx, descriptor, hook, &args).map(|_| ());
        }
        // What a slot of a class statement holds is known; what C code keeps is not.
        let is_slot = kind == "member_descriptor"
            && descriptor.getattr("__objclass__")?.getattr("__dict__")?.contains("__slots__")?;
        if cpython::is_data_descriptor(&descriptor) && !is_slot {
            return Err(Unwind::break_graph(
                ReasonId::UnsupportedMutation,
                format!("attribute '{name}' is written through a {}", cpython::type_name(&descriptor.get_type())),
            ));
        }
    }
    let payload = cx.see(this)?;
    let holds = match payload.object() {
        Some(object) => cpython::instance_dict(object.bind(cx.py)).is_some(),
        None => cpython::class_attr(&payload.python_type(cx), "__dictoffset__")?.extract::<isize>()? != 0,
    };
    let in_type = lookup(cx, this, name)?;
    let is_slot = in_type.as_ref().is_some_and(|(found, _)| cpython::builtin_type_name(found) == "member_descriptor");
    if !holds && !is_slot {
        let owner = cx.type_name(this)?;
        let text = match in_type {
            Some(_) => format!("'{owner}' object attribute '{name}' is read-only"),
            None if cx.runtime.version.0 < 13 => format!("'{owner}' object has no attribute '{name}'"),
            None => format!("'{owner}' object has no attribute '{name}' and no __dict__ for setting new attributes"),
        };
        return Err(cx.raise(PyAttributeError::new_err(text)));
    }
    let is_there = match value {
        Some(_) => true,
        None if is_slot || payload.kind() == "class" => generic_get_attr(cx, this, name)?.is_some(),
        None => instance_attr(cx, this, name)?.flatten().is_some(),
    };
    if !is_there {
        let text = if is_slot || cx.runtime.version.0 < 11 {
            name.to_string()
        } else {
            format!("'{}' object has no attribute '{name}'", cx.type_name(this)?)
        };
        return Err(cx.raise(PyAttributeError::new_err(text)));
    }
    if let Some(dict) = cx.see(this)?.object().and_then(|object| cpython::instance_dict(object.bind(cx.py))) {
        refuse_two_roads(cx, &dict, false)?;
    }
    cx.effects.set_attribute(this, name, value);
    Ok(())
}

/// A special method, looked up on the type and bound.
pub fn find_special(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
    // Binding may be the call of a function, too; it is not the one the instruction makes.
    let claim = cx.unclaim();
    let found = find_bound(cx, this, name)?;
    cx.claim_again(claim);
    Ok(found)
}

fn find_bound(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
    if let Some(method) = cx.see(this)?.special(cx, this, name)? {
        return Ok(Some(method));
    }
    match lookup(cx, this, name)? {
        Some((descriptor, tracker)) if descriptor.is_none() => {
            guard_identity(cx, &descriptor, tracker);
            Ok(None)
        }
        Some((descriptor, tracker)) => bind_descriptor(cx, this, name, &descriptor, tracker).map(Some),
        None => Ok(None),
    }
}

/// Whether the type has a special method; a descriptor is not asked for it.
pub fn has_special(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &str) -> Flow<bool> {
    let name = Rc::from(name);
    if cx.see(this)?.special(cx, this, &name)?.is_some() {
        return Ok(true);
    }
    let Some((descriptor, tracker)) = lookup(cx, this, &name)? else { return Ok(false) };
    if descriptor.is_none() {
        guard_identity(cx, &descriptor, tracker);
    } else {
        guard_descriptor(cx, &descriptor, tracker)?;
    }
    Ok(!descriptor.is_none())
}

/// Calls a special method; a type without it is the user's `TypeError`.
pub fn call_special(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &str, args: &[VarId]) -> Flow<VarId> {
    match find_special(cx, this, &Rc::from(name))? {
        Some(method) => cx.call_instead_of(this, method, &CallArgs::positional(args.to_vec())),
        None => {
            if let Some(error) = item_write_error(cx, this, name, args)? {
                return Err(cx.raise(error));
            }
            let owner = cx.type_name(this)?;
            let refused = lookup(cx, this, &Rc::from(name))?.is_some_and(|(found, _)| found.is_none());
            let what = match name {
                _ if refused && !matches!(name, "__iter__" | "__hash__") => {
                    "'NoneType' object is not callable".to_owned()
                }
                "__iter__" => format!("'{owner}' object is not iterable"),
                "__getitem__" => format!("'{owner}' object is not subscriptable"),
                "__len__" => format!("object of type '{owner}' has no len()"),
                "__setitem__" => format!("'{owner}' object does not support item assignment"),
                "__delitem__" => format!("'{owner}' object doesn't support item deletion"),
                "__call__" => format!("'{owner}' object is not callable"),
                "__next__" => format!("'{owner}' object is not an iterator"),
                "__index__" => format!("'{owner}' object cannot be interpreted as an integer"),
                "__neg__" => format!("bad operand type for unary -: '{owner}'"),
                "__pos__" => format!("bad operand type for unary +: '{owner}'"),
                "__invert__" => format!("bad operand type for unary ~: '{owner}'"),
                "__abs__" => format!("bad operand type for abs(): '{owner}'"),
                _ => format!("'{owner}' object has no {name}"),
            };
            Err(cx.raise(PyTypeError::new_err(what)))
        }
    }
}

/// Calls a special method that converts, and whose result C code checks: what it gives for another type than that, or makes of
/// an unusual value, is CPython's business.
pub fn convert(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &str, args: &[VarId]) -> Flow<VarId> {
    let answer = match name {
        "__str__" => Some(Answer::Str),
        "__repr__" => Some(Answer::Repr),
        "__format__" => Some(Answer::Format),
        _ => None,
    };
    match answer {
        Some(answer) => cx.claim_answer(this, answer),
        None => drop(cx.unclaim()),
    }
    let result = call_special(cx, this, name, args)?;
    if let Some(answer) = answer {
        return checked(cx, answer, result);
    }
    let ty = cx.type_of(result)?;
    let expected = match name {
        "__float__" => ty.is(cx.py.get_type::<PyFloat>()),
        // A hash has the size of a pointer, and is never -1.
        "__hash__" => {
            let hash = cx.known(result)?.filter(Bound::is_exact_instance_of::<PyInt>);
            hash.is_some_and(|hash| hash.extract::<isize>().is_ok_and(|hash| hash != -1))
        }
        _ => ty.is(cx.py.get_type::<PyInt>()),
    };
    if expected {
        return Ok(result);
    }
    Err(unusual(cx, result, name)?)
}

fn unusual(cx: &mut OpcodeExecutor<'_>, result: VarId, method: &str) -> Flow<Unwind> {
    let ty = cx.type_name(result)?;
    Ok(Unwind::break_graph(ReasonId::UnsupportedCall, format!("{method} that gives a {ty}")))
}

/// What C code makes of the answer of a special method.
pub fn checked(cx: &mut OpcodeExecutor<'_>, answer: Answer, value: VarId) -> Flow<VarId> {
    match answer {
        Answer::Found => {
            let found = cx.truth(value)?;
            Ok(cx.boolean(found))
        }
        Answer::Truth | Answer::Filled | Answer::Length => match cx.known(value)? {
            Some(value) => cx.fold(|_| answer.checked(&value)),
            None if answer == Answer::Truth => {
                Err(Unwind::break_graph(ReasonId::TensorTruth, "the truth of a value not known while tracing"))
            }
            None => Err(Unwind::break_graph(ReasonId::TensorValue, "a length not known while tracing")),
        },
        Answer::Iterator => {
            if !has_special(cx, value, "__next__")? {
                let text = format!("iter() returned non-iterator of type '{}'", cx.type_name(value)?);
                return Err(cx.raise(PyTypeError::new_err(text)));
            }
            Ok(value)
        }
        Answer::Str | Answer::Repr | Answer::Format => {
            let ty = cx.type_of(value)?;
            if ty.is(cx.py.get_type::<PyString>()) {
                return Ok(value);
            }
            let method = match answer {
                Answer::Repr => "__repr__",
                Answer::Format => "__format__",
                _ => "__str__",
            };
            Err(unusual(cx, value, method)?)
        }
    }
}

/// CPython's own error for a write to an item of a known value whose type has none: which one it is depends on the index.
fn item_write_error(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &str, args: &[VarId]) -> Flow<Option<PyErr>> {
    if !matches!(name, "__setitem__" | "__delitem__") {
        return Ok(None);
    }
    let key = match cx.materialize(args[0])? {
        // One slice is refused as another.
        None if cx.type_of(args[0])?.is(cx.py.get_type::<PySlice>()) => Some(PySlice::full(cx.py).into_any()),
        key => key,
    };
    let (Some(object), Some(key)) = (cx.materialize(this)?, key) else { return Ok(None) };
    let done = if name == "__setitem__" { object.set_item(key, cx.py.None()) } else { object.del_item(key) };
    Ok(done.err())
}

/// `x(...)` through `type(x).__call__`.
pub fn call(cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
    match find_special(cx, this, &Rc::from("__call__"))? {
        Some(method) => cx.call_instead_of(this, method, args),
        None => {
            let owner = cx.type_name(this)?;
            Err(cx.raise(PyTypeError::new_err(format!("'{owner}' object is not callable"))))
        }
    }
}

/// `next(x)` through `type(x).__next__`.
pub fn next(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Option<VarId>> {
    match call_special(cx, this, "__next__", &[]) {
        Ok(value) => Ok(Some(value)),
        Err(Unwind::Raise(exception)) => {
            let stop = cx.py.get_type::<PyStopIteration>();
            if cx.type_of(exception)?.is(&stop) {
                Ok(None)
            } else {
                Err(Unwind::Raise(exception))
            }
        }
        Err(other) => Err(other),
    }
}

/// `bool(x)` through `__bool__`, then `__len__`, else true.
pub fn truth(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<bool> {
    for name in ["__bool__", "__len__"] {
        match lookup(cx, this, &Rc::from(name))? {
            Some((descriptor, tracker)) if descriptor.is_none() => {
                guard_identity(cx, &descriptor, tracker);
                return Err(cx.raise(PyTypeError::new_err("'NoneType' object is not callable")));
            }
            Some(_) => break,
            None => {}
        }
    }
    if has_special(cx, this, "__bool__")? {
        cx.claim_answer(this, Answer::Truth);
        let answer = call_special(cx, this, "__bool__", &[])?;
        let answer = checked(cx, Answer::Truth, answer)?;
        return cx.truth(answer);
    }
    if has_special(cx, this, "__len__")? {
        let length = cx.len(this)?;
        return cx.truth(length);
    }
    Ok(true)
}

/// `len(x)` through `__len__`, whose answer has to be a length.
pub fn len(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
    cx.claim_answer(this, Answer::Length);
    let answer = call_special(cx, this, "__len__", &[])?;
    checked(cx, Answer::Length, answer)
}

/// `item in x` through `__contains__`, else by iteration.
pub fn contains(cx: &mut OpcodeExecutor<'_>, this: VarId, item: VarId) -> Flow<VarId> {
    match lookup(cx, this, &Rc::from("__contains__"))? {
        Some((refused, _)) if refused.is_none() => {
            let text = format!("'{}' object is not a container", cx.type_name(this)?);
            return Err(cx.raise(PyTypeError::new_err(text)));
        }
        Some(_) => {
            cx.claim_answer(this, Answer::Found);
            let found = call_special(cx, this, "__contains__", &[item])?;
            cx.unclaim();
            return checked(cx, Answer::Found, found);
        }
        None => cx.unclaim(),
    };
    let iterator = match cx.iter(this) {
        Err(Unwind::Raise(error)) if cx.type_of(error)?.is(cx.py.get_type::<PyTypeError>()) => {
            let text = format!("argument of type '{}' is not iterable", cx.type_name(this)?);
            return Err(cx.raise(PyTypeError::new_err(text)));
        }
        iterator => iterator?,
    };
    while let Some(candidate) = cx.next(iterator)? {
        if equal(cx, candidate, item)? {
            return Ok(cx.boolean(true));
        }
    }
    Ok(cx.boolean(false))
}

/// `iter(x)` through `__iter__`, else over `x[0]`, `x[1]` and so on.
pub fn iter(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
    let refused = lookup(cx, this, &Rc::from("__iter__"))?.is_some_and(|(found, _)| found.is_none());
    if !refused && !has_special(cx, this, "__iter__")? && has_special(cx, this, "__getitem__")? {
        return (cx.runtime.factories.item_iterator)(cx, this);
    }
    cx.claim_answer(this, Answer::Iterator);
    let iterator = call_special(cx, this, "__iter__", &[])?;
    checked(cx, Answer::Iterator, iterator)
}

/// Whether one of `items` is or equals `item`.
pub fn contains_among(cx: &mut OpcodeExecutor<'_>, items: &[VarId], item: VarId) -> Flow<VarId> {
    for &candidate in items {
        if equal(cx, candidate, item)? {
            return Ok(cx.boolean(true));
        }
    }
    Ok(cx.boolean(false))
}

/// `a is b or a == b`, known while tracing.
pub fn equal(cx: &mut OpcodeExecutor<'_>, a: VarId, b: VarId) -> Flow<bool> {
    if a == b {
        return Ok(true);
    }
    let equal = cx.compare(CompareOp::Equal, a, b)?;
    if cx.is_open(a) || cx.is_open(b) {
        return cx.truth(equal); // Sizes are no NaNs.
    }
    if let (Some(a), Some(b)) = (cx.known(a)?, cx.known(b)?) {
        if is_nan(&a) && is_nan(&b) {
            return Err(Unwind::break_graph(
                ReasonId::UnsupportedOperation,
                "whether two numbers are one object, which alone makes a NaN equal to itself",
            ));
        }
    }
    cx.truth(equal)
}

/// Whether a value is a NaN, of which only the object itself is equal to it and, from 3.10 on, has its hash.
pub fn is_nan(value: &Bound<'_, PyAny>) -> bool {
    value.cast_exact::<PyFloat>().is_ok_and(|value| value.value().is_nan())
}

/// One side of a binary operator through the special method; C types without a handler answer `NotImplemented` to operands
/// they do not know, which only running them would tell, so they break the graph unless both sides are known.
pub fn binary(
    cx: &mut OpcodeExecutor<'_>,
    op: BinaryOp,
    this: VarId,
    other: VarId,
    reflected: bool,
) -> Flow<Option<VarId>> {
    let name = if reflected { op.reflected() } else { op.method() };
    call_operator(cx, this, name, other)
}

/// The in-place special method, if the type has one.
pub fn inplace(cx: &mut OpcodeExecutor<'_>, op: BinaryOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
    call_operator(cx, this, &op.inplace(), other)
}

/// One side of a comparison through the special method.
pub fn compare(cx: &mut OpcodeExecutor<'_>, op: CompareOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
    call_operator(cx, this, op.method(), other)
}

/// Calls an operator method; `None` where the type has none or it answers `NotImplemented`.
fn call_operator(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &str, other: VarId) -> Flow<Option<VarId>> {
    let Some((descriptor, tracker)) = lookup(cx, this, &Rc::from(name))? else { return Ok(None) };
    if is_object_default(&descriptor, name) {
        guard_identity(cx, &descriptor, tracker);
        if name == "__ne__" {
            // `object.__ne__` asks `__eq__`.
            cx.unclaim();
            let Some(equal) = call_operator(cx, this, "__eq__", other)? else { return Ok(None) };
            return cx.not(equal).map(Some);
        }
        return Ok(None);
    }
    let result = call_special(cx, this, name, &[other])?;
    match cx.known(result)? {
        Some(value) if value.is(cx.py.NotImplemented()) => Ok(None),
        _ => Ok(Some(result)),
    }
}

/// Whether the method is `object`'s own: `==` is identity, ordering is not defined.
fn is_object_default(descriptor: &Bound<'_, PyAny>, name: &str) -> bool {
    let object = descriptor.py().get_type::<PyAny>();
    object.getattr(name).is_ok_and(|default| default.is(descriptor))
}

/// A real object as the argument of a graph statement: the statement holds for this very object.
pub fn graph_argument(cx: &mut OpcodeExecutor<'_>, this: VarId, object: Option<&Py<PyAny>>) -> Flow<GraphArgument> {
    let Some(object) = object else {
        let text = cx.text(this);
        return Err(Unwind::break_graph(
            ReasonId::UnsupportedCall,
            format!("{text} as an argument of a graph operation"),
        ));
    };
    if cx.effects.is_written(this) {
        return Err(Unwind::break_graph(
            ReasonId::UnsupportedMutation,
            "an object written in the function is passed to a graph operation",
        ));
    }
    let tracker = cx.vars.tracker(this);
    let constant = cx.see(this)?.constant().is_some();
    if !constant {
        cx.holds_for.push((object.clone_ref(cx.py), tracker));
    }
    Ok(GraphArgument { value: object.clone_ref(cx.py), text: repr(cx.py, object), holds_tensor: false })
}
