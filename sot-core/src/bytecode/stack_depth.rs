//! Maximum depth of the value stack. A stack size that is too small corrupts memory. Therefore a path that cannot be
//! followed is an error, and stack effects come from CPython's own table, which errs upwards.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::opcodes::StackChange;
use super::{flags, BytecodeError, Code, Label, Opcodes};
use crate::version::PyVersion;

/// Returns the largest depth on any path, exception handlers included.
pub fn stack_depth(py: Python<'_>, code: &Code) -> Result<u32, BytecodeError> {
    let mut walk = DepthWalk::new(py, code)?;
    walk.enter(Label(0), start_depth(code))?;
    while let Some(at) = walk.work.pop() {
        walk.step(at)?;
    }
    Ok(walk.deepest as u32)
}

/// Returns the change of the stack depth by an instruction, if it jumps or if it does not. `arg` of a jump is
/// ignored.
pub fn stack_effect(py: Python<'_>, opcode: u8, arg: u32, jump: bool) -> Result<i32, BytecodeError> {
    effect_of(py, Opcodes::try_get(py)?, opcode, arg, jump)
}

fn effect_of(py: Python<'_>, opcodes: &Opcodes, opcode: u8, arg: u32, jump: bool) -> Result<i32, BytecodeError> {
    let change = (opcode, if opcodes.info(opcode).jump.is_some() { 0 } else { arg }, jump);
    opcodes.known_effect(change).map_or_else(|| ask_for_effect(py, opcodes, change), Ok)
}

/// Asks CPython for the change of the stack depth by an instruction, and remembers it.
fn ask_for_effect(py: Python<'_>, opcodes: &Opcodes, change: StackChange) -> Result<i32, BytecodeError> {
    let effect = effect_in_cpython(py, opcodes, change)?;
    opcodes.remember_effect(change, effect);
    Ok(effect)
}

fn effect_in_cpython(
    py: Python<'_>,
    opcodes: &Opcodes,
    (opcode, arg, jump): StackChange,
) -> Result<i32, BytecodeError> {
    let info = opcodes.info(opcode);
    if info.name == "RETURN_GENERATOR" {
        // The caller that resumes the generator pushes the sent value; versions differ in which instruction counts
        // it.
        return Ok(1);
    }
    // CPython 3.8 counts every entry of a `finally` body as six items, except for `CALL_FINALLY`. It also counts the
    // `__exit__` of a `with` until the end of its cleanup.
    match (info.name.as_str(), jump) {
        ("CALL_FINALLY", true) => return Ok(6),
        ("WITH_CLEANUP_START", _) => return Ok(1),
        ("WITH_CLEANUP_FINISH", _) => return Ok(-2),
        _ => {}
    }
    let keywords = PyDict::new(py);
    keywords.set_item("jump", jump)?;
    let effect = opcodes.stack_effect_function(py).call((opcode, info.has_arg.then_some(arg)), Some(&keywords))?;
    Ok(effect.extract()?)
}

/// Depth at the first instruction. A generator of 3.10 starts with the sent value, and pops it by an instruction.
fn start_depth(code: &Code) -> i64 {
    let generator = code.flags & flags::SUSPENDS != 0;
    i64::from(generator && PyVersion::BUILT_FOR == PyVersion(10))
}

/// A walk over all paths that keeps the largest depth for each instruction.
struct DepthWalk<'a> {
    code: &'a Code,
    opcodes: &'static Opcodes,
    depths: Vec<Option<i64>>,
    /// The effects of each instruction: if it does not jump, and if it does.
    effects: Vec<(i64, i64)>,
    work: Vec<Label>,
    /// For each instruction the index of its exception handler.
    handlers: Vec<Option<usize>>,
    deepest: i64,
    limit: i64,
}

