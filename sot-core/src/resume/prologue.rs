//! The prologue of a resume function: it lays out locals and stack, finishes a call that broke, and jumps into the
//! original code.

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;

use crate::bytecode::{Code, ExceptionHandler, Label, Op, Opcodes, Position};
use crate::emit::{after_loop, Emitter};
use crate::error::{Flow, ReasonId, Unwind};
use crate::machine::opcode::{self, Branch, BranchTest};
use crate::resume_point::{callee_caller, refuse_result, Finish, Operation, SpecialResultUse};
use crate::resume_point::{Entry, ResumeKey, Slot};

/// A finished prologue.
pub(super) struct Prologue {
    /// The emitter it was written with; the original instructions are to follow.
    pub emitter: Emitter,
    /// Number of its instructions.
    pub length: u32,
    /// Label of its call, or of the finish of a call that has been made.
    pub call: Option<Label>,
    /// Label of the call that a finish makes with the result as an argument.
    pub applies: Option<Label>,
    /// Range in which a signal handler's exception arrives before anything has been laid out (3.8 to 3.10).
    pub entry: Option<(Label, Label)>,
}

impl Prologue {
    /// Writes the prologue of a function with the frame of `code` that continues in `base`. Where a callable `raises` is
    /// given, it is called when the stack is laid out, and nothing else is done; in a prologue with a call, it makes
    /// the call.
    pub(super) fn write(
        py: Python<'_>,
        base: &Code,
        code: &Code,
        key: &ResumeKey,
        line: Position,
        raises: Option<Py<PyAny>>,
    ) -> Flow<Self> {
        let slot = base.varnames.len() as u32;
        let e = Emitter::beside(py, code, line);
        let outward = Vec::new();
        let mut writer = Writer {
            py,
            base,
            key,
            e,
            slot,
            outward,
            caller: None,
            call: None,
            applies: None,
            entry: None,
            raising: None,
        };
        let generator = key.entry == Entry::Yield;
        writer.e.prologue(code, generator)?;
        if generator {
            writer.e.begin()?;
        }
        // Before 3.11 CPython checks for signals at the first instruction that begins no block.
        let looks = !generator && !writer.e.knows(Op::RESUME) && key.may_catch(base);
        let entry = if looks { Some(writer.e.begin_first_try()?) } else { None };
        writer.locals(code)?;
        if let Some(start) = entry {
            writer.entry = Some((start, writer.e.end_try()?));
        }
        writer.stack()?;
        match raises {
            Some(raises) if !matches!(key.entry, Entry::Return(..)) => writer.raise(raises)?,
            raises => {
                writer.caller = raises;
                writer.enter()?;
            }
        }
        Ok(writer.end())
    }
}

struct Writer<'a, 'py> {
    py: Python<'py>,
    base: &'a Code,
    key: &'a ResumeKey,
    e: Emitter,
    // Slot of the next value.
    slot: u32,
    // Jumps into the original code, with their targets there.
    outward: Vec<(Label, Label)>,
    // What calls the callee's resume function, if not `callee_caller`.
    caller: Option<Py<PyAny>>,
    call: Option<Label>,
    applies: Option<Label>,
    entry: Option<(Label, Label)>,
    // Range whose exceptions go to the handler of the original instruction.
    raising: Option<(Label, Label)>,
}

impl Writer<'_, '_> {
    /// Unbinds locals that are not bound, which are passed as some object. Variables of inlined comprehensions move
    /// to the slots of their cells.
    fn locals(&mut self, code: &Code) -> Flow<()> {
        for (slot, _) in self.key.bound.iter().enumerate().filter(|(_, bound)| !**bound) {
            self.e.op(Op::DELETE_FAST, slot as u32)?;
        }
        for &(cell, bound) in &self.key.hidden {
            let slot = code.deref_arg(cell);
            if bound {
                self.load_values(1)?;
                self.e.op(Op::STORE_FAST, slot)?;
            } else {
                self.e.op(Op::DELETE_FAST, slot)?;
            }
        }
        Ok(())
    }

    fn stack(&mut self) -> Flow<()> {
        let has_null = self.e.knows(Op::PUSH_NULL);
        let mut null_below = false;
        for slot in &self.key.stack {
            match slot {
                Slot::Value => {
                    self.load_values(1)?;
                    if std::mem::take(&mut null_below) {
                        self.e.own_call()?;
                    }
                }
                Slot::Null if has_null => self.e.push_null()?,
                Slot::Null => null_below = true,
                Slot::Handling => {
                    let start = self.e.before_handling()?;
                    self.load_values(self.e.raised_width())?;
                    self.e.begin_handling(start)?;
                }
                Slot::Try(handler) => self.jump(Op::SETUP_FINALLY, *handler)?,
                Slot::NormalEntry => self.e.op(Op::BEGIN_FINALLY, 0)?,
                Slot::ReturnTo(label) => {
                    let call = self.e.jump(Op::CALL_FINALLY)?;
                    self.jump(Op::JUMP_ABSOLUTE, *label)?;
                    self.e.land(call);
                }
            }
        }
        Ok(())
    }

