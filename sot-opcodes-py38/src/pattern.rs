//! `match` statements (3.10 and newer).

use std::rc::Rc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, Name, OpcodeExecutor};
use sot_core::opcode;
use sot_core::variable::VarId;
use sot_variables::builtins::{attribute, original_builtin};
use sot_variables::containers::dict::{self, DictVariable};

use crate::call::names_in;

opcode! { GET_LEN [3.10..3.14] (subject -- same, length) => |cx, _| cx.len(subject).map(|length| [subject, length]) }
opcode! {
    MATCH_MAPPING [3.10..3.14] (subject -- same, matches)
        => |cx, _| type_has(cx, subject, IS_MAPPING).map(|matches| [subject, cx.trace.boolean(matches)])
}
opcode! {
    MATCH_SEQUENCE [3.10..3.14] (subject -- same, matches)
        => |cx, _| type_has(cx, subject, IS_SEQUENCE).map(|matches| [subject, cx.trace.boolean(matches)])
}
opcode! {
    MATCH_KEYS [3.10..3.11] (subject, keys -- same, same_keys, values, matches)
        => |cx, _| match_keys(cx, subject, keys).map(|found| {
            let matches = cx.trace.boolean(found.is_some());
            [subject, keys, found.unwrap_or_else(|| cx.trace.none()), matches]
        })
}
opcode! {
    MATCH_CLASS [3.10..3.11] (subject, class, names -- found, matches)
        => |cx, op| match_class(cx, subject, class, op.arg, names, "type").map(|found| {
            [found.unwrap_or(subject), cx.trace.boolean(found.is_some())]
        })
}
opcode! {
    COPY_DICT_WITHOUT_KEYS [3.10..3.11] (subject, keys -- same, rest)
        => |cx, _| copy_without(cx, subject, keys).map(|rest| [subject, rest])
}

/// `Py_TPFLAGS_SEQUENCE`
const IS_SEQUENCE: u64 = 1 << 5;
/// `Py_TPFLAGS_MAPPING`
const IS_MAPPING: u64 = 1 << 6;
/// `_Py_TPFLAGS_MATCH_SELF`: `case int(n)` binds the subject itself.
const MATCHES_SELF: u64 = 1 << 22;

fn type_has(cx: &mut OpcodeExecutor<'_>, subject: VarId, flag: u64) -> Flow<bool> {
    let ty = cx.type_of(subject)?;
    Ok(type_flags(&ty)? & flag != 0)
}

/// Reads `type.__flags__` without a lookup that a metaclass could override.
fn type_flags(ty: &Bound<'_, PyAny>) -> PyResult<u64> {
    let flags = ty.py().get_type::<PyType>().getattr("__dict__")?.get_item("__flags__")?;
    flags.call_method1("__get__", (ty,))?.extract()
}

/// Returns the values of a mapping under all the keys, as a tuple; `None` if a key is missing. Only for dicts,
/// because the `get` of other mappings may have side effects.
pub fn match_keys(cx: &mut OpcodeExecutor<'_>, subject: VarId, keys: VarId) -> Flow<Option<VarId>> {
    if !cx.type_of(subject)?.is(cx.py.get_type::<PyDict>()) {
        return Err(Unwind::break_graph(
            ReasonId::UnsupportedOperation,
            "a mapping pattern on an object that is no dict",
        ));
    }
    let mut values = Vec::new();
    let keys = cx.unpack_all(keys)?;
    for (at, &key) in keys.iter().enumerate() {
        refuse_duplicate(cx, &keys[..at], key)?;
        let present = cx.contains(subject, key, false)?;
        if !cx.truth(present)? {
            return Ok(None);
        }
        values.push(cx.get_item(subject, key)?);
    }
    Ok(Some(cx.trace.tuple(values)))
}

fn refuse_duplicate(cx: &mut OpcodeExecutor<'_>, before: &[VarId], key: VarId) -> Flow<()> {
    let Some(value) = cx.known(key)? else { return Ok(()) };
    for &other in before {
        if cx.known(other)?.is_some_and(|other| other.eq(&value).unwrap_or(false)) {
            let text = format!("mapping pattern checks duplicate key ({})", value.repr()?);
            return Err(cx.raise(PyValueError::new_err(text)));
        }
    }
    Ok(())
}

fn copy_without(cx: &mut OpcodeExecutor<'_>, subject: VarId, keys: VarId) -> Flow<VarId> {
    let rest = DictVariable::build(cx, Vec::new())?;
    dict::update(cx, rest, subject)?;
    for key in cx.unpack_all(keys)? {
        cx.del_item(rest, key)?;
    }
    Ok(rest)
}

