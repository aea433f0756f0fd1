//! Real objects that stand for values made in the trace where CPython has to look at them: in the namespace of a
//! class, or as parts of a `property`. Whoever reads such an object from the class gets the variable again
//! (`Trace::stand_for`).

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};
use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, refuse_deep_values, CallArgs, Name, OpcodeExecutor, Trace};
use sot_core::side_effects::key_of_entry;
use sot_core::tracker;
use sot_core::variable::Rebuild;
use sot_core::variable::{Form, GraphArgument, VarId, Variable};

use crate::classes::instance::InstanceVariable;
use crate::containers::dict::DictVariable;
use crate::containers::list::ListVariable;
use crate::containers::set::SetVariable;
use crate::containers::tuple::TupleVariable;
use crate::functions::cell::CellVariable;
use crate::functions::new_function;
use crate::iterators::library;

sot_core::variable_kind! { "made" }

fn refuse(what: &str) -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedCall, what)
}

/// Returns a real object for the variable. Clears `exact` if the object lacks part of the variable's state.
pub fn of<'py>(cx: &mut OpcodeExecutor<'py>, variable: VarId, exact: &mut bool) -> Flow<Bound<'py, PyAny>> {
    let payload = cx.trace.vars.get(variable);
    let hidden = payload.object().map(|object| object.bind(cx.py).clone()).filter(is_proxy);
    if let Some(object) = hidden.filter(|_| payload.form() == Form::Lazy) {
        // The mapping behind the proxy cannot be followed, but the identity of the proxy can be guarded.
        let tracker = cx.trace.vars.tracker(variable);
        object_model::guard_identity(cx, &object, tracker);
        return Ok(object);
    }
    let payload = cx.see(variable)?;
    if let Some(value) = payload.constant() {
        return Ok(value.bind(cx.py).clone());
    }
    if let Some(made) = cx.trace.vars.as_kind::<ConstructedVariable>(variable) {
        *exact &= made.exact;
        return Ok(made.object.bind(cx.py).clone());
    }
    if let Some(object) = payload.object() {
        *exact &= payload.form() == Form::Class || !cx.trace.effects.written().any(|written| written == variable);
        return Ok(object.bind(cx.py).clone());
    }
    if let Some((known, known_exact)) = cx.trace.stand_in(variable) {
        *exact &= known_exact;
        return Ok(known);
    }
    // Values can be nested arbitrarily deep.
    refuse_deep_values()?;
    let mut own = true;
    let object = new(cx, variable, &mut own)?;
    cx.trace.stand_for(&object, variable);
    cx.trace.identities.complete_stand_in(variable, own);
    *exact &= own;
    Ok(object)
}

fn is_proxy(object: &Bound<'_, PyAny>) -> bool {
    cpython::builtin_type_name(object) == "mappingproxy"
}

