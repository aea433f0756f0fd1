//! Methods that every class inherits from `object`.

use std::rc::Rc;

use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyType;

use sot_core::builtin;
use sot_core::cpython::{self, DescriptorKind, GetattrHook};
use sot_core::error::Flow;
use sot_core::executor::{object_model, OpcodeExecutor};
use sot_core::variable::{Form, VarId};

use super::attribute::{self, name_of};
use super::cannot;
use crate::classes::class::ClassVariable;
use crate::containers::deque::DequeVariable;
use crate::containers::dict::DictVariable;

builtin! { INIT = "object.__init__" => |cx, args| match args.positional[..] {
    [_] if args.keywords.is_empty() => Ok(cx.trace.none()),
    [this, ..] => {
        // Extra arguments are allowed if the class overrides `__new__` but not `__init__`.
        let (ty, object) = (cx.type_of(this)?, cx.py.get_type::<PyAny>());
        let owner = if !ty.getattr("__init__")?.is(object.getattr("__init__")?) {
            "object".to_owned()
        } else if ty.getattr("__new__")?.is(object.getattr("__new__")?) {
            cx.type_name(this)?
        } else {
            return Ok(cx.trace.none());
        };
        let text = format!("{owner}.__init__() takes exactly one argument (the instance to initialize)");
        Err(cx.raise(PyTypeError::new_err(text)))
    }
    [] => Err(cannot("object.__init__() without an object")),
} }

// The default hook does nothing.
builtin! { INIT_SUBCLASS = "object.__init_subclass__" => |cx, args| {
    if !args.keywords.is_empty() {
        return Err(cannot("__init_subclass__() with keyword arguments"));
    }
    Ok(cx.trace.none())
} }

builtin! { GETATTRIBUTE = "object.__getattribute__" => |cx, args| {
    let [this, name] = args.exactly("__getattribute__")?;
    let name = name_of(cx, name, "")?;
    if cx.see(this)?.form() == Form::Class {
        return Err(cannot("object.__getattribute__() of a class"));
    }
    if let Some(value) = object_model::generic_get_attr(cx, this, &name)? { Ok(value) } else {
        let owner = cx.type_name(this)?;
        Err(cx.raise(PyAttributeError::new_err(format!("'{owner}' object has no attribute '{name}'"))))
    }
} }

builtin! { SETATTR = "object.__setattr__" => |cx, args| {
    let [this, name, value] = args.exactly("__setattr__")?;
    let name = name_of(cx, name, "")?;
    refuse_other_writes(cx, this)?;
    object_model::generic_set_attr(cx, this, &name, Some(value))?;
    Ok(cx.trace.none())
} }

builtin! { DELATTR = "object.__delattr__" => |cx, args| {
    let [this, name] = args.exactly("__delattr__")?;
    let name = name_of(cx, name, "")?;
    refuse_other_writes(cx, this)?;
    object_model::generic_set_attr(cx, this, &name, None)?;
    Ok(cx.trace.none())
} }

/// Breaks the graph for objects whose attributes `object.__setattr__` does not write: C code does, or they are stored
/// elsewhere.
fn refuse_other_writes(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
    let ty = cx.type_of(this)?.cast_into::<PyType>().map_err(PyErr::from)?;
    let mut own = false;
    for base in ty.mro().iter() {
        let hook = cpython::class_dict(&base)?.get_item("__setattr__").ok();
        let in_c = hook.is_some_and(|hook| DescriptorKind::of(&hook) != DescriptorKind::Function);
        own |= in_c && !base.is(cx.py.get_type::<PyAny>());
    }
    if own || matches!(cx.see(this)?.form(), Form::Class | Form::Module) {
        return Err(cannot("object.__setattr__() of an object with a way of its own"));
    }
    Ok(())
}

builtin! { EQ = "object.__eq__" => |cx, args| {
    let [this, other] = args.exactly("__eq__")?;
    identity(cx, this, other, true)
} }

builtin! { NE = "object.__ne__" => |cx, args| {
    let [this, other] = args.exactly("__ne__")?;
    // `object.__ne__` inverts `__eq__`, which the program may override.
    match cx.special_method(this, "__eq__")? {
        Some(_) => {
            let equal = object_model::call_special(cx, this, "__eq__", &[other])?;
            match cx.known(equal)? {
                Some(known) if known.is(cx.py.NotImplemented()) => Ok(equal),
                _ => cx.not(equal),
            }
        }
        None => identity(cx, this, other, false),
    }
} }

builtin! { STR = "object.__str__" => |cx, args| {
    let [this] = args.exactly("__str__")?;
    let repr = cx.special_method(this, "__repr__")?;
    match repr {
        Some(_) => {
            cx.claims.redirect(this);
            object_model::call_special(cx, this, "__repr__", &[])
        }
        None => Err(cannot("str() of an object without __repr__")),
    }
} }

builtin! { REDUCE_EX = "object.__reduce_ex__" => |cx, args| {
    let [this, protocol] = args.exactly("__reduce_ex__")?;
    // Protocols before 2 work differently.
    if cx.known_int(protocol)?.is_none_or(|protocol| protocol < 2) {
        return Err(cannot("__reduce_ex__() of that protocol"));
    }
    reduce(cx, this)
} }

