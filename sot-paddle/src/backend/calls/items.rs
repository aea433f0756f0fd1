//! Items at a position that only a run knows: an open number, or a tensor without dimensions. Behind the end, eager
//! mode raises `IndexError`, but the operation of a program gives a tensor without memory, of the shape that the item
//! should have. Some operations, such as a reshape, take such a tensor for one of any numbers.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PySlice, PyString, PyTuple};
use sot_core::backend::{CallKind, SizesMatter, TensorMeta};
use sot_core::cpython;

use crate::backend::calls::stand_in::MethodArguments;
use crate::backend::paddle::meta;
use crate::backend::paddle::Paddle;

/// True if a call reads or writes at an index with an integer of the graph.
pub(crate) fn are_at_positions(
    paddle: &Paddle,
    (kind, callee): (CallKind, &Bound<'_, PyAny>),
    args: &Bound<'_, PyTuple>,
) -> PyResult<bool> {
    let method = match kind {
        CallKind::Method => "__getitem__",
        CallKind::InPlace => "__setitem__",
        _ => return Ok(false),
    };
    if !callee.cast::<PyString>().is_ok_and(|name| name == method) {
        return Ok(false);
    }
    let Ok(index) = args.get_item(1) else { return Ok(false) };
    for part in parts(&index) {
        if is_position(paddle, &part)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Appends an operation that raises if an item is one from behind the end. Its own result is not used. To be called in
/// static mode.
pub(crate) fn append_check(paddle: &Paddle, item: &Bound<'_, PyAny>) -> PyResult<()> {
    /// Up to this many numbers, a copy takes less time than the three operations that read one number.
    const COPIED: i64 = 4096;
    let py = item.py();
    let Some(TensorMeta { shape, .. }) = meta::of_value(paddle, item)? else { return Ok(()) };
    let functions = cpython::import(py, "paddle")?.getattr("_C_ops")?;
    let numbers = shape.iter().try_fold(1_i64, |numbers, size| numbers.checked_mul((*size)?));
    let read = if numbers.is_some_and(|numbers| numbers <= COPIED) {
        functions.call_method1("assign", (item,))?
    } else {
        let rank = shape.len();
        let (axes, starts, ends) = ((0..rank).collect::<Vec<_>>(), vec![0; rank], vec![1; rank]);
        functions.call_method1("slice", (item, axes, starts, &ends, &ends, Vec::<i64>::new()))?
    };
    read.setattr(intern!(py, "stop_gradient"), true)
}

/// Returns the arguments of calls that together do the same as the call of a method, if it is an index of which one
/// operation would make something else:
///
/// - Bounds that only a run knows beside bounds that are known: Paddle takes all of them for unknown when it infers the
///   shape of the result, and -1 for each. The known bounds come first.
/// - A position that only a run knows beside a slice with a step: the operation does not know that position -1 is the
///   last, and the check does not notice that its result has other dimensions. The slices come first.
pub(crate) fn in_steps<'py>(
    paddle: &Paddle,
    method: &Bound<'py, PyString>,
    arguments: &MethodArguments<'py>,
) -> PyResult<Option<Vec<MethodArguments<'py>>>> {
    if method != "__getitem__" {
        return Ok(None);
    }
    let (py, index) = (method.py(), arguments.positional.get_item(0));
    let Ok(index) = index.and_then(|index| Ok(index.cast_into::<PyTuple>()?)) else { return Ok(None) };
    let parts = index.iter().map(|part| Ok((IndexPart::of(paddle, &part)?, part)));
    let parts = parts.collect::<PyResult<Vec<_>>>()?;
    let has = |wanted: &dyn Fn(&IndexPart) -> bool| parts.iter().any(|(part, _)| wanted(part));
    let positions = has(&|part| matches!(part, IndexPart::Position));
    let open = positions || has(&|part| matches!(part, IndexPart::Slice { known: false, .. }));
    let known = open && has(&|part| matches!(part, IndexPart::Slice { known: true, .. }));
    let steps = positions && has(&|part| matches!(part, IndexPart::Slice { steps: true, .. }));
    if !known && !steps {
        return Ok(None);
    }
    if has(&|part| matches!(part, IndexPart::Other)) {
        let text = "an index with a slice, an integer of the graph and a list or tensor is done in eager mode only";
        return Err(PyNotImplementedError::new_err(text));
    }
    let none = py.None().into_bound(py);
    let whole = cpython::new_slice(py, [&none, &none, &none])?.into_any();
    // In which step a part is done. The other steps take all items of its dimension.
    let step_of = |part: &IndexPart| match part {
        IndexPart::Slice { known: true, .. } => Some(0),
        IndexPart::Slice { .. } => Some(1),
        IndexPart::Whole | IndexPart::Rest => None,
        _ => Some(2),
    };
    let step = |number: usize| {
        let in_step = |(part, index): &(IndexPart, Bound<'py, PyAny>)| match part {
            IndexPart::NewDimension => (number == 2).then(|| index.clone()),
            IndexPart::Rest => Some(index.clone()),
            _ => Some(if step_of(part) == Some(number) { index.clone() } else { whole.clone() }),
        };
        let index = PyTuple::new(py, parts.iter().filter_map(in_step).collect::<Vec<_>>())?;
        PyResult::Ok(MethodArguments { positional: PyTuple::new(py, [index])?, keywords: None })
    };
    let needed = (0..3).filter(|number| has(&|part| step_of(part) == Some(*number)));
    needed.map(step).collect::<PyResult<Vec<_>>>().map(Some)
}

/// A part of an index.
enum IndexPart {
    /// A slice with a bound. `known`: the bounds are known while the program is built; `steps`: it has a step.
    Slice { known: bool, steps: bool },
    /// A slice of all items.
    Whole,
    /// An integer that is known.
    Known,
    /// An integer that only a run knows.
    Position,
    /// `None`.
    NewDimension,
    /// An ellipsis.
    Rest,
    /// A list, a mask, or a tensor of positions.
    Other,
}

impl IndexPart {
    fn of(paddle: &Paddle, part: &Bound<'_, PyAny>) -> PyResult<IndexPart> {
        let py = part.py();
        if part.is_instance_of::<PySlice>() {
            let given = |name| part.getattr(name);
            let bounds = [given(intern!(py, "start"))?, given(intern!(py, "stop"))?, given(intern!(py, "step"))?];
            let steps = !bounds[2].is_none();
            let known = !bounds.iter().any(|bound| paddle.is_value(bound));
            let is_whole = bounds.iter().all(PyAnyMethods::is_none);
            return Ok(if is_whole { IndexPart::Whole } else { IndexPart::Slice { known, steps } });
        }
        Ok(match () {
            () if is_position(paddle, part)? => IndexPart::Position,
            () if part.is_exact_instance_of::<PyInt>() => IndexPart::Known,
            () if part.is_none() => IndexPart::NewDimension,
            () if part.is_instance_of::<PyEllipsis>() => IndexPart::Rest,
            () => IndexPart::Other,
        })
    }
}

/// Returns the index by which a program writes to the items of a tensor, with each integer of the graph counted from
/// the first item: a program writes to the slice from there to the next position, which is empty for the last one, -1.
/// Appends a check for each, because a slice behind the end is empty, too. To be called in static mode.
pub(crate) fn to_write_at<'py>(
    paddle: &Paddle,
    tensor: &Bound<'py, PyAny>,
    index: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = index.py();
    let given = parts(index).into_iter().map(|part| Ok((is_position(paddle, &part)?, part)));
    let given = given.collect::<PyResult<Vec<_>>>()?;
    if !given.iter().any(|(is_position, _)| *is_position) {
        return Ok(index.clone());
    }
    let sizes = meta::of_value(paddle, tensor)?.map(|meta| meta.shape).unwrap_or_default();
    if sizes.contains(&Some(0)) {
        return Err(refused("in a tensor without items"));
    }
    let (mut written, mut checked) = (Vec::new(), vec![PyInt::new(py, 0).into_any(); sizes.len()]);
    let mut axis = 0;
    for (is_position, part) in without_ellipsis(py, given, sizes.len())? {
        let selects = !part.is_none();
        if is_position {
            let Some(size) = sizes[axis] else {
                return Err(SizesMatter::new_err("a position is counted from the end"));
            };
            written.push(from_first(&part, size)?);
            checked[axis] = part;
        } else {
            written.push(part);
        }
        axis += usize::from(selects);
    }
    append_check(paddle, &tensor.get_item(PyTuple::new(py, checked)?)?)?;
    Ok(PyTuple::new(py, written)?.into_any())
}

