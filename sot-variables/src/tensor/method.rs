//! Methods of tensors. The backend decides what a call does.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyString};
use sot_core::backend::{CallKind, KnownResult, LayoutEffect, Returns, SizeExpression};
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, Name, OpcodeExecutor, Trace};
use sot_core::guard::Test;
use sot_core::variable::{VarId, Variable};

use crate::iterators::or_object_type;
use crate::tensor::{call_registered, TensorSource, TensorVariable};

sot_core::variable_kind! { "tensor_method" }

/// A method of a tensor.
pub(super) struct TensorMethodVariable {
    name: Name,
    receiver: VarId,
    effect: MethodEffect,
}

/// The effect of calling a method.
pub(super) enum MethodEffect {
    /// Records a statement.
    RecordStatement,
    /// Records a statement, and the receiver takes its result as its new value.
    ReplaceReceiver,
    /// Copies the tensor by this method, and notes the copy in the argument, the memo of `copy.deepcopy`.
    CopyTensor(&'static str),
    /// Changes the tensor in place.
    ChangeInPlace(Returns),
    /// The result without arguments is known.
    KnownResult(KnownResult),
    /// Breaks the graph.
    BreakGraph(String),
}

impl TensorMethodVariable {
    #[allow(clippy::new_ret_no_self, reason = "it is only ever held as a variable")]
    pub(super) fn new(name: &Name, receiver: VarId, effect: MethodEffect) -> Rc<dyn Variable> {
        Rc::new(TensorMethodVariable { name: Rc::clone(name), receiver, effect })
    }

    /// Inlines the Python method of that name in the tensor's class.
    fn follow(&self, cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
        let ty = cx.see(self.receiver)?.python_type(&cx.trace);
        let found = cpython::type_lookup(ty.cast().map_err(PyErr::from)?, &PyString::intern(cx.py, &self.name));
        let is_function = found.is_some_and(|found| found.is_instance_of::<PyFunction>());
        let method = if is_function { object_model::generic_get_attr(cx, self.receiver, &self.name)? } else { None };
        match method {
            Some(method) => cx.call(method, args),
            None => Err(Unwind::break_graph(ReasonId::UnsupportedCall, "a method in C")),
        }
    }

    /// Returns the result of a method that depends on the memory layout of a tensor from outside, and guards the
    /// layout. `None` if the method is not of that kind.
    fn by_layout(&self, cx: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>> {
        let Some(tensor) = cx.trace.vars.as_kind::<TensorVariable>(self.receiver) else { return Ok(None) };
        let (object, written) = match &tensor.source {
            TensorSource::External(object) => (object.bind(cx.py).clone(), false),
            TensorSource::Written(_, object) => (object.bind(cx.py).clone(), true),
            TensorSource::Computed(_) => return Ok(None),
        };
        let tracker = cx.trace.vars.tracker(self.receiver);
        let Some(found) = cx.runtime.backend().eager_tensors().layout_policy(&object, &self.name)? else {
            return Ok(None);
        };
        let effect = match found.effect {
            LayoutEffect::Known(_) | LayoutEffect::Itself if written || !cx.trace.trackers.is_sourced(tracker) => {
                LayoutEffect::Changes(format!("Tensor.{} of a tensor that was changed in place", self.name))
            }
            effect => effect,
        };
        match effect {
            LayoutEffect::Changes(why) => Err(Unwind::break_graph(ReasonId::TensorValue, why)),
            LayoutEffect::Known(answer) => {
                cx.trace.guards.add(tracker, Test::Object(found.test));
                cx.wrap_fresh(answer.bind(cx.py)).map(Some)
            }
            LayoutEffect::Itself => {
                cx.trace.guards.add(tracker, Test::Object(found.test));
                Ok(Some(self.receiver))
            }
        }
    }
}

impl Variable for TensorMethodVariable {
    fn kind(&self) -> &'static str {
        "tensor_method"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        let method = cpython::import(trace.py, "types").and_then(|types| types.getattr("MethodType"));
        or_object_type(trace, method)
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("TensorMethodVariable({}, {})", self.name, trace.text(self.receiver))
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.receiver]
    }

