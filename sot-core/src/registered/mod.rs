//! What a program registers while it runs: what calls of a function mean, which classes are values, which modules are
//! followed. There is one table, asked while a frame is translated; translations do not guard on it. A change makes
//! caches forget the translations that met what it concerns.

mod module;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::cpython;
use crate::forgetting;
use crate::package;
use crate::tracker;

pub use module::{mark_of, module_of, name_of, why_without_effect};

/// How an object that holds others is taken apart and made.
#[derive(Debug)]
pub struct Parts {
    /// Called with the object: what it holds, and what else there is to it, which is immutable and compared by `==`.
    pub flatten: Py<PyAny>,
    /// Called with what else there is to it and a tuple of what it holds: the object.
    pub unflatten: Py<PyAny>,
}

impl Parts {
    /// What an object holds, as a tuple, and what else there is to it.
    pub fn of<'py>(&self, object: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyAny>)> {
        let _quiet = cpython::suspend(object.py());
        let found = self.flatten.bind(object.py()).call1((object,))?;
        let (held, rest) = found.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>().map_err(|_| {
            PyTypeError::new_err("flatten() of a container gives a pair: what it holds, and what else there is to it")
        })?;
        let held = held.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        Ok((PyTuple::new(object.py(), held)?, rest))
    }

    /// The object that holds these.
    pub fn make<'py>(&self, rest: &Bound<'py, PyAny>, held: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let _quiet = cpython::suspend(rest.py());
        self.unflatten.bind(rest.py()).call1((rest, held))
    }
}

/// What is said of an object.
#[derive(Debug)]
pub enum Meaning {
    /// Calls of it end the graph and run for real: of a class, those that make its instances and those of its
    /// instances.
    Break,
    /// The same, and neither its own frames are translated nor, if so asked, those of what it calls.
    Disabled,
    /// Its result depends on its arguments alone, and it does nothing else: with known arguments it is called while
    /// tracing.
    Pure,
    /// It is called while tracing, and its result is assumed from then on.
    ConstantResult,
    /// This function is followed in its place.
    Substitute(Py<PyAny>),
    /// A call of it is one statement of the graph.
    Statement,
    /// Instances of the class are immutable and compared by value.
    Value,
    /// Instances of the class hold other objects, and are told by them.
    Container(Parts),
    /// Functions of the module run for real.
    Skipped,
    /// Functions of the module are followed, whatever the framework says of them.
    Followed,
}

impl Meaning {
    /// What the program called to say so, for texts.
    pub fn word(&self) -> &'static str {
        match self {
            Meaning::Break => "break_on",
            Meaning::Disabled => "disable",
            Meaning::Pure => "pure",
            Meaning::ConstantResult => "constant_result",
            Meaning::Substitute(_) => "substitute",
            Meaning::Statement => "graph_node",
            Meaning::Value => "value_type",
            Meaning::Container(_) => "container",
            Meaning::Skipped => "skip",
            Meaning::Followed => "trace",
        }
    }

    fn role(&self) -> Role {
        match self {
            Meaning::Break | Meaning::Disabled => Role::Break,
            Meaning::Pure | Meaning::ConstantResult | Meaning::Substitute(_) | Meaning::Statement => Role::Call,
            Meaning::Value | Meaning::Container(_) => Role::Instances,
            Meaning::Skipped | Meaning::Followed => Role::Module,
        }
    }
}

/// The question that a registration answers. Of one object there is one answer, but for breaks, which only add up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Break,
    Call,
    Instances,
    Module,
}

/// One registration.
#[derive(Debug)]
pub struct Registration {
    /// The object, kept alive so that its address stays its own.
    pub object: Py<PyAny>,
    /// What is said of it.
    pub meaning: Meaning,
    token: u64,
    /// Of a module: its name.
    module: Option<String>,
}

impl Registration {
    /// As the program has called it.
    pub fn text(&self, py: Python<'_>) -> String {
        format!("{}.register.{}({})", package::name(), self.meaning.word(), tracker::name(self.object.bind(py)))
    }
}

#[derive(Default)]
struct Table {
    by_address: HashMap<usize, Vec<Arc<Registration>>>,
    modules: Vec<Arc<Registration>>,
}

static COUNT: AtomicUsize = AtomicUsize::new(0);
static TOKENS: AtomicU64 = AtomicU64::new(1);
static TABLE: Mutex<Option<Table>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Table>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a meaning of an object until [`undo`] is called with the result. An error says why it cannot be.
pub fn register(object: &Bound<'_, PyAny>, meaning: Meaning) -> PyResult<u64> {
    let module = if meaning.role() == Role::Module { Some(name_of(object)?) } else { None };
    let concerned = concerned(object, &meaning, module.as_deref())?;
    let token = TOKENS.fetch_add(1, Ordering::Relaxed);
    let registration = Arc::new(Registration { object: object.clone().unbind(), meaning, token, module });
    let mut table = lock();
    let known = table.get_or_insert_with(Table::default);
    let all = known.by_address.entry(object.as_ptr() as usize).or_default();
    let role = registration.meaning.role();
    if let Some(first) = all.iter().find(|other| role != Role::Break && other.meaning.role() == role) {
        let text = format!(
            "{} is registered already, as {}: undo that first",
            tracker::repr(object.py(), object.as_unbound()),
            first.meaning.word()
        );
        drop(table);
        return Err(PyValueError::new_err(text));
    }
    all.push(Arc::clone(&registration));
    if role == Role::Module {
        known.modules.push(registration);
    }
    drop(table);
    COUNT.fetch_add(1, Ordering::Relaxed);
    forgetting::met(concerned);
    Ok(token)
}

