//! Values that differ from call to call: numbers, texts computed from numbers, and the contents of containers. The
//! trace does not specialise on them where each new value would need a new translation.

use std::rc::Rc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyTuple};

use super::lazy_text::is_lazy_text;
use super::open_number;
use crate::cpython;
use crate::error::{Flow, ReasonId, Unwind};
use crate::guard::{Identity, Test};
use crate::machine::executor::graph_breaks::loop_iterations;
use crate::machine::executor::record::history;
use crate::machine::executor::{BinaryOp, CompareOp, History, OpcodeExecutor, Trace};
use crate::machine::variable::{GraphArgument, VarId, Variable};
use crate::policy::{self, ValueClass, ValuePolicy};
use crate::tracker::{self, ById, Computation, Tracker, TrackerId};
use crate::value_path::ValuePath;

/// A number that differs from call to call, or a number or text computed from such numbers. The trace specialises on
/// the value only where an instruction needs it. New code repeats a computation or a `print`, which do not need the
/// value. A comparison specialises on its answer alone.
pub(in crate::machine::executor) struct LazyNumber {
    pub(in crate::machine::executor) value: Py<PyAny>,
    /// Number of translations for which the number had another value.
    times_differed: usize,
    /// Number of numbers that it is computed from.
    operands: usize,
    /// Paths of the open sizes of tensors that it is computed from.
    pub(super) sizes: Rc<[ValuePath]>,
}

impl Variable for LazyNumber {
    fn kind(&self) -> &'static str {
        "lazy number"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.value.bind(trace.py).get_type().into_any()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("LazyNumber(now {})", tracker::repr(trace.py, &self.value))
    }
}

impl LazyNumber {
    /// Breaks the graph if yet another translation would not be the last: the instruction that needs the value runs
    /// natively.
    pub(in crate::machine::executor) fn refuse_if_too_many(&self, cx: &mut OpcodeExecutor<'_>) -> Flow<()> {
        let value = self.value.bind(cx.py);
        let class = match value.is_exact_instance_of::<PyFloat>() {
            _ if cpython::is_text(value) => ValueClass::Text,
            true => ValueClass::Float,
            false => ValueClass::Integer,
        };
        let specialises =
            policy::specialises_on(class, self.times_differed, cx.trace.history.policy, cx.trace.history.is_resumed);
        let what = if cpython::is_text(value) { "text" } else { "number" };
        let text = format!("a {what} that differs from call to call (now {})", tracker::repr(cx.py, &self.value));
        refuse_changing(cx, specialises, text)
    }
}

/// A value of another library that differs from call to call, such as a scalar of numpy. Only its type is guarded.
pub struct ChangingScalar {
    /// The present value.
    pub value: Py<PyAny>,
    /// Number of translations for which it had another value.
    times_differed: usize,
}

impl ChangingScalar {
    /// Returns the payload for a value that has differed so often that the trace should not specialise on it again.
    pub fn wrap(trace: &Trace<'_>, object: &Bound<'_, PyAny>, tracker: TrackerId) -> Option<Rc<dyn Variable>> {
        if !trace.differs_too_often(tracker) {
            return None;
        }
        let times_differed = trace.times_differed(tracker).unwrap_or(0);
        Some(Rc::new(ChangingScalar { value: object.clone().unbind(), times_differed }))
    }
}

impl Variable for ChangingScalar {
    fn kind(&self) -> &'static str {
        "changing value"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.value.bind(trace.py).get_type().into_any()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        let ty = cpython::type_name(&self.value.bind(trace.py).get_type());
        format!("a value of type {ty} that differs from call to call")
    }

    /// Breaks the graph: the special methods are C code, which would end up in the operators again.
    fn special(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, _: &str) -> Flow<Option<VarId>> {
        Err(Unwind::break_graph(ReasonId::ChangingNumber, self.text(&cx.trace)))
    }

    /// Passes the value at each call, to statements that take arrays.
    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<GraphArgument> {
        let value = self.value.bind(cx.py).clone();
        match cx.array_input(this, &value, &[])? {
            Some(input) => Ok(input),
            None => Err(Unwind::break_graph(ReasonId::ChangingNumber, self.text(&cx.trace))),
        }
    }
}

