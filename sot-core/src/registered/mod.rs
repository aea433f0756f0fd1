//! Registrations that a program makes at run time: what a call of a function means, which classes are value types,
//! which modules are followed. They are in one table, which is consulted while a frame is translated. Translations do
//! not guard on it. Instead, a change makes caches drop the translations that met an object it concerns.

mod failure;
mod module;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::cpython;
use crate::forgetting;
use crate::package;
use crate::tracker;

pub use failure::{has_failure, take_failure, RegistrationFailure};
pub use module::{is_within, mark_of, module_of, name_of, why_without_effect};

/// How a container object is flattened and rebuilt.
#[derive(Debug)]
pub struct FlattenProtocol {
    /// Called with the object. Returns the objects it holds, and the rest of its state, which is immutable and
    /// compared by `==`.
    pub flatten: Py<PyAny>,
    /// Called with the rest of the state and a tuple of the held objects. Returns the container.
    pub unflatten: Py<PyAny>,
}

impl FlattenProtocol {
    /// Flattens an object: the objects it holds as a tuple, and the rest of its state.
    pub fn of<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyAny>)> {
        failure::run(object.py(), || {
            let found = self.flatten.bind(object.py()).call1((object,))?;
            let (held, rest) = found.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>().map_err(|_| {
                let text = "flatten() of a container gives a pair: what it holds, and what else there is to it";
                PyTypeError::new_err(text)
            })?;
            let held = held.try_iter()?.collect::<PyResult<Vec<_>>>()?;
            Ok((PyTuple::new(object.py(), held)?, rest))
        })
    }

    /// Rebuilds the container from the rest of its state and the objects it holds.
    pub fn make<'py>(&self, rest: &Bound<'py, PyAny>, held: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        failure::run(rest.py(), || self.unflatten.bind(rest.py()).call1((rest, held)))
    }
}

/// The meaning that a registration gives to an object.
#[derive(Debug)]
pub enum RegistrationKind {
    /// Calls of the object end the graph and run natively. For a class, this holds for creating instances and for
    /// calling them.
    Break,
    /// Like `Break`. In addition, frames of the function are not translated and, if requested, neither are frames of
    /// functions that it calls.
    Disabled,
    /// Its result depends only on its arguments, and it has no side effects: with known arguments it is called while
    /// tracing.
    Pure,
    /// The function is called while tracing, and the trace assumes that the result stays the same.
    ConstantResult,
    /// This function is followed in its place.
    Substitute(Py<PyAny>),
    /// A call of the function becomes one statement of the graph.
    Statement,
    /// Instances of the class are immutable, and compared by value.
    Value,
    /// Instances of the class hold other objects, and are compared by them.
    Container(FlattenProtocol),
    /// Functions of the module run natively.
    Skipped,
    /// Functions of the module are followed, even where the framework says otherwise.
    Followed,
}

impl RegistrationKind {
    /// The name of the user's function that makes the registration, for texts.
    pub fn word(&self) -> &'static str {
        match self {
            RegistrationKind::Break => "break_on",
            RegistrationKind::Disabled => "disable",
            RegistrationKind::Pure => "pure",
            RegistrationKind::ConstantResult => "constant_result",
            RegistrationKind::Substitute(_) => "substitute",
            RegistrationKind::Statement => "graph_node",
            RegistrationKind::Value => "value_type",
            RegistrationKind::Container(_) => "container",
            RegistrationKind::Skipped => "skip",
            RegistrationKind::Followed => "trace",
        }
    }

    /// The user's function with its package, for errors.
    pub fn call(&self) -> String {
        let module = match self {
            RegistrationKind::Break | RegistrationKind::Disabled => "",
            _ => "register.",
        };
        format!("{}.{module}{}", package::name(), self.word())
    }

    fn question(&self) -> RegistrationQuestion {
        match self {
            RegistrationKind::Break | RegistrationKind::Disabled => RegistrationQuestion::Break,
            RegistrationKind::Pure
            | RegistrationKind::ConstantResult
            | RegistrationKind::Substitute(_)
            | RegistrationKind::Statement => RegistrationQuestion::Call,
            RegistrationKind::Value | RegistrationKind::Container(_) => RegistrationQuestion::Instances,
            RegistrationKind::Skipped | RegistrationKind::Followed => RegistrationQuestion::Module,
        }
    }
}

/// The question that a registration answers. An object has at most one registration for each question, except for
/// breaks, which do not exclude each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RegistrationQuestion {
    Break,
    Call,
    Instances,
    Module,
}

