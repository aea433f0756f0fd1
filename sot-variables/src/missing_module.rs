//! Imports of modules that do not exist. The finders of `sys.meta_path` decide that: CPython's own finders are called
//! while tracing, finders of the program are called in the trace. The result is guarded, including the modification
//! times of the searched directories. `importlib` caches the listing of a directory by its modification time, too.

use std::time::UNIX_EPOCH;

use pyo3::exceptions::PyModuleNotFoundError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use sot_core::backend::StateTest;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::OpcodeExecutor;
use sot_core::guard::{Identity, Test};
use sot_core::tracker::Key;
use sot_core::variable::{Form, VarId};

use crate::classes::exception::ExceptionVariable;
use crate::functions::function::guard_identity;

fn refuse(name: &str) -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedCall, format!("the import of '{name}', which is not loaded yet"))
}

/// True if the import of an absolute name finds no module, in this call and in all calls that the guards admit. False
/// if that is unknown. `package` is the variable of the parent package, which must be loaded, or `None` for a
/// top-level name.
pub fn is_missing(cx: &mut OpcodeExecutor<'_>, name: &str, package: Option<VarId>) -> Flow<bool> {
    let path = match package {
        None => None,
        Some(package) => match cx.find_attr(package, &"__path__".into())? {
            Some(path) => Some(path),
            None => return Ok(false),
        },
    };
    Ok(is_not_loaded(cx, name)? && is_found_nowhere(cx, name, path)?)
}

/// True if no finder knows the module in the directories of `path`, or in those of `sys.path` if `path` is `None`.
fn is_found_nowhere(cx: &mut OpcodeExecutor<'_>, name: &str, path: Option<VarId>) -> Flow<bool> {
    let sys = sys(cx)?;
    let places = match path {
        Some(path) => path,
        None => cx.get_attr(sys, &"path".into())?,
    };
    let Some(places) = known_places(cx, places)? else { return Ok(false) };
    let finders = cx.get_attr(sys, &"meta_path".into())?;
    if !is_list(cx, finders)? {
        return Ok(false);
    }
    let finders = cx.unpack_all(finders)?;
    for &finder in &finders {
        if !finds_nothing(cx, finder, name, path, &places)? {
            return Ok(false);
        }
    }
    // With an empty `sys.meta_path`, CPython emits a warning.
    Ok(!finders.is_empty())
}

// `importlib.util.find_spec` calls this function.
sot_core::builtin! { FIND_SPEC = "importlib._bootstrap:_find_spec" => |cx, args| {
    let [name, path] = args.exactly("_find_spec")?;
    let name = cx.known_str(name)?.ok_or_else(|| refuse("a module of an unknown name"))?;
    let path = if cx.known(path)?.is_some_and(|path| path.is_none()) { None } else { Some(path) };
    if is_not_loaded(cx, &name)? && is_found_nowhere(cx, &name, path)? {
        return Ok(cx.trace.none());
    }
    let text = format!("the search for '{name}'");
    Err(Unwind::break_graph(ReasonId::UnsupportedCall, text))
} }

// `importlib.import_module` calls this function.
sot_core::builtin! { FIND_AND_LOAD = "importlib._bootstrap:_find_and_load" => |cx, args| {
    let [name, _] = args.exactly("_find_and_load")?;
    let name = cx.known_str(name)?.ok_or_else(|| refuse("a module of an unknown name"))?;
    // CPython has frames of `importlib` here.
    cx.without_frame(|cx| by_name(cx, &name))
} }

sot_core::builtin! { IMPORT = "__import__" => |cx, args| {
    let [name] = args.exactly("__import__")?;
    let name = cx.known_str(name)?.filter(|name| !name.is_empty() && !name.contains('.'));
    let refuse = || Unwind::break_graph(ReasonId::UnsupportedCall, "__import__() of more than a plain name");
    let name = name.ok_or_else(refuse)?;
    by_name(cx, &name)
} }

