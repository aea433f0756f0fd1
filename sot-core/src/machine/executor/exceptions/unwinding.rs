//! Exceptions in the simulation: `raise`, matching, and finding the handler, by blocks (3.8 to 3.10) or by the
//! exception table (3.11 and newer); a frame has only one of the two. Items that handlers find on the stack besides
//! the exception are [`BookkeepingVariable`]s: simulated code moves them, but new code can make only some of them.

use std::rc::Rc;

use pyo3::exceptions::{PyBaseException, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTraceback, PyTuple, PyType};
use rustc_hash::FxHashSet;

use super::traceback;
use crate::backend::StateTest;
use crate::bytecode::Label;
use crate::cpython;
use crate::error::{Flow, ReasonId, Unwind};
use crate::guard::{Identity, Test};
use crate::machine::executor::graph_breaks::checkpoint;
use crate::machine::executor::object_model::type_variable;
use crate::machine::executor::{CallArgs, Handled, OpcodeExecutor, Trace};
use crate::machine::variable::Rebuild;
use crate::machine::variable::{VarId, Variable};
use crate::readers;
use crate::tracker::TrackerId;

/// State test: no exception is being handled when the function is called.
struct NothingHandled;

impl StateTest for NothingHandled {
    fn check(&self, py: Python<'_>) -> bool {
        !cpython::is_handling(py)
    }

    fn restore(&self, _: Python<'_>) -> PyResult<()> {
        Ok(())
    }

    fn describe(&self) -> String {
        "sys.exc_info() == (None, None, None)".to_owned()
    }
}

impl Trace<'_> {
    /// The name of an exception's class, for messages.
    pub fn class_name(&self, exception: VarId) -> String {
        let ty = self.vars.get(exception).python_type(self);
        ty.cast::<PyType>().map_or_else(|_| "an exception".to_owned(), cpython::type_name)
    }
}

/// True if no exception is being handled, in the trace or by a caller. A guard then tests that.
pub fn nothing_is_handled(cx: &mut OpcodeExecutor<'_>) -> bool {
    if cx.stack.handled_exception().is_some() || cpython::is_handling(cx.py) {
        return false;
    }
    if !cx.trace.raised.assumes_nothing_handled {
        cx.trace.raised.assumes_nothing_handled = true;
        cx.trace.guards.add_state(Box::new(NothingHandled));
    }
    true
}

