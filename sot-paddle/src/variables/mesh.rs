//! Meshes of processes and placements of distributed tensors that are made in the function. They can be changed, so new
//! code makes others by the same call.

use pyo3::prelude::*;
use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::variable::VarId;
use sot_variables::classes::stand_in;

builtin! { PROCESS_MESH = "paddle.distributed:ProcessMesh" => |cx, args| make(cx, "ProcessMesh", args) }
builtin! { SHARD = "paddle.distributed:Shard" => |cx, args| make(cx, "Shard", args) }

fn make(cx: &mut OpcodeExecutor<'_>, class: &str, args: &CallArgs) -> Flow<VarId> {
    let class = cpython::import(cx.py, "paddle.distributed")?.getattr(class)?;
    stand_in::call_with_known(cx, class.unbind(), args)
}
