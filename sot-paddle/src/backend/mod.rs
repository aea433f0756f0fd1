//! Paddle as a backend: tensors and their metas, what Paddle's functions mean to a trace, and graphs that are built
//! in static mode and run by Paddle's executor. Everything goes through Paddle's Python functions, except for the
//! shortcuts of `paddle::native` and `paddle::truth`, which are compared with these functions at start.

pub(crate) mod calls;
pub mod debug;
pub(crate) mod graph;
pub(crate) mod memory;
pub(crate) mod numbers;
pub(crate) mod paddle;
pub(crate) mod run;

use std::path::Path;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use sot_core::backend::{
    Backend, CallKind, CallPolicy, Constants, EagerTensors, GivenArguments, GraphBuilder, LayoutPolicy,
    MarkedDimensions, MinProgramSize, Models, ObjectTest, OpenValues, OwnCode, StateTest, TensorAttribute, TensorMeta,
    UserInterface, WrittenAttribute,
};
use sot_core::cpython;
use sot_core::error::Forbidden;
use sot_core::error::ReasonId;
use sot_core::fault;
use sot_core::graph::Exported;

use crate::backend::calls::layer::{LayerReads, Layers};
use crate::backend::calls::{api, attributes, foundation, hints, layer, layout, marks, origin};
use crate::backend::graph::arrays;
use crate::backend::graph::builder::PaddleBuilder;
use crate::backend::graph::{data, distributed, export};
use crate::backend::memory::saved;
use crate::backend::numbers::{floats, rounded, scalar, sizes};
use crate::backend::paddle::Paddle;
use crate::backend::paddle::{meta, state, truth};
use crate::backend::run::saved_tensors;

/// The installed Paddle, as the tracer sees it.
#[derive(Clone)]
pub struct PaddleBackend {
    paddle: Arc<Paddle>,
    layers: Arc<Layers>,
}

static INSTALLED: PyOnceLock<PaddleBackend> = PyOnceLock::new();

impl PaddleBackend {
    /// Binds to the installed Paddle. Raises an `ImportError` that names the remedy if Paddle is missing or too old.
    pub fn new(py: Python<'_>) -> PyResult<Self> {
        let paddle = Arc::new(Paddle::import(py)?);
        saved_tensors::watch(py)?;
        foundation::watch_functions(py);
        Ok(PaddleBackend { paddle, layers: Arc::new(Layers::default()) })
    }

    /// The one backend of the process.
    pub fn installed(py: Python<'_>) -> PyResult<&PaddleBackend> {
        INSTALLED.get_or_try_init(py, || PaddleBackend::new(py))
    }

    /// True if `object` is a layer.
    pub fn is_layer(&self, object: &Bound<'_, PyAny>) -> bool {
        cpython::is_subtype(&object.get_type(), self.paddle.layer_type.bind(object.py()))
    }

    /// `paddle.nn.Layer`
    pub fn layer_type<'py>(&self, py: Python<'py>) -> Bound<'py, PyType> {
        self.paddle.layer_type.bind(py).clone()
    }

    /// `paddle.grad`
    pub(crate) fn grad<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.paddle.grad.bind(py).clone()
    }

    /// True if calling `layer` as a whole only builds graph, so that the call may be one `call_layer` statement: its
    /// class is Paddle's own, and it has no sublayers and no hooks.
    pub fn is_leaf_layer(&self, layer: &Bound<'_, PyAny>) -> bool {
        layer::is_leaf(&self.paddle, &self.layers, layer).unwrap_or(false)
    }

    /// True if the layer class is one of Paddle's own.
    pub(crate) fn is_own_layer_class(&self, class: &Bound<'_, PyType>) -> PyResult<bool> {
        Ok(self.layers.of_own(class)?.is_some())
    }

    /// True if layers of the class consist of settings and a `forward` alone: no parameters, buffers or sublayers.
    pub fn is_bare_layer(&self, class: &Bound<'_, PyType>) -> PyResult<bool> {
        layer::is_bare(&self.paddle, class)
    }

    /// Instance attributes (own `__dict__`, parameters and buffers) that the forward of `layer` may read: a leaf layer
    /// needs guards on these.
    pub(crate) fn layer_reads<'py>(&self, layer: &Bound<'py, PyAny>) -> PyResult<LayerReads<'py>> {
        self.layers.reads(layer)
    }
}

#[sot_core::linkme::distributed_slice(sot_core::origin::OWN_BACKENDS)]
#[linkme(crate = sot_core::linkme)]
static OWN_BACKEND: &str = "sot_paddle";

