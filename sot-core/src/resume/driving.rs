//! Frames that wait for a resume function which continues them: for the program, such a frame and the resume
//! function's frame are one. A waiting frame is normally taken out of the chain of frames ([`cpython::call_giving`]).
//! Under a profiler it stays in the chain, and is noted here.

use std::cell::RefCell;

use pyo3::prelude::*;

use crate::cpython;

thread_local! {
    static WAITING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Marks the calling frame as waiting for a resume function, until it is dropped.
pub(super) struct Driving {
    frame: usize,
}

impl Driving {
    /// Returns `None` if the frame is taken out of the chain.
    pub(super) fn begin(py: Python<'_>) -> Option<Driving> {
        if !cpython::is_profiled(py) {
            return None;
        }
        let frame = cpython::current_frame(py).map_or(0, |frame| frame.as_ptr() as usize);
        WAITING.with_borrow_mut(|waiting| waiting.push(frame));
        Some(Driving { frame })
    }
}

impl Drop for Driving {
    fn drop(&mut self) {
        // With switched stacks (greenlets), the frame need not be the last one.
        WAITING.with_borrow_mut(|waiting| {
            if let Some(at) = waiting.iter().rposition(|frame| *frame == self.frame) {
                waiting.remove(at);
            }
        });
    }
}

/// Returns the caller that is this many calls away from the running function, as the program counts calls, and the
/// number of frames to it. `None` if the stack is not so deep.
pub fn caller(py: Python<'_>, calls: usize) -> PyResult<Option<(Bound<'_, PyAny>, usize)>> {
    let (mut frames, mut left) = (0, calls);
    let mut frame = cpython::current_frame(py);
    while let Some(inner) = frame {
        if left == 0 {
            return Ok(Some((inner, frames)));
        }
        let outer = inner.getattr("f_back")?;
        frames += 1;
        let waits = WAITING.with_borrow(|waiting| waiting.contains(&(outer.as_ptr() as usize)));
        left -= usize::from(!waits);
        frame = (!outer.is_none()).then_some(outer);
    }
    Ok(None)
}
