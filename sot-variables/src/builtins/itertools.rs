//! Functions of `itertools`.

use std::rc::Rc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyRange, PyTuple};

use sot_core::builtin;
use sot_core::error::Flow;
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::variable::VarId;

use super::iteration::iterators;
use super::{cannot, given, known_index, required};
use crate::iterators::chain::Chain;
use crate::iterators::filter::{Filter, FilterRule};
use crate::iterators::groupby;
use crate::iterators::itertools::{Itertool, Selections};
use crate::iterators::tee::Tee;
use crate::iterators::{library, produce, IteratorVariable};

builtin! { CHAIN = "itertools:chain" => |cx, args| {
    let iterables = cx.trace.tuple(args.positional.clone());
    let source = cx.iter(iterables)?;
    Ok(produce(cx, Chain { source, active: None }))
} }

builtin! { FROM_ITERABLE = "itertools:chain.from_iterable" => |cx, args| {
    let [iterables] = args.exactly("from_iterable")?;
    let source = cx.iter(iterables)?;
    Ok(produce(cx, Chain { source, active: None }))
} }

builtin! { COUNT = "itertools:count" => |cx, args| {
    let [start, step] = args.named("count", ["start", "step"], 0)?;
    let next = start.map_or_else(|| cx.trace.integer(0), Ok)?;
    let step = step.map_or_else(|| cx.trace.integer(1), Ok)?;
    for number in [next, step] {
        if !["int", "float", "complex", "bool"].contains(&&*cx.type_name(number)?) {
            return Err(cannot("itertools.count() of no number"));
        }
    }
    Ok(produce(cx, Itertool::Count { next, step }))
} }

builtin! { REPEAT = "itertools:repeat" => |cx, args| {
    let [item, times] = args.named("repeat", ["object", "times"], 1)?;
    let left = times.map(|times| known_index(cx, times, "repeat()")).transpose()?;
    let left = left.map(|left| u64::try_from(left).unwrap_or(0));
    Ok(produce(cx, Itertool::Repeat { item: required(item)?, left }))
} }

builtin! { ISLICE = "itertools:islice" => |cx, args| {
    let (start, stop, step) = match args.positional[1.min(args.positional.len())..] {
        [stop] => (None, Some(stop), None),
        [start, stop] => (Some(start), Some(stop), None),
        [start, stop, step] => (Some(start), Some(stop), Some(step)),
        _ => return Err(cannot("islice() with these arguments")),
    };
    let inner = cx.iter(args.positional[0])?;
    let start = bound(cx, start)?.unwrap_or(0);
    let step = bound(cx, step)?.unwrap_or(1);
    if step == 0 {
        return Err(cannot("islice() with a step of zero"));
    }
    let end = bound(cx, stop)?;
    Ok(produce(cx, Itertool::Slice { inner, skip: start, step, end }))
} }

builtin! { STARMAP = "itertools:starmap" => |cx, args| {
    let [function, iterable] = args.exactly("starmap")?;
    let inner = cx.iter(iterable)?;
    Ok(produce(cx, Itertool::Star { function, inner }))
} }

builtin! { ACCUMULATE = "itertools:accumulate" => |cx, args| {
    let initial = args.keywords.iter().find(|(name, _)| &**name == "initial").map(|(_, value)| *value);
    let keywords = args.keywords.iter().filter(|(name, _)| &**name != "initial").cloned().collect();
    let rest = CallArgs { positional: args.positional.clone(), keywords };
    let [iterable, function] = rest.named("accumulate", ["iterable", "func"], 1)?;
    let inner = cx.iter(required(iterable)?)?;
    let function = given(cx, function)?;
    let total = given(cx, initial)?;
    Ok(produce(cx, Itertool::Accumulate { inner, function, total, pending: total.is_some() }))
} }

builtin! { ZIP_LONGEST = "itertools:zip_longest" => |cx, args| {
    let fill = match args.keywords[..] {
        [] => cx.trace.none(),
        [(ref name, value)] if &**name == "fillvalue" => value,
        _ => return Err(cannot("zip_longest() with these arguments")),
    };
    let inner = iterators(cx, &args.positional)?.into_iter().map(Some).collect();
    Ok(produce(cx, Itertool::Longest { inner, fill }))
} }

builtin! { PAIRWISE = "itertools:pairwise"? => |cx, args| {
    let [iterable] = args.exactly("pairwise")?;
    let inner = cx.iter(iterable)?;
    Ok(produce(cx, Itertool::Pairs { inner, before: None }))
} }

builtin! { CYCLE = "itertools:cycle" => |cx, args| {
    let [iterable] = args.exactly("cycle")?;
    let inner = cx.iter(iterable)?;
    Ok(produce(cx, Itertool::Cycle { inner, seen: Vec::new(), round: None }))
} }

builtin! { COMPRESS = "itertools:compress" => |cx, args| {
    let [data, selectors] = args.named("compress", ["data", "selectors"], 2)?;
    let (inner, selectors) = (cx.iter(required(data)?)?, cx.iter(required(selectors)?)?);
    Ok(produce(cx, Itertool::Compress { inner, selectors }))
} }

