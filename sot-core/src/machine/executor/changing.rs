//! Values that differ from call to call: numbers, texts made of them, and the contents of containers. They are not
//! specialised where yet another value would need yet another translation.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyTuple};

use super::{history, rounds, sizes, BinaryOp, CompareOp, OpcodeExecutor};
use crate::cpython;
use crate::error::{Flow, ReasonId, Unwind};
use crate::guard::{Identity, Test};
use crate::machine::variable::{VarId, Variable};
use crate::policy::{self, ValueClass};
use crate::tracker::{self, ById, Computation, Tracker, TrackerId};
use crate::value_path::ValuePath;

/// A number that differs from call to call, or a number or text computed from such: its value is only assumed if it
/// matters. To compute with it or to print it does not; the new code does it again. To compare it asks for the answer
/// alone.
pub(super) struct LazyNumber {
    pub(super) value: Py<PyAny>,
    /// How many translations assumed another value.
    others: usize,
    /// Of how many numbers it is computed.
    operands: usize,
    /// The open sizes of tensors that it is computed from, by path.
    pub(super) sizes: Rc<[ValuePath]>,
}

impl Variable for LazyNumber {
    fn kind(&self) -> &'static str {
        "lazy number"
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        self.value.bind(cx.py).get_type().into_any()
    }

    fn text(&self, cx: &OpcodeExecutor<'_>) -> String {
        format!("LazyNumber(now {})", tracker::repr(cx.py, &self.value))
    }
}

impl LazyNumber {
    /// Another translation for yet another value would not be the last: what needs the value runs natively.
    pub(super) fn refuse_if_too_many(&self, cx: &mut OpcodeExecutor<'_>) -> Flow<()> {
        let value = self.value.bind(cx.py);
        let class = match value.is_exact_instance_of::<PyFloat>() {
            _ if cpython::is_text(value) => ValueClass::Text,
            true => ValueClass::Float,
            false => ValueClass::Integer,
        };
        let enough = policy::assumed_at_most(class, cx.history.policy, cx.history.is_resumed);
        let what = if cpython::is_text(value) { "text" } else { "number" };
        let text = format!("a {what} that is another one at every call (now {})", tracker::repr(cx.py, &self.value));
        refuse_changing(cx, self.others, enough, text)
    }
}

impl<'py> OpcodeExecutor<'py> {
    /// What is in a container that the program has made is about to be assumed: behind a break that may be another
    /// thing each time. Once it was, what asks for it runs natively, and so does all else that asks for the contents of
    /// that variable.
    pub fn refuse_changing_contents(&mut self, tracker: TrackerId, what: &str) -> Flow<()> {
        if !self.history.is_resumed {
            return Ok(());
        }
        let was_another = self.history.changing.get(&self.trackers.path(tracker)).is_some_and(|others| *others > 0);
        if !was_another && !rounds::holds_changing(self, tracker) {
            return Ok(());
        }
        if let Some((code, variable)) = rounds::resumed_variable(self, tracker) {
            history::note_changing(self, code, variable);
        }
        history::note_differing(self);
        let text = format!("{what} that holds something else at every call");
        Err(Unwind::break_graph(ReasonId::ChangingNumber, text))
    }

    /// Whether what a tracker leads to goes on being another value: it should not be assumed once more.
    #[must_use]
    pub fn goes_on_differing(&self, tracker: TrackerId) -> bool {
        let others = self.history.changing.get(&self.trackers.path(tracker)).copied().unwrap_or(0);
        others >= policy::assumed_at_most(ValueClass::Other, self.history.policy, self.history.is_resumed)
    }

