//! Weak references, and `WeakKeyDictionary`, in which `functools.singledispatch` caches classes.

use std::rc::Rc;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCode, PyFunction, PyString, PyType, PyWeakrefMethods, PyWeakrefReference};
use sot_core::backend::ObjectTest;
use sot_core::builtin;
use sot_core::bytecode::Op;
use sot_core::cpython::{self, Part};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, CompareOp, Name, OpcodeExecutor, Trace};
use sot_core::guard::{Identity, Test};
use sot_core::side_effects::Effect;
use sot_core::tracker::{Tracker, TrackerId};
use sot_core::variable::Rebuild;
use sot_core::variable::{Form, VarId, Variable};

use crate::classes::class::ClassVariable;
use crate::classes::exception;
use crate::containers::dict::{self, DictVariable};
use crate::containers::hash_key::HashKey;
use crate::functions::cell::CellVariable;
use crate::functions::function;
use crate::iterators::{emit_call, library, or_object_type};

sot_core::variable_kind! {
    "weak_reference",
    types: |py| Ok(vec![library(py, "weakref", "ref")?, library(py, "weakref", "KeyedRef")?]),
    wrap: WeakReferenceVariable::wrap
}
sot_core::variable_kind! { "weak_key_dict" }

fn refuse(what: &str) -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedCall, what)
}

/// A weak reference.
pub(crate) struct WeakReferenceVariable {
    /// The referent of a reference that was made in the trace.
    referent: Option<VarId>,
    object: Option<Py<PyAny>>,
}

builtin! { REF = "weakref:ref" => |cx, args| {
    let [referent] = args.positional[..] else { return Err(refuse("weakref.ref() with a callback")) };
    if !args.keywords.is_empty() {
        return Err(refuse("weakref.ref() with keyword arguments"));
    }
    refer(cx, referent)
} }

builtin! { HASH = "weakref:ref.__hash__" => |cx, args| {
    let [this] = args.exactly("__hash__")?;
    let referent = cx.call(this, &CallArgs::default())?;
    if cx.see(referent)?.form() != Form::Class {
        return Err(refuse("the hash of a weak reference to an object"));
    }
    let hash = cpython::builtin(cx.py, "hash")?;
    cx.call_builtin(&hash, &CallArgs::positional(vec![referent]), false)
} }

/// Simulates `weakref.ref(referent)`. Without a callback, an object has a single weak reference, which is reused. A
/// class always has a weak reference already, as its bases hold one.
fn refer(cx: &mut OpcodeExecutor<'_>, referent: VarId) -> Flow<VarId> {
    let payload = cx.see(referent)?;
    let class = payload.object().map(|object| object.bind(cx.py).clone()).filter(|_| payload.form() == Form::Class);
    if class.is_none() && (payload.form() != Form::Instance || payload.object().is_some()) {
        return Err(refuse("weakref.ref() of an object made outside the function"));
    }
    if !payload.python_type(&cx.trace).getattr("__weakrefoffset__")?.is_truthy()? {
        return Err(refuse("weakref.ref() of an object without a place for it"));
    }
    let object = class.map(|class| PyWeakrefReference::new(&class)).transpose()?.map(Bound::into_any);
    if let Some(object) = object.as_ref().filter(|_| cx.trace.trackers.is_loadable(cx.trace.vars.tracker(referent))) {
        let tracker = cx.trace.trackers.constant(object.clone().unbind());
        return Ok(cx.trace.wrap(object, tracker));
    }
    let made = |id: &VarId| {
        cx.trace.vars.as_kind::<WeakReferenceVariable>(*id).is_some_and(|made| made.referent == Some(referent))
    };
    let known = cx.trace.vars.iter().map(|(id, _)| id).find(made);
    if let Some(known) = known {
        return Ok(known);
    }
    let object = object.map(Bound::unbind);
    let reference = cx.trace.produce(Rc::new(WeakReferenceVariable { referent: Some(referent), object }));
    cx.note_step(reference);
    Ok(reference)
}

impl WeakReferenceVariable {
    fn wrap(_: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, _: TrackerId) -> Flow<Rc<dyn Variable>> {
        Ok(Rc::new(WeakReferenceVariable { referent: None, object: Some(object.clone().unbind()) }))
    }
}

