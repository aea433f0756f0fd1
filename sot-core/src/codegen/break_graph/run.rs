//! Runs the instruction that a graph breaks at as CPython does, and stores its results.

use pyo3::prelude::*;

use super::super::native::{self, NativeFrames};
use super::{cannot, BreakCodeGen};
use crate::bytecode::{stack_effect, Instruction, Op};
use crate::cpython;
use crate::error::Flow;
use crate::machine::executor::{BreakPoint, Checkpoint};
use crate::machine::opcode::{self, Native};
use crate::machine::variable::{Rebuild, VarId};
use crate::resume::{self, layout, Item, Value};

impl BreakCodeGen<'_, '_> {
    /// Number of stack items that the instruction may touch.
    pub(super) fn consumed(&self, instruction: &Instruction, frame: &Checkpoint) -> usize {
        layout::consumed(self.cg.trace, instruction, frame)
    }

    pub(super) fn effect(&self, instruction: &Instruction, jump: bool) -> Flow<i32> {
        stack_effect(self.cg.trace.py, instruction.opcode, instruction.arg, jump)
            .map_err(|error| cannot(error.to_string()))
    }

    /// Runs the instruction, for an inlined function in frames of its own, and moves the items it leaves into locals.
    pub(super) fn run_natively(&mut self, instruction: &Instruction, operands: &[VarId]) -> Flow<Vec<Item>> {
        let left = match opcode::describe(instruction.opcode).leaves {
            Some(left) => left(instruction.arg) as usize,
            None => (operands.len() as i32 + self.effect(instruction, false)?) as usize,
        };
        if self.is_nested() {
            return self.run_in_frames(self.at, instruction, operands, left);
        }
        let frame = self.at.innermost();
        self.load_operands(operands)?;
        self.name_keywords(frame, instruction)?;
        let pair = match &self.details.empty_own_cell {
            Some(variable) => self.raise_unbound(variable.clone(), left)?,
            None => self.cg.emitter.native(self.cg.trace.py, &self.cg.root, instruction)?,
        };
        self.cg.emitter.end_guarded()?;
        match pair {
            Some(null_first) => self.store_pair(null_first),
            None => self.store_left(left),
        }
    }

    /// Runs the instruction of an inlined function. The items it leaves are the result of the call: nothing, an item,
    /// a sequence, or the callable of a pair with a NULL.
    fn run_in_frames(
        &mut self,
        at: &BreakPoint,
        instruction: &Instruction,
        operands: &[VarId],
        left: usize,
    ) -> Flow<Vec<Item>> {
        let frames = NativeFrames::new(self.cg.trace, at);
        let pair = frames.leaves_pair(instruction);
        let codes = frames.run(operands, if pair.is_some() { 1 } else { left })?;
        self.call_frames(at, codes, operands, Self::load_operands)?;
        match (pair, left) {
            (Some(_), _) | (None, 1) => {}
            (None, 0) => self.cg.op(Op::POP_TOP, 0)?,
            (None, left) => self.cg.op(Op::UNPACK_SEQUENCE, left as u32)?,
        }
        self.cg.emitter.end_guarded()?;
        match pair {
            Some(null_first) => self.store_pair(null_first),
            // A sequence is unpacked so that its first item is on top.
            None if left > 1 => (0..left).map(|_| self.left()).collect(),
            None => self.store_left(left),
        }
    }

    /// Raises the error of an unbound local variable in place of an instruction that leaves this many items.
    fn raise_unbound(&mut self, variable: String, left: usize) -> Flow<Option<bool>> {
        let raise = resume::unbound(self.cg.trace.py, variable)?;
        self.cg.call_of(raise, [])?;
        if left == 0 {
            self.cg.op(Op::POP_TOP, 0)?;
        }
        Ok(None)
    }

