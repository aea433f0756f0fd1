//! New code for a frame whose graph breaks: the graph so far, stack and locals as CPython would have them, the breaking
//! instruction run natively, and a hand-over to the resume function behind it (for a branch: one on each side).

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyCode;

use super::{CodeGen, NewCode};
use crate::bytecode::{stack_effect, Instruction, Label, Opcodes};
use crate::error::{Flow, ReasonId, Unwind};
use crate::executor::BreakPoint;
use crate::resume::{self, HandOver, ResumeKey, Target};
use crate::tracker::Tracker;
use crate::translate::ResumeSource;
use crate::variable::VarId;

/// What one side of the hand-over finds on the stack.
#[derive(Clone, Copy)]
enum Item {
    /// A value that lay below the breaking instruction.
    Below(VarId),
    /// A NULL.
    Null,
    /// A value the breaking instruction left, in this local.
    Left(u32),
}

impl CodeGen<'_, '_> {
    /// Code that runs the graph, then the breaking instruction, and goes on in a resume function.
    pub fn compile_break(mut self, at: &BreakPoint, source: &ResumeSource, graph_name: &str) -> Flow<NewCode> {
        refuse_handler_bodies(at)?;
        let instruction = self.root.code.instructions[at.frame.at.index()];
        let catcher = self.catcher(at);
        self.emitter.set_position(instruction.position);
        self.adopt_cells(at);
        let live = self.live_values(at);
        let graphs = self.call_graph(&live, graph_name)?;
        for &value in &live {
            self.keep_unless_stable(value)?;
        }
        self.restore_effects()?;
        self.store_cells()?;
        let guarded = self.emitter.begin_guarded(catcher.is_some())?;
        self.break_here(at, &instruction, source)?;
        if let Some(depth) = catcher {
            self.hand_over_exception(at, guarded, depth, source)?;
        }
        Ok(NewCode { code: self.assemble()?.unbind(), graphs })
    }

    /// The stack depth that an exception of the breaking instruction unwinds to, if the frame catches it.
    fn catcher(&self, at: &BreakPoint) -> Option<usize> {
        let block = at.frame.blocks.last().map(|block| block.depth);
        self.root.code.handler_at(at.frame.at).map(|handler| handler.depth as usize).or(block)
    }

    /// Where an exception of the breaking instruction goes: into a resume function that starts by raising it.
    fn hand_over_exception(
        &mut self,
        at: &BreakPoint,
        guarded: Label,
        depth: usize,
        source: &ResumeSource,
    ) -> Flow<()> {
        let exception = self.emitter.catch_guarded(guarded)?;
        let below = at.frame.stack.iter().take(depth).map(|&item| self.item(item));
        let stack: Vec<Item> = below.chain([Item::Left(exception)]).collect();
        self.hand_over(at, &stack, |_, target| HandOver::To(target), &[(at.frame.at, stack.clone())], true, source)
    }

    /// The frame's own cells are the real ones from here on.
    fn adopt_cells(&mut self, at: &BreakPoint) {
        for (index, &cell) in at.frame.cells.iter().take(self.root.code.cellvars.len()).enumerate() {
            self.cells.insert(cell, index);
        }
    }

    /// What lives on: stack, locals, contents of the frame's own cells.
    fn live_values(&self, at: &BreakPoint) -> Vec<VarId> {
        let null = self.cx.null();
        let mut live: Vec<VarId> = at.frame.stack.iter().copied().filter(|item| *item != null).collect();
        live.extend(at.frame.locals.iter().flatten());
        for cell in self.cells.keys() {
            live.extend(self.cx.vars.get(*cell).children());
        }
        live.sort_unstable();
        live.dedup();
        live
    }

    /// Values that the breaking instruction could change on the way are taken before it runs.
    fn keep_unless_stable(&mut self, value: VarId) -> Flow<()> {
        let tracker = self.cx.vars.tracker(value);
        let stable = matches!(self.cx.trackers.get(tracker), Tracker::Local { .. } | Tracker::Constant(_));
        if stable || self.cells.contains_key(&value) {
            return Ok(());
        }
        self.keep(value)
    }

    fn store_cells(&mut self) -> Flow<()> {
        let mut cells: Vec<(VarId, usize)> = self.cells.iter().map(|(cell, index)| (*cell, *index)).collect();
        cells.sort_by_key(|(_, index)| *index);
        for (cell, _) in &cells {
            for contents in self.cx.vars.get(*cell).children() {
                self.keep(contents)?;
            }
        }
        for (cell, index) in cells {
            if let Some(contents) = self.cx.vars.get(cell).children().first().copied() {
                self.load(contents)?;
                self.emitter.cell_op("STORE_DEREF", index)?;
            }
        }
        Ok(())
    }

