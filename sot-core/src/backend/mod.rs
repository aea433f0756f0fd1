//! The backend: what a framework tells the tracer, and how a graph reaches it. A backend takes statements one at a
//! time. Appending a statement yields the values of its results, and finishing the graph yields the callable, so that
//! each operation is built once.

mod answers;
mod builder;
mod program_size;
mod protocols;
mod python;
mod size_formula;

use pyo3::prelude::*;

use self::protocols::DefaultAnswers;

pub use self::answers::{
    CallPolicy, GivenArguments, KnownResult, LayoutEffect, LayoutPolicy, MarkedDimensions, NoArguments, Returns,
    SizeExpression, TensorAttribute, WrittenAttribute,
};
pub use self::builder::GraphBuilder;
pub(crate) use self::program_size::TakenNumbers;
pub use self::program_size::{min_size_setting, MinProgramSize};
pub use self::protocols::{Constants, EagerTensors, Models, OpenValues, OwnCode, UserInterface, ValueMemory};
pub use self::python::{MetaOf, MetaTest, PythonGraph};
pub use self::size_formula::{InputSize, SizeFormula, SizeProduct, SizeQuotient};
pub use crate::guard::{ObjectTest, ObjectsTest, StateTest, TestKey};
pub use crate::ir::{CallKind, GradientFlow, TensorMeta};

pyo3::create_exception!(
    sot,
    SizesMatter,
    pyo3::exceptions::PyException,
    "A graph cannot be built for all sizes that are left open, but may be for those of this call."
);

/// A framework that can run graphs. Questions that only some frameworks can answer are grouped into protocols. A
/// backend that answers such questions names itself as the protocol (`fn models(&self) -> &dyn Models { self }`) and
/// implements the methods whose default does not fit.
pub trait Backend: Send + Sync {
    // Identity of the framework.

    /// Short name, unique among backends.
    fn name(&self) -> &'static str;
    /// Path prefixes of the framework's own files. CPython runs the frames of these files, unless the user asks for
    /// their translation.
    fn skipped_paths(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let _ = py;
        Ok(Vec::new())
    }

    // Tensors.

    /// Returns the Python type of eager tensors, for `type(x)` and `isinstance`.
    fn tensor_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>>;
    /// True if `object` is an eager tensor of this framework; parameters and buffers are included.
    fn is_tensor(&self, object: &Bound<'_, PyAny>) -> bool;
    /// True if the tensor belongs to a model (a parameter): the trace assumes its identity, and not only its meta.
    fn is_parameter(&self, object: &Bound<'_, PyAny>) -> bool {
        let _ = object;
        false
    }
    /// Returns the meta of an eager tensor.
    fn meta(&self, tensor: &Bound<'_, PyAny>) -> PyResult<TensorMeta>;
    /// Says what attribute `name` of a tensor in the graph means. `value` is the builder's value of the tensor.
    fn tensor_attribute(
        &self,
        py: Python<'_>,
        name: &str,
        meta: &TensorMeta,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<TensorAttribute>;

    // Calls.

    /// Says what a call of `callable` with these arguments means. The callable is a function, a class, or any other
    /// callable object that is no tensor. This method must not run the program's code.
    fn call_policy(&self, callable: &Bound<'_, PyAny>, given: &mut dyn GivenArguments) -> CallPolicy;

    // Guards.

    /// Returns a test that passes for tensors with the meta (and on the device) of `tensor`. Sizes that are open in
    /// `meta` may have any value from `least` on.
    fn tensor_test(&self, tensor: &Bound<'_, PyAny>, meta: &TensorMeta, least: i64) -> PyResult<Box<dyn ObjectTest>>;
    /// Returns a test of the present global state. By default no global state changes what operations do.
    fn state_test(&self, py: Python<'_>) -> PyResult<Box<dyn StateTest>> {
        let _ = py;
        Ok(Box::new(python::NoState))
    }

    // Graphs.

    /// Begins a graph. Where the backend cannot build one now, it raises `NotImplementedError`, and the graph breaks at
    /// the call that would be its first statement.
    fn begin(&self, py: Python<'_>) -> PyResult<Box<dyn GraphBuilder>>;
    /// Minimum size of a graph that becomes a program.
    fn min_program_size(&self) -> MinProgramSize {
        MinProgramSize::default()
    }

    // Protocols that not every framework has.

    /// Questions about tensors outside of graphs, besides their meta.
    fn eager_tensors(&self) -> &dyn EagerTensors {
        &DefaultAnswers
    }
    /// Values besides tensors: constants of the framework, and values of other libraries that are combined with its
    /// tensors.
    fn constants(&self) -> &dyn Constants {
        &DefaultAnswers
    }
    /// Objects that hold tensors, such as models.
    fn models(&self) -> &dyn Models {
        &DefaultAnswers
    }
    /// Sizes and numbers that a graph takes as inputs and does not specialise on.
    fn open_values(&self) -> &dyn OpenValues {
        &DefaultAnswers
    }
    /// The framework's own Python code: which parts are followed, and what happens where the program has replaced
    /// some.
    fn own_code(&self) -> &dyn OwnCode {
        &DefaultAnswers
    }
    /// Settings of users about translation, and messages to users.
    fn user_interface(&self) -> &dyn UserInterface {
        &DefaultAnswers
    }
    /// Protocol of a backend whose values have memory. By default an operation in place yields a new value, and
    /// statements that reach no output are dropped.
    fn value_memory(&self) -> Option<&dyn ValueMemory> {
        None
    }
}
