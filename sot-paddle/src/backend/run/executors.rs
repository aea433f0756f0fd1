//! The executors that Paddle makes for programs: one for each scope in which a program has run, and one more for
//! backward passes. Each has a thread. Paddle keeps them until the process ends, also when program and scope are gone,
//! and can only free all of them together. Living programs then get new ones at their next run.
//!
//! An executor must not be freed while it runs, nor between a run and its backward pass. So they are freed before a
//! program is made, if many programs are gone and nothing is pending.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::exceptions::PyAttributeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyType;
use sot_core::cpython;

use super::second_passes::ScopeTenancy;

/// Executors are freed when at least this many programs are gone, and at least as many as are living. To free them
/// takes less time than to make as many programs.
const MANY: usize = 64;

/// Number of programs, living and gone since the executors were freed last.
static LIVING: AtomicUsize = AtomicUsize::new(0);
static GONE: AtomicUsize = AtomicUsize::new(0);

/// Number of runs that take place now, in all threads.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// True while executors are being freed. Paddle lets other threads run meanwhile.
static FREEING: AtomicBool = AtomicBool::new(false);

/// How often executors have been freed. Scopes of an earlier generation have no executors.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// Number of threads that have run programs and still live.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The scopes whose runs may be followed by backward passes.
static TRAINING_SCOPES: Mutex<Vec<Weak<ScopeTenancy>>> = Mutex::new(Vec::new());

/// Paddle's own users of its executors, by module and class.
const OTHER_USERS: [(&str, &str); 3] = [
    ("paddle.jit.dy2static.pir_partial_program", "PartialProgramLayer"),
    ("paddle.jit.pir_translated_layer", "PirTranslatedLayer"),
    ("paddle.jit.translated_layer", "TranslatedLayer"),
];

/// Counts a program while it lives.
pub(crate) struct CountedProgram(());

impl CountedProgram {
    pub(crate) fn new() -> Self {
        LIVING.fetch_add(1, Ordering::Relaxed);
        CountedProgram(())
    }
}

impl Drop for CountedProgram {
    fn drop(&mut self) {
        LIVING.fetch_sub(1, Ordering::Relaxed);
        GONE.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts a thread that runs programs while it lives.
struct CountedThread(());

impl CountedThread {
    fn new() -> Self {
        THREADS.fetch_add(1, Ordering::Relaxed);
        CountedThread(())
    }
}

impl Drop for CountedThread {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

thread_local! {
    static THIS_THREAD: CountedThread = CountedThread::new();
    /// True once this thread is counted. To look here takes fewer instructions than `THIS_THREAD`, which is dropped.
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
}

/// Counts this thread until it ends.
fn count_this_thread() {
    if !IS_COUNTED.replace(true) {
        THIS_THREAD.with(|_| ());
    }
}

/// A run of a program, from before it takes its executor until it ends.
pub(crate) struct Running(());

impl Running {
    pub(crate) fn begin(py: Python<'_>) -> Self {
        while FREEING.load(Ordering::Acquire) {
            py.detach(|| std::thread::sleep(Duration::from_micros(50)));
        }
        count_this_thread();
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Running(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How often executors have been freed.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Notes a scope whose runs may be followed by backward passes.
pub(crate) fn note_training_scope(tenancy: &Arc<ScopeTenancy>) {
    TRAINING_SCOPES.lock().push(Arc::downgrade(tenancy));
}

/// Frees all executors if many of their programs are gone and none is in use. Called before a program is made.
pub(crate) fn free_if_many(py: Python<'_>) -> PyResult<()> {
    let gone = GONE.load(Ordering::Relaxed);
    if gone < MANY || gone < LIVING.load(Ordering::Relaxed) || !are_idle(py)? {
        return Ok(());
    }
    if have_other_users(py)? {
        // Asked again when as many programs more are gone.
        GONE.store(0, Ordering::Relaxed);
        return Ok(());
    }
    FREEING.store(true, Ordering::Release);
    GENERATION.fetch_add(1, Ordering::Relaxed);
    let freed = cpython::import(py, "paddle.base.core").and_then(|core| core.call_method0("clear_executor_cache"));
    FREEING.store(false, Ordering::Release);
    GONE.store(0, Ordering::Relaxed);
    freed.map(drop)
}

/// True if no program runs and no first backward pass may come. For a second pass a program runs again if its executors
/// are gone. Paddle says that a scope can be used again a moment before the backward pass has ended, so only one thread
/// may have run programs.
fn are_idle(py: Python<'_>) -> PyResult<bool> {
    count_this_thread();
    let is_alone = THREADS.load(Ordering::Relaxed) == 1;
    if !is_alone || RUNNING.load(Ordering::Relaxed) > 0 {
        return Ok(false);
    }
    let scopes = {
        let mut scopes = TRAINING_SCOPES.lock();
        scopes.retain(|scope| scope.strong_count() > 0);
        scopes.clone()
    };
    for scope in scopes.iter().filter_map(Weak::upgrade) {
        if !scope.is_idle(py)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True if there are objects of Paddle's own that run programs with the same executors.
fn have_other_users(py: Python<'_>) -> PyResult<bool> {
    let modules = cpython::import(py, "sys")?.getattr(intern!(py, "modules"))?;
    let mut classes = Vec::new();
    for (module, class) in OTHER_USERS {
        let Ok(module) = modules.get_item(module) else { continue };
        match module.getattr(class) {
            Ok(class) => classes.push(class.cast_into::<PyType>()?),
            Err(error) if error.is_instance_of::<PyAttributeError>(py) => {}
            Err(error) => return Err(error),
        }
    }
    for object in cpython::import(py, "gc")?.call_method0("get_objects")?.try_iter()? {
        let class = object?.get_type();
        if classes.iter().any(|other| cpython::is_subtype(&class, other)) {
            return Ok(true);
        }
    }
    Ok(false)
}
