//! Class statements inside functions. Only the function that makes the class is loaded: its call, which runs the class body,
//! breaks the graph. Opcodes of the body have no handlers.

use std::rc::Rc;

use pyo3::exceptions::PyNameError;
use sot_core::error::Flow;
use sot_core::executor::OpcodeExecutor;
use sot_core::opcode;
use sot_core::variable::VarId;

opcode! { LOAD_BUILD_CLASS [3.8..3.14] ( -- function) => |cx, _| build_class(cx) }

fn build_class(cx: &mut OpcodeExecutor<'_>) -> Flow<VarId> {
    match cx.find_builtin(&Rc::from("__build_class__"))? {
        Some(function) => Ok(function),
        None => Err(cx.raise(PyNameError::new_err("__build_class__ not found"))),
    }
}
