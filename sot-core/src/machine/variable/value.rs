//! The protocol of a variable: what the executor may ask of a value. Every question has a default answer: that of
//! CPython's object model for an object of the type, or a graph break where only running the code would tell.

use std::any::{Any, TypeId};
use std::collections::HashSet;
use std::rc::Rc;

use pyo3::prelude::*;

use super::{Form, Rebuild, VarId};
use crate::error::{Flow, ReasonId, Unwind};
use crate::graph::SymbolId;
use crate::guard::{Identity, Test};
use crate::machine::executor::{object_model, BinaryOp, CallArgs, CompareOp, OpcodeExecutor, UnaryOp};
use crate::tracker::TrackerId;

/// A value as the argument of a graph statement: the object the builder gets, and its text in the StatementIR.
pub struct GraphArgument {
    /// A graph value, or plain Python objects holding such values.
    pub value: Py<PyAny>,
    /// How the statement prints it.
    pub text: String,
    /// Whether a graph value is in it.
    pub holds_tensor: bool,
}

/// What shows when a value dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Death {
    /// Nothing.
    Silent,
    /// That it does not end when it should, of which CPython tells; it looks at nothing.
    Refused,
    /// Code of the program runs that may do anything.
    Shows,
}

/// What the simulation knows of a Python value. Payloads are immutable; `this` is the variable that holds the payload.
/// A kind answers what it knows better than the defaults. Methods stand by CPython's protocols.
pub trait Variable: Any {
    // What the value is.

    /// The registered name of the kind.
    fn kind(&self) -> &'static str;

    /// `type(x)`.
    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny>;

    /// The value for logs: `TensorVariable(shape: [2, 3], ...)`.
    fn text(&self, cx: &OpcodeExecutor<'_>) -> String;

    /// What the value is, where others have to tell.
    fn form(&self) -> Form {
        Form::Other
    }

    /// The value, if it is immutable and fully known.
    fn constant(&self) -> Option<&Py<PyAny>> {
        None
    }

    /// The real object, if there is one; its state may lag behind the trace.
    fn object(&self) -> Option<&Py<PyAny>> {
        self.constant()
    }

    /// A Python object equal to the value, if everything in it is known: for folding pure calls. It may be a fresh
    /// copy.
    fn materialize(&self, cx: &OpcodeExecutor<'_>) -> Option<Py<PyAny>> {
        self.constant().map(|value| value.clone_ref(cx.py))
    }

    /// Whether the methods of C's in its type's slots (`list.__len__`) do what the variable does when it is asked. Not
    /// where it asks for those methods itself.
    fn answers_slots(&self) -> bool {
        true
    }

    // What is assumed of it, and what graphs take of it.

    /// The guards that hold for a sourced value once it is looked at.
    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        let ty = self.python_type(cx);
        cx.guards.add(cx.vars.tracker(this), Test::TypeIs(Identity::of(&ty)));
        Ok(())
    }

    /// The tracker of `type(x)`.
    fn type_tracker(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> TrackerId {
        object_model::type_tracker(cx, this, self.python_type(cx))
    }

    /// The payload that it is replaced by where a container is looked into, if it is one that nobody has looked into.
    fn opens_to(&self) -> Option<TypeId> {
        None
    }

    /// Looks into a container that nobody has looked into.
    fn open(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        let _ = (cx, this);
        Ok(())
    }

    /// The graph's symbol, for a tensor computed in the graph.
    fn symbol(&self) -> Option<SymbolId> {
        None
    }

    /// The value as an argument of a graph statement.
    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<GraphArgument> {
        object_model::graph_argument(cx, this, self.object())
    }

    // New code that makes it anew.

    /// Looks into the value as far as making it anew needs, and assumes what that rests on, once the simulation has
    /// ended: code generation adds nothing to the trace. Asked of values that new code may have to make.
    fn prepare(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        let _ = (cx, this);
        Ok(())
    }

    /// Emits code that makes the value anew and leaves it on the stack. Not asked of values that can be loaded.
    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let _ = this;
        Err(Unwind::fallback(ReasonId::CannotRestore, format!("a {} made in the function", self.text(cg.cx()))))
    }

    /// Emits code that brings a container that outlives the frame to the contents it has in the trace.
    fn restore_contents(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let _ = this;
        Err(Unwind::fallback(ReasonId::CannotRestore, format!("the changed contents of a {}", self.text(cg.cx()))))
    }

    // Its lifetime.

