//! Library functions that do nothing but make or complete a class. They are called while tracing, on the real class.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};
use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::executor::{OpcodeExecutor, Trace};
use sot_core::side_effects::Effect;
use sot_core::variable::{Form, VarId};

use super::{class_of, is_followed, refuse, ClassChange, MadeClass};
use crate::builtins::{frame, types};
use crate::classes::class::ClassVariable;
use crate::classes::stand_in;
use crate::iterators::library;

// Initialises the C state of an abstract base class.
builtin! { ABC_INIT = "_abc:_abc_init" => |cx, args| {
    let [class] = args.exactly("_abc_init")?;
    complete(cx, "_abc", "_abc_init", vec![class])
} }

// `register` depends on nothing but the two classes' bases.
builtin! { ABC_REGISTER = "_abc:_abc_register" => |cx, args| {
    let [class, subclass] = args.exactly("_abc_register")?;
    let made = cx.see_as::<ClassVariable>(class)?.and_then(|class| class.made());
    let made = made.ok_or_else(|| refuse("register() of a class from outside the function"))?;
    let (Some(real), Some(registered)) = (class_of(cx, class)?, class_of(cx, subclass)?) else {
        return Err(refuse("register() of what is no class"));
    };
    if types::has_own_hook(&real) {
        return Err(refuse("register() of a class with a __subclasshook__ of its own"));
    }
    let function = library(cx.py, "_abc", "_abc_register")?;
    function.bind(cx.py).call1((&real, registered)).map_err(|error| cx.raise(error))?;
    let registering = ClassChange::Call(Rc::new(function), vec![class, subclass]);
    let changes = made.changes.iter().cloned().chain([registering]).collect();
    let told = made.writes == cx.trace.effects.len();
    cx.trace.effects.record(Effect::Contents { container: class });
    let writes = if told { cx.trace.effects.len() } else { usize::MAX };
    let made = MadeClass { changes, writes, ..(*made).clone() };
    cx.trace.vars.set(class, Rc::new(ClassVariable::of(real.into_any().unbind(), made)));
    Ok(subclass)
} }

builtin! { PROCESS_DATACLASS = "dataclasses:_process_class" => |cx, args| {
    if let Some((name, _)) = args.keywords.first() {
        return Err(refuse(format!("dataclasses._process_class({name}=...)")));
    }
    let slots = args.positional.get(SLOTS).map(|&slots| cx.truth(slots)).transpose()?;
    if let (Some(true), Some(&class)) = (slots, args.positional.first()) {
        // `slots=True` makes a new class from the namespace of this one.
        let class = class_of(cx, class)?.filter(|class| runs_nothing_when_made(class).unwrap_or(false));
        class.ok_or_else(|| refuse("a dataclass with slots whose making runs code of the program"))?;
    }
    complete(cx, "dataclasses", "_process_class", args.positional.clone())
} }

/// The index of `slots` among the arguments of `dataclasses._process_class`.
const SLOTS: usize = 9;

/// True if a copy of this class can be made without running code of the program.
fn runs_nothing_when_made(class: &Bound<'_, PyType>) -> PyResult<bool> {
    let py = class.py();
    if !class.get_type().is(py.get_type::<PyType>()) {
        return Ok(false);
    }
    let field = library(py, "dataclasses", "Field")?.into_bound(py);
    for value in cpython::class_dict(class)?.call_method0("values")?.try_iter()? {
        let ty = value?.get_type();
        let hook = cpython::type_lookup(&ty, &PyString::intern(py, "__set_name__"));
        // `dataclasses` removes fields from the namespace of the new class.
        if !ty.is(&field) && hook.is_some_and(|hook| is_followed(&hook)) {
            return Ok(false);
        }
    }
    for base in class.mro().iter() {
        if cpython::class_dict(&base)?.get_item("__init_subclass__").is_ok_and(|hook| is_followed(&hook)) {
            return Ok(false);
        }
    }
    Ok(true)
}

builtin! { NAMED_TUPLE = "collections:namedtuple" => |cx, args| {
    let names = ["typename", "field_names", "rename", "defaults", "module"];
    let [name, fields, rename, defaults, module] = args.named("namedtuple", names, 2)?;
    let (Some(name), Some(fields), true) = (name, fields, args.positional.len() < 3) else {
        return Err(refuse("namedtuple() with these arguments"));
    };
    let module = match module {
        Some(module) if !cx.known(module)?.is_some_and(|module| module.is_none()) => module,
        _ => frame::module_of_caller(cx)?,
    };
    // A copy of the field names, as the program may change the sequence later.
    let fields = match cx.known_str(fields)? {
        Some(_) => fields,
        None => {
            let fields = cx.unpack_all(fields)?;
            cx.trace.tuple(fields)
        }
    };
    let defaults = match defaults {
        Some(defaults) if !cx.known(defaults)?.is_some_and(|defaults| defaults.is_none()) => {
            let defaults = cx.unpack_all(defaults)?;
            for &value in &defaults {
                let form = cx.see(value)?.form();
                let lasts = matches!(form, Form::Class | Form::Function | Form::BuiltinFunction | Form::Module);
                // The class would hold the value from the traced call, also in later calls.
                if cx.known(value)?.is_none() && !lasts && cx.trace.trackers.is_sourced(cx.trace.vars.tracker(value)) {
                    return Err(refuse("namedtuple() with an object from outside as a default"));
                }
            }
            cx.trace.tuple(defaults)
        }
        _ => cx.trace.none(),
    };
    let rename = rename.unwrap_or_else(|| cx.trace.boolean(false));
    let parts = vec![name, fields, rename, defaults, module];
    let mut exact = true;
    let real = parts.iter().map(|&part| stand_in::of(cx, part, &mut exact)).collect::<Flow<Vec<_>>>()?;
    if !exact {
        return Err(refuse("namedtuple() of values that are not known while tracing"));
    }
    let maker = named_tuple_maker(cx.py)?;
    match maker.bind(cx.py).clone().call1(PyTuple::new(cx.py, real)?) {
        Ok(class) => Ok(made_by(cx, maker, parts, &class)),
        Err(error) => Err(cx.raise(error)),
    }
} }

