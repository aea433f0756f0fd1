//! Resuming generators: `send`, `throw` and `close`, also through `yield from`.

use std::rc::Rc;

use pyo3::exceptions::{PyGeneratorExit, PyRuntimeError, PyStopIteration, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use sot_core::bytecode::{Label, Op, Opcodes};
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{unwinding, Exit, Frame, OpcodeExecutor, Trace};
use sot_core::variable::{Form, VarId};

use super::{copy, expect, set, GeneratorState, GeneratorVariable};
use crate::classes::exception;

/// The outcome of resuming a generator.
pub enum Resumed {
    /// The generator yielded this value.
    Yielded(VarId),
    /// The generator returned this value. If it had ended earlier, the value is `None`.
    Returned(VarId),
}

/// Simulates `generator.send(value)`.
pub fn send(cx: &mut OpcodeExecutor<'_>, generator: VarId, value: VarId) -> Flow<Resumed> {
    let payload = expect(cx, generator)?;
    let frame = match &payload.state {
        GeneratorState::Fresh(frame) => {
            if !cx.known(value)?.is_some_and(|value| value.is_none()) {
                let text = "can't send non-None value to a just-started generator";
                return Err(cx.raise(PyTypeError::new_err(text)));
            }
            copy(cx.py, frame)
        }
        GeneratorState::Suspended(frame) => {
            let mut frame = copy(cx.py, frame);
            frame.stack.push(value);
            frame
        }
        GeneratorState::Running => return Err(cx.raise(PyValueError::new_err("generator already executing"))),
        GeneratorState::Finished(_) => return Ok(Resumed::Returned(cx.trace.none())),
        GeneratorState::Real(_) => return Err(runs_in_cpython()),
    };
    resume(cx, generator, frame)
}

fn runs_in_cpython() -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedCall, "a generator that was started outside the graph")
}

/// Returns the return value of a finished generator, which is the value of `yield from`.
pub fn return_value(cx: &mut OpcodeExecutor<'_>, generator: VarId) -> Flow<Option<VarId>> {
    Ok(match &expect(cx, generator)?.state {
        GeneratorState::Finished(value) => *value,
        _ => None,
    })
}

