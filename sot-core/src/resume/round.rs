//! Left rounds: iterations of a loop that are left to CPython. (A round is one iteration.) The rest of such an
//! iteration runs in a resume function of the loop, whose code ends at the stops: where the iteration ends, and where
//! the loop is left. There it hands over, like new code that breaks. For a loop that is left as a whole, the only stops
//! are those where the loop is left. A walk over all instructions that may run before a stop finds the stack and the
//! bound locals at the stop. If these are not certain for every stop, nothing is left to CPython.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pyo3::prelude::*;
use rustc_hash::FxHashSet;

use super::{Entry, Finish, ResumeKey, ResumeTarget, Slot};
use crate::bytecode::{stack_effect, Code, Instruction, Label, Op, Opcodes};
use crate::emit::after_loop;
use crate::machine::opcode::{self, Access, AtBreak, Description, Locals, Movement};

/// A place where such an iteration ends, and the resume function that continues there.
pub struct Stop {
    /// Key of the resume function.
    pub key: ResumeKey,
    /// Code of the resume function.
    pub target: Arc<ResumeTarget>,
}

/// Heads of the loops that a resume function continues in.
pub fn enclosing_loop_heads(py: Python<'_>, code: &Code, key: &ResumeKey) -> Vec<Label> {
    begin(key).map_or_else(Vec::new, |(place, _)| code.loops_around(py, place).into_keys().collect())
}

/// Where the original code is entered, and with which stack; `None` if the entry is of another kind.
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

/// The key of the resume function behind the call that this one begins with. `None` if the stack there cannot be
/// handed over.
pub fn behind_call(key: &ResumeKey) -> Option<ResumeKey> {
    let (at, stack) = begin(key).filter(|(at, stack)| *at != key.at && key.hidden.is_empty() && are_given(stack))?;
    Some(ResumeKey {
        at,
        stack,
        bound: key.bound.clone(),
        hidden: Vec::new(),
        entry: Entry::Next,
        drives_itself: false,
    })
}

/// True if all items of a stack can be handed over to a resume function at run time.
fn are_given(stack: &[Slot]) -> bool {
    stack.iter().all(|slot| matches!(slot, Slot::Value | Slot::Null | Slot::Try(_)))
}

/// The possible states of a local at an instruction: bound, unbound, or either.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Boundness {
    may_be_bound: bool,
    may_be_unbound: bool,
}

const BOUND: Boundness = Boundness { may_be_bound: true, may_be_unbound: false };
const UNBOUND: Boundness = Boundness { may_be_bound: false, may_be_unbound: true };
const UNSURE: Boundness = Boundness { may_be_bound: true, may_be_unbound: true };

impl Boundness {
    fn merge(self, other: Boundness) -> Boundness {
        Boundness {
            may_be_bound: self.may_be_bound || other.may_be_bound,
            may_be_unbound: self.may_be_unbound || other.may_be_unbound,
        }
    }
}

/// An item of the simulated stack, as far as the walk knows it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StackItem {
    /// The item at this index of the initial stack.
    Begun(usize),
    /// The item that a loop took from its iterator.
    Given,
    /// Another value or NULL.
    Item,
    /// The value that a variable of a comprehension had before.
    Saved(Boundness),
    Block,
}

/// State before an instruction. The stack is not known in handlers.
#[derive(Clone, PartialEq, Eq)]
struct State {
    stack: Option<Vec<StackItem>>,
    locals: Vec<Boundness>,
}

