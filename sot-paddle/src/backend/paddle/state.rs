//! The global state that changes what operations do: grad mode, automatic mixed precision, default dtype, device, and
//! eager or static mode.

use parking_lot::Mutex;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use sot_core::backend::StateTest;
use sot_core::cpython::{self, Recorder, Snapshot};

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::backend::paddle::native::AmpDtype;
use crate::backend::paddle::Paddle;

/// The global state at one moment.
pub(crate) struct GlobalState {
    paddle: Arc<Paddle>,
    is_static: bool,
    grad: bool,
    amp: Option<Amp>,
    default_dtype: Py<PyAny>,
    place: Py<PyAny>,
    place_text: String,
    memory: Mutex<StateMemory>,
}

/// Snapshot of the memory that the last answer rested on, except for what is read natively.
#[derive(Default)]
struct StateMemory {
    note: Option<StateNote>,
    /// Number of snapshots that have served too rarely.
    useless: u8,
}

struct StateNote {
    /// The number of the thread: other threads have states of their own.
    thread: u64,
    snapshot: Snapshot,
    /// Number of times that the snapshot has answered.
    served: u32,
}

/// A number that no other thread has or had. Paddle keeps one state for each thread as long as the thread lives, so
/// the number also stands for that state.
#[inline]
fn thread_number() -> u64 {
    static THREADS: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(THREADS.fetch_add(1, Ordering::Relaxed) + 1);
        }
        number.get()
    })
}

/// Number of answers from which on a snapshot was worth its cost.
const WORTHWHILE: u32 = 8;
/// Maximum number of useless snapshots. Then no more are taken, because the state is written to all the time.
const MAX_USELESS: u8 = 8;

/// Automatic mixed precision. Its element type is `float32` exactly while it is off, so one read tells that it is off.
pub(crate) struct Amp {
    dtype: String,
    level: Py<PyAny>,
    promote: bool,
    lists: Py<PyAny>,
}

impl GlobalState {
    /// Reads the state.
    pub(crate) fn now(py: Python<'_>, paddle: &Arc<Paddle>) -> PyResult<Self> {
        let place = expected_place(py, paddle)?;
        Ok(GlobalState {
            is_static: paddle.static_mode.tracer(py)?.is_none(),
            grad: paddle.grad_enabled(py)?,
            amp: Amp::now(&paddle.static_mode.tracer(py)?)?,
            default_dtype: paddle.default_dtype.read(py)?.unbind(),
            place_text: place.str()?.to_string(),
            place: place.unbind(),
            memory: Mutex::default(),
            paddle: Arc::clone(paddle),
        })
    }

    fn amp_holds(&self, py: Python<'_>) -> PyResult<bool> {
        let Some(amp) = &self.amp else { return Ok(true) };
        match self.paddle.amp_dtype.as_ref().and_then(AmpDtype::is_off) {
            Some(off) if off || amp.is_off() => Ok(off == amp.is_off()),
            _ => amp.holds(&self.paddle.static_mode.tracer(py)?),
        }
    }

    fn holds(&self, py: Python<'_>) -> PyResult<bool> {
        if self.is_as_noted(py) {
            return Ok(self.paddle.grad_enabled(py)? == self.grad && self.amp_holds(py)?);
        }
        let holds = self.holds_by_itself(py)?;
        if holds {
            self.note(&self.paddle.static_mode.state(py)?);
        }
        Ok(holds)
    }

    /// True if memory shows that mode, default dtype and place are the same as when the state last held.
    #[inline]
    fn is_as_noted(&self, py: Python<'_>) -> bool {
        let mut memory = self.memory.lock();
        let Some(note) = &mut memory.note else { return false };
        let is_same = note.thread == thread_number() && note.snapshot.holds(py);
        note.served += u32::from(is_same);
        is_same
    }

    /// Takes a snapshot of the memory that the state rests on. Called when the state has just held.
    fn note(&self, thread: &Bound<'_, PyDict>) {
        let py = thread.py();
        let mut memory = self.memory.lock();
        let old = memory.note.take();
        memory.useless += u8::from(old.as_ref().is_some_and(|old| old.served < WORTHWHILE));
        let has_tracer = cpython::dict_get(thread, intern!(py, "_dygraph_tracer_")).is_some();
        let allowed = has_tracer && memory.useless < MAX_USELESS && cpython::blind_spot().is_none();
        drop(memory);
        drop(old);
        let mut recorder = Recorder::default();
        let dicts = [thread, self.paddle.framework.bind(py)];
        let told = allowed
            && self.paddle.default_dtype.note(py, &mut recorder)
            && dicts.iter().all(|dict| {
                let dict = recorder.keep(dict.as_any());
                recorder.dict(&dict)
            });
        if told {
            let note = StateNote { thread: thread_number(), snapshot: recorder.finish(), served: 0 };
            let old = self.memory.lock().note.replace(note);
            drop(old);
        }
    }

