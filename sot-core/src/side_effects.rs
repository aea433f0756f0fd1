//! Side effects: writes to objects that outlive the frame, and calls with outside effects such as `print`. The
//! simulation sees its own writes; the new code replays them in order after the graph has run.

use std::collections::HashMap;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustc_hash::FxHashMap;

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
pub fn entry_beside(key: &str) -> Name {
    Rc::from(format!("{ENTRY}{key}"))
}

/// Returns the key of the `__dict__` entry, if the name is one of [`entry_beside`].
pub fn key_of_entry(name: &str) -> Option<&str> {
    name.strip_prefix(ENTRY)
}

/// The writes of one translation.
#[derive(Default)]
pub struct SideEffects {
    log: Vec<Effect>,
    attributes: FxHashMap<(VarId, Name), Option<VarId>>,
    /// Positions in the log of the attribute writes of each object.
    writes_of: FxHashMap<VarId, Vec<usize>>,
    globals: FxHashMap<(usize, Name), Option<VarId>>,
    addresses: Vec<(usize, Name)>,
    globals_dicts: FxHashMap<TrackerId, Py<PyDict>>,
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

    /// The value that the trace wrote to an attribute: `Some(None)` if it deleted the attribute, `None` if it did not
    /// touch it.
    #[allow(clippy::option_option, reason = "written, deleted and untouched are three answers")]
    pub fn attribute(&self, object: VarId, name: &Name) -> Option<Option<VarId>> {
        self.attributes.get(&(object, Rc::clone(name))).copied()
    }

    /// True if the trace wrote to any attribute of the object.
    pub fn is_written(&self, object: VarId) -> bool {
        self.writes_of.contains_key(&object)
    }

    /// The attributes written to an object with their final values, in the order of the first write.
    pub fn attributes_of(&self, object: VarId) -> Vec<(Name, VarId)> {
        let mut found: Vec<Option<(Name, VarId)>> = Vec::new();
        let mut places: HashMap<&Name, usize> = HashMap::new();
        for (name, value) in self.attribute_writes(object) {
            if let Some(value) = value {
                let at = *places.entry(name).or_insert(found.len());
                if at == found.len() {
                    found.push(None);
                }
                found[at] = Some((Rc::clone(name), value));
            } else if let Some(at) = places.remove(name) {
                found[at] = None;
            }
        }
        found.into_iter().flatten().collect()
    }

    /// True if an attribute was deleted at some time. If it exists now, it was written again, behind all other
    /// attributes.
    pub fn was_deleted(&self, object: VarId, name: &str) -> bool {
        self.attribute_writes(object).any(|(written, value)| &**written == name && value.is_none())
    }

    fn attribute_writes(&self, object: VarId) -> impl Iterator<Item = (&Name, Option<VarId>)> {
        let places = self.writes_of.get(&object).map_or(&[][..], Vec::as_slice);
        stats::work(places.len());
        places.iter().filter_map(|&at| match &self.log[at] {
            Effect::Attribute { name, value, .. } => Some((name, *value)),
            _ => None,
        })
    }

    /// Records an attribute write or deletion.
    pub fn set_attribute(&mut self, object: VarId, name: &Name, value: Option<VarId>) {
        self.attributes.insert((object, Rc::clone(name)), value);
        self.writes_of.entry(object).or_default().push(self.log.len());
        self.log.push(Effect::Attribute { object, name: Rc::clone(name), value });
    }

    /// The value that the trace bound a global to: `Some(None)` if it deleted the global, `None` if it did not touch
    /// it.
    pub fn global(&self, dict: &Py<PyDict>, name: &Name) -> Option<Option<VarId>> {
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
        let mut globals = self.addresses.clone();
        self.log.truncate(len);
        self.attributes.clear();
        self.writes_of.clear();
        self.globals.clear();
        self.addresses.clear();
        globals.reverse();
        for (at, effect) in self.log.clone().into_iter().enumerate() {
            match effect {
                Effect::Attribute { object, name, value } => {
                    self.writes_of.entry(object).or_default().push(at);
                    self.attributes.insert((object, name), value);
                }
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
