//! What C code does with a container, seen without the items: it is called on a container that holds stand-ins, which
//! refuse to be looked at. What it gives is made of stand-ins and constants, and so of the variables that they stand
//! for.

use std::cell::Cell;
use std::rc::Rc;

use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyLookupError, PyStopIteration};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFunction, PyIterator, PyString, PyTuple, PyType};
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CallArgs, Name, OpcodeExecutor};
use sot_core::tracker;
use sot_core::variable::{Form, VarId};

use crate::containers::registered::{ContainerClass, ContainerVariable};

pyo3::create_exception!(sot, LookedAt, pyo3::exceptions::PyException, "A stand-in was looked at.");

thread_local! {
    /// Whether a stand-in of this thread was looked at, whatever became of the exception.
    static LOOKED_AT: Cell<bool> = const { Cell::new(false) };
}

/// What stands for an item. It may be kept and handed on.
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

/// Variables and their stand-ins.
#[derive(Default)]
struct StandIns<'py> {
    variables: Vec<VarId>,
    objects: Vec<Bound<'py, PyAny>>,
}

impl<'py> StandIns<'py> {
    fn add(&mut self, py: Python<'py>, variable: VarId) -> PyResult<Bound<'py, PyAny>> {
        let object = Bound::new(py, ItemStandIn { index: self.variables.len() })?.into_any();
        self.variables.push(variable);
        self.objects.push(object.clone());
        Ok(object)
    }

    /// The variable that an object stands for.
    fn get(&self, object: &Bound<'py, PyAny>) -> Option<VarId> {
        let index = object.cast::<ItemStandIn>().ok()?.get().index;
        self.variables.get(index).copied()
    }

    /// A container like this one, which holds stand-ins.
    fn container(&mut self, cx: &OpcodeExecutor<'py>, of: &ContainerVariable) -> Flow<Bound<'py, PyAny>> {
        let held = of.held().iter().map(|&held| self.add(cx.py, held)).collect::<PyResult<Vec<_>>>()?;
        of.class().parts()?.make(of.rest(cx.py), &PyTuple::new(cx.py, held)?).map_err(|error| refused(&error))
    }

    /// An argument of a call: itself where it is known, or a stand-in for a tensor that the code may keep. Of an
    /// operand the code asks for the type, and so it may of what is no tensor.
    fn argument(&mut self, cx: &mut OpcodeExecutor<'py>, argument: VarId, is_operand: bool) -> Flow<Bound<'py, PyAny>> {
        if let Some(container) = cx.see_as::<ContainerVariable>(argument)? {
            return self.container(cx, &container);
        }
        let payload = cx.see(argument)?;
        if let Some(known) = payload.constant() {
            return Ok(known.bind(cx.py).clone());
        }
        if is_operand || payload.form() != Form::Tensor {
            return Err(refuse(&format!("is given {}, which it may look at", payload.text(cx))));
        }
        Ok(self.add(cx.py, argument)?)
    }

    /// A result as a variable; `this` is what the container that the code was called on is.
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
        if cx.is_constant(object) {
            return Ok(cx.constant(object.clone().unbind()));
        }
        if let Some(class) = ContainerClass::of(object) {
            let (held, rest) = class.parts()?.of(object).map_err(|error| refused(&error))?;
            let held = held.iter().map(|held| self.result(cx, &held, this)).collect::<Flow<Vec<_>>>()?;
            return Ok(ContainerVariable::make(cx, class, held, rest.unbind()));
        }
        if let Ok(items) = object.cast_exact::<PyTuple>() {
            let items = items.iter().map(|item| self.result(cx, &item, this)).collect::<Flow<Vec<_>>>()?;
            return Ok(cx.tuple(items));
        }
        if let Ok(items) = object.cast::<PyIterator>() {
            let items = items.clone().map(|item| self.result(cx, &item?, this)).collect::<Flow<Vec<_>>>()?;
            let items = cx.tuple(items);
            return cx.iter(items);
        }
        let name = tracker::name(object.get_type().as_any());
        Err(refuse(&format!("gives a {name}, which is neither held by it nor a constant")))
    }
}

fn refuse(what: &str) -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedCall, format!("code of a registered container {what}"))
}

fn refused(error: &PyErr) -> Unwind {
    refuse(&format!("raises {error} where the items are not known"))
}

/// Whether objects of a class are made by C code alone.
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

/// Calls a class, or a method of a container by its name.
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

/// Reads an attribute of a container; `None` if there is none.
pub(super) fn read(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
    let of = cx.see_as::<ContainerVariable>(this)?.map(|payload| (this, payload));
    let is_there = Cell::new(true);
    let found = with(cx, StandIns::default(), of, |object| {
        let found = object.map(|object| object.getattr_opt(&**name)).transpose()?.flatten();
        is_there.set(found.is_some());
        found.ok_or_else(|| PyLookupError::new_err(()))
    });
    match found {
        Err(Unwind::Raise(_)) if !is_there.get() => Ok(None),
        found => found.map(Some),
    }
}

/// Does something to a container that holds stand-ins.
fn with<'py>(
    cx: &mut OpcodeExecutor<'py>,
    mut stand_ins: StandIns<'py>,
    of: Option<(VarId, Rc<ContainerVariable>)>,
    work: impl FnOnce(Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>>,
) -> Flow<VarId> {
    LOOKED_AT.set(false);
    let object = match &of {
        Some((_, payload)) => Some(stand_ins.container(cx, payload)?),
        None => None,
    };
    let outcome = work(object.as_ref());
    if LOOKED_AT.get() {
        return Err(refuse("looks at what it holds"));
    }
    if let (Some((_, payload)), Some(object)) = (&of, &object) {
        let (held, rest) = payload.class().parts()?.of(object).map_err(|error| refused(&error))?;
        let variables: Option<Vec<_>> = held.iter().map(|held| stand_ins.get(&held)).collect();
        if variables.as_deref() != Some(payload.held()) || !rest.eq(payload.rest(cx.py)).unwrap_or(false) {
            return Err(refuse("changes it"));
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
        // A key or index that is not there. Any other error may come of the stand-ins.
        Err(error) if error.is_instance_of::<PyLookupError>(cx.py) => Err(cx.raise(error)),
        Err(error) if error.is_instance_of::<PyStopIteration>(cx.py) => Err(cx.raise(error)),
        Err(error) => Err(refused(&error)),
    }
}