    fn holds_by_itself(&self, py: Python<'_>) -> PyResult<bool> {
        let tracer = self.paddle.static_mode.tracer(py)?;
        let is_same_mode = tracer.is_none() == self.is_static;
        if !is_same_mode || self.paddle.grad_enabled(py)? != self.grad || !self.amp_holds(py)? {
            return Ok(false);
        }
        let dtype = self.paddle.default_dtype.read(py)?;
        if !dtype.is(&self.default_dtype) && !dtype.eq(&self.default_dtype)? {
            return Ok(false);
        }
        let place = expected_place(py, &self.paddle)?;
        Ok(place.is(&self.place) || place.str()?.to_str()? == self.place_text)
    }
}

impl StateTest for GlobalState {
    fn check(&self, py: Python<'_>) -> bool {
        self.holds(py).unwrap_or(false)
    }

    fn restore(&self, py: Python<'_>) -> PyResult<()> {
        self.paddle.set_grad_enabled(py, self.grad)?;
        let tracer = self.paddle.static_mode.tracer(py)?;
        match &self.amp {
            Some(amp) if !amp.holds(&tracer)? => amp.restore(&tracer),
            _ => Ok(()),
        }
    }

    fn seen(&self, py: Python<'_>) -> Option<String> {
        GlobalState::now(py, &self.paddle).ok().map(|now| now.describe())
    }

    fn describe(&self) -> String {
        let amp = match self.amp.as_ref().filter(|amp| !amp.is_off()) {
            None => "off".to_owned(),
            Some(amp) => Python::attach(|py| format!("{} {}", amp.level.bind(py), amp.dtype)),
        };
        Python::attach(|py| {
            format!(
                "paddle_state({}grad: {}, amp: {amp}, default_dtype: {}, place: {})",
                if self.is_static { "static mode, " } else { "" },
                if self.grad { "True" } else { "False" },
                self.default_dtype.bind(py),
                self.place_text
            )
        })
    }
}

/// True if mixed precision casts operands now.
pub(crate) fn casts(py: Python<'_>, paddle: &Paddle) -> PyResult<bool> {
    let amp = Amp::now(&paddle.static_mode.tracer(py)?)?;
    Ok(amp.is_some_and(|amp| !amp.is_off()))
}

impl Amp {
    /// Reads the state of mixed precision; `None` in static mode.
    pub(crate) fn now(tracer: &Bound<'_, PyAny>) -> PyResult<Option<Amp>> {
        if tracer.is_none() {
            return Ok(None);
        }
        Ok(Some(Amp {
            dtype: tracer.getattr("_amp_dtype")?.extract()?,
            level: tracer.getattr("_amp_level")?.unbind(),
            promote: tracer.getattr("_use_promote")?.is_truthy()?,
            lists: tracer.call_method0("_get_amp_op_list")?.unbind(),
        }))
    }

    fn is_off(&self) -> bool {
        self.dtype == "float32"
    }

    pub(crate) fn holds(&self, tracer: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = tracer.py();
        let now = tracer.getattr(intern!(py, "_amp_dtype"))?;
        if now.extract::<&str>()? != self.dtype {
            return Ok(false);
        }
        Ok(self.is_off()
            || (tracer.getattr(intern!(py, "_amp_level"))?.eq(&self.level)?
                && tracer.getattr(intern!(py, "_use_promote"))?.is_truthy()? == self.promote
                && tracer.call_method0(intern!(py, "_get_amp_op_list"))?.eq(&self.lists)?))
    }

    /// Sets the tracer back to this state.
    fn restore(&self, tracer: &Bound<'_, PyAny>) -> PyResult<()> {
        tracer.setattr("_amp_level", &self.level)?;
        tracer.setattr("_amp_dtype", &self.dtype)?;
        tracer.setattr("_use_promote", self.promote)?;
        tracer.call_method1("_set_amp_op_list", self.lists.bind(tracer.py()).cast::<PyTuple>()?.clone()).map(drop)
    }
}

/// The device that operations run on. If Paddle has not chosen it yet, Paddle is asked to choose.
pub(crate) fn expected_place<'py>(py: Python<'py>, paddle: &Paddle) -> PyResult<Bound<'py, PyAny>> {
    let place = paddle.framework.bind(py).get_item(intern!(py, "_global_expected_place_"))?;
    match place {
        Some(place) if !place.is_none() => Ok(place),
        _ => cpython::import(py, "paddle.base.framework")?.call_method0("_current_expected_place_"),
    }
}
