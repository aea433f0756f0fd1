//! Functions of `operator`.

use std::rc::Rc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyType};
use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::{Flow, Unwind};
use sot_core::executor::{object_model, BinaryOp, CallArgs, CompareOp, OpcodeExecutor, UnaryOp};
use sot_core::variable::VarId;

use super::cannot;
use crate::iterators::sequence::SequenceIterator;

/// Registers a function of two operands for each operator in a table.
macro_rules! operators {
    ($method:ident($family:ident): $($item:ident = $path:literal, $op:ident;)+) => {$(
        builtin! { $item = $path => |cx, args| apply::<2>(cx, args, |cx, [a, b]| cx.$method($family::$op, a, b)) }
    )+};
}

operators! { binary(BinaryOp):
    ADD = "operator:add", Add;
    AND = "operator:and_", And;
    FLOORDIV = "operator:floordiv", FloorDivide;
    LSHIFT = "operator:lshift", LeftShift;
    MATMUL = "operator:matmul", MatrixMultiply;
    MUL = "operator:mul", Multiply;
    MOD = "operator:mod", Remainder;
    OR = "operator:or_", Or;
    POW = "operator:pow", Power;
    RSHIFT = "operator:rshift", RightShift;
    SUB = "operator:sub", Subtract;
    TRUEDIV = "operator:truediv", TrueDivide;
    XOR = "operator:xor", Xor;
}

operators! { inplace(BinaryOp):
    IADD = "operator:iadd", Add;
    IAND = "operator:iand", And;
    IFLOORDIV = "operator:ifloordiv", FloorDivide;
    ILSHIFT = "operator:ilshift", LeftShift;
    IMATMUL = "operator:imatmul", MatrixMultiply;
    IMUL = "operator:imul", Multiply;
    IMOD = "operator:imod", Remainder;
    IOR = "operator:ior", Or;
    IPOW = "operator:ipow", Power;
    IRSHIFT = "operator:irshift", RightShift;
    ISUB = "operator:isub", Subtract;
    ITRUEDIV = "operator:itruediv", TrueDivide;
    IXOR = "operator:ixor", Xor;
}

operators! { compare(CompareOp):
    LT = "operator:lt", Less;
    LE = "operator:le", LessEqual;
    EQ = "operator:eq", Equal;
    NE = "operator:ne", NotEqual;
    GT = "operator:gt", Greater;
    GE = "operator:ge", GreaterEqual;
}

builtin! { LENGTH_HINT = "operator:length_hint" => |cx, args| {
    let (object, default) = match args.positional[..] {
        [object] if args.keywords.is_empty() => (object, cx.trace.integer(0)?),
        [object, default] if args.keywords.is_empty() && cx.known_int(default)?.is_some() => (object, default),
        _ => return Err(cannot("length_hint() with these arguments")),
    };
    if cx.has_special(object, "__len__")? {
        // `length_hint` ignores a `TypeError` raised by `__len__`.
        if object_model::is_python_method(cx, object, "__len__")? {
            return Err(cannot("length_hint() of what says its length in Python"));
        }
        let len = cpython::builtin(cx.py, "len")?;
        return cx.call_builtin(&len, &CallArgs::positional(vec![object]), false);
    }
    if let Some(left) = SequenceIterator::items_left(cx, object)? {
        return cx.trace.integer(left);
    }
    let method = object_model::find_special(cx, object, &Rc::from("__length_hint__"))?;
    let Some(method) = method else { return Ok(default) };
    // A `TypeError` of this call is caught here, so the call must not be claimed as the instruction's own.
    cx.claims.take();
    let hint = match cx.call(method, &CallArgs::default()) {
        Err(Unwind::Raise(error)) if is_type_error(cx, error)? => return Ok(default),
        hint => hint?,
    };
    match cx.known(hint)? {
        Some(known) if known.is(cx.py.NotImplemented()) => Ok(default),
        Some(known) if known.is_instance_of::<PyInt>() && known.ge(0)? => Ok(hint),
        _ => Err(cannot("length_hint() of what does not hint at a known length")),
    }
} }

fn is_type_error(cx: &mut OpcodeExecutor<'_>, error: VarId) -> Flow<bool> {
    let ty = cx.type_of(error)?;
    Ok(ty.cast::<PyType>().is_ok_and(|ty| cpython::is_subtype(ty, &cx.py.get_type::<PyTypeError>())))
}

builtin! { NEG = "operator:neg" => |cx, args| apply::<1>(cx, args, |cx, [value]| cx.unary(UnaryOp::Negative, value)) }
builtin! { POS = "operator:pos" => |cx, args| apply::<1>(cx, args, |cx, [value]| cx.unary(UnaryOp::Positive, value)) }
builtin! { INVERT = "operator:invert" => |cx, args| {
    apply::<1>(cx, args, |cx, [value]| cx.unary(UnaryOp::Invert, value))
} }

builtin! { TRUTH = "operator:truth" => |cx, args| apply::<1>(cx, args, |cx, [value]| {
    let truth = cx.truth(value)?;
    Ok(cx.trace.boolean(truth))
}) }

builtin! { ABS = "operator:abs" => |cx, args| apply::<1>(cx, args, |cx, [value]| {
    let abs = cpython::builtin(cx.py, "abs")?;
    cx.call_builtin(&abs, &CallArgs::positional(vec![value]), false)
}) }

builtin! { NOT = "operator:not_" => |cx, args| apply::<1>(cx, args, |cx, [value]| cx.not(value)) }
builtin! { IS = "operator:is_" => |cx, args| apply::<2>(cx, args, |cx, [a, b]| cx.is_op(a, b, false)) }
builtin! { IS_NOT = "operator:is_not" => |cx, args| apply::<2>(cx, args, |cx, [a, b]| cx.is_op(a, b, true)) }
builtin! { CONTAINS = "operator:contains" => |cx, args| apply::<2>(cx, args, |cx, [a, b]| cx.contains(a, b, false)) }
builtin! { GETITEM = "operator:getitem" => |cx, args| apply::<2>(cx, args, |cx, [a, b]| cx.get_item(a, b)) }

builtin! { SETITEM = "operator:setitem" => |cx, args| apply::<3>(cx, args, |cx, [a, b, c]| {
    cx.set_item(a, b, c)?;
    Ok(cx.trace.none())
}) }

builtin! { DELITEM = "operator:delitem" => |cx, args| apply::<2>(cx, args, |cx, [a, b]| {
    cx.del_item(a, b)?;
    Ok(cx.trace.none())
}) }

fn apply<const N: usize>(
    cx: &mut OpcodeExecutor<'_>,
    args: &CallArgs,
    operation: impl FnOnce(&mut OpcodeExecutor<'_>, [VarId; N]) -> Flow<VarId>,
) -> Flow<VarId> {
    let operands = args.exactly("operator")?;
    operation(cx, operands)
}
