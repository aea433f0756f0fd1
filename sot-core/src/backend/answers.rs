//! Answers of a backend: what callables and attributes of tensors mean, and what depends on a tensor's memory layout.

use std::sync::Arc;

use pyo3::prelude::*;

use crate::guard::ObjectTest;
use crate::operators::{BinaryOp, CompareOp};

/// What a call of a callable means to the backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallPolicy {
    /// No special meaning: the callable is followed like any Python callable.
    Follow,
    /// Reads state that a [`CallPolicy::Manager`] changes when it is entered, besides the state that `state_test`
    /// covers. The callable is followed in traces that have not entered such a manager, and runs natively in others.
    /// The text says why.
    FollowOutside(String),
    /// A graph-building function: one `call_api` statement.
    Api,
    /// A graph-building function that changes its first argument in place: one `call_inplace` statement.
    InPlace,
    /// [`CallPolicy::InPlace`] if this argument is true, [`CallPolicy::Api`] if it is not.
    InPlaceIf {
        /// Name of the argument.
        argument: &'static str,
        /// Position of the argument.
        at: usize,
    },
    /// A function that is followed, but becomes one statement if a tensor's value decides about a branch in it
    /// ([`statement_of`](super::OwnCode::statement_of)).
    FollowOrCall,
    /// An unbound method of tensors with this name: called on its first argument.
    Method(String),
    /// A pure function of what is known while tracing (such as `is_grad_enabled`). It is called while tracing; the
    /// guard on the global state covers its result.
    Constant,
    /// Creates an object without effects elsewhere. With known arguments the object is created while tracing, and
    /// only the trace has it. If the program needs the object outside the trace, its variable makes another one.
    Make,
    /// Changes the global state that [`state_test`](super::Backend::state_test) covers, as its known arguments say.
    /// The trace changes the state for real, so that statements are built and questions are answered under it. New
    /// code repeats the change.
    Switch,
    /// Creates a context manager that changes this state between its entry and its exit.
    Manager,
    /// Has to run natively; the text says why and what to do.
    Break(String),
    /// Has to run natively because it reads a value out of a tensor; the text says why and what to do.
    ReadsValue(String),
    /// Is on a list of the framework's functions that have to run natively, with their own frames; the text says
    /// which list.
    Listed(String),
}

/// Result of a method that changes a tensor in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returns {
    /// The tensor itself.
    It,
    /// `None`.
    Nothing,
    /// Another object for the same tensor. No graph can return such an object, so the method is in the graph only
    /// where the program drops the result.
    AnotherObject,
}

/// Meaning of a tensor's attribute to the backend.
#[derive(Debug)]
pub enum TensorAttribute {
    /// Known while tracing: a plain Python object (`shape` as a list of ints).
    Known(Py<PyAny>),
    /// A method that builds graph: calling it is one `call_method` statement.
    Method,
    /// A method that builds graph and returns the tensor itself. From then on the tensor's value is the method's
    /// result.
    Becoming,
    /// A method that copies the tensor and notes the copy in its only argument, a dict, under the tensor's `id()`. If
    /// the attribute `unless` of a tensor from outside is false, the copy is the result of the method `by`.
    Copy {
        /// Name of the method that makes the copy; it is called without arguments.
        by: &'static str,
        /// Name of an attribute that a copy would take over from the tensor, and that no result of a graph has.
        unless: &'static str,
    },
    /// A method that changes the tensor in place: calling it is one `call_inplace` statement.
    InPlace(Returns),
    /// An attribute that is a tensor operation itself (such as `T`). Reading it is one statement: `getattr(tensor,
    /// name)`.
    Operation,
    /// A text that is not known before run time, and never empty.
    Text {
        /// Text of the graph break where the value is needed.
        why: String,
        /// Function that is called with the tensor before the text may be read; it returns the tensor.
        prepare: Py<PyAny>,
    },
    /// All sizes of the tensor, some of them open, as an object of this type: `list`, or a type that is made from a
    /// list.
    Sizes(Py<PyAny>),
    /// Number of elements of a tensor with open sizes, as an object of this type: `int` or a subclass.
    Elements(Py<PyAny>),
    /// State that the framework keeps with a tensor object besides its value, and that C code returns. For a tensor
    /// from outside it is read while tracing and guarded.
    Outside {
        /// The attribute's value for results of the graph, if it is known.
        of_result: Option<Py<PyAny>>,
        /// Text of the graph break if it is not known: results have the attribute when the graph has run.
        why: String,
    },
    /// A method or property of the tensors' type that is written in Python and asks only for known facts, or calls
    /// other methods: it is followed.
    Follow,
    /// Depends on the tensor's open sizes; the text says what is not known.
    OpenSizes(String),
    /// Needs the tensor's value or identity; the text says why and what to do.
    Break(String),
    /// Tensors do not have this attribute.
    Missing,
}

