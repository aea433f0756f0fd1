//! A round of a loop that is left to CPython: a resume function of the loop whose code ends where the round does. There, and
//! where the loop is left, it hands over like new code that breaks. What is on the stack there, and which locals are bound, is
//! found by a walk over all that may run before; where that is not sure, nothing is left to CPython.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use pyo3::prelude::*;

use super::{Entry, Finish, ResumeKey, Slot, Target};
use crate::bytecode::{stack_effect, Code, Instruction, Label, Opcodes, Operand};
use crate::codegen::after_loop;

/// Where such a round ends, and what goes on there.
pub struct Stop {
    /// The resume function.
    pub key: ResumeKey,
    /// Its code.
    pub target: Arc<Target>,
}

/// The jumps back of the loops that a place is in: where they lead to, and the last of them.
fn loops_around(code: &Code, place: Label) -> BTreeMap<Label, Label> {
    let mut loops = BTreeMap::new();
    for (index, instruction) in code.instructions.iter().enumerate() {
        let at = Label(index as u32);
        if let Some(head) = instruction.target.filter(|head| *head <= place && place <= at) {
            loops.insert(head, at);
        }
    }
    loops
}

/// Where the loops begin that a resume function goes on in.
pub fn heads_around(code: &Code, key: &ResumeKey) -> Vec<Label> {
    begin(key).map_or_else(Vec::new, |(place, _)| loops_around(code, place).into_keys().collect())
}

/// Where the original code is entered, and with what on the stack.
fn begin(key: &ResumeKey) -> Option<(Label, Vec<Slot>)> {
    let mut stack = key.stack.clone();
    let behind = match key.entry {
        Entry::Next => return Some((key.at, stack)),
        Entry::Return(_, finish) | Entry::Finish(finish) => finish,
        Entry::Raise | Entry::Yield => return None,
    };
    match behind {
        Finish::Keep => stack.push(Slot::Value),
        Finish::Drop => {}
        _ => return None,
    }
    Some((Label(key.at.0 + 1), stack))
}

/// The key of the resume function behind the call that this one begins with; none if what is on the stack cannot be handed over.
pub fn behind_call(key: &ResumeKey) -> Option<ResumeKey> {
    let (at, stack) = begin(key).filter(|(at, stack)| *at != key.at && key.hidden.is_empty() && are_given(stack))?;
    Some(ResumeKey { at, stack, bound: key.bound.clone(), hidden: Vec::new(), entry: Entry::Next, nested: false })
}

/// Whether a resume function can be given all that lies on a stack when the code runs.
fn are_given(stack: &[Slot]) -> bool {
    stack.iter().all(|slot| matches!(slot, Slot::Value | Slot::Null | Slot::Try(_)))
}

/// Whether a local may be bound, and whether it may be unbound.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Bound {
    may: bool,
    may_not: bool,
}

const BOUND: Bound = Bound { may: true, may_not: false };
const UNBOUND: Bound = Bound { may: false, may_not: true };
const UNSURE: Bound = Bound { may: true, may_not: true };

impl Bound {
    fn merge(self, other: Bound) -> Bound {
        Bound { may: self.may || other.may, may_not: self.may_not || other.may_not }
    }
}

/// What lies on the stack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lying {
    /// What was there where the walk began.
    Begun(usize),
    /// The item that a loop was given.
    Given,
    /// A value, or a NULL.
    Item,
    /// What a comprehension's variable was before.
    Saved(Bound),
    Block,
}

/// What is known before an instruction; of the stack nothing in handlers.
#[derive(Clone, PartialEq, Eq)]
struct State {
    stack: Option<Vec<Lying>>,
    locals: Vec<Bound>,
}