    /// `lhs op rhs` without assuming the values, where one is a number that differs, or a text of it.
    pub fn lazy_binary(&mut self, op: BinaryOp, lhs: VarId, rhs: VarId) -> Flow<Option<VarId>> {
        if let Some(open) = sizes::open_binary(self, op, lhs, rhs)? {
            return Ok(Some(open));
        }
        let (lhs, rhs) = in_python_both(self, lhs, rhs)?;
        let Some((left, right)) = differing_pair(self, lhs, rhs) else { return Ok(None) };
        let whole = !left.is_exact_instance_of::<PyFloat>() && !right.is_exact_instance_of::<PyFloat>();
        let of_sizes = is_of_sizes(self, lhs) || is_of_sizes(self, rhs);
        let endless = match op {
            BinaryOp::MatrixMultiply => true,
            // Of what size the result is, the next values decide; sizes are small.
            BinaryOp::Power | BinaryOp::LeftShift => whole && !of_sizes,
            _ => false,
        };
        let texts = op == BinaryOp::Add && cpython::is_text(&left) && cpython::is_text(&right);
        if endless || !(texts || cpython::is_number(&left) && cpython::is_number(&right)) {
            return Ok(None);
        }
        let Ok(value) = op.apply(&left, &right) else { return Ok(None) };
        if !(texts || cpython::is_number(&value)) {
            return Ok(None);
        }
        let Some(result) = compute(self, Computation::Binary(op), &[lhs, rhs], &value) else { return Ok(None) };
        let tracker = self.vars.tracker(result);
        match op {
            BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply => {}
            // Sizes divided by what is known.
            BinaryOp::TrueDivide | BinaryOp::FloorDivide | BinaryOp::Remainder
                if of_sizes && self.vars.get(rhs).constant().is_some() => {}
            // A negative number has a complex root.
            BinaryOp::Power => self.guards.add(tracker, Test::TypeIs(Identity::of(value.get_type().as_any()))),
            // It might divide by zero.
            _ => self.guards.require(tracker),
        }
        Ok(Some(result))
    }

    /// `function(*args)` without assuming the values, where one is a number that differs, or a text of it, and the
    /// others are known. The function must be pure, and whether it fails must depend on the types alone.
    pub fn lazy_call(&mut self, function: &Bound<'py, PyAny>, args: &[VarId]) -> Flow<Option<VarId>> {
        let args = &in_python_all(self, args)?[..];
        let Some(known) = args.iter().map(|&arg| lazily_known(self, arg)).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        if !known.iter().any(|(_, differs)| *differs) {
            return Ok(None);
        }
        let values = PyTuple::new(self.py, known.iter().map(|(value, _)| value))?;
        let Ok(value) = function.call1(values) else { return Ok(None) };
        Ok(compute(self, Computation::Call(ById(function.clone().unbind())), args, &value))
    }

    /// `function(*args)` of numbers known or computed from open sizes, which new code does again.
    pub fn open_call(&mut self, function: &Bound<'py, PyAny>, args: &[VarId]) -> Flow<Option<VarId>> {
        let given = in_python_all(self, args)?;
        if !given.iter().any(|&arg| is_of_sizes(self, arg)) {
            return Ok(None);
        }
        let Some(result) = self.lazy_call(function, &given)? else { return Ok(None) };
        if lazily_known(self, result).is_none_or(|(value, _)| !cpython::is_number(&value)) {
            return Ok(None);
        }
        self.guards.require(self.vars.tracker(result));
        Ok(Some(result))
    }

    /// Whether the variable is a number that differs from call to call, or a text of one, and nothing has assumed its
    /// value. What replays it assumes its type.
    pub fn is_open_number(&mut self, id: VarId) -> bool {
        let Some(number) = self.vars.as_kind::<LazyNumber>(id) else { return false };
        let tracker = self.vars.tracker(id);
        self.guards.add(tracker, Test::TypeIs(Identity::of(number.value.bind(self.py).get_type().as_any())));
        true
    }
}

/// The variable for a number that was another one in earlier calls, or may be one that a loop counts in, as behind
/// breaks;
/// `None` for everything else.
pub(super) fn wrap_changing<'py>(
    cx: &mut OpcodeExecutor<'py>,
    object: &Bound<'py, PyAny>,
    tracker: TrackerId,
) -> Option<VarId> {
    let may_differ = cx.history.is_resumed || !cx.history.changing.is_empty();
    let is_text = cpython::is_text(object);
    if !may_differ || !(is_text || cpython::is_number(object)) || !cx.trackers.is_sourced(tracker) {
        return None;
    }
    let others = cx.history.changing.get(&cx.trackers.path(tracker)).copied();
    let others = others.or((cx.history.is_resumed && !is_text).then_some(0))?;
    // Few texts have translations of their own.
    if is_text && !cx.history.is_resumed && others < policy::TEXTS {
        return None;
    }
    let payload = LazyNumber { value: object.clone().unbind(), others, operands: 1, sizes: Rc::default() };
    Some(cx.vars.add(Rc::new(payload), tracker))
}

