//! New code for a frame whose graph breaks: the graph so far, stack and locals as CPython would have them, the breaking
//! instruction run natively, and a hand-over to the resume function behind it (for a branch: one on each side). If the break
//! is in a function that was followed, all frames down to it are laid out, and the hand-over is to all their resume
//! functions: each is an argument of its caller's.

use std::collections::HashSet;

use pyo3::prelude::*;
use pyo3::types::PyCode;

use super::hand_over::{instruction_at, Break, Item, Side, Value};
use super::native::{self, NativeFrames};
use super::{after_loop, CodeGen, NewCode};
use crate::bytecode::{stack_effect, Instruction, Label, Opcodes, Operand};
use crate::cpython;
use crate::error::{Flow, ReasonId, Unwind};
use crate::executor::{object_model, Block, BookkeepingVariable, BreakPoint, CallArgs, Checkpoint};
use crate::resume::{self, Entry, Finish};
use crate::tracker::Tracker;
use crate::translate::{self, ResumeSource};
use crate::variable::VarId;

impl Break<'_, '_> {
    fn instruction(&self) -> Instruction {
        instruction_at(self.at.innermost())
    }

    fn is_nested(&self) -> bool {
        self.at.frames.len() > 1
    }

    /// Whether a frame catches what the breaking instruction raises: in a handler, or as the end of a loop.
    fn is_caught(&self) -> bool {
        catching(self.at).is_some()
    }
}

/// The frame that catches what the breaking instruction raises; or the one that was called for the next item of a loop, which may
/// end so.
pub(super) fn catching(at: &BreakPoint) -> Option<usize> {
    let stops = |frame: &Checkpoint| frame.claim.as_ref().is_some_and(|claim| claim.finish == Finish::Next);
    let catches = |frame: &Checkpoint| catcher(frame).is_some() || stops(frame);
    at.frames.iter().rposition(catches).filter(|_| !at.is_between())
}

/// The stack depth that an exception of the frame's instruction unwinds to, if the frame catches it.
fn catcher(frame: &Checkpoint) -> Option<usize> {
    let blocks = &frame.blocks;
    let innermost = blocks.last().filter(|_| blocks.iter().any(|block| !block.in_handler));
    let block = innermost.map(Block::base);
    frame.unit.code.handler_at(frame.at).map(|handler| handler.depth as usize).or(block)
}

