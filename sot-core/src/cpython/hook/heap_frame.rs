//! Frames of 3.8 to 3.10: heap objects with locals, cells and free variables in a row. An argument that is a cell has
//! been moved into its cell already. The called function is not known. Other code runs in a shadow frame.

use std::ptr::null_mut;

use pyo3::ffi;

use crate::cpython::hook::replace::Arguments;
use crate::cpython::layout::{call_eval, default_eval, is_unstarted, Code, Frame};

/// `CO_OPTIMIZED | CO_NEWLOCALS`: a function, not a module or class body.
const FUNCTION: i32 = ffi::CO_OPTIMIZED | ffi::CO_NEWLOCALS;

/// True if the frame belongs to a function about to run its first instruction. False for resumed generators.
///
/// # Safety
/// `frame` was passed to the hook.
#[inline]
pub(in crate::cpython) unsafe fn is_fresh(frame: *mut Frame) -> bool {
    // SAFETY: guaranteed by the caller; a frame's code is alive.
    unsafe { is_unstarted(frame) && (*frame).generator.is_null() && (*(*frame).code).flags & FUNCTION == FUNCTION }
}

/// The frame that called this one; null if there is none.
///
/// # Safety
/// `frame` runs.
#[inline]
pub(in crate::cpython) unsafe fn caller(frame: *mut Frame) -> *mut Frame {
    // SAFETY: guaranteed by the caller.
    unsafe { (*frame).back }
}

/// True if this is the frame of a frame object; on these versions the two are the same.
///
/// # Safety
/// `object` is a live frame object.
pub(in crate::cpython) unsafe fn is_frame_of(frame: *mut Frame, object: *mut ffi::PyObject) -> bool {
    frame == object.cast()
}

/// The slots of locals, cells and free variables of a frame.
///
/// # Safety
/// `frame` points to a frame.
unsafe fn slots(frame: *mut Frame) -> *mut *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller; only an address within the frame is made.
    unsafe { (&raw mut (*frame).localsplus).cast() }
}

/// Number of free variables.
///
/// # Safety
/// `code` is a live code object.
pub(in crate::cpython) unsafe fn free_count(code: *mut Code) -> usize {
    // SAFETY: guaranteed by the caller; the field is always a tuple.
    unsafe { ffi::PyTuple_GET_SIZE((*code).freevars) as usize }
}

/// Name of free variable `i`, borrowed from the code.
///
/// # Safety
/// `code` is a live code object and `i < free_count(code)`.
pub(in crate::cpython) unsafe fn free_name(code: *mut Code, i: usize) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller.
    unsafe { ffi::PyTuple_GET_ITEM((*code).freevars, i as isize) }
}

/// Number of cells.
///
/// # Safety
/// `code` is a live code object.
unsafe fn cell_count(code: *mut Code) -> usize {
    // SAFETY: guaranteed by the caller; the field is always a tuple.
    unsafe { ffi::PyTuple_GET_SIZE((*code).cellvars) as usize }
}

/// Index of the argument that cell `k` holds, if it holds one.
///
/// # Safety
/// `code` is a live code object and `k < cell_count(code)`.
unsafe fn argument_of_cell(code: *mut Code, k: usize) -> Option<usize> {
    // SAFETY: guaranteed by the caller; the table, if there is one, has an entry for each cell.
    unsafe {
        let table = (*code).cell2arg;
        if table.is_null() {
            return None;
        }
        usize::try_from(*table.add(k)).ok()
    }
}

/// Slot of the cell that holds argument `i`.
///
/// # Safety
/// `frame` is fresh.
unsafe fn cell_slot_of_argument(frame: *mut Frame, i: usize) -> Option<*mut *mut ffi::PyObject> {
    // SAFETY: guaranteed by the caller; a slot for each cell follows the locals.
    unsafe {
        let code = (*frame).code;
        (0..cell_count(code))
            .find(|&k| argument_of_cell(code, k) == Some(i))
            .map(|k| slots(frame).add((*code).nlocals as usize + k))
    }
}

/// Argument `i`, read from its cell if it has one. Borrowed; null if unbound.
///
/// # Safety
/// `frame` is fresh and `i` is less than the number of its arguments.
pub(in crate::cpython) unsafe fn argument(frame: *mut Frame, i: usize) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller; a slot that stands for a cell holds one.
    unsafe {
        let value = *slots(frame).add(i);
        if !value.is_null() {
            return value;
        }
        match cell_slot_of_argument(frame, i) {
            Some(slot) if !(*slot).is_null() => (*(*slot).cast::<ffi::PyCellObject>()).ob_ref,
            _ => null_mut(),
        }
    }
}

/// The cell of free variable `i`, borrowed.
///
/// # Safety
/// `frame` is fresh and `i < free_count(its code)`.
pub(in crate::cpython) unsafe fn closure_cell(frame: *mut Frame, i: usize) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller; free variables follow the cells and are set when the frame is made.
    unsafe {
        let code = (*frame).code;
        *slots(frame).add((*code).nlocals as usize + cell_count(code) + i)
    }
}

/// The frame's function, which is not known on these versions.
///
/// # Safety
/// None needed on these versions.
pub(in crate::cpython) unsafe fn function(_frame: *mut Frame) -> *mut ffi::PyFunctionObject {
    null_mut()
}

