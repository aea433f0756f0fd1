//! The OpcodeExecutor: simulates a frame's bytecode on variables, records tensor work in the graph, and collects
//! guards and side effects. The files of this folder hold the operations that opcodes are made of, as named methods;
//! each subfolder has one concern, which its `mod.rs` names. Which opcode does which operation is registered in other
//! crates.

mod attribute;
mod bind;
mod call;
mod changing_values;
mod exceptions;
mod folding;
mod frame;
mod graph_breaks;
mod inline;
mod lifetimes;
mod limits;
pub mod names;
mod new_values;
pub mod object_model;
mod operand_errors;
mod operators;
mod record;
mod registered_calls;
mod sequence;
mod stack;
mod statements;
pub mod warnings;
mod wrap;

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::bytecode::Label;
use crate::cache;
use crate::error::{Extent, Flow, Forbidden, Reason, ReasonId, Unwind};
use crate::log;
use crate::machine::observer::{self, ObserverProgress};
use crate::machine::opcode::{Next, Operand};
use crate::machine::runtime::Runtime;
use crate::machine::variable::VarId;
use crate::policy;
use crate::report::{self, SourceRecord};

pub use crate::bytecode::CodeUnit;
use crate::open_sizes::Sizes;
pub use crate::operators::{BinaryOp, CompareOp, UnaryOp};
pub use crate::policy::ValuePolicy;
pub use crate::tracker::Globals;
pub use call::CallArgs;
pub use changing_values::lazy_number::ChangingScalar;
pub use exceptions::raised::Raised;
pub use exceptions::traceback::{TracebackEntry, TracebackVariable, TracedFrame};
pub use exceptions::unwinding::BookkeepingVariable;
pub use exceptions::{traceback, unwinding};
pub use frame::{Block, Frame, Handled};
pub(crate) use graph_breaks::checkpoint::Checkpoints;
pub use graph_breaks::checkpoint::{BreakPoint, Checkpoint};
pub use graph_breaks::claim::{Claim, Claims};
use graph_breaks::loop_iterations;
pub use inline::{FunctionParts, KeywordDefault, OpcodeInlineExecutor, PositionalDefault};
pub use lifetimes::generator_closing::Closing;
use lifetimes::observable_drops;
pub(crate) use lifetimes::reachable;
pub use limits::{refuse_deep_values, TraceLimits};
pub(crate) use record::dependencies::Dependencies;
pub use record::history::{Effort, Handover, History, Learnt};
pub use record::identities::IdentityMap;
use record::source_record;
pub use record::trace::Trace;
pub use stack::FrameStack;
use statements::building::StatementInProgress;
pub(crate) use statements::refused_calls::{Refusals, Refused};
pub use statements::switches::Switches;

/// How a simulated frame ended its run.
pub enum Exit {
    /// The frame returned.
    Return(VarId),
    /// A generator frame yielded.
    Yield(VarId),
}

/// What is kept for reports and observers.
pub(crate) struct Observed {
    /// The lines and places of the simulation for reports, if the user asked for details.
    pub(crate) source: Option<SourceRecord>,
    /// The statements and guards that have been reported to observers.
    pub(crate) told: ObserverProgress,
}

/// A simulation: the trace so far, and the machine that goes on with it.
pub struct OpcodeExecutor<'py> {
    /// The interpreter.
    pub py: Python<'py>,
    /// The frozen registries.
    pub runtime: &'static Runtime,
    /// What the trace has recorded: values, assumptions, tensor operations and writes.
    pub trace: Trace<'py>,
    /// The frames being simulated.
    pub stack: FrameStack,
    /// The claim about the present instruction.
    pub claims: Claims,
    /// The global state that the trace has changed.
    pub switches: Switches<'py>,
    /// The limits of the trace.
    pub limits: TraceLimits,
    /// Which sizes of tensors are left open.
    pub(crate) sizes: Sizes,
    /// The statement that is being made.
    pub(crate) statement: StatementInProgress,
    /// The states of the trace at which the graph can be broken.
    pub(crate) checkpoints: Checkpoints,
    /// The objects, code objects and opcodes that the translation depends on.
    pub(crate) dependencies: Dependencies,
    /// Facts from this attempt, for later ones.
    pub(crate) learnt: Learnt,
    /// Records for reports and observers.
    pub(crate) observed: Observed,
}

impl<'py> OpcodeExecutor<'py> {
    /// Makes the executor for a frame with the given globals.
    pub fn new(
        py: Python<'py>,
        runtime: &'static Runtime,
        globals: &Bound<'py, PyDict>,
        history: Rc<History>,
        handover: Handover,
    ) -> Flow<Self> {
        Ok(OpcodeExecutor {
            py,
            runtime,
            stack: FrameStack::new(globals.clone().unbind()),
            claims: Claims::default(),
            switches: Switches::new(py),
            limits: TraceLimits::new(history.effort, history.gave_way),
            trace: Trace::new(py, runtime, history)?,
            sizes: handover.sizes,
            statement: StatementInProgress::default(),
            checkpoints: Checkpoints::new(handover.planned),
            dependencies: Dependencies::default(),
            learnt: Learnt::starting_from(handover.refusals),
            observed: Observed {
                source: report::has_details().then(SourceRecord::default),
                told: ObserverProgress::default(),
            },
        })
    }

    /// Simulates the innermost frame until it returns or yields. After a break or fallback the frames are as they
    /// were before the instruction that could not be simulated.
    pub fn run(&mut self) -> Flow<Exit> {
        let depth = self.stack.len();
        if depth > policy::MAX_DEPTH {
            return Err(Unwind::fallback(ReasonId::TraceTooLong, "calls nested too deeply"));
        }
        limits::refuse_full_stack()?;
        let resumable = depth <= policy::MAX_RESUMABLE && self.stack.iter().skip(1).all(|frame| frame.claim.is_some());
        loop {
            match self.advance(depth, resumable) {
                Ok(None) => {}
                Ok(Some(exit)) => return Ok(exit),
                Err(unwind) => return Err(with_location(self, unwind)),
            }
        }
    }

