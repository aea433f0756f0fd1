//! Class statements and `type(name, bases, namespace)`. The class body runs in the trace, with a dict as its
//! namespace. Then a real class is made while tracing, from real objects that stand for the namespace's values
//! (`stand_in`), so that CPython answers all questions about the class. Where the class escapes, new code makes
//! another class from the actual values. See `docs/decisions/14-class-statements.md`.

mod library;
mod maker;
mod new_class;
mod statement;

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyType};
use sot_core::bytecode::Op;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{Name, OpcodeExecutor};
use sot_core::side_effects::Effect;
use sot_core::variable::Rebuild;
use sot_core::variable::{VarId, Variable};

use crate::classes::class::ClassVariable;
use crate::classes::stand_in;

pub use statement::make;

/// How a class was made in the trace.
#[derive(Clone)]
pub struct MadeClass {
    /// The function that makes the class; `parts` are its arguments.
    maker: Rc<Py<PyAny>>,
    parts: Vec<VarId>,
    changes: Vec<ClassChange>,
    /// True if the real class has the actual values of the namespace, none of which had to be approximated by a
    /// stand-in.
    exact: bool,
    /// The number of side effects when `exact` was determined. Later writes may have changed a value of the
    /// namespace.
    writes: usize,
    /// The results of `__subclasshook__`, by class.
    answers: Vec<(Rc<Py<PyAny>>, bool)>,
}

/// A change of a class after it was made.
#[derive(Clone)]
enum ClassChange {
    /// `class.name = value`, or `del class.name`.
    Attribute(VarId, Option<VarId>),
    /// A call whose only effect is to complete the class.
    Call(Rc<Py<PyAny>>, Vec<VarId>),
}

fn refuse(what: impl Into<String>) -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedCall, what)
}

impl MadeClass {
    /// Returns the variables that the class is made of.
    pub fn children(&self) -> Vec<VarId> {
        let changes = self.changes.iter().flat_map(|change| match change {
            ClassChange::Attribute(_, value) => value.iter().copied().collect::<Vec<_>>(),
            ClassChange::Call(_, args) => args.clone(),
        });
        self.parts.iter().copied().chain(changes).collect()
    }

    /// Emits code that makes the class and repeats its changes.
    pub fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        cg.making_class(|cg| {
            let make = self.maker.clone_ref(cg.py());
            cg.call(|cg| cg.load_const(make), &self.parts)?;
            cg.define(this)?;
            for change in &self.changes {
                match change {
                    ClassChange::Attribute(name, value) => {
                        let hook = if value.is_some() { "__setattr__" } else { "__delattr__" };
                        let hook = cg.py().get_type::<PyType>().getattr(hook)?.unbind();
                        let args: Vec<VarId> = [this, *name].into_iter().chain(*value).collect();
                        cg.call(|cg| cg.load_const(hook), &args)?;
                    }
                    ClassChange::Call(function, args) => {
                        let function = function.clone_ref(cg.py());
                        cg.call(|cg| cg.load_const(function), args)?;
                    }
                }
                cg.op(Op::POP_TOP, 0)?;
            }
            Ok(())
        })
    }
}

/// Simulates `class.name = value`, or the deletion of the attribute, for a class made in the trace.
pub fn set_attr(
    cx: &mut OpcodeExecutor<'_>,
    this: VarId,
    made: &MadeClass,
    name: &Name,
    value: Option<VarId>,
) -> Flow<()> {
    let Some(object) = cx.trace.vars.get(this).object().map(|object| object.bind(cx.py).clone()) else { return Ok(()) };
    let mut exact = made.exact;
    let done = match value {
        Some(value) => {
            let real = stand_in::of(cx, value, &mut exact)?;
            cx.py.get_type::<PyType>().call_method1("__setattr__", (&object, &**name, real))
        }
        None => cx.py.get_type::<PyType>().call_method1("__delattr__", (&object, &**name)),
    };
    done.map_err(|error| cx.raise(error))?;
    let name = cx.trace.string(name);
    let changes = made.changes.iter().cloned().chain([ClassChange::Attribute(name, value)]).collect();
    let told = made.writes == cx.trace.effects.len();
    cx.trace.effects.record(Effect::Contents { container: this });
    let writes = if told { cx.trace.effects.len() } else { usize::MAX };
    let made = MadeClass { changes, exact, writes, ..made.clone() };
    cx.trace.vars.set(this, Rc::new(ClassVariable::of(object.unbind(), made)));
    Ok(())
}

/// Returns the remembered result of the `__subclasshook__` of a class made in the trace, for the class `of`.
pub(crate) fn answer(cx: &mut OpcodeExecutor<'_>, class: VarId, of: &Bound<'_, PyAny>) -> Flow<Option<bool>> {
    let made = cx.see_as::<ClassVariable>(class)?.and_then(|class| class.made());
    let answer = made.and_then(|made| made.answers.iter().find(|(known, _)| known.is(of)).map(|(_, answer)| *answer));
    Ok(answer)
}

/// Remembers a result of `__subclasshook__`, which is called once for each class.
pub(crate) fn remember(cx: &mut OpcodeExecutor<'_>, class: VarId, of: &Bound<'_, PyAny>, answer: bool) -> Flow<()> {
    let Some(payload) = cx.see_as::<ClassVariable>(class)? else { return Ok(()) };
    let (Some(made), Some(object)) = (payload.made(), payload.object()) else { return Ok(()) };
    let mut made = (*made).clone();
    made.answers.push((Rc::new(of.clone().unbind()), answer));
    let object = object.clone_ref(cx.py);
    cx.trace.vars.set(class, Rc::new(ClassVariable::of(object, made)));
    Ok(())
}

fn constant_object(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>) -> VarId {
    let object = object.clone().unbind();
    let tracker = cx.trace.trackers.constant(object.clone_ref(cx.py));
    let object = object.bind(cx.py).clone();
    cx.trace.wrap(&object, tracker)
}

/// Returns the class that a variable stands for, if it is a class.
fn class_of<'py>(cx: &mut OpcodeExecutor<'py>, variable: VarId) -> Flow<Option<Bound<'py, PyType>>> {
    let object = cx.see(variable)?.object().map(|object| object.bind(cx.py).clone());
    Ok(object.and_then(|object| object.cast_into::<PyType>().ok()))
}

const LIBRARY: &[&str] = &["typing", "enum"];

pub(crate) fn is_of_library(object: &Bound<'_, PyAny>) -> bool {
    let module = object.getattr("__module__").and_then(|module| module.extract::<String>());
    module.is_ok_and(|module| LIBRARY.contains(&&*module))
}

fn is_followed(hook: &Bound<'_, PyAny>) -> bool {
    let function = hook.getattr("__func__").unwrap_or_else(|_| hook.clone());
    function.is_exact_instance_of::<PyFunction>() && !is_of_library(&function)
}
