//! What a backend tells the tracer and how a graph reaches it. A backend takes statements one at a time: appending one
//! yields the values of its results, finishing yields the callable, so each operation is built once.

mod python;

use std::path::Path;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

use crate::error::{Forbidden, ReasonId};
use crate::ir::Exported;

pub use self::python::{MetaOf, MetaTest, PythonGraph};
pub use crate::guard::{ObjectTest, ObjectsTest, StateTest};
pub use crate::ir::{CallKind, GradientFlow, TensorMeta};

pyo3::create_exception!(
    sot,
    SizesMatter,
    pyo3::exceptions::PyException,
    "A graph cannot be built for all sizes that are left open, but may be for those of this call."
);

/// The arguments of a call, for [`Backend::call_policy`]. Nothing is assumed of what is not asked for.
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
    /// A function that is followed, and is one statement ([`Backend::statement_of`]) where a tensor's value decides in
    /// it.
    FollowOrCall,
    /// A method of tensors by this name, not bound to one: called on its first argument.
    Method(String),
    /// A pure function of things known while tracing (say `is_grad_enabled`): call it; the global guard covers it.
    Constant,
    /// Makes an object without any effect elsewhere: called with known arguments, it is made while tracing. Nothing but
    /// the trace has that object; should the program need one outside, its variable makes another.
    Make,
    /// Changes, as its known arguments say, the global state that [`Backend::state_test`] covers. The trace changes it
    /// for real, so that statements are built and questions answered under it; new code does so again.
    Switch,
    /// Makes a context manager that changes that state from where it is entered to where it is left.
    Manager,
    /// Must run for real; the text says why and what to do.
    Break(String),
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

