//! The foundation of a call of Paddle's: the functions, classes and modules that Paddle's code finds by name when it
//! runs, directly or in functions that it calls. A statement stands for the call only while all of them are Paddle's
//! own. If the program has replaced one, Paddle's code is followed down to the replacement. The names that code may
//! look up are found by scanning it, which finds more names than are used.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyType};
use rustc_hash::{FxHashMap, FxHashSet};
use sot_core::backend::{CallKind, ObjectTest, TestKey};
use sot_core::cpython::{self, Place, Recorder, RefusedCode, Snapshot};
use sot_core::forgetting;

use crate::backend::calls::origin;
use crate::backend::calls::originals;
use crate::backend::paddle::Paddle;

mod scan;
mod search;

use search::{may_be_called, own_module, Search};

/// Foundations by the address of the callee, which the foundation keeps alive.
#[derive(Default)]
pub(crate) struct Foundations(Mutex<FxHashMap<usize, Arc<Foundation>>>);

/// The names that a call resolves, and their values.
pub(crate) struct Foundation {
    of: Py<PyAny>,
    /// True if the callee itself is Paddle's.
    is_own: bool,
    parts: Vec<LookedUpNames>,
    /// Names whose values are not Paddle's.
    replaced: Vec<ReplacedName>,
    /// The copy of the function that runs when a statement is built: see [`Foundation::copy_with_originals`].
    copied: Mutex<Option<Arc<FunctionCopy>>>,
    /// Number of changes of functions at the time of the search.
    changes: u64,
    memory: Mutex<FoundationMemory>,
}

/// Snapshots of memory: while the memory of a snapshot is unchanged, so are the parts that the snapshot covers.
struct FoundationMemory {
    /// One snapshot of all parts that are not written to.
    whole: Option<Arc<WholeSnapshot>>,
    parts: Arc<[PartMemory]>,
}

/// What is remembered about the memory of one part.
#[derive(Clone, Default)]
struct PartMemory {
    /// The last snapshot; `None` if the part's memory does not show whether the part is unchanged, or if no snapshot
    /// has been taken.
    noted: Option<Arc<Snapshot>>,
    /// Number of times that a snapshot has been taken or tried.
    times: u8,
}

/// Maximum number of snapshots of one part: [`PartMemory::times`]. A part that has changed more often is looked up from
/// then on: lookups cost less than a new snapshot after each change.
const MAX_SNAPSHOTS_OF_PART: u8 = 4;

/// One snapshot that covers several parts.
struct WholeSnapshot {
    snapshot: Snapshot,
    /// Indices of the parts that the snapshot does not cover.
    others: Vec<usize>,
}

/// The names that are looked up in one dict or class.
struct LookedUpNames {
    holder: NameHolder,
    entries: Vec<LookedUpName>,
}

/// A name of Paddle's whose value the program has replaced.
struct ReplacedName {
    name: String,
    by: Py<PyAny>,
}

/// A copy of a function that finds Paddle's own functions under these names; `None` if the copy cannot be made.
struct FunctionCopy {
    names: Vec<String>,
    code: Option<Py<PyAny>>,
}

struct LookedUpName {
    name: Py<PyString>,
    was: Py<PyAny>,
    /// True if another instance of the same class counts as unchanged.
    is_instance: bool,
}

impl LookedUpName {
    fn is_still(&self, found: &Bound<'_, PyAny>) -> bool {
        found.is(&self.was) || self.is_instance && found.get_type().is(self.was.bind(found.py()).get_type())
    }
}

enum NameHolder {
    Namespace(Py<PyDict>),
    Class(Py<PyType>),
}

/// Tests that the foundation of a call is unchanged.
pub(crate) struct FoundationTest(Arc<Foundation>);

/// The addresses of the functions in foundations.
static FUNCTIONS: LazyLock<Mutex<FxHashSet<usize>>> = LazyLock::new(Mutex::default);

/// Number of times that one of these functions has been given other code or other defaults.
static CHANGES: AtomicU64 = AtomicU64::new(0);

fn functions() -> parking_lot::MutexGuard<'static, FxHashSet<usize>> {
    FUNCTIONS.lock()
}

/// Watches functions in foundations for other code or other defaults. Such a change is rare: it forgets every
/// translation, so that guards need not test for it.
pub(crate) fn watch_functions(py: Python<'_>) {
    cpython::on_function_change(py, |function| {
        if functions().contains(&(function.as_ptr() as usize)) {
            CHANGES.fetch_add(1, Ordering::Relaxed);
            forgetting::everything();
        }
    });
}

