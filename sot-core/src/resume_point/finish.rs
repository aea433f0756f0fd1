//! Finishes: what an instruction still does with the result of the one function it calls. If the call broke, the
//! prologue of the resume function does the finish.

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyIterator, PyString};

use crate::cpython;
use crate::operators::{BinaryOp, CompareOp};

/// The finish of an instruction: what it does with the result of its call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Finish {
    /// Leaves the result on the stack.
    Keep,
    /// Leaves the result on the stack, and begins the block of a `with` below it (3.8 to 3.10).
    Begin,
    /// Drops the result.
    Drop,
    /// Leaves the result with a NULL, as a method load leaves a callable that is no method.
    Pair,
    /// The result of `__init__`: drops it if it is `None`, else raises.
    InitResult,
    /// The result of an operator's special method, above the operands. If it is `NotImplemented`, the other methods
    /// of the operator are tried.
    Operator(Operation),
    /// Like `Operator`, and then leaves the truth of the operator's result (3.13).
    Test(Operation),
    /// The result of a special method that C code checks or converts, and then uses in this way.
    SpecialResult(SpecialResult, SpecialResultUse),
    /// The last of this many arguments of a call. The other arguments and the callable are below it.
    Apply(u32),
    /// The next item of the iterator below it. A `StopIteration` instead of the item ends the loop.
    Next,
}

/// How C code checks and converts the result of a special method.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SpecialResult {
    /// Result of `__bool__`: has to be a bool.
    Truth,
    /// Result of `__len__`, as a truth value.
    Filled,
    /// Result of `__len__`, as a length.
    Length,
    /// Result of `__contains__`, as a truth value.
    Found,
    /// Result of `__iter__`: has to be an iterator.
    Iterator,
    /// Result of `__str__`: has to be a string.
    Str,
    /// Result of `__repr__`: has to be a string.
    Repr,
    /// Result of `__format__`: has to be a string.
    Format,
}

/// How an instruction uses the checked result of a special method.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SpecialResultUse {
    /// Leaves the result on the stack.
    Leave,
    /// Leaves the negated result on the stack.
    Not,
    /// Branches on the result. An instruction that may keep its operand has the operand below the result.
    Branch,
}

impl SpecialResult {
    const ALL: [SpecialResult; 8] = [
        SpecialResult::Truth,
        SpecialResult::Filled,
        SpecialResult::Length,
        SpecialResult::Found,
        SpecialResult::Iterator,
        SpecialResult::Str,
        SpecialResult::Repr,
        SpecialResult::Format,
    ];

    /// Returns the function that checks this kind of result; there is one function of each kind.
    pub(crate) fn check(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let checks =
            CHECKS.get_or_try_init(py, || SpecialResult::ALL.iter().map(|answer| answer.make(py)).collect())?;
        Ok(checks[self as usize].clone_ref(py))
    }

    /// Returns the kind of result that the function checks, if it is one of these functions.
    pub fn checked_by(function: &Bound<'_, PyAny>) -> Option<SpecialResult> {
        let checks = CHECKS.get(function.py())?;
        let index = checks.iter().position(|check| check.is(function))?;
        SpecialResult::ALL.get(index).copied()
    }

    fn make(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let check = cpython::fastcall(py, "__answer__", "What C code makes of an answer.", move |_, values| {
            let [answer] = values else { return Err(PyTypeError::new_err("one answer is checked")) };
            Ok(self.checked(answer)?.unbind())
        })?;
        Ok(check.unbind())
    }

    /// Returns the result, converted if need be. Fails with CPython's own error.
    pub fn checked<'py>(self, answer: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = answer.py();
        let bool = |truth: bool| pyo3::types::PyBool::new(py, truth).to_owned().into_any();
        let given = || cpython::type_name(&answer.get_type());
        let refuse = |text: String| Err(PyTypeError::new_err(text));
        match self {
            SpecialResult::Truth if !answer.is_instance_of::<pyo3::types::PyBool>() => {
                refuse(format!("__bool__ should return bool, returned {}", given()))
            }
            SpecialResult::Found => Ok(bool(answer.is_truthy()?)),
            SpecialResult::Filled => Ok(bool(length(answer)? > 0)),
            SpecialResult::Length => Ok(length(answer)?.into_pyobject(py)?.into_any()),
            SpecialResult::Iterator if answer.cast::<PyIterator>().is_err() => {
                refuse(format!("iter() returned non-iterator of type '{}'", given()))
            }
            SpecialResult::Str | SpecialResult::Repr if !answer.is_instance_of::<PyString>() => {
                let name = if self == SpecialResult::Repr { "__repr__" } else { "__str__" };
                refuse(format!("{name} returned non-string (type {})", given()))
            }
            SpecialResult::Format if !answer.is_instance_of::<PyString>() => {
                refuse(format!("__format__ must return a str, not {}", given()))
            }
            _ => Ok(answer.clone()),
        }
    }
}

