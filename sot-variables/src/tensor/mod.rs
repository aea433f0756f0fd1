//! Tensors: inputs and results of the graph. The backend decides what an attribute or operator means. Each operation
//! is a statement.

mod attributes;
mod method;
pub mod shape;
pub mod state_manager;
pub mod tensor_text;

use std::any::Any;
use std::rc::Rc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyString;
use sot_core::backend::{CallKind, Returns, TensorAttribute, TensorMeta};
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{
    object_model, BinaryOp, CallArgs, ChangingScalar, CompareOp, Name, OpcodeExecutor, Trace, UnaryOp,
};
use sot_core::graph::SymbolId;
use sot_core::guard::Test;
use sot_core::runtime::Runtime;
use sot_core::tracker::TrackerId;
use sot_core::variable::{Form, GraphArgument, VarId, Variable};

use crate::classes::subclass;
use crate::iterators::or_object_type;
use crate::iterators::sequence::SequenceIterator;
use crate::numpy::small_array;
use crate::tensor::attributes::refuse_listed;
use crate::tensor::method::{known_result, MethodEffect, TensorMethodVariable};

sot_core::variable_kind! { "tensor", rank: 300, when: is_tensor, wrap: TensorVariable::wrap }

fn is_tensor(object: &Bound<'_, PyAny>) -> bool {
    Runtime::get().is_some_and(|runtime| runtime.backend().is_tensor(object))
}

enum TensorSource {
    External(Py<PyAny>),
    Computed(SymbolId),
    /// A tensor from outside that was changed in place.
    Written(SymbolId, Py<PyAny>),
}

/// A tensor.
pub struct TensorVariable {
    source: TensorSource,
    meta: TensorMeta,
    switch: Switch,
    /// For a result of the graph that the trace has cut off from gradients: what it was before.
    before: Option<Connected>,
}

/// Whether the trace has set if gradients flow through a tensor from outside.
enum Switch {
    /// It has not.
    None,
    /// It has. The graph has the tensor only as it was before, if at all.
    Pending {
        /// The tensor as it was before.
        before: Rc<TensorVariable>,
        /// The function that sets it.
        by: Py<PyAny>,
    },
    /// It has. The graph has the tensor as it is now under this symbol.
    Made(SymbolId),
}

/// A result of the graph before the trace cut it off from gradients, and the attribute that did so, with its value.
struct Connected {
    payload: Rc<dyn Variable>,
    name: Name,
    value: VarId,
}

/// Adds a statement that sets whether gradients flow through a tensor. Returns the tensor from then on.
fn switch_gradient(cx: &mut OpcodeExecutor<'_>, tensor: VarId, flows: bool, by: &Py<PyAny>) -> Flow<VarId> {
    let (function, flows) = (by.bind(cx.py).clone(), cx.trace.boolean(flows));
    cx.call_graph(CallKind::Api, &function, "switch_gradient", &CallArgs::positional(vec![tensor, flows]))
}

impl TensorVariable {
    /// Returns the variable of a result of the graph.
    pub fn computed(symbol: SymbolId, meta: TensorMeta) -> Self {
        TensorVariable { source: TensorSource::Computed(symbol), meta, switch: Switch::None, before: None }
    }

    /// Returns the variable of a tensor after a change in place. `before` is its earlier payload.
    pub fn written(py: Python<'_>, symbol: SymbolId, meta: TensorMeta, before: Rc<dyn Variable>) -> Rc<dyn Variable> {
        let before: Rc<dyn Any> = before;
        let source = match before.downcast_ref::<TensorVariable>().map(|tensor| &tensor.source) {
            Some(TensorSource::External(object) | TensorSource::Written(_, object)) => {
                TensorSource::Written(symbol, object.clone_ref(py))
            }
            Some(TensorSource::Computed(_)) | None => TensorSource::Computed(symbol),
        };
        Rc::new(TensorVariable { source, meta, switch: Switch::None, before: None })
    }

    /// Returns the meta of the tensor.
    pub fn meta(&self) -> &TensorMeta {
        &self.meta
    }

