//! `super`: attribute lookup in the method resolution order after a class.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PySuper, PyTuple, PyType};

use sot_core::builtin;
use sot_core::cpython::{self, DescriptorKind};
use sot_core::error::{Flow, Reason, ReasonId, Unwind};
use sot_core::executor::{object_model, Name, OpcodeExecutor, Trace};
use sot_core::tracker::{Key, Tracker, TrackerId};
use sot_core::variable::Rebuild;
use sot_core::variable::{Form, VarId, Variable};

use crate::functions::cell::CellVariable;

builtin! { SUPER = "super" => |cx, args| match args.positional[..] {
    [] if args.keywords.is_empty() => {
        let (class, receiver) = class_and_receiver(cx)?;
        match SuperVariable::build(cx, class, receiver) {
            // `super()` itself has to raise, so the frame is left to CPython: behind a break, it would not find the
            // method's frame.
            Err(Unwind::Raise(_) | Unwind::BreakGraph(_)) => {
                let text = "super() of an object that is not an instance of the class";
                Err(cx.stack.leave_to_cpython(Reason::new(ReasonId::UnsupportedCall, text)))
            }
            built => built,
        }
    }
    [class, receiver] if args.keywords.is_empty() => SuperVariable::build(cx, class, receiver),
    _ => Err(Unwind::break_graph(ReasonId::UnsupportedCall, "an unbound super()")),
} }

sot_core::variable_kind! {
    "super",
    types: |py| Ok(vec![py.get_type::<PySuper>().into_any().unbind()]),
    wrap: SuperVariable::wrap
}

/// A bound `super` object.
pub struct SuperVariable {
    class: VarId,
    receiver: VarId,
    /// Where the search starts: the receiver's type, or the receiver itself if it is a class.
    start: Py<PyType>,
    on_class: bool,
    /// The real object, for a `super` object from outside.
    object: Option<Py<PyAny>>,
}

/// Returns the class and first argument of the running method, as `super()` without arguments finds them.
fn class_and_receiver(cx: &mut OpcodeExecutor<'_>) -> Flow<(VarId, VarId)> {
    let code = Rc::clone(&cx.stack.frame().code);
    let cells = cx.stack.frame().cells.clone();
    let first = if let Some(first) = cx.stack.local(0) {
        Some(first)
    } else {
        let name = code.varnames().first().cloned();
        let cell = code.code.cellvars.iter().position(|cell| Some(cell.as_str()) == name.as_deref());
        contents(cx, cell.and_then(|cell| cells.get(cell).copied()))?
    };
    let free = code.code.freevars.iter().position(|name| name == "__class__");
    let cell = free.and_then(|free| cells.get(code.code.cellvars.len() + free).copied());
    let class = contents(cx, cell)?.filter(|_| code.code.arg_count > 0);
    match (class, first) {
        (Some(class), Some(first)) if class_of(cx, class)?.is_some() => Ok((class, first)),
        // CPython's error message depends on what it finds in the frame.
        _ => Err(cx.stack.leave_to_cpython(Reason::new(ReasonId::UnsupportedCall, "super() outside of a method"))),
    }
}

/// Reads an attribute of a real `super` object that says how it was made. Breaks the graph if the classes that the
/// object searches have an attribute of that name.
fn made_of<'py>(cx: &mut OpcodeExecutor<'py>, object: &Bound<'py, PyAny>, of: TrackerId, name: &str) -> Flow<VarId> {
    let value = cx.py.get_type::<PySuper>().getattr(name)?.call_method1("__get__", (object,))?;
    if !object.getattr(name)?.is(&value) {
        let text = format!("super() of a class that has an attribute '{name}'");
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
    }
    let tracker = cx.trace.trackers.add(Tracker::Getattr { of, name: name.into() });
    Ok(cx.trace.wrap(&value, tracker))
}

fn contents(cx: &mut OpcodeExecutor<'_>, cell: Option<VarId>) -> Flow<Option<VarId>> {
    let Some(cell) = cell else { return Ok(None) };
    Ok(cx.see_as::<CellVariable>(cell)?.and_then(|cell| cell.contents()))
}

