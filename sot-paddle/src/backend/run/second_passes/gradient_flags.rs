//! Corrects `stop_gradient` of the gradients that `backward` leaves on leaves. Eager mode leaves it off. A program
//! leaves it on, so that computations with the gradient would have no gradient.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Returns the inputs or parameters of a run that a pass will give a new gradient. An existing gradient keeps its own
/// flag. Other tensors are not held, because the pass releases them while it runs.
pub(super) fn bare_leaves<'py>(given: &Bound<'py, PyTuple>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let py = given.py();
    let mut leaves = Vec::new();
    for tensor in given {
        let is_leaf = !is_on(&tensor)? && tensor.getattr(intern!(py, "is_leaf"))?.is_truthy()?;
        if is_leaf && tensor.getattr(intern!(py, "grad"))?.is_none() {
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

fn is_on(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    tensor.getattr(intern!(tensor.py(), "stop_gradient"))?.is_truthy()
}