/// Takes a registration back, and gives it; doing so twice is once.
pub fn undo(py: Python<'_>, token: u64) -> PyResult<Option<Arc<Registration>>> {
    let Some(registration) = take(token) else { return Ok(None) };
    COUNT.fetch_sub(1, Ordering::Relaxed);
    let object = registration.object.bind(py);
    forgetting::met(concerned(object, &registration.meaning, registration.module.as_deref())?);
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

/// The objects that a translation must have met for the change to concern it.
fn concerned(object: &Bound<'_, PyAny>, meaning: &Meaning, module: Option<&str>) -> PyResult<HashSet<usize>> {
    let mut all = match module {
        Some(name) => module::contents(object.py(), name)?,
        None => HashSet::new(),
    };
    all.insert(object.as_ptr() as usize);
    if let Meaning::Substitute(by) = meaning {
        all.insert(by.as_ptr() as usize);
    }
    Ok(all)
}

/// Whether nothing is registered.
#[inline]
pub fn is_empty() -> bool {
    COUNT.load(Ordering::Relaxed) == 0
}

fn find(address: usize, role: Role) -> Option<Arc<Registration>> {
    let table = lock();
    let all = table.as_ref()?.by_address.get(&address)?;
    all.iter().rev().find(|one| one.meaning.role() == role).cloned()
}

/// Why a call of `object` is to end the graph: it, its class or its module was registered so.
pub fn break_of(object: &Bound<'_, PyAny>) -> Option<Arc<Registration>> {
    if is_empty() {
        return None;
    }
    let listed =
        find(object.as_ptr() as usize, Role::Break).or_else(|| find(object.get_type_ptr() as usize, Role::Break));
    listed.or_else(|| of_module(&module_of(object)?).filter(|one| matches!(one.meaning, Meaning::Skipped)))
}

/// What a call of `object` means.
pub fn call_of(object: &Bound<'_, PyAny>) -> Option<Arc<Registration>> {
    if is_empty() {
        return None;
    }
    find(object.as_ptr() as usize, Role::Call)
}

/// Says that instances of the class are values, if they are.
pub fn value_class(class: &Bound<'_, PyAny>) -> Option<Arc<Registration>> {
    instances_of(class).filter(|one| matches!(one.meaning, Meaning::Value))
}

/// How instances of the class are taken apart, if they hold other objects.
pub fn container_of(class: &Bound<'_, PyAny>) -> Option<Arc<Registration>> {
    instances_of(class).filter(|one| matches!(one.meaning, Meaning::Container(_)))
}

fn instances_of(class: &Bound<'_, PyAny>) -> Option<Arc<Registration>> {
    if is_empty() {
        return None;
    }
    find(class.as_ptr() as usize, Role::Instances)
}

/// Whether a function is to be followed, whatever the framework says of it.
pub fn is_followed(function: &Bound<'_, PyAny>) -> bool {
    let followed = || Some(matches!(of_module(&module_of(function)?)?.meaning, Meaning::Followed));
    !is_empty() && followed().unwrap_or(false)
}

/// Whether frames with these globals are left to CPython.
pub fn skips_frame(globals: &Bound<'_, pyo3::types::PyDict>) -> bool {
    let skipped = || Some(matches!(of_module(&module::of_globals(globals)?)?.meaning, Meaning::Skipped));
    !is_empty() && skipped().unwrap_or(false)
}

/// Whether another registration leaves frames of the object to CPython.
pub fn leaves_frames_alone(object: &Bound<'_, PyAny>) -> bool {
    let table = lock();
    let all = table.as_ref().and_then(|table| table.by_address.get(&(object.as_ptr() as usize)));
    let alone =
        |one: &Arc<Registration>| matches!(one.meaning, Meaning::Break | Meaning::Disabled | Meaning::Statement);
    all.is_some_and(|all| all.iter().any(alone))
}

/// What is said of the innermost registered module that one of this name is, or is in.
fn of_module(name: &str) -> Option<Arc<Registration>> {
    let table = lock();
    let around = |one: &&Arc<Registration>| one.module.as_deref().is_some_and(|module| module::is_within(name, module));
    let all = table.as_ref()?.modules.iter().filter(around);
    all.max_by_key(|one| one.module.as_ref().map(String::len)).cloned()
}
