//! Side effects: writes to objects that outlive the frame, and calls with outside effects such as `print`. The
//! simulation sees its own writes; the new code replays them in order after the graph has run.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::entity::{Name, VarId};
use crate::stats;
use crate::tracker::{Globals, TrackerId};

/// One write, or one call with an effect.
#[derive(Clone, Debug)]
pub enum Effect {
    /// `object.name = value`, or `del object.name`.
    Attribute {
        /// The object whose attribute is written.
        object: VarId,
        /// Its name.
        name: Name,
        /// The new value; `None` deletes it.
        value: Option<VarId>,
    },
    /// A global binding, or its deletion.
    Global {
        /// The globals dict.
        globals: TrackerId,
        /// The name bound in it.
        name: Name,
        /// The new value; `None` deletes it.
        value: Option<VarId>,
    },
    /// Changed contents of a list, dict or other container. New code restores the final contents.
    Contents {
        /// The container.
        container: VarId,
    },
    /// Changed contents of a cell.
    Cell {
        /// The cell.
        cell: VarId,
    },
    /// A call whose effect lies outside of the program (`print`). Its arguments are known or computed.
    Call {
        /// The callable.
        callable: VarId,
        /// Its positional arguments.
        args: Vec<VarId>,
        /// Its keyword arguments in the order given.
        keywords: Vec<(Name, VarId)>,
    },
}

/// Prefix of the name under which an entry of an object's `__dict__` is logged if no attribute access reads that
/// entry, because a member or getset descriptor of the class (C code) has that name.
const ENTRY: &str = "\0__dict__\0";

/// Returns the name under which a `__dict__` entry that is no attribute is logged.
pub fn non_attribute_entry(key: &str) -> Name {
    Rc::from(format!("{ENTRY}{key}"))
}

/// Returns the key of the `__dict__` entry, if the name is one of [`non_attribute_entry`].
pub fn key_of_entry(name: &str) -> Option<&str> {
    name.strip_prefix(ENTRY)
}

/// Names of the attributes that the trace wrote to one object.
#[derive(Default)]
struct WrittenAttributes {
    /// Those that exist now, in the order of the first write since the attribute was last deleted.
    present: Vec<Name>,
    /// Those that were deleted at some time.
    deleted: FxHashSet<Name>,
}

/// The writes of one translation.
#[derive(Default)]
pub struct SideEffects {
    log: Vec<Effect>,
    attributes: FxHashMap<(VarId, Name), Option<VarId>>,
    written: FxHashMap<VarId, WrittenAttributes>,
    /// The classes that were written to, also by writes that were forgotten since.
    classes: Vec<VarId>,
    /// True if the `__dict__` of a class was read: the trace has its items as they were then.
    has_read_class_dict: bool,
    globals: FxHashMap<(usize, Name), Option<VarId>>,
    addresses: Vec<(usize, Name)>,
    globals_dicts: FxHashMap<TrackerId, Py<PyDict>>,
    /// The objects to whose attributes the trace wrote, also by writes that were forgotten since, by the addresses of
    /// their dicts. The objects keep the dicts alive.
    dicts: FxHashMap<usize, VarId>,
}

impl SideEffects {
    /// The effects in program order.
    pub fn log(&self) -> &[Effect] {
        &self.log
    }

