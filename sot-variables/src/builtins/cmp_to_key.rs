//! `functools.cmp_to_key`: keys that are compared by a function.

use std::rc::Rc;

use pyo3::prelude::*;

use sot_core::builtin;
use sot_core::error::Flow;
use sot_core::executor::{object_model, CallArgs, CompareOp, Name, OpcodeExecutor, Trace};
use sot_core::variable::Rebuild;
use sot_core::variable::{VarId, Variable};

use super::{cannot, required};
use crate::iterators::{emit_call, library};

sot_core::variable_kind! { "compared_key" }

builtin! { CMP_TO_KEY = "functools:cmp_to_key" => |cx, args| {
    let [function] = args.named("cmp_to_key", ["mycmp"], 1)?;
    Ok(cx.trace.produce(Rc::new(ComparedKey { function: required(function)?, object: None })))
} }

/// The result of `cmp_to_key`; with an object, a key made by calling that result.
struct ComparedKey {
    function: VarId,
    object: Option<VarId>,
}

impl ComparedKey {
    /// Emits `cmp_to_key(function)`.
    fn make(&self, cg: &mut dyn Rebuild<'_>) -> Flow<()> {
        emit_call(cg, |py| library(py, "functools", "cmp_to_key"), [self.function])
    }
}

impl Variable for ComparedKey {
    fn kind(&self) -> &'static str {
        "compared_key"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        let make =
            library(trace.py, "functools", "cmp_to_key").and_then(|make| make.call1(trace.py, (trace.py.None(),)));
        let object = trace.py.get_type::<PyAny>().into_any();
        let Ok(key) = make.map(|key| key.into_bound(trace.py)) else { return object };
        // Before 3.10, the type is initialised by the first attribute access.
        let _ = key.getattr("obj");
        key.get_type().into_any()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("ComparedKey({})", trace.text(self.function))
    }

    fn children(&self) -> Vec<VarId> {
        std::iter::once(self.function).chain(self.object).collect()
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        match (&**name, self.object) {
            ("obj", Some(object)) => Ok(Some(object)),
            _ => object_model::get_attr(cx, this, name),
        }
    }

    fn call(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, args: &CallArgs) -> Flow<VarId> {
        let [object] = args.named("K", ["obj"], 1)?;
        Ok(cx.trace.produce(Rc::new(ComparedKey { function: self.function, object })))
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, _: VarId, other: VarId) -> Flow<Option<VarId>> {
        let other = cx.see_as::<ComparedKey>(other)?;
        let (Some(left), Some(right)) = (self.object, other.and_then(|other| other.object)) else {
            return Err(cannot("a key of cmp_to_key() compared with something else"));
        };
        let order = cx.call(self.function, &CallArgs::positional(vec![left, right]))?;
        let zero = cx.trace.integer(0)?;
        cx.compare(op, order, zero).map(Some)
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        match self.object {
            Some(object) => cg.call(|cg| self.make(cg), [object]),
            None => self.make(cg),
        }
    }
}
