//! A listing like `dis` prints, in the same form on every version, for logs and golden tests.
//!
//! Constants of types that are not builtin are shown by type only, because the user's `__repr__` must not run.

use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyCode, PyComplex, PyEllipsis, PyFloat, PyFrozenSet, PyInt, PyNone, PyString, PyTuple,
};

use super::encode::Layout;
use super::{BytecodeError, Code, Instruction, Label, Opcodes, OperandTable};
use crate::version::PyVersion;

impl Code {
    /// Lists all instructions, one in each line: source line if it changes, `>>` at the target of a jump, offset,
    /// name, operand.
    ///
    /// Code that cannot be encoded is listed with indices in place of offsets, after a line that says why.
    pub fn disassemble(&self, py: Python<'_>) -> String {
        let listing = match Listing::new(py, self) {
            Ok(listing) => listing,
            Err(error) => return format!("(no listing: {error})\n"),
        };
        let problem = listing.problem.as_ref().map(|problem| format!("(not encodable: {problem})"));
        let mut lines: Vec<_> = problem.into_iter().collect();
        let targets = self.targets();
        let mut line = None;
        for (index, instruction) in self.instructions.iter().enumerate() {
            let new_line = instruction.position.line.filter(|_| instruction.position.line != line);
            line = instruction.position.line;
            let shown = new_line.map_or(String::new(), |line| line.to_string());
            let mark = if targets[index] { ">>" } else { "" };
            lines.push(format!("{shown:>3}     {mark:>2} {}", listing.instruction(py, Label(index as u32))));
        }
        for handler in &self.handlers {
            let [start, end, target] = [handler.start, handler.end, handler.target].map(|label| listing.offset(label));
            let lasti = if handler.lasti { " lasti" } else { "" };
            lines.push(format!("  {start} to {end} -> {target} [{}]{lasti}", handler.depth));
        }
        lines.join("\n") + "\n"
    }

    /// Lists one instruction: offset, name and operand.
    pub fn disassemble_instruction(&self, py: Python<'_>, at: Label) -> String {
        match Listing::new(py, self) {
            Ok(_) if at.index() >= self.instructions.len() => format!("(no instruction {at})"),
            Ok(listing) => listing.instruction(py, at).trim().to_owned(),
            Err(error) => format!("(no listing: {error})"),
        }
    }

    fn targets(&self) -> Vec<bool> {
        let mut targets = vec![false; self.instructions.len()];
        let jumps = self.instructions.iter().filter_map(|instruction| instruction.target);
        for target in jumps.chain(self.handlers.iter().map(|handler| handler.target)) {
            if let Some(target) = targets.get_mut(target.index()) {
                *target = true;
            }
        }
        targets
    }
}

struct Listing<'a> {
    code: &'a Code,
    opcodes: &'static Opcodes,
    layout: Option<Layout>,
    offsets: Vec<usize>,
    problem: Option<BytecodeError>,
}

impl<'a> Listing<'a> {
    fn new(py: Python<'_>, code: &'a Code) -> Result<Self, BytecodeError> {
        let opcodes = Opcodes::try_get(py)?;
        let listing = Listing { code, opcodes, layout: None, offsets: Vec::new(), problem: None };
        Ok(match Layout::of(&code.instructions, opcodes) {
            Ok(layout) => Listing { offsets: layout.offsets().collect(), layout: Some(layout), ..listing },
            Err(problem) => {
                Listing { offsets: (0..code.instructions.len()).collect(), problem: Some(problem), ..listing }
            }
        })
    }

    fn instruction(&self, py: Python<'_>, at: Label) -> String {
        let instruction = &self.code.instructions[at.index()];
        let info = self.opcodes.info(instruction.opcode);
        let head = format!("{:>4} {:<20}", self.offset(at), info.name);
        if !info.has_arg {
            return head.trim_end().to_owned();
        }
        let arg = self.layout.as_ref().map_or(instruction.arg, |layout| layout.arg(at));
        match self.meaning(py, instruction) {
            Some(meaning) => format!("{head} {arg:>5} ({meaning})"),
            None => format!("{head} {arg:>5}"),
        }
    }

    /// The offset of an instruction; `end` for the label behind the last.
    fn offset(&self, at: Label) -> String {
        self.offsets.get(at.index()).map_or("end".to_owned(), ToString::to_string)
    }

    fn meaning(&self, py: Python<'_>, instruction: &Instruction) -> Option<String> {
        if let Some(target) = instruction.target {
            return Some(format!("to {}", self.offset(target)));
        }
        let info = self.opcodes.info(instruction.opcode);
        let (code, arg) = (self.code, instruction.arg >> info.shift);
        let index = arg as usize;
        match info.operand {
            OperandTable::Plain => None,
            OperandTable::Const => code.consts.get(index).map(|constant| show(constant.bind(py))),
            OperandTable::Name => code.names.get(index).cloned(),
            OperandTable::Local => code.slot_name(arg).map(str::to_owned),
            OperandTable::LocalPair => Some(format!("{}, {}", code.slot_name(arg >> 4)?, code.slot_name(arg & 15)?)),
            OperandTable::Cell => self.cell_name(arg).map(str::to_owned),
            OperandTable::Comparison => self.opcodes.comparisons().get(index).cloned(),
            OperandTable::Operator => self.opcodes.operators().get(index).cloned(),
        }
    }

    fn cell_name(&self, arg: u32) -> Option<&str> {
        if PyVersion::BUILT_FOR >= PyVersion(11) {
            return self.code.slot_name(arg);
        }
        self.code.cellvars.iter().chain(&self.code.freevars).nth(arg as usize).map(String::as_str)
    }
}

/// Shows a constant, without addresses, and in an order that does not depend on hashes.
fn show(constant: &Bound<'_, PyAny>) -> String {
    if let Ok(tuple) = constant.cast_exact::<PyTuple>() {
        let items: Vec<_> = tuple.iter().map(|item| show(&item)).collect();
        let comma = if items.len() == 1 { "," } else { "" };
        return format!("({}{comma})", items.join(", "));
    }
    if let Ok(set) = constant.cast_exact::<PyFrozenSet>() {
        let mut items: Vec<_> = set.iter().map(|item| show(&item)).collect();
        items.sort();
        return format!("frozenset({{{}}})", items.join(", "));
    }
    if let Ok(code) = constant.cast_exact::<PyCode>() {
        let name = code.getattr("co_name").map_or("?".to_owned(), |name| name.to_string());
        return format!("<code object {name}>");
    }
    let repr = if is_plain(constant) { constant.repr().ok() } else { None };
    match repr {
        Some(repr) => repr.to_string_lossy().into_owned(),
        None => constant.get_type().name().map_or("<object>".to_owned(), |name| format!("<{name} object>")),
    }
}

fn is_plain(constant: &Bound<'_, PyAny>) -> bool {
    constant.is_exact_instance_of::<PyNone>()
        || constant.is_exact_instance_of::<PyBool>()
        || constant.is_exact_instance_of::<PyInt>()
        || constant.is_exact_instance_of::<PyFloat>()
        || constant.is_exact_instance_of::<PyComplex>()
        || constant.is_exact_instance_of::<PyString>()
        || constant.is_exact_instance_of::<PyBytes>()
        || constant.is_exact_instance_of::<PyEllipsis>()
}