/// Begins to handle an exception in the innermost frame. The previously handled exception lies on top of the
/// stack from now on; it is returned, as far as this frame knows it.
pub fn begin_handling(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> Option<VarId> {
    let traceback = traceback::kept_traceback(cx, exception);
    let frame = cx.stack.frame_mut();
    let previous = frame.handled.last().map(|handled| handled.exception);
    frame.handled.push(Handled { depth: frame.stack.len(), exception, traceback });
    previous
}

/// Returns the unwind of `raise exception from cause`.
pub fn raise_value(cx: &mut OpcodeExecutor<'_>, exception: VarId, cause: Option<VarId>) -> Unwind {
    match prepare_raise(cx, exception, cause) {
        Ok(exception) => {
            cx.trace.raised.forget_part(exception);
            Unwind::Raise(exception)
        }
        Err(unwind) => unwind,
    }
}

/// Raises an error of C code with `exception` as its cause and its context.
pub fn raise_because_of(cx: &mut OpcodeExecutor<'_>, error: PyErr, exception: VarId) -> Unwind {
    let raised = match cx.raise(error) {
        Unwind::Raise(error) => raise_value(cx, error, Some(exception)),
        other => other,
    };
    if let Unwind::Raise(error) = raised {
        cx.trace.effects.set_attribute(error, &Rc::from("__context__"), Some(exception));
    }
    raised
}

/// Returns the unwind of a bare `raise`.
pub fn reraise(cx: &mut OpcodeExecutor<'_>) -> Unwind {
    match cx.stack.handled_exception() {
        Some(exception) => match traceback::handled_traceback(cx) {
            Some(traceback) => traceback::raise_again(cx, exception, traceback).unwrap_or_else(|unwind| unwind),
            None => cx.trace.raised.again(exception),
        },
        None if nothing_is_handled(cx) => cx.raise(PyRuntimeError::new_err("No active exception to reraise")),
        None => {
            let text = "a bare `raise` of what a caller is handling";
            Unwind::break_graph(ReasonId::UnsupportedOperation, text)
        }
    }
}

/// Returns the exception itself, or a new instance of the exception class; `None` for anything else.
pub fn exception_instance(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<Option<VarId>> {
    if exception_class(cx, value)?.is_some() {
        let made = cx.call(value, &CallArgs::default())?;
        let ty = cx.type_of(made)?;
        if is_exception_class(&ty) {
            return Ok(Some(made));
        }
        let class = cx.see(value)?.object().map(|class| class.bind(cx.py).repr()).transpose()?;
        let class = class.map_or_else(String::new, |class| class.to_string());
        let text = format!("calling {class} should have returned an instance of BaseException, not {}", ty.repr()?);
        return Err(cx.raise(PyTypeError::new_err(text)));
    }
    let ty = cx.type_of(value)?;
    Ok(is_exception_class(&ty).then_some(value))
}

/// True if `except pattern` catches the exception.
pub fn exception_matches(cx: &mut OpcodeExecutor<'_>, exception: VarId, pattern: VarId) -> Flow<bool> {
    let class = cx.type_of(exception)?;
    let of = cx.see(exception)?.type_tracker(cx, exception);
    class_matches(cx, (&class, of), pattern)
}

/// True if `except pattern` catches exceptions of the class in a variable.
pub fn exception_class_matches(cx: &mut OpcodeExecutor<'_>, class: VarId, pattern: VarId) -> Flow<bool> {
    match exception_class(cx, class)? {
        Some(found) => class_matches(cx, (found.as_any(), cx.trace.vars.tracker(class)), pattern),
        None => Err(Unwind::bug("a handler is entered without an exception class")),
    }
}

/// Unwinds the innermost frame to the handler of the exception, or returns the exception if there is none.
pub(in crate::machine::executor) fn handle_exception(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> Flow<()> {
    cx.note_step(exception);
    set_context(cx, exception);
    traceback::add_to_traceback(cx, exception);
    if unwind_blocks(cx, exception)? || unwind_by_table(cx, exception) {
        return Ok(());
    }
    Err(Unwind::Raise(exception))
}

/// Breaks the graph at an exception that is raised and caught while a caller handles another one. The caller's
/// exception is its context, which the trace does not know and the handler may read.
pub(in crate::machine::executor) fn refuse_unknown_context(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> Flow<()> {
    let known =
        cx.stack.handled_exception().is_some() || cx.trace.trackers.is_loadable(cx.trace.vars.tracker(exception));
    if known || !cx.stack.catches() || nothing_is_handled(cx) {
        return Ok(());
    }
    let text = format!("{} is raised and caught while a caller handles another", cx.trace.class_name(exception));
    Err(Unwind::break_graph(ReasonId::Raises, text))
}

/// Breaks the graph where an exception is caught that has left an inlined frame, if its traceback must grow for real:
/// the exception comes from outside, or its traceback would keep a value whose destruction is observable.
pub(in crate::machine::executor) fn refuse_longer_traceback(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> Flow<()> {
    let left_a_frame = cx.trace.raised.leaving.take() == Some(exception);
    if !left_a_frame || !cx.stack.catches() {
        return Ok(());
    }
    checkpoint::refuse_kept_by_traceback(cx, exception)?;
    if cx.trace.trackers.is_loadable(cx.trace.vars.tracker(exception)) {
        let text = format!("{} is raised in a function that was followed", cx.trace.class_name(exception));
        return Err(Unwind::break_graph(ReasonId::Raises, text));
    }
    Ok(())
}

fn unwind_blocks(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> Flow<bool> {
    while let Some(block) = cx.stack.frame_mut().blocks.pop() {
        if block.in_handler {
            cx.stack.drop_handler(block)?;
            continue;
        }
        cx.stack.frame_mut().stack.truncate(block.depth);
        enter_handler(cx, block.handler, exception)?;
        return Ok(true);
    }
    Ok(false)
}

fn enter_handler(cx: &mut OpcodeExecutor<'_>, handler: Label, exception: VarId) -> Flow<()> {
    cx.stack.add_block(handler, true);
    let previous = begin_handling(cx, exception);
    push_exception(cx, previous)?;
    push_exception(cx, Some(exception))?;
    cx.stack.frame_mut().pc = handler;
    Ok(())
}

/// Pushes traceback, exception and class, or the values that the stack has for them where no exception is handled.
fn push_exception(cx: &mut OpcodeExecutor<'_>, exception: Option<VarId>) -> Flow<()> {
    let items = match exception {
        Some(exception) => [cx.trace.traceback(exception), exception, type_variable(cx, exception)?],
        None => [cx.trace.null(), cx.trace.null(), cx.trace.none()],
    };
    cx.stack.frame_mut().stack.extend(items);
    Ok(())
}

fn unwind_by_table(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> bool {
    let frame = cx.stack.frame();
    let Some(handler) = frame.code.code.handler_at(frame.at).copied() else { return false };
    cx.stack.frame_mut().stack.truncate(handler.depth as usize);
    if handler.lasti {
        let last = cx.trace.produce(Rc::new(BookkeepingVariable::LastInstruction));
        cx.stack.push(last);
    }
    cx.stack.push(exception);
    cx.stack.frame_mut().pc = handler.target;
    true
}

fn prepare_raise(cx: &mut OpcodeExecutor<'_>, exception: VarId, cause: Option<VarId>) -> Flow<VarId> {
    let Some(exception) = exception_instance(cx, exception)? else {
        return Err(cx.raise(PyTypeError::new_err("exceptions must derive from BaseException")));
    };
    if cx.trace.trackers.is_loadable(cx.trace.vars.tracker(exception)) {
        return Err(Unwind::break_graph(
            ReasonId::UnsupportedMutation,
            "raising an exception made outside the function changes its traceback",
        ));
    }
    if let Some(cause) = cause {
        set_cause(cx, exception, cause)?;
    }
    if let Some(handled) = cx.stack.handled_exception().filter(|handled| *handled != exception) {
        replace_context(cx, exception, handled);
    }
    Ok(exception)
}

/// Returns the value as an exception class, if it is one.
fn exception_class<'py>(cx: &mut OpcodeExecutor<'py>, value: VarId) -> Flow<Option<Bound<'py, PyType>>> {
    let payload = cx.see(value)?;
    let class = payload.object().map(|object| object.bind(cx.py));
    Ok(class.filter(|class| is_exception_class(class)).and_then(|class| class.cast::<PyType>().ok()).cloned())
}

fn set_cause(cx: &mut OpcodeExecutor<'_>, exception: VarId, cause: VarId) -> Flow<()> {
    let cause = if cx.known(cause)?.is_some_and(|cause| cause.is_none()) {
        cause
    } else {
        match exception_instance(cx, cause)? {
            Some(cause) => cause,
            None => {
                let text = "exception causes must derive from BaseException";
                return Err(cx.raise(PyTypeError::new_err(text)));
            }
        }
    };
    cx.set_attr(exception, &Rc::from("__cause__"), Some(cause))
}

/// Makes the exception being handled the context of one that is raised. Contexts of exceptions made in the trace are
/// all written by the trace, since nothing else holds such an exception.
fn set_context(cx: &mut OpcodeExecutor<'_>, exception: VarId) {
    let Some(handled) = cx.stack.handled_exception().filter(|handled| *handled != exception) else { return };
    let loadable = cx.trace.trackers.is_loadable(cx.trace.vars.tracker(exception));
    if !loadable && context_of(&cx.trace, exception).is_none() {
        replace_context(cx, exception, handled);
    }
}

/// Makes `handled` the context of an exception, and cuts that exception out of the contexts behind `handled`.
fn replace_context(cx: &mut OpcodeExecutor<'_>, exception: VarId, handled: VarId) {
    let context = Rc::from("__context__");
    let mut seen = FxHashSet::from_iter([handled]);
    let mut at = handled;
    while let Some(next) = context_of(&cx.trace, at) {
        if next == exception {
            let none = cx.trace.none();
            cx.trace.effects.set_attribute(at, &context, Some(none));
            break;
        }
        if !seen.insert(next) {
            break;
        }
        at = next;
    }
    cx.trace.effects.set_attribute(exception, &context, Some(handled));
}

fn context_of(trace: &Trace<'_>, exception: VarId) -> Option<VarId> {
    trace.effects.attribute(exception, &Rc::from("__context__")).flatten()
}

/// `of` is the tracker of the exception's class.
fn class_matches<'py>(
    cx: &mut OpcodeExecutor<'py>,
    (class, of): (&Bound<'py, PyAny>, TrackerId),
    pattern: VarId,
) -> Flow<bool> {
    let is_tuple = cx.type_of(pattern)?.is(cx.py.get_type::<PyTuple>());
    let candidates = if is_tuple { cx.unpack_all(pattern)? } else { vec![pattern] };
    let mut caught = Vec::new();
    for candidate in candidates {
        caught.push(caught_class(cx, candidate)?);
    }
    let class = class.cast::<PyType>().map_err(PyErr::from)?;
    let guarded = cpython::is_heap_type(class) && cx.trace.trackers.is_sourced(of);
    for caught in caught {
        let is = class.mro().iter().any(|base| base.is(&caught));
        if guarded {
            cx.trace.guards.add(of, Test::Subclass(Identity::of(caught.as_any()), is));
        }
        if is {
            return Ok(true);
        }
    }
    Ok(false)
}

fn caught_class<'py>(cx: &mut OpcodeExecutor<'py>, candidate: VarId) -> Flow<Bound<'py, PyType>> {
    if let Some(class) = exception_class(cx, candidate)? {
        return Ok(class);
    }
    if cx.see(candidate)?.object().is_none() {
        return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, "`except` of a class that is not known"));
    }
    let message = "catching classes that do not inherit from BaseException is not allowed";
    Err(cx.raise(PyTypeError::new_err(message)))
}

fn is_exception_class(object: &Bound<'_, PyAny>) -> bool {
    object.cast::<PyType>().is_ok_and(|class| {
        let exception = object.py().get_type::<PyBaseException>();
        class.mro().iter().any(|base| base.is(&exception))
    })
}

/// An item that handlers keep on the stack besides exceptions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BookkeepingVariable {
    /// The traceback of an exception, of whose entries nothing is known.
    Traceback(VarId),
    /// The instruction that raised.
    LastInstruction,
    /// Marks that a `finally` body was entered from above (3.8).
    NormalEntry,
    /// The place that a `finally` body returns to (3.8).
    ReturnAddress(Label),
}

