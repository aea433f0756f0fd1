//! `functools.reduce`, `functools.partial`, and calls of functions with an `lru_cache` from outside.

use std::rc::Rc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use sot_core::builtin;
use sot_core::cpython::{self, LruCache};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, Name, OpcodeExecutor, Trace};
use sot_core::policy::MAX_CACHED_TENSORS;
use sot_core::side_effects::Effect;
use sot_core::tracker::{ById, Tracker, TrackerId};
use sot_core::variable::Rebuild;
use sot_core::variable::{Form, VarId, Variable};

use super::{cannot, is_none};
use crate::containers::dict::{self, DictVariable};
use crate::containers::hash_key::HashKey;
use crate::functions::function::guard_identity;
use crate::iterators::{emit_call, library, or_object_type, rebuild};

builtin! { REDUCE = "functools:reduce" => |cx, args| match args.positional[..] {
    [function, iterable] if args.keywords.is_empty() => reduce(cx, function, iterable, None),
    [function, iterable, initial] if args.keywords.is_empty() => reduce(cx, function, iterable, Some(initial)),
    _ => Err(cannot("reduce() with these arguments")),
} }

builtin! { PARTIAL = "functools:partial" => |cx, args| {
    let Some((&function, rest)) = args.positional.split_first() else {
        return Err(cx.raise(PyTypeError::new_err("type 'partial' takes at least one argument")));
    };
    if !object_model::is_callable(cx, function)? {
        return Err(cx.raise(PyTypeError::new_err("the first argument must be callable")));
    }
    let args = CallArgs { positional: rest.to_vec(), keywords: args.keywords.clone() };
    // CPython merges a partial of a partial, unless the inner one has attributes.
    let (function, args) = match cx.see_as::<PartialVariable>(function)? {
        Some(inner) if !inner.has_attributes(&cx.trace, function) => (inner.function, inner.complete(cx, &args)?),
        _ => (function, args),
    };
    let (positional, keywords) = (cx.trace.tuple(args.positional), DictVariable::from_keywords(cx, args.keywords)?);
    let keywords = cx.trace.produce(keywords);
    Ok(cx.trace.produce(Rc::new(PartialVariable { function, args: positional, keywords, object: None })))
} }

builtin! { CALL_PARTIAL = "functools:partial.__call__" => |cx, args| {
    let Some((&this, rest)) = args.positional.split_first() else { return Err(cannot("a partial()")) };
    if cx.see_as::<PartialVariable>(this)?.is_none() {
        return Err(cannot("partial.__call__() of something else"));
    }
    let args = CallArgs { positional: rest.to_vec(), keywords: args.keywords.clone() };
    cx.call(this, &args)
} }

// If the cache key is constant and the real cache has a value, that value is used: now, and by a guard in each call.
// Otherwise the function is inlined, and its result is used if that is a known value, the call has no side effects, and
// no guard of the call reads data that may have changed since the value was cached. In both cases new code calls the
// cached function, so that the cache counts hits and drops entries. If neither is possible, this call of the frame is
// left to CPython, which fills the cache for the next one. The trace never calls the function: the operations before
// the call have not run, and what the function does or raises would be done twice.
builtin! { CACHED_CALL = "functools:_lru_cache_wrapper.__call__" => |cx, args| {
    let Some((&this, rest)) = args.positional.split_first() else { return Err(cannot("a cached function")) };
    let rest = CallArgs { positional: rest.to_vec(), keywords: args.keywords.clone() };
    let is_missing = match cached_value(cx, this, &rest)? {
        Cached::Value(value) => return Ok(value),
        Cached::Missing => true,
        Cached::Unknown => false,
    };
    match inlined(cx, this, rest) {
        Err(Unwind::BreakGraph(_) | Unwind::Raise(_)) if is_missing && cx.trace.awaits_filling() => {
            let text = format!("{} has no result for these arguments yet", cx.trace.text(this));
            Err(Unwind::fallback(ReasonId::CacheNotFilled, text))
        }
        // The cache counts the call.
        Err(Unwind::Raise(_)) => Err(cannot("a cached function that raises")),
        result => result,
    }
} }

