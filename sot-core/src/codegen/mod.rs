//! Code generation: writes a code object from a finished trace. It loads the graph's inputs by their trackers, calls
//! the graph, restores what the frame would have left (values, identities, writes) and returns. File, name and lines
//! are those of the original code; its signature becomes flat (see `cpython`).

mod break_graph;
mod cycles;
mod generator;
mod load;
mod native;
mod rebuild;
mod restore;
mod resumed_frame;
mod second_run;
mod signals;
mod slots;

use std::rc::Rc;

use pyo3::prelude::*;

use crate::bytecode::{BytecodeError, Op, Position};
use crate::emit::Emitter;
use crate::error::{Flow, Unwind};
use crate::graph::StatementIR;
use crate::machine::executor::{Checkpoints, CodeUnit, Trace};
use crate::machine::variable::{Argument, Rebuild, VarId};
use crate::resume::ResumeSource;
use crate::trace::{FinishedTrace, ReturnTrace};
use crate::tracker::{Tracker, TrackerId};

use cycles::Construction;
use second_run::ExceptionRanges;
use slots::LocalSlots;

/// Result of code generation for a frame.
pub struct NewCode {
    /// The code object.
    pub code: Py<PyAny>,
    /// The graphs that the code calls.
    pub graphs: Vec<StatementIR>,
    /// Addresses of the codes of its resume functions.
    pub resumes: Vec<usize>,
}

/// The generator of new code for one frame.
pub struct CodeGen<'a, 'py> {
    /// The trace that the code is written from.
    pub trace: &'a Trace<'py>,
    /// The states to which the next attempt goes back for what new code cannot make.
    checkpoints: &'a Checkpoints,
    root: Rc<CodeUnit>,
    emitter: Emitter,
    slots: LocalSlots,
    construction: Construction,
    ranges: ExceptionRanges,
    /// Tensors that the graph returns.
    outputs: Vec<VarId>,
    // Addresses of the codes of its resume functions.
    resumes: Vec<usize>,
}

impl<'a, 'py> CodeGen<'a, 'py> {
    /// Creates a generator of new code for `root`.
    pub fn new(finished: &FinishedTrace<'a, 'py>, root: Rc<CodeUnit>) -> Flow<Self> {
        let (trace, checkpoints) = (finished.trace, finished.checkpoints);
        let line = root.code.first_line;
        let mut emitter = Emitter::new(trace.py, &root.code, Position::line(line));
        emitter.prologue(&root.code, false)?;
        // A signal handler may raise as soon as the frame begins. If the resumed frame begins within a `try`, the
        // program has to catch that exception.
        let catches = trace.is_resumed() && ResumeSource::of(trace.py, &root)?.may_catch(trace.py);
        let begun = if catches { Some(emitter.begin_first_try()?) } else { None };
        emitter.begin()?;
        Ok(CodeGen {
            trace,
            checkpoints,
            root,
            emitter,
            slots: LocalSlots::default(),
            construction: Construction::default(),
            ranges: ExceptionRanges::beginning(begun),
            outputs: Vec::new(),
            resumes: Vec::new(),
        })
    }

    /// Writes code that returns from the frame: graph, restored values, writes, return.
    pub fn compile_return(mut self, end: ReturnTrace<'_, 'py>) -> Flow<NewCode> {
        let (value, dying) = (end.value, end.dying);
        let graphs = self.call_graph(end.finished.graph)?;
        self.end_beginning()?;
        if !self.trace.effects.is_empty() || !dying.is_empty() {
            self.keep(value)?;
        }
        for &value in &dying {
            self.keep(value)?;
        }
        self.restore_effects()?;
        self.load(value)?;
        self.leave_to(&dying)?;
        self.emitter.op(Op::RETURN_VALUE, 0)?;
        self.finish(graphs)
    }

    /// Begins a call of a constant, whose arguments are loaded one by one.
    fn begin_call_of(&mut self, callable: Py<PyAny>) -> Flow<()> {
        self.before_callable()?;
        self.load_const(callable)?;
        self.after_callable()
    }

    /// `callable(*args)` of a constant.
    fn call_of(&mut self, callable: Py<PyAny>, args: impl IntoIterator<Item = Argument>) -> Flow<()> {
        self.begin_call_of(callable)?;
        let mut given = 0;
        for arg in args {
            self.load_argument(arg)?;
            given += 1;
        }
        self.end_call(given)
    }

    /// Makes the value now, so that later loads give it in its present state.
    pub fn keep(&mut self, variable: VarId) -> Flow<()> {
        if self.slots.hold(variable) {
            return Ok(());
        }
        self.load(variable)?;
        if self.slots.hold(variable) {
            return self.emitter.op(Op::POP_TOP, 0);
        }
        self.define(variable)
    }

    /// Saves globals whose tracker leads through objects that may be written to.
    fn keep_globals(&mut self, tracker: TrackerId) -> Flow<()> {
        let stable = matches!(
            self.trace.trackers.get(tracker),
            Tracker::Globals | Tracker::Constant(_) | Tracker::Registered(_)
        );
        if stable || self.slots.of_globals(tracker).is_some() {
            return Ok(());
        }
        self.load_globals(tracker)?;
        let slot = self.slots.add_globals(&mut self.emitter, tracker);
        self.emitter.op(Op::STORE_FAST, slot)
    }

    /// Adds a resume function that the code uses, by the address of its code.
    fn add_resume(&mut self, code: usize) {
        if !self.resumes.contains(&code) {
            self.resumes.push(code);
        }
    }

    /// Writes the exception handlers at the end of the code, and makes the code object.
    fn finish(mut self, graphs: Vec<StatementIR>) -> Flow<NewCode> {
        self.handle_graph_error()?;
        self.handle_driven()?;
        let resumes = std::mem::take(&mut self.resumes);
        Ok(NewCode { code: self.assemble()?.unbind(), graphs, resumes })
    }

    fn assemble(self) -> Flow<Bound<'py, PyAny>> {
        let py = self.trace.py;
        let mut code = self.root.code.without_instructions(py);
        code.take_all_by_position();
        self.emitter.finish(&mut code);
        self.root.encode(py, &code).map_err(|error| internal(&error))
    }
}

fn internal(error: &BytecodeError) -> Unwind {
    pyo3::exceptions::PyRuntimeError::new_err(format!("new code cannot be assembled: {error}")).into()
}
