//! The code of resume functions: the original instructions behind a prologue that lays out locals and stack, does what is
//! left of a call, and jumps to where the frame goes on. Locals keep their slots; what was a cell becomes a free variable.

use pyo3::prelude::*;

use crate::bytecode::{BytecodeError, Code, Handler, Instruction, Label, Opcodes, Operand, Position};
use crate::error::{Flow, ReasonId, Unwind};
use crate::executor::CodeUnit;
use crate::version::PyVersion;

/// `CO_VARARGS | CO_VARKEYWORDS`
const STARRED: u32 = 0x0c;

/// What distinguishes the resume functions of one code object.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ResumeKey {
    /// The instruction of the original code to go on with.
    pub at: Label,
    /// Which locals are bound.
    pub bound: Vec<bool>,
    /// Which stack items are values; the others are NULL.
    pub stack: Vec<bool>,
    /// Blocks to set up again: stack depth and handler (3.8 to 3.10).
    pub blocks: Vec<(usize, Label)>,
    /// What comes before the original instructions.
    pub entry: Entry,
    /// Whether the frame's caller calls the function as it called the frame: a nested one is driven by nobody else.
    pub nested: bool,
}

/// How a resume function enters the original code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Entry {
    /// By going on at the instruction.
    Next,
    /// By raising its last value, an exception of the instruction, into the handlers.
    Raise,
    /// By going on behind the instruction, a call, with what its last values give: a function, and so many arguments.
    Return(usize),
}

/// A resume function's code, and the length of its prologue.
pub struct ResumeCode {
    /// The code object.
    pub code: Py<PyAny>,
    /// Instructions before the original ones.
    pub prologue: u32,
}

/// Builds the code of a resume function.
pub fn build(py: Python<'_>, unit: &CodeUnit, key: &ResumeKey, line: Position) -> Flow<ResumeCode> {
    let base = &unit.code;
    refuse_late_cells(py, base)?;
    let mut code = base.clone_ref(py);
    let inner = if let Entry::Return(arguments) = key.entry { 1 + arguments } else { 0 };
    let values = key.stack.iter().filter(|value| **value).count() + inner;
    code.varnames.extend((0..values).map(|index| format!("___s{index}")));
    code.freevars = base.cellvars.iter().chain(&base.freevars).cloned().collect();
    code.cellvars = Vec::new();
    code.arg_count = code.varnames.len() as u32;
    code.posonly_count = 0;
    code.kwonly_count = 0;
    code.flags &= !STARRED;
    if PyVersion::BUILT_FOR < PyVersion(11) && !code.names.iter().any(|name| name == "__call__") {
        code.names.push("__call__".to_owned());
    }
    let prologue = Prologue { opcodes: Opcodes::get(py), line, instructions: Vec::new() }.write(&code, base, key)?;
    let shift = prologue.len() as u32;
    let body = base.instructions.iter().map(|instruction| moved(py, base, &code, instruction, shift));
    code.instructions = prologue.into_iter().chain(body).collect();
    for instruction in &mut code.instructions[..shift as usize] {
        if let Some(target) = &mut instruction.target {
            target.0 += shift;
        }
    }
    for handler in &mut code.handlers {
        handler.start.0 += shift;
        handler.end.0 += shift;
        handler.target.0 += shift;
    }
    // What raises is the last instruction of the prologue, or a call before the jump that is the last.
    let raising = match key.entry {
        Entry::Next => None,
        Entry::Raise => Some(shift - 1),
        Entry::Return(_) => Some(shift - 2),
    };
    if let (Some(at), Some(handler)) = (raising, base.handler_at(key.at)) {
        let (start, end) = (Label(at), Label(at + 1));
        let target = Label(handler.target.0 + shift);
        code.handlers.push(Handler { start, end, target, depth: handler.depth, lasti: handler.lasti });
    }
    let code = code.encode(unit.object.bind(py)).map_err(|error| refuse(&error))?;
    Ok(ResumeCode { code: code.unbind(), prologue: shift })
}

/// A cell made in the middle (by an inlined comprehension) cannot become a free variable.
fn refuse_late_cells(py: Python<'_>, base: &Code) -> Flow<()> {
    let opcodes = Opcodes::get(py);
    let named = |name: &'static str| move |instruction: &Instruction| opcodes.name(instruction.opcode) == name;
    let start = base.instructions.iter().position(named("RESUME")).unwrap_or(0);
    if base.instructions[start..].iter().any(named("MAKE_CELL")) {
        return Err(Unwind::fallback(
            ReasonId::CannotRestore,
            "a comprehension whose variable is captured by a function",
        ));
    }
    Ok(())
}

