//! The frozen registries of the running interpreter, and its backend.

use once_cell::sync::OnceCell;
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

use crate::backend::Backend;
use crate::bytecode::Opcodes;
use crate::cache::set_skipped_files;
use crate::cpython;
use crate::error::{check_reasons, set_hints, RegistrationError};
use crate::fault;
use crate::machine::builtin::BuiltinTable;
use crate::machine::observer::{self, ObserverRegistration};
use crate::machine::opcode::DispatchTable;
use crate::machine::variable::{Factories, KindTable};
use crate::origin::{LinkedRegistration, Registered, RegistrationOrigin};
use crate::package;
use crate::version::PyVersion;

/// The registration of a backend.
pub struct BackendRegistration {
    /// Unique name.
    pub name: &'static str,
    /// Makes the backend, or fails if it cannot be used.
    pub make: fn(Python<'_>) -> PyResult<Box<dyn Backend>>,
    /// Where it is registered.
    pub origin: RegistrationOrigin,
}

inventory::collect!(BackendRegistration);

impl Registered for BackendRegistration {
    fn linked(&self) -> LinkedRegistration {
        LinkedRegistration { registry: "backend", name: self.name, origin: self.origin }
    }
}

/// Registers a backend: `backend! { "toy", ToyBackend::new }`.
#[macro_export]
macro_rules! backend {
    ($name:literal, $make:expr) => {
        $crate::inventory::submit! {
            $crate::runtime::BackendRegistration { name: $name, make: $make, origin: $crate::origin!() }
        }
    };
}

/// All that is fixed once the tracer has started.
pub struct Runtime {
    /// The version of the interpreter.
    pub version: PyVersion,
    /// Opcode handlers.
    pub dispatch: &'static DispatchTable,
    /// Variable kinds.
    pub kinds: KindTable,
    /// Handlers of builtins.
    pub builtins: BuiltinTable,
    /// Observers of translations.
    pub observers: Vec<&'static ObserverRegistration>,
    /// The kinds that the executor itself makes.
    pub factories: &'static Factories,
    /// Name of the Python package that uses the tracer, for messages.
    pub package: String,
    backend: Box<dyn Backend>,
    backend_name: String,
    skipped_paths: Vec<String>,
    standard_library: String,
    installed_paths: Vec<String>,
}

/// The folder for installed packages, below that of the standard library.
const INSTALLED_BELOW: &str = "site-packages";

static RUNTIME: OnceCell<Runtime> = OnceCell::new();

impl Runtime {
    /// Freezes the registries and starts the backend. Later calls return the same runtime. Each library that the
    /// tracer is linked into has one runtime, so another backend is an error: it needs an extension module of its
    /// own.
    pub fn start(py: Python<'_>, backend: &str) -> PyResult<&'static Runtime> {
        Self::start_for(py, backend, None)
    }

    /// Like [`Runtime::start`], for a Python package: builtins whose path begins with a dot are looked up in it.
    pub fn start_for(py: Python<'_>, backend: &str, package: Option<&str>) -> PyResult<&'static Runtime> {
        if RUNTIME.get().is_none() {
            // Not `get_or_try_init`: starting runs Python code, which may release the GIL to a thread that would wait
            // for this one. If two threads start at once, the runtime that is complete first is kept.
            fault::watch_panics();
            if let Some(package) = package {
                package::is_named(package);
            }
            let runtime = Runtime::new(py, backend, package)?;
            RUNTIME.set(runtime).ok();
            set_skipped_files(Box::new(|file| Runtime::get().is_some_and(|runtime| runtime.skips(file))));
            set_hints(Box::new(|reason| Runtime::get()?.backend().user_interface().hint(reason)));
        }
        let runtime = RUNTIME.get().ok_or_else(|| PyImportError::new_err(cannot_start("no runtime")))?;
        let running = &runtime.backend_name;
        if running != backend {
            return Err(PyImportError::new_err(format!(
                "the tracer runs with the backend {running:?} and cannot start with {backend:?}: a library that it is \
                 linked into has one backend; build an extension module of its own for each"
            )));
        }
        Ok(runtime)
    }

    /// Returns the runtime, if it was started.
    pub fn get() -> Option<&'static Runtime> {
        RUNTIME.get()
    }

    fn new(py: Python<'_>, backend: &str, package: Option<&str>) -> PyResult<Runtime> {
        let version = PyVersion::BUILT_FOR;
        let wrong = |error: RegistrationError| PyImportError::new_err(cannot_start(error));
        check_reasons().map_err(wrong)?;
        cpython::keep_builtins(py)?;
        let (backend_name, backend) = (backend.to_owned(), make_backend(py, backend)?);
        let mut skipped_paths = backend.skipped_paths(py)?;
        // With the tracer's own modules, whose sources are part of the extension.
        skipped_paths.extend(["<frozen ", "<sot>/", "<__array_function__ internals>"].map(str::to_owned));
        let paths = cpython::import(py, "sysconfig")?;
        let folder =
            |name| -> PyResult<String> { Ok(paths.call_method1("get_path", (name,))?.extract::<String>()? + "/") };
        let standard_library = folder("stdlib")?;
        let installed_paths = vec![folder("purelib")?, folder("platlib")?];
        Ok(Runtime {
            version,
            dispatch: DispatchTable::start(py, version).map_err(wrong)?,
            kinds: KindTable::freeze(py).map_err(wrong)?,
            builtins: BuiltinTable::freeze(py, package).map_err(wrong)?,
            observers: observer::all(),
            factories: the_factories()?,
            backend,
            package: package::name().to_owned(),
            backend_name,
            skipped_paths,
            standard_library,
            installed_paths,
        })
    }

    /// The backend that builds and runs graphs.
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// Asks the backend for required information. An error counts as a fault of the backend.
    pub fn ask_backend<T>(&self, question: impl FnOnce(&dyn Backend) -> PyResult<T>) -> PyResult<T> {
        fault::of_backend(|| question(&*self.backend))
    }

    /// True if an object is a tensor, or the framework keeps tensors in it.
    pub fn may_hold_tensors(&self, object: &Bound<'_, PyAny>) -> bool {
        self.backend.is_tensor(object) || self.backend.models().may_hold_tensors(object)
    }

    /// True if frames of a file are left alone unless the user asks for them: the standard library and the framework.
    pub fn skips(&self, file: &str) -> bool {
        self.in_standard_library(file).is_some()
            || self
                .skipped_paths
                .iter()
                .any(|prefix| file.strip_prefix(prefix.as_str()).is_some_and(|rest| !rest.starts_with(INSTALLED_BELOW)))
            || self.backend.user_interface().skips(file)
    }

    /// Returns the path of a file inside the standard library; `None` for other files. Packages that are installed
    /// below the folder of the standard library do not count as part of it.
    fn in_standard_library<'file>(&self, file: &'file str) -> Option<&'file str> {
        file.strip_prefix(self.standard_library.as_str()).filter(|rest| !rest.starts_with(INSTALLED_BELOW))
    }

