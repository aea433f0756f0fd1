//! The remainder of a call of `min`, `max` or `sorted` that calls a key function of the program. If the graph breaks in
//! a call of the key function, new code calls the remainder with that call's result, and the remainder finishes the
//! outer call. The remainder is inlined when it is traced.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple};

use sot_core::error::Flow;
use sot_core::executor::{CallArgs, CompareOp, OpcodeExecutor, Trace};
use sot_core::tracker::TrackerId;
use sot_core::variable::{VarId, Variable};

use crate::builtins::cannot;
use crate::builtins::iteration::in_order;
use crate::containers::list::{self, ListVariable};
use crate::functions::function::guard_identity;

sot_core::variable_kind! {
    "call_remainder",
    types: |py| Ok(vec![py.get_type::<CallRemainder>().into_any().unbind()]),
    wrap: CallRemainderVariable::wrap
}

/// The calls that can be finished by a remainder.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemainderOf {
    /// `min(..., key=...)`, with the key of the first item.
    FirstOfMin,
    /// `max(..., key=...)`, with the key of the first item.
    FirstOfMax,
    /// `min(..., key=...)`
    Min,
    /// `max(..., key=...)`
    Max,
    /// `sorted(..., key=...)`
    Sorted,
}

impl RemainderOf {
    const ALL: [RemainderOf; 5] =
        [RemainderOf::FirstOfMin, RemainderOf::FirstOfMax, RemainderOf::Min, RemainderOf::Max, RemainderOf::Sorted];

    /// Returns the remainder function; there is a single object for each variant.
    pub(crate) fn function(self, cx: &mut OpcodeExecutor<'_>) -> Flow<VarId> {
        static REMAINDERS: PyOnceLock<Vec<Py<CallRemainder>>> = PyOnceLock::new();
        let make =
            || RemainderOf::ALL.iter().map(|of| Py::new(cx.py, CallRemainder(*of))).collect::<PyResult<Vec<_>>>();
        let remainders = REMAINDERS.get_or_try_init(cx.py, make)?;
        let remainder = remainders[self as usize].bind(cx.py).clone().into_any();
        let tracker = cx.trace.trackers.constant(remainder.clone().unbind());
        Ok(cx.trace.wrap(&remainder, tracker))
    }

    fn comparison(self) -> CompareOp {
        match self {
            RemainderOf::FirstOfMin | RemainderOf::Min => CompareOp::Less,
            _ => CompareOp::Greater,
        }
    }

    fn behind_the_first(self) -> RemainderOf {
        match self {
            RemainderOf::FirstOfMin => RemainderOf::Min,
            RemainderOf::FirstOfMax => RemainderOf::Max,
            other => other,
        }
    }
}

/// The callable that finishes the call, natively if it is not traced.
#[pyclass(frozen, module = "sot")]
struct CallRemainder(RemainderOf);

#[pymethods]
impl CallRemainder {
    #[pyo3(signature = (*args))]
    fn __call__<'py>(&self, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        match self.0 {
            RemainderOf::Sorted => remainder_of_sorted(args),
            of => remainder_of_extreme(of, args),
        }
    }
}

fn remainder_of_sorted<'py>(args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
    let (key, reverse, items, iterator, keys, last): (_, bool, _, _, _, _) = args.extract()?;
    let (key, iterator, last): (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>) = (key, iterator, last);
    let (items, keys): (Bound<'py, PyList>, Bound<'py, PyList>) = (items, keys);
    keys.append(last)?;
    for item in iterator.try_iter()? {
        keys.append(key.call1((item?,))?)?;
    }
    let positions = PyList::new(args.py(), 0..keys.len())?;
    let options = PyDict::new(args.py());
    options.set_item("key", keys.getattr("__getitem__")?)?;
    options.set_item("reverse", reverse)?;
    positions.call_method("sort", (), Some(&options))?;
    let sorted = positions.iter().map(|position| items.get_item(position.extract()?));
    Ok(PyList::new(args.py(), sorted.collect::<PyResult<Vec<_>>>()?)?.into_any())
}

fn remainder_of_extreme<'py>(of: RemainderOf, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
    let at = |index| args.get_item(index);
    let (key, iterator, mut item, mut item_key) = (at(0)?, at(1)?, at(2)?, at(args.len() - 1)?);
    let mut best = if of == of.behind_the_first() { Some((at(3)?, at(4)?)) } else { None };
    loop {
        best = match best {
            Some((best, best_key)) if !of.comparison().apply(&item_key, &best_key)?.is_truthy()? => {
                Some((best, best_key))
            }
            _ => Some((item, item_key)),
        };
        match iterator.try_iter()?.next() {
            Some(next) => item = next?,
            None => return Ok(best.map_or(key, |(best, _)| best)),
        }
        item_key = key.call1((&item,))?;
    }
}

