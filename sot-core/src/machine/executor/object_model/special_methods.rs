//! Special methods: looked up in the type alone, called, and their results checked as C code does. Follows the slots
//! of `Objects/typeobject.c`.

use std::rc::Rc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyString};

use super::descriptors::bind_descriptor;
use super::lookup::{guard_descriptor, guard_identity, lookup};
use crate::error::{Flow, ReasonId, Unwind};
use crate::machine::executor::{CallArgs, Name, OpcodeExecutor};
use crate::machine::variable::VarId;
use crate::resume_point::SpecialResult;

/// Looks a special method up on the type and binds it.
pub fn find_special(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
    // Binding may call a function, too, which is not the call that the instruction claims.
    let claim = cx.claims.take();
    let found = find_bound(cx, this, name)?;
    cx.claims.put_back(claim);
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

/// True if the type has a special method. It is not bound, since that may run code.
pub fn has_special(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &str) -> Flow<bool> {
    let name = Rc::from(name);
    if cx.see(this)?.special(cx, this, &name)?.is_some() {
        return Ok(true);
    }
    let Some((descriptor, tracker)) = lookup(cx, this, &name)? else { return Ok(false) };
    if descriptor.is_none() {
        guard_identity(cx, &descriptor, tracker);
        // For these names, `None` has a defined meaning. CPython calls any other method that is `None`.
        let has_meaning =
            matches!(&*name, "__iter__" | "__hash__" | "__contains__" | "__reversed__" | "__class_getitem__");
        if !has_meaning {
            let text = format!("{name} is None");
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
        }
    } else {
        guard_descriptor(cx, &descriptor, tracker)?;
    }
    Ok(!descriptor.is_none())
}

/// Calls a special method. A type without it raises `TypeError` in the program.
pub fn call_special(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &str, args: &[VarId]) -> Flow<VarId> {
    match find_special(cx, this, &Rc::from(name))? {
        Some(method) => cx.call_instead_of(this, method, &CallArgs::positional(args.to_vec())),
        None => {
            let refused = lookup(cx, this, &Rc::from(name))?.is_some_and(|(found, _)| found.is_none());
            if matches!(name, "__getitem__" | "__setitem__" | "__delitem__") && !refused {
                let operands: Vec<VarId> = std::iter::once(this).chain(args.iter().copied()).collect();
                return Err(cx.misfit(name, &operands)?);
            }
            let owner = cx.type_name(this)?;
            let what = match name {
                _ if refused && !matches!(name, "__iter__" | "__hash__") => {
                    "'NoneType' object is not callable".to_owned()
                }
                "__iter__" => format!("'{owner}' object is not iterable"),
                "__len__" => format!("object of type '{owner}' has no len()"),
                "__call__" => format!("'{owner}' object is not callable"),
                "__next__" => format!("'{owner}' object is not an iterator"),
                "__index__" => format!("'{owner}' object cannot be interpreted as an integer"),
                "__neg__" => format!("bad operand type for unary -: '{owner}'"),
                "__pos__" => format!("bad operand type for unary +: '{owner}'"),
                "__invert__" => format!("bad operand type for unary ~: '{owner}'"),
                "__abs__" => format!("bad operand type for abs(): '{owner}'"),
                "__hash__" => format!("unhashable type: '{owner}'"),
                // CPython's message depends on the operation that needs the method.
                _ => {
                    let text = format!("a {owner} object, which has no {name}");
                    return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
                }
            };
            Err(cx.raise(PyTypeError::new_err(what)))
        }
    }
}

/// Calls a special method that converts a value, and checks the type of its result as C code does. Breaks the graph
/// at a result of another type, or an unusual value, which CPython handles.
pub fn convert(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &str, args: &[VarId]) -> Flow<VarId> {
    let answer = match name {
        "__str__" => Some(SpecialResult::Str),
        "__repr__" => Some(SpecialResult::Repr),
        "__format__" => Some(SpecialResult::Format),
        _ => None,
    };
    match answer {
        Some(answer) => cx.claims.special_result(this, answer),
        None => drop(cx.claims.take()),
    }
    let result = call_special(cx, this, name, args)?;
    if let Some(answer) = answer {
        return checked(cx, answer, result);
    }
    let ty = cx.type_of(result)?;
    let expected = match name {
        "__float__" => ty.is(cx.py.get_type::<PyFloat>()),
        // A hash has the size of a pointer and is never -1.
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

/// Checks or converts the result of a special method as C code does.
pub fn checked(cx: &mut OpcodeExecutor<'_>, answer: SpecialResult, value: VarId) -> Flow<VarId> {
    match answer {
        SpecialResult::Found => {
            let found = cx.truth(value)?;
            Ok(cx.trace.boolean(found))
        }
        SpecialResult::Truth | SpecialResult::Filled | SpecialResult::Length => match cx.known(value)? {
            Some(value) => cx.fold(|_| answer.checked(&value)),
            None if answer == SpecialResult::Truth => Err(Unwind::break_graph(
                ReasonId::TensorTruth,
                "a branch depends on a value that is not known while tracing",
            )),
            None => Err(Unwind::break_graph(ReasonId::TensorValue, "a length not known while tracing")),
        },
        SpecialResult::Iterator => {
            if !has_special(cx, value, "__next__")? {
                let text = format!("iter() returned non-iterator of type '{}'", cx.type_name(value)?);
                return Err(cx.raise(PyTypeError::new_err(text)));
            }
            Ok(value)
        }
        SpecialResult::Str | SpecialResult::Repr | SpecialResult::Format => {
            let ty = cx.type_of(value)?;
            if ty.is(cx.py.get_type::<PyString>()) {
                return Ok(value);
            }
            let method = match answer {
                SpecialResult::Repr => "__repr__",
                SpecialResult::Format => "__format__",
                _ => "__str__",
            };
            Err(unusual(cx, value, method)?)
        }
    }
}
