//! The `stop_gradient` of the gradients that `backward` leaves on leaves. Eager mode's have it off; a program's have it
//! on, with which further computations begin without gradients.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Those of a run's inputs or parameters whose gradient has the flag off once the pass is over: that are without one, or
/// have one whose flag is off (a pass replaces one that was cleared, and its flag). Other tensors are not held: the pass
/// lets go of them while it runs.
pub(super) fn leaves_to_switch_off<'py>(given: &Bound<'py, PyTuple>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let py = given.py();
    let mut leaves = Vec::new();
    for tensor in given {
        let is_leaf = !is_on(&tensor)? && tensor.getattr(intern!(py, "is_leaf"))?.is_truthy()?;
        if !is_leaf {
            continue;
        }
        let gradient = tensor.getattr(intern!(py, "grad"))?;
        if gradient.is_none() || !is_on(&gradient)? {
            leaves.push(tensor);
        }
    }
    Ok(leaves)
}

/// The pass is over: the gradients of these leaves are as eager mode leaves them.
pub(super) fn switch_off(py: Python<'_>, leaves: &[Py<PyAny>]) -> PyResult<()> {
    for leaf in leaves {
        let gradient = leaf.bind(py).getattr(intern!(py, "grad"))?;
        if !gradient.is_none() && is_on(&gradient)? {
            gradient.setattr(intern!(py, "stop_gradient"), false)?;
            // What was asked for is another handle of the same memory: Paddle makes the flags when they are first set.
            leaf.bind(py).setattr(intern!(py, "grad_"), gradient)?;
        }
    }
    Ok(())
}

/// Whether the tensor's `stop_gradient` is on.
pub(super) fn is_on(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    tensor.getattr(intern!(tensor.py(), "stop_gradient"))?.is_truthy()
}
