//! Facts that a translation gets from earlier calls (`History`) and attempts (`Handover`), and facts that it leaves
//! for later ones (`Learnt`). All are plain values. Of an abandoned attempt, only its `Learnt` remains.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyCode;
use rustc_hash::FxHashMap;

use crate::bytecode::Label;
use crate::cache::{self, ShortLived};
use crate::error::{Location, PlannedBreak};
use crate::machine::executor::graph_breaks::loop_iterations::{self, Rounds};
use crate::machine::executor::{OpcodeExecutor, Refusals, Trace, ValuePolicy};
use crate::open_sizes::{ClosedValue, Sizes};
use crate::report::{AbandonedReport, StackEntry};
use crate::tracker::{Tracker, TrackerId, Trackers};
use crate::value_path::ValuePath;

/// Facts from earlier calls. No attempt changes them.
#[derive(Default)]
pub struct History {
    /// Paths of values that differed in earlier translations, with the number of these translations.
    pub(crate) changing: FxHashMap<ValuePath, usize>,
    /// Number of translations of the outermost frame.
    pub(crate) translations: usize,
    /// How values that differ from call to call are treated.
    pub(crate) policy: ValuePolicy,
    /// True if the outermost frame is that of a resume function.
    pub(crate) is_resumed: bool,
    /// Arguments and classes that are another object at each call.
    pub(crate) short_lived: ShortLived,
    /// How many instructions the trace may take without meeting a tensor.
    pub(crate) effort: Effort,
    /// True if this trace ignores signals, because many traces of the code were given up for signals.
    pub(crate) gave_way: bool,
    /// True if the call may be left to CPython so that it fills the program's caches.
    pub(crate) awaits_filling: bool,
}

impl Trace<'_> {
    /// True if the outermost frame is that of a resume function.
    pub fn is_resumed(&self) -> bool {
        self.history.is_resumed
    }

    /// Number of earlier translations of the outermost frame.
    pub fn translations(&self) -> usize {
        self.history.translations
    }

    /// True if the call may be left to CPython so that it fills the program's caches.
    pub fn awaits_filling(&self) -> bool {
        self.history.awaits_filling
    }

    /// True if the tracker leads to another object at each call: one made for the call, or a part of one.
    pub fn is_short_lived(&self, tracker: TrackerId) -> bool {
        self.history.is_short_lived(&self.trackers, tracker)
    }
}

impl History {
    fn is_short_lived(&self, trackers: &Trackers, tracker: TrackerId) -> bool {
        let arguments = &self.short_lived.arguments;
        let mut at = Some(tracker).filter(|_| !arguments.is_empty());
        while let Some(id) = at {
            if let Tracker::Local { slot, .. } = trackers.get(id) {
                return arguments.contains(&(*slot as usize));
            }
            at = trackers.get(id).parent();
        }
        false
    }
}

/// What an attempt is given to go on with, and may change.
#[derive(Default)]
pub struct Handover {
    /// The sizes of tensors that are to be left open.
    pub(crate) sizes: Sizes,
    /// The break that the attempt before has planned.
    pub(crate) planned: Option<PlannedBreak>,
    /// Calls that the backend has refused in earlier attempts.
    pub(crate) refusals: Refusals,
}

/// How long a trace may go on without meeting a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Effort {
    /// Briefly: the user has not asked for the function.
    #[default]
    Little,
    /// Longer: the user has asked for the function, so it will have tensor work sooner or later.
    Asked,
    /// Up to the full budget of a function that the user has asked for, however many instructions were simulated in
    /// vain, because every frame gets new code.
    All,
}

/// Facts from one attempt, for later attempts and calls.
#[derive(Default)]
pub struct Learnt {
    /// Calls that the backend has refused, in this attempt and in earlier ones.
    pub(crate) refusals: Refusals,
    /// Open values that turned out to matter.
    pub(crate) closed: Vec<ClosedValue>,
    /// Why the attempt was abandoned, for reports. A planned break has its own reason.
    pub(crate) why_abandoned: Option<AbandonedReport>,
    /// The loops that the trace has unrolled.
    pub(in crate::machine::executor) rounds: Rounds,
    /// True if a resume function has found a cell of its function empty. In a resume function CPython's error for
    /// that differs.
    pub(crate) lacks_own_cell: bool,
    notes: Vec<CodeNote>,
}

