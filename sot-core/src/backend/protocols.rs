//! Protocols that a backend may implement besides [`Backend`](super::Backend). The default answers are those of a
//! framework that does not support the protocol's subject.

use std::path::Path;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use super::{CallKind, LayoutPolicy, MarkedDimensions, TensorMeta, WrittenAttribute};
use crate::error::{Forbidden, ReasonId};
use crate::guard::{ObjectTest, ObjectsTest};
use crate::ir::Exported;

/// Implements all protocols by their defaults.
pub(super) struct DefaultAnswers;

/// Questions about tensors outside of graphs, besides their meta.
pub trait EagerTensors: Send + Sync {
    /// Says what writing `value` to the attribute `name` of a tensor means. `None` stands for a value that is not
    /// known while tracing, or for a deletion.
    fn written_attribute(&self, name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<WrittenAttribute> {
        let _ = (name, value);
        Ok(WrittenAttribute::Plain)
    }
    /// Says what a method without arguments does to a tensor from outside, if it depends on the tensor's memory
    /// layout.
    fn layout_policy(&self, tensor: &Bound<'_, PyAny>, method: &str) -> PyResult<Option<LayoutPolicy>> {
        let _ = (tensor, method);
        Ok(None)
    }
    /// Returns the dimensions of a tensor that the user has marked.
    fn marked_dimensions(&self, tensor: &Bound<'_, PyAny>) -> MarkedDimensions {
        let _ = tensor;
        MarkedDimensions::default()
    }
    /// Returns a copy of the numbers of a tensor that is about to be written to, for [`EagerTensors::put_back`]; `None`
    /// if they cannot be put back.
    fn contents<'py>(&self, tensor: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let _ = tensor;
        Ok(None)
    }
    /// Gives a tensor the numbers that it held before writes.
    fn put_back(&self, tensor: &Bound<'_, PyAny>, contents: &Bound<'_, PyAny>) -> PyResult<()> {
        let _ = (tensor, contents);
        Ok(())
    }
    /// Returns the state of the framework's random number generators; `None` if it has none.
    fn random_state<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let _ = py;
        Ok(None)
    }
    /// Sets the random number generators to an earlier state, as if nothing had been drawn since.
    fn put_back_random_state(&self, state: &Bound<'_, PyAny>) -> PyResult<()> {
        let _ = state;
        Ok(())
    }
    /// True if calls of a function or object write to other tensors than their results and the operand that they change
    /// in place, such as the statistics of a normalisation.
    fn writes_beside(&self, callee: &Bound<'_, PyAny>) -> PyResult<bool> {
        let _ = callee;
        Ok(false)
    }
    /// Returns these tensors. `args` are the positional arguments of the call.
    fn written_beside<'py>(
        &self,
        callee: &Bound<'py, PyAny>,
        args: &[Bound<'py, PyAny>],
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let _ = (callee, args);
        Ok(Vec::new())
    }
    /// Returns a function that gives the truth of an object quickly, or the object itself where it cannot. Branches
    /// on tensors call it first.
    fn truth(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let _ = py;
        Ok(None)
    }
}

impl EagerTensors for DefaultAnswers {}

/// Values besides tensors: constants of the framework, and values of other libraries that are combined with its
/// tensors.
pub trait Constants: Send + Sync {
    /// True if the object is a plain value of the framework (an element type, a device): immutable, and compared by
    /// `==`.
    fn is_constant(&self, object: &Bound<'_, PyAny>) -> bool {
        let _ = object;
        false
    }
    /// True if an argument of a call is immutable, so that a replay may pass it again.
    fn is_unchanging(&self, object: &Bound<'_, PyAny>) -> bool {
        self.is_constant(object)
    }
    /// True if the framework has only one object for this value, and returns it whenever the value is asked for.
    fn is_one_object(&self, constant: &Bound<'_, PyAny>) -> bool {
        let _ = constant;
        false
    }
    /// Converts an array of another library into an argument of statements. The trace has made the array, and it is
    /// not written any more. `None` if statements take no such arrays.
    fn known_data<'py>(&self, array: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let _ = array;
        Ok(None)
    }
    /// Returns the Python number that an operator of a tensor converts a number of another library to, such as
    /// numpy's `float64`. `None` if the operator treats the number in another way, or if that is not known.
    fn number_for(&self, tensor: &TensorMeta, operator: &str, number: &Bound<'_, PyAny>) -> Option<Py<PyAny>> {
        let _ = (tensor, operator, number);
        None
    }
    /// What `tensor == None` gives, if it is the same `bool` for every tensor, and `tensor != None` gives the other.
    fn equals_none(&self) -> Option<bool> {
        None
    }
}

