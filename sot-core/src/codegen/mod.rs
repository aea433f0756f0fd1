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
use crate::machine::executor::{refuse_deep_values, BinaryOp, CallArgs, Checkpoints, CodeUnit, Trace};
use crate::machine::variable::{Argument, VarId};
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

    /// Loads a variable's value. A value made in the trace is made once; later loads give the same object.
    pub fn load(&mut self, variable: VarId) -> Flow<()> {
        if let Some(slot) = self.slots.of(variable) {
            return self.emitter.op(Op::LOAD_FAST, slot);
        }
        if let Some(&cell) = self.slots.cells.get(&variable) {
            return self.emitter.load_closure(cell);
        }
        refuse_deep_values()?;
        let tracker = self.trace.vars.tracker(variable);
        let known = self.trace.trackers.is_made(tracker) && self.trace.vars.get(variable).constant().is_some();
        if self.trace.trackers.is_loadable(tracker) && !known {
            self.load_tracker(tracker)?;
            // A getter implemented in C may return another object at each read, so the first one is kept.
            if !matches!(self.trace.trackers.get(tracker), Tracker::Getattr { .. }) {
                return Ok(());
            }
            self.define(variable)?;
            return self.load(variable);
        }
        let payload = self.trace.vars.get(variable);
        if let Some(constant) = payload.constant() {
            let constant = constant.clone_ref(self.trace.py);
            return self.load_const(constant);
        }
        self.construction.begin(variable)?;
        payload.reconstruct(self, variable)?;
        self.construction.end();
        if !self.slots.hold(variable) {
            self.define(variable)?;
        }
        self.fill_attributes_in_time(variable)?;
        self.fill()?;
        self.load(variable)
    }

    /// Takes the top of the stack as the variable's object. A kind that makes its object in steps calls this after
    /// the first step, so that later steps may refer to the object.
    pub fn define(&mut self, variable: VarId) -> Flow<()> {
        let slot = self.slots.add(&mut self.emitter, variable);
        self.emitter.op(Op::STORE_FAST, slot)
    }

    /// True if the variable's object has been made.
    pub fn is_defined(&self, variable: VarId) -> bool {
        self.slots.hold(variable)
    }

    /// Ends making a class. The last one to end fills the cells.
    fn end_class(&mut self) -> Flow<()> {
        self.construction.end_class();
        while let Some(cell) = self.construction.next_open_cell() {
            self.trace.vars.get(cell).restore_contents(self, cell)?;
        }
        Ok(())
    }

    /// `object.name = value`, or `del object.name`.
    pub fn store_attr(&mut self, object: VarId, name: &str, value: Option<Argument>) -> Flow<()> {
        if let Some(value) = value {
            self.load_argument(value)?;
            self.load(object)?;
            let index = self.emitter.name(name);
            return self.op(Op::STORE_ATTR, index);
        }
        self.load(object)?;
        let index = self.emitter.name(name);
        self.op(Op::DELETE_ATTR, index)
    }

    /// Loads a globals dict.
    pub fn load_globals(&mut self, tracker: TrackerId) -> Flow<()> {
        if let Some(slot) = self.slots.of_globals(tracker) {
            return self.emitter.op(Op::LOAD_FAST, slot);
        }
        self.load_tracker(tracker)
    }

    /// Begins a call whose arguments are loaded one by one.
    pub fn begin_call(&mut self, callable: impl FnOnce(&mut Self) -> Flow<()>) -> Flow<()> {
        self.emitter.begin_call()?;
        callable(self)?;
        self.emitter.callable_loaded()
    }

    /// Ends a call with this many arguments.
    pub fn end_call(&mut self, argc: u32) -> Flow<()> {
        self.emitter.call(argc)
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

    /// Loads a constant.
    pub fn load_const(&mut self, value: Py<PyAny>) -> Flow<()> {
        self.emitter.load_const(value)
    }

    /// Loads an argument of a call. Containers are created anew.
    pub fn load_argument(&mut self, argument: Argument) -> Flow<()> {
        match argument {
            Argument::Variable(variable) => self.load(variable),
            Argument::Constant(object) => self.load_const(object),
            Argument::Globals(tracker) => self.load_globals(tracker),
            Argument::Tuple(items) => self.build(Op::BUILD_TUPLE, items),
            Argument::List(items) => self.build(Op::BUILD_LIST, items),
            Argument::Dict(entries) => {
                let count = entries.len() as u32;
                for (key, value) in entries {
                    self.load_argument(key)?;
                    self.load_argument(value)?;
                }
                self.op(Op::BUILD_MAP, count)
            }
        }
    }

    fn build(&mut self, op: Op, items: Vec<Argument>) -> Flow<()> {
        let count = items.len() as u32;
        items.into_iter().try_for_each(|item| self.load_argument(item))?;
        self.op(op, count)
    }

    /// `callable(*args)`, with the callable given by the code that loads it.
    pub fn call<A: Into<Argument>>(
        &mut self,
        callable: impl FnOnce(&mut Self) -> Flow<()>,
        args: impl IntoIterator<Item = A>,
    ) -> Flow<()> {
        self.begin_call(callable)?;
        let mut given = 0;
        for arg in args {
            self.load_argument(arg.into())?;
            given += 1;
        }
        self.end_call(given)
    }

    /// `callable()`
    pub(crate) fn call_bare(&mut self, callable: Py<PyAny>) -> Flow<()> {
        self.begin_call(|cg| cg.load_const(callable))?;
        self.end_call(0)
    }

    /// `callable(*args, **keywords)`
    pub fn call_with(&mut self, callable: Argument, args: &CallArgs) -> Flow<()> {
        self.begin_call(|cg| cg.load_argument(callable))?;
        for value in args.all() {
            self.load(value)?;
        }
        let given = args.all().count() as u32;
        if args.keywords.is_empty() {
            return self.end_call(given);
        }
        let names: Vec<&str> = args.keywords.iter().map(|(name, _)| &**name).collect();
        self.emitter.call_with_keywords(self.trace.py, given, &names)
    }

    /// Writes one instruction with its plain operand.
    pub fn op(&mut self, op: Op, arg: u32) -> Flow<()> {
        self.emitter.op(op, arg)
    }

    /// Applies an operator to the two topmost stack items.
    pub fn binary(&mut self, op: BinaryOp) -> Flow<()> {
        self.emitter.binary(op)
    }

    /// `<top of stack>.name`
    pub fn load_attr(&mut self, name: &str) -> Flow<()> {
        self.emitter.load_attr(name)
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
