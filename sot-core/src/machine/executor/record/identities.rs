//! The map from Python objects to variables. One object is one variable, however it was reached. A variable made in
//! the trace may be represented by a real object.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyType;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::cpython;
use crate::guard::Test;
use crate::machine::executor::Trace;
use crate::machine::variable::{Form, VarId, Variable};
use crate::policy::MAX_PAIRS;
use crate::side_effects::Effect;
use crate::tracker::{Tracker, TrackerId};

/// Which object is which variable.
#[derive(Default)]
pub struct IdentityMap {
    variables: FxHashMap<usize, VarId>,
    // Index in `objects` of the object of a variable.
    places: FxHashMap<VarId, usize>,
    // Keeps each wrapped object alive while the map knows its address.
    objects: Vec<Py<PyAny>>,
    stand_ins: FxHashMap<VarId, StandIn>,
    classes: StandInClasses,
    /// Addresses of the tensors that plug-ins have found, by tracker.
    fetched: FxHashMap<TrackerId, usize>,
    /// A tracker by which a plug-in has found two tensors.
    contradiction: Option<TrackerId>,
}

/// A real object that stands for a variable made in the trace.
struct StandIn {
    object: Py<PyAny>,
    /// True if the object had all of the variable's state when it was complete.
    exact: bool,
    payload: Rc<dyn Variable>,
    writes: usize,
}

impl IdentityMap {
    /// Forgets the variables from `first` on.
    pub(super) fn forget_from(&mut self, first: VarId) {
        self.variables.retain(|_, variable| *variable < first);
        self.stand_ins.retain(|variable, _| *variable < first);
        self.places.retain(|variable, _| *variable < first);
    }

    /// The variable of an object, if the trace has reached it.
    pub fn of(&self, object: &Bound<'_, PyAny>) -> Option<VarId> {
        self.variables.get(&(object.as_ptr() as usize)).copied()
    }

    /// The variable of the object at an address, if the trace has reached it.
    pub(in crate::machine::executor) fn at_address(&self, address: usize) -> Option<VarId> {
        self.variables.get(&address).copied()
    }

    /// The object that a variable was wrapped from, or whose storage it is.
    pub fn object_of(&self, variable: VarId) -> Option<&Py<PyAny>> {
        self.objects.get(*self.places.get(&variable)?)
    }

    /// Notes that `storage` is the variable for the part of an object that methods of its base class use.
    pub fn keeps(&mut self, object: &Bound<'_, PyAny>, storage: VarId) {
        self.places.insert(storage, self.objects.len());
        self.objects.push(object.clone().unbind());
    }

    /// Notes that the real object for a variable is complete; `exact` if it has all of the variable's state.
    pub fn complete_stand_in(&mut self, id: VarId, exact: bool) {
        if let Some(stand_in) = self.stand_ins.get_mut(&id) {
            stand_in.exact = exact;
        }
    }

    /// The tracker by which a plug-in has found two tensors, if there is one.
    pub(crate) fn contradiction(&self) -> Option<TrackerId> {
        self.contradiction
    }

    /// Notes that the object and the variable are one.
    pub fn insert(&mut self, object: &Bound<'_, PyAny>, variable: VarId) {
        self.variables.insert(object.as_ptr() as usize, variable);
        self.places.insert(variable, self.objects.len());
        self.objects.push(object.clone().unbind());
    }
}

/// Real classes that stand for those made in the trace. Their bases forget these subclasses at the end of the
/// translation.
#[derive(Default)]
struct StandInClasses(Vec<Py<PyType>>);

impl Drop for StandInClasses {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            Python::attach(|py| self.0.iter().for_each(|class| cpython::forget_subclass(class.bind(py))));
        }
    }
}

impl<'py> Trace<'py> {
    /// Notes that the object stands for the variable, which was made in the trace.
    pub fn stand_for(&mut self, object: &Bound<'py, PyAny>, id: VarId) {
        self.identities.insert(object, id);
        let (payload, writes) = (self.vars.get(id), self.effects.len());
        let stand_in = StandIn { object: object.clone().unbind(), exact: false, payload, writes };
        self.identities.stand_ins.insert(id, stand_in);
    }

