//! Methods that depend on the memory layout of a tensor from outside.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use sot_core::backend::{LayoutAnswer, ObjectTest, OfLayout};

use crate::backend::paddle::Paddle;

/// Returns what the method without arguments does for this layout, with a test of the layout.
pub(crate) fn of(paddle: &Paddle, tensor: &Bound<'_, PyAny>, method: &str) -> PyResult<Option<OfLayout>> {
    if !matches!(method, "contiguous" | "is_contiguous") {
        return Ok(None);
    }
    let asks = paddle.tensor_type.bind(tensor.py()).getattr(intern!(tensor.py(), "is_contiguous"))?;
    let mut test = Contiguous { asks: asks.unbind(), is: true };
    let Some(contiguous) = test.asked(tensor) else { return Ok(None) };
    test.is = contiguous;
    let does = match (method, contiguous) {
        ("contiguous", true) => LayoutAnswer::Itself,
        ("contiguous", false) => LayoutAnswer::Changes(
            "Tensor.contiguous lays out the tensor anew, in place; do it before the call".to_owned(),
        ),
        _ => LayoutAnswer::Known(PyBool::new(tensor.py(), contiguous).to_owned().into_any().unbind()),
    };
    Ok(Some(OfLayout { does, test: Box::new(test) }))
}

/// A test that a tensor is contiguous, or that it is not.
struct Contiguous {
    /// Paddle's own method.
    asks: Py<PyAny>,
    is: bool,
}

impl Contiguous {
    fn asked(&self, tensor: &Bound<'_, PyAny>) -> Option<bool> {
        self.asks.bind(tensor.py()).call1((tensor,)).ok()?.extract().ok()
    }
}

impl ObjectTest for Contiguous {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        self.asked(object) == Some(self.is)
    }

    fn describe(&self, subject: &str) -> String {
        format!("{subject}.is_contiguous() is {}", if self.is { "True" } else { "False" })
    }
}