    fn wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, tracker: TrackerId) -> Flow<Rc<dyn Variable>> {
        let mut meta = cx.runtime.ask_backend(|backend| backend.meta(object)).map_err(|error| {
            Unwind::break_graph(ReasonId::BackendRefused, format!("a tensor cannot enter the graph: {error}"))
        })?;
        cx.leave_sizes_open(object, tracker, &mut meta);
        Ok(Rc::new(TensorVariable {
            source: TensorSource::External(object.clone().unbind()),
            meta,
            switch: Switch::None,
            before: None,
        }))
    }

    fn is_computed(&self) -> bool {
        matches!(self.source, TensorSource::Computed(_))
    }

    /// Returns the tensor itself, or its value in the graph.
    fn value<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        match &self.source {
            TensorSource::External(object) => object.bind(trace.py).clone(),
            TensorSource::Computed(symbol) | TensorSource::Written(symbol, _) => trace.graph.value(*symbol),
        }
    }

    fn graph_symbol(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<SymbolId> {
        match &self.source {
            TensorSource::Computed(symbol) | TensorSource::Written(symbol, _) => Ok(*symbol),
            TensorSource::External(object) => match &self.switch {
                Switch::None => {
                    let object = object.bind(cx.py).clone();
                    cx.graph_input(this, &object, &self.meta)
                }
                Switch::Pending { before, by } => {
                    let earlier = before.graph_symbol(cx, this)?;
                    let earlier = cx.trace.produce(Rc::new(TensorVariable::computed(earlier, before.meta.clone())));
                    let switched = switch_gradient(cx, earlier, self.meta.gradient.flows, by)?;
                    let Some(symbol) = cx.trace.vars.as_kind::<TensorVariable>(switched).and_then(|it| it.symbol())
                    else {
                        return Err(Unwind::bug("a switched tensor is no value of the graph"));
                    };
                    let source = TensorSource::External(object.clone_ref(cx.py));
                    let (meta, switch) = (self.meta.clone(), Switch::Made(symbol));
                    cx.trace.vars.set(this, Rc::new(TensorVariable { source, meta, switch, before: None }));
                    Ok(symbol)
                }
                Switch::Made(symbol) => Ok(*symbol),
            },
        }
    }

    /// True if the program has replaced an attribute or special method in the type of tensors. Guards the current
    /// one.
    fn is_replaced(&self, cx: &mut OpcodeExecutor<'_>, name: &str) -> Flow<bool> {
        let ty = self.python_type(&cx.trace);
        // The type is part of the tensor's own guards.
        let of = cx.trace.trackers.constant(ty.clone().unbind());
        let Some((held, tracker)) = object_model::lookup_in_type(cx, &ty, of, &name.into())? else { return Ok(false) };
        object_model::guard_identity(cx, &held, tracker);
        Ok(cx.runtime.backend().own_code().is_replaced(&held))
    }

    /// True if the type of tensors has a `__getattribute__` written in Python. Otherwise guards that this stays so.
    fn has_own_reads(&self, cx: &mut OpcodeExecutor<'_>) -> Flow<bool> {
        let ty = self.python_type(&cx.trace);
        let ty = ty.cast::<pyo3::types::PyType>().map_err(PyErr::from)?;
        if !cpython::uses_generic_getattr(ty) {
            return Ok(true);
        }
        let of = cx.trace.trackers.constant(ty.clone().into_any().unbind());
        if cpython::is_heap_type(ty) {
            cx.trace.guards.add(of, Test::PlainReads);
        }
        Ok(false)
    }

    fn call_method(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &str, args: &[VarId]) -> Flow<VarId> {
        let args = CallArgs::positional(std::iter::once(this).chain(args.iter().copied()).collect());
        if let Some(result) = call_registered(cx, &self.python_type(&cx.trace), name, &args)? {
            return Ok(result);
        }
        let callee = PyString::intern(cx.py, name).into_any();
        cx.call_graph(CallKind::Method, &callee, name, &args)
    }

    /// Returns the other operand of an operator method. A scalar of another library is replaced by the number that
    /// the backend takes it for.
    fn operand(&self, cx: &mut OpcodeExecutor<'_>, name: &str, other: VarId) -> Flow<VarId> {
        if self.takes_as_number(&cx.trace, name, other)? == Some(true) {
            let scalar = cx.trace.vars.get(other).python_type(&cx.trace);
            let item = scalar.getattr(intern!(cx.py, "item"))?;
            return Ok(cx.trace.number_of_scalar(&item, other)?.unwrap_or(other));
        }
        let Some(object) = cx.trace.vars.get(other).object().map(|object| object.bind(cx.py).clone()) else {
            return Ok(other);
        };
        let Some(number) = cx.runtime.backend().constants().number_for(&self.meta, name, &object) else {
            return Ok(other);
        };
        cx.see(other)?;
        Ok(cx.trace.constant(number))
    }

    /// For a scalar that differs from call to call: true if the operator takes it as the Python number of its method
    /// `item`, and false if it takes it as it is. `None` for other operands.
    fn takes_as_number(&self, trace: &Trace<'_>, name: &str, other: VarId) -> Flow<Option<bool>> {
        let Some(scalar) = trace.vars.as_kind::<ChangingScalar>(other) else { return Ok(None) };
        let scalar = scalar.value.bind(trace.py);
        let number = trace.runtime.backend().constants().number_for(&self.meta, name, scalar);
        Ok(number.map(|number| cpython::is_number(number.bind(trace.py))))
    }

    /// What a comparison with `None` gives, if that is the same for every tensor.
    fn compared_with_none(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, other: VarId) -> Flow<Option<VarId>> {
        if !matches!(op, CompareOp::Equal | CompareOp::NotEqual)
            || !cx.see(other)?.constant().is_some_and(|value| value.is_none(cx.py))
        {
            return Ok(None);
        }
        let Some(equal) = cx.runtime.backend().constants().equals_none() else { return Ok(None) };
        refuse_listed(cx, &self.python_type(&cx.trace), op.method())?;
        Ok(Some(cx.trace.boolean(equal == (op == CompareOp::Equal))))
    }

    /// True if the type of tensors has the operator method, and may accept the other operand.
    fn knows(&self, cx: &mut OpcodeExecutor<'_>, name: &str, other: VarId) -> Flow<bool> {
        let ty = self.python_type(&cx.trace);
        let ty = ty.cast::<pyo3::types::PyType>().map_err(PyErr::from)?;
        let known = cpython::type_lookup(ty, &PyString::intern(cx.py, name)).is_some();
        if cx.is_open_operand(other) || self.takes_as_number(&cx.trace, name, other)?.is_some() {
            return Ok(known);
        }
        let other = subclass::storage_of(cx, other)?.unwrap_or(other);
        let other = cx.see(other)?;
        let is_outside =
            other.object().is_some_and(|object| small_array::is_of_numbers(object.bind(cx.py)).unwrap_or(false));
        let is_operand = matches!(other.form(), Form::Tensor | Form::Array) || is_outside;
        Ok(known && (is_operand || other.constant().is_some_and(|value| !value.is_none(cx.py))))
    }
}