    /// True if a file is a module of the standard library. Its package of tests does not count.
    pub fn is_standard_module(&self, file: &str) -> bool {
        self.in_standard_library(file).is_some_and(|rest| !rest.starts_with("test/"))
    }

    /// True if the object is a value: its type and contents are all that matters of it.
    pub fn is_constant(&self, object: &Bound<'_, PyAny>) -> bool {
        cpython::is_atom(object) || self.backend.constants().is_constant(object)
    }

    /// True if a file belongs to a library: it is installed, here or in another environment on the path, or its frames
    /// are left alone.
    pub fn is_library(&self, file: &str) -> bool {
        self.skips(file)
            || self.installed_paths.iter().any(|path| file.starts_with(path.as_str()))
            || ["/site-packages/", "/dist-packages/"].iter().any(|folder| file.contains(folder))
    }

    /// Returns CPython's name of an opcode.
    pub fn opcode_name(&self, py: Python<'_>, opcode: u8) -> String {
        Opcodes::get(py).name(opcode).to_owned()
    }
}

/// The text of the error at the start, which the program's import of the package raises.
fn cannot_start(why: impl std::fmt::Display) -> String {
    format!("{} cannot start: {why}", package::name())
}

fn the_factories() -> PyResult<&'static Factories> {
    let mut all = inventory::iter::<Factories>.into_iter();
    match (all.next(), all.next()) {
        (Some(factories), None) => Ok(factories),
        (None, _) => Err(PyImportError::new_err(cannot_start("no crate of variable kinds is linked in"))),
        _ => Err(PyImportError::new_err(cannot_start("two crates register the executor's own kinds"))),
    }
}

fn make_backend(py: Python<'_>, name: &str) -> PyResult<Box<dyn Backend>> {
    let mut all: Vec<_> = inventory::iter::<BackendRegistration>.into_iter().collect();
    all.sort_by_key(|backend| backend.linked());
    if let Some(pair) = all.windows(2).find(|pair| pair[0].name == pair[1].name) {
        let [first, second] = [pair[0], pair[1]];
        let why =
            format!("{}: a backend named {:?} is already registered at {}", second.origin, second.name, first.origin);
        return Err(PyImportError::new_err(cannot_start(why)));
    }
    match all.iter().find(|backend| backend.name == name) {
        Some(backend) => {
            fault::backend_is(*backend);
            (backend.make)(py)
        }
        None => {
            let known: Vec<_> = all.iter().map(|backend| backend.name).collect();
            Err(PyImportError::new_err(format!("no backend named {name:?}; registered: {}", known.join(", "))))
        }
    }
}
