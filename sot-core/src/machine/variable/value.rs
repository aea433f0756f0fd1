//! The protocol of a variable: what the executor may ask of a value. Every method has a default: the answer of
//! CPython's object model for an object of the type, or a graph break where only running the code would tell.

use std::any::{Any, TypeId};
use std::rc::Rc;

use pyo3::prelude::*;
use rustc_hash::FxHashSet;

use super::{Form, Rebuild, VarId};
use crate::error::{Flow, ReasonId, Unwind};
use crate::graph::SymbolId;
use crate::guard::{Identity, Test};
use crate::machine::executor::{object_model, BinaryOp, CallArgs, CompareOp, OpcodeExecutor, Trace, UnaryOp};
use crate::tracker::TrackerId;

/// A value as an argument of a graph statement: the object for the builder, and the text in the StatementIR.
pub struct GraphArgument {
    /// A graph value, or plain Python objects holding such values.
    pub value: Py<PyAny>,
    /// The text of the value in the statement.
    pub text: String,
    /// True if the value contains a graph value.
    pub holds_tensor: bool,
}

/// What is observable when a value is destroyed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Death {
    /// Nothing.
    Silent,
    /// A generator yields although it is being closed, which CPython reports as an error. Nothing else is observable.
    Refused,
    /// Code of the program runs, which may do anything.
    Shows,
}

/// What the simulation knows of a Python value. Payloads are immutable; `this` is the variable that holds the
/// payload. A kind overrides the methods for which it has a better answer than CPython's general rules. Methods are
/// grouped by CPython's protocols.
pub trait Variable: Any {
    // What the value is.

    /// The registered name of the kind.
    fn kind(&self) -> &'static str;

    /// `type(x)`.
    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny>;

    /// The value for logs: `TensorVariable(shape: [2, 3], ...)`.
    fn text(&self, trace: &Trace<'_>) -> String;

    /// The form of the value, for code that must tell forms apart.
    fn form(&self) -> Form {
        Form::Other
    }

    /// The value, if it is immutable and fully known.
    fn constant(&self) -> Option<&Py<PyAny>> {
        None
    }

    /// The real object, if there is one. It may lack the trace's own writes.
    fn object(&self) -> Option<&Py<PyAny>> {
        self.constant()
    }

    /// A Python object equal to the value, if everything in it is known. It may be a fresh copy, and is used to fold
    /// pure calls.
    fn materialize(&self, trace: &Trace<'_>) -> Option<Py<PyAny>> {
        self.constant().map(|value| value.clone_ref(trace.py))
    }

    /// True if a C method in a slot of the type (`list.__len__`) may be answered by the variable's own method. False
    /// for a kind whose methods call those slots, which would not end.
    fn answers_slots(&self) -> bool {
        true
    }

    // Its guards, and its use in graphs.

    /// Adds the guards of a sourced value when it is first looked at.
    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        let ty = self.python_type(&cx.trace);
        cx.trace.guards.add(cx.trace.vars.tracker(this), Test::TypeIs(Identity::of(&ty)));
        Ok(())
    }

    /// Returns the tracker of `type(x)`.
    fn type_tracker(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> TrackerId {
        object_model::type_tracker(cx, this, self.python_type(&cx.trace))
    }

    /// For a container that has not been looked into: the type of the payload that [`Variable::open`] puts in its
    /// place.
    fn opens_to(&self) -> Option<TypeId> {
        None
    }

    /// Looks into a container that has not been looked into, and replaces its payload.
    fn open(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        let _ = (cx, this);
        Ok(())
    }

    /// The symbol of a tensor computed in the graph.
    fn symbol(&self) -> Option<SymbolId> {
        None
    }

    /// Returns the value as an argument of a graph statement.
    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<GraphArgument> {
        object_model::graph_argument(cx, this, self.object())
    }

    // New code that makes the value anew.

    /// Looks into the value as far as making it anew requires, and adds guards for that. Called when the simulation
    /// has ended, because code generation adds nothing to the trace, for values that new code may have to make.
    fn prepare(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        let _ = (cx, this);
        Ok(())
    }

    /// Called before `prepare` when the trace ends at a graph break, for the values that live on. The program may still
    /// change what it has set on such a value.
    fn live_on(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        let _ = (cx, this);
        Ok(())
    }

    /// Writes code that makes the value anew and leaves it on the stack. Not called for values that can be loaded.
    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let _ = this;
        Err(Unwind::fallback(ReasonId::CannotRestore, format!("a {} made in the function", self.text(cg.trace()))))
    }

