//! Iterators and sequences made by `builtins`: `iter`, `next`, `enumerate`, `zip`, `map`, `filter`, `reversed`,
//! `sorted`, `range`.

use std::rc::Rc;

use pyo3::exceptions::{PyStopIteration, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PyRange, PySlice, PyTuple};

use sot_core::builtin;
use sot_core::error::{Flow, Unwind};
use sot_core::executor::{object_model, CallArgs, CompareOp, OpcodeExecutor};
use sot_core::language::LANGUAGE;
use sot_core::variable::{Form, VarId};

use super::{builtin_object, cannot, given, required};
use crate::classes::subclass;
use crate::containers::dict;
use crate::containers::list::ListVariable;
use crate::containers::range::RangeVariable;
use crate::containers::set::SetVariable;
use crate::containers::tuple::TupleVariable;
use crate::functions::call_remainder;
use crate::functions::generator;
use crate::iterators::dict_view::{DictIterator, DictView, View};
use crate::iterators::enumerate::Enumerate;
use crate::iterators::filter::{Filter, FilterRule};
use crate::iterators::items::ItemIterator;
use crate::iterators::library;
use crate::iterators::map::Map;
use crate::iterators::produce;
use crate::iterators::sentinel::CallableIterator;
use crate::iterators::sequence::SequenceIterator;
use crate::iterators::zip::Zip;

builtin! { ITER = "iter" => |cx, args| match args.positional[..] {
    [iterable] if args.keywords.is_empty() => {
        cx.claims.redirect(iterable);
        cx.iter(iterable)
    }
    [callable, sentinel] if args.keywords.is_empty() => {
        if !cx.has_special(callable, "__call__")? {
            return Err(cannot("iter() of something that is not callable"));
        }
        Ok(produce(cx, CallableIterator { callable: Some(callable), sentinel }))
    }
    _ => Err(cannot("iter() with these arguments")),
} }

builtin! { NEXT = "next" => |cx, args| match args.positional[..] {
    [iterator] if args.keywords.is_empty() => {
        cx.claims.redirect(iterator);
        check_iterator(cx, iterator)?;
        match cx.next_or_raise(iterator)? {
            Some(item) => Ok(item),
            None => Err(stop(cx, iterator)?),
        }
    }
    [iterator, default] if args.keywords.is_empty() => {
        check_iterator(cx, iterator)?;
        Ok(cx.next(iterator)?.unwrap_or(default))
    }
    _ => {
        let given = args.positional.len();
        let expected = if given == 0 { "at least 1 argument" } else { "at most 2 arguments" };
        Err(cx.raise(PyTypeError::new_err(format!("next expected {expected}, got {given}"))))
    }
} }

builtin! { ENUMERATE = "enumerate" => |cx, args| {
    let [iterable, start] = args.named("enumerate", ["iterable", "start"], 1)?;
    let inner = cx.iter(required(iterable)?)?;
    let number = match start {
        Some(start) if cx.known_int(start)?.is_none() => return Err(cannot("enumerate() from an unknown number")),
        Some(start) => start,
        None => cx.trace.integer(0)?,
    };
    Ok(produce(cx, Enumerate { inner, number }))
} }

builtin! { ZIP = "zip" => |cx, args| {
    let strict = zip_options(cx, args)?;
    let inner = iterators(cx, &args.positional)?;
    Ok(produce(cx, Zip { inner, strict }))
} }

builtin! { MAP = "map" => |cx, args| {
    let Some((&function, iterables)) = args.positional.split_first().filter(|(_, rest)| !rest.is_empty()) else {
        return Err(cx.raise(PyTypeError::new_err("map() must have at least two arguments.")));
    };
    if !args.keywords.is_empty() {
        return Err(cannot("map() with keywords"));
    }
    let inner = iterators(cx, iterables)?;
    Ok(produce(cx, Map { function, inner }))
} }

builtin! { FILTER = "filter" => |cx, args| {
    let [predicate, iterable] = args.exactly("filter")?;
    let inner = cx.iter(iterable)?;
    Ok(produce(cx, Filter { predicate, inner, rule: FilterRule::Keep, turned: false }))
} }