    fn break_here(&mut self, at: &BreakPoint, instruction: &Instruction, source: &ResumeSource) -> Flow<()> {
        let py = self.cx.py;
        let name = Opcodes::get(py).name(instruction.opcode).to_owned();
        let next = Label(at.frame.at.0 + 1);
        if name == "FOR_ITER" {
            return self.break_at_loop_head(at, instruction, next, source);
        }
        let depth = at.frame.stack.len();
        let taken = self.consumed(&name, instruction, &at.frame.stack);
        let below: Vec<Item> = at.frame.stack[..depth - taken].iter().map(|&item| self.item(item)).collect();
        self.load_operands(&at.frame.stack[depth - taken..])?;
        if let (Some(names), true) = (&at.frame.keyword_names, name == "CALL") {
            let names: Vec<&str> = names.iter().map(|name| &**name).collect();
            self.emitter.keyword_names(py, &names)?;
        }
        if let Some(jump) = instruction.target {
            return self.break_at_branch(at, instruction, &name, (next, jump), below, taken, source);
        }
        if name == "TO_BOOL" {
            // The branch that asks belongs to the question, and asks again.
            let branch = self.root.code.instructions[next.index()];
            let branch_name = Opcodes::get(py).name(branch.opcode).to_owned();
            if let (Some(jump), true) = (branch.target, branch_name.starts_with("POP_JUMP")) {
                let sides = (Label(next.0 + 1), jump);
                return self.break_at_branch(at, &branch, &branch_name, sides, below, taken, source);
            }
        }
        let pair = self.emitter.native(py, &self.root, instruction, &name)?;
        self.emitter.end_guarded()?;
        // Of a call CPython 3.11 books the arguments to an instruction before it.
        let left = if name == "CALL" { 1 } else { (taken as i32 + self.effect(instruction, false)?) as usize };
        let items = match pair {
            Some(null_first) => {
                let value = Item::Left(self.emitter.store_new()?);
                if null_first {
                    vec![Item::Null, value]
                } else {
                    vec![value, Item::Null]
                }
            }
            None => self.store_left(left)?,
        };
        let stack = below.into_iter().chain(items).collect::<Vec<_>>();
        self.hand_over(at, &stack, |_, target| HandOver::To(target), &[(next, stack.clone())], false, source)
    }

    #[allow(clippy::too_many_arguments, reason = "the two sides of a branch are told by all of them")]
    fn break_at_branch(
        &mut self,
        at: &BreakPoint,
        instruction: &Instruction,
        name: &str,
        (next, jump): (Label, Label),
        below: Vec<Item>,
        taken: usize,
        source: &ResumeSource,
    ) -> Flow<()> {
        if !name.ends_with("NONE") {
            self.emitter.before_branch()?;
        }
        let branch = self.emitter.native_jump(name, instruction)?;
        self.emitter.end_guarded()?;
        for (place, jumped) in [(next, false), (jump, true)] {
            if jumped {
                self.emitter.land(branch);
                self.emitter.leave_block()?;
            }
            let left = (taken as i32 + self.effect(instruction, jumped)?) as usize;
            let items = self.store_left(left)?;
            let stack: Vec<Item> = below.iter().copied().chain(items).collect();
            self.hand_over(at, &stack, |_, target| HandOver::To(target), &[(place, stack.clone())], false, source)?;
        }
        Ok(())
    }

    /// The iterator is advanced; what came of it tells the hand-over on which side to go on.
    fn break_at_loop_head(
        &mut self,
        at: &BreakPoint,
        instruction: &Instruction,
        next: Label,
        source: &ResumeSource,
    ) -> Flow<()> {
        let exhausted = self.emitter.after_loop(instruction)?;
        let mut stack: Vec<Item> = at.frame.stack.iter().map(|&item| self.item(item)).collect();
        let given = stack.clone();
        let done: Vec<Item> = stack[..stack.len() - 1].to_vec();
        if let Some(Item::Below(iterator)) = given.last().copied() {
            let advance = resume::advance(self.cx.py)?;
            self.call(|cg| cg.load_const(advance), &[iterator])?;
        }
        self.emitter.end_guarded()?;
        let next_item = Item::Left(self.emitter.store_new()?);
        stack.push(next_item);
        let given: Vec<Item> = given.into_iter().chain([next_item]).collect();
        let sides = [(next, stack), (exhausted, done)];
        let make = |targets: &[Arc<Target>], item| HandOver::ForIter { item, exhausted: targets[1].clone() };
        self.hand_over(at, &given, make, &sides, false, source)
    }

    fn item(&self, variable: VarId) -> Item {
        if variable == self.cx.null() {
            Item::Null
        } else {
            Item::Below(variable)
        }
    }

