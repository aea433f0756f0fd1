//! Decides which results a finished program has, and where its outputs are found.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;
use sot_core::cpython::WeakRef;

use crate::backend::graph::outputs::{known_values, plan_outputs, KnownValues, Origin};
use crate::backend::graph::pieces;
use crate::backend::graph::planned::PlannedProgram;
use crate::backend::memory::write_back::{GraphWrites, Write};
use crate::backend::numbers::number_inputs::GivenAs;
use crate::backend::paddle::operation;
use crate::backend::run::second_passes::GradientFlow;
use crate::backend::run::Statements;

use super::{identity, PaddleBuilder, Parameters};

impl PaddleBuilder {
    /// Decides the program's results and where outputs are found. The second value keeps the program's parameters
    /// alive.
    pub(super) fn plan<'py>(
        &mut self,
        py: Python<'py>,
        inputs: &[Py<PyAny>],
        outputs: &[Py<PyAny>],
        calls: Option<&Py<PyAny>>,
    ) -> PyResult<(PlannedProgram, Bound<'py, PyList>)> {
        let parameters = self.take_parameters(py)?.in_order_of_use(self.target.main.bind(py))?;
        refuse_shared_names(&parameters.tensors)?;
        self.remove_refused(py, outputs)?;
        let mut known = known_values(&self.paddle, py, inputs, &parameters.values)?;
        let results = PyList::empty(py);
        let each = self.plan_writes(&mut known, &results)?;
        let writes = calls.filter(|_| !each.is_empty()).map(|calls| GraphWrites { each, calls: calls.clone_ref(py) });
        let plan = plan_outputs(&self.paddle, py, (known, &results), outputs, &self.views)?;
        if results.is_empty() {
            if let Some(result) = self.last_result(py)? {
                results.append(result)?;
            }
        }
        let input_values = PyList::new(py, inputs)?;
        let given = (&input_values, &parameters.values);
        let flow = GradientFlow::of(self.target.main.bind(py), given, &results, (outputs, &plan))?;
        let mut numbers = Vec::new();
        for (at, input) in inputs.iter().enumerate() {
            if self.numbers.has(&self.paddle, input.bind(py)) {
                numbers.push((at, GivenAs::Number));
            } else if self.arrays.has(&self.paddle, input.bind(py)) {
                numbers.push((at, GivenAs::Array));
            }
        }
        let planned = PlannedProgram {
            numbers,
            paddle: Arc::clone(&self.paddle),
            program: self.target.main.clone_ref(py),
            inputs: input_values.unbind(),
            parameters: parameters.tensors.iter().map(|tensor| WeakRef::new(&tensor, None)).collect::<PyResult<_>>()?,
            values: parameters.values.unbind(),
            results: results.unbind(),
            plan,
            flow,
            writes,
            statements: calls
                .map(|calls| Statements { calls: calls.clone_ref(py), state: Arc::clone(&self.states[0]) }),
        };
        Ok((planned, parameters.tensors))
    }

    /// Removes the operations of refused statements.
    fn remove_refused(&mut self, py: Python<'_>, outputs: &[Py<PyAny>]) -> PyResult<()> {
        let written = self.writes.iter().map(|(_, value)| value);
        let used = outputs.iter().chain(written).map(|value| identity(&self.paddle, value.bind(py)));
        let used = used.collect::<PyResult<_>>()?;
        self.refused.remove(&self.paddle, &self.target, &used, py)
    }

    /// Adds the values that inputs get by writes to the program's results. Each of them leaves the graph as the input
    /// that has this value at the end.
    fn plan_writes(&self, known: &mut KnownValues, results: &Bound<'_, PyList>) -> PyResult<Vec<Write>> {
        let py = results.py();
        let mut writes = Vec::new();
        for (input, value) in &self.writes {
            let (input, value) = (identity(&self.paddle, input.bind(py))?, value.bind(py));
            let Some(&Origin::Input(input)) = known.get(&input) else {
                return Err(PyTypeError::new_err("what is written to is no input of the graph"));
            };
            let id = identity(&self.paddle, value)?;
            known.insert(id, Origin::Input(input));
            results.append(value)?;
            let cleared_for = self.histories.cleared_for(id).into_iter().map(|tensor| known.get(&tensor).copied());
            let Some(cleared_for) = cleared_for.collect() else {
                return Err(PyTypeError::new_err("the tensor whose gradient is cleared is no input of the graph"));
            };
            writes.push(Write {
                input,
                result: results.len() - 1,
                versions: self.histories.versions(id),
                keeps_gradient: self.own_gradients.has(id),
                cleared_for,
            });
        }
        Ok(writes)
    }

    /// Returns the last computed value, for a graph that runs only for its effects: a program must have an output. A
    /// list of tensors cannot be one.
    fn last_result<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        for operation in operation::of_program(self.target.main.bind(py))?.iter().rev() {
            if matches!(operation::name_of(operation)?.as_str(), "pd_op.data" | "builtin.parameter") {
                continue;
            }
            for result in operation.call_method0("results")?.try_iter()? {
                let result = result?;
                if result.call_method0("initialized")?.is_truthy()?
                    && result.call_method0("is_dense_tensor_type")?.is_truthy()?
                {
                    return Ok(Some(result));
                }
            }
        }
        Ok(None)
    }
}

impl<'py> Parameters<'py> {
    /// Sorts the parameters by their first use. The node of a program hands the gradients over from the last parameter
    /// to the first, which is then the order in which the nodes of a chain of operations do it in eager mode, and in
    /// which hooks on parameters run.
    fn in_order_of_use(self, program: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = program.py();
        let mut places = HashMap::new();
        for operation in operation::of_program(program)? {
            for source in operation.call_method0(intern!(py, "operands_source"))?.try_iter()? {
                let next = places.len();
                places.entry(pieces::id(&source?)?).or_insert(next);
            }
        }
        let mut sorted = Vec::with_capacity(self.tensors.len());
        for (tensor, value) in self.tensors.iter().zip(&self.values) {
            sorted.push((places.get(&pieces::id(&value)?).copied(), tensor, value));
        }
        sorted.sort_by_key(|(place, ..)| *place);
        let (tensors, values): (Vec<_>, Vec<_>) = sorted.into_iter().map(|(_, tensor, value)| (tensor, value)).unzip();
        Ok(Parameters { tensors: PyList::new(py, tensors)?, values: PyList::new(py, values)? })
    }
}

/// Refuses parameters of equal name: programs bind parameters by name, so two tensors of one name would become one.
fn refuse_shared_names(tensors: &Bound<'_, PyList>) -> PyResult<()> {
    let mut names = std::collections::HashSet::new();
    for tensor in tensors {
        let name: String = tensor.getattr("name")?.extract()?;
        if names.contains(&name) {
            return Err(PyValueError::new_err(format!("two parameters or buffers share the name {name}")));
        }
        names.insert(name);
    }
    Ok(())
}
