//! Open sizes that a program has as a tensor (by `paddle.shape` or `paddle.numel`), and integers and comparisons
//! computed from them. Of such a value it is known which dimensions it holds the sizes of, so that `int()` and branches
//! need no break: the trace computes the number with the sizes, which stay open.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PySlice, PyTuple};
use sot_core::backend::{CallKind, KnownResult, SizeExpression};
use sot_core::executor::{BinaryOp, CompareOp};

use crate::backend::graph::builder::identity;
use crate::backend::paddle::meta;
use crate::backend::paddle::Paddle;

/// The operators that are followed.
const OPERATORS: &[BinaryOp] =
    &[BinaryOp::Add, BinaryOp::Subtract, BinaryOp::Multiply, BinaryOp::FloorDivide, BinaryOp::Remainder];

/// The values of a program that hold open sizes, by identity.
#[derive(Default)]
pub(crate) struct OpenSizes(HashMap<u64, HeldSizes>);

/// What a value of the program holds of the sizes of other values.
pub(crate) enum HeldSizes {
    /// A vector of the sizes of a value, in these dimensions.
    Each(Py<PyAny>, Vec<usize>),
    /// A single number, or the truth of a comparison.
    Number(Arc<SizeExpression>),
}

/// Returns the known integer of a value; `None` if it is not known.
type KnownInteger<'a> = &'a dyn Fn(&Bound<'_, PyAny>) -> PyResult<Option<i64>>;

/// Returns an `int` that a size can be computed with.
pub(crate) fn integer(number: &Bound<'_, PyAny>) -> Option<i64> {
    number.is_exact_instance_of::<PyInt>().then(|| number.extract().ok()).flatten()
}

impl HeldSizes {
    fn product(of: Py<PyAny>, axes: Vec<usize>) -> Self {
        HeldSizes::Number(Arc::new(SizeExpression::Product { of, axes }))
    }

    /// Returns the numbers, if no size is open: an `int`, or a list of these.
    pub(crate) fn numbers<'py>(&self, paddle: &Paddle, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (of, axes) = match self {
            HeldSizes::Each(of, axes) => (of, axes),
            HeldSizes::Number(expression) => match &**expression {
                SizeExpression::Product { of, axes } => (of, axes),
                _ => return Ok(None),
            },
        };
        let Some(meta) = meta::of_value(paddle, of.bind(py))? else { return Ok(None) };
        let known = axes.iter().map(|axis| meta.shape.get(*axis).copied().flatten()).collect::<Option<Vec<i64>>>();
        let Some(known) = known else { return Ok(None) };
        Ok(Some(match self {
            HeldSizes::Each(..) => PyList::new(py, known)?.into_any(),
            HeldSizes::Number(_) => known.iter().product::<i64>().into_pyobject(py)?.into_any(),
        }))
    }
}

impl OpenSizes {
    /// Notes what a value holds.
    pub(crate) fn insert(&mut self, id: u64, held: HeldSizes) {
        self.0.insert(id, held);
    }

    /// Returns the result of a method without arguments of a value that holds a number of open sizes.
    pub(crate) fn answer(
        &self,
        paddle: &Paddle,
        value: &Bound<'_, PyAny>,
        method: &str,
    ) -> PyResult<Option<KnownResult>> {
        if self.0.is_empty() || !paddle.is_value(value) {
            return Ok(None);
        }
        let Some(HeldSizes::Number(expression)) = self.0.get(&identity(paddle, value)?) else { return Ok(None) };
        let Some(meta) = meta::of_value(paddle, value)? else { return Ok(None) };
        let is_answered = match method {
            "item" | "__bool__" => meta.shape.iter().all(|size| *size == Some(1)),
            // Quotients and remainders have a dimension, which only some releases of numpy take for a number.
            "__int__" | "__index__" => meta.shape.is_empty() && !matches!(**expression, SizeExpression::Comparison(..)),
            _ => false,
        };
        Ok(is_answered.then(|| KnownResult::OfSizes(Arc::clone(expression))))
    }

