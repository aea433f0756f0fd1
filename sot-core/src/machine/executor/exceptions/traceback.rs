//! Tracebacks of exceptions in the trace. As in CPython, each frame that an exception passes adds an entry in front,
//! and raising an exception again in the frame that handles it adds none.

use std::rc::Rc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyTraceback;

use crate::bytecode::Label;
use crate::cpython;
use crate::error::{Flow, ReasonId, Unwind};
use crate::language::LANGUAGE;
use crate::machine::executor::{
    object_model, BookkeepingVariable, CodeUnit, Frame, Globals, Name, OpcodeExecutor, Trace,
};
use crate::machine::variable::Rebuild;
use crate::machine::variable::{VarId, Variable};
use crate::readers;

/// A simulated frame, as tracebacks refer to it.
pub struct TracedFrame {
    /// The code that the frame runs.
    pub code: Rc<CodeUnit>,
    /// The globals of the frame.
    pub globals: Globals,
}

/// An entry of a traceback.
pub struct TracebackEntry {
    /// The frame.
    pub place: Rc<TracedFrame>,
    /// The instruction that raised the exception, or called the function that did.
    pub at: Label,
    /// The entry of the frame that was called there.
    pub next: Option<Rc<TracebackEntry>>,
}

/// What is known of an exception's traceback.
#[derive(Clone)]
pub(super) enum Traceback {
    /// All entries.
    Known(Option<Rc<TracebackEntry>>),
    /// Not all entries: CPython would have some of frames that the trace did not simulate.
    Unknown,
}

impl TracebackEntry {
    /// `tb_lineno`
    pub fn line(&self) -> u32 {
        let code = &self.place.code.code;
        let line = code.instructions.get(self.at.index()).and_then(|instruction| instruction.position.line);
        line.unwrap_or(code.first_line)
    }

    /// Makes a real traceback of the entry and those behind it, with frames that have no variables.
    pub fn real<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let next = match &self.next {
            Some(next) => next.real(py)?,
            None => py.None().into_bound(py),
        };
        let unit = &self.place.code;
        let offsets = unit.code.offsets(py).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        let offset = offsets[self.at.index()];
        let frame = cpython::new_frame(unit.object.bind(py), self.place.globals.dict.bind(py))?;
        py.get_type::<PyTraceback>().call1((next, frame, offset, self.line())).map(Bound::into_any)
    }
}

impl Frame {
    /// Returns the frame as tracebacks refer to it: one object for all of them.
    pub fn traced_frame(&mut self, py: Python<'_>) -> Rc<TracedFrame> {
        let make = || Rc::new(TracedFrame { code: Rc::clone(&self.code), globals: self.globals.share(py) });
        Rc::clone(self.place.get_or_insert_with(make))
    }
}

impl Trace<'_> {
    /// Returns the traceback of an exception, for handlers and `__exit__`.
    pub fn traceback(&mut self, exception: VarId) -> VarId {
        if self.trackers.is_loadable(self.vars.tracker(exception)) {
            return self.produce(Rc::new(BookkeepingVariable::Traceback(exception)));
        }
        match self.raised.traceback(exception) {
            Traceback::Known(Some(entry)) => traceback_variable(self, exception, entry),
            Traceback::Known(None) if self.raised.step_of(exception).is_some() => self.none(),
            _ => self.produce(Rc::new(BookkeepingVariable::Traceback(exception))),
        }
    }

    /// Returns the only variable for an object that the trace keeps at an address, and makes it at the first call.
    pub fn view_of<T: Variable>(
        &mut self,
        address: usize,
        is_it: impl Fn(&T) -> bool,
        make: impl FnOnce() -> T,
    ) -> VarId {
        let known = self.raised.views.get(&address).copied().filter(|known| *known < self.vars.next_id());
        let is_known = |known: &VarId| self.vars.as_kind::<T>(*known).is_some_and(|known| is_it(&known));
        if let Some(known) = known.filter(is_known) {
            return known;
        }
        let view = self.produce(Rc::new(make()));
        self.raised.views.insert(address, view);
        view
    }
}

/// Sets the traceback of an exception. Returns false if the given traceback is not known.
pub fn set_traceback(cx: &mut OpcodeExecutor<'_>, exception: VarId, given: VarId) -> Flow<bool> {
    let given = match cx.trace.vars.as_kind::<TracebackVariable>(given) {
        Some(given) => Some(Rc::clone(&given.entry)),
        None if cx.known(given)?.is_some_and(|given| given.is_none()) => None,
        None => return Ok(false),
    };
    // New code could not set the traceback on a new exception.
    if given.is_some() || cx.trace.raised.step_of(exception).is_some() {
        cx.note_step(exception);
    }
    cx.trace.raised.set_traceback(exception, given);
    Ok(true)
}

