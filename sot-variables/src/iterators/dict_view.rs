//! `dict.keys()`, `values()`, `items()` and the iterators over dicts.

use std::rc::Rc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, BinaryOp, CompareOp, OpcodeExecutor, Trace};
use sot_core::variable::{Argument, Rebuild};
use sot_core::variable::{VarId, Variable};

use super::{produce, rebuild, view_operators, IteratorState};
use crate::classes::instance_dict::InstanceDictVariable;
use crate::classes::subclass;
use crate::containers::dict::{self, Entry};
use crate::containers::hash_key::HashKey;
use crate::containers::set::{self, SetVariable};

sot_core::variable_kind! { "dict_view" }
sot_core::variable_kind! { "dict_iterator" }

/// The part of each entry that a view or iterator gives.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// The keys.
    Keys,
    /// The values.
    Values,
    /// The pairs.
    Items,
}

impl View {
    /// Returns the name of the dict method for the view.
    pub const fn method(self) -> &'static str {
        match self {
            View::Keys => "keys",
            View::Values => "values",
            View::Items => "items",
        }
    }

    fn of(self, cx: &mut OpcodeExecutor<'_>, entry: &Entry) -> VarId {
        match self {
            View::Keys => entry.key.variable,
            View::Values => entry.value,
            View::Items => dict::pair(cx, entry),
        }
    }
}

/// A view of a dict.
pub struct DictView {
    /// The dict.
    pub dict: VarId,
    /// The part of the entries that is shown.
    pub view: View,
}

impl DictView {
    /// Emits code that leaves the view on the stack.
    fn load(&self, cg: &mut dyn Rebuild<'_>) -> Flow<()> {
        let owner = subclass::owner_of(cg.trace(), self.dict);
        if owner != self.dict {
            // The C method on the instance: an override in its class has been inlined by the trace already.
            let ty = cg.trace().vars.get(self.dict).python_type(cg.trace());
            let method = ty.getattr(self.view.method())?.unbind();
            return cg.call(|cg| cg.load_const(method), [owner]);
        }
        cg.begin_call(|cg| {
            cg.load(self.dict)?;
            cg.load_attr(self.view.method())
        })?;
        cg.end_call(0)
    }

    /// Returns the view as a set of the trace, for the set operators.
    fn to_set(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        let items = cx.unpack_all(this)?;
        SetVariable::build(cx, items)
    }
}