/// Calls a method of tensors by the builtin that the program has registered for it, if any.
fn call_registered(
    cx: &mut OpcodeExecutor<'_>,
    ty: &Bound<'_, PyAny>,
    name: &str,
    args: &CallArgs,
) -> Flow<Option<VarId>> {
    let ty = ty.cast::<pyo3::types::PyType>().map_err(PyErr::from)?;
    match cpython::type_lookup(ty, &PyString::intern(cx.py, name)) {
        Some(method) => cx.call_registered(None, &method.unbind().into_bound(cx.py), args),
        None => Ok(None),
    }
}

impl Variable for TensorVariable {
    fn kind(&self) -> &'static str {
        "tensor"
    }

    fn form(&self) -> Form {
        Form::Tensor
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        match &self.source {
            TensorSource::External(object) | TensorSource::Written(_, object) => {
                object.bind(trace.py).get_type().into_any()
            }
            TensorSource::Computed(_) => or_object_type(trace, trace.runtime.backend().tensor_type(trace.py)),
        }
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        match &self.source {
            TensorSource::External(_) => format!("TensorVariable({})", self.meta),
            TensorSource::Computed(symbol) | TensorSource::Written(symbol, _) => {
                format!("TensorVariable({}) {}", self.meta, trace.graph.name(*symbol))
            }
        }
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        match &self.source {
            TensorSource::External(object) => Some(object),
            TensorSource::Computed(_) | TensorSource::Written(..) => None,
        }
    }

    fn symbol(&self) -> Option<SymbolId> {
        match self.source {
            TensorSource::External(_) => None,
            TensorSource::Computed(symbol) | TensorSource::Written(symbol, _) => Some(symbol),
        }
    }

    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        if let TensorSource::External(object) = &self.source {
            let (object, least) = (object.bind(cx.py), cx.least_open_size());
            let test = cx.runtime.ask_backend(|backend| backend.tensor_test(object, &self.meta, least))?;
            cx.trace.guards.add(cx.trace.vars.tracker(this), Test::Object(test));
        }
        Ok(())
    }

    /// Hands on a result as the graph computed it, with a write of the attribute that cut it off from gradients: the
    /// program may take that back behind the break.
    fn live_on(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        if let Some(Connected { payload, name, value }) = &self.before {
            cx.trace.vars.set(this, Rc::clone(payload));
            cx.trace.effects.set_attribute(this, name, Some(*value));
        }
        Ok(())
    }

    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<GraphArgument> {
        let symbol = self.graph_symbol(cx, this)?;
        let text = cx.trace.graph.name(symbol).to_owned();
        Ok(GraphArgument { value: cx.trace.graph.value(symbol).unbind(), text, holds_tensor: true })
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        self.attribute(cx, this, name)
    }

    fn set_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name, value: Option<VarId>) -> Flow<()> {
        self.set_attribute(cx, this, name, value)
    }

    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<VarId> {
        if self.is_replaced(cx, "__getitem__")? {
            return object_model::call_special(cx, this, "__getitem__", &[key]);
        }
        let key = self.operand(cx, "__getitem__", key)?;
        self.call_method(cx, this, "__getitem__", &[key])
    }

    fn set_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId, value: VarId) -> Flow<()> {
        if self.is_replaced(cx, "__setitem__")? {
            return object_model::call_special(cx, this, "__setitem__", &[key, value]).map(drop);
        }
        refuse_listed(cx, &self.python_type(&cx.trace), "__setitem__")?;
        let key = self.operand(cx, "__setitem__", key)?;
        let callee = PyString::intern(cx.py, "__setitem__").into_any();
        cx.call_in_place(&callee, "__setitem__", &CallArgs::positional(vec![this, key, value])).map(drop)
    }

    fn del_item(&self, _: &mut OpcodeExecutor<'_>, _: VarId, _: VarId) -> Flow<()> {
        Err(Unwind::break_graph(ReasonId::UnsupportedMutation, "deleting from a tensor"))
    }

    fn len(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        if self.is_replaced(cx, "__len__")? {
            return object_model::len(cx, this);
        }
        match self.meta.shape.first() {
            Some(Some(n)) => cx.trace.integer(*n),
            Some(None) if cx.has_open_sizes() => self.size(cx, this, 0),
            _ => Err(Unwind::break_graph(ReasonId::TensorValue, "the length of a tensor is not known while tracing")),
        }
    }

    fn items(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Option<Vec<VarId>>> {
        let Some(Some(n)) = self.meta.shape.first().copied() else {
            let unknown = Unwind::break_graph(ReasonId::TensorValue, "iteration over a tensor of unknown length");
            return Err(cx.settle_sizes(unknown));
        };
        let items = (0..n).map(|index| {
            let index = cx.trace.integer(index)?;
            self.get_item(cx, this, index)
        });
        items.collect::<Flow<Vec<_>>>().map(Some)
    }

    fn iter(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        if self.is_replaced(cx, "__iter__")? || self.is_replaced(cx, "__len__")? {
            return object_model::iter(cx, this);
        }
        match self.meta.shape.first() {
            Some(Some(_)) => Ok(SequenceIterator::over_rows(cx, this)),
            _ => {
                let items = self.items(cx, this)?.unwrap_or_default();
                let items = cx.trace.tuple(items);
                cx.iter(items)
            }
        }
    }

    fn special(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &str) -> Flow<Option<VarId>> {
        if self.is_replaced(cx, name)? {
            return Ok(None);
        }
        let method = |answer| TensorMethodVariable::new(&name.into(), this, MethodEffect::KnownResult(answer));
        Ok(self.answer(cx, name)?.map(|answer| cx.trace.produce(method(answer))))
    }

    fn truth(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<bool> {
        if self.is_replaced(cx, "__bool__")? {
            return object_model::truth(cx, this);
        }
        if let Some(answer) = self.answer(cx, "__bool__")? {
            let answer = known_result(cx, &answer)?;
            return cx.truth(answer);
        }
        Err(Unwind::break_graph(ReasonId::TensorTruth, "a branch depends on the value of a tensor"))
    }

    fn contains(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, item: VarId) -> Flow<VarId> {
        if self.is_replaced(cx, "__contains__")? {
            return object_model::contains(cx, this, item);
        }
        Err(Unwind::break_graph(ReasonId::TensorValue, "membership in a tensor"))
    }

    fn binary(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        op: BinaryOp,
        this: VarId,
        other: VarId,
        reflected: bool,
    ) -> Flow<Option<VarId>> {
        let name = if reflected { op.reflected() } else { op.method() };
        if self.is_replaced(cx, name)? {
            return object_model::binary(cx, op, this, other, reflected);
        }
        let other = self.operand(cx, name, other)?;
        if !self.knows(cx, name, other)? {
            let text = format!("'{}' between a tensor and {}", op.symbol(), cx.trace.text(other));
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
        }
        self.call_method(cx, this, name, &[other]).map(Some)
    }

    fn inplace(&self, cx: &mut OpcodeExecutor<'_>, op: BinaryOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        if self.is_replaced(cx, &op.inplace())? {
            return object_model::inplace(cx, op, this, other);
        }
        let other = self.operand(cx, &op.inplace(), other)?;
        if self.knows(cx, &op.inplace(), other)? {
            let name = op.inplace();
            let value = self.value(&cx.trace);
            let means = cx.runtime.ask_backend(|backend| backend.tensor_attribute(cx.py, &name, &self.meta, &value))?;
            if matches!(means, TensorAttribute::InPlace(Returns::It)) {
                let callee = PyString::intern(cx.py, &name).into_any();
                return cx.call_in_place(&callee, &name, &CallArgs::positional(vec![this, other])).map(Some);
            }
            let text = format!("'{}=' changes a tensor in place", op.symbol());
            return Err(Unwind::break_graph(ReasonId::UnsupportedMutation, text));
        }
        Ok(None)
    }

    fn unary(&self, cx: &mut OpcodeExecutor<'_>, op: UnaryOp, this: VarId) -> Flow<VarId> {
        if self.is_replaced(cx, op.method())? {
            return object_model::call_special(cx, this, op.method(), &[]);
        }
        self.call_method(cx, this, op.method(), &[])
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        if self.is_replaced(cx, op.method())? {
            return object_model::compare(cx, op, this, other);
        }
        let other = self.operand(cx, op.method(), other)?;
        if !cx.is_open_operand(other) {
            if let Some(answer) = self.compared_with_none(cx, op, other)? {
                return Ok(Some(answer));
            }
        }
        if !self.knows(cx, op.method(), other)? {
            let text = format!("'{}' between a tensor and {}", op.symbol(), cx.trace.text(other));
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
        }
        self.call_method(cx, this, op.method(), &[other]).map(Some)
    }
}
