//! Values whose destruction is observable and that the program may drop in the trace: those that the frame of a
//! resume function alone owns, and those that the trace takes out of an object from outside by a write. The graph
//! breaks where they are destroyed: before the write, which then runs natively, or between two instructions.

use std::cell::RefCell;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyString, PyType, PyWeakrefReference};
use rustc_hash::FxHashSet;

use super::destruction_search::{DestructionSearch, Path};
use super::holders::{is_held, Chains, Holders};
use crate::cpython::{self, DescriptorKind};
use crate::error::{Flow, ReasonId, Unwind};
use crate::machine::executor::record::rollback::Reversible;
use crate::machine::executor::{Name, OpcodeExecutor, Trace};
use crate::machine::variable::VarId;
use crate::policy::MAX_LOOKED_AT;
use crate::side_effects::{key_of_entry, Effect};
use crate::tracker::{Tracker, TrackerId};

/// A value whose destruction is observable.
struct WatchedValue {
    /// The variable through which it was found.
    by: VarId,
    /// The objects from the one looked at to the value. Empty if the value is that of `by` itself.
    path: Path,
    /// The first object of the path, which keeps the others alive.
    first: Py<PyAny>,
}

/// The watched values, and the state of the search for them.
#[derive(Default)]
pub(in crate::machine::executor) struct ObservableDrops {
    all: Vec<WatchedValue>,
    /// Number of effects that were searched for removed values.
    looked_at: usize,
    /// Number of objects that were looked at.
    objects: usize,
    /// The places that these effects have written to, in the order of the first write.
    written: IndexSet,
    /// How the watched values were last found to be held. Most instructions leave it so, and walking over all values
    /// of the trace at each instruction takes too long.
    chains: RefCell<Chains>,
}

/// A place that a write empties or replaces: an attribute or global by its name, or all contents of an object.
type WrittenPlace = (VarId, Option<Name>);

/// Places in the order of insertion.
#[derive(Default)]
struct IndexSet {
    order: Vec<WrittenPlace>,
    known: FxHashSet<WrittenPlace>,
}

impl IndexSet {
    fn insert(&mut self, place: WrittenPlace) -> bool {
        let is_new = self.known.insert(place.clone());
        if is_new {
            self.order.push(place);
        }
        is_new
    }

    fn truncate(&mut self, len: usize) {
        for place in self.order.drain(len.min(self.order.len())..) {
            self.known.remove(&place);
        }
    }
}

impl Reversible for ObservableDrops {
    type Mark = (usize, usize, usize);

    fn mark(&self) -> Self::Mark {
        (self.all.len(), self.looked_at, self.written.order.len())
    }

    fn go_back(&mut self, (watched, looked_at, written): Self::Mark, _: VarId) {
        self.all.truncate(watched);
        self.looked_at = looked_at;
        self.written.truncate(written);
        *self.chains.get_mut() = Chains::default();
    }
}

impl WatchedValue {
    /// The outermost variable on the path to the value, or the value's own.
    fn reached(&self, trace: &Trace<'_>) -> Option<VarId> {
        if self.path.is_empty() {
            return Some(self.by);
        }
        self.parts(trace).next()
    }

    /// The variables of the value and of the objects on the path to it.
    fn parts<'a>(&'a self, trace: &'a Trace<'_>) -> impl Iterator<Item = VarId> + 'a {
        let own = self.path.is_empty().then_some(self.by);
        own.into_iter().chain(self.path.iter().filter_map(|part| trace.identities.at_address(*part)))
    }
}

impl Trace<'_> {
    /// True if the destruction of the value is observable.
    pub fn is_observable_when_dropped(&self, value: VarId) -> bool {
        let is_watched = |watched: &WatchedValue| watched.by == value || watched.parts(self).any(|part| part == value);
        self.observable_drops.all.iter().any(is_watched) || self.vars.get(value).runs_when_dropped(self)
    }

    /// True if the destruction of the value, or of a value that it holds, is observable.
    pub fn holds_observable(&self, value: VarId) -> bool {
        let (mut pending, mut seen) = (vec![value], FxHashSet::default());
        while let Some(value) = pending.pop() {
            if self.is_observable_when_dropped(value) {
                return true;
            }
            if seen.insert(value) {
                pending.extend(self.vars.get(value).children());
            }
        }
        false
    }
}

