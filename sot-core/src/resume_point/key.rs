//! The key of a resume function: the place where it continues, and the values it is given.

use pyo3::prelude::*;

use super::finish::Finish;
use crate::bytecode::{Code, Label};
use crate::emit::raised_width;

/// Distinguishes the resume functions of one code object.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ResumeKey {
    /// The instruction of the original code that the function continues at.
    pub at: Label,
    /// For each local whether it is bound.
    pub bound: Vec<bool>,
    /// Cells whose slots hold a variable of an inlined comprehension, and whether that variable is bound.
    pub hidden: Vec<(usize, bool)>,
    /// The stack from the bottom up, with the blocks and handlers that begin between its items.
    pub stack: Vec<Slot>,
    /// How the original instructions are entered.
    pub entry: Entry,
    /// True if the function resumes a call that was inlined. The prologue of the caller's resume function calls it
    /// like an ordinary function; no outer hand-over drives it, so its own hand-overs drive.
    pub nested: bool,
}

impl ResumeKey {
    /// Number of values that the function is given besides the locals.
    pub fn values(&self) -> usize {
        let raised = raised_width() as usize;
        let taken = |slot: &Slot| match slot {
            Slot::Value => 1,
            Slot::Handling => raised,
            _ => 0,
        };
        let entry = match self.entry {
            Entry::Next | Entry::Finish(_) => 0,
            Entry::Yield => 1,
            Entry::Raise => raised,
            Entry::Return(arguments, _) => 1 + arguments,
        };
        let hidden = self.hidden.iter().filter(|(_, bound)| *bound).count();
        hidden + self.stack.iter().map(taken).sum::<usize>() + entry
    }

    /// True if the frame may begin within a `try` of the code.
    pub fn may_catch(&self, code: &Code) -> bool {
        let is_called = matches!(self.entry, Entry::Return(..));
        let is_block = |slot: &Slot| matches!(slot, Slot::Try(_));
        is_called || self.stack.iter().any(is_block) || code.handler_at(self.at).is_some()
    }

    /// Number of items on the stack, from 3.11 on.
    pub(crate) fn depth(&self) -> u32 {
        let item = |slot: &&Slot| matches!(slot, Slot::Value | Slot::Null | Slot::Handling);
        self.stack.iter().filter(item).count() as u32
    }
}

/// How a resume function enters the original code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Entry {
    /// Continues at the instruction.
    Next,
    /// Raises its last value, an exception of the instruction, into the handlers.
    Raise,
    /// Continues behind the instruction, a call, with the result of calling its last values: a function and this many
    /// arguments.
    Return(usize, Finish),
    /// Continues behind the instruction, whose call has been made: the result is on top of the stack.
    Finish(Finish),
    /// Yields its last value at the instruction: the function creates a generator.
    Yield,
}

/// An item that a resume function lays out on its stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Slot {
    /// A value given to the function.
    Value,
    /// A NULL.
    Null,
    /// The handler of an exception given to the function, with the exception handled before.
    Handling,
    /// A block that sends exceptions to the label (3.8 to 3.10). It is no stack item.
    Try(Label),
    /// Marker that a `finally` body was entered without exception (3.8).
    Fallen,
    /// The address that a `finally` body returns to (3.8).
    ReturnTo(Label),
}

/// The stack items of an exception: traceback, exception and class, or the exception alone.
pub(crate) fn raised<'py>(py: Python<'py>, error: &PyErr) -> Vec<Bound<'py, PyAny>> {
    let value = error.value(py).clone().into_any();
    if raised_width() == 1 {
        return vec![value];
    }
    let traceback = error.traceback(py).map_or_else(|| py.None().into_bound(py), Bound::into_any);
    vec![traceback, value, error.get_type(py).into_any()]
}
