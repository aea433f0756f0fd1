//! Sizes of tensors' dimensions that a trace leaves open, so that one translation serves all of them. If a size
//! matters nevertheless, the trace is abandoned, and the next attempt and all later translations specialise on that
//! size.

use std::ops::RangeInclusive;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyString};

use super::{changing, BinaryOp, CallArgs, CompareOp, OpcodeExecutor};
use crate::backend::{CallKind, GradientFlow, ObjectTest, SizesMatter, TensorMeta};
use crate::bytecode::Op;
use crate::error::{Flow, ReasonId, Unwind};
use crate::guard::{Identity, Test};
use crate::log;
use crate::machine::variable::Rebuild;
use crate::machine::variable::{Form, GraphArgument, VarId, Variable};
use crate::open_sizes::OpenAtFirst;
use crate::policy;
use crate::tracker::{Computation, Key, Tracker, TrackerId};
use crate::value_path::ValuePath;

impl OpcodeExecutor<'_> {
    /// Makes the sizes that are to be left open unknown in the meta of a tensor from outside.
    pub fn leave_sizes_open(&mut self, tensor: &Bound<'_, PyAny>, tracker: TrackerId, meta: &mut TensorMeta) {
        if !self.trackers.is_sourced(tracker) || self.runtime.backend.is_parameter(tensor) {
            return;
        }
        let marked = self.runtime.backend.eager_tensors().marked_dimensions(tensor);
        let at_first = self.sizes.at_first;
        if self.sizes.wanted.is_empty() && marked.open.is_empty() && at_first == OpenAtFirst::Marked {
            return;
        }
        let path = self.trackers.path(tracker);
        for (axis, size) in meta.shape.iter_mut().enumerate() {
            let path = path.size(axis);
            let is_wanted = self.sizes.wanted.contains(&path) || at_first.holds(axis);
            let wanted = marked.open.contains(&axis) || is_wanted && !marked.assumed.contains(&axis);
            if wanted && !self.sizes.is_closed(path.clone()) && size.is_some_and(|size| size >= self.sizes.least) {
                *size = None;
                if !self.sizes.are_open() {
                    self.graph.note_size_taken();
                }
                self.sizes.left_open.push(path);
            }
        }
    }

    /// Returns the unwind where a size matters: a restart if any size was left open, else `otherwise`.
    pub fn settle_sizes(&mut self, otherwise: Unwind) -> Unwind {
        if !self.sizes.are_open() {
            return otherwise;
        }
        if log::enabled(log::GRAPHS) {
            let why = match &otherwise {
                Unwind::BreakGraph(reason) => reason.to_string(),
                Unwind::Internal(error) => error.to_string(),
                _ => String::new(),
            };
            let paths: Vec<String> = self.sizes.left_open.iter().map(ToString::to_string).collect();
            log::write(log::GRAPHS, &format!("[Sizes]: from here on assumed: {}: {why}", paths.join(", ")));
        }
        self.sizes.close_all()
    }
}

/// An open size, or an integer computed from open sizes.
struct OpenNumber {
    origin: OpenNumberOrigin,
}

enum OpenNumberOrigin {
    /// The size of a tensor's dimension.
    Size(VarId, usize),
    Binary(BinaryOp, VarId, VarId),
    /// The number of a tensor's elements, which is read as an attribute whose value is of type `ty`.
    Elements {
        tensor: VarId,
        name: Rc<str>,
        product: VarId,
        ty: Py<PyAny>,
    },
}