impl Backend for PaddleBackend {
    fn name(&self) -> &'static str {
        "paddle"
    }

    fn tensor_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.paddle.tensor_type.bind(py).clone().into_any())
    }

    fn is_tensor(&self, object: &Bound<'_, PyAny>) -> bool {
        self.paddle.is_tensor(object)
    }

    fn is_parameter(&self, object: &Bound<'_, PyAny>) -> bool {
        cpython::is_subtype(&object.get_type(), self.paddle.parameter_type.bind(object.py()))
    }

    fn meta(&self, tensor: &Bound<'_, PyAny>) -> PyResult<TensorMeta> {
        meta::of_tensor(&self.paddle, tensor)
    }

    fn tensor_attribute(
        &self,
        py: Python<'_>,
        name: &str,
        meta: &TensorMeta,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<TensorAttribute> {
        attributes::tensor_attribute(py, &self.paddle, name, meta, value)
    }

    fn call_policy(&self, callable: &Bound<'_, PyAny>, _: &mut dyn GivenArguments) -> CallPolicy {
        api::call_policy(&self.paddle, callable)
    }

    fn skipped_paths(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let own = |module: &str| -> PyResult<String> {
            let paths = cpython::import(py, module)?.getattr("__path__")?;
            Ok(paths.get_item(0)?.extract::<String>()? + "/")
        };
        let mut paths = vec![own("paddle")?, own("numpy")?, own("sot")?];
        // Paddle 3.0 wraps its functions with the package `decorator`. Later releases do without it.
        if let Some(decorator) = cpython::import(py, "paddle.base.wrapped_decorator")?.getattr_opt("decorator")? {
            paths.push(decorator.getattr("__file__")?.extract()?);
        }
        Ok(paths)
    }

    fn tensor_test(&self, tensor: &Bound<'_, PyAny>, meta: &TensorMeta, least: i64) -> PyResult<Box<dyn ObjectTest>> {
        Ok(Box::new(meta::TensorTest::new(&self.paddle, tensor, meta, least)?))
    }

    fn state_test(&self, py: Python<'_>) -> PyResult<Box<dyn StateTest>> {
        Ok(Box::new(state::GlobalState::now(py, &self.paddle)?))
    }

    fn begin(&self, py: Python<'_>) -> PyResult<Box<dyn GraphBuilder>> {
        Ok(Box::new(PaddleBuilder::begin(py, Arc::clone(&self.paddle))?))
    }

    // Measured: `docs/decisions/11-small-graphs.md`.
    fn min_program_size(&self) -> MinProgramSize {
        MinProgramSize { inference: 4, training: 7, number: 2, write: 8, result: 1, size: 5 }
    }

    fn eager_tensors(&self) -> &dyn EagerTensors {
        self
    }

    fn constants(&self) -> &dyn Constants {
        self
    }

    fn models(&self) -> &dyn Models {
        self
    }

    fn open_values(&self) -> &dyn OpenValues {
        self
    }

    fn own_code(&self) -> &dyn OwnCode {
        self
    }

    fn user_interface(&self) -> &dyn UserInterface {
        self
    }
}

impl EagerTensors for PaddleBackend {
    fn written_attribute(&self, name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<WrittenAttribute> {
        attributes::written_attribute(&self.paddle, name, value)
    }

    fn contents<'py>(&self, tensor: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        saved::contents(&self.paddle, tensor)
    }

    fn put_back(&self, tensor: &Bound<'_, PyAny>, contents: &Bound<'_, PyAny>) -> PyResult<()> {
        saved::put_back(&self.paddle, tensor, contents)
    }

    fn random_state<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        saved::random_state(py).map(Some)
    }

    fn put_back_random_state(&self, state: &Bound<'_, PyAny>) -> PyResult<()> {
        saved::put_back_random_state(state)
    }

    fn writes_beside(&self, callee: &Bound<'_, PyAny>) -> PyResult<bool> {
        saved::writes_beside(&self.paddle, callee)
    }

    fn written_beside<'py>(
        &self,
        callee: &Bound<'py, PyAny>,
        args: &[Bound<'py, PyAny>],
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        saved::written_beside(&self.paddle, callee, args)
    }

    fn layout_policy(&self, tensor: &Bound<'_, PyAny>, method: &str) -> PyResult<Option<LayoutPolicy>> {
        layout::of(&self.paddle, tensor, method)
    }

    fn marked_dimensions(&self, tensor: &Bound<'_, PyAny>) -> MarkedDimensions {
        meta::marked_dimensions(tensor)
    }

    fn truth(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        truth::function(py, &self.paddle)
    }
}

impl Constants for PaddleBackend {
    fn is_constant(&self, object: &Bound<'_, PyAny>) -> bool {
        self.paddle.is_plain_value(object)
    }

    fn is_unchanging(&self, object: &Bound<'_, PyAny>) -> bool {
        self.is_constant(object)
            || object.get_type().is(&self.paddle.size_type)
            || data::is_unchanging(object).unwrap_or(false)
            || distributed::is_distribution(object).unwrap_or(false)
    }

    fn is_one_object(&self, constant: &Bound<'_, PyAny>) -> bool {
        self.paddle.is_lasting(constant)
    }

