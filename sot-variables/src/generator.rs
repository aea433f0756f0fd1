//! Generators of functions followed into: a suspended frame of the simulation. A frame is copied before it runs on, so that
//! an abandoned stretch of simulation leaves it as it was.

use std::collections::HashSet;
use std::rc::Rc;

use pyo3::exceptions::{PyGeneratorExit, PyRuntimeError, PyStopIteration, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use sot_core::builtin;
use sot_core::bytecode::{Label, Opcodes};
use sot_core::codegen::CodeGen;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, Closing, Exit, Frame, Name, OpcodeExecutor};
use sot_core::guard::Test;
use sot_core::tracker::{Tracker, TrackerId};
use sot_core::variable::{Death, VarId, Variable};

use crate::exception;
use crate::iterators::{emit_call, library, rebuild};

sot_core::variable_kind! {
    "generator", types: |py| Ok(vec![library(py, "types", "GeneratorType")?]), wrap: GeneratorVariable::wrap
}

/// `CO_VARARGS | CO_VARKEYWORDS`
const STARRED: u32 = 0x0c;

enum State {
    Fresh(Rc<Frame>),
    Suspended(Rc<Frame>),
    Running,
    Finished(Option<VarId>),
    /// It was there before the trace: its frame is CPython's.
    Real(Py<PyAny>),
}

/// A generator.
pub struct GeneratorVariable {
    name: Rc<str>,
    qualname: Rc<str>,
    /// The function that it has its names from, where that is one of the program's or was given others.
    function: Option<VarId>,
    state: State,
}

/// A generator has the names that its function has when it is called.
pub(crate) fn name_after(cx: &mut OpcodeExecutor<'_>, generator: VarId, function: VarId) -> Flow<()> {
    let Some(payload) = cx.vars.as_kind::<GeneratorVariable>(generator) else { return Ok(()) };
    let State::Fresh(frame) = &payload.state else { return Ok(()) };
    let state = State::Fresh(Rc::clone(frame));
    let mut names = Vec::new();
    for name in ["__name__", "__qualname__"] {
        let real = cx.see(function)?.object().map(|function| function.bind(cx.py).getattr(name)).transpose()?;
        let name = match real {
            Some(name) => Some(name.extract::<String>()?),
            None => {
                let name = cx.get_attr(function, &Rc::from(name))?;
                cx.known_str(name)?
            }
        };
        let unknown = || Unwind::break_graph(ReasonId::UnsupportedCall, "a generator of an unknown name");
        names.push(Rc::from(name.ok_or_else(unknown)?));
    }
    let (qualname, name) = (names.pop().unwrap_or_default(), names.pop().unwrap_or_default());
    cx.vars.set(generator, Rc::new(GeneratorVariable { name, qualname, function: Some(function), state }));
    Ok(())
}

/// What resuming a generator gave.
pub enum Resumed {
    /// It yielded.
    Yielded(VarId),
    /// It returned, now or earlier (then the value is `None`).
    Returned(VarId),
}

/// `generator.send(value)`
pub fn send(cx: &mut OpcodeExecutor<'_>, generator: VarId, value: VarId) -> Flow<Resumed> {
    let payload = expect(cx, generator)?;
    let frame = match &payload.state {
        State::Fresh(frame) => {
            if !cx.known(value)?.is_some_and(|value| value.is_none()) {
                let text = "can't send non-None value to a just-started generator";
                return Err(cx.raise(PyTypeError::new_err(text)));
            }
            copy(cx.py, frame)
        }
        State::Suspended(frame) => {
            let mut frame = copy(cx.py, frame);
            frame.stack.push(value);
            frame
        }
        State::Running => return Err(cx.raise(PyValueError::new_err("generator already executing"))),
        State::Finished(_) => return Ok(Resumed::Returned(cx.none())),
        State::Real(_) => return Err(runs_in_cpython()),
    };
    resume(cx, generator, frame)
}

fn runs_in_cpython() -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedCall, "a generator that was started outside the graph")
}

/// What a finished generator returned: the value of `yield from`.
pub fn return_value(cx: &mut OpcodeExecutor<'_>, generator: VarId) -> Flow<Option<VarId>> {
    Ok(match &expect(cx, generator)?.state {
        State::Finished(value) => *value,
        _ => None,
    })
}

