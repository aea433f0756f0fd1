//! Open sizes of tensors, and integers computed from them. The trace computes with them without their values.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyInt;

use super::derived_size::derived_size;
use super::{lazy_number, open_sizes};
use crate::bytecode::Op;
use crate::error::Flow;
use crate::guard::Test;
use crate::machine::executor::{BinaryOp, CompareOp, OpcodeExecutor, Trace};
use crate::machine::variable::{Rebuild, VarId, Variable};
use crate::tracker::{Computation, Key, Tracker, TrackerId};
use crate::value_path::ValuePath;

/// An open size, or an integer computed from open sizes.
pub(super) struct OpenNumber {
    pub(super) origin: OpenNumberOrigin,
}

pub(super) enum OpenNumberOrigin {
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

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        match &self.origin {
            OpenNumberOrigin::Elements { ty, .. } => ty.bind(trace.py).clone(),
            _ => trace.py.get_type::<PyInt>().into_any(),
        }
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        match &self.origin {
            OpenNumberOrigin::Size(tensor, axis) => format!("{}.shape[{axis}]", trace.text(*tensor)),
            OpenNumberOrigin::Binary(op, a, b) => format!("({} {} {})", trace.text(*a), op.symbol(), trace.text(*b)),
            OpenNumberOrigin::Elements { tensor, name, .. } => format!("{}.{name}", trace.text(*tensor)),
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

impl Trace<'_> {
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
    pub fn is_open_number(&self, id: VarId) -> bool {
        self.vars.as_kind::<OpenNumber>(id).is_some()
    }
}

/// `lhs op rhs` of an open number and another open number or a known integer, for operators that cannot fail; `None`
/// for other operands.
pub(super) fn open_binary(cx: &mut OpcodeExecutor<'_>, op: BinaryOp, lhs: VarId, rhs: VarId) -> Flow<Option<VarId>> {
    if !cx.trace.is_open_number(lhs) && !cx.trace.is_open_number(rhs) {
        return Ok(None);
    }
    let lazy = |id| lazy_number::lazy_integer(&cx.trace, id).is_some();
    let cannot_fail = match op {
        BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply => true,
        BinaryOp::FloorDivide | BinaryOp::Remainder => integer_in(&cx.trace, rhs).is_some_and(|divisor| divisor != 0),
        _ => false,
    };
    let is_integer = |id| cx.trace.is_open_number(id) || lazy(id) || integer_in(&cx.trace, id).is_some();
    if !(cannot_fail && is_integer(lhs) && is_integer(rhs)) {
        return Ok(None);
    }
    for side in [lhs, rhs] {
        if cx.trace.guard_type_if_lazy(side) {
            continue;
        }
        if !cx.trace.is_open_number(side) {
            cx.see(side)?;
        }
    }
    Ok(Some(cx.trace.produce(Rc::new(OpenNumber { origin: OpenNumberOrigin::Binary(op, lhs, rhs) }))))
}

/// `lhs op rhs` of integers of which one is open and none depends on the graph: specialises on the answer, not on the
/// sizes.
pub(in crate::machine::executor) fn open_compare(
    cx: &mut OpcodeExecutor<'_>,
    op: CompareOp,
    lhs: VarId,
    rhs: VarId,
) -> Flow<Option<VarId>> {
    if !cx.trace.is_open_number(lhs) && !cx.trace.is_open_number(rhs) {
        return Ok(None);
    }
    let (Some(left), Some(right)) = (size_now(cx, lhs)?, size_now(cx, rhs)?) else { return Ok(None) };
    let value = op.apply(&left.value, &right.value)?;
    let of = vec![left.tracker, right.tracker];
    let tracker = cx.trace.trackers.add(Tracker::Computed { how: Computation::Compare(op), of });
    cx.trace.guards.add(tracker, Test::Equals(value.clone().unbind()));
    Ok(Some(cx.trace.boolean(value.is_truthy()?)))
}

/// The truth of an open number: specialises on the answer, not on the value.
pub(in crate::machine::executor) fn open_truth(cx: &mut OpcodeExecutor<'_>, number: VarId) -> Flow<Option<bool>> {
    if !cx.trace.is_open_number(number) {
        return Ok(None);
    }
    let zero = cx.trace.integer(0)?;
    let Some(answer) = open_compare(cx, CompareOp::NotEqual, number, zero)? else { return Ok(None) };
    Ok(cx.known(answer)?.map(|answer| answer.is_truthy()).transpose()?)
}

/// The present value of an integer, with the tracker that finds it in other calls; `None` if only the graph computes
/// it.
fn size_now<'py>(cx: &mut OpcodeExecutor<'py>, id: VarId) -> Flow<Option<CurrentValue<'py>>> {
    let Some(number) = cx.trace.vars.as_kind::<OpenNumber>(id) else {
        let lazy = lazy_number::lazy_integer(&cx.trace, id).is_some();
        let known = if lazy { lazy_number::lazy_integer(&cx.trace, id) } else { integer_in(&cx.trace, id) };
        let Some(value) = known else { return Ok(None) };
        let value = value.into_pyobject(cx.py).map_err(PyErr::from)?.into_any();
        let tracker = if lazy { cx.trace.vars.tracker(id) } else { cx.trace.trackers.constant(value.clone().unbind()) };
        return Ok(Some(CurrentValue { value, tracker }));
    };
    match &number.origin {
        OpenNumberOrigin::Size(tensor, axis) => {
            let (tracker, payload) = (cx.trace.vars.tracker(id), cx.trace.vars.get(*tensor));
            let Some(tensor) = payload.object().filter(|_| cx.trace.trackers.is_sourced(tracker)) else {
                let derived = derived_size(cx, *tensor, *axis)?;
                return derived.map_or(Ok(None), |derived| size_now(cx, derived));
            };
            let value = tensor.bind(cx.py).getattr("shape")?.get_item(axis)?;
            Ok(Some(CurrentValue { value, tracker }))
        }
        OpenNumberOrigin::Binary(op, lhs, rhs) => {
            let (Some(left), Some(right)) = (size_now(cx, *lhs)?, size_now(cx, *rhs)?) else { return Ok(None) };
            let value = op.apply(&left.value, &right.value)?;
            let of = vec![left.tracker, right.tracker];
            let tracker = cx.trace.trackers.add(Tracker::Computed { how: Computation::Binary(*op), of });
            Ok(Some(CurrentValue { value, tracker }))
        }
        OpenNumberOrigin::Elements { product, .. } => size_now(cx, *product),
    }
}