/// Finishes `min` or `max` over the remaining items of an iterator, given an item with its key and the best item so
/// far with its key. `direct` allows a claim, so that a break in the key function can be resumed.
fn best_of(
    cx: &mut OpcodeExecutor<'_>,
    of: RemainderOf,
    (key, iterator): (VarId, VarId),
    mut item: (VarId, VarId),
    mut best: Option<(VarId, VarId)>,
    direct: bool,
) -> Flow<VarId> {
    loop {
        let better = match best {
            None => true,
            Some((_, best_key)) => {
                let better = cx.compare(of.comparison(), item.1, best_key)?;
                cx.truth(better)?
            }
        };
        let found = best.filter(|_| !better).unwrap_or(item);
        best = Some(found);
        let Some(next) = cx.next(iterator)? else { return Ok(found.0) };
        if direct {
            let remainder = of.behind_the_first().function(cx)?;
            cx.claim_rest(key, remainder, &[key, iterator, next, found.0, found.1]);
        }
        item = (next, cx.call(key, &CallArgs::positional(vec![next]))?);
    }
}

/// Simulates `min` or `max` by keys, over `first` and the remaining items of an iterator.
pub(crate) fn extreme(
    cx: &mut OpcodeExecutor<'_>,
    largest: bool,
    key: VarId,
    first: VarId,
    iterator: VarId,
    direct: bool,
) -> Flow<VarId> {
    let of = if largest { RemainderOf::FirstOfMax } else { RemainderOf::FirstOfMin };
    if direct {
        let remainder = of.function(cx)?;
        cx.claim_rest(key, remainder, &[key, iterator, first]);
    }
    let first_key = cx.call(key, &CallArgs::positional(vec![first]))?;
    best_of(cx, of, (key, iterator), (first, first_key), None, direct)
}

/// Appends the keys of all remaining items of an iterator to the list `keys`, and returns all keys of that list.
pub(crate) fn keys(
    cx: &mut OpcodeExecutor<'_>,
    key: VarId,
    reverse: VarId,
    (items, iterator): (VarId, VarId),
    keys: VarId,
    direct: bool,
) -> Flow<Vec<VarId>> {
    while let Some(item) = cx.next(iterator)? {
        if direct {
            let remainder = RemainderOf::Sorted.function(cx)?;
            cx.claim_rest(key, remainder, &[key, reverse, items, iterator, keys]);
        }
        let next = cx.call(key, &CallArgs::positional(vec![item]))?;
        list::append(cx, keys, next)?;
    }
    let keys = cx.see_as::<ListVariable>(keys)?.ok_or_else(|| cannot("keys that are no list"))?;
    Ok(keys.items.clone())
}

/// A remainder function as a variable.
struct CallRemainderVariable {
    object: Py<PyAny>,
    of: RemainderOf,
}

impl CallRemainderVariable {
    fn wrap(_: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, _: TrackerId) -> Flow<Rc<dyn Variable>> {
        let of = object.cast::<CallRemainder>().map_err(PyErr::from)?.get().0;
        Ok(Rc::new(CallRemainderVariable { object: object.clone().unbind(), of }))
    }
}

impl Variable for CallRemainderVariable {
    fn kind(&self) -> &'static str {
        "call_remainder"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        trace.py.get_type::<CallRemainder>().into_any()
    }

    fn text(&self, _: &Trace<'_>) -> String {
        "CallRemainderVariable".to_owned()
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }

    fn call(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
        guard_identity(cx, this, &self.object);
        let direct = cx.claims.take_call();
        match (self.of, &args.positional[..]) {
            (RemainderOf::Sorted, &[key, reverse, items, iterator, so_far, last]) => {
                list::append(cx, so_far, last)?;
                let keys = keys(cx, key, reverse, (items, iterator), so_far, direct)?;
                let reverse = cx.truth(reverse)?;
                let items = cx.unpack_all(items)?;
                let items = in_order(cx, &items, &keys, reverse)?;
                Ok(cx.trace.list(items))
            }
            (of @ (RemainderOf::FirstOfMin | RemainderOf::FirstOfMax), &[key, iterator, item, item_key]) => {
                best_of(cx, of, (key, iterator), (item, item_key), None, direct)
            }
            (of, &[key, iterator, item, best, best_key, item_key]) => {
                best_of(cx, of, (key, iterator), (item, item_key), Some((best, best_key)), direct)
            }
            _ => Err(cannot("the rest of a call with other arguments")),
        }
    }
}
