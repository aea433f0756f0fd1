//! Runs C code of registered containers on a container of stand-ins, which raise an exception if they are looked at.
//! The result consists of stand-ins and constants, and is translated back to the variables that they stand for.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyLookupError, PyStopIteration};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFunction, PyIterator, PyList, PyString, PyTuple, PyType};
use sot_core::cpython::{self, DescriptorKind};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CallArgs, Name, OpcodeExecutor, Trace};
use sot_core::guard::{same_constant, Test};
use sot_core::tracker::{self, Tracker};
use sot_core::variable::{Form, VarId};

use crate::containers::registered::{ContainerClass, ContainerVariable};

pyo3::create_exception!(sot, LookedAt, pyo3::exceptions::PyException, "A stand-in was looked at.");

thread_local! {
    /// True if a stand-in of this thread was looked at, even if the exception was swallowed.
    static LOOKED_AT: Cell<bool> = const { Cell::new(false) };
}

/// Stands in for an item. C code may store it and pass it on, but not look at it.
#[pyclass(module = "sot", frozen)]
struct ItemStandIn {
    index: usize,
}

impl ItemStandIn {
    fn refuse<T>() -> PyResult<T> {
        LOOKED_AT.set(true);
        Err(LookedAt::new_err("what a container holds is known when the graph has run"))
    }
}

#[pymethods]
impl ItemStandIn {
    fn __hash__(&self) -> PyResult<isize> {
        Self::refuse()
    }

    fn __bool__(&self) -> PyResult<bool> {
        Self::refuse()
    }

    fn __richcmp__(&self, _other: &Bound<'_, PyAny>, _op: CompareOp) -> PyResult<bool> {
        Self::refuse()
    }

    fn __getattr__(&self, _name: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        Self::refuse()
    }

    fn __repr__(&self) -> PyResult<String> {
        Self::refuse()
    }
}

/// Variables, with a stand-in for each.
#[derive(Default)]
struct StandIns<'py> {
    variables: Vec<VarId>,
    objects: Vec<Bound<'py, PyAny>>,
    /// The variables of containers that are arguments, with the containers of stand-ins in their place.
    containers: Vec<(VarId, Bound<'py, PyAny>)>,
}

