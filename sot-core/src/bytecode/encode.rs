//! Encodes the model as a code object.
//!
//! An unedited model gives a code object that equals the original in every attribute, with the line table byte for
//! byte. For an edited model, stack size, jumps, inline caches and tables are computed; all else is the original's.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCode, PyDict, PyTuple};

use super::line_table::LineTable;
use super::{decode, exception_table, stack_depth, BytecodeError, Code, Instruction, JumpKind, Label, Opcodes};
use crate::version::PyVersion;

impl Code {
    /// Creates a code object like `template`, with the attributes in which this code differs.
    ///
    /// The line table is that of `template` if the bytecode is as long, and if it gives every instruction the same
    /// position. A new line table makes `co_lines()`, `co_positions()` and `dis.findlinestarts()` agree with
    /// [`Instruction::position`]. The stack size is computed, unless bytecode and handlers are those of `template`.
    pub fn encode<'py>(&self, template: &Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>, BytecodeError> {
        let template = decode::as_code(template)?;
        self.encode_like(template, &decode::header(template)?)
    }

    /// Encodes with a template whose attributes, those of `old`, are known.
    pub(super) fn encode_like<'py>(
        &self,
        template: &Bound<'py, PyCode>,
        old: &Code,
    ) -> Result<Bound<'py, PyAny>, BytecodeError> {
        let py = template.py();
        let opcodes = Opcodes::try_get(py)?;
        let layout = Layout::of(&self.instructions, opcodes)?;
        let mut changes = Changes::new(py);
        self.change_header(old, &mut changes)?;
        let is_as_long = self.change_bytecode(template, &layout, opcodes, &mut changes)?;
        self.change_line_table(template, &layout, is_as_long, &mut changes)?;
        Ok(template.call_method("replace", (), Some(&changes.0))?)
    }

    /// Returns the byte offset of every opcode, behind its prefixes: the offset that `dis` prints and `f_lasti`
    /// holds.
    pub fn offsets(&self, py: Python<'_>) -> Result<Vec<u32>, BytecodeError> {
        let layout = Layout::of(&self.instructions, Opcodes::try_get(py)?)?;
        Ok(layout.offsets().map(|offset| offset as u32).collect())
    }

    fn change_header(&self, old: &Code, changes: &mut Changes<'_>) -> PyResult<()> {
        changes.text("co_filename", &self.filename, &old.filename)?;
        changes.text("co_name", &self.name, &old.name)?;
        if PyVersion::BUILT_FOR >= PyVersion(11) {
            changes.text("co_qualname", &self.qualname, &old.qualname)?;
        }
        changes.number("co_firstlineno", self.first_line, old.first_line)?;
        changes.number("co_flags", self.flags, old.flags)?;
        changes.number("co_argcount", self.arg_count, old.arg_count)?;
        changes.number("co_posonlyargcount", self.posonly_count, old.posonly_count)?;
        changes.number("co_kwonlyargcount", self.kwonly_count, old.kwonly_count)?;
        changes.number("co_nlocals", self.varnames.len() as u32, old.varnames.len() as u32)?;
        changes.names("co_names", &self.names, &old.names)?;
        changes.names("co_varnames", &self.varnames, &old.varnames)?;
        changes.names("co_cellvars", &self.cellvars, &old.cellvars)?;
        changes.names("co_freevars", &self.freevars, &old.freevars)?;
        changes.constants(&self.consts, &old.consts)
    }

    /// Returns whether the bytecode is as long as that of the template.
    fn change_bytecode(
        &self,
        template: &Bound<'_, PyCode>,
        layout: &Layout,
        opcodes: &Opcodes,
        changes: &mut Changes<'_>,
    ) -> Result<bool, BytecodeError> {
        let py = template.py();
        let (bytecode, old_bytecode) = (layout.bytecode(&self.instructions, opcodes), decode::bytecode(template)?);
        let (handlers, old_handlers) = (self.exception_table(layout)?, decode::exception_table(template)?);
        let edited = bytecode != old_bytecode || handlers != old_handlers;
        let stack_size = if edited { stack_depth(py, self)?.max(1) } else { self.stack_size };
        let old_stack_size: u32 = template.getattr("co_stacksize")?.extract()?;
        changes.number("co_stacksize", stack_size, old_stack_size)?;
        changes.bytes("co_code", &bytecode, &old_bytecode)?;
        changes.bytes("co_exceptiontable", &handlers, &old_handlers)?;
        Ok(bytecode.len() == old_bytecode.len())
    }

    /// Keeps the template's table if the bytecode `is_as_long`, and the table gives each instruction its position.
    fn change_line_table(
        &self,
        template: &Bound<'_, PyCode>,
        layout: &Layout,
        is_as_long: bool,
        changes: &mut Changes<'_>,
    ) -> Result<(), BytecodeError> {
        let format = LineTable::of(PyVersion::BUILT_FOR);
        let old = decode::line_table(template)?;
        let wanted = || self.instructions.iter().map(|instruction| instruction.position);
        if is_as_long {
            let said = format.positions(&old, self.first_line, layout.offsets());
            if said.is_ok_and(|said| said.into_iter().eq(wanted())) {
                return Ok(());
            }
        }
        let spans: Vec<_> = layout.sizes().zip(wanted()).collect();
        let table = format.encode(self.first_line, &spans);
        Ok(changes.bytes(format.attribute(), &table, &old)?)
    }

    fn exception_table(&self, layout: &Layout) -> Result<Vec<u8>, BytecodeError> {
        if PyVersion::BUILT_FOR < PyVersion(11) && !self.handlers.is_empty() {
            return Err(BytecodeError::NoExceptionTable { count: self.handlers.len() });
        }
        // The interpreter searches the table by the start of ranges.
        let mut handlers: Vec<_> = self.handlers.iter().filter(|handler| handler.start < handler.end).collect();
        handlers.sort_by_key(|handler| handler.start);
        if let Some(pair) = handlers.windows(2).find(|pair| pair[1].start < pair[0].end) {
            return Err(BytecodeError::HandlerOverlap { end: pair[0].end, start: pair[1].start });
        }
        let entries: Result<Vec<_>, BytecodeError> = handlers
            .into_iter()
            .map(|handler| {
                let unit = |label| layout.unit(label, || "an exception handler".to_owned());
                let start = unit(handler.start)?;
                Ok(exception_table::ExceptionTableEntry {
                    start,
                    length: unit(handler.end)? - start,
                    target: unit(handler.target)?,
                    depth: handler.depth,
                    lasti: handler.lasti,
                })
            })
            .collect();
        Ok(exception_table::encode(&entries?))
    }
}