/// A framework that can run graphs.
pub trait Backend: Send + Sync {
    /// Short name, unique among backends.
    fn name(&self) -> &'static str;
    /// Whether `object` is an eager tensor of this framework (parameters and buffers included).
    fn is_tensor(&self, object: &Bound<'_, PyAny>) -> bool;
    /// Whether `object` may lead to tensors: a tensor, or an object in which the framework keeps them (a model).
    fn may_hold_tensors(&self, object: &Bound<'_, PyAny>) -> bool {
        self.is_tensor(object)
    }
    /// Whether the tensor belongs to a model (a parameter): identity, not only its meta, is assumed.
    fn is_parameter(&self, object: &Bound<'_, PyAny>) -> bool {
        let _ = object;
        false
    }
    /// The Python number that an operator of a tensor's takes a number of another library's for, such as numpy's
    /// `float64`. `None` where it does something else with it, or that is not known.
    fn number_for(&self, tensor: &TensorMeta, operator: &str, number: &Bound<'_, PyAny>) -> Option<Py<PyAny>> {
        let _ = (tensor, operator, number);
        None
    }
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
    /// The meta of an eager tensor.
    fn meta(&self, tensor: &Bound<'_, PyAny>) -> PyResult<TensorMeta>;
    /// The dimensions of a tensor that its owner has marked.
    fn marked_dimensions(&self, tensor: &Bound<'_, PyAny>) -> MarkedDimensions {
        let _ = tensor;
        MarkedDimensions::default()
    }
    /// A test that passes for tensors with the same meta (and place) as `tensor`. `meta` is its meta, in which sizes
    /// may be left open: of those the tensor may have any from `least` on.
    fn tensor_test(&self, tensor: &Bound<'_, PyAny>, meta: &TensorMeta, least: i64) -> PyResult<Box<dyn ObjectTest>>;
    /// What the method called without arguments does to a tensor from outside, if that depends on how the tensor lies
    /// in memory.
    fn of_layout(&self, tensor: &Bound<'_, PyAny>, method: &str) -> PyResult<Option<OfLayout>> {
        let _ = (tensor, method);
        Ok(None)
    }
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
    /// Whether a statement takes an array of another library's as a value of the graph, which is given anew at each
    /// call.
    fn takes_arrays(&self, kind: CallKind, callee: &Bound<'_, PyAny>) -> bool {
        let _ = (kind, callee);
        false
    }
    /// Whether a statement that takes a `float` may refuse one that is not finite, or too large, where a graph does
    /// not.
    fn checks_floats(&self, kind: CallKind, callee: &Bound<'_, PyAny>) -> bool {
        let _ = (kind, callee);
        false
    }
    /// A test of the global state as it is now; by default there is none that says what operations do.
    fn state_test(&self, py: Python<'_>) -> PyResult<Box<dyn StateTest>> {
        let _ = py;
        Ok(Box::new(python::NoState))
    }
    /// The Python type that eager tensors have, for `type(x)` and `isinstance`.
    fn tensor_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>>;
    /// What calling `callable` with these arguments means: a function, a class, or any object that is called and is no
    /// tensor. Asking it must not run code of the program's.
    fn call_policy(&self, callable: &Bound<'_, PyAny>, given: &mut dyn GivenArguments) -> CallPolicy;
    /// What attribute `name` of a tensor in the graph means. `value` is the builder's value of the tensor.
    fn tensor_attribute(
        &self,
        py: Python<'_>,
        name: &str,
        meta: &TensorMeta,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<TensorAttribute>;
    /// What writing `value` to the attribute `name` of a tensor means; `None` is a value that is not known while
    /// tracing, or a deletion.
    fn written_attribute(&self, name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<WrittenAttribute> {
        let _ = (name, value);
        Ok(WrittenAttribute::Plain)
    }
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
    /// What a user of the framework can do about a break, where it can be said better than in general terms.
    fn hint(&self, reason: ReasonId) -> Option<&'static str> {
        let _ = reason;
        None
    }
    /// What to call as one statement in the place of a [`CallPolicy::FollowOrCall`], and the names of the globals that
    /// it reads.
    fn statement_of<'py>(&self, function: &Bound<'py, PyAny>) -> PyResult<Option<(Bound<'py, PyAny>, Vec<String>)>> {
        let _ = function;
        Ok(None)
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
    /// Whether a file belongs to a library that the framework is written with: in a program that asks for no
    /// translation, none begins there.
    fn is_written_with(&self, file: &str) -> bool {
        let _ = file;
        false
    }
    /// Path prefixes of the framework's own files, whose frames are left alone unless the user asks for them.
    fn skipped_paths(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let _ = py;
        Ok(Vec::new())
    }
    /// The function that a call of an object of this class comes to, where it is not the one that CPython calls.
    fn entry_of<'py>(&self, class: &Bound<'py, PyType>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let _ = class;
        Ok(None)
    }
    /// A function that gives the truth of an object in no time, or the object itself, for branches on tensors to ask
    /// first.
    fn truth(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let _ = py;
        Ok(None)
    }
    /// Writes a finished graph into a folder, as a file that can be read and run on its own.
    fn export(&self, py: Python<'_>, folder: &Path, graph: &Exported<'_>) -> PyResult<()> {
        let _ = (py, folder, graph);
        Ok(())
    }
    /// Whether values of a graph have memory, as tensors have. Then an operation in place changes its value, and with it
    /// all that share the value's memory, inputs of the graph among them; the graph runs every statement in its order,
    /// whether or not anything comes of it. Otherwise an operation in place gives a new value, and statements that
    /// reach no output are dropped. What a backend owes that says so: [`GraphBuilder::roll_back`],
    /// [`GraphBuilder::has_effects`], [`Backend::sharing_test`], and graphs that undo what they did before they raise.
    fn has_memory(&self) -> bool {
        false
    }
    /// A test that passes for as many tensors where the same ones share the same memory. It is asked for if a graph
    /// whose values have memory changes some, of all tensors that enter the graph.
    fn sharing_test(&self, tensors: &[Bound<'_, PyAny>]) -> PyResult<Option<Box<dyn ObjectsTest>>> {
        let _ = tensors;
        Ok(None)
    }
    /// Starts a graph.
    fn begin(&self, py: Python<'_>) -> PyResult<Box<dyn GraphBuilder>>;
}

/// A graph being built. Values are the backend's own Python objects; they may be put into argument structures freely.
pub trait GraphBuilder {
    /// A graph input like `tensor`, given anew at each call. `meta` is its meta, in which sizes may be left open. Where
    /// one is, what would not do the same for each size is a [`SizesMatter`].
    fn input(&mut self, name: &str, tensor: &Bound<'_, PyAny>, meta: &TensorMeta) -> PyResult<Py<PyAny>>;
    /// A graph input that is an `int` or `float` of Python's, given anew at each call; as a value it is a tensor
    /// without dimensions.
    fn number(&mut self, name: &str, number: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let _ = (name, number);
        Err(SizesMatter::new_err("numbers are no inputs of a graph"))
    }
    /// A graph input that is an array of another library's, given anew at each call; as a value it is the tensor that
    /// the framework makes of it, of this element type and these sizes. `None`: the framework makes none.
    fn array(&mut self, name: &str, array: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let _ = (name, array);
        Ok(None)
    }
    /// A parameter or buffer: bound now, held weakly by the finished graph.
    fn parameter(&mut self, tensor: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>>;
    /// Appends one statement. `args` and `kwargs` hold values and plain Python objects in any nesting; so may the
    /// result.
    fn call<'py>(
        &mut self,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>>;
    /// How many operations the program has so far: a refused statement may leave some.
    fn operations(&self) -> PyResult<usize> {
        Ok(0)
    }
    /// Takes back all operations but the first so many, with what they did to values that stay. Asked where values
    /// [have memory](Backend::has_memory).
    fn roll_back(&mut self, operations: usize) -> PyResult<()> {
        let _ = operations;
        Ok(())
    }
    /// Whether running the graph can be seen though no result is used: it changes inputs or parameters, or draws random
    /// numbers. Asked where values [have memory](Backend::has_memory).
    fn has_effects(&self) -> bool {
        false
    }
    /// The meta if `object` is a value of a graph, else `None`.
    fn value_meta(&self, object: &Bound<'_, PyAny>) -> PyResult<Option<TensorMeta>>;
    /// What a method of a value (`item`, `__bool__`) gives without arguments, where that does not depend on what the
    /// inputs hold.
    fn answer(&self, value: &Bound<'_, PyAny>, method: &str) -> PyResult<Option<Py<PyAny>>> {
        let _ = (value, method);
        Ok(None)
    }
    /// Which memory a value has in eager mode: values that may share some have the same, such as a tensor and its
    /// views.
    fn memory(&self, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        Ok(value.as_ptr() as u64)
    }
    /// The global state under which the last statement was built, if that matters to calling it on eager tensors.
    /// Statements of one state have the same.
    fn state(&self) -> Option<Arc<dyn StateTest>> {
        None
    }
    /// Whether a graph may write what it computes back into this tensor, one of its inputs (see
    /// [`GraphBuilder::write_back`]).
    fn may_write_to(&self, tensor: &Bound<'_, PyAny>) -> bool {
        let _ = tensor;
        false
    }
    /// Whether this is the value of a tensor that has a gradient of its own and was changed where none is recorded:
    /// outside of the graph it has that gradient still. Where one would begin at the tensor, the value is refused.
    fn keeps_gradient(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let _ = value;
        Ok(false)
    }
    /// Says that when the graph has run, an input is to have these numbers, which operations have given it. The value
    /// leaves the graph as that very input. Only for what is finished with [`GraphBuilder::finish_with_calls`]: where
    /// inputs share memory, the statements are called one by one.
    fn write_back(&mut self, input: &Py<PyAny>, value: &Py<PyAny>) {
        let _ = (input, value);
    }
    /// What calling a statement on eager tensors costs, in calls of a function in C.
    fn weight(&self, kind: CallKind, callee: &Bound<'_, PyAny>) -> PyResult<usize> {
        let _ = (kind, callee);
        Ok(1)
    }
    /// The method that calling an object as a whole ([`CallKind::Object`]) comes to.
    fn object_method(&self, object: &Bound<'_, PyAny>) -> PyResult<&'static str> {
        let _ = object;
        Ok("__call__")
    }
    /// The framework's program with the statements so far, where there is one: for people, and for compilers of theirs.
    fn program(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let _ = py;
        None
    }
    /// Ends the graph. The callable takes the inputs positionally, in the order of `inputs` and returns a tuple or list
    /// of tensors in the order of `outputs`. It must be safe to call from several threads. Where it raises, the frame
    /// runs again in CPython: whatever it has changed by then (inputs, random state) it must change back first.
    fn finish(
        self: Box<Self>,
        py: Python<'_>,
        name: &str,
        inputs: &[Py<PyAny>],
        outputs: &[Py<PyAny>],
    ) -> PyResult<Py<PyAny>>;
    /// As `finish`, of a graph whose statements may be called one by one, which `calls` does: a callable like the one
    /// asked for, which may be used in its place for some runs or for all.
    fn finish_with_calls(
        self: Box<Self>,
        py: Python<'_>,
        name: &str,
        inputs: &[Py<PyAny>],
        outputs: &[Py<PyAny>],
        calls: Py<PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let _ = calls;
        self.finish(py, name, inputs, outputs)
    }
}
