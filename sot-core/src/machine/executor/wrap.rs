//! From Python objects to variables. Wrapping is lazy: the kind of an object and its guards come with the first look
//! at it.

use std::any::TypeId;
use std::rc::Rc;

use pyo3::prelude::*;

use super::changing_values::lazy_number::{self, LazyNumber};
use super::changing_values::{open_number, open_sizes};
use super::object_model::attributes::refuse_written_dict;
use super::record::identities::note_fetched;
use super::{limits, OpcodeExecutor, Trace};
use crate::error::{Flow, ReasonId, Unwind};
use crate::guard::{Identity, Test};
use crate::machine::variable::{Form, VarId, Variable};
use crate::tracker::TrackerId;

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

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.object.bind(trace.py).get_type().into_any()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        let name = self.object.bind(trace.py).get_type().name().map_or_else(|_| String::new(), |n| n.to_string());
        format!("LazyVariable({name})")
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }
}

impl<'py> Trace<'py> {
    /// Returns the variable for an object reached through `tracker`.
    pub fn wrap(&mut self, object: &Bound<'py, PyAny>, tracker: TrackerId) -> VarId {
        if self.runtime.is_constant(object) {
            if let Some(changing) = lazy_number::wrap_changing(self, object, tracker) {
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
}

impl OpcodeExecutor<'_> {
    /// Returns the payload of a variable. The first look determines its kind and adds its guards.
    pub fn see(&mut self, id: VarId) -> Flow<Rc<dyn Variable>> {
        // Every access of a handler to a value passes here, so endless recursion of handlers is refused here.
        limits::refuse_endless_recursion()?;
        if !self.trace.vars.look(id) {
            materialize_lazy(self, id)?;
            if self.trace.trackers.is_sourced(self.trace.vars.tracker(id)) {
                refuse_short_lived_class(self, id)?;
                self.trace.vars.get(id).guard(self, id)?;
            }
        }
        Ok(self.trace.vars.get(id))
    }

    /// Returns the payload of a variable, if it is of kind `T`. Looks into a container.
    pub fn see_as<T: Variable>(&mut self, id: VarId) -> Flow<Option<Rc<T>>> {
        let payload = self.see(id)?;
        if payload.opens_to() == Some(TypeId::of::<T>()) {
            payload.open(self, id)?;
        }
        Ok(self.trace.vars.as_kind::<T>(id))
    }
}

fn assume_same<'py>(trace: &mut Trace<'py>, known: VarId, tracker: TrackerId, object: &Bound<'py, PyAny>) {
    let first = trace.vars.tracker(known);
    match (trace.trackers.is_sourced(first), trace.trackers.is_sourced(tracker)) {
        (true, true) if first != tracker => trace.guards.add(tracker, Test::SameAs(first)),
        // An object that the trace made will hold the new object then.
        (true, false) if trace.is_short_lived(first) && is_of_trace(trace, tracker) => {}
        (true, false) => trace.guards.add(first, Test::Is(Identity::of(object))),
        (false, true) => trace.guards.add(tracker, Test::Is(Identity::of(object))),
        _ => {}
    }
}

/// True if the value was made in the trace, or is reached from such a value.
fn is_of_trace(trace: &Trace<'_>, tracker: TrackerId) -> bool {
    trace.trackers.is_produced(tracker) || trace.trackers.is_made(tracker)
}

/// Breaks the graph where the trace looks at a class that is made anew at each call, or at an object of such a class.
/// A translation that rests on the class would never be hit again.
fn refuse_short_lived_class(cx: &OpcodeExecutor<'_>, id: VarId) -> Flow<()> {
    let tracker = cx.trace.vars.tracker(id);
    // Before the first instruction the graph cannot break.
    if cx.trace.history.short_lived.classes.is_empty()
        || cx.checkpoints.is_empty()
        || !cx.trace.history.short_lived.classes.contains(&cx.trace.trackers.path(tracker))
    {
        return Ok(());
    }
    let text = "a class that differs from call to call, or an instance of such a class";
    Err(Unwind::break_graph(ReasonId::ChangingClass, text))
}

fn materialize_lazy(cx: &mut OpcodeExecutor<'_>, id: VarId) -> Flow<()> {
    if cx.trace.is_open_number(id) {
        return Err(open_sizes::needs(cx, id));
    }
    if let Some(number) = cx.trace.vars.as_kind::<LazyNumber>(id) {
        if lazy_number::is_of_sizes(&cx.trace, id) {
            open_number::assume_of_sizes(cx, id)?;
        } else {
            number.refuse_if_too_many(cx)?;
        }
        let value = number.value.clone_ref(cx.py);
        cx.trace.vars.set(id, (cx.runtime.factories.constant)(value));
        return Ok(());
    }
    let Some(lazy) = cx.trace.vars.as_kind::<LazyVariable>(id) else { return Ok(()) };
    let object = lazy.object.bind(cx.py).clone();
    refuse_written_dict(&cx.trace, &object, cx.trace.vars.tracker(id))?;
    cx.dependencies.class_of(&object);
    let Some(kind) = cx.runtime.kinds.find(&object) else {
        let name = object.get_type().qualname().map_or_else(|_| "?".to_owned(), |n| n.to_string());
        return Err(Unwind::break_graph(
            ReasonId::UnsupportedOperation,
            format!("no variable kind is registered for objects of type {name}"),
        ));
    };
    let tracker = cx.trace.vars.tracker(id);
    let payload = cx.runtime.kinds.wrap(kind, cx, &object, tracker)?;
    cx.trace.vars.set(id, payload);
    Ok(())
}