impl<'py> Trace<'py> {
    /// Returns the number that a pure function makes of a [`ChangingScalar`]; new code makes it again at each call.
    /// `None` for other variables and other results.
    pub fn number_of_scalar(&mut self, function: &Bound<'py, PyAny>, scalar: VarId) -> Flow<Option<VarId>> {
        let Some(changing) = self.vars.as_kind::<ChangingScalar>(scalar) else { return Ok(None) };
        let value = changing.value.bind(self.py).clone();
        let Some(number) = function.call1((&value,)).ok().filter(cpython::is_number) else { return Ok(None) };
        let of = self.vars.tracker(scalar);
        let ty = value.get_type().into_any();
        self.guards.add(of, Test::TypeIs(Identity::of(&ty)));
        let how = Computation::Convert { function: ById(function.clone().unbind()), ty: ById(ty.unbind()) };
        let tracker = self.trackers.add(Tracker::Computed { how, of: vec![of] });
        self.guards.require(tracker);
        let times_differed = changing.times_differed;
        let payload = LazyNumber { value: number.unbind(), times_differed, operands: 1, sizes: Rc::default() };
        Ok(Some(self.vars.add(Rc::new(payload), tracker)))
    }

    /// Number of translations for which the value of a tracker was another one; `None` if it has never differed.
    pub(super) fn times_differed(&self, tracker: TrackerId) -> Option<usize> {
        self.history.changing.get(&self.trackers.path(tracker)).copied()
    }

    /// True if the value of a tracker was another one in an earlier translation.
    #[must_use]
    pub fn has_differed(&self, tracker: TrackerId) -> bool {
        self.times_differed(tracker).is_some_and(|times_differed| times_differed > 0)
    }

    /// True if the value of a tracker has differed so often that the trace should not specialise on it again.
    #[must_use]
    pub fn differs_too_often(&self, tracker: TrackerId) -> bool {
        let times_differed = self.times_differed(tracker).unwrap_or(0);
        let History { policy, is_resumed, .. } = *self.history;
        !policy::specialises_on(ValueClass::Other, times_differed, policy, is_resumed)
    }

    /// Guards the type of a number that differs from call to call, or of a text of one, on which the trace has not
    /// specialised: the code that repeats a computation relies on the type. Returns false for all other variables,
    /// which get no guard.
    pub fn guard_type_if_lazy(&mut self, id: VarId) -> bool {
        let Some(number) = self.vars.as_kind::<LazyNumber>(id) else { return false };
        let tracker = self.vars.tracker(id);
        self.guards.add(tracker, Test::TypeIs(Identity::of(number.value.bind(self.py).get_type().as_any())));
        true
    }
}

impl<'py> OpcodeExecutor<'py> {
    /// Breaks the graph before the trace specialises on the contents of a container that had other contents in
    /// earlier calls. From then on all instructions that need the contents of this variable run natively. That is so
    /// behind a break, and in a translation that is to serve all values if the trace has added to the contents
    /// (`grows`): a container that each call adds to never has the same contents again.
    pub fn refuse_changing_contents(&mut self, tracker: TrackerId, what: &str, grows: bool) -> Flow<()> {
        let History { policy, is_resumed, .. } = *self.trace.history;
        let is_refused = is_resumed || grows && policy == ValuePolicy::Generalize;
        if !is_refused {
            return Ok(());
        }
        if !self.trace.has_differed(tracker) && !loop_iterations::holds_changing(self, tracker) {
            return Ok(());
        }
        if let Some((code, variable)) = loop_iterations::resumed_variable(self, tracker) {
            history::note_changing(self, code, variable);
        }
        history::note_differing(self);
        let text = format!("{what} whose contents differ from call to call");
        Err(Unwind::break_graph(ReasonId::ChangingNumber, text))
    }

