//! From Python objects to variables. Wrapping is lazy: the kind of an object and its guards come with the first look
//! at it. One Python object is one variable, however it was reached.

use std::any::TypeId;
use std::collections::HashSet;
use std::rc::Rc;

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyIterator, PyList, PyString, PyTuple, PyType};
use rustc_hash::FxHashMap;

use super::changing::LazyNumber;
use super::{changing, limits, sizes, OpcodeExecutor};
use crate::cpython;
use crate::error::{Flow, ReasonId, Unwind};
use crate::guard::{is_held_weakly, Identity, Test};
use crate::machine::variable::{Form, VarId, Variable};
use crate::policy::{MAX_ITEMS, MAX_PAIRS};
use crate::side_effects::Effect;
use crate::tracker::{ById, Tracker, TrackerId};

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
    pub(super) fn at_address(&self, address: usize) -> Option<VarId> {
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

/// A lazy variable: an object that the program has not looked at yet.
struct LazyVariable {
    object: Py<PyAny>,
}

impl Variable for LazyVariable {
    fn kind(&self) -> &'static str {
        "lazy"
    }

    fn form(&self) -> Form {
        Form::Lazy
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        self.object.bind(cx.py).get_type().into_any()
    }

    fn text(&self, cx: &OpcodeExecutor<'_>) -> String {
        let name = self.object.bind(cx.py).get_type().name().map_or_else(|_| String::new(), |n| n.to_string());
        format!("LazyVariable({name})")
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }
}

impl<'py> OpcodeExecutor<'py> {
    /// Returns the variable for an object reached through `tracker`.
    pub fn wrap(&mut self, object: &Bound<'py, PyAny>, tracker: TrackerId) -> VarId {
        if self.runtime.is_constant(object) {
            if let Some(changing) = changing::wrap_changing(self, object, tracker) {
                return changing;
            }
            let payload = (self.runtime.factories.constant)(object.clone().unbind());
            return self.vars.add(payload, tracker);
        }
        note_fetched(self, object, tracker);
        if let Some(known) = self.identities.of(object) {
            assume_same(self, known, tracker, object);
            return known;
        }
        let lazy = Rc::new(LazyVariable { object: object.clone().unbind() });
        let id = self.vars.add(lazy, tracker);
        self.identities.insert(object, id);
        id
    }

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
        let tracker = self.trackers.add(Tracker::RealObject(self.vars.next_id()));
        let id = self.vars.add(payload, tracker);
        self.stand_for(object, id);
        id
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

    /// Returns the payload of a variable. The first look determines its kind and adds its guards.
    pub fn see(&mut self, id: VarId) -> Flow<Rc<dyn Variable>> {
        // Every access of a handler to a value passes here, so endless recursion of handlers is refused here.
        limits::refuse_endless_recursion()?;
        if !self.vars.look(id) {
            materialize_lazy(self, id)?;
            if self.trackers.is_sourced(self.vars.tracker(id)) {
                refuse_short_lived_class(self, id)?;
                self.vars.get(id).guard(self, id)?;
            }
        }
        Ok(self.vars.get(id))
    }

    /// Returns the payload of a variable, if it is of kind `T`. Looks into a container.
    pub fn see_as<T: Variable>(&mut self, id: VarId) -> Flow<Option<Rc<T>>> {
        let payload = self.see(id)?;
        if payload.opens_to() == Some(TypeId::of::<T>()) {
            payload.open(self, id)?;
        }
        Ok(self.vars.as_kind::<T>(id))
    }

    /// Adds a variable made in the trace.
    pub fn produce(&mut self, payload: Rc<dyn Variable>) -> VarId {
        let tracker = self.trackers.add(Tracker::Produced);
        self.vars.add(payload, tracker)
    }

    /// Adds a constant of the trace.
    pub fn constant(&mut self, value: Py<PyAny>) -> VarId {
        let tracker = self.trackers.constant(value.clone_ref(self.py));
        let payload = (self.runtime.factories.constant)(value);
        self.vars.add(payload, tracker)
    }

    /// Returns the tracker of an object that guards have found as a key.
    pub fn found_tracker(&mut self, object: &Bound<'py, PyAny>) -> TrackerId {
        let object = ById(object.clone().unbind());
        self.trackers.add(if is_held_weakly(object.0.bind(self.py)) {
            Tracker::GuardedKey(object)
        } else {
            Tracker::Constant(object)
        })
    }

