//! Open numbers as inputs of the graph, and as operands of operators in it.

use std::ops::RangeInclusive;

use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyString};

use super::lazy_number;
use super::open_number::{in_python, integer_in, is_natural, OpenNumber, OpenNumberOrigin};
use super::open_sizes::needs;
use crate::backend::{CallKind, GradientFlow, ObjectTest, SizesMatter, TensorMeta};
use crate::error::{Flow, ReasonId, Unwind};
use crate::guard::{Identity, Test};
use crate::machine::executor::statements::building::IntegerUse;
use crate::machine::executor::{BinaryOp, CallArgs, CompareOp, OpcodeExecutor};
use crate::machine::variable::{Form, GraphArgument, VarId};
use crate::policy;

/// Larger numbers are specialised on.
const LARGEST_OPEN: i64 = (1 << 31) - 1;
/// Negative numbers that may be left open; -1 has a meaning of its own in shapes.
const OPEN_NEGATIVE: RangeInclusive<i64> = -LARGEST_OPEN..=-2;

/// Test that an `int` is in the range that a translation leaves open.
struct InOpenRange(RangeInclusive<i64>);

impl InOpenRange {
    /// Returns the range around `number` that is left open; `None` if `number` is specialised on. Where some integers
    /// are special, it may be a size, and the smallest that is open is `least`.
    fn around(number: i64, used: IntegerUse, least: i64) -> Option<RangeInclusive<i64>> {
        let least = if used.takes_all { -LARGEST_OPEN } else { least };
        [least..=LARGEST_OPEN, OPEN_NEGATIVE].into_iter().find(|range| range.contains(&number))
    }
}

impl ObjectTest for InOpenRange {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        object.is_exact_instance_of::<PyInt>() && object.extract().is_ok_and(|number| self.0.contains(&number))
    }

    fn describe(&self, subject: &str) -> String {
        format!("type({subject}) is int and {} <= {subject} <= {}", self.0.start(), self.0.end())
    }
}

/// Test that a `float` is acceptable for every operation: neither infinite nor a NaN, nor either of them in single
/// precision.
struct OrdinaryFloat;

impl ObjectTest for OrdinaryFloat {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        let number = object.cast_exact::<PyFloat>();
        number.is_ok_and(|number| number.value().abs() <= f64::from(f32::MAX))
    }

    fn describe(&self, subject: &str) -> String {
        format!("type({subject}) is float and abs({subject}) <= {:e}", f32::MAX)
    }
}

/// Test that a `float` is not NaN.
struct NotNan;

impl ObjectTest for NotNan {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        object.cast_exact::<PyFloat>().is_ok_and(|number| !number.value().is_nan())
    }

    fn describe(&self, subject: &str) -> String {
        format!("type({subject}) is float and {subject} == {subject}")
    }
}

/// Returns the test that a `float` must pass as an argument of the present statement, if any does.
fn float_test(cx: &OpcodeExecutor<'_>) -> Option<Box<dyn ObjectTest>> {
    if cx.statement.checks_floats {
        Some(Box::new(OrdinaryFloat))
    } else if cx.statement.signs_nan {
        Some(Box::new(NotNan))
    } else {
        None
    }
}

/// Larger numbers are not exact in every operation of a graph.
const LARGEST_EXACT: i64 = 1 << 20;

impl OpcodeExecutor<'_> {
    /// Returns the value as an argument of the statement that is being made.
    pub fn graph_argument(&mut self, id: VarId) -> Flow<GraphArgument> {
        if self.statement.takes_sizes && self.is_open_argument(id) {
            let value = open_value(self, id)?;
            return self.see(value)?.graph_argument(self, value);
        }
        if self.statement.takes_floats && is_open_float(self, id) {
            let value = float_value(self, id)?;
            return self.see(value)?.graph_argument(self, value);
        }
        self.see(id)?.graph_argument(self, id)
    }

    /// True if the variable is an open integer that a graph can take as input.
    pub fn is_open_argument(&self, id: VarId) -> bool {
        is_open_in(self, id, self.statement.integers)
    }

    /// True if the variable is an open number that an operator in a graph can take as operand.
    pub fn is_open_operand(&self, id: VarId) -> bool {
        is_open_in(self, id, IntegerUse::OPERANDS) || is_open_float(self, id)
    }
}

