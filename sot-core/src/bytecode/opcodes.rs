//! The opcode table of the running interpreter, read once from Python's own `opcode` module.
//!
//! Numbers, inline caches, jumps and kinds of operand come from that module. Three facts it does not have are listed
//! here by name: the direction of relative jumps, the opcodes that end a block, and the operands with flags in their
//! low bits.

use std::fmt;
use std::sync::atomic::{AtomicI16, Ordering};

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use rustc_hash::FxHashMap;

use super::{BytecodeError, Op};
use crate::cpython;
use crate::version::PyVersion;

/// The two local slots in the operand of an instruction that names two locals, four bits each.
#[must_use]
pub const fn local_pair(arg: u32) -> [u32; 2] {
    [arg >> 4, arg & 15]
}

/// All opcodes of the running interpreter.
#[derive(Debug)]
pub struct Opcodes {
    infos: Vec<OpcodeInfo>,
    numbers: FxHashMap<String, u8>,
    // Number of each `Op` in this interpreter, by its index.
    written: Vec<Option<u8>>,
    extended_arg: u8,
    comparisons: Vec<String>,
    operators: Vec<String>,
    stack_effect: Py<PyAny>,
    // Answers of `stack_effect` for small operands, and for others.
    small_effects: Vec<AtomicI16>,
    effects: Mutex<FxHashMap<StackChange, i32>>,
}

/// Opcode and operand of an instruction, and whether it jumps.
pub(super) type StackChange = (u8, u32, bool);

/// Maximum number of remembered stack effects of instructions with large operands.
const MAX_EFFECTS: usize = 1 << 12;

/// The table of stack effects for small operands has those below this number.
const SMALL_OPERANDS: usize = 64;

/// Stands for a stack effect that has not been asked for.
const UNKNOWN_EFFECT: i16 = i16::MIN;

/// Place of an instruction in the table of stack effects for small operands.
fn small_effect((opcode, arg, jump): StackChange) -> Option<usize> {
    let arg = Some(arg as usize).filter(|arg| *arg < SMALL_OPERANDS)?;
    Some((usize::from(opcode) * 2 + usize::from(jump)) * SMALL_OPERANDS + arg)
}

/// Facts about one opcode.
#[derive(Clone, Debug)]
pub struct OpcodeInfo {
    /// CPython's name, or `<17>` for a number without one.
    pub name: String,
    /// Number of inline cache units behind the instruction.
    pub caches: u8,
    /// How the operand encodes a jump target; `None` for opcodes that do not jump. Setting up a block counts as a
    /// jump.
    pub jump: Option<JumpKind>,
    /// True if the operand has a meaning.
    pub has_arg: bool,
    /// The table that the operand indexes.
    pub operand: OperandTable,
    /// Number of low bits of the operand that are flags; the index is above them.
    pub shift: u8,
    /// True if control may continue at the next instruction.
    pub falls_through: bool,
}

/// How a jump counts its distance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JumpKind {
    /// From the start of the code.
    Absolute,
    /// Forward from the end of the instruction.
    Forward,
    /// Backward from the end of the instruction.
    Backward,
}

/// The table that an operand indexes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperandTable {
    /// No table: a count, flags, or no operand.
    Plain,
    /// `co_consts`.
    Const,
    /// `co_names`.
    Name,
    /// Locals (since 3.11: slots of the frame).
    Local,
    /// Two locals, four bits each.
    LocalPair,
    /// Cells (since 3.11: slots of the frame).
    Cell,
    /// The comparison operators.
    Comparison,
    /// The binary operators of `BINARY_OP`.
    Operator,
}

static OPCODES: PyOnceLock<Opcodes> = PyOnceLock::new();