impl Constants for DefaultAnswers {}

/// Objects that hold tensors, such as models.
pub trait Models: Send + Sync {
    /// True if an object that is no tensor may lead to tensors, as a model does.
    fn may_hold_tensors(&self, object: &Bound<'_, PyAny>) -> bool {
        let _ = object;
        false
    }
    /// Returns the function that a call of an instance of this class runs, if it is not the function that CPython
    /// calls.
    fn entry_of<'py>(&self, class: &Bound<'py, PyType>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let _ = class;
        Ok(None)
    }
    /// True if a function that is called with values of a graph may read a tensor besides its arguments, because the
    /// framework puts a value of the graph in its place. `holder` is the instance that holds the tensor, and
    /// `container` the list or dict of the instance that it is in; both are `None` for globals, closures and
    /// defaults.
    fn becomes_value(&self, holder: Option<&Bound<'_, PyAny>>, container: Option<&Bound<'_, PyAny>>) -> bool {
        let _ = (holder, container);
        true
    }
    /// True for a model whose class is the framework's own. Such a model may set attributes when it is called for the
    /// first time.
    fn is_own(&self, object: &Bound<'_, PyAny>) -> bool {
        let _ = object;
        false
    }
    /// The attributes of models in which the framework notes what it has prepared for calls. A call may change them,
    /// and they change no result.
    fn notes(&self) -> &'static [&'static str] {
        &[]
    }
}

impl Models for DefaultAnswers {}

/// Sizes and numbers that a graph takes as inputs and does not specialise on.
pub trait OpenValues: Send + Sync {
    /// Returns a function of a tensor and an axis that gives the size. For a value of a graph, the size is a value,
    /// too.
    fn size_function<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let _ = py;
        Ok(None)
    }
    /// True if a statement treats sizes that are values of the graph like numbers.
    fn takes_sizes(&self, kind: CallKind, callee: &Bound<'_, PyAny>) -> bool {
        let _ = (kind, callee);
        false
    }
    /// True if a statement that takes sizes treats zero, one and negative integers as it treats others. In a shape they
    /// have meanings of their own; a product has none.
    fn takes_all_integers(&self, kind: CallKind, callee: &Bound<'_, PyAny>) -> bool {
        let _ = (kind, callee);
        false
    }
    /// True if a statement treats a `float` that is a value of the graph like the number.
    fn takes_floats(&self, kind: CallKind, callee: &Bound<'_, PyAny>) -> bool {
        let _ = (kind, callee);
        false
    }
    /// True if a statement that takes a `float` may give a result with another sign for `nan` than a graph does.
    fn signs_nan(&self, kind: CallKind, callee: &Bound<'_, PyAny>) -> bool {
        let _ = (kind, callee);
        false
    }
    /// True if a statement that takes a `float` may raise for an infinite, `nan` or too large one, where a graph does
    /// not.
    fn checks_floats(&self, kind: CallKind, callee: &Bound<'_, PyAny>) -> bool {
        let _ = (kind, callee);
        false
    }
    /// True if a statement takes an array of another library as a value of the graph, which is given at each call.
    fn takes_arrays(&self, kind: CallKind, callee: &Bound<'_, PyAny>) -> bool {
        let _ = (kind, callee);
        false
    }
}

