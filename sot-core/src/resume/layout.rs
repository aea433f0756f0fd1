//! The stack that a resume function lays out: items from the bottom up, with the blocks and handlers that begin
//! between them.

use crate::bytecode::{Instruction, Label, Op, Opcodes};
use crate::machine::executor::{BookkeepingVariable, Checkpoint, Trace};
use crate::machine::opcode;
use crate::machine::variable::VarId;

/// A value handed over to a resume function.
#[derive(Clone, Copy)]
pub enum Value {
    /// A value that the simulation has.
    Known(VarId),
    /// A value that the breaking instruction left, which is in this local.
    Left(u32),
}

/// A stack item, or a block or handler that begins above it.
#[derive(Clone, Copy)]
pub enum Item {
    /// A value.
    Value(Value),
    /// A NULL.
    Null,
    /// The handler of an exception, with the exception handled before it.
    Handling(Value),
    /// A block that sends exceptions to the label (3.8 to 3.10).
    Try(Label),
    /// Marker that a `finally` body was entered without exception (3.8).
    NormalEntry,
    /// The address that a `finally` body returns to (3.8).
    ReturnTo(Label),
}

/// The lowest `depth` items of a frame's stack, with the blocks and handlers that begin there.
pub(crate) fn of_stack(trace: &Trace<'_>, frame: &Checkpoint, depth: usize) -> Vec<Item> {
    let mut items = Vec::new();
    let mut blocks = frame.blocks.iter().peekable();
    let mut handled = frame.handled.iter().peekable();
    let mut at = 0;
    loop {
        let mut width = 0;
        while let Some(block) = blocks.next_if(|block| block.depth == at && width == 0) {
            if block.in_handler {
                width = 3;
            } else {
                items.push(Item::Try(block.handler));
            }
        }
        if let Some(handled) = handled.next_if(|handled| handled.depth == at && at < depth) {
            items.push(Item::Handling(Value::Known(handled.exception)));
            width = width.max(1);
        }
        if at >= depth {
            return items;
        }
        if width == 0 {
            items.push(item_of(trace, frame, frame.stack[at]));
            width = 1;
        }
        at += width;
    }
}

/// Number of items on a frame's stack that the instruction may touch.
pub(crate) fn consumed(trace: &Trace<'_>, instruction: &Instruction, frame: &Checkpoint) -> usize {
    let stack = &frame.stack;
    // Below the topmost NULL is an unfinished call, and below a block are the items for its handler: no other
    // instruction reaches these.
    let above_null = stack.iter().rev().position(|item| *item == trace.null()).unwrap_or(stack.len());
    let above_block = frame.blocks.last().map_or(stack.len(), |block| stack.len() - block.base().min(stack.len()));
    let declared = opcode::describe(instruction.opcode).reached(instruction.arg).map(|items| items as usize);
    declared.unwrap_or(above_null.min(above_block)).min(stack.len())
}

/// The item of a value or NULL.
pub(crate) fn item(trace: &Trace<'_>, variable: VarId) -> Item {
    if variable == trace.null() {
        Item::Null
    } else {
        Item::Value(Value::Known(variable))
    }
}

/// The item of a variable on a frame's stack.
pub(crate) fn item_of(trace: &Trace<'_>, frame: &Checkpoint, variable: VarId) -> Item {
    match trace.vars.as_kind::<BookkeepingVariable>(variable).as_deref() {
        Some(BookkeepingVariable::NormalEntry) => Item::NormalEntry,
        Some(BookkeepingVariable::ReturnAddress(label)) => Item::ReturnTo(behind_jump(trace, frame, *label)),
        _ => item(trace, variable),
    }
}

/// The address behind the jump at `label`. Resume functions return to a jump of their own, which leads there.
fn behind_jump(trace: &Trace<'_>, frame: &Checkpoint, label: Label) -> Label {
    let instruction = frame.unit.code.instructions[label.index()];
    let jumps = Opcodes::get(trace.py).is(instruction.opcode, Op::JUMP_ABSOLUTE);
    instruction.target.filter(|_| jumps).unwrap_or(label)
}