impl OpcodeExecutor<'_> {
    /// Watches an argument of the outermost frame and what it holds, if only this frame may own them.
    pub(crate) fn watch_argument(&mut self, value: VarId, object: &Bound<'_, PyAny>) -> Flow<()> {
        let object = object.clone().unbind().into_bound(self.py);
        let search = DestructionSearch::new(self.py)?;
        if search.is_observable(&object) {
            self.see(value)?;
            self.trace.observable_drops.all.push(WatchedValue { by: value, path: Vec::new(), first: object.unbind() });
            return Ok(());
        }
        watch_held(self, &search, value, &object)?;
        Ok(())
    }

    /// Breaks the graph at an object that a guard would keep alive, since it allows no weak references, if its
    /// destruction, or that of an object it holds, is observable.
    pub fn refuse_keeping_alive(&self, object: &Bound<'_, PyAny>) -> Flow<()> {
        let is_of_program = cpython::is_heap_type(&object.get_type()) || object.is_instance_of::<PyWeakrefReference>();
        if cpython::supports_weakref(object) || !is_of_program {
            return Ok(());
        }
        let object = object.clone().unbind().into_bound(self.py);
        let known = |address| self.trace.identities.at_address(address).is_some();
        let mut budget = MAX_LOOKED_AT;
        if DestructionSearch::new(self.py)?.paths_from(&object, known, &mut budget)?.is_empty() {
            return Ok(());
        }
        let name = object.get_type().name()?;
        let text = format!("a guard on this {name} object would keep it alive, and its destruction is observable");
        Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text))
    }

    /// The watched values that nothing holds any more, each as the outermost variable on its path.
    pub(crate) fn all_dropped(&self) -> impl Iterator<Item = VarId> + '_ {
        let of = |index: usize| self.trace.observable_drops.all.get(index);
        unheld(self).into_iter().filter_map(of).map(|watched| watched.reached(&self.trace).unwrap_or(watched.by))
    }

    /// The watched values that the frame may alone own: its arguments, and those that the trace took out of them.
    pub(crate) fn all_taken(&self) -> impl Iterator<Item = VarId> + '_ {
        self.trace.observable_drops.all.iter().filter_map(|watched| watched.reached(&self.trace))
    }

    /// True if an object is certainly alive, which was alive when the outermost frame began, or was made in the trace.
    /// `value` is its variable, if the trace has met it. Either the simulated frames hold it, or no write of the trace
    /// has taken an object out of another one, and the place where it was found is still there.
    pub fn is_certainly_alive(&self, value: Option<VarId>) -> PyResult<bool> {
        if value.is_some_and(|value| is_held(self, value)) {
            return Ok(true);
        }
        let is_made = |value| !self.trace.trackers.is_loadable(self.trace.vars.tracker(value));
        if value.is_some_and(is_made) || take_objects_away(&self.trace)? {
            return Ok(false);
        }
        let is_rooted = value.is_some_and(|value| is_place_kept(self, self.trace.vars.tracker(value)));
        let is_argument = |id| matches!(self.trace.trackers.get(self.trace.vars.tracker(id)), Tracker::Local { .. });
        let is_kept = |(id, _): (VarId, _)| !is_argument(id) || is_held(self, id);
        Ok(is_rooted || self.trace.vars.iter().all(is_kept))
    }
}

