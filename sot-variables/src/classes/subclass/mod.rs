//! Instances of subclasses of builtin types (`class Stack(list)`, `defaultdict`, members of an `IntEnum`). The state
//! of the builtin base is a variable of its own, the storage: a plain list, dict, set, deque or value. C methods of
//! the base work on the storage. Everything else follows the object model, so that overridden methods are called.

mod base;
mod making;
mod methods;

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyType;
use sot_core::bytecode::Op;
use sot_core::cpython::{self, DescriptorKind};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, Name, OpcodeExecutor, Trace};
use sot_core::guard::{Identity, Test};
use sot_core::tracker::{self, repr, Tracker, TrackerId};
use sot_core::variable::{Argument, Form, Rebuild};
use sot_core::variable::{GraphArgument, VarId, Variable};

use crate::containers::deque::DequeVariable;
use crate::containers::set::SetVariable;
use crate::containers::tuple_class;
use crate::iterators::rebuild;

use base::{is_builtin_base, BuiltinBase};

pub(crate) use making::fill_dict;
pub use methods::{by_own_methods, missing, unchanged_text};

sot_core::variable_kind! { "subclass", of any class, rank: 45, when: is_subclass_object, wrap: SubclassVariable::wrap }

/// Deques of a subclass are excluded: guards read the storage of lists, dicts and sets directly, but would call
/// methods of a deque's class.
fn is_subclass_object(object: &Bound<'_, PyAny>) -> bool {
    matches!(BuiltinBase::of(&object.get_type()), Ok(Some(base)) if !base.is_deque())
}

/// An instance of a subclass of a builtin type.
pub struct SubclassVariable {
    class: Option<VarId>,
    ty: Py<PyAny>,
    base: BuiltinBase,
    storage: VarId,
    object: Option<Py<PyAny>>,
}

/// Returns the storage of an instance of a subclass; `None` for other values.
pub fn storage_of(cx: &mut OpcodeExecutor<'_>, object: VarId) -> Flow<Option<VarId>> {
    Ok(cx.see_as::<SubclassVariable>(object)?.map(|object| object.storage))
}

/// Returns the operand as C code of the base sees it: the storage, for an instance of a subclass.
pub fn seen_by_base(cx: &mut OpcodeExecutor<'_>, operand: VarId) -> Flow<VarId> {
    Ok(storage_of(cx, operand)?.unwrap_or(operand))
}

/// Returns the underlying value of an instance of a subclass of an immutable type.
pub fn value_of<'py>(cx: &mut OpcodeExecutor<'py>, object: VarId) -> Flow<Option<Bound<'py, PyAny>>> {
    match cx.see_as::<SubclassVariable>(object)?.map(|object| (object.base, object.storage)) {
        Some((BuiltinBase::Value(_), storage)) => cx.known(storage),
        _ => Ok(None),
    }
}

/// Returns the instance that the storage belongs to, or the variable itself if it is not a storage.
pub fn owner_of(trace: &Trace<'_>, storage: VarId) -> VarId {
    trace.vars.owner_of_storage(storage).unwrap_or(storage)
}

/// Breaks the graph for an operation in C that would call one of these methods, if the class of the variable, or of the
/// instance that the storage belongs to, overrides it.
pub fn refuse_overriding(cx: &mut OpcodeExecutor<'_>, storage: VarId, asked: &[&str], what: &str) -> Flow<()> {
    let owner = owner_of(&cx.trace, storage);
    let payload = cx.see(owner)?;
    let (ty, of) = (payload.python_type(&cx.trace), payload.type_tracker(cx, owner));
    let class = ty.cast::<PyType>().map_err(PyErr::from)?;
    let Some(base) = class.mro().iter().find_map(|base| base.cast_into::<PyType>().ok().filter(is_builtin_base)) else {
        return Ok(());
    };
    if base.is(class) || object_model::inherits(cx, (&ty, of), &base, asked)? {
        return Ok(());
    }
    let text = format!("{what} of a class that overrides {}", asked.join(" or "));
    Err(Unwind::break_graph(ReasonId::UnsupportedCall, text))
}

/// Returns the arguments of a C method with the receiver replaced by its storage; also the receiver and the storage.
pub fn with_storage(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<Option<(CallArgs, VarId, VarId)>> {
    let Some((&receiver, rest)) = args.positional.split_first() else { return Ok(None) };
    let Some(storage) = storage_of(cx, receiver)? else { return Ok(None) };
    let rest = CallArgs { positional: rest.to_vec(), keywords: args.keywords.clone() };
    Ok(Some((rest.with_receiver(storage), receiver, storage)))
}

impl SubclassVariable {
    fn wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, of: TrackerId) -> Flow<Rc<dyn Variable>> {
        let object = object.clone().unbind().into_bound(cx.py);
        let refuse = || Unwind::break_graph(ReasonId::UnsupportedOperation, "an object whose class changed");
        let base = BuiltinBase::of(&object.get_type())?.ok_or_else(refuse)?;
        let storage = match base {
            BuiltinBase::Container(..) => {
                let ty = base.ty(cx.py)?;
                let kind = cx.runtime.kinds.of_type(&ty).ok_or_else(refuse)?;
                let of = cx.trace.trackers.add(Tracker::AsBuiltinBase { of });
                let payload = cx.runtime.kinds.wrap(kind, cx, &object, of)?;
                let storage = cx.trace.vars.add(payload, of);
                cx.trace.identities.keeps(&object, storage);
                storage
            }
            BuiltinBase::Value(_) => {
                // The value is immutable, so guarding the object's identity suffices.
                if cx.trace.trackers.is_sourced(of) {
                    cx.refuse_keeping_alive(&object)?;
                    cx.trace.guards.add(of, Test::Is(Identity::of(&object)));
                }
                let value = base.plain_value(&object)?;
                cx.wrap_fresh(&value)?
            }
        };
        let ty = object.get_type().into_any().unbind();
        Ok(Rc::new(SubclassVariable { class: None, ty, base, storage, object: Some(object.unbind()) }))
    }
}