/// Returns the module of an absolute name, from `sys.modules`. Raises `ModuleNotFoundError` in the trace if the
/// module does not exist; breaks the graph if it would have to be loaded.
fn by_name(cx: &mut OpcodeExecutor<'_>, name: &str) -> Flow<VarId> {
    let sys = sys(cx)?;
    let modules = cx.get_attr(sys, &"modules".into())?;
    let key = cx.trace.string(name);
    let found = cx.contains(modules, key, false)?;
    if cx.truth(found)? {
        let module = cx.get_item(modules, key)?;
        let object = cx.see(module)?.object().map(|module| module.bind(cx.py).clone()).ok_or_else(|| refuse(name))?;
        let starting =
            object.getattr_opt("__spec__")?.map(|spec| spec.getattr_opt("_initializing")).transpose()?.flatten();
        if object.is_none() || starting.is_some_and(|starting| starting.is_truthy().unwrap_or(true)) {
            return Err(refuse(name));
        }
        return Ok(module);
    }
    let mut package = None;
    if let Some((parent, _)) = name.rsplit_once('.') {
        package = Some(by_name(cx, parent)?);
    }
    if !is_missing(cx, name, package)? {
        return Err(refuse(name));
    }
    Err(error(cx, name)?)
}

/// True if `sys.modules` has no entry for the name. Adds the guard for that.
fn is_not_loaded(cx: &mut OpcodeExecutor<'_>, name: &str) -> Flow<bool> {
    let modules = cpython::import(cx.py, "sys")?.getattr("modules")?;
    let Ok(modules) = modules.cast_into_exact::<PyDict>() else { return Ok(false) };
    if let Some(dict) =
        cx.trace.identities.of(modules.as_any()).filter(|dict| cx.trace.vars.get(*dict).form() != Form::Lazy)
    {
        // The program itself has looked into `sys.modules`, and may have changed it.
        let key = cx.trace.string(name);
        let found = cx.contains(dict, key, false)?;
        return Ok(!cx.truth(found)?);
    }
    if modules.contains(name)? {
        return Ok(false);
    }
    let of = cx.trace.trackers.constant(modules.into_any().unbind());
    cx.trace.guards.add(of, Test::LacksKey(Key::Str(name.into())));
    Ok(true)
}

/// Returns the `ModuleNotFoundError` that the import of a missing module raises.
pub fn error(cx: &mut OpcodeExecutor<'_>, name: &str) -> Flow<Unwind> {
    let py = cx.py;
    let text = cpython::builtin(py, "repr")?.call1((name,))?;
    let error = PyModuleNotFoundError::new_err(format!("No module named {text}")).into_value(py).into_bound(py);
    error.setattr("name", name)?;
    ExceptionVariable::of_import(cx, error.as_any()).map(Unwind::Raise)
}

fn sys(cx: &mut OpcodeExecutor<'_>) -> Flow<VarId> {
    let sys = cpython::import(cx.py, "sys")?.into_any();
    let tracker = cx.trace.trackers.constant(sys.clone().unbind());
    Ok(cx.trace.wrap(&sys, tracker))
}

