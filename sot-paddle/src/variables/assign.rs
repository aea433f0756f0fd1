//! `paddle.assign(value, output=tensor)`, which writes to the tensor in place.

use pyo3::prelude::*;
use sot_core::backend::CallKind;
use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::variable::{Form, VarId};

use crate::backend::memory::in_place::assignment;

builtin! { ASSIGN = "paddle:assign" => |cx, args| assign(cx, args) }

fn assign(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let given = |at: usize, name: &str| {
        let named = || args.keywords.iter().find(|(keyword, _)| &**keyword == name).map(|(_, value)| *value);
        args.positional.get(at).copied().or_else(named)
    };
    if let (Some(value), Some(output)) = (given(0, "x"), given(1, "output")) {
        if cx.see(output)?.form() == Form::Tensor && cx.see(value)?.form() == Form::Tensor {
            let callee = assignment(cx.py)?;
            return cx.call_in_place(&callee, "assign", &CallArgs::positional(vec![output, value]));
        }
    }
    let callee = cpython::import(cx.py, "paddle")?.getattr("assign")?;
    cx.call_graph(CallKind::Api, &callee, "assign", args)
}