/// Returns the foundation of a function, or of a property or method.
pub(crate) fn of_function(paddle: &Paddle, function: &Bound<'_, PyAny>) -> PyResult<Arc<Foundation>> {
    paddle.foundations.get(function, || Search::new(paddle.tensor_type.bind(function.py()), None).of_value(function))
}

/// Returns the foundation of calling a layer of the class.
pub(crate) fn of_layer(paddle: &Paddle, class: &Bound<'_, PyType>) -> PyResult<Arc<Foundation>> {
    let search = || Search::new(paddle.tensor_type.bind(class.py()), Some(class)).of_layer(class);
    paddle.foundations.get(class.as_any(), search)
}

/// Returns the foundation of making a layer of the class.
pub(crate) fn of_making(paddle: &Paddle, class: &Bound<'_, PyType>) -> PyResult<Arc<Foundation>> {
    let search = || Search::new(paddle.tensor_type.bind(class.py()), Some(class)).of_making(class);
    paddle.makings.get(class.as_any(), search)
}

/// Returns the foundation of a statement's call, or of making a layer: the object to test, and a test that its
/// foundation is unchanged.
#[allow(clippy::type_complexity, reason = "it is what the backend's trait has")]
pub(crate) fn of_call(
    paddle: &Paddle,
    kind: CallKind,
    callee: &Bound<'_, PyAny>,
) -> PyResult<Option<(Py<PyAny>, Box<dyn ObjectTest>)>> {
    let py = callee.py();
    let foundation = match (kind, callee.cast::<PyString>()) {
        (CallKind::Object(_), _) => Some(of_layer(paddle, &callee.get_type())?),
        (_, Ok(method)) => {
            let found = cpython::type_lookup(paddle.tensor_type.bind(py), method);
            let own = found.filter(|found| origin::is_own(found).unwrap_or(false));
            own.map(|found| of_function(paddle, &found)).transpose()?
        }
        (_, Err(_)) => Some(match callee.cast::<PyType>() {
            Ok(class) => of_making(paddle, class)?,
            Err(_) => of_function(paddle, callee)?,
        }),
    };
    Ok(foundation.and_then(|foundation| foundation.test(py)))
}

/// What is needed to build a statement of a method in a program when its code reaches names that the program has
/// replaced.
#[derive(Default)]
pub(crate) struct ProgramSubstitute {
    /// The copy that is run instead: it has Paddle's own functions where the method of eager tensors does not reach
    /// the replaced names.
    pub(crate) copy: Option<Py<PyAny>>,
    /// Foundations of the code and of its copy. Some stand-ins for a method do not run the copy.
    foundations: Vec<Arc<Foundation>>,
}

impl ProgramSubstitute {
    pub(crate) fn of_method(paddle: &Paddle, method: &Bound<'_, PyString>) -> PyResult<Self> {
        let Some(found) = cpython::type_lookup(paddle.value_type.bind(method.py()), method) else {
            return Ok(Self::default());
        };
        let foundation = in_programs(paddle, &found)?;
        if foundation.replaced.is_empty() {
            return Ok(Self::default());
        }
        let copy = foundation.copy_with_originals(paddle, method)?;
        let of_copy = copy.as_ref().map(|copy| in_programs(paddle, copy)).transpose()?;
        let foundations = std::iter::once(foundation).chain(of_copy).collect();
        Ok(ProgramSubstitute { copy: copy.map(Bound::unbind), foundations })
    }

    /// Makes a statement of the method. If replacements that the method reaches would run meanwhile, the statement is
    /// refused.
    pub(crate) fn refusing_replaced<T>(
        &self,
        method: &Bound<'_, PyString>,
        make: impl FnOnce() -> PyResult<T>,
    ) -> PyResult<T> {
        let Some(replaced) = self.foundations.first().and_then(|foundation| foundation.replaced()) else {
            return make();
        };
        let py = method.py();
        let code = code_of_all(py, self.foundations.iter().flat_map(|foundation| &foundation.replaced))?;
        let result = code.and_then(|code| cpython::refusing(py, &code, make));
        result.unwrap_or_else(|| {
            Err(PyNotImplementedError::new_err(format!("{method} in a program uses {replaced}, which is replaced")))
        })
    }
}

fn in_programs(paddle: &Paddle, code: &Bound<'_, PyAny>) -> PyResult<Arc<Foundation>> {
    paddle.in_programs.get(code, || Search::new(paddle.value_type.bind(code.py()), None).of_value(code))
}

