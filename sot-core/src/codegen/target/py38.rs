//! CPython 3.8 to 3.10.

use pyo3::prelude::*;

use super::{Emitter, Target};
use crate::bytecode::{Code, Label};
use crate::error::Flow;
use crate::executor::BinaryOp;
use crate::variable::VarId;

#[derive(Clone, Copy)]
pub(in crate::codegen) struct Py38;

impl Target for Py38 {
    fn prologue(&self, e: &mut Emitter, _: &Code, generator: bool) -> Flow<()> {
        if generator && e.knows("GEN_START") {
            return e.op("GEN_START", 0);
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
        e.op("CALL_FUNCTION", argc)
    }

    fn call_with_keywords(&self, e: &mut Emitter, argc: u32, names: Py<PyAny>) -> Flow<()> {
        e.load_const(names)?;
        e.op("CALL_FUNCTION_KW", argc)
    }

    fn load_global(&self, e: &mut Emitter, name: u32) -> Flow<()> {
        e.op("LOAD_GLOBAL", name)
    }

    fn load_attr(&self, e: &mut Emitter, name: u32) -> Flow<()> {
        e.op("LOAD_ATTR", name)
    }

    fn load_closure(&self, e: &mut Emitter, cell: usize) -> Flow<()> {
        e.cell_op("LOAD_CLOSURE", cell)
    }

    fn begin_try(&self, e: &mut Emitter) -> Flow<()> {
        e.op("SETUP_FINALLY", 0)
    }

    fn end_try(&self, e: &mut Emitter) -> Flow<()> {
        e.op("POP_BLOCK", 0)
    }

    fn catch(&self, e: &mut Emitter, start: Label, _: Label, handler: Label, _: u32) -> Flow<u32> {
        e.set_target(start, handler);
        e.op("POP_TOP", 0)?;
        let exception = e.store_new()?;
        e.op("POP_TOP", 0)?;
        e.op("POP_EXCEPT", 0)?;
        Ok(exception)
    }

    fn raised_width(&self) -> u32 {
        3
    }

    fn before_handling(&self, e: &mut Emitter) -> Flow<()> {
        e.op("SETUP_FINALLY", 0)?;
        self.before_reraise(e)
    }

    /// A handler is entered by raising alone.
    fn begin_handling(&self, e: &mut Emitter, start: Label) -> Flow<()> {
        self.reraise(e)?;
        let handler = e.here();
        e.set_target(start, handler);
        (0..3).try_for_each(|_| e.op("POP_TOP", 0))
    }

    /// `END_FINALLY` counts as taking the whole of what a handler finds on the stack.
    fn before_reraise(&self, e: &mut Emitter) -> Flow<()> {
        if e.knows("RERAISE") {
            return Ok(());
        }
        let none = e.none();
        (0..3).try_for_each(|_| e.op("LOAD_CONST", none))
    }

    fn reraise(&self, e: &mut Emitter) -> Flow<()> {
        if e.knows("RERAISE") {
            return e.op("RERAISE", 0);
        }
        e.op("END_FINALLY", 0)?;
        // It may also go on, for all that is known of it.
        let none = e.none();
        e.op("LOAD_CONST", none)?;
        e.op("RETURN_VALUE", 0)
    }

    fn begin_handler(&self, e: &mut Emitter, start: Label, _: Label, _: u32) -> Flow<()> {
        let handler = e.here();
        e.set_target(start, handler);
        e.op("DUP_TOP", 0)
    }

    fn jump_unless_matches(&self, e: &mut Emitter) -> Flow<usize> {
        if e.knows("JUMP_IF_NOT_EXC_MATCH") {
            return e.jump("JUMP_IF_NOT_EXC_MATCH");
        }
        e.compare("exception match")?;
        e.jump_if(false)
    }

    fn decline(&self, e: &mut Emitter) -> Flow<()> {
        e.op(if e.knows("RERAISE") { "RERAISE" } else { "END_FINALLY" }, 0)
    }

    fn handle_driven(&self, e: &mut Emitter, start: Label, _: Label, handler: Label) {
        e.set_target(start, handler);
    }

    /// Traceback, exception and class become the new traceback, exception and class.
    fn raise_trimmed(&self, e: &mut Emitter, trim: Py<PyAny>) -> Flow<()> {
        e.op("DUP_TOP_TWO", 0)?;
        e.op("POP_TOP", 0)?;
        e.load_const(trim)?;
        e.op("ROT_TWO", 0)?;
        e.call(1)?;
        for op in ["ROT_FOUR", "ROT_THREE", "ROT_THREE", "POP_TOP"] {
            e.op(op, 0)?;
        }
        self.reraise(e)
    }

    fn binary(&self, e: &mut Emitter, op: BinaryOp) -> Flow<()> {
        e.op(&format!("BINARY_{}", opcode_name(op)), 0)
    }

    fn push_null(&self, _: &mut Emitter) -> Flow<()> {
        Ok(())
    }

    fn duplicate(&self, e: &mut Emitter) -> Flow<()> {
        e.op("DUP_TOP", 0)
    }

    fn swap(&self, e: &mut Emitter) -> Flow<()> {
        e.op("ROT_TWO", 0)
    }

    fn bury(&self, e: &mut Emitter) -> Flow<()> {
        e.op("ROT_THREE", 0)
    }

    fn is(&self, e: &mut Emitter) -> Flow<()> {
        if e.knows("IS_OP") {
            return e.op("IS_OP", 0);
        }
        e.compare("is")
    }
}

/// The operator's part of the opcode's name.
fn opcode_name(op: BinaryOp) -> String {
    let mut name = String::new();
    for letter in format!("{op:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name.replace("REMAINDER", "MODULO").replace("LEFT_SHIFT", "LSHIFT").replace("RIGHT_SHIFT", "RSHIFT")
}
