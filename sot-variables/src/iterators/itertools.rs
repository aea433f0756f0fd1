//! Lazy iterators of `itertools`, except for `chain`, `groupby`, `tee` and the filters: `count`, `repeat`, `islice`,
//! `starmap`, `accumulate`, `zip_longest`, `pairwise`, `cycle`, `compress`, `batched`; also `product` and its
//! relatives.

use std::cell::RefCell;
use std::rc::Rc;

use pyo3::prelude::*;

use sot_core::error::Flow;
use sot_core::executor::{BinaryOp, CallArgs, OpcodeExecutor};
use sot_core::variable::VarId;
use sot_core::variable::{Argument, Rebuild};

use super::{emit_call, library, rebuild, IteratorState};

sot_core::variable_kind! { "itertools" }

/// State of an iterator of `itertools`.
#[derive(Clone)]
#[allow(missing_docs, reason = "the fields are the arguments of the functions, or said with the variant")]
pub enum Itertool {
    /// `count(next, step)`
    Count { next: VarId, step: VarId },
    /// `repeat(item)`; with a limit, the number of repetitions left.
    Repeat { item: VarId, left: Option<u64> },
    /// `islice(inner, skip, end, step)`, relative to the current position of the inner iterator.
    Slice { inner: VarId, skip: u64, step: u64, end: Option<u64> },
    /// `product(*pools)`, `permutations` and `combinations`, with the number of selections given so far.
    Selection { args: Vec<VarId>, selections: Rc<Selections>, position: usize },
    /// `starmap(function, inner)`
    Star { function: VarId, inner: VarId },
    /// `accumulate(inner, function)` with the running total. If `pending`, the total is the next item.
    Accumulate { inner: VarId, function: Option<VarId>, total: Option<VarId>, pending: bool },
    /// `zip_longest(*inner, fillvalue=fill)`; exhausted iterators are `None`.
    Longest { inner: Vec<Option<VarId>>, fill: VarId },
    /// `pairwise(inner)` with the previous item.
    Pairs { inner: VarId, before: Option<VarId> },
    /// `cycle(inner)` with the items seen. `round` is the next position in these, once the inner iterator is
    /// exhausted.
    Cycle { inner: VarId, seen: Vec<VarId>, round: Option<usize> },
    /// `compress(inner, selectors)`
    Compress { inner: VarId, selectors: VarId },
    /// `batched(inner, size)`
    Batched { inner: VarId, size: usize },
}

impl Itertool {
    fn name(&self) -> &'static str {
        match self {
            Itertool::Count { .. } => "count",
            Itertool::Repeat { .. } => "repeat",
            Itertool::Slice { .. } => "islice",
            Itertool::Selection { selections, .. } => selections.name,
            Itertool::Star { .. } => "starmap",
            Itertool::Accumulate { .. } => "accumulate",
            Itertool::Longest { .. } => "zip_longest",
            Itertool::Pairs { .. } => "pairwise",
            Itertool::Cycle { .. } => "cycle",
            Itertool::Compress { .. } => "compress",
            Itertool::Batched { .. } => "batched",
        }
    }
}

/// The selections of `product`, `permutations` or `combinations`. CPython selects positions, which are then replaced
/// by the items.
pub struct Selections {
    name: &'static str,
    /// The pool for each place of a selection; a single pool serves all places.
    pools: Vec<Vec<VarId>>,
    /// CPython's iterator over selections of positions, and the selections given so far, which are needed again after
    /// a rollback.
    positions: RefCell<(Py<PyAny>, Vec<Vec<usize>>)>,
}

impl Selections {
    pub(crate) fn new(name: &'static str, pools: Vec<Vec<VarId>>, positions: Bound<'_, PyAny>) -> Selections {
        Selections { name, pools, positions: RefCell::new((positions.unbind(), Vec::new())) }
    }

    fn at(&self, py: Python<'_>, position: usize) -> PyResult<Option<Vec<VarId>>> {
        let mut positions = self.positions.borrow_mut();
        let (iterator, given) = &mut *positions;
        while given.len() <= position {
            let Some(next) = iterator.bind(py).try_iter()?.next() else { return Ok(None) };
            given.push(next?.extract()?);
        }
        let pool = |place: usize| self.pools.get(place).unwrap_or(&self.pools[0]);
        Ok(Some(given[position].iter().enumerate().map(|(place, &index)| pool(place)[index]).collect()))
    }
}

