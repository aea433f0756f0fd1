//! `x.__dict__`: the attributes of an object as a dict. Attributes are stored in a single place: the object's
//! original entries plus the side effects. The entries of the dict are computed from these when needed, and a write
//! to the dict is recorded as a write of attributes.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use sot_core::cpython::{self, DescriptorKind};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, BinaryOp, CompareOp, Name, OpcodeExecutor, Trace};
use sot_core::side_effects::{key_of_entry, non_attribute_entry};
use sot_core::tracker::Tracker;
use sot_core::variable::Rebuild;
use sot_core::variable::{Form, VarId, Variable};

use crate::containers::dict::{self, DictVariable, Entry};
use crate::containers::hash_key::HashKey;
use crate::containers::key_index::KeyIndex;
use crate::iterators::dict_view::{DictIterator, View};

sot_core::variable_kind! { "instance_dict" }

/// The attributes of an object as a dict.
pub struct InstanceDictVariable {
    object: VarId,
    /// The dict as it was before the trace, for an object from outside.
    before: Option<VarId>,
}

/// Returns `object.__dict__`.
pub fn of(cx: &mut OpcodeExecutor<'_>, object: VarId) -> Flow<VarId> {
    let tracker = cx.trace.vars.tracker(object);
    let real = cx.see(object)?.object().map(|object| object.bind(cx.py).clone());
    let real =
        real.filter(|_| cx.trace.trackers.is_loadable(tracker)).and_then(|object| cpython::instance_dict(&object));
    let Some(dict) = real.map(Bound::into_any) else {
        return Ok(cx.trace.produce(Rc::new(InstanceDictVariable { object, before: None })));
    };
    let found = object_model::found_below(cx, object)?;
    let tracker = cx.trace.trackers.add(Tracker::Getattr { of: found, name: "__dict__".into() });
    if let Some(met) = cx.trace.identities.of(&dict) {
        if cx.trace.vars.as_kind::<InstanceDictVariable>(met).is_some() {
            return Ok(met);
        }
        if cx.trace.vars.tracker(met) != tracker {
            let text = "the __dict__ of an object that is reached as a dict, too";
            return Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, text));
        }
    }
    if let Ok(dict) = dict.cast::<PyDict>() {
        cx.trace.effects.note_owner_of_dict(dict, object);
    }
    let before = Some(cx.trace.wrap(&dict, tracker));
    let this = cx.trace.produce(Rc::new(InstanceDictVariable { object, before }));
    cx.trace.identities.insert(&dict, this);
    Ok(this)
}

impl InstanceDictVariable {
    /// True if the trace has written attributes of the object.
    pub(crate) fn is_written(&self, trace: &Trace<'_>) -> bool {
        trace.effects.is_written(self.object)
    }

    /// Returns the value of a key, or `None`. Of the dict as it was before the trace, only this key is guarded.
    pub(crate) fn value_of(&self, cx: &mut OpcodeExecutor<'_>, key: &HashKey) -> Flow<Option<VarId>> {
        let Some(name) = name_of(cx, key) else { return self.contents(cx)?.get(cx, key) };
        let name = self.attribute_name(cx, &name)?;
        if let Some(written) = cx.trace.effects.attribute(self.object, &name) {
            return Ok(written);
        }
        match self.before {
            Some(before) => dict::value_of(cx, before, key),
            None => Ok(None),
        }
    }

    /// Returns a dict with the current attributes.
    pub(crate) fn contents(&self, cx: &mut OpcodeExecutor<'_>) -> Flow<DictVariable> {
        Ok(DictVariable::new(self.entries(cx)?, false))
    }

    fn entries(&self, cx: &mut OpcodeExecutor<'_>) -> Flow<Vec<Entry>> {
        let py = cx.py;
        let mut entries = Vec::new();
        if let Some(before) = self.before {
            entries.clone_from(&dict::expect(cx, before)?.entries);
        }
        let mut kept = Vec::with_capacity(entries.len());
        for entry in entries {
            let Ok(name) = entry.key.bind(py).extract::<String>() else {
                // The key is not a string, so the entry is not an attribute.
                kept.push(entry);
                continue;
            };
            let beside = non_attribute_entry(&name);
            if !cx.trace.effects.was_deleted(self.object, &name) && !cx.trace.effects.was_deleted(self.object, &beside)
            {
                kept.push(entry);
            }
        }
        for (name, value) in cx.trace.effects.attributes_of(self.object) {
            // Attributes that a slot or C code keeps are not in the dict.
            let beside = key_of_entry(&name);
            if beside.is_none() && self.is_kept_in_c(cx, &name)? {
                continue;
            }
            let key = cx.trace.string(beside.unwrap_or(&name));
            let key = HashKey::of(cx, key)?;
            dict::put(cx, &mut kept, key, value)?;
        }
        Ok(kept)
    }