    /// Returns the real object that stands for a variable made in the trace. Also returns whether the object is
    /// complete and has all of the variable's state.
    pub fn stand_in(&self, id: VarId) -> Option<(Bound<'py, PyAny>, bool)> {
        let stand_in = self.identities.stand_ins.get(&id)?;
        let is_same = Rc::ptr_eq(&stand_in.payload, &self.vars.get(id));
        let is_of_object = |effect: &Effect| match effect {
            Effect::Attribute { object, .. } => *object == id,
            _ => false,
        };
        let exact = stand_in.exact && is_same && !self.effects.log().iter().skip(stand_in.writes).any(is_of_object);
        Some((stand_in.object.bind(self.py).clone(), exact))
    }

    /// Adds a variable made in the trace for which a real object stands.
    pub fn produce_made(&mut self, payload: Rc<dyn Variable>, object: &Bound<'py, PyAny>) -> VarId {
        if let Ok(class) = object.cast::<PyType>() {
            self.identities.classes.0.push(class.clone().unbind());
        }
        let id = self.produce_real(payload, object);
        self.stand_for(object, id);
        id
    }

    /// Adds a variable for a real object made in the trace, which new code makes again. Values reached from the object
    /// are loaded from the new one.
    pub fn produce_real(&mut self, payload: Rc<dyn Variable>, object: &Bound<'py, PyAny>) -> VarId {
        let tracker = self.trackers.add(Tracker::RealObject(self.vars.next_id()));
        let id = self.vars.add(payload, tracker);
        self.identities.insert(object, id);
        id
    }

    /// Like [`Trace::produce_real`], with the object's own kind of variable.
    pub fn wrap_real(&mut self, object: &Bound<'py, PyAny>) -> VarId {
        let tracker = self.trackers.add(Tracker::RealObject(self.vars.next_id()));
        self.wrap(object, tracker)
    }

    /// Guards that objects which the trace wrote to are not the same as other objects of their type that it looked
    /// at. In another call they might be one object.
    pub fn assume_distinct(&mut self) {
        let looked_at: Vec<_> =
            self.identities.variables.values().filter_map(|&id| told_apart_by_identity(self, id)).collect();
        let mut written: Vec<VarId> = self.effects.written().collect();
        written.sort_unstable();
        written.dedup();
        let mut of_types: Vec<(Bound<'py, PyAny>, Vec<TrackerId>)> = Vec::new();
        for (tracker, ty) in written.into_iter().filter_map(|id| told_apart_by_identity(self, id)) {
            match of_types.iter_mut().find(|(known, _)| known.is(&ty)) {
                Some((_, written)) => written.push(tracker),
                None => of_types.push((ty, vec![tracker])),
            }
        }
        for (ty, written) in of_types {
            let others = looked_at.iter().filter(|(_, other)| other.is(&ty)).map(|(other, _)| *other);
            assume_apart(self, &written, others.collect());
        }
    }
}

/// Guards that written objects are different objects from `others`, and from one another.
fn assume_apart(trace: &mut Trace<'_>, written: &[TrackerId], mut others: Vec<TrackerId>) {
    others.sort_unstable();
    if written.len() * others.len() > MAX_PAIRS {
        let is_written: FxHashSet<_> = written.iter().copied().collect();
        others.retain(|other| !is_written.contains(other));
        trace.guards.add(written[0], Test::Apart { written: written.into(), others: others.into() });
        return;
    }
    for &tracker in written {
        for &other in others.iter().filter(|other| **other != tracker) {
            trace.guards.add(tracker, Test::DiffersFrom(other));
        }
    }
}

/// Returns the tracker and type of an object from outside that only its identity tells from others of the type.
fn told_apart_by_identity<'py>(trace: &Trace<'py>, id: VarId) -> Option<(TrackerId, Bound<'py, PyAny>)> {
    let (tracker, payload) = (trace.vars.tracker(id), trace.vars.get(id));
    let looked_at = !matches!(payload.form(), Form::Lazy | Form::Class | Form::Module);
    (looked_at && trace.trackers.is_sourced(tracker)).then(|| (tracker, payload.python_type(trace)))
}

/// Notes a tensor that a plug-in has found. If a tracker has found two tensors, new code would load one for both.
pub(in crate::machine::executor) fn note_fetched(trace: &mut Trace<'_>, object: &Bound<'_, PyAny>, tracker: TrackerId) {
    let is_foreign = matches!(trace.trackers.get(tracker), Tracker::Foreign { .. });
    if is_foreign && trace.runtime.backend().is_tensor(object) {
        let address = object.as_ptr() as usize;
        if *trace.identities.fetched.entry(tracker).or_insert(address) != address {
            trace.identities.contradiction = Some(tracker);
        }
    }
}
