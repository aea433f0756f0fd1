//! How a call becomes operations of a program. For most calls, static mode appends them when the function is called. For
//! those that static mode does otherwise than eager mode, other calls stand for the call ([`REPLACEMENTS`]).

use std::sync::Arc;

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use sot_core::backend::CallKind;
use sot_core::cpython;
use sot_core::registered;

use crate::backend::calls::given_back;
use crate::backend::calls::items;
use crate::backend::calls::kept_operands;
use crate::backend::calls::stand_in::{self, MethodArguments, StandIn};
use crate::backend::graph::data;
use crate::backend::graph::inner_gradients;
use crate::backend::memory::in_place;
use crate::backend::memory::views::Step;
use crate::backend::numbers::diagonals;
use crate::backend::numbers::floats;
use crate::backend::numbers::scalar;
use crate::backend::numbers::where_op;
use crate::backend::paddle::meta;
use crate::backend::paddle::static_mode::BuildTarget;
use crate::backend::paddle::Paddle;

use super::call::StatementCall;
use super::{node, PaddleBuilder};

/// Appends other operations in the place of a call, and returns the result; `None` if the call needs no others. Called
/// in static mode.
type Replacement =
    for<'py> fn(&mut PaddleBuilder, &BuildTarget, &StatementCall<'py>) -> PyResult<Option<Bound<'py, PyAny>>>;

/// The replacements, in the order in which they are asked.
const REPLACEMENTS: &[Replacement] = &[
    |builder, _, call| builder.distributed.call(&builder.paddle, call.what(), &call.args, call.keywords()),
    |builder, _, call| builder.arrays.call(&builder.paddle, call.what(), &call.args, call.keywords()),
    |builder, _, call| floats::call(&builder.paddle, &builder.numbers, call.what(), &call.args, call.keywords()),
    |builder, _, call| builder.numbers.operator(&builder.paddle, call.kind, &call.callee, &call.args),
    |builder, _, call| scalar::operator_with_number(&builder.paddle, call.kind, &call.callee, &call.args),
    |builder, target, call| {
        let is_twin = !target.main.is(&builder.target.main);
        scalar::number_over_open(&builder.paddle, call.what(), &call.args, is_twin)
    },
    |builder, _, call| where_op::call(&builder.paddle, call.what(), &call.args, call.keywords()),
    |builder, _, call| kept_operands::call(&builder.paddle, call.what(), &call.args, call.keywords()),
    |builder, _, call| builder.switched_gradient(call),
    |builder, target, call| builder.gradients(target, call),
    |builder, _, call| data::of_numbers(&builder.paddle, &builder.numbers, call.what(), &call.args, call.keywords()),
];