/// `generator.throw(exception)`
pub fn throw(cx: &mut OpcodeExecutor<'_>, generator: VarId, exception: VarId) -> Flow<Resumed> {
    let payload = expect(cx, generator)?;
    let mut frame = match &payload.state {
        State::Fresh(_) | State::Finished(_) => {
            set(cx, generator, State::Finished(None));
            return Err(Unwind::Raise(exception));
        }
        State::Running => return Err(cx.raise(PyValueError::new_err("generator already executing"))),
        State::Suspended(frame) => copy(cx.py, frame),
        State::Real(_) => return Err(runs_in_cpython()),
    };
    let Some(inner) = delegate(cx, &frame)? else { return resume_raising(cx, generator, frame, exception) };
    set(cx, generator, State::Running);
    let (ty, exit) = (cx.type_of(exception)?, cx.py.get_type::<PyGeneratorExit>());
    if ty.cast::<PyType>().is_ok_and(|ty| cpython::is_subtype(ty, &exit)) {
        let exception = match close(cx, inner) {
            Ok(_) => exception,
            Err(Unwind::Raise(instead)) => instead,
            Err(unwind) => return Err(unwind),
        };
        return resume_raising(cx, generator, frame, exception);
    }
    match throw(cx, inner, exception) {
        Ok(Resumed::Yielded(value)) => {
            set(cx, generator, State::Suspended(Rc::new(frame)));
            Ok(Resumed::Yielded(value))
        }
        Ok(Resumed::Returned(value)) => {
            let stop = stop_iteration(cx, value)?;
            end_delegation(cx, generator, &mut frame, stop, Some(value))
        }
        Err(Unwind::Raise(exception)) => {
            let value = stop_value(cx, exception)?;
            end_delegation(cx, generator, &mut frame, exception, value)
        }
        Err(unwind) => Err(unwind),
    }
}

/// The outer generator goes on where the inner one has ended: behind its `yield from`, or with its exception. From 3.12 on
/// bytecode tells the two apart; before, the interpreter moves the frame itself.
fn end_delegation(
    cx: &mut OpcodeExecutor<'_>,
    generator: VarId,
    frame: &mut Frame,
    exception: VarId,
    value: Option<VarId>,
) -> Flow<Resumed> {
    let mut frame = copy(cx.py, frame);
    if Opcodes::get(cx.py).number("CLEANUP_THROW").is_some() {
        return resume_raising(cx, generator, frame, exception);
    }
    frame.stack.pop();
    let send = frame.at.0.checked_sub(1).and_then(|at| frame.code.code.instructions.get(at as usize));
    let after = match send.and_then(|send| send.target) {
        // 3.11 loops over SEND, whose target is behind the loop.
        Some(after) => after,
        None => Label(frame.pc.0 + 1),
    };
    frame.pc = after;
    match value {
        Some(value) => {
            frame.stack.push(value);
            resume(cx, generator, frame)
        }
        None => {
            frame.at = Label(after.0 - 1);
            resume_raising(cx, generator, frame, exception)
        }
    }
}

/// What the suspended frame delegates to by `yield from`.
fn delegates_to(cx: &OpcodeExecutor<'_>, frame: &Frame) -> Option<VarId> {
    let opcodes = Opcodes::get(cx.py);
    let next = frame.code.code.instructions.get(frame.pc.0 as usize)?;
    let delegates = match opcodes.name(next.opcode) {
        "YIELD_FROM" => true,
        "RESUME" => next.arg & 3 >= 2,
        _ => false,
    };
    frame.stack.last().copied().filter(|_| delegates)
}

/// Whether closing an iterator does something to it: it is a generator, or may have a method `close` of the program's.
fn shows_when_closed(cx: &OpcodeExecutor<'_>, iterator: VarId) -> bool {
    match cx.vars.as_kind::<GeneratorVariable>(iterator) {
        Some(generator) => !matches!(generator.state, State::Finished(_)),
        None => matches!(cx.vars.get(iterator).kind(), "lazy" | "object" | "instance" | "subclass"),
    }
}

/// The generator that the suspended frame delegates to by `yield from`.
fn delegate(cx: &mut OpcodeExecutor<'_>, frame: &Frame) -> Flow<Option<VarId>> {
    let Some(inner) = delegates_to(cx, frame) else { return Ok(None) };
    let known = cx.see_as::<GeneratorVariable>(inner)?.is_some();
    if !known && matches!(cx.see(inner)?.kind(), "object" | "instance" | "subclass") {
        let text = "an exception thrown through `yield from` into an iterator written in Python";
        return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
    }
    Ok(known.then_some(inner))
}