/// Converts the result of `__len__` as `len()` does.
fn length(answer: &Bound<'_, PyAny>) -> PyResult<isize> {
    let index = cpython::import(answer.py(), "operator")?.getattr("index")?.call1((answer,))?;
    match index.extract::<isize>() {
        Ok(length) if length < 0 => Err(PyValueError::new_err("__len__() should return >= 0")),
        Err(error) if error.is_instance_of::<PyOverflowError>(answer.py()) => {
            let negative = index.lt(0)?;
            Err(if negative {
                PyValueError::new_err("__len__() should return >= 0")
            } else {
                PyOverflowError::new_err("cannot fit 'int' into an index-sized integer")
            })
        }
        length => length,
    }
}

static CHECKS: PyOnceLock<Vec<Py<PyAny>>> = PyOnceLock::new();

/// An operator one of whose special methods has been called.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the operator, and what was asked for it")]
pub enum Operation {
    /// An arithmetic operator.
    Binary { op: BinaryOp, inplace: bool, asked: AskedMethod },
    /// A comparison.
    Compare { op: CompareOp, asked: AskedMethod },
}

/// The special method of an operator that has been called.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AskedMethod {
    /// The in-place method of the left operand.
    InPlace,
    /// The method of the left operand.
    Left,
    /// The reflected method of the right operand.
    Right,
}

impl Operation {
    /// Returns the same operator, calling another of its methods.
    #[must_use]
    pub fn of(self, asked: AskedMethod) -> Self {
        match self {
            Operation::Binary { op, inplace, .. } => Operation::Binary { op, inplace, asked },
            Operation::Compare { op, .. } => Operation::Compare { op, asked },
        }
    }

    /// Returns a function of a tuple of both operands that evaluates the rest of the operator.
    pub(crate) fn rest(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
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
        let of_one_type = lhs.get_type().is(rhs.get_type());
        let (name, reflected, asked, asks_right) = match self {
            Operation::Binary { op, asked, .. } => (op.method(), op.reflected(), asked, !of_one_type),
            Operation::Compare { op, asked } => (op.method(), op.reflected(), asked, true),
        };
        let is_final =
            matches!(self, Operation::Binary { op, asked: AskedMethod::InPlace, .. } if op.is_final_in_place());
        let left = (lhs, name, rhs, asked == AskedMethod::InPlace && !is_final);
        let right = (rhs, reflected, lhs, asked != AskedMethod::Right && asks_right && !is_final);
        for (operand, name, other, _) in [left, right].into_iter().filter(|(.., asks)| *asks) {
            let Some(method) = cpython::special_method(operand, name)? else { continue };
            let answer = method.call1((other,))?;
            if !answer.is(py.NotImplemented()) {
                return Ok(answer);
            }
        }
        if let Operation::Binary { op, inplace, asked: AskedMethod::Right } = self {
            if let Some(answer) = sequence_answer(op, inplace, lhs, rhs)? {
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
                    _ if is_final => "** or pow()".to_owned(),
                    (_, false) => op.symbol().to_owned(),
                    (_, true) => format!("{}=", op.symbol()),
                };
                format!("unsupported operand type(s) for {symbol}: '{left}' and '{other}'")
            }
        }))
    }
}

/// The result of a left operand implemented in C after the right operand returned `NotImplemented`: sequences are
/// concatenated and repeated (`sq_concat`), or raise their own error.
fn sequence_answer<'py>(
    op: BinaryOp,
    inplace: bool,
    lhs: &Bound<'py, PyAny>,
    rhs: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = lhs.py();
    if !matches!(op, BinaryOp::Add | BinaryOp::Multiply) {
        return Ok(None);
    }
    let augmented = op.inplace();
    for name in [&*augmented, op.method()].into_iter().skip(usize::from(!inplace)) {
        let Some(method) = cpython::special_method(lhs, name)? else { continue };
        if cpython::builtin_type_name(&method) == "method-wrapper" {
            let answer = method.call1((rhs,))?;
            return Ok(Some(answer).filter(|answer| !answer.is(py.NotImplemented())));
        }
    }
    Ok(None)
}

/// Returns a function that raises CPython's error for an `__init__` that does not return `None`.
pub(crate) fn refuse_result(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let refuse =
        cpython::fastcall(py, "__refuse__", "The error of an `__init__` that gives something.", |_, values| {
            let given = values.first().map(|value| cpython::type_name(&value.get_type())).unwrap_or_default();
            Err(PyTypeError::new_err(format!("__init__() should return None, not '{given}'")))
        })?;
    Ok(refuse.unbind())
}