builtin! { BATCHED = "itertools:batched"? => |cx, args| {
    if args.keywords.iter().any(|(name, _)| &**name == "strict") {
        return Err(cannot("batched(strict=...)"));
    }
    let [iterable, size] = args.named("batched", ["iterable", "n"], 2)?;
    let size = known_index(cx, required(size)?, "batched()")?;
    let Some(size) = usize::try_from(size).ok().filter(|&size| size > 0) else {
        return Err(cx.raise(PyValueError::new_err("n must be at least one")));
    };
    let inner = cx.iter(required(iterable)?)?;
    // CPython allocates memory for a whole batch at once.
    cx.limits.refuse_many(size)?;
    Ok(produce(cx, Itertool::Batched { inner, size }))
} }

builtin! { GROUPBY = "itertools:groupby" => |cx, args| {
    let [iterable, key] = args.named("groupby", ["iterable", "key"], 1)?;
    let inner = cx.iter(required(iterable)?)?;
    let key = given(cx, key)?;
    Ok(groupby::over(cx, inner, key))
} }

builtin! { TEE = "itertools:tee" => |cx, args| {
    let (iterable, count) = match args.positional[..] {
        [iterable] if args.keywords.is_empty() => (iterable, 2),
        [iterable, count] if args.keywords.is_empty() => (iterable, known_index(cx, count, "tee()")?),
        _ => return Err(cannot("tee() with these arguments")),
    };
    let source = cx.iter(iterable)?;
    let (first, tee) = match cx.see_as::<IteratorVariable<Tee>>(source)? {
        Some(tee) => (source, tee.0.clone()),
        None if cx.has_special(source, "__copy__")? => return Err(cannot("tee() of an iterator with a copy")),
        None => {
            let tee = Tee::over(cx, source);
            (produce(cx, tee.clone()), tee)
        }
    };
    let count = usize::try_from(count).map_err(|_| cannot("tee() of a negative number"))?;
    cx.limits.refuse_many(count)?;
    let rest = (1..count).map(|_| produce(cx, tee.clone())).collect::<Vec<_>>();
    let all = std::iter::once(first).chain(rest).take(count).collect();
    Ok(cx.trace.tuple(all))
} }

builtin! { FILTERFALSE = "itertools:filterfalse" => |cx, args| filtered(cx, args, FilterRule::Drop) }
builtin! { TAKEWHILE = "itertools:takewhile" => |cx, args| filtered(cx, args, FilterRule::TakeWhile) }
builtin! { DROPWHILE = "itertools:dropwhile" => |cx, args| filtered(cx, args, FilterRule::DropWhile) }

builtin! { PRODUCT = "itertools:product" => |cx, args| {
    let repeat = match args.keywords[..] {
        [] => 1,
        [(ref name, value)] if &**name == "repeat" => known_index(cx, value, "product()")?,
        _ => return Err(cannot("product() with these arguments")),
    };
    let mut pools = Vec::with_capacity(args.positional.len());
    for &iterable in &args.positional {
        pools.push(cx.unpack_all(iterable)?);
    }
    let Ok(repeat) = usize::try_from(repeat) else {
        return Err(cx.raise(PyValueError::new_err("repeat argument cannot be negative")));
    };
    cx.limits.refuse_many(pools.len().saturating_mul(repeat))?;
    let pools = vec![pools; repeat].concat();
    let ranges = pools.iter().map(|pool| PyRange::new(cx.py, 0, pool.len() as isize)).collect::<PyResult<Vec<_>>>()?;
    let positions = library(cx.py, "itertools", "product")?.into_bound(cx.py).call1(PyTuple::new(cx.py, ranges)?)?;
    let args = pools.iter().map(|pool| cx.trace.tuple(pool.clone())).collect();
    let selections = Rc::new(Selections::new("product", pools, positions));
    Ok(produce(cx, Itertool::Selection { args, selections, position: 0 }))
} }

builtin! { COMBINATIONS = "itertools:combinations" => |cx, args| selections(cx, args, "combinations") }
builtin! { WITH_REPLACEMENT = "itertools:combinations_with_replacement" => |cx, args| {
    selections(cx, args, "combinations_with_replacement")
} }
builtin! { PERMUTATIONS = "itertools:permutations" => |cx, args| selections(cx, args, "permutations") }

fn bound(cx: &mut OpcodeExecutor<'_>, value: Option<VarId>) -> Flow<Option<u64>> {
    let Some(value) = given(cx, value)? else { return Ok(None) };
    let value = known_index(cx, value, "islice()")?;
    u64::try_from(value).map(Some).map_err(|_| cannot("islice() with a negative number"))
}

fn filtered(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, rule: FilterRule) -> Flow<VarId> {
    let [predicate, iterable] = args.exactly("filter")?;
    let inner = cx.iter(iterable)?;
    Ok(produce(cx, Filter { predicate, inner, rule, turned: false }))
}

fn selections(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, name: &'static str) -> Flow<VarId> {
    let [iterable, count] = args.named(name, ["iterable", "r"], 1)?;
    let items = cx.unpack_all(required(iterable)?)?;
    let options = PyDict::new(cx.py);
    if let Some(count) = count {
        let Some(count) = cx.known(count)? else { return Err(cannot("a selection of unknown length")) };
        options.set_item("r", count)?;
    }
    let function = library(cx.py, "itertools", name)?.into_bound(cx.py);
    let range = PyRange::new(cx.py, 0, items.len() as isize)?;
    let positions = function.call((range,), Some(&options)).map_err(|error| cx.raise(error))?;
    let args = std::iter::once(cx.trace.tuple(items.clone())).chain(count).collect();
    let selections = Rc::new(Selections::new(name, vec![items], positions));
    Ok(produce(cx, Itertool::Selection { args, selections, position: 0 }))
}