/// `generator.close()`: what the generator returned to that.
pub fn close(cx: &mut OpcodeExecutor<'_>, generator: VarId) -> Flow<Option<VarId>> {
    match &expect(cx, generator)?.state {
        State::Suspended(_) => {}
        State::Running => return Err(cx.raise(PyValueError::new_err("generator already executing"))),
        State::Real(_) => return Err(runs_in_cpython()),
        State::Fresh(_) | State::Finished(_) => {
            set(cx, generator, State::Finished(None));
            return Ok(None);
        }
    }
    let class = cx.py.get_type::<PyGeneratorExit>().into_any();
    let exit = exception::make(cx, &class, Vec::new())?;
    match throw(cx, generator, exit) {
        Ok(Resumed::Yielded(_)) => Err(cx.raise(PyRuntimeError::new_err("generator ignored GeneratorExit"))),
        Ok(Resumed::Returned(value)) => Ok(Some(value)),
        Err(Unwind::Raise(raised)) => {
            let ty = cx.type_of(raised)?;
            let ends = ty.is(&class) || is_stop(cx, raised)?;
            if ends {
                Ok(None)
            } else {
                Err(Unwind::Raise(raised))
            }
        }
        Err(unwind) => Err(unwind),
    }
}

fn is_stop(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> Flow<bool> {
    let (ty, stop) = (cx.type_of(exception)?, cx.py.get_type::<PyStopIteration>());
    Ok(ty.cast::<PyType>().is_ok_and(|ty| ty.is_subclass(&stop).unwrap_or(false)))
}

/// The value a `StopIteration` carries; `None` for other exceptions.
pub fn stop_value(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> Flow<Option<VarId>> {
    if is_stop(cx, exception)? {
        cx.get_attr(exception, &Rc::from("value")).map(Some)
    } else {
        Ok(None)
    }
}

/// What an iterator has done by what its method gives or raises.
pub fn resumed(cx: &mut OpcodeExecutor<'_>, outcome: Flow<VarId>) -> Flow<Resumed> {
    match outcome {
        Ok(value) => Ok(Resumed::Yielded(value)),
        Err(Unwind::Raise(exception)) => match stop_value(cx, exception)? {
            Some(value) => Ok(Resumed::Returned(value)),
            None => Err(Unwind::Raise(exception)),
        },
        Err(unwind) => Err(unwind),
    }
}

/// `StopIteration(value)`
pub fn stop_iteration(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<VarId> {
    let class = cx.py.get_type::<PyStopIteration>().into_any();
    let is_none = cx.known(value)?.is_some_and(|value| value.is_none());
    exception::make(cx, &class, if is_none { Vec::new() } else { vec![value] })
}

/// What `generator.send()` and its kin give or raise.
fn outcome(cx: &mut OpcodeExecutor<'_>, resumed: Resumed) -> Flow<VarId> {
    match resumed {
        Resumed::Yielded(value) => Ok(value),
        Resumed::Returned(value) => {
            let stop = stop_iteration(cx, value)?;
            Err(Unwind::Raise(stop))
        }
    }
}

builtin! { SEND = "types:GeneratorType.send" => |cx, args| {
    let [generator, value] = args.exactly(cx, "send")?;
    let resumed = send(cx, generator, value)?;
    outcome(cx, resumed)
} }

builtin! { CLOSE = "types:GeneratorType.close" => |cx, args| {
    let [generator] = args.exactly(cx, "close")?;
    let returned = close(cx, generator)?;
    // From 3.13 on it says what that was.
    let told = returned.filter(|_| cx.runtime.version.0 >= 13);
    Ok(told.unwrap_or_else(|| cx.none()))
} }

builtin! { THROW = "types:GeneratorType.throw" => |cx, args| {
    let [generator, ref thrown @ ..] = args.positional[..] else {
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, "throw() without a generator"));
    };
    let exception = thrown_exception(cx, thrown)?;
    let resumed = throw(cx, generator, exception)?;
    outcome(cx, resumed)
} }

/// The exception that `throw(type, value, traceback)` throws, in all its forms.
fn thrown_exception(cx: &mut OpcodeExecutor<'_>, thrown: &[VarId]) -> Flow<VarId> {
    let refuse = || Unwind::break_graph(ReasonId::UnsupportedCall, "throw() with these arguments");
    let (&first, rest) = thrown.split_first().ok_or_else(refuse)?;
    let value = match rest.first() {
        Some(&value) if !cx.known(value)?.is_some_and(|value| value.is_none()) => Some(value),
        _ => None,
    };
    let is_class = cx.see(first)?.object().is_some_and(|object| object.bind(cx.py).is_instance_of::<PyType>());
    match value {
        // Where making it fails, what it fails with is thrown.
        None if is_class => match cx.call(first, &CallArgs::default()) {
            Ok(made) if cx.exception_instance(made)? != Some(made) => Err(refuse()),
            Err(Unwind::Raise(exception)) => Ok(exception),
            made => made,
        },
        // One made outside the function has a traceback, which throwing it changes.
        None if cx.see(first)?.kind() == "exception" => Ok(first),
        Some(value) if is_class && cx.see(value)?.kind() == "exception" => {
            let fits = cx.exception_matches(value, first)?;
            fits.then_some(value).ok_or_else(refuse)
        }
        Some(value) if is_class && cx.see(value)?.kind() != "tuple" => {
            let exception = cx.call(first, &CallArgs::positional(vec![value]))?;
            match cx.exception_instance(exception)? {
                Some(same) if same == exception => Ok(exception),
                _ => Err(refuse()),
            }
        }
        _ => Err(refuse()),
    }
}

fn resume_raising(cx: &mut OpcodeExecutor<'_>, generator: VarId, mut frame: Frame, exception: VarId) -> Flow<Resumed> {
    // In the place of what would be sent; handlers count it.
    let none = cx.none();
    frame.stack.push(none);
    set(cx, generator, State::Running);
    let exit = cx.run_frame_raising(frame, exception);
    settle(cx, generator, exit)
}

fn resume(cx: &mut OpcodeExecutor<'_>, generator: VarId, frame: Frame) -> Flow<Resumed> {
    set(cx, generator, State::Running);
    let exit = cx.run_frame(frame);
    settle(cx, generator, exit)
}

fn settle(cx: &mut OpcodeExecutor<'_>, generator: VarId, exit: Flow<(Exit, Frame)>) -> Flow<Resumed> {
    match exit {
        Ok((Exit::Yield(value), frame)) => {
            set(cx, generator, State::Suspended(Rc::new(frame)));
            Ok(Resumed::Yielded(value))
        }
        Ok((Exit::Return(value), _)) => {
            set(cx, generator, State::Finished(Some(value)));
            Ok(Resumed::Returned(value))
        }
        Err(Unwind::Raise(exception)) => {
            set(cx, generator, State::Finished(None));
            Err(leave(cx, exception)?)
        }
        Err(unwind) => Err(unwind),
    }
}

/// An exception leaves the body; `StopIteration` must not look like the end.
fn leave(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> Flow<Unwind> {
    if is_stop(cx, exception)? {
        return Ok(cx.raise_because_of(PyRuntimeError::new_err("generator raised StopIteration"), exception));
    }
    Ok(Unwind::Raise(exception))
}

fn expect(cx: &mut OpcodeExecutor<'_>, generator: VarId) -> Flow<Rc<GeneratorVariable>> {
    if let Some(payload) = cx.see_as::<GeneratorVariable>(generator)? {
        Ok(payload)
    } else {
        let name = cx.type_name(generator)?;
        Err(Unwind::break_graph(ReasonId::UnsupportedCall, format!("a generator method on a {name} object")))
    }
}

fn set(cx: &mut OpcodeExecutor<'_>, generator: VarId, state: State) {
    if let Some(payload) = cx.vars.as_kind::<GeneratorVariable>(generator) {
        cx.vars.set(generator, Rc::new(GeneratorVariable { state, ..payload.named() }));
    }
}

fn copy(py: Python<'_>, frame: &Frame) -> Frame {
    Frame {
        handled: frame.handled.clone(),
        code: Rc::clone(&frame.code),
        function: frame.function,
        at: frame.at,
        pc: frame.pc,
        stack: frame.stack.clone(),
        locals: frame.locals.clone(),
        cells: frame.cells.clone(),
        globals: frame.globals.share(py),
        blocks: frame.blocks.clone(),
        keyword_names: frame.keyword_names.clone(),
        namespace: None,
        variables: frame.variables,
        claim: None,
    }
}

impl GeneratorVariable {
    /// A generator over a frame that has not run yet.
    pub fn new(frame: Frame) -> Self {
        let code = &frame.code.code;
        let (name, qualname) = (code.name.as_str().into(), code.qualname.as_str().into());
        GeneratorVariable { name, qualname, function: None, state: State::Fresh(Rc::new(frame)) }
    }

    fn wrap(_: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, _: TrackerId) -> Flow<Rc<dyn Variable>> {
        let name: Rc<str> = "generator".into();
        let state = State::Real(object.clone().unbind());
        Ok(Rc::new(GeneratorVariable { qualname: Rc::clone(&name), name, function: None, state }))
    }

    /// One of that name that has ended.
    fn named(&self) -> Self {
        let (name, qualname) = (Rc::clone(&self.name), Rc::clone(&self.qualname));
        GeneratorVariable { name, qualname, function: self.function, state: State::Finished(None) }
    }

    /// Gives what has been made the names that the function has, and goes on to have.
    fn restore_names(&self, cg: &mut CodeGen<'_, '_>, this: VarId, frame: &Frame) -> Flow<()> {
        let Some(function) = self.function else { return Ok(()) };
        let of = cg.cx.vars.tracker(function);
        let code = &frame.code.code;
        for (attribute, name, usual) in
            [("__name__", &self.name, &code.name), ("__qualname__", &self.qualname, &code.qualname)]
        {
            if cg.cx.trackers.is_sourced(of) {
                let name = PyString::new(cg.cx.py, name).into_any().unbind();
                let tracker = cg.cx.trackers.add(Tracker::Getattr { of, name: attribute.into() });
                cg.cx.guards.add(tracker, Test::Equals(name));
            }
            if **name != **usual {
                if !cg.is_defined(this) {
                    cg.define(this)?;
                }
                let name = text_constant(cg, name);
                cg.store_attr(this, attribute, Some(name))?;
            }
        }
        Ok(())
    }

    fn frame(&self) -> Option<&Rc<Frame>> {
        match &self.state {
            State::Fresh(frame) | State::Suspended(frame) => Some(frame),
            State::Running | State::Finished(_) | State::Real(_) => None,
        }
    }
}

/// The arguments a frame that has not run was called with. Those that are cell variables stand in their cells.
fn arguments(cg: &mut CodeGen<'_, '_>, frame: &Frame) -> Option<Vec<VarId>> {
    let code = &frame.code.code;
    (0..code.total_args())
        .map(|slot| {
            if let Some(value) = frame.locals[slot] {
                return Some(value);
            }
            let name = frame.code.varnames.get(slot)?;
            let cell = code.cellvars.iter().position(|cell| cell.as_str() == &**name)?;
            cg.cx.vars.get(*frame.cells.get(cell)?).children().first().copied()
        })
        .collect()
}

/// Emits a call of the generator's function anew.
fn rebuild_fresh(cg: &mut CodeGen<'_, '_>, frame: &Frame) -> Flow<()> {
    let code = &frame.code.code;
    let refuse = || Unwind::fallback(ReasonId::CannotRestore, "a generator made in the function");
    if code.flags & STARRED != 0 {
        return Err(refuse());
    }
    let mut positional = arguments(cg, frame).ok_or_else(refuse)?;
    let values = positional.split_off(code.arg_count as usize);
    let names = &frame.code.varnames[code.arg_count as usize..];
    let keywords = names.iter().cloned().zip(values).collect();
    let py = cg.cx.py;
    let tracker = cg.cx.constant_tracker(frame.code.object.clone_ref(py));
    let object = cg.cx.wrap(frame.code.object.bind(py), tracker);
    let dict = frame.globals.dict.bind(py).clone().into_any();
    let globals = (cg.cx.runtime.factories.object)(dict.unbind());
    let globals = cg.cx.vars.add(globals, frame.globals.tracker);
    let cells = cg.cx.tuple(frame.cells[code.cellvars.len()..].to_vec());
    let positional = cg.cx.tuple(positional);
    let keywords = crate::dict::DictVariable::from_keywords(cg.cx, keywords)?;
    let keywords = cg.cx.produce(keywords);
    emit_call(cg, rebuild::generator, &[object, globals, cells, positional, keywords])
}

fn text_constant(cg: &mut CodeGen<'_, '_>, text: &str) -> VarId {
    let text = PyString::new(cg.cx.py, text).into_any().unbind();
    cg.cx.constant(text)
}

/// Emits code that makes a generator of that name which has ended.
fn rebuild_finished(cg: &mut CodeGen<'_, '_>, ended: &GeneratorVariable) -> Flow<()> {
    let (name, qualname) = (text_constant(cg, &ended.name), text_constant(cg, &ended.qualname));
    emit_call(cg, rebuild::finished_generator, &[name, qualname])
}

impl Variable for GeneratorVariable {
    fn kind(&self) -> &'static str {
        "generator"
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        let ty = library(cx.py, "types", "GeneratorType").map(|ty| ty.into_bound(cx.py));
        ty.unwrap_or_else(|_| cx.py.get_type::<PyAny>().into_any())
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        match &self.state {
            State::Real(object) => Some(object),
            _ => None,
        }
    }

    fn text(&self, _: &OpcodeExecutor<'_>) -> String {
        format!("GeneratorVariable({})", self.qualname)
    }

    fn reconstruct(&self, cg: &mut CodeGen<'_, '_>, this: VarId) -> Flow<()> {
        match &self.state {
            State::Fresh(frame) => {
                rebuild_fresh(cg, frame)?;
                self.restore_names(cg, this, frame)
            }
            State::Finished(_) => rebuild_finished(cg, self),
            State::Real(object) => cg.load_const(object.clone_ref(cg.cx.py)),
            State::Suspended(frame) => {
                cg.load_suspended(frame)?;
                self.restore_names(cg, this, frame)
            }
            State::Running => Err(cg.cx.plan_to_make(this, "is running where the graph ends")),
        }
    }

    fn runs_when_dropped(&self, cx: &OpcodeExecutor<'_>) -> bool {
        let State::Suspended(frame) = &self.state else { return false };
        frame.is_protected(Opcodes::get(cx.py))
            || delegates_to(cx, frame).is_some_and(|inner| shows_when_closed(cx, inner))
    }

    fn death(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, living: &HashSet<VarId>) -> Death {
        let State::Suspended(frame) = &self.state else { return Death::Silent };
        // The inner generator is closed first.
        let inner = delegates_to(cx, frame).filter(|inner| shows_when_closed(cx, *inner));
        let inner_death = match inner {
            Some(inner) if living.contains(&inner) || cx.vars.is_changed_after(inner, this) => Death::Shows,
            Some(inner) => match cx.vars.as_kind::<GeneratorVariable>(inner) {
                Some(closed) if matches!(closed.state, State::Suspended(_)) => closed.death(cx, inner, living),
                _ => Death::Shows,
            },
            None => Death::Silent,
        };
        let class = match inner_death {
            Death::Silent => cx.py.get_type::<PyGeneratorExit>().into_any(),
            Death::Refused => cx.py.get_type::<PyRuntimeError>().into_any(),
            Death::Shows => return Death::Shows,
        };
        let closing = cx.attempt(|cx| {
            let exception = exception::make(cx, &class, Vec::new()).ok()?;
            let mut frame = copy(cx.py, frame);
            frame.stack.push(exception);
            cx.closing(frame, exception)
        });
        match closing {
            Some(Closing::Returns) => Death::Silent,
            Some(Closing::HandsOn) => inner_death,
            Some(Closing::Yields) => Death::Refused,
            None => Death::Shows,
        }
    }

    fn children(&self) -> Vec<VarId> {
        let Some(frame) = self.frame() else { return Vec::new() };
        let handled = frame.handled.iter().map(|handled| &handled.exception);
        frame.locals.iter().flatten().chain(&frame.cells).chain(&frame.stack).chain(handled).copied().collect()
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        if self.object().is_some() {
            return object_model::get_attr(cx, this, name);
        }
        if name.starts_with("gi_") {
            // Whoever asks sees whether it has been closed.
            cx.vars.set(this, cx.vars.get(this));
        }
        Ok(Some(match &**name {
            "__name__" => cx.string(&self.name),
            "__qualname__" => cx.string(&self.qualname),
            "gi_running" => cx.boolean(matches!(self.state, State::Running)),
            "gi_suspended" if self.python_type(cx).hasattr(&**name)? => {
                cx.boolean(matches!(self.state, State::Suspended(_)))
            }
            "gi_frame" if matches!(self.state, State::Finished(_)) => cx.none(),
            _ => return object_model::get_attr(cx, this, name),
        }))
    }

    fn iter(&self, _: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        Ok(this)
    }

    fn next(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Option<VarId>> {
        let none = cx.none();
        Ok(match send(cx, this, none)? {
            Resumed::Yielded(value) => Some(value),
            Resumed::Returned(_) => None,
        })
    }

    fn truth(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<bool> {
        Ok(true)
    }
}