/// An operator between a tensor and an open number.
pub(in crate::machine::executor) fn open_operator(
    cx: &mut OpcodeExecutor<'_>,
    op: BinaryOp,
    lhs: VarId,
    rhs: VarId,
) -> Flow<Option<VarId>> {
    let (number, other) = if cx.is_open_operand(rhs) { (rhs, lhs) } else { (lhs, rhs) };
    if !cx.is_open_operand(number) || is_open_integer(cx, other) {
        return Ok(None);
    }
    let payload = cx.see(other)?;
    if payload.form() != Form::Tensor {
        return Ok(None);
    }
    payload.binary(cx, op, other, number, number == lhs)
}

/// A comparison of a tensor with an open number.
pub(in crate::machine::executor) fn open_question(
    cx: &mut OpcodeExecutor<'_>,
    op: CompareOp,
    lhs: VarId,
    rhs: VarId,
) -> Flow<Option<VarId>> {
    let (op, number, other) = if cx.is_open_operand(rhs) { (op, rhs, lhs) } else { (op.mirrored(), lhs, rhs) };
    if !cx.is_open_operand(number) || cx.is_open_operand(other) {
        return Ok(None);
    }
    let payload = cx.see(other)?;
    if payload.form() != Form::Tensor {
        return Ok(None);
    }
    payload.compare(cx, op, other, number)
}

/// Returns the open number as a value of the graph.
fn open_value(cx: &mut OpcodeExecutor<'_>, id: VarId) -> Flow<VarId> {
    let Some(number) = cx.trace.vars.as_kind::<OpenNumber>(id) else {
        return if lazy_number::lazy_integer(&cx.trace, id).is_some() { number_value(cx, id) } else { Ok(id) };
    };
    cx.trace.graph.inputs.note_size_taken();
    match &number.origin {
        OpenNumberOrigin::Size(tensor, axis) => {
            let of = cx.see(*tensor)?.graph_argument(cx, *tensor)?.text;
            if let Some(known) = cx.trace.graph.inputs.known_size(&of, *axis) {
                return Ok(known);
            }
            let Some(size) = cx.runtime.backend().open_values().size_function(cx.py)? else {
                return Err(needs(cx, id));
            };
            let at = cx.trace.integer(*axis as i64)?;
            let value = cx.call_graph(CallKind::Api, &size, "size", &CallArgs::positional(vec![*tensor, at]))?;
            cx.trace.graph.inputs.note_size(of, *axis, value);
            Ok(value)
        }
        OpenNumberOrigin::Binary(op, lhs, rhs) => {
            let rounds_alike = matches!(op, BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply)
                || is_natural(&cx.trace, *lhs) && is_natural(&cx.trace, *rhs);
            let exact = |id| integer_in(&cx.trace, id).is_none_or(|number| number.abs() <= LARGEST_EXACT);
            if !(rounds_alike && exact(*lhs) && exact(*rhs)) {
                let Some(number) = in_python(cx, id)? else { return Err(needs(cx, id)) };
                return if cx.is_open_argument(number) { number_value(cx, number) } else { Ok(number) };
            }
            let (receiver, other) = if is_open_integer(cx, *lhs) { (*lhs, *rhs) } else { (*rhs, *lhs) };
            let name = if receiver == *lhs { op.method() } else { op.reflected() };
            let (receiver, other) = (open_value(cx, receiver)?, open_value(cx, other)?);
            let callee = PyString::intern(cx.py, name).into_any();
            cx.call_graph(CallKind::Method, &callee, name, &CallArgs::positional(vec![receiver, other]))
        }
        OpenNumberOrigin::Elements { product, .. } => open_value(cx, *product),
    }
}