/// Simulates `generator.throw(exception)`.
pub fn throw(cx: &mut OpcodeExecutor<'_>, generator: VarId, exception: VarId) -> Flow<Resumed> {
    let payload = expect(cx, generator)?;
    let mut frame = match &payload.state {
        GeneratorState::Fresh(_) | GeneratorState::Finished(_) => {
            set(cx, generator, GeneratorState::Finished(None));
            return Err(Unwind::Raise(exception));
        }
        GeneratorState::Running => return Err(cx.raise(PyValueError::new_err("generator already executing"))),
        GeneratorState::Suspended(frame) => copy(cx.py, frame),
        GeneratorState::Real(_) => return Err(runs_in_cpython()),
    };
    let Some(inner) = delegate(cx, &frame)? else { return resume_raising(cx, generator, frame, exception) };
    set(cx, generator, GeneratorState::Running);
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
            set(cx, generator, GeneratorState::Suspended(Rc::new(frame)));
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

/// Resumes the outer generator when the inner one has ended: behind the `yield from` if there is a value, else with
/// the exception. From 3.12 on bytecode (`CLEANUP_THROW`) tells the two apart; before, the interpreter moves the
/// frame.
fn end_delegation(
    cx: &mut OpcodeExecutor<'_>,
    generator: VarId,
    frame: &mut Frame,
    exception: VarId,
    value: Option<VarId>,
) -> Flow<Resumed> {
    let mut frame = copy(cx.py, frame);
    if Opcodes::get(cx.py).find(Op::CLEANUP_THROW).is_some() {
        return resume_raising(cx, generator, frame, exception);
    }
    frame.stack.pop();
    let send = frame.at.0.checked_sub(1).and_then(|at| frame.code.code.instructions.get(at as usize));
    let after = match send.and_then(|send| send.target) {
        // 3.11 loops over SEND, whose target is the instruction behind the loop.
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

/// Returns the iterator that the suspended frame delegates to by `yield from` or `await`.
pub(super) fn delegates_to(trace: &Trace<'_>, frame: &Frame) -> Option<VarId> {
    let opcodes = Opcodes::get(trace.py);
    let next = frame.code.code.instructions.get(frame.pc.0 as usize)?;
    let awaits = next.arg & 3 >= 2;
    let delegates = opcodes.is(next.opcode, Op::YIELD_FROM) || opcodes.is(next.opcode, Op::RESUME) && awaits;
    frame.stack.last().copied().filter(|_| delegates)
}

/// True if closing an iterator may have an effect: it is a generator that has not finished, or may be an object of
/// the program with a method `close`.
pub(super) fn closing_is_observable(trace: &Trace<'_>, iterator: VarId) -> bool {
    match trace.vars.as_kind::<GeneratorVariable>(iterator) {
        Some(generator) => !matches!(generator.state, GeneratorState::Finished(_)),
        None => matches!(trace.vars.get(iterator).form(), Form::Lazy | Form::Object | Form::Instance | Form::Subclass),
    }
}

/// Returns the generator that the suspended frame delegates to by `yield from`.
fn delegate(cx: &mut OpcodeExecutor<'_>, frame: &Frame) -> Flow<Option<VarId>> {
    let Some(inner) = delegates_to(&cx.trace, frame) else { return Ok(None) };
    let known = cx.see_as::<GeneratorVariable>(inner)?.is_some();
    if !known && matches!(cx.see(inner)?.form(), Form::Object | Form::Instance | Form::Subclass) {
        let text = "an exception thrown through `yield from` into an iterator written in Python";
        return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
    }
    Ok(known.then_some(inner))
}

/// Simulates `generator.close()`. Returns the value that the generator returned in response.
pub fn close(cx: &mut OpcodeExecutor<'_>, generator: VarId) -> Flow<Option<VarId>> {
    match &expect(cx, generator)?.state {
        GeneratorState::Suspended(_) => {}
        GeneratorState::Running => return Err(cx.raise(PyValueError::new_err("generator already executing"))),
        GeneratorState::Real(_) => return Err(runs_in_cpython()),
        GeneratorState::Fresh(_) | GeneratorState::Finished(_) => {
            set(cx, generator, GeneratorState::Finished(None));
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
    let stop = cx.py.get_type::<PyStopIteration>();
    cx.is_of_class(exception, &stop)
}

/// Returns the value that a `StopIteration` carries; `None` for other exceptions.
pub fn stop_value(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> Flow<Option<VarId>> {
    if is_stop(cx, exception)? {
        cx.get_attr(exception, &Rc::from("value")).map(Some)
    } else {
        Ok(None)
    }
}

/// Translates the result or exception of an iterator's method to `Resumed`.
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

/// Makes a `StopIteration(value)`.
pub fn stop_iteration(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<VarId> {
    let class = cx.py.get_type::<PyStopIteration>().into_any();
    let is_none = cx.known(value)?.is_some_and(|value| value.is_none());
    exception::make(cx, &class, if is_none { Vec::new() } else { vec![value] })
}

fn resume_raising(cx: &mut OpcodeExecutor<'_>, generator: VarId, mut frame: Frame, exception: VarId) -> Flow<Resumed> {
    // Stands for the value that `send` would push: exception handlers count it in the stack depth.
    let none = cx.trace.none();
    frame.stack.push(none);
    set(cx, generator, GeneratorState::Running);
    let exit = cx.run_frame_raising(frame, exception);
    settle(cx, generator, exit)
}

fn resume(cx: &mut OpcodeExecutor<'_>, generator: VarId, frame: Frame) -> Flow<Resumed> {
    set(cx, generator, GeneratorState::Running);
    let exit = cx.run_frame(frame);
    settle(cx, generator, exit)
}

fn settle(cx: &mut OpcodeExecutor<'_>, generator: VarId, exit: Flow<(Exit, Frame)>) -> Flow<Resumed> {
    match exit {
        Ok((Exit::Yield(value), frame)) => {
            set(cx, generator, GeneratorState::Suspended(Rc::new(frame)));
            Ok(Resumed::Yielded(value))
        }
        Ok((Exit::Return(value), _)) => {
            set(cx, generator, GeneratorState::Finished(Some(value)));
            Ok(Resumed::Returned(value))
        }
        Err(Unwind::Raise(exception)) => {
            set(cx, generator, GeneratorState::Finished(None));
            Err(leave(cx, exception)?)
        }
        Err(unwind) => Err(unwind),
    }
}

/// Returns the exception that leaves the generator's body. `StopIteration` is replaced by `RuntimeError`, so that it
/// does not look like the end.
fn leave(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> Flow<Unwind> {
    if is_stop(cx, exception)? {
        return Ok(unwinding::raise_because_of(
            cx,
            PyRuntimeError::new_err("generator raised StopIteration"),
            exception,
        ));
    }
    Ok(Unwind::Raise(exception))
}
