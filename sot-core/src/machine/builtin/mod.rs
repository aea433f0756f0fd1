//! Builtin handlers: how to simulate a call of a C function, method or class whose meaning CPython fixes. Handlers are
//! registered under the object's dotted path (`len`, `list.append`, `math:sqrt`); the path is resolved once, at start
//! or when the module is imported.

mod overrides;
mod results;

use std::collections::hash_map::Entry;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use linkme::distributed_slice;
use pyo3::exceptions::{PyAttributeError, PyRuntimeWarning};
use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyString, PyType};
use rustc_hash::FxHashMap;

use crate::cpython::{self, is_imported};
use crate::error::{Flow, RegistrationError};
use crate::log;
use crate::machine::executor::{CallArgs, OpcodeExecutor};
use crate::machine::overriding::{error, sort};
use crate::machine::variable::VarId;
use crate::origin::{LinkedRegistration, Registered, RegistrationOrigin};

use overrides::Handlers;
pub use overrides::{BuiltinOverride, OverriddenBuiltin, OverridingBuiltin, BUILTIN_OVERRIDES};
use parking_lot::{RwLock, RwLockReadGuard};
use results::type_of_results;

/// Simulates one call of a builtin.
pub type BuiltinHandler = fn(&mut OpcodeExecutor<'_>, &CallArgs) -> Flow<VarId>;

/// The registration of a handler.
pub struct Builtin {
    /// Dotted path in `builtins`, or `module:path` in another module. A module that begins with a dot is in the
    /// package that the tracer was started for.
    pub path: &'static str,
    /// True if some supported interpreters lack the path.
    pub is_optional: bool,
    /// The simulation. A method gets its receiver as first argument.
    pub handler: BuiltinHandler,
    /// Where it is registered.
    pub origin: RegistrationOrigin,
}

impl Registered for Builtin {
    fn linked(&self) -> LinkedRegistration {
        LinkedRegistration { registry: "builtin", name: self.path, origin: self.origin }
    }
}

/// Every builtin handler linked into the program.
#[distributed_slice]
pub static BUILTINS: [Builtin];

/// Registers a builtin handler: `builtin! { LEN = "len" => |cx, args| ... }`. The first name is only a Rust item name.
/// A path that some interpreters lack is followed by a question mark:
/// `builtin! { CBRT = "math:cbrt"? => |cx, args| ... }`.
///
/// An override is written as for opcodes (see [`opcode!`](crate::opcode!)): `next.call(cx, args)` simulates the call
/// as it would be without the override.
///
/// ```
/// use sot_core::builtin;
///
/// builtin! { override COUNTED = "len" => |cx, args, next| next.call(cx, args) }
/// builtin! { override FIRST = "len" priority 10 => |cx, args, next| next.call(cx, args) }
/// ```
#[macro_export]
macro_rules! builtin {
    (override $item:ident = $path:literal $(priority $priority:literal)?
        => |$cx:ident, $args:ident, $next:ident| $body:expr) => {
        $crate::builtin!(@override $item, $path, false, [$($priority)?], |$cx, $args, $next| $body);
    };
    (override $item:ident = $path:literal ? $(priority $priority:literal)?
        => |$cx:ident, $args:ident, $next:ident| $body:expr) => {
        $crate::builtin!(@override $item, $path, true, [$($priority)?], |$cx, $args, $next| $body);
    };
    (@override $item:ident, $path:literal, $is_optional:literal, [$($priority:literal)?],
        |$cx:ident, $args:ident, $next:ident| $body:expr) => {
        #[$crate::linkme::distributed_slice($crate::builtin::BUILTIN_OVERRIDES)]
        #[linkme(crate = $crate::linkme)]
        static $item: $crate::builtin::BuiltinOverride = $crate::builtin::BuiltinOverride {
            path: $path,
            is_optional: $is_optional,
            priority: 0 $(+ $priority)?,
            handler: |$cx: &mut $crate::executor::OpcodeExecutor<'_>,
                      $args: &$crate::executor::CallArgs,
                      $next: &$crate::builtin::OverriddenBuiltin<'_>|
             -> $crate::error::Flow<$crate::variable::VarId> { $body },
            origin: $crate::origin!(),
        };
    };
    ($item:ident = $path:literal => |$cx:ident, $args:ident| $body:expr) => {
        $crate::builtin!(@register $item, $path, false, |$cx, $args| $body);
    };
    ($item:ident = $path:literal ? => |$cx:ident, $args:ident| $body:expr) => {
        $crate::builtin!(@register $item, $path, true, |$cx, $args| $body);
    };
    (@register $item:ident, $path:literal, $is_optional:literal, |$cx:ident, $args:ident| $body:expr) => {
        #[$crate::linkme::distributed_slice($crate::builtin::BUILTINS)]
        #[linkme(crate = $crate::linkme)]
        static $item: $crate::builtin::Builtin = $crate::builtin::Builtin {
            path: $path,
            is_optional: $is_optional,
            // No function of its own: that would hide one of the same name.
            handler: |$cx: &mut $crate::executor::OpcodeExecutor<'_>,
                      $args: &$crate::executor::CallArgs|
             -> $crate::error::Flow<$crate::variable::VarId> { $body },
            origin: $crate::origin!(),
        };
    };
}

/// Handlers by the object they simulate. Modules of packages that the program has not imported are not imported for
/// their registrations, because that may take long; the program cannot use their objects before it imports them.
pub struct BuiltinTable {
    resolved: RwLock<Resolved>,
    is_complete: AtomicBool,
}

#[derive(Default)]
struct Resolved {
    by_address: FxHashMap<usize, Arc<Handlers>>,
    // Keeps the objects alive, so that no other object gets their addresses.
    objects: Vec<Py<PyAny>>,
    /// Registrations for modules that are not imported yet.
    waiting: Vec<(Py<PyString>, ModuleBuiltins)>,
}

/// The registrations for the objects of one module.
#[derive(Default)]
struct ModuleBuiltins {
    builtins: Vec<&'static Builtin>,
    overrides: Vec<&'static BuiltinOverride>,
}

impl BuiltinTable {
    /// Resolves every registration; `package` is where paths that begin with a dot are looked up. A path that this
    /// interpreter lacks is an error unless it is optional (`math.cbrt`, which came with 3.11).
    pub fn freeze(py: Python<'_>, package: Option<&str>) -> Result<BuiltinTable, RegistrationError> {
        Self::in_package(py, package, BUILTINS.iter(), BUILTIN_OVERRIDES.iter())
    }

    /// Resolves the given registrations; [`BuiltinTable::freeze`] passes all that are linked.
    pub fn from_builtins(
        py: Python<'_>,
        registered: impl Iterator<Item = &'static Builtin>,
        overrides: impl Iterator<Item = &'static BuiltinOverride>,
    ) -> Result<BuiltinTable, RegistrationError> {
        Self::in_package(py, None, registered, overrides)
    }

    fn in_package(
        py: Python<'_>,
        package: Option<&str>,
        registered: impl Iterator<Item = &'static Builtin>,
        overrides: impl Iterator<Item = &'static BuiltinOverride>,
    ) -> Result<BuiltinTable, RegistrationError> {
        let mut by_module: BTreeMap<String, ModuleBuiltins> = BTreeMap::new();
        for builtin in registered {
            by_module.entry(module_of(builtin, package)?).or_default().builtins.push(builtin);
        }
        for one in overrides {
            by_module.entry(module_of(one, package)?).or_default().overrides.push(one);
        }
        let mut resolved = Resolved::default();
        let mut present = Vec::new();
        for (module, of_module) in by_module {
            let name = PyString::new(py, &module);
            if !module.contains('.') || is_imported(&name) {
                resolved.add(find(&name, &of_module.builtins)?)?;
                present.push((name, of_module.overrides));
            } else {
                refuse_twins(&of_module.builtins)?;
                resolved.waiting.push((name.unbind(), of_module));
            }
        }
        // The builtin of an override may be registered under the name of another module, so overrides come last.
        for (name, overrides) in present {
            resolved.override_with(find(&name, &overrides)?)?;
        }
        let is_complete = AtomicBool::new(resolved.waiting.is_empty());
        Ok(BuiltinTable { resolved: RwLock::new(resolved), is_complete })
    }

    /// True if the object has a handler.
    pub fn has(&self, object: &Bound<'_, PyAny>) -> bool {
        self.get(object).is_some()
    }

    fn get(&self, object: &Bound<'_, PyAny>) -> Option<Arc<Handlers>> {
        let address = object.as_ptr() as usize;
        let found = self.read().by_address.get(&address).map(Arc::clone);
        if found.is_some() || self.is_complete.load(Ordering::Relaxed) {
            return found;
        }
        self.resolve_imported(object.py()).then(|| self.read().by_address.get(&address).map(Arc::clone)).flatten()
    }

    /// Simulates a call of an object by its overrides and handler; `None` if the object has no handler.
    pub fn call(&self, cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, args: &CallArgs) -> Option<Flow<VarId>> {
        self.get(object).map(|handlers| handlers.call(cx, args))
    }

    /// Resolves registrations for modules that were imported meanwhile. Returns whether there were any.
    fn resolve_imported(&self, py: Python<'_>) -> bool {
        let imported: Vec<_> = {
            let resolved = self.read();
            let waiting = resolved.waiting.iter().filter(|(name, _)| is_imported(name.bind(py)));
            waiting.map(|(name, _)| name.clone_ref(py)).collect()
        };
        for name in &imported {
            let mut resolved = self.resolved.write();
            let Some(at) = resolved.waiting.iter().position(|(other, _)| other.is(name)) else { continue };
            let (_, of_module) = resolved.waiting.swap_remove(at);
            let results = resolved.resolve_late(name.bind(py), &of_module);
            self.is_complete.store(resolved.waiting.is_empty(), Ordering::Relaxed);
            drop(resolved);
            results.into_iter().filter_map(Result::err).for_each(|error| report_late(py, &error));
        }
        !imported.is_empty()
    }

    fn read(&self) -> RwLockReadGuard<'_, Resolved> {
        self.resolved.read()
    }
}

