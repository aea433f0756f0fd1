//! Special methods of builtin types that are called by name or through `super()`. Each is carried out as the
//! operation it implements, on a value whose kind simulates the builtin type.

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyType};

use sot_core::cpython::{self, DescriptorKind};
use sot_core::error::Flow;
use sot_core::executor::{BinaryOp, CallArgs, CompareOp, OpcodeExecutor, UnaryOp};
use sot_core::variable::{Form, VarId};

use crate::classes::subclass;
use crate::containers::sequence;

/// Calls a special method in C on a value of exactly the type that defines it. Returns `None` for other methods, and
/// for special methods that are not simulated here.
pub fn call(cx: &mut OpcodeExecutor<'_>, descriptor: &Bound<'_, PyAny>, args: &CallArgs) -> Flow<Option<VarId>> {
    if !DescriptorKind::of(descriptor).is_c_method() || !args.keywords.is_empty() {
        return Ok(None);
    }
    let name: String = descriptor.getattr("__name__")?.extract()?;
    let Some((&this, rest)) = args.positional.split_first().filter(|_| name.starts_with("__")) else {
        return Ok(None);
    };
    let payload = cx.see(this)?;
    let owner = descriptor.getattr("__objclass__")?;
    if !payload.python_type(&cx.trace).is(&owner) || !payload.answers_slots() {
        return Ok(None);
    }
    match *rest {
        [] => call_unary(cx, &name, this),
        [other] => call_binary(cx, &name, this, other),
        [key, value] if name == "__setitem__" => {
            cx.set_item(this, key, value)?;
            Ok(Some(cx.trace.none()))
        }
        _ => Ok(None),
    }
}

fn call_unary(cx: &mut OpcodeExecutor<'_>, name: &str, this: VarId) -> Flow<Option<VarId>> {
    if let Some(op) = UnaryOp::ALL.iter().find(|op| op.method() == name) {
        return cx.unary(*op, this).map(Some);
    }
    Ok(Some(match name {
        "__len__" => cx.len(this)?,
        "__iter__" => cx.iter(this)?,
        "__bool__" => {
            let truth = cx.truth(this)?;
            cx.trace.boolean(truth)
        }
        "__next__" => match cx.next_or_raise(this)? {
            Some(item) => item,
            None => return Err(cx.raise(PyStopIteration::new_err(()))),
        },
        _ => return Ok(None),
    }))
}

/// True if `this * n` repeats `this`.
fn is_sequence(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<bool> {
    let payload = cx.see(this)?;
    let of_letters = payload.constant().is_some_and(|value| {
        value.bind(cx.py).is_instance_of::<PyString>() || value.bind(cx.py).is_instance_of::<PyBytes>()
    });
    Ok(of_letters || matches!(payload.form(), Form::List | Form::Tuple | Form::Deque))
}

/// True if a sequence may be concatenated with the other operand: one of its own type, or another one with bytes.
fn is_concatenated(cx: &mut OpcodeExecutor<'_>, this: VarId, other: VarId) -> Flow<bool> {
    let (own, ty) = (cx.type_of(this)?, cx.type_of(other)?);
    let (Ok(own), Ok(ty)) = (own.cast::<PyType>(), ty.cast::<PyType>()) else { return Ok(true) };
    Ok(cpython::is_subtype(ty, own) || own.is(cx.py.get_type::<PyBytes>()) && cpython::has_buffer(ty))
}

fn call_binary(cx: &mut OpcodeExecutor<'_>, name: &str, this: VarId, other: VarId) -> Flow<Option<VarId>> {
    match name {
        "__getitem__" => return cx.get_item(this, other).map(Some),
        "__contains__" => return cx.contains(this, other, false).map(Some),
        "__delitem__" => {
            cx.del_item(this, other)?;
            return Ok(Some(cx.trace.none()));
        }
        _ => {}
    }
    // The sequences in C raise where other types return `NotImplemented`.
    if name == "__add__" && is_sequence(cx, this)? && !is_concatenated(cx, this, other)? {
        return Err(cx.misfit(name, &[this, other])?);
    }
    // C code accepts an instance of a subclass by its storage. Except for `__iadd__`: a list is extended by
    // iterating.
    let storage = subclass::storage_of(cx, other)?.filter(|_| name != "__iadd__");
    let mut operand = storage.unwrap_or(other);
    if matches!(name, "__mul__" | "__rmul__" | "__imul__") && is_sequence(cx, this)? && cx.known(operand)?.is_none() {
        operand = match sequence::index_object(cx, operand)? {
            Some(index) => cx.wrap_fresh(&index)?,
            None => operand,
        };
    }
    cx.see(operand)?;
    let payload = cx.see(this)?;
    let folded = match (payload.constant(), cx.known(operand)?) {
        (Some(value), Some(operand)) => Some((value.bind(cx.py).clone(), operand)),
        _ => None,
    };
    let is_operator =
        BinaryOp::ALL.iter().any(|op| op.method() == name || op.reflected() == name || op.inplace() == name)
            || CompareOp::ALL.iter().any(|op| op.method() == name);
    if let Some((value, operand)) = folded.filter(|_| is_operator) {
        let name = name.to_owned();
        return cx.fold(|_| value.get_type().call_method1(name, (value, operand))).map(Some);
    }
    let result = if let Some(op) = CompareOp::ALL.iter().find(|op| op.method() == name) {
        payload.compare(cx, *op, this, operand)?
    } else if let Some(op) = BinaryOp::ALL.iter().find(|op| op.method() == name) {
        payload.binary(cx, *op, this, operand, false)?
    } else if let Some(op) = BinaryOp::ALL.iter().find(|op| op.reflected() == name) {
        payload.binary(cx, *op, this, operand, true)?
    } else if let Some(op) = BinaryOp::ALL.iter().find(|op| op.inplace() == name) {
        match payload.inplace(cx, *op, this, operand)? {
            None if *op == BinaryOp::Add => payload.concat_in_place(cx, this, operand)?,
            result => result,
        }
    } else {
        return Ok(None);
    };
    Ok(Some(result.unwrap_or_else(|| {
        let value = cx.py.NotImplemented();
        cx.trace.constant(value)
    })))
}
