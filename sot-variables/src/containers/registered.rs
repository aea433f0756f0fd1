//! Objects of container classes that the program has registered with functions to flatten and unflatten them
//! ([`sot_core::registered::FlattenProtocol`]). C code of such a class is run on a container of stand-ins, to
//! see what it does with the items (`stand_ins.rs`).

use std::rc::Rc;
use std::sync::Arc;

use pyo3::exceptions::{PyException, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyFunction, PyString, PyTuple, PyType};
use sot_core::backend::ObjectTest;
use sot_core::bytecode::Op;
use sot_core::cpython::{self, DescriptorKind};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, Name, OpcodeExecutor, Trace};
use sot_core::foreign::{Foreign, ForeignFetch};
use sot_core::guard::{Identity, Test};
use sot_core::registered::{self, FlattenProtocol, Registration, RegistrationKind};
use sot_core::tracker::{self, Key, Tracker, TrackerId};
use sot_core::variable::{GraphArgument, Rebuild, VarId, Variable};

use crate::containers::sequence;
use crate::containers::stand_ins;
use crate::iterators::or_object_type;

sot_core::variable_kind! { "registered_container", rank: 400, when: is_container, wrap: ContainerVariable::wrap }
sot_core::variable_kind! { "registered_container_method" }

fn is_container(object: &Bound<'_, PyAny>) -> bool {
    registered::container_of(object.get_type().as_any()).is_some()
}

/// A registered container class.
#[derive(Clone)]
pub(super) struct ContainerClass(Arc<Registration>);

impl ContainerClass {
    /// Returns the class of an object, if it is a registered container class.
    pub(super) fn of(object: &Bound<'_, PyAny>) -> Option<ContainerClass> {
        registered::container_of(object.get_type().as_any()).map(ContainerClass)
    }

    pub(super) fn parts(&self) -> Flow<&FlattenProtocol> {
        match &self.0.kind {
            RegistrationKind::Container(parts) => Ok(parts),
            _ => Err(Unwind::break_graph(
                ReasonId::UnsupportedOperation,
                "an object whose class is not a registered container",
            )),
        }
    }

    /// Makes an object with these items by `unflatten`. An error if the result is of another class.
    pub(super) fn make<'py>(
        &self,
        rest: &Bound<'py, PyAny>,
        held: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.of_class(self.parts().map_err(|_| gone())?.make(rest, held)?)
    }

    /// Returns what `unflatten` has made; an error if it is of another class.
    fn of_class<'py>(&self, made: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = made.py();
        if made.get_type().is(self.object(py)) {
            return Ok(made);
        }
        let (made, class) = (tracker::name(made.get_type().as_any()), tracker::name(&self.object(py)));
        Err(PyTypeError::new_err(format!("unflatten() makes a {made}, and not a {class}")))
    }

    /// Makes an object while tracing. The graph break for an exception names the function that is to blame.
    pub(super) fn make_in_trace<'py>(
        &self,
        rest: &Bound<'py, PyAny>,
        held: &Bound<'py, PyTuple>,
    ) -> Flow<Bound<'py, PyAny>> {
        let py = rest.py();
        let made = self.parts()?.make(rest, held).map_err(|error| {
            unless_it_ends(py, error, |error| self.wrong_description(py, &format!("unflatten() raises {error}")))
        })?;
        self.of_class(made).map_err(|error| {
            unless_it_ends(py, error, |error| self.wrong_description(py, &error.value(py).to_string()))
        })
    }

    /// Takes an object apart while tracing. The graph break for an exception names the function that is to blame.
    pub(super) fn take_apart<'py>(&self, object: &Bound<'py, PyAny>) -> Flow<(Bound<'py, PyTuple>, Bound<'py, PyAny>)> {
        let py = object.py();
        self.parts()?.of(object).map_err(|error| {
            unless_it_ends(py, error, |error| self.wrong_description(py, &format!("flatten() raises {error}")))
        })
    }

    /// Returns a graph break: the registered functions do not describe the class correctly.
    pub(super) fn wrong_description(&self, py: Python<'_>, how: &str) -> Unwind {
        Unwind::break_graph(ReasonId::UnsupportedOperation, format!("{}: {how}", self.0.text(py)))
    }

    /// Returns the function by which new code makes an object, from the auxiliary data and the items.
    fn maker(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let class = self.clone();
        let make = move |args: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| {
            let held = args.get_item(1)?.cast_into::<PyTuple>()?;
            PyResult::Ok(class.make(&args.get_item(0)?, &held)?.unbind())
        };
        Ok(PyCFunction::new_closure(py, None, None, make)?.into_any().unbind())
    }

    fn object<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.0.object.bind(py).clone()
    }
}

