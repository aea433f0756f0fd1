//! Exception handlers in emitted code: raising, catching, and the handled exception.

use pyo3::prelude::*;

use super::{Emitter, Target};
use crate::bytecode::{ExceptionHandler, Label, Op};
use crate::error::Flow;

impl Emitter {
    /// Begins a guarded range, whose exceptions are caught, if `wanted`. Returns its start. If `last` is given, the
    /// range ends with a call of it.
    pub fn begin_guarded(&mut self, wanted: bool, last: Option<Py<PyAny>>) -> Flow<Label> {
        let start = self.here();
        if wanted {
            self.guarded = Some((start, None));
            self.last_guarded = last.map(|last| self.const_index(last));
            self.target().begin_try(self)?;
        }
        Ok(start)
    }

    /// Ends the guarded range.
    pub fn end_guarded(&mut self) -> Flow<()> {
        if let Some((start, None)) = self.guarded {
            self.leave_block()?;
            self.guarded = Some((start, Some(self.here())));
        }
        Ok(())
    }

    /// Leaves the block of the guarded range on one path out of the range.
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

    /// Writes the handler of the guarded range. `handling` tells that an exception is handled around the range.
    /// Returns the local that holds the new exception.
    pub fn catch_guarded(&mut self, start: Label, handling: bool) -> Flow<u32> {
        let here = self.here();
        let end = self.guarded.take().and_then(|(_, end)| end).unwrap_or(start);
        self.target().catch(self, start, end, here, u32::from(handling))
    }

    /// Adds an entry to the exception table.
    pub fn add_handler(&mut self, start: Label, end: Label, target: Label, depth: u32) {
        self.copy_handler(ExceptionHandler { start, end, target, depth, lasti: false });
    }

    /// Adds an entry to the exception table that corresponds to one of the original code.
    pub fn copy_handler(&mut self, handler: ExceptionHandler) {
        self.handlers.push(handler);
    }

    /// Begins a handler of the instructions between two labels that may decline the exception. `depth` is the number
    /// of stack items below these instructions.
    pub fn begin_handler(&mut self, start: Label, end: Label, depth: u32) -> Flow<()> {
        self.target().begin_handler(self, start, end, depth)
    }

    /// Within such a handler: pops a class, and jumps if the exception is no instance of the class.
    pub fn jump_unless_matches(&mut self) -> Flow<usize> {
        self.target().jump_unless_matches(self)
    }

    /// Ends such a handler by raising the exception unchanged.
    pub fn decline(&mut self) -> Flow<()> {
        self.target().decline(self)
    }

    /// Number of stack items of an exception that is raised again.
    pub fn raised_width(&self) -> u32 {
        self.target().raised_width()
    }

    /// Writes what precedes loading the items of an exception that is to be handled.
    pub fn before_handling(&mut self) -> Flow<Label> {
        let start = self.here();
        self.target().before_handling(self)?;
        Ok(start)
    }

    /// Begins handling the exception whose items were loaded. The exception handled before stays on the stack.
    pub fn begin_handling(&mut self, start: Label) -> Flow<()> {
        self.target().begin_handling(self, start)
    }

    /// Ends handling: the exception handled before is the current one again.
    pub fn end_handling(&mut self) -> Flow<()> {
        self.op(Op::POP_EXCEPT, 0)
    }

    /// Writes what precedes loading the items of an exception that is to be raised again.
    pub fn before_reraise(&mut self) -> Flow<()> {
        self.target().before_reraise(self)
    }

    /// Raises the loaded exception again, without adding an entry to its traceback.
    pub fn reraise(&mut self) -> Flow<()> {
        self.target().reraise(self)
    }

    /// Begins a call whose exceptions go to a handler that is written later. Returns the start.
    pub fn begin_try(&mut self) -> Flow<Label> {
        let start = self.here();
        self.target().begin_try(self)?;
        Ok(start)
    }

    /// Like `begin_try`, for the first instruction of the code.
    pub fn begin_first_try(&mut self) -> Flow<Label> {
        self.target().begin_first_try(self)
    }

    /// Ends such a call. Returns its end.
    pub fn end_try(&mut self) -> Flow<Label> {
        self.target().end_try(self)?;
        Ok(self.here())
    }

    /// Writes the handler of such a call. Returns the local that holds the exception; from here on no exception is
    /// handled.
    pub fn catch(&mut self, (start, end): (Label, Label)) -> Flow<u32> {
        let here = self.here();
        self.target().catch(self, start, end, here, 0)
    }

    /// Registers a handler for the exceptions of such a call.
    pub fn handle_driven(&mut self, start: Label, end: Label, handler: Label) {
        self.target().handle_driven(self, start, end, handler);
    }

    /// Writes the body of that handler: it raises the exception again after `trim(exception)`, which returns the new
    /// traceback.
    pub fn raise_trimmed(&mut self, trim: Py<PyAny>) -> Flow<()> {
        self.target().raise_trimmed(self, trim)
    }

    /// Calls `__enter__` of the manager on top of the stack. `__exit__` and the result replace the manager (3.8 to
    /// 3.10).
    pub fn enter_with(&mut self) -> Flow<()> {
        let at = self.here();
        self.op(Op::SETUP_WITH, 0)?;
        let end = self.here();
        self.set_target(at, end);
        self.op(Op::POP_BLOCK, 0)
    }
}