/// Makes an integer from outside, or one computed from such integers, an input of the graph.
fn number_value(cx: &mut OpcodeExecutor<'_>, id: VarId) -> Flow<VarId> {
    if !cx.is_open_argument(id) {
        return Err(needs_number(cx, id));
    }
    let Some(now) = lazy_number::lazy_integer(&cx.trace, id) else { return Err(needs_number(cx, id)) };
    let Some(range) = InOpenRange::around(now, cx.statement.integers, cx.sizes.least) else {
        return Err(needs_number(cx, id));
    };
    let tracker = cx.trace.vars.tracker(id);
    cx.trace.guards.add(tracker, Test::Object(Box::new(InOpenRange(range))));
    let now = now.into_pyobject(cx.py).map_err(PyErr::from)?.into_any();
    given_number(cx, id, &now, "int64")
}

/// Makes a `float` from outside, or one computed from such numbers, an input of the graph.
fn float_value(cx: &mut OpcodeExecutor<'_>, id: VarId) -> Flow<VarId> {
    let Some(now) = lazy_number::lazy_float(&cx.trace, id) else { return Err(needs_number(cx, id)) };
    let tracker = cx.trace.vars.tracker(id);
    cx.trace.guards.add(tracker, Test::TypeIs(Identity::of(now.get_type().as_any())));
    if let Some(test) = float_test(cx) {
        cx.trace.guards.add(tracker, Test::Object(test));
    }
    given_number(cx, id, &now, "float64")
}

fn given_number<'py>(cx: &mut OpcodeExecutor<'py>, id: VarId, now: &Bound<'py, PyAny>, dtype: &str) -> Flow<VarId> {
    let path = cx.trace.trackers.path(cx.trace.vars.tracker(id));
    cx.sizes.left_open.push(path);
    let symbol = match cx.number_input(id, now) {
        Ok(symbol) => symbol,
        Err(error) if error.is_instance_of::<SizesMatter>(cx.py) => return Err(needs_number(cx, id)),
        Err(error) => return Err(error.into()),
    };
    let meta = TensorMeta { shape: Vec::new(), dtype: dtype.into(), gradient: GradientFlow::NONE };
    let payload = (cx.runtime.factories.tensor)(symbol, meta);
    Ok(cx.trace.produce(payload))
}

fn needs_number(cx: &mut OpcodeExecutor<'_>, id: VarId) -> Unwind {
    let text = format!("{} differs from call to call", cx.trace.text(id));
    cx.settle_sizes(Unwind::break_graph(ReasonId::ChangingNumber, text))
}

/// True if the variable is an integer that is left open where it is used like that.
fn is_open_in(cx: &OpcodeExecutor<'_>, id: VarId, used: IntegerUse) -> bool {
    if cx.trace.is_open_number(id) {
        return true;
    }
    let Some(now) = lazy_number::lazy_integer(&cx.trace, id) else { return false };
    let path = cx.trace.trackers.path(cx.trace.vars.tracker(id));
    let may_be = InOpenRange::around(now, used, cx.sizes.least).is_some();
    let times_differed = lazy_number::times_number_differed(&cx.trace, id);
    let early = used.as_operands && cx.trace.history.is_resumed;
    let opens = policy::opens_integer(times_differed, opens_after_for(cx, id), early);
    opens && may_be && !cx.sizes.is_closed(path)
}

/// True if the variable is an integer that is left open.
pub(in crate::machine::executor) fn is_open_integer(cx: &OpcodeExecutor<'_>, id: VarId) -> bool {
    cx.trace.is_open_number(id) || cx.is_open_argument(id)
}

/// Number of translations for which the number must have had another value before it is left open; 0 for a number
/// computed from open sizes.
fn opens_after_for(cx: &OpcodeExecutor<'_>, id: VarId) -> Option<usize> {
    if lazy_number::is_of_sizes(&cx.trace, id) {
        Some(0)
    } else {
        cx.sizes.opens_after
    }
}

/// True if the variable is a `float` that is left open and that a graph can take as input.
fn is_open_float(cx: &OpcodeExecutor<'_>, id: VarId) -> bool {
    let Some(now) = lazy_number::lazy_float(&cx.trace, id) else { return false };
    if float_test(cx).is_some_and(|test| !test.check(&now)) {
        return false;
    }
    let path = cx.trace.trackers.path(cx.trace.vars.tracker(id));
    let opens = policy::opens_float(lazy_number::times_number_differed(&cx.trace, id), opens_after_for(cx, id));
    opens && !cx.sizes.is_closed(path)
}
