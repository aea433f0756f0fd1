//! Model of a code object. `decode` reads code objects, `encode` writes them.

use std::fmt;

use pyo3::prelude::*;

use super::flags::{STARRED, VARARGS, VARKEYWORDS};
use crate::version::PyVersion;

/// A decoded code object.
#[derive(Debug)]
pub struct Code {
    /// `co_filename`. Text that is not valid Unicode is shown with replacement characters, and unchanged on encode.
    pub filename: String,
    /// `co_name`.
    pub name: String,
    /// `co_qualname`; before 3.11, which has none, `co_name`.
    pub qualname: String,
    /// `co_firstlineno`.
    pub first_line: u32,
    /// `co_flags`.
    pub flags: u32,
    /// `co_argcount`: positional arguments, the positional-only ones included.
    pub arg_count: u32,
    /// `co_posonlyargcount`.
    pub posonly_count: u32,
    /// `co_kwonlyargcount`.
    pub kwonly_count: u32,
    /// `co_stacksize` of the decoded code; an edited code gets a computed one.
    pub stack_size: u32,
    /// `co_consts`.
    pub consts: Vec<Py<PyAny>>,
    /// `co_names`.
    pub names: Vec<String>,
    /// `co_varnames`: arguments first, then the other locals.
    pub varnames: Vec<String>,
    /// `co_cellvars`.
    pub cellvars: Vec<String>,
    /// `co_freevars`.
    pub freevars: Vec<String>,
    /// The instructions, without `EXTENDED_ARG` and inline caches.
    pub instructions: Vec<Instruction>,
    /// The exception table of 3.11 and newer; empty before, where handlers are set up by instructions.
    pub handlers: Vec<ExceptionHandler>,
}

/// One instruction with its complete operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// The opcode's number in the running interpreter.
    pub opcode: u8,
    /// The operand with `EXTENDED_ARG` folded in. For a jump this is the decoded operand, which is ignored on encode.
    pub arg: u32,
    /// Target of a jump; `None` for other instructions.
    pub target: Option<Label>,
    /// Source range of the instruction.
    pub position: Position,
    /// Minimum number of `EXTENDED_ARG` prefixes (0 to 3). It is decoded, so that unedited code is encoded byte for
    /// byte even where the compiler wrote needless prefixes.
    pub extended: u8,
}

/// An index into [`Code::instructions`]. As the end of a range it may be one behind the last instruction.
#[derive(Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Hash, Debug)]
pub struct Label(pub u32);

/// A range of source text. Before 3.11 only the line is known.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash, Debug)]
pub struct Position {
    /// First line; `None` if the instruction belongs to no line.
    pub line: Option<u32>,
    /// Last line.
    pub end_line: Option<u32>,
    /// Column of the start, in UTF-8 bytes.
    pub column: Option<u32>,
    /// Column after the end, in UTF-8 bytes.
    pub end_column: Option<u32>,
}

/// One entry of the exception table of 3.11 and newer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExceptionHandler {
    /// First instruction covered.
    pub start: Label,
    /// First instruction after the range; may be the number of instructions.
    pub end: Label,
    /// The handler's first instruction.
    pub target: Label,
    /// Depth that the stack is cut to when the handler is entered.
    pub depth: u32,
    /// True if the offset of the raising instruction is pushed before the exception.
    pub lasti: bool,
}

impl Code {
    /// The number of argument slots: positional, keyword-only, `*args` and `**kwargs`.
    pub fn total_args(&self) -> usize {
        let stars = [VARARGS, VARKEYWORDS].iter().filter(|&&flag| self.flags & flag != 0).count();
        self.arg_count as usize + self.kwonly_count as usize + stars
    }

    /// Makes the signature flat: all arguments positional, in the same slots.
    pub fn take_all_by_position(&mut self) {
        self.arg_count = self.total_args() as u32;
        self.posonly_count = 0;
        self.kwonly_count = 0;
        self.flags &= !STARRED;
    }

    /// Converts the operand of `LOAD_DEREF` and similar opcodes into an index into `cellvars` followed by `freevars`.
    ///
    /// From 3.11 on the operand is a slot of the frame, where a cell that is an argument shares the argument's slot.
    /// `None` if the slot holds no cell.
    pub fn cell_index(&self, arg: u32) -> Option<usize> {
        let cells = self.cellvars.len() + self.freevars.len();
        if PyVersion::BUILT_FOR < PyVersion(11) {
            return Some(arg as usize).filter(|&index| index < cells);
        }
        (0..cells).find(|&index| self.cell_slot(index) == arg as usize)
    }

    /// Returns the operand that names a cell; the inverse of [`Code::cell_index`].
    pub fn deref_arg(&self, cell_index: usize) -> u32 {
        if PyVersion::BUILT_FOR < PyVersion(11) {
            cell_index as u32
        } else {
            self.cell_slot(cell_index) as u32
        }
    }

