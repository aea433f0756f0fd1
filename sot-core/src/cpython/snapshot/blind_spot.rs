//! Finds kinds of memory whose changes cannot be observed in the running interpreter.

use std::ffi::CStr;

use parking_lot::Mutex;
use pyo3::ffi::c_str;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

#[cfg(not(Py_3_11))]
use super::layout::{Keys, GENERAL_LOOKUP};
use super::{Place, Reading, Recorder};
use crate::cpython::objects::part::Part;

/// Code that changes each kind of memory guards depend on, for the self test.
const CHANGES: &CStr = c_str!(
    r"
from collections import OrderedDict
class Base:
    factor = 1
class Class(Base):
    pass
class Other(Base):
    pass
holder = Class()
holder.item = 1
table, ordered, items, numbers = {'a': 1}, OrderedDict(a=1, b=2), [1, 2], {1}
general = {1: 1}
def function(x=1): pass
def make():
    free = 1
    def get(): return free
    def write():
        nonlocal free
        free = 2
    return get.__closure__[0], write
cell, write_cell = make()
def write_attribute(): holder.item = 2
def delete_attribute(): del holder.item
def change_class(): holder.__class__ = Other
def write_dict(): table['a'] = 2
def add_key(): table['b'] = 2
def move(): ordered.move_to_end('a')
def write_base(): Base.factor = 2
def write_list(): items[1] = 3
def append(): items.append(3)
def write_defaults(): function.__defaults__ = (2,)
def add_number(): numbers.add(2)
"
);

static BLIND_SPOT: Mutex<Option<&'static str>> = Mutex::new(Some("not looked for"));

/// The first kind of memory whose changes cannot be observed. Snapshots must not be used if there is one.
pub fn blind_spot() -> Option<&'static str> {
    *BLIND_SPOT.lock()
}

/// Changes each kind of memory, and checks that a snapshot shows the change.
pub(in crate::cpython) fn look_for_blind_spots(py: Python<'_>) -> PyResult<()> {
    let found = find_blind_spot(py)?;
    *BLIND_SPOT.lock() = found;
    Ok(())
}

fn find_blind_spot(py: Python<'_>) -> PyResult<Option<&'static str>> {
    type Record = fn(&mut Recorder, &Place<'_>) -> bool;
    fn attribute(recorder: &mut Recorder, place: &Place<'_>, reading: Reading) -> bool {
        let dict = recorder.instance_dict(place);
        recorder.item(&dict, intern!(place.object.py(), "item").as_any(), reading).is_some()
    }
    let by_version: Record = |recorder, place| attribute(recorder, place, Reading::Version);
    let by_lookup: Record = |recorder, place| attribute(recorder, place, Reading::Lookup);
    let class: Record = |recorder, place| {
        recorder.type_of(place);
        true
    };
    let lookups: Record = |recorder, place| recorder.lookups_of(place);
    let dict: Record = |recorder, place| recorder.dict(place);
    let length: Record = |recorder, place| recorder.length(place);
    let second: Record = |recorder, place| recorder.index(place, 1).is_some();
    let contents: Record = |recorder, place| recorder.contents(place).is_some();
    let defaults: Record = |recorder, place| recorder.part(place, Part::Defaults).is_some();
    let cases = [
        ("ma_version_tag of an object's dict", "holder", "write_attribute", by_version),
        ("ma_values", "holder", "delete_attribute", by_lookup),
        ("ob_type", "holder", "change_class", class),
        ("ma_version_tag", "table", "write_dict", dict),
        ("ma_used", "table", "add_key", length),
        ("od_state", "ordered", "move", dict),
        ("tp_version_tag", "Class", "write_base", lookups),
        ("ob_item", "items", "write_list", second),
        ("ob_size", "items", "append", length),
        ("ob_ref", "cell", "write_cell", contents),
        ("func_defaults", "function", "write_defaults", defaults),
        ("used of a set", "numbers", "add_number", length),
    ];
    let space = PyDict::new(py);
    py.run(CHANGES, Some(&space), None)?;
    let get = |name: &str| space.as_any().get_item(name);
    #[cfg(not(Py_3_11))]
    {
        let general = get("general")?;
        // SAFETY: a live dict, which always has a table.
        let lookup = unsafe { (*(*general.as_ptr().cast::<pyo3::ffi::PyDictObject>()).ma_keys.cast::<Keys>()).lookup };
        GENERAL_LOOKUP.store(lookup, std::sync::atomic::Ordering::Relaxed);
    }
    for (memory, object, change, record) in cases {
        let mut recorder = Recorder::default();
        let roots = [get(object)?];
        let place = recorder.root(&roots[0]);
        let is_told = record(&mut recorder, &place);
        let snapshot = recorder.finish();
        let held = snapshot.check(py, &roots).is_ok();
        get(change)?.call0()?;
        if !is_told || !held || snapshot.check(py, &roots).is_ok() {
            return Ok(Some(memory));
        }
    }
    Ok(None)
}