impl<'py> StandIns<'py> {
    fn add(&mut self, py: Python<'py>, variable: VarId) -> PyResult<Bound<'py, PyAny>> {
        let object = Bound::new(py, ItemStandIn { index: self.variables.len() })?.into_any();
        self.variables.push(variable);
        self.objects.push(object.clone());
        Ok(object)
    }

    /// Returns the variable that a stand-in stands for.
    fn get(&self, object: &Bound<'py, PyAny>) -> Option<VarId> {
        if let Some((variable, _)) = self.containers.iter().find(|(_, stand_in)| stand_in.is(object)) {
            return Some(*variable);
        }
        let index = object.cast::<ItemStandIn>().ok()?.get().index;
        self.variables.get(index).copied()
    }

    /// True if a container of stand-ins holds what it held when it was made.
    fn is_unchanged(&self, payload: &ContainerVariable, object: &Bound<'py, PyAny>) -> Flow<bool> {
        let (held, rest) = payload.class().take_apart(object)?;
        let variables: Option<Vec<_>> = held.iter().map(|held| self.get(&held)).collect();
        if rest.eq(payload.rest(object.py())).unwrap_or(false) {
            return Ok(variables.as_deref() == Some(payload.held()));
        }
        let (_, again) = payload.class().take_apart(object)?;
        if rest.eq(again).unwrap_or(false) {
            return Ok(false);
        }
        Err(payload.class().wrong_description(object.py(), "flatten() gives what does not equal itself"))
    }

    /// Makes a container of the same kind that holds stand-ins.
    fn container(&mut self, trace: &Trace<'py>, of: &ContainerVariable) -> Flow<Bound<'py, PyAny>> {
        let held = of.held().iter().map(|&held| self.add(trace.py, held)).collect::<PyResult<Vec<_>>>()?;
        let held = PyTuple::new(trace.py, held)?;
        of.class().make_in_trace(of.rest(trace.py), &held)
    }

    /// Returns an argument for a call: a known value itself, or a stand-in for a tensor. Operands of operators must
    /// be known, as C code looks at their type; so must be values other than tensors, at which it may look.
    fn argument(&mut self, cx: &mut OpcodeExecutor<'py>, argument: VarId, is_operand: bool) -> Flow<Bound<'py, PyAny>> {
        if let Some(container) = cx.see_as::<ContainerVariable>(argument)? {
            if let Some((_, known)) = self.containers.iter().find(|(variable, _)| *variable == argument) {
                return Ok(known.clone());
            }
            let made = self.container(&cx.trace, &container)?;
            self.containers.push((argument, made.clone()));
            return Ok(made);
        }
        let payload = cx.see(argument)?;
        if let Some(known) = payload.constant() {
            return Ok(known.bind(cx.py).clone());
        }
        if is_operand || payload.form() != Form::Tensor {
            return Err(refuse(&format!("is given {}, which it may look at", payload.text(&cx.trace))));
        }
        Ok(self.add(cx.py, argument)?)
    }

    /// Translates a result to a variable. `this` is the receiver with its container of stand-ins.
    fn result(
        &self,
        cx: &mut OpcodeExecutor<'py>,
        object: &Bound<'py, PyAny>,
        this: Option<(VarId, &Bound<'py, PyAny>)>,
    ) -> Flow<VarId> {
        if let Some(variable) = self.get(object) {
            return Ok(variable);
        }
        if let Some((variable, _)) = this.filter(|(_, stand_in)| stand_in.is(object)) {
            return Ok(variable);
        }
        if object.is(cx.py.NotImplemented()) {
            return Err(refuse("leaves an operator to the other operand"));
        }
        if cx.runtime.is_constant(object) {
            return Ok(cx.trace.constant(object.clone().unbind()));
        }
        if let Some(class) = ContainerClass::of(object) {
            let (held, rest) = class.take_apart(object)?;
            refuse_unless_whole(&class, object, &held, &rest)?;
            let held = held.iter().map(|held| self.result(cx, &held, this)).collect::<Flow<Vec<_>>>()?;
            return Ok(ContainerVariable::make(cx, class, held, rest.unbind()));
        }
        if let Ok(items) = object.cast_exact::<PyTuple>() {
            let items = items.iter().map(|item| self.result(cx, &item, this)).collect::<Flow<Vec<_>>>()?;
            return Ok(cx.trace.tuple(items));
        }
        if let Ok(items) = object.cast::<PyIterator>() {
            let items = items.clone().map(|item| self.result(cx, &item?, this)).collect::<Flow<Vec<_>>>()?;
            let items = cx.trace.tuple(items);
            return cx.iter(items);
        }
        let name = tracker::name(object.get_type().as_any());
        Err(refuse(&format!("gives a {name}, which is neither held by it nor a constant")))
    }
}

/// Breaks the graph for an object whose state `flatten` does not describe completely: new code would make a different
/// object.
fn refuse_unless_whole<'py>(
    class: &ContainerClass,
    object: &Bound<'py, PyAny>,
    held: &Bound<'py, PyTuple>,
    rest: &Bound<'py, PyAny>,
) -> Flow<()> {
    let py = object.py();
    let made = class.make_in_trace(rest, held)?;
    let (held_again, rest_again) = class.take_apart(&made)?;
    let same = |one: &Bound<'py, PyAny>, other: &Bound<'py, PyAny>| is_same(one, other, &|_, _| None);
    if !same(held.as_any(), held_again.as_any()) || !rest.eq(&rest_again).unwrap_or(false) {
        return Err(class.wrong_description(py, "flatten() does not give again what unflatten() was given"));
    }
    let names = attributes(object)?.into_iter().chain(attributes(&made)?);
    for name in names {
        let both = (attribute(object, &name)?, attribute(&made, &name)?);
        if !matches!(&both, (Some(one), Some(other)) if same(one, other)) && both.0.is_some() | both.1.is_some() {
            return Err(class.wrong_description(py, &format!("flatten() does not tell of the attribute '{name}'")));
        }
    }
    Ok(())
}

/// True if the values are identical, or have equal structure over identical objects. `special` may decide a pair
/// first.
fn is_same<'py>(
    one: &Bound<'py, PyAny>,
    other: &Bound<'py, PyAny>,
    special: &dyn Fn(&Bound<'py, PyAny>, &Bound<'py, PyAny>) -> Option<bool>,
) -> bool {
    if let Some(answer) = special(one, other) {
        return answer;
    }
    if one.is(other) || cpython::is_atom(one) && same_constant(one, other) {
        return true;
    }
    if !one.get_type().is(other.get_type()) || !cpython::has_stack_to_go_on() {
        return false;
    }
    let all = |mut ones: Vec<Bound<'py, PyAny>>, others: Vec<Bound<'py, PyAny>>| {
        ones.len() == others.len() && ones.drain(..).zip(&others).all(|(one, other)| is_same(&one, other, special))
    };
    if let (Ok(one), Ok(other)) = (one.cast_exact::<PyTuple>(), other.cast_exact::<PyTuple>()) {
        return all(one.iter().collect(), other.iter().collect());
    }
    if let (Ok(one), Ok(other)) = (one.cast_exact::<PyList>(), other.cast_exact::<PyList>()) {
        return all(one.iter().collect(), other.iter().collect());
    }
    if let (Ok(one), Ok(other)) = (one.cast_exact::<PyDict>(), other.cast_exact::<PyDict>()) {
        let items = |dict: &Bound<'py, PyDict>| dict.iter().flat_map(|(key, value)| [key, value]).collect();
        return all(items(one), items(other));
    }
    false
}

/// Returns the names of an object's own attributes, from its dict and from slots of Python classes.
fn attributes(object: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let own = cpython::instance_dict(object);
    let mut names: Vec<String> =
        own.iter().flat_map(PyDictMethods::keys).filter_map(|key| key.extract().ok()).collect();
    for class in object.get_type().mro().iter().filter_map(|class| class.cast_into::<PyType>().ok()) {
        if cpython::is_heap_type(&class) {
            let held = class.getattr(intern!(object.py(), "__dict__"))?;
            for entry in held.call_method0(intern!(object.py(), "items"))?.try_iter()? {
                let (name, found): (String, Bound<'_, PyAny>) = entry?.extract()?;
                if DescriptorKind::of(&found) == DescriptorKind::Member {
                    names.push(name);
                }
            }
        }
    }
    Ok(names)
}

/// Returns an object's own attribute, from its dict or a slot.
fn attribute<'py>(object: &Bound<'py, PyAny>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let found = cpython::type_lookup(&object.get_type(), &PyString::intern(object.py(), name));
    if found.is_some_and(|found| DescriptorKind::of(&found) == DescriptorKind::Member) {
        return object.getattr_opt(name);
    }
    cpython::instance_dict(object).map_or(Ok(None), |dict| dict.get_item(name))
}

fn refuse(what: &str) -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedCall, format!("code of a registered container {what}"))
}