    /// Returns the entry of the exception table that covers an instruction.
    pub fn handler_at(&self, at: Label) -> Option<&ExceptionHandler> {
        self.handlers.iter().find(|handler| handler.start <= at && at < handler.end)
    }

    /// Returns the name of a frame slot in the layout of 3.11 and newer: locals, cells that are no locals, free
    /// variables.
    pub fn slot_name(&self, slot: u32) -> Option<&str> {
        let slot = slot as usize;
        if let Some(name) = self.varnames.get(slot) {
            return Some(name);
        }
        let cells = self.cellvars.iter().filter(|cell| !self.varnames.contains(cell));
        cells.chain(&self.freevars).nth(slot - self.varnames.len()).map(String::as_str)
    }

    /// Returns a copy that shares the constants.
    #[must_use]
    pub fn clone_ref(&self, py: Python<'_>) -> Code {
        Code {
            instructions: self.instructions.clone(),
            handlers: self.handlers.clone(),
            ..self.without_instructions(py)
        }
    }

    /// Copies everything but the instructions and their handlers, for code of other instructions.
    #[must_use]
    pub fn without_instructions(&self, py: Python<'_>) -> Code {
        Code {
            filename: self.filename.clone(),
            name: self.name.clone(),
            qualname: self.qualname.clone(),
            consts: self.consts.iter().map(|constant| constant.clone_ref(py)).collect(),
            names: self.names.clone(),
            varnames: self.varnames.clone(),
            cellvars: self.cellvars.clone(),
            freevars: self.freevars.clone(),
            instructions: Vec::new(),
            handlers: Vec::new(),
            ..*self
        }
    }

    /// The frame slot of a cell on 3.11 and newer.
    fn cell_slot(&self, cell_index: usize) -> usize {
        let is_local = |cell: &String| self.varnames.contains(cell);
        if let Some(cell) = self.cellvars.get(cell_index) {
            if let Some(slot) = self.varnames.iter().position(|name| name == cell) {
                return slot;
            }
        }
        let shared = self.cellvars.iter().take(cell_index).filter(|cell| is_local(cell)).count();
        self.varnames.len() + cell_index - shared
    }
}

impl Instruction {
    /// An instruction that does not jump.
    #[must_use]
    pub const fn new(opcode: u8, arg: u32, position: Position) -> Instruction {
        Instruction { opcode, arg, target: None, position, extended: 0 }
    }

    /// A jump.
    #[must_use]
    pub const fn jump(opcode: u8, target: Label, position: Position) -> Instruction {
        Instruction { opcode, arg: 0, target: Some(target), position, extended: 0 }
    }
}

impl Position {
    /// A position of which only the line is known.
    #[must_use]
    pub const fn line(line: u32) -> Position {
        Position { line: Some(line), end_line: None, column: None, end_column: None }
    }
}

impl Label {
    /// The label as an index into a slice.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(varnames: &[&str], cellvars: &[&str], freevars: &[&str]) -> Code {
        let strings = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        Code {
            filename: String::new(),
            name: String::new(),
            qualname: String::new(),
            first_line: 1,
            flags: 0,
            arg_count: 0,
            posonly_count: 0,
            kwonly_count: 0,
            stack_size: 1,
            consts: Vec::new(),
            names: Vec::new(),
            varnames: strings(varnames),
            cellvars: strings(cellvars),
            freevars: strings(freevars),
            instructions: Vec::new(),
            handlers: Vec::new(),
        }
    }

    #[test]
    fn cell_operands_and_indices_are_inverse() {
        let code = code(&["a", "b"], &["x", "b", "y"], &["f"]);
        for index in 0..4 {
            assert_eq!(code.cell_index(code.deref_arg(index)), Some(index));
        }
        assert_eq!(code.cell_index(17), None);
    }

    #[test]
    fn an_argument_cell_shares_the_slot_of_its_argument_since_3_11() {
        let code = code(&["a", "b"], &["x", "b", "y"], &["f"]);
        let slots: Vec<_> = (0..4).map(|index| code.cell_slot(index)).collect();
        assert_eq!(slots, [2, 1, 3, 4]);
        let names: Vec<_> = (0..6).map(|slot| code.slot_name(slot)).collect();
        assert_eq!(names, [Some("a"), Some("b"), Some("x"), Some("y"), Some("f"), None]);
    }

    #[test]
    fn stars_count_as_arguments() {
        let mut code = code(&["a", "k", "args", "kwargs"], &[], &[]);
        (code.arg_count, code.kwonly_count, code.flags) = (1, 1, VARARGS | VARKEYWORDS);
        assert_eq!(code.total_args(), 4);
    }

    #[test]
    fn a_range_excludes_its_end() {
        let mut code = code(&[], &[], &[]);
        let handler = ExceptionHandler { start: Label(2), end: Label(4), target: Label(9), depth: 0, lasti: false };
        code.handlers.push(handler);
        assert_eq!(code.handler_at(Label(3)), Some(&handler));
        assert_eq!(code.handler_at(Label(1)), None);
        assert_eq!(code.handler_at(Label(4)), None);
    }
}