impl CodeGen<'_, '_> {
    /// Code that runs the graph, then the breaking instruction, and goes on in a resume function.
    pub fn compile_break(mut self, at: &BreakPoint, sources: &[ResumeSource<'_>], graph_name: &str) -> Flow<NewCode> {
        let of = &Break { at, sources };
        self.emitter.set_position(instruction_at(at.root()).position);
        self.adopt_cells(at.root());
        let live = self.live_values(at);
        let graphs = self.call_graph(&live, graph_name)?;
        self.store_classes()?;
        for &value in &live {
            self.keep_unless_stable(value)?;
        }
        for frame in &at.frames[1..] {
            self.keep_globals(frame.globals)?;
        }
        self.restore_effects()?;
        self.store_cells()?;
        self.forget_arguments(&live)?;
        if let Some(exception) = at.handled() {
            let block = self.emitter.before_handling()?;
            self.load_raised(Value::Known(exception))?;
            self.emitter.begin_handling(block)?;
        }
        let going = self.going_with_stack(of);
        let guarded = self.emitter.begin_guarded(of.is_caught() || !going.is_empty())?;
        self.break_here(of)?;
        if of.is_caught() {
            self.hand_over_exception(of, guarded)?;
        } else if !going.is_empty() {
            self.drop_and_raise(guarded, going)?;
        }
        self.handle_graph_error()?;
        self.handle_driven()?;
        Ok(NewCode { code: self.assemble()?.unbind(), graphs })
    }

    /// Where an exception of the breaking instruction goes: into the resume function of the frame that catches it, which starts by
    /// raising it.
    fn hand_over_exception(&mut self, of: &Break<'_, '_>, guarded: Label) -> Flow<()> {
        let (last, mut level) = (of.at.frames.len() - 1, catching(of.at).unwrap_or(0));
        if of.sources[level].finish_at(of.at.frames[level].at) == Some(Finish::Next) {
            if level == last {
                return Err(cannot("what ends a loop is raised where it goes on"));
            }
            level += 1;
        }
        let caught = BreakPoint { frames: of.at.frames[..=level].to_vec(), reason: of.at.reason.clone() };
        let exception = self.emitter.catch_guarded(guarded, of.at.handled().is_some())?;
        if of.at.handled().is_some() && caught.handled().is_none() {
            self.emitter.end_handling()?;
        }
        let (of, frame) = (&Break { at: &caught, sources: &of.sources[..=level] }, caught.innermost());
        if level > 0 {
            // The frames that the instruction ran in stand for those that the exception has left or is about to leave; the one
            // that raises it again adds no entry of its own.
            let trim = resume::trim_traceback(self.cx.py, level)?;
            self.begin_call(|cg| cg.load_const(trim))?;
            self.op("LOAD_FAST", exception)?;
            self.end_call(1)?;
            self.op("POP_TOP", 0)?;
        }
        let depth = catcher(frame).unwrap_or(0);
        let stack = self.layout(frame, depth);
        let raised = Some(Value::Left(exception));
        self.hand_over(of, &Side { place: frame.at, entry: Entry::Raise, stack: &stack, raised })
    }

    /// Where the new code holds what an exception that leaves the frames takes off their stacks, and what shows when it goes: the
    /// traceback would keep it. In the order in which it goes.
    fn going_with_stack(&self, of: &Break<'_, '_>) -> Vec<usize> {
        if of.is_caught() || of.at.is_between() || of.at.handled().is_some() {
            return Vec::new();
        }
        let frames = of.at.frames.iter().rev();
        let going = frames.flat_map(|frame| {
            // Arguments are the variables of the function that is called.
            let is_local = |value: VarId| of.at.frames.iter().any(|frame| frame.locals.contains(&Some(value)));
            let values = frame.stack.iter().rev().filter(move |value| !is_local(**value));
            values.filter(|value| self.cx.shows_when_dropped(**value))
        });
        going.filter_map(|value| self.holder(*value)).collect()
    }

    /// The local of the new code that holds a value.
    fn holder(&self, value: VarId) -> Option<usize> {
        match self.cx.trackers.get(self.cx.vars.tracker(value)) {
            _ if self.temps.contains_key(&value) => self.temps.get(&value).map(|temp| *temp as usize),
            Tracker::Local { slot, .. } => Some(*slot as usize),
            _ => None,
        }
    }

    /// An exception of the breaking instruction leaves the frames.
    fn drop_and_raise(&mut self, guarded: Label, going: Vec<usize>) -> Flow<()> {
        let exception = self.emitter.catch_guarded(guarded, false)?;
        self.forget(going)?;
        self.emitter.before_reraise()?;
        self.load_raised(Value::Left(exception))?;
        self.emitter.reraise()
    }

    /// The outermost frame's own cells are the real ones from here on.
    fn adopt_cells(&mut self, root: &Checkpoint) {
        for (index, &cell) in root.cells.iter().take(self.root.code.cellvars.len()).enumerate() {
            if cell != self.cx.null() {
                self.cells.insert(cell, index);
            }
        }
    }

    /// What lives on: stacks, locals, contents of the outermost frame's own cells, cells of the others.
    fn live_values(&self, at: &BreakPoint) -> Vec<VarId> {
        let value = |item| match item {
            Item::Value(Value::Known(value)) | Item::Handling(Value::Known(value)) => Some(value),
            _ => None,
        };
        let mut live: Vec<VarId> = Vec::new();
        for frame in &at.frames {
            live.extend(self.layout(frame, frame.stack.len()).into_iter().filter_map(value));
            live.extend(frame.locals.iter().flatten());
        }
        for frame in &at.frames[1..] {
            live.extend(frame.cells.iter().filter(|cell| **cell != self.cx.null()));
            let below = frame.claim.iter().flat_map(|claim| &claim.below);
            live.extend(below.filter_map(|below| value(self.item_of(frame, *below))));
        }
        for cell in self.cells.keys() {
            live.extend(self.cx.vars.get(*cell).children());
        }
        // That of a comprehension, in the place of one that the resume function was given; and that one, if it was given on the
        // stack of the comprehension.
        let is_free = |cell| matches!(self.cx.trackers.get(self.cx.vars.tracker(cell)), Tracker::FreeCell { .. });
        let own = |cell: &&VarId| **cell != self.cx.null() && !is_free(**cell);
        live.extend(at.root().cells.iter().filter(own));
        live.sort_unstable();
        live.dedup();
        live
    }

    /// Values that the breaking instruction could change on the way are taken before it runs.
    fn keep_unless_stable(&mut self, value: VarId) -> Flow<()> {
        let stable = match self.cx.trackers.get(self.cx.vars.tracker(value)) {
            // What is in a cell is about to be replaced.
            Tracker::Local { name, .. } => !self.root.code.cellvars.iter().any(|cell| **cell == **name),
            Tracker::Constant(_) | Tracker::Found(_) => true,
            _ => false,
        };
        if stable || self.cells.contains_key(&value) {
            return Ok(());
        }
        self.keep(value)
    }

    /// Arguments that the program has dropped by now die before the breaking instruction runs, which may look for them.
    fn forget_arguments(&mut self, live: &[VarId]) -> Flow<()> {
        let held: HashSet<&str> = live
            .iter()
            .filter_map(|&value| match self.cx.trackers.get(self.cx.vars.tracker(value)) {
                Tracker::Local { name, .. } => Some(&**name),
                _ => None,
            })
            .collect();
        let code = &self.root.code;
        let dropped = |slot: &usize| {
            let name = &code.varnames[*slot];
            !held.contains(&**name) && !code.cellvars.contains(name)
        };
        let slots: Vec<usize> = (0..code.total_args()).filter(dropped).collect();
        self.forget(slots)
    }

    /// Classes made in the trace are in their cells before values are made whose methods may find them there.
    fn store_classes(&mut self) -> Flow<()> {
        let arguments = self.root.code.total_args();
        let mut cells: Vec<(VarId, usize)> = self.cells.iter().map(|(cell, index)| (*cell, *index)).collect();
        cells.sort_by_key(|(_, index)| *index);
        for (cell, index) in cells {
            let Some(class) = self.cx.vars.get(cell).children().first().copied() else { continue };
            let made = matches!(self.cx.trackers.get(self.cx.vars.tracker(class)), Tracker::Made(_));
            if made && !self.root.code.varnames[..arguments].contains(&self.root.code.cellvars[index]) {
                self.load(class)?;
                self.emitter.cell_op("STORE_DEREF", index)?;
            }
        }
        Ok(())
    }

    fn store_cells(&mut self) -> Flow<()> {
        let mut cells: Vec<(VarId, usize)> = self.cells.iter().map(|(cell, index)| (*cell, *index)).collect();
        cells.sort_by_key(|(_, index)| *index);
        for (cell, _) in &cells {
            for contents in self.cx.vars.get(*cell).children() {
                self.keep(contents)?;
            }
        }
        let arguments = self.root.code.total_args();
        for (cell, index) in cells {
            if let Some(contents) = self.cx.vars.get(cell).children().first().copied() {
                self.load(contents)?;
                self.emitter.cell_op("STORE_DEREF", index)?;
            } else if self.root.code.varnames[..arguments].contains(&self.root.code.cellvars[index]) {
                self.emitter.cell_op("DELETE_DEREF", index)?;
            }
        }
        Ok(())
    }

    fn break_here(&mut self, of: &Break<'_, '_>) -> Flow<()> {
        let frame = of.at.innermost();
        if of.at.is_between() {
            let stack = self.layout(frame, frame.stack.len());
            return self.go_on(of, frame.at, &stack);
        }
        let mut instruction = of.instruction();
        let mut name = self.opcode_name(&instruction);
        let mut next = Label(frame.at.0 + 1);
        if name == "FOR_ITER" {
            return self.break_at_loop_head(of, &instruction, next);
        }
        match name.as_str() {
            "SETUP_WITH" => return self.break_at_with(of, &instruction, next),
            "WITH_EXCEPT_START" => return self.break_at_exit(of, next),
            "WITH_CLEANUP_START" => return self.break_at_cleanup(of, next),
            "RAISE_VARARGS" | "RERAISE" | "END_FINALLY" => return self.break_at_raise(of, &instruction, &name),
            _ => {}
        }
        let depth = frame.stack.len() - self.consumed(&name, &instruction, frame);
        let taken = frame.stack.len() - depth;
        let (below, operands) = (self.layout(frame, depth), &frame.stack[depth..]);
        if name == "DICT_MERGE" && operands.contains(&self.cx.null()) {
            return Err(cannot("a call whose keywords are being merged"));
        }
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
            self.call_frames(of.at, codes, operands, Self::load_operands)?;
            match (pair, left) {
                (Some(_), _) | (None, 1) => {}
                (None, 0) => self.op("POP_TOP", 0)?,
                (None, left) => self.op("UNPACK_SEQUENCE", left as u32)?,
            }
            pair
        } else {
            self.unbind(frame, &instruction)?;
            self.load_operands(operands)?;
            self.name_keywords(frame, &name)?;
            match self.empty_own_cell(frame, &instruction)? {
                Some(variable) => self.raise_unbound(variable, left)?,
                None => self.emitter.native(self.cx.py, &self.root, &instruction, &name)?,
            }
        };
        self.emitter.end_guarded()?;
        let items = match pair {
            Some(null_first) => {
                let value = self.left()?;
                if null_first {
                    vec![Item::Null, value]
                } else {
                    vec![value, Item::Null]
                }
            }
            // A sequence is unpacked with its first item on top.
            None if of.is_nested() && left > 1 => (0..left).map(|_| self.left()).collect::<Flow<_>>()?,
            None => self.store_left(left)?,
        };
        let mut stack: Vec<Item> = below.into_iter().chain(items).collect();
        if name == "CHECK_EG_MATCH" {
            self.follow_handled(&mut stack)?;
        }
        self.go_on(of, next, &stack)
    }

