//! The end of new code that breaks: the frame's live values are handed over to a resume function. An exception that
//! comes back has a traceback entry of the new code above the program's entries; this entry is removed.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyType};

use super::CodeGen;
use crate::bytecode::{Instruction, Label, Op};
use crate::cpython;
use crate::error::Flow;
use crate::machine::executor::{BreakPoint, Checkpoint, Claim};
use crate::machine::variable::VarId;
use crate::resume::ResumeSource;
use crate::resume::{self, layout, Entry, Finish, Item, ResumeKey, ResumeTarget, Slot, Value};
use crate::trace::BreakDetails;
use crate::version::PyVersion;

/// A graph break, with the original code of each of its frames.
pub(super) struct Break<'a, 'py> {
    pub(super) at: &'a BreakPoint,
    pub(super) sources: &'a [ResumeSource<'py>],
    pub(super) details: &'a BreakDetails,
}

/// One side of a hand-over: where the innermost frame continues, and with which stack.
pub(super) struct BreakSide<'a> {
    pub(super) place: Label,
    pub(super) entry: Entry,
    pub(super) stack: &'a [Item],
    /// The exception that the side starts by raising.
    pub(super) raised: Option<Value>,
}

/// The resume function of a frame, and the values it is given.
struct Resumed {
    target: Arc<ResumeTarget>,
    locals: Vec<Option<VarId>>,
    hidden: Vec<Option<VarId>>,
    stack: Vec<Item>,
    cells: usize,
    /// Number of its arguments.
    arguments: usize,
}

/// The instruction that a frame is about to run.
pub(super) fn instruction_at(frame: &Checkpoint) -> Instruction {
    frame.unit.code.instructions[frame.at.index()]
}

impl CodeGen<'_, '_> {
    /// The lowest `depth` items of a frame's stack, with the blocks and handlers that begin there.
    pub(super) fn layout(&self, frame: &Checkpoint, depth: usize) -> Vec<Item> {
        layout::of_stack(self.trace, frame, depth)
    }

    /// The item of a value or NULL.
    pub(super) fn item(&self, variable: VarId) -> Item {
        layout::item(self.trace, variable)
    }

    /// Calls the hand-over with cells, locals and stack of each frame, and returns its result.
    pub(super) fn hand_over(&mut self, of: &Break<'_, '_>, side: &BreakSide<'_>) -> Flow<()> {
        let py = self.trace.py;
        let frames = self.resumed_frames(of, side)?;
        let drives_itself = of.sources[0].drives_itself();
        let hand_over = frames[0].target.clone().hand_over(py, drives_itself)?;
        if of.at.handled().is_some() {
            self.emitter.end_handling()?;
        }
        let start = if drives_itself { Some(self.emitter.begin_try()?) } else { None };
        self.begin_call(|cg| cg.load_const(hand_over))?;
        for &cell in &of.at.root().cells {
            self.load_cell(cell)?;
        }
        for (level, frame) in frames.iter().enumerate() {
            if level > 0 {
                let (maker, saved) = (frame.target.clone().maker(py)?, &of.at.frames[level]);
                self.begin_call(|cg| cg.load_const(maker))?;
                self.load_globals(saved.globals)?;
                for &cell in &saved.cells {
                    self.load_cell(cell)?;
                }
                self.end_call(1 + saved.cells.len() as u32)?;
            }
            self.load_locals(&frame.locals)?;
            for hidden in frame.hidden.iter().flatten() {
                self.load(*hidden)?;
            }
            self.load_stack(&frame.stack)?;
        }
        if let Some(exception) = side.raised {
            self.load_raised(exception)?;
        }
        // The values handed over have to die when the program drops them, so this frame gives them up. If an
        // exception is raised, its traceback keeps this frame with the variables it shows.
        if side.raised.is_some() {
            self.keep_shown(of)?;
        } else if drives_itself {
            self.forget_locals()?;
        }
        self.end_call((frames[0].cells + frames[0].arguments) as u32)?;
        if let Some(start) = start {
            let end = self.emitter.end_try()?;
            self.ranges.add_driven(start, end);
        }
        self.op(Op::RETURN_VALUE, 0)
    }

