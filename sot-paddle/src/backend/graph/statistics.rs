//! What a program changes besides its results: running statistics, and the state of the random numbers. If the program
//! raises, the frame runs again in CPython, which changes them once more. So they are saved until a run has succeeded,
//! and, if an operation of the program raises for some numbers, before each run.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::backend::graph::builder::identity;
use crate::backend::graph::may_raise;
use crate::backend::graph::random_operations;
use crate::backend::paddle::operation;
use crate::backend::paddle::Paddle;
use crate::backend::run::second_passes::ProgramInput;

/// Operations that write to running statistics, their second and third operands.
const WRITING: [&str; 2] = ["pd_op.batch_norm_", "pd_op.sync_batch_norm_"];

/// What a run of a program changes besides its results.
#[derive(Default)]
pub(crate) struct Changes {
    /// Running statistics.
    pub(crate) statistics: Vec<ProgramInput>,
    /// True if random numbers are drawn.
    pub(crate) random_numbers: bool,
    /// True if a run may raise although an earlier one did not.
    may_raise: bool,
    /// True if a run of the program has succeeded.
    has_succeeded: AtomicBool,
}

impl Changes {
    /// True if what the next run changes has to be saved before it.
    pub(crate) fn may_be_undone(&self) -> bool {
        (self.random_numbers || !self.statistics.is_empty())
            && (self.may_raise || !self.has_succeeded.load(Ordering::Relaxed))
    }

    /// Notes that a run has succeeded.
    pub(crate) fn note_success(&self) {
        self.has_succeeded.store(true, Ordering::Relaxed);
    }
}

/// Returns what a program changes besides its results.
pub(crate) fn changes(
    paddle: &Paddle,
    program: &Bound<'_, PyAny>,
    (inputs, parameters): (&Bound<'_, PyList>, &Bound<'_, PyList>),
) -> PyResult<Changes> {
    let mut places = HashMap::new();
    for (at, input) in inputs.iter().enumerate() {
        places.insert(identity(paddle, &input)?, ProgramInput::Input(at));
    }
    for (at, parameter) in parameters.iter().enumerate() {
        places.insert(identity(paddle, &parameter)?, ProgramInput::Parameter(at));
    }
    let mut operations = Vec::new();
    collect_operations(&program.call_method0("global_block")?, &mut operations)?;
    let mut changes = Changes::default();
    for (name, operation) in &operations {
        changes.random_numbers |= random_operations::draws(name);
        if WRITING.contains(&&**name) && is_training(operation)? {
            for operand in operation.call_method0("operands_source")?.try_iter()?.skip(1).take(2) {
                changes.statistics.extend(identity(paddle, &operand?).ok().and_then(|id| places.get(&id)).copied());
            }
        }
    }
    if changes.random_numbers || !changes.statistics.is_empty() {
        for (name, operation) in &operations {
            changes.may_raise = changes.may_raise || may_raise::operation_may_raise(paddle, operation, name)?;
        }
    }
    Ok(changes)
}

/// True if a batch normalisation writes to its running statistics.
fn is_training(operation: &Bound<'_, PyAny>) -> PyResult<bool> {
    let attributes = operation.call_method0("attrs")?;
    let has = |name: &str| attributes.get_item(name)?.is_truthy();
    Ok(!has("use_global_stats")? && (!has("is_test")? || has("trainable_statistics")?))
}

/// Collects the operations of a block, and of the blocks inside them, with their names.
fn collect_operations<'py>(
    block: &Bound<'py, PyAny>,
    operations: &mut Vec<(String, Bound<'py, PyAny>)>,
) -> PyResult<()> {
    for operation in operation::of_block(block)? {
        let blocks = operation::blocks_of(&operation)?;
        operations.push((operation::name_of(&operation)?, operation));
        for block in &blocks {
            collect_operations(block, operations)?;
        }
    }
    Ok(())
}