/// Decrements a limit. Returns false if the limit is zero already.
fn take(left: &mut Option<u64>) -> bool {
    match left {
        Some(0) => false,
        Some(count) => {
            *count -= 1;
            true
        }
        None => true,
    }
}

/// Advances `islice`. Skipped items are taken from the inner iterator even if no item follows them.
fn slice(
    cx: &mut OpcodeExecutor<'_>,
    inner: VarId,
    skip: &mut u64,
    step: u64,
    end: &mut Option<u64>,
) -> Flow<Option<VarId>> {
    for _ in 0..std::mem::take(skip) {
        if cx.next(inner)?.is_none() {
            *end = Some(0);
            return Ok(None);
        }
        *end = end.map(|end| end.saturating_sub(1));
    }
    if *end == Some(0) {
        return Ok(None);
    }
    let item = cx.next(inner)?;
    *end = if item.is_some() { end.map(|end| end - 1) } else { Some(0) };
    *skip = end.map_or(step - 1, |end| end.min(step - 1));
    Ok(item)
}

fn accumulate(
    cx: &mut OpcodeExecutor<'_>,
    inner: VarId,
    function: Option<VarId>,
    total: Option<VarId>,
) -> Flow<Option<VarId>> {
    let Some(item) = cx.next(inner)? else { return Ok(None) };
    let Some(total) = total else { return Ok(Some(item)) };
    let next = match function {
        Some(function) => cx.call(function, &CallArgs::positional(vec![total, item]))?,
        None => cx.binary(BinaryOp::Add, total, item)?,
    };
    Ok(Some(next))
}

fn longest(cx: &mut OpcodeExecutor<'_>, inner: &mut [Option<VarId>], fill: VarId) -> Flow<Option<VarId>> {
    let mut items = Vec::with_capacity(inner.len());
    for slot in inner.iter_mut() {
        let item = match *slot {
            Some(iterator) => cx.next(iterator)?,
            None => None,
        };
        if item.is_none() {
            *slot = None;
        }
        items.push(item.unwrap_or(fill));
    }
    if inner.iter().all(Option::is_none) {
        return Ok(None);
    }
    Ok(Some(cx.trace.tuple(items)))
}

fn cycle(
    cx: &mut OpcodeExecutor<'_>,
    inner: VarId,
    seen: &mut Vec<VarId>,
    round: &mut Option<usize>,
) -> Flow<Option<VarId>> {
    if round.is_none() {
        if let Some(item) = cx.next(inner)? {
            seen.push(item);
            return Ok(Some(item));
        }
        *round = Some(0);
    }
    let position = round.unwrap_or(0);
    let Some(&item) = seen.get(position) else { return Ok(None) };
    *round = Some((position + 1) % seen.len());
    Ok(Some(item))
}

impl IteratorState for Itertool {
    const KIND: &'static str = "itertools";

