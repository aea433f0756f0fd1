//! How a value says in what way new code makes it anew: the narrow interface to the code generator that variable kinds
//! see.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyString};
use pyo3::BoundObject;

use super::VarId;
use crate::bytecode::Op;
use crate::entity::Name;
use crate::error::Flow;
use crate::machine::executor::{BinaryOp, CallArgs, Frame, OpcodeExecutor};
use crate::tracker::TrackerId;

/// What new code gives to a call, or writes somewhere: a value of the trace, a constant, or a container of such that
/// the trace does not have.
pub enum Argument {
    /// A value of the trace.
    Variable(VarId),
    /// An object that the code holds.
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

/// Writes the instructions that make a value anew. What is loaded lies on top of the stack.
pub trait Rebuild<'py> {
    /// The interpreter.
    fn py(&self) -> Python<'py>;
    /// The trace, which has ended: nothing is added to it.
    fn cx(&self) -> &OpcodeExecutor<'py>;

    /// Loads a variable's value. A value made in the trace is made once; later loads give the same object.
    fn load(&mut self, variable: VarId) -> Flow<()>;
    /// Loads what the code is to give to a call. Containers are new ones.
    fn load_argument(&mut self, argument: Argument) -> Flow<()>;
    /// Loads a constant.
    fn load_const(&mut self, value: Py<PyAny>) -> Flow<()>;
    /// `<top of stack>.name`
    fn load_attr(&mut self, name: &str) -> Flow<()>;
    /// `object.name = value`, or its deletion.
    fn store_attr(&mut self, object: VarId, name: &str, value: Option<Argument>) -> Flow<()>;
    /// Loads an object's `__dict__`. A `__getattribute__` of the program's is not asked.
    fn load_instance_dict(&mut self, object: VarId) -> Flow<()>;
    /// Loads a globals dict.
    fn load_globals(&mut self, tracker: TrackerId) -> Flow<()>;
    /// Loads a generator that is suspended where the frame is.
    fn load_suspended(&mut self, frame: &Frame) -> Flow<()>;
    /// One instruction with its plain argument.
    fn op(&mut self, op: Op, arg: u32) -> Flow<()>;
    /// The operator on the two items on top of the stack.
    fn binary(&mut self, op: BinaryOp) -> Flow<()>;

    /// Before the callable of a call is loaded.
    fn before_callable(&mut self) -> Flow<()>;
    /// Behind the callable of a call, before its arguments.
    fn after_callable(&mut self) -> Flow<()>;
    /// Ends a call with so many arguments.
    fn end_call(&mut self, argc: u32) -> Flow<()>;
    /// `callable(*args, **keywords)`
    fn call_with(&mut self, callable: Argument, args: &CallArgs) -> Flow<()>;

    /// Takes the top of the stack as the variable's object. A payload that makes an object in steps calls it after the
    /// first, so that the later ones may refer to the object.
    fn define(&mut self, variable: VarId) -> Flow<()>;
    /// Whether the variable's object has been made.
    fn is_defined(&self, variable: VarId) -> bool;
    /// Whether a container is to be made empty, and filled when what leads back to it has been made.
    fn leaves_empty(&mut self, container: VarId) -> bool;
    /// The container is made with all that is in it, though that leads back to it.
    fn makes_whole(&mut self, container: VarId);
    /// Whether a new cell is to be left empty, to be filled later.
    fn leaves_open(&mut self, cell: VarId) -> bool;
    /// A class begins to be made: cells of functions in it stay empty until it is there.
    fn begin_class(&mut self);
    /// The class is made, and the cells are filled.
    fn end_class(&mut self) -> Flow<()>;
}

impl dyn Rebuild<'_> + '_ {
    /// Starts a call whose arguments are loaded one by one.
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

    /// Makes a class: functions in it may have it in their closures, whose cells are filled once it is there.
    pub fn making_class(&mut self, make: impl FnOnce(&mut Self) -> Flow<()>) -> Flow<()> {
        self.begin_class();
        make(self)?;
        self.end_class()
    }
}
