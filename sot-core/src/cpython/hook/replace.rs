//! Runs another code object in place of a frame's own: in the frame itself (3.11+), or in a shadow frame (up to
//! 3.10). Where that is not possible, it runs through a function created for the call. That last way is also the
//! reference that the others are tested against.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use pyo3::ffi;

use crate::cpython::hook::frames;
use crate::cpython::hook::fresh_frame::total_args;
use crate::cpython::hook::{run, times, Mode, Tally, Thread, TALLY};
use crate::cpython::layout::{Code, Frame};
use crate::cpython::objects::callable::vectorcall;

/// Makes every replacement use a function call: slower, and the reference for differential tests.
pub fn use_reference_method(on: bool) {
    set_unusual(REFERENCE, on);
}

/// Switches timing of replaced frames on or off.
pub(super) fn set_timed(on: bool) {
    set_unusual(TIMED, on);
}

fn set_unusual(bit: u8, on: bool) {
    if on {
        UNUSUAL.fetch_or(bit, Ordering::Relaxed);
    } else {
        UNUSUAL.fetch_and(!bit, Ordering::Relaxed);
    }
}

/// Extra options of replacements. They are tested together, because each call pays for the test.
static UNUSUAL: AtomicU8 = AtomicU8::new(0);
/// Every replacement uses a function call.
const REFERENCE: u8 = 1;
/// The time of each call is noted.
const TIMED: u8 = 2;

/// Arguments of a frame as a vector.
pub(in crate::cpython) enum Arguments {
    /// The slots of the frame, which have the arguments in order.
    Slots(*const *mut ffi::PyObject),
    /// A vector collected from the frame.
    #[cfg_attr(Py_3_11, allow(dead_code, reason = "arguments are cells of their own only to 3.10"))]
    Gathered(Vec<*mut ffi::PyObject>),
}

impl Arguments {
    fn as_ptr(&self) -> *const *mut ffi::PyObject {
        match self {
            Arguments::Slots(slots) => *slots,
            Arguments::Gathered(values) => values.as_ptr(),
        }
    }
}

const GENERATORS: i32 = ffi::CO_GENERATOR | ffi::CO_COROUTINE | ffi::CO_ASYNC_GENERATOR;

/// Runs `code` in place of the frame's own. If the code does not fit, this is counted and the frame runs its own.
///
/// # Safety
/// `frame` is fresh, of this thread, and was passed to the hook; `code` is an owned reference.
pub(in crate::cpython) unsafe fn replace(
    thread: &Thread,
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
    code: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller. `fits` reads the new code's fields only if it is a code object.
    unsafe {
        let own = (*frame).code;
        let new = code.cast::<Code>();
        if !fits(own, new) {
            ffi::Py_DECREF(code);
            Tally::bump(&TALLY.rejected);
            return run(ts, frame, 0);
        }
        let plain = ((*own).flags | (*new).flags) & GENERATORS == 0;
        if plain && UNUSUAL.load(Ordering::Relaxed) == 0 {
            return natively_or_called(thread, ts, frame, new);
        }
        unusually(thread, ts, frame, new, plain)
    }
}

/// Runs the code in the frame or in a shadow frame if possible, else by a call.
///
/// # Safety
/// As for [`replace`]. `new` fits the frame's own code.
#[inline]
unsafe fn natively_or_called(
    thread: &Thread,
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
    new: *mut Code,
) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if same_free_variables((*frame).code, new) && frames::has_room(ts, frame, new) {
            Tally::bump(&TALLY.native);
            return frames::run_replaced(ts, frame, new);
        }
        call(thread, ts, frame, new)
    }
}

/// Runs the code of a generator, or code with one of the extra options on.
///
/// # Safety
/// As for [`replace`]. `new` fits the frame's own code, and is no generator if `plain`.
#[cold]
unsafe fn unusually(
    thread: &Thread,
    ts: *mut ffi::PyThreadState,
    frame: *mut Frame,
    new: *mut Code,
    plain: bool,
) -> *mut ffi::PyObject {
    let asked = UNUSUAL.load(Ordering::Relaxed);
    let begun = (asked & TIMED != 0 && plain).then(Instant::now);
    // SAFETY: guaranteed by the caller. No value with a destructor is kept meanwhile.
    let result = unsafe {
        if plain && asked & REFERENCE == 0 {
            natively_or_called(thread, ts, frame, new)
        } else {
            call(thread, ts, frame, new)
        }
    };
    if let Some(begun) = begun {
        times::note_call(new as usize, begun.elapsed());
    }
    result
}

/// True if `new` takes the arguments of `own`, all of them positionally.
///
/// # Safety
/// `own` is a live code object, and `new` a live object.
unsafe fn fits(own: *mut Code, new: *mut Code) -> bool {
    const STARRED: i32 = ffi::CO_VARARGS | ffi::CO_VARKEYWORDS;
    const FUNCTION: i32 = ffi::CO_OPTIMIZED | ffi::CO_NEWLOCALS;
    // SAFETY: guaranteed by the caller; the type is checked before fields are read.
    unsafe {
        ffi::PyCode_Check(new.cast()) != 0
            && (*new).flags & (STARRED | FUNCTION) == FUNCTION
            && (*new).kwonlyargcount == 0
            && (*new).argcount as usize == total_args(own)
            && (*new).nlocals >= (*new).argcount
    }
}

