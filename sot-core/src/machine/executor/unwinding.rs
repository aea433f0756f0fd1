//! Exceptions in the simulation: `raise`, matching, and finding the handler, by blocks (3.8 to 3.10) or by the
//! exception table (3.11 and newer); a frame has only one of the two. What handlers find on the stack besides the
//! exception is a
//! `BookkeepingVariable`: simulated code hands it around, new code cannot make it.

use std::collections::HashSet;
use std::rc::Rc;

use pyo3::exceptions::{PyBaseException, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTraceback, PyTuple, PyType};

use super::object_model::type_variable;
use super::stack::bug;
use super::{CallArgs, Handled, OpcodeExecutor};
use crate::backend::StateTest;
use crate::bytecode::Label;
use crate::cpython;
use crate::error::{Flow, ReasonId, Unwind};
use crate::machine::variable::Rebuild;
use crate::machine::variable::{VarId, Variable};
use crate::readers;

/// No frame handles an exception when the function is called.
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

impl<'py> OpcodeExecutor<'py> {
    /// Unwinds the innermost frame to the handler that is told of the exception, or out of it.
    pub(super) fn handle_exception(&mut self, exception: VarId) -> Flow<()> {
        self.note_step(exception);
        self.set_context(exception);
        self.add_to_traceback(exception);
        if self.unwind_blocks(exception)? || self.unwind_by_table(exception) {
            return Ok(());
        }
        Err(Unwind::Raise(exception))
    }

    /// Whether no exception is being handled, in the trace or by a caller; if so, it is assumed.
    pub fn nothing_is_handled(&mut self) -> bool {
        if self.stack.handled_exception().is_some() || cpython::is_handling(self.py) {
            return false;
        }
        if !self.raised.assumes_nothing_handled {
            self.raised.assumes_nothing_handled = true;
            self.guards.add_state(Box::new(NothingHandled));
        }
        true
    }

    /// What is raised while a caller handles an exception has that as its context, which the trace does not know: where
    /// it would be caught, and so seen, it must be raised for real.
    pub(super) fn refuse_unknown_context(&mut self, exception: VarId) -> Flow<()> {
        let known = self.stack.handled_exception().is_some() || self.trackers.is_loadable(self.vars.tracker(exception));
        if known || !self.stack.catches() || self.nothing_is_handled() {
            return Ok(());
        }
        let text = format!("{} is raised and caught while a caller handles another", self.class_name(exception));
        Err(Unwind::break_graph(ReasonId::Raises, text))
    }

    /// An exception that comes from outside has a traceback, which grows by each frame that it leaves: where it would
    /// be caught after that, it must be raised for real.
    pub(super) fn refuse_longer_traceback(&mut self, exception: VarId) -> Flow<()> {
        let left_a_frame = self.raised.leaving.take() == Some(exception);
        if !left_a_frame || !self.stack.catches() {
            return Ok(());
        }
        self.refuse_kept_by_traceback(exception)?;
        if self.trackers.is_loadable(self.vars.tracker(exception)) {
            let text = format!("{} is raised in a function that was followed", self.class_name(exception));
            return Err(Unwind::break_graph(ReasonId::Raises, text));
        }
        Ok(())
    }

    /// The name of an exception's class, for reasons.
    pub fn class_name(&self, exception: VarId) -> String {
        let ty = self.vars.get(exception).python_type(self);
        ty.cast::<PyType>().map_or_else(|_| "an exception".to_owned(), cpython::type_name)
    }

    /// The innermost frame begins to handle an exception: what was handled before lies on top of the stack from here
    /// on. The answer is what that is, as far as this frame knows.
    pub fn begin_handling(&mut self, exception: VarId) -> Option<VarId> {
        let traceback = self.kept_traceback(exception);
        let frame = self.stack.frame_mut();
        let previous = frame.handled.last().map(|handled| handled.exception);
        frame.handled.push(Handled { depth: frame.stack.len(), exception, traceback });
        previous
    }

    fn unwind_blocks(&mut self, exception: VarId) -> Flow<bool> {
        while let Some(block) = self.stack.frame_mut().blocks.pop() {
            if block.in_handler {
                self.stack.drop_handler(block)?;
                continue;
            }
            self.stack.frame_mut().stack.truncate(block.depth);
            self.enter_handler(block.handler, exception)?;
            return Ok(true);
        }
        Ok(false)
    }

    fn enter_handler(&mut self, handler: Label, exception: VarId) -> Flow<()> {
        self.stack.add_block(handler, true);
        let previous = self.begin_handling(exception);
        self.push_exception(previous)?;
        self.push_exception(Some(exception))?;
        self.stack.frame_mut().pc = handler;
        Ok(())
    }