    fn go_on(&mut self, of: &Break<'_, '_>, place: Label, stack: &[Item]) -> Flow<()> {
        // Behind the call of a prologue there is the rest of what the instruction does.
        let call = place.0.checked_sub(1).map(Label);
        let source = &of.sources[of.sources.len() - 1];
        let finish = call.and_then(|call| source.finish_at(call)).filter(|finish| *finish != Finish::Keep);
        let (place, entry) = match (call, finish) {
            (Some(call), Some(finish)) => (call, Entry::Finish(finish)),
            _ => (place, Entry::Next),
        };
        self.hand_over(of, &Side { place, entry, stack, raised: None })
    }

    /// What the breaking instruction left on top of the stack.
    fn left(&mut self) -> Flow<Item> {
        Ok(Item::Value(Value::Left(self.emitter.store_new()?)))
    }

    /// The instruction raises: nothing runs behind it.
    fn break_at_raise(&mut self, of: &Break<'_, '_>, instruction: &Instruction, name: &str) -> Flow<()> {
        let raising = name == "RAISE_VARARGS";
        let taken = if raising { instruction.arg } else { self.emitter.raised_width() } as usize;
        let stack = &of.at.innermost().stack;
        let below = stack.len().checked_sub(taken).ok_or_else(|| cannot("a raise without its operands"))?;
        if of.is_nested() {
            let operands = &stack[below..];
            let codes = NativeFrames::new(self.cx, of.at).raise(operands, raising)?;
            self.call_frames(of.at, codes, operands, |cg, operands| {
                cg.load_operands(operands)?;
                cg.forget_raised(of)
            })?;
            self.emitter.end_guarded()?;
            return self.op("RETURN_VALUE", 0);
        }
        if !raising {
            self.emitter.before_reraise()?;
        }
        self.load_operands(&stack[below..])?;
        self.forget_raised(of)?;
        if raising {
            self.op(name, instruction.arg)?;
        } else {
            self.emitter.reraise()?;
        }
        self.emitter.end_guarded()
    }