    fn call(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, args: &CallArgs) -> Flow<VarId> {
        let ty = cx.see(self.receiver)?.python_type(&cx.trace);
        if let Some(result) = call_registered(cx, &ty, &self.name, &args.with_receiver(self.receiver))? {
            return Ok(result);
        }
        if args.positional.is_empty() && args.keywords.is_empty() {
            if let Some(known) = self.by_layout(cx)? {
                return Ok(known);
            }
        }
        let callee = PyString::intern(cx.py, &self.name).into_any();
        let (given, args) = (args, args.with_receiver(self.receiver));
        match &self.effect {
            MethodEffect::RecordStatement => {
                let follow = |cx: &mut OpcodeExecutor<'_>| self.follow(cx, given);
                cx.call_graph_or_follow((CallKind::Method, &callee), &self.name, &args, follow)
            }
            MethodEffect::ReplaceReceiver => {
                let made = cx.call_graph(CallKind::Method, &callee, &self.name, &args)?;
                if made != self.receiver {
                    let payload = cx.trace.vars.get(made);
                    cx.trace.vars.set(self.receiver, payload);
                }
                Ok(self.receiver)
            }
            MethodEffect::CopyTensor(by) => match args.positional[..] {
                [receiver, memo] if args.keywords.is_empty() => copy_into(cx, receiver, by, memo),
                _ => {
                    Err(Unwind::break_graph(ReasonId::TensorValue, format!("Tensor.{} of these arguments", self.name)))
                }
            },
            MethodEffect::ChangeInPlace(Returns::AnotherObject) if !cx.stack.drops_result(cx.py) => {
                let why = format!("{} changes a tensor and returns another object for it", self.name);
                Err(Unwind::break_graph(ReasonId::UnsupportedMutation, why))
            }
            MethodEffect::ChangeInPlace(returns) => {
                let changed = cx.call_in_place(&callee, &self.name, &args)?;
                Ok(if *returns == Returns::It { changed } else { cx.trace.none() })
            }
            MethodEffect::KnownResult(answer) if args.positional.len() == 1 && args.keywords.is_empty() => {
                known_result(cx, answer)
            }
            MethodEffect::KnownResult(_) => {
                Err(Unwind::break_graph(ReasonId::TensorValue, format!("Tensor.{} of these arguments", self.name)))
            }
            MethodEffect::BreakGraph(why) => Err(Unwind::break_graph(ReasonId::TensorValue, why.clone())),
        }
    }

    fn reconstruct(&self, cg: &mut dyn sot_core::variable::Rebuild<'_>, _: VarId) -> Flow<()> {
        cg.load(self.receiver)?;
        cg.load_attr(&self.name)
    }
}

/// Returns the variable of a result that is known before the graph runs.
pub(super) fn known_result(cx: &mut OpcodeExecutor<'_>, result: &KnownResult) -> Flow<VarId> {
    match result {
        KnownResult::Object(object) => cx.wrap_fresh(object.bind(cx.py)),
        KnownResult::OfSizes(expression) => of_sizes(cx, expression),
    }
}

/// Returns the variable of what is computed from sizes.
fn of_sizes(cx: &mut OpcodeExecutor<'_>, expression: &SizeExpression) -> Flow<VarId> {
    match expression {
        SizeExpression::Number(number) => cx.trace.integer(*number),
        SizeExpression::Binary(op, [left, right]) => {
            let (left, right) = (of_sizes(cx, left)?, of_sizes(cx, right)?);
            cx.binary(*op, left, right)
        }
        SizeExpression::Comparison(op, [left, right]) => {
            let (left, right) = (of_sizes(cx, left)?, of_sizes(cx, right)?);
            cx.compare(*op, left, right)
        }
        SizeExpression::Product { of, axes } => {
            let unknown = || Unwind::break_graph(ReasonId::TensorValue, "the size of a value that has left the graph");
            let symbol = cx.trace.graph.symbol_of(of.bind(cx.py)).ok_or_else(unknown)?;
            let meta = cx.trace.graph.meta(symbol)?.ok_or_else(unknown)?;
            let tensor = Rc::new(TensorVariable::computed(symbol, meta));
            let this = cx.trace.produce(Rc::clone(&tensor) as Rc<dyn Variable>);
            tensor.product_of_sizes(cx, this, axes)
        }
    }
}

/// Copies a tensor by a method, and notes the copy in `memo`, as `copy.deepcopy` requires.
fn copy_into(cx: &mut OpcodeExecutor<'_>, tensor: VarId, by: &str, memo: VarId) -> Flow<VarId> {
    let copy = cx.call_method(tensor, by, &[])?;
    let id = cpython::builtin(cx.py, "id")?;
    let id = cx.wrap_fresh(&id)?;
    let key = cx.call(id, &CallArgs::positional(vec![tensor]))?;
    cx.set_item(memo, key, copy)?;
    Ok(copy)
}
