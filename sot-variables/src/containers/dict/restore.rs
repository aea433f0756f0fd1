//! How a dict that outlives the frame gets its final entries.

use std::collections::HashSet;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString};

use sot_core::bytecode::Op;
use sot_core::error::Flow;
use sot_core::tracker::{Key, Tracker};
use sot_core::variable::{Argument, Rebuild};
use sot_core::variable::{VarId, Variable};

use super::{ordered_type, DictVariable, Entry};
use crate::containers::hash_key::{self, HashKey};

/// So many entries are taken out of a dict one by one.
const FEW: usize = 16;

/// A dict that was there before, or the proxy of one.
pub(super) struct DictFromOutside {
    pub(super) object: Py<PyAny>,
    /// The keys it had when the trace first saw it.
    keys: Vec<Rc<HashKey>>,
}

impl DictFromOutside {
    pub(super) fn new(object: Py<PyAny>, entries: &[Entry]) -> Option<Rc<Self>> {
        Some(Rc::new(DictFromOutside { object, keys: entries.iter().map(|entry| Rc::clone(&entry.key)).collect() }))
    }
}

impl DictVariable {
    /// The instructions that give the real dict these entries.
    pub(super) fn restore(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        hash_key::refuse_asking_again(cg.cx(), self.entries.iter().map(|entry| &entry.key))?;
        // The C methods: a subclass may have its own, which the trace has followed already.
        let ty = self.python_type(cg.cx());
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
        for (position, entry) in self.entries.iter().enumerate() {
            if position < kept && Self::is_original(cg, this, entry) {
                continue;
            }
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

    /// Takes all entries out of the real dict.
    fn empty(&self, cg: &mut dyn Rebuild<'_>, this: VarId, ty: &Bound<'_, PyAny>, is_subclass: bool) -> Flow<()> {
        // CPython loses the entry it is setting if a key's method clears the dict, not if it takes the entries out.
        let held = self.object().map_or(Ok(usize::MAX), |object| object.bind(cg.py()).len())?;
        if held > FEW || (self.ordered && is_subclass) {
            return call_method(cg, ty, "clear", [this]);
        }
        (0..held).try_for_each(|_| call_method(cg, ty, "popitem", [this]))
    }

    /// How the real dict becomes this one the way the program did it, which iterators over it can tell from a fresh
    /// start: the keys that go, and how many entries stay in front of those to be set. `None` if it must be filled
    /// anew.
    fn edits(&self, py: Python<'_>) -> Option<(Vec<Py<PyAny>>, usize)> {
        let outside = self.outside.as_ref()?;
        let object = outside.object.bind(py).clone();
        let had: HashSet<_> = outside.keys.iter().map(|key| key.bind(py).as_ptr()).collect();
        let ty = if self.ordered { ordered_type(py).ok()? } else { py.get_type::<PyDict>().into_any() };
        let (mut gone, mut kept) = (Vec::new(), 0);
        for key in ty.call_method1("__iter__", (object,)).ok()?.try_iter().ok()? {
            let key = key.ok()?;
            if self.entries.get(kept).is_some_and(|entry| entry.key.bind(py).is(&key)) {
                kept += 1;
            } else if !had.contains(&key.as_ptr()) {
                // Not the program's doing: it came while the trace was made, and stays.
            } else if key.is_exact_instance_of::<PyString>() || key.is_exact_instance_of::<PyInt>() {
                gone.push(key.unbind());
            } else {
                return None;
            }
        }
        Some((gone, kept))
    }

    /// Whether the value is still the one the real dict holds.
    fn is_original(cg: &dyn Rebuild<'_>, this: VarId, entry: &Entry) -> bool {
        let of = cg.cx().vars.tracker(this);
        let key = Key::of(entry.key.bind(cg.py()));
        *cg.cx().trackers.get(cg.cx().vars.tracker(entry.value)) == Tracker::Item { of, key }
    }
}

/// Calls a method of the class for what it does.
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
