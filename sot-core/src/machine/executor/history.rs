//! What a translation is told of earlier calls, and what it tells the next ones: both are values. An attempt that is
//! given up leaves nothing behind but what it has learnt.

use std::collections::HashMap;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyCode;

use super::rounds::Rounds;
use super::{rounds, OpcodeExecutor, Refusals, ValuePolicy};
use crate::bytecode::Label;
use crate::cache::{self, ShortLived};
use crate::error::PlannedBreak;
use crate::open_sizes::{Matters, Sizes};
use crate::value_path::ValuePath;

/// What earlier calls and attempts have shown.
#[derive(Default)]
pub struct History {
    /// The values that were others, and in how many translations.
    pub changing: HashMap<ValuePath, usize>,
    /// How many translations of the outermost frame there are.
    pub translations: usize,
    /// What becomes of values that differ from call to call.
    pub policy: ValuePolicy,
    /// Which sizes of tensors are to be left open.
    pub sizes: Sizes,
    /// Whether the outermost frame is that of a resume function.
    pub is_resumed: bool,
    /// Arguments and classes that are another object at each call.
    pub short_lived: ShortLived,
    /// Calls that the backend has refused.
    pub(crate) refusals: Refusals,
    /// Where the graph is to break, whatever is found there.
    pub planned: Option<PlannedBreak>,
    /// How many instructions may be followed without meeting a tensor.
    pub effort: Effort,
    /// Whether an earlier attempt was given up as the handler of a signal waited.
    pub gave_way: bool,
}

/// How long a trace goes on without meeting a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Effort {
    /// Nobody has asked for the function.
    #[default]
    Little,
    /// The user has asked for it: it is to have tensor work sooner or later.
    Asked,
    /// Everything is translated, and nothing is in vain.
    All,
}

/// What an attempt has shown.
#[derive(Default)]
pub struct Learnt {
    /// Calls that the backend refuses.
    pub(crate) refusals: Refusals,
    /// What is to be assumed from now on.
    pub(crate) matters: Vec<Matters>,
    /// How the trace has gone round loops.
    pub(super) rounds: Rounds,
    /// Whether a resume function has found a cell of its function's own empty, of which its code says something else.
    pub lacks_own_cell: bool,
    notes: Vec<CodeNote>,
}

/// Something about a code object that later translations ask for.
enum CodeNote {
    /// The instruction needs a value that differs from call to call.
    Differing(Py<PyCode>, Label),
    /// The variable holds a container with other contents each time.
    Changing(Py<PyCode>, Rc<str>),
    /// The code has many conditions on values that differ.
    Branching(Py<PyCode>),
}

impl Learnt {
    /// Gives the notes to the code objects.
    pub(crate) fn keep_notes(&mut self, py: Python<'_>) {
        for note in self.notes.drain(..) {
            let (CodeNote::Differing(code, _) | CodeNote::Changing(code, _) | CodeNote::Branching(code)) = &note;
            let Some(cache) = cache::cache_of(code.bind(py)) else { continue };
            match &note {
                CodeNote::Differing(_, at) => cache.profile().note_differing(*at),
                CodeNote::Changing(_, variable) => cache.profile().note_changing(variable),
                CodeNote::Branching(_) => cache.profile().note_branching(),
            }
        }
    }
}

impl OpcodeExecutor<'_> {
    /// What the trace has shown; it has ended.
    pub(crate) fn take_learnt(&mut self) -> Learnt {
        let mut learnt = std::mem::take(&mut self.learnt);
        learnt.refusals = std::mem::take(&mut self.history.refusals);
        learnt.matters = self.sizes.take_settled();
        learnt
    }
}

/// Notes that the instruction, one of the outermost frame, needs a value that differs from call to call.
pub(super) fn note_differing(cx: &mut OpcodeExecutor<'_>) {
    if let Some((code, at)) = rounds::root_place(cx) {
        cx.learnt.notes.push(CodeNote::Differing(code.unbind(), at));
    }
}

/// Notes that a variable of the program holds a container with other contents each time.
pub(super) fn note_changing<'py>(cx: &mut OpcodeExecutor<'py>, code: Bound<'py, PyCode>, variable: Rc<str>) {
    cx.learnt.notes.push(CodeNote::Changing(code.unbind(), variable));
}

/// Notes that the code has so many conditions on values which differ that the graph is to break at each.
pub(super) fn note_branching(cx: &mut OpcodeExecutor<'_>) {
    if let Some((code, _)) = rounds::root_place(cx) {
        cx.learnt.notes.push(CodeNote::Branching(code.unbind()));
    }
}
