//! Emits instructions of the running interpreter. What differs between versions is asked of the `Target`.

mod handlers;
mod target;

use std::rc::Rc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use target::Selected;

use crate::bytecode::{
    describe, Code, CodeUnit, Handler, Instruction, Label, Native, Op, Opcodes, OperandTable, Position,
};
use crate::entity::VarId;
use crate::error::{Flow, ReasonId, Unwind};
use crate::operators::BinaryOp;
use crate::version::PyVersion;
pub use target::Target;

/// Instructions being written, with their constants, names and locals.
pub struct Emitter {
    target: Selected,
    opcodes: &'static Opcodes,
    instructions: Vec<Instruction>,
    consts: Vec<Py<PyAny>>,
    none: u32,
    names: Vec<String>,
    varnames: Vec<String>,
    // Instructions that name a cell: their operand depends on how many locals there are in the end (3.11+).
    cells: Vec<(usize, usize)>,
    position: Position,
    handlers: Vec<Handler>,
    // Start of the instructions whose exceptions are caught, or their end once it is known.
    guarded: Option<(Label, Option<Label>)>,
    last_guarded: Option<u32>,
}

impl Emitter {
    /// An empty emitter for code with the locals and cells of `code`.
    pub(crate) fn new(py: Python<'_>, code: &Code, position: Position) -> Self {
        Emitter {
            target: Selected::for_version(PyVersion::BUILT_FOR),
            opcodes: Opcodes::get(py),
            instructions: Vec::new(),
            // Constant 0 is the docstring's place.
            consts: vec![py.None()],
            none: 0,
            names: Vec::new(),
            varnames: code.varnames.clone(),
            cells: Vec::new(),
            position,
            handlers: Vec::new(),
            guarded: None,
            last_guarded: None,
        }
    }

    /// One of the running interpreter, for code that goes on using the constants and names of `code`.
    pub(crate) fn beside(py: Python<'_>, code: &Code, position: Position) -> Self {
        let mut emitter = Self::new(py, code, position);
        emitter.consts = code.consts.iter().map(|constant| constant.clone_ref(py)).collect();
        emitter.names.clone_from(&code.names);
        emitter.none = emitter.const_index(py.None());
        emitter
    }

    /// The jump at `at` goes to `target`.
    pub fn set_target(&mut self, at: Label, target: Label) {
        self.instructions[at.index()].target = Some(target);
    }

    fn target(&self) -> Selected {
        self.target
    }

    /// One instruction.
    pub fn op(&mut self, op: Op, arg: u32) -> Flow<()> {
        let opcode = self.opcode(op)?;
        self.write(opcode, arg);
        Ok(())
    }

    fn write(&mut self, opcode: u8, arg: u32) {
        self.instructions.push(Instruction::new(opcode, arg, self.position));
    }

    fn opcode(&self, op: Op) -> Flow<u8> {
        self.opcodes.find(op).ok_or_else(|| no_opcode(op.name()))
    }

    /// An instruction as it is.
    pub fn push(&mut self, instruction: Instruction) {
        self.instructions.push(instruction);
    }

    /// The instruction that was written there.
    pub fn instruction(&self, at: Label) -> Instruction {
        self.instructions[at.index()]
    }

    /// A jump forward takes the place of an instruction.
    pub fn replace_by_jump(&mut self, at: Label, target: Label) -> Flow<()> {
        let opcode = self.opcode(Op::JUMP_FORWARD)?;
        self.instructions[at.index()] = Instruction::jump(opcode, target, self.instructions[at.index()].position);
        Ok(())
    }

    /// Whether this interpreter has the instruction.
    pub fn knows(&self, op: Op) -> bool {
        self.opcodes.find(op).is_some()
    }

    /// Index of the constant None.
    pub fn none(&self) -> u32 {
        self.none
    }

    /// The source position of what is written next.
    pub fn set_position(&mut self, position: Position) {
        self.position = position;
    }

    /// The source position of what is written now.
    pub fn position(&self) -> Position {
        self.position
    }

