//! From a frame to its translation: the evaluator behind the frame hook. A hit costs the guards; a miss simulates the frame,
//! compiles its graph, writes new code and caches it. Whatever goes wrong here leaves the frame to CPython.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyCode, PyDict, PyFunction, PyModule, PyString, PyType, PyWeakrefMethods, PyWeakrefReference};

use crate::bytecode::{BytecodeError, Code, Label, Position};
use crate::cache::{CodeCache, Entry, Forbidden, Origin};
use crate::codegen::{CodeGen, NewCode};
use crate::cpython::{self, FrameEvaluator, FreshFrame, StateRef, Verdict, WeakRef};
use crate::env;
use crate::error::{Flow, Location, PlannedBreak, Reason, ReasonId, Unwind};
use crate::executor::{sizes, BreakPoint, CodeUnit, Exit, Frame, OpcodeExecutor};
use crate::guard::FrameView;
use crate::log;
use crate::resume::{self, Finish, ResumeKey};
use crate::runtime::Runtime;
use crate::stats::{self, Record};
use crate::tracker::{Key, Tracker, Trackers};
use crate::variable::VarId;

/// `CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR`
const RESUMABLE: u32 = 0x20 | 0x80 | 0x200;

/// Whether a bug of ours raises.
fn is_strict() -> bool {
    env::is_on("STRICT_MODE").unwrap_or(false)
}

static ALWAYS: AtomicBool = AtomicBool::new(false);

/// Whether frames without tensor work get new code, too. Nobody needs that but tests, which see in it what the tracer makes
/// of plain Python.
pub fn always_compile(always: bool) {
    ALWAYS.store(always, Ordering::Relaxed);
}

fn always_compiles() -> bool {
    ALWAYS.load(Ordering::Relaxed)
}

/// The evaluator of the frame hook.
pub struct Translator;

impl FrameEvaluator for Translator {
    fn evaluate(&self, frame: &FreshFrame<'_, '_>) -> Verdict {
        let original = Verdict::Original { disable_eval_frame: false };
        let Some(runtime) = Runtime::get() else { return original };
        let code = frame.code();
        let Some(cache) = cache_of(&code) else { return original };
        if cache.is_skipped() {
            return Verdict::Original { disable_eval_frame: cache.skips_below() };
        }
        cache.refresh(stats::generation());
        if let Some(entry) = cache.find(frame) {
            stats::hit();
            return verdict(frame.py(), &entry);
        }
        miss(runtime, &cache, frame)
    }
}

fn verdict(py: Python<'_>, entry: &Entry) -> Verdict {
    match &entry.code {
        Some(code) => Verdict::Replace { code: code.clone_ref(py), disable_eval_frame: entry.disable_eval_frame },
        None => Verdict::Original { disable_eval_frame: entry.disable_eval_frame },
    }
}

/// The cache on a code object; made at the first question, which also decides whether its file is on the skip list.
pub fn cache_of<'py>(code: &Bound<'py, PyCode>) -> Option<StateRef<'py, CodeCache>> {
    if let Some(cache) = cpython::code_state::<CodeCache>(code) {
        return Some(cache);
    }
    let cache = CodeCache::default();
    cache.set_skip(is_skipped_file(code));
    cpython::set_code_state(code, cache).ok()
}

/// Whether the code is that of a resume function.
pub fn is_resume_function(code: &Bound<'_, PyCode>) -> bool {
    cpython::code_state::<CodeCache>(code).is_some_and(|cache| cache.origin().is_some())
}

/// How many instructions of a resume function come before the original ones.
pub fn prologue_of(code: &Bound<'_, PyCode>) -> Option<u32> {
    cpython::code_state::<CodeCache>(code)?.origin().map(|origin| origin.prologue)
}

/// How many of the free variables of a resume function are the function's own cells.
pub fn own_cells_of(code: &Bound<'_, PyCode>) -> Option<usize> {
    cpython::code_state::<CodeCache>(code)?.origin().map(|origin| origin.own_cells)
}