/// Reports a wrong registration for a module that was imported late. A warning, because the start can no longer be
/// refused.
fn report_late(py: Python<'_>, error: &RegistrationError) {
    let text = format!("[Registration]: {error}");
    log::write(log::BREAKS, &text);
    let category = py.get_type::<PyRuntimeWarning>();
    // The log has reported it even where warnings are errors.
    cpython::import(py, "warnings").and_then(|warnings| warnings.call_method1("warn", (text, category))).ok();
}

impl Resolved {
    /// Resolves each registration on its own, so that one that fails does not affect the others.
    fn resolve_late(
        &mut self,
        module: &Bound<'_, PyString>,
        of_module: &ModuleBuiltins,
    ) -> Vec<Result<(), RegistrationError>> {
        // A Python function that the program has put in place of the original has another `__module__`. Classes and C
        // functions are not checked: they are named after the modules they are made in.
        let is_own = |object: &Bound<'_, PyAny>| {
            let of_module = || object.getattr("__module__").and_then(|of| of.eq(module));
            !object.is_instance_of::<PyFunction>() || of_module().unwrap_or(false)
        };
        let mut results = Vec::new();
        for builtin in &of_module.builtins {
            let found = find(module, &[*builtin]).map(|found| found.into_iter().filter(|(_, object)| is_own(object)));
            results.push(found.and_then(|found| self.add(found)));
        }
        for one in &of_module.overrides {
            let found = find(module, &[*one]).map(|found| found.into_iter().filter(|(_, object)| is_own(object)));
            results.push(found.and_then(|found| self.override_with(found)));
        }
        results
    }

    fn add<'py>(
        &mut self,
        found: impl IntoIterator<Item = (&'static Builtin, Bound<'py, PyAny>)>,
    ) -> Result<(), RegistrationError> {
        for (builtin, object) in found {
            let gives = type_of_results(builtin.path, &object);
            let handlers = Arc::new(Handlers { builtin, gives, overrides: Vec::new() });
            match self.by_address.entry(object.as_ptr() as usize) {
                Entry::Occupied(first) => return Err(twice(first.get().builtin, builtin)),
                Entry::Vacant(place) => place.insert(handlers),
            };
            self.objects.push(object.unbind());
        }
        Ok(())
    }

    fn override_with<'py>(
        &mut self,
        found: impl IntoIterator<Item = (&'static BuiltinOverride, Bound<'py, PyAny>)>,
    ) -> Result<(), RegistrationError> {
        for (one, object) in found {
            let Some(handlers) = self.by_address.get_mut(&(object.as_ptr() as usize)) else {
                return Err(error(one, format!("there is nothing to override: {:?} has no handler", one.path)));
            };
            let mut overrides = handlers.overrides.clone();
            overrides.push(one);
            sort(&mut overrides);
            let gives = handlers.gives.as_ref().map(|gives| gives.clone_ref(object.py()));
            *handlers = Arc::new(Handlers { builtin: handlers.builtin, gives, overrides });
        }
        Ok(())
    }
}

