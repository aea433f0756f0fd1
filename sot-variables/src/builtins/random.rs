//! `random.Random` with a known seed: its numbers are known. The state is that of a real generator, which no other
//! code can reach. The state of a generator from outside, such as the one behind the functions of `random`, is known
//! once the trace has seeded it, and is replayed.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use sot_core::builtin;
use sot_core::bytecode::Op;
use sot_core::error::{Flow, Unwind};
use sot_core::executor::{CallArgs, OpcodeExecutor, Trace};
use sot_core::side_effects::Effect;
use sot_core::tracker::TrackerId;
use sot_core::variable::{Argument, Rebuild};
use sot_core::variable::{VarId, Variable};

use super::cannot;
use crate::iterators::library;

sot_core::variable_kind! {
    "random", types: |py| Ok(vec![library(py, "random", "Random")?]), wrap: RandomVariable::wrap
}

/// A random number generator.
pub struct RandomVariable {
    origin: RandomOrigin,
    ty: Py<PyAny>,
    /// `getstate()` of the base class; `None` before the generator is seeded in the trace.
    state: Option<Py<PyAny>>,
}

enum RandomOrigin {
    /// Made in the trace, with the variable of its class.
    Trace(VarId),
    /// A generator from outside.
    Outside(Py<PyAny>),
}

impl RandomOrigin {
    fn clone_ref(&self, py: Python<'_>) -> RandomOrigin {
        match self {
            RandomOrigin::Trace(class) => RandomOrigin::Trace(*class),
            RandomOrigin::Outside(object) => RandomOrigin::Outside(object.clone_ref(py)),
        }
    }
}

impl RandomVariable {
    fn wrap(_: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, _: TrackerId) -> Flow<Rc<dyn Variable>> {
        let (origin, ty) = (RandomOrigin::Outside(object.clone().unbind()), object.get_type().into_any().unbind());
        Ok(Rc::new(RandomVariable { origin, ty, state: None }))
    }
}

fn base(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    library(py, "_random", "Random").map(|base| base.into_bound(py))
}

builtin! { NEW = "_random:Random.__new__" => |cx, args| {
    let Some(&class) = args.positional.first() else { return Err(cannot("Random.__new__() without a class")) };
    let ty = cx.see(class)?.object().map(|ty| ty.clone_ref(cx.py));
    let usual = library(cx.py, "random", "Random")?;
    let ty = ty.filter(|ty| ty.is(&usual)).ok_or_else(|| cannot("a random number generator of a class of its own"))?;
    Ok(cx.trace.produce(Rc::new(RandomVariable { origin: RandomOrigin::Trace(class), ty, state: None })))
} }

builtin! { SEED = "_random:Random.seed" => |cx, args| {
    let [this, seed] = args.exactly("seed")?;
    expect(cx, this)?;
    let seed = cx.known(seed)?.filter(|seed| !seed.is_none());
    let seed = seed.ok_or_else(|| cannot("a random number generator without a known seed"))?;
    let real = base(cx.py)?.call0()?;
    real.call_method1("seed", (seed,)).map_err(|error| cx.raise(error))?;
    keep(cx, this, &real)?;
    Ok(cx.trace.none())
} }

builtin! { GETSTATE = "_random:Random.getstate" => |cx, args| {
    let [this] = args.exactly("getstate")?;
    let made = expect(cx, this)?;
    let state = made.state.as_ref().ok_or_else(not_seeded)?.bind(cx.py).clone();
    cx.fold(|_| Ok(state))
} }

builtin! { SETSTATE = "_random:Random.setstate" => |cx, args| {
    let [this, state] = args.exactly("setstate")?;
    expect(cx, this)?;
    let state = cx.materialize(state)?.ok_or_else(|| cannot("a state of random numbers that is not known"))?;
    let real = base(cx.py)?.call0()?;
    real.call_method1("setstate", (state,)).map_err(|error| cx.raise(error))?;
    keep(cx, this, &real)?;
    Ok(cx.trace.none())
} }

builtin! { RANDOM = "_random:Random.random" => |cx, args| draw(cx, "random", args) }
builtin! { GETRANDBITS = "_random:Random.getrandbits" => |cx, args| draw(cx, "getrandbits", args) }

fn expect(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Rc<RandomVariable>> {
    let made = cx.see_as::<RandomVariable>(this)?;
    made.ok_or_else(|| cannot("a random number generator of a class of its own"))
}

fn not_seeded() -> Unwind {
    cannot("a random number generator that the function has not seeded")
}

fn keep(cx: &mut OpcodeExecutor<'_>, this: VarId, real: &Bound<'_, PyAny>) -> Flow<()> {
    let made = expect(cx, this)?;
    let state = Some(real.call_method0("getstate")?.unbind());
    let origin = made.origin.clone_ref(cx.py);
    let is_outside = matches!(origin, RandomOrigin::Outside(_));
    cx.trace.vars.set(this, Rc::new(RandomVariable { origin, ty: made.ty.clone_ref(cx.py), state }));
    if is_outside {
        cx.trace.effects.record(Effect::Contents { container: this });
    }
    Ok(())
}

/// Draws a number, and advances the state.
fn draw(cx: &mut OpcodeExecutor<'_>, name: &str, args: &CallArgs) -> Flow<VarId> {
    let Some((&this, rest)) = args.positional.split_first() else { return Err(cannot("a random number of nothing")) };
    let made = expect(cx, this)?;
    let state = made.state.as_ref().ok_or_else(not_seeded)?;
    let given = rest.iter().map(|&arg| cx.known(arg)).collect::<Flow<Option<Vec<_>>>>()?;
    let given = given.filter(|_| args.keywords.is_empty()).ok_or_else(|| cannot("random bits, unknown how many"))?;
    let real = base(cx.py)?.call0()?;
    real.call_method1("setstate", (state,))?;
    let drawn = real.call_method1(name, PyTuple::new(cx.py, given)?).map_err(|error| cx.raise(error))?;
    keep(cx, this, &real)?;
    Ok(cx.trace.constant(drawn.unbind()))
}

impl Variable for RandomVariable {
    fn kind(&self) -> &'static str {
        "random"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.ty.bind(trace.py).clone()
    }

    fn text(&self, _: &Trace<'_>) -> String {
        "RandomVariable()".to_owned()
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        match &self.origin {
            RandomOrigin::Outside(object) => Some(object),
            RandomOrigin::Trace(_) => None,
        }
    }

    fn children(&self) -> Vec<VarId> {
        match self.origin {
            RandomOrigin::Trace(class) => vec![class],
            RandomOrigin::Outside(_) => Vec::new(),
        }
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let RandomOrigin::Trace(class) = self.origin else { return cg.load(this) };
        let new = base(cg.py())?.getattr("__new__")?.unbind();
        cg.call(|cg| cg.load_const(new), [class])?;
        cg.define(this)?;
        self.restore_contents(cg, this)
    }

    fn restore_contents(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let Some(state) = &self.state else { return Ok(()) };
        let py = cg.py();
        let set = base(py)?.getattr("setstate")?.unbind();
        let state = Argument::Constant(state.clone_ref(py));
        cg.call(|cg| cg.load_const(set), [this.into(), state])?;
        cg.op(Op::POP_TOP, 0)
    }
}
