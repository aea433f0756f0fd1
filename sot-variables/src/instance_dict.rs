//! `x.__dict__`: the attributes of an object as a dict. There is one truth about attributes, the side effects over what the
//! object had; each operation works on a copy of it, and what it changed is written back.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use sot_core::codegen::CodeGen;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, BinaryOp, CompareOp, OpcodeExecutor};
use sot_core::tracker::Tracker;
use sot_core::variable::{VarId, Variable};

use crate::dict::{self, DictVariable, Entry};
use crate::hash_key::HashKey;

sot_core::variable_kind! { "instance_dict" }

/// The attributes of an object as a dict.
pub struct InstanceDictVariable {
    object: VarId,
}

impl InstanceDictVariable {
    /// `object.__dict__`
    pub fn new(object: VarId) -> Self {
        InstanceDictVariable { object }
    }

    /// Does something with the dict's contents, as a dict of its own.
    pub fn with<'py, R>(
        &self,
        cx: &mut OpcodeExecutor<'py>,
        work: impl FnOnce(&mut OpcodeExecutor<'py>, VarId) -> Flow<R>,
    ) -> Flow<R> {
        let before = self.entries(cx)?;
        let copy = cx.produce(Rc::new(DictVariable::new(before.clone(), false)));
        let result = work(cx, copy)?;
        let after = dict::expect(cx, copy)?;
        self.write_back(cx, &before, &after.entries)?;
        Ok(result)
    }

    fn entries(&self, cx: &mut OpcodeExecutor<'_>) -> Flow<Vec<Entry>> {
        let py = cx.py;
        let mut entries = Vec::new();
        let of = cx.vars.tracker(self.object);
        let object = cx.see(self.object)?.object().map(|object| object.bind(py).clone());
        if let Some(dict) =
            object.filter(|_| cx.trackers.is_loadable(of)).and_then(|object| cpython::instance_dict(&object))
        {
            let tracker = cx.trackers.add(Tracker::Getattr { of, name: "__dict__".into() });
            let found = cx.wrap(dict.as_any(), tracker);
            entries.clone_from(&dict::expect(cx, found)?.entries);
        }
        let mut kept = Vec::with_capacity(entries.len());
        for entry in entries {
            let Ok(name) = entry.key.bind(py).extract::<String>().map(Rc::from) else {
                // No attribute, but an entry all the same.
                kept.push(entry);
                continue;
            };
            if cx.effects.attribute(self.object, &name) != Some(None) {
                kept.push(entry);
            }
        }
        for (name, value) in cx.effects.attributes_of(self.object) {
            // What a slot or C code keeps is not in the dict.
            let found = object_model::lookup(cx, self.object, &name)?;
            if found.is_some_and(|(found, _)| is_kept_in_c(&found)) {
                continue;
            }
            let key = cx.string(&name);
            let key = HashKey::of(cx, key)?;
            dict::put(cx, &mut kept, key, value)?;
        }
        Ok(kept)
    }

    fn write_back(&self, cx: &mut OpcodeExecutor<'_>, before: &[Entry], after: &[Entry]) -> Flow<()> {
        let py = cx.py;
        for entry in before {
            if dict::find(cx, after, &entry.key)?.is_none() {
                let name = attribute_name(&entry.key, py)?;
                cx.effects.set_attribute(self.object, &name, None);
            }
        }
        for entry in after {
            let old = dict::find(cx, before, &entry.key)?.map(|at| before[at].value);
            if old != Some(entry.value) {
                let name = attribute_name(&entry.key, py)?;
                cx.effects.set_attribute(self.object, &name, Some(entry.value));
            }
        }
        Ok(())
    }
}

fn is_kept_in_c(found: &Bound<'_, PyAny>) -> bool {
    matches!(&*cpython::builtin_type_name(found), "member_descriptor" | "getset_descriptor")
}

fn attribute_name(key: &HashKey, py: Python<'_>) -> Flow<Rc<str>> {
    let name = key.bind(py).extract::<String>();
    name.map(Rc::from).map_err(|_| {
        Unwind::break_graph(ReasonId::UnsupportedMutation, "a key that is no string in the __dict__ of an object")
    })
}

impl Variable for InstanceDictVariable {
    fn kind(&self) -> &'static str {
        "instance_dict"
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        cx.py.get_type::<PyDict>().into_any()
    }

    fn text(&self, cx: &OpcodeExecutor<'_>) -> String {
        format!("InstanceDictVariable({})", cx.text(self.object))
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.object]
    }

    fn reconstruct(&self, cg: &mut CodeGen<'_, '_>, _: VarId) -> Flow<()> {
        if cg.cx.trackers.is_loadable(cg.cx.vars.tracker(self.object)) && cg.cx.effects.is_written(self.object) {
            return Err(Unwind::fallback(ReasonId::CannotRestore, "the __dict__ of an object that is written"));
        }
        cg.load(self.object)?;
        cg.load_attr("__dict__")
    }

    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, key: VarId) -> Flow<VarId> {
        self.with(cx, |cx, dict| cx.get_item(dict, key))
    }

    fn set_item(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, key: VarId, value: VarId) -> Flow<()> {
        self.with(cx, |cx, dict| cx.set_item(dict, key, value))
    }

    fn del_item(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, key: VarId) -> Flow<()> {
        self.with(cx, |cx, dict| cx.del_item(dict, key))
    }

    fn iter(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<VarId> {
        self.with(cx, OpcodeExecutor::iter)
    }

    fn len(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<VarId> {
        self.with(cx, OpcodeExecutor::len)
    }

    fn truth(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<bool> {
        self.with(cx, OpcodeExecutor::truth)
    }

    fn contains(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, item: VarId) -> Flow<VarId> {
        self.with(cx, |cx, dict| cx.contains(dict, item, false))
    }

    fn binary(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        op: BinaryOp,
        _: VarId,
        other: VarId,
        reflected: bool,
    ) -> Flow<Option<VarId>> {
        self.with(cx, |cx, dict| cx.see(dict)?.binary(cx, op, dict, other, reflected))
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, _: VarId, other: VarId) -> Flow<Option<VarId>> {
        if let Some(right) = cx.see_as::<InstanceDictVariable>(other)? {
            return self.with(cx, |cx, left| right.with(cx, |cx, right| cx.compare(op, left, right))).map(Some);
        }
        self.with(cx, |cx, dict| cx.see(dict)?.compare(cx, op, dict, other))
    }
}
