//! Values that the instruction at a graph break needs in addition to its operands.

use std::rc::Rc;

use pyo3::types::PyCode;

use crate::bytecode::{Op, Opcodes};
use crate::cache;
use crate::emit;
use crate::error::{Flow, ReasonId, Unwind};
use crate::machine::executor::{object_model, BookkeepingVariable, BreakPoint, OpcodeExecutor};
use crate::machine::opcode::{self, AtBreak};
use crate::machine::variable::{Form, VarId};
use crate::resume::{layout, Item};

/// Values that the breaking instruction needs. They are determined before the trace has ended, because this may add
/// guards.
#[derive(Default)]
pub struct BreakDetails {
    /// Name of the empty cell that the instruction reads or deletes, if the cell is one of the function's own. In a
    /// resume function the cell is a free variable, for which CPython raises another error.
    pub(crate) empty_own_cell: Option<String>,
    /// The `__exit__` that the instruction calls, and its three arguments.
    pub(crate) exit: Option<(VarId, [VarId; 3])>,
    /// The entry that replaces `__exit__` on the stack, below the exception, in a `with` left by an exception (3.8).
    pub(crate) filler: Option<VarId>,
}

impl BreakDetails {
    pub(super) fn of(cx: &mut OpcodeExecutor<'_>, at: &BreakPoint) -> Flow<Self> {
        let mut details = BreakDetails::default();
        if at.is_between() {
            return Ok(details);
        }
        let frame = at.innermost();
        let instruction = frame.unit.code.instructions[frame.at.index()];
        match opcode::describe(instruction.opcode).at_break {
            AtBreak::ExitWith => details.exit = Some(exit_with_exception(cx, at)?),
            AtBreak::CleanUp => details.look_at_cleanup(cx, at)?,
            _ => details.empty_own_cell = empty_own_cell(cx, at)?,
        }
        Ok(details)
    }

    /// The arguments of `__exit__`.
    pub(super) fn values(&self) -> Vec<VarId> {
        self.exit.map(|(_, told)| told.to_vec()).unwrap_or_default()
    }

    /// In 3.8, `__exit__` lies on the stack below the entry that says how the cleanup was entered.
    fn look_at_cleanup(&mut self, cx: &mut OpcodeExecutor<'_>, at: &BreakPoint) -> Flow<()> {
        let frame = at.innermost();
        let stack = &frame.stack;
        let entry = stack.last().map(|&top| layout::item_of(&cx.trace, frame, top));
        let raised = !matches!(entry, Some(Item::NormalEntry | Item::ReturnTo(_)));
        let exit = stack.len().checked_sub(if raised { 7 } else { 2 });
        let exit = exit.ok_or_else(|| cannot("a `with` without its manager"))?;
        let mut told = [cx.trace.none(); 3];
        if raised {
            told.copy_from_slice(&stack[stack.len() - 3..]);
            told.reverse();
            self.filler = Some(cx.trace.produce(Rc::new(BookkeepingVariable::NormalEntry)));
        }
        self.exit = Some((stack[exit], told));
        Ok(())
    }
}

/// From 3.9 on, `__exit__` is called with the exception on top of the stack.
fn exit_with_exception(cx: &mut OpcodeExecutor<'_>, at: &BreakPoint) -> Flow<(VarId, [VarId; 3])> {
    let stack = &at.innermost().stack;
    let (exit, exception) = if emit::raised_width() == 1 { (4, 1) } else { (7, 2) };
    let (Some(exit), Some(exception)) = (stack.len().checked_sub(exit), stack.len().checked_sub(exception)) else {
        return Err(cannot("a `with` without its exception"));
    };
    let (exit, exception) = (stack[exit], stack[exception]);
    let class = object_model::type_variable(cx, exception)?;
    Ok((exit, [class, exception, cx.trace.traceback(exception)]))
}

fn empty_own_cell(cx: &mut OpcodeExecutor<'_>, at: &BreakPoint) -> Flow<Option<String>> {
    let frame = at.innermost();
    let instruction = frame.unit.code.instructions[frame.at.index()];
    let opcodes = Opcodes::get(cx.py);
    if ![Op::LOAD_DEREF, Op::DELETE_DEREF].into_iter().any(|op| opcodes.is(instruction.opcode, op)) {
        return Ok(None);
    }
    let code = frame.unit.object.bind(cx.py).cast::<PyCode>().ok();
    let own = code.and_then(cache::own_cells_of).unwrap_or(0);
    let index = frame.unit.code.cell_index(instruction.arg).filter(|index| *index < own);
    let Some((index, &cell)) = index.and_then(|index| Some((index, frame.cells.get(index)?))) else {
        return Ok(None);
    };
    let cell = cx.see(cell)?;
    let is_empty = cell.form() == Form::Cell && cell.children().is_empty();
    Ok(frame.unit.code.freevars.get(index).filter(|_| is_empty).cloned())
}

fn cannot(why: &str) -> Unwind {
    Unwind::fallback(ReasonId::CannotRestore, why)
}