/// Returns the attributes that a class pattern binds, as a tuple: `count` positional ones, then the named ones.
/// `None` if the subject does not match. `wanted` is CPython's word for what has to stand in the pattern.
pub fn match_class(
    cx: &mut OpcodeExecutor<'_>,
    subject: VarId,
    class: VarId,
    count: u32,
    names: VarId,
    wanted: &str,
) -> Flow<Option<VarId>> {
    let payload = cx.see(class)?;
    let Some(ty) = payload.object().and_then(|object| object.bind(cx.py).cast::<PyType>().ok()).cloned() else {
        return Err(cx.raise(PyTypeError::new_err(format!("called match pattern must be a {wanted}"))));
    };
    if !is_instance(cx, subject, class)? {
        return Ok(None);
    }
    let mut found = Vec::new();
    let mut seen: Vec<Name> = Vec::new();
    if count > 0 {
        match positional_names(cx, class, &ty, count as usize)? {
            Some(positional) => {
                for name in positional {
                    note_name(cx, &ty, &mut seen, name)?;
                }
            }
            None => found.push(subject),
        }
    }
    for name in names_in(cx, names)? {
        note_name(cx, &ty, &mut seen, name)?;
    }
    for name in seen {
        match attribute::find(cx, subject, &name)? {
            Some(value) => found.push(value),
            None => return Ok(None),
        }
    }
    Ok(Some(cx.trace.tuple(found)))
}

fn note_name(cx: &mut OpcodeExecutor<'_>, ty: &Bound<'_, PyType>, seen: &mut Vec<Name>, name: Name) -> Flow<()> {
    if seen.contains(&name) {
        let ty = cpython::type_name(ty);
        let text = format!("{ty}() got multiple sub-patterns for attribute '{name}'");
        return Err(cx.raise(PyTypeError::new_err(text)));
    }
    seen.push(name);
    Ok(())
}

fn is_instance(cx: &mut OpcodeExecutor<'_>, subject: VarId, class: VarId) -> Flow<bool> {
    let function = original_builtin(cx, "isinstance")?;
    let result = cx.call(function, &CallArgs::positional(vec![subject, class]))?;
    cx.truth(result)
}

/// Returns the attributes for positional sub-patterns; `None` if the only sub-pattern stands for the subject itself.
fn positional_names(
    cx: &mut OpcodeExecutor<'_>,
    class: VarId,
    ty: &Bound<'_, PyType>,
    count: usize,
) -> Flow<Option<Vec<Name>>> {
    let name = cpython::type_name(ty);
    let match_args = match_args(cx, class, ty)?;
    let (allowed, names) = match match_args {
        Some(names) if cx.type_of(names)?.is(cx.py.get_type::<PyTuple>()) => {
            let names = match_arg_names(cx, names)?;
            (names.len(), Some(names))
        }
        Some(names) => {
            let found = cx.type_name(names)?;
            let text = format!("{name}.__match_args__ must be a tuple (got {found})");
            return Err(cx.raise(PyTypeError::new_err(text)));
        }
        None => (usize::from(type_flags(ty)? & MATCHES_SELF != 0), None),
    };
    if allowed < count {
        let plural = if allowed == 1 { "" } else { "s" };
        let text = format!("{name}() accepts {allowed} positional sub-pattern{plural} ({count} given)");
        return Err(cx.raise(PyTypeError::new_err(text)));
    }
    Ok(names.map(|mut names| {
        names.truncate(count);
        names
    }))
}

/// Reads `class.__match_args__`; `None` if the class does not have it.
fn match_args(cx: &mut OpcodeExecutor<'_>, class: VarId, ty: &Bound<'_, PyType>) -> Flow<Option<VarId>> {
    let name = Rc::from("__match_args__");
    let ty = ty.clone().unbind().into_bound(cx.py).into_any();
    let of = cx.trace.vars.tracker(class);
    match object_model::lookup_in_type(cx, &ty, of, &name)? {
        Some(_) => cx.find_attr(class, &name),
        None => Ok(None),
    }
}

fn match_arg_names(cx: &mut OpcodeExecutor<'_>, names: VarId) -> Flow<Vec<Name>> {
    let mut found = Vec::new();
    for item in cx.unpack_all(names)? {
        let Some(name) = cx.known_str(item)? else {
            let text = "__match_args__ with items that are not known strings";
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
        };
        found.push(Rc::from(name));
    }
    Ok(found)
}
