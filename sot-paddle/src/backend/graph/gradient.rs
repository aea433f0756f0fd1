//! Corrects which values of a graph carry gradients. Static mode decides by the inputs of an operation alone. Eager
//! mode also asks if the operation has a gradient at all, and static mode forgets that grad mode is off where a tensor
//! is copied. Here the flags of a statement's values are set as eager mode would.

use std::collections::HashSet;

use pyo3::intern;
use pyo3::prelude::*;

use crate::backend::paddle::meta;
use crate::backend::paddle::Paddle;

/// Names of operands that give positions or settings, in all operations: no gradient flows to them.
const POSITIONS: &[&str] =
    &["axis", "condition", "ends", "index", "indices", "mask", "repeats", "shape", "shifts", "starts", "steps"];

/// Other operands that no gradient flows to in eager mode, by operation and name.
const WITHOUT_GRADIENT: &[(&str, &str)] = &[
    ("pd_op.bce_loss", "label"),
    ("pd_op.cross_entropy_with_softmax", "label"),
    ("pd_op.embedding", "x"),
    ("pd_op.kldiv_loss", "label"),
    ("pd_op.nll_loss", "label"),
    ("pd_op.sigmoid_cross_entropy_with_logits", "label"),
];

/// The values whose flag is correct already.
#[derive(Default)]
pub(crate) struct CorrectedFlags(HashSet<u64>);

impl CorrectedFlags {
    /// Corrects the flags of the values in `result`, at any depth, and of the values between them and earlier
    /// statements.
    pub(crate) fn correct(&mut self, paddle: &Paddle, result: &Bound<'_, PyAny>) -> PyResult<()> {
        meta::values_in(paddle, result)?.iter().try_for_each(|value| self.stops(paddle, value).map(drop))
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
        let operands = OperandNames::of(&operation, name.extract()?, sources.len())?;
        let mut flows = false;
        for (at, source) in sources.iter().enumerate() {
            flows |= !self.stops(paddle, source)? && operands.take_gradient(at);
        }
        Ok(flows)
    }
}

/// The names of an operation's operands; empty if the names are not known.
pub(crate) struct OperandNames<'a> {
    operation: &'a str,
    names: Vec<String>,
}

impl<'a> OperandNames<'a> {
    pub(crate) fn of(operation: &Bound<'_, PyAny>, name: &'a str, count: usize) -> PyResult<Self> {
        if count < 2 || name.starts_with("builtin.") {
            return Ok(OperandNames { operation: name, names: Vec::new() });
        }
        let names: Vec<String> =
            operation.call_method0(intern!(operation.py(), "get_input_names"))?.extract().unwrap_or_default();
        Ok(OperandNames { operation: name, names: if names.len() == count { names } else { Vec::new() } })
    }

    /// True if gradients flow to the operand at index `at`.
    pub(crate) fn take_gradient(&self, at: usize) -> bool {
        let Some(name) = self.names.get(at) else { return true };
        !POSITIONS.contains(&&**name) && !WITHOUT_GRADIENT.contains(&(self.operation, &**name))
    }
}
