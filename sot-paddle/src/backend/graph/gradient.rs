//! Corrects which values of a graph carry gradients. Static mode decides by the inputs of an operation alone. Eager
//! mode also asks if the operation has a gradient, and for which operands, and static mode forgets that grad mode is
//! off where a tensor is copied. Here the flags of a statement's values are set as eager mode would.

use std::collections::HashSet;

use pyo3::intern;
use pyo3::prelude::*;

use crate::backend::paddle::meta;
use crate::backend::paddle::Paddle;

/// The values whose flag is correct already.
#[derive(Default)]
pub(crate) struct CorrectedFlags(HashSet<u64>);

impl CorrectedFlags {
    /// Corrects the flags of the values in `result`, at any depth, and of the values between them and earlier
    /// statements.
    pub(crate) fn correct(&mut self, paddle: &Paddle, result: &Bound<'_, PyAny>) -> PyResult<()> {
        meta::values_in(paddle, result)?.iter().try_for_each(|value| self.stops(paddle, value).map(drop))
    }

    /// Leaves the flags of the values in `result` as they are.
    pub(crate) fn keep(&mut self, paddle: &Paddle, result: &Bound<'_, PyAny>) -> PyResult<()> {
        for value in meta::values_in(paddle, result)? {
            self.0.insert(value.call_method0(intern!(value.py(), "hash"))?.extract()?);
        }
        Ok(())
    }

    /// Corrects the flag of `value`, and returns true if no gradient flows through it.
    fn stops(&mut self, paddle: &Paddle, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = value.py();
        if value.getattr(intern!(py, "stop_gradient"))?.is_truthy()? {
            return Ok(true);
        }
        if !self.0.insert(value.call_method0(intern!(py, "hash"))?.extract()?) {
            return Ok(false);
        }
        if self.flows_from_operation(paddle, value)? {
            return Ok(false);
        }
        value.setattr(intern!(py, "stop_gradient"), true)?;
        Ok(true)
    }

    fn flows_from_operation(&mut self, paddle: &Paddle, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = value.py();
        let operation = value.call_method0(intern!(py, "get_defining_op"))?;
        if operation.is_none() {
            return Ok(true);
        }
        let sources: Vec<Bound<'_, PyAny>> = operation.call_method0(intern!(py, "operands_source"))?.extract()?;
        if sources.is_empty() {
            return Ok(true); // An input, a parameter, or made trainable on purpose.
        }
        if !paddle.grad_enabled(py)? {
            return Ok(false);
        }
        let name = operation.call_method0(intern!(py, "name"))?;
        // Operations of the `builtin` dialect bundle values for others and pass gradients on.
        let bundles = name.extract::<&str>()?.starts_with("builtin.");
        if !bundles && !paddle.has_vjp.bind(py).call1((&operation,))?.is_truthy()? {
            return Ok(false);
        }
        let operands = GradientOperands::of(&operation, name.extract()?, sources.len());
        let mut flows = false;
        for (at, source) in sources.iter().enumerate() {
            flows |= !self.stops(paddle, source)? && operands.include(at);
        }
        Ok(flows)
    }
}

/// Which operands of an operation gradients flow to.
pub(crate) struct GradientOperands(Vec<bool>);

impl GradientOperands {
    /// Asks Paddle's description of the operation, which has `count` operands. Control flow has no description.
    pub(crate) fn of(operation: &Bound<'_, PyAny>, name: &str, count: usize) -> Self {
        if count < 2 || name.starts_with("builtin.") {
            return GradientOperands(Vec::new());
        }
        let described = operation.call_method0(intern!(operation.py(), "get_input_grad_semantics"));
        let flags: Vec<bool> = described.and_then(|flags| flags.extract()).unwrap_or_default();
        GradientOperands(if flags.len() == count { flags } else { Vec::new() })
    }

    /// True if gradients flow to the operand at index `at`, or nothing is known about it.
    pub(crate) fn include(&self, at: usize) -> bool {
        self.0.get(at).copied().unwrap_or(true)
    }
}
