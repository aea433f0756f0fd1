//! The differences between the releases of Paddle, as one table that is chosen once at start. A newer Paddle that
//! differs again is one more file with the same items.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::backend::paddle::paddle_3_0;
use crate::backend::paddle::paddle_3_3;

use sot_core::cpython;

/// One release line of Paddle.
pub(crate) struct Release {
    /// The module whose `_global_parameter_recorder` and `_global_inplace_map` collect what a program refers to.
    pub(crate) recorder_module: &'static str,
    /// True if eager `tensor / number` multiplies by the reciprocal; static mode always does.
    pub(crate) divides_by_reciprocal: bool,
    /// The element type of the ranks of matrices.
    pub(crate) rank_dtype: &'static str,
    /// The element type of the tensor that `where` makes of a `float`.
    pub(crate) where_float: &'static str,
    /// The least number of dimensions of the tensor that `where` makes of a number.
    pub(crate) where_dimensions: usize,
    /// True if Python methods that are for eager mode only can be followed. Their decorator binds arguments by a
    /// signature.
    pub(crate) follows_eager_methods: bool,
    /// Attributes of a leaf that can be set to `None`.
    pub(crate) set_to_none: &'static [&'static str],
    /// Attributes that only eager tensors have, each with the method without arguments that returns the same.
    pub(crate) eager_attributes: &'static [(&'static str, &'static str)],
    /// The methods of a `PartialProgramLayer` that make its optimized program and that switch to static mode.
    pub(crate) static_methods: &'static [&'static str],
    /// True if equal operations that write in place are merged, so that two updates of one buffer become one.
    pub(crate) merges_writes: bool,
    /// Takes from a `PartialProgramLayer` what is needed to run its program, without anything that holds a tensor of
    /// the user's.
    pub(crate) runner: MakeRunner,
}

/// A function that takes a `PartialProgramLayer` and the list of its outputs.
type MakeRunner = fn(&Bound<'_, PyAny>, &Bound<'_, PyList>) -> PyResult<Box<dyn Runner>>;

/// A program ready to run.
pub(crate) trait Runner: Send + Sync {
    /// Runs the program and returns new tensors, in the order of the program's outputs. `scopes` is a list of
    /// [`Runner::scopes`] scopes that no other run uses now.
    fn run<'py>(
        &self,
        inputs: &Bound<'py, PyTuple>,
        parameters: &Bound<'py, PyTuple>,
        scopes: &Bound<'py, PyList>,
    ) -> PyResult<Bound<'py, PyAny>>;

    /// Number of scopes that a run takes.
    fn scopes(&self) -> usize {
        1
    }
}

/// Returns the release line of the installed Paddle. Decided by the way programs are run, which changed between 3.0
/// and 3.3.
pub(crate) fn installed(py: Python<'_>) -> PyResult<&'static Release> {
    let core = cpython::import(py, "paddle.base.core")?;
    let by_attribute_map = core.hasattr("construct_program_attribute_map")?;
    Ok(if by_attribute_map { &paddle_3_3::RELEASE } else { &paddle_3_0::RELEASE })
}

/// Paddle's run functions take `None` instead of an empty list of tensors.
pub(crate) fn none_if_empty<'py>(tensors: &Bound<'py, PyTuple>) -> Bound<'py, PyAny> {
    if tensors.is_empty() {
        tensors.py().None().into_bound(tensors.py())
    } else {
        tensors.as_any().clone()
    }
}
