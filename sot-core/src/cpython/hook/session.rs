//! Sections of the program in which frames go to the evaluator. Our hook is in the slot from the first open section
//! of the process to the last one. A flag of each thread says whether its frames go to the evaluator.

use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use pyo3::Python;

use crate::cpython::hook::c_stack::measure_of;
use crate::cpython::hook::peers;
use crate::cpython::hook::{has_evaluator, Mode, Thread, FOREIGN, THREAD};
use crate::cpython::layout::{default_eval, hook_entry, EvalFrame, EvalSlot};

/// Why a section cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HookError {
    /// [`crate::cpython::set_evaluator`] was not called.
    #[error("no frame evaluator is set")]
    NoEvaluator,
    /// [`crate::cpython::set_evaluator`] was called before.
    #[error("a frame evaluator is already set")]
    EvaluatorAlreadySet,
    /// CPython 3.8 only: the slot was not found in the interpreter's struct.
    #[error("the frame evaluation slot was not found; is another frame evaluator installed?")]
    SlotNotFound,
}

/// Opens a section: frames of this thread go to the evaluator until the result is dropped. Sections nest, and close
/// in the opposite order.
#[inline]
pub fn enter(py: Python<'_>) -> Result<Active<'_>, HookError> {
    if !has_evaluator() {
        return Err(HookError::NoEvaluator);
    }
    open(py, Mode::Active)
}

/// Leaves frames of this thread to CPython until the result is dropped. Has no effect outside sections.
#[inline]
pub fn suspend(_py: Python<'_>) -> Suspended<'_> {
    let before = THREAD.with(|thread| {
        let before = thread.mode.get();
        if before != Mode::Outside {
            thread.mode.set(Mode::Suspended);
        }
        before
    });
    Suspended { before, token: PhantomData }
}

/// Leaves frames of this thread to CPython until [`end_disabled`] is called, even in sections that are opened
/// meanwhile. Returns whether they went to the evaluator before.
pub fn begin_disabled(_py: Python<'_>) -> bool {
    THREAD.with(|thread| {
        thread.disabled.set(thread.disabled.get() + 1);
        let was_active = thread.mode.get() == Mode::Active;
        if was_active {
            thread.mode.set(Mode::Suspended);
        }
        was_active
    })
}

/// Ends the effect of [`begin_disabled`], whose result has to be passed.
pub fn end_disabled(_py: Python<'_>, was_active: bool) {
    THREAD.with(|thread| {
        thread.disabled.set(thread.disabled.get().saturating_sub(1));
        if was_active && thread.open.get() > 0 && thread.disabled.get() == 0 {
            thread.mode.set(Mode::Active);
        }
    });
}

/// True if frames of this thread go to the evaluator now.
#[inline]
pub fn is_active() -> bool {
    THREAD.with(|thread| thread.mode.get() == Mode::Active)
}

/// True if the hook is in the slot, so that frames reach it.
pub(in crate::cpython) fn has_slot(_: Python<'_>) -> bool {
    // SAFETY: the token says the GIL is held.
    unsafe { EvalSlot::find().is_ok_and(|slot| address(slot.get()) == address(hook_entry)) }
}

/// An open section, which ends when this is dropped.
#[must_use = "the section ends when this is dropped"]
#[derive(Debug)]
pub struct Active<'py> {
    slot: EvalSlot,
    thread: *const Thread,
    before: Mode,
    /// Another tracer's hook that was in the slot when this section was opened; null if none.
    displaced: *mut (),
    token: PhantomData<Python<'py>>,
}

impl Drop for Active<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the token says that the GIL is held, and keeps the section in the thread that opened it. The state
        // of the thread outlives all code that the thread runs.
        unsafe {
            let thread = &*self.thread;
            thread.mode.set(self.before);
            thread.open.set(thread.open.get() - 1);
            uninstall(self.slot, self.displaced);
        }
    }
}

/// A scope without tracing.
#[must_use = "the stretch ends when this is dropped"]
#[derive(Debug)]
pub struct Suspended<'py> {
    before: Mode,
    token: PhantomData<Python<'py>>,
}

impl Drop for Suspended<'_> {
    #[inline]
    fn drop(&mut self) {
        THREAD.with(|thread| thread.mode.set(self.before));
    }
}