    /// Simulates one instruction of the innermost frame, the one at `depth`. Returns how the frame ended, if it did.
    /// `resumable`: the graph can be broken between two instructions of the frame.
    fn advance(&mut self, depth: usize, resumable: bool) -> Flow<Option<Exit>> {
        if resumable {
            self.save();
            if let Some(unwind) = break_between(self) {
                return Err(unwind);
            }
        }
        let next = step(self);
        if matches!(next, Ok(_) | Err(Unwind::Raise(_))) {
            if let Some(unwind) = observable_drops::dropped_by_write(self)? {
                return Err(unwind);
            }
        }
        match next {
            Ok(Next::Continue) => Ok(None),
            Ok(Next::Jump(label)) => jump(self, label, resumable).map(|()| None),
            Ok(Next::Return(value)) => Ok(Some(Exit::Return(value))),
            Ok(Next::Yield(value)) => Ok(Some(Exit::Yield(value))),
            Err(Unwind::Raise(exception)) => {
                self.stack.truncate(depth);
                unwinding::refuse_longer_traceback(self, exception)?;
                unwinding::refuse_unknown_context(self, exception)?;
                unwinding::handle_exception(self, exception).map(|()| None)
            }
            Err(unwind) => Err(unwind),
        }
    }
}

/// Returns why the graph breaks before the next instruction, if it does.
fn break_between(cx: &mut OpcodeExecutor<'_>) -> Option<Unwind> {
    if let Some(dropped) = observable_drops::dropped(cx) {
        let text = format!("{} is dropped, and its destruction runs code", cx.trace.text(dropped));
        let reason = Reason::new(ReasonId::UnsupportedOperation, text);
        let frame = cx.stack.frame_mut();
        frame.at = frame.pc;
        return Some(Unwind::BreakGraph(Box::new(Reason { extent: Extent::Nothing, ..reason })));
    }
    let planned = cx.checkpoints.due()?;
    let frame = cx.stack.frame_mut();
    frame.at = frame.pc;
    Some(if planned.reads_frame {
        cx.stack.leave_to_cpython(planned.reason)
    } else {
        Unwind::BreakGraph(Box::new(planned.reason))
    })
}

/// Goes on at `label`, unless a loop ends its graph before the iteration that begins there.
fn jump(cx: &mut OpcodeExecutor<'_>, label: Label, resumable: bool) -> Flow<()> {
    let ends = if resumable { loop_iterations::round_begins(cx, label) } else { None };
    let frame = cx.stack.frame_mut();
    frame.pc = label;
    let Some(unwind) = ends else { return Ok(()) };
    frame.at = label;
    cx.save();
    Err(unwind)
}

/// Simulates one instruction of the innermost frame.
fn step(cx: &mut OpcodeExecutor<'_>) -> Flow<Next> {
    cx.claims.clear();
    limits::count_step(cx)?;
    let frame = cx.stack.frame_mut();
    let at = frame.pc;
    let Some(instruction) = frame.code.code.instructions.get(at.0 as usize) else {
        return Err(Unwind::fallback(ReasonId::UnsupportedFrame, "the code ends without a return"));
    };
    let operand = Operand { opcode: instruction.opcode, arg: instruction.arg, at, target: instruction.target };
    frame.at = at;
    frame.pc = Label(at.0 + 1);
    if cx.trace.history.is_resumed {
        cx.dependencies.place(&frame.code, at);
    }
    if cx.observed.source.is_some() {
        source_record::note_line(cx);
    }
    if log::enabled(log::TRACE) {
        log_step(cx, &operand);
    }
    let next = if cx.runtime.observers.is_empty() {
        cx.runtime.dispatch.simulate(cx, &operand)
    } else {
        observer::step(cx, &operand)
    };
    let Some(next) = next else {
        let name = cx.runtime.opcode_name(cx.py, operand.opcode);
        return Err(Unwind::break_graph(ReasonId::UnimplementedOpcode, format!("opcode {name} has no handler")));
    };
    if matches!(next, Ok(_) | Err(Unwind::Raise(_))) {
        cx.dependencies.opcode(operand.opcode);
    }
    next
}

/// Writes the program's source position into a reason that has none yet, with the function that forbids breaks or
/// fallbacks, if any.
fn with_location(cx: &OpcodeExecutor<'_>, mut unwind: Unwind) -> Unwind {
    let what = if matches!(unwind, Unwind::BreakGraph(_)) { Forbidden::Break } else { Forbidden::Fallback };
    if let Unwind::BreakGraph(reason) | Unwind::Fallback(reason) = &mut unwind {
        if reason.stack.is_empty() {
            reason.stack = cx.stack.locations();
            let why = reason.id;
            let forbids = |frame: &&Frame| {
                let code = frame.code.object.bind(cx.py);
                cache::forbids(code, what) || cx.runtime.backend().user_interface().forbids(code, what, why)
            };
            reason.forbidden_by = cx.stack.iter().find(forbids).map(|frame| frame.code.code.qualname.clone());
        }
    }
    unwind
}

fn log_step(cx: &OpcodeExecutor<'_>, operand: &Operand) {
    let stack: Vec<String> = cx.stack.frame().stack.iter().map(|&v| cx.trace.text(v)).collect();
    let name = cx.runtime.opcode_name(cx.py, operand.opcode);
    log::write(log::TRACE, &format!("[TraceExecution]: {name}, stack is [{}]", stack.join(", ")));
}

pub use crate::entity::Name;
