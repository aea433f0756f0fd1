//! Decodes a code object into the model. Bytecode is read from `co_code`, which has no specialised or instrumented
//! opcodes.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCode, PyString, PyTuple};

use super::line_table::LineTable;
use super::{exception_table, BytecodeError, Code, ExceptionHandler, Instruction, JumpKind, Label, Opcodes, Position};
use crate::version::PyVersion;

impl Code {
    /// Decodes a code object.
    pub fn decode(code: &Bound<'_, PyAny>) -> Result<Code, BytecodeError> {
        let opcodes = Opcodes::try_get(code.py())?;
        let code = as_code(code)?;
        let mut scan = scan(&bytecode(code)?, opcodes)?;
        scan.resolve_jumps(opcodes)?;
        let mut model = header(code)?;
        scan.place(&line_table(code)?, model.first_line)?;
        model.handlers = scan.handlers(&exception_table(code)?)?;
        model.instructions = scan.instructions;
        Ok(model)
    }
}

pub(super) fn as_code<'a, 'py>(code: &'a Bound<'py, PyAny>) -> Result<&'a Bound<'py, PyCode>, BytecodeError> {
    code.cast().map_err(|_| BytecodeError::NotCode { found: code.get_type().to_string() })
}

/// Decodes everything but instructions and exception handlers.
pub(super) fn header(code: &Bound<'_, PyCode>) -> Result<Code, BytecodeError> {
    let name = text(code, "co_name")?;
    let qualname = if PyVersion::BUILT_FOR < PyVersion(11) { name.clone() } else { text(code, "co_qualname")? };
    Ok(Code {
        filename: text(code, "co_filename")?,
        name,
        qualname,
        first_line: count(code, "co_firstlineno")?,
        flags: count(code, "co_flags")?,
        arg_count: count(code, "co_argcount")?,
        posonly_count: count(code, "co_posonlyargcount")?,
        kwonly_count: count(code, "co_kwonlyargcount")?,
        stack_size: count(code, "co_stacksize")?,
        consts: constants(code)?,
        names: code.getattr("co_names")?.extract()?,
        varnames: code.getattr("co_varnames")?.extract()?,
        cellvars: code.getattr("co_cellvars")?.extract()?,
        freevars: code.getattr("co_freevars")?.extract()?,
        instructions: Vec::new(),
        handlers: Vec::new(),
    })
}

pub(super) fn bytecode(code: &Bound<'_, PyCode>) -> Result<Vec<u8>, BytecodeError> {
    bytes(code, "co_code")
}

pub(super) fn line_table(code: &Bound<'_, PyCode>) -> Result<Vec<u8>, BytecodeError> {
    bytes(code, LineTable::of(PyVersion::BUILT_FOR).attribute())
}

/// Reads the raw exception table; empty before 3.11, which has none.
pub(super) fn exception_table(code: &Bound<'_, PyCode>) -> Result<Vec<u8>, BytecodeError> {
    if PyVersion::BUILT_FOR < PyVersion(11) {
        return Ok(Vec::new());
    }
    bytes(code, "co_exceptiontable")
}

fn bytes(code: &Bound<'_, PyCode>, attribute: &str) -> Result<Vec<u8>, BytecodeError> {
    let value = code.getattr(attribute)?;
    Ok(value.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes().to_vec())
}

fn text(code: &Bound<'_, PyCode>, attribute: &str) -> Result<String, BytecodeError> {
    let value = code.getattr(attribute)?;
    Ok(value.cast::<PyString>().map_err(PyErr::from)?.to_string_lossy().into_owned())
}

/// Reads a C int that is not negative. A negative line, which only occurs in hand-made syntax trees, reads as zero.
fn count(code: &Bound<'_, PyCode>, attribute: &str) -> Result<u32, BytecodeError> {
    let value: i64 = code.getattr(attribute)?.extract()?;
    Ok(u32::try_from(value).unwrap_or(0))
}

fn constants(code: &Bound<'_, PyCode>) -> Result<Vec<Py<PyAny>>, BytecodeError> {
    let consts = code.getattr("co_consts")?;
    let consts = consts.cast::<PyTuple>().map_err(PyErr::from)?;
    Ok(consts.iter().map(Bound::unbind).collect())
}

