//! `id(x)`, the identity hash of an object, and `get_ident()`. While tracing, the number itself is unknown: it can
//! only be compared for equality with another such number, and used as a key.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyInt;
use sot_core::builtin;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CompareOp, OpcodeExecutor, Trace};
use sot_core::variable::Rebuild;
use sot_core::variable::{VarId, Variable};

use crate::iterators::{emit_call, library};

sot_core::variable_kind! { "id" }

builtin! { ID = "id" => |cx, args| {
    let [object] = args.exactly("id")?;
    cx.see(object)?;
    Ok(cx.trace.produce(Rc::new(IdVariable { object, what: DerivedNumber::Id })))
} }

builtin! { GET_IDENT = "_thread:get_ident" => |cx, args| {
    let [] = args.exactly("get_ident")?;
    // The function object stands for the running thread, as a trace runs in one thread only.
    let function = library(cx.py, "_thread", "get_ident")?.into_bound(cx.py);
    let tracker = cx.trace.trackers.constant(function.clone().unbind());
    let object = cx.trace.wrap(&function, tracker);
    Ok(cx.trace.produce(Rc::new(IdVariable { object, what: DerivedNumber::Thread })))
} }

builtin! { HASH = "object.__hash__" => |cx, args| {
    let [object] = args.exactly("__hash__")?;
    if cx.known(object)?.is_some() {
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, "object.__hash__() of a constant"));
    }
    Ok(cx.trace.produce(Rc::new(IdVariable { object, what: DerivedNumber::Hash })))
} }

/// The number that is derived from an identity.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DerivedNumber {
    Id,
    Hash,
    Thread,
}

/// An unknown number derived from the identity of an object or of the running thread.
pub struct IdVariable {
    object: VarId,
    what: DerivedNumber,
}

impl IdVariable {
    /// Returns the object whose identity this is.
    pub fn object(&self) -> VarId {
        self.object
    }

    /// True if this is the identity hash of the object, which differs from its `id()`.
    pub fn is_hash(&self) -> bool {
        self.what == DerivedNumber::Hash
    }

    /// True if this is the `id()` or identity hash of `object`, rather than the identity of a thread.
    pub fn is_of(&self, object: VarId) -> bool {
        self.object == object && self.what != DerivedNumber::Thread
    }
}

impl Variable for IdVariable {
    fn kind(&self) -> &'static str {
        "id"
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        trace.py.get_type::<PyInt>().into_any()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("IdVariable({})", trace.text(self.object))
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.object]
    }

    fn holds(&self) -> Vec<VarId> {
        // A number does not keep the object alive that it is of.
        Vec::new()
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        match self.what {
            DerivedNumber::Thread => emit_call(cg, |py| library(py, "_thread", "get_ident"), [] as [VarId; 0]),
            DerivedNumber::Id => emit_call(cg, |py| library(py, "builtins", "id"), [self.object]),
            DerivedNumber::Hash => {
                let hash = cg.py().get_type::<PyAny>().getattr("__hash__")?.unbind();
                emit_call(cg, |_| Ok(hash), [self.object])
            }
        }
    }

    fn truth(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<bool> {
        Ok(true)
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, _: VarId, other: VarId) -> Flow<Option<VarId>> {
        let Some(other) = cx.see_as::<IdVariable>(other)? else {
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, "id() compared with a number"));
        };
        if self.what != other.what {
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, "id() compared with a hash"));
        }
        let same = cx.is_same(self.object, other.object)?;
        match op {
            CompareOp::Equal => Ok(Some(cx.trace.boolean(same))),
            CompareOp::NotEqual => Ok(Some(cx.trace.boolean(!same))),
            _ => Err(Unwind::break_graph(ReasonId::UnsupportedOperation, "the order of two id()s")),
        }
    }
}