/// Refuses an index that a program does not take as eager mode does: `True` or `False` beside an ellipsis, which a
/// program counts as a dimension, and a list or tensor of positions in a tensor without items, whose shape eager mode
/// gets wrong.
pub(crate) fn refuse_unlike(paddle: &Paddle, callee: &Bound<'_, PyAny>, args: &Bound<'_, PyTuple>) -> PyResult<()> {
    let is_index = callee.cast::<PyString>().is_ok_and(|name| name == "__getitem__" || name == "__setitem__");
    let (Some(tensor), Some(index)) = (args.iter().next(), args.iter().nth(1)) else { return Ok(()) };
    if !is_index {
        return Ok(());
    }
    let parts = parts(&index);
    let is_any = |ty: fn(&Bound<'_, PyAny>) -> bool| parts.iter().any(ty);
    if is_any(|part| part.is_instance_of::<PyBool>()) && is_any(|part| part.is_instance_of::<PyEllipsis>()) {
        return Err(PyNotImplementedError::new_err("an index with a truth value and an ellipsis is for eager mode"));
    }
    let is_empty = meta::of_value(paddle, &tensor)?.is_some_and(|meta| meta.shape.contains(&Some(0)));
    if is_empty {
        for part in &parts {
            if matches!(IndexPart::of(paddle, part)?, IndexPart::Other) {
                let text = "an index with a list or tensor, of a tensor without items, is for eager mode";
                return Err(PyNotImplementedError::new_err(text));
            }
        }
    }
    Ok(())
}

/// Refuses a write at a known position from the end that the tensor does not have, or may not have: a program would
/// write nothing.
pub(crate) fn refuse_before_first(
    paddle: &Paddle,
    tensor: &Bound<'_, PyAny>,
    index: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let Some(TensorMeta { shape, .. }) = meta::of_value(paddle, tensor)? else { return Ok(()) };
    let parts = parts(index);
    let ellipsis = parts.iter().position(PyAnyMethods::is_instance_of::<PyEllipsis>).unwrap_or(parts.len());
    let (front, back) = parts.split_at(ellipsis);
    refuse_before_first_of(paddle, front.iter(), shape.iter())?;
    refuse_before_first_of(paddle, back.iter().skip(1).rev(), shape.iter().rev())
}

fn refuse_before_first_of<'a, 'py: 'a>(
    paddle: &Paddle,
    parts: impl Iterator<Item = &'a Bound<'py, PyAny>>,
    mut sizes: impl Iterator<Item = &'a Option<i64>>,
) -> PyResult<()> {
    for part in parts {
        match IndexPart::of(paddle, part)? {
            IndexPart::NewDimension => {}
            IndexPart::Known => {
                let (position, size) = (part.extract::<i64>()?, sizes.next().copied().flatten());
                // The sizes that are left open begin at two.
                if position < -size.unwrap_or(1) {
                    return Err(SizesMatter::new_err("a position is counted from the end"));
                }
            }
            // A mask may take several dimensions.
            IndexPart::Other if is_mask(paddle, part)? => return Ok(()),
            _ => drop(sizes.next()),
        }
    }
    Ok(())
}