    /// `lhs op rhs` without specialising on the values, if one operand is a number that differs, or a text of one,
    /// and the other is known.
    pub fn lazy_binary(&mut self, op: BinaryOp, lhs: VarId, rhs: VarId) -> Flow<Option<VarId>> {
        if let Some(open) = open_number::open_binary(self, op, lhs, rhs)? {
            return Ok(Some(open));
        }
        let (lhs, rhs) = in_python_both(self, lhs, rhs)?;
        let Some((left, right)) = differing_pair(&self.trace, lhs, rhs) else { return Ok(None) };
        let whole = !left.is_exact_instance_of::<PyFloat>() && !right.is_exact_instance_of::<PyFloat>();
        let of_sizes = is_of_sizes(&self.trace, lhs) || is_of_sizes(&self.trace, rhs);
        let endless = match op {
            BinaryOp::MatrixMultiply => true,
            // The next values may make a result of any size. Sizes of tensors are small.
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
        let tracker = self.trace.vars.tracker(result);
        match op {
            BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply => {}
            // The divisor is known, so the division cannot fail.
            BinaryOp::TrueDivide | BinaryOp::FloorDivide | BinaryOp::Remainder
                if of_sizes && self.trace.vars.get(rhs).constant().is_some() => {}
            // A negative base may have a complex root, so the type of the result is guarded.
            BinaryOp::Power => self.trace.guards.add(tracker, Test::TypeIs(Identity::of(value.get_type().as_any()))),
            // The computation may fail, as in a division by zero, so it must have a result.
            _ => self.trace.guards.require(tracker),
        }
        Ok(Some(result))
    }

    /// `function(*args)` without specialising on the values, if one argument is a number that differs, or a text of
    /// one, and the others are known. The function must be pure, and whether it fails must depend only on the types.
    pub fn lazy_call(&mut self, function: &Bound<'py, PyAny>, args: &[VarId]) -> Flow<Option<VarId>> {
        let args = &in_python_all(self, args)?[..];
        let Some(known) = args.iter().map(|&arg| lazily_known(&self.trace, arg)).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        if !known.iter().any(|(_, differs)| *differs) {
            return Ok(None);
        }
        let values = PyTuple::new(self.py, known.iter().map(|(value, _)| value))?;
        let Ok(value) = function.call1(values) else { return Ok(None) };
        Ok(compute(self, Computation::Call(ById(function.clone().unbind())), args, &value))
    }

    /// `function(*args)` of numbers, one of which is computed from open sizes or differs from call to call. The
    /// function must be pure. New code computes the result again; if that fails, the translation does not fit the call.
    /// The trace specialises on an answer that is `True` or `False`.
    pub fn open_call(&mut self, function: &Bound<'py, PyAny>, args: &[VarId]) -> Flow<Option<VarId>> {
        let given = in_python_all(self, args)?;
        let grows = grows(function)?;
        let is_open = |&arg: &VarId| {
            is_of_sizes(&self.trace, arg) || !grows && self.trace.vars.as_kind::<LazyNumber>(arg).is_some()
        };
        if !given.iter().any(is_open) {
            return Ok(None);
        }
        let Some(result) = self.lazy_call(function, &given)? else { return Ok(None) };
        let Some((value, _)) = lazily_known(&self.trace, result) else { return Ok(None) };
        if value.is_exact_instance_of::<PyBool>() {
            return assume_answer(self, result, &value).map(Some);
        }
        if !cpython::is_number(&value) {
            return Ok(None);
        }
        self.trace.guards.require(self.trace.vars.tracker(result));
        Ok(Some(result))
    }
}

/// Specialises on an answer that new code computes: `True` or `False`.
pub(super) fn assume_answer<'py>(
    cx: &mut OpcodeExecutor<'py>,
    computed: VarId,
    answer: &Bound<'py, PyAny>,
) -> Flow<VarId> {
    refuse_more_paths(cx, answer)?;
    cx.trace.guards.add(cx.trace.vars.tracker(computed), Test::Equals(answer.clone().unbind()));
    Ok(cx.trace.boolean(answer.is_truthy()?))
}

/// Wraps a number that had another value in earlier calls, or that may be a loop counter, as any number behind a
/// break. Returns `None` for all else.
pub(in crate::machine::executor) fn wrap_changing<'py>(
    trace: &mut Trace<'py>,
    object: &Bound<'py, PyAny>,
    tracker: TrackerId,
) -> Option<VarId> {
    let may_differ = trace.history.is_resumed || !trace.history.changing.is_empty();
    let is_text = cpython::is_text(object);
    if !may_differ || !(is_text || cpython::is_number(object)) || !trace.trackers.is_sourced(tracker) {
        return None;
    }
    let times_differed = trace.times_differed(tracker);
    if !policy::recomputes(is_text, times_differed, trace.history.is_resumed) {
        return None;
    }
    let times_differed = times_differed.unwrap_or(0);
    let payload = LazyNumber { value: object.clone().unbind(), times_differed, operands: 1, sizes: Rc::default() };
    Some(trace.vars.add(Rc::new(payload), tracker))
}

/// Breaks the graph at a comparison in a resume function that has many translations. Each comparison whose answer is
/// guarded doubles the number of paths, so from here on it runs natively, and each branch is translated on its own.
fn refuse_more_paths<'py>(cx: &mut OpcodeExecutor<'py>, now: &Bound<'py, PyAny>) -> Flow<()> {
    if !cx.trace.history.is_resumed || cx.stack.len() > 1 {
        return Ok(());
    }
    if !policy::breaks_at_conditions(cx.trace.history.translations) && !loop_iterations::branches_much(cx) {
        return Ok(());
    }
    history::note_branching(cx);
    let text = format!(
        "one of too many comparisons of values that differ from call to call (now {})",
        tracker::repr(cx.py, now.as_unbound())
    );
    Err(Unwind::break_graph(ReasonId::ChangingNumber, text))
}

