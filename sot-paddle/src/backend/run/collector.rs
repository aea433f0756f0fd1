//! When Paddle's executor frees intermediate results. It does so in a thread of its own, and handing a result over to
//! that thread takes longer than a small operation, much longer where processors are scarce. A graph whose
//! intermediate results are small gets executors without that thread, for its runs and for their backward passes: the
//! results are freed together when the run, or its backward pass, has ended. Executors of other graphs hand results
//! over in batches.

use std::cell::Cell;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{IntoPyDict, PyDict};

use crate::backend::paddle::meta;
use crate::backend::paddle::operation;
use crate::backend::paddle::Paddle;

use sot_core::cpython;

/// Maximum number of bytes of results in one run that may wait for its end; with more, results are freed during the
/// run.
const MAX_WAITING_BYTES: i64 = 4 << 20;

/// Number of bytes that are freed together, in units of 2^30 bytes: 1 MB.
const BATCH: f64 = 1.0 / 1024.0;

/// Paddle's flag for the amount that waits until it is freed together, in units of 2^30 bytes. With a negative value
/// executors are made without a collector. An executor reads the flag when it is made, in its first run.
const THRESHOLD: &str = "FLAGS_eager_delete_tensor_gb";

/// How the executors of a program free intermediate results.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Collector {
    /// All at the end of the run or backward pass.
    None,
    /// During the run, in another thread, many at a time.
    InBatches,
}

impl Collector {
    /// Chooses the collector by the size of what a run of `program` computes.
    pub(crate) fn of(paddle: &Paddle, program: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(if is_small(paddle, program)? { Collector::None } else { Collector::InBatches })
    }

    fn threshold(self) -> f64 {
        match self {
            Collector::None => -1.0,
            Collector::InBatches => BATCH,
        }
    }
}

/// True if all results that a run of `program` computes take at most [`MAX_WAITING_BYTES`] bytes together.
fn is_small(paddle: &Paddle, program: &Bound<'_, PyAny>) -> PyResult<bool> {
    let mut bytes = 0_i64;
    for operation in operation::of_program(program)? {
        for result in operation.call_method0("results")?.try_iter()? {
            let result = result?;
            if result.call_method0("is_combine")?.is_truthy()? {
                // A list of tensors; its items are counted as results of the operation that takes the list apart.
                continue;
            }
            let Ok(Some(meta)) = meta::of_value(paddle, &result) else { return Ok(false) };
            let size =
                meta.shape.iter().try_fold(element_size(&meta.dtype), |product, size| product.checked_mul((*size)?));
            let Some(size) = size else { return Ok(false) };
            bytes = bytes.saturating_add(size);
        }
    }
    Ok(bytes <= MAX_WAITING_BYTES)
}

/// Bytes of one element. All names of element types contain the number of bits, except `bool`.
fn element_size(dtype: &str) -> i64 {
    dtype.trim_start_matches(|letter: char| !letter.is_ascii_digit()).parse::<i64>().map_or(1, |bits| bits / 8)
}

/// Runs `work`; executors that are made in it get this collector.
pub(crate) fn with<T>(py: Python<'_>, collector: Collector, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let _exceptions = cpython::hold_exceptions(py);
    let _scope = CollectorScope::new(py, collector)?;
    work()
}

/// Number of open [`CollectorScope`]s, of all threads, and the value of the flag before the first of them. The flag is
/// read and set with the lock held, because another thread may run meanwhile. Waiting for the lock releases the GIL.
static SCOPES: Mutex<(usize, Option<Py<PyDict>>)> = Mutex::new((0, None));

thread_local! {
    // Code that runs while this thread has the lock, such as a finalizer, may run a graph. Its executor gets the
    // collector that the flag says.
    static SWITCHING_HERE: Cell<bool> = const { Cell::new(false) };
}

/// Works on the count and the old value; `None` if this thread is in such a call already.
fn switch<T>(py: Python<'_>, work: impl FnOnce(&mut usize, &mut Option<Py<PyDict>>) -> T) -> Option<T> {
    if SWITCHING_HERE.replace(true) {
        return None;
    }
    let done = {
        let mut scopes = SCOPES.lock_py_attached(py);
        let (open, before) = &mut *scopes;
        work(open, before)
    };
    SWITCHING_HERE.set(false);
    Some(done)
}

/// While a `CollectorScope` lives, and until the next one begins, executors are made with its collector.
pub(crate) struct CollectorScope(());

impl CollectorScope {
    /// Sets the flag; `None` if this thread is changing the flag already.
    pub(crate) fn new(py: Python<'_>, collector: Collector) -> PyResult<Option<Self>> {
        let opened = switch(py, |open, before| {
            let paddle = cpython::import(py, "paddle")?;
            let now = paddle.call_method1("get_flags", (THRESHOLD,))?.cast_into::<PyDict>()?;
            paddle.call_method1("set_flags", ([(THRESHOLD, collector.threshold())].into_py_dict(py)?,))?;
            if *open == 0 {
                *before = Some(now.unbind());
            }
            *open += 1;
            Ok(CollectorScope(()))
        });
        opened.transpose()
    }
}

impl Drop for CollectorScope {
    fn drop(&mut self) {
        // Attaching fails only while the interpreter shuts down, when no graph runs any more.
        Python::try_attach(|py| {
            let (_signals, _exceptions) = (cpython::defer_signals(py), cpython::hold_exceptions(py));
            let closed = switch(py, |open, before| {
                *open -= 1;
                match before.take_if(|_| *open == 0) {
                    Some(before) => cpython::import(py, "paddle")?.call_method1("set_flags", (before,)).map(drop),
                    None => Ok(()),
                }
            });
            if let Some(Err(error)) = closed {
                error.write_unraisable(py, None);
            }
        });
    }
}