impl Variable for SubclassVariable {
    fn kind(&self) -> &'static str {
        "subclass"
    }

    fn form(&self) -> Form {
        Form::Subclass
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn storage(&self) -> Option<VarId> {
        Some(self.storage)
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.ty.bind(trace.py).clone()
    }

    fn type_tracker(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> TrackerId {
        match self.class {
            Some(class) => cx.trace.vars.tracker(class),
            None => object_model::type_tracker(cx, this, self.python_type(&cx.trace)),
        }
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        match &self.object {
            Some(object) => format!("SubclassVariable({})", repr(trace.py, object)),
            None => format!("SubclassVariable(new, {})", tracker::name(self.ty.bind(trace.py))),
        }
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        self.object.as_ref()
    }

    /// Attributes served by a getter of the builtin base are read from the storage.
    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        let keeps = self.base.is_deque() || matches!(self.base, BuiltinBase::Value(_));
        if let Some((found, tracker)) = object_model::lookup(cx, this, name)?.filter(|_| keeps) {
            let is_getter = DescriptorKind::of(&found).is_c_attribute();
            if is_getter && found.getattr("__objclass__")?.is(self.base.ty(cx.py)?) {
                object_model::guard_identity(cx, &found, tracker);
                return cx.get_attr(self.storage, name).map(Some);
            }
        }
        object_model::get_attr(cx, this, name)
    }

    fn children(&self) -> Vec<VarId> {
        self.class.into_iter().chain([self.storage]).collect()
    }

    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<GraphArgument> {
        let (ty, of) = (self.python_type(&cx.trace), self.type_tracker(cx, this));
        object_model::refuse_own_methods(cx, ty.cast().map_err(PyErr::from)?)?;
        tuple_class::assume_runs_no_code(cx, &ty, of)?;
        if matches!(self.base, BuiltinBase::Container(_, "list", _)) {
            return cx.see(self.storage)?.graph_argument(cx, self.storage);
        }
        if self.object.is_some() && !cx.trace.vars.is_mutated(self.storage) {
            return object_model::graph_argument(cx, this, self.object());
        }
        let text = self.text(&cx.trace);
        match self.base {
            BuiltinBase::Value("int" | "float" | "complex") => cx.see(self.storage)?.graph_argument(cx, self.storage),
            _ => Err(Unwind::break_graph(
                ReasonId::UnsupportedCall,
                format!("{text} as an argument of a graph operation"),
            )),
        }
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let class = self.class.ok_or_else(|| Unwind::fallback(ReasonId::CannotRestore, "an object without a class"))?;
        let py = cg.py();
        let base = self.base.ty(py)?;
        let new = base.getattr("__new__")?.unbind();
        match self.base {
            BuiltinBase::Value(_) => {
                cg.call(|cg| cg.load_const(new), [class, self.storage])?;
                cg.define(this)?;
            }
            _ if self.base.is_deque() => {
                cg.call(|cg| cg.load_const(new), [class])?;
                cg.define(this)?;
                let init = base.getattr("__init__")?.unbind();
                let deque = cg.trace().vars.as_kind::<DequeVariable>(self.storage);
                let maxlen = deque.map_or_else(|| Ok(Argument::none(py)), |deque| deque.maxlen_argument(py))?;
                cg.call(|cg| cg.load_const(init), [this.into(), self.storage.into(), maxlen])?;
                cg.op(Op::POP_TOP, 0)?;
            }
            BuiltinBase::Container(module, _, fill) => {
                // `OrderedDict.update` calls `__setitem__` of the subclass; the other bases do not.
                let overridden = module == "collections" && own_setitem(self.ty.bind(py), &base)?;
                cg.call(|cg| cg.load_const(new), [class])?;
                cg.define(this)?;
                let mut fill = if overridden { rebuild::ordered(py)? } else { base.getattr(fill)?.unbind() };
                cg.makes_whole(self.storage);
                let mut items = Argument::from(self.storage);
                if let Some(set) = cg.trace().vars.as_kind::<SetVariable>(self.storage) {
                    let (arranged, ordered) = set.rebuilding(cg.trace())?;
                    items = Argument::tuple(ordered);
                    fill = arranged.map_or(Ok(fill), |arranged| arranged.getattr(py, "fill"))?;
                }
                cg.call(|cg| cg.load_const(fill), [this.into(), items])?;
                cg.op(Op::POP_TOP, 0)?;
            }
        }
        Ok(())
    }
}

/// True if a subclass overrides `__setitem__`.
fn own_setitem(ty: &Bound<'_, PyAny>, base: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(!cpython::class_attr(ty, "__setitem__")?.is(base.getattr("__setitem__")?))
}
