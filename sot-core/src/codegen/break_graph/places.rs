//! Writes the instruction that a graph breaks at, by its kind: the stack below it, how it runs, and where the frame
//! continues.

use super::super::native::NativeFrames;
use super::{cannot, BreakCodeGen};
use crate::bytecode::{Instruction, Label, Op};
use crate::emit::after_loop;
use crate::error::Flow;
use crate::machine::executor::{CallArgs, Checkpoint};
use crate::machine::opcode::{self, AtBreak};
use crate::machine::variable::{Rebuild, VarId};
use crate::resume::{self, Item};

impl BreakCodeGen<'_, '_> {
    pub(super) fn break_here(&mut self) -> Flow<()> {
        let frame = self.at.innermost();
        if self.at.is_between() {
            let stack = self.layout(frame, frame.stack.len());
            return self.go_on(frame.at, stack);
        }
        let (instruction, next) = (self.instruction(), Label(frame.at.0 + 1));
        match opcode::describe(instruction.opcode).at_break {
            AtBreak::Advance => self.break_at_loop_head(&instruction, next),
            AtBreak::EnterWith => self.break_at_with(&instruction, next),
            AtBreak::ExitWith => self.break_at_exit(next),
            AtBreak::CleanUp => self.break_at_cleanup(next),
            AtBreak::Raise => self.break_at_raise(&instruction, true),
            AtBreak::RaiseAgain => self.break_at_raise(&instruction, false),
            AtBreak::Run => self.break_at_operation(&instruction, next),
        }
    }

    /// An instruction that takes operands and leaves results, or branches.
    fn break_at_operation(&mut self, instruction: &Instruction, next: Label) -> Flow<()> {
        let (description, frame) = (opcode::describe(instruction.opcode), self.at.innermost());
        let depth = frame.stack.len() - self.consumed(instruction, frame);
        let (below, operands) = (self.layout(frame, depth), &frame.stack[depth..]);
        if let Some(why) = description.refuses_null.filter(|_| operands.contains(&self.cg.trace.null())) {
            return Err(cannot(why));
        }
        if let Some((branch, jump, next)) = self.branch_at(frame, instruction, next) {
            return self.break_at_branch(&branch, (next, jump), below, operands);
        }
        let items = self.run_natively(instruction, operands)?;
        let mut stack: Vec<Item> = below.into_iter().chain(items).collect();
        if description.changes_handled {
            self.follow_handled(&mut stack)?;
        }
        self.go_on(next, stack)
    }

    /// The branch at the instruction, its target, and the instruction behind it.
    fn branch_at(
        &self,
        frame: &Checkpoint,
        instruction: &Instruction,
        next: Label,
    ) -> Option<(Instruction, Label, Label)> {
        if opcode::describe(instruction.opcode).asks_for_branch {
            // The following branch belongs to this instruction, and branches on its result.
            let branch = frame.unit.code.instructions[next.index()];
            let asks = opcode::describe(branch.opcode).tests_truth();
            return branch.target.filter(|_| asks).map(|jump| (branch, jump, Label(next.0 + 1)));
        }
        instruction.target.map(|jump| (*instruction, jump, next))
    }

    /// An instruction that raises: nothing runs behind it.
    fn break_at_raise(&mut self, instruction: &Instruction, raising: bool) -> Flow<()> {
        let taken = if raising { instruction.arg } else { self.cg.emitter.raised_width() } as usize;
        let stack = &self.at.innermost().stack;
        let below = stack.len().checked_sub(taken).ok_or_else(|| cannot("a raise without its operands"))?;
        if self.is_nested() {
            let operands = &stack[below..];
            let codes = NativeFrames::new(self.cg.trace, self.at).raise(operands, raising)?;
            self.call_frames(self.at, codes, operands, |cg, operands| {
                cg.load_operands(operands)?;
                cg.forget_raised()
            })?;
            self.cg.emitter.end_guarded()?;
            return self.cg.op(Op::RETURN_VALUE, 0);
        }
        if !raising {
            self.cg.emitter.before_reraise()?;
        }
        self.load_operands(&stack[below..])?;
        self.forget_raised()?;
        if raising {
            self.cg.op(Op::RAISE_VARARGS, instruction.arg)?;
        } else {
            self.cg.emitter.reraise()?;
        }
        self.cg.emitter.end_guarded()
    }

    /// Clears the locals that hold values. The traceback of an exception that leaves the frame keeps the frame, which
    /// must not keep the exception, but only its variables.
    fn forget_raised(&mut self) -> Flow<()> {
        if self.is_caught() {
            return Ok(());
        }
        let going = self.dying_with_stack();
        let slots = self.value_slots().filter(|slot| !going.contains(slot));
        self.cg.emitter.forget(slots)
    }

    /// Calls `__enter__`. `__exit__` is kept below the result, and a block begins between the two (3.8 to 3.10).
    fn break_at_with(&mut self, instruction: &Instruction, next: Label) -> Flow<()> {
        let frame = self.at.innermost();
        let (Some((&manager, below)), Some(handler)) = (frame.stack.split_last(), instruction.target) else {
            return Err(cannot("a `with` without a manager"));
        };
        let below = self.layout(frame, below.len());
        let (exit, result) = if self.is_nested() {
            let codes = NativeFrames::new(self.cg.trace, self.at).enter()?;
            self.call_frames(self.at, codes, &[manager], Self::load_operands)?;
            self.cg.op(Op::UNPACK_SEQUENCE, 2)?;
            self.cg.emitter.end_guarded()?;
            (self.left()?, self.left()?)
        } else {
            self.cg.load(manager)?;
            self.cg.emitter.enter_with()?;
            self.cg.emitter.end_guarded()?;
            let result = self.left()?;
            (self.left()?, result)
        };
        let stack: Vec<Item> = below.into_iter().chain([exit, Item::Try(handler), result]).collect();
        self.go_on(next, stack)
    }

