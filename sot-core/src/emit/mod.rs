//! Writes instructions of the running interpreter. Differences between versions are left to the [`Target`].

mod handlers;
mod target;

use std::rc::Rc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use target::Selected;

use crate::bytecode::{
    describe, Code, CodeUnit, ExceptionHandler, Instruction, Label, Native, Op, Opcodes, OperandTable, Position,
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
    // Instructions that name a cell: in 3.11+ their operand depends on the final number of locals.
    cells: Vec<(usize, usize)>,
    position: Position,
    handlers: Vec<ExceptionHandler>,
    // Start of the instructions whose exceptions are caught, and their end once it is known.
    guarded: Option<(Label, Option<Label>)>,
    last_guarded: Option<u32>,
}

impl Emitter {
    /// Creates an empty emitter for code with the locals and cells of `code`.
    pub(crate) fn new(py: Python<'_>, code: &Code, position: Position) -> Self {
        Emitter {
            target: Selected::for_version(PyVersion::BUILT_FOR),
            opcodes: Opcodes::get(py),
            instructions: Vec::new(),
            // Constant 0 is reserved for the docstring.
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

    /// Creates an emitter for code that continues to use the constants and names of `code`.
    pub(crate) fn beside(py: Python<'_>, code: &Code, position: Position) -> Self {
        let mut emitter = Self::new(py, code, position);
        emitter.consts = code.consts.iter().map(|constant| constant.clone_ref(py)).collect();
        emitter.names.clone_from(&code.names);
        emitter.none = emitter.const_index(py.None());
        emitter
    }

    /// Makes the jump at `at` go to `target`.
    pub fn set_target(&mut self, at: Label, target: Label) {
        self.instructions[at.index()].target = Some(target);
    }

    fn target(&self) -> Selected {
        self.target
    }

    /// Writes an instruction.
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

    /// Writes a ready instruction.
    pub fn push(&mut self, instruction: Instruction) {
        self.instructions.push(instruction);
    }

    /// Returns the instruction at a label.
    pub fn instruction(&self, at: Label) -> Instruction {
        self.instructions[at.index()]
    }

    /// Replaces an instruction by a forward jump.
    pub fn replace_by_jump(&mut self, at: Label, target: Label) -> Flow<()> {
        let opcode = self.opcode(Op::JUMP_FORWARD)?;
        self.instructions[at.index()] = Instruction::jump(opcode, target, self.instructions[at.index()].position);
        Ok(())
    }

    /// True if this interpreter has the opcode.
    pub fn knows(&self, op: Op) -> bool {
        self.opcodes.find(op).is_some()
    }

    /// Index of the constant None.
    pub fn none(&self) -> u32 {
        self.none
    }

    /// Sets the source position of the following instructions.
    pub fn set_position(&mut self, position: Position) {
        self.position = position;
    }

    /// The source position of the instructions being written.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Writes an instruction of the original code in the form in which it runs outside its frame. An instruction that
    /// pushes the pair of a callable and the NULL of a call pushes only the callable. In this case the result says
    /// whether CPython's pair has the NULL first (below); otherwise it is `None`.
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
                let name = self.name(&unit.names()[index as usize]);
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
            // An instruction that binds a local cannot run here: the locals were handed over with their values before
            // it.
            _ if description.binds() => return Err(self.cannot_run(instruction)),
            _ => self.write(opcode, instruction.arg),
        }
        Ok(is_pair.then(|| self.target().null_first()))
    }

    fn cannot_run(&self, instruction: &Instruction) -> Unwind {
        cannot_run(self.opcodes.name(instruction.opcode))
    }

    /// Writes what has to precede a branch on an arbitrary value.
    pub fn before_branch(&mut self) -> Flow<()> {
        self.target().before_branch(self)
    }

    /// Writes a branch of the original code. Returns its index; `land` sets its target.
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

    /// Writes a jump. Returns its index; `land` sets its target.
    pub fn jump(&mut self, op: Op) -> Flow<usize> {
        self.op(op, 0)?;
        Ok(self.instructions.len() - 1)
    }

