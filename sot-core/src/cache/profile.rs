//! What calls and translations of one code object have shown of its loops, and of values that differ from call to call.
//! What becomes of that is decided in [`crate::policy`].

use std::collections::{HashMap, HashSet};

use crate::bytecode::Label;
use crate::value_path::ValuePath;

/// What is known of a code object.
#[derive(Default)]
pub struct Profile {
    /// In how many translations of the code and its resume functions loops went round more than once, by where they
    /// begin.
    unrolled: HashMap<Label, usize>,
    /// How many translations of resume functions there are in loops, by where the outermost loop begins.
    made: HashMap<Label, LoopTranslations>,
    /// The instructions that need values which differ from call to call.
    differing: HashSet<Label>,
    /// The variables that hold containers whose contents differ from call to call.
    changing: HashSet<String>,
    /// Whether the graph breaks at each condition on values which differ from call to call.
    branching: bool,
    /// Arguments and classes that are another object at each call.
    pub(super) short_lived: ShortLived,
}

/// Arguments and classes that are another object at each call: identity guards on them would never hold again.
#[derive(Clone, Default)]
pub struct ShortLived {
    /// Argument slots that hold such an object, or lead to one.
    pub arguments: HashSet<usize>,
    /// Classes that functions make at each call, and the classes of such objects, by path.
    pub classes: HashSet<ValuePath>,
}

/// The translations of resume functions that go on in one loop.
#[derive(Clone, Copy, Default)]
pub struct LoopTranslations {
    /// All of them.
    pub all: u32,
    /// Those that are not the first of their place.
    pub again: u32,
    /// Whether one of them goes on in a function that the loop calls.
    pub in_call: bool,
}

impl Profile {
    /// How many translations of the code and its resume functions went round a loop more than once.
    pub fn unrolled(&self, head: Label) -> usize {
        self.unrolled.get(&head).copied().unwrap_or(0)
    }

    /// Counts such a translation.
    pub fn note_unrolled(&mut self, head: Label) {
        let times = self.unrolled.entry(head).or_default();
        *times = times.saturating_add(1);
    }

    /// Notes that the rounds of a loop differ: no further translation goes round it more than once.
    pub fn note_different(&mut self, head: Label) {
        self.unrolled.insert(head, usize::MAX);
    }

    /// Counts a translation of a resume function in a loop; `again`: its place has one; `in_call`: it goes on in a
    /// function that the loop calls.
    pub fn count_translation(&mut self, head: Label, again: bool, in_call: bool) {
        let made = self.made.entry(head).or_default();
        made.all = made.all.saturating_add(1);
        made.again = made.again.saturating_add(u32::from(again));
        made.in_call |= in_call;
    }

    /// How many translations of resume functions there are in a loop.
    pub fn made(&self, head: Label) -> LoopTranslations {
        self.made.get(&head).copied().unwrap_or_default()
    }

    /// Forgets the translations in loops.
    pub(super) fn forget_loops(&mut self) {
        self.made.clear();
    }

    /// Whether the instruction needs a value that differs from call to call.
    pub fn differs(&self, at: Label) -> bool {
        self.differing.contains(&at)
    }

    /// Notes that it does.
    pub fn note_differing(&mut self, at: Label) {
        self.differing.insert(at);
    }

    /// Whether a variable holds a container whose contents differ from call to call.
    pub fn holds_changing(&self, variable: &str) -> bool {
        self.changing.contains(variable)
    }

    /// Notes that it does.
    pub fn note_changing(&mut self, variable: &str) {
        self.changing.insert(variable.to_owned());
    }

    /// Whether the graph breaks at each condition on values which differ from call to call.
    pub fn branches_much(&self) -> bool {
        self.branching
    }

    /// From here on it does.
    pub fn note_branching(&mut self) {
        self.branching = true;
    }
}
