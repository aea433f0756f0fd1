//! Compares a graph's results with the metas that the backend promised while the graph was built: their number at
//! each run, shapes and element types at the first run. A callable made by [`cpython::graph_function`] is trusted and
//! not checked.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::backend::{Backend, GradientFlow, GraphBuilder, TensorMeta};
use crate::compiler::CheckResults;
use crate::cpython::{self, GraphFailure};
use crate::fault;
use crate::stats;

/// The results of a graph, as the backend promised them.
#[derive(Clone)]
pub(super) struct PromisedResults {
    backend: &'static dyn Backend,
    graph: String,
    results: Vec<Option<PromisedTensor>>,
}

/// The meta of a tensor.
#[derive(Clone)]
struct PromisedTensor {
    shape: Vec<Option<i64>>,
    dtype: String,
    gradient: GradientFlow,
}

impl PromisedTensor {
    fn is_kept(&self, meta: &TensorMeta) -> bool {
        let fits = |(said, found): (&Option<i64>, &Option<i64>)| said.is_none() || found.is_none() || said == found;
        let shape = self.shape.len() == meta.shape.len() && self.shape.iter().zip(&meta.shape).all(fits);
        shape && self.dtype == *meta.dtype
    }

    /// True if a gradient is to flow through the tensor, and none does.
    fn lacks_gradient(&self, meta: &TensorMeta) -> bool {
        self.gradient.flows && !meta.gradient.flows
    }
}

impl PromisedResults {
    /// Returns the builder's promises about these values.
    pub(super) fn of(
        backend: &'static dyn Backend,
        builder: &dyn GraphBuilder,
        graph: &str,
        values: &[Py<PyAny>],
        py: Python<'_>,
    ) -> PyResult<Self> {
        let promised = |meta: TensorMeta| PromisedTensor {
            shape: meta.shape,
            dtype: meta.dtype.to_string(),
            gradient: meta.gradient,
        };
        let results =
            values.iter().map(|value| Ok(fault::of_backend(|| builder.value_meta(value.bind(py)))?.map(promised)));
        Ok(PromisedResults { backend, graph: graph.to_owned(), results: results.collect::<PyResult<_>>()? })
    }

    /// Wraps the graph's callable, so that a broken promise raises an error and the frame runs in CPython.
    pub(super) fn watch(self, py: Python<'_>, callable: Py<PyAny>) -> PyResult<Py<PyAny>> {
        if cpython::is_graph_function(callable.bind(py)) {
            return Ok(callable);
        }
        if !callable.bind(py).is_callable() {
            let text = format!("graph {} is made into what is not callable", self.graph);
            return fault::of_backend(|| Err(PyTypeError::new_err(text)));
        }
        let is_kept = AtomicBool::new(false);
        cpython::graph_function_of(py, move |py, inputs| {
            let given = self.call(py, &callable, inputs)?;
            let checked = self.check_unless_it_panics(&given, is_kept.load(Ordering::Relaxed), false);
            checked.map_err(|why| self.failure(self.broken(py, &why)))?;
            is_kept.store(true, Ordering::Relaxed);
            Ok(given.unbind())
        })
    }

    /// Returns a check of the results of another callable for this graph, such as the user's compiler makes. Gradients
    /// must flow through these results, too.
    pub(super) fn check_results(self) -> CheckResults {
        Box::new(move |given, metas_are_kept| self.check_unless_it_panics(given, metas_are_kept, true))
    }

    fn check_unless_it_panics(
        &self,
        given: &Bound<'_, PyAny>,
        metas_are_kept: bool,
        with_gradients: bool,
    ) -> Result<(), String> {
        let checked = catch_unwind(AssertUnwindSafe(|| self.check(given, metas_are_kept, with_gradients)));
        checked.unwrap_or_else(|_| {
            stats::update(|stats| stats.panics += 1);
            Err("gives what the backend panics at when it is asked for its meta".to_owned())
        })
    }

    fn check(&self, given: &Bound<'_, PyAny>, metas_are_kept: bool, with_gradients: bool) -> Result<(), String> {
        let given: Vec<Bound<'_, PyAny>> = match (given.cast::<PyTuple>(), given.cast::<PyList>()) {
            (Ok(tuple), _) if metas_are_kept && tuple.len() == self.results.len() => return Ok(()),
            (_, Ok(list)) if metas_are_kept && list.len() == self.results.len() => return Ok(()),
            (Ok(tuple), _) => tuple.iter().collect(),
            (_, Ok(list)) => list.iter().collect(),
            _ => return Err("gives neither a tuple nor a list".to_owned()),
        };
        if given.len() != self.results.len() {
            return Err(format!("gives {} results, and the graph has {}", given.len(), self.results.len()));
        }
        given.iter().zip(&self.results).enumerate().try_for_each(|(at, (tensor, promised))| {
            let Some(promised) = promised else { return Ok(()) };
            if !self.backend.is_tensor(tensor) {
                return Err(format!("gives something else than a tensor as result {at}"));
            }
            let meta = self.backend.meta(tensor).map_err(|error| error.to_string())?;
            let lacks_gradient = with_gradients && promised.lacks_gradient(&meta);
            if promised.is_kept(&meta) && !lacks_gradient {
                return Ok(());
            }
            let PromisedTensor { shape, dtype, gradient } = promised;
            let gradient = if lacks_gradient { *gradient } else { meta.gradient };
            let said = TensorMeta { shape: shape.clone(), dtype: dtype.as_str().into(), gradient };
            Err(format!("gives a tensor of {meta} as result {at}, and it was said to be of {said}"))
        })
    }

    /// Calls the graph's callable. A panic of the backend is counted, and becomes an error.
    fn call<'py>(
        &self,
        py: Python<'py>,
        callable: &Py<PyAny>,
        inputs: &[Bound<'py, PyAny>],
    ) -> Result<Bound<'py, PyAny>, GraphFailure> {
        let call = || callable.bind(py).call1(PyTuple::new(py, inputs)?);
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(given) => Ok(given?),
            Err(_) => {
                stats::update(|stats| stats.panics += 1);
                Err(self.failure(self.broken(py, "panics")))
            }
        }
    }

    /// The failure for an error. A graph that may have changed the program's tensors must not be run again: its
    /// failure is final.
    fn failure(&self, error: PyErr) -> GraphFailure {
        if self.backend.value_memory().is_some() {
            GraphFailure::Final(error)
        } else {
            GraphFailure::Raised(error)
        }
    }

    /// Warns the program of a broken promise, and returns the error.
    fn broken(&self, py: Python<'_>, why: &str) -> PyErr {
        let backend = fault::backend().map_or_else(|| self.backend.name().to_owned(), |linked| linked.to_string());
        let text = format!("graph {} of the {backend} {why}", self.graph);
        let warn = |warnings: Bound<'_, PyModule>| {
            warnings.call_method1("warn", (&text, py.get_type::<PyRuntimeWarning>())).map(drop)
        };
        match cpython::import(py, "warnings").and_then(warn) {
            Ok(()) => PyRuntimeError::new_err(text),
            Err(error) => error,
        }
    }
}
