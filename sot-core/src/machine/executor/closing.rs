//! Whether closing a generator that the program drops at a `yield` has an observable effect. Its handlers are
//! simulated as far as they do not depend on the moment at which that happens.

use super::{unwinding, Frame, OpcodeExecutor};
use crate::bytecode::{Instruction, Opcodes};
use crate::error::Unwind;
use crate::machine::opcode::{self, Next, Quiet};
use crate::machine::variable::{Form, VarId};
use crate::side_effects::Effect;

/// A generator that yields so often when it is closed is not followed.
const MOST_YIELDS: usize = 4;

/// What a generator does with an exception raised where it is suspended, if nothing else shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closing {
    /// It returns.
    Returns,
    /// It lets the exception go on.
    HandsOn,
    /// It yields, and does nothing else when that happens again.
    Yields,
}

impl OpcodeExecutor<'_> {
    /// What a suspended frame of a generator does with an exception, if that is all that shows, whenever it happens.
    pub fn closing(&mut self, frame: Frame, exception: VarId) -> Option<Closing> {
        self.stack.enter(frame);
        let mut raised = unwinding::handle_exception(self, exception);
        let mut yields = 0;
        let done = |closing, yields| Some(if yields > 0 { Closing::Yields } else { closing });
        loop {
            match raised {
                Err(Unwind::Raise(left)) if left == exception => return done(Closing::HandsOn, yields),
                Ok(()) if is_of_handlers(self, exception) => {}
                _ => return None,
            }
            raised = match self.step() {
                Ok(Next::Continue) => Ok(()),
                Ok(Next::Jump(label)) => {
                    self.stack.frame_mut().pc = label;
                    Ok(())
                }
                Ok(Next::Return(_)) => return done(Closing::Returns, yields),
                Ok(Next::Yield(value)) if yields < MOST_YIELDS => {
                    yields += 1;
                    self.stack.push(value);
                    unwinding::handle_exception(self, exception)
                }
                Ok(Next::Yield(_)) => return None,
                Err(Unwind::Raise(exception)) => unwinding::handle_exception(self, exception),
                Err(unwind) => Err(unwind),
            };
        }
    }
}

/// Whether the next instruction gives the same whenever it runs, and does nothing to what others see.
fn is_of_handlers(cx: &OpcodeExecutor<'_>, exception: VarId) -> bool {
    let frame = cx.stack.frame();
    let Some(&Instruction { opcode, arg, .. }) = frame.code.code.instructions.get(frame.pc.index()) else {
        return false;
    };
    let top = frame.stack.last().copied();
    let is_untouched = || {
        let name = frame.code.names.get((arg >> Opcodes::get(cx.py).info(opcode).shift) as usize);
        let writes = |effect: &Effect| match effect {
            Effect::Global { name: written, .. } | Effect::Attribute { name: written, .. } => Some(written) == name,
            _ => false,
        };
        !cx.effects.log().iter().any(writes)
    };
    match opcode::describe(opcode).quiet {
        Quiet::Never => false,
        Quiet::Always => true,
        Quiet::Argument(is_quiet) => is_quiet(arg),
        Quiet::OfConstant => top.is_some_and(|top| cx.vars.get(top).constant().is_some()),
        Quiet::OfException => top == Some(exception),
        Quiet::GlobalUnwritten => is_untouched(),
        Quiet::ModuleUnwritten => top.is_some_and(|top| cx.vars.get(top).form() == Form::Module) && is_untouched(),
    }
}