fn gone() -> PyErr {
    PyRuntimeError::new_err("an object whose class is not a registered container")
}

/// Fetch for guards and new code: flattens an object to the tuple of its items and its auxiliary data.
struct Flattened(ContainerClass);

impl ForeignFetch for Flattened {
    fn plugin(&self) -> String {
        Python::attach(|py| self.0 .0.text(py))
    }

    fn is_of_program(&self) -> bool {
        true
    }

    fn fetch<'py>(&self, object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        self.0 .0.ask(object.py(), "flatten()", || self.load(object))
    }

    fn load<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let found = self.0.parts().map_err(|_| gone())?.of(object)?;
        PyTuple::new(object.py(), [found.0.into_any(), found.1]).map(Bound::into_any)
    }

    fn text(&self, of: &str) -> String {
        format!("flatten({of})")
    }

    fn key(&self) -> String {
        format!("{:p}", Arc::as_ptr(&self.0 .0))
    }
}

/// Guard: the auxiliary data of an object is of the same class, and equal.
struct EqualAuxiliaryData {
    rest: Py<PyAny>,
    class: ContainerClass,
}

impl ObjectTest for EqualAuxiliaryData {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        let rest = self.rest.bind(object.py());
        let ask = || self.class.0.ask(object.py(), "`==` of what flatten() gives second", || rest.eq(object));
        rest.is(object) || rest.get_type().is(object.get_type()) && ask().unwrap_or(false)
    }

    fn describe(&self, subject: &str) -> String {
        Python::attach(|py| format!("{subject} == {}", tracker::repr(py, &self.rest)))
    }
}

/// An object of a registered container class.
pub(crate) struct ContainerVariable {
    class: ContainerClass,
    held: Vec<VarId>,
    rest: Py<PyAny>,
    /// The real object, for an object from outside.
    object: Option<Py<PyAny>>,
}

impl ContainerVariable {
    fn wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, of: TrackerId) -> Flow<Rc<dyn Variable>> {
        let object = object.clone().unbind().into_bound(cx.py);
        let Some(class) = ContainerClass::of(&object) else {
            return Err(Unwind::break_graph(
                ReasonId::UnsupportedOperation,
                "an object whose class is not a registered container",
            ));
        };
        cx.note_registered(&class.0);
        let (held, rest) = class.take_apart(&object)?;
        let how = Foreign(Arc::new(Flattened(class.clone())));
        let flat = cx.trace.trackers.add(Tracker::Foreign { of, how });
        let all = cx.trace.trackers.add(Tracker::Item { of: flat, key: Key::Index(0) });
        let held = held.iter().enumerate().map(|(index, held)| {
            let tracker = cx.trace.trackers.add(Tracker::Item { of: all, key: Key::Index(index as i64) });
            cx.trace.wrap(&held, tracker)
        });
        let held = held.collect();
        Ok(Rc::new(ContainerVariable { class, held, rest: rest.unbind(), object: Some(object.unbind()) }))
    }

    /// Returns the real object, for an object from outside.
    pub(super) fn from_outside<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        Some(self.object.as_ref()?.bind(py).clone())
    }

    /// Makes an object in the trace.
    pub(super) fn make(cx: &mut OpcodeExecutor<'_>, class: ContainerClass, held: Vec<VarId>, rest: Py<PyAny>) -> VarId {
        cx.trace.produce(Rc::new(ContainerVariable { class, held, rest, object: None }))
    }

    pub(super) fn class(&self) -> &ContainerClass {
        &self.class
    }

    pub(super) fn held(&self) -> &[VarId] {
        &self.held
    }

    pub(super) fn rest<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        self.rest.bind(py)
    }

    fn name(&self, py: Python<'_>) -> String {
        tracker::name(&self.class.object(py))
    }
}

/// Returns the graph break for an `Exception` in the registered functions. An exception of another class, such as
/// `KeyboardInterrupt`, is the program's.
fn unless_it_ends(py: Python<'_>, error: PyErr, refuse: impl FnOnce(&PyErr) -> Unwind) -> Unwind {
    if error.is_instance_of::<PyException>(py) {
        refuse(&error)
    } else {
        Unwind::from(error)
    }
}

/// Calls a registered container class. Returns `None` for other classes, and for classes whose Python code has to be
/// inlined.
pub(crate) fn call_class(
    cx: &mut OpcodeExecutor<'_>,
    class: &Bound<'_, PyType>,
    args: &CallArgs,
) -> Flow<Option<VarId>> {
    if registered::container_of(class.as_any()).is_none() {
        return Ok(None);
    }
    let class = class.clone().into_any().unbind().into_bound(cx.py);
    match stand_ins::call(cx, &class, None, args) {
        // The class has Python code, which is inlined instead.
        Err(Unwind::BreakGraph(_)) if !stand_ins::is_made_by_c(&class) => Ok(None),
        made => made.map(Some),
    }
}