    /// Writes code that restores, in a container which outlives the frame, the contents that it has in the trace.
    fn restore_contents(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let _ = this;
        Err(Unwind::fallback(ReasonId::CannotRestore, format!("the changed contents of a {}", self.text(cg.trace()))))
    }

    /// The variables that [`restore_contents`](Variable::restore_contents) loads. New code makes their values before it
    /// does the first write.
    fn restored(&self, trace: &Trace<'_>, this: VarId) -> Vec<VarId> {
        let _ = (trace, this);
        self.children()
    }

    /// The variable with the contents that an instance of a class has of its builtin base, as a subclass of `list` has.
    fn storage(&self) -> Option<VarId> {
        None
    }

    // Its lifetime.

    /// The variables that the value refers to.
    fn children(&self) -> Vec<VarId> {
        Vec::new()
    }

    /// The children without those that are only needed to write the final contents.
    fn holds(&self) -> Vec<VarId> {
        self.children()
    }

    /// True if something that outlives the frame holds the value, although the trace made it.
    fn is_held_outside(&self) -> bool {
        false
    }

    /// True if code of the program runs when the value, which was made in the trace, is destroyed.
    fn runs_when_dropped(&self, trace: &Trace<'_>) -> bool {
        let _ = trace;
        false
    }

    /// What is observable when the value is destroyed, at any point of the trace, while the `living` variables live
    /// on.
    fn death(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, living: &FxHashSet<VarId>) -> Death {
        let _ = (cx, this, living);
        Death::Shows
    }

    // Attributes.

    /// `x.name`; `None` if it raises `AttributeError`.
    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Rc<str>) -> Flow<Option<VarId>> {
        object_model::get_attr(cx, this, name)
    }

    /// `x.name = value`, or `del x.name` if `value` is `None`.
    fn set_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Rc<str>, value: Option<VarId>) -> Flow<()> {
        object_model::set_attr(cx, this, name, value)
    }

    /// `x.__class__ = class`, without a `__setattr__` of the program.
    fn set_class(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, class: VarId) -> Flow<()> {
        let _ = (cx, this, class);
        let text = "attribute '__class__' is written through a getset_descriptor";
        Err(Unwind::break_graph(ReasonId::UnsupportedMutation, text))
    }

    /// `x.__get__(instance, type(instance))` for kinds with a rule of their own; `None`: the type's method decides.
    fn bind(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, instance: VarId) -> Flow<Option<VarId>> {
        let _ = (cx, this, instance);
        Ok(None)
    }

    /// `x.__get__(None, class)`, which gives the attribute of a class, for kinds with a rule of their own; `None`: the
    /// type's method decides.
    fn bind_to_class(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Option<VarId>> {
        let _ = (cx, this);
        Ok(None)
    }

    /// A special method looked up on the type, for kinds that do not follow the type's own method.
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

    /// `len(x)`
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

    /// The items, if the value is a sequence or collection that can be iterated without running code.
    fn items(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Option<Vec<VarId>>> {
        let _ = (cx, this);
        Ok(None)
    }

    // Numbers.

    /// `bool(x)`
    fn truth(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<bool> {
        object_model::truth(cx, this)
    }

    /// `-x`, `+x` or `~x`.
    fn unary(&self, cx: &mut OpcodeExecutor<'_>, op: UnaryOp, this: VarId) -> Flow<VarId> {
        object_model::call_special(cx, this, op.method(), &[])
    }

    /// One side of a binary operator; `reflected` if `this` is the right operand. `None`: `NotImplemented`.
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

    /// `x += other` and the like. `None`: the plain operator decides.
    fn inplace(&self, cx: &mut OpcodeExecutor<'_>, op: BinaryOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        object_model::inplace(cx, op, this, other)
    }

    /// `x += other` where no numeric method has answered (`sq_inplace_concat`); `None` if the type has no such slot.
    fn concat_in_place(&self, _: &mut OpcodeExecutor<'_>, _: VarId, _: VarId) -> Flow<Option<VarId>> {
        Ok(None)
    }

    // Comparisons.

    /// One side of a comparison. `None`: `NotImplemented`.
    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        object_model::compare(cx, op, this, other)
    }
}