    /// Variables the value holds.
    fn children(&self) -> Vec<VarId> {
        Vec::new()
    }

    /// Of these, without those that are only needed to write what the value has come to.
    fn holds(&self) -> Vec<VarId> {
        self.children()
    }

    /// Whether something that outlives the frame holds the value, though the trace has made it.
    fn is_held_outside(&self) -> bool {
        false
    }

    /// Whether code of the program runs when the value, made in the trace, dies.
    fn runs_when_dropped(&self, cx: &OpcodeExecutor<'_>) -> bool {
        let _ = cx;
        false
    }

    /// What that code does, wherever in the trace it runs, while these variables live on.
    fn death(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, living: &HashSet<VarId>) -> Death {
        let _ = (cx, this, living);
        Death::Shows
    }

    // Attributes.

    /// `x.name`; `None` means `AttributeError`.
    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Rc<str>) -> Flow<Option<VarId>> {
        object_model::get_attr(cx, this, name)
    }

    /// `x.name = value`
    fn set_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Rc<str>, value: Option<VarId>) -> Flow<()> {
        object_model::set_attr(cx, this, name, value)
    }

    /// `x.__class__ = class`, past a `__setattr__` of the program's.
    fn set_class(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, class: VarId) -> Flow<()> {
        let _ = (cx, this, class);
        let text = "attribute '__class__' is written through a getset_descriptor";
        Err(Unwind::break_graph(ReasonId::UnsupportedMutation, text))
    }

    /// `x.__get__(instance, type(instance))` for kinds with a rule of their own; `None` follows the type's method.
    fn bind(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, instance: VarId) -> Flow<Option<VarId>> {
        let _ = (cx, this, instance);
        Ok(None)
    }

    /// A special method looked up on the type, for kinds whose type's own is not to be followed.
    fn special(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &str) -> Flow<Option<VarId>> {
        let _ = (cx, this, name);
        Ok(None)
    }

    // Calls.

    /// `x(...)`
    fn call(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
        object_model::call(cx, this, args)
    }

    // Mappings and sequences.

    /// `x[key]`
    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<VarId> {
        object_model::call_special(cx, this, "__getitem__", &[key])
    }

    /// `x[key] = value`
    fn set_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId, value: VarId) -> Flow<()> {
        object_model::call_special(cx, this, "__setitem__", &[key, value]).map(|_| ())
    }

    /// `del x[key]`
    fn del_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<()> {
        object_model::call_special(cx, this, "__delitem__", &[key]).map(|_| ())
    }

    /// `item in x`
    fn contains(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, item: VarId) -> Flow<VarId> {
        object_model::contains(cx, this, item)
    }

    /// `len(x)`; `None` when the type has no length.
    fn len(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        object_model::len(cx, this)
    }

    // Iteration.

    /// `iter(x)`
    fn iter(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        object_model::iter(cx, this)
    }

    /// `next(x)`; `None` when exhausted.
    fn next(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Option<VarId>> {
        object_model::next(cx, this)
    }

    /// The items, if the value is a sequence or collection whose iteration is known without running anything.
    fn items(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Option<Vec<VarId>>> {
        let _ = (cx, this);
        Ok(None)
    }

    // Numbers.

    /// `bool(x)`
    fn truth(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<bool> {
        object_model::truth(cx, this)
    }

    /// `-x` and its kin.
    fn unary(&self, cx: &mut OpcodeExecutor<'_>, op: UnaryOp, this: VarId) -> Flow<VarId> {
        object_model::call_special(cx, this, op.method(), &[])
    }

    /// One side of a binary operator; `reflected` when `this` is the right operand. `None` means `NotImplemented`.
    fn binary(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        op: BinaryOp,
        this: VarId,
        other: VarId,
        reflected: bool,
    ) -> Flow<Option<VarId>> {
        object_model::binary(cx, op, this, other, reflected)
    }

    /// `x += other` and its kin; `None` means: do as the plain operator.
    fn inplace(&self, cx: &mut OpcodeExecutor<'_>, op: BinaryOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        object_model::inplace(cx, op, this, other)
    }

    /// `x += other` where no method for numbers has answered (`sq_inplace_concat`); `None` if there is no such thing.
    fn concat_in_place(&self, _: &mut OpcodeExecutor<'_>, _: VarId, _: VarId) -> Flow<Option<VarId>> {
        Ok(None)
    }

    // Comparisons.

    /// One side of a comparison. `None` means `NotImplemented`.
    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        object_model::compare(cx, op, this, other)
    }
}
