//! What is known of tensors that a graph writes to: each write gives the tensor a new value in the program.

use std::collections::{HashMap, HashSet};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::backend::graph::builder::identity;
use crate::backend::memory::in_place::{clearing, is_set_value, refuse, stops};
use crate::backend::numbers::scalar;
use crate::backend::paddle::meta;
use crate::backend::paddle::Paddle;

/// The writes to tensors so far, by the identity of the value that the tensor has after them.
#[derive(Default)]
pub(crate) struct WriteHistories(HashMap<u64, WriteHistory>);

/// The writes to one tensor.
#[derive(Clone)]
struct WriteHistory {
    /// The value that the tensor had before the first write.
    first: u64,
    /// Number of writes as autograd counts them.
    versions: usize,
    /// The tensors whose `clear_gradient` wrote to this one, each as the value that it had before its first write.
    cleared_for: Vec<u64>,
}

impl WriteHistories {
    /// Notes that a call has given the tensor, its first argument, a new value.
    pub(crate) fn note(
        &mut self,
        paddle: &Paddle,
        callee: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        result: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let mut history = self.of(identity(paddle, &args.get_item(0)?)?);
        // Paddle does not count a write by `exponential_`.
        let is_exponential = scalar::name(callee)?.as_deref() == Some("exponential_");
        let counts = !is_set_value(callee)? && !is_exponential;
        history.versions += usize::from(counts);
        if callee.is(clearing(callee.py())?) {
            history.cleared_for.push(self.of(identity(paddle, &args.get_item(1)?)?).first);
        }
        self.0.insert(identity(paddle, result)?, history);
        Ok(())
    }

    fn of(&self, value: u64) -> WriteHistory {
        let unwritten = || WriteHistory { first: value, versions: 0, cleared_for: Vec::new() };
        self.0.get(&value).cloned().unwrap_or_else(unwritten)
    }

    /// True if no tensor was written to.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if a tensor has this value after a write.
    pub(crate) fn is_written(&self, value: u64) -> bool {
        self.0.contains_key(&value)
    }

    /// Returns the number of writes to the tensor that has this value, as autograd counts them.
    pub(crate) fn versions(&self, value: u64) -> usize {
        self.of(value).versions
    }

    /// Returns the tensors whose `clear_gradient` wrote to the tensor that has this value, each as the value that it
    /// had before its first write.
    pub(crate) fn cleared_for(&self, value: u64) -> Vec<u64> {
        self.of(value).cleared_for
    }
}

/// Tensors that have a gradient of their own and keep it when they are changed while no gradient is recorded, such as
/// a parameter changed under `no_grad`. No gradient flows through their new value in the program. In eager mode a
/// gradient would begin at the tensor.
#[derive(Default)]
pub(crate) struct OwnGradients {
    /// The new values of these tensors.
    changed: HashSet<u64>,
    /// Values that gradients flow to.
    reached: HashSet<u64>,
}

impl OwnGradients {
    /// Checks the arguments of a call: no gradient may flow to the new value of a tensor that has a gradient of its
    /// own.
    pub(crate) fn check(
        &mut self,
        paddle: &Paddle,
        callee: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        if is_set_value(callee)? || !paddle.grad_enabled(args.py())? {
            return Ok(());
        }
        let mut given = meta::values_in(paddle, args)?;
        if let Some(kwargs) = kwargs {
            given.extend(meta::values_in(paddle, kwargs)?);
        }
        for value in given {
            let id = identity(paddle, &value)?;
            if self.changed.contains(&id) {
                return refuse("a gradient begins at a tensor that was changed where none is recorded");
            }
            if !stops(&value)? {
                self.reached.insert(id);
            }
        }
        Ok(())
    }

    /// Notes the new value that a call has given the tensor, its first argument.
    pub(crate) fn note(
        &mut self,
        paddle: &Paddle,
        callee: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        result: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let tensor = args.get_item(0)?;
        let id = identity(paddle, &tensor)?;
        let has_one = self.changed.contains(&id) || !stops(&tensor)?;
        let unrecorded = is_set_value(callee)? || !paddle.grad_enabled(callee.py())?;
        if has_one && unrecorded && stops(result)? && !self.reached.contains(&id) {
            self.changed.insert(identity(paddle, result)?);
        }
        Ok(())
    }

    /// True if the tensor with this value has a gradient of its own.
    pub(crate) fn has(&self, value: u64) -> bool {
        self.changed.contains(&value)
    }
}