/// Makes the real object. A container is registered before it is filled, as it may contain itself.
fn new<'py>(cx: &mut OpcodeExecutor<'py>, variable: VarId, exact: &mut bool) -> Flow<Bound<'py, PyAny>> {
    let py = cx.py;
    let all = |cx: &mut OpcodeExecutor<'py>, items: &[VarId], exact: &mut bool| -> Flow<Vec<Bound<'py, PyAny>>> {
        items.iter().map(|&item| of(cx, item, exact)).collect()
    };
    let payload = cx.trace.vars.get(variable);
    if let Some(object) = new_function::stand_in(cx, variable, exact)? {
        return Ok(object);
    }
    if cx.trace.vars.as_kind::<CellVariable>(variable).is_some() {
        return Ok(library(py, "types", "CellType")?.into_bound(py).call0()?);
    }
    if let Some(tuple) = cx.trace.vars.as_kind::<TupleVariable>(variable) {
        if payload.python_type(&cx.trace).is(py.get_type::<PyTuple>()) {
            return Ok(PyTuple::new(py, all(cx, &tuple.items, exact)?)?.into_any());
        }
    }
    if let Some(list) = cx.see_as::<ListVariable>(variable)? {
        let copy = PyList::empty(py);
        cx.trace.stand_for(&copy, variable);
        for &item in &list.items {
            copy.append(of(cx, item, exact)?)?;
        }
        return Ok(copy.into_any());
    }
    if let Some(dict) = cx.see_as::<DictVariable>(variable)?.filter(|dict| !dict.ordered) {
        let copy = PyDict::new(py);
        cx.trace.stand_for(&copy, variable);
        for entry in &dict.entries {
            *exact &= !entry.key.is_stand_in();
            let value = of(cx, entry.value, exact)?;
            copy.set_item(entry.key.bind(py), value)?;
        }
        return Ok(copy.into_any());
    }
    if let Some(set) = cx.see_as::<SetVariable>(variable)? {
        let (copy, same) = set.copied(py)?;
        *exact &= same;
        return Ok(copy);
    }
    let ty = payload.python_type(&cx.trace).cast_into::<PyType>().map_err(PyErr::from)?;
    if cx.trace.vars.as_kind::<InstanceVariable>(variable).is_some()
        && cpython::is_heap_type(&ty)
        && !cpython::has_finalizer(&ty)
    {
        let object = py.get_type::<PyAny>().call_method1("__new__", (&ty,))?;
        cx.trace.stand_for(&object, variable);
        for (name, value) in cx.trace.effects.attributes_of(variable) {
            let value = of(cx, value, exact)?;
            match key_of_entry(&name) {
                Some(key) => object.getattr("__dict__")?.set_item(key, value)?,
                None => py.get_type::<PyAny>().call_method1("__setattr__", (&object, &*name, value)).map(drop)?,
            }
        }
        return Ok(object);
    }
    for hook in ["__get__", "__set__", "__delete__", "__set_name__"] {
        if cpython::type_lookup(&ty, &PyString::intern(py, hook)).is_some() {
            let text = format!("a {} made in the function, in a class", cpython::type_name(&ty));
            return Err(refuse(&text));
        }
    }
    *exact = false;
    Ok(py.get_type::<PyAny>().call0()?)
}

/// An object that was made for real by a call in the trace, such as a `property`, and that nothing else writes
/// besides the class it becomes part of. New code makes it by the same call.
pub struct ConstructedVariable {
    object: Py<PyAny>,
    callable: VarId,
    args: CallArgs,
    /// True if no argument had to be approximated by a stand-in.
    exact: bool,
}

/// Calls `callable(*args)` while tracing, with real objects for the values made in the trace. The callable must not
/// look into its arguments.
pub fn call(cx: &mut OpcodeExecutor<'_>, callable: Py<PyAny>, args: &CallArgs) -> Flow<VarId> {
    let mut exact = true;
    let real = args.positional.iter().map(|&arg| of(cx, arg, &mut exact)).collect::<Flow<Vec<_>>>()?;
    let keywords = PyDict::new(cx.py);
    for (name, value) in &args.keywords {
        keywords.set_item(&**name, of(cx, *value, &mut exact)?)?;
    }
    let callable = callable.into_bound(cx.py);
    match callable.call(PyTuple::new(cx.py, real)?, Some(&keywords)) {
        Ok(object) => {
            let tracker = cx.trace.trackers.constant(callable.clone().unbind());
            let callable = cx.trace.wrap(&callable, tracker);
            let payload = ConstructedVariable { object: object.clone().unbind(), callable, args: args.clone(), exact };
            Ok(cx.trace.produce_made(Rc::new(payload), &object))
        }
        Err(error) => Err(cx.raise(error)),
    }
}

/// As `call`, but breaks the graph unless all arguments are known exactly.
pub fn call_with_known(cx: &mut OpcodeExecutor<'_>, callable: Py<PyAny>, args: &CallArgs) -> Flow<VarId> {
    let name = tracker::name(callable.bind(cx.py));
    let made = call(cx, callable, args)?;
    if is_known(&cx.trace, made) {
        return Ok(made);
    }
    Err(refuse(&format!("{name}() of values that are not known while tracing")))
}

macro_rules! made_by {
    ($($item:ident = $path:literal, $module:literal, $name:literal;)+) => {$(
        builtin! { $item = $path => |cx, args| {
            let callable = library(cx.py, $module, $name)?;
            call(cx, callable, args)
        } }
    )+};
}

