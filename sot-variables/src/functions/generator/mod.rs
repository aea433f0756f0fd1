//! Generators of functions that the trace has followed: a suspended frame of the simulation. The frame is copied
//! before it is resumed, so that a rollback finds it unchanged.

mod methods;
mod rebuilding;
mod resuming;

use std::rc::Rc;

use pyo3::exceptions::{PyGeneratorExit, PyRuntimeError};
use pyo3::prelude::*;
use rustc_hash::FxHashSet;

use sot_core::bytecode::Opcodes;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, Closing, Frame, Name, OpcodeExecutor, Trace};
use sot_core::tracker::TrackerId;
use sot_core::variable::Rebuild;
use sot_core::variable::{Death, Form, VarId, Variable};

use self::rebuilding::{rebuild_finished, rebuild_fresh};
use self::resuming::{closing_is_observable, delegates_to};
use crate::classes::exception;
use crate::iterators::{library, or_object_type};

pub use self::resuming::{close, resumed, return_value, send, stop_iteration, stop_value, throw, Resumed};

sot_core::variable_kind! {
    "generator", types: |py| Ok(vec![library(py, "types", "GeneratorType")?]), wrap: GeneratorVariable::wrap
}

enum GeneratorState {
    Fresh(Rc<Frame>),
    Suspended(Rc<Frame>),
    Running,
    Finished(Option<VarId>),
    /// The generator existed before the trace; CPython runs its frame.
    Real(Py<PyAny>),
}

/// A generator.
pub struct GeneratorVariable {
    name: Rc<str>,
    qualname: Rc<str>,
    /// The function that the names come from, if the function was made by the program or was renamed.
    function: Option<VarId>,
    /// The code object; a finished generator has it, too. `None` for a generator from outside.
    code: Option<Rc<Py<PyAny>>>,
    state: GeneratorState,
}

/// Gives the generator the names that its function has at the time of the call.
pub(crate) fn name_after(cx: &mut OpcodeExecutor<'_>, generator: VarId, function: VarId) -> Flow<()> {
    let Some(payload) = cx.trace.vars.as_kind::<GeneratorVariable>(generator) else { return Ok(()) };
    let GeneratorState::Fresh(frame) = &payload.state else { return Ok(()) };
    let state = GeneratorState::Fresh(Rc::clone(frame));
    let code = payload.code.clone();
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
        let unknown = || Unwind::break_graph(ReasonId::UnsupportedCall, "a generator whose name is not known");
        names.push(Rc::from(name.ok_or_else(unknown)?));
    }
    let (qualname, name) = (names.pop().unwrap_or_default(), names.pop().unwrap_or_default());
    cx.trace.vars.set(generator, Rc::new(GeneratorVariable { name, qualname, function: Some(function), code, state }));
    Ok(())
}

fn expect(cx: &mut OpcodeExecutor<'_>, generator: VarId) -> Flow<Rc<GeneratorVariable>> {
    if let Some(payload) = cx.see_as::<GeneratorVariable>(generator)? {
        Ok(payload)
    } else {
        let name = cx.type_name(generator)?;
        Err(Unwind::break_graph(ReasonId::UnsupportedCall, format!("a generator method on a {name} object")))
    }
}

fn set(cx: &mut OpcodeExecutor<'_>, generator: VarId, state: GeneratorState) {
    if let Some(payload) = cx.trace.vars.as_kind::<GeneratorVariable>(generator) {
        cx.trace.vars.set(generator, Rc::new(GeneratorVariable { state, ..payload.named() }));
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
        global_names: None,
        variables: frame.variables,
        place: frame.place.clone(),
        claim: None,
        is_called_from_outside: false,
    }
}

impl GeneratorVariable {
    /// A generator over a frame that has not run yet.
    pub fn new(frame: Frame) -> Self {
        let code = &frame.code.code;
        let (name, qualname) = (code.name.as_str().into(), code.qualname.as_str().into());
        let object = Python::attach(|py| frame.code.object.clone_ref(py));
        let code = Some(Rc::new(object));
        GeneratorVariable { name, qualname, function: None, code, state: GeneratorState::Fresh(Rc::new(frame)) }
    }