impl Variable for OpenNumber {
    fn kind(&self) -> &'static str {
        "open number"
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        match &self.origin {
            OpenNumberOrigin::Elements { ty, .. } => ty.bind(cx.py).clone(),
            _ => cx.py.get_type::<PyInt>().into_any(),
        }
    }

    fn text(&self, cx: &OpcodeExecutor<'_>) -> String {
        match &self.origin {
            OpenNumberOrigin::Size(tensor, axis) => format!("OpenNumber({}.shape[{axis}])", cx.text(*tensor)),
            OpenNumberOrigin::Binary(op, a, b) => {
                format!("OpenNumber({} {} {})", cx.text(*a), op.symbol(), cx.text(*b))
            }
            OpenNumberOrigin::Elements { tensor, name, .. } => format!("OpenNumber({}.{name})", cx.text(*tensor)),
        }
    }

    fn children(&self) -> Vec<VarId> {
        match &self.origin {
            OpenNumberOrigin::Size(tensor, _) => vec![*tensor],
            OpenNumberOrigin::Binary(_, a, b) => vec![*a, *b],
            OpenNumberOrigin::Elements { tensor, product, .. } => vec![*tensor, *product],
        }
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        match &self.origin {
            OpenNumberOrigin::Size(tensor, axis) => {
                let axis = axis.into_pyobject(cg.py()).map_err(PyErr::from)?.into_any().unbind();
                cg.load(*tensor)?;
                cg.load_attr("shape")?;
                cg.load_const(axis)?;
                cg.op(Op::BINARY_SUBSCR, 0)
            }
            OpenNumberOrigin::Binary(op, a, b) => {
                cg.load(*a)?;
                cg.load(*b)?;
                cg.binary(*op)
            }
            OpenNumberOrigin::Elements { tensor, name, .. } => {
                cg.load(*tensor)?;
                cg.load_attr(name)
            }
        }
    }
}

/// The present value of a number, and its tracker.
struct CurrentValue<'py> {
    value: Bound<'py, PyAny>,
    tracker: TrackerId,
}

/// Larger numbers are specialised on.
const LARGEST_OPEN: i64 = (1 << 31) - 1;

/// Negative numbers that may be left open; -1 has a meaning of its own in shapes.
const OPEN_NEGATIVE: RangeInclusive<i64> = -LARGEST_OPEN..=-2;

/// Test that an `int` is in the range that a translation leaves open.
struct InOpenRange(RangeInclusive<i64>);