    fn known_data<'py>(&self, array: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        data::known(array)
    }

    fn number_for(&self, tensor: &TensorMeta, operator: &str, number: &Bound<'_, PyAny>) -> Option<Py<PyAny>> {
        scalar::number_for(tensor, operator, number)
    }

    fn equals_none(&self) -> Option<bool> {
        self.paddle.equals_none
    }
}

impl Models for PaddleBackend {
    fn may_hold_tensors(&self, object: &Bound<'_, PyAny>) -> bool {
        self.is_layer(object)
    }

    fn entry_of<'py>(&self, class: &Bound<'py, PyType>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !class.is_subclass(self.paddle.layer_type.bind(class.py()))? {
            return Ok(None);
        }
        let forward = class.getattr("__dict__")?.call_method1("get", ("forward",))?;
        Ok((!forward.is_none()).then_some(forward))
    }

    // In static mode an attribute of a layer is a value, if it is a parameter or a buffer. Paddle ends the process at
    // operators on any other eager tensor.
    fn becomes_value(&self, holder: Option<&Bound<'_, PyAny>>, container: Option<&Bound<'_, PyAny>>) -> bool {
        holder.filter(|holder| self.is_layer(holder)).is_some_and(|layer| {
            layer::is_own(layer) || container.is_some_and(|container| layer::is_store(layer, container))
        })
    }

    fn is_own(&self, object: &Bound<'_, PyAny>) -> bool {
        self.is_layer(object) && layer::is_own(object)
    }

    fn notes(&self) -> &'static [&'static str] {
        &["_built"]
    }
}

impl OpenValues for PaddleBackend {
    fn size_function<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        sizes::function(py, &self.paddle).map(|size| Some(size.into_bound(py)))
    }

    fn takes_sizes(&self, kind: CallKind, callee: &Bound<'_, PyAny>) -> bool {
        fault::answer(sizes::accepts_sizes(kind, callee), false)
    }

    fn takes_all_integers(&self, kind: CallKind, callee: &Bound<'_, PyAny>) -> bool {
        fault::answer(sizes::accepts_all_integers(kind, callee), false)
    }

    fn takes_floats(&self, kind: CallKind, callee: &Bound<'_, PyAny>) -> bool {
        fault::answer(floats::accepts_floats(kind, callee), false)
    }

    fn signs_nan(&self, kind: CallKind, callee: &Bound<'_, PyAny>) -> bool {
        kind == CallKind::Method && fault::answer(rounded::signs_nan(callee), true)
    }

    fn checks_floats(&self, kind: CallKind, callee: &Bound<'_, PyAny>) -> bool {
        // A layer takes no numbers.
        !matches!(kind, CallKind::Object(_)) && fault::answer(rounded::checks_numbers(callee), true)
    }

    fn takes_arrays(&self, kind: CallKind, callee: &Bound<'_, PyAny>) -> bool {
        fault::answer(arrays::accepts_arrays(kind, callee), false)
    }
}

impl OwnCode for PaddleBackend {
    fn is_replaced(&self, held: &Bound<'_, PyAny>) -> bool {
        fault::answer(foundation::is_replaced(&self.paddle, held), true)
    }

    fn calls_by_name(&self, module: &Bound<'_, PyAny>, name: &str, globals: &Bound<'_, PyDict>) -> bool {
        fault::answer(foundation::calls_by_name(module, name, globals), true)
    }

    fn foundation(
        &self,
        kind: CallKind,
        callee: &Bound<'_, PyAny>,
    ) -> PyResult<Option<(Py<PyAny>, Box<dyn ObjectTest>)>> {
        foundation::of_call(&self.paddle, kind, callee)
    }

    fn statement_of<'py>(&self, function: &Bound<'py, PyAny>) -> PyResult<Option<(Bound<'py, PyAny>, Vec<String>)>> {
        marks::statement_of(function)
    }

    fn is_written_with(&self, file: &str) -> bool {
        origin::is_of_helper(file)
    }
}

impl UserInterface for PaddleBackend {
    fn hint(&self, reason: ReasonId) -> Option<&'static str> {
        hints::hint(reason)
    }

    fn skips(&self, file: &str) -> bool {
        marks::is_ignored(file)
    }

    fn forbids(&self, code: &Bound<'_, PyAny>, what: Forbidden, why: ReasonId) -> bool {
        fault::answer(marks::forbids(code, what, why), true)
    }

    fn export(&self, py: Python<'_>, folder: &Path, graph: &Exported<'_>) -> PyResult<()> {
        export::export(py, folder, graph)
    }
}

/// True if the type of `object` is exactly `expected`.
fn has_exact_type(object: &Bound<'_, PyAny>, expected: &Py<PyType>) -> bool {
    object.get_type_ptr() == expected.as_ptr().cast()
}