/// Instructions, and the two-byte unit at which each of them starts, with its prefixes. The end of the code comes
/// last.
struct Scan {
    instructions: Vec<Instruction>,
    starts: Vec<u32>,
}

fn scan(bytecode: &[u8], opcodes: &Opcodes) -> Result<Scan, BytecodeError> {
    let units: Vec<_> = bytecode.chunks_exact(2).map(|unit| (unit[0], unit[1])).collect();
    let mut scan = Scan { instructions: Vec::with_capacity(units.len()), starts: vec![0] };
    let mut start = 0;
    while start < units.len() {
        let (instruction, size) = instruction(&units, start, opcodes)?;
        scan.instructions.push(instruction);
        start += size;
        scan.starts.push(start as u32);
    }
    Ok(scan)
}

/// Decodes the instruction that starts at a unit. Returns also its number of units, with prefixes and inline caches.
fn instruction(units: &[(u8, u8)], start: usize, opcodes: &Opcodes) -> Result<(Instruction, usize), BytecodeError> {
    let offset = 2 * start;
    let prefixes = units[start..].iter().take_while(|unit| unit.0 == opcodes.extended_arg()).count();
    if prefixes > 3 {
        return Err(BytecodeError::TooManyPrefixes { offset });
    }
    let whole = units.get(start..=start + prefixes).ok_or(BytecodeError::Truncated { offset })?;
    let arg = whole.iter().fold(0, |arg: u32, unit| arg << 8 | u32::from(unit.1));
    let opcode = whole[prefixes].0;
    let size = prefixes + 1 + usize::from(opcodes.info(opcode).caches);
    if start + size > units.len() {
        return Err(BytecodeError::Truncated { offset });
    }
    let instruction = Instruction { extended: prefixes as u8, ..Instruction::new(opcode, arg, Position::default()) };
    Ok((instruction, size))
}

impl Scan {
    fn resolve_jumps(&mut self, opcodes: &Opcodes) -> Result<(), BytecodeError> {
        for index in 0..self.instructions.len() {
            let instruction = self.instructions[index];
            let info = opcodes.info(instruction.opcode);
            let Some(kind) = info.jump else { continue };
            let distance = i64::from(instruction.arg / unit_size());
            let end = i64::from(self.starts[index + 1]);
            let unit = match kind {
                JumpKind::Absolute => distance,
                JumpKind::Forward => end + distance,
                JumpKind::Backward => end - distance,
            };
            let target = u32::try_from(unit).ok().and_then(|unit| self.label(unit));
            let target = target.ok_or_else(|| BytecodeError::JumpIntoInstruction {
                at: Label(index as u32),
                opcode: info.name.clone(),
                unit,
            })?;
            self.instructions[index].target = Some(target);
        }
        Ok(())
    }

    fn place(&mut self, line_table: &[u8], first_line: u32) -> Result<(), BytecodeError> {
        let starts = self.starts.iter().zip(&self.instructions);
        let offsets = starts.map(|(&start, instruction)| 2 * (start as usize + usize::from(instruction.extended)));
        let positions = LineTable::of(PyVersion::BUILT_FOR).positions(line_table, first_line, offsets)?;
        for (instruction, position) in self.instructions.iter_mut().zip(positions) {
            instruction.position = position;
        }
        Ok(())
    }

    fn handlers(&self, table: &[u8]) -> Result<Vec<ExceptionHandler>, BytecodeError> {
        let label = |unit: u32| {
            self.label(unit).ok_or(BytecodeError::ExceptionTable { byte: 0, what: "a bound is inside an instruction" })
        };
        let handler = |entry: &exception_table::ExceptionTableEntry| {
            Ok(ExceptionHandler {
                start: label(entry.start)?,
                end: label(entry.start.saturating_add(entry.length))?,
                target: label(entry.target)?,
                depth: entry.depth,
                lasti: entry.lasti,
            })
        };
        exception_table::decode(table)?.iter().map(handler).collect()
    }

    fn label(&self, unit: u32) -> Option<Label> {
        self.starts.binary_search(&unit).ok().map(|index| Label(index as u32))
    }
}

/// Divisor of jump operands: jumps count bytes up to 3.9, and two-byte units from 3.10 on.
pub(super) fn unit_size() -> u32 {
    if PyVersion::BUILT_FOR < PyVersion(10) {
        2
    } else {
        1
    }
}
