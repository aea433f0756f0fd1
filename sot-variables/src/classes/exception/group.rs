//! Exception groups: splitting them for `except*`, and the exception that is raised again behind the clauses.

use std::rc::Rc;

use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyType;

use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{unwinding, CallArgs, OpcodeExecutor};
use sot_core::variable::{Form, VarId};

use crate::classes::exception::{self, ExceptionVariable};
use crate::containers::sequence;

/// Attributes that the parts of a group inherit from the group.
const INHERITED: [&str; 2] = ["__context__", "__cause__"];

/// Returns `BaseExceptionGroup` and `ExceptionGroup`, if the interpreter has them (3.11+).
fn types(py: Python<'_>) -> Option<[Bound<'_, PyType>; 2]> {
    let ty = |name: &str| cpython::builtin(py, name).ok()?.cast_into::<PyType>().ok();
    Some([ty("BaseExceptionGroup")?, ty("ExceptionGroup")?])
}

/// True for CPython's own group classes, whose splitting is simulated.
pub fn is_group_type(ty: &Bound<'_, PyType>) -> bool {
    types(ty.py()).is_some_and(|types| types.iter().any(|own| own.is(ty)))
}

/// True if the exception is a group, also of a class of the program.
pub fn is_group(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> Flow<bool> {
    let Some([base, _]) = types(cx.py) else { return Ok(false) };
    cx.is_of_class(exception, &base)
}

fn refuse() -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedOperation, "an exception group whose class overrides how it is split")
}

/// Returns the exceptions of a group that is made with these arguments.
pub fn members(cx: &mut OpcodeExecutor<'_>, args: &[VarId]) -> Flow<Vec<VarId>> {
    let [message, exceptions] = args else { return Err(refuse()) };
    if !matches!(cx.see(*exceptions)?.form(), Form::List | Form::Tuple) {
        return Err(refuse());
    }
    let members = cx.unpack_all(*exceptions)?;
    let mut proper = cx.known_str(*message)?.is_some() && !members.is_empty();
    for &member in &members {
        proper &= cx.see_as::<ExceptionVariable>(member)?.is_some();
    }
    if proper {
        Ok(members)
    } else {
        Err(refuse())
    }
}

/// Returns the exceptions that a group made in the trace holds. The list that it was made of may have changed since.
fn held(cx: &mut OpcodeExecutor<'_>, group: &ExceptionVariable) -> Flow<Vec<VarId>> {
    let members = group.members().ok_or_else(refuse)?;
    cx.unpack_all(members)
}

/// Returns the class of a group of these exceptions: `BaseExceptionGroup(...)` returns an `ExceptionGroup` if all
/// members are `Exception`s.
pub fn class_for<'py>(
    cx: &mut OpcodeExecutor<'py>,
    ty: &Bound<'py, PyType>,
    members: &[VarId],
) -> Flow<Bound<'py, PyType>> {
    let [base, narrow] = types(cx.py).ok_or_else(refuse)?;
    let ordinary = cx.py.get_type::<PyException>();
    for &member in members {
        if !cx.is_of_class(member, &ordinary)? {
            // `ExceptionGroup` with other members: CPython raises a `TypeError`, which is too rare to simulate.
            return if ty.is(&base) { Ok(base) } else { Err(refuse()) };
        }
    }
    Ok(narrow)
}

/// Makes a group of the exceptions in a list or tuple.
fn group(cx: &mut OpcodeExecutor<'_>, message: VarId, members: VarId) -> Flow<VarId> {
    let [base, _] = types(cx.py).ok_or_else(refuse)?;
    exception::make(cx, base.as_any(), vec![message, members])
}

/// Makes a group of some of the exceptions of `original`. The part has the traceback of the original.
fn derive(cx: &mut OpcodeExecutor<'_>, original: VarId, members: Vec<VarId>) -> Flow<Option<VarId>> {
    if members.is_empty() {
        return Ok(None);
    }
    let payload = cx.see_as::<ExceptionVariable>(original)?.ok_or_else(refuse)?;
    let ty = cx.type_of(original)?;
    if !ty.cast::<PyType>().is_ok_and(is_group_type) {
        return Err(refuse());
    }
    let message = payload.args().first().copied().ok_or_else(refuse)?;
    let members = cx.trace.list(members);
    let part = group(cx, message, members)?;
    for name in INHERITED {
        if let Some(value) = cx.trace.effects.attribute(original, &Rc::from(name)).flatten() {
            cx.trace.effects.set_attribute(part, &Rc::from(name), Some(value));
        }
    }
    let suppressed = cx.trace.boolean(true);
    cx.trace.effects.set_attribute(part, &Rc::from("__suppress_context__"), Some(suppressed));
    if let Some(notes) = cx.trace.effects.attribute(original, &Rc::from("__notes__")).flatten() {
        let notes = cx.unpack_all(notes)?;
        let notes = cx.trace.list(notes);
        cx.trace.effects.set_attribute(part, &Rc::from("__notes__"), Some(notes));
    }
    cx.trace.raised.note_part(part, original);
    Ok(Some(part))
}