/// Returns a set, or a set-like view, as a set.
fn as_set(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<Option<VarId>> {
    if cx.see_as::<SetVariable>(value)?.is_some() {
        return Ok(Some(value));
    }
    match cx.see_as::<DictView>(value)? {
        Some(view) if view.view != View::Values => DictView::to_set(cx, value).map(Some),
        _ => Ok(None),
    }
}

/// Tests whether a dict contains a pair: looks up the key, and compares the value.
fn contains_pair(cx: &mut OpcodeExecutor<'_>, dict: VarId, pair: VarId) -> Flow<VarId> {
    let ty = cx.type_of(pair)?;
    let is_tuple = ty.cast::<PyType>().is_ok_and(|ty| cpython::is_subtype(ty, &cx.py.get_type::<PyTuple>()));
    let parts = if is_tuple {
        let storage = subclass::seen_by_base(cx, pair)?;
        cx.unpack_all(storage)?
    } else {
        Vec::new()
    };
    let [key, value] = parts[..] else { return Ok(cx.trace.boolean(false)) };
    match dict::expect(cx, dict)?.find(cx, key)? {
        Some(held) => object_model::contains_among(cx, &[held], value),
        None => Ok(cx.trace.boolean(false)),
    }
}

impl Variable for DictView {
    fn kind(&self) -> &'static str {
        "dict_view"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        let ordered = trace.vars.as_kind::<dict::DictVariable>(self.dict).is_some_and(|dict| dict.ordered);
        let empty = if ordered {
            dict::ordered_type(trace.py).and_then(|ty| ty.call0())
        } else {
            Ok(PyDict::new(trace.py).into_any())
        };
        let view = empty.and_then(|dict| dict.call_method0(self.view.method()));
        view.map_or_else(|_| trace.py.get_type::<PyAny>().into_any(), |view| view.get_type().into_any())
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("DictView({}.{}())", trace.text(self.dict), self.view.method())
    }

    fn materialize(&self, trace: &Trace<'_>) -> Option<Py<PyAny>> {
        let dict = trace.vars.get(self.dict).materialize(trace)?;
        dict.call_method0(trace.py, self.view.method()).ok()
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        self.load(cg)
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.dict]
    }

    fn iter(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<VarId> {
        DictIterator::over(cx, self.dict, self.view, false)
    }

    fn items(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<Option<Vec<VarId>>> {
        let dict = dict::expect(cx, self.dict)?;
        Ok(Some(dict.entries.iter().map(|entry| self.view.of(cx, entry)).collect()))
    }

    fn len(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<VarId> {
        cx.len(self.dict)
    }

    fn truth(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<bool> {
        cx.truth(self.dict)
    }

    fn contains(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, item: VarId) -> Flow<VarId> {
        match self.view {
            View::Keys => cx.contains(self.dict, item, false),
            View::Items => contains_pair(cx, self.dict, item),
            View::Values => {
                let items = cx.unpack_all(this)?;
                object_model::contains_among(cx, &items, item)
            }
        }
    }

    fn binary(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        op: BinaryOp,
        this: VarId,
        other: VarId,
        reflected: bool,
    ) -> Flow<Option<VarId>> {
        if self.view == View::Values || !set::is_set_operator(op) {
            return Ok(None);
        }
        let (left, right) = if reflected { (other, this) } else { (this, other) };
        view_operators::operate(cx, op, left, right).map(Some)
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        if self.view == View::Values {
            return Ok(None);
        }
        let Some(other) = as_set(cx, other)? else { return Ok(None) };
        let this = DictView::to_set(cx, this)?;
        cx.compare(op, this, other).map(Some)
    }
}

/// State of an iterator over a dict.
#[derive(Clone)]
pub struct DictIterator {
    dict: VarId,
    view: View,
    keys: Rc<Vec<Rc<HashKey>>>,
    given: usize,
    backwards: bool,
    /// True for an iterator over an `OrderedDict`, which has a single type for keys, values and items.
    ordered: bool,
    exhausted: bool,
}

impl DictIterator {
    /// Makes `iter(dict.view())`, or `reversed(...)`.
    pub fn over(cx: &mut OpcodeExecutor<'_>, dict: VarId, view: View, backwards: bool) -> Flow<VarId> {
        let seen = dict::expect(cx, dict)?;
        let keys = seen.entries.iter().map(|entry| Rc::clone(&entry.key)).collect();
        let (keys, ordered) = (Rc::new(keys), seen.ordered);
        let state = DictIterator { dict, view, keys, given: 0, backwards, ordered, exhausted: false };
        Ok(produce(cx, state))
    }

    fn has_other_size(&self, dict: &dict::DictVariable) -> bool {
        dict.entries.len() != self.keys.len()
    }

    /// True if an entry has been replaced since the start of the iteration. Entries of an instance dict are compared
    /// by name; in other dicts, a key that was removed and set again is a different entry.
    fn has_other_keys(&self, trace: &Trace<'_>, dict: &dict::DictVariable) -> bool {
        let of_names = trace.vars.as_kind::<InstanceDictVariable>(self.dict).is_some();
        let is_same = |entry: &Entry, key: &Rc<HashKey>| {
            Rc::ptr_eq(&entry.key, key) || (of_names && entry.key.is_alike(trace.py, key))
        };
        dict.entries.iter().zip(&*self.keys).any(|(entry, key)| !is_same(entry, key))
    }
}

/// True if the keys of the real dict, or of that behind a `mappingproxy`, will be changed by the writes that are still
/// to be replayed, or their order.
fn has_now_other_keys(object: &Bound<'_, PyAny>, dict: &dict::DictVariable) -> PyResult<bool> {
    let py = object.py();
    let proxied = cpython::proxied_dict(object).map(Bound::into_any);
    let object = proxied.as_ref().unwrap_or(object);
    let ty = if dict.ordered { dict::ordered_type(py)? } else { py.get_type::<PyDict>().into_any() };
    let mut entries = dict.entries.iter();
    for key in ty.call_method1("__iter__", (object,))?.try_iter()? {
        let key = key?;
        let is_same = |entry: &Entry| -> PyResult<bool> {
            let now = entry.key.bind(py);
            // Methods of the program are not called.
            Ok(now.is(&key) || (cpython::is_atom(&key) && now.get_type().is(key.get_type()) && now.eq(&key)?))
        };
        if !entries.next().map_or(Ok(false), is_same)? {
            return Ok(true);
        }
    }
    Ok(entries.next().is_some())
}

impl DictIterator {
    /// The view of an empty dict that has iterators of the same type.
    fn empty_view<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let dict = if self.ordered { dict::ordered_type(py)?.call0()? } else { PyDict::new(py).into_any() };
        dict.call_method0(self.view.method())
    }
}

impl IteratorState for DictIterator {
    const KIND: &'static str = "dict_iterator";

    fn python_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let view = self.empty_view(py)?;
        if self.backwards {
            return Ok(cpython::builtin(py, "reversed")?.call1((view,))?.get_type().into_any());
        }
        Ok(view.try_iter()?.get_type().into_any())
    }

    fn advance(&mut self, cx: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>> {
        if self.exhausted {
            return Ok(None);
        }
        let dict = dict::expect(cx, self.dict)?;
        if self.has_other_size(&dict) {
            let kind = if dict.ordered {
                "OrderedDict mutated during iteration"
            } else {
                "dictionary changed size during iteration"
            };
            return Err(cx.raise(PyRuntimeError::new_err(kind)));
        }
        if self.has_other_keys(&cx.trace, &dict) {
            let text = "a dict whose keys change while it is iterated";
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
        }
        let position = if self.backwards { self.keys.len().checked_sub(self.given + 1) } else { Some(self.given) };
        let entry = position.and_then(|position| dict.entries.get(position));
        self.given += 1;
        self.exhausted = entry.is_none();
        Ok(entry.map(|entry| self.view.of(cx, entry)))
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.dict]
    }

    fn prepare(&self, cx: &mut OpcodeExecutor<'_>) -> Flow<()> {
        if self.exhausted {
            return Ok(());
        }
        let dict = dict::expect(cx, self.dict)?;
        // New code makes the iterator before it replays the writes.
        let is_changed = dict.object().map(|object| has_now_other_keys(object.bind(cx.py), &dict)).transpose()?;
        let attributes = cx.trace.vars.as_kind::<InstanceDictVariable>(self.dict);
        let is_written =
            attributes.is_some_and(|attributes| attributes.is_written(&cx.trace)) || is_changed == Some(true);
        if is_written || self.has_other_size(&dict) || self.has_other_keys(&cx.trace, &dict) {
            let text = "an iterator over a dict whose keys changed";
            return Err(Unwind::fallback(ReasonId::CannotRestore, text));
        }
        Ok(())
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>) -> Flow<()> {
        if self.exhausted {
            let empty = self.empty_view(cg.py())?;
            return rebuild::emit_exhausted(cg, empty, self.backwards);
        }
        let make = if self.backwards { rebuild::reversed_skipping } else { rebuild::skipping };
        let make = make(cg.py())?;
        cg.begin_call(|cg| cg.load_const(make))?;
        DictView { dict: self.dict, view: self.view }.load(cg)?;
        cg.load_argument(Argument::int(cg.py(), self.given)?)?;
        cg.end_call(2)
    }
}