/// A place in the code of a function or resume function as a place in the original code.
pub fn in_original<'py>(code: &Bound<'py, PyCode>, at: Label) -> Option<(Bound<'py, PyCode>, Label)> {
    let cache = cache_of(code)?;
    let Some(origin) = cache.origin() else { return Some((code.clone(), at)) };
    let base = origin.base.bind(code.py()).upgrade()?.cast_into::<PyCode>().ok()?;
    Some((base, Label(at.0.checked_sub(origin.prologue)?)))
}

/// Whether the code is marked so that something that may become of it is an error.
pub fn forbids(code: &Bound<'_, PyAny>, what: Forbidden) -> bool {
    let cache = code.cast::<PyCode>().ok().and_then(cpython::code_state::<CodeCache>);
    cache.is_some_and(|cache| cache.forbids(what))
}

/// The same code, of which no frame is translated. It takes all arguments by position, as new code does.
pub fn untranslated<'py>(code: &Bound<'py, PyCode>) -> PyResult<Bound<'py, PyCode>> {
    let refuse = |error: &BytecodeError| {
        pyo3::exceptions::PyRuntimeError::new_err(format!("a frame cannot run in CPython: {error}"))
    };
    let make = || {
        let mut decoded = Code::decode(code.as_any()).map_err(|error| refuse(&error))?;
        decoded.take_all_by_position();
        let copy = decoded.encode(code.as_any()).map_err(|error| refuse(&error))?.cast_into::<PyCode>()?;
        if let Some(cache) = cache_of(&copy) {
            cache.set_skip(true);
        }
        Ok(copy.unbind())
    };
    match cache_of(code) {
        Some(cache) => Ok(cache.untranslated(make)?.bind(code.py()).clone()),
        None => Ok(make()?.into_bound(code.py())),
    }
}

/// Whether the user asked for the translation of the code.
pub fn is_asked_for(code: &Bound<'_, PyCode>) -> bool {
    cpython::code_state::<CodeCache>(code).is_some_and(|cache| cache.is_root())
}

/// That somebody asks for the translation of a code object, as long as this lives.
pub struct Request {
    code: WeakRef,
}

impl Request {
    /// Asks for the translation of `code`, as one graph if `whole`; `None` if there is no place for it on the code.
    pub fn new(code: &Bound<'_, PyCode>, whole: bool) -> PyResult<Option<Request>> {
        let Some(cache) = cache_of(code) else { return Ok(None) };
        let request = Request { code: WeakRef::new(code.as_any(), None)? };
        cache.request();
        cache.set_whole(whole);
        Ok(Some(request))
    }