    /// The traceback of an exception that leaves the frame holds the frame, which is not to hold the exception.
    fn forget_raised(&mut self, of: &Break<'_, '_>) -> Flow<()> {
        if of.is_caught() {
            return Ok(());
        }
        let going = self.going_with_stack(of);
        self.forget(self.value_slots().filter(|slot| !going.contains(slot)).collect())
    }

    /// `__enter__` is called; `__exit__` is kept below its result, and a block begins between the two (3.8 to 3.10).
    fn break_at_with(&mut self, of: &Break<'_, '_>, instruction: &Instruction, next: Label) -> Flow<()> {
        let frame = of.at.innermost();
        let (Some((&manager, below)), Some(handler)) = (frame.stack.split_last(), instruction.target) else {
            return Err(cannot("a `with` without a manager"));
        };
        let below = self.layout(frame, below.len());
        self.load(manager)?;
        self.emitter.enter_with()?;
        self.emitter.end_guarded()?;
        let result = self.left()?;
        let exit = self.left()?;
        let stack: Vec<Item> = below.into_iter().chain([exit, Item::Try(handler), result]).collect();
        self.go_on(of, next, &stack)
    }

    /// `__exit__` is told of the exception on top of the stack; what it says comes on top (3.9 and newer).
    fn break_at_exit(&mut self, of: &Break<'_, '_>, next: Label) -> Flow<()> {
        let frame = of.at.innermost();
        let stack = &frame.stack;
        let (exit, exception) = if self.emitter.raised_width() == 1 { (4, 1) } else { (7, 2) };
        let (Some(exit), Some(exception)) = (stack.len().checked_sub(exit), stack.len().checked_sub(exception)) else {
            return Err(cannot("a `with` without its exception"));
        };
        let (exit, exception) = (stack[exit], stack[exception]);
        let class = object_model::type_variable(self.cx, exception)?;
        let traceback = self.cx.traceback(exception);
        if of.is_nested() {
            let codes = NativeFrames::new(self.cx, of.at).call(4)?;
            self.call_frames(of.at, codes, &[exit, class, exception, traceback], Self::load_operands)?;
        } else {
            self.call_with(exit, &CallArgs::positional(vec![class, exception, traceback]))?;
        }
        self.emitter.end_guarded()?;
        let said = self.left()?;
        let stack: Vec<Item> = self.layout(frame, stack.len()).into_iter().chain([said]).collect();
        self.go_on(of, next, &stack)
    }

