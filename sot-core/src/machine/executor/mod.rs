//! The OpcodeExecutor: simulates a frame's bytecode on variables, records tensor work in the graph, and collects guards
//! and side effects. What an opcode means is said by named methods in the files of this folder; which opcode means what
//! is said by registrations in other crates.

mod attribute;
mod bind;
mod call;
mod changing;
mod checkpoint;
mod claim;
mod closing;
mod constant;
mod frame;
mod history;
mod in_place;
mod inline;
mod load_store;
mod misfit;
pub mod object_model;
mod operators;
mod patience;
mod raised;
mod refused;
mod registered;
mod rounds;
mod sequence;
pub(crate) mod sizes;
mod statements;
mod stores;
mod switches;
mod traceback;
mod trail;
mod unwinding;
pub mod warnings;
mod wrap;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict};

use crate::bytecode::{Label, Op, Opcodes};
use crate::cache;
use crate::compiler;
use crate::error::{Flow, Forbidden, Location, PlannedBreak, Reason, ReasonId, Unwind};
use crate::graph::FunctionGraph;
use crate::guard::Guards;
use crate::log;
use crate::machine::observer::{self, Told};
use crate::machine::opcode::{self, AtBreak, Next, OpcodeSet, Operand};
use crate::machine::runtime::Runtime;
use crate::machine::variable::{VarId, Variables};
use crate::policy;
use crate::report::{self, Trail};
use crate::side_effects::SideEffects;
use crate::tracker::{TrackerId, Trackers};

pub use crate::bytecode::CodeUnit;
pub use crate::open_sizes::Sizes;
pub use crate::operators::{BinaryOp, CompareOp, UnaryOp};
pub use crate::policy::ValuePolicy;
pub use crate::tracker::Globals;
pub use call::CallArgs;
pub use checkpoint::{BreakPoint, Checkpoint, WatchedDrop};
pub use claim::{Claim, Claims};
pub use closing::Closing;
pub use frame::{Block, Frame, Handled};
pub use history::{Effort, History, Learnt};
pub use inline::{FunctionParts, KeywordDefault, OpcodeInlineExecutor, PositionalDefault};
pub use patience::Patience;
use raised::Raised;
pub(crate) use refused::{Refusals, Refused};
use rounds::Rounds;
pub use switches::Switches;
pub use traceback::{TracebackEntry, TracebackVariable, TracedFrame};
pub use unwinding::BookkeepingVariable;
pub use wrap::IdentityMap;
use wrap::StandInClasses;

/// How a stretch of simulation ended.
pub enum Exit {
    /// The frame returned.
    Return(VarId),
    /// A generator frame yielded.
    Yield(VarId),
}

/// The state of one translation.
pub struct OpcodeExecutor<'py> {
    /// The interpreter.
    pub py: Python<'py>,
    /// The frozen registries.
    pub runtime: &'static Runtime,
    /// The variables.
    pub vars: Variables,
    /// Where they come from.
    pub trackers: Trackers,
    /// What was assumed about them.
    pub guards: Guards,
    /// The tensor work.
    pub graph: FunctionGraph<'py>,
    /// What earlier calls and attempts have shown.
    pub history: History,
    /// What this attempt has.
    learnt: Learnt,
    /// Which sizes of tensors are left open.
    pub sizes: Sizes,
    /// Whether a resume function has found a cell of its function's own empty, of which its code says something else.
    pub lacks_own_cell: bool,
    /// What the statement being made takes.
    takes: statements::Takes,
    /// Objects whose identity the statement being made depends on, with their trackers. They are guarded once the
    /// statement exists.
    pub(crate) assumed_objects: Vec<(Py<PyAny>, TrackerId)>,
    /// The addresses of what was called and looked at, of which the program may register something.
    pub(crate) met_objects: HashSet<usize>,
    /// The writes to replay.
    pub effects: SideEffects,
    /// The global state it changes.
    pub switches: Switches<'py>,
    /// The frames being simulated, outermost first.
    pub frames: Vec<Frame>,
    identities: IdentityMap,
    stand_in_classes: StandInClasses,
    // One for each frame of the chain of direct calls, the outermost first.
    checkpoints: Vec<Checkpoint>,
    saves: u64,
    planned: Option<PlannedBreak>,
    /// The instructions that read their frame's variables, as `eval` does.
    frame_reads: HashSet<u64>,
    raised: Raised,
    rounds: Rounds,
    // Values whose destruction is observable and that this frame may own last.
    watched_drops: Vec<WatchedDrop>,
    /// What the present instruction asks or calls, and all that it does besides.
    pub claims: Claims,
    root_globals: Py<PyDict>,
    null: VarId,
    /// How long the trace may go on.
    pub patience: Patience,
    simulated: OpcodeSet,
    /// How many calls are being made for other calls.
    nesting: usize,
    units: HashMap<usize, Rc<CodeUnit>>,
    /// What reports show of the way, if details are asked for.
    pub(crate) trail: Option<Trail>,
    /// What observers have been told.
    pub(crate) told: Told,
}