/// Breaks the graph where a value is needed on which the trace does not specialise, or where another translation of the
/// loop has broken for such a value.
fn refuse_changing(cx: &mut OpcodeExecutor<'_>, specialises: bool, text: String) -> Flow<()> {
    if specialises && !(cx.trace.history.is_resumed && loop_iterations::differs_here(cx)) {
        return Ok(());
    }
    history::note_differing(cx);
    Err(Unwind::break_graph(ReasonId::ChangingNumber, text))
}

/// `lhs op rhs` of numbers of which one differs: specialises on the answer, not on the values.
pub(in crate::machine::executor) fn lazy_compare(
    cx: &mut OpcodeExecutor<'_>,
    op: CompareOp,
    lhs: VarId,
    rhs: VarId,
) -> Flow<Option<VarId>> {
    let (lhs, rhs) = in_python_both(cx, lhs, rhs)?;
    let Some((left, right)) = differing_pair(&cx.trace, lhs, rhs) else { return Ok(None) };
    let texts = cpython::is_text(&left) && cpython::is_text(&right);
    if !(texts || cpython::is_number(&left) && cpython::is_number(&right)) {
        return Ok(None);
    }
    refuse_more_paths(cx, &left)?;
    let value = op.apply(&left, &right)?;
    let Some(result) = compute(cx, Computation::Compare(op), &[lhs, rhs], &value) else { return Ok(None) };
    let tracker = cx.trace.vars.tracker(result);
    cx.trace.guards.add(tracker, Test::Equals(value.clone().unbind()));
    Ok(Some(cx.trace.boolean(value.is_truthy()?)))
}

/// The truth of a number or text that differs: specialises on the answer, not on the value.
pub(in crate::machine::executor) fn lazy_truth(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<Option<bool>> {
    if cx.trace.vars.as_kind::<LazyNumber>(value).is_none() {
        return Ok(None);
    }
    let empty = if is_lazy_text(&cx.trace, value) { cx.trace.string("") } else { cx.trace.integer(0)? };
    let Some(answer) = lazy_compare(cx, CompareOp::NotEqual, value, empty)? else { return Ok(None) };
    Ok(cx.known(answer)?.map(|answer| answer.is_truthy()).transpose()?)
}

/// Makes the variable of a number that new code computes from open sizes.
pub(super) fn number_of_sizes<'py>(
    cx: &mut OpcodeExecutor<'py>,
    value: &Bound<'py, PyAny>,
    tracker: TrackerId,
    sizes: Vec<ValuePath>,
) -> VarId {
    let payload =
        LazyNumber { value: value.clone().unbind(), times_differed: usize::MAX, operands: 1, sizes: sizes.into() };
    cx.trace.vars.add(Rc::new(payload), tracker)
}

/// Returns the open sizes that new code computes a number from.
pub(super) fn sizes_of(trace: &Trace<'_>, id: VarId) -> Rc<[ValuePath]> {
    trace.vars.as_kind::<LazyNumber>(id).map(|number| Rc::clone(&number.sizes)).unwrap_or_default()
}

/// Functions, with their modules, whose results for integers may have any size.
const GROWING: [(&str, &str); 4] = [("builtins", "pow"), ("math", "comb"), ("math", "factorial"), ("math", "perm")];

/// True if the results of the function for integers may have any size.
fn grows(function: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = function.py();
    let text = |name| function.getattr_opt(name)?.map(|text| text.extract::<String>()).transpose();
    let (module, name) = (text(intern!(py, "__module__"))?, text(intern!(py, "__name__"))?);
    Ok(GROWING.iter().any(|known| (module.as_deref(), name.as_deref()) == (Some(known.0), Some(known.1))))
}

/// True if new code computes the number from open sizes.
pub(in crate::machine::executor) fn is_of_sizes(trace: &Trace<'_>, id: VarId) -> bool {
    !sizes_of(trace, id).is_empty()
}

/// Returns the arguments, with open numbers replaced by numbers that new code computes, where it can.
fn in_python_all(cx: &mut OpcodeExecutor<'_>, args: &[VarId]) -> Flow<Vec<VarId>> {
    args.iter().map(|&arg| Ok(open_number::in_python(cx, arg)?.unwrap_or(arg))).collect()
}