impl InOpenRange {
    /// Returns the range around `number` that is left open; `None` if `number` is specialised on.
    fn around(number: i64, least: i64) -> Option<RangeInclusive<i64>> {
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

/// Larger numbers are not exact in every operation of a graph.
const LARGEST_EXACT: i64 = 1 << 20;

impl OpcodeExecutor<'_> {
    /// Makes the variable of a dimension's open size. `tensor` is a variable that is not changed in place.
    pub fn open_size(&mut self, tensor: VarId, axis: usize) -> VarId {
        let payload = Rc::new(OpenNumber { origin: OpenNumberOrigin::Size(tensor, axis) });
        let of = self.vars.tracker(tensor);
        if !self.trackers.is_sourced(of) {
            return self.produce(payload);
        }
        let of = self.trackers.add(Tracker::Getattr { of, name: "shape".into() });
        let tracker = self.trackers.add(Tracker::Item { of, key: Key::Index(axis as i64) });
        self.vars.add(payload, tracker)
    }

    /// Makes the variable of the number of a tensor's elements: its attribute `name`, which equals `product`.
    pub fn open_elements(&mut self, tensor: VarId, name: &Rc<str>, product: VarId, ty: Py<PyAny>) -> VarId {
        self.produce(Rc::new(OpenNumber {
            origin: OpenNumberOrigin::Elements { tensor, name: Rc::clone(name), product, ty },
        }))
    }

    /// True if the variable is an open size or an integer computed from open sizes.
    pub fn is_open(&self, id: VarId) -> bool {
        self.vars.as_kind::<OpenNumber>(id).is_some()
    }

    /// Returns the value as an argument of the statement that is being made.
    pub fn graph_argument(&mut self, id: VarId) -> Flow<GraphArgument> {
        if self.statement.takes_sizes && self.is_open_argument(id) {
            let value = open_value(self, id)?;
            self.statement.takes_sizes = true;
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
        if self.is_open(id) {
            return true;
        }
        let Some(now) = changing::lazy_integer(self, id) else { return false };
        let path = self.trackers.path(self.vars.tracker(id));
        let may_be = InOpenRange::around(now, self.sizes.least).is_some();
        let opens = policy::opens_integer(changing::times_number_differed(self, id), opens_after_for(self, id));
        opens && may_be && !self.sizes.is_closed(path)
    }

    /// True if the variable is an open number that an operator in a graph can take as operand.
    pub fn is_open_operand(&self, id: VarId) -> bool {
        self.is_open_argument(id) || is_open_float(self, id)
    }
}

/// `lhs op rhs` of an open number and another open number or a known integer, for operators that cannot fail; `None`
/// for other operands.
pub(super) fn open_binary(cx: &mut OpcodeExecutor<'_>, op: BinaryOp, lhs: VarId, rhs: VarId) -> Flow<Option<VarId>> {
    if !cx.is_open(lhs) && !cx.is_open(rhs) {
        return Ok(None);
    }
    let lazy = |id| changing::lazy_integer(cx, id).is_some();
    let cannot_fail = match op {
        BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply => true,
        BinaryOp::FloorDivide | BinaryOp::Remainder => integer_in(cx, rhs).is_some_and(|divisor| divisor != 0),
        _ => false,
    };
    let is_integer = |id| cx.is_open(id) || lazy(id) || integer_in(cx, id).is_some();
    if !(cannot_fail && is_integer(lhs) && is_integer(rhs)) {
        return Ok(None);
    }
    for side in [lhs, rhs] {
        if cx.is_open_number(side) {
            continue;
        }
        if !cx.is_open(side) {
            cx.see(side)?;
        }
    }
    Ok(Some(cx.produce(Rc::new(OpenNumber { origin: OpenNumberOrigin::Binary(op, lhs, rhs) }))))
}

/// `lhs op rhs` of integers of which one is open and none depends on the graph: specialises on the answer, not on the
/// sizes.
pub(super) fn open_compare(cx: &mut OpcodeExecutor<'_>, op: CompareOp, lhs: VarId, rhs: VarId) -> Flow<Option<VarId>> {
    if !cx.is_open(lhs) && !cx.is_open(rhs) {
        return Ok(None);
    }
    let (Some(left), Some(right)) = (size_now(cx, lhs)?, size_now(cx, rhs)?) else { return Ok(None) };
    let value = op.apply(&left.value, &right.value)?;
    let of = vec![left.tracker, right.tracker];
    let tracker = cx.trackers.add(Tracker::Computed { how: Computation::Compare(op), of });
    cx.guards.add(tracker, Test::Equals(value.clone().unbind()));
    Ok(Some(cx.boolean(value.is_truthy()?)))
}

/// The truth of an open number: specialises on the answer, not on the value.
pub(super) fn open_truth(cx: &mut OpcodeExecutor<'_>, number: VarId) -> Flow<Option<bool>> {
    if !cx.is_open(number) {
        return Ok(None);
    }
    let zero = cx.integer(0)?;
    let Some(answer) = open_compare(cx, CompareOp::NotEqual, number, zero)? else { return Ok(None) };
    Ok(cx.known(answer)?.map(|answer| answer.is_truthy()).transpose()?)
}

/// The present value of an integer, with the tracker that finds it in other calls; `None` if only the graph computes
/// it.
fn size_now<'py>(cx: &mut OpcodeExecutor<'py>, id: VarId) -> Flow<Option<CurrentValue<'py>>> {
    let Some(number) = cx.vars.as_kind::<OpenNumber>(id) else {
        let lazy = changing::lazy_integer(cx, id).is_some();
        let known = if lazy { changing::lazy_integer(cx, id) } else { integer_in(cx, id) };
        let Some(value) = known else { return Ok(None) };
        let value = value.into_pyobject(cx.py).map_err(PyErr::from)?.into_any();
        let tracker = if lazy { cx.vars.tracker(id) } else { cx.trackers.constant(value.clone().unbind()) };
        return Ok(Some(CurrentValue { value, tracker }));
    };
    match &number.origin {
        OpenNumberOrigin::Size(tensor, axis) => {
            let (tracker, payload) = (cx.vars.tracker(id), cx.vars.get(*tensor));
            let Some(tensor) = payload.object().filter(|_| cx.trackers.is_sourced(tracker)) else {
                return Ok(None);
            };
            let value = tensor.bind(cx.py).getattr("shape")?.get_item(axis)?;
            Ok(Some(CurrentValue { value, tracker }))
        }
        OpenNumberOrigin::Binary(op, lhs, rhs) => {
            let (Some(left), Some(right)) = (size_now(cx, *lhs)?, size_now(cx, *rhs)?) else { return Ok(None) };
            let value = op.apply(&left.value, &right.value)?;
            let of = vec![left.tracker, right.tracker];
            let tracker = cx.trackers.add(Tracker::Computed { how: Computation::Binary(*op), of });
            Ok(Some(CurrentValue { value, tracker }))
        }
        OpenNumberOrigin::Elements { product, .. } => size_now(cx, *product),
    }
}