/// The place of every instruction.
pub(super) struct Layout {
    /// First two-byte unit of each instruction, with its prefixes; the end of the code comes last.
    starts: Vec<u32>,
    /// Operands with jumps resolved.
    args: Vec<u32>,
    /// Number of `EXTENDED_ARG` prefixes of each instruction.
    prefixes: Vec<u8>,
}

impl Layout {
    pub(super) fn of(instructions: &[Instruction], opcodes: &Opcodes) -> Result<Layout, BytecodeError> {
        check_targets(instructions, opcodes)?;
        let args: Vec<_> = instructions.iter().map(|i| if i.target.is_some() { 0 } else { i.arg }).collect();
        let prefixes =
            instructions.iter().zip(&args).map(|(i, &arg)| prefixes_for(arg).max(i.extended.min(3))).collect();
        let mut layout = Layout { starts: Vec::with_capacity(args.len() + 1), args, prefixes };
        // Longer prefixes make jumps longer, which may need longer prefixes. Prefixes only grow, so this loop ends.
        loop {
            layout.measure(instructions, opcodes);
            if !layout.resolve_jumps(instructions, opcodes) {
                return Ok(layout);
            }
        }
    }

    /// Byte offsets of all opcodes.
    pub(super) fn offsets(&self) -> impl Iterator<Item = usize> + '_ {
        self.starts.iter().zip(&self.prefixes).map(|(&start, &prefixes)| 2 * (start as usize + usize::from(prefixes)))
    }

    /// The operand written for an instruction.
    pub(super) fn arg(&self, at: Label) -> u32 {
        self.args[at.index()]
    }

    fn sizes(&self) -> impl Iterator<Item = usize> + '_ {
        self.starts.windows(2).map(|pair| 2 * (pair[1] - pair[0]) as usize)
    }

    fn unit(&self, label: Label, what: impl Fn() -> String) -> Result<u32, BytecodeError> {
        let unit = self.starts.get(label.index()).copied();
        unit.ok_or_else(|| BytecodeError::LabelOutside { what: what(), label, count: self.args.len() })
    }

    fn measure(&mut self, instructions: &[Instruction], opcodes: &Opcodes) {
        self.starts.clear();
        let mut unit = 0;
        for (instruction, &prefixes) in instructions.iter().zip(&self.prefixes) {
            self.starts.push(unit);
            unit += 1 + u32::from(prefixes) + u32::from(opcodes.info(instruction.opcode).caches);
        }
        self.starts.push(unit);
    }

    /// Computes the operands of jumps. Returns whether one of them needs more prefixes.
    fn resolve_jumps(&mut self, instructions: &[Instruction], opcodes: &Opcodes) -> bool {
        let mut grown = false;
        for (index, instruction) in instructions.iter().enumerate() {
            let Some(target) = instruction.target else { continue };
            let (end, target) = (self.starts[index + 1], self.starts[target.index()]);
            let distance = match opcodes.info(instruction.opcode).jump {
                Some(JumpKind::Forward) => target - end,
                Some(JumpKind::Backward) => end - target,
                _ => target,
            };
            self.args[index] = distance * decode::unit_size();
            let needed = prefixes_for(self.args[index]);
            if needed > self.prefixes[index] {
                self.prefixes[index] = needed;
                grown = true;
            }
        }
        grown
    }

    fn bytecode(&self, instructions: &[Instruction], opcodes: &Opcodes) -> Vec<u8> {
        let mut bytecode = Vec::with_capacity(2 * self.starts.last().map_or(0, |end| *end as usize));
        for ((instruction, &arg), &prefixes) in instructions.iter().zip(&self.args).zip(&self.prefixes) {
            let bytes = arg.to_be_bytes();
            for &byte in &bytes[3 - usize::from(prefixes)..3] {
                bytecode.extend([opcodes.extended_arg(), byte]);
            }
            bytecode.extend_from_slice(&[instruction.opcode, bytes[3]]);
            for _ in 0..opcodes.info(instruction.opcode).caches {
                bytecode.extend_from_slice(&[0, 0]);
            }
        }
        bytecode
    }
}

