//! The code of resume functions: the original instructions behind a prologue that lays out locals and stack, does what is
//! left of a call, and jumps to where the frame goes on. Locals keep their slots; what was a cell becomes a free variable.

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;

use super::finish::{self, Finish, Use};
use super::round::Stop;
use crate::bytecode::{BytecodeError, Code, Handler, Instruction, Label, Opcodes, Operand, Position};
use crate::codegen::after_loop;
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
    /// The cells in whose slots an inlined comprehension keeps a variable of its own, and whether that is bound.
    pub hidden: Vec<(usize, bool)>,
    /// The stack from the bottom up, with what begins between its items.
    pub stack: Vec<Slot>,
    /// What comes before the original instructions.
    pub entry: Entry,
    /// Whether the frame's caller calls the function as it called the frame: a nested one is driven by nobody else.
    pub nested: bool,
}

/// How many values an exception is before 3.11 and since: traceback, itself and class, or itself alone.
const RAISED: usize = if PyVersion::BUILT_FOR.0 < 11 { 3 } else { 1 };

/// These values of an exception.
pub(super) fn raised<'py>(py: Python<'py>, error: &PyErr) -> Vec<Bound<'py, PyAny>> {
    let value = error.value(py).clone().into_any();
    if RAISED == 1 {
        return vec![value];
    }
    let traceback = error.traceback(py).map_or_else(|| py.None().into_bound(py), Bound::into_any);
    vec![traceback, value, error.get_type(py).into_any()]
}

impl ResumeKey {
    /// How many values the function is given besides the locals.
    pub fn values(&self) -> usize {
        let taken = |slot: &Slot| match slot {
            Slot::Value => 1,
            Slot::Handling => RAISED,
            _ => 0,
        };
        let entry = match self.entry {
            Entry::Next | Entry::Finish(_) => 0,
            Entry::Yield => 1,
            Entry::Raise => RAISED,
            Entry::Return(arguments, _) => 1 + arguments,
        };
        let hidden = self.hidden.iter().filter(|(_, bound)| *bound).count();
        hidden + self.stack.iter().map(taken).sum::<usize>() + entry
    }
}

impl ResumeKey {
    /// How many items its stack has since 3.11.
    fn depth(&self) -> u32 {
        let item = |slot: &&Slot| matches!(slot, Slot::Value | Slot::Null | Slot::Handling);
        self.stack.iter().filter(item).count() as u32
    }
}

/// How a resume function enters the original code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Entry {
    /// By going on at the instruction.
    Next,
    /// By raising its last value, an exception of the instruction, into the handlers.
    Raise,
    /// By going on behind the instruction, which calls, with what its last values give: a function, and so many arguments.
    Return(usize, Finish),
    /// By going on behind the instruction, which has called: the result is on top of the stack.
    Finish(Finish),
    /// By yielding its last value at the instruction: the function gives a generator.
    Yield,
}

/// What a resume function lays out on its stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Slot {
    /// A value that it is given.
    Value,
    /// A NULL.
    Null,
    /// The handler of an exception that it is given: what was handled before.
    Handling,
    /// A block that sends exceptions to the label (3.8 to 3.10); no item.
    Try(Label),
    /// That a `finally` body was entered from above (3.8).
    Fallen,
    /// Where a `finally` body returns to (3.8).
    ReturnTo(Label),
}

/// A resume function's code, and the length of its prologue.
pub struct ResumeCode {
    /// The code object.
    pub code: Py<PyAny>,
    /// Instructions before the original ones.
    pub prologue: u32,
    /// Which of them calls, and what is done behind it.
    pub call: Option<(Label, Finish)>,
    /// Which of them calls what lies below that call's result.
    pub applies: Option<Label>,
}