/// The open number as a number that new code computes; `None` if only the graph can compute it.
pub(super) fn in_python(cx: &mut OpcodeExecutor<'_>, id: VarId) -> Flow<Option<VarId>> {
    let Some(number) = cx.vars.as_kind::<OpenNumber>(id) else { return Ok(None) };
    if !number.python_type(cx).is(cx.py.get_type::<PyInt>()) {
        return Ok(None);
    }
    let (Some(now), Some(paths)) = (size_now(cx, id)?, paths_of(cx, id)) else { return Ok(None) };
    Ok(Some(changing::number_of_sizes(cx, &now.value, now.tracker, paths)))
}

/// Looks at a key. The trace specialises on a number computed from open sizes, not on the sizes, because the number
/// has fewer values.
pub(super) fn see_key(cx: &mut OpcodeExecutor<'_>, key: VarId) -> Flow<()> {
    let number = cx.vars.as_kind::<OpenNumber>(key);
    let is_computed = number.is_some_and(|number| matches!(number.origin, OpenNumberOrigin::Binary(..)));
    if is_computed || changing::is_of_sizes(cx, key) {
        if let Some(now) = size_now(cx, key)? {
            cx.guards.add(now.tracker, Test::Equals(now.value.clone().unbind()));
            cx.vars.set(key, (cx.runtime.factories.constant)(now.value.unbind()));
            return Ok(());
        }
    }
    cx.see(key).map(drop)
}

/// Called where the value of a number computed from open sizes is needed. The trace specialises on the number only if
/// it is one of the few that a graph does not take as input; otherwise it specialises on the sizes.
pub(super) fn assume_of_sizes(cx: &mut OpcodeExecutor<'_>, id: VarId) -> Flow<()> {
    let few = changing::lazy_integer(cx, id).is_some_and(|now| (-1..cx.sizes.least).contains(&now));
    if few {
        Ok(())
    } else {
        Err(needs(cx, id))
    }
}

