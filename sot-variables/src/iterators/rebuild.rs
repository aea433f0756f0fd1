//! C functions that new code calls to make an iterator in the state of the traced one.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyList, PyTuple};
use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::variable::{Argument, Rebuild};

/// Defines a function that returns a `#[pyfunction]` below as a callable.
macro_rules! callables {
    ($($(#[$doc:meta])* $make:ident = $function:ident;)+) => {$(
        $(#[$doc])*
        pub(crate) fn $make(py: Python<'_>) -> PyResult<Py<PyAny>> {
            Ok(wrap_pyfunction!($function, py)?.into_any().unbind())
        }
    )+};
}

callables! {
    /// `iter(sequence)`, at a position.
    sequence_at = iter_at;
    /// `reversed(sequence)`, at a position.
    reversed_at = iter_reversed_at;
    /// `iter(collection)`, advanced by a number of items.
    skipping = iter_skipping;
    /// `reversed(collection)`, advanced by a number of items.
    reversed_skipping = iter_reversed_skipping;
    /// `zip(*iterators, strict=True)`
    strict_zip = zip_strict;
    /// The rest of `chain.from_iterable(source)`, with the iterator of the current iterable.
    chain_from = continue_chain;
    /// `cycle` of the items seen and the remaining iterator, advanced by a number of items.
    cycling = cycle_at;
    /// A `tee` iterator that gives the items taken so far, and then those of the source.
    tee_of = tee_behind;
    /// A copy of a `tee` iterator, advanced by a number of items.
    tee_at = copied_tee_at;
    /// `pairwise` with the first item of the next pair.
    pairwise_from = pairwise_behind;
    /// `accumulate` with the running total.
    accumulating = accumulate_from;
    /// `partial(function, *args, **keywords)` that holds this very tuple and dict.
    partial = make_partial;
    /// `callable(*args, **keywords)`
    apply = call_packed;
    /// A copy of an object that is among the constants of new code.
    copied = copy_kept;
    /// Fills an `OrderedDict` without calling `__setitem__` of its subclass.
    ordered = fill_ordered;
    /// A finished generator with a name and a qualified name.
    finished_generator = make_finished_generator;
    /// A generator that has not started.
    generator = make_generator;
    /// `zip_longest(*iterators, fillvalue=...)`
    longest_zip = zip_longest_with;
}

#[pyfunction]
fn iter_at<'py>(sequence: &Bound<'py, PyAny>, position: usize) -> PyResult<Bound<'py, PyAny>> {
    // The C method: an override of `__iter__` in a subclass has been inlined by the trace already.
    let iterator = if sequence.is_instance_of::<PyList>() {
        sequence.py().get_type::<PyList>().call_method1("__iter__", (sequence,))?
    } else {
        sequence.try_iter()?.into_any()
    };
    if position == 0 {
        return Ok(iterator);
    }
    if !iterator.hasattr("__setstate__")? {
        return skip(iterator.try_iter()?, position);
    }
    with_room(sequence, position, || iterator.call_method1("__setstate__", (position,)))?;
    Ok(iterator)
}

/// Runs work while a list is padded to a minimum length. `__setstate__` limits the position to the length of the
/// list, but the writes that extend the list are replayed later.
fn with_room<T>(sequence: &Bound<'_, PyAny>, length: usize, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let Ok(list) = sequence.cast::<PyList>() else { return work() };
    let room = list.len();
    for _ in room..length {
        list.append(list.py().None())?;
    }
    let result = work();
    if room < length {
        list.del_slice(room, length)?;
    }
    result
}

#[pyfunction]
fn iter_reversed_at<'py>(sequence: &Bound<'py, PyAny>, position: isize) -> PyResult<Bound<'py, PyAny>> {
    let iterator = reversed(sequence)?;
    let length = usize::try_from(position + 1).unwrap_or(0);
    with_room(sequence, length, || iterator.call_method1("__setstate__", (position,)))?;
    Ok(iterator)
}

#[pyfunction]
fn iter_skipping<'py>(collection: &Bound<'py, PyAny>, count: usize) -> PyResult<Bound<'py, PyAny>> {
    skip(collection.try_iter()?, count)
}

#[pyfunction]
fn iter_reversed_skipping<'py>(collection: &Bound<'py, PyAny>, count: usize) -> PyResult<Bound<'py, PyAny>> {
    skip(reversed(collection)?.try_iter()?, count)
}

#[pyfunction]
#[pyo3(signature = (*iterators))]
fn zip_strict<'py>(py: Python<'py>, iterators: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
    let keywords = PyDict::new(py);
    keywords.set_item("strict", true)?;
    cpython::builtin(py, "zip")?.call(iterators, Some(&keywords))
}

#[pyfunction]
#[pyo3(signature = (fill, *iterators))]
fn zip_longest_with<'py>(
    py: Python<'py>,
    fill: &Bound<'py, PyAny>,
    iterators: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let keywords = PyDict::new(py);
    keywords.set_item("fillvalue", fill)?;
    cpython::import(py, "itertools")?.getattr("zip_longest")?.call(iterators, Some(&keywords))
}

#[pyfunction]
fn cycle_at<'py>(seen: &Bound<'py, PyAny>, rest: &Bound<'py, PyAny>, steps: usize) -> PyResult<Bound<'py, PyAny>> {
    let tools = cpython::import(seen.py(), "itertools")?;
    let items = tools.getattr("chain")?.call1((seen, rest))?;
    skip(tools.getattr("cycle")?.call1((items,))?.try_iter()?, steps)
}

#[pyfunction]
fn tee_behind<'py>(taken: &Bound<'py, PyTuple>, source: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let tools = cpython::import(source.py(), "itertools")?;
    let items = if taken.is_empty() { source.clone() } else { tools.getattr("chain")?.call1((taken, source))? };
    tools.getattr("tee")?.call1((items, 1))?.get_item(0)
}