/// Builds the code of a resume function, which ends at the stops.
pub fn build(py: Python<'_>, unit: &CodeUnit, key: &ResumeKey, line: Position, stops: &[Stop]) -> Flow<ResumeCode> {
    let base = &unit.code;
    let mut code = base.clone_ref(py);
    let values = key.values();
    code.varnames.extend((0..values).map(|index| format!("___s{index}")));
    code.freevars = base.cellvars.iter().chain(&base.freevars).cloned().collect();
    code.cellvars = Vec::new();
    code.arg_count = code.varnames.len() as u32;
    let most = stops.iter().map(|stop| stop.key.values()).max().unwrap_or(0);
    code.varnames.extend((values..most).map(|index| format!("___s{index}")));
    code.posonly_count = 0;
    code.kwonly_count = 0;
    code.flags &= !STARRED;
    if PyVersion::BUILT_FOR < PyVersion(11) && !code.names.iter().any(|name| name == "__call__") {
        code.names.push("__call__".to_owned());
    }
    let slot = base.varnames.len() as u32;
    let consts = code.consts.len() as u32;
    let prologue = Prologue {
        py,
        opcodes: Opcodes::get(py),
        line,
        slot,
        instructions: Vec::new(),
        inner: Vec::new(),
        call: None,
        applies: None,
        block: None,
        handler: None,
        first_const: consts,
        consts: Vec::new(),
    };
    let Prologue { instructions: prologue, consts, call, applies, handler: stop, .. } = prologue.write(&code, key)?;
    code.consts.extend(consts);
    let shift = prologue.len() as u32;
    let body = base.instructions.iter().map(|instruction| moved(py, base, &code, instruction, shift));
    let body: Vec<Moved> = body.collect::<Flow<_>>()?;
    code.instructions = prologue;
    let (mut aside, end) = (Vec::new(), shift + body.len() as u32);
    for (index, instruction) in body.into_iter().enumerate() {
        let halves = match instruction {
            Moved::Whole(instruction) => {
                code.instructions.push(instruction);
                continue;
            }
            Moved::Halves(halves) => halves,
        };
        // Behind everything else, from where a jump leads back.
        let start = Label(end + aside.len() as u32);
        let [_, second] = halves;
        let jump = |name, target| jump_to(py, name, Label(target), second.position);
        code.instructions.push(jump("JUMP_FORWARD", start.0)?);
        aside.extend(halves);
        aside.push(jump("JUMP_BACKWARD_NO_INTERRUPT", shift + index as u32 + 1)?);
        if let Some(&handler) = base.handler_at(Label(index as u32)) {
            // Shifted below, as all others are.
            let place = |label: u32| Label(label - shift);
            code.handlers.push(Handler { start: place(start.0), end: place(start.0 + 2), ..handler });
        }
    }
    code.instructions.extend(aside);
    for stop in stops {
        stop_at(py, base, &mut code, key, shift, stop)?;
    }
    for handler in &mut code.handlers {
        handler.start.0 += shift;
        handler.end.0 += shift;
        handler.target.0 += shift;
    }
    // What raises is the last instruction of the prologue, or a call and what follows it before the jump that is the last.
    let raising = match key.entry {
        Entry::Next | Entry::Yield => None,
        Entry::Raise => Some((Label(shift - 1), Label(shift))),
        Entry::Return(..) | Entry::Finish(_) => call.map(|call| (call, Label(shift - 1))),
    };
    let raising = match (raising, stop) {
        (Some((call, end)), Some(target)) => {
            let behind = Label(call.0 + 1);
            code.handlers.push(Handler { start: call, end: behind, target, depth: key.depth(), lasti: false });
            Some((behind, end))
        }
        (raising, _) => raising,
    };
    if let (Some((start, end)), Some(handler)) = (raising, base.handler_at(key.at)) {
        let target = Label(handler.target.0 + shift);
        code.handlers.push(Handler { start, end, target, depth: handler.depth, lasti: handler.lasti });
    }
    let code = code.encode(unit.object.bind(py)).map_err(|error| refuse(&error))?;
    let finish = match key.entry {
        Entry::Return(_, finish) => Some(finish),
        _ => None,
    };
    Ok(ResumeCode { code: code.unbind(), prologue: shift, call: call.zip(finish), applies })
}

fn refuse(error: &BytecodeError) -> Unwind {
    Unwind::fallback(ReasonId::CannotRestore, format!("no resume function can be built here: {error}"))
}