    fn enter(&mut self) -> Flow<()> {
        let at = self.key.at;
        match self.key.entry {
            Entry::Next => {
                let start = self.begin()?;
                self.raises_since(start);
                self.jump(Op::JUMP_FORWARD, at)
            }
            Entry::Yield => {
                self.load_values(1)?;
                self.jump_to_yield()
            }
            Entry::Raise => {
                self.e.before_reraise()?;
                self.load_values(self.e.raised_width())?;
                let start = self.begin()?;
                self.e.reraise()?;
                self.raises_since(start);
                Ok(())
            }
            Entry::Return(arguments, finish) => {
                let is_next = finish == Finish::Next;
                let begun = self.begin()?;
                let start = if is_next { self.e.begin_try()? } else { begun };
                self.call(arguments as u32)?;
                let call = Label(self.e.here().0 - 1);
                self.call = Some(call);
                if is_next {
                    self.unless_stopped(start)?;
                } else {
                    self.finish(finish)?;
                }
                self.raises_since(if is_next { Label(call.0 + 1) } else { start });
                self.jump(Op::JUMP_FORWARD, Label(at.0 + 1))
            }
            Entry::Finish(finish) => {
                let start = self.begin()?;
                self.call = Some(self.e.here());
                self.finish(finish)?;
                self.raises_since(start);
                self.jump(Op::JUMP_FORWARD, Label(at.0 + 1))
            }
        }
    }

    /// Calls a callable that raises an exception, in place of the instruction.
    fn raise(&mut self, raises: Py<PyAny>) -> Flow<()> {
        let start = self.begin()?;
        self.e.begin_call()?;
        self.e.load_const(raises)?;
        self.e.callable_loaded()?;
        self.e.call(0)?;
        self.raises_since(start);
        self.e.op(Op::RETURN_VALUE, 0)
    }

    fn end(mut self) -> Prologue {
        let length = self.e.here().0;
        for (jump, target) in self.outward {
            self.e.set_target(jump, Label(target.0 + length));
        }
        if let (Some((start, end)), Some(handler)) = (self.raising, self.base.handler_at(self.key.at)) {
            let target = Label(handler.target.0 + length);
            self.e.copy_handler(ExceptionHandler { start, end, target, ..*handler });
        }
        Prologue { emitter: self.e, length, call: self.call, applies: self.applies, entry: self.entry }
    }

    /// Begins the frame's execution, where signals are checked for. The stack is laid out already, so an exception of
    /// a signal handler is raised in place of the instruction.
    fn begin(&mut self) -> Flow<Label> {
        let start = self.e.here();
        self.e.begin()?;
        Ok(start)
    }

    /// The instructions since `start` raise to the handler of the original instruction.
    fn raises_since(&mut self, start: Label) {
        self.raising = Some((start, self.e.here()));
    }

    /// Yields the top of the stack at the original instruction. A `YIELD_FROM` would ask its iterator for an item
    /// first, so for it the prologue has a yield of its own.
    fn jump_to_yield(&mut self) -> Flow<()> {
        let at = self.key.at;
        if !Opcodes::get(self.py).is(self.base.instructions[at.index()].opcode, Op::YIELD_FROM) {
            return self.jump(Op::JUMP_FORWARD, at);
        }
        self.e.op(Op::YIELD_VALUE, 0)?;
        self.e.op(Op::YIELD_FROM, 0)?;
        self.jump(Op::JUMP_FORWARD, Label(at.0 + 1))
    }

    fn load_values(&mut self, count: u32) -> Flow<()> {
        for _ in 0..count {
            self.e.op(Op::LOAD_FAST, self.slot)?;
            self.e.op(Op::DELETE_FAST, self.slot)?;
            self.slot += 1;
        }
        Ok(())
    }

    /// Calls the next value, the callee's resume function, with this many values after it.
    fn call(&mut self, arguments: u32) -> Flow<()> {
        let caller = self.caller.take().map_or_else(|| callee_caller(self.py), Ok)?;
        self.e.begin_call()?;
        self.e.load_const(caller)?;
        self.e.callable_loaded()?;
        self.load_values(1 + arguments)?;
        self.e.call(1 + arguments)
    }