    /// Pushes traceback, exception and class, or what stands for them where no exception is handled.
    fn push_exception(&mut self, exception: Option<VarId>) -> Flow<()> {
        let items = match exception {
            Some(exception) => [self.traceback(exception), exception, type_variable(self, exception)?],
            None => [self.stack.null(), self.stack.null(), self.none()],
        };
        self.stack.frame_mut().stack.extend(items);
        Ok(())
    }

    fn unwind_by_table(&mut self, exception: VarId) -> bool {
        let frame = self.stack.frame();
        let Some(handler) = frame.code.code.handler_at(frame.at).copied() else { return false };
        self.stack.frame_mut().stack.truncate(handler.depth as usize);
        if handler.lasti {
            let last = self.bookkeeping(BookkeepingVariable::LastInstruction);
            self.stack.push(last);
        }
        self.stack.push(exception);
        self.stack.frame_mut().pc = handler.target;
        true
    }

    /// A variable for what handlers keep on the stack.
    pub fn bookkeeping(&mut self, item: BookkeepingVariable) -> VarId {
        self.produce(Rc::new(item))
    }

    /// What `raise exception from cause` unwinds with.
    pub fn raise_value(&mut self, exception: VarId, cause: Option<VarId>) -> Unwind {
        match self.prepare_raise(exception, cause) {
            Ok(exception) => {
                self.raised.forget_part(exception);
                Unwind::Raise(exception)
            }
            Err(unwind) => unwind,
        }
    }

    /// Raises an error of C code because of an exception, which is its cause and its context.
    pub fn raise_because_of(&mut self, error: PyErr, exception: VarId) -> Unwind {
        let raised = match self.raise(error) {
            Unwind::Raise(error) => self.raise_value(error, Some(exception)),
            other => other,
        };
        if let Unwind::Raise(error) = raised {
            self.effects.set_attribute(error, &Rc::from("__context__"), Some(exception));
        }
        raised
    }

    /// What a bare `raise` unwinds with.
    pub fn reraise(&mut self) -> Unwind {
        match self.stack.handled_exception() {
            Some(exception) => match self.handled_traceback() {
                Some(traceback) => self.raise_again(exception, traceback).unwrap_or_else(|unwind| unwind),
                None => self.raised.again(exception),
            },
            None if self.nothing_is_handled() => self.raise(PyRuntimeError::new_err("No active exception to reraise")),
            None => {
                let text = "a bare `raise` of what a caller is handling";
                Unwind::break_graph(ReasonId::UnsupportedOperation, text)
            }
        }
    }

    fn prepare_raise(&mut self, exception: VarId, cause: Option<VarId>) -> Flow<VarId> {
        let Some(exception) = self.exception_instance(exception)? else {
            return Err(self.raise(PyTypeError::new_err("exceptions must derive from BaseException")));
        };
        if self.trackers.is_loadable(self.vars.tracker(exception)) {
            return Err(Unwind::break_graph(
                ReasonId::UnsupportedMutation,
                "raising an exception made outside the function changes its traceback",
            ));
        }
        if let Some(cause) = cause {
            self.set_cause(exception, cause)?;
        }
        if let Some(handled) = self.stack.handled_exception().filter(|handled| *handled != exception) {
            self.replace_context(exception, handled);
        }
        Ok(exception)
    }

    /// The exception itself, or an instance of the exception class; `None` for anything else.
    pub fn exception_instance(&mut self, value: VarId) -> Flow<Option<VarId>> {
        if self.exception_class(value)?.is_some() {
            let made = self.call(value, &CallArgs::default())?;
            let ty = self.type_of(made)?;
            if is_exception_class(&ty) {
                return Ok(Some(made));
            }
            let class = self.see(value)?.object().map(|class| class.bind(self.py).repr()).transpose()?;
            let class = class.map_or_else(String::new, |class| class.to_string());
            let text = format!("calling {class} should have returned an instance of BaseException, not {}", ty.repr()?);
            return Err(self.raise(PyTypeError::new_err(text)));
        }
        let ty = self.type_of(value)?;
        Ok(is_exception_class(&ty).then_some(value))
    }

