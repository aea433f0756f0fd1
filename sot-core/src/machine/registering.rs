//! Checks what a program may register at run time, on every backend, and puts it into the table of
//! [`crate::registered`]. A registration that is not allowed raises an error that says why.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyFunction, PyModule, PySet, PyString, PyType};

use crate::cache;
use crate::cpython::{self, DescriptorKind};
use crate::machine::runtime::Runtime;
use crate::registered::{self, RegistrationKind};
use crate::tracker;

/// Registers a meaning of an object. Returns a token for [`undo`]. `below` is true if the functions that a disabled
/// function calls are left alone, too.
pub fn register(runtime: &Runtime, object: &Bound<'_, PyAny>, kind: RegistrationKind, below: bool) -> PyResult<u64> {
    let object = function_of_method(object, &kind)?;
    check(runtime, &object, &kind)?;
    let disables = matches!(kind, RegistrationKind::Disabled);
    let token = registered::register(&object, kind)?;
    leave_frames(runtime, &object, disables.then_some(below))?;
    Ok(token)
}

/// Takes a registration back. Has no effect the second time.
pub fn undo(runtime: &Runtime, py: Python<'_>, token: u64) -> PyResult<()> {
    let Some(registration) = registered::undo(py, token)? else { return Ok(()) };
    let object = registration.object.bind(py);
    if matches!(registration.kind, RegistrationKind::Disabled) {
        if let Some(code) = own_code(runtime, object)? {
            cache::disable(&code, None);
        }
    }
    leave_frames(runtime, object, None)
}

/// Returns the object to register: the function of a bound method, else the object.
fn function_of_method<'py>(object: &Bound<'py, PyAny>, kind: &RegistrationKind) -> PyResult<Bound<'py, PyAny>> {
    let shown = || tracker::repr(object.py(), object.as_unbound());
    let call = kind.call();
    match kind {
        RegistrationKind::Value | RegistrationKind::Container(_) => {
            if !object.is_instance_of::<PyType>() {
                return Err(PyTypeError::new_err(format!("{call}() takes a class, not {}", shown())));
            }
            return Ok(object.clone());
        }
        RegistrationKind::Skipped | RegistrationKind::Followed => return Ok(object.clone()),
        _ => {}
    }
    if let Some((function, _)) = cpython::bound_method(object) {
        return Ok(function);
    }
    // A class body contains these objects; calls find the function inside.
    if matches!(DescriptorKind::of(object), DescriptorKind::StaticMethod | DescriptorKind::ClassMethod) {
        return object.getattr(intern!(object.py(), "__func__"));
    }
    if !object.is_callable() {
        return Err(PyTypeError::new_err(format!("{call}() takes callables; {} is not callable", shown())));
    }
    if object.is_instance_of::<PyCFunction>() && !is_lasting(object)? {
        return Err(PyTypeError::new_err(format!(
            "{call}() cannot know {} again, as each lookup makes a new one: give the function of its class (list.append, \
             not [].append)",
            shown()
        )));
    }
    Ok(object.clone())
}

/// True if a C function belongs to a module. A C method is bound anew at each lookup.
fn is_lasting(function: &Bound<'_, PyAny>) -> PyResult<bool> {
    match function.getattr_opt(intern!(function.py(), "__self__"))? {
        Some(receiver) => Ok(receiver.is_none() || receiver.is_instance_of::<PyModule>()),
        None => Ok(true),
    }
}

fn check(runtime: &Runtime, object: &Bound<'_, PyAny>, kind: &RegistrationKind) -> PyResult<()> {
    let (shown, call) = (tracker::name(object), kind.call());
    match kind {
        RegistrationKind::Value => check_value(runtime, object),
        RegistrationKind::Container(parts) => {
            if let Some(what) = framework_class(runtime, object)? {
                return Err(PyValueError::new_err(format!("{call}({shown}): {what}")));
            }
            for (name, function) in [("flatten", &parts.flatten), ("unflatten", &parts.unflatten)] {
                if !function.bind(object.py()).is_callable() {
                    let function = tracker::repr(object.py(), function);
                    return Err(PyTypeError::new_err(format!("{call}({shown}): {name} is {function}, not callable")));
                }
            }
            if runtime.kinds.of_type(object).is_some() || runtime.builtins.has(object) {
                return Err(PyValueError::new_err(format!(
                    "{call}({shown}): {} already knows what its instances are",
                    runtime.package
                )));
            }
            Ok(())
        }
        RegistrationKind::Disabled if !object.is_instance_of::<PyFunction>() => {
            let text = "takes Python functions and methods, whose frames are left alone";
            Err(PyTypeError::new_err(format!("{call}() {text}; give the one that runs, not {shown}")))
        }
        RegistrationKind::Skipped | RegistrationKind::Followed => {
            let name = registered::name_of(object).map_err(|_| {
                let shown = tracker::repr(object.py(), object.as_unbound());
                PyTypeError::new_err(format!("{call}() takes a module or the name of one; {shown} is not a module"))
            })?;
            let why = match why_not_registered(&name, &runtime.package) {
                None => registered::why_without_effect(object, kind)?,
                why => why,
            };
            why.map_or(Ok(()), |why| Err(PyValueError::new_err(format!("{call}({name}): {why}"))))
        }
        RegistrationKind::Break | RegistrationKind::Disabled => Ok(()),
        RegistrationKind::Pure | RegistrationKind::ConstantResult | RegistrationKind::Statement if suspends(object) => {
            Err(PyTypeError::new_err(format!(
                "{call}({shown}): its calls return generators or coroutines, which run later and only once"
            )))
        }
        RegistrationKind::Statement | RegistrationKind::Substitute(_) | RegistrationKind::ConstantResult
            if object.is_instance_of::<PyType>() =>
        {
            Err(PyTypeError::new_err(format!("{call}() takes functions and callable objects; {shown} is a class")))
        }
        _ if runtime.builtins.has(object) => Err(PyValueError::new_err(format!(
            "{call}({shown}): {} already knows what calls of it do",
            runtime.package
        ))),
        RegistrationKind::Substitute(by) if !by.bind(object.py()).is_instance_of::<PyFunction>() => {
            let by = tracker::repr(object.py(), by);
            Err(PyTypeError::new_err(format!("{call}({shown}): only a Python function can be followed, not {by}")))
        }
        RegistrationKind::Substitute(by) if by.is(object) => {
            Err(PyValueError::new_err(format!("{call}({shown}): a function cannot stand for itself")))
        }
        RegistrationKind::Substitute(by) if leads_to(by.bind(object.py()), object) => {
            Err(PyValueError::new_err(format!(
                "{call}({shown}): {} is itself followed as {shown}, and so each would stand for the other",
                tracker::name(by.bind(object.py()))
            )))
        }
        _ => Ok(()),
    }
}