/// One registration.
#[derive(Debug)]
pub struct Registration {
    /// The registered object. It is kept alive, because its address is the key of the registration.
    pub object: Py<PyAny>,
    /// The meaning that the registration gives to the object.
    pub kind: RegistrationKind,
    token: u64,
    /// Name of the module, if a module is registered.
    module: Option<String>,
    /// File and line of the program that made the registration.
    place: Option<String>,
    /// True once the registered code has raised for a guard.
    has_failed: AtomicBool,
}

impl Registration {
    /// Returns the call that made the registration, as text.
    pub fn text(&self, py: Python<'_>) -> String {
        format!("{}.register.{}({})", package::name(), self.kind.word(), tracker::name(self.object.bind(py)))
    }

    /// Returns the call that made the registration, with its file and line.
    pub fn text_and_place(&self, py: Python<'_>) -> String {
        self.place.as_ref().map_or_else(|| self.text(py), |place| format!("{} at {place}", self.text(py)))
    }
}

#[derive(Default)]
struct Table {
    by_address: FxHashMap<usize, Vec<Arc<Registration>>>,
    modules: Vec<Arc<Registration>>,
}

static COUNT: AtomicUsize = AtomicUsize::new(0);
static TOKENS: AtomicU64 = AtomicU64::new(1);
static TABLE: Mutex<Option<Table>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Table>> {
    TABLE.lock()
}

/// Registers a meaning of an object until [`undo`] is called with the result. Fails if the object has another meaning
/// for the same question.
pub fn register(object: &Bound<'_, PyAny>, kind: RegistrationKind) -> PyResult<u64> {
    let module = if kind.question() == RegistrationQuestion::Module { Some(name_of(object)?) } else { None };
    let concerned = concerned(object, &kind, module.as_deref())?;
    let token = TOKENS.fetch_add(1, Ordering::Relaxed);
    let place = calling_place(object.py()).unwrap_or_default();
    let has_failed = AtomicBool::new(false);
    let registration =
        Arc::new(Registration { object: object.clone().unbind(), kind, token, module, place, has_failed });
    let mut table = lock();
    let known = table.get_or_insert_with(Table::default);
    let all = known.by_address.entry(object.as_ptr() as usize).or_default();
    let question = registration.kind.question();
    if let Some(first) =
        all.iter().find(|other| question != RegistrationQuestion::Break && other.kind.question() == question)
    {
        let first = Arc::clone(first);
        drop(table);
        let shown = match &registration.module {
            Some(name) => format!("the module {name}"),
            None => tracker::repr(object.py(), object.as_unbound()),
        };
        let text = format!(
            "{shown} is registered already, as {}{}: undo that first",
            first.kind.word(),
            first.place.as_ref().map(|place| format!(", at {place}")).unwrap_or_default()
        );
        return Err(PyValueError::new_err(text));
    }
    all.push(Arc::clone(&registration));
    if question == RegistrationQuestion::Module {
        known.modules.push(registration);
    }
    drop(table);
    COUNT.fetch_add(1, Ordering::Relaxed);
    forgetting::met(concerned);
    Ok(token)
}

/// Returns file and line of the innermost Python frame that is not of the tracer's package.
fn calling_place(py: Python<'_>) -> PyResult<Option<String>> {
    let mut frame = cpython::current_frame(py).map(Bound::into_any);
    while let Some(at) = frame.filter(|at| !at.is_none()) {
        let module = at.getattr("f_globals")?.get_item("__name__").and_then(|name| name.extract::<String>());
        if !module.is_ok_and(|module| module::is_within(&module, package::name())) {
            let file: String = at.getattr("f_code")?.getattr("co_filename")?.extract()?;
            return Ok(Some(format!("{file}:{}", at.getattr("f_lineno")?)));
        }
        frame = at.getattr_opt("f_back")?;
    }
    Ok(None)
}

/// Undoes a registration and returns it; `None` if it has been undone before.
pub fn undo(py: Python<'_>, token: u64) -> PyResult<Option<Arc<Registration>>> {
    let Some(registration) = take(token) else { return Ok(None) };
    COUNT.fetch_sub(1, Ordering::Relaxed);
    let object = registration.object.bind(py);
    forgetting::met(concerned(object, &registration.kind, registration.module.as_deref())?);
    Ok(Some(registration))
}

