//! `operator.itemgetter`, `attrgetter` and `methodcaller`.

use std::rc::Rc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use sot_core::builtin;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CallArgs, OpcodeExecutor, Trace};
use sot_core::guard::{Identity, Test};
use sot_core::tracker::TrackerId;
use sot_core::variable::{Argument, Rebuild};
use sot_core::variable::{VarId, Variable};

use crate::iterators::{emit_call, library, or_object_type};

builtin! { ITEMGETTER = "operator:itemgetter" => |cx, args| make(cx, Getter::Item, args) }
builtin! { ATTRGETTER = "operator:attrgetter" => |cx, args| make(cx, Getter::Attribute, args) }
builtin! { METHODCALLER = "operator:methodcaller" => |cx, args| make(cx, Getter::Method, args) }

sot_core::variable_kind! {
    "getter",
    types: |py| Getter::ALL.iter().map(|getter| library(py, "operator", getter.name())).collect(),
    wrap: GetterVariable::wrap
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Getter {
    Item,
    Attribute,
    Method,
}

impl Getter {
    const ALL: [Getter; 3] = [Getter::Item, Getter::Attribute, Getter::Method];

    const fn name(self) -> &'static str {
        match self {
            Getter::Item => "itemgetter",
            Getter::Attribute => "attrgetter",
            Getter::Method => "methodcaller",
        }
    }
}

fn make(cx: &mut OpcodeExecutor<'_>, getter: Getter, args: &CallArgs) -> Flow<VarId> {
    if getter != Getter::Item {
        for &name in
            if getter == Getter::Method { &args.positional[..args.positional.len().min(1)] } else { &args.positional }
        {
            if cx.known_str(name)?.is_none() {
                return Err(cx.raise(PyTypeError::new_err("attribute name must be a string")));
            }
        }
    }
    if args.positional.is_empty() || (getter != Getter::Method && !args.keywords.is_empty()) {
        let text = format!("{} expected 1 argument, got {}", getter.name(), args.positional.len());
        return Err(cx.raise(PyTypeError::new_err(text)));
    }
    Ok(cx.trace.produce(Rc::new(GetterVariable { getter, args: args.clone(), object: None })))
}

/// An `itemgetter`, `attrgetter` or `methodcaller`.
pub struct GetterVariable {
    getter: Getter,
    args: CallArgs,
    object: Option<Py<PyAny>>,
}

impl GetterVariable {
    fn wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, of: TrackerId) -> Flow<Rc<dyn Variable>> {
        let object = object.clone().unbind().into_bound(cx.py);
        let refuse = || {
            Unwind::break_graph(
                ReasonId::UnsupportedCall,
                "an itemgetter, attrgetter or methodcaller whose arguments are not known",
            )
        };
        let parts = object.call_method0("__reduce__")?;
        let ty = parts.get_item(0)?;
        let mut getters = Getter::ALL.into_iter();
        let getter = getters.find(|getter| library(cx.py, "operator", getter.name()).is_ok_and(|own| own.is(&ty)));
        let getter = getter.ok_or_else(refuse)?;
        if cx.trace.trackers.is_sourced(of) {
            cx.trace.guards.add(of, Test::Is(Identity::of(&object)));
        }
        let mut positional = Vec::new();
        for arg in parts.get_item(1)?.cast_into::<PyTuple>().map_err(PyErr::from)?.iter() {
            let tracker = cx.trace.trackers.constant(arg.clone().unbind());
            positional.push(cx.trace.wrap(&arg, tracker));
        }
        Ok(Rc::new(GetterVariable { getter, args: CallArgs::positional(positional), object: Some(object.unbind()) }))
    }

    fn get(&self, cx: &mut OpcodeExecutor<'_>, object: VarId, what: VarId) -> Flow<VarId> {
        if self.getter == Getter::Item {
            return cx.get_item(object, what);
        }
        let path = cx.known_str(what)?.unwrap_or_default();
        let mut value = object;
        for name in path.split('.') {
            value = cx.get_attr(value, &Rc::from(name))?;
        }
        Ok(value)
    }
}

impl Variable for GetterVariable {
    fn kind(&self) -> &'static str {
        "getter"
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        let ty = library(trace.py, "operator", self.getter.name()).map(|ty| ty.into_bound(trace.py));
        or_object_type(trace, ty)
    }

    fn text(&self, _: &Trace<'_>) -> String {
        format!("GetterVariable({})", self.getter.name())
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        self.object.as_ref()
    }

    fn children(&self) -> Vec<VarId> {
        self.args.all().collect()
    }

    fn call(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, args: &CallArgs) -> Flow<VarId> {
        let [object] = args.exactly(self.getter.name())?;
        let (&first, rest) = self.args.positional.split_first().ok_or_else(|| super::cannot("an empty getter"))?;
        if self.getter == Getter::Method {
            let name = cx.known_str(first)?.unwrap_or_default();
            let given = CallArgs { positional: rest.to_vec(), keywords: self.args.keywords.clone() };
            return cx.call_method_with(object, &name, &given);
        }
        if rest.is_empty() {
            return self.get(cx, object, first);
        }
        let all = self.args.positional.iter().map(|&what| self.get(cx, object, what)).collect::<Flow<Vec<_>>>()?;
        Ok(cx.trace.tuple(all))
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        let ty = self.python_type(cg.trace());
        if self.args.keywords.is_empty() {
            return emit_call(cg, |_| Ok(ty.unbind()), &self.args.positional);
        }
        cg.call_with(Argument::Constant(ty.unbind()), &self.args)
    }
}
