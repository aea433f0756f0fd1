//! Attributes of tensors. The backend decides what reading and writing an attribute means.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use sot_core::backend::{CallKind, KnownResult, TensorAttribute, TensorMeta, WrittenAttribute};
use sot_core::cpython::{self, DescriptorKind};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, BinaryOp, CallArgs, Name, OpcodeExecutor, Trace};
use sot_core::tracker::Tracker;
use sot_core::variable::{VarId, Variable};

use crate::tensor::method::{MethodEffect, TensorMethodVariable};
use crate::tensor::shape::ShapeVariable;
use crate::tensor::tensor_text::TensorText;
use crate::tensor::{switch_gradient, Connected, Switch, TensorSource, TensorVariable};

impl TensorVariable {
    /// Reads an attribute.
    pub(super) fn attribute(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        if let ("name", Some(Some(written))) = (&**name, cx.trace.effects.attribute(this, name)) {
            return Ok(Some(written));
        }
        if self.is_replaced(cx, name)? || self.has_own_reads(cx)? {
            return object_model::get_attr(cx, this, name);
        }
        let value = self.value(&cx.trace);
        match cx.runtime.ask_backend(|backend| backend.tensor_attribute(cx.py, name, &self.meta, &value))? {
            TensorAttribute::Known(value) => {
                let value = value.into_bound(cx.py);
                cx.wrap_fresh(&value).map(Some)
            }
            TensorAttribute::Method if self.hides(&cx.trace, name)? => object_model::generic_get_attr(cx, this, name),
            TensorAttribute::Becoming if self.is_computed() => {
                Ok(Some(cx.trace.produce(TensorMethodVariable::new(name, this, MethodEffect::ReplaceReceiver))))
            }
            TensorAttribute::Method | TensorAttribute::Becoming => {
                Ok(Some(cx.trace.produce(TensorMethodVariable::new(name, this, MethodEffect::RecordStatement))))
            }
            TensorAttribute::Copy { by, unless } => {
                let effect = if self.copies_plainly(cx, this, unless)? {
                    MethodEffect::CopyTensor(by)
                } else {
                    MethodEffect::BreakGraph(format!("Tensor.{name} of a parameter, or of a tensor that was changed"))
                };
                Ok(Some(cx.trace.produce(TensorMethodVariable::new(name, this, effect))))
            }
            TensorAttribute::InPlace(returns) => {
                Ok(Some(cx.trace.produce(TensorMethodVariable::new(name, this, MethodEffect::ChangeInPlace(returns)))))
            }
            TensorAttribute::Operation => {
                let getattr = cpython::builtin(cx.py, "getattr")?;
                let attribute = cx.trace.string(name);
                cx.call_graph(CallKind::Api, &getattr, "getattr", &CallArgs::positional(vec![this, attribute]))
                    .map(Some)
            }
            // The text of a parameter is there before the graph runs, and a change of its numbers does not affect it.
            TensorAttribute::Text { .. } if self.is_written_parameter(&cx.trace) => {
                self.beside_the_value(cx, this, name).map(Some)
            }
            TensorAttribute::Text { why, prepare } => TensorText::of(cx, this, name, why, prepare).map(Some),
            TensorAttribute::Sizes(ty) if cx.has_open_sizes() => self.shape(cx, this, ty).map(Some),
            TensorAttribute::Elements(ty) if cx.has_open_sizes() => self.elements(cx, this, name, ty).map(Some),
            TensorAttribute::Sizes(_) | TensorAttribute::Elements(_) => {
                let why = format!("Tensor.{name} is known only when the graph has run");
                Err(Unwind::break_graph(ReasonId::TensorValue, why))
            }
            TensorAttribute::OpenSizes(why) => Err(cx.settle_sizes(Unwind::break_graph(ReasonId::TensorValue, why))),
            // Only a call of the method needs the tensor, so the break is left to the call.
            TensorAttribute::Break(why) if self.has_method(&cx.trace, name)? => {
                let effect = self.answer(cx, name)?.map_or(MethodEffect::BreakGraph(why), MethodEffect::KnownResult);
                Ok(Some(cx.trace.produce(TensorMethodVariable::new(name, this, effect))))
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
            TensorAttribute::Missing => self.attribute_of_program(cx, this, name),
        }
    }

    /// Reads an attribute that the framework's class does not have: the program or a parameter class has set it, or
    /// a parameter class has a property of that name, whose getter is followed.
    fn attribute_of_program(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        if matches!(self.source, TensorSource::Written(..)) && !self.has_property(cx, this, name)? {
            let why = format!("attribute '{name}' of a tensor that was changed in place");
            return Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, why));
        }
        object_model::generic_get_attr(cx, this, name)
    }

    /// True if the tensor's class has a property of Python under the name.
    fn has_property(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<bool> {
        let found = object_model::lookup(cx, this, name)?;
        Ok(found.is_some_and(|(found, _)| DescriptorKind::of(&found) == DescriptorKind::Property))
    }

    /// Writes an attribute, or deletes it.
    pub(super) fn set_attribute(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        this: VarId,
        name: &Name,
        value: Option<VarId>,
    ) -> Flow<()> {
        let known = value.map(|value| cx.known(value)).transpose()?.flatten();
        match (cx.runtime.backend().eager_tensors().written_attribute(name, known.as_ref())?, value) {
            (WrittenAttribute::Gradient { flows, stopped_by, switched_by }, Some(value))
                if self.set_gradient(cx, this, (name, value), flows, (stopped_by, &switched_by))? =>
            {
                return Ok(());
            }
            (WrittenAttribute::OfOutside { if_true }, Some(_)) if self.takes_outside(cx, this, if_true)? => {
                cx.trace.effects.set_attribute(this, name, value);
                return Ok(());
            }
            (WrittenAttribute::OfOneObject, Some(_)) if self.is_one(&cx.trace) => {
                cx.trace.effects.set_attribute(this, name, value);
                return Ok(());
            }
            _ if self.is_settable(&cx.trace, name)? => return object_model::set_attr(cx, this, name, value),
            _ => {}
        }
        Err(Unwind::break_graph(ReasonId::UnsupportedMutation, format!("writing attribute '{name}' of a tensor")))
    }

    /// Returns all sizes, as an object of type `ty`.
    fn shape(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, ty: Py<PyAny>) -> Flow<VarId> {
        let items = (0..self.meta.shape.len()).map(|axis| self.size(cx, this, axis)).collect::<Flow<Vec<_>>>()?;
        Ok(ShapeVariable::make(cx, ty, items))
    }

    /// Returns the size of an axis, which may be an open number.
    pub(super) fn size(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, axis: usize) -> Flow<VarId> {
        if let Some(size) = self.meta.shape[axis] {
            return cx.trace.integer(size);
        }
        let tensor = self.as_it_is(cx, this);
        Ok(cx.trace.open_size(tensor, axis))
    }

    /// Returns the product of the sizes of these dimensions.
    pub(super) fn product_of_sizes(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, axes: &[usize]) -> Flow<VarId> {
        let known: i64 = axes.iter().filter_map(|axis| self.meta.shape[*axis]).product();
        let mut product = if known == 1 { None } else { Some(cx.trace.integer(known)?) };
        for axis in axes.iter().filter(|axis| self.meta.shape[**axis].is_none()) {
            let size = self.size(cx, this, *axis)?;
            product = Some(product.map_or(Ok(size), |product| cx.binary(BinaryOp::Multiply, product, size))?);
        }
        product.map_or_else(|| cx.trace.integer(known), Ok)
    }

    /// Returns the number of elements, where some sizes are open.
    fn elements(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name, ty: Py<PyAny>) -> Flow<VarId> {
        let tensor = self.as_it_is(cx, this);
        let axes: Vec<usize> = (0..self.meta.shape.len()).collect();
        let product = self.product_of_sizes(cx, tensor, &axes)?;
        Ok(cx.trace.open_elements(tensor, name, product, ty))
    }

    /// Returns a variable of the tensor's current value, which a later change in place, even of the shape, does not
    /// affect.
    pub(super) fn as_it_is(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> VarId {
        match &self.source {
            TensorSource::External(_) => this,
            TensorSource::Computed(symbol) | TensorSource::Written(symbol, _) => {
                cx.trace.produce(Rc::new(TensorVariable::computed(*symbol, self.meta.clone())))
            }
        }
    }

    /// Reads an attribute of a tensor from outside that is stored beside its value and is not affected by changes in
    /// place.
    fn beside_the_value(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<VarId> {
        match &self.source {
            TensorSource::Written(_, object) if !cx.trace.effects.is_written(this) => {
                let value = object.bind(cx.py).getattr(&**name)?;
                let of = cx.trace.vars.tracker(this);
                let tracker = cx.trace.trackers.add(Tracker::Getattr { of, name: Rc::clone(name) });
                cx.trace.guards.require(tracker);
                Ok(cx.trace.wrap(&value, tracker))
            }
            _ => {
                let text = format!("attribute '{name}' of a tensor that was changed");
                Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, text))
            }
        }
    }

    /// True for a parameter from outside that was changed in place.
    fn is_written_parameter(&self, trace: &Trace<'_>) -> bool {
        match &self.source {
            TensorSource::Written(_, object) => trace.runtime.backend().is_parameter(object.bind(trace.py)),
            TensorSource::External(_) | TensorSource::Computed(_) => false,
        }
    }

    /// True if a copy of the tensor shares nothing with it besides the value. For a tensor from outside, that is so
    /// if the attribute `kept` is false.
    fn copies_plainly(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, kept: &str) -> Flow<bool> {
        match &self.source {
            TensorSource::Computed(_) => Ok(true),
            TensorSource::Written(..) => Ok(false),
            TensorSource::External(object) if cx.runtime.backend().is_parameter(object.bind(cx.py)) => Ok(false),
            TensorSource::External(_) => {
                let kept = object_model::generic_get_attr(cx, this, &Rc::from(kept))?;
                Ok(match kept {
                    Some(kept) => !cx.truth(kept)?,
                    None => true,
                })
            }
        }
    }

    /// Returns the result of a method that is known before the graph runs.
    pub(super) fn answer(&self, cx: &mut OpcodeExecutor<'_>, method: &str) -> Flow<Option<KnownResult>> {
        let Some(symbol) = self.symbol() else { return Ok(None) };
        let answer = cx.trace.graph.answer(symbol, method)?;
        if answer.is_some() {
            refuse_listed(cx, &self.python_type(&cx.trace), method)?;
        }
        Ok(answer)
    }

    /// Writes an attribute that controls whether gradients flow through the tensor, or begin at it. Returns false, for
    /// a graph break, if the tensor was written to in place. For a tensor from outside the write is replayed after the
    /// graph has run, and is a statement of the graph if the tensor is used in between.
    fn set_gradient(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        this: VarId,
        (name, value): (&Name, VarId),
        flows: bool,
        (stopped_by, switched_by): (&str, &Py<PyAny>),
    ) -> Flow<bool> {
        if flows == self.meta.gradient.flows {
            return Ok(true);
        }
        match &self.source {
            TensorSource::Computed(_) if flows && cx.trace.raised.step_of(this).is_some() => match &self.before {
                Some(Connected { payload, .. }) => cx.trace.vars.set(this, Rc::clone(payload)),
                // It was written to meanwhile.
                None => return Err(cx.plan_to_make(this, "is cut off from gradients and connected again")),
            },
            TensorSource::Computed(_) => {
                let present = cx.trace.vars.get(this);
                let switched = if flows {
                    switch_gradient(cx, this, flows, switched_by)?
                } else {
                    self.call_method(cx, this, stopped_by, &[])?
                };
                let Some(switched) = cx.trace.vars.as_kind::<TensorVariable>(switched) else { return Ok(false) };
                let Some(symbol) = switched.symbol() else { return Ok(false) };
                let meta = switched.meta.clone();
                let is_kept = !flows && self.is_one(&cx.trace);
                let before = is_kept.then(|| Connected { payload: present, name: Rc::clone(name), value });
                let source = TensorSource::Computed(symbol);
                cx.note_step(this);
                cx.trace.vars.set(this, Rc::new(TensorVariable { source, meta, switch: Switch::None, before }));
            }
            TensorSource::External(object) => {
                let source = TensorSource::External(object.clone_ref(cx.py));
                let meta = TensorMeta { gradient: self.meta.gradient.with(flows), ..self.meta.clone() };
                cx.trace.effects.set_attribute(this, name, Some(value));
                let Some(before) = cx.trace.vars.as_kind::<TensorVariable>(this) else { return Ok(false) };
                let switch = Switch::Pending { before, by: switched_by.clone_ref(cx.py) };
                cx.trace.vars.set(this, Rc::new(TensorVariable { source, meta, switch, before: None }));
            }
            TensorSource::Written(..) => return Ok(false),
        }
        Ok(true)
    }

    /// True if the program has set an attribute on the tensor that hides a method.
    fn hides(&self, trace: &Trace<'_>, name: &str) -> Flow<bool> {
        let TensorSource::External(object) = &self.source else { return Ok(false) };
        Ok(cpython::instance_dict(object.bind(trace.py)).map_or(Ok(false), |own| own.contains(name))?)
    }

    /// True if writing the attribute runs a property written in Python, or adds an entry to the dict of a tensor that
    /// still exists as an object of its own when the graph has run.
    fn is_settable(&self, trace: &Trace<'_>, name: &str) -> Flow<bool> {
        let ty = self.python_type(trace);
        let ty = ty.cast::<PyType>().map_err(PyErr::from)?;
        let found = cpython::type_lookup(ty, &PyString::intern(trace.py, name));
        let is_property = found.as_ref().is_some_and(|found| DescriptorKind::of(found) == DescriptorKind::Property);
        Ok(is_property || found.is_none() && self.is_one(trace))
    }

    /// True if the tensor is one from outside, and its attribute `if_true` is true. Parameters have it all.
    fn takes_outside(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, if_true: &str) -> Flow<bool> {
        let Some(object) = self.object() else { return Ok(false) };
        if cx.runtime.backend().is_parameter(object.bind(cx.py)) {
            return Ok(true);
        }
        match object_model::generic_get_attr(cx, this, &Rc::from(if_true))? {
            Some(answer) => cx.truth(answer),
            None => Ok(false),
        }
    }

    /// True if the tensor exists when the graph has run, as an object of its own.
    fn is_one(&self, trace: &Trace<'_>) -> bool {
        match self.source {
            TensorSource::External(_) => true,
            TensorSource::Computed(symbol) => trace.graph.is_first(symbol),
            TensorSource::Written(..) => false,
        }
    }

    /// True if the attribute is a method of the tensor type.
    fn has_method(&self, trace: &Trace<'_>, name: &str) -> Flow<bool> {
        let ty = self.python_type(trace);
        let ty = ty.cast::<PyType>().map_err(PyErr::from)?;
        let found = cpython::type_lookup(ty, &PyString::intern(trace.py, name));
        Ok(found.is_some_and(|found| {
            matches!(DescriptorKind::of(&found), DescriptorKind::Function | DescriptorKind::Method)
        }))
    }
}

/// Breaks the graph at a method of tensors that is on the user's break list.
pub(super) fn refuse_listed(cx: &mut OpcodeExecutor<'_>, ty: &Bound<'_, PyAny>, name: &str) -> Flow<()> {
    let ty = ty.cast::<PyType>().map_err(PyErr::from)?;
    match cpython::type_lookup(ty, &PyString::intern(cx.py, name)) {
        Some(method) => cx.refuse_listed(&method.unbind().into_bound(cx.py)),
        None => Ok(()),
    }
}