fn take(token: u64) -> Option<Arc<Registration>> {
    let mut table = lock();
    let table = table.as_mut()?;
    let address = *table.by_address.iter().find(|(_, all)| all.iter().any(|one| one.token == token))?.0;
    let all = table.by_address.get_mut(&address)?;
    let registration = all.remove(all.iter().position(|one| one.token == token)?);
    if all.is_empty() {
        table.by_address.remove(&address);
    }
    table.modules.retain(|one| one.token != token);
    Some(registration)
}

/// The objects that the change concerns: translations that met one of them are dropped.
fn concerned(object: &Bound<'_, PyAny>, kind: &RegistrationKind, module: Option<&str>) -> PyResult<FxHashSet<usize>> {
    let mut all = match module {
        Some(name) => module::contents(object.py(), name)?,
        None => FxHashSet::default(),
    };
    all.insert(object.as_ptr() as usize);
    if let RegistrationKind::Substitute(by) = kind {
        all.insert(by.as_ptr() as usize);
    }
    Ok(all)
}

/// True if nothing is registered.
#[inline]
pub fn is_empty() -> bool {
    COUNT.load(Ordering::Relaxed) == 0
}

fn find(address: usize, question: RegistrationQuestion) -> Option<Arc<Registration>> {
    let table = lock();
    let all = table.as_ref()?.by_address.get(&address)?;
    all.iter().rev().find(|one| one.kind.question() == question).cloned()
}

/// Returns the registration that makes a call of `object` end the graph: that of the object, its class or its module.
pub fn break_of(object: &Bound<'_, PyAny>) -> Option<Arc<Registration>> {
    if is_empty() {
        return None;
    }
    let listed = find(object.as_ptr() as usize, RegistrationQuestion::Break)
        .or_else(|| find(object.get_type_ptr() as usize, RegistrationQuestion::Break));
    listed.or_else(|| of_module(&module_of(object)?).filter(|one| matches!(one.kind, RegistrationKind::Skipped)))
}

/// Returns the registered meaning of a call of `object`.
pub fn call_of(object: &Bound<'_, PyAny>) -> Option<Arc<Registration>> {
    if is_empty() {
        return None;
    }
    find(object.as_ptr() as usize, RegistrationQuestion::Call)
}

/// True if calls of the object are registered to be one statement.
pub fn is_statement(object: &Bound<'_, PyAny>) -> bool {
    call_of(object).is_some_and(|meaning| matches!(meaning.kind, RegistrationKind::Statement))
}

/// Returns the registration of the class as a value type, if there is one.
pub fn value_class(class: &Bound<'_, PyAny>) -> Option<Arc<Registration>> {
    instances_of(class).filter(|one| matches!(one.kind, RegistrationKind::Value))
}

/// Returns the registration of the class as a container, if there is one.
pub fn container_of(class: &Bound<'_, PyAny>) -> Option<Arc<Registration>> {
    instances_of(class).filter(|one| matches!(one.kind, RegistrationKind::Container(_)))
}

fn instances_of(class: &Bound<'_, PyAny>) -> Option<Arc<Registration>> {
    if is_empty() {
        return None;
    }
    find(class.as_ptr() as usize, RegistrationQuestion::Instances)
}

/// True if the function's module is registered to be followed.
pub fn is_followed(function: &Bound<'_, PyAny>) -> bool {
    let followed = || Some(matches!(of_module(&module_of(function)?)?.kind, RegistrationKind::Followed));
    !is_empty() && followed().unwrap_or(false)
}

/// True if the module of these globals is registered to be skipped.
pub fn skips_frame(globals: &Bound<'_, pyo3::types::PyDict>) -> bool {
    let skipped = || Some(matches!(of_module(&module::of_globals(globals)?)?.kind, RegistrationKind::Skipped));
    !is_empty() && skipped().unwrap_or(false)
}

/// True if some registration leaves frames of the object to CPython.
pub fn leaves_frames_alone(object: &Bound<'_, PyAny>) -> bool {
    let table = lock();
    let all = table.as_ref().and_then(|table| table.by_address.get(&(object.as_ptr() as usize)));
    let alone = |one: &Arc<Registration>| {
        matches!(one.kind, RegistrationKind::Break | RegistrationKind::Disabled | RegistrationKind::Statement)
    };
    all.is_some_and(|all| all.iter().any(alone))
}

/// Returns the registration of the innermost registered module that is, or contains, the module of this name.
fn of_module(name: &str) -> Option<Arc<Registration>> {
    let table = lock();
    let around = |one: &&Arc<Registration>| one.module.as_deref().is_some_and(|module| module::is_within(name, module));
    let all = table.as_ref()?.modules.iter().filter(around);
    all.max_by_key(|one| one.module.as_ref().map(String::len)).cloned()
}