    /// An instruction of the original code, in the form in which it runs outside of its frame. Of the pair of a
    /// callable and the NULL of a call it leaves the callable alone; then the answer says whether CPython's pair would
    /// have its NULL first.
    pub fn native(&mut self, py: Python<'_>, unit: &CodeUnit, instruction: &Instruction) -> Flow<Option<bool>> {
        let description = describe(instruction.opcode);
        let (opcode, shift) = match description.native {
            Native::Call => return self.call(instruction.arg).map(|()| None),
            Native::As(name) => {
                let opcode = self.opcodes.number(name).ok_or_else(|| no_opcode(name))?;
                (opcode, self.opcodes.info(opcode).shift)
            }
            Native::Unchanged => (instruction.opcode, self.opcodes.info(instruction.opcode).shift),
        };
        let info = self.opcodes.info(instruction.opcode);
        let (index, mut flags) = (instruction.arg >> info.shift, instruction.arg & ((1 << info.shift) - 1));
        let is_pair = description.is_pair(instruction.arg);
        if is_pair {
            flags &= !1;
        }
        match info.operand {
            OperandTable::Name => {
                let name = self.name(&unit.names[index as usize]);
                self.write(opcode, (name << shift) | flags);
            }
            OperandTable::Const => {
                let value = unit.code.consts[index as usize].clone_ref(py);
                let constant = self.const_index(value);
                self.write(opcode, constant);
            }
            OperandTable::Cell => {
                let cell = unit.code.cell_index(instruction.arg).ok_or_else(|| self.cannot_run(instruction))?;
                self.cells.push((self.instructions.len(), cell));
                self.write(opcode, 0);
            }
            // What is handed over are the locals as they were.
            _ if description.binds() => return Err(self.cannot_run(instruction)),
            _ => self.write(opcode, instruction.arg),
        }
        Ok(is_pair.then(|| self.target().null_first()))
    }

    fn cannot_run(&self, instruction: &Instruction) -> Unwind {
        cannot_run(self.opcodes.name(instruction.opcode))
    }

    /// Before a branch on any value.
    pub fn before_branch(&mut self) -> Flow<()> {
        self.target().before_branch(self)
    }

    /// A branch of the original code; `land` says where it goes.
    pub fn native_jump(&mut self, instruction: &Instruction) -> Flow<usize> {
        let description = describe(instruction.opcode);
        let opcode = match description.native {
            _ if description.branch.is_none() => return Err(self.cannot_run(instruction)),
            Native::As(name) => self.opcodes.number(name).ok_or_else(|| no_opcode(name))?,
            Native::Unchanged | Native::Call => instruction.opcode,
        };
        self.write(opcode, instruction.arg);
        Ok(self.instructions.len() - 1)
    }

    /// A jump; `land` says where it goes.
    pub fn jump(&mut self, op: Op) -> Flow<usize> {
        self.op(op, 0)?;
        Ok(self.instructions.len() - 1)
    }

    /// A branch on a `bool`, which goes; `land` says where to.
    pub fn jump_if(&mut self, truth: bool) -> Flow<usize> {
        let names = if truth {
            [Op::POP_JUMP_IF_TRUE, Op::POP_JUMP_FORWARD_IF_TRUE]
        } else {
            [Op::POP_JUMP_IF_FALSE, Op::POP_JUMP_FORWARD_IF_FALSE]
        };
        self.jump(if self.knows(names[0]) { names[0] } else { names[1] })
    }

    /// A branch that is taken if the top of the stack, which stays, is the very constant.
    pub fn jump_if_is(&mut self, constant: Py<PyAny>) -> Flow<usize> {
        self.duplicate()?;
        self.load_const(constant)?;
        self.target().is(self)?;
        self.jump_if(true)
    }

    /// A jump back that does not look for signals.
    pub fn jump_back(&mut self, target: Label) -> Flow<()> {
        let names = [Op::JUMP_BACKWARD_NO_INTERRUPT, Op::JUMP_ABSOLUTE];
        let jump = self.jump(if self.knows(names[0]) { names[0] } else { names[1] })?;
        self.set_target(Label(jump as u32), target);
        Ok(())
    }

