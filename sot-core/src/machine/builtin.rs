//! Builtin handlers: how to simulate a call of a C function, method or class whose meaning CPython fixes. Handlers are
//! registered under the object's dotted path (`len`, `list.append`, `math:sqrt`); the path is resolved once, at start.

use std::collections::HashMap;

use linkme::distributed_slice;
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use crate::cpython;
use crate::error::{Flow, RegistrationError};
use crate::machine::executor::{CallArgs, OpcodeExecutor};
use crate::machine::variable::VarId;

/// Simulates one call.
pub type BuiltinHandler = fn(&mut OpcodeExecutor<'_>, &CallArgs) -> Flow<VarId>;

/// A registration.
pub struct Builtin {
    /// Dotted path in `builtins`, or `module:path` in another module of the standard library.
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

/// Registers a builtin handler: `builtin! { LEN = "len" => |cx, args| ... }`. The first name is only a Rust item name. A path
/// that some interpreters lack is followed by a question mark: `builtin! { CBRT = "math:cbrt"? => |cx, args| ... }`.
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

/// The handlers by the object they stand for.
pub struct BuiltinTable {
    by_address: HashMap<usize, &'static Builtin>,
    // Keeps the objects alive, so that their addresses stay theirs.
    _objects: Vec<Py<PyAny>>,
}

impl BuiltinTable {
    /// Resolves every registration. A path that this interpreter lacks is an error, but for those that say that some do (say
    /// `math.cbrt`, which came with 3.11).
    pub fn freeze(py: Python<'_>) -> Result<BuiltinTable, RegistrationError> {
        Self::from_builtins(py, BUILTINS.iter())
    }

    /// Resolves the given registrations; `freeze` gives it all there are.
    pub fn from_builtins(
        py: Python<'_>,
        registered: impl Iterator<Item = &'static Builtin>,
    ) -> Result<BuiltinTable, RegistrationError> {
        let mut by_address: HashMap<usize, &'static Builtin> = HashMap::new();
        let mut objects = Vec::new();
        for builtin in registered {
            let object = match resolve(py, builtin.path) {
                Ok(object) => object,
                Err(_) if builtin.is_optional => continue,
                Err(error) => {
                    return Err(RegistrationError {
                        what: format!("a builtin handler for {:?}, which is nowhere: {error}", builtin.path),
                        file: builtin.file,
                        line: builtin.line,
                    })
                }
            };
            if let Some(first) = by_address.insert(object.as_ptr() as usize, builtin) {
                return Err(RegistrationError {
                    what: format!(
                        "{} already has a handler: {} at {}:{}",
                        builtin.path, first.path, first.file, first.line
                    ),
                    file: builtin.file,
                    line: builtin.line,
                });
            }
            objects.push(object.unbind());
        }
        Ok(BuiltinTable { by_address, _objects: objects })
    }

    /// The handler for an object.
    pub fn get(&self, object: &Bound<'_, PyAny>) -> Option<&'static Builtin> {
        self.by_address.get(&(object.as_ptr() as usize)).copied()
    }
}

/// The object at a path. `list.append` is the descriptor in the type, as method lookup finds it.
fn resolve<'py>(py: Python<'py>, path: &str) -> PyResult<Bound<'py, PyAny>> {
    let (module, path) = path.split_once(':').unwrap_or(("builtins", path));
    let mut object = cpython::import(py, module)?.into_any();
    for name in path.split('.') {
        // Of a class, what its dict holds: each lookup of a class method makes a new bound object.
        object = match object.cast::<PyType>() {
            Ok(class) => cpython::type_lookup(class, &PyString::new(py, name))
                .ok_or_else(|| PyAttributeError::new_err(name.to_owned()))?,
            Err(_) => object.getattr(name)?,
        };
    }
    Ok(object)
}