/// The answers of many comparisons make a path for each combination of them: where there are many already, the
/// comparison runs natively, and each answer is gone on with by itself.
fn refuse_more_paths<'py>(cx: &mut OpcodeExecutor<'py>, now: &Bound<'py, PyAny>) -> Flow<()> {
    if !cx.history.is_resumed || cx.stack.len() > 1 {
        return Ok(());
    }
    if cx.history.translations < policy::MAX_PATHS && !rounds::branches_much(cx) {
        return Ok(());
    }
    history::note_branching(cx);
    let text = format!("one of many answers that differ (of {})", tracker::repr(cx.py, now.as_unbound()));
    Err(Unwind::break_graph(ReasonId::ChangingNumber, text))
}

/// Where a value was needed that differs, it is not assumed again in another translation of the loop.
fn refuse_changing(cx: &mut OpcodeExecutor<'_>, others: usize, enough: usize, text: String) -> Flow<()> {
    if others < enough && !(cx.history.is_resumed && rounds::differs_here(cx)) {
        return Ok(());
    }
    history::note_differing(cx);
    Err(Unwind::break_graph(ReasonId::ChangingNumber, text))
}

/// `lhs op rhs` of numbers one of which differs: the answer is assumed, and not the values.
pub(super) fn lazy_compare(cx: &mut OpcodeExecutor<'_>, op: CompareOp, lhs: VarId, rhs: VarId) -> Flow<Option<VarId>> {
    let (lhs, rhs) = in_python_both(cx, lhs, rhs)?;
    let Some((left, right)) = differing_pair(cx, lhs, rhs) else { return Ok(None) };
    let texts = cpython::is_text(&left) && cpython::is_text(&right);
    if !(texts || cpython::is_number(&left) && cpython::is_number(&right)) {
        return Ok(None);
    }
    refuse_more_paths(cx, &left)?;
    let value = op.apply(&left, &right)?;
    let Some(result) = compute(cx, Computation::Compare(op), &[lhs, rhs], &value) else { return Ok(None) };
    let tracker = cx.vars.tracker(result);
    cx.guards.add(tracker, Test::Equals(value.clone().unbind()));
    Ok(Some(cx.boolean(value.is_truthy()?)))
}

/// The truth of a number that differs, which is assumed, and not its value.
pub(super) fn lazy_truth(cx: &mut OpcodeExecutor<'_>, number: VarId) -> Flow<Option<bool>> {
    if cx.vars.as_kind::<LazyNumber>(number).is_none() {
        return Ok(None);
    }
    let zero = cx.integer(0)?;
    let Some(answer) = lazy_compare(cx, CompareOp::NotEqual, number, zero)? else { return Ok(None) };
    Ok(cx.known(answer)?.map(|answer| answer.is_truthy()).transpose()?)
}

/// The variable of a number that new code computes from open sizes.
pub(super) fn number_of_sizes<'py>(
    cx: &mut OpcodeExecutor<'py>,
    value: &Bound<'py, PyAny>,
    tracker: TrackerId,
    sizes: Vec<ValuePath>,
) -> VarId {
    let payload = LazyNumber { value: value.clone().unbind(), others: usize::MAX, operands: 1, sizes: sizes.into() };
    cx.vars.add(Rc::new(payload), tracker)
}

/// The open sizes that new code computes a number from.
pub(super) fn sizes_of(cx: &OpcodeExecutor<'_>, id: VarId) -> Rc<[ValuePath]> {
    cx.vars.as_kind::<LazyNumber>(id).map(|number| Rc::clone(&number.sizes)).unwrap_or_default()
}

/// Whether there are any.
pub(super) fn is_of_sizes(cx: &OpcodeExecutor<'_>, id: VarId) -> bool {
    !sizes_of(cx, id).is_empty()
}

/// The arguments, open numbers as those that new code computes where it can.
fn in_python_all(cx: &mut OpcodeExecutor<'_>, args: &[VarId]) -> Flow<Vec<VarId>> {
    args.iter().map(|&arg| Ok(sizes::in_python(cx, arg)?.unwrap_or(arg))).collect()
}

