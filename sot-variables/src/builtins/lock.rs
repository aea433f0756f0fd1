//! Locks. Writes that a lock of the program protects are replayed later than CPython would do them, so acquiring a
//! lock from outside breaks the graph. Locks of the standard library's caches only avoid duplicate work: acquiring
//! and releasing them is replayed with the other side effects. A lock made in the trace cannot be reached by other
//! threads.

use std::rc::Rc;

use pyo3::prelude::*;
use sot_core::builtin;
use sot_core::bytecode::Op;
use sot_core::error::Flow;
use sot_core::executor::{CallArgs, OpcodeExecutor, Trace};
use sot_core::side_effects::Effect;
use sot_core::variable::Rebuild;
use sot_core::variable::{VarId, Variable};

use super::cannot;
use crate::classes::stand_in;
use crate::iterators::{library, or_object_type};

sot_core::variable_kind! { "lock" }

/// A lock made in the trace.
struct LockVariable {
    reentrant: bool,
    /// Number of times that the lock is held.
    held: usize,
}

builtin! { NEW = "_thread:allocate_lock" => |cx, args| new(cx, "allocate_lock", false, args) }
builtin! { NEW_BY_CLASS = "_thread:LockType" => |cx, args| new(cx, "LockType", false, args) }
builtin! { NEW_REENTRANT = "_thread:RLock" => |cx, args| {
    if is_of_a_cache(cx)? {
        let callable = library(cx.py, "_thread", "RLock")?;
        return stand_in::call(cx, callable, args);
    }
    new(cx, "RLock", true, args)
} }

builtin! { ACQUIRE = "_thread:LockType.acquire" => |cx, args| acquire(cx, args) }
builtin! { ACQUIRE_OLD = "_thread:LockType.acquire_lock" => |cx, args| acquire(cx, args) }
builtin! { ENTER = "_thread:LockType.__enter__" => |cx, args| acquire(cx, args) }
builtin! { RELEASE = "_thread:LockType.release" => |cx, args| release(cx, args) }
builtin! { EXIT = "_thread:LockType.__exit__" => |cx, args| release(cx, args) }
builtin! { LOCKED = "_thread:LockType.locked" => |cx, args| {
    let [lock] = args.exactly("locked")?;
    let held = made(cx, lock)?.ok_or_else(|| cannot("whether a lock is taken"))?.held;
    Ok(cx.trace.boolean(held > 0))
} }
builtin! { ACQUIRE_REENTRANT = "_thread:RLock.acquire" => |cx, args| acquire(cx, args) }
builtin! { ENTER_REENTRANT = "_thread:RLock.__enter__" => |cx, args| acquire(cx, args) }
builtin! { RELEASE_REENTRANT = "_thread:RLock.release" => |cx, args| release(cx, args) }
builtin! { EXIT_REENTRANT = "_thread:RLock.__exit__" => |cx, args| release(cx, args) }

fn new(cx: &mut OpcodeExecutor<'_>, maker: &str, reentrant: bool, args: &CallArgs) -> Flow<VarId> {
    if args.all().next().is_some() {
        return Err(cannot("a lock made with arguments"));
    }
    // In some versions, the class cannot be called.
    library(cx.py, "_thread", maker)?.call0(cx.py).map_err(|error| cx.raise(error))?;
    Ok(cx.trace.produce(Rc::new(LockVariable { reentrant, held: 0 })))
}

fn made(cx: &mut OpcodeExecutor<'_>, lock: VarId) -> Flow<Option<Rc<LockVariable>>> {
    cx.see_as::<LockVariable>(lock)
}

fn acquire(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let Some((lock, made)) = receiver(cx, args)? else {
        later(cx, "acquire", args)?;
        return Ok(cx.trace.boolean(true));
    };
    if args.positional.len() > 1 || !args.keywords.is_empty() {
        return Err(cannot("a lock taken with arguments"));
    }
    if made.held > 0 && !made.reentrant {
        return Err(cannot("a lock that is taken already"));
    }
    cx.trace.vars.set(lock, Rc::new(LockVariable { reentrant: made.reentrant, held: made.held + 1 }));
    Ok(cx.trace.boolean(true))
}

fn release(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let Some((lock, made)) = receiver(cx, args)? else {
        later(cx, "release", args)?;
        return Ok(cx.trace.none());
    };
    let held = made.held.checked_sub(1).ok_or_else(|| cannot("the release of a lock that is not taken"))?;
    cx.trace.vars.set(lock, Rc::new(LockVariable { reentrant: made.reentrant, held }));
    Ok(cx.trace.none())
}

/// Returns the lock of a call, if it was made in the trace.
fn receiver(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<Option<(VarId, Rc<LockVariable>)>> {
    let Some(&lock) = args.positional.first() else { return Ok(None) };
    Ok(made(cx, lock)?.map(|made| (lock, made)))
}

impl LockVariable {
    const fn maker(&self) -> &'static str {
        if self.reentrant {
            "RLock"
        } else {
            "allocate_lock"
        }
    }

    const fn class(&self) -> &'static str {
        if self.reentrant {
            "RLock"
        } else {
            "LockType"
        }
    }
}

impl Variable for LockVariable {
    fn kind(&self) -> &'static str {
        "lock"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        let ty = library(trace.py, "_thread", self.class()).map(|ty| ty.into_bound(trace.py));
        or_object_type(trace, ty)
    }

    fn text(&self, _: &Trace<'_>) -> String {
        format!("LockVariable(held: {})", self.held)
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let make = library(cg.py(), "_thread", self.maker())?;
        cg.call(|cg| cg.load_const(make), [] as [VarId; 0])?;
        cg.define(this)?;
        for _ in 0..self.held {
            let acquire = library(cg.py(), "_thread", self.class())?.getattr(cg.py(), "acquire")?;
            cg.call(|cg| cg.load_const(acquire), [this])?;
            cg.op(Op::POP_TOP, 0)?;
        }
        Ok(())
    }
}

fn later(cx: &mut OpcodeExecutor<'_>, method: &str, args: &CallArgs) -> Flow<()> {
    if !is_of_a_cache(cx)? {
        return Err(cannot("a lock from outside the function"));
    }
    let lock = *args.positional.first().ok_or_else(|| cannot("a method of a lock without one"))?;
    let method = cx.type_of(lock)?.getattr(method)?;
    let callable = cx.trace.constant(method.unbind());
    cx.trace.effects.record(Effect::Call { callable, args: vec![lock], keywords: Vec::new() });
    Ok(())
}

/// Modules whose locks protect caches of their own.
const CACHES: &[&str] = &["functools", "logging"];

fn is_of_a_cache(cx: &OpcodeExecutor<'_>) -> Flow<bool> {
    let module = cx.stack.frame().globals.dict.bind(cx.py).get_item("__name__")?;
    let name = module.and_then(|module| module.extract::<String>().ok());
    Ok(name.is_some_and(|name| CACHES.contains(&&*name)))
}
