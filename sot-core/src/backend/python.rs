//! Ready-made parts for a backend whose graphs are built in Python: the builder, and a test of tensors by their
//! metas.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};

use super::{CallKind, GradientFlow, GraphBuilder, ObjectTest, StateTest, TensorMeta};

/// Returns the meta of an eager tensor.
pub type MetaOf = fn(&Bound<'_, PyAny>) -> PyResult<TensorMeta>;

/// A graph that a Python object builds. Its methods are:
///
/// - `input(tensor)` and `parameter(tensor)` return the values of what enters. `tensor` is the tensor of the first
///   call and must not be kept, except for a weak reference to a parameter;
/// - `call(kind, callee, args, kwargs)` appends a statement and returns its result, with values in place of tensors.
///   `kind` is `"function"`, `"method"`, `"function in place"`, `"method in place"` or the framework's word for an
///   object that is called as a whole; for a method, `callee` is its name. An exception breaks the graph;
/// - `finish(name, inputs, outputs)` returns the function: positional tensors in, a list or tuple of tensors out;
/// - `program()`, if it exists, returns the program that `backend=` callables see.
///
/// Values have a type of their own. Their attribute `example` is an eager tensor with the value's meta.
pub struct PythonGraph {
    graph: Py<PyAny>,
    value: Py<PyType>,
    meta: MetaOf,
    has_memory: bool,
}

impl PythonGraph {
    /// Creates a builder from an empty graph object, the type of its values, and the function that gives the meta of
    /// an example.
    pub fn new(graph: &Bound<'_, PyAny>, value: &Bound<'_, PyType>, meta: MetaOf) -> Self {
        PythonGraph { graph: graph.clone().unbind(), value: value.clone().unbind(), meta, has_memory: false }
    }

    /// For a backend whose values have memory. The graph object then also has `operations()`, the number of
    /// operations, `roll_back(operations)`, which takes the later ones back, and `has_effects()`, which tells whether
    /// the graph must run even if no result is used.
    #[must_use]
    pub fn with_memory(self) -> Self {
        PythonGraph { has_memory: true, ..self }
    }
}

impl GraphBuilder for PythonGraph {
    fn input(&mut self, _: &str, tensor: &Bound<'_, PyAny>, _: &TensorMeta) -> PyResult<Py<PyAny>> {
        self.graph.call_method1(tensor.py(), "input", (tensor,))
    }

    fn parameter(&mut self, tensor: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.graph.call_method1(tensor.py(), "parameter", (tensor,))
    }

    fn call<'py>(
        &mut self,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = callee.py();
        let kind = match kind {
            CallKind::Api => "function",
            CallKind::Method => "method",
            CallKind::InPlace if callee.is_instance_of::<PyString>() => "method in place",
            CallKind::InPlace => "function in place",
            CallKind::Object(word) => word,
        };
        let kwargs = kwargs.map_or_else(|| PyDict::new(py), Clone::clone);
        self.graph.bind(py).call_method1("call", (kind, callee, args, kwargs))
    }

    fn operations(&self) -> PyResult<usize> {
        if !self.has_memory {
            return Ok(0);
        }
        Python::attach(|py| self.graph.call_method0(py, "operations")?.extract(py))
    }

    fn roll_back(&mut self, operations: usize) -> PyResult<()> {
        if !self.has_memory {
            return Ok(());
        }
        Python::attach(|py| self.graph.call_method1(py, "roll_back", (operations,)).map(drop))
    }

    /// If the graph object's answer raises, the graph is assumed to have effects.
    fn has_effects(&self) -> bool {
        let ask = |py: Python<'_>| self.graph.call_method0(py, "has_effects")?.extract(py);
        self.has_memory && Python::attach(ask).unwrap_or(true)
    }

    fn may_write_to(&self, _: &Bound<'_, PyAny>) -> bool {
        self.has_memory
    }

    fn value_meta(&self, object: &Bound<'_, PyAny>) -> PyResult<Option<TensorMeta>> {
        if object.get_type().is(&self.value) {
            (self.meta)(&object.getattr("example")?).map(Some)
        } else {
            Ok(None)
        }
    }

    fn program(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let ask = self.graph.bind(py).getattr_opt("program").ok()??;
        ask.call0().ok().map(Bound::unbind)
    }

    fn finish(
        self: Box<Self>,
        py: Python<'_>,
        name: &str,
        inputs: &[Py<PyAny>],
        outputs: &[Py<PyAny>],
    ) -> PyResult<Py<PyAny>> {
        self.graph.call_method1(py, "finish", (name, PyList::new(py, inputs)?, PyList::new(py, outputs)?))
    }
}

/// A test of a tensor: same type and same meta as the example. It calls the function `meta`, which must not run the
/// program's code.
pub struct MetaTest {
    ty: Py<PyType>,
    shape: Vec<Option<i64>>,
    dtype: String,
    gradient: GradientFlow,
    meta: MetaOf,
}

impl MetaTest {
    /// Creates the test from a tensor that passes it.
    pub fn of(tensor: &Bound<'_, PyAny>, meta: MetaOf) -> PyResult<Box<dyn ObjectTest>> {
        let TensorMeta { shape, dtype, gradient } = meta(tensor)?;
        let ty = tensor.get_type().unbind();
        Ok(Box::new(MetaTest { ty, shape, dtype: dtype.to_string(), gradient, meta }))
    }
}

impl ObjectTest for MetaTest {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        let is_same =
            |meta: TensorMeta| meta.shape == self.shape && *meta.dtype == self.dtype && meta.gradient == self.gradient;
        object.get_type().is(&self.ty) && (self.meta)(object).is_ok_and(is_same)
    }

    fn describe(&self, subject: &str) -> String {
        let sizes = self.shape.iter().map(|size| size.map_or_else(|| "-1".to_owned(), |size| size.to_string()));
        let shape = sizes.collect::<Vec<_>>().join(", ");
        format!("is_tensor({subject}, [{shape}], {}{})", self.dtype, self.gradient)
    }
}

/// The state of a framework whose operations depend on nothing but their arguments.
pub(super) struct NoState;

impl StateTest for NoState {
    fn check(&self, _: Python<'_>) -> bool {
        true
    }

    fn restore(&self, _: Python<'_>) -> PyResult<()> {
        Ok(())
    }

    fn describe(&self) -> String {
        "no global state".to_owned()
    }
}