    /// Replaces all attributes of the object by these.
    pub(crate) fn write(&self, cx: &mut OpcodeExecutor<'_>, after: &[Entry]) -> Flow<()> {
        let before = self.entries(cx)?;
        let now = KeyIndex::of(&cx.trace, after.iter().map(|entry| &entry.key));
        for entry in &before {
            if now.find(cx, &entry.key, |at| &after[at].key)?.is_none() {
                let name = self.written_name(cx, &entry.key)?;
                object_model::record_attribute(cx, self.object, &name, None)?;
            }
        }
        let earlier = KeyIndex::of(&cx.trace, before.iter().map(|entry| &entry.key));
        for entry in after {
            let old = earlier.find(cx, &entry.key, |at| &before[at].key)?.map(|at| before[at].value);
            if old != Some(entry.value) {
                let name = self.written_name(cx, &entry.key)?;
                object_model::record_attribute(cx, self.object, &name, Some(entry.value))?;
            }
        }
        Ok(())
    }

    /// Returns the name of the attribute that a write to this key sets.
    fn written_name(&self, cx: &mut OpcodeExecutor<'_>, key: &HashKey) -> Flow<Name> {
        let Some(name) = name_of(cx, key) else {
            let text = "a key that is no string in the __dict__ of an object";
            return Err(Unwind::break_graph(ReasonId::UnsupportedMutation, text));
        };
        self.attribute_name(cx, &name)
    }

    /// Returns the name by which the entry of an attribute's name is recorded.
    fn attribute_name(&self, cx: &mut OpcodeExecutor<'_>, name: &Name) -> Flow<Name> {
        Ok(if self.is_kept_in_c(cx, name)? { non_attribute_entry(name) } else { Rc::clone(name) })
    }

    /// True if a slot or C code of the object's class keeps the attribute; then a dict entry of that name is not the
    /// attribute.
    fn is_kept_in_c(&self, cx: &mut OpcodeExecutor<'_>, name: &Name) -> Flow<bool> {
        let found = object_model::lookup(cx, self.object, name)?;
        Ok(found.is_some_and(|(found, _)| DescriptorKind::of(&found).is_c_attribute()))
    }
}

/// Returns the key if it is a string, which names an attribute.
fn name_of(cx: &OpcodeExecutor<'_>, key: &HashKey) -> Option<Name> {
    key.bind(cx.py).extract::<String>().ok().map(Rc::from)
}

impl Variable for InstanceDictVariable {
    fn kind(&self) -> &'static str {
        "instance_dict"
    }

    fn form(&self) -> Form {
        Form::InstanceDict
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        trace.py.get_type::<PyDict>().into_any()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("InstanceDictVariable({})", trace.text(self.object))
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.object]
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        cg.load_instance_dict(self.object)
    }

    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<VarId> {
        let known = HashKey::of(cx, key)?;
        match self.value_of(cx, &known)? {
            Some(value) => Ok(value),
            None => self.contents(cx)?.get_item(cx, this, key),
        }
    }

    fn set_item(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, key: VarId, value: VarId) -> Flow<()> {
        let key = HashKey::of(cx, key)?;
        let name = self.written_name(cx, &key)?;
        object_model::record_attribute(cx, self.object, &name, Some(value))
    }

    fn del_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<()> {
        self.contents(cx)?.del_item(cx, this, key)
    }

    fn iter(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        DictIterator::over(cx, this, View::Keys, false)
    }

    fn len(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        self.contents(cx)?.len(cx, this)
    }

    fn truth(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<bool> {
        self.contents(cx)?.truth(cx, this)
    }

    fn contains(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, item: VarId) -> Flow<VarId> {
        let key = HashKey::of(cx, item)?;
        let is_there = self.value_of(cx, &key)?.is_some();
        Ok(cx.trace.boolean(is_there))
    }

    fn binary(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        op: BinaryOp,
        this: VarId,
        other: VarId,
        reflected: bool,
    ) -> Flow<Option<VarId>> {
        self.contents(cx)?.binary(cx, op, this, other, reflected)
    }

    fn inplace(&self, cx: &mut OpcodeExecutor<'_>, op: BinaryOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        self.contents(cx)?.inplace(cx, op, this, other)
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        self.contents(cx)?.compare(cx, op, this, other)
    }
}