impl<'py> OpcodeExecutor<'py> {
    /// An executor for a frame with the given globals.
    pub fn new(
        py: Python<'py>,
        runtime: &'static Runtime,
        globals: &Bound<'py, PyDict>,
        mut history: History,
    ) -> Flow<Self> {
        let mut vars = Variables::default();
        let mut trackers = Trackers::default();
        let produced = trackers.add(crate::tracker::Tracker::Produced);
        let null = vars.add((runtime.factories.null)(), produced);
        let mut guards = Guards::default();
        guards.add_state(runtime.ask_backend(|backend| backend.state_test(py))?);
        if let Some(test) = compiler::test(py) {
            guards.add_state(test);
        }
        Ok(OpcodeExecutor {
            py,
            runtime,
            vars,
            trackers,
            guards,
            graph: FunctionGraph::new(py, &*runtime.backend),
            sizes: std::mem::take(&mut history.sizes),
            planned: history.planned.take(),
            patience: Patience::new(history.effort, history.gave_way),
            history,
            learnt: Learnt::default(),
            lacks_own_cell: false,
            takes: statements::Takes::default(),
            assumed_objects: Vec::new(),
            met_objects: HashSet::new(),
            effects: SideEffects::default(),
            switches: Switches::new(py),
            frames: Vec::new(),
            identities: IdentityMap::default(),
            stand_in_classes: StandInClasses::default(),
            checkpoints: Vec::new(),
            saves: 0,
            frame_reads: HashSet::new(),
            raised: Raised::default(),
            rounds: Rounds::default(),
            watched_drops: Vec::new(),
            claims: Claims::default(),
            root_globals: globals.clone().unbind(),
            null,
            simulated: OpcodeSet::default(),
            nesting: 0,
            units: HashMap::new(),
            trail: report::has_details().then(Trail::default),
            told: Told::default(),
        })
    }

    /// Simulates the innermost frame until it returns or yields. On a break or fallback the frames are left as they
    /// were before the instruction that could not be simulated.
    pub fn run(&mut self) -> Flow<Exit> {
        let depth = self.frames.len();
        if depth > policy::MAX_DEPTH {
            return Err(Unwind::fallback(ReasonId::TraceTooLong, "calls nested too deeply"));
        }
        self.refuse_full_stack()?;
        let resumable = depth <= policy::MAX_RESUMABLE && self.frames.iter().skip(1).all(|frame| frame.claim.is_some());
        loop {
            if resumable {
                self.save();
                if let Some(dropped) = self.dropped() {
                    let text = format!("{} is dropped, which runs what is left of it", self.text(dropped));
                    let reason = Reason::new(ReasonId::UnsupportedOperation, text);
                    let frame = self.frame_mut();
                    frame.at = frame.pc;
                    return Err(self.place(Unwind::BreakGraph(Box::new(Reason { between: true, ..reason }))));
                }
                if let Some(planned) = self.planned.take_if(|planned| planned.step == self.saves) {
                    let frame = self.frame_mut();
                    frame.at = frame.pc;
                    let unwind = if planned.reads_frame {
                        self.leave_frame(planned.reason)
                    } else {
                        Unwind::BreakGraph(Box::new(planned.reason))
                    };
                    return Err(self.place(unwind));
                }
            }
            match self.step() {
                Ok(Next::Continue) => {}
                Ok(Next::Jump(label)) => {
                    if let Some(unwind) = if resumable { self.round_begins(label) } else { None } {
                        let frame = self.frame_mut();
                        (frame.at, frame.pc) = (label, label);
                        self.save();
                        return Err(self.place(unwind));
                    }
                    self.frame_mut().pc = label;
                }
                Ok(Next::Return(value)) => return Ok(Exit::Return(value)),
                Ok(Next::Yield(value)) => return Ok(Exit::Yield(value)),
                Err(Unwind::Raise(exception)) => {
                    self.frames.truncate(depth);
                    self.refuse_longer_traceback(exception).map_err(|unwind| self.place(unwind))?;
                    self.refuse_unknown_context(exception).map_err(|unwind| self.place(unwind))?;
                    self.handle_exception(exception).map_err(|unwind| self.place(unwind))?;
                }
                Err(unwind) => return Err(self.place(unwind)),
            }
        }
    }