impl State {
    fn merge(&self, other: &State) -> State {
        let locals = self.locals.iter().zip(&other.locals).map(|(one, other)| one.merge(*other)).collect();
        let one = |pair: (&StackItem, &StackItem)| match pair {
            (StackItem::Saved(one), StackItem::Saved(other)) => StackItem::Saved(one.merge(*other)),
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
    begin: Vec<Slot>,
    loops: BTreeMap<Label, Label>,
    /// Slots of the variables of inlined comprehensions.
    cleared: FxHashSet<u32>,
    states: BTreeMap<Label, State>,
    work: BTreeSet<Label>,
    /// Stops: where an iteration begins, and where a loop is left.
    ends: BTreeSet<Label>,
}

/// Returns the keys of the resume functions at the stops of the iteration that this one continues in. Empty if the
/// state is not certain at all stops.
pub fn ends(py: Python<'_>, code: &Code, key: &ResumeKey) -> Vec<ResumeKey> {
    let Some((place, stack)) = begin(key) else { return Vec::new() };
    let loops = code.loops_around(py, place);
    let steps = |head: Label| describe(&code.instructions[head.index()]).at_break == AtBreak::Advance;
    // For a loop over an iterator the stop is behind its head, so that the iterator is advanced at the end of an
    // iteration.
    let ends: BTreeSet<Label> = loops.keys().map(|head| Label(head.0 + u32::from(steps(*head)))).collect();
    let runs_again = ends.contains(&place) && code.instructions[place.index()].target.is_some();
    if runs_again {
        return Vec::new();
    }
    stops(py, code, key, (place, stack), loops, ends)
}

/// Returns the innermost loop that a resume function continues in: its first and its last instruction.
pub fn innermost_loop(py: Python<'_>, code: &Code, key: &ResumeKey) -> Option<(Label, Label)> {
    begin(key).and_then(|(place, _)| code.loops_around(py, place).pop_last())
}

/// Returns the keys of the resume functions at the places behind that loop. Empty if the state is not certain at all
/// of them.
pub fn exits(py: Python<'_>, code: &Code, key: &ResumeKey) -> Vec<ResumeKey> {
    let (Some(begin), Some(innermost)) = (begin(key), innermost_loop(py, code, key)) else { return Vec::new() };
    stops(py, code, key, begin, BTreeMap::from([innermost]), BTreeSet::new())
}

/// Returns the keys of the resume functions at `ends` and where one of `loops` is left.
fn stops(
    py: Python<'_>,
    code: &Code,
    key: &ResumeKey,
    (place, stack): (Label, Vec<Slot>),
    loops: BTreeMap<Label, Label>,
    ends: BTreeSet<Label>,
) -> Vec<ResumeKey> {
    if loops.is_empty() || !key.hidden.is_empty() || key.drives_itself || keeps_locals_in_cells(code) {
        return Vec::new();
    }
    let locals = key.bound.iter().map(|bound| if *bound { BOUND } else { UNBOUND }).collect();
    let state = State { stack: Some((0..stack.len()).map(StackItem::Begun).collect()), locals };
    let (states, work) = (BTreeMap::from([(place, state)]), BTreeSet::from([place]));
    let clears = |(access, slot)| (access == Access::Clear).then_some(slot);
    let cleared: FxHashSet<u32> = code.instructions.iter().flat_map(accesses).filter_map(clears).collect();
    let mut walk = Walk { py, code, begin: stack, loops, cleared, states, work, ends };
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

fn describe(instruction: &Instruction) -> &'static Description {
    opcode::describe(instruction.opcode)
}

/// The accesses of an instruction to local variables, with their slots.
fn accesses(instruction: &Instruction) -> impl Iterator<Item = (Access, u32)> {
    describe(instruction).accesses(instruction.arg)
}

/// The locals that an instruction binds or unbinds.
fn written(instruction: &Instruction) -> impl Iterator<Item = (Access, u32)> {
    accesses(instruction).filter(|(access, _)| *access != Access::Load)
}

/// True if a slot is both a local's and a cell's, as where a function captures the variable of a comprehension.
fn keeps_locals_in_cells(code: &Code) -> bool {
    let is_cell = |slot: u32| code.varnames.get(slot as usize).is_some_and(|name| code.cellvars.contains(name));
    code.instructions.iter().flat_map(written).any(|(_, slot)| is_cell(slot))
}

impl Walk<'_, '_> {
    /// The key of the resume function at a place; `None` if the state there is not certain.
    fn key(&self, at: Label) -> Option<ResumeKey> {
        let state = self.states.get(&at)?;
        let slot = |(at, item): (usize, &StackItem)| match item {
            StackItem::Begun(from) => self.begin.get(*from).copied().filter(|_| *from == at),
            StackItem::Given => Some(Slot::Value),
            _ => None,
        };
        let stack: Vec<Slot> = state.stack.as_ref()?.iter().enumerate().map(slot).collect::<Option<_>>()?;
        let sure = state.locals.iter().all(|local| local.may_be_bound != local.may_be_unbound);
        (are_given(&stack) && sure).then(|| ResumeKey {
            at,
            bound: state.locals.iter().map(|local| local.may_be_bound).collect(),
            hidden: Vec::new(),
            stack,
            entry: Entry::Next,
            drives_itself: false,
        })
    }

    fn step(&mut self, at: Label) {
        let code = self.code;
        let Some(before) = self.states.get(&at).cloned() else { return };
        let instruction = &code.instructions[at.index()];
        let description = describe(instruction);
        if let Some(handler) = code.handler_at(at) {
            self.enter(at, handler.target, State { stack: None, ..before.clone() });
        }
        let locals = self.locals_behind(&before, instruction);
        let behind =
            |walk: &Self, jump| before.stack.clone().and_then(|stack| walk.stack_behind(stack, instruction, jump));
        if let Some(target) = instruction.target {
            // The instructions that clean up behind a loop are skipped, as CPython itself does.
            let exit = if description.movement == Movement::Advance {
                after_loop(instruction).unwrap_or(target)
            } else {
                target
            };
            let stack = behind(self, true);
            let begins_block = matches!(description.movement, Movement::BeginBlock | Movement::EnterWith);
            let locals = if begins_block { self.locals_raised(&locals, at, target) } else { locals.clone() };
            self.enter(at, exit, State { stack, locals });
        }
        if Opcodes::get(self.py).info(instruction.opcode).falls_through {
            let cleared = description.locals == Locals::One(Access::Clear);
            let stack =
                behind(self, false)
                    .map(|stack| if cleared { self.saved(stack, &before, instruction.arg) } else { stack });
            self.enter(at, Label(at.0 + 1), State { stack, locals });
        }
    }

    /// Locals in a handler that a block begins (3.8 to 3.10): merged with all writes between the block and its
    /// handler.
    fn locals_raised(&self, locals: &[Boundness], from: Label, handler: Label) -> Vec<Boundness> {
        let mut locals = locals.to_vec();
        let opcodes = Opcodes::get(self.py);
        for index in from.index()..handler.index() {
            let instruction = &self.code.instructions[index];
            let next = &self.code.instructions[index + 1..];
            // The name of `except ... as name` is unbound again before an exception leaves the `except` body.
            let is_deleted = next.first().is_some_and(|next| {
                describe(next).locals == Locals::One(Access::Delete) && next.arg == instruction.arg
            });
            let names_exception = matches!(next, [pop, setup, ..] if opcodes.is(pop.opcode, Op::POP_TOP)
                && describe(setup).movement == Movement::BeginBlock);
            for (access, slot) in written(instruction) {
                if access == Access::Store && (is_deleted || names_exception) {
                    continue;
                }
                if let Some(local) = locals.get_mut(slot as usize) {
                    *local = local.merge(if access == Access::Store { BOUND } else { UNBOUND });
                }
            }
        }
        locals
    }

    fn saved(&self, mut stack: Vec<StackItem>, before: &State, slot: u32) -> Vec<StackItem> {
        if let (Some(top), Some(local)) = (stack.last_mut(), before.locals.get(slot as usize)) {
            *top = StackItem::Saved(*local);
        }
        stack
    }

    fn locals_behind(&self, before: &State, instruction: &Instruction) -> Vec<Boundness> {
        let mut locals = before.locals.clone();
        for (depth, (access, slot)) in written(instruction).enumerate() {
            let Some(local) = locals.get_mut(slot as usize) else { continue };
            let value = before.stack.as_ref().map(|stack| stack.len().checked_sub(depth + 1).map(|at| stack[at]));
            *local = match value.flatten() {
                _ if access != Access::Store => UNBOUND,
                Some(StackItem::Saved(local)) => local,
                Some(StackItem::Begun(at)) if self.begin[at] == Slot::Null => UNBOUND,
                None if self.cleared.contains(&slot) => UNSURE,
                _ => BOUND,
            };
        }
        locals
    }

    /// The stack behind an instruction; `None` if it is not known.
    fn stack_behind(&self, mut stack: Vec<StackItem>, instruction: &Instruction, jump: bool) -> Option<Vec<StackItem>> {
        let is_block = |item: &StackItem| match item {
            StackItem::Block => true,
            StackItem::Begun(at) => matches!(self.begin[*at], Slot::Try(_)),
            _ => false,
        };
        let movement = describe(instruction).movement;
        match movement {
            Movement::BeginBlock | Movement::EnterWith if jump => return None,
            Movement::BeginBlock => stack.push(StackItem::Block),
            Movement::EnterWith => {
                self.pop(&mut stack)?;
                stack.extend([StackItem::Item, StackItem::Block, StackItem::Item]);
            }
            Movement::EndBlock => {
                let block = stack.iter().rposition(is_block)?;
                stack.remove(block);
            }
            Movement::EndHandling => match stack.pop()? {
                StackItem::Begun(at) if self.begin[at] == Slot::Handling => {}
                _ => return None,
            },
            Movement::Advance if jump => self.pop(&mut stack)?,
            Movement::Advance => stack.push(StackItem::Given),
            Movement::Swap => {
                let (top, other) = (stack.len().checked_sub(1)?, stack.len().checked_sub(instruction.arg as usize)?);
                stack.swap(top, other);
            }
            Movement::Counted { next, jump: jumps } => self.move_by(&mut stack, if jump { jumps } else { next })?,
            Movement::Effect | Movement::Call => {
                let effect = stack_effect(self.py, instruction.opcode, instruction.arg, jump).ok()?;
                self.move_by(&mut stack, effect)?;
                // The result of a call takes the place of the call's NULL. Other items in the place of a NULL are
                // former values of a comprehension's variables.
                match stack.last_mut() {
                    Some(last @ &mut StackItem::Begun(at))
                        if effect < 0 && movement == Movement::Call && self.begin[at] == Slot::Null =>
                    {
                        *last = StackItem::Item;
                    }
                    _ => {}
                }
            }
        }
        Some(stack)
    }

    /// Pops an item; `None` if the top is not certain to be an item.
    fn pop(&self, stack: &mut Vec<StackItem>) -> Option<()> {
        match stack.pop()? {
            StackItem::Block => None,
            StackItem::Begun(at) => matches!(self.begin[at], Slot::Value | Slot::Null).then_some(()),
            _ => Some(()),
        }
    }

    /// Pops or pushes as many items as the stack effect says.
    fn move_by(&self, stack: &mut Vec<StackItem>, effect: i32) -> Option<()> {
        for _ in effect..0 {
            self.pop(stack)?;
        }
        stack.extend((0..effect).map(|_| StackItem::Item));
        Some(())
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