made_by! {
    STATIC_METHOD = "staticmethod", "builtins", "staticmethod";
    CLASS_METHOD = "classmethod", "builtins", "classmethod";
    FIELD = "dataclasses:field", "dataclasses", "field";
}

builtin! { PROPERTY = "property" => |cx, args| {
    let slots = args.named("property", ["fget", "fset", "fdel", "doc"], 0)?;
    let given = slots.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    let positional = slots[..given].iter().map(|slot| slot.unwrap_or_else(|| cx.trace.none())).collect();
    let callable = library(cx.py, "builtins", "property")?;
    call(cx, callable, &CallArgs::positional(positional))
} }

macro_rules! property_with {
    ($($item:ident = $path:literal, $name:literal;)+) => {$(
        builtin! { $item = $path => |cx, args| {
            let [property, function] = args.exactly($name)?;
            let method = cpython::builtin(cx.py, "property")?.getattr($name)?.unbind();
            call(cx, method, &CallArgs::positional(vec![property, function]))
        } }
    )+};
}

property_with! {
    GETTER = "property.getter", "getter";
    SETTER = "property.setter", "setter";
    DELETER = "property.deleter", "deleter";
}

/// Attributes of type parameters and aliases that are computed by a function of the program when they are read.
const LATE: &[&str] = &["__bound__", "__constraints__", "__default__", "__value__"];

/// True if the class is a type parameter in C, whose constructor does not look into its arguments.
pub(crate) fn is_parameter_type(class: &Bound<'_, PyType>) -> bool {
    let is = |name: &str| library(class.py(), "typing", name).is_ok_and(|known| class.is(&known));
    !cpython::is_subtype(class, &class.py().get_type::<PyType>()) && PARAMETERS.iter().any(|name| is(name))
}

const PARAMETERS: &[&str] = &["TypeVar", "ParamSpec", "TypeVarTuple"];

/// True if the variable is an object made by `call`, from arguments that are known exactly.
pub(crate) fn is_known(trace: &Trace<'_>, variable: VarId) -> bool {
    trace.vars.as_kind::<ConstructedVariable>(variable).is_some_and(|made| made.exact)
}

/// True if the variable is an object made by `call`: new code makes another one in each call.
pub(crate) fn is_constructed(trace: &Trace<'_>, variable: VarId) -> bool {
    trace.vars.as_kind::<ConstructedVariable>(variable).is_some()
}

impl Variable for ConstructedVariable {
    fn kind(&self) -> &'static str {
        "made"
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.object.bind(trace.py).get_type().into_any()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("ConstructedVariable({})", cpython::type_name(&self.object.bind(trace.py).get_type()))
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }

    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<GraphArgument> {
        if !self.exact {
            return Err(refuse("an object of values that are not known while tracing, as an argument of a statement"));
        }
        let value = self.object.clone_ref(cx.py);
        Ok(GraphArgument { value, text: cx.trace.text(this), holds_tensor: false })
    }

    fn children(&self) -> Vec<VarId> {
        self.args.all().collect()
    }

    /// Attributes such as `__doc__`, which a decorator copies from its function, are read from the stand-in.
    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        if matches!(&**name, "__dict__" | "__annotations__") {
            return Err(refuse("the attributes of an object that C code has made in the function"));
        }
        let ty = self.object.bind(cx.py).get_type();
        let is_called = cx.trace.vars.get(self.callable).object().is_some_and(|callable| callable.is(&ty));
        if &**name == "__module__" && is_parameter_type(&ty) {
            return Err(refuse("the module of a type parameter that is made in the function"));
        }
        if LATE.contains(&&**name) && !(is_called && self.exact) {
            return Err(refuse(&format!("{name} of something generic that is made in the function")));
        }
        object_model::get_attr(cx, this, name)
    }

    fn set_attr(&self, _: &mut OpcodeExecutor<'_>, _: VarId, name: &Name, _: Option<VarId>) -> Flow<()> {
        Err(refuse(&format!("writing attribute '{name}' of an object that C code has made in the function")))
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        cg.call_with(self.callable.into(), &self.args)
    }
}