    /// Writes what an instruction does behind its call.
    fn finish(&mut self, finish: Finish) -> Flow<()> {
        match finish {
            // A `StopIteration` instead of the next item has been caught.
            Finish::Keep | Finish::Next => Ok(()),
            Finish::Begin => self.begin_block(),
            Finish::Drop => self.e.op(Op::POP_TOP, 0),
            Finish::Pair => self.e.pair(),
            Finish::InitResult => {
                let is_none = self.e.jump_if_is(self.py.None())?;
                let refuse = refuse_result(self.py)?;
                self.e.call_on_top(refuse)?;
                self.e.land(is_none);
                self.e.op(Op::POP_TOP, 0)
            }
            Finish::SpecialResult(answer, then) => {
                let check = answer.check(self.py)?;
                self.e.call_on_top(check)?;
                match then {
                    SpecialResultUse::Leave => Ok(()),
                    SpecialResultUse::Not => self.e.op(Op::UNARY_NOT, 0),
                    SpecialResultUse::Branch => self.branch(),
                }
            }
            Finish::Apply(arguments) => {
                // The finished part is separated from the call, which may break the graph itself.
                self.e.op(Op::NOP, 0)?;
                self.e.call(arguments)?;
                self.applies = Some(Label(self.e.here().0 - 1));
                Ok(())
            }
            Finish::Operator(operation) => self.go_on_asking(operation),
            Finish::Test(operation) => {
                self.go_on_asking(operation)?;
                self.e.op(Op::TO_BOOL, 0)
            }
        }
    }

    /// Turns the result of an operator's special method, above the operands, into the operator's result.
    fn go_on_asking(&mut self, operation: Operation) -> Flow<()> {
        let declined = self.e.jump_if_is(self.py.NotImplemented())?;
        self.e.bury()?;
        self.e.op(Op::POP_TOP, 0)?;
        self.e.op(Op::POP_TOP, 0)?;
        let done = self.e.jump(Op::JUMP_FORWARD)?;
        self.e.land(declined);
        self.e.op(Op::POP_TOP, 0)?;
        self.e.op(Op::BUILD_TUPLE, 2)?;
        let rest = operation.rest(self.py)?;
        self.e.call_on_top(rest)?;
        self.e.land(done);
        Ok(())
    }

    /// Begins the block of the original instruction below the top of the stack.
    fn begin_block(&mut self) -> Flow<()> {
        let at = self.key.at;
        let handler = self.base.instructions[at.index()].target.unwrap_or(at);
        // Slot of a value that has been loaded already, and so is free.
        let top = self.slot - 1;
        self.e.op(Op::STORE_FAST, top)?;
        self.jump(Op::SETUP_FINALLY, handler)?;
        self.e.op(Op::LOAD_FAST, top)?;
        self.e.op(Op::DELETE_FAST, top)
    }

    /// Branches as the original instruction does, with a bool on top of the stack.
    fn branch(&mut self) -> Flow<()> {
        let at = self.key.at;
        let branch = self.base.instructions[at.index()];
        let Some(Branch { test: BranchTest::Truth(truth), keeps }) = opcode::describe(branch.opcode).branch else {
            return Err(Unwind::fallback(ReasonId::CannotRestore, "a branch that does not test a truth value"));
        };
        let jump = self.e.jump_if(truth)?;
        self.outward.push((Label(jump as u32), branch.target.unwrap_or(at)));
        if keeps {
            self.e.op(Op::POP_TOP, 0)?;
        }
        Ok(())
    }

    /// Writes what follows a call that yields the next item of the iterator below it: if the call raised
    /// `StopIteration`, the loop ends.
    fn unless_stopped(&mut self, start: Label) -> Flow<()> {
        let after = after_loop(&self.base.instructions[self.key.at.index()])?;
        let end = self.e.end_try()?;
        let done = self.e.jump(Op::JUMP_FORWARD)?;
        self.e.begin_handler(start, end, self.key.depth())?;
        self.e.load_const(self.py.get_type::<PyStopIteration>().into_any().unbind())?;
        let other = self.e.jump_unless_matches()?;
        for _ in 0..self.e.raised_width() {
            self.e.op(Op::POP_TOP, 0)?;
        }
        self.e.op(Op::POP_EXCEPT, 0)?;
        self.e.op(Op::POP_TOP, 0)?;
        self.jump(Op::JUMP_FORWARD, after)?;
        self.e.land(other);
        self.e.decline()?;
        self.e.land(done);
        Ok(())
    }

    /// Writes a jump into the original code.
    fn jump(&mut self, op: Op, target: Label) -> Flow<()> {
        let jump = self.e.jump(op)?;
        self.outward.push((Label(jump as u32), target));
        Ok(())
    }
}
