//! Errors of decoding and encoding code objects.

use pyo3::PyErr;
use thiserror::Error;

use super::{JumpKind, Label};

/// Why a code object cannot be decoded or encoded. Labels are indices into [`Code::instructions`](super::Code).
#[derive(Debug, Error)]
pub enum BytecodeError {
    /// The object to decode is no code object.
    #[error("expected a code object, got an object of type `{found}`")]
    NotCode {
        /// The type's name.
        found: String,
    },
    /// Python raised while the code object was read or built.
    #[error("Python raised while a code object was read or built: {0}")]
    Python(#[from] PyErr),
    /// The interpreter's `opcode` module does not have the expected contents.
    #[error("the `opcode` module of this interpreter cannot be used: {what}")]
    OpcodeModule {
        /// What is missing or wrong.
        what: String,
    },
    /// An opcode's prefixes or caches do not fit into the code.
    #[error("bytecode ends inside the instruction that starts at offset {offset}")]
    Truncated {
        /// Byte offset of the instruction with its prefixes.
        offset: usize,
    },
    /// More `EXTENDED_ARG` prefixes than an operand has bytes.
    #[error("more than three EXTENDED_ARG before the instruction at offset {offset}")]
    TooManyPrefixes {
        /// Byte offset of the first prefix.
        offset: usize,
    },
    /// A decoded jump does not lead to the start of an instruction.
    #[error("{opcode} at {at} jumps to unit {unit}, where no instruction starts")]
    JumpIntoInstruction {
        /// The jump.
        at: Label,
        /// Its opcode.
        opcode: String,
        /// Target of the jump, in two-byte units.
        unit: i64,
    },
    /// The exception table is malformed.
    #[error("exception table is malformed at byte {byte}: {what}")]
    ExceptionTable {
        /// Byte offset in the table.
        byte: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// The line table is malformed.
    #[error("line table is malformed at byte {byte}: it ends inside an entry")]
    LineTable {
        /// Byte offset in the table.
        byte: usize,
    },
    /// A label points outside the instructions.
    #[error("{what} refers to instruction {label}, but there are only {count}")]
    LabelOutside {
        /// Owner of the label.
        what: String,
        /// The label.
        label: Label,
        /// Number of instructions.
        count: usize,
    },
    /// A jump has no target, or an instruction that is no jump has one.
    #[error("{opcode} at {at} {}", if *.is_jump { "is a jump without a target" } else { "is no jump but has a target" })]
    Target {
        /// The instruction.
        at: Label,
        /// Its opcode.
        opcode: String,
        /// True if the opcode is a jump.
        is_jump: bool,
    },
    /// The target is in the direction that the opcode cannot jump to.
    #[error("{opcode} at {at} can only jump {kind}, but its target is {target}")]
    Direction {
        /// The jump.
        at: Label,
        /// Its opcode.
        opcode: String,
        /// Direction of the opcode.
        kind: JumpKind,
        /// Wanted target.
        target: Label,
    },
    /// Two entries of the exception table cover the same instruction.
    #[error("exception ranges overlap: one ends at {end}, the next starts at {start}")]
    HandlerOverlap {
        /// End of the earlier range.
        end: Label,
        /// Start of the later range.
        start: Label,
    },
    /// Exception ranges in a version without exception table.
    #[error("this interpreter has no exception table, but the code has {count} handlers")]
    NoExceptionTable {
        /// Number of handlers of the code.
        count: usize,
    },
    /// An instruction pops more items than the stack has.
    #[error("{opcode} at {at} takes more from the stack than there is")]
    StackUnderflow {
        /// The instruction.
        at: Label,
        /// Its opcode.
        opcode: String,
    },
    /// A loop leaves the stack deeper after each iteration.
    #[error("the stack grows without end at {at}")]
    StackGrows {
        /// An instruction of the loop.
        at: Label,
    },
    /// Control runs past the last instruction.
    #[error("control can run past the last instruction, from {opcode} at {at}")]
    FallsOffEnd {
        /// The last instruction executed.
        at: Label,
        /// Its opcode.
        opcode: String,
    },
}