/// Raises CPython's error for operands of a wrong type. Breaks the graph if CPython accepts them after all, as
/// `__class__` may be overridden.
fn refusal(cx: &mut OpcodeExecutor<'_>, class: VarId, receiver: VarId) -> Flow<Unwind> {
    let object = |cx: &mut OpcodeExecutor<'_>, variable| -> Flow<Option<Py<PyAny>>> {
        let own = cx.see(variable)?.object().map(|object| object.clone_ref(cx.py));
        Ok(match own {
            None => cx.known(variable)?.map(Bound::unbind),
            own => own,
        })
    };
    if let (Some(class), Some(receiver)) = (object(cx, class)?, object(cx, receiver)?) {
        if let Err(error) = cx.py.get_type::<PySuper>().call1((class, receiver)) {
            return Ok(cx.raise(error));
        }
    }
    Ok(Unwind::break_graph(ReasonId::UnsupportedCall, "super() of an object that is not an instance of the class"))
}

/// Returns the class that a variable stands for, if it is a class.
fn class_of<'py>(cx: &mut OpcodeExecutor<'py>, variable: VarId) -> Flow<Option<Bound<'py, PyType>>> {
    let object = cx.see(variable)?.object().map(|object| object.bind(cx.py).clone());
    Ok(object.and_then(|object| object.cast_into::<PyType>().ok()))
}

impl SuperVariable {
    fn build(cx: &mut OpcodeExecutor<'_>, class: VarId, receiver: VarId) -> Flow<VarId> {
        let made = Self::of(cx, class, receiver, None)?;
        Ok(cx.trace.produce(Rc::new(made)))
    }

    /// Wraps an object from outside: the operands it was made of can be read, and do not change.
    fn wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, of: TrackerId) -> Flow<Rc<dyn Variable>> {
        let object = &object.clone().unbind().into_bound(cx.py);
        let (class, receiver) = (made_of(cx, object, of, "__thisclass__")?, made_of(cx, object, of, "__self__")?);
        if object.getattr("__self_class__")?.is_none() {
            return Err(Unwind::break_graph(ReasonId::UnsupportedCall, "an unbound super()"));
        }
        Ok(Rc::new(Self::of(cx, class, receiver, Some(object.clone().unbind()))?))
    }

    fn of(
        cx: &mut OpcodeExecutor<'_>,
        class: VarId,
        receiver: VarId,
        object: Option<Py<PyAny>>,
    ) -> Flow<SuperVariable> {
        let Some(base) = class_of(cx, class)? else {
            return Err(refusal(cx, class, receiver)?);
        };
        let as_class = class_of(cx, receiver)?.filter(|ty| cpython::is_subtype(ty, &base));
        let on_class = as_class.is_some();
        let start = match as_class {
            Some(class) => class,
            None => cx.type_of(receiver)?.cast_into::<PyType>().map_err(PyErr::from)?,
        };
        if !cpython::is_subtype(&start, &base) {
            return Err(refusal(cx, class, receiver)?);
        }
        // A class has no MRO yet while its metaclass computes the order.
        if !start.getattr("__mro__")?.is_instance_of::<PyTuple>() {
            return Err(Unwind::break_graph(ReasonId::UnsupportedCall, "super() of a class that is being made"));
        }
        let start = start.unbind();
        Ok(SuperVariable { class, receiver, start, on_class, object })
    }

    /// Returns the tracker of the type where the search starts.
    fn start_tracker(&self, cx: &mut OpcodeExecutor<'_>) -> Flow<TrackerId> {
        if self.on_class {
            return Ok(cx.trace.vars.tracker(self.receiver));
        }
        Ok(cx.see(self.receiver)?.type_tracker(cx, self.receiver))
    }

    /// Looks a name up in the classes that follow `class` in the MRO.
    fn find<'py>(&self, cx: &mut OpcodeExecutor<'py>, name: &Name) -> Flow<Option<(Bound<'py, PyAny>, TrackerId)>> {
        let start = self.start.bind(cx.py).clone();
        let Some(class) = class_of(cx, self.class)? else { return Ok(None) };
        let order = start.getattr("__mro__")?.cast_into::<PyTuple>().map_err(PyErr::from)?;
        let of = self.start_tracker(cx)?;
        let own = order.iter().position(|base| base.is(&class)).map_or(0, |own| own + 1);
        for (index, base) in order.iter().enumerate().skip(own) {
            let tracker = base_tracker(cx, of, &base, index);
            // If the MRO of a base equals the rest of the order, a lookup in that base covers all remaining classes.
            if follows(&base, &order, index)? || base.getattr("__dict__")?.contains(&**name)? {
                return object_model::lookup_in_type(cx, &base, tracker, name);
            }
            if let Some((later, tracker)) = object_model::lookup_in_type(cx, &base, tracker, name)? {
                object_model::guard_identity(cx, &later, tracker);
            }
        }
        Ok(None)
    }

    fn bind<'py>(
        &self,
        cx: &mut OpcodeExecutor<'py>,
        name: &Name,
        found: &Bound<'py, PyAny>,
        tracker: TrackerId,
    ) -> Flow<VarId> {
        if !self.on_class {
            return object_model::bind_descriptor(cx, self.receiver, name, found, tracker);
        }
        match DescriptorKind::of(found) {
            DescriptorKind::ClassMethod => object_model::bind_class_method(cx, self.receiver, found, tracker),
            DescriptorKind::StaticMethod => {
                let inner = found.getattr("__func__")?;
                let tracker = cx.trace.trackers.add(Tracker::Getattr { of: tracker, name: "__func__".into() });
                Ok(cx.trace.wrap(&inner, tracker))
            }
            DescriptorKind::CClassMethod => {
                let payload = (cx.runtime.factories.builtin_method)(found.clone().unbind(), self.receiver);
                Ok(cx.trace.produce(payload))
            }
            DescriptorKind::Function
            | DescriptorKind::Method
            | DescriptorKind::SlotWrapper
            | DescriptorKind::BuiltinFunction => Ok(cx.trace.wrap(found, tracker)),
            _ if !cpython::is_descriptor(found) => Ok(cx.trace.wrap(found, tracker)),
            _ => Err(Unwind::break_graph(
                ReasonId::UnsupportedAttribute,
                format!("attribute '{name}' of super(), implemented by a {}", cpython::type_name(&found.get_type())),
            )),
        }
    }
}

