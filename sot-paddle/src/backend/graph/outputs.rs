//! Where the outputs of a graph are found after its program has run.

use std::collections::HashMap;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyTuple};

use crate::backend::graph::builder::identity;
use crate::backend::memory::views::{Step, Views};
use crate::backend::paddle::Paddle;

/// An output of the graph.
pub(crate) struct Output {
    pub(crate) origin: Origin,
    /// Calls that make the output as a view of the tensor at `origin`; empty if the output is that tensor.
    pub(crate) steps: Vec<ViewCall>,
    /// True if the output takes no part in the gradient of the tensor that it is a view of.
    pub(crate) detached: bool,
}

/// One call that makes a view again.
pub(crate) struct ViewCall {
    /// Identity of the value that the call makes.
    made: u64,
    pub(crate) step: Step,
    /// Origins of the numbers among the call's arguments.
    pub(crate) numbers: Vec<Origin>,
}

impl Output {
    pub(crate) fn is_result(&self, index: usize) -> bool {
        self.origin == Origin::Result(index) && self.steps.is_empty()
    }

    /// True if the output is a view, and gradients flow through the view to its base.
    pub(crate) fn is_view_with_gradient(&self) -> bool {
        !self.steps.is_empty() && !self.detached
    }

    /// Returns the origin, if the output is the tensor there, without views or detaching.
    pub(crate) fn as_it_is(&self) -> Option<Origin> {
        (self.steps.is_empty() && !self.detached).then_some(self.origin)
    }
}

/// Where an output of the graph comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// The program's result of this index.
    Result(usize),
    /// The tensor that was passed as this input.
    Input(usize),
    /// This parameter or buffer.
    Parameter(usize),
}

impl Origin {
    /// Returns the tensor there, after a run with these results, inputs and parameters.
    pub(crate) fn find<'py>(
        self,
        results: &Bound<'py, PyAny>,
        inputs: &[Bound<'py, PyAny>],
        parameters: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Origin::Result(index) => results.get_item(index),
            Origin::Input(index) => Ok(inputs[index].clone()),
            Origin::Parameter(index) => parameters.get_item(index),
        }
    }
}

/// For each step, the numbers that it takes.
pub(crate) type StepNumbers = Vec<Vec<Py<PyAny>>>;

