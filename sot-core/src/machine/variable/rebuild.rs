//! How a value is made anew by new code: the narrow interface to the code generator that variable kinds see.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString};
use pyo3::BoundObject;

use super::VarId;
use crate::bytecode::Op;
use crate::entity::Name;
use crate::error::{Flow, Unwind};
use crate::machine::executor::{BinaryOp, CallArgs, Frame, Trace};
use crate::tracker::TrackerId;

/// An argument of a call, or a value that new code writes: a value of the trace, a constant, or a new container of
/// such values.
pub enum Argument {
    /// A value of the trace.
    Variable(VarId),
    /// An object among the constants of the new code.
    Constant(Py<PyAny>),
    /// A new tuple.
    Tuple(Vec<Argument>),
    /// A new list.
    List(Vec<Argument>),
    /// A new dict.
    Dict(Vec<(Argument, Argument)>),
    /// A globals dict.
    Globals(TrackerId),
}

impl From<VarId> for Argument {
    fn from(variable: VarId) -> Self {
        Argument::Variable(variable)
    }
}

impl From<&VarId> for Argument {
    fn from(variable: &VarId) -> Self {
        Argument::Variable(*variable)
    }
}

impl Argument {
    /// `None`
    pub fn none(py: Python<'_>) -> Self {
        Argument::Constant(py.None())
    }

    /// An `int`.
    pub fn int<'py, T: IntoPyObject<'py, Target = PyInt>>(py: Python<'py>, value: T) -> PyResult<Self> {
        let value = value.into_pyobject(py).map_err(Into::into)?;
        Ok(Argument::Constant(value.into_bound().into_any().unbind()))
    }

    /// `True` or `False`.
    pub fn boolean(py: Python<'_>, value: bool) -> Self {
        Argument::Constant(PyBool::new(py, value).to_owned().into_any().unbind())
    }

    /// A `str`.
    pub fn string(py: Python<'_>, value: &str) -> Self {
        Argument::Constant(PyString::new(py, value).into_any().unbind())
    }

    /// A new tuple of these values.
    pub fn tuple<A: Into<Argument>>(items: impl IntoIterator<Item = A>) -> Self {
        Argument::Tuple(items.into_iter().map(Into::into).collect())
    }

    /// A new list of these values.
    pub fn list<A: Into<Argument>>(items: impl IntoIterator<Item = A>) -> Self {
        Argument::List(items.into_iter().map(Into::into).collect())
    }

    /// A new dict of keywords.
    pub fn keywords(py: Python<'_>, keywords: &[(Name, VarId)]) -> Self {
        let entries = keywords.iter().map(|(name, value)| (Argument::string(py, name), value.into()));
        Argument::Dict(entries.collect())
    }
}

/// Writes the instructions that make a value anew. Loads push onto the value stack.
pub trait Rebuild<'py> {
    /// The interpreter.
    fn py(&self) -> Python<'py>;
    /// The trace, which has ended, so nothing is added to it.
    fn trace(&self) -> &Trace<'py>;

    /// Plans to run natively, in the next attempt, the instruction that made a value which new code cannot make; `why`
    /// is the reason.
    fn plan_to_make(&self, variable: VarId, why: &str) -> Unwind;
    /// The same for the instruction that raised an exception.
    fn plan_to_raise(&self, exception: VarId) -> Unwind;

    /// Loads a variable's value. A value made in the trace is made once; later loads give the same object.
    fn load(&mut self, variable: VarId) -> Flow<()>;
    /// Loads an argument of a call. Containers are new ones.
    fn load_argument(&mut self, argument: Argument) -> Flow<()>;
    /// Loads a constant.
    fn load_const(&mut self, value: Py<PyAny>) -> Flow<()>;
    /// `<top of stack>.name`
    fn load_attr(&mut self, name: &str) -> Flow<()>;
    /// `object.name = value`, or its deletion if `value` is `None`.
    fn store_attr(&mut self, object: VarId, name: &str, value: Option<Argument>) -> Flow<()>;
    /// Loads an object's `__dict__` without calling a `__getattribute__` of the program.
    fn load_instance_dict(&mut self, object: VarId) -> Flow<()>;
    /// Loads a globals dict.
    fn load_globals(&mut self, tracker: TrackerId) -> Flow<()>;
    /// Loads a generator that is suspended where `frame` is.
    fn load_suspended(&mut self, frame: &Frame) -> Flow<()>;
    /// Writes one instruction with its plain argument.
    fn op(&mut self, op: Op, arg: u32) -> Flow<()>;
    /// Applies an operator to the two items on top of the stack.
    fn binary(&mut self, op: BinaryOp) -> Flow<()>;

    /// Begins a call, before its callable is loaded.
    fn before_callable(&mut self) -> Flow<()>;
    /// Continues a call behind its callable, before its arguments are loaded.
    fn after_callable(&mut self) -> Flow<()>;
    /// Ends a call with this number of arguments.
    fn end_call(&mut self, argc: u32) -> Flow<()>;
    /// `callable(*args, **keywords)`
    fn call_with(&mut self, callable: Argument, args: &CallArgs) -> Flow<()>;

    /// Makes the top of the stack the variable's object. A payload that makes an object in several steps calls this
    /// after the first step, so that later steps may refer to the object.
    fn define(&mut self, variable: VarId) -> Flow<()>;
    /// True if the variable's object has been made.
    fn is_defined(&self, variable: VarId) -> bool;
    /// True if a container leads back to a value that is being made. It must then be made empty, and is filled once
    /// that value exists.
    fn leaves_empty(&mut self, container: VarId) -> bool;
    /// Makes [`Rebuild::leaves_empty`] false for a container, although it leads back to a value that is being made.
    fn makes_whole(&mut self, container: VarId);
    /// True if a new cell must be left empty because a class is being made. The cell is filled at the end of the
    /// class.
    fn leaves_open(&mut self, cell: VarId) -> bool;
    /// Begins a class. Cells of functions in it stay empty until the class exists.
    fn begin_class(&mut self);
    /// Ends a class: the class exists, and the cells are filled.
    fn end_class(&mut self) -> Flow<()>;
}

impl dyn Rebuild<'_> + '_ {
    /// Begins a call whose arguments are loaded one by one.
    pub fn begin_call(&mut self, callable: impl FnOnce(&mut Self) -> Flow<()>) -> Flow<()> {
        self.before_callable()?;
        callable(self)?;
        self.after_callable()
    }

    /// `callable(*args)`
    pub fn call<A: Into<Argument>>(
        &mut self,
        callable: impl FnOnce(&mut Self) -> Flow<()>,
        args: impl IntoIterator<Item = A>,
    ) -> Flow<()> {
        self.begin_call(callable)?;
        let mut given = 0;
        for arg in args {
            self.load_argument(arg.into())?;
            given += 1;
        }
        self.end_call(given)
    }

    /// Makes a class. Functions in it may have it in their closures, whose cells are filled once the class exists.
    pub fn making_class(&mut self, make: impl FnOnce(&mut Self) -> Flow<()>) -> Flow<()> {
        self.begin_class();
        make(self)?;
        self.end_class()
    }
}
