//! Deferral of signal handlers in new code. Between the graph and the breaking instruction, and between that
//! instruction and the hand-over, the frame is in no state that exists in the program. If an exception handler is
//! active there, signal handlers are deferred.

use super::CodeGen;
use crate::bytecode::Op;
use crate::error::Flow;
use crate::machine::variable::Rebuild;
use crate::resume;

impl CodeGen<'_, '_> {
    /// Defers signal handlers from here on.
    pub(super) fn hold_signals(&mut self) -> Flow<()> {
        let hold = resume::hold_signals(self.trace.py)?;
        self.call_of(hold, [])?;
        self.op(Op::POP_TOP, 0)
    }

    /// Runs the deferred signal handlers.
    pub(super) fn release_signals(&mut self) -> Flow<()> {
        let release = resume::release_signals(self.trace.py)?;
        self.call_of(release, [])?;
        self.op(Op::POP_TOP, 0)
    }
}