impl PaddleBuilder {
    /// Appends the operations of a call to a target: the program, or one of its twins.
    pub(super) fn append<'py>(
        &mut self,
        target: &BuildTarget,
        call: &StatementCall<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let paddle = Arc::clone(&self.paddle);
        let by_comparison = self.numbers.are_in(&paddle, &call.args, call.keywords())?
            && diagonals::take_sizes(call.kind, &call.callee)?;
        if !by_comparison && !call.is_of_object() {
            paddle.signatures.refuse(&paddle, &call.callee, &call.args, call.keywords())?;
        }
        paddle.static_mode.within(call.py(), target, || {
            if by_comparison {
                return diagonals::call(&self.paddle, &self.numbers, call.what(), &call.args, call.keywords());
            }
            for replacement in REPLACEMENTS {
                if let Some(result) = replacement(self, target, call)? {
                    return Ok(result);
                }
            }
            self.append_as_it_is(target, call)
        })
    }

    /// Appends a call by making it in static mode.
    fn append_as_it_is<'py>(&mut self, target: &BuildTarget, call: &StatementCall<'py>) -> PyResult<Bound<'py, PyAny>> {
        let result = match call.kind {
            CallKind::Api => self.call_function(target, call)?,
            CallKind::Method => self.call_method(call.callee.cast()?, &call.args.get_item(0)?, &rest_of(call))?,
            CallKind::Object(_) => self.paddle.layer_body(&call.callee)?.call(&call.args, call.keywords())?,
            CallKind::InPlace => {
                self.inner_gradients.refuse_write(&self.paddle, &call.args.get_item(0)?)?;
                in_place::call(&self.paddle, &call.callee, &call.args, call.keywords())?
            }
        };
        refuse_missing_results(&self.paddle, &result)?;
        let built = matches!(call.kind, CallKind::Api | CallKind::Method);
        if built && given_back::is_given_back(&self.paddle, &call.callee, &call.args, call.keywords())? {
            return call.args.get_item(0);
        }
        Ok(result)
    }

    fn call_function<'py>(&mut self, target: &BuildTarget, call: &StatementCall<'py>) -> PyResult<Bound<'py, PyAny>> {
        let callee = &call.callee;
        if stand_in::is_function(callee)? {
            let name = callee.getattr(intern!(call.py(), "__name__"))?.cast_into()?;
            let receiver = call.args.get_item(0).map_err(|_| stand_in::refused("a tensor given by name"))?;
            return self.call_method(&name, &receiver, &rest_of(call));
        }
        if let Some(method) = stand_in::of_attribute(&self.paddle, callee, &call.args)? {
            let arguments = MethodArguments { positional: PyTuple::empty(call.py()), keywords: None };
            return self.call_method(&method, &call.args.get_item(0)?, &arguments);
        }
        let result = if registered::is_statement(callee) {
            node::call(target, callee, &call.args, call.keywords())?
        } else {
            callee.call(&call.args, call.keywords())?
        };
        self.numbers.note(&self.paddle, callee, &result)?;
        Ok(result)
    }

    /// Switches whether gradients flow to a value, if the call is such a switch.
    fn switched_gradient<'py>(&mut self, call: &StatementCall<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !inner_gradients::is_switch(&call.callee)? {
            return Ok(None);
        }
        let value = call.args.get_item(0)?;
        let switched = self.inner_gradients.switch(&self.paddle, &value, call.args.get_item(1)?.is_truthy()?)?;
        let again = Step::method(call.py(), "detach", &PyTuple::empty(call.py()), None);
        self.views.note_step(&self.paddle, &value, &switched, again)?;
        self.corrected_flags.keep(&self.paddle, &switched)?;
        Ok(Some(switched))
    }

    /// Appends gradients, if the call asks for them.
    fn gradients<'py>(
        &mut self,
        target: &BuildTarget,
        call: &StatementCall<'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !inner_gradients::are_asked_for(&self.paddle, call.kind, &call.callee) {
            return Ok(None);
        }
        let has_writes = !self.histories.is_empty();
        let gradients = self.inner_gradients.append(&self.paddle, target, call.arguments(), has_writes)?;
        self.corrected_flags.keep(&self.paddle, &gradients)?;
        Ok(Some(gradients))
    }

    /// Calls a method of a tensor. Methods that only eager tensors have, or that mean something else in a program, have
    /// a stand-in.
    fn call_method<'py>(
        &mut self,
        method: &Bound<'py, PyString>,
        receiver: &Bound<'py, PyAny>,
        arguments: &MethodArguments<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let bare = arguments.positional.is_empty() && arguments.keywords.is_none();
        if bare && method == "contiguous" && self.is_contiguous_in_eager_mode(receiver)? {
            return Ok(receiver.clone());
        }
        self.refuse_unlike_method(method, receiver, arguments)?;
        if let Some(StandIn { value, again }) = stand_in::of(&self.paddle, method, receiver, arguments)? {
            if let Some(again) = again {
                self.views.note_step(&self.paddle, receiver, &value, again)?;
            }
            return Ok(value);
        }
        let result = self.call_in_steps(method, receiver, arguments)?;
        if result.is(receiver) && method == "__getitem__" {
            return self.view_of_all(receiver, &arguments.positional);
        }
        Ok(result)
    }

    fn is_contiguous_in_eager_mode(&self, tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
        in_place::is_contiguous_in_eager_mode(&self.paddle, &self.views, &self.histories, tensor)
    }

    /// Refuses methods that give another result in a program than in eager mode: because of the tensor's layout, which a
    /// program does not know, or because of an argument that is a tensor.
    fn refuse_unlike_method(
        &self,
        method: &Bound<'_, PyString>,
        receiver: &Bound<'_, PyAny>,
        arguments: &MethodArguments<'_>,
    ) -> PyResult<()> {
        if method == "as_strided" && !self.is_contiguous_in_eager_mode(receiver)? {
            return Err(stand_in::refused("a tensor that may lie in the memory of another"));
        }
        if method == "view" && !self.numbers.are_all(&self.paddle, &arguments.positional)? {
            return Err(stand_in::refused("view() with a tensor in the place of a number"));
        }
        Ok(())
    }

    /// Calls a method, in several steps if an index needs them ([`items::in_steps`]).
    fn call_in_steps<'py>(
        &self,
        method: &Bound<'py, PyString>,
        receiver: &Bound<'py, PyAny>,
        arguments: &MethodArguments<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match items::in_steps(&self.paddle, method, arguments)? {
            Some(steps) => {
                let step = |part: Bound<'py, PyAny>, step| self.call_own(method, &part, &step);
                steps.into_iter().try_fold(receiver.clone(), step)
            }
            None => self.call_own(method, receiver, arguments),
        }
    }

    /// Returns a new value for an index that selects all of a tensor. In eager mode it is a new tensor, a view; in
    /// static mode it is the value itself.
    fn view_of_all<'py>(
        &mut self,
        tensor: &Bound<'py, PyAny>,
        index: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let value = cpython::import(tensor.py(), "paddle")?.call_method1("assign", (tensor,))?;
        let again = Step::method(tensor.py(), "__getitem__", index, None);
        self.views.note_step(&self.paddle, tensor, &value, again)?;
        Ok(value)
    }

    /// Calls a method, or the copy of it that runs in its place.
    fn call_own<'py>(
        &self,
        method: &Bound<'py, PyString>,
        receiver: &Bound<'py, PyAny>,
        arguments: &MethodArguments<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let keywords = arguments.keywords.as_ref();
        let Some(code) = &self.copy else { return receiver.getattr(method)?.call(&arguments.positional, keywords) };
        let given = std::iter::once(receiver.clone()).chain(arguments.positional.iter());
        code.bind(method.py()).call(PyTuple::new(method.py(), given.collect::<Vec<_>>())?, keywords)
    }
}

/// Refuses a call with a result that its kernel leaves out. In eager mode such a result is a tensor without numbers.
fn refuse_missing_results(paddle: &Paddle, result: &Bound<'_, PyAny>) -> PyResult<()> {
    for value in meta::values_in(paddle, result)? {
        if !value.call_method0(intern!(value.py(), "initialized"))?.is_truthy()? {
            return Err(PyNotImplementedError::new_err("one of its results is a tensor that is not initialized"));
        }
    }
    Ok(())
}

/// The arguments of a call behind its first one.
fn rest_of<'py>(call: &StatementCall<'py>) -> MethodArguments<'py> {
    MethodArguments { positional: call.args.get_slice(1, call.args.len()), keywords: call.keywords.clone() }
}
