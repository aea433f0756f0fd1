//! Optimizes a program with Paddle's passes. One of them merges equal operations (common subexpression elimination):
//! operations with the same operands and attributes become one. That is wrong for operations that draw random numbers,
//! and some releases merge operations that write in place, too. The pass is left out for programs with two of either.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::IntoPyDict;
use sot_core::cpython;

use crate::backend::graph::random_operations;
use crate::backend::paddle::operation;
use crate::backend::paddle::release::Release;

/// The flag that switches the pass on.
const FLAG: &str = "FLAGS_enable_cse_in_dy2st";

/// Makes the optimized program of a `PartialProgramLayer`.
pub(crate) fn optimize(release: &Release, layer: &Bound<'_, PyAny>) -> PyResult<()> {
    let optimized = || layer.getattr(intern!(layer.py(), "program")).map(drop);
    if !has_operations_to_keep(release, &layer.getattr("_origin_main_program")?)? {
        return optimized();
    }
    let paddle = cpython::import(layer.py(), "paddle")?;
    let before = paddle.call_method1("get_flags", (FLAG,))?;
    paddle.call_method1("set_flags", ([(FLAG, false)].into_py_dict(layer.py())?,))?;
    let done = optimized();
    paddle.call_method1("set_flags", (before,))?;
    done
}

/// True if a program has two operations of one name that must not become one.
fn has_operations_to_keep(release: &Release, program: &Bound<'_, PyAny>) -> PyResult<bool> {
    let mut met = Vec::new();
    for operation in operation::of_program(program)? {
        let name = operation::name_of(&operation)?;
        let is_kept = release.merges_writes && name.ends_with('_') || random_operations::draws_but_is_merged(&name);
        if is_kept {
            if met.contains(&name) {
                return Ok(true);
            }
            met.push(name);
        }
    }
    Ok(false)
}