    /// Returns a variable for the result of a pure call made while tracing: a new value, which new code must make
    /// anew.
    pub fn wrap_fresh(&mut self, object: &Bound<'py, PyAny>) -> Flow<VarId> {
        if self.runtime.is_constant(object) {
            self.limits.charge_bytes(object);
            return Ok(self.constant(object.clone().unbind()));
        }
        limits::refuse_deep_values()?;
        if let Ok(tuple) = object.cast_exact::<PyTuple>() {
            self.limits.refuse_many(tuple.len())?;
            let items = tuple.iter().map(|item| self.wrap_fresh(&item)).collect::<Flow<Vec<_>>>()?;
            return Ok(self.tuple(items));
        }
        if let Ok(list) = object.cast_exact::<PyList>() {
            self.limits.refuse_many(list.len())?;
            let items = list.iter().map(|item| self.wrap_fresh(&item)).collect::<Flow<Vec<_>>>()?;
            let payload = (self.runtime.factories.list)(items);
            return Ok(self.produce(payload));
        }
        if object.is_instance_of::<PyBaseException>() {
            return (self.runtime.factories.exception)(self, object);
        }
        if let Ok(items) = object.cast::<PyIterator>() {
            // The remaining items are known, because only the trace advances the iterator.
            let items = items.clone().take(MAX_ITEMS + 1).collect::<PyResult<Vec<_>>>()?;
            self.limits.refuse_many(items.len())?;
            let items = items.iter().map(|item| self.wrap_fresh(item)).collect::<Flow<Vec<_>>>()?;
            let items = self.tuple(items);
            return self.iter(items);
        }
        self.met.class_of(object);
        let is_value = (self.runtime.factories.is_value)(object);
        if is_value || object.is_instance_of::<pyo3::types::PyType>() || object.is_callable() {
            // Pure calls do not make types and functions, they only return existing ones. Of an immutable value any
            // object will do.
            let tracker = self.trackers.constant(object.clone().unbind());
            return Ok(self.wrap(object, tracker));
        }
        let has_kind = !self.runtime.kinds.find(object).is_some_and(|kind| matches!(kind.name, "object" | "subclass"));
        // New code would make a plain tuple of a named tuple.
        if !has_kind || object.is_instance_of::<PyTuple>() {
            let name = object.get_type().qualname().map_or_else(|_| "?".to_owned(), |name| name.to_string());
            let text = format!("a call that makes a {name}");
            return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
        }
        let tracker = self.trackers.add(Tracker::Produced);
        Ok(self.wrap(object, tracker))
    }

    /// A tuple made in the trace.
    pub fn tuple(&mut self, items: Vec<VarId>) -> VarId {
        let payload = (self.runtime.factories.tuple)(items);
        self.produce(payload)
    }

    /// A list made in the trace.
    pub fn list(&mut self, items: Vec<VarId>) -> VarId {
        let payload = (self.runtime.factories.list)(items);
        self.produce(payload)
    }

    /// The `None` constant.
    pub fn none(&mut self) -> VarId {
        let none = self.py.None();
        self.constant(none)
    }

    /// `True` or `False`.
    pub fn boolean(&mut self, value: bool) -> VarId {
        let value = PyBool::new(self.py, value).to_owned().into_any().unbind();
        self.constant(value)
    }

    /// An `int` constant.
    pub fn integer(&mut self, value: i64) -> Flow<VarId> {
        let value = value.into_pyobject(self.py).map_err(PyErr::from)?.into_any().unbind();
        Ok(self.constant(value))
    }

    /// A `str` constant.
    pub fn string(&mut self, value: &str) -> VarId {
        let value = PyString::new(self.py, value).into_any().unbind();
        self.constant(value)
    }
}