    /// `__exit__` is called and taken off the stack, from below what tells how the cleanup was entered (3.8).
    fn break_at_cleanup(&mut self, of: &Break<'_, '_>, next: Label) -> Flow<()> {
        let mut frame = of.at.innermost().clone();
        let entry = frame.stack.last().map(|&top| self.item_of(&frame, top));
        let raised = !matches!(entry, Some(Item::Fallen | Item::ReturnTo(_)));
        let exit = if raised { 7 } else { 2 };
        let Some(exit) = frame.stack.len().checked_sub(exit) else {
            return Err(cannot("a `with` without its manager"));
        };
        let none = self.cx.none();
        let exit = frame.stack.remove(exit);
        let mut told = [none; 3];
        if raised {
            told.copy_from_slice(&frame.stack[frame.stack.len() - 3..]);
            told.reverse();
            let filler = self.cx.bookkeeping(BookkeepingVariable::Fallen);
            frame.stack.insert(frame.stack.len() - 3, filler);
            frame.blocks.iter_mut().last().into_iter().for_each(|block| block.depth -= 1);
            frame.handled.iter_mut().last().into_iter().for_each(|handled| handled.depth -= 1);
        }
        self.call_with(exit, &CallArgs::positional(told.to_vec()))?;
        self.emitter.end_guarded()?;
        let said = self.left()?;
        frame.stack.push(told[0]);
        let stack: Vec<Item> = self.layout(&frame, frame.stack.len()).into_iter().chain([said]).collect();
        self.go_on(of, next, &stack)
    }

    /// `except*` changes what is handled to the part it catches.
    fn follow_handled(&mut self, stack: &mut [Item]) -> Flow<()> {
        let handled = resume::handled(self.cx.py)?;
        self.call(|cg| cg.load_const(handled), &[])?;
        let exception = Value::Left(self.emitter.store_new()?);
        if let Some(item) = stack.iter_mut().rev().find(|item| matches!(item, Item::Handling(_))) {
            *item = Item::Handling(exception);
        }
        Ok(())
    }

    /// A local that the program has unbound is an argument here.
    fn unbind(&mut self, frame: &Checkpoint, instruction: &Instruction) -> Flow<()> {
        let code = &self.root.code;
        let operand = Opcodes::get(self.cx.py).info(instruction.opcode).operand;
        let slot = instruction.arg as usize;
        let captured = |name: &String| code.cellvars.contains(name);
        let unbound = operand == Operand::Local
            && slot < code.total_args()
            && frame.locals[slot].is_none()
            && !captured(&code.varnames[slot]);
        if unbound {
            return self.op("DELETE_FAST", instruction.arg);
        }
        Ok(())
    }

