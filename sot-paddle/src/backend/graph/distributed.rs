//! Distributed tensors. Paddle compiles programs for them only within its distributed engine: a program of its own
//! computes with the part that this process has as if that part were the whole tensor. So a program is built only to
//! learn shapes and element types, and the graph's statements are called one by one in eager mode, where Paddle
//! exchanges what an operation needs.

use std::collections::HashSet;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyTuple};
use sot_core::backend::CallKind;
use sot_core::cpython;

use super::builder::identity;
use crate::backend::calls::stand_in::refused;
use crate::backend::paddle::layout::{layout, Layout};
use crate::backend::paddle::meta;
use crate::backend::paddle::Paddle;

/// The module of the functions that distribute tensors, and give them back whole.
pub(crate) const MODULE: &str = "paddle.distributed.auto_parallel.api";
/// Its functions that are statements of a graph.
pub(crate) const FUNCTIONS: &[&str] = &["shard_tensor", "reshard", "unshard_dtensor"];

/// The values of a graph that are distributed tensors, and those that are parameters.
#[derive(Default)]
pub(crate) struct DistributedValues {
    distributed: HashSet<u64>,
    /// `shard_tensor` makes a parameter of a parameter, which is not the result of an operation.
    parameters: HashSet<u64>,
}

impl DistributedValues {
    /// True if the graph has distributed tensors.
    pub(crate) fn is_any(&self) -> bool {
        !self.distributed.is_empty()
    }

    /// Notes the value that stands for a tensor from outside.
    pub(crate) fn note_input(
        &mut self,
        paddle: &Paddle,
        tensor: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if layout(paddle, tensor)? == Some(Layout::Distributed) {
            self.distributed.insert(identity(paddle, value)?);
        }
        if tensor.is_instance(paddle.parameter_type.bind(tensor.py()))? {
            self.parameters.insert(identity(paddle, value)?);
        }
        Ok(())
    }

    /// Notes a statement. With one distributed tensor among the operands, eager mode makes all of them distributed, and
    /// the results.
    pub(crate) fn note_statement(
        &mut self,
        paddle: &Paddle,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
        result: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if !self.is_any() {
            return Ok(());
        }
        let operands = operands(paddle, args, kwargs)?;
        if operands.iter().any(|operand| self.distributed.contains(operand)) {
            self.distributed.extend(operands);
            self.distributed.extend(identities(paddle, result)?);
        }
        Ok(())
    }

    /// Answers a call that distributes a tensor, gives it back whole, or asks whether it is distributed. `None` for any
    /// other call. To be called in static mode.
    pub(crate) fn call<'py>(
        &mut self,
        paddle: &Paddle,
        (kind, callee): (CallKind, &Bound<'py, PyAny>),
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match (kind, callee.cast::<PyString>()) {
            (CallKind::Method, Ok(method)) => self.question(paddle, method, &args.get_item(0)?),
            (CallKind::Api, Err(_)) => match function(callee)? {
                Some(name) => self.change(paddle, name, args, kwargs).map(Some),
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    fn question<'py>(
        &self,
        paddle: &Paddle,
        method: &Bound<'py, PyString>,
        receiver: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let asks_for_distributed = match method.to_str()? {
            "is_dist" => true,
            "is_dense" => false,
            _ => return Ok(None),
        };
        if !self.is_any() || !paddle.is_value(receiver) {
            return Ok(None);
        }
        let is_distributed = self.distributed.contains(&identity(paddle, receiver)?);
        Ok(Some(PyBool::new(method.py(), is_distributed == asks_for_distributed).to_owned().into_any()))
    }

    /// A copy stands for the result: only its shape and element type matter.
    fn change<'py>(
        &mut self,
        paddle: &Paddle,
        name: &str,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        let tensor = args.get_item(0).map_err(|_| refused(&format!("{name}() of a tensor given by name")))?;
        if !paddle.is_value(&tensor) {
            return Err(refused(&format!("{name}() of what is no tensor")));
        }
        let own = identity(paddle, &tensor)?;
        let is_distributed = self.distributed.contains(&own);
        let shards = name == "shard_tensor";
        if shards == is_distributed {
            let what = if shards { "a tensor that is distributed" } else { "a tensor that is not distributed" };
            return Err(refused(&format!("{name}() of {what}")));
        }
        let plain =
            |name: &Bound<'_, PyAny>| name.extract::<&str>().is_ok_and(|name| ["mesh", "placements"].contains(&name));
        let others = kwargs.is_some_and(|kwargs| kwargs.keys().iter().any(|name| !plain(&name)));
        if shards && (self.parameters.contains(&own) || others || args.len() > 3) {
            return Err(refused("shard_tensor() of a parameter, or with an element type, place or gradient flag"));
        }
        let stopped = tensor.getattr("stop_gradient")?;
        let result = cpython::import(py, "paddle")?.call_method1("assign", (&tensor,))?;
        result.setattr("stop_gradient", stopped)?;
        if name != "unshard_dtensor" {
            self.distributed.insert(identity(paddle, &result)?);
        }
        Ok(result)
    }
}

/// True if the object says how a tensor is distributed: a mesh of processes, or a placement. Paddle has methods to change
/// it for its own use only.
pub(crate) fn is_distribution(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let core = cpython::import(object.py(), "paddle.base.core")?;
    for class in ["ProcessMesh", "Placement"] {
        if object.is_instance(&core.getattr(class)?)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the name of the function, if it is one of [`FUNCTIONS`].
fn function(callee: &Bound<'_, PyAny>) -> PyResult<Option<&'static str>> {
    let text = |attribute: &str| -> PyResult<String> {
        Ok(callee.getattr_opt(attribute)?.and_then(|text| text.extract().ok()).unwrap_or_default())
    };
    let name = text("__name__")?;
    let Some(known) = FUNCTIONS.iter().find(|known| **known == name) else { return Ok(None) };
    Ok((text("__module__")? == MODULE).then_some(*known))
}

fn operands(paddle: &Paddle, args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<u64>> {
    let mut found = identities(paddle, args)?;
    if let Some(kwargs) = kwargs {
        found.extend(identities(paddle, kwargs)?);
    }
    Ok(found)
}

fn identities(paddle: &Paddle, object: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    meta::values_in(paddle, object)?.iter().map(|value| identity(paddle, value)).collect()
}
