//! How a tensor keeps its numbers, and where, if several processes have them.

use std::fmt;

use pyo3::intern;
use pyo3::prelude::*;

use crate::backend::paddle::Paddle;

/// How a tensor keeps its numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    /// In one block of memory.
    Dense,
    /// Each process of a mesh has a part of them, or all.
    Distributed,
}

/// Returns the layout of an eager tensor; `None` for sparse tensors and others.
pub(crate) fn layout(paddle: &Paddle, tensor: &Bound<'_, PyAny>) -> PyResult<Option<Layout>> {
    if paddle.native.as_ref().is_some_and(|native| native.dtype(tensor).is_some()) {
        return Ok(Some(Layout::Dense));
    }
    paddle.facts.layout(tensor)
}

/// The mesh of processes that a distributed tensor lies on, and which part each of them has.
#[derive(PartialEq)]
pub(crate) struct Distribution {
    mesh: Vec<i64>,
    processes: Vec<i64>,
    /// Their texts: Paddle 3.0 destroys the objects together with the tensor.
    placements: String,
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Distribution { mesh, processes, placements } = self;
        write!(f, "distributed: {placements} on processes {processes:?} of shape {mesh:?}")
    }
}

/// Returns how a tensor is distributed; `None` for other tensors.
pub(crate) fn distribution(paddle: &Paddle, tensor: &Bound<'_, PyAny>) -> PyResult<Option<Distribution>> {
    if layout(paddle, tensor)? != Some(Layout::Distributed) {
        return Ok(None);
    }
    let py = tensor.py();
    let mesh = tensor.getattr(intern!(py, "process_mesh"))?;
    Ok(Some(Distribution {
        mesh: mesh.getattr(intern!(py, "shape"))?.extract()?,
        processes: mesh.getattr(intern!(py, "process_ids"))?.extract()?,
        placements: tensor.getattr(intern!(py, "placements"))?.repr()?.to_string(),
    }))
}