    fn withdraw(&self, py: Python<'_>) {
        let code = self.code.get(py).and_then(|code| code.cast_into::<PyCode>().ok());
        let Some(code) = code else { return };
        if let Some(cache) = cpython::code_state::<CodeCache>(&code).filter(|cache| cache.withdraw()) {
            cache.set_skip(is_skipped_file(&code));
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // It fails only while the interpreter shuts down, when nothing is translated any more.
        Python::try_attach(|py| self.withdraw(py));
    }
}

/// Asks that a size be left open in translations of `code`: that of a tensor found in an argument by these keys.
pub fn leave_size_open(code: &Bound<'_, PyCode>, argument: &str, keys: Vec<Key>, axis: usize) {
    let Some(cache) = cache_of(code) else { return };
    let mut trackers = Trackers::default();
    let mut tensor = trackers.add(Tracker::Local { slot: 0, name: argument.into() });
    for key in keys {
        tensor = trackers.add(Tracker::Item { of: tensor, key });
    }
    cache.leave_sizes_open(&[sizes::name(&trackers.text(code.py(), tensor), axis)]);
}

/// Leaves the frames of a function to CPython unless the user asked for their translation, or no longer does.
pub fn leave_alone(code: &Bound<'_, PyCode>, alone: bool) {
    if let Some(cache) = cache_of(code).filter(|cache| !cache.is_root()) {
        cache.set_skip(alone || is_skipped_file(code));
    }
}

/// Leaves it to CPython to make objects of a class, with all that its `__init__` calls, unless the user asked for that.
pub fn leave_making_alone(class: &Bound<'_, PyType>) {
    let init = cpython::type_lookup(class, &PyString::intern(class.py(), "__init__"));
    let code = init.and_then(|init| init.cast_into::<PyFunction>().ok()).map(|init| cpython::function_code(&init));
    if let Some(code) = code {
        if let Some(cache) = cache_of(&code).filter(|cache| !cache.is_root()) {
            cache.set_skip_below();
        }
    }
}

fn is_skipped_file(code: &Bound<'_, PyCode>) -> bool {
    let file = code.getattr("co_filename").and_then(|file| file.extract::<String>()).unwrap_or_default();
    Runtime::get().is_some_and(|runtime| runtime.skips(&file))
}

fn miss(runtime: &'static Runtime, cache: &CodeCache, frame: &FreshFrame<'_, '_>) -> Verdict {
    let py = frame.py();
    let code = frame.code();
    stats::update(|stats| stats.misses += 1);
    if log::enabled(log::GRAPHS) {
        log::write(log::GRAPHS, &format!("[Cache]: Cache miss: {}", place_of(&code)));
        cache.failures(frame).iter().for_each(|text| log::write(log::GRAPHS, &format!("  does not hold: {text}")));
    }
    if cache.is_full(py) {
        return left(&code, Reason::new(ReasonId::TooManyEntries, "the cache is full"));
    }
    if lacks_builtins(&frame.globals()) || cpython::current_globals(py).is_some_and(|globals| lacks_builtins(&globals))
    {
        return left(&code, Reason::new(ReasonId::UnsupportedFrame, "global variables without __builtins__"));
    }
    if !cpython::has_stack_to_begin() {
        return left(&code, Reason::new(ReasonId::StackNearlyUsedUp, "too little of it is left to begin"));
    }
    // Frameworks build graphs in process-wide state: one translation at a time. Waiting lets go of the GIL.
    if TRANSLATING_HERE.with(std::cell::Cell::get) {
        return Verdict::Original { disable_eval_frame: false };
    }
    let _one_at_a_time = TRANSLATING.lock_py_attached(py).unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(entry) = cache.find(frame) {
        return verdict(py, &entry);
    }
    let translation = match translate_to_the_end(py, runtime, cache, frame) {
        Ok(translation) => translation,
        Err(error) => return internal(cache, &code, error),
    };
    if let Some(reason) = translation.reason.as_ref().filter(|reason| reason.forbidden_by.is_some()) {
        if !matches!(reason.id, ReasonId::NothingToCompile | ReasonId::Raises) {
            let _quiet = cpython::suspend(py);
            return Verdict::Raise(reason.error(py));
        }
    }
    if translation.reason.as_ref().is_some_and(|reason| reason.id == ReasonId::StackNearlyUsedUp) {
        return Verdict::Original { disable_eval_frame: false };
    }
    let found_nothing = translation.reason.as_ref().is_some_and(|reason| reason.id == ReasonId::NothingToCompile);
    if found_nothing {
        cache.found_nothing();
    }
    let entry = Arc::new(translation.entry);
    cache.insert(py, Arc::clone(&entry));
    verdict(py, &entry)
}

/// Whether code with these global variables imports nothing, and neither does C code that it calls.
fn lacks_builtins(globals: &Bound<'_, PyDict>) -> bool {
    cpython::dict_lacks(globals, pyo3::intern!(globals.py(), "__builtins__"))
}

/// Leaves one frame to CPython, but says nothing of the next one of its code.
fn left(code: &Bound<'_, PyCode>, reason: Reason) -> Verdict {
    count_fallback(&Reason { stack: vec![place_of(code)], ..reason });
    Verdict::Original { disable_eval_frame: false }
}

/// A bug of ours: counted and logged, and raised only where tests ask for it.
fn internal(cache: &CodeCache, code: &Bound<'_, PyCode>, error: PyErr) -> Verdict {
    if is_strict() {
        return Verdict::Raise(error);
    }
    let reason = Reason { stack: vec![place_of(code)], ..Reason::new(ReasonId::InternalError, error.to_string()) };
    log::write(log::BREAKS, &format!("[Fallback]: {reason}"));
    count_fallback(&reason);
    cache.set_skip(true);
    Verdict::Original { disable_eval_frame: false }
}

fn place_of(code: &Bound<'_, PyCode>) -> Location {
    let text = |name: &str| code.getattr(name).and_then(|value| value.extract::<String>()).unwrap_or_default();
    let line = code.getattr("co_firstlineno").and_then(|line| line.extract()).unwrap_or(0);
    Location::line(text("co_filename"), text("co_name"), line)
}

static TRANSLATING: Mutex<()> = Mutex::new(());

thread_local! {
    // A destructor or weak reference callback may call translated code while this thread translates.
    static TRANSLATING_HERE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Does what compiles part of a translation later, when no other thread translates; `None` if this one does just now.
pub fn compile_later<T>(py: Python<'_>, work: impl FnOnce() -> T) -> Option<T> {
    if TRANSLATING_HERE.with(std::cell::Cell::get) {
        return None;
    }
    let _one_at_a_time = TRANSLATING.lock_py_attached(py).unwrap_or_else(std::sync::PoisonError::into_inner);
    let (_here, _quiet) = (TranslatingHere::new(), cpython::suspend(py));
    let start = Instant::now();
    let result = work();
    stats::update(|stats| *stats.seconds.entry("compile").or_default() += start.elapsed().as_secs_f64());
    Some(result)
}

/// Simulations of one frame that may be thrown away because tracing changed an object.
const MAX_RESTARTS: usize = 16;

fn translate_to_the_end(
    py: Python<'_>,
    runtime: &'static Runtime,
    cache: &CodeCache,
    frame: &FreshFrame<'_, '_>,
) -> PyResult<Translation> {
    let mut planned = None;
    let _here = TranslatingHere::new();
    for _ in 0..MAX_RESTARTS {
        match translate(py, runtime, cache, frame, planned.take())? {
            Attempt::Done(translation) => return Ok(*translation),
            Attempt::Again(plan) => planned = plan.map(|plan| *plan),
        }
    }
    Err(pyo3::exceptions::PyRuntimeError::new_err("every trace changes what it looks at"))
}

/// Marks this thread as translating while it lives.
struct TranslatingHere;

impl TranslatingHere {
    fn new() -> Self {
        TRANSLATING_HERE.with(|here| here.set(true));
        TranslatingHere
    }
}

impl Drop for TranslatingHere {
    fn drop(&mut self) {
        TRANSLATING_HERE.with(|here| here.set(false));
    }
}

/// What became of one simulation.
enum Attempt {
    Done(Box<Translation>),
    Again(Option<Box<PlannedBreak>>),
}

struct Translation {
    entry: Entry,
    reason: Option<Reason>,
}

static GRAPHS: AtomicU64 = AtomicU64::new(0);

/// Simulates a frame and makes an entry of the result or a wish for another attempt; the error is a bug of ours.
fn translate(
    py: Python<'_>,
    runtime: &'static Runtime,
    cache: &CodeCache,
    frame: &FreshFrame<'_, '_>,
    planned: Option<PlannedBreak>,
) -> PyResult<Attempt> {
    let _quiet = cpython::suspend(py);
    let start = Instant::now();
    let unit = CodeUnit::new(frame.code().as_any())
        .map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(format!("bytecode cannot be read: {error}")))?;
    log::write(log::GRAPHS, &format!("[eval_frame_callback] start to translate: {}", unit.code.qualname));
    if log::enabled(log::TRACE) {
        log::write(log::TRACE, &format!("OriginCode:\n{}", unit.code.disassemble(py)));
    }
    let globals = frame.globals().to_owned();
    let mut cx = match OpcodeExecutor::new(py, runtime, &globals) {
        Ok(cx) => cx,
        Err(Unwind::Internal(error)) => return Err(*error),
        Err(_) => return Err(pyo3::exceptions::PyRuntimeError::new_err("the executor cannot start")),
    };
    // Where an attempt was given up there is work to compile.
    let wanted = cache.is_root() || planned.is_some() || always_compiles();
    if let Some(planned) = planned {
        cx.plan_break(planned);
    }
    let differing = cache.differing(frame);
    cx.changing = differing.numbers;
    cx.others = cache.len();
    cx.sizes = cache.open_sizes(differing.sizes);
    cx.is_resumed = cache.origin().is_some();
    if cx.is_resumed {
        cx.passing = cache.passing(frame);
    }
    let result = simulate(&mut cx, frame, &unit);
    cache.close_sizes(cx.sizes.take_settled());
    cx.switches.undo()?;
    let (simulated, building) = (start.elapsed(), cx.graph.building());
    let name = format!("SIR_{}", GRAPHS.load(Ordering::Relaxed));
    let (result, reason) = match result {
        Err(Unwind::Restart(plan)) => return Ok(Attempt::Again(plan)),
        Err(Unwind::BreakGraph(reason)) => {
            if let Some(plan) = cx.replan(&reason) {
                return Ok(Attempt::Again(Some(Box::new(plan))));
            }
            let at = cx.take_break_point((*reason).clone());
            let result = compile_break(&mut cx, &at, &name, wanted);
            if let (Err(Unwind::Fallback(why)), Some(plan)) = (&result, cx.plan_at_root(&at)) {
                if why.id == ReasonId::CannotRestore {
                    log::write(log::GRAPHS, &format!("[BreakGraph]: not in a called function: {why}"));
                    return Ok(Attempt::Again(Some(Box::new(plan))));
                }
            }
            (result, Some(*reason))
        }
        Err(Unwind::Raise(exception))
            if !cx.graph.is_empty() || cx.graph.has_inputs() || cx.lacks_own_cell || always_compiles() =>
        {
            (Err(cx.plan_to_raise(exception)), None)
        }
        result => (result.and_then(|value| compile(&mut cx, &unit, value, &name)), None),
    };
    if let Err(Unwind::Restart(plan)) = result {
        cache.close_sizes(cx.sizes.take_settled());
        return Ok(Attempt::Again(plan));
    }
    let (new_code, reason) = settle(&cx, result, reason)?;
    let steps = cx.steps();
    cx.note_rounds();
    cx.assume_distinct();
    report(&cx, &unit, new_code.as_ref(), reason.as_ref());
    let guards = std::mem::take(&mut cx.guards).compile(py, &cx.trackers)?;
    stats::update(|stats| {
        stats.translations += 1;
        stats.instructions += steps;
        *stats.seconds.entry("simulate").or_default() += simulated.saturating_sub(building).as_secs_f64();
        *stats.seconds.entry("build").or_default() += building.as_secs_f64();
        *stats.seconds.entry("compile").or_default() += start.elapsed().saturating_sub(simulated).as_secs_f64();
    });
    // Behind a break the program's own calls run, and are translated.
    let alone = reason.as_ref().is_none_or(|reason| reason.recursive && new_code.is_none());
    let any_number = reason.as_ref().is_some_and(|reason| reason.id == ReasonId::ChangingNumber);
    // What was made for one size is faster there.
    let comes_last = any_number || cx.sizes.are_open();
    let entry = Entry::new(guards, new_code.map(|new| new.code), alone, comes_last);
    Ok(Attempt::Done(Box::new(Translation { entry, reason })))
}

/// Lays out the root frame and runs it to its return.
fn simulate<'py>(cx: &mut OpcodeExecutor<'py>, fresh: &FreshFrame<'_, 'py>, unit: &Rc<CodeUnit>) -> Flow<VarId> {
    if unit.code.flags & RESUMABLE != 0 {
        return Err(Unwind::fallback(ReasonId::UnsupportedFrame, "generators and coroutines run in CPython"));
    }
    let root = root_frame(cx, fresh, unit)?;
    if cx.is_resumed {
        watch_mortals(cx, fresh, &root)?;
    }
    match cx.run_frame(root)?.0 {
        Exit::Return(value) => Ok(value),
        Exit::Yield(_) => Err(Unwind::fallback(ReasonId::UnsupportedFrame, "a yield outside a generator")),
    }
}

