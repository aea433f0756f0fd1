//! `getattr`, `hasattr`, `setattr`, `delattr`, and explicit calls of `__get__` of descriptors in C.

use std::rc::Rc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use sot_core::builtin;
use sot_core::cpython::{self, GetattrHook};
use sot_core::error::{Flow, Unwind};
use sot_core::executor::{object_model, CallArgs, Name, OpcodeExecutor};
use sot_core::language::LANGUAGE;
use sot_core::tracker::Tracker;
use sot_core::variable::{Form, VarId};

use super::cannot;
use crate::functions::function::guard_identity;

builtin! { GETATTR = "getattr" => |cx, args| match args.positional[..] {
    [object, name] if args.keywords.is_empty() => {
        let name = name_of(cx, name, "getattr(): ")?;
        cx.claims.redirect(object);
        cx.get_attr(object, &name)
    }
    [object, name, default] if args.keywords.is_empty() => {
        let name = name_of(cx, name, "getattr(): ")?;
        Ok(find(cx, object, &name)?.unwrap_or(default))
    }
    _ => {
        let given = args.positional.len();
        let bound = if given < 2 { "at least 2" } else { "at most 3" };
        Err(cx.raise(PyTypeError::new_err(format!("getattr expected {bound} arguments, got {given}"))))
    }
} }

builtin! { HASATTR = "hasattr" => |cx, args| {
    let [object, name] = args.exactly("hasattr")?;
    let name = name_of(cx, name, "hasattr(): ")?;
    let found = find(cx, object, &name)?.is_some();
    Ok(cx.trace.boolean(found))
} }

builtin! { SETATTR = "setattr" => |cx, args| {
    let [object, name, value] = args.exactly("setattr")?;
    let name = name_of(cx, name, "")?;
    cx.set_attr(object, &name, Some(value))?;
    Ok(cx.trace.none())
} }

builtin! { DELATTR = "delattr" => |cx, args| {
    let [object, name] = args.exactly("delattr")?;
    let name = name_of(cx, name, "")?;
    cx.set_attr(object, &name, None)?;
    Ok(cx.trace.none())
} }

builtin! { GETSET_GET = "types:GetSetDescriptorType.__get__" => |cx, args| get_by(cx, args) }
builtin! { MEMBER_GET = "types:MemberDescriptorType.__get__" => |cx, args| get_by(cx, args) }

// As `super().__get__(object, type)` in a subclass of `property`.
builtin! { PROPERTY_GET = "property.__get__" => |cx, args| {
    let refuse = || cannot("property.__get__() with these arguments");
    let (property, object) = match args.positional[..] {
        [property, object] | [property, object, _] if args.keywords.is_empty() => (property, object),
        _ => return Err(refuse()),
    };
    let of = cx.trace.vars.tracker(property);
    let real = cx.see(property)?.object().map(|real| real.bind(cx.py).clone());
    let real = real.filter(|_| cx.trace.trackers.is_loadable(of)).ok_or_else(refuse)?;
    if cx.known(object)?.is_some_and(|object| object.is_none()) {
        return Ok(property);
    }
    guard_identity(cx, property, &real.clone().unbind());
    let own = cpython::builtin(cx.py, "property")?.getattr("fget")?;
    let getter = own.call_method1("__get__", (&real,))?;
    let found = cpython::type_lookup(&real.get_type(), &PyString::intern(cx.py, "fget"));
    if getter.is_none() || !found.is_some_and(|found| found.is(&own)) {
        return Err(refuse());
    }
    let tracker = cx.trace.trackers.add(Tracker::Getattr { of, name: "fget".into() });
    let getter = cx.trace.wrap(&getter, tracker);
    cx.claims.take();
    cx.call(getter, &CallArgs::positional(vec![object]))
} }

/// Simulates `descriptor.__get__(object, type)` for a descriptor in C: returns the attribute, if the lookup in the
/// object's type finds that descriptor.
fn get_by(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let refuse = || cannot("__get__() of a descriptor of C code's with these arguments");
    let (descriptor, object) = match args.positional[..] {
        [descriptor, object] | [descriptor, object, _] if args.keywords.is_empty() => (descriptor, object),
        _ => return Err(refuse()),
    };
    let own = cx.see(descriptor)?.object().map(|own| own.bind(cx.py).clone()).ok_or_else(refuse)?;
    if cx.known(object)?.is_some_and(|object| object.is_none()) {
        return Err(refuse());
    }
    guard_identity(cx, descriptor, &own.clone().unbind());
    let name: Name = own.getattr("__name__")?.extract::<String>()?.into();
    let found = object_model::lookup(cx, object, &name)?;
    let (found, tracker) = found.filter(|(found, _)| found.is(&own)).ok_or_else(refuse)?;
    object_model::guard_identity(cx, &found, tracker);
    let ty = cx.type_of(object)?.cast_into::<PyType>().map_err(PyErr::from)?;
    // `__getattribute__` and `__getattr__` of the type play no role here.
    let is_usual = match cpython::getattr_hook(&ty) {
        GetattrHook::Generic => true,
        GetattrHook::GetAttrHook => false,
        GetattrHook::Custom => {
            !object_model::is_python_method(cx, object, "__getattribute__")?
                && object_model::lookup(cx, object, &Rc::from("__getattr__"))?.is_none()
        }
    };
    let value = match cx.see(object)?.form() {
        _ if is_usual => cx.find_attr(object, &name)?,
        Form::Class => None,
        _ => object_model::generic_get_attr(cx, object, &name)?,
    };
    value.ok_or_else(refuse)
}

/// Returns an attribute, or `None` if reading it raises `AttributeError`, even in a property of the program.
pub fn find(cx: &mut OpcodeExecutor<'_>, object: VarId, name: &Name) -> Flow<Option<VarId>> {
    match cx.find_attr(object, name) {
        Err(Unwind::Raise(exception)) if object_model::is_attribute_error(cx, exception)? => Ok(None),
        other => other,
    }
}

/// Returns a known attribute name.
pub(super) fn name_of(cx: &mut OpcodeExecutor<'_>, name: VarId, function: &str) -> Flow<Name> {
    if let Some(name) = cx.known_str(name)? {
        return Ok(Rc::from(name));
    }
    if cx.known(name)?.is_none() {
        return Err(cannot("an attribute name that is not known while tracing"));
    }
    let ty = cx.type_name(name)?;
    let text = if function.is_empty() || LANGUAGE.names_misfits {
        format!("attribute name must be string, not '{ty}'")
    } else {
        format!("{function}attribute name must be string")
    };
    Err(cx.raise(PyTypeError::new_err(text)))
}