impl OpenValues for DefaultAnswers {}

/// The framework's own Python code: which parts are followed, and what happens where the program has replaced some.
pub trait OwnCode: Send + Sync {
    /// True if a function held by the framework's types of tensors and models was put there by the program, or calls
    /// such a function.
    fn is_replaced(&self, held: &Bound<'_, PyAny>) -> bool {
        let _ = held;
        false
    }
    /// True if the framework's own code looks up a function in a module under this name, and if code with these
    /// globals is not the framework's.
    fn calls_by_name(&self, module: &Bound<'_, PyAny>, name: &str, globals: &Bound<'_, PyDict>) -> bool {
        let _ = (module, name, globals);
        false
    }
    /// Returns a test, with the object it is applied to, that the names which the framework's code looks up for a
    /// statement still hold what they hold now. For a class: the names that are looked up when an instance is made
    /// ([`CallPolicy::Make`](super::CallPolicy::Make)).
    #[allow(clippy::type_complexity, reason = "an object and a test of it, or neither")]
    fn foundation(
        &self,
        kind: CallKind,
        callee: &Bound<'_, PyAny>,
    ) -> PyResult<Option<(Py<PyAny>, Box<dyn ObjectTest>)>> {
        let _ = (kind, callee);
        Ok(None)
    }
    /// Returns the function that is called as one statement for a [`CallPolicy::FollowOrCall`], and the names of the
    /// globals that it reads.
    ///
    /// [`CallPolicy::FollowOrCall`]: super::CallPolicy::FollowOrCall
    fn statement_of<'py>(&self, function: &Bound<'py, PyAny>) -> PyResult<Option<(Bound<'py, PyAny>, Vec<String>)>> {
        let _ = function;
        Ok(None)
    }
    /// True if a file belongs to a library that the framework is built on. In a program that does not ask for
    /// translation, no translation begins in such a file.
    fn is_written_with(&self, file: &str) -> bool {
        let _ = file;
        false
    }
}

impl OwnCode for DefaultAnswers {}

/// Settings of users about translation, and messages to users.
pub trait UserInterface: Send + Sync {
    /// Returns advice for a break in the framework's own words, if it is better than the general advice.
    fn hint(&self, reason: ReasonId) -> Option<&'static str> {
        let _ = reason;
        None
    }
    /// True if the user has set the framework to leave frames of this file alone.
    fn skips(&self, file: &str) -> bool {
        let _ = file;
        false
    }
    /// True if the framework has a mark that forbids this outcome for a code object, for this reason.
    fn forbids(&self, code: &Bound<'_, PyAny>, what: Forbidden, why: ReasonId) -> bool {
        let _ = (code, what, why);
        false
    }
    /// Writes a finished graph into a folder, as a file that can be read and run by itself.
    fn export(&self, py: Python<'_>, folder: &Path, graph: &Exported<'_>) -> PyResult<()> {
        let _ = (py, folder, graph);
        Ok(())
    }
}

impl UserInterface for DefaultAnswers {}

/// Protocol of a backend whose values have memory, as tensors do. An operation in place changes its value and all
/// values that share its memory, inputs of the graph included. The graph runs every statement in order, whether its
/// result is used or not. Such a backend also has to implement [`GraphBuilder::roll_back`] and
/// [`GraphBuilder::has_effects`], and its graphs have to undo their changes before they raise.
///
/// [`GraphBuilder::roll_back`]: super::GraphBuilder::roll_back
/// [`GraphBuilder::has_effects`]: super::GraphBuilder::has_effects
pub trait ValueMemory: Send + Sync {
    /// Returns a test that passes for the same number of tensors that share memory in the same way. Called with all
    /// tensors that enter a graph, if the graph changes some of them. `None` if there is nothing to test.
    fn sharing_test(&self, tensors: &[Bound<'_, PyAny>]) -> PyResult<Option<Box<dyn ObjectsTest>>>;
}
