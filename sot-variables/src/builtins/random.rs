//! `random.Random` with a known seed: what it gives is known, too. Its state is that of a real one, which only the trace has.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use sot_core::builtin;
use sot_core::codegen::CodeGen;
use sot_core::error::Flow;
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::variable::{VarId, Variable};

use super::cannot;
use crate::iterators::library;

sot_core::variable_kind! { "random" }

/// A generator of random numbers, made in the trace.
pub struct RandomVariable {
    class: VarId,
    ty: Py<PyAny>,
    /// `getstate()` of the base class; `None` before it is seeded.
    state: Option<Py<PyAny>>,
}

fn base(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    library(py, "_random", "Random").map(|base| base.into_bound(py))
}

builtin! { NEW = "_random:Random.__new__" => |cx, args| {
    let Some(&class) = args.positional.first() else { return Err(cannot("Random.__new__() without a class")) };
    let ty = cx.see(class)?.object().map(|ty| ty.clone_ref(cx.py));
    let usual = library(cx.py, "random", "Random")?;
    let ty = ty.filter(|ty| ty.is(&usual)).ok_or_else(|| cannot("a random number generator of a class of its own"))?;
    Ok(cx.produce(Rc::new(RandomVariable { class, ty, state: None })))
} }

builtin! { SEED = "_random:Random.seed" => |cx, args| {
    let [this, seed] = args.exactly(cx, "seed")?;
    expect(cx, this)?;
    let seed = cx.known(seed)?.filter(|seed| !seed.is_none());
    let seed = seed.ok_or_else(|| cannot("a random number generator without a known seed"))?;
    let real = base(cx.py)?.call0()?;
    real.call_method1("seed", (seed,)).map_err(|error| cx.raise(error))?;
    keep(cx, this, &real)?;
    Ok(cx.none())
} }

builtin! { RANDOM = "_random:Random.random" => |cx, args| draw(cx, "random", args) }
builtin! { GETRANDBITS = "_random:Random.getrandbits" => |cx, args| draw(cx, "getrandbits", args) }

fn expect(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Rc<RandomVariable>> {
    let made = cx.see_as::<RandomVariable>(this)?;
    made.ok_or_else(|| cannot("a random number generator made outside the function"))
}

fn keep(cx: &mut OpcodeExecutor<'_>, this: VarId, real: &Bound<'_, PyAny>) -> Flow<()> {
    let made = expect(cx, this)?;
    let state = Some(real.call_method0("getstate")?.unbind());
    cx.vars.set(this, Rc::new(RandomVariable { class: made.class, ty: made.ty.clone_ref(cx.py), state }));
    Ok(())
}

/// The next number, and the state behind it.
fn draw(cx: &mut OpcodeExecutor<'_>, name: &str, args: &CallArgs) -> Flow<VarId> {
    let Some((&this, rest)) = args.positional.split_first() else { return Err(cannot("a random number of nothing")) };
    let made = expect(cx, this)?;
    let state = made.state.as_ref().ok_or_else(|| cannot("a random number generator that is not seeded"))?;
    let given = rest.iter().map(|&arg| cx.known(arg)).collect::<Flow<Option<Vec<_>>>>()?;
    let given = given.filter(|_| args.keywords.is_empty()).ok_or_else(|| cannot("random bits, unknown how many"))?;
    let real = base(cx.py)?.call0()?;
    real.call_method1("setstate", (state,))?;
    let drawn = real.call_method1(name, PyTuple::new(cx.py, given)?).map_err(|error| cx.raise(error))?;
    keep(cx, this, &real)?;
    Ok(cx.constant(drawn.unbind()))
}

impl Variable for RandomVariable {
    fn kind(&self) -> &'static str {
        "random"
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        self.ty.bind(cx.py).clone()
    }

    fn text(&self, _: &OpcodeExecutor<'_>) -> String {
        "RandomVariable()".to_owned()
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.class]
    }

    fn reconstruct(&self, cg: &mut CodeGen<'_, '_>, this: VarId) -> Flow<()> {
        let base = base(cg.cx.py)?;
        let (new, set) = (base.getattr("__new__")?.unbind(), base.getattr("setstate")?.unbind());
        cg.call(|cg| cg.load_const(new), &[self.class])?;
        cg.define(this)?;
        let Some(state) = &self.state else { return Ok(()) };
        let state = cg.cx.constant(state.clone_ref(cg.cx.py));
        cg.call(|cg| cg.load_const(set), &[this, state])?;
        cg.op("POP_TOP", 0)
    }
}