/// The frame of a resume function is all that holds what it was given, which for a generator, for an object with a method
/// `__del__` of the program's, and for one whose death a weak reference tells of, shows when it goes.
fn watch_mortals(cx: &mut OpcodeExecutor<'_>, fresh: &FreshFrame<'_, '_>, root: &Frame) -> Flow<()> {
    let generator = fresh.py().import("types")?.getattr("GeneratorType")?;
    let weakrefs = fresh.py().import("weakref")?.getattr("getweakrefs")?;
    let is_told = |object: &Bound<'_, PyAny>| {
        let told = weakrefs.call1((object,)).and_then(|refs| {
            refs.try_iter()?.try_fold(false, |told, weak| Ok(told || !weak?.getattr("__callback__")?.is_none()))
        });
        told.unwrap_or(false)
    };
    let shows = |object: Bound<'_, PyAny>| {
        let ty = object.get_type();
        let lives_on = object.is_instance_of::<PyType>() || object.is_instance_of::<PyModule>();
        if !lives_on && is_told(&object) {
            return true;
        }
        let hook = cpython::type_lookup(&ty, &PyString::intern(ty.py(), "__del__"));
        ty.is(&generator) || hook.is_some_and(|hook| cpython::builtin_type_name(&hook) == "function")
    };
    for (slot, value) in root.locals.iter().enumerate() {
        let given = value.filter(|_| fresh.arg(slot).is_some_and(shows));
        if let Some(value) = given {
            cx.see(value)?;
            cx.watch(value);
        }
    }
    Ok(())
}