/// A finding about a code object, for later translations.
enum CodeNote {
    /// The instruction needs a value that differs from call to call.
    Differing(Py<PyCode>, Label),
    /// The variable holds a container whose contents differ from call to call.
    Changing(Py<PyCode>, Rc<str>),
    /// The code has many conditions on values that differ.
    Branching(Py<PyCode>),
}

impl Learnt {
    /// Begins with the refusals of earlier attempts.
    pub(in crate::machine::executor) fn starting_from(refusals: Refusals) -> Self {
        Learnt { refusals, ..Learnt::default() }
    }

    /// Writes the notes into the profiles of the code objects.
    pub(crate) fn keep_notes(&mut self, py: Python<'_>) {
        for note in self.notes.drain(..) {
            let (CodeNote::Differing(code, _) | CodeNote::Changing(code, _) | CodeNote::Branching(code)) = &note;
            let Some(cache) = cache::cache_of(code.bind(py)) else { continue };
            match &note {
                CodeNote::Differing(_, at) => cache.profile.lock().note_differing(*at),
                CodeNote::Changing(_, variable) => cache.profile.lock().note_changing(variable),
                CodeNote::Branching(_) => cache.profile.lock().note_branching(),
            }
        }
    }
}

impl OpcodeExecutor<'_> {
    /// Takes the facts from the trace, at its end.
    pub(crate) fn take_learnt(&mut self) -> Learnt {
        let mut learnt = std::mem::take(&mut self.learnt);
        learnt.closed = self.sizes.take_settled();
        learnt
    }

    /// Notes that a resume function has found a cell of its own function empty.
    pub fn note_empty_own_cell(&mut self) {
        self.learnt.lacks_own_cell = true;
    }

    /// Notes for reports that the present instruction is why the attempt is abandoned.
    pub fn note_abandoned(&mut self, text: &str) {
        let stack = self.stack.locations();
        self.learnt.why_abandoned = Some(abandoned(text, &stack, Vec::new()));
    }

    /// The same for an attempt that has left sizes open. The next attempt assumes them.
    pub(crate) fn note_sizes_abandoned(&mut self, text: &str, stack: &[Location]) {
        let assumes = self.sizes.left_open.iter().map(ToString::to_string).collect();
        self.learnt.why_abandoned = Some(abandoned(text, stack, assumes));
    }
}

fn abandoned(text: &str, stack: &[Location], assumes: Vec<String>) -> AbandonedReport {
    AbandonedReport { text: text.to_owned(), assumes, stack: stack.iter().map(StackEntry::from).collect() }
}

/// Notes that the present instruction, one of the outermost frame, needs a value that differs from call to call.
pub(in crate::machine::executor) fn note_differing(cx: &mut OpcodeExecutor<'_>) {
    if let Some((code, at)) = loop_iterations::root_place(cx) {
        cx.learnt.notes.push(CodeNote::Differing(code.unbind(), at));
    }
}

/// Notes that a variable of the program holds a container whose contents differ from call to call.
pub(in crate::machine::executor) fn note_changing<'py>(
    cx: &mut OpcodeExecutor<'py>,
    code: Bound<'py, PyCode>,
    variable: Rc<str>,
) {
    cx.learnt.notes.push(CodeNote::Changing(code.unbind(), variable));
}

/// Notes that the code has many conditions on values that differ, so that the graph is to break at each.
pub(in crate::machine::executor) fn note_branching(cx: &mut OpcodeExecutor<'_>) {
    if let Some((code, _)) = loop_iterations::root_place(cx) {
        cx.learnt.notes.push(CodeNote::Branching(code.unbind()));
    }
}