fn is_list(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<bool> {
    Ok(cx.type_of(value)?.is(cx.py.get_type::<PyList>()))
}

/// Returns the searched directories, or `None` if they are not a list of known strings.
fn known_places(cx: &mut OpcodeExecutor<'_>, places: VarId) -> Flow<Option<Vec<String>>> {
    if !is_list(cx, places)? {
        return Ok(None);
    }
    let mut known = Vec::new();
    for place in cx.unpack_all(places)? {
        match cx.known_str(place)? {
            Some(place) => known.push(place),
            None => return Ok(None),
        }
    }
    Ok(Some(known))
}

/// True if a finder of `sys.meta_path` does not find the module.
fn finds_nothing(
    cx: &mut OpcodeExecutor<'_>,
    finder: VarId,
    name: &str,
    path: Option<VarId>,
    places: &[String],
) -> Flow<bool> {
    let py = cx.py;
    let object = cx.see(finder)?.object().map(|object| object.bind(py).clone());
    let machinery = cpython::import(py, "importlib.machinery")?;
    let own = ["PathFinder", "BuiltinImporter", "FrozenImporter"].map(|class| machinery.getattr(class).ok());
    let is_own = |object: &&Bound<'_, PyAny>| own.iter().flatten().any(|own| own.is(*object));
    let Some(object) = object.as_ref().filter(is_own) else {
        return finds_nothing_in_the_trace(cx, finder, name, path);
    };
    let searched = own.first().is_some_and(|own| own.as_ref().is_some_and(|own| own.is(object)));
    guard_identity(cx, finder, object.as_unbound());
    if !searched {
        let path = path.map(|_| places.to_vec());
        return Ok(object.call_method1("find_spec", (name, path))?.is_none());
    }
    let Some(test) = MissingModuleTest::find(object, name, places)? else { return Ok(false) };
    cx.trace.guards.add_state(Box::new(test));
    Ok(true)
}

/// Calls `find_spec` of a finder that the program has installed, in the trace.
fn finds_nothing_in_the_trace(
    cx: &mut OpcodeExecutor<'_>,
    finder: VarId,
    name: &str,
    path: Option<VarId>,
) -> Flow<bool> {
    let (text, none) = (cx.trace.string(name), cx.trace.none());
    match cx.call_method(finder, "find_spec", &[text, path.unwrap_or(none), none]) {
        Ok(found) => Ok(cx.known(found)?.is_some_and(|found| found.is_none())),
        // CPython's traceback would have frames of `importlib`.
        Err(Unwind::Raise(_)) => Err(refuse(name)),
        Err(unwind) => Err(unwind),
    }
}

/// Guard: the directories of a search path have no module of a name.
struct MissingModuleTest {
    name: String,
    /// `sys.path_importer_cache`: finders by directory.
    cache: Py<PyDict>,
    places: Vec<SearchDirectory>,
}

/// A directory of the search path, as `importlib` knows it.
struct SearchDirectory {
    /// The entry of the search path; `None` for the empty entry, which is the current directory.
    name: Option<String>,
    /// The path of the directory when the guard was made.
    directory: String,
    /// The cached `FileFinder` of the directory; `None` if `importlib` does not search the directory.
    finder: Option<Identity>,
}

impl MissingModuleTest {
    /// Searches for the module. Returns `None` if it is found, or if a finder of the program could have a say.
    fn find(finder: &Bound<'_, PyAny>, name: &str, places: &[String]) -> PyResult<Option<MissingModuleTest>> {
        let py = finder.py();
        let sys = cpython::import(py, "sys")?;
        let Ok(cache) = sys.getattr("path_importer_cache")?.cast_into_exact::<PyDict>() else { return Ok(None) };
        for place in places {
            let is_known = match cache.get_item(directory(place))? {
                Some(known) => known.is_none() || is_own_finder(&known)?,
                None => are_own_hooks(&sys.getattr("path_hooks")?)?,
            };
            if !is_known {
                return Ok(None);
            }
        }
        if !finder.call_method1("find_spec", (name, places.to_vec()))?.is_none() {
            return Ok(None);
        }
        let places: PyResult<Option<Vec<SearchDirectory>>> =
            places.iter().map(|place| SearchDirectory::of(&cache, place, name)).collect();
        let Some(places) = places? else { return Ok(None) };
        let missing = MissingModuleTest { name: name.to_owned(), cache: cache.unbind(), places };
        Ok(missing.check(py).then_some(missing))
    }
}

impl SearchDirectory {
    fn of(cache: &Bound<'_, PyDict>, place: &str, name: &str) -> PyResult<Option<SearchDirectory>> {
        let directory = directory(place);
        let Some(finder) = cache.get_item(&directory)? else { return Ok(None) };
        let finder = if finder.is_none() { None } else { Some(finder) };
        if let Some(finder) = &finder {
            if !is_own_finder(finder)? || has_entry(finder, name)? {
                return Ok(None);
            }
        }
        let finder = finder.as_ref().map(Identity::of);
        Ok(Some(SearchDirectory { name: (!place.is_empty()).then(|| place.to_owned()), directory, finder }))
    }

    fn holds(&self, cache: &Bound<'_, PyDict>) -> PyResult<bool> {
        if self.name.is_none() && directory("") != self.directory {
            return Ok(false);
        }
        let Some(now) = cache.get_item(&self.directory)? else { return Ok(false) };
        let Some(finder) = &self.finder else { return Ok(now.is_none()) };
        if !finder.is(&now) {
            return Ok(false);
        }
        let known = cpython::instance_dict(&now).map(|parts| parts.get_item("_path_mtime")).transpose()?.flatten();
        let known: Option<f64> = known.and_then(|known| known.extract().ok());
        Ok(known.is_some_and(|known| (known - written(&self.directory)).abs() == 0.0))
    }
}

/// Returns the path for an entry of `sys.path`; the empty entry means the current directory.
fn directory(place: &str) -> String {
    if !place.is_empty() {
        return place.to_owned();
    }
    let present = std::env::current_dir().ok();
    present.and_then(|present| present.to_str().map(str::to_owned)).unwrap_or_default()
}

/// Returns the modification time of a directory in seconds, as `os.stat` does; -1 if the directory does not exist.
fn written(directory: &str) -> f64 {
    let written = std::fs::metadata(directory).and_then(|found| found.modified());
    let since = written.ok().and_then(|written| written.duration_since(UNIX_EPOCH).ok());
    #[allow(clippy::cast_precision_loss, reason = "CPython's own number")]
    since.map_or(-1.0, |since| since.as_secs() as f64 + 1e-9 * f64::from(since.subsec_nanos()))
}

fn is_own_finder(finder: &Bound<'_, PyAny>) -> PyResult<bool> {
    let own = cpython::import(finder.py(), "importlib.machinery")?.getattr("FileFinder")?;
    Ok(finder.get_type().is(&own))
}

/// True if the directory has an entry that could become the module without a change of the directory, such as a
/// symbolic link.
fn has_entry(finder: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    let last = name.rsplit('.').next().unwrap_or_default();
    for entry in finder.getattr("_path_cache")?.try_iter()? {
        let entry = entry?.extract::<String>().unwrap_or_default();
        if entry.strip_prefix(last).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// True if all hooks of `sys.path_hooks`, which make finders, are CPython's own.
fn are_own_hooks(hooks: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = hooks.py();
    let zip = cpython::import(py, "zipimport")?.getattr("zipimporter")?;
    let Ok(hooks) = hooks.cast::<PyList>() else { return Ok(false) };
    for hook in hooks.iter() {
        let code = || hook.getattr("__code__")?.getattr("co_filename")?.extract::<String>();
        if !hook.is(&zip) && !code().is_ok_and(|file| file == "<frozen importlib._bootstrap_external>") {
            return Ok(false);
        }
    }
    Ok(true)
}

impl StateTest for MissingModuleTest {
    fn check(&self, py: Python<'_>) -> bool {
        let cache = self.cache.bind(py);
        let same = cpython::import(py, "sys").and_then(|sys| sys.getattr("path_importer_cache"));
        same.is_ok_and(|same| same.is(cache)) && self.places.iter().all(|place| place.holds(cache).unwrap_or(false))
    }

    fn restore(&self, _: Python<'_>) -> PyResult<()> {
        Ok(())
    }

    fn describe(&self) -> String {
        format!("missing({})", self.name)
    }
}

/// Returns the exception of `from module import name` for a module without that name, with CPython's own message.
pub fn import_from_error(cx: &mut OpcodeExecutor<'_>, module: VarId, name: &str) -> Flow<Unwind> {
    let py = cx.py;
    let object = cx.see(module)?.object().map(|module| module.bind(py).clone());
    let object = object.filter(PyAnyMethods::is_exact_instance_of::<PyModule>).ok_or_else(|| refuse(name))?;
    if cx.find_attr(module, &"__getattr__".into())?.is_some() {
        return Err(refuse(name));
    }
    // Attributes that CPython's message is made of.
    for part in ["__name__", "__file__"] {
        if let Some(part) = cx.find_attr(module, &part.into())? {
            cx.known_str(part)?.ok_or_else(|| refuse(name))?;
        }
    }
    if let Some(spec) = cx.find_attr(module, &"__spec__".into())? {
        let object = cx.see(spec)?.object().map(|spec| spec.clone_ref(py)).ok_or_else(|| refuse(name))?;
        guard_identity(cx, spec, &object);
    }
    let full = format!("{}.{name}", object.getattr("__name__")?.extract::<String>()?);
    if !is_not_loaded(cx, &full)? {
        return Err(refuse(&full));
    }
    let error = own_words(&object, name)?.ok_or_else(|| refuse(&full))?;
    let text = error.to_string();
    if text.contains("partially initialized") || text.contains("consider renaming") {
        return Err(refuse(&full));
    }
    ExceptionVariable::of_import(cx, &error).map(Unwind::Raise)
}

/// Runs `from module import name` in CPython and returns the exception; `None` if the import succeeds.
fn own_words<'py>(module: &Bound<'py, PyAny>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = module.py();
    let kept = module.clone().unbind();
    let import = pyo3::types::PyCFunction::new_closure(
        py,
        None,
        None,
        move |args: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| kept.clone_ref(args.py()),
    )?;
    let builtins = PyDict::new(py);
    builtins.set_item("__import__", import)?;
    let globals = PyDict::new(py);
    globals.set_item("__builtins__", builtins)?;
    let code = cpython::builtin(py, "compile")?.call1((format!("from m import {name}"), "<import>", "exec"))?;
    match cpython::builtin(py, "exec")?.call1((code, globals)) {
        Ok(_) => Ok(None),
        Err(error) => {
            error.set_traceback(py, None);
            Ok(Some(error.into_value(py).into_bound(py).into_any()))
        }
    }
}
