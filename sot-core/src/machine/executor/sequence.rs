//! Items, iteration and unpacking.

use pyo3::exceptions::{PyStopIteration, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::changing_values::open_number;
use super::{limits, object_model, OpcodeExecutor};
use crate::cpython::{self, DescriptorKind};
use crate::error::{Flow, ReasonId, Unwind};
use crate::machine::variable::{Form, VarId};

impl OpcodeExecutor<'_> {
    /// `object[key]`
    pub fn get_item(&mut self, object: VarId, key: VarId) -> Flow<VarId> {
        // A graph can take an open number as input.
        if !self.is_open_argument(key) || self.see(object)?.form() != Form::Tensor {
            open_number::see_key(self, key)?;
        }
        if let Some(value) = self.known(object)? {
            if let Some(index) = self.materialize(key)? {
                return self.fold(|_| value.get_item(index));
            }
        }
        self.see(object)?.get_item(self, object, key)
    }

    /// `object[key] = value`
    pub fn set_item(&mut self, object: VarId, key: VarId, value: VarId) -> Flow<()> {
        self.see(key)?;
        self.see(object)?.set_item(self, object, key, value)
    }

    /// `del object[key]`
    pub fn del_item(&mut self, object: VarId, key: VarId) -> Flow<()> {
        self.see(key)?;
        self.see(object)?.del_item(self, object, key)
    }

    /// `len(object)`
    pub fn len(&mut self, object: VarId) -> Flow<VarId> {
        if let Some(length) = self.lazy_text_len(object)? {
            return Ok(length);
        }
        if let Some(value) = self.known(object)? {
            return self.fold(|py| Ok(value.len()?.into_pyobject(py)?.into_any()));
        }
        self.see(object)?.len(self, object)
    }

    /// `iter(object)`
    pub fn iter(&mut self, object: VarId) -> Flow<VarId> {
        self.see(object)?.iter(self, object)
    }

    /// `next(iterator)`; `None` when exhausted, also by a `StopIteration` that code of the program raises.
    pub fn next(&mut self, iterator: VarId) -> Flow<Option<VarId>> {
        match self.next_or_raise(iterator) {
            Err(Unwind::Raise(exception)) if is_stop_iteration(self, exception)? => Ok(None),
            next => next,
        }
    }

    /// Like [`OpcodeExecutor::next`], but a `StopIteration` that code of the program raises is raised.
    pub fn next_or_raise(&mut self, iterator: VarId) -> Flow<Option<VarId>> {
        limits::count_step(self)?;
        self.see(iterator)?.next(self, iterator)
    }

    /// All items of an iterable, in order; the iterable is run to its end.
    pub fn unpack_all(&mut self, iterable: VarId) -> Flow<Vec<VarId>> {
        if let Some(items) = self.see(iterable)?.items(self, iterable)? {
            return Ok(items);
        }
        let iterator = self.iter(iterable)?;
        drain(self, iterator)
    }

    /// All items of an iterable, as a list is filled. The length hint is asked first, if the program defines one.
    pub fn unpack_into_list(&mut self, iterable: VarId) -> Flow<Vec<VarId>> {
        if let Some(items) = self.see(iterable)?.items(self, iterable)? {
            return Ok(items);
        }
        let iterator = self.iter(iterable)?;
        self.ask_length(iterable)?;
        drain(self, iterator)
    }

    /// Asks for the number of items, if methods of the program tell it.
    pub fn ask_length(&mut self, iterable: VarId) -> Flow<()> {
        let ty = self.type_of(iterable)?;
        if !ty.cast::<PyType>().is_ok_and(cpython::is_heap_type) {
            return Ok(());
        }
        let mut asks = |name: &str| -> Flow<bool> {
            let hook = object_model::lookup(self, iterable, &name.into())?;
            Ok(hook.is_some_and(|(hook, _)| !DescriptorKind::of(&hook).is_c_descriptor()))
        };
        let (length, hint) = (asks("__len__")?, asks("__length_hint__")?);
        if length {
            self.claims.take();
            return match self.len(iterable) {
                // The length only serves to reserve memory.
                Err(Unwind::Raise(error)) if self.type_of(error)?.is(self.py.get_type::<PyTypeError>()) => Ok(()),
                answer => answer.map(drop),
            };
        }
        if hint {
            let text = "a list of something with a __length_hint__ of its own";
            return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
        }
        Ok(())
    }

    /// Gives `take` all items of an iterable. Each is taken before the next one is computed, because code of the
    /// program that computes it may look at what `take` has done.
    pub fn each(&mut self, iterable: VarId, mut take: impl FnMut(&mut Self, VarId) -> Flow<()>) -> Flow<()> {
        if let Some(items) = self.see(iterable)?.items(self, iterable)? {
            return items.into_iter().try_for_each(|item| take(self, item));
        }
        let iterator = self.iter(iterable)?;
        self.each_left(iterator, take)
    }

    /// Like [`OpcodeExecutor::each`], for the remaining items of an iterator.
    pub fn each_left(&mut self, iterator: VarId, mut take: impl FnMut(&mut Self, VarId) -> Flow<()>) -> Flow<()> {
        let mut count = 0;
        while let Some(item) = self.next(iterator)? {
            take(self, item)?;
            count += 1;
            self.limits.refuse_many(count)?;
        }
        Ok(())
    }

    /// The items of `a, b, c = iterable`.
    pub fn unpack_exactly(&mut self, iterable: VarId, count: usize) -> Flow<Vec<VarId>> {
        let items = match unpackable(self, iterable)? {
            Unpackable::Items(items) => items,
            // One item more shows that there are too many.
            Unpackable::Iterator(iterator) => take(self, iterator, count + 1)?,
        };
        match items.len() {
            n if n == count => Ok(items),
            n if n < count => {
                Err(self
                    .raise(PyValueError::new_err(format!("not enough values to unpack (expected {count}, got {n})"))))
            }
            _ => Err(self.raise(PyValueError::new_err(format!("too many values to unpack (expected {count})")))),
        }
    }

    /// The items of `a, *b, c = iterable`: those before the star, the list, those behind the star.
    pub fn unpack_starred(&mut self, iterable: VarId, before: usize, after: usize) -> Flow<Vec<VarId>> {
        let mut items = match unpackable(self, iterable)? {
            Unpackable::Items(items) => items,
            Unpackable::Iterator(iterator) => {
                let mut items = take(self, iterator, before)?;
                // The rest is made a list, which calls `iter` on the iterator again.
                if items.len() == before {
                    items.extend(self.unpack_into_list(iterator)?);
                }
                items
            }
        };
        if items.len() < before + after {
            let (got, least) = (items.len(), before + after);
            return Err(self.raise(PyValueError::new_err(format!(
                "not enough values to unpack (expected at least {least}, got {got})"
            ))));
        }
        let tail = items.split_off(items.len() - after);
        let middle = items.split_off(before);
        let middle = self.trace.list(middle);
        items.push(middle);
        items.extend(tail);
        Ok(items)
    }
}