/// Opens a section of the given mode.
pub(in crate::cpython) fn open(py: Python<'_>, mode: Mode) -> Result<Active<'_>, HookError> {
    // SAFETY: the token says the GIL is held.
    let slot = unsafe { EvalSlot::find()? };
    // SAFETY: as above. Code of the interpreter is the caller.
    let displaced = unsafe { install(py, slot) };
    Ok(THREAD.with(|thread| {
        measure_of(thread);
        thread.open.set(thread.open.get() + 1);
        let before = thread.mode.replace(if thread.disabled.get() == 0 { mode } else { Mode::Suspended });
        Active { slot, thread, before, displaced, token: PhantomData }
    }))
}

/// Runs work of the tracer's that CPython has called. In an open section the thread need not be attached again,
/// because attached code of this thread has opened it.
///
/// # Safety
/// The GIL is held.
#[inline]
pub(in crate::cpython) unsafe fn attached<T>(work: impl FnOnce(Python<'_>) -> T) -> T {
    if THREAD.with(|thread| thread.open.get() > 0) {
        // SAFETY: guaranteed by the caller.
        work(unsafe { Python::assume_attached() })
    } else {
        Python::attach(work)
    }
}

/// Number of open sections in all threads.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// The evaluator that the slot gets back when the last section ends.
static BEFORE: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// Puts our hook into the slot. The slot is checked every time, because frameworks reset it. Returns the other
/// tracer's hook that was in the slot, if this section is within that tracer's section: the slot gets it back when
/// this section ends, even while other sections of ours are open.
///
/// # Safety
/// The GIL is held, and the slot is that of the interpreter that runs.
unsafe fn install(py: Python<'_>, slot: EvalSlot) -> *mut () {
    let ours = address(hook_entry);
    // SAFETY: guaranteed by the caller.
    let found = address(unsafe { slot.get() });
    let open = OPEN.load(Ordering::Relaxed);
    let mut displaced = null_mut();
    peers::name_ours(py);
    if found != ours {
        let foreign = if found == address(default_eval) { null_mut() } else { found };
        if !foreign.is_null() && peers::is_one(py, foreign as usize) {
            displaced = foreign;
        }
        FOREIGN.store(foreign, Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { slot.set(hook_entry) };
    }
    if open == 0 {
        // If our hook is in the slot without an open section, somebody has saved and restored it; no older evaluator
        // is known.
        let before = if found == ours { address(default_eval) } else { found };
        BEFORE.store(before, Ordering::Relaxed);
    }
    OPEN.store(open + 1, Ordering::Relaxed);
    displaced
}

/// Counts a section as closed. The last one gives the slot back, unless somebody else has taken it meanwhile. A
/// section that has taken the slot from another tracer gives it back in any case.
///
/// # Safety
/// As of [`install`]; `displaced` was read from the slot.
unsafe fn uninstall(slot: EvalSlot, displaced: *mut ()) {
    let open = OPEN.load(Ordering::Relaxed) - 1;
    OPEN.store(open, Ordering::Relaxed);
    if open > 0 {
        // SAFETY: guaranteed by the caller.
        unsafe {
            if !displaced.is_null() && address(slot.get()) == address(hook_entry) {
                slot.set(std::mem::transmute::<*mut (), EvalFrame>(displaced));
            }
        }
        return;
    }
    // SAFETY: guaranteed by the caller.
    let found = unsafe { slot.get() };
    if address(found) == address(hook_entry) || address(found) == address(default_eval) {
        let before = BEFORE.load(Ordering::Relaxed);
        // SAFETY: the pointer was read from the slot.
        unsafe { slot.set(std::mem::transmute::<*mut (), EvalFrame>(before)) };
    }
}

/// A scope in which the slot is CPython's although a section is open.
pub(in crate::cpython) struct Sleep {
    /// The slot, if it was given back.
    slot: Option<EvalSlot>,
}

impl Sleep {
    /// Gives the slot back, if our hook is in it, no other evaluator was there before, and no other thread has a
    /// section. The scope is not ended by a destructor (see `hook`).
    ///
    /// # Safety
    /// The GIL is held.
    #[inline]
    pub(in crate::cpython) unsafe fn begin(thread: &Thread) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let is_alone =
                OPEN.load(Ordering::Relaxed) == thread.open.get() && FOREIGN.load(Ordering::Relaxed).is_null();
            let slot = EvalSlot::find().ok().filter(|slot| is_alone && address(slot.get()) == address(hook_entry));
            if let Some(slot) = slot {
                slot.set(default_eval);
            }
            Sleep { slot }
        }
    }

    /// Puts our hook into the slot again, unless somebody else has taken the slot.
    ///
    /// # Safety
    /// The GIL is held.
    #[inline]
    pub(in crate::cpython) unsafe fn end(self) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            if let Some(slot) = self.slot.filter(|slot| address(slot.get()) == address(default_eval)) {
                slot.set(hook_entry);
            }
        }
    }
}

fn address(eval: EvalFrame) -> *mut () {
    eval as *mut ()
}
