//! Facts about the loops of one code object, and about its values that differ from call to call, collected from calls
//! and translations. [`crate::policy`] decides what follows from these facts.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::bytecode::Label;
use crate::policy::LoopTranslations;
use crate::value_path::ValuePath;

/// Facts about the loops and differing values of one code object.
#[derive(Default)]
pub struct Profile {
    /// Number of translations, of the code and its resume functions, that simulated more than one iteration of a
    /// loop, by the head of the loop.
    unrolled: FxHashMap<Label, usize>,
    /// Translations of resume functions in loops, by the head of the outermost loop.
    made: FxHashMap<Label, LoopTranslations>,
    /// Instructions in loops that traces without tensor work have simulated, by the head of the loop.
    without_work: FxHashMap<Label, FxHashSet<Label>>,
    /// Instructions that need a value which differs from call to call.
    differing: FxHashSet<Label>,
    /// Variables that hold containers whose contents differ from call to call.
    changing: FxHashSet<String>,
    /// True if the graph breaks at each condition on values which differ from call to call.
    branching: bool,
    /// Arguments and classes that are another object at each call.
    pub(super) short_lived: ShortLived,
}

/// Arguments and classes that are another object at each call: identity guards on them would never hold again.
#[derive(Clone, Default)]
pub struct ShortLived {
    /// Slots of arguments that are such an object, or lead to one.
    pub arguments: FxHashSet<usize>,
    /// Paths of classes that functions make at each call, and of the classes of such objects.
    pub classes: FxHashSet<ValuePath>,
}

impl Profile {
    /// Number of translations that simulated more than one iteration of the loop.
    pub fn unrolled(&self, head: Label) -> usize {
        self.unrolled.get(&head).copied().unwrap_or(0)
    }

    /// Counts a translation that simulated more than one iteration of the loop.
    pub fn note_unrolled(&mut self, head: Label) {
        let times = self.unrolled.entry(head).or_default();
        *times = times.saturating_add(1);
    }

    /// Notes that the iterations of a loop differ: no further translation simulates more than one.
    pub fn note_different(&mut self, head: Label) {
        self.unrolled.insert(head, usize::MAX);
    }

    /// Counts a translation of a resume function in a loop. `again`: the resume function has another translation.
    /// `in_call`: it resumes inside a function that the loop calls.
    pub fn count_translation(&mut self, head: Label, again: bool, in_call: bool) {
        let made = self.made.entry(head).or_default();
        made.all = made.all.saturating_add(1);
        made.again = made.again.saturating_add(u32::from(again));
        made.in_call |= in_call;
    }

    /// Returns the numbers of translations of resume functions in a loop.
    pub fn made(&self, head: Label) -> LoopTranslations {
        self.made.get(&head).copied().unwrap_or_default()
    }

    /// Forgets the numbers of translations in loops.
    pub(super) fn forget_loops(&mut self) {
        self.made.clear();
    }

    /// Adds instructions of a loop that a trace without tensor work has simulated. Returns whether such traces have
    /// simulated all instructions from the loop's head to its last one.
    pub fn note_without_work(&mut self, (head, last): (Label, Label), places: &[Label]) -> bool {
        let seen = self.without_work.entry(head).or_default();
        seen.extend(places);
        (head.0..=last.0).all(|at| seen.contains(&Label(at)))
    }

    /// True if the instruction needs a value that differs from call to call.
    pub fn differs(&self, at: Label) -> bool {
        self.differing.contains(&at)
    }

    /// Notes that the instruction needs a value that differs from call to call.
    pub fn note_differing(&mut self, at: Label) {
        self.differing.insert(at);
    }

    /// True if a variable holds a container whose contents differ from call to call.
    pub fn holds_changing(&self, variable: &str) -> bool {
        self.changing.contains(variable)
    }

    /// Notes that a variable holds a container whose contents differ from call to call.
    pub fn note_changing(&mut self, variable: &str) {
        self.changing.insert(variable.to_owned());
    }

    /// True if the graph breaks at each condition on values which differ from call to call.
    pub fn branches_much(&self) -> bool {
        self.branching
    }

    /// Makes the graph break at each condition on values which differ from call to call.
    pub fn note_branching(&mut self) {
        self.branching = true;
    }
}