    /// Writes a branch that pops a `bool`. Returns its index; `land` sets its target.
    pub fn jump_if(&mut self, truth: bool) -> Flow<usize> {
        let names = if truth {
            [Op::POP_JUMP_IF_TRUE, Op::POP_JUMP_FORWARD_IF_TRUE]
        } else {
            [Op::POP_JUMP_IF_FALSE, Op::POP_JUMP_FORWARD_IF_FALSE]
        };
        self.jump(if self.knows(names[0]) { names[0] } else { names[1] })
    }

    /// Writes a branch that is taken if the top of the stack is the constant (compared by identity). The item stays
    /// on the stack.
    pub fn jump_if_is(&mut self, constant: Py<PyAny>) -> Flow<usize> {
        self.duplicate()?;
        self.load_const(constant)?;
        self.target().is(self)?;
        self.jump_if(true)
    }

    /// Writes a backward jump that does not check for signals.
    pub fn jump_back(&mut self, target: Label) -> Flow<()> {
        let names = [Op::JUMP_BACKWARD_NO_INTERRUPT, Op::JUMP_ABSOLUTE];
        let jump = self.jump(if self.knows(names[0]) { names[0] } else { names[1] })?;
        self.set_target(Label(jump as u32), target);
        Ok(())
    }

    /// Makes the branch go to the next instruction.
    pub fn land(&mut self, branch: usize) {
        self.instructions[branch].target = Some(self.here());
    }

    /// Pops the top of the stack into a new local, and returns the local's slot.
    pub fn store_new(&mut self) -> Flow<u32> {
        let local = self.new_local(&format!("___l{}", self.varnames.len()));
        self.op(Op::STORE_FAST, local)?;
        Ok(local)
    }

    /// Pushes the NULL of a call, if this version has one that can be pushed.
    pub fn push_null(&mut self) -> Flow<()> {
        self.target().push_null(self)
    }

    /// Sets the keyword names of the next call, in versions where they are not a stack item.
    pub fn keyword_names(&mut self, py: Python<'_>, names: &[Rc<str>]) -> Flow<()> {
        let names = pyo3::types::PyTuple::new(py, names.iter().map(|name| &**name))?.into_any().unbind();
        let index = self.const_index(names);
        self.op(Op::KW_NAMES, index)
    }

    /// Label of the next instruction.
    pub fn here(&self) -> Label {
        Label(self.instructions.len() as u32)
    }

    /// Writes the first instructions of a new frame: they create the cells and, for a generator, the generator.
    pub fn prologue(&mut self, code: &Code, generator: bool) -> Flow<()> {
        self.target().prologue(self, code, generator)
    }

    /// Begins the frame's execution: from here on tracebacks show the frame, and signals are checked for.
    pub fn begin(&mut self) -> Flow<()> {
        if self.knows(Op::RESUME) {
            self.op(Op::RESUME, 0)?;
        }
        Ok(())
    }

    /// Loads a constant.
    pub fn load_const(&mut self, value: Py<PyAny>) -> Flow<()> {
        let index = self.consts.iter().position(|known| known.is(&value)).unwrap_or_else(|| {
            self.consts.push(value);
            self.consts.len() - 1
        });
        self.op(Op::LOAD_CONST, index as u32)
    }

    /// Returns the index of a name in `co_names`, adding the name if need be.
    pub fn name(&mut self, name: &str) -> u32 {
        let index = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        index as u32
    }

    /// Adds a local variable, and returns its slot.
    pub fn new_local(&mut self, name: &str) -> u32 {
        self.varnames.push(name.to_owned());
        self.varnames.len() as u32 - 1
    }

    /// Sets these locals to `None`, so that the frame drops their values.
    pub fn forget(&mut self, slots: impl IntoIterator<Item = usize>) -> Flow<()> {
        for slot in slots {
            self.op(Op::LOAD_CONST, self.none)?;
            self.op(Op::STORE_FAST, slot as u32)?;
        }
        Ok(())
    }

    /// Unbinds these locals, whether they are bound or not.
    pub fn unset(&mut self, slots: impl IntoIterator<Item = usize>) -> Flow<()> {
        for slot in slots {
            self.forget([slot])?;
            self.op(Op::DELETE_FAST, slot as u32)?;
        }
        Ok(())
    }

