//! Construction of exceptions: calls of their classes, with `__new__` and `__init__` in C simulated.

use std::rc::Rc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use sot_core::cpython::{self, DescriptorKind};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, OpcodeExecutor};
use sot_core::variable::VarId;

use super::layout::{has_more_c_fields, held_attribute, is_simple_holder, refuse_hiding_slots};
use super::{group, is_tuple, ExceptionVariable};

/// Simulates `class(...)` for an exception class. Returns `None` if its `__new__` is not C code.
pub fn instantiate<'py>(
    cx: &mut OpcodeExecutor<'py>,
    class: VarId,
    ty: &Bound<'py, PyType>,
    args: &CallArgs,
) -> Flow<Option<VarId>> {
    let new = method_of_class(cx, class, ty, "__new__")?;
    if new.is_none_or(|new| DescriptorKind::of(&new) != DescriptorKind::BuiltinFunction) {
        return Ok(None);
    }
    let init = method_of_class(cx, class, ty, "__init__")?;
    let initialized_in_c = initialized_in_c_only(init.as_ref());
    refuse_hiding_slots(ty)?;
    if group::is_group_type(ty) {
        return new_group(cx, class, ty, args).map(Some);
    }
    if has_more_c_fields(ty)? && !is_simple_holder(ty) {
        return if initialized_in_c { real_instance(cx, class, ty, args).map(Some) } else { Ok(None) };
    }
    if initialized_in_c && !args.keywords.is_empty() {
        let text = format!("{}() takes no keyword arguments", cpython::type_name(ty));
        return Err(cx.raise(PyTypeError::new_err(text)));
    }
    let exception = cx.trace.produce(Rc::new(ExceptionVariable::new(ty, class, args.positional.clone())));
    if initialized_in_c {
        hold(cx, exception, ty, &args.positional);
    } else {
        let init = object_model::find_special(cx, exception, &Rc::from("__init__"))?;
        if let Some(init) = init {
            cx.call(init, args)?;
        }
    }
    Ok(Some(exception))
}

/// Looks up a method in the class, and guards its identity.
fn method_of_class<'py>(
    cx: &mut OpcodeExecutor<'py>,
    class: VarId,
    ty: &Bound<'py, PyType>,
    name: &str,
) -> Flow<Option<Bound<'py, PyAny>>> {
    let of = cx.trace.vars.tracker(class);
    let found = object_model::lookup_in_type(cx, ty.as_any(), of, &Rc::from(name))?;
    Ok(found.map(|(found, tracker)| {
        object_model::guard_identity(cx, &found, tracker);
        found
    }))
}

fn initialized_in_c_only(init: Option<&Bound<'_, PyAny>>) -> bool {
    init.is_none_or(|init| DescriptorKind::of(init) == DescriptorKind::SlotWrapper)
}

/// Simulates `ExceptionGroup(message, exceptions)`.
fn new_group<'py>(cx: &mut OpcodeExecutor<'py>, class: VarId, ty: &Bound<'py, PyType>, args: &CallArgs) -> Flow<VarId> {
    let given = group::arguments(args).unwrap_or_default().to_vec();
    let members = group::members(cx, &given)?;
    let own = group::class_for(cx, ty, &members)?;
    let class = own.is(ty).then_some(class);
    let members = cx.trace.tuple(members);
    let ty = own.into_any().unbind();
    let payload =
        ExceptionVariable { ty, class, args: given, real: None, given: None, members: Some(members), tuple: None };
    Ok(cx.trace.produce(Rc::new(payload)))
}

/// Simulates `class(*args)` for an exception class of CPython.
pub fn make<'py>(cx: &mut OpcodeExecutor<'py>, class: &Bound<'py, PyAny>, args: Vec<VarId>) -> Flow<VarId> {
    let tracker = cx.trace.trackers.constant(class.clone().unbind());
    let class = cx.trace.wrap(class, tracker);
    cx.call(class, &CallArgs::positional(args))
}

/// Makes a real exception of a class with more C fields. The arguments must be known.
fn real_instance<'py>(
    cx: &mut OpcodeExecutor<'py>,
    class: VarId,
    ty: &Bound<'py, PyType>,
    args: &CallArgs,
) -> Flow<VarId> {
    let Some((positional, keywords)) = cx.materialize_args(args)? else {
        let text = format!("{}() of values that are not known while tracing", cpython::type_name(ty));
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
    };
    match ty.call(positional, Some(&keywords)) {
        // `OSError(2)` is a FileNotFoundError.
        Ok(real) => {
            let class = real.get_type().is(ty).then_some(class);
            ExceptionVariable::of_real(cx, &real, class, Some(args.clone()))
        }
        Err(error) => Err(cx.raise(error)),
    }
}

/// Sets the attribute that `__init__` in C takes from the first argument.
pub(super) fn hold(cx: &mut OpcodeExecutor<'_>, exception: VarId, ty: &Bound<'_, PyType>, args: &[VarId]) {
    let Some(name) = held_attribute(ty) else { return };
    let value = match *args {
        [] => return,
        [_, _, ..] if name == "code" => cx.trace.tuple(args.to_vec()),
        [first, ..] => first,
    };
    cx.trace.effects.set_attribute(exception, &Rc::from(name), Some(value));
}

/// Keeps the program's own tuple as `args` of an exception that `class(*args)` has made, so that reads give the same
/// object.
pub fn keep_given(cx: &mut OpcodeExecutor<'_>, class: VarId, exception: VarId, args: VarId) -> Flow<()> {
    let Some(made) = cx.trace.vars.as_kind::<ExceptionVariable>(exception) else { return Ok(()) };
    let is_as_given = made.class == Some(class) && made.tuple.is_none() && made.members.is_none();
    if is_as_given && is_tuple(cx, args)? && cx.unpack_all(args)? == made.args {
        made.keep_tuple(cx, exception, args);
    }
    Ok(())
}
