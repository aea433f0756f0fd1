//! Creating functions. The name is in the code (3.11), and defaults, annotations and closure are set one by one
//! (3.13).

use sot_core::bytecode::{Label, Opcodes};
use sot_core::error::Flow;
use sot_core::executor::{names, OpcodeExecutor};
use sot_core::opcode;
use sot_core::opcode::{Next, Operand, Quiet};
use sot_opcodes_py38::function::make_function;

opcode! { RETURN_CONST [3.12..3.14] (..) .quiet(Quiet::Always) => |cx, op| names::load_const(cx, op.arg).map(Next::Return) }
opcode! {
    MAKE_FUNCTION [3.11..3.13] (..) => |cx, op| { let code = cx.stack.pop()?; make_function(cx, code, None, op.arg) }
}
opcode! { MAKE_FUNCTION [3.13..3.14] (..) => |cx, op| make_function_with_attributes(cx, op) }

/// Creates the function with all attributes at once, and skips the following instructions that set them, because a
/// function variable cannot be changed.
fn make_function_with_attributes(cx: &mut OpcodeExecutor<'_>, op: &Operand) -> Flow<Next> {
    let code = cx.stack.pop()?;
    let attributes = attributes_after(cx, op.at);
    let flags = attributes.iter().fold(0, |flags, flag| flags | flag);
    make_function(cx, code, None, flags)?;
    Ok(Next::Jump(Label(op.at.0 + 1 + attributes.len() as u32)))
}

/// Operands of the `SET_FUNCTION_ATTRIBUTE` instructions that follow. The compiler writes them in the order of the
/// stack, the highest bit first.
fn attributes_after(cx: &OpcodeExecutor<'_>, at: Label) -> Vec<u32> {
    let Some(opcode) = Opcodes::get(cx.py).number("SET_FUNCTION_ATTRIBUTE") else { return Vec::new() };
    let following = &cx.stack.frame().code.code.instructions[at.index() + 1..];
    following.iter().take_while(|instruction| instruction.opcode == opcode).map(|instruction| instruction.arg).collect()
}