    /// The name of the empty cell that the instruction of a resume function reads or deletes, if it is one of the function's own:
    /// here it is a free variable, of which CPython says something else.
    fn empty_own_cell(&mut self, frame: &Checkpoint, instruction: &Instruction) -> Flow<Option<String>> {
        let name = self.opcode_name(instruction);
        if !["LOAD_DEREF", "DELETE_DEREF"].contains(&name.as_str()) {
            return Ok(None);
        }
        let code = frame.unit.object.bind(self.cx.py).cast::<PyCode>().ok();
        let own = code.and_then(translate::own_cells_of).unwrap_or(0);
        let index = frame.unit.code.cell_index(instruction.arg).filter(|index| *index < own);
        let Some((index, &cell)) = index.and_then(|index| Some((index, frame.cells.get(index)?))) else {
            return Ok(None);
        };
        let cell = self.cx.see(cell)?;
        let is_empty = cell.kind() == "cell" && cell.children().is_empty();
        Ok(frame.unit.code.freevars.get(index).filter(|_| is_empty).cloned())
    }

    /// Raises the error of a local variable without a value, in the place of an instruction that leaves so many items.
    fn raise_unbound(&mut self, variable: String, left: usize) -> Flow<Option<bool>> {
        let raise = resume::unbound(self.cx.py, variable)?;
        self.call(|cg| cg.load_const(raise), &[])?;
        if left == 0 {
            self.op("POP_TOP", 0)?;
        }
        Ok(None)
    }

    /// Calls the frames in which the breaking instruction of a nested frame runs: each but the last is called with the next,
    /// and all with the operands as they are loaded here, and with what they are to hold.
    fn call_frames(
        &mut self,
        at: &BreakPoint,
        codes: Vec<Py<PyAny>>,
        operands: &[VarId],
        load: impl FnOnce(&mut Self, &[VarId]) -> Flow<()>,
    ) -> Flow<()> {
        let null = self.cx.null();
        let function = cpython::import(self.cx.py, "types")?.getattr("FunctionType")?.unbind();
        let mut functions = Vec::new();
        for (code, frame) in codes.into_iter().zip(&at.frames[1..]) {
            let function = function.clone_ref(self.cx.py);
            self.begin_call(|cg| cg.load_const(function))?;
            self.load_const(code)?;
            self.load_globals(frame.globals)?;
            self.end_call(2)?;
            functions.push(self.emitter.store_new()?);
        }
        let mut operands: Vec<VarId> = operands.iter().copied().filter(|operand| *operand != null).collect();
        operands.extend(native::held(self.cx, at).into_iter().rev().flatten());
        let (&first, rest) = functions.split_first().ok_or_else(|| cannot("a call of no frame"))?;
        self.begin_call(|cg| cg.op("LOAD_FAST", first))?;
        for &function in rest {
            self.op("LOAD_FAST", function)?;
        }
        load(self, &operands)?;
        self.end_call((rest.len() + operands.len()) as u32)
    }

    /// What answers a branch on a tensor faster than the branch does; the branch then asks the answer.
    fn truth(&self, branch: &str) -> Flow<Option<Py<PyAny>>> {
        // Others leave what they ask on the stack.
        let asks = branch.starts_with("POP_JUMP") && !branch.ends_with("NONE");
        Ok(if asks { self.cx.runtime.backend.truth(self.cx.py)? } else { None })
    }

    fn load_asked(&mut self, operands: &[VarId], truth: Option<Py<PyAny>>) -> Flow<()> {
        match (truth, operands) {
            (Some(truth), [operand, held @ ..]) => {
                self.begin_call(|cg| cg.load_const(truth))?;
                self.load(*operand)?;
                self.end_call(1)?;
                self.load_operands(held)
            }
            _ => self.load_operands(operands),
        }
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
        let truth = self.truth(name)?;
        let branch = if of.is_nested() {
            let codes = NativeFrames::new(self.cx, of.at).ask(operands, instruction, name)?;
            self.call_frames(of.at, codes, operands, |cg, operands| cg.load_asked(operands, truth))?;
            self.emitter.end_guarded()?;
            self.emitter.jump_if(true)?
        } else {
            self.load_asked(operands, truth)?;
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
            let items = if of.is_nested() {
                operands[..left].iter().map(|&item| self.item(item)).collect()
            } else {
                self.store_left(left)?
            };
            let stack: Vec<Item> = below.iter().copied().chain(items).collect();
            self.go_on(of, place, &stack)?;
        }
        Ok(())
    }

