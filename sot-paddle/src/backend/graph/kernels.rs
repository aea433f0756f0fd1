//! Refuses operations that a program has no kernel for, with the element type of their operands. Eager mode raises for
//! them, or makes a view. A program would raise at each run, choose a kernel of another library, or end the process.

use std::collections::{HashMap, HashSet};

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use sot_core::cpython;

use crate::backend::paddle::meta::dtype_name;
use crate::backend::paddle::operation;
use crate::backend::paddle::state;
use crate::backend::paddle::Paddle;

/// The element types for which some operations have no kernel.
const RARE: &[&str] = &["bfloat16", "float16", "complex64", "complex128", "int8", "uint8", "int16"];

/// The kernels for the CPU.
struct Kernels {
    /// The element types of each operation's kernels that programs can use.
    types: HashMap<String, Vec<String>>,
    /// Operations that only make views, in eager mode: they, or their gradients, have kernels for no other layout.
    views: HashSet<String>,
}

/// Refuses an operation that makes views in eager mode and that programs cannot run, such as `_C_ops.view_shape`.
pub(crate) fn refuse_view(py: Python<'_>, name: &str) -> PyResult<()> {
    let is_view =
        name.strip_prefix("pd_op.").map_or(Ok(false), |name| PyResult::Ok(kernels(py)?.views.contains(name)))?;
    if is_view {
        return Err(PyNotImplementedError::new_err(format!("{name} makes views, in eager mode only")));
    }
    Ok(())
}

/// Refuses an operation on the CPU if it has kernels for `float32`, but not for the type of its operands. Operands of
/// common integer types, such as positions, may be of another type.
pub(crate) fn refuse_missing(paddle: &Paddle, name: &str, sources: &[Bound<'_, PyAny>]) -> PyResult<()> {
    let Some(first) = sources.first() else { return Ok(()) };
    let py = first.py();
    let mut dtypes = Vec::new();
    for source in sources.iter().filter(|source| paddle.is_value(source)) {
        // A list of tensors has no element type of its own.
        let Some(dtype) = source.getattr_opt(intern!(py, "dtype")).ok().flatten() else { return Ok(()) };
        let dtype = dtype_name(&dtype)?;
        let counts = dtype.contains("float") || RARE.contains(&&*dtype);
        if counts && !is_constant(source)? {
            dtypes.push(dtype);
        }
    }
    let Some(dtype) = dtypes.first().filter(|dtype| RARE.contains(&&***dtype)) else { return Ok(()) };
    // With mixed precision, Paddle has cast the operands, for a device that has the kernels.
    if dtypes.iter().any(|other| other != dtype)
        || state::casts(py, paddle)?
        || !state::expected_place(py, paddle)?.str()?.to_str()?.contains("cpu")
    {
        return Ok(());
    }
    let Some(types) =
        name.strip_prefix("pd_op.").and_then(|name| kernels(py).ok()?.types.get(name.trim_end_matches('_')))
    else {
        return Ok(());
    };
    if types.iter().any(|other| other == "float32") && !types.iter().any(|other| **other == **dtype) {
        let text = format!("{name} has no kernel for {dtype} on this device");
        return Err(PyNotImplementedError::new_err(text));
    }
    Ok(())
}

/// True if a value is a number that an operation takes, not a tensor of the program's.
fn is_constant(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(operation::constant_of(value)?.is_some())
}

fn kernels(py: Python<'_>) -> PyResult<&Kernels> {
    static KERNELS: PyOnceLock<Kernels> = PyOnceLock::new();
    KERNELS.get_or_try_init(py, || {
        let core = cpython::import(py, "paddle.base.core")?;
        let registered = core.call_method1("_get_registered_phi_kernels", ("function",))?.cast_into::<PyDict>()?;
        let (mut types, mut views) = (HashMap::new(), HashSet::new());
        for (name, keys) in registered {
            // Each key is a text such as `(CPU, Undefined(AnyLayout), float32)`. Kernels for the layout `STRIDED` make
            // views, and are for eager mode only.
            let of_cpu = keys.extract::<Vec<String>>()?.into_iter().filter(|key| key.starts_with("(CPU,"));
            let (strided, others): (Vec<_>, Vec<_>) = of_cpu.partition(|key| key.contains("STRIDED"));
            let name: String = name.extract()?;
            if others.is_empty() && !strided.is_empty() {
                views.insert(name.strip_suffix("_grad").unwrap_or(&name).to_owned());
            }
            let type_of = |key: String| Some(key.rsplit(", ").next()?.trim_end_matches(')').to_owned());
            types.insert(name, others.into_iter().filter_map(type_of).collect());
        }
        Ok(Kernels { types, views })
    })
}