/// The instruction at a place becomes a jump to what hands over there, behind everything else. Where the function itself goes on
/// at it, a copy of the instruction runs first.
fn stop_at(py: Python<'_>, base: &Code, code: &mut Code, key: &ResumeKey, shift: u32, stop: &Stop) -> Flow<()> {
    let at = (shift + stop.key.at.0) as usize;
    let replaced = code.instructions[at];
    let jump = |name, target: usize| jump_to(py, name, Label(target as u32), replaced.position);
    if key.at == stop.key.at && key.entry == Entry::Next {
        let copy = code.instructions.len();
        let back = if PyVersion::BUILT_FOR < PyVersion(11) { "JUMP_ABSOLUTE" } else { "JUMP_BACKWARD_NO_INTERRUPT" };
        code.instructions.extend([replaced, jump(back, at + 1)?]);
        code.instructions[shift as usize - 1].target = Some(Label(copy as u32));
        if let Some(&handler) = base.handler_at(key.at) {
            // Shifted later, as all others are.
            let start = copy as u32 - shift;
            code.handlers.push(Handler { start: Label(start), end: Label(start + 1), ..handler });
        }
    }
    code.instructions[at] = jump("JUMP_FORWARD", code.instructions.len())?;
    let (values, first_value) = (stop.key.values() as u32, base.varnames.len() as u32);
    code.consts.extend([stop.target.clone().hand_over(py, false)?, py.None()]);
    let none = code.consts.len() as u32 - 1;
    let version = PyVersion::BUILT_FOR;
    let mut end: Vec<(&str, u32)> = (0..values).rev().map(|value| ("STORE_FAST", first_value + value)).collect();
    end.extend((11..13).contains(&version.0).then_some(("PUSH_NULL", 0)));
    end.push(("LOAD_CONST", none - 1));
    end.extend((version >= PyVersion(13)).then_some(("PUSH_NULL", 0)));
    let load_cell = if version < PyVersion(13) { "LOAD_CLOSURE" } else { "LOAD_FAST" };
    end.extend((0..code.freevars.len()).map(|cell| (load_cell, code.deref_arg(cell))));
    let local = |(slot, bound): (usize, &bool)| if *bound { ("LOAD_FAST", slot as u32) } else { ("LOAD_CONST", none) };
    end.extend(stop.key.bound.iter().enumerate().map(local));
    end.extend((0..values).map(|value| ("LOAD_FAST", first_value + value)));
    let arguments = code.freevars.len() as u32 + first_value + values;
    end.extend((version == PyVersion(11)).then_some(("PRECALL", arguments)));
    end.push((if version < PyVersion(11) { "CALL_FUNCTION" } else { "CALL" }, arguments));
    end.push(("RETURN_VALUE", 0));
    for (name, arg) in end {
        code.instructions.push(instruction(py, name, arg, replaced.position)?);
    }
    Ok(())
}

/// An original instruction at its new place.
enum Moved {
    Whole(Instruction),
    /// One that names two locals, whose slots there have no room in it.
    Halves([Instruction; 2]),
}

fn instruction(py: Python<'_>, name: &str, arg: u32, position: Position) -> Flow<Instruction> {
    let opcode = Opcodes::get(py).number(name).ok_or_else(|| {
        let text = format!("{name} is needed to resume, and this interpreter has none");
        Unwind::fallback(ReasonId::CannotRestore, text)
    })?;
    Ok(Instruction::new(opcode, arg, position))
}

fn jump_to(py: Python<'_>, name: &str, target: Label, position: Position) -> Flow<Instruction> {
    let mut jump = instruction(py, name, 0, position)?;
    jump.target = Some(target);
    Ok(jump)
}

