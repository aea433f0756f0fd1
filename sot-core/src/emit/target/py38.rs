//! CPython 3.8 to 3.10: one opcode for each operator, no NULL in calls, and blocks for exception handlers.

use pyo3::prelude::*;

use super::{Emitter, Target};
use crate::bytecode::{Code, Label, Op};
use crate::entity::VarId;
use crate::error::Flow;
use crate::operators::BinaryOp;

#[derive(Clone, Copy)]
pub(in crate::emit) struct Py38;

impl Target for Py38 {
    fn prologue(&self, e: &mut Emitter, _: &Code, generator: bool) -> Flow<()> {
        if generator && e.knows(Op::GEN_START) {
            return e.op(Op::GEN_START, 0);
        }
        Ok(())
    }

    fn begin_call(&self, _: &mut Emitter) -> Flow<()> {
        Ok(())
    }

    fn callable_loaded(&self, _: &mut Emitter) -> Flow<()> {
        Ok(())
    }

    fn callable(&self, callable: VarId, _: VarId) -> Vec<VarId> {
        vec![callable]
    }

    fn call(&self, e: &mut Emitter, argc: u32) -> Flow<()> {
        e.op(Op::CALL_FUNCTION, argc)
    }

    fn call_with_keywords(&self, e: &mut Emitter, argc: u32, names: Py<PyAny>) -> Flow<()> {
        e.load_const(names)?;
        e.op(Op::CALL_FUNCTION_KW, argc)
    }

    fn load_global(&self, e: &mut Emitter, name: u32) -> Flow<()> {
        e.op(Op::LOAD_GLOBAL, name)
    }

    fn load_attr(&self, e: &mut Emitter, name: u32) -> Flow<()> {
        e.op(Op::LOAD_ATTR, name)
    }

    fn load_closure(&self, e: &mut Emitter, cell: usize) -> Flow<()> {
        e.cell_op(Op::LOAD_CLOSURE, cell)
    }

    fn begin_try(&self, e: &mut Emitter) -> Flow<()> {
        e.op(Op::SETUP_FINALLY, 0)
    }

    /// CPython checks for signals at each instruction, unless that instruction begins a block. A jump to a far
    /// handler would need an `EXTENDED_ARG`, which is such an instruction. So the block has a near handler, which
    /// jumps to the far one.
    fn begin_first_try(&self, e: &mut Emitter) -> Flow<Label> {
        let block = e.jump(Op::SETUP_FINALLY)?;
        let body = e.jump(Op::JUMP_FORWARD)?;
        e.land(block);
        let handler = e.here();
        e.jump(Op::JUMP_FORWARD)?;
        e.land(body);
        Ok(handler)
    }

    fn end_try(&self, e: &mut Emitter) -> Flow<()> {
        e.op(Op::POP_BLOCK, 0)
    }

    fn catch(&self, e: &mut Emitter, start: Label, _: Label, handler: Label, _: u32) -> Flow<u32> {
        e.set_target(start, handler);
        e.op(Op::POP_TOP, 0)?;
        let exception = e.store_new()?;
        e.op(Op::POP_TOP, 0)?;
        e.op(Op::POP_EXCEPT, 0)?;
        Ok(exception)
    }

    fn raised_width(&self) -> u32 {
        3
    }

    fn before_handling(&self, e: &mut Emitter) -> Flow<()> {
        e.op(Op::SETUP_FINALLY, 0)?;
        self.before_reraise(e)
    }

    /// A handler is entered only by raising, so the exception is raised here.
    fn begin_handling(&self, e: &mut Emitter, start: Label) -> Flow<()> {
        self.reraise(e)?;
        let handler = e.here();
        e.set_target(start, handler);
        (0..3).try_for_each(|_| e.op(Op::POP_TOP, 0))
    }

    /// In 3.8, `END_FINALLY` is counted as popping all the items that a handler finds on the stack.
    fn before_reraise(&self, e: &mut Emitter) -> Flow<()> {
        if e.knows(Op::RERAISE) {
            return Ok(());
        }
        let none = e.none();
        (0..3).try_for_each(|_| e.op(Op::LOAD_CONST, none))
    }

