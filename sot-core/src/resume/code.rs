//! Builds the code of resume functions: a prologue, the original instructions and, for each stop, a hand-over. At a
//! stop the function ends early. Locals keep their slots; cells become free variables.

use std::sync::Arc;

use pyo3::prelude::*;

use super::prologue::Prologue;
use super::round::Stop;
use super::second_run::SecondRun;
use super::trim_traceback;
use crate::bytecode::flags::STARRED;
use crate::bytecode::CodeUnit;
use crate::bytecode::{
    local_pair, BytecodeError, Code, ExceptionHandler, Instruction, Label, Op, Opcodes, OperandTable, Position,
};
use crate::emit::Emitter;
use crate::error::{Flow, ReasonId, Unwind};
use crate::machine::opcode::{self, Access};
use crate::resume_point::Finish;
use crate::resume_point::{Entry, ResumeKey, Slot};
use crate::version::PyVersion;

/// Code of a resume function, and facts about its prologue.
pub struct ResumeCode {
    /// The code object.
    pub code: Py<PyAny>,
    /// Number of instructions before the original ones.
    pub prologue: u32,
    /// Label of the prologue's call, and the finish of its result.
    pub call: Option<(Label, Finish)>,
    /// Label of the call that uses this result as an argument ([`Finish::Apply`]).
    pub applies: Option<Label>,
}

/// Builds the code of a resume function that ends at the stops.
pub fn build(py: Python<'_>, unit: &CodeUnit, key: &ResumeKey, line: Position, stops: &[Stop]) -> Flow<ResumeCode> {
    write(py, unit, key, line, stops, None)
}

/// Builds code for a resume function that raises an exception where the original function would continue: it calls
/// `raises` there. If the resume function begins with the call of its callee's resume function, it calls `raises`
/// instead, with that function and its arguments.
pub(super) fn build_raising(
    py: Python<'_>,
    unit: &CodeUnit,
    key: &ResumeKey,
    line: Position,
    raises: Py<PyAny>,
) -> Flow<ResumeCode> {
    write(py, unit, key, line, &[], Some(raises))
}

fn write(
    py: Python<'_>,
    unit: &CodeUnit,
    key: &ResumeKey,
    line: Position,
    stops: &[Stop],
    raises: Option<Py<PyAny>>,
) -> Flow<ResumeCode> {
    let base = &unit.code;
    let mut code = frame_of(py, base, key, stops);
    let prologue = Prologue::write(py, base, &code, key, line, raises)?;
    let mut assembly = Assembly { py, base, code: &code, key, shift: prologue.length, e: prologue.emitter };
    assembly.body()?;
    for stop in stops {
        assembly.stop_at(stop)?;
    }
    let run = prologue.entry.map(|entry| assembly.raise_at_entry(entry)).transpose()?;
    assembly.e.finish(&mut code);
    let code = unit.encode(py, &code).map_err(|error| refuse(&error))?;
    if let Some(run) = run {
        run.is_of(code.cast().map_err(PyErr::from)?)?;
    }
    let finish = match key.entry {
        Entry::Return(_, finish) => Some(finish),
        _ => None,
    };
    let call = prologue.call.zip(finish);
    Ok(ResumeCode { code: code.unbind(), prologue: prologue.length, call, applies: prologue.applies })
}

fn refuse(error: &BytecodeError) -> Unwind {
    Unwind::fallback(ReasonId::CannotRestore, format!("no resume function can be built here: {error}"))
}

/// Returns the original code with the frame of a resume function. Arguments are the locals and the given values,
/// followed by locals for the values handed over at stops. All cells become free variables.
fn frame_of(py: Python<'_>, base: &Code, key: &ResumeKey, stops: &[Stop]) -> Code {
    let mut code = base.without_instructions(py);
    let values = key.values();
    // One more for a NULL, which is not handed over.
    let most = stops.iter().map(|stop| stop.key.values() + 1).fold(values, usize::max);
    code.varnames.extend((0..most).map(|index| format!("___s{index}")));
    code.freevars = base.cellvars.iter().chain(&base.freevars).cloned().collect();
    code.cellvars = Vec::new();
    (code.arg_count, code.posonly_count, code.kwonly_count) = ((base.varnames.len() + values) as u32, 0, 0);
    code.flags &= !STARRED;
    code
}

/// Writes what follows the prologue.
struct Assembly<'a, 'py> {
    py: Python<'py>,
    base: &'a Code,
    code: &'a Code,
    key: &'a ResumeKey,
    shift: u32,
    e: Emitter,
}

impl Assembly<'_, '_> {
    /// Writes the original instructions and handlers. An instruction that does not fit in its place becomes a jump to
    /// code behind all others, which jumps back.
    fn body(&mut self) -> Flow<()> {
        let place = |label: Label| Label(label.0 + self.shift);
        for handler in &self.base.handlers {
            let (start, end, target) = (place(handler.start), place(handler.end), place(handler.target));
            self.e.copy_handler(ExceptionHandler { start, end, target, ..*handler });
        }
        let mut aside = Vec::new();
        for (index, original) in self.base.instructions.iter().enumerate() {
            self.e.set_position(original.position);
            match self.moved(original) {
                RelocatedInstruction::Whole(instruction) => self.e.push(instruction),
                RelocatedInstruction::Halves(halves) => {
                    aside.push((Label(index as u32), self.e.here(), halves));
                    self.e.jump(Op::JUMP_FORWARD)?;
                }
            }
        }
        for (original, jump, halves) in aside {
            let start = self.e.here();
            self.e.set_target(jump, start);
            self.e.set_position(self.base.instructions[original.index()].position);
            for (op, slot) in halves {
                self.e.op(op, slot)?;
            }
            self.handle_like(original, start);
            self.e.jump_back(Label(jump.0 + 1))?;
        }
        Ok(())
    }