    fn step(&mut self) -> Flow<Next> {
        self.claims.clear();
        self.count_step()?;
        let frame = self.frame_mut();
        let at = frame.pc;
        let Some(instruction) = frame.code.code.instructions.get(at.0 as usize) else {
            return Err(Unwind::fallback(ReasonId::UnsupportedFrame, "the code ends without a return"));
        };
        let operand = Operand { opcode: instruction.opcode, arg: instruction.arg, at, target: instruction.target };
        frame.at = at;
        frame.pc = Label(at.0 + 1);
        if self.trail.is_some() {
            self.note_line();
        }
        if log::enabled(log::TRACE) {
            self.log_step(&operand);
        }
        let next = if self.runtime.observers.is_empty() {
            self.runtime.dispatch.simulate(self, &operand)
        } else {
            observer::step(self, &operand)
        };
        let Some(next) = next else {
            let name = self.runtime.opcode_name(self.py, operand.opcode);
            return Err(Unwind::break_graph(ReasonId::UnimplementedOpcode, format!("opcode {name} has no handler")));
        };
        if matches!(next, Ok(_) | Err(Unwind::Raise(_))) {
            self.simulated.insert(operand.opcode);
        }
        next
    }

    /// Whether the program drops what the instruction gives.
    pub fn drops_result(&self) -> bool {
        let frame = self.frame();
        let next = frame.code.code.instructions.get(frame.pc.index());
        next.is_some_and(|next| Opcodes::get(self.py).is(next.opcode, Op::POP_TOP))
    }

    fn log_step(&self, operand: &Operand) {
        let stack: Vec<String> = self.frame().stack.iter().map(|&v| self.text(v)).collect();
        let name = self.runtime.opcode_name(self.py, operand.opcode);
        log::write(log::TRACE, &format!("[TraceExecution]: {name}, stack is [{}]", stack.join(", ")));
    }

    /// Writes the user's source position into a reason that has none yet, and which function forbids it.
    fn place(&self, mut unwind: Unwind) -> Unwind {
        let what = if matches!(unwind, Unwind::BreakGraph(_)) { Forbidden::Break } else { Forbidden::Fallback };
        if let Unwind::BreakGraph(reason) | Unwind::Fallback(reason) = &mut unwind {
            if reason.stack.is_empty() {
                reason.stack = self.user_stack();
                let why = reason.id;
                let forbids = |frame: &&Frame| {
                    let code = frame.code.object.bind(self.py);
                    cache::forbids(code, what) || self.runtime.backend.forbids(code, what, why)
                };
                reason.forbidden_by = self.frames.iter().find(forbids).map(|frame| frame.code.code.qualname.clone());
            }
        }
        unwind
    }

    /// What leaves the innermost frame to CPython. A call of an inlined function breaks the graph; then that function's
    /// frame comes to the same by itself.
    pub fn leave_frame(&self, reason: Reason) -> Unwind {
        if self.frames.len() == 1 {
            return Unwind::Fallback(Box::new(reason));
        }
        Unwind::BreakGraph(Box::new(Reason { of_frame: true, ..reason }))
    }

    /// Whether there is anything of tensors in the trace: statements, or inputs of the graph.
    pub(crate) fn has_met_tensors(&self) -> bool {
        !self.graph.is_empty() || self.graph.has_inputs()
    }

