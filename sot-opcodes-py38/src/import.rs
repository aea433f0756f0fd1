//! `import` within functions. A loaded module is an entry of `sys.modules`. A module that is not loaded breaks the
//! graph, because loading it runs its code; except that a module of the standard library is loaded by the trace,
//! because the traced call would load it now anyway. If the program has finders of its own, which see that, the call
//! is left to CPython instead, and the next one is translated. A module that cannot be found is an error of the
//! program's.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyType};
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{names, Name, OpcodeExecutor, Trace};
use sot_core::opcode;
use sot_core::tracker::{Key, Tracker};
use sot_core::variable::{Form, VarId};
use sot_variables::functions::function::guard_identity;
use sot_variables::missing_module;

opcode! { IMPORT_NAME [3.8..3.14] (level, names -- module) => |cx, op| import_name(cx, op.arg, level, names) }
opcode! { IMPORT_FROM [3.8..3.14] (module -- same, value)
=> |cx, op| import_from(cx, module, op.arg).map(|v| [module, v]) }

fn import_name(cx: &mut OpcodeExecutor<'_>, index: u32, level: VarId, names: VarId) -> Flow<VarId> {
    let name = cx.stack.name(index)?;
    require_own_import(cx, &name)?;
    let level = cx.known_int(level)?.ok_or_else(|| not_loaded(&name))?;
    let full = absolute_name(cx, &name, level)?;
    if cx.known(names)?.is_some_and(|names| names.is_none()) {
        // `import a.b` binds `a`.
        loaded_or_missing(cx, &full)?;
        return loaded(cx, full.split('.').next().unwrap_or_default());
    }
    let module = loaded_or_missing(cx, &full)?;
    require_names(cx, module, names, &full)?;
    Ok(module)
}

/// Breaks the graph unless `__import__` is CPython's own: a program may replace it.
fn require_own_import(cx: &mut OpcodeExecutor<'_>, name: &str) -> Flow<()> {
    if let Some(function) = names::find_builtin(cx, &Rc::from("__import__"))? {
        let object = cx.see(function)?.object().map(|object| object.clone_ref(cx.py));
        if let Some(object) = object.filter(|object| is_own_import(object.bind(cx.py))) {
            guard_identity(cx, function, &object);
            return Ok(());
        }
    }
    Err(Unwind::break_graph(
        ReasonId::UnsupportedCall,
        format!("the import of '{name}' by a function of the program's own"),
    ))
}

fn is_own_import(function: &Bound<'_, PyAny>) -> bool {
    let is_named = || function.getattr("__name__").is_ok_and(|name| name.eq("__import__").unwrap_or(false));
    function.is_instance_of::<PyCFunction>() && is_named()
}

/// Checks the names of `from module import names`. A name that the module does not have may be a submodule that is
/// not loaded.
fn require_names(cx: &mut OpcodeExecutor<'_>, module: VarId, names: VarId, full: &str) -> Flow<()> {
    for name in cx.unpack_all(names)? {
        let name: Name = Rc::from(cx.known_str(name)?.ok_or_else(|| not_loaded(full))?);
        let real = cx.see(module)?;
        if real.object().is_some_and(|module| !module.bind(cx.py).hasattr(&*name).unwrap_or(true)) {
            load(&cx.trace, &format!("{full}.{name}"))?;
        }
        if cx.find_attr(module, &name)?.is_none() && submodule(cx, module, &name)?.is_none() {
            require_missing(cx, module, &name, full)?;
        }
    }
    Ok(())
}

/// Breaks the graph if a name that a package does not have could be a submodule that is not loaded.
fn require_missing(cx: &mut OpcodeExecutor<'_>, module: VarId, name: &str, full: &str) -> Flow<()> {
    if cx.find_attr(module, &"__path__".into())?.is_none() {
        return Ok(());
    }
    let own = cx.find_attr(module, &"__name__".into())?;
    let own = own.map_or(Ok(None), |own| cx.known_str(own))?;
    let wanted = format!("{full}.{name}");
    if own.is_some_and(|own| *own == *full) && missing_module::is_missing(cx, &wanted, Some(module))? {
        return Ok(());
    }
    Err(not_loaded(&wanted))
}