/// Simulates `__reduce_ex__`, by which `copy` and `pickle` take an object apart: the call that makes a new object,
/// and its state.
fn reduce(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
    let (ty, object) = (cx.type_of(this)?, cx.py.get_type::<PyAny>());
    let payload = cx.see(this)?;
    let class = object_model::type_variable(cx, this)?;
    if payload.form() == Form::Set {
        let items = cx.unpack_all(this)?;
        let items = cx.trace.list(items);
        let (args, none) = (cx.trace.tuple(vec![items]), cx.trace.none());
        return Ok(cx.trace.tuple(vec![class, args, none]));
    }
    if !ty.getattr("__reduce__")?.is(&object.getattr("__reduce__")?) {
        return cx.call_method(this, "__reduce__", &[]);
    }
    let base = object.cast::<PyType>().map_err(PyErr::from)?;
    let of = payload.type_tracker(cx, this);
    let asked = ["__reduce__", "__getnewargs__", "__getnewargs_ex__", "__getstate__"];
    object_model::inherits(cx, (&ty, of), base, &asked)?;
    let own = |name: &str| -> PyResult<bool> {
        Ok(match (ty.getattr_opt(name)?, object.getattr_opt(name)?) {
            (Some(found), default) => default.is_none_or(|default| !default.is(&found)),
            _ => false,
        })
    };
    // If `object` has no `__getstate__`, C code looks it up on the instance.
    let asked = || -> PyResult<bool> {
        let ty = ty.cast::<PyType>()?;
        let hooked = !matches!(cpython::getattr_hook(ty), GetattrHook::Generic);
        Ok(hooked && object.getattr_opt("__getstate__")?.is_none())
    };
    let slots = cpython::import(cx.py, "copyreg")?.getattr("_slotnames")?.call1((&ty,))?;
    let slots: Option<Vec<String>> =
        slots.extract().map_err(|_| cannot("copying of an object with slots of odd names"))?;
    let plain = matches!(payload.form(), Form::Instance | Form::Object)
        && !own("__getnewargs__")?
        && cx.see_as::<ClassVariable>(class)?.is_some_and(|class| class.has_plain_instances(cx.py));
    // As for named tuples.
    let tuple = payload.form() == Form::Tuple && own("__getnewargs__")? && ty.getattr("__dictoffset__")?.eq(0)?;
    if !(plain || tuple) || asked()? || own("__getnewargs_ex__")? {
        return Err(cannot("copying of an object with parts that C code keeps"));
    }
    let mut args = vec![class];
    if tuple {
        let given = cx.call_method(this, "__getnewargs__", &[])?;
        args.extend(cx.unpack_all(given)?);
    }
    let state = if own("__getstate__")? {
        cx.call_method(this, "__getstate__", &[])?
    } else {
        state_of(cx, this, slots.unwrap_or_default())?
    };
    let make = cpython::import(cx.py, "copyreg")?.getattr("__newobj__")?;
    let tracker = cx.trace.trackers.constant(make.clone().unbind());
    let (make, args, none) = (cx.trace.wrap(&make, tracker), cx.trace.tuple(args), cx.trace.none());
    Ok(cx.trace.tuple(vec![make, args, state, none, none]))
}

/// Returns the state of an object whose class has no `__getstate__`: its attributes, and those in slots if it has some.
fn state_of(cx: &mut OpcodeExecutor<'_>, this: VarId, slots: Vec<String>) -> Flow<VarId> {
    let state = attributes_of(cx, this)?;
    let mut held = Vec::new();
    for slot in slots {
        let slot: Rc<str> = Rc::from(slot);
        if let Some(value) = attribute::find(cx, this, &slot)? {
            held.push((slot, value));
        }
    }
    if held.is_empty() {
        return Ok(state);
    }
    let held = DictVariable::from_keywords(cx, held)?;
    let held = cx.trace.produce(held);
    Ok(cx.trace.tuple(vec![state, held]))
}

/// Returns the dict of an object's attributes, or `None` if it is missing or empty.
fn attributes_of(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
    match cx.find_attr(this, &Rc::from("__dict__"))? {
        Some(dict) if cx.truth(dict)? => Ok(dict),
        _ => Ok(cx.trace.none()),
    }
}

builtin! { REDUCE_ORDERED = "collections:OrderedDict.__reduce__" => |cx, args| {
    let [this] = args.exactly("__reduce__")?;
    let class = object_model::type_variable(cx, this)?;
    let items = cx.call_method(this, "items", &[])?;
    let items = cx.iter(items)?;
    let state = attributes_of(cx, this)?;
    let (args, none) = (cx.trace.tuple(Vec::new()), cx.trace.none());
    Ok(cx.trace.tuple(vec![class, args, state, none, items]))
} }

builtin! { REDUCE_DEQUE = "collections:deque.__reduce__" => |cx, args| {
    let [this] = args.exactly("__reduce__")?;
    let class = object_model::type_variable(cx, this)?;
    if cx.see_as::<DequeVariable>(this)?.is_none() {
        return Err(cannot("copying of a deque of a class derived from it"));
    }
    let bound = cx.get_attr(this, &Rc::from("maxlen"))?;
    let unbounded = cx.known(bound)?.is_some_and(|bound| bound.is_none());
    let empty = cx.trace.tuple(Vec::new());
    let args = if unbounded { empty } else { cx.trace.tuple(vec![empty, bound]) };
    let (items, none) = (cx.iter(this)?, cx.trace.none());
    Ok(cx.trace.tuple(vec![class, args, none, items]))
} }

/// Returns `True` or `False` for identical objects, else `NotImplemented`.
fn identity(cx: &mut OpcodeExecutor<'_>, this: VarId, other: VarId, equal: bool) -> Flow<VarId> {
    if cx.is_same(this, other)? {
        return Ok(cx.trace.boolean(equal));
    }
    let value = cx.py.NotImplemented();
    Ok(cx.trace.constant(value))
}
