//! Gradients inside of a translated function: `paddle.grad`, and tensors at which gradients begin
//! (`tensor.stop_gradient = False`).
//!
//! First gradients are operations of the program, which Paddle appends. The following graphs never run as a program. They
//! are called operation by operation, with `paddle.grad` as one of the calls.
//!
//! - With `create_graph=True` Paddle's programs are wrong in ordinary cases: operations that are run in place write over
//!   what further gradients read, and gradients through convolutions are zero.
//! - A program asks an operation for the gradients by all its operands. Eager mode asks for some. A few kernels compute
//!   something else then.
//! - A backward pass leaves a gradient in a tensor at which gradients begin, but not in the result of a program. So a
//!   program must not return such a tensor.

use std::collections::HashSet;

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyList, PySet, PyTuple};
use sot_core::backend::CallKind;
use sot_core::cpython;

use crate::backend::graph::builder::identity;
use crate::backend::memory::in_place::stops;
use crate::backend::memory::views::Views;
use crate::backend::paddle::static_mode::BuildTarget;
use crate::backend::paddle::{meta, operation, state, Paddle};

/// The parameters of `paddle.grad`.
const PARAMETERS: [&str; 8] = [
    "outputs",
    "inputs",
    "grad_outputs",
    "retain_graph",
    "create_graph",
    "only_inputs",
    "allow_unused",
    "no_grad_vars",
];

/// The gradients that a graph computes, and the values at which gradients begin.
#[derive(Default)]
pub(crate) struct InnerGradients {
    /// True if a program would compute other gradients than eager mode does.
    needs_calls: bool,
    /// True if the program has stand-ins for some of the gradients.
    has_stand_ins: bool,
    /// The values that are tensors whose `stop_gradient` was set.
    switched: HashSet<u64>,
    /// Those of them at which gradients begin.
    begun: HashSet<u64>,
    /// True if gradients begin at a tensor from outside.
    begin_outside: bool,
}

/// A call of `paddle.grad`.
struct GradientCall<'py> {
    outputs: Bound<'py, PyList>,
    inputs: Bound<'py, PyList>,
    /// The gradients of the outputs. `None` stands for ones.
    weights: Option<Bound<'py, PyAny>>,
    creates_graph: bool,
    /// True if an input on which the outputs do not depend is no error.
    allows_unused: bool,
}

/// Gradients that have no gradients.
struct FirstGradients<'py> {
    values: Bound<'py, PyList>,
    /// True if eager mode computes other gradients, because it asks for these alone.
    depend_on_what_is_asked: bool,
}

/// True if the callee is `paddle.grad`.
pub(crate) fn are_asked_for(paddle: &Paddle, kind: CallKind, callee: &Bound<'_, PyAny>) -> bool {
    kind == CallKind::Api && callee.is(&paddle.grad)
}

