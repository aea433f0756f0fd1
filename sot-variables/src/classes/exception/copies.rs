//! Copying of exceptions (`__reduce__`, `__setstate__`), construction without `__init__`, and notes.

use std::rc::Rc;

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, OpcodeExecutor};
use sot_core::side_effects::Effect;
use sot_core::variable::VarId;

use super::layout::has_more_c_fields;
use super::{is_none, ExceptionVariable};

/// Simulates `__reduce__`: class, arguments, and the attributes if the exception has a dict.
pub(super) fn reduce(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
    let class = object_model::type_variable(cx, this)?;
    let args = cx.get_attr(this, &Rc::from("args"))?;
    let attributes = cx.get_attr(this, &Rc::from("__dict__"))?;
    let mut parts = vec![class, args];
    // The dict still exists when all of its entries have been deleted.
    let is_own = |effect: &Effect| match effect {
        Effect::Attribute { object, name, .. } => *object == this && !name.starts_with("__"),
        _ => false,
    };
    if cx.truth(attributes)? || cx.trace.effects.log().iter().any(is_own) {
        parts.push(attributes);
    }
    Ok(cx.trace.tuple(parts))
}

/// Simulates `__setstate__`: sets the attributes in the dict `state`.
pub(super) fn set_state(cx: &mut OpcodeExecutor<'_>, this: VarId, state: VarId) -> Flow<VarId> {
    if !is_none(cx, state)? {
        let refuse = || {
            Unwind::break_graph(
                ReasonId::UnsupportedCall,
                "__setstate__() of an exception without a dict of attributes",
            )
        };
        if !cx.type_of(state)?.is(cx.py.get_type::<PyDict>()) {
            return Err(refuse());
        }
        let items = cx.call_method(state, "items", &[])?;
        for item in cx.unpack_all(items)? {
            let [name, value] = cx.unpack_all(item)?[..] else { return Err(refuse()) };
            let name = cx.known_str(name)?.ok_or_else(refuse)?;
            cx.set_attr(this, &Rc::from(name), Some(value))?;
        }
    }
    Ok(cx.trace.none())
}

constructors! { new;
    BASE_NEW = "BaseException.__new__";
    EXCEPTION_NEW = "Exception.__new__";
    VALUE_NEW = "ValueError.__new__";
    TYPE_NEW = "TypeError.__new__";
    LOOKUP_NEW = "LookupError.__new__";
    RUNTIME_NEW = "RuntimeError.__new__";
}

/// Simulates `base.__new__(class, ...)` for classes whose C code keeps nothing besides the arguments.
fn new(cx: &mut OpcodeExecutor<'_>, _: &str, args: &CallArgs) -> Flow<VarId> {
    let refuse =
        || Unwind::break_graph(ReasonId::UnsupportedCall, "__new__() of an exception class with further state in C");
    let (&class, rest) = args.positional.split_first().ok_or_else(refuse)?;
    let ty = cx.see(class)?.object().map(|ty| ty.bind(cx.py).clone()).ok_or_else(refuse)?;
    let ty = ty.cast_into::<PyType>().map_err(|_| refuse())?;
    if !cpython::is_subtype(&ty, &cx.py.get_type::<PyBaseException>()) || has_more_c_fields(&ty)? {
        return Err(refuse());
    }
    Ok(cx.trace.produce(Rc::new(ExceptionVariable::new(&ty, class, rest.to_vec()))))
}

/// Simulates `add_note(text)`.
pub(super) fn add_note(cx: &mut OpcodeExecutor<'_>, this: VarId, note: VarId) -> Flow<()> {
    if cx.known_str(note)?.is_none() {
        return Err(Unwind::break_graph(
            ReasonId::UnsupportedCall,
            "add_note() of a string that is not known while tracing",
        ));
    }
    let name = Rc::from("__notes__");
    match cx.find_attr(this, &name)? {
        Some(notes) => cx.call_method(notes, "append", &[note]).map(|_| ()),
        None => {
            let notes = cx.trace.list(vec![note]);
            cx.set_attr(this, &name, Some(notes))
        }
    }
}