fn import_from(cx: &mut OpcodeExecutor<'_>, module: VarId, index: u32) -> Flow<VarId> {
    let name = cx.stack.name(index)?;
    match cx.find_attr(module, &name)? {
        Some(value) => Ok(value),
        None => match submodule(cx, module, &name)? {
            Some(found) => Ok(found),
            None => Err(missing_module::import_from_error(cx, module, &name)?),
        },
    }
}

/// The module that `sys.modules` has for a name of a package, although the package has no such attribute.
fn submodule(cx: &mut OpcodeExecutor<'_>, package: VarId, name: &str) -> Flow<Option<VarId>> {
    let own = cx.find_attr(package, &"__name__".into())?;
    let Some(own) = own.map_or(Ok(None), |own| cx.known_str(own))? else { return Ok(None) };
    let full = format!("{own}.{name}");
    let modules = cpython::import(cx.py, "sys")?.getattr("modules")?;
    if !modules.contains(&full)? {
        return Ok(None);
    }
    match loaded(cx, &full) {
        Ok(module) => Ok(Some(module)),
        Err(Unwind::BreakGraph(_)) => Ok(None),
        Err(unwind) => Err(unwind),
    }
}

fn absolute_name(cx: &OpcodeExecutor<'_>, name: &str, level: i64) -> Flow<String> {
    if level == 0 {
        return Ok(name.to_owned());
    }
    if cx.stack.frame().global_names.is_some() {
        return Err(not_loaded(name));
    }
    let globals = cx.stack.frame().globals.dict.bind(cx.py);
    let package = globals.get_item("__package__")?.and_then(|package| package.extract::<String>().ok());
    let mut package = package.filter(|package| !package.is_empty()).ok_or_else(|| not_loaded(name))?;
    for _ in 1..level {
        let end = package.rfind('.').ok_or_else(|| not_loaded(name))?;
        package.truncate(end);
    }
    Ok(if name.is_empty() { package } else { format!("{package}.{name}") })
}

/// Returns the module, or the error for the first of its packages that cannot be found.
fn loaded_or_missing(cx: &mut OpcodeExecutor<'_>, full: &str) -> Flow<VarId> {
    let reason = match loaded(cx, full) {
        Err(Unwind::BreakGraph(reason)) => reason,
        outcome => return outcome,
    };
    let mut package = None;
    for end in full.match_indices('.').map(|(at, _)| at).chain([full.len()]) {
        let name = full.get(..end).unwrap_or_default();
        if missing_module::is_missing(cx, name, package)? {
            return Err(missing_module::error(cx, name)?);
        }
        if end < full.len() {
            package = Some(loaded(cx, name)?);
        }
    }
    Err(Unwind::BreakGraph(reason))
}

/// Returns the module from `sys.modules`, guarded, because another module may be there at the next call.
fn loaded(cx: &mut OpcodeExecutor<'_>, name: &str) -> Flow<VarId> {
    let modules = cpython::import(cx.py, "sys")?.getattr("modules")?.cast_into::<PyDict>().map_err(PyErr::from)?;
    if let Some(dict) =
        cx.trace.identities.of(modules.as_any()).filter(|dict| cx.trace.vars.get(*dict).form() != Form::Lazy)
    {
        // The program itself has used `sys.modules`, and may have changed it.
        let key = cx.trace.string(name);
        let is_there = cx.contains(dict, key, false)?;
        let module = if cx.truth(is_there)? { cx.get_item(dict, key)? } else { return Err(not_loaded(name)) };
        let is_none = cx.known(module)?.is_some_and(|module| module.is_none());
        return if is_none { Err(not_loaded(name)) } else { Ok(module) };
    }
    load(&cx.trace, name)?;
    let module = modules.get_item(name)?.filter(|module| !module.is_none()).ok_or_else(|| not_loaded(name))?;
    let of = cx.trace.trackers.constant(modules.into_any().unbind());
    let tracker = cx.trace.trackers.add(Tracker::Item { of, key: Key::Str(Rc::from(name)) });
    // The entry has to exist, and must not be `None`: if it is missing at a later call, the program's import loads the
    // module, and if it is `None`, the import raises, whatever is done with the module.
    cx.trace.guards.require(tracker);
    let module = cx.trace.wrap(&module, tracker);
    cx.see(module)?;
    Ok(module)
}

