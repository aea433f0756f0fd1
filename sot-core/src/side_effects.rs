//! SideEffects: writes to objects that outlive the frame. The simulation sees its own writes; the new code replays them
//! after the graph has run, in order.

use std::collections::HashMap;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustc_hash::FxHashMap;

use crate::entity::{Name, VarId};
use crate::stats;
use crate::tracker::{Globals, TrackerId};

/// One write.
#[derive(Clone, Debug)]
pub enum Effect {
    /// `object.name = value`, or `del object.name`.
    Attribute {
        /// Whose attribute.
        object: VarId,
        /// Its name.
        name: Name,
        /// The new value; `None` deletes it.
        value: Option<VarId>,
    },
    /// A global binding, or its deletion.
    Global {
        /// Which globals dict.
        globals: TrackerId,
        /// The name bound in it.
        name: Name,
        /// The new value; `None` deletes it.
        value: Option<VarId>,
    },
    /// The contents of a list, dict or other container have changed; the final state is restored.
    Contents {
        /// The container.
        container: VarId,
    },
    /// A cell has new contents.
    Cell {
        /// The cell.
        cell: VarId,
    },
    /// A call whose effect lies outside (`print`), with arguments known or computed.
    Call {
        /// What is called.
        callable: VarId,
        /// Its positional arguments.
        args: Vec<VarId>,
        /// Its keyword arguments in the order given.
        keywords: Vec<(Name, VarId)>,
    },
}

/// What the name of an entry of an object's `__dict__` begins with here that no attribute of the object reads, as C
/// code keeps something else by that name.
const ENTRY: &str = "\0__dict__\0";

/// By which name an entry of an object's `__dict__` that is no attribute is among the writes.
pub fn entry_beside(key: &str) -> Name {
    Rc::from(format!("{ENTRY}{key}"))
}

/// The key of such an entry.
pub fn key_of_entry(name: &str) -> Option<&str> {
    name.strip_prefix(ENTRY)
}

/// The writes of one translation.
#[derive(Default)]
pub struct SideEffects {
    log: Vec<Effect>,
    attributes: FxHashMap<(VarId, Name), Option<VarId>>,
    /// Where in the log the attributes of an object are written.
    writes_of: FxHashMap<VarId, Vec<usize>>,
    globals: FxHashMap<(usize, Name), Option<VarId>>,
    addresses: Vec<(usize, Name)>,
    globals_dicts: FxHashMap<TrackerId, Py<PyDict>>,
}

impl SideEffects {
    /// The writes in order.
    pub fn log(&self) -> &[Effect] {
        &self.log
    }

    /// The objects written to, each as often as it was.
    pub fn written(&self) -> impl Iterator<Item = VarId> + '_ {
        self.log.iter().filter_map(|effect| match effect {
            Effect::Attribute { object: written, .. }
            | Effect::Contents { container: written }
            | Effect::Cell { cell: written } => Some(*written),
            Effect::Global { .. } | Effect::Call { .. } => None,
        })
    }

    /// What the trace wrote to an attribute: `Some(None)` if it deleted it.
    #[allow(clippy::option_option, reason = "written, deleted and untouched are three answers")]
    pub fn attribute(&self, object: VarId, name: &Name) -> Option<Option<VarId>> {
        if self.attributes.is_empty() {
            return None;
        }
        self.attributes.get(&(object, Rc::clone(name))).copied()
    }

    /// Whether the trace wrote to any attribute of the object.
    pub fn is_written(&self, object: VarId) -> bool {
        self.writes_of.contains_key(&object)
    }

    /// The attributes written to an object, in the order of the first write.
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

    /// Whether an attribute was deleted: if it is there, it was written anew, after all others.
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

    /// What the trace bound a global to: `Some(None)` is never returned for deleted names, they read as absent.
    pub fn global(&self, dict: &Py<PyDict>, name: &Name) -> Option<Option<VarId>> {
        if self.globals.is_empty() {
            return None;
        }
        self.globals.get(&(dict.as_ptr() as usize, Rc::clone(name))).copied()
    }

    /// Whether the trace bound any global of a module.
    pub fn binds_globals(&self, dict: &Py<PyDict>) -> bool {
        self.globals.keys().any(|(bound, _)| *bound == dict.as_ptr() as usize)
    }

    /// The globals dict that the trace has written to by way of a tracker.
    pub fn globals_dict(&self, globals: TrackerId) -> Option<&Py<PyDict>> {
        self.globals_dicts.get(&globals)
    }

    /// Records a global binding or deletion.
    pub fn set_global(&mut self, py: Python<'_>, globals: &Globals, name: &Name, value: Option<VarId>) {
        self.globals_dicts.entry(globals.tracker).or_insert_with(|| globals.dict.clone_ref(py));
        let key = (globals.dict.as_ptr() as usize, Rc::clone(name));
        self.addresses.push(key.clone());
        self.globals.insert(key, value);
        self.log.push(Effect::Global { globals: globals.tracker, name: Rc::clone(name), value });
    }

    /// Records that a container or cell changed.
    pub fn record(&mut self, effect: Effect) {
        self.log.push(effect);
    }

    /// Number of writes: a checkpoint for `truncate`.
    pub fn len(&self) -> usize {
        self.log.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// Forgets the writes after a checkpoint.
    pub fn truncate(&mut self, len: usize) {
        if len >= self.log.len() {
            return;
        }
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
