//! Which frames wait for resume functions that go on with them: such a frame and that of the resume function are one to
//! the program. The frame that waits is out of the chain meanwhile ([`cpython::call_giving`]), but for a profiler; then
//! it is noted here.

use std::cell::RefCell;

use pyo3::prelude::*;

use crate::cpython;

thread_local! {
    static WAITING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// While it lives, the frame that has called waits for a resume function.
pub(super) struct Driving {
    frame: usize,
}

impl Driving {
    /// Nothing where the frame is out of the chain.
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
        // Where stacks are switched, it need not be the last one.
        WAITING.with_borrow_mut(|waiting| {
            if let Some(at) = waiting.iter().rposition(|frame| *frame == self.frame) {
                waiting.remove(at);
            }
        });
    }
}

/// The caller of the running function that the program counts so many calls away, and how many frames lie between;
/// `None` if it has no so many.
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