    /// The branch goes to what is written next.
    pub fn land(&mut self, branch: usize) {
        self.instructions[branch].target = Some(self.here());
    }

    /// Moves the top of the stack into a new local.
    pub fn store_new(&mut self) -> Flow<u32> {
        let local = self.new_local(&format!("___l{}", self.varnames.len()));
        self.op(Op::STORE_FAST, local)?;
        Ok(local)
    }

    /// The NULL of a call, where calls have one that can be pushed.
    pub fn push_null(&mut self) -> Flow<()> {
        self.target().push_null(self)
    }

    /// Keyword names for the next call, where they are no stack item.
    pub fn keyword_names(&mut self, py: Python<'_>, names: &[Rc<str>]) -> Flow<()> {
        let names = pyo3::types::PyTuple::new(py, names.iter().map(|name| &**name))?.into_any().unbind();
        let index = self.const_index(names);
        self.op(Op::KW_NAMES, index)
    }

    /// Where the next instruction will stand.
    pub fn here(&self) -> Label {
        Label(self.instructions.len() as u32)
    }

    /// What a fresh frame must run first: it makes cells, and that of a generator makes the generator.
    pub fn prologue(&mut self, code: &Code, generator: bool) -> Flow<()> {
        self.target().prologue(self, code, generator)
    }

    /// The frame begins to run: tracebacks show it from here on, and signals are looked for.
    pub fn begin(&mut self) -> Flow<()> {
        if self.knows(Op::RESUME) {
            self.op(Op::RESUME, 0)?;
        }
        Ok(())
    }

    /// Leaves a constant on the stack.
    pub fn load_const(&mut self, value: Py<PyAny>) -> Flow<()> {
        let index = self.consts.iter().position(|known| known.is(&value)).unwrap_or_else(|| {
            self.consts.push(value);
            self.consts.len() - 1
        });
        self.op(Op::LOAD_CONST, index as u32)
    }

    /// Index of a name in `co_names`.
    pub fn name(&mut self, name: &str) -> u32 {
        let index = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        index as u32
    }

    /// A new local variable.
    pub fn new_local(&mut self, name: &str) -> u32 {
        self.varnames.push(name.to_owned());
        self.varnames.len() as u32 - 1
    }

    /// How many locals there are by now.
    pub fn locals(&self) -> usize {
        self.varnames.len()
    }

    /// Before the callable of a call is loaded.
    pub fn begin_call(&mut self) -> Flow<()> {
        self.target().begin_call(self)
    }

    /// After the callable of a call is loaded.
    pub fn callable_loaded(&mut self) -> Flow<()> {
        self.target().callable_loaded(self)
    }

    /// Calls with so many positional arguments.
    pub fn call(&mut self, argc: u32) -> Flow<()> {
        self.target().call(self, argc)
    }

    /// Calls with arguments of which the last ones have these names.
    pub fn call_with_keywords(&mut self, py: Python<'_>, argc: u32, names: &[&str]) -> Flow<()> {
        let names = pyo3::types::PyTuple::new(py, names)?.into_any().unbind();
        self.target().call_with_keywords(self, argc, names)
    }

    /// Calls a function with the top of the stack, the place of which the result takes.
    pub fn call_on_top(&mut self, function: Py<PyAny>) -> Flow<()> {
        self.below_top(Self::begin_call)?;
        self.below_top(|e| e.load_const(function))?;
        self.below_top(Self::callable_loaded)?;
        self.call(1)
    }

    /// What is pushed, if anything is, goes below the top of the stack.
    fn below_top(&mut self, push: impl FnOnce(&mut Self) -> Flow<()>) -> Flow<()> {
        let start = self.here();
        push(self)?;
        if self.here() == start {
            return Ok(());
        }
        self.swap()
    }

