//! Protocols that a backend may have beside [`Backend`](super::Backend). Each has a default answer for each question,
//! which is that of a framework that knows nothing of it.

use std::path::Path;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use super::{CallKind, MarkedDimensions, OfLayout, TensorMeta, WrittenAttribute};
use crate::error::{Forbidden, ReasonId};
use crate::guard::{ObjectTest, ObjectsTest};
use crate::ir::Exported;

/// A framework that has no answers of its own.
pub(super) struct DefaultAnswers;

/// What is asked of tensors outside of graphs beside their meta.
pub trait EagerTensors: Send + Sync {
    /// What writing `value` to the attribute `name` of a tensor means; `None` is a value that is not known while
    /// tracing, or a deletion.
    fn written_attribute(&self, name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<WrittenAttribute> {
        let _ = (name, value);
        Ok(WrittenAttribute::Plain)
    }
    /// What the method called without arguments does to a tensor from outside, if that depends on how the tensor lies
    /// in memory.
    fn of_layout(&self, tensor: &Bound<'_, PyAny>, method: &str) -> PyResult<Option<OfLayout>> {
        let _ = (tensor, method);
        Ok(None)
    }
    /// The dimensions of a tensor that its owner has marked.
    fn marked_dimensions(&self, tensor: &Bound<'_, PyAny>) -> MarkedDimensions {
        let _ = tensor;
        MarkedDimensions::default()
    }
    /// A function that gives the truth of an object in no time, or the object itself, for branches on tensors to ask
    /// first.
    fn truth(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let _ = py;
        Ok(None)
    }
}

impl EagerTensors for DefaultAnswers {}

/// Values beside tensors: those of the framework's own, and those of other libraries that meet its tensors.
pub trait Constants: Send + Sync {
    /// Whether the object is one of the framework's plain values (a data type, a place): immutable, compared by `==`.
    fn is_constant(&self, object: &Bound<'_, PyAny>) -> bool {
        let _ = object;
        false
    }
    /// Whether an argument of a call is of a value that nobody can change: the call may be made with it again.
    fn is_unchanging(&self, object: &Bound<'_, PyAny>) -> bool {
        self.is_constant(object)
    }
    /// Whether the framework has one object of such a value, and gives that whenever the value is asked for.
    fn is_one_object(&self, constant: &Bound<'_, PyAny>) -> bool {
        let _ = constant;
        false
    }
    /// An array of another library's that the trace has made and nobody writes any more, as an argument of statements.
    /// `None`: they take none.
    fn known_data<'py>(&self, array: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let _ = array;
        Ok(None)
    }
    /// The Python number that an operator of a tensor's takes a number of another library's for, such as numpy's
    /// `float64`. `None` where it does something else with it, or that is not known.
    fn number_for(&self, tensor: &TensorMeta, operator: &str, number: &Bound<'_, PyAny>) -> Option<Py<PyAny>> {
        let _ = (tensor, operator, number);
        None
    }
}

impl Constants for DefaultAnswers {}

/// Objects in which the framework keeps tensors.
pub trait Models: Send + Sync {
    /// Whether an object that is no tensor may lead to tensors, as a model does.
    fn may_hold_tensors(&self, object: &Bound<'_, PyAny>) -> bool {
        let _ = object;
        false
    }
    /// The function that a call of an object of this class comes to, where it is not the one that CPython calls.
    fn entry_of<'py>(&self, class: &Bound<'py, PyType>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let _ = class;
        Ok(None)
    }
}

impl Models for DefaultAnswers {}

/// Sizes and numbers that a graph is not made for, but given at each call.
pub trait OpenValues: Send + Sync {
    /// A function that takes a tensor and an axis and gives the size; of a value of a graph, as a value.
    fn size_function<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let _ = py;
        Ok(None)
    }
    /// Whether a statement does with sizes that are values of the graph what it does with numbers.
    fn takes_sizes(&self, kind: CallKind, callee: &Bound<'_, PyAny>) -> bool {
        let _ = (kind, callee);
        false
    }
    /// Whether a statement does with a `float` that is a value of the graph what it does with the number.
    fn takes_floats(&self, kind: CallKind, callee: &Bound<'_, PyAny>) -> bool {
        let _ = (kind, callee);
        false
    }
    /// Whether a statement that takes a `float` may refuse one that is not finite, or too large, where a graph does
    /// not.
    fn checks_floats(&self, kind: CallKind, callee: &Bound<'_, PyAny>) -> bool {
        let _ = (kind, callee);
        false
    }
    /// Whether a statement takes an array of another library's as a value of the graph, which is given anew at each
    /// call.
    fn takes_arrays(&self, kind: CallKind, callee: &Bound<'_, PyAny>) -> bool {
        let _ = (kind, callee);
        false
    }
}

