//! New code for a frame whose graph breaks: the graph so far, stack and locals as CPython would have them, the breaking
//! instruction run natively, and a hand-over to the resume function behind it (for a branch: one on each side). If the break
//! is in a function that was followed, all frames down to it are laid out, and the hand-over is to all their resume
//! functions: each is an argument of its caller's.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyCode;

use super::native::NativeFrames;
use super::{CodeGen, NewCode};
use crate::bytecode::{stack_effect, Instruction, Label, Opcodes};
use crate::error::{Flow, ReasonId, Unwind};
use crate::executor::{BreakPoint, Checkpoint};
use crate::resume::{self, Entry, ResumeKey, Target};
use crate::tracker::Tracker;
use crate::translate::ResumeSource;
use crate::variable::VarId;
use crate::version::PyVersion;

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

/// A graph break, with the original code of each of its frames.
struct Break<'a, 'py> {
    at: &'a BreakPoint,
    sources: &'a [ResumeSource<'py>],
}

/// A side of the hand-over: where the innermost frame goes on, and with what on its stack.
struct Side<'a> {
    place: Label,
    entry: Entry,
    stack: &'a [Item],
}

/// What the resume function of a frame is given, and the code it is made of.
struct Resumed {
    target: Arc<Target>,
    locals: Vec<Option<VarId>>,
    stack: Vec<Item>,
    cells: usize,
    /// How many arguments it takes.
    arguments: usize,
}

impl Break<'_, '_> {
    fn instruction(&self) -> Instruction {
        instruction_at(self.at.innermost())
    }

    fn is_nested(&self) -> bool {
        self.at.frames.len() > 1
    }

    /// Whether a frame catches what the breaking instruction raises.
    fn is_caught(&self) -> bool {
        self.at.frames.iter().any(|frame| catcher(frame).is_some())
    }
}

fn instruction_at(frame: &Checkpoint) -> Instruction {
    frame.unit.code.instructions[frame.at.index()]
}

/// The stack depth that an exception of the frame's instruction unwinds to, if the frame catches it.
fn catcher(frame: &Checkpoint) -> Option<usize> {
    let block = frame.blocks.last().map(|block| block.depth);
    frame.unit.code.handler_at(frame.at).map(|handler| handler.depth as usize).or(block)
}

