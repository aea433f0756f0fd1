//! The state of a frame in new code: its locals, cells and stack, loaded as a resume function takes them.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyType};

use super::CodeGen;
use crate::bytecode::{Instruction, Label, Op};
use crate::cpython;
use crate::error::Flow;
use crate::machine::executor::{Checkpoint, Trace};
use crate::machine::variable::{Rebuild, VarId};
use crate::resume::ResumeSource;
use crate::resume::{self, Entry, Item, ResumeKey, ResumeTarget, Slot, Value};
use crate::version::PyVersion;

/// Where and how the resume function of a frame enters it again: the instruction, the entry, and the stack there.
pub(super) struct Reentry {
    pub(super) place: Label,
    pub(super) entry: Entry,
    pub(super) stack: Vec<Item>,
}

/// The resume function of a frame, and the values it is given.
pub(super) struct ResumedFrame {
    pub(super) target: Arc<ResumeTarget>,
    /// Address of its code.
    pub(super) code: usize,
    /// Number of its cells, which come before the arguments.
    pub(super) cells: usize,
    /// Number of its arguments.
    pub(super) arguments: usize,
    locals: Vec<Option<VarId>>,
    hidden: Vec<Option<VarId>>,
    stack: Vec<Item>,
}

impl ResumedFrame {
    /// Finds or makes the resume function with which the frame continues. `drives_itself`: see [`ResumeKey`].
    pub(super) fn new(
        trace: &Trace<'_>,
        source: &ResumeSource<'_>,
        frame: &Checkpoint,
        reentry: Reentry,
        drives_itself: bool,
    ) -> Flow<Self> {
        let Reentry { place, entry, stack } = reentry;
        let locals = resumed_locals(trace, frame, source);
        let (cleared, hidden) = hidden(trace, frame);
        let key = ResumeKey {
            at: source.original(place)?,
            bound: locals.iter().map(Option::is_some).collect(),
            hidden: cleared.into_iter().zip(hidden.iter().map(Option::is_some)).collect(),
            stack: stack.iter().map(|item| slot(item, source)).collect::<Flow<_>>()?,
            entry,
            drives_itself,
        };
        let code = source.resume_code(trace.py, &key, instruction_at(frame).position)?;
        let code = code.bind(trace.py).cast::<PyCode>().map_err(PyErr::from)?.clone();
        let cells = source.unit.code.cellvars.len() + source.unit.code.freevars.len();
        let arguments = locals.len() + key.values();
        let (target, code) = (ResumeTarget::new(&code, cells)?, code.as_ptr() as usize);
        Ok(ResumedFrame { target, code, cells, arguments, locals, hidden, stack })
    }
}

/// The instruction that a frame is about to run.
pub(super) fn instruction_at(frame: &Checkpoint) -> Instruction {
    frame.unit.code.instructions[frame.at.index()]
}

impl CodeGen<'_, '_> {
    /// Loads the values that the frame's resume function is given: locals, variables hidden by a comprehension, stack.
    pub(super) fn load_frame(&mut self, frame: &ResumedFrame) -> Flow<()> {
        self.load_locals(&frame.locals)?;
        for hidden in frame.hidden.iter().flatten() {
            self.load(*hidden)?;
        }
        self.load_stack(&frame.stack)
    }

    /// Loads the locals of a resume function; `None` stands for an unbound one.
    fn load_locals(&mut self, locals: &[Option<VarId>]) -> Flow<()> {
        for local in locals {
            match local {
                Some(local) => self.load(*local)?,
                None => self.load_const(self.trace.py.None())?,
            }
        }
        Ok(())
    }

    /// Loads the cell, or an empty cell where the resume function does not use it.
    pub(super) fn load_cell(&mut self, cell: VarId) -> Flow<()> {
        if cell != self.trace.null() {
            return self.load(cell);
        }
        let make = cpython::import(self.trace.py, "types")?.getattr("CellType")?.unbind();
        self.call_of(make, [])
    }