/// Targets move, cells are found at their new slots.
fn moved(py: Python<'_>, base: &Code, code: &Code, instruction: &Instruction, shift: u32) -> Flow<Moved> {
    let mut instruction = *instruction;
    if let Some(target) = &mut instruction.target {
        target.0 += shift;
    }
    if PyVersion::BUILT_FOR < PyVersion(11) {
        return Ok(Moved::Whole(instruction));
    }
    let slot = |slot: u32| base.cell_index(slot).map_or(slot, |cell| code.deref_arg(cell));
    let info = Opcodes::get(py).info(instruction.opcode);
    match info.operand {
        Operand::Cell | Operand::Local => instruction.arg = slot(instruction.arg),
        Operand::LocalPair => {
            let pair = [slot(instruction.arg >> 4), slot(instruction.arg & 15)];
            if pair.iter().any(|slot| *slot > 15) {
                let half = |place: usize| {
                    let loads =
                        if place == 0 { info.name.starts_with("LOAD") } else { info.name.ends_with("LOAD_FAST") };
                    let name = if loads { "LOAD_FAST" } else { "STORE_FAST" };
                    self::instruction(py, name, pair[place], instruction.position)
                };
                return Ok(Moved::Halves([half(0)?, half(1)?]));
            }
            instruction.arg = pair[0] << 4 | pair[1];
        }
        _ => {}
    }
    Ok(Moved::Whole(instruction))
}

struct Prologue<'py> {
    py: Python<'py>,
    opcodes: &'static Opcodes,
    line: Position,
    // The local that holds the next value.
    slot: u32,
    instructions: Vec<Instruction>,
    // Jumps that stay in the prologue.
    inner: Vec<usize>,
    // Where it calls, or what follows a call begins.
    call: Option<Label>,
    // Where a finish calls what lies below the result.
    applies: Option<Label>,
    // Where what a finish catches begins, and what catches it since 3.11.
    block: Option<usize>,
    handler: Option<Label>,
    // Constants of its own, behind those of the original code.
    first_const: u32,
    consts: Vec<Py<PyAny>>,
}