    /// Makes what is on top of the stack, and no method, the pair that a method load leaves of it.
    pub fn pair(&mut self) -> Flow<()> {
        if !self.knows(Op::PUSH_NULL) {
            return self.own_call();
        }
        self.push_null()?;
        if self.target().null_first() {
            self.swap()?;
        }
        Ok(())
    }

    /// A callable as the receiver of its own `__call__`: a method pair where no NULL can be pushed.
    pub fn own_call(&mut self) -> Flow<()> {
        let name = self.name("__call__");
        self.op(Op::LOAD_METHOD, name)
    }

    /// A comparison that has a number of its own.
    pub fn compare(&mut self, name: &str) -> Flow<()> {
        let number =
            self.opcodes.comparisons().iter().position(|known| known == name).ok_or_else(|| cannot_run(name))?;
        self.op(Op::COMPARE_OP, number as u32)
    }

    /// The two items on top of the stack change places.
    pub fn swap(&mut self) -> Flow<()> {
        self.target().swap(self)
    }

    /// The top goes below the two items under it, which may change places.
    pub fn bury(&mut self) -> Flow<()> {
        self.target().bury(self)
    }

    /// A binary operator.
    pub fn binary(&mut self, op: BinaryOp) -> Flow<()> {
        self.target().binary(self, op)
    }

    /// `<global name>`
    pub fn load_global(&mut self, name: &str) -> Flow<()> {
        let index = self.name(name);
        self.target().load_global(self, index)
    }

    /// `<top of stack>.name`
    pub fn load_attr(&mut self, name: &str) -> Flow<()> {
        let index = self.name(name);
        self.target().load_attr(self, index)
    }

    /// An instruction on a cell, given by its index into cell and free variables.
    pub fn cell_op(&mut self, op: Op, cell: usize) -> Flow<()> {
        self.cells.push((self.instructions.len(), cell));
        self.op(op, 0)
    }

    /// The cell object (not its contents) with an index into cell and free variables.
    pub fn load_closure(&mut self, cell: usize) -> Flow<()> {
        self.target().load_closure(self, cell)
    }

    /// Duplicates the top of the stack.
    pub fn duplicate(&mut self) -> Flow<()> {
        self.target().duplicate(self)
    }

    /// Index the constant would be loaded by.
    pub fn const_index(&mut self, value: Py<PyAny>) -> u32 {
        self.consts.push(value);
        self.consts.len() as u32 - 1
    }

    /// Puts everything written into `code`.
    pub fn finish(mut self, code: &mut Code) {
        code.varnames = self.varnames;
        for (at, cell) in self.cells {
            self.instructions[at].arg = code.deref_arg(cell);
        }
        code.instructions = self.instructions;
        code.handlers = self.handlers;
        code.consts = self.consts;
        code.names = self.names;
    }
}

/// How many stack items raising an exception again takes: traceback, itself and class, or itself alone.
pub(crate) fn raised_width() -> u32 {
    Selected::for_version(PyVersion::BUILT_FOR).raised_width()
}

/// Whether the pair that a method load leaves has its NULL below the callable.
pub(crate) fn null_first() -> bool {
    Selected::for_version(PyVersion::BUILT_FOR).null_first()
}

/// What a call's frame has on its stack for the callable, from the bottom up.
pub(crate) fn callable(callable: VarId, null: VarId) -> Vec<VarId> {
    Selected::for_version(PyVersion::BUILT_FOR).callable(callable, null)
}

/// Where a loop goes on when its iterator is exhausted, the clean-up of the loop head left out.
pub(crate) fn after_loop(head: &Instruction) -> Flow<Label> {
    let target = head.target.ok_or_else(|| cannot_run("a loop without an end"))?;
    Ok(Label(target.0 + Selected::for_version(PyVersion::BUILT_FOR).loop_cleanup()))
}

fn no_opcode(name: &str) -> Unwind {
    PyRuntimeError::new_err(format!("this interpreter has no opcode {name}")).into()
}

fn cannot_run(name: &str) -> Unwind {
    Unwind::fallback(ReasonId::CannotRestore, format!("{name} cannot be run outside of its frame"))
}