impl Variable for BookkeepingVariable {
    fn kind(&self) -> &'static str {
        "bookkeeping"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        match self {
            BookkeepingVariable::Traceback(_) => trace.py.get_type::<PyTraceback>().into_any(),
            BookkeepingVariable::LastInstruction
            | BookkeepingVariable::ReturnAddress(_)
            | BookkeepingVariable::NormalEntry => trace.py.get_type::<PyInt>().into_any(),
        }
    }

    fn children(&self) -> Vec<VarId> {
        match self {
            BookkeepingVariable::Traceback(exception) => vec![*exception],
            _ => Vec::new(),
        }
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        match self {
            BookkeepingVariable::Traceback(exception) => {
                let traceback = readers::traceback(cg.py())?;
                cg.call(|cg| cg.load_const(traceback), [*exception])
            }
            // Raising again finds the handler by the raising instruction; this value only determines which
            // instruction the frame reports.
            BookkeepingVariable::LastInstruction => {
                let start = 0_u8.into_pyobject(cg.py()).map_err(PyErr::from)?.into_any().unbind();
                cg.load_const(start)
            }
            BookkeepingVariable::ReturnAddress(_) | BookkeepingVariable::NormalEntry => {
                let text = "the state with which a `finally` body was entered, which is not a value";
                Err(Unwind::fallback(ReasonId::CannotRestore, text))
            }
        }
    }

    fn text(&self, _: &Trace<'_>) -> String {
        format!("BookkeepingVariable({self:?})")
    }
}