fn is_mask(paddle: &Paddle, part: &Bound<'_, PyAny>) -> PyResult<bool> {
    let is_bool = meta::of_value(paddle, part)?.is_some_and(|meta| &*meta.dtype == "bool");
    Ok(is_bool || part.is_instance_of::<PyBool>())
}

/// Returns the parts of an index of positions, integers and slices, with slices in the place of an ellipsis. A part is
/// preceded by whether it is a position.
fn without_ellipsis<'py>(
    py: Python<'py>,
    parts: Vec<(bool, Bound<'py, PyAny>)>,
    rank: usize,
) -> PyResult<Vec<(bool, Bound<'py, PyAny>)>> {
    let selects = |(is_position, part): &(bool, Bound<'py, PyAny>)| {
        *is_position || part.is_exact_instance_of::<PyInt>() || part.is_instance_of::<PySlice>()
    };
    let selected = parts.iter().filter(|part| selects(part)).count();
    let Some(left) = rank.checked_sub(selected) else { return Err(refused("beside too many others")) };
    let none = py.None().into_bound(py);
    let whole = cpython::new_slice(py, [&none, &none, &none])?;
    let (mut expanded, mut left) = (Vec::new(), Some(left));
    for part in parts {
        if selects(&part) || part.1.is_none() {
            expanded.push(part);
        } else if let (true, Some(left)) = (part.1.is_instance_of::<PyEllipsis>(), left.take()) {
            expanded.extend(std::iter::repeat_n((false, whole.clone()), left));
        } else {
            return Err(refused("beside a list, a tensor or a second ellipsis"));
        }
    }
    Ok(expanded)
}

/// Counts a position from the first of this many items.
fn from_first<'py>(position: &Bound<'py, PyAny>, size: i64) -> PyResult<Bound<'py, PyAny>> {
    let (py, none) = (position.py(), Vec::<i64>::new());
    let api = cpython::import(py, "paddle")?;
    let size = api.call_method1("full", (none, size, position.getattr(intern!(py, "dtype"))?))?;
    api.call_method1("remainder", (position, size))
}

fn refused(which: &str) -> PyErr {
    PyNotImplementedError::new_err(format!("a write to a position that a tensor tells, {which}, is for eager mode"))
}

/// The parts of an index.
pub(crate) fn parts<'py>(index: &Bound<'py, PyAny>) -> Vec<Bound<'py, PyAny>> {
    match index.cast::<PyTuple>() {
        Ok(parts) => parts.iter().collect(),
        Err(_) => vec![index.clone()],
    }
}

/// True if a part of an index is an integer of the graph.
fn is_position(paddle: &Paddle, part: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(meta::of_value(paddle, part)?.is_some_and(|meta| meta.shape.is_empty() && meta.dtype.contains("int")))
}