fn refuse(error: &BytecodeError) -> Unwind {
    Unwind::fallback(ReasonId::CannotRestore, format!("no resume function can be built here: {error}"))
}

/// An original instruction at its new place: targets move, cells are found at their new slots.
fn moved(py: Python<'_>, base: &Code, code: &Code, instruction: &Instruction, shift: u32) -> Instruction {
    let mut instruction = *instruction;
    if let Some(target) = &mut instruction.target {
        target.0 += shift;
    }
    if PyVersion::BUILT_FOR < PyVersion(11) {
        return instruction;
    }
    let info = Opcodes::get(py).info(instruction.opcode);
    if !matches!(info.operand, Operand::Cell | Operand::Local) {
        return instruction;
    }
    if let Some(cell) = base.cell_index(instruction.arg) {
        instruction.arg = code.deref_arg(cell);
    }
    instruction
}

struct Prologue {
    opcodes: &'static Opcodes,
    line: Position,
    instructions: Vec<Instruction>,
}

impl Prologue {
    fn op(&mut self, name: &str, arg: u32) -> Flow<()> {
        let opcode = self.opcodes.number(name).ok_or_else(|| {
            Unwind::fallback(
                ReasonId::CannotRestore,
                format!("{name} is needed to resume, and this interpreter has none"),
            )
        })?;
        self.instructions.push(Instruction::new(opcode, arg, self.line));
        Ok(())
    }

    fn write(mut self, code: &Code, base: &Code, key: &ResumeKey) -> Flow<Vec<Instruction>> {
        let prepared = PyVersion::BUILT_FOR < PyVersion(11);
        if !prepared {
            if !code.freevars.is_empty() {
                self.op("COPY_FREE_VARS", code.freevars.len() as u32)?;
            }
            self.op("RESUME", 0)?;
        }
        for (slot, _) in key.bound.iter().enumerate().filter(|(_, bound)| !**bound) {
            self.op("DELETE_FAST", slot as u32)?;
        }
        let mut slot = base.varnames.len() as u32;
        let mut null_below = false;
        let mut blocks = key.blocks.iter().peekable();
        for (depth, &value) in key.stack.iter().enumerate() {
            while let Some((_, handler)) = blocks.next_if(|(at, _)| *at == depth) {
                self.jump("SETUP_FINALLY", *handler)?;
            }
            if value {
                self.op("LOAD_FAST", slot)?;
                self.op("DELETE_FAST", slot)?;
                slot += 1;
                if null_below {
                    // A method pair without PUSH_NULL: the callable as receiver of its own `__call__`.
                    self.load_own_call(code)?;
                    null_below = false;
                }
            } else if prepared {
                null_below = true;
            } else {
                self.op("PUSH_NULL", 0)?;
            }
        }
        for (_, handler) in blocks {
            self.jump("SETUP_FINALLY", *handler)?;
        }
        match key.entry {
            Entry::Next => self.jump("JUMP_FORWARD", key.at)?,
            Entry::Raise if prepared => self.op("RAISE_VARARGS", 1)?,
            Entry::Raise => self.op("RERAISE", 0)?,
            Entry::Return(arguments) => {
                self.call(slot, arguments as u32)?;
                self.jump("JUMP_FORWARD", Label(key.at.0 + 1))?;
            }
        }
        Ok(self.instructions)
    }

    /// Calls the function in a slot with what is in the slots behind it.
    fn call(&mut self, function: u32, arguments: u32) -> Flow<()> {
        let version = PyVersion::BUILT_FOR;
        if (11..13).contains(&version.0) {
            self.op("PUSH_NULL", 0)?;
        }
        for slot in function..=function + arguments {
            self.op("LOAD_FAST", slot)?;
            self.op("DELETE_FAST", slot)?;
            if slot == function && version >= PyVersion(13) {
                self.op("PUSH_NULL", 0)?;
            }
        }
        if version == PyVersion(11) {
            self.op("PRECALL", arguments)?;
        }
        self.op(if version < PyVersion(11) { "CALL_FUNCTION" } else { "CALL" }, arguments)
    }

    /// A jump into the original instructions.
    fn jump(&mut self, name: &str, target: Label) -> Flow<()> {
        self.op(name, 0)?;
        if let Some(jump) = self.instructions.last_mut() {
            jump.target = Some(target);
        }
        Ok(())
    }

    fn load_own_call(&mut self, code: &Code) -> Flow<()> {
        match code.names.iter().position(|name| name == "__call__") {
            Some(name) => self.op("LOAD_METHOD", name as u32),
            None => Err(Unwind::fallback(ReasonId::CannotRestore, "a half-evaluated method call around the break")),
        }
    }
}
