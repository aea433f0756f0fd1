//! Lookup of names in types, and the guards that the result stays the same.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyString, PyType};

use crate::cpython;
use crate::error::{Flow, ReasonId, Unwind};
use crate::guard::{Identity, Test};
use crate::machine::executor::{Name, OpcodeExecutor, Trace};
use crate::machine::variable::VarId;
use crate::tracker::{Tracker, TrackerId};

/// Looks a name up in the method resolution order of the object's type. Adds a guard if the name is missing.
pub fn lookup<'py>(
    cx: &mut OpcodeExecutor<'py>,
    object: VarId,
    name: &Name,
) -> Flow<Option<(Bound<'py, PyAny>, TrackerId)>> {
    let payload = cx.see(object)?;
    let ty = payload.python_type(&cx.trace);
    let of = payload.type_tracker(cx, object);
    lookup_in_type(cx, &ty, of, name)
}

/// Simulates `callable()`: true if the object's type has `__call__`. Adds a guard for the answer.
pub fn is_callable(cx: &mut OpcodeExecutor<'_>, object: VarId) -> Flow<bool> {
    let call = lookup(cx, object, &Rc::from("__call__"))?;
    if let Some((_, tracker)) = call {
        cx.trace.guards.require(tracker);
    }
    Ok(call.is_some())
}

/// Looks a name up in the method resolution order of a type; `of` is the tracker of the type.
pub fn lookup_in_type<'py>(
    cx: &mut OpcodeExecutor<'py>,
    ty: &Bound<'py, PyAny>,
    of: TrackerId,
    name: &Name,
) -> Flow<Option<(Bound<'py, PyAny>, TrackerId)>> {
    let Ok(ty) = ty.cast::<PyType>() else { return Ok(None) };
    refuse_written(&cx.trace, ty, name)?;
    let key = cpython::interned(cx.py, name);
    if cx.trace.trackers.is_made(of) && cpython::is_heap_type(ty) {
        return lookup_in_made(cx, ty, of, name);
    }
    // Types that are not heap types cannot change.
    let fixed = !cpython::is_heap_type(ty);
    match cpython::type_lookup(ty, &key) {
        Some(found) if fixed => {
            let tracker = cx.trace.trackers.constant(found.clone().unbind());
            Ok(Some((found, tracker)))
        }
        Some(found) => {
            let tracker = cx.trace.trackers.add(Tracker::Lookup { of, name: Rc::clone(name) });
            Ok(Some((found, tracker)))
        }
        None => {
            if !fixed {
                cx.trace.guards.add(of, Test::LacksLookup(Rc::clone(name)));
            }
            Ok(None)
        }
    }
}

/// Breaks the graph before a lookup that would have to find what the trace has written to a class: the real class does
/// not have it yet.
fn refuse_written(trace: &Trace<'_>, ty: &Bound<'_, PyType>, name: &Name) -> Flow<()> {
    for class in trace.effects.classes_with_written(name) {
        let class = trace.vars.get(class);
        let class = class.object().and_then(|class| class.bind(trace.py).cast::<PyType>().ok());
        if class.is_some_and(|class| cpython::is_subtype(ty, class)) {
            let text =
                format!("attribute '{name}', which the function has written to the class, of an object or subclass");
            return Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, text));
        }
    }
    Ok(())
}

/// Looks a name up in the method resolution order of a class made in the trace. Its own part is known, and what its
/// bases from outside hold is guarded.
fn lookup_in_made<'py>(
    cx: &mut OpcodeExecutor<'py>,
    ty: &Bound<'py, PyType>,
    of: TrackerId,
    name: &Name,
) -> Flow<Option<(Bound<'py, PyAny>, TrackerId)>> {
    let found = cpython::type_lookup(ty, &PyString::intern(cx.py, name));
    for base in ty.mro().iter() {
        let Some(tracker) = cx.trace.identities.of(&base).map(|base| cx.trace.vars.tracker(base)) else { continue };
        if cx.trace.trackers.is_made(tracker) {
            if cpython::class_dict(&base)?.contains(&**name)? {
                break;
            }
        } else if base.cast::<PyType>().is_ok_and(cpython::is_heap_type) {
            match lookup_in_type(cx, &base, tracker, name)? {
                Some((held, tracker)) if found.as_ref().is_some_and(|found| held.is(found)) => {
                    return Ok(Some((held, tracker)));
                }
                Some((other, tracker)) => guard_identity(cx, &other, tracker),
                None => {}
            }
        }
    }
    let tracker = cx.trace.trackers.add(Tracker::Lookup { of, name: Rc::clone(name) });
    Ok(found.map(|found| (found, tracker)))
}