impl State {
    fn merge(&self, other: &State) -> State {
        let locals = self.locals.iter().zip(&other.locals).map(|(one, other)| one.merge(*other)).collect();
        let one = |pair: (&Lying, &Lying)| match pair {
            (Lying::Saved(one), Lying::Saved(other)) => Lying::Saved(one.merge(*other)),
            (one, _) => *one,
        };
        let stack = match (&self.stack, &other.stack) {
            (Some(stack), Some(other)) => Some(stack.iter().zip(other).map(one).collect()),
            (stack, other) => stack.as_ref().or(other.as_ref()).cloned(),
        };
        State { stack, locals }
    }
}

struct Walk<'a, 'py> {
    py: Python<'py>,
    code: &'a Code,
    opcodes: &'static Opcodes,
    begin: Vec<Slot>,
    loops: BTreeMap<Label, Label>,
    /// The variables of comprehensions.
    cleared: HashSet<u32>,
    states: BTreeMap<Label, State>,
    work: BTreeSet<Label>,
    /// Where a round begins, and where a loop is left.
    ends: BTreeSet<Label>,
}

/// The keys of the resume functions where a round that this one is in ends; none if that is not known for all of them.
pub fn ends(py: Python<'_>, code: &Code, key: &ResumeKey) -> Vec<ResumeKey> {
    let Some((place, stack)) = begin(key) else { return Vec::new() };
    let loops = loops_around(code, place);
    let opcodes = Opcodes::get(py);
    let steps = |head: Label| opcodes.name(code.instructions[head.index()].opcode) == "FOR_ITER";
    // An iterator is advanced at the end of a round.
    let ends: BTreeSet<Label> = loops.keys().map(|head| Label(head.0 + u32::from(steps(*head)))).collect();
    let runs_again = ends.contains(&place) && code.instructions[place.index()].target.is_some();
    if loops.is_empty() || !key.hidden.is_empty() || key.nested || runs_again {
        return Vec::new();
    }
    let locals = key.bound.iter().map(|bound| if *bound { BOUND } else { UNBOUND }).collect();
    let state = State { stack: Some((0..stack.len()).map(Lying::Begun).collect()), locals };
    let (states, work) = (BTreeMap::from([(place, state)]), BTreeSet::from([place]));
    let clears = |instruction: &&Instruction| opcodes.name(instruction.opcode) == "LOAD_FAST_AND_CLEAR";
    let cleared: HashSet<u32> = code.instructions.iter().filter(clears).map(|instruction| instruction.arg).collect();
    if keeps_locals_in_cells(code, opcodes) {
        return Vec::new();
    }
    let mut walk = Walk { py, code, opcodes, begin: stack, loops, cleared, states, work, ends };
    for slot in walk.begin.clone() {
        if let Slot::Try(handler) = slot {
            let locals = walk.locals_raised(&walk.states[&place].locals, place, handler);
            walk.enter(place, handler, State { stack: None, locals });
        }
    }
    let mut is_first = true;
    while let Some(at) = walk.work.pop_first() {
        if is_first || !walk.ends.contains(&at) {
            walk.step(at);
        }
        is_first = false;
    }
    let reached = walk.ends.iter().filter(|end| walk.states.contains_key(end));
    let keys: Option<Vec<ResumeKey>> = reached.map(|at| walk.key(*at)).collect();
    keys.unwrap_or_default()
}

/// The locals that an instruction writes.
fn written(instruction: &Instruction, opcodes: &Opcodes) -> Vec<u32> {
    let info = opcodes.info(instruction.opcode);
    let (first, second) = (instruction.arg >> 4, instruction.arg & 15);
    match (info.operand, info.name.as_str()) {
        (Operand::Local, "DELETE_FAST" | "LOAD_FAST_AND_CLEAR" | "STORE_FAST") => vec![instruction.arg],
        (Operand::LocalPair, "STORE_FAST_STORE_FAST") => vec![first, second],
        (Operand::LocalPair, "STORE_FAST_LOAD_FAST") => vec![first],
        _ => Vec::new(),
    }
}

/// Whether the slot of a cell is a local's, too, as where a function captures the variable of a comprehension.
fn keeps_locals_in_cells(code: &Code, opcodes: &Opcodes) -> bool {
    let is_cell = |slot: u32| code.varnames.get(slot as usize).is_some_and(|name| code.cellvars.contains(name));
    code.instructions.iter().any(|instruction| written(instruction, opcodes).into_iter().any(is_cell))
}