impl<'a> DepthWalk<'a> {
    fn new(py: Python<'_>, code: &'a Code) -> Result<Self, BytecodeError> {
        let (count, opcodes) = (code.instructions.len(), Opcodes::try_get(py)?);
        let mut walk = DepthWalk {
            code,
            opcodes,
            depths: vec![None; count],
            effects: Vec::with_capacity(count),
            work: Vec::new(),
            handlers: vec![None; count],
            deepest: 0,
            limit: 0,
        };
        walk.spread_handlers()?;
        for instruction in &code.instructions {
            let effect = |jump| effect_of(py, opcodes, instruction.opcode, instruction.arg, jump).map(i64::from);
            let jump = if instruction.target.is_some() { effect(true)? } else { 0 };
            walk.effects.push((effect(false)?, jump));
        }
        walk.limit = walk.bound();
        Ok(walk)
    }

    fn spread_handlers(&mut self) -> Result<(), BytecodeError> {
        let count = self.code.instructions.len();
        for (index, handler) in self.code.handlers.iter().enumerate() {
            if let Some(label) =
                [handler.start, handler.end, handler.target].into_iter().find(|label| label.index() > count)
            {
                let what = "an exception handler".to_owned();
                return Err(BytecodeError::LabelOutside { what, label, count });
            }
            let covered = handler.start.index()..handler.end.index().max(handler.start.index());
            self.handlers[covered].fill(Some(index));
        }
        Ok(())
    }

    /// Upper bound for the depth of any path that visits each instruction once.
    fn bound(&self) -> i64 {
        let handlers = self.code.handlers.iter().map(|handler| i64::from(handler.depth) + 2).max().unwrap_or(0);
        1 + handlers + self.effects.iter().map(|(next, jump)| *next.max(jump).max(&0)).sum::<i64>()
    }

    fn step(&mut self, at: Label) -> Result<(), BytecodeError> {
        let code = self.code;
        let (instruction, effects) = (&code.instructions[at.index()], self.effects[at.index()]);
        let Some(depth) = self.depths[at.index()] else { return Ok(()) };
        if self.name(at) == "WITH_CLEANUP_START" {
            // With an exception, the instruction leaves one item more until the cleanup ends; `async with` awaits in
            // between.
            let awaits = self.name(Label(at.0 + 1)) != "WITH_CLEANUP_FINISH";
            self.deepest = self.deepest.max(depth + 2 + i64::from(awaits));
        }
        if let Some(index) = self.handlers[at.index()] {
            let handler = &code.handlers[index];
            self.leave(at, handler.target, i64::from(handler.depth) + i64::from(handler.lasti) + 1)?;
        }
        if let Some(target) = instruction.target {
            self.leave(at, target, depth + effects.1)?;
        }
        // CPython 3.8 continues behind a `finally` body only if the body was entered without exception. A `return`
        // enters it with one more item on the stack.
        let next = self.depths.get(at.index() + 1).copied().flatten();
        let goes_on = next.is_none() || self.name(at) != "END_FINALLY";
        if self.opcodes.info(instruction.opcode).falls_through && goes_on {
            self.leave(at, Label(at.0 + 1), depth + effects.0)?;
        } else if instruction.target.is_none() && depth + effects.0 < 0 {
            return Err(self.underflow(at));
        }
        Ok(())
    }

    fn leave(&mut self, from: Label, to: Label, depth: i64) -> Result<(), BytecodeError> {
        if depth < 0 {
            return Err(self.underflow(from));
        }
        if to.index() >= self.depths.len() {
            return Err(BytecodeError::FallsOffEnd { at: from, opcode: self.name(from).to_owned() });
        }
        self.enter(to, depth)
    }

    fn enter(&mut self, at: Label, depth: i64) -> Result<(), BytecodeError> {
        if depth > self.limit {
            return Err(BytecodeError::StackGrows { at });
        }
        self.deepest = self.deepest.max(depth);
        if let Some(known) = self.depths.get_mut(at.index()) {
            if known.is_none_or(|known| known < depth) {
                *known = Some(depth);
                self.work.push(at);
            }
        }
        Ok(())
    }

    fn underflow(&self, at: Label) -> BytecodeError {
        BytecodeError::StackUnderflow { at, opcode: self.name(at).to_owned() }
    }

    fn name(&self, at: Label) -> &'static str {
        self.opcodes.name(self.code.instructions[at.index()].opcode)
    }
}