fn refused(error: &PyErr) -> Unwind {
    refuse(&format!("raises {error} where the items are not known"))
}

/// True if neither `__new__` nor `__init__` of the class is written in Python.
pub(super) fn is_made_by_c(class: &Bound<'_, PyAny>) -> bool {
    let Ok(class) = class.cast::<PyType>() else { return false };
    let is_python = |name: &str| {
        let found = cpython::type_lookup(class, &PyString::intern(class.py(), name));
        found.is_some_and(|found| {
            found.is_instance_of::<PyFunction>() || found.get_type().name().is_ok_and(|it| it == "staticmethod")
        })
    };
    !is_python("__init__") && !is_python("__new__")
}

/// Calls a class, or a method of a container by name, with stand-ins.
pub(super) fn call<'py>(
    cx: &mut OpcodeExecutor<'py>,
    callee: &Bound<'py, PyAny>,
    receiver: Option<VarId>,
    args: &CallArgs,
) -> Flow<VarId> {
    let mut stand_ins = StandIns::default();
    let of = match receiver {
        Some(receiver) => cx.see_as::<ContainerVariable>(receiver)?.map(|payload| (receiver, payload)),
        None => None,
    };
    let is_operator = callee.extract::<&str>().is_ok_and(|name| name.starts_with("__") && name != "__setitem__");
    let positional = args.positional.iter().map(|&arg| stand_ins.argument(cx, arg, is_operator));
    let positional = positional.collect::<Flow<Vec<_>>>()?;
    let positional = PyTuple::new(cx.py, positional)?;
    let keywords = PyDict::new(cx.py);
    for (name, arg) in &args.keywords {
        keywords.set_item(&**name, stand_ins.argument(cx, *arg, false)?)?;
    }
    with(cx, stand_ins, of, |object| match object {
        Some(object) => object.getattr(callee.cast::<PyString>()?)?.call(&positional, Some(&keywords)),
        None => callee.call(&positional, Some(&keywords)),
    })
}

