//! What a program changes besides its results: running statistics, and the state of the random numbers. If the program
//! raises, the frame runs again in CPython, which changes them once more. So they are saved before each run of a
//! program that may raise.

use std::collections::HashMap;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::backend::graph::builder::identity;
use crate::backend::graph::random_operations;
use crate::backend::paddle::meta;
use crate::backend::paddle::Paddle;

/// Operations that write to running statistics, their second and third operands.
const WRITING: [&str; 2] = ["pd_op.batch_norm_", "pd_op.sync_batch_norm_"];

/// Operations that raise because of the numbers of their operands.
const RAISING: [&str; 17] = [
    "pd_op.bincount",
    "pd_op.cross_entropy_with_softmax",
    "pd_op.embedding",
    "pd_op.gather",
    "pd_op.gather_nd",
    "pd_op.index_add",
    "pd_op.index_put",
    "pd_op.index_sample",
    "pd_op.index_select",
    "pd_op.index_select_strided",
    "pd_op.nll_loss",
    "pd_op.one_hot",
    "pd_op.put_along_axis",
    "pd_op.repeat_interleave_with_tensor_index",
    "pd_op.scatter",
    "pd_op.scatter_nd_add",
    "pd_op.take_along_axis",
];

/// What a run of a program changes before it may raise.
#[derive(Default)]
pub(crate) struct Changes {
    /// Positions, among the parameters, of running statistics.
    pub(crate) statistics: Vec<usize>,
    /// True if random numbers are drawn.
    pub(crate) random_numbers: bool,
}

impl Changes {
    /// True if nothing has to be saved.
    pub(crate) fn are_none(&self) -> bool {
        self.statistics.is_empty() && !self.random_numbers
    }
}

/// Returns what a program changes before it may raise. With an open size, each operation may raise.
pub(crate) fn changes(
    paddle: &Paddle,
    program: &Bound<'_, PyAny>,
    (inputs, parameters): (&Bound<'_, PyList>, &Bound<'_, PyList>),
) -> PyResult<Changes> {
    let mut places = HashMap::new();
    for (at, parameter) in parameters.iter().enumerate() {
        places.insert(identity(paddle, &parameter)?, at);
    }
    let mut may_raise = false;
    for input in inputs {
        may_raise |= meta::of_value(paddle, &input)?.is_some_and(|meta| meta.shape.contains(&None));
    }
    let mut changes = Changes::default();
    for operation in program.call_method0("global_block")?.getattr("ops")?.try_iter()? {
        let operation = operation?;
        let name: String = operation.call_method0(intern!(operation.py(), "name"))?.extract()?;
        may_raise |= RAISING.contains(&&*name);
        changes.random_numbers |= random_operations::draws(&name);
        if WRITING.contains(&&*name) {
            for operand in operation.call_method0("operands_source")?.try_iter()?.skip(1).take(2) {
                changes.statistics.extend(identity(paddle, &operand?).ok().and_then(|id| places.get(&id)).copied());
            }
        }
    }
    Ok(if may_raise { changes } else { Changes::default() })
}