builtin! { REVERSED = "reversed" => |cx, args| {
    let [sequence] = args.exactly("reversed")?;
    reversed(cx, sequence)
} }

builtin! { SORTED = "sorted" => |cx, args| {
    let Some((&iterable, [])) = args.positional.split_first() else {
        let given = args.positional.len();
        return Err(cx.raise(PyTypeError::new_err(format!("sorted expected 1 argument, got {given}"))));
    };
    let direct = cx.claims.take_call();
    // The iteration order of a set matters only among items with equal keys.
    let items = match cx.see_as::<SetVariable>(iterable)? {
        Some(set) if set.sorts_in_any_order(args.keywords.iter().any(|(option, _)| &**option == "key")) => {
            set.keys.iter().map(|key| key.variable).collect()
        }
        _ => cx.unpack_into_list(iterable)?,
    };
    let items = sort(cx, &items, args, direct)?;
    Ok(cx.trace.list(items))
} }

builtin! { RANGE = "range" => |cx, args| {
    let mut numbers = Vec::with_capacity(args.positional.len());
    for &arg in &args.positional {
        numbers.push(index(cx, arg)?);
    }
    if !args.keywords.is_empty() {
        return Err(cx.raise(PyTypeError::new_err("range() takes no keyword arguments")));
    }
    let numbers = PyTuple::new(cx.py, numbers)?;
    match cx.py.get_type::<PyRange>().call1(numbers) {
        Ok(range) => Ok(cx.trace.produce(Rc::new(RangeVariable::new(range.unbind())))),
        Err(error) => Err(cx.raise(error)),
    }
} }

/// Maximum number of comparisons in a simulated sort.
const MAX_COMPARISONS: usize = 2000;

/// Returns the items sorted by the `key` and `reverse` keywords of a call. `direct` is true if the sort is all that
/// the current instruction does, so that calls of the key function can be claimed.
pub(super) fn sort(cx: &mut OpcodeExecutor<'_>, items: &[VarId], args: &CallArgs, direct: bool) -> Flow<Vec<VarId>> {
    let mut key = None;
    let mut reverse = false;
    for (option, value) in &args.keywords {
        match &**option {
            "key" => key = Some(*value),
            "reverse" => reverse = cx.truth(*value)?,
            other => {
                // CPython raises the error, whose wording differs between versions.
                let options = PyDict::new(cx.py);
                options.set_item(other, cx.py.None())?;
                let refused = PyList::empty(cx.py).call_method("sort", (), Some(&options));
                return Err(refused
                    .err()
                    .map_or_else(|| cannot("a sort with unknown options"), |error| cx.raise(error)));
            }
        }
    }
    let Some(key) = given(cx, key)? else { return in_order(cx, items, items, reverse) };
    let (list, so_far) = (cx.trace.list(items.to_vec()), cx.trace.list(Vec::new()));
    let (iterator, backwards) = (cx.iter(list)?, cx.trace.boolean(reverse));
    let keys = call_remainder::keys(cx, key, backwards, (list, iterator), so_far, direct)?;
    in_order(cx, items, &keys, reverse)
}

/// Returns the items in the order of their keys.
pub(crate) fn in_order(
    cx: &mut OpcodeExecutor<'_>,
    items: &[VarId],
    keys: &[VarId],
    reverse: bool,
) -> Flow<Vec<VarId>> {
    let order = match known_order(cx, keys, reverse)? {
        Some(order) => order,
        None => compared_order(cx, keys, reverse)?,
    };
    Ok(order.into_iter().map(|position| items[position]).collect())
}