    /// Number of locals so far.
    pub fn locals(&self) -> usize {
        self.varnames.len()
    }

    /// Writes what precedes the callable of a call.
    pub fn begin_call(&mut self) -> Flow<()> {
        self.target().begin_call(self)
    }

    /// Writes what follows the callable of a call.
    pub fn callable_loaded(&mut self) -> Flow<()> {
        self.target().callable_loaded(self)
    }

    /// Calls with this many positional arguments.
    pub fn call(&mut self, argc: u32) -> Flow<()> {
        self.target().call(self, argc)
    }

    /// Calls with `argc` arguments, of which the last ones have these names.
    pub fn call_with_keywords(&mut self, py: Python<'_>, argc: u32, names: &[&str]) -> Flow<()> {
        let names = pyo3::types::PyTuple::new(py, names)?.into_any().unbind();
        self.target().call_with_keywords(self, argc, names)
    }

    /// Calls a function with the top of the stack, which the result replaces.
    pub fn call_on_top(&mut self, function: Py<PyAny>) -> Flow<()> {
        self.below_top(Self::begin_call)?;
        self.below_top(|e| e.load_const(function))?;
        self.below_top(Self::callable_loaded)?;
        self.call(1)
    }

    /// Runs `push`, and moves the item it pushes, if any, below the former top of the stack.
    fn below_top(&mut self, push: impl FnOnce(&mut Self) -> Flow<()>) -> Flow<()> {
        let start = self.here();
        push(self)?;
        if self.here() == start {
            return Ok(());
        }
        self.swap()
    }

    /// Turns the top of the stack, which is no method, into the pair of callable and NULL that a method load leaves.
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

    /// Loads the callable's own `__call__` as a method pair, for versions where no NULL can be pushed.
    pub fn own_call(&mut self) -> Flow<()> {
        let name = self.name("__call__");
        self.op(Op::LOAD_METHOD, name)
    }

    /// Writes a comparison that is named by its number in `COMPARE_OP`.
    pub fn compare(&mut self, name: &str) -> Flow<()> {
        let number =
            self.opcodes.comparisons().iter().position(|known| known == name).ok_or_else(|| cannot_run(name))?;
        self.op(Op::COMPARE_OP, number as u32)
    }

    /// Swaps the two topmost stack items.
    pub fn swap(&mut self) -> Flow<()> {
        self.target().swap(self)
    }

    /// Moves the top of the stack below the two items under it, which may swap places.
    pub fn bury(&mut self) -> Flow<()> {
        self.target().bury(self)
    }

    /// Writes a binary operator.
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

    /// Writes an instruction on a cell, given by its index among cell and free variables.
    pub fn cell_op(&mut self, op: Op, cell: usize) -> Flow<()> {
        self.cells.push((self.instructions.len(), cell));
        self.op(op, 0)
    }

    /// Loads the cell object (not its contents), given by its index among cell and free variables.
    pub fn load_closure(&mut self, cell: usize) -> Flow<()> {
        self.target().load_closure(self, cell)
    }

    /// Duplicates the top of the stack.
    pub fn duplicate(&mut self) -> Flow<()> {
        self.target().duplicate(self)
    }

    /// Adds a constant, and returns its index.
    pub fn const_index(&mut self, value: Py<PyAny>) -> u32 {
        self.consts.push(value);
        self.consts.len() as u32 - 1
    }

    /// Moves all that was written into `code`.
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

/// Number of stack items of an exception that is raised again: 3 (traceback, exception and class), or 1 (the
/// exception).
pub(crate) fn raised_width() -> u32 {
    Selected::for_version(PyVersion::BUILT_FOR).raised_width()
}

/// True if a method load leaves its NULL below the callable.
pub(crate) fn null_first() -> bool {
    Selected::for_version(PyVersion::BUILT_FOR).null_first()
}

/// The stack items that a call has for its callable, from the bottom up.
pub(crate) fn callable(callable: VarId, null: VarId) -> Vec<VarId> {
    Selected::for_version(PyVersion::BUILT_FOR).callable(callable, null)
}

/// Label where execution continues when the iterator of a loop is exhausted, behind the clean-up of the loop head.
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
