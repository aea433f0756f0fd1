//! How much longer a call takes in eager mode than in a program, in units of a call of a C function. It decides whether
//! a graph becomes a program.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFunction, PyInt, PyString, PyTuple};
use sot_core::backend::CallKind;
use sot_core::bytecode::{Op, Opcodes};
use sot_core::cpython;

use crate::backend::calls::{items, marks};
use crate::backend::paddle::Paddle;

/// Most layers take as long as four functions in C.
const LAYER: isize = 4;
const IN_PYTHON: isize = 2;
const IN_C: isize = 1;
/// An index with an integer of the graph. In a program it is several operations and a check: 9 µs, where a call takes 4.
const ITEM: isize = -2;
/// With known integers, too: 14 µs.
const MIXED_ITEM: isize = -4;

/// Returns the weight of a statement ([`GraphBuilder::weight`](sot_core::backend::GraphBuilder::weight)).
pub(crate) fn weight(
    paddle: &Paddle,
    (kind, callee): (CallKind, &Bound<'_, PyAny>),
    args: &Bound<'_, PyTuple>,
) -> PyResult<Option<isize>> {
    if kind == CallKind::Api && marks::is_for_programs(callee)? {
        return Ok(None);
    }
    if items::are_at_positions(paddle, (kind, callee), args)? {
        let is_mixed = items::parts(&args.get_item(1)?).iter().any(PyAnyMethods::is_exact_instance_of::<PyInt>);
        return Ok(Some(if is_mixed { MIXED_ITEM } else { ITEM }));
    }
    let function = match (kind, callee.cast::<PyString>()) {
        (CallKind::Object(_), _) => return Ok(Some(LAYER)),
        (CallKind::Method | CallKind::InPlace, Ok(name)) => {
            cpython::type_lookup(paddle.tensor_type.bind(callee.py()), name)
        }
        _ => Some(callee.clone()),
    };
    let Some(mut function) = function else { return Ok(Some(IN_C)) };
    while let Some(decorated) = cpython::generic_getattr(&function, intern!(callee.py(), "__wrapped__"))? {
        function = decorated;
    }
    match function.cast::<PyFunction>() {
        Ok(function) if !only_forwards(function)? => Ok(Some(IN_PYTHON)),
        _ => Ok(Some(IN_C)),
    }
}

/// True if a function's code reaches a `return` at once, because it only calls a C function with the same arguments.
fn only_forwards(function: &Bound<'_, PyFunction>) -> PyResult<bool> {
    /// Instructions and their inline caches.
    const AT_ONCE: usize = 32;
    let py = function.py();
    let bytecode = cpython::function_code(function).getattr(intern!(py, "co_code"))?.cast_into::<PyBytes>()?;
    let ends = Opcodes::get(py).find(Op::RETURN_VALUE);
    Ok(bytecode.as_bytes().chunks(2).take(AT_ONCE).any(|unit| unit.first().copied() == ends))
}
