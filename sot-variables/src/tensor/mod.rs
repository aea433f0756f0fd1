//! Tensors: inputs of the graph and results in it. What an attribute or operator means is the backend's to say; every
//! operation is one statement.

mod method;
pub mod shape;
pub mod state_manager;
pub mod tensor_text;

use std::any::Any;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyString;
use sot_core::backend::{CallKind, Returns, TensorAttribute, TensorMeta, WrittenAttribute};
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, BinaryOp, CallArgs, CompareOp, Name, OpcodeExecutor, UnaryOp};
use sot_core::graph::SymbolId;
use sot_core::guard::Test;
use sot_core::runtime::Runtime;
use sot_core::tracker::{Tracker, TrackerId};
use sot_core::variable::{Form, GraphArgument, VarId, Variable};

use crate::classes::subclass;
use crate::numpy::small_array;
use crate::tensor::method::{Does, TensorMethodVariable};
use crate::tensor::shape::ShapeVariable;
use crate::tensor::tensor_text::TensorText;

sot_core::variable_kind! { "tensor", rank: 300, when: is_tensor, wrap: TensorVariable::wrap }

fn is_tensor(object: &Bound<'_, PyAny>) -> bool {
    Runtime::get().is_some_and(|runtime| runtime.backend.is_tensor(object))
}

enum TensorSource {
    External(Py<PyAny>),
    Computed(SymbolId),
    /// From outside, changed in place.
    Written(SymbolId, Py<PyAny>),
}

/// A tensor.
pub struct TensorVariable {
    source: TensorSource,
    meta: TensorMeta,
    /// Whether it is from outside, and the trace has changed whether gradients flow to it: the graph would take it as
    /// it was.
    is_switched: bool,
}

impl TensorVariable {
    /// A result of the graph.
    pub fn computed(symbol: SymbolId, meta: TensorMeta) -> Self {
        TensorVariable { source: TensorSource::Computed(symbol), meta, is_switched: false }
    }

    /// A tensor from outside that was changed in place; `before` is it as it was.
    pub fn written(py: Python<'_>, symbol: SymbolId, meta: TensorMeta, before: Rc<dyn Variable>) -> Rc<dyn Variable> {
        let before: Rc<dyn Any> = before;
        let source = match before.downcast_ref::<TensorVariable>().map(|tensor| &tensor.source) {
            Some(TensorSource::External(object) | TensorSource::Written(_, object)) => {
                TensorSource::Written(symbol, object.clone_ref(py))
            }
            Some(TensorSource::Computed(_)) | None => TensorSource::Computed(symbol),
        };
        Rc::new(TensorVariable { source, meta, is_switched: false })
    }