    fn reraise(&self, e: &mut Emitter) -> Flow<()> {
        if e.knows(Op::RERAISE) {
            return e.op(Op::RERAISE, 0);
        }
        e.op(Op::END_FINALLY, 0)?;
        // For the computation of the stack depth, execution may also continue behind `END_FINALLY`.
        let none = e.none();
        e.op(Op::LOAD_CONST, none)?;
        e.op(Op::RETURN_VALUE, 0)
    }

    fn begin_handler(&self, e: &mut Emitter, start: Label, _: Label, _: u32) -> Flow<()> {
        let handler = e.here();
        e.set_target(start, handler);
        e.op(Op::DUP_TOP, 0)
    }

    fn jump_unless_matches(&self, e: &mut Emitter) -> Flow<usize> {
        if e.knows(Op::JUMP_IF_NOT_EXC_MATCH) {
            return e.jump(Op::JUMP_IF_NOT_EXC_MATCH);
        }
        e.compare("exception match")?;
        e.jump_if(false)
    }

    fn decline(&self, e: &mut Emitter) -> Flow<()> {
        e.op(if e.knows(Op::RERAISE) { Op::RERAISE } else { Op::END_FINALLY }, 0)
    }

    fn handle_driven(&self, e: &mut Emitter, start: Label, _: Label, handler: Label) {
        e.set_target(start, handler);
    }

    /// Replaces traceback, exception and class by the new traceback, exception and class, and raises them.
    fn raise_trimmed(&self, e: &mut Emitter, trim: Py<PyAny>) -> Flow<()> {
        e.op(Op::DUP_TOP_TWO, 0)?;
        e.op(Op::POP_TOP, 0)?;
        e.load_const(trim)?;
        e.op(Op::ROT_TWO, 0)?;
        e.call(1)?;
        for op in [Op::ROT_FOUR, Op::ROT_THREE, Op::ROT_THREE, Op::POP_TOP] {
            e.op(op, 0)?;
        }
        self.reraise(e)
    }

    fn binary(&self, e: &mut Emitter, op: BinaryOp) -> Flow<()> {
        e.op(opcode_of(op), 0)
    }

    fn push_null(&self, _: &mut Emitter) -> Flow<()> {
        Ok(())
    }

    fn duplicate(&self, e: &mut Emitter) -> Flow<()> {
        e.op(Op::DUP_TOP, 0)
    }

    fn swap(&self, e: &mut Emitter) -> Flow<()> {
        e.op(Op::ROT_TWO, 0)
    }

    fn bury(&self, e: &mut Emitter) -> Flow<()> {
        e.op(Op::ROT_THREE, 0)
    }

    fn is(&self, e: &mut Emitter) -> Flow<()> {
        if e.knows(Op::IS_OP) {
            return e.op(Op::IS_OP, 0);
        }
        e.compare("is")
    }
}

/// The opcode of an operator; before 3.11 each operator has its own.
fn opcode_of(op: BinaryOp) -> Op {
    match op {
        BinaryOp::Add => Op::BINARY_ADD,
        BinaryOp::And => Op::BINARY_AND,
        BinaryOp::FloorDivide => Op::BINARY_FLOOR_DIVIDE,
        BinaryOp::LeftShift => Op::BINARY_LSHIFT,
        BinaryOp::MatrixMultiply => Op::BINARY_MATRIX_MULTIPLY,
        BinaryOp::Multiply => Op::BINARY_MULTIPLY,
        BinaryOp::Remainder => Op::BINARY_MODULO,
        BinaryOp::Or => Op::BINARY_OR,
        BinaryOp::Power => Op::BINARY_POWER,
        BinaryOp::RightShift => Op::BINARY_RSHIFT,
        BinaryOp::Subtract => Op::BINARY_SUBTRACT,
        BinaryOp::TrueDivide => Op::BINARY_TRUE_DIVIDE,
        BinaryOp::Xor => Op::BINARY_XOR,
    }
}