/// Returns both operands as numbers that new code computes, if one is open and the present value of the other is
/// known.
fn in_python_both(cx: &mut OpcodeExecutor<'_>, lhs: VarId, rhs: VarId) -> Flow<(VarId, VarId)> {
    let known = |trace: &Trace<'_>, id| trace.is_open_number(id) || lazily_known(trace, id).is_some();
    if !(cx.trace.is_open_number(lhs) || cx.trace.is_open_number(rhs))
        || !(known(&cx.trace, lhs) && known(&cx.trace, rhs))
    {
        return Ok((lhs, rhs));
    }
    Ok((open_number::in_python(cx, lhs)?.unwrap_or(lhs), open_number::in_python(cx, rhs)?.unwrap_or(rhs)))
}

/// Returns the present values of two numbers or texts, if one of them differs from call to call.
fn differing_pair<'py>(trace: &Trace<'py>, lhs: VarId, rhs: VarId) -> Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let ((left, a), (right, b)) = (lazily_known(trace, lhs)?, lazily_known(trace, rhs)?);
    (a || b).then_some((left, right))
}

/// Makes the result of a computation, which is guarded by the types of the operands only; `None` if it has too many
/// operands.
fn compute<'py>(
    cx: &mut OpcodeExecutor<'py>,
    how: Computation,
    of: &[VarId],
    value: &Bound<'py, PyAny>,
) -> Option<VarId> {
    let operands = of.iter().map(|id| cx.trace.vars.as_kind::<LazyNumber>(*id).map_or(0, |number| number.operands));
    let operands = operands.sum::<usize>() + 1;
    if operands > policy::MAX_OPERANDS {
        return None;
    }
    let mut trackers = Vec::with_capacity(of.len());
    for &id in of {
        let (known, _) = lazily_known(&cx.trace, id)?;
        let mut tracker = cx.trace.vars.tracker(id);
        if is_of_sizes(&cx.trace, id) {
            // The type of a size is known, or guarded.
        } else if cx.trace.trackers.is_sourced(tracker) {
            cx.trace.guards.add(tracker, Test::TypeIs(Identity::of(known.get_type().as_any())));
        } else {
            tracker = cx.trace.trackers.constant(known.unbind());
        }
        trackers.push(tracker);
    }
    let distinct = matches!(&how, Computation::Binary(BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply));
    let differs_alike = distinct && value.is_exact_instance_of::<PyInt>();
    let tracker = cx.trace.trackers.add(Tracker::Computed { how, of: trackers });
    let mut times_differed = cx.trace.times_differed(tracker).unwrap_or(0);
    if differs_alike || value.is_exact_instance_of::<PyFloat>() {
        // Such a number differs as often as the numbers that it is computed from. A remainder may differ less often.
        times_differed =
            of.iter().map(|&operand| times_number_differed(&cx.trace, operand)).fold(times_differed, usize::max);
    }
    let sizes: Rc<[ValuePath]> = of.iter().flat_map(|&operand| sizes_of(&cx.trace, operand).to_vec()).collect();
    if !sizes.is_empty() {
        times_differed = usize::MAX;
    }
    let payload = LazyNumber { value: value.clone().unbind(), times_differed, operands, sizes };
    Some(cx.trace.vars.add(Rc::new(payload), tracker))
}

/// The present value of an `int` that differs from call to call, or was computed from such numbers.
pub(super) fn lazy_integer(trace: &Trace<'_>, id: VarId) -> Option<i64> {
    let number = trace.vars.as_kind::<LazyNumber>(id)?;
    let value = number.value.bind(trace.py);
    value.is_exact_instance_of::<PyInt>().then(|| value.extract().ok()).flatten()
}

/// The present value of a `float` that differs from call to call, or was computed from such numbers.
pub(in crate::machine::executor) fn lazy_float<'py>(trace: &Trace<'py>, id: VarId) -> Option<Bound<'py, PyAny>> {
    let value = trace.vars.as_kind::<LazyNumber>(id)?.value.bind(trace.py).clone();
    value.is_exact_instance_of::<PyFloat>().then_some(value)
}

/// Number of translations for which a number had another value.
pub(super) fn times_number_differed(trace: &Trace<'_>, id: VarId) -> usize {
    trace.vars.as_kind::<LazyNumber>(id).map_or(0, |number| number.times_differed)
}

/// The present value of a number or text, and whether it may differ from call to call.
pub(super) fn lazily_known<'py>(trace: &Trace<'py>, id: VarId) -> Option<(Bound<'py, PyAny>, bool)> {
    if let Some(number) = trace.vars.as_kind::<LazyNumber>(id) {
        return Some((number.value.bind(trace.py).clone(), true));
    }
    let payload = trace.vars.get(id);
    let value = payload.constant()?.bind(trace.py).clone();
    (cpython::is_number(&value) || cpython::is_text(&value)).then_some((value, false))
}