fn base_tracker(cx: &mut OpcodeExecutor<'_>, of: TrackerId, base: &Bound<'_, PyAny>, index: usize) -> TrackerId {
    if let Some(met) = cx.trace.identities.of(base).filter(|_| cx.trace.trackers.is_made(of)) {
        return cx.trace.vars.tracker(met);
    }
    if !cx.trace.trackers.is_sourced(of) {
        return cx.trace.trackers.constant(base.clone().unbind());
    }
    let order = cx.trace.trackers.add(Tracker::Getattr { of, name: "__mro__".into() });
    cx.trace.trackers.add(Tracker::Item { of: order, key: Key::Index(index as i64) })
}

fn follows(base: &Bound<'_, PyAny>, order: &Bound<'_, PyTuple>, index: usize) -> PyResult<bool> {
    let own = base.getattr("__mro__")?.cast_into::<PyTuple>()?;
    Ok(own.len() == order.len() - index && own.iter().zip(order.iter().skip(index)).all(|(a, b)| a.is(&b)))
}

impl Variable for SuperVariable {
    fn kind(&self) -> &'static str {
        "super"
    }

    fn form(&self) -> Form {
        Form::Super
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        trace.py.get_type::<PySuper>().into_any()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("SuperVariable({}, {})", trace.text(self.class), trace.text(self.receiver))
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        self.object.as_ref()
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.class, self.receiver]
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        let ty = cg.py().get_type::<PySuper>().into_any().unbind();
        cg.call(|cg| cg.load_const(ty), self.children())
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        if &**name == "__class__" {
            return object_model::type_variable(cx, this).map(Some);
        }
        match self.find(cx, name)? {
            Some((found, tracker)) => self.bind(cx, name, &found, tracker).map(Some),
            None => object_model::get_attr(cx, this, name),
        }
    }
}