/// True if `module` is a module of Paddle's with something callable under `name`, and the code with these globals is
/// not Paddle's. Paddle's own code puts back what it replaces.
pub(crate) fn calls_by_name(module: &Bound<'_, PyAny>, name: &str, globals: &Bound<'_, PyDict>) -> PyResult<bool> {
    let Some(module) = own_module(module)? else { return Ok(false) };
    if origin::is_paddles(globals)? {
        return Ok(false);
    }
    Ok(cpython::dict_get(&module.dict(), PyString::intern(module.py(), name).as_any())
        .is_some_and(|held| may_be_called(&held)))
}

/// True if the value is the program's and not Paddle's, or its foundation contains a replacement.
pub(crate) fn is_replaced(paddle: &Paddle, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let foundation = of_function(paddle, value)?;
    Ok(!foundation.is_own || !foundation.replaced.is_empty())
}

impl Foundations {
    fn get(
        &self,
        of: &Bound<'_, PyAny>,
        search: impl FnOnce() -> PyResult<(Vec<LookedUpNames>, Vec<ReplacedName>)>,
    ) -> PyResult<Arc<Foundation>> {
        let key = of.as_ptr() as usize;
        let known = self.lock().get(&key).cloned();
        if let Some(known) = known.filter(|known| known.stands(of.py())) {
            return Ok(known);
        }
        let changes = CHANGES.load(Ordering::Relaxed);
        let (parts, replaced) = search()?;
        let memory =
            Mutex::new(FoundationMemory { whole: None, parts: vec![PartMemory::default(); parts.len()].into() });
        let is_own = origin::is_own(of)?;
        let of = of.clone().unbind();
        let copied = Mutex::default();
        let found = Arc::new(Foundation { of, is_own, parts, replaced, copied, changes, memory });
        let known = self.lock().insert(key, Arc::clone(&found));
        drop(known);
        Ok(found)
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, FxHashMap<usize, Arc<Foundation>>> {
        self.0.lock()
    }
}

impl Foundation {
    /// Makes a copy of the code of a method in programs. It has Paddle's own functions under the replaced names that
    /// the method of eager tensors does not reach. `None` if that method reaches all of them, or no copy can be made.
    fn copy_with_originals<'py>(
        &self,
        paddle: &Paddle,
        method: &Bound<'py, PyString>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = method.py();
        let Some(of_tensors) = cpython::type_lookup(paddle.tensor_type.bind(py), method) else { return Ok(None) };
        let of_tensors = of_function(paddle, &of_tensors)?;
        let runs = |name: &str| !of_tensors.is_own || of_tensors.replaced.iter().any(|replaced| replaced.name == name);
        let names = self.replaced.iter().map(|replaced| &*replaced.name).filter(|name| !runs(name));
        let names: Vec<String> = names.map(str::to_owned).collect();
        let known = self.copied.lock().clone();
        if let Some(known) = known.filter(|known| known.names == names) {
            return Ok(known.code.as_ref().map(|code| code.bind(py).clone()));
        }
        let code = if names.is_empty() { None } else { originals::copy_with_originals(self.of.bind(py), &names)? };
        let copied = Arc::new(FunctionCopy { names, code: code.map(|code| code.into_any().unbind()) });
        let before = self.copied.lock().replace(Arc::clone(&copied));
        drop(before);
        Ok(copied.code.as_ref().map(|code| code.bind(py).clone()))
    }

    /// Returns the name of one replacement, if there is one.
    pub(crate) fn replaced(&self) -> Option<&str> {
        self.replaced.first().map(|replaced| &*replaced.name)
    }

    /// Returns a test that the foundation is unchanged, with the object that it is about. `None` if the callee finds
    /// nothing by name.
    pub(crate) fn test(self: &Arc<Self>, py: Python<'_>) -> Option<(Py<PyAny>, Box<dyn ObjectTest>)> {
        (!self.parts.is_empty())
            .then(|| (self.of.clone_ref(py), Box::new(FoundationTest(Arc::clone(self))) as Box<dyn ObjectTest>))
    }

    /// True if the foundation is unchanged. One snapshot answers for all parts that are not written to. Building a
    /// statement writes to one of Paddle's modules, and to no other.
    fn stands(&self, py: Python<'_>) -> bool {
        if self.changes != CHANGES.load(Ordering::Relaxed) {
            return false;
        }
        let whole = self.memory().whole.clone();
        match whole.filter(|whole| whole.snapshot.holds(py)) {
            Some(whole) => whole.others.is_empty() || self.parts_stand(py, whole.others.iter().copied()).is_some(),
            None => self.parts_stand(py, 0..self.parts.len()).map(|renewed| self.note_whole(py, &renewed)).is_some(),
        }
    }

