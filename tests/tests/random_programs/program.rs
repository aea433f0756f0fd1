//! Random Python programs as a proptest strategy. A program is a module with a function `f` and a list `makers`,
//! which make the arguments of its calls. Every program ends by itself, and is identified by one number.

use proptest::prelude::*;
use proptest::strategy::{NewTree, ValueTree};
use proptest::test_runner::TestRunner;

use crate::grammar;
use crate::tree::{Cut, Kind, Node};

/// A program, and the number it was made from.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) seed: u64,
    root: Node,
}

impl Program {
    pub(crate) fn new(seed: u64) -> Self {
        Program { seed, root: grammar::module(seed) }
    }

    /// A given one, which cannot be cut.
    pub(crate) fn of(source: String) -> Self {
        Program { seed: 0, root: Node::leaf(Kind::Statement, source) }
    }

    pub(crate) fn source(&self) -> String {
        self.root.source()
    }
}

/// Any program.
#[derive(Debug)]
pub(crate) struct Programs;

impl Strategy for Programs {
    type Tree = ProgramTree;
    type Value = Program;

    fn new_tree(&self, runner: &mut TestRunner) -> NewTree<Self> {
        let seed = any::<u64>().new_tree(runner)?.current();
        Ok(ProgramTree::new(Program::new(seed)))
    }
}

/// Shrinks a program by cutting pieces out of it, as long as it still fails. What is no valid program any more does not
/// fail: nothing here knows what may stand where.
#[derive(Debug)]
pub(crate) struct ProgramTree {
    failing: Node,
    program: Program,
    cuts: Vec<Cut>,
    next: usize,
    /// The last cut that was found to keep the failure; the same position a round later is the end.
    started: usize,
    tried: bool,
}

impl ProgramTree {
    pub(crate) fn new(program: Program) -> Self {
        let failing = program.root.clone();
        ProgramTree { failing, program, cuts: Vec::new(), next: 0, started: 0, tried: false }
    }

    fn try_next(&mut self) -> bool {
        let size = self.failing.source().len();
        while self.started < self.cuts.len() {
            let cut = &self.cuts[self.next % self.cuts.len()];
            self.next += 1;
            self.started += 1;
            let candidate = self.failing.cut(cut);
            if candidate != self.failing && candidate.source().len() < size {
                self.program.root = candidate;
                self.tried = true;
                return true;
            }
        }
        self.program.root = self.failing.clone();
        false
    }
}

impl ValueTree for ProgramTree {
    type Value = Program;

    fn current(&self) -> Program {
        self.program.clone()
    }

    /// The current program fails: it is cut further.
    fn simplify(&mut self) -> bool {
        if self.tried || self.cuts.is_empty() {
            self.failing = self.program.root.clone();
            self.cuts = self.failing.cuts();
            self.started = 0;
            self.next = if self.cuts.is_empty() { 0 } else { self.next % self.cuts.len() };
        }
        self.try_next()
    }

    /// The current program does not fail: another cut.
    fn complicate(&mut self) -> bool {
        self.try_next()
    }
}
