//! `types.SimpleNamespace`.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyType;
use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::{ReasonId, Unwind};
use sot_core::executor::{CallArgs, CompareOp};
use sot_core::language::LANGUAGE;

use crate::classes::instance::InstanceVariable;

builtin! { NAMESPACE = "types:SimpleNamespace" => |cx, args| {
    if !args.positional.is_empty() {
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, "SimpleNamespace() of a mapping"));
    }
    let ty = cpython::import(cx.py, "types")?.getattr("SimpleNamespace")?;
    let tracker = cx.trace.trackers.constant(ty.clone().unbind());
    let class = cx.trace.wrap(&ty, tracker);
    let instance = InstanceVariable::make(cx, class, ty.cast::<PyType>().map_err(PyErr::from)?);
    for (name, value) in &args.keywords {
        cx.trace.effects.set_attribute(instance, name, Some(*value));
    }
    Ok(instance)
} }

builtin! { NAMESPACE_EQ = "types:SimpleNamespace.__eq__" => |cx, args| {
    let [this, other] = args.exactly("__eq__")?;
    let base = cpython::import(cx.py, "types")?.getattr("SimpleNamespace")?.cast_into::<PyType>();
    if !cx.is_of_class(other, &base.map_err(PyErr::from)?)? {
        let value = cx.py.NotImplemented();
        return Ok(cx.trace.constant(value));
    }
    let name = Rc::from("__dict__");
    let (left, right) = (cx.get_attr(this, &name)?, cx.get_attr(other, &name)?);
    cx.compare(CompareOp::Equal, left, right)
} }

builtin! { NAMESPACE_REPR = "types:SimpleNamespace.__repr__" => |cx, args| {
    let [this] = args.exactly("__repr__")?;
    let dict = cx.get_attr(this, &Rc::from("__dict__"))?;
    let repr = cpython::builtin(cx.py, "repr")?;
    let own = cx.type_of(this)?.is(&cpython::import(cx.py, "types")?.getattr("SimpleNamespace")?);
    let name = if own { "namespace".to_owned() } else { cx.type_name(this)? };
    let mut parts = Vec::new();
    for (key, value) in cx.keyword_items(dict)? {
        let text = cx.call_builtin(&repr, &CallArgs::positional(vec![value]), false)?;
        let Some(text) = cx.known_str(text)? else {
            return Err(Unwind::break_graph(ReasonId::UnsupportedCall, "repr() of values not known while tracing"));
        };
        parts.push(format!("{key}={text}"));
    }
    if LANGUAGE.sorts_namespaces {
        parts.sort();
    }
    Ok(cx.trace.string(&format!("{name}({})", parts.join(", "))))
} }
