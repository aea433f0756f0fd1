//! What a backend answers: what callables mean, attributes of tensors, and what methods say of memory.

use pyo3::prelude::*;

use crate::guard::ObjectTest;

/// What a callable means to the backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallPolicy {
    /// Not the framework's business: follow it as any Python callable.
    Follow,
    /// Reads what entering a [`CallPolicy::Manager`] changes besides that state: followed in traces that have not
    /// entered one, and run for real in others. The text says why.
    FollowOutside(String),
    /// A graph-building function: one `call_api` statement.
    Api,
    /// A graph-building function that changes its first argument in place: one `call_inplace` statement.
    InPlace,
    /// The same where this argument is true, and [`CallPolicy::Api`] where it is not.
    InPlaceIf {
        /// Its name.
        argument: &'static str,
        /// Its position.
        at: usize,
    },
    /// A function that is followed, and is one statement where a tensor's value decides in it
    /// ([`statement_of`](super::OwnCode::statement_of)).
    FollowOrCall,
    /// A method of tensors by this name, not bound to one: called on its first argument.
    Method(String),
    /// A pure function of things known while tracing (say `is_grad_enabled`): call it; the global guard covers it.
    Constant,
    /// Makes an object without any effect elsewhere: called with known arguments, it is made while tracing. Nothing but
    /// the trace has that object; should the program need one outside, its variable makes another.
    Make,
    /// Changes, as its known arguments say, the global state that [`state_test`](super::Backend::state_test) covers.
    /// The trace changes it for real, so that statements are built and questions answered under it; new code does so
    /// again.
    Switch,
    /// Makes a context manager that changes that state from where it is entered to where it is left.
    Manager,
    /// Must run for real; the text says why and what to do.
    Break(String),
    /// The same, as it reads a value out of a tensor.
    ReadsValue(String),
    /// Is on a list of the framework's of what must run for real, its own frame included; the text says which.
    Listed(String),
}

/// What a method that changes a tensor in place returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returns {
    /// The tensor.
    It,
    /// `None`.
    Nothing,
    /// Another object for the same tensor, which no graph gives: in the graph where the program drops it.
    AnotherObject,
}

/// What an attribute of a tensor means to the backend.
#[derive(Debug)]
pub enum TensorAttribute {
    /// Known while tracing; the value is a plain Python object (`shape` is given as a list of ints).
    Known(Py<PyAny>),
    /// A method that builds graph: calling it is one `call_method` statement.
    Method,
    /// A method that builds graph, and gives the tensor itself, which its result is from then on.
    Becoming,
    /// A method that copies the tensor and notes the copy in its only argument, a dict, under the tensor's `id()`:
    /// where the attribute
    /// `unless` of a tensor from outside is false, the copy is what the method `by` gives.
    Copy {
        /// Called without arguments.
        by: &'static str,
        /// What a copy would have from the tensor, and no result of a graph has.
        unless: &'static str,
    },
    /// A method that changes the tensor in place: calling it is one `call_inplace` statement.
    InPlace(Returns),
    /// An attribute that is itself a tensor operation (say `T`): reading it is one statement `getattr(tensor, name)`.
    Operation,
    /// A text that is known at run time only, but never empty.
    Text {
        /// What is said where it is needed.
        why: String,
        /// Called with the tensor, which it gives back, before the text may be read.
        prepare: Py<PyAny>,
    },
    /// All sizes of the tensor, of which some are open, as an object of this type: `list`, or one made from a list.
    Sizes(Py<PyAny>),
    /// How many elements the tensor has, of which some sizes are open, as an object of this type: `int` or a subclass.
    Elements(Py<PyAny>),
    /// What the framework keeps with a tensor object beside its value, and C code gives: of a tensor from outside it is
    /// read, and looked at again at each call.
    Outside {
        /// What results of the graph have, where that is known.
        of_result: Option<Py<PyAny>>,
        /// What is said where it is not: they have it when the graph has run.
        why: String,
    },
    /// A method or property in Python of the tensors' type that asks for what is known, or calls other methods: it is
    /// followed.
    Follow,
    /// Follows from the sizes of the tensor, of which some are open; the text says what is not known.
    OpenSizes(String),
    /// Needs the tensor's value or identity; the text says why and what to do.
    Break(String),
    /// Tensors have no such attribute.
    Missing,
}

/// What writing to an attribute of a tensor means to the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenAttribute {
    /// It says whether gradients flow through the tensor from then on.
    Gradient {
        /// Whether they do.
        flows: bool,
        /// The method that gives a result of the graph without gradients.
        stopped_by: &'static str,
    },
    /// It is written to a tensor from outside when the graph has run; a result of the graph has no such attribute.
    OfOutside,
    /// It is written when the graph has run to any tensor that is one object then.
    OfOneObject,
    /// The framework has no rule of its own.
    Plain,
}

/// What a method says of how a tensor from outside lies in memory, or does because of it.
pub struct OfLayout {
    /// What it does.
    pub does: LayoutAnswer,
    /// Passes for tensors of which it is the same.
    pub test: Box<dyn ObjectTest>,
}

/// What a method that looks at how a tensor lies in memory does.
pub enum LayoutAnswer {
    /// It gives this.
    Known(Py<PyAny>),
    /// It gives the tensor itself.
    Itself,
    /// It lays the tensor out anew, which no graph can.
    Changes(String),
}

/// The dimensions of a tensor that its owner has marked.
#[derive(Clone, Debug, Default)]
pub struct MarkedDimensions {
    /// Their sizes are left open.
    pub open: Vec<usize>,
    /// Their sizes are assumed, whatever earlier calls have shown.
    pub assumed: Vec<usize>,
}

/// The arguments of a call, for [`call_policy`](super::Backend::call_policy). Nothing is assumed of what is not asked
/// for.
pub trait GivenArguments {
    /// How many are given by position.
    fn positional(&self) -> usize;
    /// The names of those that are given by name.
    fn names(&self) -> Vec<&str>;
    /// Whether an argument with this position and name is given, and is not `None`.
    fn is_given(&mut self, at: usize, name: &str) -> bool;
    /// Its value, if that is known while tracing: the translation is one for this value then.
    fn known(&mut self, at: usize, name: &str) -> Option<Py<PyAny>>;
}

/// No arguments, for asking what a callable means in general.
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