    /// Loads the locals of a resume function; `None` stands for an unbound one.
    pub(super) fn load_locals(&mut self, locals: &[Option<VarId>]) -> Flow<()> {
        for local in locals {
            match local {
                Some(local) => self.load(*local)?,
                None => self.load_const(self.trace.py.None())?,
            }
        }
        Ok(())
    }

    /// Clears the locals of the new code's frame: variables of the function, and values of the new code.
    fn forget_locals(&mut self) -> Flow<()> {
        let code = &self.root.code;
        let is_cell = |slot: &usize| code.cellvars.contains(&code.varnames[*slot]);
        let variables = (0..code.varnames.len()).filter(|slot| !is_cell(slot)).collect();
        self.forget(variables)?;
        self.forget_values()
    }

    /// Clears the locals that hold values of the new code.
    pub(super) fn forget_values(&mut self) -> Flow<()> {
        self.forget(self.value_slots().collect())
    }

    /// Slots of the locals that hold values of the new code.
    pub(super) fn value_slots(&self) -> Range<usize> {
        self.root.code.varnames.len()..self.emitter.locals()
    }

    /// Sets these slots to `None`, so that the frame drops their values.
    pub(super) fn forget(&mut self, slots: Vec<usize>) -> Flow<()> {
        let none = self.emitter.none();
        for slot in slots {
            self.op(Op::LOAD_CONST, none)?;
            self.op(Op::STORE_FAST, slot as u32)?;
        }
        Ok(())
    }

    /// Unbinds these slots, whether they are bound or not.
    pub(super) fn unset(&mut self, slots: Vec<usize>) -> Flow<()> {
        let none = self.emitter.none();
        for slot in slots {
            self.op(Op::LOAD_CONST, none)?;
            self.op(Op::STORE_FAST, slot as u32)?;
            self.op(Op::DELETE_FAST, slot as u32)?;
        }
        Ok(())
    }

    /// Returns the resume function of each frame, the outermost first.
    fn resumed_frames(&mut self, of: &Break<'_, '_>, side: &BreakSide<'_>) -> Flow<Vec<Resumed>> {
        let mut resumed: Vec<Resumed> = Vec::new();
        for (level, frame) in of.at.frames.iter().enumerate().rev() {
            let source = &of.sources[level];
            let (place, entry, stack) = match (resumed.last(), of.at.frames.get(level + 1)) {
                (Some(inner), Some(called)) => {
                    let claim = called.claim.as_ref();
                    let finish = source.finish_at(frame.at).or(claim.map(|claim| claim.finish)).unwrap_or(Finish::Keep);
                    (frame.at, Entry::Return(inner.arguments, finish), self.below_call(frame, source, claim))
                }
                _ => (side.place, side.entry, side.stack.to_vec()),
            };
            let locals = self.resumed_locals(frame, source);
            let (cleared, hidden) = self.hidden(frame);
            let key = ResumeKey {
                at: source.original(place)?,
                bound: locals.iter().map(Option::is_some).collect(),
                hidden: cleared.into_iter().zip(hidden.iter().map(Option::is_some)).collect(),
                stack: stack.iter().map(|item| slot(item, source)).collect::<Flow<_>>()?,
                entry,
                drives_itself: level > 0,
            };
            let code = source.resume_code(self.trace.py, &key, instruction_at(frame).position)?;
            let code = code.bind(self.trace.py).cast::<PyCode>().map_err(PyErr::from)?.clone();
            let cells = source.unit.code.cellvars.len() + source.unit.code.freevars.len();
            let arguments = locals.len() + key.values();
            let address = code.as_ptr() as usize;
            if !self.resumes.contains(&address) {
                self.resumes.push(address);
            }
            resumed.push(Resumed { target: ResumeTarget::new(&code, cells)?, locals, hidden, stack, cells, arguments });
        }
        resumed.reverse();
        Ok(resumed)
    }