impl Prologue<'_> {
    fn op(&mut self, name: &str, arg: u32) -> Flow<()> {
        self.instructions.push(instruction(self.py, name, arg, self.line)?);
        Ok(())
    }

    fn write(mut self, code: &Code, key: &ResumeKey) -> Flow<Self> {
        let prepared = PyVersion::BUILT_FOR < PyVersion(11);
        if !prepared && !code.freevars.is_empty() {
            self.op("COPY_FREE_VARS", code.freevars.len() as u32)?;
        }
        if key.entry == Entry::Yield {
            self.begin_generator()?;
        }
        if !prepared {
            self.op("RESUME", 0)?;
        }
        for (slot, _) in key.bound.iter().enumerate().filter(|(_, bound)| !**bound) {
            self.op("DELETE_FAST", slot as u32)?;
        }
        for &(cell, bound) in &key.hidden {
            let slot = code.deref_arg(cell);
            if bound {
                self.load_values(1)?;
                self.op("STORE_FAST", slot)?;
            } else {
                self.op("DELETE_FAST", slot)?;
            }
        }
        let mut null_below = false;
        for slot in &key.stack {
            match slot {
                Slot::Value => {
                    self.load_values(1)?;
                    if null_below {
                        // A method pair without PUSH_NULL: the callable as receiver of its own `__call__`.
                        self.load_own_call(code)?;
                        null_below = false;
                    }
                }
                Slot::Null if prepared => null_below = true,
                Slot::Null => self.op("PUSH_NULL", 0)?,
                Slot::Handling if prepared => self.enter_handler()?,
                Slot::Handling => {
                    self.load_values(1)?;
                    self.op("PUSH_EXC_INFO", 0)?;
                    self.op("POP_TOP", 0)?;
                }
                Slot::Try(handler) => self.jump("SETUP_FINALLY", *handler)?,
                Slot::Fallen => self.op("BEGIN_FINALLY", 0)?,
                Slot::ReturnTo(label) => {
                    let call = self.inner_jump("CALL_FINALLY")?;
                    self.jump("JUMP_ABSOLUTE", *label)?;
                    self.land(call);
                }
            }
        }
        match key.entry {
            Entry::Next => self.jump("JUMP_FORWARD", key.at)?,
            Entry::Yield => {
                self.load_values(1)?;
                self.jump_to_yield(code, key.at)?;
            }
            Entry::Raise if prepared => self.raise()?,
            Entry::Raise => {
                self.load_values(1)?;
                self.op("RERAISE", 0)?;
            }
            Entry::Return(arguments, finish) => {
                if finish == Finish::Next {
                    self.begin_block(prepared)?;
                }
                self.call(arguments as u32)?;
                self.call = Some(Label(self.instructions.len() as u32 - 1));
                self.finish(finish, code, key.at)?;
                self.jump("JUMP_FORWARD", Label(key.at.0 + 1))?;
            }
            Entry::Finish(finish) => {
                self.call = Some(Label(self.instructions.len() as u32));
                self.finish(finish, code, key.at)?;
                self.jump("JUMP_FORWARD", Label(key.at.0 + 1))?;
            }
        }
        let shift = self.instructions.len() as u32;
        for (index, instruction) in self.instructions.iter_mut().enumerate() {
            if let (Some(target), false) = (&mut instruction.target, self.inner.contains(&index)) {
                target.0 += shift;
            }
        }
        Ok(self)
    }

    /// What follows is caught by the finish.
    fn begin_block(&mut self, by_instruction: bool) -> Flow<()> {
        let begin = if by_instruction { self.inner_jump("SETUP_FINALLY")? } else { self.instructions.len() };
        self.block = Some(begin);
        Ok(())
    }

    /// What makes the function's frame a generator's.
    fn begin_generator(&mut self) -> Flow<()> {
        if self.opcodes.number("RETURN_GENERATOR").is_some() {
            self.op("RETURN_GENERATOR", 0)?;
            return self.op("POP_TOP", 0);
        }
        match self.opcodes.number("GEN_START") {
            Some(_) => self.op("GEN_START", 0),
            None => Ok(()),
        }
    }

    /// The value on top of the stack is yielded by the instruction. `YIELD_FROM` would ask its iterator for one: the prologue
    /// yields before one of its own.
    fn jump_to_yield(&mut self, base: &Code, at: Label) -> Flow<()> {
        if self.opcodes.name(base.instructions[at.index()].opcode) != "YIELD_FROM" {
            return self.jump("JUMP_FORWARD", at);
        }
        self.op("YIELD_VALUE", 0)?;
        self.op("YIELD_FROM", 0)?;
        self.jump("JUMP_FORWARD", Label(at.0 + 1))
    }

    fn load_values(&mut self, count: u32) -> Flow<()> {
        for _ in 0..count {
            self.op("LOAD_FAST", self.slot)?;
            self.op("DELETE_FAST", self.slot)?;
            self.slot += 1;
        }
        Ok(())
    }

    /// Before 3.11 a handler can only be entered by raising; raised again an exception keeps its traceback as it is.
    fn enter_handler(&mut self) -> Flow<()> {
        let block = self.inner_jump("SETUP_FINALLY")?;
        self.raise()?;
        self.land(block);
        (0..3).try_for_each(|_| self.op("POP_TOP", 0))
    }

    /// Raises the next values: traceback, exception and class.
    fn raise(&mut self) -> Flow<()> {
        if self.opcodes.number("RERAISE").is_some() {
            self.load_values(3)?;
            return self.op("RERAISE", 0);
        }
        // `END_FINALLY` counts as taking the whole of what a handler finds on the stack.
        (0..3).try_for_each(|_| self.op("LOAD_FAST", self.slot))?;
        self.load_values(3)?;
        self.op("END_FINALLY", 0)
    }

    /// Calls the next value with so many values behind it.
    fn call(&mut self, arguments: u32) -> Flow<()> {
        let version = PyVersion::BUILT_FOR;
        if (11..13).contains(&version.0) {
            self.op("PUSH_NULL", 0)?;
        }
        self.load_values(1)?;
        if version >= PyVersion(13) {
            self.op("PUSH_NULL", 0)?;
        }
        self.load_values(arguments)?;
        self.call_below(arguments)
    }

    /// Calls what lies below so many arguments.
    fn call_below(&mut self, arguments: u32) -> Flow<()> {
        let version = PyVersion::BUILT_FOR;
        if version == PyVersion(11) {
            self.op("PRECALL", arguments)?;
        }
        self.op(if version < PyVersion(11) { "CALL_FUNCTION" } else { "CALL" }, arguments)
    }

    /// What an instruction does behind its call.
    fn finish(&mut self, finish: Finish, code: &Code, at: Label) -> Flow<()> {
        match finish {
            Finish::Keep => Ok(()),
            Finish::Drop => self.op("POP_TOP", 0),
            Finish::Pair if PyVersion::BUILT_FOR < PyVersion(11) => self.load_own_call(code),
            Finish::Pair => {
                self.op("PUSH_NULL", 0)?;
                if PyVersion::BUILT_FOR < PyVersion(13) {
                    self.swap()?;
                }
                Ok(())
            }
            Finish::Made => {
                let is_none = self.jump_if_is(self.py.None())?;
                let refuse = finish::refuse_result(self.py)?;
                self.call_on_top(refuse)?;
                self.land(is_none);
                self.op("POP_TOP", 0)
            }
            Finish::Answer(answer, then) => {
                let check = answer.check(self.py)?;
                self.call_on_top(check)?;
                match then {
                    Use::Leave => Ok(()),
                    Use::Not => self.op("UNARY_NOT", 0),
                    Use::Branch => self.branch(code, at),
                }
            }
            Finish::Next => self.unless_stopped(code, at),
            Finish::Apply(arguments) => {
                // What is finished comes before the call, which may break the graph itself.
                self.op("NOP", 0)?;
                self.call_below(arguments)?;
                self.applies = Some(Label(self.instructions.len() as u32 - 1));
                Ok(())
            }
            Finish::Operator(operation) => {
                let declined = self.jump_if_is(self.py.NotImplemented())?;
                self.third()?;
                self.op("POP_TOP", 0)?;
                self.op("POP_TOP", 0)?;
                let done = self.inner_jump("JUMP_FORWARD")?;
                self.land(declined);
                self.op("POP_TOP", 0)?;
                self.op("BUILD_TUPLE", 2)?;
                let rest = operation.rest(self.py)?;
                self.call_on_top(rest)?;
                self.land(done);
                Ok(())
            }
        }
    }

    /// What the branch at a place does, with a bool on top of the stack.
    fn branch(&mut self, code: &Code, at: Label) -> Flow<()> {
        let branch = code.instructions[at.index()];
        let (name, target) = (self.opcodes.name(branch.opcode), branch.target.unwrap_or(at));
        let wanted = if name.contains("TRUE") { "TRUE" } else { "FALSE" };
        let jump = if PyVersion::BUILT_FOR == PyVersion(11) { "POP_JUMP_FORWARD_IF" } else { "POP_JUMP_IF" };
        self.jump(&format!("{jump}_{wanted}"), target)?;
        if name.ends_with("OR_POP") {
            self.op("POP_TOP", 0)?;
        }
        Ok(())
    }

    /// Behind a call that gives the next item of the iterator below it: where the call raised `StopIteration`, the loop ends.
    fn unless_stopped(&mut self, code: &Code, at: Label) -> Flow<()> {
        let version = PyVersion::BUILT_FOR;
        let Some(begin) = self.block.take() else { return Ok(()) };
        let after = after_loop(&code.instructions[at.index()])?;
        if version < PyVersion(11) {
            self.op("POP_BLOCK", 0)?;
        }
        let done = self.inner_jump("JUMP_FORWARD")?;
        if version < PyVersion(11) {
            self.land(begin);
            self.op("DUP_TOP", 0)?;
        } else {
            self.handler = Some(Label(self.instructions.len() as u32));
            self.op("PUSH_EXC_INFO", 0)?;
        }
        self.load_const(self.py.get_type::<PyStopIteration>().into_any().unbind())?;
        let other = match version.0 {
            8 => {
                let matches = self.opcodes.comparisons().iter().position(|name| name == "exception match");
                self.op("COMPARE_OP", matches.unwrap_or_default() as u32)?;
                self.inner_jump("POP_JUMP_IF_FALSE")?
            }
            9 | 10 => self.inner_jump("JUMP_IF_NOT_EXC_MATCH")?,
            version => {
                self.op("CHECK_EXC_MATCH", 0)?;
                self.inner_jump(if version == 11 { "POP_JUMP_FORWARD_IF_FALSE" } else { "POP_JUMP_IF_FALSE" })?
            }
        };
        for _ in 0..RAISED {
            self.op("POP_TOP", 0)?;
        }
        self.op("POP_EXCEPT", 0)?;
        self.op("POP_TOP", 0)?;
        self.jump("JUMP_FORWARD", after)?;
        self.land(other);
        if version < PyVersion(9) {
            self.op("END_FINALLY", 0)?;
        } else {
            if version >= PyVersion(11) {
                self.op("COPY", 2)?;
                self.op("POP_EXCEPT", 0)?;
            }
            self.op("RERAISE", 0)?;
        }
        self.land(done);
        Ok(())
    }

    /// Jumps if the top of the stack, which stays, is the very constant.
    fn jump_if_is(&mut self, constant: Py<PyAny>) -> Flow<usize> {
        let version = PyVersion::BUILT_FOR;
        if version < PyVersion(11) {
            self.op("DUP_TOP", 0)?;
        } else {
            self.op("COPY", 1)?;
        }
        self.load_const(constant)?;
        if version < PyVersion(9) {
            let is = self.opcodes.comparisons().iter().position(|name| name == "is").unwrap_or_default();
            self.op("COMPARE_OP", is as u32)?;
        } else {
            self.op("IS_OP", 0)?;
        }
        self.inner_jump(if version == PyVersion(11) { "POP_JUMP_FORWARD_IF_TRUE" } else { "POP_JUMP_IF_TRUE" })
    }

    fn load_const(&mut self, constant: Py<PyAny>) -> Flow<()> {
        self.consts.push(constant);
        self.op("LOAD_CONST", self.first_const + self.consts.len() as u32 - 1)
    }

    /// The function's result takes the place of the top of the stack, its argument.
    fn call_on_top(&mut self, function: Py<PyAny>) -> Flow<()> {
        let version = PyVersion::BUILT_FOR;
        if (11..13).contains(&version.0) {
            self.op("PUSH_NULL", 0)?;
            self.swap()?;
        }
        self.load_const(function)?;
        self.swap()?;
        if version >= PyVersion(13) {
            self.op("PUSH_NULL", 0)?;
            self.swap()?;
        }
        self.call_below(1)
    }

    /// The two items on top change places.
    fn swap(&mut self) -> Flow<()> {
        if PyVersion::BUILT_FOR < PyVersion(11) {
            return self.op("ROT_TWO", 0);
        }
        self.op("SWAP", 2)
    }

    /// The top goes below the two items under it, which may change places.
    fn third(&mut self) -> Flow<()> {
        if PyVersion::BUILT_FOR < PyVersion(11) {
            return self.op("ROT_THREE", 0);
        }
        self.op("SWAP", 3)
    }

    /// A jump into the original instructions.
    fn jump(&mut self, name: &str, target: Label) -> Flow<()> {
        self.op(name, 0)?;
        if let Some(jump) = self.instructions.last_mut() {
            jump.target = Some(target);
        }
        Ok(())
    }

    /// A jump inside of the prologue; `land` says where it goes.
    fn inner_jump(&mut self, name: &str) -> Flow<usize> {
        self.jump(name, Label(0))?;
        self.inner.push(self.instructions.len() - 1);
        Ok(self.instructions.len() - 1)
    }

    fn land(&mut self, jump: usize) {
        self.instructions[jump].target = Some(Label(self.instructions.len() as u32));
    }

    fn load_own_call(&mut self, code: &Code) -> Flow<()> {
        match code.names.iter().position(|name| name == "__call__") {
            Some(name) => self.op("LOAD_METHOD", name as u32),
            None => Err(Unwind::fallback(ReasonId::CannotRestore, "a half-evaluated method call around the break")),
        }
    }
}