/// Loads a module of the standard library, unless its code could observe writes of the trace that have not been made
/// yet.
fn load(trace: &Trace<'_>, name: &str) -> Flow<()> {
    let modules = cpython::import(trace.py, "sys")?.getattr("modules")?;
    let looked_at = trace.identities.of(&modules).is_some_and(|modules| trace.vars.get(modules).form() != Form::Lazy);
    if looked_at || !trace.effects.is_empty() || modules.contains(name)? || !is_of_standard_library(trace.py, name) {
        return Ok(());
    }
    if !has_own_finders(trace)? {
        // An error is ignored here, because the program's own import will raise it.
        let _ = trace.py.import(name);
        return Ok(());
    }
    if trace.awaits_filling() {
        let text = format!("the module '{name}' is not loaded yet, and finders of the program see its import");
        return Err(Unwind::fallback(ReasonId::CacheNotFilled, text));
    }
    Ok(())
}

/// True if `sys.meta_path` has finders of the program's own. They run its code at each import, which may look at what
/// the function has done before, and change what it reads next. Finders of installed packages, such as those that
/// setuptools puts there for every program, only look for files.
fn has_own_finders(trace: &Trace<'_>) -> PyResult<bool> {
    let machinery = cpython::import(trace.py, "importlib.machinery")?;
    let names = ["BuiltinImporter", "FrozenImporter", "PathFinder"];
    let of_cpython = names.into_iter().map(|name| machinery.getattr(name)).collect::<PyResult<Vec<_>>>()?;
    for finder in cpython::import(trace.py, "sys")?.getattr("meta_path")?.try_iter()? {
        let finder = finder?;
        if !of_cpython.iter().any(|it| it.is(&finder)) && !is_of_library(trace, &finder).unwrap_or(false) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// True if the class of a finder, or the class that is the finder, is defined in a library.
fn is_of_library(trace: &Trace<'_>, finder: &Bound<'_, PyAny>) -> PyResult<bool> {
    let class = finder.cast::<PyType>().cloned().unwrap_or_else(|_| finder.get_type());
    let modules = cpython::import(trace.py, "sys")?.getattr("modules")?;
    let module = modules.get_item(class.getattr("__module__")?)?;
    Ok(trace.runtime.is_library(&module.getattr("__file__")?.extract::<String>()?))
}

/// True if a module belongs to the standard library.
fn is_of_standard_library(py: Python<'_>, name: &str) -> bool {
    let top = name.split('.').next().unwrap_or_default();
    let find = || -> PyResult<bool> {
        // The program's own finders are called only by the program's imports.
        let finder = cpython::import(py, "importlib.machinery")?.getattr("PathFinder")?;
        let spec = finder.call_method1("find_spec", (top,))?;
        let origin: String = spec.getattr("origin")?.extract()?;
        let library: String = cpython::import(py, "sysconfig")?.getattr("get_path")?.call1(("stdlib",))?.extract()?;
        Ok(origin.starts_with(&library) && !origin.contains("-packages"))
    };
    find().unwrap_or(false)
}

fn not_loaded(name: &str) -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedCall, format!("the import of '{name}', which is not loaded yet"))
}
