//! What an instruction does with the result of the one function that it calls, besides the call: written behind the call in
//! the prologue of its frame's resume function.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::cpython;
use crate::executor::{BinaryOp, CompareOp};

/// What becomes of the result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Finish {
    /// It is left as it is.
    Keep,
    /// It is dropped.
    Drop,
    /// It is left as a method load leaves what is no method: with a NULL.
    Pair,
    /// It is that of `__init__`: dropped if it is None.
    Made,
    /// It is an operator's answer, above the operands; if that is `NotImplemented`, there is more to do.
    Operator(Operation),
}

/// An operator, of which one operand was asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the operator, and whether the right operand was asked")]
pub enum Operation {
    /// Arithmetic.
    Binary { op: BinaryOp, inplace: bool, right: bool },
    /// A comparison.
    Compare { op: CompareOp, right: bool },
}

impl Operation {
    /// The same with the right operand asked.
    #[must_use]
    pub fn of_right(self) -> Self {
        match self {
            Operation::Binary { op, inplace, .. } => Operation::Binary { op, inplace, right: true },
            Operation::Compare { op, .. } => Operation::Compare { op, right: true },
        }
    }

    /// A function of both operands that does what is left to do.
    pub(super) fn rest(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let rest = cpython::fastcall(
            py,
            "__rest__",
            "An operator the first operand of which had no answer.",
            move |_, values| {
                let [operands] = values else { return Err(PyTypeError::new_err("operands are given as a tuple")) };
                let (lhs, rhs) = operands.extract()?;
                Ok(self.go_on(&lhs, &rhs)?.unbind())
            },
        )?;
        Ok(rest.unbind())
    }

    fn go_on<'py>(self, lhs: &Bound<'py, PyAny>, rhs: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = lhs.py();
        let (name, right) = match self {
            Operation::Binary { op, right, .. } => (op.reflected(), right || lhs.get_type().is(rhs.get_type())),
            Operation::Compare { op, right } => (op.reflected(), right),
        };
        if let (false, Ok(method)) = (right, rhs.get_type().getattr(name)) {
            let answer = method.call1((rhs, lhs))?;
            if !answer.is(py.NotImplemented()) {
                return Ok(answer);
            }
        }
        let (left, other) = (cpython::type_name(&lhs.get_type()), cpython::type_name(&rhs.get_type()));
        let same = |same: bool| Ok(pyo3::types::PyBool::new(py, same).to_owned().into_any());
        Err(PyTypeError::new_err(match self {
            Operation::Compare { op: CompareOp::Equal, .. } => return same(lhs.is(rhs)),
            Operation::Compare { op: CompareOp::NotEqual, .. } => return same(!lhs.is(rhs)),
            Operation::Compare { op, .. } => {
                format!("'{}' not supported between instances of '{left}' and '{other}'", op.symbol())
            }
            Operation::Binary { op, inplace, .. } => {
                let symbol = match (op, inplace) {
                    (BinaryOp::Power, false) => "** or pow()".to_owned(),
                    (_, false) => op.symbol().to_owned(),
                    (_, true) => format!("{}=", op.symbol()),
                };
                format!("unsupported operand type(s) for {symbol}: '{left}' and '{other}'")
            }
        }))
    }
}

/// A function that raises what calling a class raises if its `__init__` gave something.
pub(super) fn refuse_result(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let refuse =
        cpython::fastcall(py, "__refuse__", "The error of an `__init__` that gives something.", |_, values| {
            let given = values.first().map(|value| cpython::type_name(&value.get_type())).unwrap_or_default();
            Err(PyTypeError::new_err(format!("__init__() should return None, not '{given}'")))
        })?;
    Ok(refuse.unbind())
}
