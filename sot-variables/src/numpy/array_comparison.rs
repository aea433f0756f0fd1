//! `array == 0` for numpy arrays with a single item: numpy compares them, and only the truth of the result is
//! guarded.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};
use sot_core::backend::ObjectTest;
use sot_core::cpython;
use sot_core::error::{Flow, Unwind};
use sot_core::executor::{CompareOp, OpcodeExecutor, Trace};
use sot_core::guard::Test;
use sot_core::tracker::repr;
use sot_core::variable::Rebuild;
use sot_core::variable::{VarId, Variable};

use crate::numpy::small_array;

sot_core::variable_kind! { "array_comparison" }

/// A comparison whose truth has not been asked for yet.
struct ArrayComparison {
    array: VarId,
    op: CompareOp,
    /// `None` if the array is compared with itself.
    other: Option<VarId>,
    operands: Operands,
}

struct Operands {
    array: Py<PyAny>,
    other: Option<Py<PyAny>>,
}

/// Guard: the comparison of an array has this truth.
struct ComparisonTest {
    op: CompareOp,
    other: Option<Py<PyAny>>,
    truth: bool,
}

/// Simulates `array op other` for an array with a single item; `None` leaves the comparison to the object model.
pub(crate) fn compare(
    cx: &mut OpcodeExecutor<'_>,
    object: &Py<PyAny>,
    op: CompareOp,
    array: VarId,
    other: VarId,
) -> Flow<Option<VarId>> {
    let object = object.bind(cx.py).clone();
    if !is_single(&object) || !cx.trace.trackers.is_sourced(cx.trace.vars.tracker(array)) {
        return Ok(None);
    }
    let (other, value) = if array == other {
        (None, None)
    } else {
        match cx.known(other)? {
            Some(number) if is_number(&number) => (Some(other), Some(number.unbind())),
            _ => return Ok(None),
        }
    };
    let operands = Operands { array: object.unbind(), other: value };
    Ok(Some(cx.trace.produce(Rc::new(ArrayComparison { array, op, other, operands }))))
}

/// True if the object is an array of numbers with a single item. Comparing such an array runs no code of the program.
fn is_single(object: &Bound<'_, PyAny>) -> bool {
    let has_one_item = || PyResult::Ok(object.getattr("size")?.extract::<usize>()? == 1);
    small_array::is_of_numbers(object).unwrap_or(false) && has_one_item().unwrap_or(false)
}

fn is_number(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyBool>()
}

fn truth_of(array: &Bound<'_, PyAny>, op: CompareOp, other: Option<&Py<PyAny>>) -> PyResult<bool> {
    let other = other.map_or(array, |other| other.bind(array.py()));
    op.apply(array, other)?.is_truthy()
}

impl ObjectTest for ComparisonTest {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        is_single(object) && truth_of(object, self.op, self.other.as_ref()).is_ok_and(|truth| truth == self.truth)
    }

    fn describe(&self, subject: &str) -> String {
        let other = self.other.as_ref().map(|other| Python::attach(|py| repr(py, other)));
        let (symbol, other) = (self.op.symbol(), other.as_deref().unwrap_or(subject));
        let truth = if self.truth { "True" } else { "False" };
        format!("bool({subject} {symbol} {other}) is {truth}")
    }
}

impl Variable for ArrayComparison {
    fn kind(&self) -> &'static str {
        "array_comparison"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.result(trace)
            .map_or_else(|_| trace.py.get_type::<PyAny>().into_any(), |result| result.get_type().into_any())
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        let other = trace.text(self.other.unwrap_or(self.array));
        format!("ArrayComparison({} {} {other})", trace.text(self.array), self.op.symbol())
    }

    fn truth(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<bool> {
        let other = self.operands.other.as_ref().map(|other| other.clone_ref(cx.py));
        let truth = truth_of(self.operands.array.bind(cx.py), self.op, other.as_ref());
        let truth = truth.map_err(|error| cx.raise(error))?;
        let test = ComparisonTest { op: self.op, other, truth };
        cx.trace.guards.add(cx.trace.vars.tracker(self.array), Test::Object(Box::new(test)));
        Ok(truth)
    }

    fn children(&self) -> Vec<VarId> {
        std::iter::once(self.array).chain(self.other).collect()
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        let py = cg.py();
        let name = self.op.method().trim_matches('_');
        let function = cpython::import(py, "operator")?.getattr(name).map_err(Unwind::from)?.unbind();
        cg.call(|cg| cg.load_const(function), [self.array, self.other.unwrap_or(self.array)])
    }
}

impl ArrayComparison {
    fn result<'py>(&self, trace: &Trace<'py>) -> PyResult<Bound<'py, PyAny>> {
        let array = self.operands.array.bind(trace.py);
        self.op.apply(array, self.operands.other.as_ref().map_or(array, |other| other.bind(trace.py)))
    }
}