    fn python_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(library(py, "itertools", self.name())?.into_bound(py))
    }

    fn advance(&mut self, cx: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>> {
        match self {
            Itertool::Count { next, step } => {
                let item = *next;
                *next = cx.binary(BinaryOp::Add, item, *step)?;
                Ok(Some(item))
            }
            Itertool::Repeat { item, left } => Ok(take(left).then_some(*item)),
            Itertool::Slice { inner, skip, step, end } => slice(cx, *inner, skip, *step, end),
            Itertool::Selection { selections, position, .. } => {
                let Some(items) = selections.at(cx.py, *position)? else { return Ok(None) };
                *position += 1;
                Ok(Some(cx.trace.tuple(items)))
            }
            Itertool::Star { function, inner } => {
                let Some(args) = cx.next(*inner)? else { return Ok(None) };
                let args = cx.unpack_all(args)?;
                cx.call(*function, &CallArgs::positional(args)).map(Some)
            }
            Itertool::Accumulate { pending: pending @ true, total, .. } => {
                *pending = false;
                Ok(*total)
            }
            Itertool::Accumulate { inner, function, total, .. } => {
                let next = accumulate(cx, *inner, *function, *total)?;
                *total = next.or(*total);
                Ok(next)
            }
            Itertool::Longest { inner, fill } => longest(cx, inner, *fill),
            Itertool::Pairs { inner, before } => {
                let first = match *before {
                    Some(first) => Some(first),
                    None => cx.next(*inner)?,
                };
                let Some(first) = first else { return Ok(None) };
                let second = cx.next(*inner)?;
                *before = second;
                Ok(second.map(|second| cx.trace.tuple(vec![first, second])))
            }
            Itertool::Cycle { inner, seen, round } => cycle(cx, *inner, seen, round),
            Itertool::Compress { inner, selectors } => loop {
                let Some(item) = cx.next(*inner)? else { return Ok(None) };
                let Some(selector) = cx.next(*selectors)? else { return Ok(None) };
                if cx.truth(selector)? {
                    return Ok(Some(item));
                }
            },
            Itertool::Batched { inner, size } => {
                let mut items = Vec::new();
                while items.len() < *size {
                    match cx.next(*inner)? {
                        Some(item) => items.push(item),
                        None => break,
                    }
                }
                Ok((!items.is_empty()).then(|| cx.trace.tuple(items)))
            }
        }
    }

    fn children(&self) -> Vec<VarId> {
        match self {
            Itertool::Count { next, step } => vec![*next, *step],
            Itertool::Repeat { item, .. } => vec![*item],
            Itertool::Selection { args, .. } => args.clone(),
            Itertool::Slice { inner, .. } | Itertool::Batched { inner, .. } => vec![*inner],
            Itertool::Star { function, inner } => vec![*function, *inner],
            Itertool::Accumulate { inner, function, total, .. } => {
                std::iter::once(*inner).chain(*function).chain(*total).collect()
            }
            Itertool::Longest { inner, fill } => inner.iter().flatten().copied().chain([*fill]).collect(),
            Itertool::Pairs { inner, before } => std::iter::once(*inner).chain(*before).collect(),
            Itertool::Cycle { inner, seen, .. } => std::iter::once(*inner).chain(seen.iter().copied()).collect(),
            Itertool::Compress { inner, selectors } => vec![*inner, *selectors],
        }
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>) -> Flow<()> {
        let own = |py: Python<'_>| library(py, "itertools", self.name());
        match self {
            Itertool::Batched { inner, size } => {
                let size = Argument::int(cg.py(), *size)?;
                emit_call(cg, own, [inner.into(), size])
            }
            Itertool::Count { .. } | Itertool::Star { .. } | Itertool::Compress { .. } => {
                emit_call(cg, own, self.children())
            }
            Itertool::Repeat { item, left } => {
                let left = left.map(|left| Argument::int(cg.py(), left)).transpose()?;
                emit_call(cg, own, std::iter::once(item.into()).chain(left))
            }
            Itertool::Selection { args, position, .. } => {
                let (skipping, own) = (rebuild::skipping(cg.py())?, own(cg.py())?);
                let position = Argument::int(cg.py(), *position)?;
                cg.begin_call(|cg| cg.load_const(skipping))?;
                cg.call(|cg| cg.load_const(own), args)?;
                cg.load_argument(position)?;
                cg.end_call(2)
            }
            Itertool::Slice { inner, skip, step, end } => {
                let py = cg.py();
                let end = end.map_or_else(|| Ok(Argument::none(py)), |end| Argument::int(py, end))?;
                let (first, every) = (Argument::int(py, *skip)?, Argument::int(py, *step)?);
                emit_call(cg, own, [inner.into(), first, end, every])
            }
            Itertool::Longest { inner, fill } => {
                let empty = || Argument::Tuple(Vec::new());
                let inner = inner.iter().map(|slot| slot.map_or_else(empty, Argument::from));
                emit_call(cg, rebuild::longest_zip, std::iter::once(fill.into()).chain(inner))
            }
            Itertool::Pairs { inner, before: None } => emit_call(cg, own, [*inner]),
            Itertool::Pairs { inner, before: Some(before) } => {
                emit_call(cg, rebuild::pairwise_from, [Argument::tuple([before]), inner.into()])
            }
            Itertool::Accumulate { inner, function, total: None, .. } => {
                let args: Vec<VarId> = std::iter::once(*inner).chain(*function).collect();
                emit_call(cg, own, &args)
            }
            Itertool::Accumulate { inner, function, total: Some(total), pending } => {
                let function = function.map_or_else(|| Argument::none(cg.py()), Argument::from);
                let given = Argument::boolean(cg.py(), !pending);
                emit_call(cg, rebuild::accumulating, [inner.into(), function, total.into(), given])
            }
            Itertool::Cycle { inner, seen, round } => {
                let steps = seen.len() + round.unwrap_or(0);
                let steps = Argument::int(cg.py(), steps)?;
                emit_call(cg, rebuild::cycling, [Argument::tuple(seen), inner.into(), steps])
            }
        }
    }
}