impl Variable for WeakReferenceVariable {
    fn kind(&self) -> &'static str {
        "weak_reference"
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        match &self.object {
            Some(object) => object.bind(trace.py).get_type().into_any(),
            None => trace.py.get_type::<PyWeakrefReference>().into_any(),
        }
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("WeakReferenceVariable({})", self.referent.map_or_else(String::new, |referent| trace.text(referent)))
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        self.object.as_ref()
    }

    fn children(&self) -> Vec<VarId> {
        self.referent.into_iter().collect()
    }

    /// A weak reference does not keep its referent alive.
    fn holds(&self) -> Vec<VarId> {
        Vec::new()
    }

    /// Refuses objects other than classes: new code would have to hold the referent in order to make a reference to
    /// it. A class stays alive by itself.
    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        if let Some(class) = self.referent.filter(|_| self.object.is_some()) {
            return emit_call(cg, |py| library(py, "weakref", "ref"), [class]);
        }
        Err(cg.plan_to_make(this, "outlives the graph"))
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        if cx.see_as::<WeakReferenceVariable>(other)?.is_none() || !matches!(op, CompareOp::Equal | CompareOp::NotEqual)
        {
            return Ok(None);
        }
        let (one, another) = (cx.call(this, &CallArgs::default())?, cx.call(other, &CallArgs::default())?);
        for referent in [one, another] {
            if cx.known(referent)?.is_some_and(|referent| referent.is_none()) {
                let same = cx.is_same(this, other)?;
                return Ok(Some(cx.trace.boolean(same == (op == CompareOp::Equal))));
            }
        }
        cx.compare(op, one, another).map(Some)
    }

    fn call(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
        if !args.positional.is_empty() || !args.keywords.is_empty() {
            return Err(refuse("a weak reference called with arguments"));
        }
        if let Some(referent) = self.referent {
            return if self.object.is_some() || cx.is_certainly_alive(Some(referent))? {
                Ok(referent)
            } else {
                Err(cx.plan_to_make(this, "refers to what may be dead"))
            };
        }
        let object = self.object.as_ref().ok_or_else(|| refuse("a weak reference to nothing"))?;
        let reference = object.bind(cx.py).cast::<PyWeakrefReference>().map_err(PyErr::from)?;
        let referent = reference.upgrade();
        let tracker = cx.trace.vars.tracker(this);
        if cx.trace.trackers.is_sourced(tracker) {
            let test = ReferentTest { referent: referent.as_ref().map(Identity::of) };
            cx.trace.guards.add(tracker, Test::Object(Box::new(test)));
        }
        match referent {
            None => Ok(cx.trace.none()),
            Some(referent) => {
                let met = cx.trace.identities.of(&referent);
                if !referent.is_instance_of::<PyType>() && !cx.is_certainly_alive(met)? {
                    return Err(refuse("a weak reference to what may be dead"));
                }
                let tracker = cx.trace.found_tracker(&referent);
                Ok(cx.trace.wrap(&referent, tracker))
            }
        }
    }
}

/// Guard: a weak reference refers to a given object, or to a dead one.
struct ReferentTest {
    referent: Option<Identity>,
}

impl ObjectTest for ReferentTest {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        let Ok(reference) = object.cast::<PyWeakrefReference>() else { return false };
        match (reference.upgrade(), &self.referent) {
            (Some(now), Some(then)) => then.is(&now),
            (now, then) => now.is_none() && then.is_none(),
        }
    }

    fn describe(&self, subject: &str) -> String {
        let what = if self.referent.is_some() { "is the same object" } else { "is None" };
        format!("{subject}() {what}")
    }
}

/// A `WeakKeyDictionary` made in the trace. Its keys are classes, which do not die during the trace.
pub(crate) struct WeakKeyDictVariable {
    dict: VarId,
}

builtin! { WEAK_KEYS = "weakref:WeakKeyDictionary" => |cx, args| {
    if !args.positional.is_empty() || !args.keywords.is_empty() {
        return Err(refuse("weakref.WeakKeyDictionary() of other items"));
    }
    let dict = DictVariable::from_keywords(cx, Vec::new())?;
    let dict = cx.trace.produce(dict);
    Ok(cx.trace.produce(Rc::new(WeakKeyDictVariable { dict })))
} }