impl Walk<'_, '_> {
    /// The resume function for a place.
    fn key(&self, at: Label) -> Option<ResumeKey> {
        let state = self.states.get(&at)?;
        let slot = |(at, lying): (usize, &Lying)| match lying {
            Lying::Begun(from) => self.begin.get(*from).copied().filter(|_| *from == at),
            Lying::Given => Some(Slot::Value),
            _ => None,
        };
        let stack: Vec<Slot> = state.stack.as_ref()?.iter().enumerate().map(slot).collect::<Option<_>>()?;
        let sure = state.locals.iter().all(|local| local.may != local.may_not);
        (are_given(&stack) && sure).then(|| ResumeKey {
            at,
            bound: state.locals.iter().map(|local| local.may).collect(),
            hidden: Vec::new(),
            stack,
            entry: Entry::Next,
            nested: false,
        })
    }

    fn step(&mut self, at: Label) {
        let code = self.code;
        let Some(before) = self.states.get(&at).cloned() else { return };
        let instruction = &code.instructions[at.index()];
        let name = self.opcodes.name(instruction.opcode).to_owned();
        if let Some(handler) = code.handler_at(at) {
            self.enter(at, handler.target, State { stack: None, ..before.clone() });
        }
        let locals = self.locals_behind(&before, instruction, &name);
        let behind = |walk: &Self, jump| {
            before.stack.clone().and_then(|stack| walk.stack_behind(stack, instruction, &name, jump))
        };
        if let Some(target) = instruction.target {
            // What cleans up behind a loop is for CPython's own use.
            let exit = if name == "FOR_ITER" { after_loop(instruction).unwrap_or(target) } else { target };
            let stack = behind(self, true);
            let locals =
                if name.starts_with("SETUP_") { self.locals_raised(&locals, at, target) } else { locals.clone() };
            self.enter(at, exit, State { stack, locals });
        }
        if self.opcodes.info(instruction.opcode).falls_through {
            let stack = behind(self, false).map(|stack| match name.as_str() {
                "LOAD_FAST_AND_CLEAR" => self.saved(stack, &before, instruction.arg),
                _ => stack,
            });
            self.enter(at, Label(at.0 + 1), State { stack, locals });
        }
    }

    /// What is known in a handler that a block begins (3.8 to 3.10), by what may be written before it is entered.
    fn locals_raised(&self, locals: &[Bound], from: Label, handler: Label) -> Vec<Bound> {
        let mut locals = locals.to_vec();
        let name = |instruction: &Instruction| self.opcodes.name(instruction.opcode);
        for index in from.index()..handler.index() {
            let instruction = &self.code.instructions[index];
            let (is_store, next) = (name(instruction).starts_with("STORE_FAST"), &self.code.instructions[index + 1..]);
            // What `except ... as name` binds is deleted before an exception leaves its body.
            let is_deleted =
                next.first().is_some_and(|next| name(next) == "DELETE_FAST" && next.arg == instruction.arg);
            let names_exception =
                matches!(next, [pop, setup, ..] if name(pop) == "POP_TOP" && name(setup) == "SETUP_FINALLY");
            if is_store && (is_deleted || names_exception) {
                continue;
            }
            for slot in written(instruction, self.opcodes) {
                if let Some(local) = locals.get_mut(slot as usize) {
                    *local = local.merge(if is_store { BOUND } else { UNBOUND });
                }
            }
        }
        locals
    }

    fn saved(&self, mut stack: Vec<Lying>, before: &State, slot: u32) -> Vec<Lying> {
        if let (Some(top), Some(local)) = (stack.last_mut(), before.locals.get(slot as usize)) {
            *top = Lying::Saved(*local);
        }
        stack
    }