    /// How many stack items the instruction may touch.
    fn consumed(&self, name: &str, instruction: &Instruction, stack: &[VarId]) -> usize {
        let arg = instruction.arg as usize;
        let handler = self.cx.runtime.dispatch.get(instruction.opcode);
        let known = match name {
            "CALL_KW" => Some(arg + 3),
            "CALL" | "CALL_METHOD" | "CALL_FUNCTION_KW" => Some(arg + 2),
            "CALL_FUNCTION" => Some(arg + 1),
            "LOAD_ATTR" | "LOAD_METHOD" => Some(1),
            _ => handler.and_then(|handler| handler.picture).map(|(inputs, _)| inputs.of(instruction.arg) as usize),
        };
        // Below the outermost NULL lies a call that is not finished: no other instruction reaches there.
        let above_null = stack.iter().rev().position(|item| *item == self.cx.null()).unwrap_or(stack.len());
        known.unwrap_or(above_null).min(stack.len())
    }

    fn effect(&self, instruction: &Instruction, jump: bool) -> Flow<i32> {
        stack_effect(self.cx.py, instruction.opcode, instruction.arg, jump)
            .map_err(|error| Unwind::fallback(ReasonId::CannotRestore, error.to_string()))
    }

    fn load_operands(&mut self, operands: &[VarId]) -> Flow<()> {
        for &operand in operands {
            if operand == self.cx.null() {
                self.emitter.push_null()?;
            } else {
                self.load(operand)?;
            }
        }
        Ok(())
    }

    /// Moves so many items off the stack into locals, the deepest first in the result.
    fn store_left(&mut self, count: usize) -> Flow<Vec<Item>> {
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(Item::Left(self.emitter.store_new()?));
        }
        items.reverse();
        Ok(items)
    }

    #[allow(clippy::too_many_arguments, reason = "a hand-over is told by all of them")]
    /// Calls the hand-over with cells, locals and `given`, for resume functions at the places with the stacks of `sides`.
    fn hand_over(
        &mut self,
        at: &BreakPoint,
        given: &[Item],
        make: impl FnOnce(&[Arc<Target>], Arc<Target>) -> HandOver,
        sides: &[(Label, Vec<Item>)],
        raises: bool,
        source: &ResumeSource,
    ) -> Flow<()> {
        let py = self.cx.py;
        let locals = self.resumed_locals(at, source);
        let cells = source.unit.code.cellvars.len() + source.unit.code.freevars.len();
        let mut targets = Vec::new();
        for (place, stack) in sides {
            let key = ResumeKey {
                at: source.original(*place)?,
                bound: locals.iter().map(Option::is_some).collect(),
                stack: stack.iter().map(|item| !matches!(item, Item::Null)).collect(),
                blocks: at
                    .frame
                    .blocks
                    .iter()
                    .map(|block| Ok((block.depth, source.original(block.handler)?)))
                    .collect::<Flow<_>>()?,
                raises,
            };
            let code = source.resume_code(py, &key, self.emitter.position())?;
            let code = code.bind(py).cast::<PyCode>().map_err(PyErr::from)?.clone();
            targets.push(Target::new(&code, cells)?);
        }
        let hand_over = make(&targets, targets[0].clone()).callable(py, !source.is_resume())?;
        self.begin_call(|cg| cg.load_const(hand_over))?;
        for cell in 0..cells {
            self.emitter.load_closure(cell)?;
        }
        let none = self.cx.none();
        for local in &locals {
            self.load(local.unwrap_or(none))?;
        }
        let mut argc = (cells + locals.len()) as u32;
        for item in given {
            match item {
                Item::Below(value) => self.load(*value)?,
                Item::Left(local) => self.op("LOAD_FAST", *local)?,
                Item::Null => continue,
            }
            argc += 1;
        }
        self.end_call(argc)?;
        self.op("RETURN_VALUE", 0)
    }

    /// The locals of the original code; the first argument of a method stays one even where a closure captured it, for the
    /// `super()` that looks for it there.
    fn resumed_locals(&self, at: &BreakPoint, source: &ResumeSource) -> Vec<Option<VarId>> {
        let mut locals: Vec<Option<VarId>> = at.frame.locals[..source.unit.code.varnames.len()].to_vec();
        let captured = self.root.code.cellvars.iter().position(|cell| self.root.code.varnames.first() == Some(cell));
        if let (Some(cell), Some(None)) = (captured, locals.first()) {
            let variable = self.cells.iter().find(|(_, index)| **index == cell).map(|(variable, _)| *variable);
            locals[0] = variable.and_then(|variable| self.cx.vars.get(variable).children().first().copied());
        }
        locals
    }
}

/// Inside the body of a handler the interpreter keeps an exception that a resume function could not give it.
fn refuse_handler_bodies(at: &BreakPoint) -> Flow<()> {
    if at.frame.handled.is_some() || at.frame.blocks.iter().any(|block| block.in_handler) {
        return Err(Unwind::fallback(at.reason.id, format!("{} (while an exception is handled)", at.reason.text)));
    }
    Ok(())
}
