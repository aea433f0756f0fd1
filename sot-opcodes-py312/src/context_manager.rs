//! `with`, with the exception table.

use pyo3::exceptions::PyTypeError;
use sot_core::error::Unwind;
use sot_core::executor::OpcodeExecutor;
use sot_core::opcode;
use sot_core::opcode::AtBreak;
use sot_core::resume::Finish;
use sot_core::variable::VarId;
use sot_opcodes_py38::context_manager::{ask_exit, enter};

opcode! { BEFORE_WITH [3.11..3.14] (manager -- exit, result) => |cx, _| enter(cx, manager, Finish::Keep, no_protocol) }
opcode! {
    WITH_EXCEPT_START [3.11..3.14] (..)
        .reach(|_| 0).at_break(AtBreak::ExitWith)
        => |cx, _| { let (exit, exception) = (cx.stack.peek(4)?, cx.stack.peek(1)?); ask_exit(cx, exit, exception) }
}

fn no_protocol(cx: &mut OpcodeExecutor<'_>, manager: VarId, method: &str) -> Unwind {
    let name = match cx.type_name(manager) {
        Ok(name) => name,
        Err(unwind) => return unwind,
    };
    let missed = if method == "__exit__" { " (missed __exit__ method)" } else { "" };
    cx.raise(PyTypeError::new_err(format!("'{name}' object does not support the context manager protocol{missed}")))
}