/// An operator between a tensor and an open number.
pub(super) fn open_operator(cx: &mut OpcodeExecutor<'_>, op: BinaryOp, lhs: VarId, rhs: VarId) -> Flow<Option<VarId>> {
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

/// A comparison of a tensor with a `float` that differs from call to call.
pub(super) fn open_question(cx: &mut OpcodeExecutor<'_>, op: CompareOp, lhs: VarId, rhs: VarId) -> Flow<Option<VarId>> {
    let (op, number, other) = if is_open_float(cx, rhs) { (op, rhs, lhs) } else { (op.mirrored(), lhs, rhs) };
    if !is_open_float(cx, number) || cx.is_open_operand(other) {
        return Ok(None);
    }
    let payload = cx.see(other)?;
    if payload.form() != Form::Tensor {
        return Ok(None);
    }
    payload.compare(cx, op, other, number)
}

/// The integer in a variable, if it is known without a look at the variable.
fn integer_in(cx: &OpcodeExecutor<'_>, id: VarId) -> Option<i64> {
    let payload = cx.vars.get(id);
    let value = payload.constant()?.bind(cx.py);
    value.is_exact_instance_of::<PyInt>().then(|| value.extract().ok()).flatten()
}

/// Returns the open number as a value of the graph.
fn open_value(cx: &mut OpcodeExecutor<'_>, id: VarId) -> Flow<VarId> {
    let Some(number) = cx.vars.as_kind::<OpenNumber>(id) else {
        return if changing::lazy_integer(cx, id).is_some() { number_value(cx, id) } else { Ok(id) };
    };
    cx.graph.note_size_taken();
    let assumed_objects = std::mem::take(&mut cx.statement.assumed_objects);
    let value = match &number.origin {
        OpenNumberOrigin::Size(tensor, axis) => {
            let of = cx.see(*tensor)?.graph_argument(cx, *tensor)?.text;
            if let Some(known) = cx.graph.known_size(&of, *axis) {
                cx.statement.assumed_objects = assumed_objects;
                return Ok(known);
            }
            let Some(size) = cx.runtime.backend.open_values().size_function(cx.py)? else { return Err(needs(cx, id)) };
            let at = cx.integer(*axis as i64)?;
            let value = cx.call_graph(CallKind::Api, &size, "size", &CallArgs::positional(vec![*tensor, at]))?;
            cx.graph.note_size(of, *axis, value);
            value
        }
        OpenNumberOrigin::Binary(op, lhs, rhs) => {
            let rounds_alike = matches!(op, BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply)
                || is_natural(cx, *lhs) && is_natural(cx, *rhs);
            let exact = |id| integer_in(cx, id).is_none_or(|number| number.abs() <= LARGEST_EXACT);
            if !(rounds_alike && exact(*lhs) && exact(*rhs)) {
                cx.statement.assumed_objects = assumed_objects;
                let Some(number) = in_python(cx, id)? else { return Err(needs(cx, id)) };
                return if cx.is_open_argument(number) { number_value(cx, number) } else { Ok(number) };
            }
            let (receiver, other) = if is_open_integer(cx, *lhs) { (*lhs, *rhs) } else { (*rhs, *lhs) };
            let name = if receiver == *lhs { op.method() } else { op.reflected() };
            let (receiver, other) = (open_value(cx, receiver)?, open_value(cx, other)?);
            let callee = PyString::intern(cx.py, name).into_any();
            cx.call_graph(CallKind::Method, &callee, name, &CallArgs::positional(vec![receiver, other]))?
        }
        OpenNumberOrigin::Elements { product, .. } => open_value(cx, *product)?,
    };
    cx.statement.assumed_objects = assumed_objects;
    Ok(value)
}

/// Makes an integer from outside, or one computed from such integers, an input of the graph.
fn number_value(cx: &mut OpcodeExecutor<'_>, id: VarId) -> Flow<VarId> {
    if !cx.is_open_argument(id) {
        return Err(needs_number(cx, id));
    }
    let now = changing::lazy_integer(cx, id).unwrap_or_default();
    let Some(range) = InOpenRange::around(now, cx.sizes.least) else { return Err(needs_number(cx, id)) };
    let tracker = cx.vars.tracker(id);
    cx.guards.add(tracker, Test::Object(Box::new(InOpenRange(range))));
    let now = now.into_pyobject(cx.py).map_err(PyErr::from)?.into_any();
    given_number(cx, id, &now, "int64")
}

/// Makes a `float` from outside, or one computed from such numbers, an input of the graph.
fn float_value(cx: &mut OpcodeExecutor<'_>, id: VarId) -> Flow<VarId> {
    let Some(now) = changing::lazy_float(cx, id) else { return Err(needs_number(cx, id)) };
    let tracker = cx.vars.tracker(id);
    cx.guards.add(tracker, Test::TypeIs(Identity::of(now.get_type().as_any())));
    if cx.statement.checks_floats {
        cx.guards.add(tracker, Test::Object(Box::new(OrdinaryFloat)));
    }
    given_number(cx, id, &now, "float64")
}

fn given_number<'py>(cx: &mut OpcodeExecutor<'py>, id: VarId, now: &Bound<'py, PyAny>, dtype: &str) -> Flow<VarId> {
    let path = cx.trackers.path(cx.vars.tracker(id));
    cx.sizes.left_open.push(path);
    let symbol = match cx.number_input(id, now) {
        Ok(symbol) => symbol,
        Err(error) if error.is_instance_of::<SizesMatter>(cx.py) => return Err(needs_number(cx, id)),
        Err(error) => return Err(error.into()),
    };
    let meta = TensorMeta { shape: Vec::new(), dtype: dtype.into(), gradient: GradientFlow::NONE };
    let payload = (cx.runtime.factories.tensor)(symbol, meta);
    Ok(cx.produce(payload))
}

