//! Which values of a graph carry gradients. Static mode marks a value by the inputs of its operation alone, eager mode
//! also by whether the operation has a gradient at all; and static mode forgets that grad mode is off where a tensor is
//! copied. Here the values of a statement are brought in line with eager mode.

use std::collections::HashSet;

use pyo3::intern;
use pyo3::prelude::*;

use crate::backend::paddle::meta;
use crate::backend::paddle::Paddle;

/// Operands of these names say where or how, in all operations, and no gradient flows to them.
const POSITIONS: &[&str] =
    &["axis", "condition", "ends", "index", "indices", "mask", "repeats", "shape", "shifts", "starts", "steps"];

/// More operands that eager mode asks for no gradient, by operation and name.
const WITHOUT_GRADIENT: &[(&str, &str)] = &[
    ("pd_op.bce_loss", "label"),
    ("pd_op.cross_entropy_with_softmax", "label"),
    ("pd_op.embedding", "x"),
    ("pd_op.kldiv_loss", "label"),
    ("pd_op.nll_loss", "label"),
    ("pd_op.sigmoid_cross_entropy_with_logits", "label"),
];

/// The values whose flag is right already.
#[derive(Default)]
pub(crate) struct Settled(HashSet<u64>);

impl Settled {
    /// Corrects the flags of the values in `result`, in any nesting, and of the values between them and earlier
    /// statements.
    pub(crate) fn settle(&mut self, paddle: &Paddle, result: &Bound<'_, PyAny>) -> PyResult<()> {
        meta::values_in(paddle, result)?.iter().try_for_each(|value| self.stops(paddle, value).map(drop))
    }

    /// Whether no gradient flows through `value`, once its flag is right.
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

/// The names of an operation's operands; none where they are not told apart.
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

    /// Whether gradients flow to an operand.
    pub(crate) fn take_gradient(&self, at: usize) -> bool {
        let Some(name) = self.names.get(at) else { return true };
        !POSITIONS.contains(&&**name) && !WITHOUT_GRADIENT.contains(&(self.operation, &**name))
    }
}
