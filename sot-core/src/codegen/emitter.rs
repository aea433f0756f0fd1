//! Emits instructions of the running interpreter. What differs between versions is asked of the `Target`.

use std::rc::Rc;

use pyo3::prelude::*;

use super::target::{Selected, Target};
use crate::bytecode::{Code, Handler, Instruction, Label, Opcodes, Operand, Position};
use crate::error::{Flow, ReasonId, Unwind};
use crate::executor::{BinaryOp, CodeUnit};
use crate::version::PyVersion;

/// Instructions being written, with their constants, names and locals.
pub struct Emitter {
    target: Selected,
    opcodes: &'static Opcodes,
    instructions: Vec<Instruction>,
    consts: Vec<Py<PyAny>>,
    names: Vec<String>,
    varnames: Vec<String>,
    // Instructions that name a cell: their operand depends on how many locals there are in the end (3.11+).
    cells: Vec<(usize, usize)>,
    position: Position,
    handlers: Vec<Handler>,
    // Start of the instructions whose exceptions are caught, or their end once it is known.
    guarded: Option<(Label, Option<Label>)>,
}

impl Emitter {
    /// An empty emitter for code with the locals and cells of `code`.
    pub(super) fn new(py: Python<'_>, target: Selected, code: &Code, position: Position) -> Self {
        Emitter {
            target,
            opcodes: Opcodes::get(py),
            instructions: Vec::new(),
            // Constant 0 is the docstring's place.
            consts: vec![py.None()],
            names: Vec::new(),
            varnames: code.varnames.clone(),
            cells: Vec::new(),
            position,
            handlers: Vec::new(),
            guarded: None,
        }
    }

    /// From here on exceptions are caught, if `wanted`; where it began.
    pub fn begin_guarded(&mut self, wanted: bool) -> Flow<Label> {
        let start = self.here();
        if wanted {
            self.guarded = Some((start, None));
            self.target().begin_try(self)?;
        }
        Ok(start)
    }

    /// Exceptions are no longer caught.
    pub fn end_guarded(&mut self) -> Flow<()> {
        if let Some((start, None)) = self.guarded {
            self.guarded = Some((start, Some(self.here())));
            self.leave_block()?;
        }
        Ok(())
    }

    /// Ends the block of the guarded instructions on one way out of them.
    pub fn leave_block(&mut self) -> Flow<()> {
        match self.guarded {
            Some(_) => self.target().end_try(self),
            None => Ok(()),
        }
    }

    /// The handler of what was guarded, perhaps while an exception was handled: the new exception, in a local.
    pub fn catch_guarded(&mut self, start: Label, handling: bool) -> Flow<u32> {
        let here = self.here();
        let end = self.guarded.take().and_then(|(_, end)| end).unwrap_or(start);
        self.target().catch(self, start, end, here, u32::from(handling))
    }

    /// An entry of the exception table.
    pub fn add_handler(&mut self, start: Label, end: Label, target: Label, depth: u32) {
        self.handlers.push(Handler { start, end, target, depth, lasti: false });
    }

    /// How many stack items raising an exception again takes.
    pub fn raised_width(&self) -> u32 {
        self.target().raised_width()
    }

    /// Before the items of an exception that is to be handled are loaded.
    pub fn before_handling(&mut self) -> Flow<Label> {
        let start = self.here();
        self.target().before_handling(self)?;
        Ok(start)
    }

    /// The exception whose items were loaded is handled from here on; what was handled before lies on the stack.
    pub fn begin_handling(&mut self, start: Label) -> Flow<()> {
        self.target().begin_handling(self, start)
    }

    /// What was handled before is handled again.
    pub fn end_handling(&mut self) -> Flow<()> {
        self.op("POP_EXCEPT", 0)
    }

    /// Before the items of an exception to be raised again are loaded.
    pub fn before_reraise(&mut self) -> Flow<()> {
        self.target().before_reraise(self)
    }

    /// Raises what was loaded again, without an entry in its traceback.
    pub fn reraise(&mut self) -> Flow<()> {
        self.target().reraise(self)
    }

    /// A call begins whose exceptions go to a handler that is written later; where it began.
    pub fn begin_try(&mut self) -> Flow<Label> {
        let start = self.here();
        self.target().begin_try(self)?;
        Ok(start)
    }

    /// It ends; where.
    pub fn end_try(&mut self) -> Flow<Label> {
        self.target().end_try(self)?;
        Ok(self.here())
    }

    /// The handler of such a call: the exception, in a local. Nothing is handled from here on.
    pub fn catch(&mut self, (start, end): (Label, Label)) -> Flow<u32> {
        let here = self.here();
        self.target().catch(self, start, end, here, 0)
    }

    /// Sends the exceptions of such a call to a handler.
    pub fn handle_driven(&mut self, start: Label, end: Label, handler: Label) {
        self.target().handle_driven(self, start, end, handler);
    }

    /// The body of that handler: raises the exception again after `trim(exception)`, which gives its new traceback.
    pub fn raise_trimmed(&mut self, trim: Py<PyAny>) -> Flow<()> {
        self.target().raise_trimmed(self, trim)
    }

    /// Calls `__enter__` of the manager on top of the stack, which `__exit__` and the result replace (3.8 to 3.10).
    pub fn enter_with(&mut self) -> Flow<()> {
        let at = self.here();
        self.op("SETUP_WITH", 0)?;
        let end = self.here();
        self.set_target(at, end);
        self.op("POP_BLOCK", 0)
    }

    /// The jump at `at` goes to `target`.
    pub fn set_target(&mut self, at: Label, target: Label) {
        self.instructions[at.index()].target = Some(target);
    }

