//! The backend's builder of a graph: it makes each statement at once. Where values have memory, it takes back the
//! operations of an abandoned part of the trace.

use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::backend::{Backend, GraphBuilder, TensorMeta};
use crate::fault;

/// The builder of a graph, with what the graph knows of its work.
pub(crate) struct GraphBuilding<'py> {
    py: Python<'py>,
    backend: &'static dyn Backend,
    /// `None` before the first statement.
    builder: Option<Box<dyn GraphBuilder>>,
    /// Time spent in the builder.
    time: Duration,
    /// What is needed to take operations back, if the backend's values have memory.
    undo: Option<Undo>,
}

/// State of the builder, as far as rollback needs it.
#[derive(Default)]
struct Undo {
    /// Number of operations the builder holds.
    operations: usize,
    /// Error that the builder raised during a rollback.
    error: Option<PyErr>,
}

impl<'py> GraphBuilding<'py> {
    /// The backend is asked for a builder at the first statement.
    pub(super) fn new(py: Python<'py>, backend: &'static dyn Backend) -> Self {
        let undo = backend.value_memory().map(|_| Undo::default());
        GraphBuilding { py, backend, builder: None, time: Duration::ZERO, undo }
    }

    /// The backend.
    pub(super) fn backend(&self) -> &'static dyn Backend {
        self.backend
    }

    /// Returns the builder.
    pub(crate) fn builder(&mut self) -> PyResult<&mut dyn GraphBuilder> {
        if self.builder.is_none() {
            self.builder = Some(fault::of_backend(|| self.backend.begin(self.py))?);
        }
        if let Some(error) = self.undo.as_mut().and_then(|undo| undo.error.take()) {
            return Err(error);
        }
        match &mut self.builder {
            Some(builder) => Ok(&mut **builder),
            None => Err(PyRuntimeError::new_err("the backend gave no builder")),
        }
    }

    /// Returns the builder, if there are statements.
    pub(crate) fn begun(&self) -> Option<&dyn GraphBuilder> {
        self.builder.as_deref()
    }

    /// Takes the builder of a finished graph.
    pub(super) fn take(&mut self) -> PyResult<Box<dyn GraphBuilder>> {
        self.builder()?;
        self.builder.take().ok_or_else(|| PyRuntimeError::new_err("the graph was already finished"))
    }

    /// Lets the builder work, and measures its time.
    pub(crate) fn build<T>(&mut self, work: impl FnOnce(&mut dyn GraphBuilder) -> PyResult<T>) -> PyResult<T> {
        self.timed(|builder| fault::in_backend(|| work(builder)))
    }

    /// Returns the meta of a value of the graph; `None` if the object is no such value.
    pub(crate) fn value_meta(&mut self, object: &Bound<'py, PyAny>) -> PyResult<Option<TensorMeta>> {
        self.timed(|builder| fault::of_backend(|| builder.value_meta(object)))
    }

    fn timed<T>(&mut self, work: impl FnOnce(&mut dyn GraphBuilder) -> PyResult<T>) -> PyResult<T> {
        let start = Instant::now();
        let result = self.builder().and_then(work);
        self.time += start.elapsed();
        result
    }

    /// Time that the backend has spent on the statements so far.
    pub(crate) fn time(&self) -> Duration {
        self.time
    }

    /// True if the backend's values have memory.
    pub(crate) fn has_memory(&self) -> bool {
        self.undo.is_some()
    }

    /// True if a run of the graph draws random numbers.
    pub(super) fn draws_random_numbers(&self) -> PyResult<bool> {
        self.builder.as_ref().map_or(Ok(false), |builder| fault::of_backend(|| builder.draws_random_numbers(self.py)))
    }

    /// Number of operations of the builder that may be taken back; 0 if values have no memory.
    pub(super) fn operations(&self) -> usize {
        self.undo.as_ref().map_or(0, |undo| undo.operations)
    }

    /// Lets the backend build a statement. Where values have memory, operations of a refused statement are taken
    /// back.
    pub(crate) fn make_statement<T>(
        &mut self,
        append: impl FnOnce(&mut dyn GraphBuilder) -> PyResult<T>,
    ) -> PyResult<T> {
        let made = self.build(append);
        if self.undo.is_some() {
            let operations = self.builder()?.operations()?;
            match (&made, &mut self.undo) {
                (Ok(_), Some(undo)) => undo.operations = operations,
                (..) => self.take_back(self.operations()),
            }
        }
        made
    }

    /// Makes the builder take back all operations behind the first `operations`, where values have memory. An error
    /// is raised at the next use of the builder.
    pub(super) fn take_back(&mut self, operations: usize) {
        let (Some(undo), Some(builder)) = (&mut self.undo, &mut self.builder) else { return };
        match builder.roll_back(operations) {
            Ok(()) => undo.operations = operations,
            Err(error) => undo.error = Some(error),
        }
    }

    /// True if values have memory and the builder says that the graph has effects besides its writes, such as random
    /// numbers.
    pub(super) fn has_effects(&self) -> bool {
        self.has_memory() && self.builder.as_ref().is_some_and(|builder| builder.has_effects())
    }
}