/// Calls a method of a `WeakKeyDictionary`: `clear` of a dict that was made in the trace, or `[]` of the cache that
/// `functools.singledispatchmethod` keeps by instance. An instance made in the trace is in that cache only if the
/// trace itself has stored it, and no other code reads the cache. Returns `None` for all other methods and dicts.
pub(crate) fn call_method<'py>(
    cx: &mut OpcodeExecutor<'py>,
    this: VarId,
    function: &Bound<'py, PyFunction>,
    args: &CallArgs,
) -> Flow<Option<VarId>> {
    let Some(method) = method_of_weak_keys(function)? else { return Ok(None) };
    if !args.keywords.is_empty() {
        return Ok(None);
    }
    if let ("clear", [cleared]) = (method, &args.positional[..]) {
        let Some(made) = cx.see_as::<WeakKeyDictVariable>(*cleared)? else { return Ok(None) };
        let (clear, changed) = (cx.get_attr(made.dict, &Rc::from("clear"))?, cx.trace.boolean(true));
        cx.trace.effects.set_attribute(*cleared, &Rc::from("_dirty_len"), Some(changed));
        return cx.call(clear, &CallArgs::default()).map(Some);
    }
    let (cache, key, asks) = match (method, &args.positional[..]) {
        ("__getitem__", [cache, key]) => (*cache, *key, true),
        ("__setitem__", [cache, key, _]) => (*cache, *key, false),
        _ => return Ok(None),
    };
    let of = cx.trace.trackers.get(cx.trace.vars.tracker(cache));
    let is_cache =
        matches!(of, Tracker::Attribute { name, .. } | Tracker::Getattr { name, .. } if &**name == "_method_cache");
    let payload = cx.see(key)?;
    let is_new = payload.form() == Form::Instance && HashKey::of(cx, key)?.is_own(key);
    if !is_cache || !is_new {
        return Ok(None);
    }
    if !asks {
        let args = args.positional.clone();
        cx.trace.effects.record(Effect::Call { callable: this, args, keywords: Vec::new() });
        return Ok(Some(cx.trace.none()));
    }
    let kept = cx.trace.effects.log().iter().rev().find_map(|effect| match effect {
        Effect::Call { callable, args, .. } => match args[..] {
            [into, of, value] if into == cache && of == key => Some((*callable, value)),
            _ => None,
        },
        _ => None,
    });
    let fills = |callable: VarId| {
        let callable = cx.trace.vars.get(callable);
        let function = callable.object().and_then(|object| object.bind(cx.py).cast::<PyFunction>().ok());
        function.is_some_and(|function| matches!(method_of_weak_keys(function), Ok(Some("__setitem__"))))
    };
    let kept = kept.filter(|(callable, _)| fills(*callable)).map(|(_, value)| value);
    if kept.is_some() {
        return Ok(kept);
    }
    let reference = refer(cx, key)?;
    let missing = exception::make(cx, cx.py.get_type::<PyKeyError>().as_any(), vec![reference])?;
    Err(Unwind::Raise(missing))
}

/// Returns the name of the method of `WeakKeyDictionary` that the function is.
fn method_of_weak_keys(function: &Bound<'_, PyFunction>) -> PyResult<Option<&'static str>> {
    static METHODS: PyOnceLock<Vec<(&str, Py<PyAny>)>> = PyOnceLock::new();
    let py = function.py();
    let find = || -> PyResult<_> {
        let ty = library(py, "weakref", "WeakKeyDictionary")?.into_bound(py).cast_into::<PyType>()?;
        let own = |name| cpython::type_lookup(&ty, &PyString::intern(py, name)).map(|own| (name, own.unbind()));
        Ok(["clear", "__getitem__", "__setitem__"].into_iter().filter_map(own).collect())
    };
    let methods = METHODS.get_or_try_init(py, find)?;
    Ok(methods.iter().find(|(_, own)| own.is(function)).map(|(name, _)| *name))
}

/// Methods that a `WeakKeyDictionary` made in the trace supports.
const METHODS: [&str; 1] = ["clear"];

/// Breaks the graph unless the key is a class of the program from outside, which does not die during the trace.
fn expect_class(cx: &mut OpcodeExecutor<'_>, key: VarId) -> Flow<()> {
    let payload = cx.see(key)?;
    if payload.form() == Form::Class && payload.object().is_some() {
        return Ok(());
    }
    Err(refuse("a weak key of a dict made in the function that is no class"))
}

impl Variable for WeakKeyDictVariable {
    fn kind(&self) -> &'static str {
        "weak_key_dict"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        let ty = library(trace.py, "weakref", "WeakKeyDictionary").map(|ty| ty.into_bound(trace.py));
        or_object_type(trace, ty)
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("WeakKeyDictVariable({})", trace.text(self.dict))
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.dict]
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let waits = cg.leaves_empty(this);
        emit_call(cg, |py| library(py, "weakref", "WeakKeyDictionary"), [] as [VarId; 0])?;
        cg.define(this)?;
        if waits {
            return Ok(());
        }
        self.restore_contents(cg, this)
    }

    fn restore_contents(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let dict = cg.trace().vars.as_kind::<DictVariable>(self.dict);
        let entries = dict.iter().flat_map(|dict| &dict.entries).map(|entry| (entry.key.variable, entry.value));
        for (key, value) in entries.collect::<Vec<_>>() {
            cg.load(value)?;
            cg.load(this)?;
            cg.load(key)?;
            cg.op(Op::STORE_SUBSCR, 0)?;
        }
        Ok(())
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        if METHODS.contains(&&**name) {
            return object_model::get_attr(cx, this, name);
        }
        Err(refuse("an attribute of a WeakKeyDictionary made in the function"))
    }

    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, key: VarId) -> Flow<VarId> {
        expect_class(cx, key)?;
        cx.get_item(self.dict, key)
    }

    fn set_item(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, key: VarId, value: VarId) -> Flow<()> {
        expect_class(cx, key)?;
        cx.set_item(self.dict, key, value)
    }
}