/// Meaning of a write to a tensor's attribute to the backend.
#[derive(Debug)]
pub enum WrittenAttribute {
    /// Sets whether gradients flow through the tensor from then on.
    Gradient {
        /// True if gradients flow.
        flows: bool,
        /// Name of the method that returns a result of the graph without gradients.
        stopped_by: &'static str,
        /// Function of a tensor and a `bool`, which says if gradients flow. It sets the attribute and returns the
        /// tensor.
        switched_by: Py<PyAny>,
    },
    /// For a tensor from outside, written when the graph has run. A result of the graph has no such attribute. The
    /// write raises unless the tensor's attribute `if_true` is true.
    OfOutside {
        /// Name of the attribute.
        if_true: &'static str,
    },
    /// Written when the graph has run, to any tensor that is a single object by then.
    OfOneObject,
    /// A plain attribute, for which the framework has no rule of its own.
    Plain,
}

/// The effect of a method that depends on the memory layout of a tensor from outside, with the test for this effect.
pub struct LayoutPolicy {
    /// The effect of the method.
    pub effect: LayoutEffect,
    /// Test that passes for tensors for which the method does the same.
    pub test: Box<dyn ObjectTest>,
}

/// The effect of a method that depends on a tensor's memory layout.
pub enum LayoutEffect {
    /// Returns this object.
    Known(Py<PyAny>),
    /// Returns the tensor itself.
    Itself,
    /// Changes the memory layout, which no graph can do; the text says why.
    Changes(String),
}

/// Dimensions of a tensor that the user has marked.
#[derive(Clone, Debug, Default)]
pub struct MarkedDimensions {
    /// Dimensions whose sizes are left open.
    pub open: Vec<usize>,
    /// Dimensions whose sizes are assumed, whatever earlier calls have shown.
    pub assumed: Vec<usize>,
}

/// The arguments of a call, for [`call_policy`](super::Backend::call_policy). The translation assumes only what is
/// asked for.
pub trait GivenArguments {
    /// Number of positional arguments.
    fn positional(&self) -> usize;
    /// Names of the keyword arguments.
    fn names(&self) -> Vec<&str>;
    /// True if the argument with this position and name is given and is not `None`.
    fn is_given(&mut self, at: usize, name: &str) -> bool;
    /// The argument's value, if it is known while tracing; the translation then specialises on the value.
    fn known(&mut self, at: usize, name: &str) -> Option<Py<PyAny>>;
}

/// No arguments, for asking what a callable means without a particular call.
pub struct NoArguments;

impl GivenArguments for NoArguments {
    fn positional(&self) -> usize {
        0
    }

    fn names(&self) -> Vec<&str> {
        Vec::new()
    }

    fn is_given(&mut self, _: usize, _: &str) -> bool {
        false
    }

    fn known(&mut self, _: usize, _: &str) -> Option<Py<PyAny>> {
        None
    }
}

/// The result of a method of a graph's value, which is known before the graph runs.
pub enum KnownResult {
    /// This object.
    Object(Py<PyAny>),
    /// What is computed from sizes of the graph's values, some of which are open.
    OfSizes(Arc<SizeExpression>),
}

/// An integer that is computed from sizes of the graph's values, or the truth of a comparison of such integers.
pub enum SizeExpression {
    /// The product of sizes of a value.
    Product {
        /// The value.
        of: Py<PyAny>,
        /// The dimensions.
        axes: Vec<usize>,
    },
    /// A number.
    Number(i64),
    /// The result of an operator.
    Binary(BinaryOp, [Arc<SizeExpression>; 2]),
    /// The truth of a comparison.
    Comparison(CompareOp, [Arc<SizeExpression>; 2]),
}
