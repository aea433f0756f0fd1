//! Remaining C stack of the thread. CPython counts calls and assumes that this many fit. But frames under the hook
//! use more stack than CPython assumes, and a simulation uses far more.

use std::hint::black_box;

use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;

use crate::cpython::hook::recursion::has_calls_to_begin;
use crate::cpython::hook::{Thread, THREAD};

/// Bytes of stack that have to be left to run a frame. C code that the frame calls needs some of it.
const TO_RUN: usize = 64 << 10;
/// Bytes of stack that have to be left to continue a simulation.
const TO_GO_ON: usize = 256 << 10;
/// Bytes of stack that have to be left to begin a simulation, so that deep calls can be followed.
const TO_BEGIN: usize = 2 << 20;

/// Address range of a thread's stack.
#[derive(Clone, Copy)]
pub(in crate::cpython) struct Stack {
    lowest: usize,
    size: usize,
}

impl Stack {
    pub(in crate::cpython) const UNKNOWN: Stack = Stack { lowest: 0, size: 0 };

    /// The stack of this thread.
    #[cfg(target_os = "linux")]
    fn here() -> Option<Stack> {
        let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
        let (mut lowest, mut size) = (std::ptr::null_mut(), 0);
        // SAFETY: the attributes are read and freed only if the first call has filled them; each call gets its own places
        // to write to.
        unsafe {
            if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
                return None;
            }
            let known = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut lowest, &raw mut size) == 0;
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
            known.then_some(Stack { lowest: lowest as usize, size })
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn here() -> Option<Stack> {
        None
    }

    /// Address below which no frame is run: at most the last eighth of a small stack is reserved.
    fn limit(&self) -> usize {
        self.lowest + TO_RUN.min(self.size / 8)
    }

    /// Bytes left at an address; `None` outside the thread's stack, where a library runs code on a stack of its own.
    fn left(&self, here: usize) -> Option<usize> {
        here.checked_sub(self.lowest).filter(|left| *left < self.size)
    }
}

/// An address in the current C frame.
#[inline]
pub(in crate::cpython) fn here() -> usize {
    let local = 0_u8;
    black_box(&raw const local) as usize
}

/// Measures the stack of `thread`, which has to be the current thread, at the first call.
#[inline]
pub(in crate::cpython) fn measure_of(thread: &Thread) {
    if thread.stack_limit.get() == 0 {
        measure(thread);
    }
}

/// The part of [`measure_of`] that runs once a thread, apart from it so that opening a section stays short.
#[cold]
fn measure(thread: &Thread) {
    let stack = Stack::here().unwrap_or(Stack::UNKNOWN);
    thread.stack_limit.set(stack.limit().max(1));
    thread.stack.set(stack);
}

/// The error for a frame that begins below the limit; `None` if it is not on the thread's own stack.
#[cold]
pub(in crate::cpython) fn overflow(here: usize) -> Option<PyErr> {
    let left = THREAD.with(|thread| thread.stack.get().left(here))?;
    let text = format!("maximum recursion depth exceeded: {} kB of the C stack are left", left >> 10);
    Some(PyRecursionError::new_err(text))
}

fn has(enough: impl FnOnce(&Stack) -> usize) -> bool {
    THREAD.with(|thread| {
        let stack = thread.stack.get();
        stack.left(here()).is_none_or(|left| left >= enough(&stack))
    })
}

/// True if enough C stack is left to simulate a frame and the functions it calls.
pub fn has_stack_to_begin() -> bool {
    THREAD.with(measure_of);
    has_calls_to_begin() && has(|stack| (stack.size / 4).clamp(TO_GO_ON + TO_GO_ON / 2, TO_BEGIN))
}

/// True if enough C stack is left for a simulation to go one call deeper.
#[inline]
pub fn has_stack_to_go_on() -> bool {
    has(|_| TO_GO_ON)
}

/// True if enough C stack is left for any work in a simulation. Code that goes deeper asks for more stack first and
/// reports why it gives up; this is a last check for all other code.
#[inline]
pub fn has_stack_to_look() -> bool {
    has(|_| TO_GO_ON / 2)
}