/// Reads an attribute of a container; `None` if the attribute is missing.
pub(super) fn read(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
    let of = cx.see_as::<ContainerVariable>(this)?.map(|payload| (this, payload));
    let (is_made, is_there) = (Cell::new(false), Cell::new(true));
    let stood_in = RefCell::new(None);
    let read = of.clone();
    let found = with(cx, StandIns::default(), of, |object| {
        is_made.set(true);
        let found = object.map(|object| object.getattr_opt(&**name)).transpose()?.flatten();
        is_there.set(found.is_some());
        *stood_in.borrow_mut() = object.map(|object| attribute(object, name)).transpose()?.flatten();
        found.ok_or_else(|| PyLookupError::new_err(()))
    });
    // Without a container of stand-ins, the exception tells what is wrong.
    if !is_made.get() {
        return found.map(Some);
    }
    let stood_in = stood_in.take();
    if let Some((_, payload)) = read {
        refuse_undescribed(&cx.trace, &payload, name, stood_in.as_ref())?;
        assume_attribute(cx, this, &payload, name)?;
    }
    match found {
        Err(Unwind::BreakGraph(_)) if stood_in.as_ref().is_some_and(|held| !is_result(&cx.trace, held)) => {
            let class = stood_in.map_or_else(String::new, |held| tracker::name(held.get_type().as_any()));
            let class = class.strip_prefix("builtins.").unwrap_or(&class);
            Err(Unwind::break_graph(
                ReasonId::UnsupportedOperation,
                format!(
                    "the attribute '{name}' of a registered container is a {class}; flatten() must give it, or do not \
                     register the class"
                ),
            ))
        }
        Err(Unwind::Raise(_)) if !is_there.get() => Ok(None),
        found => found.map(Some),
    }
}

/// True if an object may be a result of code of a container.
fn is_result(trace: &Trace<'_>, object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<ItemStandIn>()
        || trace.runtime.is_constant(object)
        || ContainerClass::of(object).is_some()
        || object.cast_exact::<PyTuple>().is_ok_and(|items| items.iter().all(|item| is_result(trace, &item)))
}

