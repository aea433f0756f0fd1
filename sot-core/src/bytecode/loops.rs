//! The loops of a code object.

use std::collections::BTreeMap;

use pyo3::prelude::*;

use super::{Code, Label, Opcodes};

impl Code {
    /// Returns the loops around an instruction: for each head of a loop the last jump back to it.
    pub fn loops_around(&self, py: Python<'_>, place: Label) -> BTreeMap<Label, Label> {
        let mut loops = BTreeMap::new();
        for (index, instruction) in self.instructions.iter().enumerate() {
            let at = Label(index as u32);
            if let Some(head) = instruction.target.filter(|head| *head <= place && place <= at) {
                if self.is_loop(py, head, at) {
                    loops.insert(head, at);
                }
            }
        }
        loops
    }

    /// True if a jump back from `at` to `head` makes a loop: `at` is reached from `head` through instructions behind
    /// it. Handlers of exceptions, which come last since 3.11, also jump back: to the code behind the `try`.
    pub fn is_loop(&self, py: Python<'_>, head: Label, at: Label) -> bool {
        let opcodes = Opcodes::get(py);
        let behind = self.instructions.len().saturating_sub(head.index());
        let (mut reached, mut work) = (vec![false; behind], vec![head]);
        while let Some(from) = work.pop() {
            if from == at {
                return true;
            }
            let Some(instruction) = self.instructions.get(from.index()) else { continue };
            let next = opcodes.info(instruction.opcode).falls_through.then_some(Label(from.0 + 1));
            let handler = self.handler_at(from).map(|handler| handler.target);
            for to in [next, instruction.target, handler].into_iter().flatten() {
                let known = to.index().checked_sub(head.index()).and_then(|index| reached.get_mut(index));
                if known.is_some_and(|known| !std::mem::replace(known, true)) {
                    work.push(to);
                }
            }
        }
        false
    }
}