impl CodeGen<'_, '_> {
    /// Code that runs the graph, then the breaking instruction, and goes on in a resume function.
    pub fn compile_break(
        mut self,
        at: &BreakPoint,
        sources: &[ResumeSource<'_>],
        graph_name: &str,
    ) -> Flow<NewCode> {
        refuse_handler_bodies(at)?;
        let of = &Break { at, sources };
        self.emitter.set_position(instruction_at(at.root()).position);
        self.adopt_cells(at.root());
        let live = self.live_values(at);
        let graphs = self.call_graph(&live, graph_name)?;
        for &value in &live {
            self.keep_unless_stable(value)?;
        }
        self.restore_effects()?;
        self.store_cells()?;
        let guarded = self.emitter.begin_guarded(of.is_caught())?;
        self.break_here(of)?;
        if of.is_caught() {
            self.hand_over_exception(of, guarded)?;
        }
        Ok(NewCode { code: self.assemble()?.unbind(), graphs })
    }

    /// Where an exception of the breaking instruction goes: into a resume function that starts by raising it.
    fn hand_over_exception(&mut self, of: &Break<'_, '_>, guarded: Label) -> Flow<()> {
        let frame = of.at.innermost();
        let exception = self.emitter.catch_guarded(guarded)?;
        if of.is_nested() {
            // The frames that the instruction ran in stand for those that the exception is about to leave, and the innermost
            // adds no entry of its own since 3.11.
            let raised_anew = usize::from(self.cx.runtime.version < PyVersion(11));
            let trim = resume::trim_traceback(self.cx.py, of.at.frames.len() - 1 + raised_anew)?;
            self.begin_call(|cg| cg.load_const(trim))?;
            self.op("LOAD_FAST", exception)?;
            self.end_call(1)?;
            self.op("POP_TOP", 0)?;
        }
        let depth = catcher(frame).unwrap_or(0);
        let mut stack = self.items(&frame.stack[..depth]);
        stack.push(Item::Left(exception));
        self.hand_over(of, &Side { place: frame.at, entry: Entry::Raise, stack: &stack })
    }

    /// The outermost frame's own cells are the real ones from here on.
    fn adopt_cells(&mut self, root: &Checkpoint) {
        for (index, &cell) in root.cells.iter().take(self.root.code.cellvars.len()).enumerate() {
            self.cells.insert(cell, index);
        }
    }

    /// What lives on: stacks, locals, contents of the outermost frame's own cells, cells of the others.
    fn live_values(&self, at: &BreakPoint) -> Vec<VarId> {
        let null = self.cx.null();
        let mut live: Vec<VarId> = Vec::new();
        for frame in &at.frames {
            live.extend(frame.stack.iter().copied().filter(|item| *item != null));
            live.extend(frame.locals.iter().flatten());
        }
        for frame in &at.frames[1..] {
            live.extend(&frame.cells);
        }
        for cell in self.cells.keys() {
            live.extend(self.cx.vars.get(*cell).children());
        }
        live.sort_unstable();
        live.dedup();
        live
    }

    /// Values that the breaking instruction could change on the way are taken before it runs.
    fn keep_unless_stable(&mut self, value: VarId) -> Flow<()> {
        let stable = match self.cx.trackers.get(self.cx.vars.tracker(value)) {
            // What is in a cell is about to be replaced.
            Tracker::Local { name, .. } => !self.root.code.cellvars.iter().any(|cell| **cell == **name),
            Tracker::Constant(_) => true,
            _ => false,
        };
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

    fn break_here(&mut self, of: &Break<'_, '_>) -> Flow<()> {
        let frame = of.at.innermost();
        let mut instruction = of.instruction();
        let mut name = self.opcode_name(&instruction);
        let mut next = Label(frame.at.0 + 1);
        if name == "FOR_ITER" {
            return self.break_at_loop_head(of, &instruction, next);
        }
        let taken = self.consumed(&name, &instruction, &frame.stack);
        if name == "DICT_MERGE" && frame.stack.iter().rev().take(taken).any(|item| *item == self.cx.null()) {
            return Err(cannot("a call whose keywords are being merged"));
        }
        let (below, operands) = frame.stack.split_at(frame.stack.len() - taken);
        let below = self.items(below);
        if name == "TO_BOOL" {
            // The branch that asks belongs to the question, and asks again.
            let branch = frame.unit.code.instructions[next.index()];
            let branch_name = self.opcode_name(&branch);
            if branch.target.is_some() && branch_name.starts_with("POP_JUMP") {
                (instruction, name, next) = (branch, branch_name, Label(next.0 + 1));
            }
        }
        if let Some(jump) = instruction.target {
            return self.break_at_branch(of, &instruction, &name, (next, jump), below, operands);
        }
        // Of a call CPython 3.11 books the arguments to an instruction before it.
        let left = if name == "CALL" { 1 } else { (taken as i32 + self.effect(&instruction, false)?) as usize };
        let pair = if of.is_nested() {
            let frames = NativeFrames::new(self.cx, of.at);
            let pair = frames.leaves_pair(&instruction, &name);
            let codes = frames.run(operands, &name, if pair.is_some() { 1 } else { left })?;
            self.call_frames(of.at, codes, operands)?;
            match (pair, left) {
                (Some(_), _) | (None, 1) => {}
                (None, 0) => self.op("POP_TOP", 0)?,
                (None, left) => self.op("UNPACK_SEQUENCE", left as u32)?,
            }
            pair
        } else {
            self.load_operands(operands)?;
            self.name_keywords(frame, &name)?;
            self.emitter.native(self.cx.py, &self.root, &instruction, &name)?
        };
        self.emitter.end_guarded()?;
        let items = match pair {
            Some(null_first) => {
                let value = Item::Left(self.emitter.store_new()?);
                if null_first {
                    vec![Item::Null, value]
                } else {
                    vec![value, Item::Null]
                }
            }
            // A sequence is unpacked with its first item on top.
            None if of.is_nested() && left > 1 => {
                (0..left).map(|_| self.emitter.store_new().map(Item::Left)).collect::<Flow<_>>()?
            }
            None => self.store_left(left)?,
        };
        let stack: Vec<Item> = below.into_iter().chain(items).collect();
        self.hand_over(of, &Side { place: next, entry: Entry::Next, stack: &stack })
    }

    /// Calls the frames in which the breaking instruction of a nested frame runs: each but the last is called with the next,
    /// and all with the operands.
    fn call_frames(&mut self, at: &BreakPoint, codes: Vec<Py<PyAny>>, operands: &[VarId]) -> Flow<()> {
        let null = self.cx.null();
        let function = self.cx.py.import("types")?.getattr("FunctionType")?.unbind();
        let mut functions = Vec::new();
        for (code, frame) in codes.into_iter().zip(&at.frames[1..]) {
            let function = function.clone_ref(self.cx.py);
            self.begin_call(|cg| cg.load_const(function))?;
            self.load_const(code)?;
            self.load_globals(frame.globals)?;
            self.end_call(2)?;
            functions.push(self.emitter.store_new()?);
        }
        let operands: Vec<VarId> = operands.iter().copied().filter(|operand| *operand != null).collect();
        let (&first, rest) = functions.split_first().ok_or_else(|| cannot("a call of no frame"))?;
        self.begin_call(|cg| cg.op("LOAD_FAST", first))?;
        for &function in rest {
            self.op("LOAD_FAST", function)?;
        }
        for &operand in &operands {
            self.load(operand)?;
        }
        self.end_call((rest.len() + operands.len()) as u32)
    }

    fn break_at_branch(
        &mut self,
        of: &Break<'_, '_>,
        instruction: &Instruction,
        name: &str,
        (next, jump): (Label, Label),
        below: Vec<Item>,
        operands: &[VarId],
    ) -> Flow<()> {
        let branch = if of.is_nested() {
            let codes = NativeFrames::new(self.cx, of.at).ask(operands, instruction, name)?;
            self.call_frames(of.at, codes, operands)?;
            self.emitter.end_guarded()?;
            self.emitter.jump_if_true()?
        } else {
            self.load_operands(operands)?;
            if !name.ends_with("NONE") {
                self.emitter.before_branch()?;
            }
            let branch = self.emitter.native_jump(name, instruction)?;
            self.emitter.end_guarded()?;
            branch
        };
        for (place, jumped) in [(next, false), (jump, true)] {
            if jumped {
                self.emitter.land(branch);
                if !of.is_nested() {
                    self.emitter.leave_block()?;
                }
            }
            let left = (operands.len() as i32 + self.effect(instruction, jumped)?) as usize;
            let items = if of.is_nested() { self.items(&operands[..left]) } else { self.store_left(left)? };
            let stack: Vec<Item> = below.iter().copied().chain(items).collect();
            self.hand_over(of, &Side { place, entry: Entry::Next, stack: &stack })?;
        }
        Ok(())
    }

    /// The iterator is advanced; what came of it tells on which side to go on.
    fn break_at_loop_head(&mut self, of: &Break<'_, '_>, instruction: &Instruction, next: Label) -> Flow<()> {
        let after = self.emitter.after_loop(instruction)?;
        let stack = &of.at.innermost().stack;
        let (&iterator, below) = stack.split_last().ok_or_else(|| cannot("a loop without an iterator"))?;
        if of.is_nested() {
            let codes = NativeFrames::new(self.cx, of.at).advance()?;
            self.call_frames(of.at, codes, &[iterator])?;
        } else {
            let advance = resume::advance(self.cx.py)?;
            self.call(|cg| cg.load_const(advance), &[iterator])?;
        }
        self.emitter.end_guarded()?;
        self.op("UNPACK_SEQUENCE", 2)?;
        let branch = self.emitter.jump_if_true()?;
        let item = Item::Left(self.emitter.store_new()?);
        let with_item: Vec<Item> = self.items(stack).into_iter().chain([item]).collect();
        self.hand_over(of, &Side { place: next, entry: Entry::Next, stack: &with_item })?;
        self.emitter.land(branch);
        self.op("POP_TOP", 0)?;
        let done = self.items(below);
        self.hand_over(of, &Side { place: after, entry: Entry::Next, stack: &done })
    }

    fn items(&self, stack: &[VarId]) -> Vec<Item> {
        let null = self.cx.null();
        stack.iter().map(|&item| if item == null { Item::Null } else { Item::Below(item) }).collect()
    }

    fn opcode_name(&self, instruction: &Instruction) -> String {
        Opcodes::get(self.cx.py).name(instruction.opcode).to_owned()
    }

    /// How many stack items the instruction may touch.
    fn consumed(&self, name: &str, instruction: &Instruction, stack: &[VarId]) -> usize {
        let arg = instruction.arg as usize;
        let handler = self.cx.runtime.dispatch.get(instruction.opcode);
        let known = match name {
            // Of those that write to a container, down to it; of a merge, to the callable that an error names.
            "CALL_KW" | "DICT_MERGE" => Some(arg + 3),
            "CALL" | "CALL_METHOD" | "CALL_FUNCTION_KW" | "MAP_ADD" => Some(arg + 2),
            "CALL_FUNCTION" | "LIST_APPEND" | "SET_ADD" | "LIST_EXTEND" | "SET_UPDATE" | "DICT_UPDATE" => Some(arg + 1),
            "CALL_FUNCTION_EX" => self.effect(instruction, false).ok().map(|effect| (1 - effect) as usize),
            "LOAD_ATTR" | "LOAD_METHOD" => Some(1),
            _ => handler.and_then(|handler| handler.picture).map(|(inputs, _)| inputs.of(instruction.arg) as usize),
        };
        // Below the outermost NULL lies a call that is not finished: no other instruction reaches there.
        let above_null = stack.iter().rev().position(|item| *item == self.cx.null()).unwrap_or(stack.len());
        known.unwrap_or(above_null).min(stack.len())
    }

    fn effect(&self, instruction: &Instruction, jump: bool) -> Flow<i32> {
        stack_effect(self.cx.py, instruction.opcode, instruction.arg, jump).map_err(|error| cannot(error.to_string()))
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

    fn name_keywords(&mut self, frame: &Checkpoint, name: &str) -> Flow<()> {
        match &frame.keyword_names {
            Some(names) if name == "CALL" => self.emitter.keyword_names(self.cx.py, names),
            _ => Ok(()),
        }
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

    /// Calls the hand-over with the cells, locals and stack of each frame, and returns what it gives.
    fn hand_over(&mut self, of: &Break<'_, '_>, side: &Side<'_>) -> Flow<()> {
        let py = self.cx.py;
        let frames = self.resumed_frames(of, side)?;
        let hand_over = frames[0].target.clone().hand_over(py, of.sources[0].is_driving())?;
        let none = self.cx.none();
        self.begin_call(|cg| cg.load_const(hand_over))?;
        for cell in 0..frames[0].cells {
            self.emitter.load_closure(cell)?;
        }
        for (level, frame) in frames.iter().enumerate() {
            if level > 0 {
                let (maker, saved) = (frame.target.clone().maker(py)?, &of.at.frames[level]);
                self.begin_call(|cg| cg.load_const(maker))?;
                self.load_globals(saved.globals)?;
                for &cell in &saved.cells {
                    self.load(cell)?;
                }
                self.end_call(1 + saved.cells.len() as u32)?;
            }
            for local in &frame.locals {
                self.load(local.unwrap_or(none))?;
            }
            for item in &frame.stack {
                match item {
                    Item::Below(value) => self.load(*value)?,
                    Item::Left(local) => self.op("LOAD_FAST", *local)?,
                    Item::Null => {}
                }
            }
        }
        self.end_call((frames[0].cells + frames[0].arguments) as u32)?;
        self.op("RETURN_VALUE", 0)
    }

    /// The resume function of each frame, the outermost first.
    fn resumed_frames(&mut self, of: &Break<'_, '_>, side: &Side<'_>) -> Flow<Vec<Resumed>> {
        let mut resumed: Vec<Resumed> = Vec::new();
        for (level, frame) in of.at.frames.iter().enumerate().rev() {
            let (place, entry, stack) = match resumed.last() {
                None => (side.place, side.entry, side.stack.to_vec()),
                Some(inner) => (frame.at, Entry::Return(inner.arguments), self.below_call(frame)),
            };
            let source = &of.sources[level];
            let locals = self.resumed_locals(frame, source);
            let key = ResumeKey {
                at: source.original(place)?,
                bound: locals.iter().map(Option::is_some).collect(),
                stack: stack.iter().map(|item| !matches!(item, Item::Null)).collect(),
                blocks: frame
                    .blocks
                    .iter()
                    .map(|block| Ok((block.depth, source.original(block.handler)?)))
                    .collect::<Flow<_>>()?,
                entry,
                nested: level > 0,
            };
            let code = source.resume_code(self.cx.py, &key, instruction_at(frame).position)?;
            let code = code.bind(self.cx.py).cast::<PyCode>().map_err(PyErr::from)?.clone();
            let cells = source.unit.code.cellvars.len() + source.unit.code.freevars.len();
            let inner = resumed.last().map_or(0, |inner| 1 + inner.arguments);
            let values = stack.iter().filter(|item| !matches!(item, Item::Null)).count();
            let arguments = locals.len() + values + inner;
            resumed.push(Resumed { target: Target::new(&code, cells)?, locals, stack, cells, arguments });
        }
        resumed.reverse();
        Ok(resumed)
    }

    /// The stack of a frame that is about to call the next one, without the call.
    fn below_call(&self, frame: &Checkpoint) -> Vec<Item> {
        let call = instruction_at(frame);
        let taken = self.consumed(&self.opcode_name(&call), &call, &frame.stack);
        self.items(&frame.stack[..frame.stack.len() - taken])
    }

    /// The locals of the original code; the first argument of a method stays one even where a closure captured it, for the
    /// `super()` that looks for it there.
    fn resumed_locals(&self, frame: &Checkpoint, source: &ResumeSource<'_>) -> Vec<Option<VarId>> {
        let mut locals: Vec<Option<VarId>> = frame.locals[..source.unit.code.varnames.len()].to_vec();
        let code = &frame.unit.code;
        let captured = code.cellvars.iter().position(|cell| code.varnames.first() == Some(cell));
        if let (Some(cell), Some(None)) = (captured, locals.first()) {
            locals[0] = self.cx.vars.get(frame.cells[cell]).children().first().copied();
        }
        locals
    }
}

fn cannot(why: impl Into<String>) -> Unwind {
    Unwind::fallback(ReasonId::CannotRestore, why)
}

/// Inside the body of a handler the interpreter keeps an exception that a resume function could not give it.
fn refuse_handler_bodies(at: &BreakPoint) -> Flow<()> {
    let root = at.root();
    if root.handled.is_some() || root.blocks.iter().any(|block| block.in_handler) {
        return Err(Unwind::fallback(at.reason.id, format!("{} (while an exception is handled)", at.reason.text)));
    }
    Ok(())
}