/// True if a type has these entries of its base class `base`, and no others under their names. Adds guards for that.
/// `of` is the tracker of the type.
pub fn inherits<'py>(
    cx: &mut OpcodeExecutor<'py>,
    (ty, of): (&Bound<'py, PyAny>, TrackerId),
    base: &Bound<'py, PyType>,
    names: &[&str],
) -> Flow<bool> {
    let mut all = true;
    for &name in names {
        let own = cpython::type_lookup(base, &PyString::intern(cx.py, name));
        let found = lookup_in_type(cx, ty, of, &Rc::from(name))?;
        if let Some((found, tracker)) = &found {
            guard_identity(cx, found, *tracker);
        }
        all &= match (found, own) {
            (Some((found, _)), Some(own)) => found.is(&own),
            (found, own) => found.is_none() && own.is_none(),
        };
    }
    Ok(all)
}

/// Looks a name up in a class (not its metaclass), without binding the result.
pub fn lookup_in_class<'py>(
    cx: &mut OpcodeExecutor<'py>,
    class: VarId,
    name: &Name,
) -> Flow<Option<Bound<'py, PyAny>>> {
    let of = cx.trace.vars.tracker(class);
    let Some(object) = cx.see(class)?.object().map(|object| object.bind(cx.py).clone()) else { return Ok(None) };
    Ok(lookup_in_type(cx, &object, of, name)?.map(|(found, _)| found))
}

/// True if the type's method of that name is a Python function.
pub fn is_python_method(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &str) -> Flow<bool> {
    let Some((found, tracker)) = lookup(cx, this, &Rc::from(name))? else { return Ok(false) };
    guard_identity(cx, &found, tracker);
    Ok(found.is_exact_instance_of::<PyFunction>())
}

/// True if `x.__class__` may differ from the type of `x`, because the type defines it or `__getattribute__`, or `x` is
/// a weak proxy.
pub fn has_own_class(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<bool> {
    let ty = cx.type_of(this)?;
    let Ok(ty) = ty.cast::<PyType>() else { return Ok(false) };
    if !cpython::is_heap_type(ty) {
        let is_proxy = || cpython::import(cx.py, "weakref")?.getattr("ProxyTypes")?.contains(ty);
        return Ok(!cpython::uses_generic_getattr(ty) && is_proxy()?);
    }
    let usual = cx.py.get_type::<PyAny>().getattr("__dict__")?.get_item("__class__")?;
    let found = cpython::type_lookup(ty, &PyString::intern(cx.py, "__class__"));
    Ok(!found.is_some_and(|found| found.is(&usual)) || is_python_method(cx, this, "__getattribute__")?)
}

/// The variable of `type(x)`.
pub fn type_variable(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
    let payload = cx.see_type(this)?;
    let ty = payload.python_type(&cx.trace);
    let tracker = payload.type_tracker(cx, this);
    Ok(cx.trace.wrap(&ty, tracker))
}

/// Returns the tracker of a value's type: below the value, or constant for a value of the trace.
pub fn type_tracker<'py>(cx: &mut OpcodeExecutor<'py>, this: VarId, ty: Bound<'py, PyAny>) -> TrackerId {
    let of = cx.trace.vars.tracker(this);
    if cx.trace.trackers.is_sourced(of) || cx.trace.trackers.is_made(of) {
        cx.trace.trackers.add(Tracker::Type { of })
    } else {
        cx.trace.trackers.constant(ty.unbind())
    }
}

/// Guards the type of an attribute of a class, and the descriptor methods of that type.
pub fn guard_descriptor<'py>(cx: &mut OpcodeExecutor<'py>, found: &Bound<'py, PyAny>, tracker: TrackerId) -> Flow<()> {
    if !cx.trace.trackers.is_sourced(tracker) {
        return Ok(());
    }
    let ty = found.get_type();
    cx.trace.guards.add(tracker, Test::TypeIs(Identity::of(ty.as_any())));
    if cpython::is_heap_type(&ty) {
        let of = cx.trace.trackers.add(Tracker::Type { of: tracker });
        for hook in ["__get__", "__set__", "__delete__"] {
            if let Some((hook, tracker)) = lookup_in_type(cx, ty.as_any(), of, &Rc::from(hook))? {
                guard_identity(cx, &hook, tracker);
            }
        }
    }
    Ok(())
}

/// Guards the identity of an object.
pub fn guard_identity(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, tracker: TrackerId) {
    if cx.trace.trackers.is_sourced(tracker) {
        cx.trace.guards.add(tracker, Test::Is(Identity::of(object)));
    }
}