    /// Loads the values of a stack. Before 3.11 there is no `PUSH_NULL`: the resume function pushes a callable with a
    /// NULL as the receiver of its own `__call__`. That fails for a class, whose `__call__` is for its instances, and
    /// for an object without `__call__`; such objects are wrapped.
    fn load_stack(&mut self, stack: &[Item]) -> Flow<()> {
        let mut is_called = false;
        for item in stack {
            match item {
                Item::Value(value) if is_called && !self.has_own_call(*value) => {
                    let callable = resume::own_callable(self.trace.py)?;
                    self.begin_call_of(callable)?;
                    self.load_value(*value)?;
                    self.end_call(1)?;
                }
                Item::Value(value) => self.load_value(*value)?,
                Item::Handling(exception) => self.load_raised(*exception)?,
                Item::Null | Item::Try(_) | Item::NormalEntry | Item::ReturnTo(_) => {}
            }
            is_called = PyVersion::BUILT_FOR < PyVersion(11) && matches!(item, Item::Null);
        }
        Ok(())
    }

    /// True if the value is known to be callable by its own `__call__`.
    fn has_own_call(&self, value: Value) -> bool {
        let Value::Known(variable) = value else { return false };
        let ty = self.trace.vars.get(variable).python_type(self.trace);
        ty.cast::<PyType>().is_ok_and(|ty| {
            let is_class = cpython::is_subtype(ty, &self.trace.py.get_type::<PyType>());
            !is_class && cpython::type_lookup(ty, intern!(self.trace.py, "__call__")).is_some()
        })
    }

    fn load_value(&mut self, value: Value) -> Flow<()> {
        match value {
            Value::Known(variable) => self.load(variable),
            Value::Left(local) => self.op(Op::LOAD_FAST, local),
        }
    }

    /// Loads the stack items of an exception that is raised again: the exception, or before 3.11 traceback, exception
    /// and class.
    pub(super) fn load_raised(&mut self, exception: Value) -> Flow<()> {
        let width = self.emitter.raised_width();
        if width > 1 {
            let parts = resume::exception_parts(self.trace.py)?;
            self.begin_call_of(parts)?;
        }
        self.load_value(exception)?;
        if let Value::Left(local) = exception {
            // A frame in the exception's traceback that held the exception would keep it alive.
            self.op(Op::DELETE_FAST, local)?;
        }
        if width > 1 {
            self.end_call(1)?;
            self.op(Op::UNPACK_SEQUENCE, width)?;
        }
        Ok(())
    }
}

fn slot(item: &Item, source: &ResumeSource<'_>) -> Flow<Slot> {
    Ok(match item {
        Item::Value(_) => Slot::Value,
        Item::Null => Slot::Null,
        Item::Handling(_) => Slot::Handling,
        Item::Try(handler) => Slot::Try(source.original(*handler)?),
        Item::NormalEntry => Slot::NormalEntry,
        Item::ReturnTo(label) => Slot::ReturnTo(source.original(*label)?),
    })
}

/// The locals of the original code. The first argument of a method stays in its slot even if a closure captured
/// it, because `super()` looks for it there.
fn resumed_locals(trace: &Trace<'_>, frame: &Checkpoint, source: &ResumeSource<'_>) -> Vec<Option<VarId>> {
    let mut locals: Vec<Option<VarId>> = frame.locals[..source.unit.code.varnames.len()].to_vec();
    let code = &frame.unit.code;
    for cell in hidden(trace, frame).0 {
        // The variable is in the cell's slot, which is another slot in a resume function.
        if let Some(local) = locals.get_mut(code.deref_arg(cell) as usize) {
            *local = None;
        }
    }
    let captured = code.cellvars.iter().position(|cell| code.varnames.first() == Some(cell));
    if let (Some(cell), Some(None)) = (captured, locals.first()) {
        locals[0] = trace.vars.get(frame.cells[cell]).children().first().copied();
    }
    locals
}

/// Cells that an inlined comprehension has cleared, and the variables it keeps in their slots.
fn hidden(trace: &Trace<'_>, frame: &Checkpoint) -> (Vec<usize>, Vec<Option<VarId>>) {
    let is_cleared = |cell: &usize| frame.cells[*cell] == trace.null();
    let cleared: Vec<usize> = (0..frame.cells.len()).filter(is_cleared).collect();
    let value = |cell: &usize| frame.locals.get(frame.unit.code.deref_arg(*cell) as usize).copied().flatten();
    let hidden = cleared.iter().map(value).collect();
    (cleared, hidden)
}