impl Output {
    /// Returns the numbers and tensors that the steps take, from the results of a run, the inputs of the graph and its
    /// parameters.
    pub(crate) fn numbers(
        &self,
        results: &Bound<'_, PyAny>,
        inputs: &[Bound<'_, PyAny>],
        parameters: &Bound<'_, PyTuple>,
    ) -> PyResult<StepNumbers> {
        let find = |origin: &Origin| step_argument(origin.find(results, inputs, parameters)?).map(Bound::unbind);
        self.steps.iter().map(|step| step.numbers.iter().map(find).collect()).collect()
    }
}

impl From<Origin> for Output {
    fn from(origin: Origin) -> Self {
        Output { origin, steps: Vec::new(), detached: false }
    }
}

/// Where values are found, by identity.
pub(crate) type KnownValues = HashMap<u64, Origin>;

/// Returns the values that exist without running the program: inputs and parameters.
pub(crate) fn known_values(
    paddle: &Paddle,
    py: Python<'_>,
    inputs: &[Py<PyAny>],
    parameters: &Bound<'_, PyList>,
) -> PyResult<KnownValues> {
    let mut known = HashMap::new();
    for (index, input) in inputs.iter().enumerate() {
        known.entry(identity(paddle, input.bind(py))?).or_insert(Origin::Input(index));
    }
    for (index, parameter) in parameters.iter().enumerate() {
        known.entry(identity(paddle, &parameter)?).or_insert(Origin::Parameter(index));
    }
    Ok(known)
}

/// Appends the values that the program computes to the results, each once, and returns where every output is found
/// after a run. A view that leaves the graph together with its root, or with another view of that root, is made again
/// from the root.
pub(crate) fn plan_outputs<'py>(
    paddle: &Paddle,
    py: Python<'py>,
    (mut known, results): (KnownValues, &Bound<'py, PyList>),
    outputs: &[Py<PyAny>],
    views: &Views,
) -> PyResult<Vec<Output>> {
    let mut roots = Vec::with_capacity(outputs.len());
    for output in outputs {
        let id = identity(paddle, output.bind(py))?;
        roots.push((id, views.root(output.bind(py), id)));
    }
    let mut plan = Vec::with_capacity(outputs.len());
    for (output, (id, root)) in outputs.iter().zip(&roots) {
        let output = output.bind(py);
        let leaves_along =
            known.contains_key(&root.id) || roots.iter().filter(|(_, other)| other.id == root.id).count() > 1;
        if root.steps.is_empty() || !leaves_along {
            let origin = origin_of(&mut known, results, *id, output)?;
            plan.push(origin.into());
            continue;
        }
        let origin = origin_of(&mut known, results, root.id, &root.value)?;
        let ends = |value: &Bound<'_, PyAny>| value.getattr("stop_gradient")?.is_truthy();
        let detached = ends(output)? && !ends(&root.value)?;
        let mut steps = Vec::with_capacity(root.steps.len());
        for (made, step) in &root.steps {
            let numbers = step.numbers().iter().map(|number| number.bind(py));
            let mut found = |number| origin_of(&mut known, results, identity(paddle, number)?, number);
            let numbers = numbers.map(&mut found).collect::<PyResult<_>>()?;
            steps.push(ViewCall { made: *made, step: step.clone_ref(py), numbers });
        }
        plan.push(Output { origin, steps, detached });
    }
    Ok(plan)
}

/// Returns where a value is found. A value that is not known yet becomes a result of the program.
fn origin_of(
    known: &mut HashMap<u64, Origin>,
    results: &Bound<'_, PyList>,
    id: u64,
    value: &Bound<'_, PyAny>,
) -> PyResult<Origin> {
    if let Some(&origin) = known.get(&id) {
        return Ok(origin);
    }
    results.append(value)?;
    let origin = Origin::Result(results.len() - 1);
    known.insert(id, origin);
    Ok(origin)
}

/// Returns what a step takes: the number of a tensor without dimensions, and anything else as it is.
fn step_argument(found: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let py = found.py();
    if found.is_exact_instance_of::<PyInt>() || found.getattr(intern!(py, "ndim"))?.is_truthy()? {
        return Ok(found);
    }
    found.call_method0(intern!(py, "item"))
}

/// Collects the outputs of a run.
pub(crate) fn pick<'py>(
    paddle: &Paddle,
    plan: &[Output],
    results: &Bound<'py, PyAny>,
    inputs: &[Bound<'py, PyAny>],
    parameters: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let find = |origin: Origin| origin.find(results, inputs, parameters);
    let mut views = MadeViews::default();
    let outputs = plan.iter().map(|output| {
        let mut tensor = find(output.origin)?;
        for (position, call) in output.steps.iter().enumerate() {
            let is_output = position + 1 == output.steps.len() && !output.detached;
            tensor = views.made(call.made, is_output, || {
                let numbers = call.numbers.iter().map(|&origin| step_argument(find(origin)?));
                call.step.apply(paddle, &tensor, &numbers.collect::<PyResult<Vec<_>>>()?)
            })?;
        }
        if output.detached {
            return tensor.call_method0(intern!(tensor.py(), "detach"));
        }
        Ok(tensor)
    });
    let outputs = outputs.collect::<PyResult<Vec<_>>>()?;
    Ok(PyTuple::new(results.py(), outputs)?.into_any())
}

/// The views that one run has made. Views of the same view share it, because it may have memory of its own: `split`
/// copies, and a slice of its first part is a view of that part alone.
#[derive(Default)]
struct MadeViews<'py>(Vec<MadeView<'py>>);

struct MadeView<'py> {
    of: u64,
    tensor: Bound<'py, PyAny>,
    /// True if it is an output. Each output is a tensor of its own.
    is_output: bool,
}

impl<'py> MadeViews<'py> {
    /// Returns the tensor for a value of the program, and makes it if there is none yet.
    fn made(
        &mut self,
        of: u64,
        is_output: bool,
        make: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = self.0.iter_mut().find(|view| view.of == of && !(is_output && view.is_output));
        if let Some(view) = found {
            view.is_output |= is_output;
            return Ok(view.tensor.clone());
        }
        let tensor = make()?;
        self.0.push(MadeView { of, tensor: tensor.clone(), is_output });
        Ok(tensor)
    }
}
