//! Builtin handlers: how to simulate a call of a C function, method or class whose meaning CPython fixes. Handlers are
//! registered under the object's dotted path (`len`, `list.append`, `math:sqrt`); the path is resolved once, at start
//! or when the module is imported.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use linkme::distributed_slice;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyString, PyType};

use crate::cpython::{self, is_imported};
use crate::error::{Flow, RegistrationError};
use crate::log;
use crate::machine::executor::{CallArgs, OpcodeExecutor};
use crate::machine::variable::VarId;

/// Simulates one call.
pub type BuiltinHandler = fn(&mut OpcodeExecutor<'_>, &CallArgs) -> Flow<VarId>;

/// A registration.
pub struct Builtin {
    /// Dotted path in `builtins`, or `module:path` in another module. A module that begins with a dot is one of the
    /// package that the tracer was started for.
    pub path: &'static str,
    /// Whether some interpreters lack it.
    pub is_optional: bool,
    /// The simulation; methods get the receiver as first argument.
    pub handler: BuiltinHandler,
    /// Where it is registered.
    pub file: &'static str,
    /// Where it is registered.
    pub line: u32,
}

/// Every builtin handler linked into the program.
#[distributed_slice]
pub static BUILTINS: [Builtin];

/// Registers a builtin handler: `builtin! { LEN = "len" => |cx, args| ... }`. The first name is only a Rust item name.
/// A path that some interpreters lack is followed by a question mark:
/// `builtin! { CBRT = "math:cbrt"? => |cx, args| ... }`.
#[macro_export]
macro_rules! builtin {
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
            file: file!(),
            line: line!(),
        };
    };
}

/// The handlers by the object they stand for. Modules of packages that nobody has imported are not imported for it, as
/// that may take long: their objects cannot be met before.
pub struct BuiltinTable {
    resolved: RwLock<Resolved>,
    is_complete: AtomicBool,
}

#[derive(Default)]
struct Resolved {
    by_address: HashMap<usize, &'static Builtin>,
    // Keeps the objects alive, so that their addresses stay theirs.
    objects: Vec<Py<PyAny>>,
    /// Registrations by the modules that are not imported yet.
    waiting: Vec<(Py<PyString>, Vec<&'static Builtin>)>,
}

impl BuiltinTable {
    /// Resolves every registration; those that begin with a dot in this package. A path that this interpreter lacks is an error, but for those that say that some do
    /// (`math.cbrt`, which came with 3.11).
    pub fn freeze(py: Python<'_>, package: Option<&str>) -> Result<BuiltinTable, RegistrationError> {
        Self::in_package(py, package, BUILTINS.iter())
    }

    /// Resolves the given registrations; `freeze` gives it all there are.
    pub fn from_builtins(
        py: Python<'_>,
        registered: impl Iterator<Item = &'static Builtin>,
    ) -> Result<BuiltinTable, RegistrationError> {
        Self::in_package(py, None, registered)
    }

    fn in_package(
        py: Python<'_>,
        package: Option<&str>,
        registered: impl Iterator<Item = &'static Builtin>,
    ) -> Result<BuiltinTable, RegistrationError> {
        let mut by_module: HashMap<String, Vec<&'static Builtin>> = HashMap::new();
        for builtin in registered {
            by_module.entry(module_of(builtin, package)?).or_default().push(builtin);
        }
        let mut resolved = Resolved::default();
        for (module, builtins) in by_module {
            let name = PyString::new(py, &module);
            if !module.contains('.') || is_imported(&name) {
                resolved.add(find(&name, &builtins)?)?;
            } else {
                refuse_twins(&builtins)?;
                resolved.waiting.push((name.unbind(), builtins));
            }
        }
        let is_complete = AtomicBool::new(resolved.waiting.is_empty());
        Ok(BuiltinTable { resolved: RwLock::new(resolved), is_complete })
    }

