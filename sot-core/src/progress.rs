//! Progress of a long translation, shown in two ways: as a line on the terminal, drawn by a thread that needs no
//! interpreter, and by callbacks of the program. Both read one place where the translation notes its phase. Nothing is
//! noted if neither is requested.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use pyo3::prelude::*;

use crate::cpython;
use crate::package;

/// Seconds after which the line is shown; `SOT_PROGRESS` sets another number, and 0 shows no line.
const SHOWN_AFTER: f64 = 2.0;
/// Time between two redraws of the line.
const REDRAWN: Duration = Duration::from_millis(200);
/// Shortest time between two calls of the callbacks.
const CALLED: Duration = Duration::from_millis(500);
/// Maximum width of the line in characters.
const WIDTH: usize = 78;

/// State of the translation in progress.
struct Ongoing {
    function: String,
    phase: &'static str,
    statements: usize,
    start: Instant,
    shown_after: Option<Duration>,
    is_drawn: bool,
    called: Instant,
    was_called: bool,
}

type Callback = (u32, Py<PyAny>);

static NOW: Mutex<Option<Ongoing>> = Mutex::new(None);
static BEGUN: Condvar = Condvar::new();
static IS_WATCHED: AtomicBool = AtomicBool::new(false);
static CALLBACKS: Mutex<Vec<Callback>> = Mutex::new(Vec::new());
/// Id of the process whose thread draws the line. After a fork, the child process has no such thread.
static DRAWS: AtomicU32 = AtomicU32::new(0);

/// Locks the mutex. After a fork the drawing thread of the parent may have held the lock, which nobody would release:
/// returns `None` then.
fn unless_forked_from<T>(mutex: &'static Mutex<T>) -> Option<MutexGuard<'static, T>> {
    let draws = DRAWS.load(Ordering::Relaxed);
    if draws == 0 || draws == std::process::id() {
        return Some(mutex.lock());
    }
    mutex.try_lock()
}

/// A translation in progress, until it is dropped.
pub struct Translating(());

/// Begins a translation of a function. Returns `None` if nobody watches.
pub fn begin(function: &str) -> Option<Translating> {
    let shown_after = shown_after();
    if shown_after.is_none() && CALLBACKS.lock().is_empty() {
        return None;
    }
    let start = Instant::now();
    let mut now = unless_forked_from(&NOW)?;
    *now = Some(Ongoing {
        function: function.to_owned(),
        phase: "simulate",
        statements: 0,
        start,
        shown_after,
        is_drawn: false,
        called: start,
        was_called: false,
    });
    drop(now);
    IS_WATCHED.store(true, Ordering::Relaxed);
    if shown_after.is_some() {
        draw_in_a_thread();
        BEGUN.notify_all();
    }
    Some(Translating(()))
}

impl Translating {
    /// Ends the translation. Its end is reported to the callbacks if its progress was.
    pub fn end(self, py: Python<'_>) {
        let was_called = NOW.lock().as_ref().is_some_and(|now| now.was_called);
        if was_called {
            note("done", None);
            call_back(py);
        }
    }
}

impl Drop for Translating {
    fn drop(&mut self) {
        IS_WATCHED.store(false, Ordering::Relaxed);
        let mut now = NOW.lock();
        if now.as_ref().is_some_and(|now| now.is_drawn) {
            write("\r\x1b[K");
        }
        *now = None;
    }
}

/// Notes the phase that the translation enters.
pub fn phase(py: Python<'_>, phase: &'static str) {
    if IS_WATCHED.load(Ordering::Relaxed) {
        note(phase, None);
        call_back_if_due(py);
    }
}

/// Notes the number of statements so far.
#[inline]
pub fn tick(py: Python<'_>, statements: usize) {
    if IS_WATCHED.load(Ordering::Relaxed) {
        note("simulate", Some(statements));
        call_back_if_due(py);
    }
}

fn note(phase: &'static str, statements: Option<usize>) {
    if let Some(now) = &mut *NOW.lock() {
        now.phase = phase;
        now.statements = statements.unwrap_or(now.statements);
    }
}

/// Registers a callable that is called with the progress of long translations. Returns the number to remove it by.
pub fn add_callback(callback: Py<PyAny>) -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    CALLBACKS.lock().push((number, callback));
    number
}

/// Removes a callback.
pub fn remove_callback(number: u32) {
    let mut callbacks = CALLBACKS.lock();
    let gone = callbacks.iter().position(|(known, _)| *known == number).map(|at| callbacks.remove(at));
    drop(callbacks);
    // Dropping the callback may run the program's code: no lock may be held.
    drop(gone);
}

fn call_back_if_due(py: Python<'_>) {
    let is_due = NOW.lock().as_ref().is_some_and(|now| now.called.elapsed() >= CALLED);
    if is_due {
        call_back(py);
    }
}

fn call_back(py: Python<'_>) {
    let told = NOW.lock().as_mut().map(|now| {
        let called = Instant::now();
        (now.called, now.was_called) = (called, true);
        // The interval to the next call begins at the time that callbacks are given.
        (now.function.clone(), now.phase, now.statements, called.duration_since(now.start).as_secs_f64())
    });
    let Some(told) = told else { return };
    let callbacks: Vec<Callback> =
        CALLBACKS.lock().iter().map(|(number, callback)| (*number, callback.clone_ref(py))).collect();
    let pending = PyErr::take(py);
    let _quiet = cpython::suspend(py);
    for (number, callback) in callbacks {
        if let Err(error) = callback.call1(py, told.clone()) {
            remove_callback(number);
            error.write_unraisable(py, Some(callback.bind(py)));
        }
    }
    if let Some(error) = pending {
        error.restore(py);
    }
}

/// Time after which a line is shown; `None` if no line is wanted or standard error is no terminal.
fn shown_after() -> Option<Duration> {
    let said = std::env::var("SOT_PROGRESS").ok().and_then(|said| said.trim().parse::<f64>().ok());
    let seconds = said.filter(|seconds| seconds.is_finite() && *seconds >= 0.0).unwrap_or(SHOWN_AFTER);
    (seconds > 0.0 && std::io::stderr().is_terminal()).then(|| Duration::from_secs_f64(seconds))
}

fn draw_in_a_thread() {
    let process = std::process::id();
    if DRAWS.swap(process, Ordering::Relaxed) != process {
        let thread = std::thread::Builder::new().name("sot progress".to_owned());
        // If no thread can be started there is no line.
        thread.spawn(draw_for_ever).ok();
    }
}

fn draw_for_ever() {
    let mut now = NOW.lock();
    loop {
        let wait = now.as_ref().and_then(|now| Some(now.shown_after?.saturating_sub(now.start.elapsed()).max(REDRAWN)));
        match wait {
            None => BEGUN.wait(&mut now),
            Some(wait) => drop(BEGUN.wait_for(&mut now, wait)),
        }
        if let Some(now) = &mut *now {
            if now.shown_after.is_some_and(|after| now.start.elapsed() >= after) {
                now.is_drawn = true;
                write(&format!("\r{}\x1b[K", line(now)));
            }
        }
    }
}

fn line(now: &Ongoing) -> String {
    let seconds = now.start.elapsed().as_secs_f64();
    let rest = format!(": {} statements, {}, {seconds:.1} s", now.statements, now.phase);
    let room = WIDTH.saturating_sub(rest.chars().count());
    format!("{} translates {}", package::name(), now.function).chars().take(room).collect::<String>() + &rest
}

fn write(text: &str) {
    let mut stderr = std::io::stderr().lock();
    // Errors of a closed terminal are ignored.
    stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush()).ok();
}