    /// Returns what a statement's result holds of sizes, if one of them may be open.
    pub(crate) fn held_by_result(
        &self,
        paddle: &Paddle,
        (kind, name): (CallKind, &str),
        args: &Bound<'_, PyTuple>,
        known: KnownInteger<'_>,
    ) -> PyResult<Option<HeldSizes>> {
        let Some(first) = args.iter().next().filter(|first| paddle.is_value(first)) else { return Ok(None) };
        let dimensions = || Ok::<_, PyErr>(meta::of_value(paddle, &first)?.map(|meta| (0..meta.shape.len()).collect()));
        match (kind, name) {
            (CallKind::Api, "shape") => Ok(dimensions()?.map(|axes| HeldSizes::Each(first.unbind(), axes))),
            (_, "numel") => Ok(dimensions()?.map(|axes| HeldSizes::product(first.unbind(), axes))),
            _ if self.0.is_empty() => Ok(None),
            (CallKind::Method, "__getitem__") if args.len() == 2 => self.item(paddle, &first, &args.get_item(1)?),
            (CallKind::Method, _) if args.len() == 2 => {
                self.operator(paddle, name, [&first, &args.get_item(1)?], known)
            }
            _ => Ok(None),
        }
    }

    /// Returns what an item of a value holds, if the value is a vector of sizes.
    fn item(&self, paddle: &Paddle, value: &Bound<'_, PyAny>, key: &Bound<'_, PyAny>) -> PyResult<Option<HeldSizes>> {
        let Some(HeldSizes::Each(of, axes)) = self.0.get(&identity(paddle, value)?) else { return Ok(None) };
        let is_slice = key.is_exact_instance_of::<PySlice>();
        if !is_slice && !key.is_exact_instance_of::<PyInt>() {
            return Ok(None);
        }
        // Where eager mode raises, the program is built as it is.
        let Ok(found) = PyList::new(key.py(), axes)?.as_any().get_item(key) else { return Ok(None) };
        let of = of.clone_ref(key.py());
        Ok(Some(if is_slice {
            HeldSizes::Each(of, found.extract()?)
        } else {
            HeldSizes::product(of, vec![found.extract()?])
        }))
    }

    /// Returns what the result of an operator method holds.
    fn operator(
        &self,
        paddle: &Paddle,
        method: &str,
        [left, right]: [&Bound<'_, PyAny>; 2],
        known: KnownInteger<'_>,
    ) -> PyResult<Option<HeldSizes>> {
        let operand = |operand| self.operand(paddle, operand, known);
        let (Some(left), Some(right)) = (operand(left)?, operand(right)?) else { return Ok(None) };
        let is_open = |operand: &SizeExpression| !matches!(operand, SizeExpression::Number(_));
        if !is_open(&left) && !is_open(&right) {
            return Ok(None);
        }
        if let Some(op) = CompareOp::ALL.iter().find(|op| op.method() == method) {
            return Ok(Some(HeldSizes::Number(Arc::new(SizeExpression::Comparison(*op, [left, right])))));
        }
        let Some(op) = OPERATORS.iter().find(|op| [op.method(), op.reflected()].contains(&method)) else {
            return Ok(None);
        };
        let [left, right] = if op.method() == method { [left, right] } else { [right, left] };
        let divides = matches!(op, BinaryOp::FloorDivide | BinaryOp::Remainder);
        if divides && !matches!(*right, SizeExpression::Number(1..)) {
            return Ok(None);
        }
        Ok(Some(HeldSizes::Number(Arc::new(SizeExpression::Binary(*op, [left, right])))))
    }

    /// Returns an operand as an integer of sizes, if it is one.
    fn operand(
        &self,
        paddle: &Paddle,
        operand: &Bound<'_, PyAny>,
        known: KnownInteger<'_>,
    ) -> PyResult<Option<Arc<SizeExpression>>> {
        let number = |number| Arc::new(SizeExpression::Number(number));
        if !paddle.is_value(operand) {
            return Ok(integer(operand).map(number));
        }
        Ok(match self.0.get(&identity(paddle, operand)?) {
            Some(HeldSizes::Number(held)) if !matches!(**held, SizeExpression::Comparison(..)) => {
                Some(Arc::clone(held))
            }
            Some(_) => None,
            None => known(operand)?.map(number),
        })
    }
}