fn root_frame<'py>(cx: &mut OpcodeExecutor<'py>, fresh: &FreshFrame<'_, 'py>, unit: &Rc<CodeUnit>) -> Flow<Frame> {
    let globals = fresh.globals().to_owned();
    let globals = cx.globals_of(&globals, None)?;
    let mut frame = Frame::new(Rc::clone(unit), globals);
    for slot in 0..unit.code.total_args() {
        if let Some(object) = fresh.arg(slot) {
            let name = Rc::clone(&unit.varnames[slot]);
            let tracker = cx.trackers.add(Tracker::Local { slot: slot as u32, name });
            frame.locals[slot] = Some(cx.wrap(&object, tracker));
        }
    }
    let mut closure = Vec::new();
    for (index, name) in unit.code.freevars.iter().enumerate() {
        let cell = fresh.closure(index).ok_or_else(|| {
            Unwind::fallback(ReasonId::UnsupportedFrame, format!("the cell of free variable '{name}' is not there"))
        })?;
        let tracker = cx.trackers.add(Tracker::FreeCell { index: index as u32, name: name.as_str().into() });
        closure.push(cx.wrap(&cell, tracker));
    }
    cx.make_cells(&mut frame, &closure);
    Ok(frame)
}

fn compile(cx: &mut OpcodeExecutor<'_>, unit: &Rc<CodeUnit>, value: VarId, name: &str) -> Flow<NewCode> {
    if cx.graph.is_empty() && !always_compiles() {
        return Err(Unwind::fallback(ReasonId::NothingToCompile, "no tensor work"));
    }
    let new_code = CodeGen::new(cx, Rc::clone(unit))?.compile_return(value, name)?;
    if new_code.graphs.is_empty() && !always_compiles() {
        return Err(Unwind::fallback(ReasonId::NothingToCompile, "no tensor leaves the frame"));
    }
    Ok(new_code)
}