/// Returns the reason if a module may not be skipped or followed, whatever it has; `None` for other modules.
fn why_not_registered(name: &str, package: &str) -> Option<String> {
    if name == "builtins" {
        return Some(format!(
            "its functions and classes are part of the language, and {package} knows what each does; to end the graph \
             at calls of one of them, use {package}.break_on(function)"
        ));
    }
    registered::is_within(name, package).then(|| format!("it is part of {package} itself, which is not translated"))
}

/// True if the object is a generator function or a coroutine function: a call does not run its code.
fn suspends(object: &Bound<'_, PyAny>) -> bool {
    const SUSPENDING: i32 = pyo3::ffi::CO_GENERATOR | pyo3::ffi::CO_COROUTINE | pyo3::ffi::CO_ASYNC_GENERATOR;
    let flags = object.cast::<PyFunction>().ok().and_then(|function| {
        cpython::function_code(function).getattr(intern!(object.py(), "co_flags")).ok()?.extract::<i32>().ok()
    });
    flags.is_some_and(|flags| flags & SUSPENDING != 0)
}

/// True if calls of `from` are followed as calls of `to`, directly or through further substitutes.
fn leads_to(from: &Bound<'_, PyAny>, to: &Bound<'_, PyAny>) -> bool {
    let py = from.py();
    let next = |function: &Py<PyAny>| match &registered::call_of(function.bind(py))?.kind {
        RegistrationKind::Substitute(by) => Some(by.clone_ref(py)),
        _ => None,
    };
    std::iter::successors(next(from.as_unbound()), next).any(|function| function.is(to))
}

fn check_value(runtime: &Runtime, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = object.py();
    let class = object.cast::<PyType>()?;
    let name = tracker::name(object);
    let call = RegistrationKind::Value.call();
    let refuse = |why: &str| Err(PyValueError::new_err(format!("{call}({name}): {why}")));
    if let Some(what) = framework_class(runtime, object)? {
        return refuse(&what);
    }
    if runtime.kinds.of_type(object).is_some() {
        return refuse(&format!("{} already knows what its instances are", runtime.package));
    }
    if class.is_subclass_of::<PySet>()? {
        return refuse("its instances are sets, which change");
    }
    if !cpython::is_heap_type(class) && runtime.builtins.has(object) {
        return refuse(&format!("{} already knows what its instances are", runtime.package));
    }
    let default = |name: &Bound<'_, PyString>| {
        let own = cpython::type_lookup(class, name);
        own.is_none_or(|own| {
            own.is_none() || cpython::type_lookup(&py.get_type::<PyAny>(), name).is_some_and(|of| of.is(&own))
        })
    };
    if default(intern!(py, "__eq__")) {
        return refuse("its instances have no __eq__ of their own, and are compared by identity");
    }
    if default(intern!(py, "__hash__")) {
        return refuse("its instances cannot be hashed, so they may change");
    }
    Ok(())
}

/// The text that refuses a class whose instances are values of the framework; `None` for another class.
fn framework_class(runtime: &Runtime, object: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let Ok(class) = object.cast::<PyType>() else { return Ok(None) };
    let tensors = runtime.ask_backend(|backend| backend.tensor_type(object.py()))?;
    let is_of_tensors = tensors.cast::<PyType>().is_ok_and(|tensors| cpython::is_subtype(class, tensors));
    let is_of_models = runtime.backend().models().entry_of(class)?.is_some();
    Ok((is_of_tensors || is_of_models).then(|| {
        let what = if is_of_tensors { "tensors" } else { "models" };
        format!("{} already knows what its instances are: {what}", runtime.package)
    }))
}

/// Leaves the frames of a registered function to CPython, or undoes that.
fn leave_frames(runtime: &Runtime, object: &Bound<'_, PyAny>, disables: Option<bool>) -> PyResult<()> {
    let Some(code) = own_code(runtime, object)? else { return Ok(()) };
    if let Some(below) = disables {
        cache::disable(&code, Some(below));
    }
    cache::leave_alone(&code, registered::leaves_frames_alone(object));
    Ok(())
}

/// Returns the code that a call of the object, or of an instance of the class, runs itself.
fn own_code<'py>(runtime: &Runtime, object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, pyo3::types::PyCode>>> {
    let own = match object.cast::<PyType>() {
        Ok(class) => runtime.backend().models().entry_of(class)?,
        Err(_) => Some(object.clone()),
    };
    Ok(own.and_then(|own| own.cast_into::<PyFunction>().ok()).map(|function| cpython::function_code(&function)))
}