fn is_stop_iteration(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> Flow<bool> {
    let stop = cx.py.get_type::<PyStopIteration>();
    Ok(cx.type_of(exception)?.cast::<PyType>().is_ok_and(|ty| cpython::is_subtype(ty, &stop)))
}

fn drain(cx: &mut OpcodeExecutor<'_>, iterator: VarId) -> Flow<Vec<VarId>> {
    let mut items = Vec::new();
    cx.each_left(iterator, |_, item| {
        items.push(item);
        Ok(())
    })?;
    Ok(items)
}

/// Takes `count` items of an iterator, or fewer if it ends.
fn take(cx: &mut OpcodeExecutor<'_>, iterator: VarId, count: usize) -> Flow<Vec<VarId>> {
    let mut items = Vec::new();
    while items.len() < count {
        let Some(item) = cx.next(iterator)? else { break };
        items.push(item);
    }
    Ok(items)
}

fn unpackable(cx: &mut OpcodeExecutor<'_>, iterable: VarId) -> Flow<Unpackable> {
    let is_iterable = match cx.known(iterable)? {
        Some(value) => value.try_iter().is_ok(),
        None => object_model::is_iterable(cx, iterable)?,
    };
    if !is_iterable {
        let name = cx.type_name(iterable)?;
        return Err(cx.raise(PyTypeError::new_err(format!("cannot unpack non-iterable {name} object"))));
    }
    Ok(match cx.see(iterable)?.items(cx, iterable)? {
        Some(items) => Unpackable::Items(items),
        None => Unpackable::Iterator(cx.iter(iterable)?),
    })
}

/// The operand of an unpacking.
enum Unpackable {
    /// Items that are known without running code.
    Items(Vec<VarId>),
    /// An iterator.
    Iterator(VarId),
}