    /// The handler for an object.
    pub fn get(&self, object: &Bound<'_, PyAny>) -> Option<&'static Builtin> {
        let address = object.as_ptr() as usize;
        let found = self.read().by_address.get(&address).copied();
        if found.is_some() || self.is_complete.load(Ordering::Relaxed) {
            return found;
        }
        self.resolve_imported(object.py()).then(|| self.read().by_address.get(&address).copied()).flatten()
    }

    /// Resolves registrations for what has been imported meanwhile; whether there are any.
    fn resolve_imported(&self, py: Python<'_>) -> bool {
        let imported: Vec<_> = {
            let resolved = self.read();
            let waiting = resolved.waiting.iter().filter(|(name, _)| is_imported(name.bind(py)));
            waiting.map(|(name, _)| name.clone_ref(py)).collect()
        };
        for name in &imported {
            let mut resolved = self.resolved.write().unwrap_or_else(PoisonError::into_inner);
            let Some(at) = resolved.waiting.iter().position(|(other, _)| other.is(name)) else { continue };
            let (_, builtins) = resolved.waiting.swap_remove(at);
            // A function that the program has put in the place of one meanwhile is from elsewhere. Classes and C code
            // are named after the modules they are made in.
            let is_own = |object: &Bound<'_, PyAny>| {
                let of_module = || object.getattr("__module__").and_then(|module| module.eq(name));
                !object.is_instance_of::<PyFunction>() || of_module().unwrap_or(false)
            };
            let found =
                find(name.bind(py), &builtins).map(|found| found.into_iter().filter(|(_, object)| is_own(object)));
            if let Err(error) = found.and_then(|found| resolved.add(found)) {
                log::write(log::BREAKS, &format!("[Registration]: {error}"));
            }
            self.is_complete.store(resolved.waiting.is_empty(), Ordering::Relaxed);
        }
        !imported.is_empty()
    }

    fn read(&self) -> RwLockReadGuard<'_, Resolved> {
        self.resolved.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Resolved {
    fn add<'py>(
        &mut self,
        found: impl IntoIterator<Item = (&'static Builtin, Bound<'py, PyAny>)>,
    ) -> Result<(), RegistrationError> {
        for (builtin, object) in found {
            if let Some(first) = self.by_address.insert(object.as_ptr() as usize, builtin) {
                return Err(twice(first, builtin));
            }
            self.objects.push(object.unbind());
        }
        Ok(())
    }
}

/// The objects of registrations. A path that this interpreter lacks is an error, but for those that say that some do.
fn find<'py>(
    module: &Bound<'py, PyString>,
    builtins: &[&'static Builtin],
) -> Result<Vec<(&'static Builtin, Bound<'py, PyAny>)>, RegistrationError> {
    let mut found = Vec::with_capacity(builtins.len());
    for &builtin in builtins {
        match resolve(module, builtin.path) {
            Ok(object) => found.push((builtin, object)),
            Err(_) if builtin.is_optional => {}
            Err(error) => {
                return Err(RegistrationError {
                    what: format!("a builtin handler for {:?}, which is nowhere: {error}", builtin.path),
                    file: builtin.file,
                    line: builtin.line,
                })
            }
        }
    }
    Ok(found)
}

/// What two registrations for one path are, also where the object is not there yet.
fn refuse_twins(builtins: &[&'static Builtin]) -> Result<(), RegistrationError> {
    let mut by_path: HashMap<&str, &'static Builtin> = HashMap::new();
    for builtin in builtins {
        if let Some(first) = by_path.insert(builtin.path, builtin) {
            return Err(twice(first, builtin));
        }
    }
    Ok(())
}

fn twice(first: &Builtin, second: &Builtin) -> RegistrationError {
    RegistrationError {
        what: format!("{} already has a handler: {} at {}:{}", second.path, first.path, first.file, first.line),
        file: second.file,
        line: second.line,
    }
}

/// The module of a path, and what is looked up in it.
fn parts(path: &'static str) -> (&'static str, &'static str) {
    path.split_once(':').unwrap_or(("builtins", path))
}

/// The module of a registration by its whole name.
fn module_of(builtin: &Builtin, package: Option<&str>) -> Result<String, RegistrationError> {
    let module = parts(builtin.path).0;
    match (module.strip_prefix('.'), package) {
        (None, _) => Ok(module.to_owned()),
        (Some(below), Some(package)) => Ok(format!("{package}.{below}")),
        (Some(_), None) => Err(RegistrationError {
            what: format!("a builtin handler for {:?}, and the tracer was started for no package", builtin.path),
            file: builtin.file,
            line: builtin.line,
        }),
    }
}

/// The object at a path in its module. `list.append` is the descriptor in the type, as method lookup finds it.
fn resolve<'py>(module: &Bound<'py, PyString>, path: &'static str) -> PyResult<Bound<'py, PyAny>> {
    let py = module.py();
    let mut object = cpython::import(py, module.to_str()?)?.into_any();
    for name in parts(path).1.split('.') {
        // Of a class, what its dict holds: each lookup of a class method makes a new bound object.
        object = match object.cast::<PyType>() {
            Ok(class) => cpython::type_lookup(class, &PyString::new(py, name))
                .ok_or_else(|| PyAttributeError::new_err(name.to_owned()))?,
            Err(_) => object.getattr(name)?,
        };
    }
    Ok(object)
}
