//! `types.MappingProxyType`: a read-only view of a dict, such as `__dict__` of a class.

use std::rc::Rc;

use pyo3::prelude::*;

use sot_core::builtin;
use sot_core::cpython::{self, Part};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{BinaryOp, CallArgs, CompareOp, OpcodeExecutor, Trace};
use sot_core::tracker::{Tracker, TrackerId};
use sot_core::variable::Rebuild;
use sot_core::variable::{Form, VarId, Variable};

use crate::containers::dict::{self, DictVariable};
use crate::iterators::{emit_call, library, or_object_type};

sot_core::variable_kind! {
    "mapping_proxy",
    types: |py| Ok(vec![library(py, "types", "MappingProxyType")?]),
    wrap: MappingProxyVariable::wrap
}

/// A read-only view of a mapping.
pub struct MappingProxyVariable {
    mapping: VarId,
    object: Option<Py<PyAny>>,
}

builtin! { PROXY = "types:MappingProxyType" => |cx, args| {
    let [mapping] = args.exactly("mappingproxy")?;
    if dict::of(cx, mapping)?.is_none() {
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, "mappingproxy() of an object that is not a dict"));
    }
    Ok(cx.trace.produce(Rc::new(MappingProxyVariable { mapping, object: None })))
} }

/// Registers methods that are forwarded to the mapping.
macro_rules! forwarded {
    ($($item:ident = $path:literal, $name:literal;)+) => {$(
        builtin! { $item = $path => |cx, args| forward(cx, $name, args) }
    )+};
}

forwarded! {
    GET = "types:MappingProxyType.get", "get";
    KEYS = "types:MappingProxyType.keys", "keys";
    VALUES = "types:MappingProxyType.values", "values";
    ITEMS = "types:MappingProxyType.items", "items";
    COPY = "types:MappingProxyType.copy", "copy";
}

fn forward(cx: &mut OpcodeExecutor<'_>, name: &str, args: &CallArgs) -> Flow<VarId> {
    let refuse = || Unwind::break_graph(ReasonId::UnsupportedCall, "a method of mappingproxy without its receiver");
    let (&this, rest) = args.positional.split_first().ok_or_else(refuse)?;
    let proxy = cx.see_as::<MappingProxyVariable>(this)?.ok_or_else(refuse)?;
    let rest = CallArgs { positional: rest.to_vec(), keywords: args.keywords.clone() };
    cx.call_method_with(proxy.mapping, name, &rest)
}

impl MappingProxyVariable {
    /// Wraps a proxy from outside. For `__dict__` of a class, guards and new code read the items through the proxy as
    /// if it were a dict.
    fn wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, of: TrackerId) -> Flow<Rc<dyn Variable>> {
        let object = object.clone().unbind().into_bound(cx.py);
        // Any other dict may be reached, and written, without its proxy.
        let of_class = matches!(cx.trace.trackers.get(of), Tracker::Getattr { name, .. } if &**name == "__dict__");
        let refuse = || {
            let text = "a mappingproxy made outside the function";
            Unwind::break_graph(ReasonId::UnsupportedOperation, text)
        };
        let dict = cpython::proxied_dict(&object).ok_or_else(refuse)?;
        if !of_class {
            // Every class dict has `__doc__`. Writes of class attributes do not go through the dict.
            if dict.contains("__doc__")? {
                return Err(refuse());
            }
            let tracker = cx.trace.trackers.add(Tracker::Part { of, part: Part::Proxied });
            let mapping = cx.trace.wrap(dict.as_any(), tracker);
            return Ok(Rc::new(MappingProxyVariable { mapping, object: Some(object.unbind()) }));
        }
        if cx.trace.effects.has_written_class() {
            let text = "the __dict__ of a class, in a function that has written attributes of classes";
            return Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, text));
        }
        cx.trace.effects.note_class_dict_read();
        let payload = DictVariable::behind(cx, &dict, &object, of)?;
        let mapping = cx.trace.vars.add(Rc::new(payload), of);
        Ok(Rc::new(MappingProxyVariable { mapping, object: Some(object.unbind()) }))
    }
}

impl Variable for MappingProxyVariable {
    fn kind(&self) -> &'static str {
        "mapping_proxy"
    }

    fn form(&self) -> Form {
        Form::MappingProxy
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        let ty = library(trace.py, "types", "MappingProxyType").map(|ty| ty.into_bound(trace.py));
        or_object_type(trace, ty)
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("MappingProxyVariable({})", trace.text(self.mapping))
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        self.object.as_ref()
    }

    fn materialize(&self, trace: &Trace<'_>) -> Option<Py<PyAny>> {
        let mapping = trace.vars.get(self.mapping).materialize(trace)?;
        self.python_type(trace).call1((mapping,)).ok().map(Bound::unbind)
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.mapping]
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        emit_call(cg, |py| library(py, "types", "MappingProxyType"), [self.mapping])
    }

    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, key: VarId) -> Flow<VarId> {
        cx.get_item(self.mapping, key)
    }

    fn iter(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<VarId> {
        cx.iter(self.mapping)
    }

    fn items(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<Option<Vec<VarId>>> {
        cx.see(self.mapping)?.items(cx, self.mapping)
    }

    fn len(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<VarId> {
        cx.len(self.mapping)
    }

    fn truth(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<bool> {
        cx.truth(self.mapping)
    }

    fn contains(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, item: VarId) -> Flow<VarId> {
        cx.contains(self.mapping, item, false)
    }

    fn binary(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        op: BinaryOp,
        _: VarId,
        other: VarId,
        reflected: bool,
    ) -> Flow<Option<VarId>> {
        if op != BinaryOp::Or || !self.python_type(&cx.trace).hasattr("__or__")? {
            return Ok(None);
        }
        let other = cx.see_as::<MappingProxyVariable>(other)?.map_or(other, |proxy| proxy.mapping);
        let (left, right) = if reflected { (other, self.mapping) } else { (self.mapping, other) };
        cx.binary(op, left, right).map(Some)
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, _: VarId, other: VarId) -> Flow<Option<VarId>> {
        let other = cx.see_as::<MappingProxyVariable>(other)?.map_or(other, |proxy| proxy.mapping);
        cx.compare(op, self.mapping, other).map(Some)
    }
}
