//! Where handlers of signals may run in new code. Between its graph and the breaking instruction, and between that and
//! the hand-over, a frame is in no state that a handler of the program's could find; where one is active, they wait.

use super::CodeGen;
use crate::bytecode::Op;
use crate::error::Flow;
use crate::resume;

impl CodeGen<'_, '_> {
    /// Handlers of signals wait from here on.
    pub(super) fn hold_signals(&mut self) -> Flow<()> {
        let hold = resume::hold_signals(self.cx.py)?;
        self.call_bare(hold)?;
        self.op(Op::POP_TOP, 0)
    }

    /// Those that wait run here.
    pub(super) fn release_signals(&mut self) -> Flow<()> {
        let release = resume::release_signals(self.cx.py)?;
        self.call_bare(release)?;
        self.op(Op::POP_TOP, 0)
    }
}