    /// Tests these parts. Names are looked up only in parts whose own snapshot does not answer, and these parts are
    /// returned. `None` if a part has changed.
    fn parts_stand(&self, py: Python<'_>, parts: impl Iterator<Item = usize>) -> Option<Vec<usize>> {
        let memory = Arc::clone(&self.memory().parts);
        let is_same = |part: &PartMemory| part.noted.as_ref().is_some_and(|noted| noted.holds(py));
        let untold: Vec<usize> = parts.filter(|at| !is_same(&memory[*at])).collect();
        if !untold.iter().all(|at| self.parts[*at].stands(py)) {
            return None;
        }
        let is_worth_noting = |at: &&usize| memory[**at].times < MAX_SNAPSHOTS_OF_PART;
        let noted: Vec<usize> = untold.iter().filter(is_worth_noting).copied().collect();
        if !noted.is_empty() && cpython::blind_spot().is_none() {
            let mut renewed = memory.to_vec();
            for at in noted {
                let mut recorder = Recorder::default();
                let tells = self.parts[at].note(py, &mut recorder);
                let noted = tells.then(|| Arc::new(recorder.finish()));
                renewed[at] = PartMemory { noted, times: memory[at].times + 1 };
            }
            let before = std::mem::replace(&mut self.memory().parts, renewed.into());
            drop(before);
        }
        Some(untold)
    }

    /// Takes one snapshot of all parts except those that have just been looked up. If these are most of the parts, it
    /// is not known yet which parts are written to, and no snapshot is taken.
    fn note_whole(&self, py: Python<'_>, looked_up: &[usize]) {
        if looked_up.len() > self.parts.len() / 2 || cpython::blind_spot().is_some() {
            return;
        }
        let (mut recorder, mut others) = (Recorder::default(), looked_up.to_vec());
        for (at, part) in self.parts.iter().enumerate() {
            if !looked_up.contains(&at) && !part.note(py, &mut recorder) {
                others.push(at);
            }
        }
        let whole = Arc::new(WholeSnapshot { snapshot: recorder.finish(), others });
        let before = self.memory().whole.replace(whole);
        drop(before);
    }

    /// Records the memory that decides whether the foundation is unchanged; `false` if memory does not decide it.
    fn note(&self, py: Python<'_>, recorder: &mut Recorder) -> bool {
        self.parts.iter().all(|part| part.note(py, recorder))
    }

    fn memory(&self) -> parking_lot::MutexGuard<'_, FoundationMemory> {
        self.memory.lock()
    }
}

impl LookedUpNames {
    fn note(&self, py: Python<'_>, recorder: &mut Recorder) -> bool {
        match &self.holder {
            NameHolder::Namespace(dict) => {
                let dict = recorder.keep(dict.bind(py).as_any());
                recorder.dict(&dict)
            }
            NameHolder::Class(class) => {
                let class = recorder.keep(class.bind(py).as_any());
                recorder.lookups_of(&class)
            }
        }
    }

    fn stands(&self, py: Python<'_>) -> bool {
        self.entries.iter().all(|entry| {
            let name = entry.name.bind(py);
            let found = match &self.holder {
                NameHolder::Namespace(dict) => cpython::dict_get(dict.bind(py), name.as_any()),
                NameHolder::Class(class) => cpython::type_lookup(class.bind(py), name),
            };
            found.is_some_and(|found| entry.is_still(&found))
        })
    }
}

impl ObjectTest for FoundationTest {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        self.0.stands(object.py())
    }

    fn note(&self, place: &Place<'_>, recorder: &mut Recorder) -> bool {
        self.0.note(place.py(), recorder)
    }

    fn describe(&self, subject: &str) -> String {
        format!("what {subject} calls is Paddle's own")
    }

    fn key(&self) -> TestKey {
        TestKey::Parts("unreplaced", Vec::new())
    }
}

/// Returns the code that runs first when a replacement is used; `None` if some replacement does not run Python code
/// first.
fn code_of_all<'a>(py: Python<'_>, replaced: impl Iterator<Item = &'a ReplacedName>) -> PyResult<Option<RefusedCode>> {
    let mut found = RefusedCode::default();
    for ReplacedName { name, by } in replaced {
        let functions = origin::called_first(by.bind(py))?;
        if functions.is_empty() {
            return Ok(None);
        }
        for function in functions {
            found.add(&cpython::function_code(&function), format!("it runs {name}, which is replaced"));
        }
    }
    Ok(Some(found))
}