impl Variable for ContainerVariable {
    fn kind(&self) -> &'static str {
        "registered_container"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.class.object(trace.py)
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("ContainerVariable({}, {} held)", self.name(trace.py), self.held.len())
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        self.object.as_ref()
    }

    fn children(&self) -> Vec<VarId> {
        self.held.clone()
    }

    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        let tracker = cx.trace.vars.tracker(this);
        cx.trace.guards.add(tracker, Test::TypeIs(Identity::of(&self.class.object(cx.py))));
        let how = Foreign(Arc::new(Flattened(self.class.clone())));
        let flat = cx.trace.trackers.add(Tracker::Foreign { of: tracker, how });
        let all = cx.trace.trackers.add(Tracker::Item { of: flat, key: Key::Index(0) });
        cx.trace.guards.add(all, Test::Length(self.held.len()));
        let rest = cx.trace.trackers.add(Tracker::Item { of: flat, key: Key::Index(1) });
        let data = EqualAuxiliaryData { rest: self.rest.clone_ref(cx.py), class: self.class.clone() };
        cx.trace.guards.add(rest, Test::Object(Box::new(data)));
        Ok(())
    }

    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<GraphArgument> {
        let items = sequence::graph_items(cx, &self.held)?;
        let values = PyTuple::new(cx.py, items.values)?;
        let value = self.class.make_in_trace(self.rest.bind(cx.py), &values)?.unbind();
        Ok(GraphArgument {
            value,
            text: format!("{}({})", self.name(cx.py), items.text),
            holds_tensor: items.holds_tensor,
        })
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        let py = cg.py();
        let (make, rest) = (self.class.maker(py)?, self.rest.clone_ref(py));
        cg.begin_call(|cg| cg.load_const(make))?;
        cg.load_const(rest)?;
        for &held in &self.held {
            cg.load(held)?;
        }
        cg.op(Op::BUILD_TUPLE, self.held.len() as u32)?;
        cg.end_call(2)
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        match object_model::lookup(cx, this, name)? {
            Some((found, tracker)) if found.is_instance_of::<PyFunction>() => {
                let function = cx.trace.wrap(&found, tracker);
                let method = (cx.runtime.factories.method)(function, this);
                Ok(Some(cx.trace.produce(method)))
            }
            Some((found, _)) if DescriptorKind::of(&found) == DescriptorKind::Property => {
                object_model::get_attr(cx, this, name)
            }
            Some((found, tracker)) => {
                object_model::guard_identity(cx, &found, tracker);
                if is_method(&found) {
                    let method = ContainerMethod { receiver: this, name: Rc::clone(name), function: found.unbind() };
                    return Ok(Some(cx.trace.produce(Rc::new(method))));
                }
                stand_ins::read(cx, this, name)
            }
            None => stand_ins::read(cx, this, name),
        }
    }

    fn set_attr(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, name: &Name, _: Option<VarId>) -> Flow<()> {
        let text = format!("attribute '{name}' of a {}, a registered container, is written", self.name(cx.py));
        Err(Unwind::break_graph(ReasonId::UnsupportedMutation, text))
    }

    fn special(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &str) -> Flow<Option<VarId>> {
        let class = self.class.object(cx.py);
        let found = cpython::type_lookup(class.cast::<PyType>().map_err(PyErr::from)?, &PyString::intern(cx.py, name));
        if !found.is_some_and(|found| is_method(&found)) {
            return Ok(None);
        }
        self.get_attr(cx, this, &Rc::from(name))
    }
}

/// True if the class attribute is a method in C.
fn is_method(found: &Bound<'_, PyAny>) -> bool {
    DescriptorKind::of(found).is_c_method()
}

/// A C method bound to a registered container.
struct ContainerMethod {
    receiver: VarId,
    name: Name,
    function: Py<PyAny>,
}

impl Variable for ContainerMethod {
    fn kind(&self) -> &'static str {
        "registered_container_method"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        let types = cpython::import(trace.py, "types").and_then(|types| types.getattr("BuiltinMethodType"));
        or_object_type(trace, types)
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("ContainerMethod({}, {})", self.name, trace.text(self.receiver))
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.receiver]
    }

    fn call(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, args: &CallArgs) -> Flow<VarId> {
        let function = self.function.bind(cx.py).clone();
        if let Some(result) = cx.call_registered(None, &function, &args.with_receiver(self.receiver))? {
            return Ok(result);
        }
        let name = PyString::intern(cx.py, &self.name).into_any();
        stand_ins::call(cx, &name, Some(self.receiver), args)
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        cg.load(self.receiver)?;
        cg.load_attr(&self.name)
    }
}
