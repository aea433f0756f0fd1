//! Code objects as data, on CPython 3.8 to 3.13: decode a code object, examine or edit it, and encode it again.
//!
//! Jumps and exception ranges hold [`Label`]s instead of offsets, so that instructions can be inserted without
//! arithmetic. `EXTENDED_ARG` and inline caches are folded away. The module does not know what opcodes mean.

#![forbid(unsafe_code)]

mod code;
mod decode;
mod description;
mod disassemble;
mod encode;
mod error;
mod exception_table;
pub mod flags;
mod line_table;
mod loops;
mod names;
mod op;
mod opcode_set;
mod opcodes;
mod stack_depth;
mod unit;

pub use code::{Code, ExceptionHandler, Instruction, Label, Position};
pub(crate) use description::set_descriptions;
pub use description::{
    describe, Access, AtBreak, Branch, BranchTest, ByArgument, Count, Description, Locals, Movement, Native, Quiet,
    StackPicture,
};
pub use error::BytecodeError;
pub use names::Names;
pub use op::Op;
pub use opcode_set::OpcodeSet;
pub use opcodes::{local_pair, JumpKind, OpcodeInfo, Opcodes, OperandTable};
pub use stack_depth::{stack_depth, stack_effect};
pub use unit::CodeUnit;