/// Inlines the call of a cached function that computes a known value from its arguments, and does nothing else.
fn inlined(cx: &mut OpcodeExecutor<'_>, this: VarId, rest: CallArgs) -> Flow<VarId> {
    let function = cx.get_attr(this, &Rc::from("__wrapped__"))?;
    // Guards on the arguments are part of the key, and not data that the function reads.
    for argument in rest.all() {
        cx.see(argument)?;
    }
    let before = (cx.trace.effects.len(), cx.trace.guards.len());
    let result = cx.call(function, &rest)?;
    let payload = cx.see(result)?;
    let reads_data = cx.trace.guards.since(before.1).iter().any(|guard| guard.asks_for_data(&cx.trace.trackers));
    if cx.trace.effects.len() == before.0
        && !reads_data
        && (payload.constant().is_some() || payload.form() == Form::Class)
    {
        count(cx, this, rest);
        return Ok(result);
    }
    Err(cannot("a cached function that gives an object, or does more than to compute a value from its arguments"))
}

builtin! { BIND_CACHED = "functools:_lru_cache_wrapper.__get__" => |cx, args| {
    let (this, object) = match args.positional[..] {
        [this, object] | [this, object, _] if args.keywords.is_empty() => (this, object),
        _ => return Err(cannot("__get__() of a cached function with these arguments")),
    };
    if is_none(cx, object)? {
        return Ok(this);
    }
    let payload = (cx.runtime.factories.method)(this, object);
    Ok(cx.trace.produce(payload))
} }

/// What the real cache of a function has for the arguments of a call.
enum Cached {
    Value(VarId),
    Missing,
    /// The cache cannot be asked.
    Unknown,
}

/// Looks for the value of a real `lru_cache` function, for arguments that C code hashes and compares.
fn cached_value(cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<Cached> {
    let of = cx.trace.vars.tracker(this);
    let real = cx.see(this)?.object().map(|object| object.bind(cx.py).clone());
    let Some(real) = real.filter(|_| cx.trace.trackers.is_loadable(of)) else { return Ok(Cached::Unknown) };
    if real.getattr("__module__").is_ok_and(|module| module.eq("typing").unwrap_or(false)) {
        return Ok(value_of_typing(cx, &real, args)?.map_or(Cached::Unknown, Cached::Value));
    }
    let Some(cache) = LruCache::of(&real).filter(LruCache::keeps) else { return Ok(Cached::Unknown) };
    let Some((positional, keywords)) = real_arguments(cx, args, key_part)? else { return Ok(Cached::Unknown) };
    let key = cache.key(&positional, &keywords)?;
    let Some(value) = cache.kept(&key) else { return Ok(Cached::Missing) };
    guard_identity(cx, this, real.as_unbound());
    count(cx, this, args.clone());
    let [key, args, keywords] = [key, positional.into_any(), keywords.into_any()].map(|part| ById(part.unbind()));
    let tracker = cx.trace.trackers.add(Tracker::Cached { of, key, args, keywords });
    Ok(Cached::Value(cx.trace.wrap(&value, tracker)))
}

/// Returns real objects for all arguments of a call, each given by `real`; `None` if one has none.
fn real_arguments<'py>(
    cx: &mut OpcodeExecutor<'py>,
    args: &CallArgs,
    real: impl Fn(&mut OpcodeExecutor<'py>, VarId) -> Flow<Option<Bound<'py, PyAny>>>,
) -> Flow<Option<(Bound<'py, PyTuple>, Bound<'py, PyDict>)>> {
    let Some(found) = args.all().map(|argument| real(cx, argument)).collect::<Flow<Option<Vec<_>>>>()? else {
        return Ok(None);
    };
    let mut values = found.into_iter();
    let positional = PyTuple::new(cx.py, values.by_ref().take(args.positional.len()).collect::<Vec<_>>())?;
    let keywords = PyDict::new(cx.py);
    for ((name, _), value) in args.keywords.iter().zip(values) {
        keywords.set_item(&**name, value)?;
    }
    Ok(Some((positional, keywords)))
}

/// Returns the real object of an argument in the cache key, if C code hashes and compares it. A tensor is compared by
/// identity. `None` for a tensor that differs from call to call, as the cached value then differs, too.
fn key_part<'py>(cx: &mut OpcodeExecutor<'py>, argument: VarId) -> Flow<Option<Bound<'py, PyAny>>> {
    let payload = cx.see(argument)?;
    let tracker = cx.trace.vars.tracker(argument);
    if payload.form() == Form::Tensor {
        let lasts = cx.trace.trackers.is_loadable(tracker)
            && !cx.trace.is_resumed()
            && cx.trace.translations() < MAX_CACHED_TENSORS;
        let object = payload.object().filter(|_| lasts).map(|object| object.bind(cx.py).clone());
        if let Some(object) = &object {
            guard_identity(cx, argument, object.as_unbound());
        }
        return Ok(object);
    }
    let key = HashKey::of(cx, argument)?;
    Ok((!key.is_stand_in()).then(|| key.bind(cx.py).clone()))
}