/// New code, or the reason there is none; a bug of ours is an error.
fn settle(
    cx: &OpcodeExecutor<'_>,
    result: Flow<NewCode>,
    broke: Option<Reason>,
) -> PyResult<(Option<NewCode>, Option<Reason>)> {
    match result {
        Ok(new_code) => Ok((Some(new_code), broke)),
        Err(Unwind::BreakGraph(reason) | Unwind::Fallback(reason)) => Ok((None, Some(*reason))),
        Err(Unwind::Raise(exception)) => {
            Ok((None, Some(Reason::new(ReasonId::Raises, format!("the function raises {}", cx.class_name(exception))))))
        }
        Err(Unwind::Internal(error)) => Err(*error),
        Err(Unwind::Restart(_)) => Err(pyo3::exceptions::PyRuntimeError::new_err("a restart was asked for too late")),
    }
}

fn report(cx: &OpcodeExecutor<'_>, unit: &CodeUnit, new_code: Option<&NewCode>, reason: Option<&Reason>) {
    let py = cx.py;
    let graphs = new_code.map(|new| new.graphs.clone()).unwrap_or_default();
    GRAPHS.fetch_add(graphs.len() as u64, Ordering::Relaxed);
    stats::update(|stats| {
        stats.graphs += graphs.len() as u64;
        stats.replayed += graphs.iter().filter(|graph| graph.replayed.is_some()).count() as u64;
    });
    let reason = reason.cloned().map(|mut reason| {
        if reason.stack.is_empty() {
            reason.stack = vec![unit.place()];
        }
        reason
    });
    if let Some(reason) = &reason {
        if new_code.is_some() {
            log::write(log::BREAKS, &format!("[BreakGraph]: {}: {reason}", unit.code.qualname));
            count_break(reason);
        } else {
            log::write(log::BREAKS, &format!("[Fallback]: {}: {reason}", unit.code.qualname));
            count_fallback(reason);
        }
    }
    for graph in &graphs {
        log::write(log::GRAPHS, &graph.to_string());
    }
    if log::enabled(log::GRAPHS) {
        log::write(log::GRAPHS, &format!("[Guard]: {}", cx.guards.texts(py, &cx.trackers).join(" and ")));
    }
    if let (true, Some(code)) = (log::enabled(log::TRACE), new_code.and_then(|new| listing(py, new))) {
        log::write(log::TRACE, &format!("NewCode:\n{code}"));
    }
    if stats::is_recording() {
        stats::record(Record {
            name: unit.code.qualname.clone(),
            filename: unit.code.filename.clone(),
            line: unit.code.first_line,
            graphs,
            guards: cx.guards.texts(py, &cx.trackers),
            code: new_code.and_then(|new| listing(py, new)),
            reason,
            fallback: new_code.is_none(),
        });
    }
}