    /// The user's source positions, innermost first.
    pub fn user_stack(&self) -> Vec<Location> {
        self.frames.iter().rev().map(Frame::location).collect()
    }

    /// A reason placed at the present instruction.
    pub fn reason(&self, id: ReasonId, text: impl Into<String>) -> Reason {
        let mut reason = Reason::new(id, text);
        reason.stack = self.user_stack();
        reason
    }

    /// The opcodes whose handlers went through, or raised what the program raises.
    pub fn simulated(&self) -> OpcodeSet {
        self.simulated
    }

    /// Whether the innermost frame is that of a resume function which is still laying out what it was given.
    pub fn is_resuming(&self) -> bool {
        let frame = self.frame();
        let code = frame.code.object.bind(self.py).cast::<PyCode>().ok();
        code.and_then(cache::prologue_of).is_some_and(|prologue| frame.at.0 < prologue)
    }

    /// Whether the outermost frame goes on where a loop has just been given an item.
    pub fn begins_with_item(&self) -> bool {
        let code = &self.frames[0].code;
        let prologue = code.object.bind(self.py).cast::<PyCode>().ok().and_then(cache::prologue_of);
        let behind = prologue.and_then(|prologue| code.code.instructions[prologue as usize - 1].target);
        let head = behind.and_then(|behind| code.code.instructions.get((behind.0 as usize).checked_sub(1)?));
        head.is_some_and(|head| opcode::describe(head.opcode).at_break == AtBreak::Advance)
    }

    /// A code object decoded; each is decoded once.
    pub fn code_unit(&mut self, code: &Bound<'py, PyAny>) -> Flow<Rc<CodeUnit>> {
        if let Some(unit) = self.units.get(&(code.as_ptr() as usize)) {
            return Ok(Rc::clone(unit));
        }
        let unit = CodeUnit::new(code).map_err(|error| {
            Unwind::break_graph(
                ReasonId::UnsupportedCall,
                format!("the bytecode of a function cannot be read: {error}"),
            )
        })?;
        self.units.insert(code.as_ptr() as usize, Rc::clone(&unit));
        Ok(unit)
    }

    /// The code objects decoded so far.
    pub(crate) fn followed(&self) -> Vec<Rc<CodeUnit>> {
        self.units.values().cloned().collect()
    }

    /// The innermost frame.
    pub fn frame(&self) -> &Frame {
        self.frames.last().expect("an executor runs with at least one frame")
    }

    /// The innermost frame.
    pub fn frame_mut(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("an executor runs with at least one frame")
    }

    /// Pushes onto the stack of the innermost frame.
    pub fn push(&mut self, value: VarId) {
        self.frame_mut().stack.push(value);
    }

    /// Pops from the stack of the innermost frame.
    pub fn pop(&mut self) -> Flow<VarId> {
        self.frame_mut().stack.pop().ok_or_else(stack_underflow)
    }

    /// Pops a fixed number of items; the first of the result lay deepest.
    pub fn pop_array<const N: usize>(&mut self) -> Flow<[VarId; N]> {
        let items = self.pop_many(N)?;
        items.try_into().map_err(|_| stack_underflow())
    }

    /// Pops `n` items; the first of the result lay deepest.
    pub fn pop_many(&mut self, n: usize) -> Flow<Vec<VarId>> {
        let stack = &mut self.frame_mut().stack;
        let split = stack.len().checked_sub(n).ok_or_else(stack_underflow)?;
        Ok(stack.split_off(split))
    }

    /// The `n`-th item from the top, 1 being the top.
    pub fn peek(&self, n: usize) -> Flow<VarId> {
        let stack = &self.frame().stack;
        stack.len().checked_sub(n).and_then(|i| stack.get(i)).copied().ok_or_else(stack_underflow)
    }

    /// The empty stack slot of calls.
    pub fn null(&self) -> VarId {
        self.null
    }

    /// The value for logs.
    pub fn text(&self, id: VarId) -> String {
        self.vars.get(id).text(self)
    }
}

fn stack_underflow() -> Unwind {
    pyo3::exceptions::PyRuntimeError::new_err("the simulated stack ran out of items").into()
}

pub use crate::entity::Name;