/// Returns the order by the real keys, sorted by CPython. `None` if a key is unknown.
fn known_order(cx: &mut OpcodeExecutor<'_>, keys: &[VarId], reverse: bool) -> Flow<Option<Vec<usize>>> {
    let mut known = Vec::with_capacity(keys.len());
    for &key in keys {
        match cx.materialize(key)? {
            Some(key) => known.push(key),
            None => return Ok(None),
        }
    }
    let positions = PyList::new(cx.py, 0..keys.len())?;
    let options = PyDict::new(cx.py);
    options.set_item("key", PyList::new(cx.py, known)?.getattr("__getitem__")?)?;
    options.set_item("reverse", reverse)?;
    match positions.call_method("sort", (), Some(&options)) {
        Ok(_) => Ok(Some(positions.extract()?)),
        Err(error) => Err(cx.raise(error)),
    }
}

/// Returns the order by simulated comparisons. CPython sorts positions with a comparison function that raises at the
/// first unknown comparison. That comparison is then simulated, and the sort starts again. So which comparisons are
/// made, and in what order, is up to the interpreter's version.
fn compared_order(cx: &mut OpcodeExecutor<'_>, keys: &[VarId], reverse: bool) -> Flow<Vec<usize>> {
    let answers = Py::new(cx.py, ComparisonAnswers::default())?.into_bound(cx.py);
    let options = PyDict::new(cx.py);
    options.set_item("key", library(cx.py, "functools", "cmp_to_key")?.bind(cx.py).call1((&answers,))?)?;
    options.set_item("reverse", reverse)?;
    loop {
        let positions = PyList::new(cx.py, 0..keys.len())?;
        answers.borrow_mut().given = 0;
        let sorted = positions.call_method("sort", (), Some(&options));
        let Some((left, right)) = answers.borrow_mut().asked.take() else {
            sorted?;
            return Ok(positions.extract()?);
        };
        if answers.borrow().known.len() == MAX_COMPARISONS {
            return Err(cannot("a sort that asks the program very often"));
        }
        let less = cx.compare(CompareOp::Less, keys[left], keys[right])?;
        let less = cx.truth(less)?;
        answers.borrow_mut().known.push(less);
    }
}

/// The comparison function: the known results, the number of results given so far, and the comparison that was
/// missing.
#[pyclass]
#[derive(Default)]
struct ComparisonAnswers {
    known: Vec<bool>,
    given: usize,
    asked: Option<(usize, usize)>,
}

#[pymethods]
impl ComparisonAnswers {
    fn __call__(&mut self, left: usize, right: usize) -> PyResult<i8> {
        let Some(less) = self.known.get(self.given) else {
            self.asked = Some((left, right));
            return Err(PyValueError::new_err("not known yet"));
        };
        self.given += 1;
        Ok(-i8::from(*less))
    }
}

/// Returns `iter()` of each iterable.
pub(super) fn iterators(cx: &mut OpcodeExecutor<'_>, iterables: &[VarId]) -> Flow<Vec<VarId>> {
    iterables.iter().map(|&iterable| cx.iter(iterable)).collect()
}

/// Raises a `TypeError` for a value that is not an iterator.
fn check_iterator(cx: &mut OpcodeExecutor<'_>, iterator: VarId) -> Flow<()> {
    let Some((_, tracker)) = object_model::lookup(cx, iterator, &Rc::from("__next__"))? else {
        let name = cx.type_name(iterator)?;
        return Err(cx.raise(PyTypeError::new_err(format!("'{name}' object is not an iterator"))));
    };
    cx.trace.guards.require(tracker);
    Ok(())
}

/// Makes a `StopIteration`, with the return value of a generator.
fn stop(cx: &mut OpcodeExecutor<'_>, iterator: VarId) -> Flow<Unwind> {
    let value = if cx.see(iterator)?.form() == Form::Generator { generator::return_value(cx, iterator)? } else { None };
    let Some(value) = value else { return Ok(cx.raise(PyStopIteration::new_err(()))) };
    generator::stop_iteration(cx, value).map(Unwind::Raise)
}