    /// The stack of a frame that calls the next one: without the operands of the calling instruction, and with the
    /// items that the instruction keeps below the result.
    fn below_call(&self, frame: &Checkpoint, source: &ResumeSource<'_>, claim: Option<&Claim>) -> Vec<Item> {
        let call = instruction_at(frame);
        let taken = self.consumed(&call, frame);
        let mut frame = Cow::Borrowed(frame);
        if source.finish_at(frame.at) == Some(Finish::Next) {
            // Removes the block that the prologue itself begins around the call.
            frame.to_mut().blocks.pop();
        }
        let below =
            claim.into_iter().flat_map(|claim| &claim.below).map(|below| layout::item_of(self.trace, &frame, *below));
        self.layout(&frame, frame.stack.len() - taken).into_iter().chain(below).collect()
    }

    /// The locals of the original code. The first argument of a method stays in its slot even if a closure captured
    /// it, because `super()` looks for it there.
    pub(super) fn resumed_locals(&self, frame: &Checkpoint, source: &ResumeSource<'_>) -> Vec<Option<VarId>> {
        let mut locals: Vec<Option<VarId>> = frame.locals[..source.unit.code.varnames.len()].to_vec();
        let code = &frame.unit.code;
        for cell in self.hidden(frame).0 {
            // The variable is in the cell's slot, which is another slot in a resume function.
            if let Some(local) = locals.get_mut(code.deref_arg(cell) as usize) {
                *local = None;
            }
        }
        let captured = code.cellvars.iter().position(|cell| code.varnames.first() == Some(cell));
        if let (Some(cell), Some(None)) = (captured, locals.first()) {
            locals[0] = self.trace.vars.get(frame.cells[cell]).children().first().copied();
        }
        locals
    }

    /// Cells that an inlined comprehension has cleared, and the variables it keeps in their slots.
    pub(super) fn hidden(&self, frame: &Checkpoint) -> (Vec<usize>, Vec<Option<VarId>>) {
        let is_cleared = |cell: &usize| frame.cells[*cell] == self.trace.null();
        let cleared: Vec<usize> = (0..frame.cells.len()).filter(is_cleared).collect();
        let value = |cell: &usize| frame.locals.get(frame.unit.code.deref_arg(*cell) as usize).copied().flatten();
        let hidden = cleared.iter().map(value).collect();
        (cleared, hidden)
    }

    /// Loads the cell, or an empty cell where the resume function does not use it.
    pub(super) fn load_cell(&mut self, cell: VarId) -> Flow<()> {
        if cell != self.trace.null() {
            return self.load(cell);
        }
        let make = cpython::import(self.trace.py, "types")?.getattr("CellType")?.unbind();
        self.call_bare(make)
    }

    /// Loads the values of a stack. Before 3.11 there is no `PUSH_NULL`: the resume function pushes a callable with a
    /// NULL as the receiver of its own `__call__`. That fails for a class, whose `__call__` is for its instances, and
    /// for an object without `__call__`; such objects are wrapped.
    pub(super) fn load_stack(&mut self, stack: &[Item]) -> Flow<()> {
        let mut is_called = false;
        for item in stack {
            match item {
                Item::Value(value) if is_called && !self.has_own_call(*value) => {
                    let callable = resume::own_callable(self.trace.py)?;
                    self.begin_call(|cg| cg.load_const(callable))?;
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

    pub(super) fn load_value(&mut self, value: Value) -> Flow<()> {
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
            self.begin_call(|cg| cg.load_const(parts))?;
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

    /// Writes the handler of hand-overs and second runs.
    pub(super) fn handle_driven(&mut self) -> Flow<()> {
        let calls = self.ranges.take_driven();
        if calls.is_empty() {
            return Ok(());
        }
        let handler = self.emitter.here();
        for (start, end) in calls {
            self.emitter.handle_driven(start, end, handler);
        }
        let trim = resume::trim_traceback(self.trace.py, 1)?;
        self.emitter.raise_trimmed(trim)
    }
}

pub(super) fn slot(item: &Item, source: &ResumeSource<'_>) -> Flow<Slot> {
    Ok(match item {
        Item::Value(_) => Slot::Value,
        Item::Null => Slot::Null,
        Item::Handling(_) => Slot::Handling,
        Item::Try(handler) => Slot::Try(source.original(*handler)?),
        Item::NormalEntry => Slot::NormalEntry,
        Item::ReturnTo(label) => Slot::ReturnTo(source.original(*label)?),
    })
}