impl OpenValues for DefaultAnswers {}

/// The framework's own code in Python: which of it is followed, and what becomes of it where the program has replaced
/// some.
pub trait OwnCode: Send + Sync {
    /// Whether what the framework's types of tensors and models hold under a name was put there by the program, or
    /// calls what was.
    fn is_replaced(&self, held: &Bound<'_, PyAny>) -> bool {
        let _ = held;
        false
    }
    /// Whether the framework's own code finds a function in a module under this name, and code with these globals is
    /// not the framework's.
    fn calls_by_name(&self, module: &Bound<'_, PyAny>, name: &str, globals: &Bound<'_, PyDict>) -> bool {
        let _ = (module, name, globals);
        false
    }
    /// A test that the framework's code for a statement finds what it finds now under the names that it looks up, with
    /// the object that is asked about.
    #[allow(clippy::type_complexity, reason = "an object and a test of it, or neither")]
    fn foundation(
        &self,
        kind: CallKind,
        callee: &Bound<'_, PyAny>,
    ) -> PyResult<Option<(Py<PyAny>, Box<dyn ObjectTest>)>> {
        let _ = (kind, callee);
        Ok(None)
    }
    /// What to call as one statement in the place of a [`CallPolicy::FollowOrCall`], and the names of the globals that
    /// it reads.
    ///
    /// [`CallPolicy::FollowOrCall`]: super::CallPolicy::FollowOrCall
    fn statement_of<'py>(&self, function: &Bound<'py, PyAny>) -> PyResult<Option<(Bound<'py, PyAny>, Vec<String>)>> {
        let _ = function;
        Ok(None)
    }
    /// Whether a file belongs to a library that the framework is written with: in a program that asks for no
    /// translation, none begins there.
    fn is_written_with(&self, file: &str) -> bool {
        let _ = file;
        false
    }
}

impl OwnCode for DefaultAnswers {}

/// What users have told the framework about translation, and what they are told.
pub trait UserInterface: Send + Sync {
    /// What a user of the framework can do about a break, where it can be said better than in general terms.
    fn hint(&self, reason: ReasonId) -> Option<&'static str> {
        let _ = reason;
        None
    }
    /// Whether frames of a file are left alone as the user has told the framework to.
    fn skips(&self, file: &str) -> bool {
        let _ = file;
        false
    }
    /// Whether a mark of the framework's makes an error of what becomes of a code object, for this reason.
    fn forbids(&self, code: &Bound<'_, PyAny>, what: Forbidden, why: ReasonId) -> bool {
        let _ = (code, what, why);
        false
    }
    /// Writes a finished graph into a folder, as a file that can be read and run on its own.
    fn export(&self, py: Python<'_>, folder: &Path, graph: &Exported<'_>) -> PyResult<()> {
        let _ = (py, folder, graph);
        Ok(())
    }
}

impl UserInterface for DefaultAnswers {}

/// Values of graphs that have memory, as tensors have. An operation in place changes its value, and with it all that
/// share the value's memory, inputs of the graph among them; the graph runs every statement in its order, whether or
/// not anything comes of it. What a backend owes that says so, beside this: [`GraphBuilder::roll_back`],
/// [`GraphBuilder::has_effects`], and graphs that undo what they did before they raise.
///
/// [`GraphBuilder::roll_back`]: super::GraphBuilder::roll_back
/// [`GraphBuilder::has_effects`]: super::GraphBuilder::has_effects
pub trait ValueMemory: Send + Sync {
    /// A test that passes for as many tensors where the same ones share the same memory. It is asked for if a graph
    /// changes some, of all tensors that enter it; `None` if there is nothing to test.
    fn sharing_test(&self, tensors: &[Bound<'_, PyAny>]) -> PyResult<Option<Box<dyn ObjectsTest>>>;
}