/// True if both codes have free variables of the same names in the same order.
///
/// # Safety
/// Both are live code objects.
unsafe fn same_free_variables(own: *mut Code, new: *mut Code) -> bool {
    // SAFETY: guaranteed by the caller; both have a name at each index below their equal counts.
    unsafe {
        let n = frames::free_count(own);
        n == frames::free_count(new) && (0..n).all(|i| same_name(frames::free_name(own, i), frames::free_name(new, i)))
    }
}

/// True if two names are equal.
///
/// # Safety
/// Both are live strings.
unsafe fn same_name(a: *mut ffi::PyObject, b: *mut ffi::PyObject) -> bool {
    // SAFETY: guaranteed by the caller; comparing strings runs no code of the program.
    a == b || unsafe { ffi::PyUnicode_Compare(a, b) } == 0
}

/// Calls a function created from `code` (an owned reference) with the frame's arguments, and releases the frame.
///
/// # Safety
/// As for [`replace`]. `code` fits the frame's own code.
unsafe fn call(thread: &Thread, ts: *mut ffi::PyThreadState, frame: *mut Frame, code: *mut Code) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let function = match make_function(frame, code) {
            BoundFunction::Function(function) => function,
            BoundFunction::Unbound => {
                ffi::Py_DECREF(code.cast());
                Tally::bump(&TALLY.rejected);
                return run(ts, frame, 0);
            }
            BoundFunction::Failed => {
                ffi::Py_DECREF(code.cast());
                frames::release(ts, frame);
                return null_mut();
            }
        };
        Tally::bump(&TALLY.called);
        // If the thread is active, its hook sees this call again, with this code, and then has to run it unchanged.
        let seen = thread.mode.get() != Mode::Suspended;
        let outer = thread.direct.replace(if seen { code } else { null_mut() });
        let result = call_with_arguments(function, frame, (*code).argcount as usize);
        thread.direct.set(outer);
        ffi::Py_DECREF(code.cast());
        ffi::Py_DECREF(function);
        frames::release(ts, frame);
        result
    }
}

/// Calls a function with the arguments of a frame.
///
/// # Safety
/// `function` is a live function, and `frame` is fresh and has `n` arguments.
unsafe fn call_with_arguments(function: *mut ffi::PyObject, frame: *mut Frame, n: usize) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller; the frame owns its arguments during the call.
    unsafe {
        let arguments = frames::arguments(frame, n);
        vectorcall(function, arguments.as_ptr(), n)
    }
}

enum BoundFunction {
    /// An owned reference.
    Function(*mut ffi::PyObject),
    /// The code has a free variable that the frame does not have.
    Unbound,
    /// Python raised.
    Failed,
}

/// Creates a function of `code` with the frame's globals and closure, and with the names of the frame's function.
///
/// # Safety
/// `frame` is fresh, and `code` is a live code object.
unsafe fn make_function(frame: *mut Frame, code: *mut Code) -> BoundFunction {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let closure = match make_closure(frame, code) {
            Ok(closure) => closure,
            Err(made) => return made,
        };
        let function = ffi::PyFunction_New(code.cast(), (*frame).globals);
        if function.is_null() {
            ffi::Py_XDECREF(closure);
            return BoundFunction::Failed;
        }
        // The field is null in a new function, and takes over the reference.
        (*function.cast::<ffi::PyFunctionObject>()).func_closure = closure;
        copy_names(frames::function(frame), function.cast());
        BoundFunction::Function(function)
    }
}

/// Copies the names, because generators and coroutines show the name of the function that created them.
///
/// # Safety
/// `from` is a live function or null, and `to` is a live function.
unsafe fn copy_names(from: *mut ffi::PyFunctionObject, to: *mut ffi::PyFunctionObject) {
    if from.is_null() {
        return;
    }
    // SAFETY: guaranteed by the caller; functions own their names, and a replaced name is released once.
    unsafe {
        for (name, made) in
            [((*from).func_name, &raw mut (*to).func_name), ((*from).func_qualname, &raw mut (*to).func_qualname)]
        {
            ffi::Py_XINCREF(name);
            ffi::Py_XDECREF(made.replace(name));
        }
    }
}

/// Creates a closure tuple for `code` from the frame's free variables, found by name. Null if it needs none.
///
/// # Safety
/// `frame` is fresh, and `code` is a live code object.
unsafe fn make_closure(frame: *mut Frame, code: *mut Code) -> Result<*mut ffi::PyObject, BoundFunction> {
    // SAFETY: guaranteed by the caller; a new tuple's items are null until set, each once.
    unsafe {
        let n = frames::free_count(code);
        if n == 0 {
            return Ok(null_mut());
        }
        let closure = ffi::PyTuple_New(n as isize);
        if closure.is_null() {
            return Err(BoundFunction::Failed);
        }
        for i in 0..n {
            let Some(cell) = find_cell(frame, frames::free_name(code, i)) else {
                ffi::Py_DECREF(closure);
                return Err(BoundFunction::Unbound);
            };
            ffi::Py_INCREF(cell);
            ffi::PyTuple_SET_ITEM(closure, i as isize, cell);
        }
        Ok(closure)
    }
}

/// The cell of the frame's free variable with this name, borrowed.
///
/// # Safety
/// `frame` is fresh, and `name` is a live string.
unsafe fn find_cell(frame: *mut Frame, name: *mut ffi::PyObject) -> Option<*mut ffi::PyObject> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let own = (*frame).code;
        let i = (0..frames::free_count(own)).find(|&i| same_name(frames::free_name(own, i), name))?;
        let cell = frames::closure_cell(frame, i);
        (!cell.is_null()).then_some(cell)
    }
}
