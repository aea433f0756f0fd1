//! `collections.deque` and its methods.

use std::rc::Rc;

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;

use sot_core::builtin;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::variable::VarId;

use crate::builtins::{cannot, known_index, required};
use crate::containers::deque::{append, expect, refuse, refuse_changed, DequeVariable};
use crate::containers::sequence;
use crate::iterators::library;
use crate::iterators::sequence::SequenceIterator;

builtin! { DEQUE = "collections:deque" => |cx, args| {
    let [iterable, maxlen] = args.named("deque", ["iterable", "maxlen"], 0)?;
    let deque = filled(cx, iterable, maxlen)?;
    Ok(cx.trace.produce(Rc::new(deque)))
} }

builtin! { INIT = "collections:deque.__init__" => |cx, args| {
    let Some((&this, rest)) = args.positional.split_first() else { return Err(refuse()) };
    let rest = CallArgs { positional: rest.to_vec(), keywords: args.keywords.clone() };
    let [iterable, maxlen] = rest.named("deque", ["iterable", "maxlen"], 0)?;
    let before = expect(cx, this)?;
    if before.is_from_outside() || !before.items.is_empty() {
        return Err(Unwind::break_graph(ReasonId::UnsupportedMutation, "deque.__init__() of one that holds something"));
    }
    let mut deque = filled(cx, iterable, maxlen)?;
    deque.changes = before.changes;
    deque.store(cx, this);
    Ok(cx.trace.none())
} }

/// Returns the deque that `deque(iterable, maxlen)` makes.
fn filled(cx: &mut OpcodeExecutor<'_>, iterable: Option<VarId>, maxlen: Option<VarId>) -> Flow<DequeVariable> {
    let maxlen = match maxlen {
        Some(maxlen) if !cx.known(maxlen)?.is_some_and(|maxlen| maxlen.is_none()) => {
            let maxlen = known_index(cx, maxlen, "deque()")?;
            let text = "maxlen must be non-negative";
            Some(usize::try_from(maxlen).map_err(|_| cx.raise(PyValueError::new_err(text)))?)
        }
        _ => None,
    };
    let mut deque = DequeVariable::new(Vec::new(), maxlen);
    if let Some(iterable) = iterable {
        deque.push_back(cx.unpack_all(iterable)?);
    }
    Ok(deque)
}

builtin! { APPEND = "collections:deque.append" => |cx, args| {
    let [this, item] = args.exactly("append")?;
    append(cx, this, &[item])
} }
builtin! { APPENDLEFT = "collections:deque.appendleft" => |cx, args| edit::<1>(cx, args, |_, deque, [item]| {
    deque.push_front([item]);
    Ok(())
}) }
builtin! { EXTEND = "collections:deque.extend" => |cx, args| {
    let [this, items] = args.exactly("extend")?;
    cx.each(items, |cx, item| append(cx, this, &[item]).map(drop))?;
    Ok(cx.trace.none())
} }
builtin! { EXTENDLEFT = "collections:deque.extendleft" => |cx, args| {
    let [this, items] = args.exactly("extendleft")?;
    cx.each(items, |cx, item| {
        let mut deque = DequeVariable::clone(&*expect(cx, this)?);
        deque.push_front([item]);
        deque.marked_as_edited().store(cx, this);
        Ok(())
    })?;
    Ok(cx.trace.none())
} }
builtin! { CLEAR = "collections:deque.clear" => |cx, args| edit::<0>(cx, args, |_, deque, []| {
    deque.items.clear();
    Ok(())
}) }
builtin! { REVERSE = "collections:deque.reverse" => |cx, args| edit::<0>(cx, args, |_, deque, []| {
    deque.items.reverse();
    Ok(())
}) }

builtin! { ROTATE = "collections:deque.rotate" => |cx, args| {
    let args = match args.positional[..] {
        [this] => {
            let one = cx.trace.integer(1)?;
            CallArgs::positional(vec![this, one])
        }
        _ => args.clone(),
    };
    edit::<1>(cx, &args, |cx, deque, [steps]| {
        let steps = known_index(cx, steps, "deque.rotate()")?;
        if let Ok(len) = i64::try_from(deque.items.len()) {
            if len > 0 {
                deque.items.rotate_right(usize::try_from(steps.rem_euclid(len)).unwrap_or(0));
            }
        }
        Ok(())
    })
} }

builtin! { REMOVE = "collections:deque.remove" => |cx, args| edit::<1>(cx, args, |cx, deque, [item]| {
    match sequence::find(cx, &deque.items, item)? {
        Some(at) => {
            deque.items.remove(at);
            Ok(())
        }
        None => Err(misuse(cx, |deque, item| deque.call_method1("remove", (item,)), item)?),
    }
}) }

