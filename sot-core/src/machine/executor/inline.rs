//! The OpcodeInlineExecutor: inlines a call of a Python function. Variables, trackers and the graph are those of the
//! caller; only the frame is new.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyFunction;

use super::bind::bind;
use super::exceptions::unwinding;
use super::{CallArgs, CodeUnit, Exit, Frame, Globals, Name, OpcodeExecutor, Trace};
use crate::bytecode::flags::{ASYNCHRONOUS, FUNCTION, GENERATOR};
use crate::error::{Flow, ReasonId, Unwind};
use crate::machine::variable::VarId;

/// Finds the default of the positional parameter in a slot.
pub type PositionalDefault<'a> = Box<dyn Fn(&mut OpcodeExecutor<'_>, usize) -> Flow<Option<VarId>> + 'a>;
/// Finds the default of a keyword-only parameter.
pub type KeywordDefault<'a> = Box<dyn Fn(&mut OpcodeExecutor<'_>, &Name) -> Flow<Option<VarId>> + 'a>;

/// What inlining must know of a function.
pub struct FunctionParts {
    /// The variable of the function.
    pub variable: VarId,
    /// The function, if it is an object of the program.
    pub function: Option<Py<PyFunction>>,
    /// The code.
    pub code: Rc<CodeUnit>,
    /// The globals.
    pub globals: Globals,
    /// The closure: one cell variable for each free variable.
    pub closure: Vec<VarId>,
    /// Default of the positional parameter in a slot.
    pub default: PositionalDefault<'static>,
    /// Default of a keyword-only parameter.
    pub keyword_default: KeywordDefault<'static>,
}

/// Simulates one inlined call.
pub struct OpcodeInlineExecutor<'a, 'py> {
    cx: &'a mut OpcodeExecutor<'py>,
}

impl<'a, 'py> OpcodeInlineExecutor<'a, 'py> {
    /// An executor that continues the caller's translation.
    pub fn new(cx: &'a mut OpcodeExecutor<'py>) -> Self {
        OpcodeInlineExecutor { cx }
    }

    /// Inlines a call. A call of a generator function returns its generator.
    pub fn call(mut self, function: &FunctionParts, args: &CallArgs) -> Flow<VarId> {
        let flags = function.code.code.flags;
        if flags & ASYNCHRONOUS != 0 {
            return Err(Unwind::break_graph(
                ReasonId::UnsupportedCall,
                format!("call of the coroutine function {}", function.code.code.qualname),
            ));
        }
        if flags & FUNCTION != FUNCTION {
            let text = "call of a function made of the code of a module or class";
            return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
        }
        let claim = self.cx.claims.take().map(|(_, claim)| Rc::new(claim));
        let mut frame = self.frame(function, args)?;
        if flags & GENERATOR != 0 {
            let payload = (self.cx.runtime.factories.generator)(frame);
            let generator = self.cx.trace.produce(payload);
            self.cx.note_step(generator);
            return Ok(generator);
        }
        frame.claim = claim;
        match self.cx.run_frame(frame)?.0 {
            Exit::Return(value) => Ok(value),
            Exit::Yield(_) => Err(Unwind::fallback(ReasonId::UnsupportedFrame, "a yield outside a generator")),
        }
    }

    fn frame(&mut self, function: &FunctionParts, args: &CallArgs) -> Flow<Frame> {
        let cx = &mut *self.cx;
        let slots = bind(cx, function, args)?;
        let mut frame = Frame::new(Rc::clone(&function.code), function.globals.share(cx.py));
        frame.function = Some(function.variable);
        frame.locals[..slots.len()].copy_from_slice(&slots);
        cx.trace.make_cells(&mut frame, &function.closure);
        Ok(frame)
    }
}

impl Trace<'_> {
    /// Makes the cells of a frame: new ones for cell variables, with the argument of that name, then those of the
    /// closure.
    pub fn make_cells(&mut self, frame: &mut Frame, closure: &[VarId]) {
        let code = Rc::clone(&frame.code);
        for name in &code.code.cellvars {
            let slot = code.code.varnames.iter().position(|local| local == name);
            let contents = slot.and_then(|slot| frame.locals[slot].take());
            let payload = (self.runtime.factories.cell)(contents);
            let cell = self.produce(payload);
            frame.cells.push(cell);
        }
        frame.cells.extend_from_slice(closure);
    }
}

impl OpcodeExecutor<'_> {
    /// Simulates what Python functions do that have no frames in the trace. A function that they call has a caller in
    /// CPython which the trace does not have, and the traceback of an exception that they raise is unknown.
    pub fn without_frame<T>(&mut self, work: impl FnOnce(&mut Self) -> Flow<T>) -> Flow<T> {
        let depth = self.stack.len();
        let before = self.stack.runs_without_frame.replace(depth);
        let outcome = work(self);
        self.stack.runs_without_frame = before;
        if let Err(Unwind::Raise(exception)) = outcome {
            self.trace.raised.lose_traceback(exception);
        }
        outcome
    }

    /// Simulates a frame on top of the present ones. Returns the frame, too, for generators.
    pub fn run_frame(&mut self, frame: Frame) -> Flow<(Exit, Frame)> {
        run_frame_from(self, frame, None)
    }

    /// Resumes the simulation of a frame with an exception raised at its last instruction.
    pub fn run_frame_raising(&mut self, frame: Frame, exception: VarId) -> Flow<(Exit, Frame)> {
        run_frame_from(self, frame, Some(exception))
    }
}

fn run_frame_from(cx: &mut OpcodeExecutor<'_>, frame: Frame, raised: Option<VarId>) -> Flow<(Exit, Frame)> {
    cx.stack.enter(frame);
    let exit = match raised {
        Some(exception) => unwinding::handle_exception(cx, exception).and_then(|()| cx.run()),
        None => cx.run(),
    };
    let frame = cx.stack.leave();
    if exit.is_ok() {
        cx.checkpoints.truncate(cx.stack.len());
    }
    match (exit, frame) {
        (Ok(exit), Some(frame)) => Ok((exit, frame)),
        (Err(unwind), _) => {
            if let Unwind::Raise(exception) = unwind {
                cx.trace.raised.leaving = Some(exception);
            }
            Err(unwind)
        }
        (Ok(_), None) => Err(Unwind::bug("the frame stack ran empty")),
    }
}
