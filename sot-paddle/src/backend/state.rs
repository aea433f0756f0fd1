//! The global state that changes what operations do: grad mode, automatic mixed precision, default dtype, device, and that
//! Paddle is in eager mode at all.

use pyo3::intern;
use pyo3::prelude::*;
use sot_core::backend::StateTest;

use std::sync::Arc;

use super::paddle::Paddle;

/// The state at one moment.
pub(crate) struct GlobalState {
    paddle: Arc<Paddle>,
    grad: bool,
    amp: Amp,
    default_dtype: Py<PyAny>,
    place: Py<PyAny>,
    place_text: String,
}

/// Automatic mixed precision. Its element type is `float32` exactly while it is off, so one read tells that it is off.
enum Amp {
    Off,
    On { dtype: String, level: Py<PyAny>, promote: bool, lists: Py<PyAny> },
}

impl GlobalState {
    /// Reads the state.
    pub(crate) fn now(py: Python<'_>, paddle: &Arc<Paddle>) -> PyResult<Self> {
        let place = expected_place(py, paddle)?;
        Ok(GlobalState {
            grad: paddle.grad_enabled(py)?,
            amp: Amp::now(&paddle.static_mode.tracer(py)?)?,
            default_dtype: paddle.default_dtype.read(py)?.unbind(),
            place_text: place.str()?.to_string(),
            place: place.unbind(),
            paddle: Arc::clone(paddle),
        })
    }

    fn holds(&self, py: Python<'_>) -> PyResult<bool> {
        let tracer = self.paddle.static_mode.tracer(py)?;
        if tracer.is_none() || self.paddle.grad_enabled(py)? != self.grad || !self.amp.holds(&tracer)? {
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
        self.paddle.set_grad_enabled(py, self.grad)
    }

    fn describe(&self) -> String {
        let amp = match &self.amp {
            Amp::Off => "off".to_owned(),
            Amp::On { dtype, level, .. } => Python::attach(|py| format!("{} {dtype}", level.bind(py))),
        };
        Python::attach(|py| {
            format!(
                "paddle_state(grad: {}, amp: {amp}, default_dtype: {}, place: {})",
                if self.grad { "True" } else { "False" },
                self.default_dtype.bind(py),
                self.place_text
            )
        })
    }
}

impl Amp {
    fn now(tracer: &Bound<'_, PyAny>) -> PyResult<Amp> {
        if tracer.is_none() {
            return Ok(Amp::Off);
        }
        let dtype: String = tracer.getattr("_amp_dtype")?.extract()?;
        if dtype == "float32" {
            return Ok(Amp::Off);
        }
        Ok(Amp::On {
            dtype,
            level: tracer.getattr("_amp_level")?.unbind(),
            promote: tracer.getattr("_use_promote")?.is_truthy()?,
            lists: tracer.call_method0("_get_amp_op_list")?.unbind(),
        })
    }

    fn holds(&self, tracer: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = tracer.py();
        let now = tracer.getattr(intern!(py, "_amp_dtype"))?;
        let now = now.extract::<&str>()?;
        match self {
            Amp::Off => Ok(now == "float32"),
            Amp::On { dtype, level, promote, lists } => Ok(now == dtype
                && tracer.getattr(intern!(py, "_amp_level"))?.eq(level)?
                && tracer.getattr(intern!(py, "_use_promote"))?.is_truthy()? == *promote
                && tracer.call_method0(intern!(py, "_get_amp_op_list"))?.eq(lists)?),
        }
    }
}

/// The device operations run on; `None` until Paddle has chosen it.
fn expected_place<'py>(py: Python<'py>, paddle: &Paddle) -> PyResult<Bound<'py, PyAny>> {
    let place = paddle.framework.bind(py).get_item(intern!(py, "_global_expected_place_"))?;
    match place {
        Some(place) if !place.is_none() => Ok(place),
        _ => py.import("paddle.base.framework")?.call_method0("_current_expected_place_"),
    }
}