fn zip_options(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<bool> {
    if args.keywords.is_empty() {
        return Ok(false);
    }
    let options = CallArgs { positional: Vec::new(), keywords: args.keywords.clone() };
    let Some((none, options)) = cx.materialize_args(&options)? else {
        return Err(cannot("zip() with an unknown option"));
    };
    // CPython checks the options, which differ between versions.
    builtin_object(cx.py, "zip")?.call(none, Some(&options)).map_err(|error| cx.raise(error))?;
    Ok(options.get_item("strict")?.map_or(Ok(false), |strict| strict.is_truthy())?)
}

fn reversed(cx: &mut OpcodeExecutor<'_>, sequence: VarId) -> Flow<VarId> {
    if let Some(list) = cx.see_as::<ListVariable>(sequence)? {
        return Ok(SequenceIterator::reversed(cx, sequence, list.items.len()));
    }
    if let Some(tuple) = cx.see_as::<TupleVariable>(sequence)? {
        // A class derived from `tuple` may have the method, `tuple` itself has not.
        if !tuple.is_plain() && object_model::lookup(cx, sequence, &Rc::from("__reversed__"))?.is_some() {
            return reversed_by_method(cx, sequence);
        }
        return Ok(SequenceIterator::reversed(cx, sequence, tuple.items.len()));
    }
    if let Some(range) = cx.see_as::<RangeVariable>(sequence)? {
        return reversed_range(cx, &range);
    }
    if dict::of(cx, sequence)?.is_some() {
        return DictIterator::over(cx, sequence, View::Keys, true);
    }
    if let Some(view) = cx.see_as::<DictView>(sequence)? {
        return DictIterator::over(cx, view.dict, view.view, true);
    }
    if cx.has_special(sequence, "__reversed__")? {
        return reversed_by_method(cx, sequence);
    }
    if cx.known_str(sequence)?.is_some() {
        let len = cx.unpack_all(sequence)?.len();
        return Ok(SequenceIterator::reversed(cx, sequence, len));
    }
    let refused =
        object_model::lookup(cx, sequence, &Rc::from("__reversed__"))?.is_some_and(|(found, _)| found.is_none());
    if !refused && cx.has_special(sequence, "__getitem__")? && object_model::is_sequence(cx, sequence)? {
        let len = cx.len(sequence)?;
        return match cx.known_int(len)? {
            Some(len) => Ok(ItemIterator::reversed(cx, sequence, len)),
            None => Err(cannot("reversed() of a sequence of unknown length")),
        };
    }
    let name = cx.type_name(sequence)?;
    Err(cx.raise(PyTypeError::new_err(format!("'{name}' object is not reversible"))))
}

fn reversed_by_method(cx: &mut OpcodeExecutor<'_>, sequence: VarId) -> Flow<VarId> {
    if !cx.has_special(sequence, "__reversed__")? {
        let name = cx.type_name(sequence)?;
        return Err(cx.raise(PyTypeError::new_err(format!("'{name}' object is not reversible"))));
    }
    object_model::call_special(cx, sequence, "__reversed__", &[])
}

fn reversed_range(cx: &mut OpcodeExecutor<'_>, range: &RangeVariable) -> Flow<VarId> {
    let none = cx.py.None();
    let backwards = cx.py.get_type::<PySlice>().call1((&none, &none, -1))?;
    let range = range.bind(cx.py).get_item(backwards)?;
    let range = cx.trace.produce(Rc::new(RangeVariable::new(range.unbind())));
    Ok(SequenceIterator::over(cx, range))
}

/// Returns a known number for `range`, by `__index__` if needed.
fn index<'py>(cx: &mut OpcodeExecutor<'py>, value: VarId) -> Flow<Bound<'py, PyAny>> {
    if let Some(known) = cx.materialize(value)? {
        return Ok(known);
    }
    if let Some(number) = subclass::value_of(cx, value)?.filter(Bound::is_instance_of::<PyInt>) {
        if LANGUAGE.ranges_keep_objects {
            return Err(cannot("range() of a number of a class derived from int"));
        }
        return Ok(number);
    }
    let index = object_model::convert(cx, value, "__index__", &[])?;
    cx.known(index)?.ok_or_else(|| cannot("range() up to a number that is not known while tracing"))
}