/// Returns the function by which a named tuple class is made, both while tracing and in new code.
fn named_tuple_maker(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static MAKER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || -> PyResult<Py<PyAny>> {
        let make =
            cpython::fastcall(py, "__make_named_tuple__", "A named tuple of a module.", |py, values| match values {
                [name, fields, rename, defaults, module] => {
                    let keywords = PyDict::new(py);
                    for (key, value) in [("rename", rename), ("defaults", defaults), ("module", module)] {
                        keywords.set_item(key, value)?;
                    }
                    let make = cpython::import(py, "collections")?.getattr("namedtuple")?;
                    Ok(make.call((name, fields), Some(&keywords))?.unbind())
                }
                _ => Err(pyo3::exceptions::PyTypeError::new_err("the parts of a named tuple are expected")),
            })?;
        Ok(make.unbind())
    };
    Ok(MAKER.get_or_try_init(py, make)?.clone_ref(py))
}

/// Returns the variable of a class that a single call of `maker` has made, from known values only.
fn made_by<'py>(cx: &mut OpcodeExecutor<'py>, maker: Py<PyAny>, parts: Vec<VarId>, class: &Bound<'py, PyAny>) -> VarId {
    let made = MadeClass {
        maker: Rc::new(maker),
        parts,
        changes: Vec::new(),
        exact: true,
        writes: cx.trace.effects.len(),
        answers: Vec::new(),
    };
    cx.trace.produce_made(Rc::new(ClassVariable::of(class.clone().unbind(), made)), class)
}

/// True if no write since the class was made can have changed which of its members are abstract.
fn is_as_abstract(trace: &Trace<'_>, class: VarId, made: &MadeClass) -> bool {
    let has_no_say = |effect: &Effect| match effect {
        Effect::Contents { container } => *container != class,
        Effect::Attribute { object, name, .. } => *object != class && &**name != "__isabstractmethod__",
        Effect::Global { .. } => true,
        _ => false,
    };
    trace.effects.log().get(made.writes..).is_some_and(|later| later.iter().all(has_no_say))
}

/// Calls a function whose only effect is to complete a class made in the trace. The function returns that class, a
/// new class made from it, or `None`.
fn complete(cx: &mut OpcodeExecutor<'_>, module: &str, name: &str, args: Vec<VarId>) -> Flow<VarId> {
    let function = library(cx.py, module, name)?;
    let class = args.first().copied().ok_or_else(|| refuse(format!("{name}() without a class")))?;
    let made = match cx.see_as::<ClassVariable>(class)?.and_then(|class| class.made()) {
        Some(made)
            if made.writes != cx.trace.effects.len()
                && !(name == "_abc_init" && is_as_abstract(&cx.trace, class, &made)) =>
        {
            return Err(refuse(format!("{name}() of a class that the function did not just make")));
        }
        Some(made) if made.exact => made,
        _ => return Err(refuse(format!("{name}() of a class with values that are not known while tracing"))),
    };
    let mut exact = true;
    let real = args.iter().map(|&arg| stand_in::of(cx, arg, &mut exact)).collect::<Flow<Vec<_>>>()?;
    let object = real[0].clone();
    let result = function.bind(cx.py).clone().call1(PyTuple::new(cx.py, real)?);
    let result = result.map_err(|error| refuse(format!("{name}() that raises {error}")))?;
    if !exact {
        return Err(refuse(format!("{name}() of values that are not known while tracing")));
    }
    if !(result.is(&object) || result.is_none()) {
        // The first class in its current state: later writes to it do not affect the new class.
        let now = cx.trace.produce(Rc::new(ClassVariable::of(object.unbind(), (*made).clone())));
        let parts = std::iter::once(now).chain(args.into_iter().skip(1)).collect();
        return Ok(made_by(cx, function, parts, &result));
    }
    let changes = made.changes.iter().cloned().chain([ClassChange::Call(Rc::new(function), args)]).collect();
    let made = MadeClass { changes, ..(*made).clone() };
    cx.trace.vars.set(class, Rc::new(ClassVariable::of(object.unbind(), made)));
    Ok(if result.is_none() { cx.trace.none() } else { class })
}