    /// The objects written to, once for each write.
    pub fn written(&self) -> impl Iterator<Item = VarId> + '_ {
        self.log.iter().filter_map(|effect| match effect {
            Effect::Attribute { object: written, .. }
            | Effect::Contents { container: written }
            | Effect::Cell { cell: written } => Some(*written),
            Effect::Global { .. } | Effect::Call { .. } => None,
        })
    }

    /// Notes that `dict` is the `__dict__` of an object from outside to which the trace writes.
    pub fn note_owner_of_dict(&mut self, dict: &Bound<'_, PyDict>, object: VarId) {
        self.dicts.insert(dict.as_ptr() as usize, object);
    }

    /// Forgets the objects from a variable on, as owners of dicts.
    pub(crate) fn forget_owners_from(&mut self, first_gone: VarId) {
        self.dicts.retain(|_, object| *object < first_gone);
    }

    /// The object that a dict was noted for.
    pub fn owner_of_dict(&self, dict: &Bound<'_, PyDict>) -> Option<VarId> {
        self.dicts.get(&(dict.as_ptr() as usize)).copied()
    }

    /// The value that the trace wrote to an attribute: `Some(None)` if it deleted the attribute, `None` if it did not
    /// touch it.
    #[allow(clippy::option_option, reason = "written, deleted and untouched are three answers")]
    pub fn attribute(&self, object: VarId, name: &Name) -> Option<Option<VarId>> {
        if self.attributes.is_empty() {
            return None;
        }
        self.attributes.get(&(object, Rc::clone(name))).copied()
    }

    /// True if the trace wrote to any attribute of the object.
    pub fn is_written(&self, object: VarId) -> bool {
        self.written.contains_key(&object)
    }

    /// The attributes written to an object with their final values, in the order of the first write.
    pub fn attributes_of(&self, object: VarId) -> Vec<(Name, VarId)> {
        let Some(written) = self.written.get(&object) else { return Vec::new() };
        stats::work(written.present.len());
        let value = |name: &Name| Some((Rc::clone(name), self.attribute(object, name)??));
        written.present.iter().filter_map(value).collect()
    }

    /// True if an attribute was deleted at some time. If it exists now, it was written again, behind all other
    /// attributes.
    pub fn was_deleted(&self, object: VarId, name: &str) -> bool {
        self.written.get(&object).is_some_and(|written| written.deleted.contains(name))
    }

    /// Records an attribute write or deletion.
    pub fn set_attribute(&mut self, object: VarId, name: &Name, value: Option<VarId>) {
        self.apply_attribute(object, name, value);
        self.log.push(Effect::Attribute { object, name: Rc::clone(name), value });
    }

    /// Records a write to an attribute of a class from outside the trace.
    pub fn set_class_attribute(&mut self, class: VarId, name: &Name, value: VarId) {
        if !self.classes.contains(&class) {
            self.classes.push(class);
        }
        self.set_attribute(class, name, Some(value));
    }

    /// Notes that the `__dict__` of a class was read.
    pub fn note_class_dict_read(&mut self) {
        self.has_read_class_dict = true;
    }

    /// True if the `__dict__` of a class was read.
    pub fn has_read_class_dict(&self) -> bool {
        self.has_read_class_dict
    }

    /// True if an attribute of a class was written.
    pub fn has_written_class(&self) -> bool {
        !self.classes.is_empty()
    }

    /// The classes from outside the trace whose attribute of this name was written.
    pub fn classes_with_written(&self, name: &Name) -> impl Iterator<Item = VarId> + '_ {
        let name = Rc::clone(name);
        self.classes.iter().copied().filter(move |class| self.attribute(*class, &name).is_some())
    }

    fn apply_attribute(&mut self, object: VarId, name: &Name, value: Option<VarId>) {
        let before = self.attributes.insert((object, Rc::clone(name)), value);
        let (was_present, written) = (before.flatten().is_some(), self.written.entry(object).or_default());
        match value {
            Some(_) if was_present => {}
            Some(_) => written.present.push(Rc::clone(name)),
            None => {
                if was_present {
                    written.present.retain(|present| present != name);
                }
                written.deleted.insert(Rc::clone(name));
            }
        }
    }

    /// The value that the trace bound a global to: `Some(None)` if it deleted the global, `None` if it did not touch
    /// it.
    pub fn global(&self, dict: &Py<PyDict>, name: &Name) -> Option<Option<VarId>> {
        if self.globals.is_empty() {
            return None;
        }
        self.globals.get(&(dict.as_ptr() as usize, Rc::clone(name))).copied()
    }

    /// True if the trace bound any global in the dict.
    pub fn binds_globals(&self, dict: &Py<PyDict>) -> bool {
        self.globals.keys().any(|(bound, _)| *bound == dict.as_ptr() as usize)
    }

    /// The globals dict of a tracker that the trace has written through.
    pub fn globals_dict(&self, globals: TrackerId) -> Option<&Py<PyDict>> {
        self.globals_dicts.get(&globals)
    }

    /// Records that a global is bound, or deleted if `value` is `None`.
    pub fn set_global(&mut self, py: Python<'_>, globals: &Globals, name: &Name, value: Option<VarId>) {
        self.globals_dicts.entry(globals.tracker).or_insert_with(|| globals.dict.clone_ref(py));
        let key = (globals.dict.as_ptr() as usize, Rc::clone(name));
        self.addresses.push(key.clone());
        self.globals.insert(key, value);
        self.log.push(Effect::Global { globals: globals.tracker, name: Rc::clone(name), value });
    }

    /// Records a change of a container or cell, or a call.
    pub fn record(&mut self, effect: Effect) {
        self.log.push(effect);
    }

    /// Number of effects, which [`SideEffects::truncate`] takes as a checkpoint.
    pub fn len(&self) -> usize {
        self.log.len()
    }

    /// True if there is no effect.
    pub fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// Forgets the effects after a checkpoint.
    pub fn truncate(&mut self, len: usize) {
        if len >= self.log.len() {
            return;
        }
        let mut globals = self.addresses.clone();
        self.log.truncate(len);
        self.attributes.clear();
        self.written.clear();
        self.globals.clear();
        self.addresses.clear();
        globals.reverse();
        for effect in self.log.clone() {
            match effect {
                Effect::Attribute { object, name, value } => self.apply_attribute(object, &name, value),
                Effect::Global { value, .. } => {
                    if let Some(key) = globals.pop() {
                        self.addresses.push(key.clone());
                        self.globals.insert(key, value);
                    }
                }
                _ => {}
            }
        }
    }
}