/// Records that new code calls the cached function, which counts the hit and keeps the value.
fn count(cx: &mut OpcodeExecutor<'_>, this: VarId, args: CallArgs) {
    cx.trace.effects.record(Effect::Call { callable: this, args: args.positional, keywords: args.keywords });
}

/// Folds a cached function of `typing`: its results from known values, and from classes whose metaclass is written in
/// Python (`typing.Any`, classes with abstract methods), are values.
fn value_of_typing<'py>(
    cx: &mut OpcodeExecutor<'py>,
    real: &Bound<'py, PyAny>,
    args: &CallArgs,
) -> Flow<Option<VarId>> {
    let real_value = |cx: &mut OpcodeExecutor<'py>, argument| match cx.materialize(argument)? {
        Some(value) => Ok(Some(value)),
        None => key_part(cx, argument),
    };
    for argument in args.positional.iter().copied().chain(args.keywords.iter().map(|(_, value)| *value)) {
        if is_of_made_class(cx, argument)? {
            return Ok(None);
        }
    }
    let Some((positional, keywords)) = real_arguments(cx, args, real_value)? else { return Ok(None) };
    match real.call(positional, Some(&keywords)) {
        Ok(value) => {
            let tracker = cx.trace.trackers.constant(value.clone().unbind());
            Ok(Some(cx.trace.wrap(&value, tracker)))
        }
        Err(error) => Err(cx.raise(error)),
    }
}

