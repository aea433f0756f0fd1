//! Intrinsics (3.12): rare operations that have no opcode of their own. The intrinsics for the interactive prompt,
//! modules and coroutines do not occur in functions.

use std::rc::Rc;

use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyType};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{unwinding, CallArgs, OpcodeExecutor, Trace, UnaryOp};
use sot_core::opcode;
use sot_core::opcode::Quiet;
use sot_core::variable::VarId;
use sot_core::{cpython, translate};
use sot_opcodes_py38::container::list_to_tuple;
use sot_variables::classes::stand_in;

use crate::exception::combine_raised;

opcode! {
    CALL_INTRINSIC_1 [3.12..3.14] (value -- result)
        .quiet(Quiet::OfException)
        => |cx, op| unary(cx, op.arg, value)
}
opcode! { CALL_INTRINSIC_2 [3.12..3.14] (first, second -- result) => |cx, op| binary(cx, op.arg, first, second) }

fn unary(cx: &mut OpcodeExecutor<'_>, number: u32, value: VarId) -> Flow<VarId> {
    match name(&cx.trace, "_intrinsic_1_descs", number)?.as_str() {
        "INTRINSIC_STOPITERATION_ERROR" => stop_iteration_error(cx, value),
        "INTRINSIC_UNARY_POSITIVE" => cx.unary(UnaryOp::Positive, value),
        "INTRINSIC_LIST_TO_TUPLE" => list_to_tuple(cx, value),
        "INTRINSIC_TYPEVAR"
        | "INTRINSIC_PARAMSPEC"
        | "INTRINSIC_TYPEVARTUPLE"
        | "INTRINSIC_SUBSCRIPT_GENERIC"
        | "INTRINSIC_TYPEALIAS" => make(cx, number, &[value]),
        other => Err(unknown(other)),
    }
}

fn binary(cx: &mut OpcodeExecutor<'_>, number: u32, first: VarId, second: VarId) -> Flow<VarId> {
    match name(&cx.trace, "_intrinsic_2_descs", number)?.as_str() {
        "INTRINSIC_PREP_RERAISE_STAR" => combine_raised(cx, first, second),
        "INTRINSIC_TYPEVAR_WITH_BOUND" | "INTRINSIC_TYPEVAR_WITH_CONSTRAINTS" | "INTRINSIC_SET_TYPEPARAM_DEFAULT" => {
            make(cx, number, &[first, second])
        }
        "INTRINSIC_SET_FUNCTION_TYPE_PARAMS" => {
            cx.set_attr(first, &Rc::from("__type_params__"), Some(second))?;
            Ok(first)
        }
        other => Err(unknown(other)),
    }
}

/// Calls an intrinsic that only stores its arguments in a new object: type parameters, the base class of a generic
/// class, `type` aliases.
fn make(cx: &mut OpcodeExecutor<'_>, number: u32, args: &[VarId]) -> Flow<VarId> {
    let function = as_function(cx.py, number, args.len())?;
    stand_in::call(cx, function.unbind(), &CallArgs::positional(args.to_vec()))
}

/// Creates a function that runs only an intrinsic, by replacing the instruction of a function that packs its
/// arguments.
fn as_function(py: Python<'_>, number: u32, arity: usize) -> PyResult<Bound<'_, PyAny>> {
    let template = if arity == 1 { c"lambda first: (first,)" } else { c"lambda first, second: (first, second)" };
    let function = py.eval(template, None, None)?;
    let opcodes = cpython::import(py, "opcode")?.getattr("opmap")?;
    let opcode = |name: &str| -> PyResult<u8> { opcodes.get_item(name)?.extract() };
    let (pack, intrinsic) = (opcode("BUILD_TUPLE")?, opcode(&format!("CALL_INTRINSIC_{arity}"))?);
    let code = function.getattr("__code__")?;
    let mut bytes: Vec<u8> = code.getattr("co_code")?.extract()?;
    for unit in bytes.chunks_exact_mut(2).filter(|unit| unit[0] == pack) {
        unit.copy_from_slice(&[intrinsic, number as u8]);
    }
    let changes = PyDict::new(py);
    changes.set_item("co_code", PyBytes::new(py, &bytes))?;
    let code = code.call_method("replace", (), Some(&changes))?;
    translate::leave_alone(code.cast()?, true);
    function.setattr("__code__", code)?;
    Ok(function)
}

/// Returns CPython's name of an intrinsic.
fn name(trace: &Trace<'_>, table: &str, number: u32) -> Flow<String> {
    Ok(cpython::import(trace.py, "opcode")?.getattr(table)?.get_item(number)?.extract()?)
}

fn unknown(name: &str) -> Unwind {
    Unwind::break_graph(ReasonId::UnimplementedOpcode, format!("intrinsic {name} has no handler"))
}

/// Converts a `StopIteration` that leaves a generator's body into a `RuntimeError` caused by it.
fn stop_iteration_error(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> Flow<VarId> {
    let class = cx.type_of(exception)?;
    let stop = cx.py.get_type::<PyStopIteration>();
    if !class.cast::<PyType>().is_ok_and(|class| class.mro().iter().any(|base| base.is(&stop))) {
        return Ok(exception);
    }
    match unwinding::raise_because_of(cx, PyRuntimeError::new_err("generator raised StopIteration"), exception) {
        Unwind::Raise(error) => Ok(error),
        other => Err(other),
    }
}