/// Simulates `dispatch` of a `functools.singledispatch` function: returns the implementation of the first class in
/// the method resolution order that is registered. The dispatch cache is ignored, because it is not observable.
/// Returns `None` for other functions, and if an abstract base class is registered.
pub(crate) fn dispatch<'py>(
    cx: &mut OpcodeExecutor<'py>,
    this: VarId,
    function: &Bound<'py, PyFunction>,
    args: &CallArgs,
) -> Flow<Option<VarId>> {
    let code = cpython::function_code(function);
    let ([class], true) = (&args.positional[..], args.keywords.is_empty() && is_dispatch(&code)?) else {
        return Ok(None);
    };
    let names: Vec<String> = code.getattr("co_freevars")?.extract()?;
    let of = cx.trace.vars.tracker(this);
    if cx.trace.trackers.is_sourced(of) {
        let part = cx.trace.trackers.add(Tracker::Part { of, part: Part::Code });
        cx.trace.guards.add(part, Test::Is(Identity::of(code.as_any())));
    }
    let cells = function::closure_of(cx, function, of);
    let mut variable = |name: &str| -> Flow<Option<VarId>> {
        let Some(&cell) = names.iter().position(|free| free == name).and_then(|at| cells.get(at)) else {
            return Ok(None);
        };
        Ok(cx.see_as::<CellVariable>(cell)?.and_then(|cell| cell.contents()))
    };
    let (Some(registry), Some(token), Some(cache)) =
        (variable("registry")?, variable("cache_token")?, variable("dispatch_cache")?)
    else {
        return Ok(None);
    };
    if !forgets(cx, cache)? {
        return Ok(None);
    }
    let (Some(registered), Some(object)) =
        (dict::of(cx, registry)?, cx.see(*class)?.object().map(|of| of.clone_ref(cx.py)))
    else {
        return Ok(None);
    };
    let is_usual = |class: &Bound<'_, PyAny>| class.get_type().is(class.py().get_type::<PyType>());
    let usual = registered.entries.iter().all(|entry| is_usual(entry.key.bind(cx.py)));
    let Some(class) = object.bind(cx.py).cast::<PyType>().ok().filter(|_| usual).cloned() else { return Ok(None) };
    if !cx.known(token)?.is_some_and(|token| token.is_none()) {
        return Ok(None);
    }
    for base in class.mro() {
        let tracker = cx.trace.trackers.constant(base.clone().unbind());
        let base = cx.trace.wrap(&base, tracker);
        if cx.see_as::<ClassVariable>(base)?.is_some_and(|class| class.made().is_some()) {
            return Ok(None);
        }
        let registered = cx.contains(registry, base, false)?;
        if cx.truth(registered)? {
            return cx.get_item(registry, base).map(Some);
        }
    }
    Ok(None)
}

/// True if the dispatch cache is a `WeakKeyDictionary`. A subclass by the program could observe the lookups.
fn forgets(cx: &mut OpcodeExecutor<'_>, cache: VarId) -> Flow<bool> {
    if cx.see_as::<WeakKeyDictVariable>(cache)?.is_some() {
        return Ok(true);
    }
    let Some(object) = cx.see(cache)?.object().map(|object| object.bind(cx.py).clone()) else { return Ok(false) };
    let own = cpython::type_lookup(&object.get_type(), &PyString::intern(cx.py, "__getitem__"));
    let own = own.and_then(|own| own.cast_into::<PyFunction>().ok());
    Ok(own.map(|own| method_of_weak_keys(&own)).transpose()?.flatten().is_some())
}

/// True if the code is that of the `dispatch` closures which `functools.singledispatch` makes.
fn is_dispatch(code: &Bound<'_, PyCode>) -> PyResult<bool> {
    static CODE: PyOnceLock<Option<Py<PyAny>>> = PyOnceLock::new();
    let py = code.py();
    let find = || -> PyResult<Option<Py<PyAny>>> {
        let function = library(py, "functools", "singledispatch")?.into_bound(py);
        let constants = function.getattr("__code__")?.getattr("co_consts")?;
        for constant in constants.try_iter()? {
            let constant = constant?;
            if constant.is_instance_of::<PyCode>() && constant.getattr("co_name")?.eq("dispatch")? {
                return Ok(Some(constant.unbind()));
            }
        }
        Ok(None)
    };
    Ok(CODE.get_or_try_init(py, find)?.as_ref().is_some_and(|own| own.is(code)))
}