    fn wrap(_: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, _: TrackerId) -> Flow<Rc<dyn Variable>> {
        let name: Rc<str> = "generator".into();
        let state = GeneratorState::Real(object.clone().unbind());
        Ok(Rc::new(GeneratorVariable { qualname: Rc::clone(&name), name, function: None, code: None, state }))
    }

    /// Returns a finished generator of the same name, function and code.
    fn named(&self) -> Self {
        let (name, qualname) = (Rc::clone(&self.name), Rc::clone(&self.qualname));
        let (function, code) = (self.function, self.code.clone());
        GeneratorVariable { name, qualname, function, code, state: GeneratorState::Finished(None) }
    }

    fn frame(&self) -> Option<&Rc<Frame>> {
        match &self.state {
            GeneratorState::Fresh(frame) | GeneratorState::Suspended(frame) => Some(frame),
            GeneratorState::Running | GeneratorState::Finished(_) | GeneratorState::Real(_) => None,
        }
    }
}

impl Variable for GeneratorVariable {
    fn kind(&self) -> &'static str {
        "generator"
    }

    fn form(&self) -> Form {
        Form::Generator
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        let ty = library(trace.py, "types", "GeneratorType").map(|ty| ty.into_bound(trace.py));
        or_object_type(trace, ty)
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        match &self.state {
            GeneratorState::Real(object) => Some(object),
            _ => None,
        }
    }

    fn text(&self, _: &Trace<'_>) -> String {
        format!("GeneratorVariable({})", self.qualname)
    }

    fn prepare(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<()> {
        if self.frame().is_some() {
            self.assume_names(cx);
        }
        Ok(())
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        match &self.state {
            GeneratorState::Fresh(frame) => {
                rebuild_fresh(cg, frame)?;
                self.restore_names(cg, this, frame)
            }
            GeneratorState::Finished(_) => rebuild_finished(cg, self),
            GeneratorState::Real(object) => cg.load_const(object.clone_ref(cg.py())),
            GeneratorState::Suspended(frame) => {
                cg.load_suspended(frame)?;
                self.restore_names(cg, this, frame)
            }
            GeneratorState::Running => Err(cg.plan_to_make(this, "is running where the graph ends")),
        }
    }

    fn runs_when_dropped(&self, trace: &Trace<'_>) -> bool {
        let GeneratorState::Suspended(frame) = &self.state else { return false };
        frame.is_protected(Opcodes::get(trace.py))
            || delegates_to(trace, frame).is_some_and(|inner| closing_is_observable(trace, inner))
    }

    fn death(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, living: &FxHashSet<VarId>) -> Death {
        let GeneratorState::Suspended(frame) = &self.state else { return Death::Silent };
        // `close()` closes the inner generator first.
        let inner = delegates_to(&cx.trace, frame).filter(|inner| closing_is_observable(&cx.trace, *inner));
        let inner_death = match inner {
            Some(inner) if living.contains(&inner) || cx.trace.vars.is_changed_after(inner, this) => Death::Shows,
            Some(inner) => match cx.trace.vars.as_kind::<GeneratorVariable>(inner) {
                Some(closed) if matches!(closed.state, GeneratorState::Suspended(_)) => closed.death(cx, inner, living),
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
            Some(Closing::Propagates) => inner_death,
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
            // The state of the generator is observed, so closing it must not be skipped.
            cx.trace.vars.set(this, cx.trace.vars.get(this));
        }
        Ok(Some(match &**name {
            "__name__" => cx.trace.string(&self.name),
            "__qualname__" => cx.trace.string(&self.qualname),
            "gi_running" => cx.trace.boolean(matches!(self.state, GeneratorState::Running)),
            "gi_suspended" if self.python_type(&cx.trace).hasattr(&**name)? => {
                cx.trace.boolean(matches!(self.state, GeneratorState::Suspended(_)))
            }
            "gi_frame" if matches!(self.state, GeneratorState::Finished(_)) => cx.trace.none(),
            _ => return object_model::get_attr(cx, this, name),
        }))
    }

    fn iter(&self, _: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        Ok(this)
    }

    fn next(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Option<VarId>> {
        let none = cx.trace.none();
        Ok(match send(cx, this, none)? {
            Resumed::Yielded(value) => Some(value),
            Resumed::Returned(_) => None,
        })
    }

    fn truth(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<bool> {
        Ok(true)
    }
}