fn assume_same<'py>(cx: &mut OpcodeExecutor<'py>, known: VarId, tracker: TrackerId, object: &Bound<'py, PyAny>) {
    let first = cx.vars.tracker(known);
    match (cx.trackers.is_sourced(first), cx.trackers.is_sourced(tracker)) {
        (true, true) if first != tracker => cx.guards.add(tracker, Test::SameAs(first)),
        // An object that the trace made will hold the new object then.
        (true, false) if cx.history.is_short_lived(&cx.trackers, first) && cx.trackers.is_produced(tracker) => {}
        (true, false) => cx.guards.add(first, Test::Is(Identity::of(object))),
        (false, true) => cx.guards.add(tracker, Test::Is(Identity::of(object))),
        _ => {}
    }
}

/// Guards that written objects are different objects from `others`, and from one another.
fn assume_apart(cx: &mut OpcodeExecutor<'_>, written: &[TrackerId], mut others: Vec<TrackerId>) {
    others.sort_unstable();
    if written.len() * others.len() > MAX_PAIRS {
        let is_written: HashSet<_> = written.iter().copied().collect();
        others.retain(|other| !is_written.contains(other));
        cx.guards.add(written[0], Test::Apart { written: written.into(), others: others.into() });
        return;
    }
    for &tracker in written {
        for &other in others.iter().filter(|other| **other != tracker) {
            cx.guards.add(tracker, Test::DiffersFrom(other));
        }
    }
}

/// Returns the tracker and type of an object from outside that only its identity tells from others of the type.
fn told_apart_by_identity<'py>(cx: &OpcodeExecutor<'py>, id: VarId) -> Option<(TrackerId, Bound<'py, PyAny>)> {
    let (tracker, payload) = (cx.vars.tracker(id), cx.vars.get(id));
    let looked_at = !matches!(payload.form(), Form::Lazy | Form::Class | Form::Module);
    (looked_at && cx.trackers.is_sourced(tracker)).then(|| (tracker, payload.python_type(cx)))
}

/// Breaks the graph where the trace looks at a class that is made anew at each call, or at an object of such a class.
/// A translation that rests on the class would never be hit again.
fn refuse_short_lived_class(cx: &OpcodeExecutor<'_>, id: VarId) -> Flow<()> {
    let tracker = cx.vars.tracker(id);
    // Before the first instruction the graph cannot break.
    if cx.history.short_lived.classes.is_empty()
        || cx.checkpoints.is_empty()
        || !cx.history.short_lived.classes.contains(&cx.trackers.path(tracker))
    {
        return Ok(());
    }
    let text = "a class that is another one at every call, or an object of such";
    Err(Unwind::break_graph(ReasonId::ChangingClass, text))
}

fn materialize_lazy(cx: &mut OpcodeExecutor<'_>, id: VarId) -> Flow<()> {
    if cx.is_open(id) {
        return Err(sizes::needs(cx, id));
    }
    if let Some(number) = cx.vars.as_kind::<LazyNumber>(id) {
        if changing::is_of_sizes(cx, id) {
            sizes::assume_of_sizes(cx, id)?;
        } else {
            number.refuse_if_too_many(cx)?;
        }
        let value = number.value.clone_ref(cx.py);
        cx.vars.set(id, (cx.runtime.factories.constant)(value));
        return Ok(());
    }
    let Some(lazy) = cx.vars.as_kind::<LazyVariable>(id) else { return Ok(()) };
    let object = lazy.object.bind(cx.py).clone();
    cx.met.class_of(&object);
    let Some(kind) = cx.runtime.kinds.find(&object) else {
        let name = object.get_type().qualname().map_or_else(|_| "?".to_owned(), |n| n.to_string());
        return Err(Unwind::break_graph(
            ReasonId::UnsupportedOperation,
            format!("no variable kind is registered for objects of type {name}"),
        ));
    };
    let tracker = cx.vars.tracker(id);
    let payload = cx.runtime.kinds.wrap(kind, cx, &object, tracker)?;
    cx.vars.set(id, payload);
    Ok(())
}

/// Notes a tensor that a plug-in has found. If a tracker has found two tensors, new code would load one for both.
fn note_fetched(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, tracker: TrackerId) {
    let is_foreign = matches!(cx.trackers.get(tracker), Tracker::Foreign { .. });
    if is_foreign && cx.runtime.backend.is_tensor(object) {
        let address = object.as_ptr() as usize;
        if *cx.identities.fetched.entry(tracker).or_insert(address) != address {
            cx.identities.contradiction = Some(tracker);
        }
    }
}