    /// Calls `__exit__` with its three arguments.
    fn call_exit(&mut self, exit: VarId, told: [VarId; 3]) -> Flow<()> {
        if !self.is_nested() {
            return self.cg.call_with(exit.into(), &CallArgs::positional(told.to_vec()));
        }
        let codes = NativeFrames::new(self.cg.trace, self.at).call(4)?;
        let [class, exception, traceback] = told;
        self.call_frames(self.at, codes, &[exit, class, exception, traceback], Self::load_operands)
    }

    /// Calls `__exit__` for the exception on top of the stack; its result comes on top (3.9 and newer).
    fn break_at_exit(&mut self, next: Label) -> Flow<()> {
        let (exit, told) = self.details.exit.ok_or_else(|| cannot("a `with` without its manager"))?;
        let frame = self.at.innermost();
        self.call_exit(exit, told)?;
        self.cg.emitter.end_guarded()?;
        let said = self.left()?;
        let stack: Vec<Item> = self.layout(frame, frame.stack.len()).into_iter().chain([said]).collect();
        self.go_on(next, stack)
    }

    /// Calls `__exit__` and removes it from the stack, where it is below the items that tell how the cleanup was
    /// entered (3.8).
    fn break_at_cleanup(&mut self, next: Label) -> Flow<()> {
        let mut frame = self.at.innermost().clone();
        let (exit, told) = self.details.exit.ok_or_else(|| cannot("a `with` without its manager"))?;
        frame.stack.remove(frame.stack.len() - if self.details.filler.is_some() { 7 } else { 2 });
        if let Some(filler) = self.details.filler {
            frame.stack.insert(frame.stack.len() - 3, filler);
            frame.blocks.iter_mut().last().into_iter().for_each(|block| block.depth -= 1);
            frame.handled.iter_mut().last().into_iter().for_each(|handled| handled.depth -= 1);
        }
        self.call_exit(exit, told)?;
        self.cg.emitter.end_guarded()?;
        let said = self.left()?;
        frame.stack.push(told[0]);
        let stack: Vec<Item> = self.layout(&frame, frame.stack.len()).into_iter().chain([said]).collect();
        self.go_on(next, stack)
    }

    fn break_at_branch(
        &mut self,
        instruction: &Instruction,
        (next, jump): (Label, Label),
        below: Vec<Item>,
        operands: &[VarId],
    ) -> Flow<()> {
        let truth = self.truth(instruction)?;
        let branch = if self.is_nested() {
            let codes = NativeFrames::new(self.cg.trace, self.at).ask(operands, instruction)?;
            self.call_frames(self.at, codes, operands, |cg, operands| cg.load_asked(operands, truth))?;
            self.cg.emitter.end_guarded()?;
            self.cg.emitter.jump_if(true)?
        } else {
            self.load_asked(operands, truth)?;
            if opcode::describe(instruction.opcode).needs_bool() {
                self.cg.emitter.before_branch()?;
            }
            let branch = self.cg.emitter.native_jump(instruction)?;
            self.cg.emitter.end_guarded()?;
            branch
        };
        for (place, jumped) in [(next, false), (jump, true)] {
            if jumped {
                self.cg.emitter.land(branch);
                if !self.is_nested() {
                    self.cg.emitter.leave_block()?;
                }
            }
            let left = (operands.len() as i32 + self.effect(instruction, jumped)?) as usize;
            let items = if self.is_nested() {
                operands[..left].iter().map(|&item| self.item(item)).collect()
            } else {
                self.store_left(left)?
            };
            let stack: Vec<Item> = below.iter().copied().chain(items).collect();
            self.go_on(place, stack)?;
        }
        Ok(())
    }

    /// Advances the iterator. Whether there is an item decides on which side the frame continues.
    fn break_at_loop_head(&mut self, instruction: &Instruction, next: Label) -> Flow<()> {
        let after = after_loop(instruction)?;
        let frame = self.at.innermost();
        let (&iterator, below) = frame.stack.split_last().ok_or_else(|| cannot("a loop without an iterator"))?;
        if self.is_nested() {
            let codes = NativeFrames::new(self.cg.trace, self.at).advance()?;
            self.call_frames(self.at, codes, &[iterator], Self::load_operands)?;
        } else {
            let advance = resume::advance(self.cg.trace.py)?;
            self.cg.call_of(advance, [iterator.into()])?;
        }
        self.cg.emitter.end_guarded()?;
        self.cg.op(Op::UNPACK_SEQUENCE, 2)?;
        let branch = self.cg.emitter.jump_if(true)?;
        let item = self.left()?;
        let with_item: Vec<Item> = self.layout(frame, frame.stack.len()).into_iter().chain([item]).collect();
        self.go_on(next, with_item)?;
        self.cg.emitter.land(branch);
        self.cg.op(Op::POP_TOP, 0)?;
        let done = self.layout(frame, below.len());
        self.go_on(after, done)
    }
}
