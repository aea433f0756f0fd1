//! Generators of functions followed into: a suspended frame of the simulation. A frame is copied before it runs on, so that
//! an abandoned stretch of simulation leaves it as it was.

use std::rc::Rc;

use pyo3::exceptions::{PyRuntimeError, PyStopIteration, PyTypeError, PyValueError};
use pyo3::prelude::*;

use sot_core::bytecode::Opcodes;
use sot_core::codegen::CodeGen;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{Exit, Frame, OpcodeExecutor};
use sot_core::variable::{VarId, Variable};

use crate::iterators::{emit_call, library, rebuild};

sot_core::variable_kind! { "generator" }

/// `CO_VARARGS | CO_VARKEYWORDS`
const STARRED: u32 = 0x0c;

enum State {
    Fresh(Rc<Frame>),
    Suspended(Rc<Frame>),
    Running,
    Finished(Option<VarId>),
}

/// A generator.
pub struct GeneratorVariable {
    state: State,
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
    };
    resume(cx, generator, frame)
}

/// What a finished generator returned: the value of `yield from`.
pub fn return_value(cx: &mut OpcodeExecutor<'_>, generator: VarId) -> Flow<Option<VarId>> {
    Ok(match &expect(cx, generator)?.state {
        State::Finished(value) => *value,
        _ => None,
    })
}

/// `generator.close()`. Only a generator that is not inside its body can be closed without running it.
pub fn close(cx: &mut OpcodeExecutor<'_>, generator: VarId) -> Flow<()> {
    match &expect(cx, generator)?.state {
        State::Fresh(_) | State::Finished(_) => {
            set(cx, generator, State::Finished(None));
            Ok(())
        }
        State::Suspended(_) => {
            Err(Unwind::break_graph(ReasonId::UnsupportedCall, "close() of a generator that has started"))
        }
        State::Running => Err(cx.raise(PyValueError::new_err("generator already executing"))),
    }
}

fn resume(cx: &mut OpcodeExecutor<'_>, generator: VarId, frame: Frame) -> Flow<Resumed> {
    set(cx, generator, State::Running);
    match cx.run_frame(frame) {
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
    let ty = cx.type_of(exception)?;
    let stop = cx.py.get_type::<PyStopIteration>();
    let is_stop = ty.cast::<pyo3::types::PyType>().is_ok_and(|ty| ty.is_subclass(&stop).unwrap_or(false));
    if is_stop {
        return Ok(cx.raise(PyRuntimeError::new_err("generator raised StopIteration")));
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
    cx.vars.set(generator, Rc::new(GeneratorVariable { state }));
}

fn copy(py: Python<'_>, frame: &Frame) -> Frame {
    Frame {
        handled: frame.handled.clone(),
        code: Rc::clone(&frame.code),
        at: frame.at,
        pc: frame.pc,
        stack: frame.stack.clone(),
        locals: frame.locals.clone(),
        cells: frame.cells.clone(),
        globals: frame.globals.share(py),
        blocks: frame.blocks.clone(),
        keyword_names: frame.keyword_names.clone(),
        direct: false,
    }
}

impl GeneratorVariable {
    /// A generator over a frame that has not run yet.
    pub fn new(frame: Frame) -> Self {
        GeneratorVariable { state: State::Fresh(Rc::new(frame)) }
    }

    fn frame(&self) -> Option<&Rc<Frame>> {
        match &self.state {
            State::Fresh(frame) | State::Suspended(frame) => Some(frame),
            State::Running | State::Finished(_) => None,
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

impl Variable for GeneratorVariable {
    fn kind(&self) -> &'static str {
        "generator"
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        let ty = library(cx.py, "types", "GeneratorType").map(|ty| ty.into_bound(cx.py));
        ty.unwrap_or_else(|_| cx.py.get_type::<PyAny>().into_any())
    }

    fn text(&self, _: &OpcodeExecutor<'_>) -> String {
        let name = self.frame().map_or("finished", |frame| frame.code.code.qualname.as_str());
        format!("GeneratorVariable({name})")
    }

    fn reconstruct(&self, cg: &mut CodeGen<'_, '_>, this: VarId) -> Flow<()> {
        match &self.state {
            State::Fresh(frame) => rebuild_fresh(cg, frame),
            State::Finished(_) => emit_call(cg, rebuild::exhausted, &[]),
            State::Suspended(_) | State::Running => Err(cg.cx.plan_to_make(this)),
        }
    }

    fn runs_when_dropped(&self, cx: &OpcodeExecutor<'_>) -> bool {
        matches!(&self.state, State::Suspended(frame) if frame.is_protected(Opcodes::get(cx.py)))
    }

    fn children(&self) -> Vec<VarId> {
        let Some(frame) = self.frame() else { return Vec::new() };
        frame.locals.iter().flatten().chain(&frame.cells).chain(&frame.stack).copied().collect()
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