/// The arguments as a vector for a call.
///
/// # Safety
/// `frame` is fresh and has `n` arguments; it outlives the result.
pub(in crate::cpython) unsafe fn arguments(frame: *mut Frame, n: usize) -> Arguments {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if (*(*frame).code).cell2arg.is_null() {
            return Arguments::Slots(slots(frame));
        }
        Arguments::Gathered((0..n).map(|i| argument(frame, i)).collect())
    }
}

/// True if [`run_replaced`] can run `code` in place of the frame's own, which is always so on these versions.
///
/// # Safety
/// None needed on these versions.
pub(in crate::cpython) unsafe fn has_room(_ts: *mut ffi::PyThreadState, _frame: *mut Frame, _code: *mut Code) -> bool {
    true
}

/// Runs `code`, whose reference is taken over, in a new frame that takes over the variables of this one.
///
/// # Safety
/// `frame` is fresh. `code` is a code object of flat signature with as many arguments and the same free variables,
/// and no generator.
pub(in crate::cpython) unsafe fn run_replaced(
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
    code: *mut Code,
) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller; the new frame's slots are all null when it is made.
    unsafe {
        let shadow =
            ffi::PyFrame_New(ffi::PyThreadState_Get(), code.cast(), (*frame).globals, null_mut()).cast::<Frame>();
        ffi::Py_DECREF(code.cast());
        if shadow.is_null() {
            return null_mut();
        }
        share_builtins(frame, shadow);
        let result = if move_variables(frame, shadow) { call_eval(default_eval, ts, shadow, 0) } else { null_mut() };
        ffi::Py_DECREF(shadow.cast());
        result
    }
}

/// Gives the shadow frame the builtins of the frame. A function keeps the builtins it was created with (3.10).
///
/// # Safety
/// Both frames are alive.
unsafe fn share_builtins(frame: *mut Frame, shadow: *mut Frame) {
    // SAFETY: guaranteed by the caller; frames own their builtins, which are never null.
    unsafe {
        let (ours, made) = ((*frame).builtins, (*shadow).builtins);
        if ours != made {
            ffi::Py_INCREF(ours);
            (*shadow).builtins = ours;
            ffi::Py_DECREF(made);
        }
    }
}

/// Moves arguments, argument cells and free variables, and creates the other cells. Returns false with an exception
/// set if memory runs out.
///
/// # Safety
/// `frame` is fresh, and `shadow` is new. Their codes are as for [`run_replaced`].
unsafe fn move_variables(frame: *mut Frame, shadow: *mut Frame) -> bool {
    // SAFETY: guaranteed by the caller. Both frames have the slots that their codes declare. A reference leaves its old
    // slot null, which the deallocation of the old frame accepts.
    unsafe {
        let (old, new) = ((*frame).code, (*shadow).code);
        let (from, to) = (slots(frame), slots(shadow));
        for i in 0..(*new).argcount as usize {
            *to.add(i) = from.add(i).replace(null_mut());
        }
        let cells = to.add((*new).nlocals as usize);
        for k in 0..cell_count(new) {
            *cells.add(k) = match argument_of_cell(new, k) {
                Some(i) => argument_cell(frame, to.add(i), i),
                None => ffi::PyCell_New(null_mut()),
            };
            if (*cells.add(k)).is_null() {
                return false;
            }
        }
        unwrap_cells(frame, shadow);
        let frees = cells.add(cell_count(new));
        let own = from.add((*old).nlocals as usize + cell_count(old));
        for i in 0..free_count(new) {
            *frees.add(i) = own.add(i).replace(null_mut());
        }
        true
    }
}

/// Returns a cell for argument `i`: its present cell, or a new one that takes the value out of `local`. The reference
/// is owned.
///
/// # Safety
/// `frame` is fresh, and `local` is the slot of its argument `i` in the new frame, which owns the value.
unsafe fn argument_cell(frame: *mut Frame, local: *mut *mut ffi::PyObject, i: usize) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller; each reference that is moved leaves its slot null, so it has one owner.
    unsafe {
        if let Some(slot) = cell_slot_of_argument(frame, i) {
            if !(*slot).is_null() {
                return slot.replace(null_mut());
            }
        }
        let cell = ffi::PyCell_New(*local);
        if !cell.is_null() {
            ffi::Py_XDECREF(local.replace(null_mut()));
        }
        cell
    }
}

/// Moves arguments out of old cells that the new code does not have.
///
/// # Safety
/// As for [`move_variables`], which has moved the arguments and the cells that the new code has.
unsafe fn unwrap_cells(frame: *mut Frame, shadow: *mut Frame) {
    // SAFETY: guaranteed by the caller; a cell that was moved has left its slot null, and what is left is a cell.
    unsafe {
        let old = (*frame).code;
        for k in 0..cell_count(old) {
            let cell = *slots(frame).add((*old).nlocals as usize + k);
            if let (Some(i), false) = (argument_of_cell(old, k), cell.is_null()) {
                let value = (*cell.cast::<ffi::PyCellObject>()).ob_ref;
                ffi::Py_XINCREF(value);
                *slots(shadow).add(i) = value;
            }
        }
    }
}

/// Releases a frame that will not be run. Nothing to do, because the caller of the hook owns it.
///
/// # Safety
/// None needed on these versions.
pub(in crate::cpython) unsafe fn release(_ts: *mut ffi::PyThreadState, _frame: *mut Frame) {}

/// Inconsistency of the data stack, for the self test; these versions have no data stack.
///
/// # Safety
/// None needed on these versions.
pub(in crate::cpython) unsafe fn stack_problem(
    _ts: *mut ffi::PyThreadState,
    _frame: *mut Frame,
) -> Option<&'static str> {
    None
}
