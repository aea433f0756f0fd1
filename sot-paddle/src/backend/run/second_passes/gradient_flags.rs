//! Corrects `stop_gradient` of the gradients that `backward` stores on leaves. In eager mode the flag is off. A program
//! has the flag on, so that computations with the gradient would have no gradient.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Returns the inputs or parameters of a run whose gradient must have `stop_gradient` off after the pass: leaves
/// without a gradient, and leaves whose gradient has the flag off now. The flag must be read before the pass, because a
/// pass replaces a cleared gradient together with its flag. References to other tensors are not held, because the pass
/// releases these tensors while it runs.
pub(super) fn leaves_to_switch_off<'py>(given: &Bound<'py, PyTuple>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let py = given.py();
    let mut leaves = Vec::new();
    for tensor in given {
        // The function may have set the flag of the leaf itself after the program had run. Then the leaf has a node
        // that takes its gradient, which other tensors without gradients do not have.
        if is_on(&tensor)? && tensor.getattr(intern!(py, "grad_fn"))?.is_none() {
            continue;
        }
        if !tensor.getattr(intern!(py, "is_leaf"))?.is_truthy()? {
            continue;
        }
        let gradient = tensor.getattr(intern!(py, "grad"))?;
        if gradient.is_none() || !is_on(&gradient)? {
            leaves.push(tensor);
        }
    }
    Ok(leaves)
}

/// Switches `stop_gradient` off for the gradients of these leaves, after the pass.
pub(super) fn switch_off(py: Python<'_>, leaves: &[Py<PyAny>]) -> PyResult<()> {
    for leaf in leaves {
        let gradient = leaf.bind(py).getattr(intern!(py, "grad"))?;
        if !gradient.is_none() && is_on(&gradient)? {
            gradient.setattr(intern!(py, "stop_gradient"), false)?;
            // `grad` returns another handle of the same memory. Paddle makes a handle's flags when they are first set,
            // so this handle is stored.
            leaf.bind(py).setattr(intern!(py, "grad_"), gradient)?;
        }
    }
    Ok(())
}

/// True if the tensor's `stop_gradient` is on.
pub(super) fn is_on(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    tensor.getattr(intern!(tensor.py(), "stop_gradient"))?.is_truthy()
}
