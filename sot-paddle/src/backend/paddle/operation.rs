//! Operations of Paddle's programs: `paddle.base.libpaddle.pir.Operation`.

use pyo3::intern;
use pyo3::prelude::*;

/// Returns the operations of a program's outermost block.
pub(crate) fn of_program<'py>(program: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    of_block(&program.call_method0(intern!(program.py(), "global_block"))?)
}

/// Returns the operations of a block, without those of the blocks inside them.
pub(crate) fn of_block<'py>(block: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    block.getattr(intern!(block.py(), "ops"))?.extract()
}

/// Returns the name of an operation with its dialect, such as `pd_op.add`.
pub(crate) fn name_of(operation: &Bound<'_, PyAny>) -> PyResult<String> {
    operation.call_method0(intern!(operation.py(), "name"))?.extract()
}

/// Returns the operation that makes a value, if it makes a constant: a tensor filled with one number.
pub(crate) fn constant_of<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let operation = value.call_method0(intern!(value.py(), "get_defining_op"))?;
    let is_constant = !operation.is_none() && name_of(&operation)? == "pd_op.full";
    Ok(is_constant.then_some(operation))
}

/// True if an operation, such as a branch or a loop, has blocks of its own.
pub(crate) fn has_blocks(operation: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(operation.call_method0(intern!(operation.py(), "num_regions"))?.extract::<usize>()? > 0)
}

/// Returns the blocks of an operation. Iterating over none takes as long as building an operation, since the end of
/// Paddle's iterator is a C++ exception.
pub(crate) fn blocks_of<'py>(operation: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if !has_blocks(operation)? {
        return Ok(Vec::new());
    }
    operation.call_method0(intern!(operation.py(), "blocks"))?.try_iter()?.collect()
}