/// Sets whether gradients flow through a tensor from now on, and returns the tensor.
#[pyfunction]
fn switch_gradient(tensor: Bound<'_, PyAny>, flows: bool) -> PyResult<Bound<'_, PyAny>> {
    tensor.setattr(intern!(tensor.py(), "stop_gradient"), !flows)?;
    Ok(tensor)
}

/// Returns [`switch_gradient`] as a Python function.
pub(crate) fn switch(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static FUNCTION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || PyResult::Ok(wrap_pyfunction!(switch_gradient, py)?.into_any().unbind());
    Ok(FUNCTION.get_or_try_init(py, make)?.bind(py))
}

/// True if the callee is [`switch_gradient`].
pub(crate) fn is_switch(callee: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(callee.is(switch(callee.py())?))
}

impl InnerGradients {
    /// True if the graph may have to be called operation by operation.
    pub(crate) fn may_have_to_be_called(&self) -> bool {
        self.needs_calls || !self.begun.is_empty()
    }

    /// True if a graph with these outputs must be called operation by operation. In eager mode, a backward pass leaves
    /// a gradient in a tensor at which gradients begin.
    pub(crate) fn must_be_called(
        &self,
        paddle: &Paddle,
        views: &Views,
        outputs: &[Py<PyAny>],
        py: Python<'_>,
    ) -> PyResult<bool> {
        if self.needs_calls || self.begun.is_empty() {
            return Ok(self.needs_calls);
        }
        for output in outputs {
            let output = output.bind(py);
            let (id, stops) = (identity(paddle, output)?, stops(output)?);
            // A view of an input would be made outside of the program, from the input.
            let is_view = || views.root(output, id).id != id;
            if self.begun.contains(&id) || !stops && (self.begin_outside || is_view()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Appends the call of [`switch_gradient`]. To be called in static mode.
    pub(crate) fn switch<'py>(
        &mut self,
        paddle: &Paddle,
        value: &Bound<'py, PyAny>,
        flows: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = value.py();
        let switched = cpython::import(py, "paddle")?.call_method1(intern!(py, "assign"), (value,))?;
        switched.setattr(intern!(py, "stop_gradient"), !flows)?;
        let id = identity(paddle, &switched)?;
        self.switched.insert(id);
        if flows {
            self.begun.insert(id);
            let operation = value.call_method0(intern!(py, "get_defining_op"))?;
            self.begin_outside |= matches!(&*operation::name_of(&operation)?, "pd_op.data" | "builtin.parameter");
        }
        Ok(switched)
    }

    /// Refuses a write in place to a tensor whose `stop_gradient` was set. Where gradients begin it is an error in eager
    /// mode.
    pub(crate) fn refuse_write(&self, paddle: &Paddle, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if paddle.is_value(value) && self.switched.contains(&identity(paddle, value)?) {
            return Err(PyNotImplementedError::new_err("a write in place to a tensor whose stop_gradient was set"));
        }
        Ok(())
    }

    /// Appends a call of `paddle.grad` to a program, and returns the gradients. To be called in static mode.
    /// `has_writes` is true if a tensor was written to in place.
    pub(crate) fn append<'py>(
        &mut self,
        paddle: &Paddle,
        target: &BuildTarget,
        (args, kwargs): (&Bound<'py, PyTuple>, Option<&Bound<'py, PyDict>>),
        has_writes: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let call = GradientCall::of(paddle, args, kwargs)?;
        if call.creates_graph || self.has_stand_ins {
            let gradients = call.append_stand_ins()?;
            (self.needs_calls, self.has_stand_ins) = (true, true);
            return Ok(gradients.into_any());
        }
        if !paddle.grad_enabled(args.py())? {
            return Err(refused("where gradients are off"));
        }
        if state::casts(args.py(), paddle)? {
            return Err(refused("under mixed precision"));
        }
        if has_writes {
            return Err(refused("after writes in place"));
        }
        let gradients = call.append_operations(target)?;
        self.needs_calls |= gradients.depend_on_what_is_asked;
        Ok(gradients.values.into_any())
    }
}

fn refused(how: &str) -> PyErr {
    PyNotImplementedError::new_err(format!("paddle.grad {how} runs a backward pass in eager mode"))
}

impl<'py> GradientCall<'py> {
    fn of(
        paddle: &Paddle,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<GradientCall<'py>> {
        let unknown = || refused("with arguments that eager mode may refuse");
        let is_known = |name: Bound<'_, PyAny>| {
            PARAMETERS.iter().any(|known| name.extract::<&str>().is_ok_and(|name| name == *known))
        };
        if args.len() > PARAMETERS.len() || !kwargs.is_none_or(|kwargs| kwargs.keys().iter().all(is_known)) {
            return Err(unknown());
        }
        let given = |at: usize| -> PyResult<Option<Bound<'py, PyAny>>> {
            let by_name = kwargs.map(|kwargs| kwargs.get_item(PARAMETERS[at])).transpose()?.flatten();
            match (args.get_item(at), by_name) {
                (Ok(_), Some(_)) => Err(unknown()),
                (Ok(given), None) | (Err(_), Some(given)) => Ok(Some(given).filter(|given| !given.is_none())),
                (Err(_), None) => Ok(None),
            }
        };
        let flag = |at: usize| match given(at)? {
            None => Ok(None),
            Some(flag) => flag.cast_into::<PyBool>().map(|flag| Some(flag.is_true())).map_err(|_| unknown()),
        };
        let values = |at: usize| tensors(paddle, &given(at)?.ok_or_else(unknown)?)?.ok_or_else(unknown);
        let (outputs, inputs) = (values(0)?, values(1)?);
        let creates_graph = flag(4)?.unwrap_or(false);
        let keeps_graph = flag(3)?.unwrap_or(creates_graph);
        if flag(5)? == Some(false) || (creates_graph && !keeps_graph) {
            return Err(unknown());
        }
        if given(7)?.is_some() {
            return Err(refused("with no_grad_vars"));
        }
        let allows_unused = flag(6)?.unwrap_or(false);
        let mut known = HashSet::new();
        for input in inputs.iter() {
            if !known.insert(identity(paddle, &input)?) || stops(&input)? {
                return Err(unknown());
            }
        }
        if outputs.iter().map(|output| stops(&output)).collect::<PyResult<Vec<_>>>()?.contains(&true) {
            return Err(unknown());
        }
        let weights = match given(2)? {
            None => None,
            Some(weights) => Some(weights_of(paddle, &outputs, weights)?.ok_or_else(unknown)?),
        };
        Ok(GradientCall { outputs, inputs, weights, creates_graph, allows_unused })
    }

    /// Appends the operations that compute the gradients.
    fn append_operations(&self, target: &BuildTarget) -> PyResult<FirstGradients<'py>> {
        let py = self.inputs.py();
        let before = target.operations(py)?;
        let calculate = cpython::import(py, "paddle.autograd.ir_backward")?.getattr(intern!(py, "calc_gradient"))?;
        let gradients = calculate.call1((&self.outputs, &self.inputs, &self.weights, PySet::empty(py)?))?;
        let gradients = gradients.cast_into::<PyList>()?;
        if gradients.iter().any(|gradient| gradient.is_none()) {
            return Err(refused("by a tensor that the outputs do not depend on"));
        }
        let mut depend_on_what_is_asked = false;
        for operation in operation::of_block(target.block(py))?.into_iter().skip(before) {
            depend_on_what_is_asked |= depends_on_what_is_asked(&operation)?;
            for result in operation.call_method0(intern!(py, "results"))?.try_iter()? {
                result?.setattr(intern!(py, "stop_gradient"), true)?;
            }
        }
        Ok(FirstGradients { values: gradients, depend_on_what_is_asked })
    }

    /// Appends values that have the shapes and types of the gradients, for a program that does not run.
    fn append_stand_ins(&self) -> PyResult<Bound<'py, PyList>> {
        let py = self.inputs.py();
        if self.allows_unused {
            return Err(refused("with create_graph=True and allow_unused=True"));
        }
        let like = cpython::import(py, "paddle")?.getattr(intern!(py, "zeros_like"))?;
        let gradients = PyList::empty(py);
        for input in self.inputs.iter() {
            let gradient = like.call1((input,))?;
            gradient.setattr(intern!(py, "stop_gradient"), !self.creates_graph)?;
            gradients.append(gradient)?;
        }
        Ok(gradients)
    }
}

