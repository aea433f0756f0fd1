//! Emits the changes that give a dict which outlives the frame its final entries.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString};
use rustc_hash::FxHashSet;

use sot_core::bytecode::Op;
use sot_core::error::Flow;
use sot_core::executor::Trace;
use sot_core::guard::has_key;
use sot_core::tracker::{Key, Tracker};
use sot_core::variable::{Argument, Rebuild};
use sot_core::variable::{VarId, Variable};

use super::{ordered_type, DictVariable, Entry};
use crate::containers::hash_key::{self, HashKey};

/// Maximum number of entries that are removed one by one instead of by `clear`.
const MAX_REMOVED_SINGLY: usize = 16;

/// A dict from outside, or the proxy of one.
pub(super) struct DictFromOutside {
    pub(super) object: Py<PyAny>,
    /// The keys when the trace first looked at the dict.
    pub(super) keys: Vec<Rc<HashKey>>,
}

impl DictFromOutside {
    pub(super) fn new(object: Py<PyAny>, entries: &[Entry]) -> Option<Rc<Self>> {
        Some(Rc::new(DictFromOutside { object, keys: entries.iter().map(|entry| Rc::clone(&entry.key)).collect() }))
    }

    /// True if the real dict is known to have the key.
    pub(super) fn has(&self, py: Python<'_>, key: &HashKey) -> bool {
        key.real_hash().is_some() && has_key(self.object.bind(py), key.bind(py)).unwrap_or(false)
    }
}

/// True if new code removes such a key by itself. Other keys would be compared by code of the program, and a dict that
/// loses one of them is refilled.
pub(super) fn is_removed_alone(key: &Bound<'_, PyAny>) -> bool {
    key.is_exact_instance_of::<PyString>() || key.is_exact_instance_of::<PyInt>()
}

impl DictVariable {
    /// Emits instructions that give the real dict these entries.
    pub(super) fn restore(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        hash_key::refuse_asking_again(cg.trace(), self.entries.iter().map(|entry| &entry.key))?;
        // The C methods of the base are called: overrides in a subclass have been inlined by the trace already.
        let ty = self.python_type(cg.trace());
        let is_subclass = self.object().is_some_and(|object| !object.bind(cg.py()).get_type().is(&ty));
        let mut kept = 0;
        if let Some((gone, in_front)) = self.edits(cg.py()) {
            for key in gone {
                call_method(cg, &ty, "__delitem__", [this.into(), Argument::Constant(key)])?;
            }
            kept = in_front;
        } else {
            self.empty(cg, this, &ty, is_subclass)?;
        }
        for entry in self.entries_to_set(cg.trace(), this, kept) {
            if is_subclass {
                call_method(cg, &ty, "__setitem__", [this, entry.key.variable, entry.value])?;
            } else {
                cg.load(entry.value)?;
                cg.load(this)?;
                cg.load(entry.key.variable)?;
                cg.op(Op::STORE_SUBSCR, 0)?;
            }
        }
        Ok(())
    }

    /// The variables that [`restore`](Self::restore) loads.
    pub(super) fn restored(&self, trace: &Trace<'_>, this: VarId) -> Vec<VarId> {
        let kept = self.edits(trace.py).map_or(0, |(_, kept)| kept);
        self.entries_to_set(trace, this, kept).iter().flat_map(|entry| [entry.key.variable, entry.value]).collect()
    }

    /// The entries that the real dict does not have yet, where its first `kept` entries stay.
    fn entries_to_set(&self, trace: &Trace<'_>, this: VarId, kept: usize) -> Vec<&Entry> {
        let (in_front, behind) = self.entries.split_at(kept);
        in_front.iter().filter(|entry| !Self::is_original(trace, this, entry)).chain(behind).collect()
    }

    /// Emits the removal of all entries of the real dict.
    fn empty(&self, cg: &mut dyn Rebuild<'_>, this: VarId, ty: &Bound<'_, PyAny>, is_subclass: bool) -> Flow<()> {
        // If a key's method clears the dict during an insertion, CPython loses the inserted entry. It does not if the
        // entries are removed one by one.
        let held = self.object().map_or(Ok(usize::MAX), |object| object.bind(cg.py()).len())?;
        if held > MAX_REMOVED_SINGLY || (self.ordered && is_subclass) {
            return call_method(cg, ty, "clear", [this]);
        }
        (0..held).try_for_each(|_| call_method(cg, ty, "popitem", [this]))
    }

    /// Returns the smallest edit of the real dict: the keys to delete, and the number of entries that stay in front
    /// of those to be set. Iterators over the dict can tell such an edit from clearing and refilling. Returns `None`
    /// if the dict must be refilled.
    fn edits(&self, py: Python<'_>) -> Option<(Vec<Py<PyAny>>, usize)> {
        let outside = self.outside.as_ref()?;
        let object = outside.object.bind(py).clone();
        let had: FxHashSet<_> = outside.keys.iter().map(|key| key.bind(py).as_ptr()).collect();
        let ty = if self.ordered { ordered_type(py).ok()? } else { py.get_type::<PyDict>().into_any() };
        let (mut gone, mut kept) = (Vec::new(), 0);
        for key in ty.call_method1("__iter__", (object,)).ok()?.try_iter().ok()? {
            let key = key.ok()?;
            if self.entries.get(kept).is_some_and(|entry| entry.key.bind(py).is(&key)) {
                kept += 1;
            } else if !had.contains(&key.as_ptr()) {
                // Inserted while the trace was made, but not by the trace: the entry stays.
            } else if is_removed_alone(&key) {
                gone.push(key.unbind());
            } else {
                return None;
            }
        }
        Some((gone, kept))
    }

    /// True if the value is still the one that the real dict holds.
    fn is_original(trace: &Trace<'_>, this: VarId, entry: &Entry) -> bool {
        let of = trace.vars.tracker(this);
        let key = Key::of(entry.key.bind(trace.py));
        *trace.trackers.get(trace.vars.tracker(entry.value)) == Tracker::Item { of, key }
    }
}

/// Emits a call of a method of the class, and drops the result.
fn call_method<A: Into<Argument>>(
    cg: &mut dyn Rebuild<'_>,
    ty: &Bound<'_, PyAny>,
    name: &str,
    args: impl IntoIterator<Item = A>,
) -> Flow<()> {
    let method = ty.getattr(name)?.unbind();
    cg.call(|cg| cg.load_const(method), args)?;
    cg.op(Op::POP_TOP, 0)
}