fn prefixes_for(arg: u32) -> u8 {
    match arg {
        0..=0xff => 0,
        0x100..=0xffff => 1,
        0x1_0000..=0xff_ffff => 2,
        _ => 3,
    }
}

/// Refuses labels that cannot be encoded. The direction of a jump does not depend on sizes.
fn check_targets(instructions: &[Instruction], opcodes: &Opcodes) -> Result<(), BytecodeError> {
    for (index, instruction) in instructions.iter().enumerate() {
        let info = opcodes.info(instruction.opcode);
        let (at, opcode) = (Label(index as u32), || info.name.clone());
        let (kind, target) = match (info.jump, instruction.target) {
            (Some(kind), Some(target)) => (kind, target),
            (None, None) => continue,
            (jump, _) => return Err(BytecodeError::Target { at, opcode: opcode(), is_jump: jump.is_some() }),
        };
        if target.index() > instructions.len() {
            let what = format!("{} at {at}", info.name);
            return Err(BytecodeError::LabelOutside { what, label: target, count: instructions.len() });
        }
        let reachable = match kind {
            JumpKind::Absolute => true,
            JumpKind::Forward => target > at,
            JumpKind::Backward => target <= at,
        };
        if !reachable {
            return Err(BytecodeError::Direction { at, opcode: opcode(), kind, target });
        }
    }
    Ok(())
}

/// The keyword arguments of `code.replace`: the attributes that differ.
struct Changes<'py>(Bound<'py, PyDict>);

impl<'py> Changes<'py> {
    fn new(py: Python<'py>) -> Self {
        Changes(PyDict::new(py))
    }

    fn text(&mut self, attribute: &str, new: &str, old: &str) -> PyResult<()> {
        if new == old {
            return Ok(());
        }
        self.0.set_item(attribute, new)
    }

    fn number(&mut self, attribute: &str, new: u32, old: u32) -> PyResult<()> {
        if new == old {
            return Ok(());
        }
        self.0.set_item(attribute, new)
    }

    fn bytes(&mut self, attribute: &str, new: &[u8], old: &[u8]) -> PyResult<()> {
        if new == old {
            return Ok(());
        }
        self.0.set_item(attribute, PyBytes::new(self.0.py(), new))
    }

    fn names(&mut self, attribute: &str, new: &[String], old: &[String]) -> PyResult<()> {
        if new == old {
            return Ok(());
        }
        self.0.set_item(attribute, PyTuple::new(self.0.py(), new)?)
    }

    fn constants(&mut self, new: &[Py<PyAny>], old: &[Py<PyAny>]) -> PyResult<()> {
        if new.len() == old.len() && new.iter().zip(old).all(|(new, old)| new.is(old)) {
            return Ok(());
        }
        self.0.set_item("co_consts", PyTuple::new(self.0.py(), new)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_hold_all_but_the_last_byte() {
        let sizes = [0, 0xff, 0x100, 0xffff, 0x1_0000, 0xff_ffff, 0x100_0000].map(prefixes_for);
        assert_eq!(sizes, [0, 0, 1, 1, 2, 2, 3]);
    }
}