/// Splits a group into the exceptions that `wanted` accepts and the others, each in a group of the same shape.
fn partition(
    cx: &mut OpcodeExecutor<'_>,
    exception: VarId,
    wanted: &mut dyn FnMut(&mut OpcodeExecutor<'_>, VarId) -> Flow<bool>,
) -> Flow<[Option<VarId>; 2]> {
    if wanted(cx, exception)? {
        return Ok([Some(exception), None]);
    }
    if !is_group(cx, exception)? {
        return Ok([None, Some(exception)]);
    }
    let payload = cx.see_as::<ExceptionVariable>(exception)?.ok_or_else(refuse)?;
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for member in held(cx, &payload)? {
        let [yes, no] = sequence::nested(|| partition(cx, member, wanted)).ok_or_else(sequence::endless)??;
        inside.extend(yes);
        outside.extend(no);
    }
    Ok([derive(cx, exception, inside)?, derive(cx, exception, outside)?])
}

/// Simulates `group.split(type)`.
pub fn split(cx: &mut OpcodeExecutor<'_>, exception: VarId, pattern: VarId) -> Flow<[Option<VarId>; 2]> {
    partition(cx, exception, &mut |cx, exception| unwinding::exception_matches(cx, exception, pattern))
}

/// Simulates `except*`: returns the rest of the exception and the caught part.
pub fn catch(cx: &mut OpcodeExecutor<'_>, exception: VarId, pattern: VarId) -> Flow<[Option<VarId>; 2]> {
    let matches = unwinding::exception_matches(cx, exception, pattern)?;
    refuse_groups(cx, pattern)?;
    if matches {
        if is_group(cx, exception)? {
            return Ok([None, Some(exception)]);
        }
        let message = cx.trace.string("");
        let members = cx.trace.tuple(vec![exception]);
        let wrapped = group(cx, message, members)?;
        return Ok([None, Some(wrapped)]);
    }
    if !is_group(cx, exception)? {
        return Ok([Some(exception), None]);
    }
    let [caught, rest] = split(cx, exception, pattern)?;
    Ok([rest, caught])
}

/// Raises CPython's `TypeError` if a pattern of `except*` is a class of exception groups.
fn refuse_groups(cx: &mut OpcodeExecutor<'_>, pattern: VarId) -> Flow<()> {
    let Some([base, _]) = types(cx.py) else { return Ok(()) };
    let classes = if cx.see(pattern)?.form() == Form::Tuple { cx.unpack_all(pattern)? } else { vec![pattern] };
    for class in classes {
        let class = cx.see(class)?.object().map(|class| class.bind(cx.py).clone());
        if class.is_some_and(|class| class.cast::<PyType>().is_ok_and(|class| cpython::is_subtype(class, &base))) {
            let text = "catching ExceptionGroup with except* is not allowed. Use except instead.";
            return Err(cx.raise(PyTypeError::new_err(text)));
        }
    }
    Ok(())
}

fn leaves(cx: &mut OpcodeExecutor<'_>, exception: VarId, found: &mut Vec<VarId>) -> Flow<()> {
    if !is_group(cx, exception)? {
        found.push(exception);
        return Ok(());
    }
    let payload = cx.see_as::<ExceptionVariable>(exception)?.ok_or_else(refuse)?;
    for member in held(cx, &payload)? {
        sequence::nested(|| leaves(cx, member, found)).ok_or_else(sequence::endless)??;
    }
    Ok(())
}

/// Returns the exception that is raised behind all `except*` clauses. Uncaught exceptions of the original keep their
/// shape in the group. Exceptions that the clauses have raised are added; several of them are wrapped in a group.
pub fn raised_again(cx: &mut OpcodeExecutor<'_>, original: VarId, left: &[VarId]) -> Flow<Option<VarId>> {
    let (mut kept, mut raised) = (Vec::new(), Vec::new());
    for &part in left {
        if part == original || cx.trace.raised.is_part(part, original) {
            leaves(cx, part, &mut kept)?;
        } else {
            raised.push(part);
        }
    }
    raised.extend(partition(cx, original, &mut |_, exception| Ok(kept.contains(&exception)))?[0]);
    if raised.len() < 2 {
        return Ok(raised.pop());
    }
    let message = cx.trace.string("");
    let raised = cx.trace.list(raised);
    group(cx, message, raised).map(Some)
}

/// Calls a method of a group; `None` if it is not simulated.
pub fn call_method(cx: &mut OpcodeExecutor<'_>, group: VarId, name: &str, args: &[VarId]) -> Flow<Option<VarId>> {
    let none_or = |cx: &mut OpcodeExecutor<'_>, part: Option<VarId>| part.unwrap_or_else(|| cx.trace.none());
    match (name, args) {
        ("split", &[pattern]) => {
            let [inside, outside] = split(cx, group, pattern)?;
            let parts = vec![none_or(cx, inside), none_or(cx, outside)];
            Ok(Some(cx.trace.tuple(parts)))
        }
        ("subgroup", &[pattern]) => {
            let [inside, _] = split(cx, group, pattern)?;
            Ok(Some(none_or(cx, inside)))
        }
        ("__str__", []) => {
            let payload = cx.see_as::<ExceptionVariable>(group)?.ok_or_else(refuse)?;
            let count = held(cx, &payload)?.len();
            let message = cx.known_str(payload.args()[0])?.unwrap_or_default();
            let plural = if count == 1 { "" } else { "s" };
            Ok(Some(cx.trace.string(&format!("{message} ({count} sub-exception{plural})"))))
        }
        _ => Ok(None),
    }
}

/// Returns the positional arguments of a call of a group's class; `None` if there are keywords.
pub fn arguments(args: &CallArgs) -> Option<&[VarId]> {
    args.keywords.is_empty().then_some(&args.positional[..])
}