impl Opcodes {
    /// Returns the table of the running interpreter.
    ///
    /// # Panics
    /// If Python's `opcode` module is unusable. Every decode goes through [`Opcodes::try_get`], which returns an
    /// error instead.
    pub fn get(py: Python<'_>) -> &'static Opcodes {
        Opcodes::try_get(py).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns the table of the running interpreter, or an error about its `opcode` module.
    pub fn try_get(py: Python<'_>) -> Result<&'static Opcodes, BytecodeError> {
        // No `once_cell` here: reading imports modules, which may pass the GIL to a thread that waits for this cell.
        OPCODES.get_or_try_init(py, || Opcodes::read(py))
    }

    /// The number of a named opcode; `None` if this interpreter does not have it.
    pub fn number(&self, name: &str) -> Option<u8> {
        self.numbers.get(name).copied()
    }

    /// The number of an opcode of generated code; `None` if this interpreter does not have it.
    pub fn find(&self, op: Op) -> Option<u8> {
        self.written[op as usize]
    }

    /// True if an opcode number is this opcode.
    pub fn is(&self, opcode: u8, op: Op) -> bool {
        self.find(op) == Some(opcode)
    }

    /// Returns the name of an opcode; `<17>` for a number without name.
    pub fn name(&self, opcode: u8) -> &str {
        &self.info(opcode).name
    }

    /// Facts about an opcode.
    pub fn info(&self, opcode: u8) -> &OpcodeInfo {
        &self.infos[usize::from(opcode)]
    }

    /// Returns the number of `EXTENDED_ARG`.
    pub(super) const fn extended_arg(&self) -> u8 {
        self.extended_arg
    }

    /// The comparison operators, by the index in a comparison's operand.
    pub fn comparisons(&self) -> &[String] {
        &self.comparisons
    }

    /// The binary operators, by the operand of `BINARY_OP`; empty before 3.11.
    pub fn operators(&self) -> &[String] {
        &self.operators
    }

    /// Python's own `_opcode.stack_effect`.
    pub(super) fn stack_effect_function<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        self.stack_effect.bind(py)
    }

    /// Returns a remembered stack effect.
    pub(super) fn known_effect(&self, change: StackChange) -> Option<i32> {
        match small_effect(change) {
            Some(index) => {
                let effect = self.small_effects[index].load(Ordering::Relaxed);
                (effect != UNKNOWN_EFFECT).then_some(effect.into())
            }
            None => self.effects.lock().get(&change).copied(),
        }
    }

    /// Remembers a stack effect.
    pub(super) fn remember_effect(&self, change: StackChange, effect: i32) {
        if let (Some(index), Ok(effect)) = (small_effect(change), i16::try_from(effect)) {
            return self.small_effects[index].store(effect, Ordering::Relaxed);
        }
        let mut effects = self.effects.lock();
        if effects.len() == MAX_EFFECTS {
            effects.clear();
        }
        effects.insert(change, effect);
    }

    fn read(py: Python<'_>) -> Result<Opcodes, BytecodeError> {
        let module = cpython::import(py, "opcode")?;
        let numbers = real_opcodes(module.getattr("opmap")?.extract()?);
        let extended_arg = numbers
            .get("EXTENDED_ARG")
            .copied()
            .ok_or_else(|| BytecodeError::OpcodeModule { what: "`opmap` has no EXTENDED_ARG".to_owned() })?;
        let mut infos = unknown_opcodes();
        for (name, &opcode) in &numbers {
            infos[usize::from(opcode)] = named(name);
        }
        mark_operands(&module, &mut infos)?;
        mark_jumps(&module, &mut infos)?;
        mark_caches(&module, &numbers, &mut infos)?;
        Ok(Opcodes {
            infos,
            written: Op::ALL.iter().map(|op| numbers.get(op.name()).copied()).collect(),
            numbers,
            extended_arg,
            comparisons: module.getattr("cmp_op")?.extract()?,
            operators: operators(&module)?,
            stack_effect: cpython::import(py, "_opcode")?.getattr("stack_effect")?.unbind(),
            small_effects: (0..256 * 2 * SMALL_OPERANDS).map(|_| AtomicI16::new(UNKNOWN_EFFECT)).collect(),
            effects: Mutex::default(),
        })
    }
}

/// `opmap` without opcodes that never occur in `co_code`: pseudo opcodes (above 255) and instrumented ones.
fn real_opcodes(opmap: FxHashMap<String, u32>) -> FxHashMap<String, u8> {
    opmap
        .into_iter()
        .filter(|(name, _)| !name.starts_with("INSTRUMENTED_"))
        .filter_map(|(name, opcode)| Some((name, u8::try_from(opcode).ok()?)))
        .collect()
}

fn unknown_opcodes() -> Vec<OpcodeInfo> {
    (0..=255).map(|opcode| named(&format!("<{opcode}>"))).collect()
}

fn named(name: &str) -> OpcodeInfo {
    OpcodeInfo {
        name: name.to_owned(),
        caches: 0,
        jump: None,
        has_arg: false,
        operand: special_operand(name),
        shift: shift(name, PyVersion::BUILT_FOR),
        falls_through: !ends_block(name),
    }
}

fn special_operand(name: &str) -> OperandTable {
    match name {
        "COMPARE_OP" => OperandTable::Comparison,
        "BINARY_OP" => OperandTable::Operator,
        "LOAD_FAST_LOAD_FAST" | "STORE_FAST_LOAD_FAST" | "STORE_FAST_STORE_FAST" => OperandTable::LocalPair,
        _ => OperandTable::Plain,
    }
}

fn shift(name: &str, version: PyVersion) -> u8 {
    match (name, version.0) {
        ("LOAD_GLOBAL", 11..) | ("LOAD_ATTR", 12..) => 1,
        ("LOAD_SUPER_ATTR", 12..) => 2,
        ("COMPARE_OP", 12) => 4,
        ("COMPARE_OP", 13..) => 5,
        _ => 0,
    }
}

fn ends_block(name: &str) -> bool {
    matches!(
        name,
        "RETURN_VALUE"
            | "RETURN_CONST"
            | "RAISE_VARARGS"
            | "RERAISE"
            | "JUMP_ABSOLUTE"
            | "JUMP_FORWARD"
            | "JUMP_BACKWARD"
            | "JUMP_BACKWARD_NO_INTERRUPT"
            | "INTERPRETER_EXIT"
    )
}

fn mark_operands(module: &Bound<'_, PyModule>, infos: &mut [OpcodeInfo]) -> PyResult<()> {
    let tables = [
        ("hasconst", OperandTable::Const),
        ("hasname", OperandTable::Name),
        ("haslocal", OperandTable::Local),
        ("hasfree", OperandTable::Cell),
    ];
    for (table, operand) in tables {
        for opcode in numbers_in(module, table)? {
            let info = &mut infos[usize::from(opcode)];
            if info.operand == OperandTable::Plain {
                info.operand = operand;
            }
        }
    }
    for opcode in opcodes_with_argument(module)? {
        infos[usize::from(opcode)].has_arg = true;
    }
    Ok(())
}

fn opcodes_with_argument(module: &Bound<'_, PyModule>) -> PyResult<Vec<u8>> {
    if module.hasattr("hasarg")? {
        return numbers_in(module, "hasarg");
    }
    let first: u8 = module.getattr("HAVE_ARGUMENT")?.extract()?;
    Ok((first..=255).collect())
}

fn mark_jumps(module: &Bound<'_, PyModule>, infos: &mut [OpcodeInfo]) -> PyResult<()> {
    for opcode in numbers_in(module, "hasjabs")? {
        infos[usize::from(opcode)].jump = Some(JumpKind::Absolute);
    }
    for opcode in numbers_in(module, "hasjrel")? {
        let info = &mut infos[usize::from(opcode)];
        let backward = info.name.contains("JUMP_BACKWARD");
        info.jump = Some(if backward { JumpKind::Backward } else { JumpKind::Forward });
    }
    Ok(())
}

/// Reads the inline caches: none before 3.11, a list by number in 3.11 and 3.12, a dict by name in 3.13 and newer.
fn mark_caches(
    module: &Bound<'_, PyModule>,
    numbers: &FxHashMap<String, u8>,
    infos: &mut [OpcodeInfo],
) -> PyResult<()> {
    let Some(entries) = module.getattr_opt("_inline_cache_entries")? else { return Ok(()) };
    if let Ok(by_name) = entries.cast::<PyDict>() {
        for (name, caches) in by_name.extract::<FxHashMap<String, u8>>()? {
            if let Some(&opcode) = numbers.get(&name) {
                infos[usize::from(opcode)].caches = caches;
            }
        }
        return Ok(());
    }
    for (info, caches) in infos.iter_mut().zip(entries.extract::<Vec<u8>>()?) {
        info.caches = caches;
    }
    Ok(())
}

fn operators(module: &Bound<'_, PyModule>) -> PyResult<Vec<String>> {
    let Some(table) = module.getattr_opt("_nb_ops")? else { return Ok(Vec::new()) };
    let pairs: Vec<(String, String)> = table.extract()?;
    Ok(pairs.into_iter().map(|(_, symbol)| symbol).collect())
}

/// Reads a list of opcode numbers, without pseudo opcodes above 255.
fn numbers_in(module: &Bound<'_, PyModule>, table: &str) -> PyResult<Vec<u8>> {
    let numbers: Vec<u32> = module.getattr(table)?.extract()?;
    Ok(numbers.into_iter().filter_map(|opcode| u8::try_from(opcode).ok()).collect())
}

impl fmt::Display for JumpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JumpKind::Absolute => "to an offset",
            JumpKind::Forward => "forward",
            JumpKind::Backward => "backward",
        })
    }
}