    /// Gives the instructions since `start` the handler of an original instruction.
    fn handle_like(&mut self, original: Label, start: Label) {
        if let Some(handler) = self.base.handler_at(original) {
            let target = Label(handler.target.0 + self.shift);
            self.e.copy_handler(ExceptionHandler { start, end: self.e.here(), target, ..*handler });
        }
    }

    /// Moves an instruction: its target is shifted, and cells get their new slots.
    fn moved(&self, instruction: &Instruction) -> RelocatedInstruction {
        let mut instruction = *instruction;
        if let Some(target) = &mut instruction.target {
            target.0 += self.shift;
        }
        if PyVersion::BUILT_FOR < PyVersion(11) {
            return RelocatedInstruction::Whole(instruction);
        }
        let slot = |slot: u32| self.base.cell_index(slot).map_or(slot, |cell| self.code.deref_arg(cell));
        let info = Opcodes::get(self.py).info(instruction.opcode);
        match info.operand {
            OperandTable::Cell | OperandTable::Local => instruction.arg = slot(instruction.arg),
            OperandTable::LocalPair => {
                let pair = local_pair(instruction.arg).map(slot);
                if pair.iter().any(|slot| *slot > 15) {
                    let op = |access| if access == Access::Store { Op::STORE_FAST } else { Op::LOAD_FAST };
                    let halves = opcode::describe(instruction.opcode).accesses(instruction.arg);
                    return RelocatedInstruction::Halves(
                        halves.zip(pair).map(|((access, _), slot)| (op(access), slot)).collect(),
                    );
                }
                instruction.arg = pair[0] << 4 | pair[1];
            }
            _ => {}
        }
        RelocatedInstruction::Whole(instruction)
    }

    /// Replaces the instruction at a stop by a jump to the hand-over, which is written behind everything else. If the
    /// function itself starts at that instruction, a copy of it runs first.
    fn stop_at(&mut self, stop: &Stop) -> Flow<()> {
        let at = Label(self.shift + stop.key.at.0);
        let replaced = self.e.instruction(at);
        self.e.set_position(replaced.position);
        if self.key.at == stop.key.at && self.key.entry == Entry::Next {
            let copy = self.e.here();
            self.e.push(replaced);
            self.handle_like(self.key.at, copy);
            self.e.jump_back(Label(at.0 + 1))?;
            self.e.set_target(Label(self.shift - 1), copy);
        }
        let start = self.e.here();
        self.hand_over(stop)?;
        self.e.replace_by_jump(at, start)
    }

    /// Writes the handler for an exception that a signal handler raises at the function's first instruction. The
    /// exception is raised where the frame continues.
    fn raise_at_entry(&mut self, entry: (Label, Label)) -> Flow<Arc<SecondRun>> {
        let (cells, locals) = (self.code.freevars.len(), self.key.bound.len());
        let run = SecondRun::of_code_to_be(cells);
        let again = run.clone().callable(self.py)?;
        let exception = self.e.catch(entry)?;
        let start = self.e.begin_try()?;
        self.e.begin_call()?;
        self.e.load_const(again)?;
        self.e.callable_loaded()?;
        self.e.op(Op::LOAD_FAST, exception)?;
        self.e.op(Op::DELETE_FAST, exception)?;
        (0..cells).try_for_each(|cell| self.e.load_closure(cell))?;
        let arguments = locals + self.key.values();
        for slot in 0..arguments {
            match self.key.bound.get(slot) {
                Some(false) => self.e.load_const(self.py.None())?,
                _ => {
                    self.e.op(Op::LOAD_FAST, slot as u32)?;
                    self.e.op(Op::DELETE_FAST, slot as u32)?;
                }
            }
        }
        self.e.call((1 + cells + arguments) as u32)?;
        let end = self.e.end_try()?;
        self.e.op(Op::RETURN_VALUE, 0)?;
        let handler = self.e.here();
        self.e.handle_driven(start, end, handler);
        let trim = trim_traceback(self.py, 1)?;
        self.e.raise_trimmed(trim)?;
        Ok(run)
    }

    /// Calls the stop's resume function with the cells, the locals and the stack items, and returns its result.
    fn hand_over(&mut self, stop: &Stop) -> Flow<()> {
        let (values, first_value) = (stop.key.values() as u32, self.base.varnames.len() as u32);
        let mut value = first_value + values;
        for slot in stop.key.stack.iter().rev() {
            match slot {
                Slot::Value => {
                    value -= 1;
                    self.e.op(Op::STORE_FAST, value)?;
                }
                // A NULL is stored into an extra local that nobody reads: storing a NULL leaves that local unbound.
                Slot::Null => self.e.op(Op::STORE_FAST, first_value + values)?,
                _ => {}
            }
        }
        let resume = stop.target.clone().hand_over(self.py, false)?;
        self.e.begin_call()?;
        self.e.load_const(resume)?;
        self.e.callable_loaded()?;
        let cells = self.code.freevars.len();
        for cell in 0..cells {
            self.e.load_closure(cell)?;
        }
        for (slot, bound) in stop.key.bound.iter().enumerate() {
            match bound {
                true => self.e.op(Op::LOAD_FAST, slot as u32)?,
                false => self.e.load_const(self.py.None())?,
            }
        }
        for value in 0..values {
            self.e.op(Op::LOAD_FAST, first_value + value)?;
        }
        self.e.call(cells as u32 + first_value + values)?;
        self.e.op(Op::RETURN_VALUE, 0)
    }
}

/// An original instruction in its new place.
enum RelocatedInstruction {
    Whole(Instruction),
    /// The two halves of an instruction on two locals, whose new slots do not fit into its operand.
    Halves(Vec<(Op, u32)>),
}