builtin! { INSERT = "collections:deque.insert" => |cx, args| edit::<2>(cx, args, |cx, deque, [index, item]| {
    if deque.maxlen == Some(deque.items.len()) {
        return Err(cx.raise(PyIndexError::new_err("deque already at its maximum size")));
    }
    let len = deque.items.len() as i64;
    let index = known_index(cx, index, "deque.insert()")?;
    let at = (if index < 0 { index + len } else { index }).clamp(0, len);
    deque.items.insert(at as usize, item);
    Ok(())
}) }

builtin! { POP = "collections:deque.pop" => |cx, args| take(cx, args, Vec::pop) }
builtin! { POPLEFT = "collections:deque.popleft" => |cx, args| {
    take(cx, args, |items| (!items.is_empty()).then(|| items.remove(0)))
} }

builtin! { REVERSED = "collections:deque.__reversed__" => |cx, args| {
    let [this] = args.exactly("__reversed__")?;
    let deque = expect(cx, this)?;
    Ok(SequenceIterator::over_deque(cx, this, &deque, true))
} }

builtin! { COUNT = "collections:deque.count" => |cx, args| {
    let [this, item] = args.exactly("count")?;
    let deque = expect(cx, this)?;
    let found = sequence::count(cx, &deque.items, item)?;
    refuse_changed(&cx.trace, this, &deque)?;
    Ok(found)
} }

builtin! { INDEX = "collections:deque.index" => |cx, args| {
    let [this, item, start, stop] = args.named("index", ["self", "x", "start", "stop"], 2)?;
    let (this, item) = (required(this)?, required(item)?);
    let deque = expect(cx, this)?;
    let range = sequence::bounds(cx, start, stop, deque.items.len())?;
    let found = sequence::find(cx, &deque.items[range.clone()], item)?;
    refuse_changed(&cx.trace, this, &deque)?;
    match found {
        Some(at) => cx.trace.integer((range.start + at) as i64),
        None => Err(misuse(cx, |deque, item| deque.call_method1("index", (item,)), item)?),
    }
} }

builtin! { COPY = "collections:deque.copy" => |cx, args| copy(cx, args) }
builtin! { SHALLOW_COPY = "collections:deque.__copy__" => |cx, args| copy(cx, args) }

fn copy(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let [this] = args.exactly("copy")?;
    let deque = expect(cx, this)?;
    Ok(cx.trace.produce(Rc::new(DequeVariable::new(deque.items.clone(), deque.maxlen))))
}

fn edit<const N: usize>(
    cx: &mut OpcodeExecutor<'_>,
    args: &CallArgs,
    work: impl FnOnce(&mut OpcodeExecutor<'_>, &mut DequeVariable, [VarId; N]) -> Flow<()>,
) -> Flow<VarId> {
    let (&this, rest) = args.positional.split_first().filter(|_| args.keywords.is_empty()).ok_or_else(refuse)?;
    let rest = <[VarId; N]>::try_from(rest.to_vec()).map_err(|_| refuse())?;
    let before = expect(cx, this)?;
    let mut deque = DequeVariable::clone(&before);
    let done = work(cx, &mut deque, rest);
    refuse_changed(&cx.trace, this, &before)?;
    done?;
    deque.marked_as_edited().store(cx, this);
    Ok(cx.trace.none())
}

fn take(
    cx: &mut OpcodeExecutor<'_>,
    args: &CallArgs,
    take: impl FnOnce(&mut Vec<VarId>) -> Option<VarId>,
) -> Flow<VarId> {
    let [this] = args.exactly("pop")?;
    let mut deque = DequeVariable::clone(&*expect(cx, this)?);
    let Some(item) = take(&mut deque.items) else {
        return Err(cx.raise(PyIndexError::new_err("pop from an empty deque")));
    };
    deque.marked_as_edited().store(cx, this);
    Ok(item)
}

/// Returns CPython's own error, from the same call on an empty deque.
fn misuse<'py>(
    cx: &mut OpcodeExecutor<'py>,
    call: impl FnOnce(&Bound<'py, PyAny>, Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
    item: VarId,
) -> Flow<Unwind> {
    let empty = library(cx.py, "collections", "deque")?.bind(cx.py).call0()?;
    match cx.materialize(item)?.map(|item| call(&empty, item)) {
        Some(Err(error)) => Ok(cx.raise(error)),
        _ => Err(cannot("an error about an absent item of a deque that is not known while tracing")),
    }
}
