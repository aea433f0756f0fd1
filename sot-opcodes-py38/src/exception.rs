//! `raise`, `try`, `except` and `finally` with blocks. In 3.8 a `finally` body is entered with NULL, a return address
//! or an exception on the stack; 3.9 and 3.10 have a copy of the body for each case.

use std::rc::Rc;

use pyo3::exceptions::PyAssertionError;
use sot_core::error::Flow;
use sot_core::executor::{traceback, unwinding, BookkeepingVariable, OpcodeExecutor, Trace};
use sot_core::opcode;
use sot_core::opcode::{AtBreak, BranchTest, Movement, Next, Operand, Quiet};
use sot_core::variable::VarId;

use crate::bug;
use crate::jump::jump_when;

opcode! {
    RAISE_VARARGS [3.8..3.14] ([items] -- )
        .at_break(AtBreak::Raise).quiet(Quiet::Argument(|items| items == 0))
        => |cx, _| raise(cx, &items)
}
opcode! { LOAD_ASSERTION_ERROR [3.9..3.14] ( -- class) => |cx, _| Ok(assertion_error(cx)) }

opcode! {
    SETUP_FINALLY [3.8..3.11] ( -- )
        .moves(Movement::BeginBlock).quiet(Quiet::Always)
        => |cx, op| op.jump().map(|handler| cx.stack.push_block(handler))
}
opcode! {
    POP_BLOCK [3.8..3.11] ( -- )
        .moves(Movement::EndBlock).quiet(Quiet::Always)
        => |cx, _| cx.stack.pop_block().map(|_| ())
}
opcode! {
    POP_EXCEPT [3.8..3.11] (..)
        .moves(Movement::EndHandling).quiet(Quiet::Always)
        => |cx, _| cx.stack.leave_handler().map(|()| Next::Continue)
}
opcode! {
    JUMP_IF_NOT_EXC_MATCH [3.9..3.11] (class, pattern -- )
        .branch(BranchTest::NoMatch).quiet(Quiet::Always)
        => |cx, op| { let matches = unwinding::exception_class_matches(cx, class, pattern)?; jump_when(op, !matches) }
}
opcode! {
    RERAISE [3.9..3.11] (traceback, exception, _class -- )
        .at_break(AtBreak::RaiseAgain).quiet(Quiet::Always)
        => |cx, _| Flow::<()>::Err(traceback::raise_again(cx, exception, traceback)?)
}

opcode! { BEGIN_FINALLY [3.8..3.9] (..) .moves(Movement::Counted { next: 1, jump: 1 }).quiet(Quiet::Always) => |cx, _| {
    let normal_entry = cx.trace.produce(Rc::new(BookkeepingVariable::NormalEntry));
    cx.stack.push(normal_entry);
    Ok(Next::Continue)
} }
opcode! {
    CALL_FINALLY [3.8..3.9] (..)
        .moves(Movement::Counted { next: 0, jump: 1 }).quiet(Quiet::Always)
        => |cx, op| call_finally(cx, op)
}
opcode! {
    END_FINALLY [3.8..3.9] (..)
        .at_break(AtBreak::RaiseAgain).needs_frame().moves(Movement::Counted { next: -1, jump: -1 })
        .quiet(Quiet::Always)
        => |cx, _| end_finally(cx)
}
opcode! {
    POP_FINALLY [3.8..3.9] (..)
        .moves(Movement::Counted { next: -1, jump: -1 }).quiet(Quiet::Always)
        => |cx, op| pop_finally(cx, op.arg)
}

fn raise(cx: &mut OpcodeExecutor<'_>, items: &[VarId]) -> Flow<()> {
    Err(match *items {
        [] => unwinding::reraise(cx),
        [exception] => unwinding::raise_value(cx, exception, None),
        [exception, cause] => unwinding::raise_value(cx, exception, Some(cause)),
        _ => bug("a raise of more than two items"),
    })
}

/// The class that an `assert` raises, whatever the name `AssertionError` is bound to.
fn assertion_error(cx: &mut OpcodeExecutor<'_>) -> VarId {
    let class = cx.py.get_type::<PyAssertionError>().into_any();
    let tracker = cx.trace.trackers.constant(class.clone().unbind());
    cx.trace.wrap(&class, tracker)
}

/// How a `finally` body of 3.8 was entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FinallyEntry {
    /// From the `try` body, without exception.
    Normal,
    /// By `CALL_FINALLY`; the body returns to the label.
    Called(sot_core::bytecode::Label),
    /// By an exception, whose three items are on the stack.
    Raised,
}

/// Tells by the item on top of the stack how the `finally` body was entered.
pub(crate) fn entry_of(trace: &Trace<'_>, top: VarId) -> FinallyEntry {
    match trace.vars.as_kind::<BookkeepingVariable>(top).as_deref() {
        Some(BookkeepingVariable::ReturnAddress(label)) => FinallyEntry::Called(*label),
        Some(BookkeepingVariable::NormalEntry) => FinallyEntry::Normal,
        _ => FinallyEntry::Raised,
    }
}

fn call_finally(cx: &mut OpcodeExecutor<'_>, op: &Operand) -> Flow<Next> {
    let after = cx.stack.frame().pc;
    let address = cx.trace.produce(Rc::new(BookkeepingVariable::ReturnAddress(after)));
    cx.stack.push(address);
    op.jump().map(Next::Jump)
}

fn end_finally(cx: &mut OpcodeExecutor<'_>) -> Flow<Next> {
    let top = cx.stack.pop()?;
    match entry_of(&cx.trace, top) {
        FinallyEntry::Normal => Ok(Next::Continue),
        FinallyEntry::Called(label) => Ok(Next::Jump(label)),
        FinallyEntry::Raised => {
            let [traceback, exception] = cx.stack.pop_array()?;
            Err(traceback::raise_again(cx, exception, traceback)?)
        }
    }
}

/// Leaves a `finally` body by a jump or a return, dropping an exception that led there.
fn pop_finally(cx: &mut OpcodeExecutor<'_>, has_result: u32) -> Flow<Next> {
    let result = if has_result != 0 { Some(cx.stack.pop()?) } else { None };
    let top = cx.stack.pop()?;
    if entry_of(&cx.trace, top) == FinallyEntry::Raised {
        let [_traceback, _exception] = cx.stack.pop_array()?;
        cx.stack.leave_handler()?;
    }
    if let Some(result) = result {
        cx.stack.push(result);
    }
    Ok(Next::Continue)
}
