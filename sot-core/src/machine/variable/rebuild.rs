//! How a value says in what way new code makes it anew: the narrow interface to the code generator that variable kinds
//! see.

use pyo3::prelude::*;

use super::VarId;
use crate::bytecode::Op;
use crate::error::Flow;
use crate::machine::executor::{BinaryOp, CallArgs, Frame, OpcodeExecutor};
use crate::tracker::TrackerId;

/// Writes the instructions that make a value anew. What is loaded lies on top of the stack.
pub trait Rebuild<'py> {
    /// The interpreter.
    fn py(&self) -> Python<'py>;
    /// The trace.
    fn cx(&self) -> &OpcodeExecutor<'py>;
    /// The trace, to add values that the instructions need.
    fn cx_mut(&mut self) -> &mut OpcodeExecutor<'py>;

    /// Loads a variable's value. A value made in the trace is made once; later loads give the same object.
    fn load(&mut self, variable: VarId) -> Flow<()>;
    /// Loads a constant.
    fn load_const(&mut self, value: Py<PyAny>) -> Flow<()>;
    /// `<top of stack>.name`
    fn load_attr(&mut self, name: &str) -> Flow<()>;
    /// `object.name = value`, or its deletion.
    fn store_attr(&mut self, object: VarId, name: &str, value: Option<VarId>) -> Flow<()>;
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
    fn call_with(&mut self, callable: VarId, args: &CallArgs) -> Flow<()>;

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
    pub fn call(&mut self, callable: impl FnOnce(&mut Self) -> Flow<()>, args: &[VarId]) -> Flow<()> {
        self.begin_call(callable)?;
        for &arg in args {
            self.load(arg)?;
        }
        self.end_call(args.len() as u32)
    }

    /// Makes a class: functions in it may have it in their closures, whose cells are filled once it is there.
    pub fn making_class(&mut self, make: impl FnOnce(&mut Self) -> Flow<()>) -> Flow<()> {
        self.begin_class();
        make(self)?;
        self.end_class()
    }
}
