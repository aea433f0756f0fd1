//! How much of the thread's C stack is left. CPython counts calls and trusts that so many fit; frames under the hook
//! take more of it than it reckons with, and a simulation far more.

use std::hint::black_box;

use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;

use crate::cpython::hook::recursion::has_calls_to_begin;
use crate::cpython::hook::{Thread, THREAD};

/// With less than this a frame is not run: C code that it calls needs some, too.
const TO_RUN: usize = 64 << 10;
/// With less than this a simulation is given up.
const TO_GO_ON: usize = 256 << 10;
/// With less than this no simulation begins: deep calls are followed.
const TO_BEGIN: usize = 2 << 20;

/// The stack of a thread, as addresses.
#[derive(Clone, Copy)]
pub(in crate::cpython) struct Stack {
    lowest: usize,
    size: usize,
}

impl Stack {
    pub(in crate::cpython) const UNKNOWN: Stack = Stack { lowest: 0, size: 0 };

    /// That of this thread.
    #[cfg(target_os = "linux")]
    fn here() -> Option<Stack> {
        let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
        let (mut lowest, mut size) = (std::ptr::null_mut(), 0);
        // SAFETY: the first call fills the attributes, the second reads them, and the third frees what they own.
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

    /// Below which address no frame is run; of a small stack, the last eighth.
    fn limit(&self) -> usize {
        self.lowest + TO_RUN.min(self.size / 8)
    }

    /// How much is left; unknown outside of it, where a library runs code on a stack of its own.
    fn left(&self, here: usize) -> Option<usize> {
        here.checked_sub(self.lowest).filter(|left| *left < self.size)
    }
}

/// An address in the present frame.
#[inline]
pub(in crate::cpython) fn here() -> usize {
    let local = 0_u8;
    black_box(&raw const local) as usize
}

/// Looks up where the stack of this thread, the present one, ends; once.
#[inline]
pub(in crate::cpython) fn measure_of(thread: &Thread) {
    if thread.stack_limit.get() == 0 {
        let stack = Stack::here().unwrap_or(Stack::UNKNOWN);
        thread.stack_limit.set(stack.limit().max(1));
        thread.stack.set(stack);
    }
}

/// The error of a frame that starts below the limit, if it is on the thread's own stack.
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

/// Whether enough of the C stack is left to simulate a frame and what it calls.
pub fn has_stack_to_begin() -> bool {
    THREAD.with(measure_of);
    has_calls_to_begin() && has(|stack| (stack.size / 4).clamp(TO_GO_ON + TO_GO_ON / 2, TO_BEGIN))
}

/// Whether enough of the C stack is left to go one call deeper in a simulation.
#[inline]
pub fn has_stack_to_go_on() -> bool {
    has(|_| TO_GO_ON)
}

/// Whether enough of the C stack is left to do anything in a simulation. What asks for more before it goes deeper says
/// why it gives up; this is for what does not.
#[inline]
pub fn has_stack_to_look() -> bool {
    has(|_| TO_GO_ON / 2)
}