fn listing(py: Python<'_>, new: &NewCode) -> Option<String> {
    let code = crate::bytecode::Code::decode(new.code.bind(py)).ok()?;
    Some(code.disassemble(py))
}

fn count_fallback(reason: &Reason) {
    // Neither the frame without tensor work nor the exception behind it was ours to compile.
    if matches!(reason.id, ReasonId::NothingToCompile | ReasonId::Raises) {
        return;
    }
    stats::update(|stats| *stats.fallbacks.entry(placed(reason)).or_default() += 1);
}

fn count_break(reason: &Reason) {
    stats::update(|stats| *stats.breaks.entry(placed(reason)).or_default() += 1);
}

fn placed(reason: &Reason) -> String {
    reason.to_string()
}

/// The original code behind the code being translated, from which resume functions are made.
pub struct ResumeSource<'py> {
    /// The original code.
    pub unit: Rc<CodeUnit>,
    cache: StateRef<'py, CodeCache>,
    running: Rc<CodeUnit>,
    shift: u32,
    call: Option<(Label, Finish)>,
    applies: Option<Label>,
    driving: bool,
}

impl<'py> ResumeSource<'py> {
    /// That of a frame's code.
    pub fn of(py: Python<'py>, running: &Rc<CodeUnit>) -> PyResult<Self> {
        let lost = || pyo3::exceptions::PyRuntimeError::new_err("the code of a running function has no cache");
        let cache = cache_of(running.object.bind(py).cast::<PyCode>()?).ok_or_else(lost)?;
        let running = Rc::clone(running);
        let Some(origin) = cache.origin() else {
            let unit = Rc::clone(&running);
            return Ok(ResumeSource { unit, cache, running, shift: 0, call: None, applies: None, driving: true });
        };
        let (shift, call, applies, driving) = (origin.prologue, origin.call, origin.applies, origin.nested);
        let base = origin.base.bind(py).upgrade().ok_or_else(lost)?;
        let cache = cache_of(base.cast::<PyCode>()?).ok_or_else(lost)?;
        let unit = CodeUnit::new(&base)
            .map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(format!("bytecode cannot be read: {error}")))?;
        Ok(ResumeSource { unit, cache, running, shift, call, applies, driving })
    }

    /// Whether new code runs the resume functions it hands over to: nobody does it for its caller.
    pub fn is_driving(&self) -> bool {
        self.driving
    }

    /// A place in the code being translated, as a place in the original code. The rest of a call and the jump that ends a
    /// prologue stand for the call and for what follows it.
    pub fn original(&self, at: Label) -> Flow<Label> {
        if let Some(at) = at.0.checked_sub(self.shift) {
            if at >= self.unit.code.instructions.len() as u32 {
                return Err(Unwind::fallback(ReasonId::CannotRestore, "a break in half an instruction"));
            }
            return Ok(Label(at));
        }
        let jump = self.running.code.instructions[self.shift as usize - 1];
        let next = jump.target.and_then(|next| next.0.checked_sub(self.shift));
        let place = match self.call {
            Some((call, _)) if call == at => next.and_then(|next| next.checked_sub(1)),
            _ if self.applies == Some(at) => next.and_then(|next| next.checked_sub(1)),
            _ if at.0 == self.shift - 1 => next,
            _ => None,
        };
        place.map(Label).ok_or_else(|| Unwind::fallback(ReasonId::CannotRestore, "a break before the original code"))
    }

    /// What is done behind the call at a place in a prologue.
    pub fn finish_at(&self, at: Label) -> Option<Finish> {
        self.call.filter(|(call, _)| *call == at).map(|(_, finish)| finish)
    }

    /// The code of a resume function.
    pub fn resume_code(&self, py: Python<'_>, key: &ResumeKey, line: Position) -> Flow<Py<PyAny>> {
        self.cache.resume_code(py, key, || {
            let built = resume::build(py, &self.unit, key, line)?;
            let code = built.code.bind(py).cast::<PyCode>().map_err(PyErr::from)?;
            let base = PyWeakrefReference::new(self.unit.object.bind(py))?.unbind();
            if let Some(cache) = cache_of(code) {
                let own_cells = self.unit.code.cellvars.len();
                let (prologue, call, applies, nested) = (built.prologue, built.call, built.applies, key.nested);
                cache.set_origin(Origin { base, prologue, call, applies, nested, own_cells });
                // Generators run in CPython.
                cache.set_skip(key.entry == resume::Entry::Yield);
                for what in [Forbidden::Break, Forbidden::Fallback] {
                    if self.cache.forbids(what) {
                        cache.forbid(what);
                    }
                }
                if self.cache.leaves_sizes_open() {
                    cache.leave_sizes_open(&[]);
                }
            }
            Ok(built.code)
        })
    }
}