    /// Calls the frames in which the breaking instruction of an inlined function runs. Each frame but the last calls
    /// the next. All get the functions of the frames below, the operands as `load` loads them, and the variables they
    /// show.
    pub(super) fn call_frames(
        &mut self,
        at: &BreakPoint,
        codes: Vec<Py<PyAny>>,
        operands: &[VarId],
        load: impl FnOnce(&mut Self, &[VarId]) -> Flow<()>,
    ) -> Flow<()> {
        let null = self.cg.trace.null();
        let function = cpython::import(self.cg.trace.py, "types")?.getattr("FunctionType")?.unbind();
        let mut functions = Vec::new();
        let shown = native::shown(self.cg.trace, at);
        for ((code, frame), variables) in codes.into_iter().zip(&at.frames[1..]).zip(&shown) {
            let function = function.clone_ref(self.cg.trace.py);
            self.cg.begin_call_of(function)?;
            self.cg.load_const(code)?;
            self.cg.load_globals(frame.globals)?;
            let cells = if variables.cells.is_empty() { &[][..] } else { &frame.cells[..] };
            if cells.is_empty() {
                self.cg.end_call(2)?;
            } else {
                (0..2).try_for_each(|_| self.cg.load_const(self.cg.trace.py.None()))?;
                cells.iter().try_for_each(|cell| self.cg.load_cell(*cell))?;
                self.cg.op(Op::BUILD_TUPLE, cells.len() as u32)?;
                self.cg.end_call(5)?;
            }
            functions.push(self.cg.emitter.store_new()?);
        }
        let mut operands: Vec<VarId> = operands.iter().copied().filter(|operand| *operand != null).collect();
        operands.extend(shown.iter().rev().flat_map(|variables| variables.values.iter().copied()));
        let (&first, rest) = functions.split_first().ok_or_else(|| cannot("a call of no frame"))?;
        self.cg.before_callable()?;
        self.cg.op(Op::LOAD_FAST, first)?;
        self.cg.after_callable()?;
        for &function in rest {
            self.cg.op(Op::LOAD_FAST, function)?;
        }
        load(self, &operands)?;
        self.cg.end_call((rest.len() + operands.len()) as u32)
    }

    /// Returns the backend's function that answers a branch on a tensor faster than the branch itself. The branch is
    /// then made on the answer.
    pub(super) fn truth(&self, branch: &Instruction) -> Flow<Option<Py<PyAny>>> {
        // Other branches leave their operand on the stack.
        let asks = opcode::describe(branch.opcode).tests_truth();
        Ok(if asks { self.cg.trace.runtime.backend().eager_tensors().truth(self.cg.trace.py)? } else { None })
    }

    pub(super) fn load_asked(&mut self, operands: &[VarId], truth: Option<Py<PyAny>>) -> Flow<()> {
        match (truth, operands) {
            (Some(truth), [operand, held @ ..]) => {
                self.cg.begin_call_of(truth)?;
                self.cg.load(*operand)?;
                self.cg.end_call(1)?;
                self.load_operands(held)
            }
            _ => self.load_operands(operands),
        }
    }

    pub(super) fn load_operands(&mut self, operands: &[VarId]) -> Flow<()> {
        for &operand in operands {
            if operand == self.cg.trace.null() {
                self.cg.emitter.push_null()?;
            } else {
                self.cg.load(operand)?;
            }
        }
        Ok(())
    }

    fn name_keywords(&mut self, frame: &Checkpoint, instruction: &Instruction) -> Flow<()> {
        match &frame.keyword_names {
            Some(names) if opcode::describe(instruction.opcode).native == Native::Call => {
                self.cg.emitter.keyword_names(self.cg.trace.py, names)
            }
            _ => Ok(()),
        }
    }

    /// Pops an item that the breaking instruction left into a new local.
    pub(super) fn left(&mut self) -> Flow<Item> {
        Ok(Item::Value(Value::Left(self.cg.emitter.store_new()?)))
    }

    /// Pops a callable, and adds its NULL.
    fn store_pair(&mut self, null_first: bool) -> Flow<Vec<Item>> {
        let callable = self.left()?;
        Ok(if null_first { vec![Item::Null, callable] } else { vec![callable, Item::Null] })
    }

    /// Pops this many items into locals. The deepest comes first in the result.
    pub(super) fn store_left(&mut self, count: usize) -> Flow<Vec<Item>> {
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(self.left()?);
        }
        items.reverse();
        Ok(items)
    }

    /// Updates the handled exception: `except*` replaces it by the part that it catches.
    pub(super) fn follow_handled(&mut self, stack: &mut [Item]) -> Flow<()> {
        let handled = resume::handled(self.cg.trace.py)?;
        self.cg.call_of(handled, [])?;
        let exception = Value::Left(self.cg.emitter.store_new()?);
        if let Some(item) = stack.iter_mut().rev().find(|item| matches!(item, Item::Handling(_))) {
            *item = Item::Handling(exception);
        }
        Ok(())
    }
}