/// Both operands as numbers that new code computes, where one is open and the other one known in this call.
fn in_python_both(cx: &mut OpcodeExecutor<'_>, lhs: VarId, rhs: VarId) -> Flow<(VarId, VarId)> {
    let known = |cx: &OpcodeExecutor<'_>, id| cx.is_open(id) || lazily_known(cx, id).is_some();
    if !(cx.is_open(lhs) || cx.is_open(rhs)) || !(known(cx, lhs) && known(cx, rhs)) {
        return Ok((lhs, rhs));
    }
    Ok((sizes::in_python(cx, lhs)?.unwrap_or(lhs), sizes::in_python(cx, rhs)?.unwrap_or(rhs)))
}

/// Two known numbers or texts, if one of them differs.
fn differing_pair<'py>(
    cx: &OpcodeExecutor<'py>,
    lhs: VarId,
    rhs: VarId,
) -> Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let ((left, a), (right, b)) = (lazily_known(cx, lhs)?, lazily_known(cx, rhs)?);
    (a || b).then_some((left, right))
}

/// The result of a computation whose operands have these types, whatever their values; `None` if it takes too many.
fn compute<'py>(
    cx: &mut OpcodeExecutor<'py>,
    how: Computation,
    of: &[VarId],
    value: &Bound<'py, PyAny>,
) -> Option<VarId> {
    let operands = of.iter().map(|id| cx.vars.as_kind::<LazyNumber>(*id).map_or(0, |number| number.operands));
    let operands = operands.sum::<usize>() + 1;
    if operands > policy::MAX_OPERANDS {
        return None;
    }
    let mut trackers = Vec::with_capacity(of.len());
    for &id in of {
        let (known, _) = lazily_known(cx, id)?;
        let mut tracker = cx.vars.tracker(id);
        if is_of_sizes(cx, id) {
            // Its type is that of a size, or guarded.
        } else if cx.trackers.is_sourced(tracker) {
            cx.guards.add(tracker, Test::TypeIs(Identity::of(known.get_type().as_any())));
        } else {
            tracker = cx.constant_tracker(known.unbind());
        }
        trackers.push(tracker);
    }
    let tracker = cx.trackers.add(Tracker::Computed { how, of: trackers });
    let mut others = cx.history.changing.get(&cx.trackers.path(tracker)).copied().unwrap_or(0);
    if value.is_exact_instance_of::<PyFloat>() {
        // It differs as what it is computed from does.
        others = of.iter().map(|&operand| others_of(cx, operand)).fold(others, usize::max);
    }
    let sizes: Rc<[ValuePath]> = of.iter().flat_map(|&operand| sizes_of(cx, operand).to_vec()).collect();
    if !sizes.is_empty() {
        others = usize::MAX;
    }
    let payload = LazyNumber { value: value.clone().unbind(), others, operands, sizes };
    Some(cx.vars.add(Rc::new(payload), tracker))
}

/// The variable of an `int` that differs from call to call, or was computed from such, and its value now.
pub(super) fn lazy_integer(cx: &OpcodeExecutor<'_>, id: VarId) -> Option<i64> {
    let number = cx.vars.as_kind::<LazyNumber>(id)?;
    let value = number.value.bind(cx.py);
    value.is_exact_instance_of::<PyInt>().then(|| value.extract().ok()).flatten()
}

/// The `float` that differs from call to call, or was computed from such, as it is now.
pub(super) fn lazy_float<'py>(cx: &OpcodeExecutor<'py>, id: VarId) -> Option<Bound<'py, PyAny>> {
    let value = cx.vars.as_kind::<LazyNumber>(id)?.value.bind(cx.py).clone();
    value.is_exact_instance_of::<PyFloat>().then_some(value)
}

/// In how many translations a number that differs was another one.
pub(super) fn others_of(cx: &OpcodeExecutor<'_>, id: VarId) -> usize {
    cx.vars.as_kind::<LazyNumber>(id).map_or(0, |number| number.others)
}

/// The number or text now in a variable, and whether it may differ.
pub(super) fn lazily_known<'py>(cx: &OpcodeExecutor<'py>, id: VarId) -> Option<(Bound<'py, PyAny>, bool)> {
    if let Some(number) = cx.vars.as_kind::<LazyNumber>(id) {
        return Some((number.value.bind(cx.py).clone(), true));
    }
    let payload = cx.vars.get(id);
    let value = payload.constant()?.bind(cx.py).clone();
    (cpython::is_number(&value) || cpython::is_text(&value)).then_some((value, false))
}
