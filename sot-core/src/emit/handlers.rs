//! Exception handlers in emitted code: raising, catching, and the exception that is being handled.

use pyo3::prelude::*;

use super::{Emitter, Target};
use crate::bytecode::{Handler, Label, Op};
use crate::error::Flow;

impl Emitter {
    /// From here on exceptions are caught, if `wanted`; where it began. The last of the guarded instructions is a call
    /// of `last`, if there is one.
    pub fn begin_guarded(&mut self, wanted: bool, last: Option<Py<PyAny>>) -> Flow<Label> {
        let start = self.here();
        if wanted {
            self.guarded = Some((start, None));
            self.last_guarded = last.map(|last| self.const_index(last));
            self.target().begin_try(self)?;
        }
        Ok(start)
    }

    /// Exceptions are no longer caught.
    pub fn end_guarded(&mut self) -> Flow<()> {
        if let Some((start, None)) = self.guarded {
            self.leave_block()?;
            self.guarded = Some((start, Some(self.here())));
        }
        Ok(())
    }

    /// Ends the block of the guarded instructions on one way out of them.
    pub fn leave_block(&mut self) -> Flow<()> {
        if self.guarded.is_none() {
            return Ok(());
        }
        if let Some(last) = self.last_guarded {
            self.begin_call()?;
            self.op(Op::LOAD_CONST, last)?;
            self.callable_loaded()?;
            self.call(0)?;
            self.op(Op::POP_TOP, 0)?;
        }
        self.target().end_try(self)
    }

    /// The handler of what was guarded, perhaps while an exception was handled: the new exception, in a local.
    pub fn catch_guarded(&mut self, start: Label, handling: bool) -> Flow<u32> {
        let here = self.here();
        let end = self.guarded.take().and_then(|(_, end)| end).unwrap_or(start);
        self.target().catch(self, start, end, here, u32::from(handling))
    }

    /// An entry of the exception table.
    pub fn add_handler(&mut self, start: Label, end: Label, target: Label, depth: u32) {
        self.copy_handler(Handler { start, end, target, depth, lasti: false });
    }

    /// An entry of the exception table like one of the original code.
    pub fn copy_handler(&mut self, handler: Handler) {
        self.handlers.push(handler);
    }

    /// Begins a handler of the instructions between two labels, with so much below them on the stack, which may find
    /// that the exception is none of its own.
    pub fn begin_handler(&mut self, start: Label, end: Label, depth: u32) -> Flow<()> {
        self.target().begin_handler(self, start, end, depth)
    }

    /// In such a handler: jumps if the exception is no instance of the class on top of the stack, which goes.
    pub fn jump_unless_matches(&mut self) -> Flow<usize> {
        self.target().jump_unless_matches(self)
    }

    /// The end of such a handler: the exception is raised as it was.
    pub fn decline(&mut self) -> Flow<()> {
        self.target().decline(self)
    }

    /// How many stack items raising an exception again takes.
    pub fn raised_width(&self) -> u32 {
        self.target().raised_width()
    }

    /// Before the items of an exception that is to be handled are loaded.
    pub fn before_handling(&mut self) -> Flow<Label> {
        let start = self.here();
        self.target().before_handling(self)?;
        Ok(start)
    }

    /// The exception whose items were loaded is handled from here on; what was handled before lies on the stack.
    pub fn begin_handling(&mut self, start: Label) -> Flow<()> {
        self.target().begin_handling(self, start)
    }

    /// What was handled before is handled again.
    pub fn end_handling(&mut self) -> Flow<()> {
        self.op(Op::POP_EXCEPT, 0)
    }

    /// Before the items of an exception to be raised again are loaded.
    pub fn before_reraise(&mut self) -> Flow<()> {
        self.target().before_reraise(self)
    }

    /// Raises what was loaded again, without an entry in its traceback.
    pub fn reraise(&mut self) -> Flow<()> {
        self.target().reraise(self)
    }

    /// A call begins whose exceptions go to a handler that is written later; where it began.
    pub fn begin_try(&mut self) -> Flow<Label> {
        let start = self.here();
        self.target().begin_try(self)?;
        Ok(start)
    }

    /// The same at the first instruction of code.
    pub fn begin_first_try(&mut self) -> Flow<Label> {
        self.target().begin_first_try(self)
    }

    /// It ends; where.
    pub fn end_try(&mut self) -> Flow<Label> {
        self.target().end_try(self)?;
        Ok(self.here())
    }

    /// The handler of such a call: the exception, in a local. Nothing is handled from here on.
    pub fn catch(&mut self, (start, end): (Label, Label)) -> Flow<u32> {
        let here = self.here();
        self.target().catch(self, start, end, here, 0)
    }

    /// Sends the exceptions of such a call to a handler.
    pub fn handle_driven(&mut self, start: Label, end: Label, handler: Label) {
        self.target().handle_driven(self, start, end, handler);
    }

    /// The body of that handler: raises the exception again after `trim(exception)`, which gives its new traceback.
    pub fn raise_trimmed(&mut self, trim: Py<PyAny>) -> Flow<()> {
        self.target().raise_trimmed(self, trim)
    }

    /// Calls `__enter__` of the manager on top of the stack, which `__exit__` and the result replace (3.8 to 3.10).
    pub fn enter_with(&mut self) -> Flow<()> {
        let at = self.here();
        self.op(Op::SETUP_WITH, 0)?;
        let end = self.here();
        self.set_target(at, end);
        self.op(Op::POP_BLOCK, 0)
    }
}
