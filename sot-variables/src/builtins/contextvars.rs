//! `ContextVar.get`: the value is a constant of the trace as long as the variable has it.

use pyo3::prelude::*;

use sot_core::backend::ObjectTest;
use sot_core::builtin;
use sot_core::guard::{Identity, Test};
use sot_core::tracker::repr;

use super::cannot;

builtin! { GET = "contextvars:ContextVar.get" => |cx, args| {
    let (variable, default) = match args.positional[..] {
        [variable] => (variable, None),
        [variable, default] => (variable, Some(default)),
        _ => return Err(cannot("ContextVar.get() with these arguments")),
    };
    let object = cx.see(variable)?.object().map(|object| object.bind(cx.py).clone());
    let Some(object) = object.filter(|_| args.keywords.is_empty()) else { return Err(cannot("a new ContextVar")) };
    let missing = cx.py.get_type::<PyAny>().call0()?;
    let now = object.call_method1("get", (&missing,))?;
    let value_is_set = !now.is(&missing);
    let value = value_is_set.then(|| now.clone().unbind());
    let tracker = cx.vars.tracker(variable);
    if cx.trackers.is_sourced(tracker) {
        cx.guards.add(tracker, Test::Is(Identity::of(&object)));
    }
    // A constant has no guards of its own; this one is about the variable's value, whatever road leads to the variable.
    let value_test = ContextValue { missing: missing.unbind(), value };
    cx.guards.add(tracker, Test::Object(Box::new(value_test)));
    let known = match (value_is_set, default) {
        (true, _) => now,
        (false, Some(default)) => return Ok(default),
        (false, None) => match object.call_method0("get") {
            Ok(value) => value,
            Err(error) => return Err(cx.raise(error)),
        },
    };
    if cx.is_constant(&known) {
        Ok(cx.constant(known.unbind()))
    } else {
        Err(cannot("a ContextVar that holds an object"))
    }
} }

/// That a context variable has a value, or none.
struct ContextValue {
    missing: Py<PyAny>,
    value: Option<Py<PyAny>>,
}

impl ObjectTest for ContextValue {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        let Ok(now) = object.call_method1("get", (&self.missing,)) else { return false };
        match &self.value {
            Some(value) => now.is(value),
            None => now.is(&self.missing),
        }
    }

    fn describe(&self, subject: &str) -> String {
        Python::attach(|py| match &self.value {
            Some(value) => format!("{subject}.get() is {}", repr(py, value)),
            None => format!("{subject} has no value"),
        })
    }
}