    /// The value as an exception class, if it is one.
    fn exception_class(&mut self, value: VarId) -> Flow<Option<Bound<'py, PyType>>> {
        let payload = self.see(value)?;
        let class = payload.object().map(|object| object.bind(self.py));
        Ok(class.filter(|class| is_exception_class(class)).and_then(|class| class.cast::<PyType>().ok()).cloned())
    }

    fn set_cause(&mut self, exception: VarId, cause: VarId) -> Flow<()> {
        let cause = if self.known(cause)?.is_some_and(|cause| cause.is_none()) {
            cause
        } else {
            match self.exception_instance(cause)? {
                Some(cause) => cause,
                None => {
                    let text = "exception causes must derive from BaseException";
                    return Err(self.raise(PyTypeError::new_err(text)));
                }
            }
        };
        self.set_attr(exception, &Rc::from("__cause__"), Some(cause))
    }

    /// The exception being handled when another is raised becomes the other's context. No one else can hold an
    /// exception that was made in the trace, so its context is all written in the trace.
    fn set_context(&mut self, exception: VarId) {
        let Some(handled) = self.stack.handled_exception().filter(|handled| *handled != exception) else { return };
        let loadable = self.trackers.is_loadable(self.vars.tracker(exception));
        if !loadable && self.context_of(exception).is_none() {
            self.replace_context(exception, handled);
        }
    }

    /// Makes `handled` the context of an exception, which is cut out of what lies behind.
    fn replace_context(&mut self, exception: VarId, handled: VarId) {
        let context = Rc::from("__context__");
        let mut seen = HashSet::from([handled]);
        let mut at = handled;
        while let Some(next) = self.context_of(at) {
            if next == exception {
                let none = self.none();
                self.effects.set_attribute(at, &context, Some(none));
                break;
            }
            if !seen.insert(next) {
                break;
            }
            at = next;
        }
        self.effects.set_attribute(exception, &context, Some(handled));
    }

    fn context_of(&self, exception: VarId) -> Option<VarId> {
        self.effects.attribute(exception, &Rc::from("__context__")).flatten()
    }

    /// Whether `except pattern` catches the exception.
    pub fn exception_matches(&mut self, exception: VarId, pattern: VarId) -> Flow<bool> {
        let class = self.type_of(exception)?;
        self.class_matches(&class, pattern)
    }

    /// Whether `except pattern` catches exceptions of the class that a variable holds.
    pub fn exception_class_matches(&mut self, class: VarId, pattern: VarId) -> Flow<bool> {
        match self.exception_class(class)? {
            Some(class) => self.class_matches(class.as_any(), pattern),
            None => Err(bug("a handler is entered without an exception class")),
        }
    }

    fn class_matches(&mut self, class: &Bound<'py, PyAny>, pattern: VarId) -> Flow<bool> {
        let is_tuple = self.type_of(pattern)?.is(self.py.get_type::<PyTuple>());
        let candidates = if is_tuple { self.unpack_all(pattern)? } else { vec![pattern] };
        let mut caught = Vec::new();
        for candidate in candidates {
            caught.push(self.caught_class(candidate)?);
        }
        let class = class.cast::<PyType>().map_err(PyErr::from)?;
        Ok(class.mro().iter().any(|base| caught.iter().any(|caught| base.is(caught))))
    }

    fn caught_class(&mut self, candidate: VarId) -> Flow<Bound<'py, PyType>> {
        if let Some(class) = self.exception_class(candidate)? {
            return Ok(class);
        }
        if self.see(candidate)?.object().is_none() {
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, "`except` of a class that is not known"));
        }
        let message = "catching classes that do not inherit from BaseException is not allowed";
        Err(self.raise(PyTypeError::new_err(message)))
    }
}

fn is_exception_class(object: &Bound<'_, PyAny>) -> bool {
    object.cast::<PyType>().is_ok_and(|class| {
        let exception = object.py().get_type::<PyBaseException>();
        class.mro().iter().any(|base| base.is(&exception))
    })
}

/// What handlers keep on the stack besides exceptions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BookkeepingVariable {
    /// The traceback of an exception, of which nothing is known.
    Traceback(VarId),
    /// Which instruction raised.
    LastInstruction,
    /// That a `finally` body was entered from above (3.8).
    Fallen,
    /// Where a `finally` body returns to (3.8).
    ReturnAddress(Label),
}

impl Variable for BookkeepingVariable {
    fn kind(&self) -> &'static str {
        "bookkeeping"
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        match self {
            BookkeepingVariable::Traceback(_) => cx.py.get_type::<PyTraceback>().into_any(),
            BookkeepingVariable::LastInstruction
            | BookkeepingVariable::ReturnAddress(_)
            | BookkeepingVariable::Fallen => cx.py.get_type::<PyInt>().into_any(),
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
            // Whoever raises again looks its handler up by where it stands; this only says where the frame claims to
            // be.
            BookkeepingVariable::LastInstruction => {
                let start = 0_u8.into_pyobject(cg.py()).map_err(PyErr::from)?.into_any().unbind();
                cg.load_const(start)
            }
            BookkeepingVariable::ReturnAddress(_) | BookkeepingVariable::Fallen => {
                let text = "what a `finally` body was entered with, which is no value";
                Err(Unwind::fallback(ReasonId::CannotRestore, text))
            }
        }
    }

    fn text(&self, _: &OpcodeExecutor<'_>) -> String {
        format!("BookkeepingVariable({self:?})")
    }
}