/// The open number as a number that new code computes; `None` if only the graph can compute it.
pub(super) fn in_python(cx: &mut OpcodeExecutor<'_>, id: VarId) -> Flow<Option<VarId>> {
    let Some(number) = cx.trace.vars.as_kind::<OpenNumber>(id) else { return Ok(None) };
    if !number.python_type(&cx.trace).is(cx.py.get_type::<PyInt>()) {
        return Ok(None);
    }
    let (Some(now), Some(paths)) = (size_now(cx, id)?, paths_of(cx, id)?) else { return Ok(None) };
    Ok(Some(lazy_number::number_of_sizes(cx, &now.value, now.tracker, paths)))
}

/// Looks at a key. The trace specialises on a number computed from open sizes, not on the sizes, because the number
/// has fewer values.
pub(in crate::machine::executor) fn see_key(cx: &mut OpcodeExecutor<'_>, key: VarId) -> Flow<()> {
    let number = cx.trace.vars.as_kind::<OpenNumber>(key);
    let is_computed = number.is_some_and(|number| matches!(number.origin, OpenNumberOrigin::Binary(..)));
    if is_computed || lazy_number::is_of_sizes(&cx.trace, key) {
        if let Some(now) = size_now(cx, key)? {
            cx.trace.guards.add(now.tracker, Test::Equals(now.value.clone().unbind()));
            cx.trace.vars.set(key, (cx.runtime.factories.constant)(now.value.unbind()));
            return Ok(());
        }
    }
    cx.see(key).map(drop)
}

/// Called where the value of a number computed from open sizes is needed. The trace specialises on the number only if
/// it is one of the few that a graph does not take as input; otherwise it specialises on the sizes.
pub(in crate::machine::executor) fn assume_of_sizes(cx: &mut OpcodeExecutor<'_>, id: VarId) -> Flow<()> {
    let few = lazy_number::lazy_integer(&cx.trace, id).is_some_and(|now| (-1..cx.sizes.least).contains(&now));
    if few {
        Ok(())
    } else {
        Err(open_sizes::needs(cx, id))
    }
}

/// The integer in a variable, if it is known without a look at the variable.
pub(super) fn integer_in(trace: &Trace<'_>, id: VarId) -> Option<i64> {
    let payload = trace.vars.get(id);
    let value = payload.constant()?.bind(trace.py);
    value.is_exact_instance_of::<PyInt>().then(|| value.extract().ok()).flatten()
}

/// True if the number is never negative.
pub(super) fn is_natural(trace: &Trace<'_>, id: VarId) -> bool {
    let Some(number) = trace.vars.as_kind::<OpenNumber>(id) else {
        return integer_in(trace, id).is_some_and(|number| number >= 0);
    };
    match &number.origin {
        OpenNumberOrigin::Size(..) | OpenNumberOrigin::Elements { .. } => true,
        OpenNumberOrigin::Binary(BinaryOp::Subtract, ..) => false,
        OpenNumberOrigin::Binary(_, lhs, rhs) => is_natural(trace, *lhs) && is_natural(trace, *rhs),
    }
}

/// Returns the sizes of tensors from outside that an open number is computed from; `None` if it is computed from
/// others, too.
pub(super) fn paths_of(cx: &mut OpcodeExecutor<'_>, id: VarId) -> Flow<Option<Vec<ValuePath>>> {
    let Some(number) = cx.trace.vars.as_kind::<OpenNumber>(id) else {
        return Ok(Some(lazy_number::sizes_of(&cx.trace, id).to_vec()));
    };
    match &number.origin {
        OpenNumberOrigin::Size(tensor, axis) => {
            let tracker = cx.trace.vars.tracker(*tensor);
            if cx.trace.trackers.is_sourced(tracker) {
                return Ok(Some(vec![cx.trace.trackers.path(tracker).size(*axis)]));
            }
            let derived = derived_size(cx, *tensor, *axis)?;
            derived.map_or(Ok(None), |derived| paths_of(cx, derived))
        }
        OpenNumberOrigin::Binary(_, lhs, rhs) => {
            let (Some(mut paths), Some(others)) = (paths_of(cx, *lhs)?, paths_of(cx, *rhs)?) else { return Ok(None) };
            paths.extend(others);
            Ok(Some(paths))
        }
        OpenNumberOrigin::Elements { product, .. } => paths_of(cx, *product),
    }
}