/// Raises a handled exception again, with the traceback that it had when its handler began.
pub fn raise_again(cx: &mut OpcodeExecutor<'_>, exception: VarId, traceback: VarId) -> Flow<Unwind> {
    let of = cx.trace.vars.as_kind::<BookkeepingVariable>(traceback);
    let same = matches!(of.as_deref(), Some(BookkeepingVariable::Traceback(of)) if *of == exception);
    // A resume function enters a handler again, with the traceback that the exception has.
    if same || cx.stack.is_resuming(cx.py) || set_traceback(cx, exception, traceback)? {
        return Ok(cx.trace.raised.again(exception));
    }
    let text = "an exception is raised again with the traceback that it had";
    Ok(Unwind::break_graph(ReasonId::Raises, text))
}

/// The traceback of the exception being handled. Before 3.11 that is the one it had when its handler began.
pub fn handled_traceback(cx: &mut OpcodeExecutor<'_>) -> Option<VarId> {
    let handled = cx.stack.handled()?;
    Some(handled.traceback.unwrap_or_else(|| cx.trace.traceback(handled.exception)))
}

/// Adds the innermost frame to the traceback of an exception that is raised in it, or has left a frame it called.
pub(super) fn add_to_traceback(cx: &mut OpcodeExecutor<'_>, exception: VarId) {
    if std::mem::take(&mut cx.trace.raised.raises_again)
        || cx.trace.trackers.is_loadable(cx.trace.vars.tracker(exception))
    {
        return;
    }
    let Traceback::Known(next) = cx.trace.raised.traceback(exception) else { return };
    let py = cx.py;
    let place = cx.stack.frame_mut().traced_frame(py);
    let entry = Rc::new(TracebackEntry { place, at: cx.stack.frame().at, next });
    cx.trace.raised.set_traceback(exception, Some(entry));
}

/// Returns the variable of an entry: one entry is one object.
fn traceback_variable(trace: &mut Trace<'_>, exception: VarId, entry: Rc<TracebackEntry>) -> VarId {
    let is_it = |known: &TracebackVariable| Rc::ptr_eq(&known.entry, &entry);
    let make = || TracebackVariable { exception, entry: Rc::clone(&entry) };
    trace.view_of(Rc::as_ptr(&entry) as usize, is_it, make)
}

/// Returns the traceback that a beginning handler keeps, in versions where it does.
pub(super) fn kept_traceback(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> Option<VarId> {
    LANGUAGE.handlers_keep_tracebacks.then(|| cx.trace.traceback(exception))
}

/// An entry of the traceback of an exception that was raised in the trace.
pub struct TracebackVariable {
    exception: VarId,
    entry: Rc<TracebackEntry>,
}

impl TracebackVariable {
    /// The entry.
    pub fn entry(&self) -> &Rc<TracebackEntry> {
        &self.entry
    }
}

impl Variable for TracebackVariable {
    fn kind(&self) -> &'static str {
        "bookkeeping"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        trace.py.get_type::<PyTraceback>().into_any()
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.exception]
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        match &**name {
            "tb_lineno" => cx.trace.integer(i64::from(self.entry.line())).map(Some),
            "tb_frame" => Ok(Some((cx.runtime.factories.frame)(cx, &self.entry.place))),
            "tb_next" => Ok(Some(match &self.entry.next {
                Some(next) => traceback_variable(&mut cx.trace, self.exception, Rc::clone(next)),
                None => cx.trace.none(),
            })),
            "tb_lasti" => {
                let text = "attribute 'tb_lasti' of a traceback";
                Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, text))
            }
            _ => object_model::get_attr(cx, this, name),
        }
    }

    fn set_attr(&self, _: &mut OpcodeExecutor<'_>, _: VarId, _: &Name, _: Option<VarId>) -> Flow<()> {
        Err(Unwind::break_graph(ReasonId::UnsupportedMutation, "a traceback is changed"))
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        let present = cg.trace().raised.traceback_entry(self.exception).flatten();
        if !present.is_some_and(|present| Rc::ptr_eq(&present, &self.entry)) {
            return Err(cg.plan_to_raise(self.exception));
        }
        let traceback = readers::traceback(cg.py())?;
        cg.call(|cg| cg.load_const(traceback), [self.exception])
    }

    fn text(&self, _: &Trace<'_>) -> String {
        format!("TracebackVariable(line {})", self.entry.line())
    }
}