/// True if a write of the trace may have taken an object from outside out of another one.
fn take_objects_away(trace: &Trace<'_>) -> PyResult<bool> {
    let mut search = None;
    for effect in trace.effects.log() {
        let search = match &search {
            Some(search) => search,
            None => search.insert(DestructionSearch::new(trace.py)?),
        };
        let left = match effect {
            Effect::Contents { container } => trace.vars.get(*container).holds(),
            _ => Vec::new(),
        };
        let is_left = |object| trace.identities.of(object).is_some_and(|held| left.contains(&held));
        if held_before(trace, search, effect)?.iter().any(|object| !cpython::is_atom(object) && !is_left(object)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// True if new code finds the value of a tracker on a path from a global, a cell of the function, or an argument that
/// a frame still holds.
fn is_place_kept(cx: &OpcodeExecutor<'_>, tracker: TrackerId) -> bool {
    let mut root = tracker;
    while let Some(of) = cx.trace.trackers.get(root).parent() {
        // Nothing else need hold what an iterator or a plug-in hands out, or what an attribute access makes.
        let hands_out = matches!(
            cx.trace.trackers.get(root),
            Tracker::Upcoming { .. } | Tracker::Iterated { .. } | Tracker::Foreign { .. } | Tracker::Getattr { .. }
        );
        if hands_out {
            return false;
        }
        root = of;
    }
    match cx.trace.trackers.get(root) {
        Tracker::Globals | Tracker::FreeCell { .. } => true,
        Tracker::Local { .. } => {
            cx.trace.vars.iter().any(|(id, _)| cx.trace.vars.tracker(id) == root && is_held(cx, id))
        }
        _ => false,
    }
}

/// Returns a watched value that nothing holds any more.
pub(in crate::machine::executor) fn dropped(cx: &OpcodeExecutor<'_>) -> Option<VarId> {
    cx.all_dropped().next()
}

/// Returns the places of the watched values that nothing holds any more.
fn unheld(cx: &OpcodeExecutor<'_>) -> Vec<usize> {
    let watched = &cx.trace.observable_drops.all;
    let mut chains = cx.trace.observable_drops.chains.borrow_mut();
    if chains.placed == watched.len() && chains.still_hold(cx).all(|holds| holds) {
        return Vec::new();
    }
    let holds: Vec<bool> = chains.still_hold(cx).collect();
    let (before, mut holders) = (std::mem::take(&mut *chains), Holders::default());
    let mut dropped = Vec::new();
    for (index, value) in watched.iter().enumerate() {
        let kept = before.of.get(index).copied().flatten().filter(|place| holds[*place]);
        let (is_held, chain) = match kept {
            Some(place) => (true, Some(before.all[place].clone())),
            None => holders.find(cx, &value.parts(&cx.trace).collect::<Vec<_>>()),
        };
        chains.add(chain);
        if !is_held {
            dropped.push(index);
        }
    }
    dropped
}

/// Returns a graph break if the instruction just simulated has taken a value out of an object from outside that is
/// destroyed by it. The instruction then runs natively.
pub(in crate::machine::executor) fn dropped_by_write(cx: &mut OpcodeExecutor<'_>) -> PyResult<Option<Unwind>> {
    if cx.trace.effects.len() <= cx.trace.observable_drops.looked_at {
        return Ok(None);
    }
    let before = cx.trace.observable_drops.all.len();
    look_at_writes(cx)?;
    // A value that new code cannot load is lost once the write is replayed.
    let is_lost = |value: &VarId| !cx.trace.trackers.is_sourced(cx.trace.vars.tracker(*value));
    let lost =
        cx.trace.observable_drops.all[before..].iter().filter_map(|watched| watched.reached(&cx.trace)).find(is_lost);
    let Some(dropped) = lost.or_else(|| dropped(cx)) else { return Ok(None) };
    let text = format!("the destruction of a value that {} held is observable", cx.trace.text(dropped));
    Ok(Some(Unwind::break_graph(ReasonId::UnsupportedMutation, text)))
}

/// Watches the values that the latest writes take out of objects from outside.
fn look_at_writes(cx: &mut OpcodeExecutor<'_>) -> PyResult<()> {
    let mut search = None;
    for at in cx.trace.observable_drops.looked_at..cx.trace.effects.len() {
        let effect = cx.trace.effects.log()[at].clone();
        let null = cx.trace.null();
        let (by, name) = match &effect {
            Effect::Attribute { object, name, .. } => (*object, Some(Rc::clone(name))),
            Effect::Contents { container: written } | Effect::Cell { cell: written } => (*written, None),
            Effect::Global { name, .. } => (null, Some(Rc::clone(name))),
            Effect::Call { .. } => continue,
        };
        if !matches!(effect, Effect::Global { .. }) && !cx.trace.observable_drops.written.insert((by, name)) {
            continue;
        }
        let search = match &search {
            Some(search) => search,
            None => search.insert(DestructionSearch::new(cx.py)?),
        };
        for object in held_before(&cx.trace, search, &effect)? {
            watch_held(cx, search, by, &object)?;
        }
    }
    cx.trace.observable_drops.looked_at = cx.trace.effects.len();
    Ok(())
}

/// Watches an object, and the values that are destroyed with it.
fn watch_held<'py>(
    cx: &mut OpcodeExecutor<'py>,
    search: &DestructionSearch<'py>,
    by: VarId,
    object: &Bound<'py, PyAny>,
) -> PyResult<()> {
    let isfirst =
        |address| cx.trace.observable_drops.all.iter().any(|watched| watched.first.as_ptr() as usize == address);
    let known = |address| cx.trace.identities.at_address(address).is_some() || isfirst(address);
    let mut budget = MAX_LOOKED_AT.saturating_sub(cx.trace.observable_drops.objects);
    let before = budget;
    let paths = search.paths_from(object, known, &mut budget)?;
    cx.trace.observable_drops.objects += before - budget;
    for path in paths {
        cx.trace.observable_drops.all.push(WatchedValue { by, path, first: object.clone().unbind() });
    }
    Ok(())
}

/// Returns the objects that a written place held before the trace.
fn held_before<'py>(
    trace: &Trace<'py>,
    search: &DestructionSearch<'py>,
    effect: &Effect,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let real = |id: VarId| {
        let is_outside = trace.trackers.is_loadable(trace.vars.tracker(id));
        trace.identities.object_of(id).filter(|_| is_outside).map(|object| object.bind(trace.py).clone())
    };
    match effect {
        Effect::Attribute { object, name, .. } => match real(*object) {
            Some(object) => Ok(attribute_of(&object, name)?.into_iter().collect()),
            None => Ok(Vec::new()),
        },
        Effect::Global { globals, name, .. } => {
            let dict = trace.effects.globals_dict(*globals).map(|dict| dict.bind(trace.py).clone());
            Ok(dict.map(|dict| dict.get_item(&**name)).transpose()?.flatten().into_iter().collect())
        }
        Effect::Contents { container } => real(*container).map_or(Ok(Vec::new()), |real| search.contents(&real)),
        Effect::Cell { cell } => Ok(real(*cell).and_then(|cell| cpython::cell_contents(&cell)).into_iter().collect()),
        Effect::Call { .. } => Ok(Vec::new()),
    }
}

/// Returns the value of an object's attribute in its dict or a slot, or in a class's own dict.
fn attribute_of<'py>(object: &Bound<'py, PyAny>, name: &Name) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (key, is_entry) = key_of_entry(name).map_or((&**name, false), |key| (key, true));
    if object.is_instance_of::<PyType>() {
        let found = cpython::class_dict(object)?.call_method1("get", (key,))?;
        return Ok(Some(found).filter(|found| !found.is_none()));
    }
    let found = cpython::type_lookup(&object.get_type(), &PyString::intern(object.py(), key));
    if let Some(slot) = found.filter(|found| !is_entry && DescriptorKind::of(found) == DescriptorKind::Member) {
        return Ok(slot.call_method1("__get__", (object,)).ok());
    }
    cpython::instance_dict(object).map(|dict| dict.get_item(key)).transpose().map(Option::flatten)
}