/// True if Paddle's kernel computes another gradient, or raises, if the gradients by some operands are not asked for, as
/// in eager mode. A program asks for all of them.
fn depends_on_what_is_asked(operation: &Bound<'_, PyAny>) -> PyResult<bool> {
    match &*operation::name_of(operation)? {
        "pd_op.rnn_grad" | "pd_op.triangular_solve_grad" => Ok(true),
        "pd_op.layer_norm_grad" => {
            let py = operation.py();
            let sources: Vec<Bound<'_, PyAny>> = operation.call_method0(intern!(py, "operands_source"))?.extract()?;
            let flows = |value: &Bound<'_, PyAny>| {
                let exists = value.call_method0(intern!(py, "initialized"))?.is_truthy()?;
                PyResult::Ok(exists && !stops(value)?)
            };
            // The weight and the bias.
            sources.iter().skip(1).take(2).try_fold(false, |any, source| Ok(any || flows(source)?))
        }
        _ => Ok(false),
    }
}

/// Returns a tensor, or a list or tuple of tensors, as a list; `None` if it is anything else.
fn tensors<'py>(paddle: &Paddle, given: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyList>>> {
    let py = given.py();
    if paddle.is_value(given) {
        return PyList::new(py, [given]).map(Some);
    }
    if !given.is_exact_instance_of::<PyList>() && !given.is_exact_instance_of::<PyTuple>() {
        return Ok(None);
    }
    let items = given.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    let is_usable = !items.is_empty() && items.iter().all(|item| paddle.is_value(item));
    Ok(if is_usable { Some(PyList::new(py, items)?) } else { None })
}

/// Returns the gradients of the outputs as a list; `None` if there is not one of the same shape and type for each.
fn weights_of<'py>(
    paddle: &Paddle,
    outputs: &Bound<'py, PyList>,
    given: Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(weights) = tensors(paddle, &given)?.filter(|weights| weights.len() == outputs.len()) else {
        return Ok(None);
    };
    for (output, weight) in outputs.iter().zip(&weights) {
        match (meta::of_value(paddle, &output)?, meta::of_value(paddle, &weight)?) {
            (Some(output), Some(weight)) if output.shape == weight.shape && output.dtype == weight.dtype => {}
            _ => return Ok(None),
        }
    }
    Ok(Some(weights.into_any()))
}