    /// The iterator is advanced; what came of it tells on which side to go on.
    fn break_at_loop_head(&mut self, of: &Break<'_, '_>, instruction: &Instruction, next: Label) -> Flow<()> {
        let after = after_loop(instruction)?;
        let frame = of.at.innermost();
        let (&iterator, below) = frame.stack.split_last().ok_or_else(|| cannot("a loop without an iterator"))?;
        if of.is_nested() {
            let codes = NativeFrames::new(self.cx, of.at).advance()?;
            self.call_frames(of.at, codes, &[iterator], Self::load_operands)?;
        } else {
            let advance = resume::advance(self.cx.py)?;
            self.call(|cg| cg.load_const(advance), &[iterator])?;
        }
        self.emitter.end_guarded()?;
        self.op("UNPACK_SEQUENCE", 2)?;
        let branch = self.emitter.jump_if(true)?;
        let item = self.left()?;
        let with_item: Vec<Item> = self.layout(frame, frame.stack.len()).into_iter().chain([item]).collect();
        self.go_on(of, next, &with_item)?;
        self.emitter.land(branch);
        self.op("POP_TOP", 0)?;
        let done = self.layout(frame, below.len());
        self.go_on(of, after, &done)
    }

    pub(super) fn opcode_name(&self, instruction: &Instruction) -> String {
        Opcodes::get(self.cx.py).name(instruction.opcode).to_owned()
    }

    /// How many stack items the instruction may touch.
    pub(super) fn consumed(&self, name: &str, instruction: &Instruction, frame: &Checkpoint) -> usize {
        let (stack, arg) = (&frame.stack, instruction.arg as usize);
        let handler = self.cx.runtime.dispatch.get(instruction.opcode);
        let known = match name {
            // Of those that write to a container, down to it; of a merge, to the callable that an error names.
            "CALL_KW" | "DICT_MERGE" => Some(arg + 3),
            "CALL" | "CALL_METHOD" | "CALL_FUNCTION_KW" | "BUILD_MAP_UNPACK_WITH_CALL" | "MAP_ADD" => Some(arg + 2),
            "BUILD_MAP" => Some(2 * arg),
            "BUILD_SLICE" => Some(arg),
            "BUILD_CONST_KEY_MAP"
            | "CALL_FUNCTION"
            | "LIST_APPEND"
            | "SET_ADD"
            | "LIST_EXTEND"
            | "SET_UPDATE"
            | "DICT_UPDATE" => Some(arg + 1),
            "CALL_FUNCTION_EX" => self.effect(instruction, false).ok().map(|effect| (1 - effect) as usize),
            "LOAD_ATTR"
            | "FOR_ITER"
            | "SETUP_WITH"
            | "LOAD_METHOD"
            | "UNPACK_SEQUENCE"
            | "UNPACK_EX"
            | "JUMP_IF_TRUE_OR_POP"
            | "JUMP_IF_FALSE_OR_POP" => Some(1),
            // With a format specification on top.
            "FORMAT_VALUE" => Some(1 + usize::from(arg & 4 != 0)),
            "LOAD_GLOBAL" | "WITH_EXCEPT_START" => Some(0),
            // Without an exception, the only one that is gone on with.
            "WITH_CLEANUP_START" => Some(2),
            "LOAD_SUPER_ATTR" => Some(3),
            _ => handler.and_then(|handler| handler.picture).map(|(inputs, _)| inputs.of(instruction.arg) as usize),
        };
        // Below the outermost NULL lies a call that is not finished, below a block what its handler is to find: no other
        // instruction reaches there.
        let above_null = stack.iter().rev().position(|item| *item == self.cx.null()).unwrap_or(stack.len());
        let above_block = frame.blocks.last().map_or(stack.len(), |block| stack.len() - block.base().min(stack.len()));
        known.unwrap_or(above_null.min(above_block)).min(stack.len())
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
            items.push(self.left()?);
        }
        items.reverse();
        Ok(items)
    }
}

fn cannot(why: impl Into<String>) -> Unwind {
    Unwind::fallback(ReasonId::CannotRestore, why)
}