/// Breaks the graph for an attribute that `flatten` does not describe: the object from outside has a different value
/// than the container of stand-ins.
fn refuse_undescribed<'py>(
    trace: &Trace<'py>,
    payload: &ContainerVariable,
    name: &str,
    stood_in: Option<&Bound<'py, PyAny>>,
) -> Flow<()> {
    let Some(object) = payload.from_outside(trace.py) else { return Ok(()) };
    let Some(own) = attribute(&object, name)? else { return Ok(()) };
    let (held, _) = payload.class().take_apart(&object)?;
    let is_held = |own: &Bound<'py, PyAny>, stand_in: &Bound<'py, PyAny>| {
        let index = stand_in.cast::<ItemStandIn>().ok()?.get().index;
        let is_it = |held: Bound<'py, PyAny>| held.is(own) || cpython::is_atom(own) && same_constant(&held, own);
        Some(held.get_item(index).is_ok_and(is_it))
    };
    if stood_in.is_some_and(|stood_in| is_same(&own, stood_in, &is_held)) {
        return Ok(());
    }
    Err(payload.class().wrong_description(trace.py, &format!("flatten() does not tell of the attribute '{name}'")))
}

/// Guards an attribute of an object from outside that is a number, a text or the like. The attribute may agree with
/// the container of stand-ins by chance only, if `flatten` does not describe it.
fn assume_attribute(cx: &mut OpcodeExecutor<'_>, this: VarId, payload: &ContainerVariable, name: &Name) -> Flow<()> {
    let of = cx.trace.vars.tracker(this);
    let Some(object) = payload.from_outside(cx.py).filter(|_| cx.trace.trackers.is_sourced(of)) else { return Ok(()) };
    let Some(own) = attribute(&object, name)?.filter(cpython::is_atom) else { return Ok(()) };
    let name = Rc::clone(name);
    let tracker = match cpython::instance_dict(&object).map(|dict| dict.contains(&*name)).transpose()? {
        Some(true) => Tracker::Attribute { of, name },
        _ => Tracker::Getattr { of, name },
    };
    let tracker = cx.trace.trackers.add(tracker);
    cx.trace.guards.add(tracker, Test::Equals(own.unbind()));
    Ok(())
}

/// Runs work on a container of stand-ins, and translates its result. Breaks the graph if the work looks at a stand-in
/// or changes the container.
fn with<'py>(
    cx: &mut OpcodeExecutor<'py>,
    mut stand_ins: StandIns<'py>,
    of: Option<(VarId, Rc<ContainerVariable>)>,
    work: impl FnOnce(Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>>,
) -> Flow<VarId> {
    LOOKED_AT.set(false);
    let object = match &of {
        Some((_, payload)) => Some(stand_ins.container(&cx.trace, payload)?),
        None => None,
    };
    let outcome = work(object.as_ref());
    if LOOKED_AT.get() {
        return Err(refuse("looks at what it holds"));
    }
    if let (Some((_, payload)), Some(object)) = (&of, &object) {
        if !stand_ins.is_unchanged(payload, object)? {
            return Err(refuse("changes it"));
        }
    }
    for (variable, object) in &stand_ins.containers {
        let Some(payload) = cx.trace.vars.as_kind::<ContainerVariable>(*variable) else { continue };
        if !stand_ins.is_unchanged(&payload, object)? {
            return Err(refuse("changes an argument"));
        }
    }
    match outcome {
        Ok(result) => {
            let this = of.as_ref().map(|(variable, _)| *variable).zip(object.as_ref());
            let made = stand_ins.result(cx, &result, this)?;
            if LOOKED_AT.get() {
                return Err(refuse("looks at what it holds"));
            }
            Ok(made)
        }
        // A missing key or index. Any other error could be caused by the stand-ins.
        Err(error) if error.is_instance_of::<PyLookupError>(cx.py) => Err(cx.raise(error)),
        Err(error) if error.is_instance_of::<PyStopIteration>(cx.py) => Err(cx.raise(error)),
        Err(error) => Err(refused(&error)),
    }
}