fn needs_number(cx: &mut OpcodeExecutor<'_>, id: VarId) -> Unwind {
    let text = format!("{} is another number at each call", cx.text(id));
    cx.settle_sizes(Unwind::break_graph(ReasonId::ChangingNumber, text))
}

/// True if the variable is an integer that is left open.
pub(super) fn is_open_integer(cx: &OpcodeExecutor<'_>, id: VarId) -> bool {
    cx.is_open(id) || cx.is_open_argument(id)
}

/// Number of translations for which the number must have had another value before it is left open; 0 for a number
/// computed from open sizes.
fn opens_after_for(cx: &OpcodeExecutor<'_>, id: VarId) -> Option<usize> {
    if changing::is_of_sizes(cx, id) {
        Some(0)
    } else {
        cx.sizes.opens_after
    }
}

/// True if the variable is a `float` that is left open and that a graph can take as input.
fn is_open_float(cx: &OpcodeExecutor<'_>, id: VarId) -> bool {
    let Some(now) = changing::lazy_float(cx, id) else { return false };
    if cx.statement.checks_floats && !OrdinaryFloat.check(&now) {
        return false;
    }
    let path = cx.trackers.path(cx.vars.tracker(id));
    let opens = policy::opens_float(changing::times_number_differed(cx, id), opens_after_for(cx, id));
    opens && !cx.sizes.is_closed(path)
}

/// True if the number is never negative.
fn is_natural(cx: &OpcodeExecutor<'_>, id: VarId) -> bool {
    let Some(number) = cx.vars.as_kind::<OpenNumber>(id) else {
        return integer_in(cx, id).is_some_and(|number| number >= 0);
    };
    match &number.origin {
        OpenNumberOrigin::Size(..) | OpenNumberOrigin::Elements { .. } => true,
        OpenNumberOrigin::Binary(BinaryOp::Subtract, ..) => false,
        OpenNumberOrigin::Binary(_, lhs, rhs) => is_natural(cx, *lhs) && is_natural(cx, *rhs),
    }
}

/// Returns the unwind where the value of an open number is needed.
pub(super) fn needs(cx: &mut OpcodeExecutor<'_>, id: VarId) -> Unwind {
    if let Some(paths) = paths_of(cx, id) {
        cx.sizes.left_open.retain(|path| paths.contains(path));
    }
    let text = format!("{} is known only when the graph has run", cx.text(id));
    cx.settle_sizes(Unwind::break_graph(ReasonId::TensorValue, text))
}

/// Returns the sizes of tensors from outside that an open number is computed from; `None` if it is computed from
/// others, too.
fn paths_of(cx: &OpcodeExecutor<'_>, id: VarId) -> Option<Vec<ValuePath>> {
    let Some(number) = cx.vars.as_kind::<OpenNumber>(id) else { return Some(changing::sizes_of(cx, id).to_vec()) };
    match &number.origin {
        OpenNumberOrigin::Size(tensor, axis) => {
            let tracker = cx.vars.tracker(*tensor);
            let sourced = cx.trackers.is_sourced(tracker);
            sourced.then(|| vec![cx.trackers.path(tracker).size(*axis)])
        }
        OpenNumberOrigin::Binary(_, lhs, rhs) => {
            let mut paths = paths_of(cx, *lhs)?;
            paths.extend(paths_of(cx, *rhs)?);
            Some(paths)
        }
        OpenNumberOrigin::Elements { product, .. } => paths_of(cx, *product),
    }
}