/// New code up to the break, if there is anything to compile around it.
fn compile_break(cx: &mut OpcodeExecutor<'_>, at: &BreakPoint, name: &str, wanted: bool) -> Flow<NewCode> {
    if !wanted && cx.graph.is_empty() && !cx.graph.has_inputs() {
        return Err(Unwind::Fallback(Box::new(at.reason.clone())));
    }
    let sources = at.frames.iter().map(|frame| ResumeSource::of(cx.py, &frame.unit)).collect::<PyResult<Vec<_>>>()?;
    CodeGen::new(cx, Rc::clone(&at.root().unit))?.compile_break(at, &sources, name)
}

impl<'py> FrameView<'py> for FreshFrame<'_, 'py> {
    fn py(&self) -> Python<'py> {
        FreshFrame::py(self)
    }

    fn argument(&self, slot: usize) -> Option<Bound<'py, PyAny>> {
        self.arg(slot)
    }

    fn free_cell(&self, index: usize) -> Option<Bound<'py, PyAny>> {
        self.closure(index)
    }

    fn globals(&self) -> Bound<'py, PyAny> {
        FreshFrame::globals(self).to_owned().into_any()
    }

    fn builtins(&self) -> Bound<'py, PyAny> {
        FreshFrame::builtins(self).to_owned()
    }
}