/// True if a value is a class made in the trace, an instance of one, or a tuple or list that holds any. The real class does
/// not exist yet.
fn is_of_made_class(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<bool> {
    let payload = cx.see(value)?;
    let is_made = |cx: &OpcodeExecutor<'_>, class: VarId| cx.trace.trackers.is_made(cx.trace.vars.tracker(class));
    if payload.form() == Form::Class && is_made(cx, value) {
        return Ok(true);
    }
    let ty = cx.type_of(value)?;
    if cx.trace.identities.of(&ty).is_some_and(|class| is_made(cx, class)) {
        return Ok(true);
    }
    if matches!(payload.form(), Form::Tuple | Form::List) {
        for item in cx.unpack_all(value)? {
            if is_of_made_class(cx, item)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

sot_core::variable_kind! {
    "partial",
    types: |py| Ok(vec![library(py, "functools", "partial")?]),
    wrap: PartialVariable::wrap
}

fn reduce(cx: &mut OpcodeExecutor<'_>, function: VarId, iterable: VarId, initial: Option<VarId>) -> Flow<VarId> {
    let direct = cx.claims.take_call();
    let reduce = library(cx.py, "functools", "reduce")?;
    let tracker = cx.trace.trackers.constant(reduce.clone_ref(cx.py));
    let rest = cx.trace.wrap(reduce.bind(cx.py), tracker);
    if !object_model::can_be_iterated(cx, iterable)? {
        return Err(cx.raise(PyTypeError::new_err("reduce() arg 2 must support iteration")));
    }
    let iterator = cx.iter(iterable)?;
    let first = match initial {
        Some(initial) => Some(initial),
        None => cx.next(iterator)?,
    };
    let Some(mut total) = first else {
        let empty = library(cx.py, "functools", "reduce")?.call1(cx.py, (cx.py.None(), ()));
        return match empty {
            Err(error) => Err(cx.raise(error)),
            Ok(_) => Err(cannot("reduce() of nothing")),
        };
    };
    while let Some(item) = cx.next(iterator)? {
        if direct {
            cx.claim_rest(function, rest, &[function, iterator]);
        }
        total = cx.call(function, &CallArgs::positional(vec![total, item]))?;
    }
    Ok(total)
}

/// A function with some of its arguments.
pub struct PartialVariable {
    /// The function.
    pub function: VarId,
    args: VarId,
    keywords: VarId,
    object: Option<Py<PyAny>>,
}

impl PartialVariable {
    fn wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, of: TrackerId) -> Flow<Rc<dyn Variable>> {
        let partial = object.clone().unbind().into_bound(cx.py);
        let mut part = |name: &str| -> Flow<VarId> {
            let tracker = cx.trace.trackers.add(Tracker::Getattr { of, name: name.into() });
            Ok(cx.trace.wrap(&partial.getattr(name)?, tracker))
        };
        let (function, args, keywords) = (part("func")?, part("args")?, part("keywords")?);
        Ok(Rc::new(PartialVariable { function, args, keywords, object: Some(object.clone().unbind()) }))
    }

    /// Returns the arguments of a call: those of the partial, then those of the call. Keywords of the call take
    /// precedence.
    fn complete(&self, cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<CallArgs> {
        let mut all = CallArgs { positional: cx.unpack_all(self.args)?, keywords: Vec::new() };
        for (key, value) in dict::pairs(cx, self.keywords, false)? {
            let name = key.bind(cx.py).extract::<String>();
            let name = name.map_err(|_| cannot("a partial() with a keyword that is no text"))?;
            all.keywords.push((Rc::from(name), value));
        }
        all.positional.extend(&args.positional);
        for (name, value) in &args.keywords {
            match all.keywords.iter_mut().find(|(known, _)| known == name) {
                Some((_, old)) => *old = *value,
                None => all.keywords.push((Rc::clone(name), *value)),
            }
        }
        Ok(all)
    }

    fn has_attributes(&self, trace: &Trace<'_>, this: VarId) -> bool {
        // CPython does not merge a partial whose dict exists, even if the dict is empty.
        let held = self.object.as_ref().and_then(|object| cpython::instance_dict_if_made(object.bind(trace.py)));
        trace.effects.is_written(this) || held.is_some()
    }
}

impl Variable for PartialVariable {
    fn kind(&self) -> &'static str {
        "partial"
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        let ty = library(trace.py, "functools", "partial").map(|ty| ty.into_bound(trace.py));
        or_object_type(trace, ty)
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("PartialVariable({})", trace.text(self.function))
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        self.object.as_ref()
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        emit_call(cg, rebuild::partial, [self.function, self.args, self.keywords])
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.function, self.args, self.keywords]
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        match &**name {
            "func" => Ok(Some(self.function)),
            "args" => Ok(Some(self.args)),
            "keywords" => Ok(Some(self.keywords)),
            _ => object_model::get_attr(cx, this, name),
        }
    }

    fn call(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
        let args = self.complete(cx, args)?;
        cx.call_instead_of(this, self.function, &args)
    }
}