#[pyfunction]
fn copied_tee_at<'py>(tee: &Bound<'py, PyAny>, position: usize) -> PyResult<Bound<'py, PyAny>> {
    skip(tee.call_method0("__copy__")?.try_iter()?, position)
}

#[pyfunction]
fn pairwise_behind<'py>(before: &Bound<'py, PyAny>, rest: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let tools = cpython::import(before.py(), "itertools")?;
    tools.getattr("pairwise")?.call1((tools.getattr("chain")?.call1((before, rest))?,))
}

#[pyfunction]
fn accumulate_from<'py>(
    rest: &Bound<'py, PyAny>,
    function: &Bound<'py, PyAny>,
    total: &Bound<'py, PyAny>,
    given: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let tools = cpython::import(rest.py(), "itertools")?;
    // Passed as an item, because `initial=None` means no initial value.
    let items = tools.getattr("chain")?.call1(((total,), rest))?;
    skip(tools.getattr("accumulate")?.call1((items, function))?.try_iter()?, usize::from(given))
}

#[pyfunction]
fn continue_chain<'py>(active: &Bound<'py, PyAny>, source: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let chain = cpython::import(active.py(), "itertools")?.getattr("chain")?;
    let sources = chain.call1(((active,), source))?;
    chain.call_method1("from_iterable", (sources,))
}

#[pyfunction]
fn make_partial<'py>(
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    keywords: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = function.py();
    let partial = cpython::import(py, "functools")?.getattr("partial")?.call1((function,))?;
    // The tuple and dict may be shared with other objects, so they must not be copied.
    partial.call_method1("__setstate__", ((function, args, keywords, py.None()),))?;
    Ok(partial)
}

#[pyfunction]
fn call_packed<'py>(
    callable: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    keywords: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    callable.call(args, Some(keywords))
}

/// Emits an exhausted iterator, of the type that `iter(empty)` or `reversed(empty)` has. `empty` has at most one item.
pub(super) fn emit_exhausted(cg: &mut dyn Rebuild<'_>, empty: Bound<'_, PyAny>, backwards: bool) -> Flow<()> {
    let make = if backwards { reversed_skipping } else { skipping };
    let (make, empty, past_the_end) = (make(cg.py())?, empty.unbind(), Argument::int(cg.py(), 2)?);
    cg.begin_call(|cg| cg.load_const(make))?;
    cg.load_const(empty)?;
    cg.load_argument(past_the_end)?;
    cg.end_call(2)
}

#[pyfunction]
fn copy_kept<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    crate::containers::c_state::copy(object)
}

#[pyfunction]
fn fill_ordered<'py>(dict: &Bound<'py, PyAny>, items: &Bound<'py, PyAny>) -> PyResult<()> {
    let set = cpython::import(dict.py(), "collections")?.getattr("OrderedDict")?.getattr("__setitem__")?;
    for item in items.call_method0("items")?.try_iter()? {
        let (key, value): (Bound<'py, PyAny>, Bound<'py, PyAny>) = item?.extract()?;
        set.call1((dict, key, value))?;
    }
    Ok(())
}

#[pyfunction]
fn make_finished_generator<'py>(
    name: &Bound<'py, PyAny>,
    qualname: &Bound<'py, PyAny>,
    code: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let generator =
        if code.is_none() { name.py().eval(c"(_ for _ in ())", None, None)? } else { call_of_nothing(code)? };
    generator.setattr("__name__", name)?;
    generator.setattr("__qualname__", qualname)?;
    generator.call_method0("close")?;
    Ok(generator)
}

/// Returns a generator of the code that is closed before it runs, so its arguments do not matter.
fn call_of_nothing<'py>(code: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = code.py();
    let number = |name: &str| code.getattr(name)?.extract::<usize>();
    let (positional, by_name) = (number("co_argcount")?, number("co_kwonlyargcount")?);
    let names: Vec<String> = code.getattr("co_varnames")?.extract()?;
    let keywords = PyDict::new(py);
    for name in names.iter().skip(positional).take(by_name) {
        keywords.set_item(name, py.None())?;
    }
    let cell = cpython::import(py, "types")?.getattr("CellType")?;
    let cells = (0..code.getattr("co_freevars")?.len()?).map(|_| cell.call0()).collect::<PyResult<Vec<_>>>()?;
    let nothing = PyTuple::new(py, (0..positional).map(|_| py.None()))?;
    make_generator(code, &PyDict::new(py), &PyTuple::new(py, cells)?, &nothing, &keywords)
}

/// Calls a function made from the generator's code, which returns a generator without running any code.
#[pyfunction]
fn make_generator<'py>(
    code: &Bound<'py, PyAny>,
    globals: &Bound<'py, PyAny>,
    cells: &Bound<'py, PyTuple>,
    positional: &Bound<'py, PyTuple>,
    keywords: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = code.py();
    let closure = if cells.is_empty() { py.None().into_bound(py) } else { cells.clone().into_any() };
    let name = code.getattr("co_name")?;
    let make = cpython::import(py, "types")?.getattr("FunctionType")?;
    let function = make.call1((code, globals, name, py.None(), closure))?;
    // The frame that makes the generator is none of the program's.
    let _suspended = cpython::suspend(py);
    function.call(positional, Some(keywords))
}

fn reversed<'py>(collection: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    cpython::builtin(collection.py(), "reversed")?.call1((collection,))
}

fn skip(mut iterator: Bound<'_, PyIterator>, count: usize) -> PyResult<Bound<'_, PyAny>> {
    for _ in 0..count {
        if iterator.next().transpose()?.is_none() {
            break;
        }
    }
    Ok(iterator.into_any())
}
