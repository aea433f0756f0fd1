//! The key of a resume function: where it goes on, and which values it is given.

use pyo3::prelude::*;

use super::finish::Finish;
use crate::bytecode::{Code, Label};
use crate::emit::raised_width;

/// What distinguishes the resume functions of one code object.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ResumeKey {
    /// The instruction of the original code to go on with.
    pub at: Label,
    /// Which locals are bound.
    pub bound: Vec<bool>,
    /// The cells in whose slots an inlined comprehension keeps a variable of its own, and whether that is bound.
    pub hidden: Vec<(usize, bool)>,
    /// The stack from the bottom up, with what begins between its items.
    pub stack: Vec<Slot>,
    /// What comes before the original instructions.
    pub entry: Entry,
    /// Whether the frame's caller calls the function as it called the frame: a nested one is driven by nobody else.
    pub nested: bool,
}

impl ResumeKey {
    /// How many values the function is given besides the locals.
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

    /// Whether the frame may begin in a `try` of the code.
    pub fn may_catch(&self, code: &Code) -> bool {
        let is_called = matches!(self.entry, Entry::Return(..));
        let is_block = |slot: &Slot| matches!(slot, Slot::Try(_));
        is_called || self.stack.iter().any(is_block) || code.handler_at(self.at).is_some()
    }

    /// How many items its stack has since 3.11.
    pub(crate) fn depth(&self) -> u32 {
        let item = |slot: &&Slot| matches!(slot, Slot::Value | Slot::Null | Slot::Handling);
        self.stack.iter().filter(item).count() as u32
    }
}

/// How a resume function enters the original code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Entry {
    /// By going on at the instruction.
    Next,
    /// By raising its last value, an exception of the instruction, into the handlers.
    Raise,
    /// By going on behind the instruction, which calls, with what its last values give: a function, and so many
    /// arguments.
    Return(usize, Finish),
    /// By going on behind the instruction, which has called: the result is on top of the stack.
    Finish(Finish),
    /// By yielding its last value at the instruction: the function gives a generator.
    Yield,
}

/// What a resume function lays out on its stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Slot {
    /// A value that it is given.
    Value,
    /// A NULL.
    Null,
    /// The handler of an exception that it is given: what was handled before.
    Handling,
    /// A block that sends exceptions to the label (3.8 to 3.10); no item.
    Try(Label),
    /// That a `finally` body was entered from above (3.8).
    Fallen,
    /// Where a `finally` body returns to (3.8).
    ReturnTo(Label),
}

/// The values that an exception is on the stack: traceback, itself and class, or itself alone.
pub(crate) fn raised<'py>(py: Python<'py>, error: &PyErr) -> Vec<Bound<'py, PyAny>> {
    let value = error.value(py).clone().into_any();
    if raised_width() == 1 {
        return vec![value];
    }
    let traceback = error.traceback(py).map_or_else(|| py.None().into_bound(py), Bound::into_any);
    vec![traceback, value, error.get_type(py).into_any()]
}