    fn target(&self) -> Selected {
        self.target
    }

    /// One instruction by name.
    pub fn op(&mut self, name: &str, arg: u32) -> Flow<()> {
        let opcode = self.opcodes.number(name).ok_or_else(|| {
            Unwind::from(pyo3::exceptions::PyRuntimeError::new_err(format!("this interpreter has no opcode {name}")))
        })?;
        self.instructions.push(Instruction::new(opcode, arg, self.position));
        Ok(())
    }

    /// Whether this interpreter has the instruction.
    pub fn knows(&self, name: &str) -> bool {
        self.opcodes.number(name).is_some()
    }

    /// Index of the constant None.
    pub fn none(&self) -> u32 {
        0
    }

    /// The source position of what is written next.
    pub fn set_position(&mut self, position: Position) {
        self.position = position;
    }

    /// The source position of what is written now.
    pub fn position(&self) -> Position {
        self.position
    }

    /// An instruction of the original code, run as it is. Loads of methods become loads of attributes; then the answer
    /// says whether CPython's pair would have its NULL first.
    pub fn native(
        &mut self,
        py: Python<'_>,
        unit: &CodeUnit,
        instruction: &Instruction,
        name: &str,
    ) -> Flow<Option<bool>> {
        let info = self.opcodes.info(instruction.opcode);
        let (index, flags) = (instruction.arg >> info.shift, instruction.arg & ((1 << info.shift) - 1));
        match (name, info.operand) {
            ("LOAD_METHOD", _) | ("LOAD_ATTR", Operand::Name) if name == "LOAD_METHOD" || flags & 1 != 0 => {
                self.load_attr(&unit.names[index as usize])?;
                return Ok(Some(self.target().null_first()));
            }
            ("LOAD_SUPER_ATTR" | "LOAD_GLOBAL", _) if flags & 1 != 0 => {
                let name_index = self.name(&unit.names[index as usize]);
                self.op(name, (name_index << info.shift) | (flags & !1))?;
                return Ok(Some(self.target().null_first()));
            }
            ("CALL_METHOD" | "CALL", _) => self.call(instruction.arg),
            (_, Operand::Name) => {
                let name_index = self.name(&unit.names[index as usize]);
                self.op(name, (name_index << info.shift) | flags)
            }
            (_, Operand::Const) => {
                let value = unit.code.consts[index as usize].clone_ref(py);
                let at = self.const_index(value);
                self.op(name, at)
            }
            (_, Operand::Cell) => match unit.code.cell_index(instruction.arg) {
                Some(cell) => self.cell_op(name, cell),
                None => Err(cannot_run(name)),
            },
            // What is handed over are the locals as they were.
            (name, _) if name.starts_with("STORE_FAST") => Err(cannot_run(name)),
            _ => self.op(name, instruction.arg),
        }?;
        Ok(None)
    }

    /// Before a branch on any value.
    pub fn before_branch(&mut self) -> Flow<()> {
        self.target().before_branch(self)
    }

    /// A branch of the original code; `land` says where it goes.
    pub fn native_jump(&mut self, name: &str, instruction: &Instruction) -> Flow<usize> {
        let known = ["JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP", "JUMP_IF_NOT_EXC_MATCH"];
        if !name.starts_with("POP_JUMP") && !known.contains(&name) {
            return Err(cannot_run(name));
        }
        self.op(&name.replace("BACKWARD", "FORWARD"), instruction.arg)?;
        Ok(self.instructions.len() - 1)
    }

    /// A branch on a `bool`; `land` says where it goes.
    pub fn jump_if_true(&mut self) -> Flow<usize> {
        let names = ["POP_JUMP_IF_TRUE", "POP_JUMP_FORWARD_IF_TRUE"];
        let name = names.into_iter().find(|name| self.opcodes.number(name).is_some());
        self.op(name.unwrap_or(names[0]), 0)?;
        Ok(self.instructions.len() - 1)
    }

    /// The branch goes to what is written next.
    pub fn land(&mut self, branch: usize) {
        self.instructions[branch].target = Some(self.here());
    }

    /// Moves the top of the stack into a new local.
    pub fn store_new(&mut self) -> Flow<u32> {
        let local = self.new_local(&format!("___l{}", self.varnames.len()));
        self.op("STORE_FAST", local)?;
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
        self.op("KW_NAMES", index)
    }

    /// Where the next instruction will stand.
    pub fn here(&self) -> Label {
        Label(self.instructions.len() as u32)
    }

    /// What a fresh frame must run first: cells, `RESUME`.
    pub fn prologue(&mut self, code: &Code) -> Flow<()> {
        self.target().prologue(self, code)
    }

    /// Leaves a constant on the stack.
    pub fn load_const(&mut self, value: Py<PyAny>) -> Flow<()> {
        let index = self.consts.iter().position(|known| known.is(&value)).unwrap_or_else(|| {
            self.consts.push(value);
            self.consts.len() - 1
        });
        self.op("LOAD_CONST", index as u32)
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
    pub fn cell_op(&mut self, name: &str, cell: usize) -> Flow<()> {
        self.cells.push((self.instructions.len(), cell));
        self.op(name, 0)
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

/// Where a loop goes on when its iterator is exhausted, the clean-up of the loop head left out.
pub(crate) fn after_loop(head: &Instruction) -> Flow<Label> {
    let target = head.target.ok_or_else(|| cannot_run("FOR_ITER"))?;
    Ok(Label(target.0 + Selected::for_version(PyVersion::BUILT_FOR).loop_cleanup()))
}

fn cannot_run(name: &str) -> Unwind {
    Unwind::fallback(ReasonId::CannotRestore, format!("{name} cannot be run outside of its frame"))
}
