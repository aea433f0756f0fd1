//! Operations of refused statements. They would run with the program, and do twice what the call does when it then runs
//! natively: raise, draw random numbers, write to running statistics. They are removed when the program is complete,
//! and not before: values are known by their addresses, which later values may have again.

use std::collections::HashSet;

use pyo3::intern;
use pyo3::prelude::*;

use crate::backend::paddle::operation;
use crate::backend::paddle::static_mode::BuildTarget;
use crate::backend::paddle::Paddle;

use super::identity;

/// The operations, in their order.
#[derive(Default)]
pub(super) struct RefusedOperations(Vec<Py<PyAny>>);

/// The last operation of a program before a statement; `None` if there was none.
pub(super) struct ProgramEnd(Option<u64>);

impl ProgramEnd {
    pub(super) fn of(target: &BuildTarget, py: Python<'_>) -> PyResult<Self> {
        if target.operations(py)? == 0 {
            return Ok(ProgramEnd(None));
        }
        let last = target.block(py).call_method0(intern!(py, "back"))?;
        last.call_method0(intern!(py, "id"))?.extract().map(Some).map(ProgramEnd)
    }
}

impl RefusedOperations {
    /// Notes what a refused statement has appended. Parameters stay: the program has them in a list.
    pub(super) fn note(&mut self, target: &BuildTarget, end: &ProgramEnd, py: Python<'_>) -> PyResult<()> {
        let operations = operation::of_block(target.block(py))?;
        let begin = self.0.len();
        for operation in operations.into_iter().rev() {
            if end.0 == Some(operation.call_method0(intern!(py, "id"))?.extract()?) {
                break;
            }
            if operation::name_of(&operation)? != "builtin.parameter" {
                self.0.push(operation.unbind());
            }
        }
        self.0[begin..].reverse();
        Ok(())
    }

    /// Removes the operations from the program, except those whose values are used.
    pub(super) fn remove(
        &mut self,
        paddle: &Paddle,
        target: &BuildTarget,
        used: &HashSet<u64>,
        py: Python<'_>,
    ) -> PyResult<()> {
        for operation in std::mem::take(&mut self.0).into_iter().rev() {
            let operation = operation.bind(py);
            if !has_uses(paddle, operation, used)? {
                target.block(py).call_method1(intern!(py, "remove_op"), (operation,))?;
            }
        }
        Ok(())
    }
}

fn has_uses(paddle: &Paddle, operation: &Bound<'_, PyAny>, used: &HashSet<u64>) -> PyResult<bool> {
    let py = operation.py();
    for result in operation.call_method0(intern!(py, "results"))?.try_iter()? {
        let result = result?;
        if result.call_method0(intern!(py, "initialized"))?.is_truthy()?
            && (!result.call_method0(intern!(py, "use_empty"))?.is_truthy()?
                || used.contains(&identity(paddle, &result)?))
        {
            return Ok(true);
        }
    }
    Ok(false)
}
