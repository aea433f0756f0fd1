//! `globals()`, a module's variables as a dict. Reads and writes by key go to the same bindings as those by name.
//! Only single keys are supported: iterating over the dict, its length, and `del` break the graph.

use std::rc::Rc;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CallArgs, Globals, Name, OpcodeExecutor, Trace};
use sot_core::variable::{Form, VarId, Variable};

sot_core::variable_kind! { "globals" }

/// The dict of a module's variables.
pub struct GlobalsVariable {
    globals: Globals,
    object: Py<PyAny>,
}

impl GlobalsVariable {
    /// Returns the variable for the dict of `globals`.
    pub fn new(globals: Globals) -> Self {
        let object = Python::attach(|py| globals.dict.clone_ref(py).into_any());
        GlobalsVariable { globals, object }
    }

    /// Returns the globals that the dict holds.
    pub(crate) fn globals(&self, py: Python<'_>) -> Globals {
        self.globals.share(py)
    }

    /// Returns the value of a key, or `None` if the key is missing.
    pub fn find(&self, cx: &mut OpcodeExecutor<'_>, key: VarId) -> Flow<Option<VarId>> {
        let name = name_of(cx, key)?;
        cx.trace.find_global_in(&self.globals, &name)
    }

    /// Calls a method of the dict. Methods that look at all entries break the graph.
    pub fn call_method(&self, cx: &mut OpcodeExecutor<'_>, name: &str, args: &CallArgs) -> Flow<VarId> {
        match (name, &args.positional[..]) {
            ("get", &[_, key]) => Ok(self.find(cx, key)?.unwrap_or_else(|| cx.trace.none())),
            ("get", &[_, key, default]) => Ok(self.find(cx, key)?.unwrap_or(default)),
            ("__getitem__", &[this, key]) => self.get_item(cx, this, key),
            ("__contains__", &[this, key]) => self.contains(cx, this, key),
            _ => Err(refuse()),
        }
    }
}

fn refuse() -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedOperation, "the __dict__ of a module, used as a dict")
}

fn name_of(cx: &mut OpcodeExecutor<'_>, key: VarId) -> Flow<Name> {
    cx.known_str(key)?.map(Rc::from).ok_or_else(refuse)
}

impl Variable for GlobalsVariable {
    fn kind(&self) -> &'static str {
        "globals"
    }

    fn form(&self) -> Form {
        Form::Globals
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        trace.py.get_type::<PyDict>().into_any()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("GlobalsVariable({})", trace.trackers.text(trace.py, self.globals.tracker))
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }

    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, key: VarId) -> Flow<VarId> {
        match self.find(cx, key)? {
            Some(value) => Ok(value),
            None => {
                let class = cx.py.get_type::<PyKeyError>().into_any();
                Err(Unwind::Raise(crate::classes::exception::make(cx, &class, vec![key])?))
            }
        }
    }

    fn set_item(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, key: VarId, value: VarId) -> Flow<()> {
        let name = name_of(cx, key)?;
        cx.trace.effects.set_global(cx.py, &self.globals, &name, Some(value));
        Ok(())
    }

    fn del_item(&self, _: &mut OpcodeExecutor<'_>, _: VarId, _: VarId) -> Flow<()> {
        Err(refuse())
    }

    fn contains(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, item: VarId) -> Flow<VarId> {
        let found = self.find(cx, item)?.is_some();
        Ok(cx.trace.boolean(found))
    }

    fn truth(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<bool> {
        Ok(true)
    }

    fn len(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<VarId> {
        Err(refuse())
    }

    fn iter(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<VarId> {
        Err(refuse())
    }
}