    /// What is known of it.
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
            is_switched: false,
        }))
    }

    fn is_computed(&self) -> bool {
        matches!(self.source, TensorSource::Computed(_))
    }

    /// The tensor itself, or its value in the graph.
    fn value<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        match &self.source {
            TensorSource::External(object) => object.bind(cx.py).clone(),
            TensorSource::Computed(symbol) | TensorSource::Written(symbol, _) => cx.graph.value(*symbol),
        }
    }

    fn graph_symbol(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<SymbolId> {
        match &self.source {
            TensorSource::Computed(symbol) | TensorSource::Written(symbol, _) => Ok(*symbol),
            TensorSource::External(_) if self.is_switched => {
                let changed = self.meta.gradient.attribute.map_or("flow of gradients", |(name, _)| name);
                let text = format!("a tensor from outside is used whose {changed} was changed before");
                Err(Unwind::break_graph(ReasonId::UnsupportedMutation, text))
            }
            TensorSource::External(object) => {
                let object = object.bind(cx.py).clone();
                cx.graph_input(this, &object, &self.meta)
            }
        }
    }

    /// Whether the program has put something of its own in the type of tensors, under the name of an attribute or
    /// special method. What the type holds there is assumed to stay.
    fn is_replaced(&self, cx: &mut OpcodeExecutor<'_>, name: &str) -> Flow<bool> {
        let ty = self.python_type(cx);
        // That it has this type is among the guards of a tensor.
        let of = cx.constant_tracker(ty.clone().unbind());
        let Some((held, tracker)) = object_model::lookup_in_type(cx, &ty, of, &name.into())? else { return Ok(false) };
        object_model::guard_identity(cx, &held, tracker);
        Ok(cx.runtime.backend.own_code().is_replaced(&held))
    }

    /// Whether reading attributes of tensors runs a function of the program's; that it does not is assumed to stay.
    fn has_own_reads(&self, cx: &mut OpcodeExecutor<'_>) -> Flow<bool> {
        let ty = self.python_type(cx);
        let ty = ty.cast::<pyo3::types::PyType>().map_err(PyErr::from)?;
        if !cpython::uses_generic_getattr(ty) {
            return Ok(true);
        }
        let of = cx.constant_tracker(ty.clone().into_any().unbind());
        if cpython::is_heap_type(ty) {
            cx.guards.add(of, Test::PlainReads);
        }
        Ok(false)
    }

    fn call_method(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &str, args: &[VarId]) -> Flow<VarId> {
        let args = CallArgs::positional(std::iter::once(this).chain(args.iter().copied()).collect());
        if let Some(result) = call_registered(cx, &self.python_type(cx), name, &args)? {
            return Ok(result);
        }
        let callee = PyString::intern(cx.py, name).into_any();
        cx.call_graph(CallKind::Method, &callee, name, &args)
    }

    /// All sizes, as an object of type `ty`.
    fn shape(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, ty: Py<PyAny>) -> Flow<VarId> {
        let items = (0..self.meta.shape.len()).map(|axis| self.size(cx, this, axis)).collect::<Flow<Vec<_>>>()?;
        Ok(ShapeVariable::make(cx, ty, items))
    }

    /// One size, which may be open.
    fn size(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, axis: usize) -> Flow<VarId> {
        if let Some(size) = self.meta.shape[axis] {
            return cx.integer(size);
        }
        let tensor = self.as_it_is(cx, this);
        Ok(cx.open_size(tensor, axis))
    }

    /// How many elements there are, where some sizes are open.
    fn elements(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name, ty: Py<PyAny>) -> Flow<VarId> {
        let tensor = self.as_it_is(cx, this);
        let mut product = cx.integer(self.meta.shape.iter().flatten().product())?;
        for (axis, _) in self.meta.shape.iter().enumerate().filter(|(_, size)| size.is_none()) {
            let size = cx.open_size(tensor, axis);
            product = cx.binary(BinaryOp::Multiply, product, size)?;
        }
        Ok(cx.open_elements(tensor, name, product, ty))
    }

    /// A variable of the tensor that a later write in place does not change, which may give it another shape.
    fn as_it_is(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> VarId {
        match &self.source {
            TensorSource::External(_) => this,
            TensorSource::Computed(symbol) | TensorSource::Written(symbol, _) => {
                cx.produce(Rc::new(TensorVariable::computed(*symbol, self.meta.clone())))
            }
        }
    }

    /// What C code keeps beside the value of a tensor from outside, on which no write in place has a bearing.
    fn beside_the_value(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<VarId> {
        match &self.source {
            TensorSource::Written(_, object) if !cx.effects.is_written(this) => {
                let value = object.bind(cx.py).getattr(&**name)?;
                let of = cx.vars.tracker(this);
                let tracker = cx.trackers.add(Tracker::Getattr { of, name: Rc::clone(name) });
                cx.guards.require(tracker);
                Ok(cx.wrap(&value, tracker))
            }
            _ => {
                let text = format!("attribute '{name}' of a tensor that was changed");
                Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, text))
            }
        }
    }

    /// Whether a copy of it has nothing from it but its value: of a tensor from outside the attribute `kept` tells.
    fn copies_plainly(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, kept: &str) -> Flow<bool> {
        match &self.source {
            TensorSource::Computed(_) => Ok(true),
            TensorSource::Written(..) => Ok(false),
            TensorSource::External(object) if cx.runtime.backend.is_parameter(object.bind(cx.py)) => Ok(false),
            TensorSource::External(_) => {
                let kept = object_model::generic_get_attr(cx, this, &Rc::from(kept))?;
                Ok(match kept {
                    Some(kept) => !cx.truth(kept)?,
                    None => true,
                })
            }
        }
    }

    /// What a method gives, where that is known before the graph runs.
    fn answer(&self, cx: &mut OpcodeExecutor<'_>, method: &str) -> Flow<Option<Py<PyAny>>> {
        let Some(symbol) = self.symbol() else { return Ok(None) };
        let answer = cx.graph.answer(symbol, method)?;
        if answer.is_some() {
            refuse_listed(cx, &self.python_type(cx), method)?;
        }
        Ok(answer)
    }

    /// Writes an attribute that says whether gradients flow through the tensor. Gradients that begin at a result of the
    /// graph end the graph. To a tensor from outside the attribute is written when the graph has run; its use in
    /// between ends the graph.
    fn set_gradient(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        this: VarId,
        (name, value): (&Name, VarId),
        (flows, stopped_by): (bool, &str),
    ) -> Flow<bool> {
        if flows == self.meta.gradient.flows {
            return Ok(true);
        }
        match &self.source {
            TensorSource::Computed(_) if !flows => {
                let stopped = self.call_method(cx, this, stopped_by, &[])?;
                let payload = cx.vars.get(stopped);
                cx.vars.set(this, payload);
            }
            TensorSource::External(object) => {
                let source = TensorSource::External(object.clone_ref(cx.py));
                let meta = TensorMeta { gradient: self.meta.gradient.with(flows), ..self.meta.clone() };
                cx.effects.set_attribute(this, name, Some(value));
                cx.vars.set(this, Rc::new(TensorVariable { source, meta, is_switched: true }));
            }
            TensorSource::Computed(_) | TensorSource::Written(..) => return Ok(false),
        }
        Ok(true)
    }

    /// Whether the program has put something on the tensor by the name of a method.
    fn hides(&self, cx: &OpcodeExecutor<'_>, name: &str) -> Flow<bool> {
        let TensorSource::External(object) = &self.source else { return Ok(false) };
        Ok(cpython::instance_dict(object.bind(cx.py)).map_or(Ok(false), |own| own.contains(name))?)
    }

    /// Whether what is written to the attribute goes through a property in Python, or is put by that name on a tensor
    /// from outside or on one that no other stands for when the graph has run.
    fn is_settable(&self, cx: &OpcodeExecutor<'_>, name: &str) -> Flow<bool> {
        let ty = self.python_type(cx);
        let ty = ty.cast::<pyo3::types::PyType>().map_err(PyErr::from)?;
        let found = cpython::type_lookup(ty, &PyString::intern(cx.py, name));
        let is_property = found.as_ref().is_some_and(|found| cpython::builtin_type_name(found) == "property");
        Ok(is_property || found.is_none() && self.is_one(cx))
    }

    /// Whether it is there when the graph has run, and no other tensor stands for it.
    fn is_one(&self, cx: &OpcodeExecutor<'_>) -> bool {
        match self.source {
            TensorSource::External(_) => true,
            TensorSource::Computed(symbol) => cx.graph.is_first(symbol),
            TensorSource::Written(..) => false,
        }
    }

    /// Whether the attribute is a method of the tensor's type.
    fn has_method(&self, cx: &OpcodeExecutor<'_>, name: &str) -> Flow<bool> {
        let ty = self.python_type(cx);
        let ty = ty.cast::<pyo3::types::PyType>().map_err(PyErr::from)?;
        let found = cpython::type_lookup(ty, &PyString::intern(cx.py, name));
        Ok(found.is_some_and(|found| matches!(&*cpython::builtin_type_name(&found), "function" | "method_descriptor")))
    }

    /// The other operand of an operator method: in the place of another library's number the one that it is taken for.
    fn operand(&self, cx: &mut OpcodeExecutor<'_>, name: &str, other: VarId) -> Flow<VarId> {
        let Some(object) = cx.vars.get(other).object().map(|object| object.bind(cx.py).clone()) else {
            return Ok(other);
        };
        let Some(number) = cx.runtime.backend.constants().number_for(&self.meta, name, &object) else {
            return Ok(other);
        };
        cx.see(other)?;
        Ok(cx.constant(number))
    }

    /// Whether the framework's tensors have an operator method at all, and the other operand is something it may know.
    fn knows(&self, cx: &mut OpcodeExecutor<'_>, name: &str, other: VarId) -> Flow<bool> {
        let ty = self.python_type(cx);
        let ty = ty.cast::<pyo3::types::PyType>().map_err(PyErr::from)?;
        let known = cpython::type_lookup(ty, &PyString::intern(cx.py, name)).is_some();
        if cx.is_open_operand(other) {
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

/// Calls a method of tensors as the program has registered it, if it has.
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

/// Breaks the graph at a method of tensors that is on the user's break list.
fn refuse_listed(cx: &mut OpcodeExecutor<'_>, ty: &Bound<'_, PyAny>, name: &str) -> Flow<()> {
    let ty = ty.cast::<pyo3::types::PyType>().map_err(PyErr::from)?;
    match cpython::type_lookup(ty, &PyString::intern(cx.py, name)) {
        Some(method) => cx.refuse_listed(&method.unbind().into_bound(cx.py)),
        None => Ok(()),
    }
}

impl Variable for TensorVariable {
    fn kind(&self) -> &'static str {
        "tensor"
    }

    fn form(&self) -> Form {
        Form::Tensor
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        match &self.source {
            TensorSource::External(object) | TensorSource::Written(_, object) => {
                object.bind(cx.py).get_type().into_any()
            }
            TensorSource::Computed(_) => {
                cx.runtime.backend.tensor_type(cx.py).unwrap_or_else(|_| cx.py.None().into_bound(cx.py))
            }
        }
    }

    fn text(&self, cx: &OpcodeExecutor<'_>) -> String {
        match &self.source {
            TensorSource::External(_) => format!("TensorVariable({})", self.meta),
            TensorSource::Computed(symbol) | TensorSource::Written(symbol, _) => {
                format!("TensorVariable({}) {}", self.meta, cx.graph.name(*symbol))
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
            let (object, least) = (object.bind(cx.py), cx.sizes.least());
            let test = cx.runtime.ask_backend(|backend| backend.tensor_test(object, &self.meta, least))?;
            cx.guards.add(cx.vars.tracker(this), Test::Object(test));
        }
        Ok(())
    }

    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<GraphArgument> {
        let symbol = self.graph_symbol(cx, this)?;
        let text = cx.graph.name(symbol).to_owned();
        Ok(GraphArgument { value: cx.graph.value(symbol).unbind(), text, holds_tensor: true })
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        if let ("name", Some(Some(written))) = (&**name, cx.effects.attribute(this, name)) {
            return Ok(Some(written));
        }
        if self.is_replaced(cx, name)? || self.has_own_reads(cx)? {
            return object_model::get_attr(cx, this, name);
        }
        let value = self.value(cx);
        match cx.runtime.ask_backend(|backend| backend.tensor_attribute(cx.py, name, &self.meta, &value))? {
            TensorAttribute::Known(value) => {
                let value = value.into_bound(cx.py);
                cx.wrap_fresh(&value).map(Some)
            }
            TensorAttribute::Method if self.hides(cx, name)? => object_model::generic_get_attr(cx, this, name),
            TensorAttribute::Becoming if self.is_computed() => {
                Ok(Some(cx.produce(TensorMethodVariable::new(name, this, Does::Become))))
            }
            TensorAttribute::Method | TensorAttribute::Becoming => {
                Ok(Some(cx.produce(TensorMethodVariable::new(name, this, Does::Compute))))
            }
            TensorAttribute::Copy { by, unless } => {
                let does = if self.copies_plainly(cx, this, unless)? {
                    Does::Copy(by)
                } else {
                    Does::Break(format!("Tensor.{name} of a parameter, or of a tensor that was changed"))
                };
                Ok(Some(cx.produce(TensorMethodVariable::new(name, this, does))))
            }
            TensorAttribute::InPlace(returns) => {
                Ok(Some(cx.produce(TensorMethodVariable::new(name, this, Does::Change(returns)))))
            }
            TensorAttribute::Operation => {
                let getattr = cpython::import(cx.py, "builtins")?.getattr("getattr")?;
                let attribute = cx.string(name);
                cx.call_graph(CallKind::Api, &getattr, "getattr", &CallArgs::positional(vec![this, attribute]))
                    .map(Some)
            }
            TensorAttribute::Text { why, prepare } => TensorText::of(cx, this, name, why, prepare).map(Some),
            TensorAttribute::Sizes(ty) if cx.sizes.are_open() => self.shape(cx, this, ty).map(Some),
            TensorAttribute::Elements(ty) if cx.sizes.are_open() => self.elements(cx, this, name, ty).map(Some),
            TensorAttribute::Sizes(_) | TensorAttribute::Elements(_) => {
                let why = format!("Tensor.{name} is known only when the graph has run");
                Err(Unwind::break_graph(ReasonId::TensorValue, why))
            }
            TensorAttribute::OpenSizes(why) => Err(cx.settle_sizes(Unwind::break_graph(ReasonId::TensorValue, why))),
            // Only the call of a method needs the tensor: the break comes there.
            TensorAttribute::Break(why) if self.has_method(cx, name)? => {
                let does = self.answer(cx, name)?.map_or(Does::Break(why), Does::Know);
                Ok(Some(cx.produce(TensorMethodVariable::new(name, this, does))))
            }
            TensorAttribute::Follow => object_model::generic_get_attr(cx, this, name),
            TensorAttribute::Outside { .. } if self.object().is_some() => {
                object_model::generic_get_attr(cx, this, name)
            }
            TensorAttribute::Outside { .. } if matches!(self.source, TensorSource::Written(..)) => {
                self.beside_the_value(cx, this, name).map(Some)
            }
            TensorAttribute::Outside { of_result: Some(known), .. }
                if matches!(self.source, TensorSource::Computed(_)) =>
            {
                cx.wrap_fresh(known.bind(cx.py)).map(Some)
            }
            TensorAttribute::Break(why) | TensorAttribute::Outside { why, .. } => {
                Err(Unwind::break_graph(ReasonId::TensorValue, why))
            }
            TensorAttribute::Missing => match &self.source {
                // What the program, or the class of parameters, has put on it.
                TensorSource::External(_) | TensorSource::Computed(_) => object_model::generic_get_attr(cx, this, name),
                TensorSource::Written(..) => {
                    let why = format!("attribute '{name}' of a tensor that was changed in place");
                    Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, why))
                }
            },
        }
    }

    fn set_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name, value: Option<VarId>) -> Flow<()> {
        let known = value.map(|value| cx.known(value)).transpose()?.flatten();
        match (cx.runtime.backend.eager_tensors().written_attribute(name, known.as_ref())?, value) {
            (WrittenAttribute::Gradient { flows, stopped_by }, Some(value))
                if self.set_gradient(cx, this, (name, value), (flows, stopped_by))? =>
            {
                return Ok(());
            }
            (WrittenAttribute::OfOutside, Some(_)) if self.object().is_some() => {
                cx.effects.set_attribute(this, name, value);
                return Ok(());
            }
            (WrittenAttribute::OfOneObject, Some(_)) if self.is_one(cx) => {
                cx.effects.set_attribute(this, name, value);
                return Ok(());
            }
            _ if self.is_settable(cx, name)? => return object_model::set_attr(cx, this, name, value),
            _ => {}
        }
        Err(Unwind::break_graph(ReasonId::UnsupportedMutation, format!("writing attribute '{name}' of a tensor")))
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
        refuse_listed(cx, &self.python_type(cx), "__setitem__")?;
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
            Some(Some(n)) => cx.integer(*n),
            Some(None) if cx.sizes.are_open() => self.size(cx, this, 0),
            _ => Err(Unwind::break_graph(ReasonId::TensorValue, "the length of a tensor is not known while tracing")),
        }
    }

    fn items(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Option<Vec<VarId>>> {
        let Some(Some(n)) = self.meta.shape.first().copied() else {
            let unknown = Unwind::break_graph(ReasonId::TensorValue, "iteration over a tensor of unknown length");
            return Err(cx.settle_sizes(unknown));
        };
        let items = (0..n).map(|index| {
            let index = cx.integer(index)?;
            self.get_item(cx, this, index)
        });
        items.collect::<Flow<Vec<_>>>().map(Some)
    }

    fn iter(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        if self.is_replaced(cx, "__iter__")? || self.is_replaced(cx, "__len__")? {
            return object_model::iter(cx, this);
        }
        let items = self.items(cx, this)?.unwrap_or_default();
        let items = cx.tuple(items);
        cx.iter(items)
    }

    fn special(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &str) -> Flow<Option<VarId>> {
        if self.is_replaced(cx, name)? {
            return Ok(None);
        }
        let method = |answer| TensorMethodVariable::new(&name.into(), this, Does::Know(answer));
        Ok(self.answer(cx, name)?.map(|answer| cx.produce(method(answer))))
    }

    fn truth(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<bool> {
        if self.is_replaced(cx, "__bool__")? {
            return object_model::truth(cx, this);
        }
        if let Some(answer) = self.answer(cx, "__bool__")? {
            return Ok(answer.is_truthy(cx.py)?);
        }
        Err(Unwind::break_graph(ReasonId::TensorTruth, "the truth of a tensor decides where the program goes"))
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
            let text = format!("'{}' between a tensor and {}", op.symbol(), cx.text(other));
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
            let value = self.value(cx);
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
        if !self.knows(cx, op.method(), other)? {
            let text = format!("'{}' between a tensor and {}", op.symbol(), cx.text(other));
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
        }
        self.call_method(cx, this, op.method(), &[other]).map(Some)
    }
}
