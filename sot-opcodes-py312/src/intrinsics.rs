//! Intrinsics (3.12): rare operations that have no opcode of their own. Those of the interactive prompt, of modules, and of
//! coroutines do not occur in functions; those of type parameters run in scopes of their own, which are not followed.

use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::prelude::*;
use pyo3::types::PyType;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{OpcodeExecutor, UnaryOp};
use sot_core::opcode;
use sot_core::variable::VarId;
use sot_opcodes_py38::container::list_to_tuple;

use crate::exception::combine_raised;

opcode! { CALL_INTRINSIC_1 [3.12..3.14] (value -- result) => |cx, op| unary(cx, op.arg, value) }
opcode! { CALL_INTRINSIC_2 [3.12..3.14] (first, second -- result) => |cx, op| binary(cx, op.arg, first, second) }

fn unary(cx: &mut OpcodeExecutor<'_>, number: u32, value: VarId) -> Flow<VarId> {
    match name(cx, "_intrinsic_1_descs", number)?.as_str() {
        "INTRINSIC_STOPITERATION_ERROR" => stop_iteration_error(cx, value),
        "INTRINSIC_UNARY_POSITIVE" => cx.unary(UnaryOp::Positive, value),
        "INTRINSIC_LIST_TO_TUPLE" => list_to_tuple(cx, value),
        other => Err(unknown(other)),
    }
}

fn binary(cx: &mut OpcodeExecutor<'_>, number: u32, first: VarId, second: VarId) -> Flow<VarId> {
    match name(cx, "_intrinsic_2_descs", number)?.as_str() {
        "INTRINSIC_PREP_RERAISE_STAR" => combine_raised(cx, first, second),
        other => Err(unknown(other)),
    }
}

/// CPython's name of an intrinsic.
fn name(cx: &OpcodeExecutor<'_>, table: &str, number: u32) -> Flow<String> {
    Ok(cpython::import(cx.py, "opcode")?.getattr(table)?.get_item(number)?.extract()?)
}

fn unknown(name: &str) -> Unwind {
    Unwind::break_graph(ReasonId::UnimplementedOpcode, format!("intrinsic {name} has no handler"))
}

/// A `StopIteration` that leaves a generator's body becomes a `RuntimeError` caused by it.
fn stop_iteration_error(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> Flow<VarId> {
    let class = cx.type_of(exception)?;
    let stop = cx.py.get_type::<PyStopIteration>();
    if !class.cast::<PyType>().is_ok_and(|class| class.mro().iter().any(|base| base.is(&stop))) {
        return Ok(exception);
    }
    match cx.raise_because_of(PyRuntimeError::new_err("generator raised StopIteration"), exception) {
        Unwind::Raise(error) => Ok(error),
        other => Err(other),
    }
}
