//! `functools.lru_cache` of a function made in the trace: the cache is a table of variables.

use std::rc::Rc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use sot_core::builtin;
use sot_core::error::Flow;
use sot_core::executor::{object_model, CallArgs, OpcodeExecutor, Trace};
use sot_core::variable::Rebuild;
use sot_core::variable::{VarId, Variable};

use super::cannot;
use crate::containers::hash_key::HashKey;
use crate::iterators::{emit_call, library, or_object_type};

sot_core::variable_kind! { "cached_function" }

/// A function with an `lru_cache`, made in the trace.
#[derive(Clone)]
pub struct CachedVariable {
    function: VarId,
    maxsize: VarId,
    typed: VarId,
    info: VarId,
    /// Maximum number of cached results.
    limit: usize,
    kept: Rc<Vec<CachedResult>>,
    hits: i64,
    misses: i64,
}

#[derive(Clone)]
struct CachedResult {
    key: Key,
    value: VarId,
}

/// The arguments of a call, with the names of the keyword arguments in their order.
#[derive(Clone)]
struct Key {
    arguments: Vec<Rc<HashKey>>,
    names: Vec<Rc<str>>,
}

builtin! { MAKE = "functools:_lru_cache_wrapper" => |cx, args| {
    let [function, maxsize, typed, info] = args.exactly("lru_cache")?;
    if !object_model::is_callable(cx, function)? {
        return Err(cx.raise(PyTypeError::new_err("the first argument must be callable")));
    }
    let unbounded = cx.known(maxsize)?.is_some_and(|size| size.is_none());
    let limit = if unbounded { Some(usize::MAX) } else { cx.known_int(maxsize)?.and_then(|size| size.try_into().ok()) };
    let limit = limit.filter(|limit| *limit > 0).ok_or_else(|| cannot("lru_cache() that keeps nothing"))?;
    if cx.truth(typed)? {
        return Err(cannot("lru_cache() that tells types apart"));
    }
    let kept = Rc::new(Vec::new());
    let payload = CachedVariable { function, maxsize, typed, info, limit, kept, hits: 0, misses: 0 };
    let cached = cx.trace.produce(Rc::new(payload));
    cx.note_step(cached);
    Ok(cached)
} }

builtin! { INFO = "functools:_lru_cache_wrapper.cache_info" => |cx, args| {
    let [this] = args.exactly("cache_info")?;
    let cached = expect(cx, this)?;
    let (hits, misses) = (cx.trace.integer(cached.hits)?, cx.trace.integer(cached.misses)?);
    let size = cx.trace.integer(cached.kept.len() as i64)?;
    cx.call(cached.info, &CallArgs::positional(vec![hits, misses, cached.maxsize, size]))
} }

builtin! { CLEAR = "functools:_lru_cache_wrapper.cache_clear" => |cx, args| {
    let [this] = args.exactly("cache_clear")?;
    let cached = expect(cx, this)?;
    let empty = CachedVariable { kept: Rc::new(Vec::new()), hits: 0, misses: 0, ..(*cached).clone() };
    cx.trace.vars.set(this, Rc::new(empty));
    Ok(cx.trace.none())
} }

fn expect(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Rc<CachedVariable>> {
    cx.see_as::<CachedVariable>(this)?.ok_or_else(|| cannot("a cached function made outside the function"))
}

impl Key {
    fn of(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<Key> {
        let arguments = args.all().map(|argument| HashKey::of(cx, argument)).collect::<Flow<_>>()?;
        Ok(Key { arguments, names: args.keywords.iter().map(|(name, _)| Rc::clone(name)).collect() })
    }

    /// True if the keys are equal. Breaks the graph for equal arguments of different types, which C code
    /// distinguishes only in some cases.
    fn same(&self, cx: &mut OpcodeExecutor<'_>, other: &Key) -> Flow<bool> {
        if self.names != other.names || self.arguments.len() != other.arguments.len() {
            return Ok(false);
        }
        for (one, another) in self.arguments.iter().zip(&other.arguments) {
            if !one.same(cx, another)? {
                return Ok(false);
            }
        }
        for (one, another) in self.arguments.iter().zip(&other.arguments) {
            if !cx.type_of(one.variable)?.is(&cx.type_of(another.variable)?) {
                return Err(cannot("a cached function called with equal arguments of different types"));
            }
        }
        Ok(true)
    }
}

impl Variable for CachedVariable {
    fn kind(&self) -> &'static str {
        "cached_function"
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        let ty = library(trace.py, "functools", "_lru_cache_wrapper").map(|ty| ty.into_bound(trace.py));
        or_object_type(trace, ty)
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("CachedVariable({})", trace.text(self.function))
    }

    fn children(&self) -> Vec<VarId> {
        let kept = self.kept.iter().map(|kept| kept.value);
        [self.function, self.maxsize, self.typed, self.info].into_iter().chain(kept).collect()
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        if self.hits + self.misses > 0 {
            return Err(cg.plan_to_make(this, "outlives the graph with what it keeps"));
        }
        let parts = [self.function, self.maxsize, self.typed, self.info];
        emit_call(cg, |py| library(py, "functools", "_lru_cache_wrapper"), parts)
    }

    fn call(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
        let key = Key::of(cx, args)?;
        for (at, kept) in self.kept.iter().enumerate() {
            if kept.key.same(cx, &key)? {
                let now = expect(cx, this)?;
                // The most recently used entry is moved to the end, and dropped last.
                let mut order = now.kept.to_vec();
                if let Some(after) = order.get_mut(at..) {
                    after.rotate_left(1);
                }
                let order = Rc::new(order);
                cx.trace.vars.set(this, Rc::new(CachedVariable { hits: now.hits + 1, kept: order, ..(*now).clone() }));
                return Ok(kept.value);
            }
        }
        cx.trace.vars.set(this, Rc::new(CachedVariable { misses: self.misses + 1, ..self.clone() }));
        let value = cx.call(self.function, args)?;
        let now = expect(cx, this)?;
        for old in now.kept.iter() {
            if old.key.same(cx, &key)? {
                return Err(cannot("a cached function that calls itself with the same arguments"));
            }
        }
        let mut kept = now.kept.to_vec();
        if kept.len() >= now.limit {
            let dropped = kept.remove(0).value;
            if cx.trace.holds_observable(dropped) {
                return Err(cannot("a cached function that drops what shows when it goes"));
            }
        }
        kept.push(CachedResult { key, value });
        cx.trace.vars.set(this, Rc::new(CachedVariable { kept: Rc::new(kept), ..(*now).clone() }));
        Ok(value)
    }
}