    fn locals_behind(&self, before: &State, instruction: &Instruction, name: &str) -> Vec<Bound> {
        let mut locals = before.locals.clone();
        for (depth, slot) in written(instruction, self.opcodes).into_iter().enumerate() {
            let Some(local) = locals.get_mut(slot as usize) else { continue };
            let value = before.stack.as_ref().map(|stack| stack.len().checked_sub(depth + 1).map(|at| stack[at]));
            *local = match value.flatten() {
                _ if !name.starts_with("STORE_FAST") => UNBOUND,
                Some(Lying::Saved(local)) => local,
                Some(Lying::Begun(at)) if self.begin[at] == Slot::Null => UNBOUND,
                None if self.cleared.contains(&slot) => UNSURE,
                _ => BOUND,
            };
        }
        locals
    }

    /// The stack behind the instruction; `None` if that is not known.
    fn stack_behind(
        &self,
        mut stack: Vec<Lying>,
        instruction: &Instruction,
        name: &str,
        jump: bool,
    ) -> Option<Vec<Lying>> {
        let is_block = |lying: &Lying| match lying {
            Lying::Block => true,
            Lying::Begun(at) => matches!(self.begin[*at], Slot::Try(_)),
            _ => false,
        };
        let pop = |stack: &mut Vec<Lying>| match stack.pop()? {
            Lying::Block => None,
            Lying::Begun(at) => matches!(self.begin[at], Slot::Value | Slot::Null).then_some(()),
            _ => Some(()),
        };
        match (name, jump) {
            ("SETUP_FINALLY" | "SETUP_WITH" | "SETUP_ASYNC_WITH", true) => return None,
            ("SETUP_FINALLY", _) => stack.push(Lying::Block),
            ("SETUP_WITH", _) => {
                pop(&mut stack)?;
                stack.extend([Lying::Item, Lying::Block, Lying::Item]);
            }
            ("POP_BLOCK", _) => {
                let block = stack.iter().rposition(is_block)?;
                stack.remove(block);
            }
            ("POP_EXCEPT", _) => match stack.pop()? {
                Lying::Begun(at) if self.begin[at] == Slot::Handling => {}
                _ => return None,
            },
            ("FOR_ITER", true) => pop(&mut stack)?,
            ("FOR_ITER", _) => stack.push(Lying::Given),
            ("SWAP", _) => {
                let (top, other) = (stack.len().checked_sub(1)?, stack.len().checked_sub(instruction.arg as usize)?);
                stack.swap(top, other);
            }
            _ => {
                let effect = match (name, jump) {
                    // CPython 3.8 counts what its `finally` bodies find on the stack as more than it is in each case.
                    ("BEGIN_FINALLY" | "WITH_CLEANUP_START", _) | ("CALL_FINALLY", true) => 1,
                    ("CALL_FINALLY", false) => 0,
                    ("END_FINALLY" | "POP_FINALLY", _) => -1,
                    _ => stack_effect(self.py, instruction.opcode, instruction.arg, jump).ok()?,
                };
                for _ in effect..0 {
                    pop(&mut stack)?;
                }
                stack.extend((0..effect).map(|_| Lying::Item));
                // The result of a call lies where the NULL of the call did. Others are what a comprehension's variables were.
                if let Some(Lying::Begun(at)) = stack.last().filter(|_| effect < 0 && name.starts_with("CALL")) {
                    if self.begin[*at] == Slot::Null {
                        stack.pop();
                        stack.push(Lying::Item);
                    }
                }
            }
        }
        Some(stack)
    }

    fn enter(&mut self, from: Label, at: Label, state: State) {
        let leaves = |(head, last): (&Label, &Label)| {
            let inside = *head..=*last;
            inside.contains(&from) && !inside.contains(&at)
        };
        if state.stack.is_some() && self.loops.iter().any(leaves) {
            self.ends.insert(at);
        }
        match self.states.get_mut(&at) {
            None => {
                self.states.insert(at, state);
            }
            Some(known) => {
                let merged = known.merge(&state);
                if merged == *known {
                    return;
                }
                *known = merged;
            }
        }
        self.work.insert(at);
    }
}
