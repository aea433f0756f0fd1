//! What a backend tells the tracer and how a graph reaches it. A backend takes statements one at a time: appending one
//! yields the values of its results, finishing yields the callable, so each operation is built once.

mod answers;
mod builder;
mod protocols;
mod python;

use pyo3::prelude::*;

use self::protocols::DefaultAnswers;

pub use self::answers::{
    CallPolicy, GivenArguments, LayoutAnswer, MarkedDimensions, NoArguments, OfLayout, Returns, TensorAttribute,
    WrittenAttribute,
};
pub use self::builder::GraphBuilder;
pub use self::protocols::{Constants, EagerTensors, Models, OpenValues, OwnCode, UserInterface, ValueMemory};
pub use self::python::{MetaOf, MetaTest, PythonGraph};
pub use crate::guard::{ObjectTest, ObjectsTest, StateTest, TestKey};
pub use crate::ir::{CallKind, GradientFlow, TensorMeta};

pyo3::create_exception!(
    sot,
    SizesMatter,
    pyo3::exceptions::PyException,
    "A graph cannot be built for all sizes that are left open, but may be for those of this call."
);

/// A framework that can run graphs. What not every framework has is a protocol of its own. A backend that has something
/// to say there names it, as in `fn models(&self) -> &dyn Models { self }`, and implements what differs from the
/// defaults.
pub trait Backend: Send + Sync {
    // The framework.

    /// Short name, unique among backends.
    fn name(&self) -> &'static str;
    /// Path prefixes of the framework's own files, whose frames are left alone unless the user asks for them.
    fn skipped_paths(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let _ = py;
        Ok(Vec::new())
    }

    // Tensors.

    /// The Python type that eager tensors have, for `type(x)` and `isinstance`.
    fn tensor_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>>;
    /// Whether `object` is an eager tensor of this framework (parameters and buffers included).
    fn is_tensor(&self, object: &Bound<'_, PyAny>) -> bool;
    /// Whether the tensor belongs to a model (a parameter): identity, not only its meta, is assumed.
    fn is_parameter(&self, object: &Bound<'_, PyAny>) -> bool {
        let _ = object;
        false
    }
    /// The meta of an eager tensor.
    fn meta(&self, tensor: &Bound<'_, PyAny>) -> PyResult<TensorMeta>;
    /// What attribute `name` of a tensor in the graph means. `value` is the builder's value of the tensor.
    fn tensor_attribute(
        &self,
        py: Python<'_>,
        name: &str,
        meta: &TensorMeta,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<TensorAttribute>;

    // Calls.

    /// What calling `callable` with these arguments means: a function, a class, or any object that is called and is no
    /// tensor. Asking it must not run code of the program's.
    fn call_policy(&self, callable: &Bound<'_, PyAny>, given: &mut dyn GivenArguments) -> CallPolicy;

    // Guards.

    /// A test that passes for tensors with the same meta (and place) as `tensor`. `meta` is its meta, in which sizes
    /// may be left open: of those the tensor may have any from `least` on.
    fn tensor_test(&self, tensor: &Bound<'_, PyAny>, meta: &TensorMeta, least: i64) -> PyResult<Box<dyn ObjectTest>>;
    /// A test of the global state as it is now; by default there is none that says what operations do.
    fn state_test(&self, py: Python<'_>) -> PyResult<Box<dyn StateTest>> {
        let _ = py;
        Ok(Box::new(python::NoState))
    }

    // Graphs.

    /// Starts a graph.
    fn begin(&self, py: Python<'_>) -> PyResult<Box<dyn GraphBuilder>>;

    // Protocols that not every framework has.

    /// What is asked of tensors outside of graphs beside their meta.
    fn eager_tensors(&self) -> &dyn EagerTensors {
        &DefaultAnswers
    }
    /// Values beside tensors: those of the framework's own, and those of other libraries that meet its tensors.
    fn constants(&self) -> &dyn Constants {
        &DefaultAnswers
    }
    /// Objects in which the framework keeps tensors.
    fn models(&self) -> &dyn Models {
        &DefaultAnswers
    }
    /// Sizes and numbers that a graph is not made for, but given at each call.
    fn open_values(&self) -> &dyn OpenValues {
        &DefaultAnswers
    }
    /// The framework's own code in Python: which of it is followed, and what becomes of it where the program has
    /// replaced some.
    fn own_code(&self) -> &dyn OwnCode {
        &DefaultAnswers
    }
    /// What users have told the framework about translation, and what they are told.
    fn user_interface(&self) -> &dyn UserInterface {
        &DefaultAnswers
    }
    /// Whether values of graphs have memory, and what that is asked about. By default an operation in place gives a new
    /// value, and statements that reach no output are dropped.
    fn value_memory(&self) -> Option<&dyn ValueMemory> {
        None
    }
}
