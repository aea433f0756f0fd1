//! Decides whether closing a generator that the program drops at a `yield` has an observable effect. The generator's
//! handlers are simulated as far as they do not depend on when they run.

use crate::bytecode::{Instruction, Opcodes};
use crate::error::Unwind;
use crate::machine::executor::exceptions::unwinding;
use crate::machine::executor::{step, Frame, OpcodeExecutor};
use crate::machine::opcode::{self, Next, Quiet};
use crate::machine::variable::{Form, VarId};
use crate::policy::MAX_YIELDS;
use crate::side_effects::Effect;

/// The reaction of a generator to an exception that is raised where it is suspended, if nothing else is observable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closing {
    /// It returns.
    Returns,
    /// It lets the exception propagate.
    Propagates,
    /// It yields. Raising the exception there again has no other observable effect either.
    Yields,
}

impl OpcodeExecutor<'_> {
    /// Returns what a suspended generator does with an exception; `None` if anything else is observable, or depends
    /// on when it runs.
    pub fn closing(&mut self, frame: Frame, exception: VarId) -> Option<Closing> {
        self.stack.enter(frame);
        let mut raised = unwinding::handle_exception(self, exception);
        let mut yields = 0;
        let done = |closing, yields| Some(if yields > 0 { Closing::Yields } else { closing });
        loop {
            match raised {
                Err(Unwind::Raise(left)) if left == exception => return done(Closing::Propagates, yields),
                Ok(()) if is_of_handlers(self, exception) => {}
                _ => return None,
            }
            raised = match step(self) {
                Ok(Next::Continue) => Ok(()),
                Ok(Next::Jump(label)) => {
                    self.stack.frame_mut().pc = label;
                    Ok(())
                }
                Ok(Next::Return(_)) => return done(Closing::Returns, yields),
                Ok(Next::Yield(value)) if yields < MAX_YIELDS => {
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

/// True if the next instruction gives the same result whenever it runs, and has no effect outside its frame.
fn is_of_handlers(cx: &OpcodeExecutor<'_>, exception: VarId) -> bool {
    let frame = cx.stack.frame();
    let Some(&Instruction { opcode, arg, .. }) = frame.code.code.instructions.get(frame.pc.index()) else {
        return false;
    };
    let top = frame.stack.last().copied();
    let is_untouched = || {
        let name = frame.code.names().get((arg >> Opcodes::get(cx.py).info(opcode).shift) as usize);
        let writes = |effect: &Effect| match effect {
            Effect::Global { name: written, .. } | Effect::Attribute { name: written, .. } => Some(written) == name,
            _ => false,
        };
        !cx.trace.effects.log().iter().any(writes)
    };
    match opcode::describe(opcode).quiet {
        Quiet::Never => false,
        Quiet::Always => true,
        Quiet::Argument(is_quiet) => is_quiet(arg),
        Quiet::OfConstant => top.is_some_and(|top| cx.trace.vars.get(top).constant().is_some()),
        Quiet::OfException => top == Some(exception),
        Quiet::GlobalUnwritten => is_untouched(),
        Quiet::ModuleUnwritten => {
            top.is_some_and(|top| cx.trace.vars.get(top).form() == Form::Module) && is_untouched()
        }
    }
}