/// A registration with a path.
trait PathRegistration: Registered {
    fn path(&self) -> &'static str;
    fn is_optional(&self) -> bool;
}

impl PathRegistration for Builtin {
    fn path(&self) -> &'static str {
        self.path
    }

    fn is_optional(&self) -> bool {
        self.is_optional
    }
}

impl PathRegistration for BuiltinOverride {
    fn path(&self) -> &'static str {
        self.path
    }

    fn is_optional(&self) -> bool {
        self.is_optional
    }
}

/// Finds the objects of registrations. A path that this interpreter lacks is an error unless it is optional.
fn find<'py, T: PathRegistration>(
    module: &Bound<'py, PyString>,
    registered: &[&'static T],
) -> Result<Vec<(&'static T, Bound<'py, PyAny>)>, RegistrationError> {
    let mut found = Vec::with_capacity(registered.len());
    for &one in registered {
        match resolve(module, one.path()) {
            Ok(object) => found.push((one, object)),
            Err(_) if one.is_optional() => {}
            Err(why) => {
                let registry = one.linked().registry;
                return Err(error(one, format!("the {registry} {:?} leads nowhere: {why}", one.path())));
            }
        }
    }
    Ok(found)
}

/// Refuses two registrations for one path of a module that is not imported yet.
fn refuse_twins(builtins: &[&'static Builtin]) -> Result<(), RegistrationError> {
    let mut by_path: FxHashMap<&str, &'static Builtin> = FxHashMap::default();
    for builtin in builtins {
        if let Some(first) = by_path.insert(builtin.path, builtin) {
            return Err(twice(first, builtin));
        }
    }
    Ok(())
}

fn twice(first: &Builtin, second: &Builtin) -> RegistrationError {
    error(second, format!("{} already has a handler: {} at {}", second.path, first.path, first.origin))
}

/// Splits a path into the module and the path in it.
fn parts(path: &'static str) -> (&'static str, &'static str) {
    path.split_once(':').unwrap_or(("builtins", path))
}

/// The full name of a registration's module.
fn module_of(one: &impl PathRegistration, package: Option<&str>) -> Result<String, RegistrationError> {
    let module = parts(one.path()).0;
    match (module.strip_prefix('.'), package) {
        (None, _) => Ok(module.to_owned()),
        (Some(below), Some(package)) => Ok(format!("{package}.{below}")),
        (Some(_), None) => {
            Err(error(one, format!("{:?} is in a package, and the tracer was started for no package", one.path())))
        }
    }
}

/// Finds the object at a path in its module. `list.append` is the descriptor in the type, which method lookup finds.
fn resolve<'py>(module: &Bound<'py, PyString>, path: &'static str) -> PyResult<Bound<'py, PyAny>> {
    let py = module.py();
    let mut object = cpython::import(py, module.to_str()?)?.into_any();
    for name in parts(path).1.split('.') {
        // The class's dict is read, because each lookup of a class method makes a new bound object.
        object = match object.cast::<PyType>() {
            Ok(class) => cpython::type_lookup(class, &PyString::new(py, name))
                .ok_or_else(|| PyAttributeError::new_err(name.to_owned()))?,
            Err(_) => object.getattr(name)?,
        };
    }
    Ok(object)
}
