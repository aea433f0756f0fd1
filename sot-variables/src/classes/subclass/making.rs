//! `__new__` and `__init__` of builtin types, which subclasses inherit.

use std::rc::Rc;

use pyo3::types::PyType;
use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::variable::VarId;

use super::base::{BuiltinBase, VALUES};
use super::SubclassVariable;
use crate::builtins::{conversion, receive};
use crate::containers::list;

constructors! { new;
    LIST = "list.__new__";
    DICT = "dict.__new__";
    SET = "set.__new__";
    STR = "str.__new__";
    INT = "int.__new__";
    FLOAT = "float.__new__";
    COMPLEX = "complex.__new__";
    BYTES = "bytes.__new__";
    FROZENSET = "frozenset.__new__";
    DEQUE_NEW = "collections:deque.__new__";
}

builtin! { LIST_INIT = "list.__init__" => |cx, args| {
    let (this, [items]) = receive(cx, args, "list", "__init__", 0)?;
    let items = match items {
        Some(items) => {
            conversion::ask_length_first(cx, items)?;
            cx.unpack_into_list(items)?
        }
        None => Vec::new(),
    };
    list::write(cx, this, items)?;
    Ok(cx.trace.none())
} }

builtin! { DICT_INIT = "dict.__init__" => |cx, args| fill_dict(cx, args) }
builtin! { ORDERED_INIT = "collections:OrderedDict.__init__" => |cx, args| fill_dict(cx, args) }

/// Simulates `dict.__init__`, which does not clear the dict.
pub(crate) fn fill_dict(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let this = args
        .positional
        .first()
        .copied()
        .ok_or_else(|| Unwind::break_graph(ReasonId::UnsupportedCall, "dict.__init__() without a dict"))?;
    if args.positional.len() > 1 || !args.keywords.is_empty() {
        cx.call_method_with(
            this,
            "update",
            &CallArgs { positional: args.positional[1..].to_vec(), keywords: args.keywords.clone() },
        )?;
    }
    Ok(cx.trace.none())
}

builtin! { SET_INIT = "set.__init__" => |cx, args| {
    let (this, [items]) = receive(cx, args, "set", "__init__", 0)?;
    cx.call_method(this, "clear", &[])?;
    if let Some(items) = items {
        cx.call_method(this, "update", &[items])?;
    }
    Ok(cx.trace.none())
} }

/// Simulates `base.__new__(class, ...)`: containers start empty, immutable values are made from the arguments.
fn new(cx: &mut OpcodeExecutor<'_>, path: &str, args: &CallArgs) -> Flow<VarId> {
    let refuse = || Unwind::break_graph(ReasonId::UnsupportedCall, "__new__() of an unknown class");
    let (&class, rest) = args.positional.split_first().ok_or_else(refuse)?;
    let object = cx.see(class)?.object().map(|object| object.bind(cx.py).clone()).ok_or_else(refuse)?;
    let ty = object.cast::<PyType>().map_err(|_| refuse())?.clone();
    let rest = CallArgs { positional: rest.to_vec(), keywords: args.keywords.clone() };
    let Some(base) = BuiltinBase::of(&ty)? else {
        let own = path.rsplit(':').next().unwrap_or(path);
        if !own.starts_with(&format!("{}.", cpython::type_name(&ty))) {
            // Another type implemented in C: CPython raises a `TypeError` if calling this `__new__` is not safe.
            return Err(refuse());
        }
        // The builtin type itself: for an immutable value, `__new__` does the same as a call.
        let none = CallArgs::default();
        let is_value = VALUES.contains(&&*cpython::type_name(&ty));
        return cx.call(class, if is_value { &rest } else { &none });
    };
    let storage = match base {
        BuiltinBase::Container(..) => call_type(cx, base, &CallArgs::default())?,
        BuiltinBase::Value(_) => call_type(cx, base, &rest)?,
    };
    let ty = ty.into_any().unbind();
    Ok(cx.trace.produce(Rc::new(SubclassVariable { class: Some(class), ty, base, storage, object: None })))
}

fn call_type(cx: &mut OpcodeExecutor<'_>, base: BuiltinBase, args: &CallArgs) -> Flow<VarId> {
    let ty = base.ty(cx.py)?;
    let tracker = cx.trace.trackers.constant(ty.clone().unbind());
    let ty = cx.trace.wrap(&ty, tracker);
    cx.call(ty, args)
}
