//! State attached to a code object (`co_extra`). It is found by one load, and dies with the code object. Its holders
//! are counted under the GIL, so that state removed while in use stays until its last user is done.

use std::any::TypeId;
use std::cell::Cell;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::{null_mut, NonNull};
use std::sync::atomic::{AtomicIsize, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCode;

use crate::cpython::hook::idle::IdleCode;
use crate::cpython::layout::Code;

/// State that can be attached to a code object.
pub trait CodeState: Send + Sync + 'static {
    /// True if frames of the code are left to CPython without asking the evaluator.
    fn leaves_alone(&self) -> bool {
        false
    }
}

impl CodeState for () {}

/// Returns the state of a code object, if it has state of type `T`.
#[inline]
pub fn code_state<'py, T: Send + Sync + 'static>(code: &Bound<'py, PyCode>) -> Option<StateRef<'py, T>> {
    // SAFETY: a code object has the layout of one, and the GIL is held.
    let entry = unsafe { read(code.as_ptr().cast())? };
    // SAFETY: the value under our index is an entry, which is alive while the code object refers to it.
    unsafe { StateRef::share(entry) }
}

/// Attaches state to a code object. Its earlier state is dropped.
pub fn set_code_state<'py, T: CodeState>(code: &Bound<'py, PyCode>, state: T) -> PyResult<StateRef<'py, T>> {
    let index = index(code.py())?;
    let entry = Box::into_raw(Box::new(StateEntry {
        head: CodeStateHeader {
            holders: Cell::new(2),
            kind: TypeId::of::<T>(),
            destroy: destroy::<T>,
            leaves_alone: leaves_alone::<T>,
            idle: IdleCode::default(),
        },
        state,
    }));
    let old = CodeStateShare::of(code);
    // SAFETY: one of the two references counted above is the code object's, the other the result's.
    unsafe {
        if ffi::PyUnstable_Code_SetExtra(code.as_ptr(), index, entry.cast()) < 0 {
            drop(Box::from_raw(entry));
            return Err(PyErr::fetch(code.py()));
        }
        drop(old);
        Ok(StateRef { entry: NonNull::new_unchecked(entry), token: PhantomData })
    }
}

/// Removes the state of a code object.
pub fn remove_code_state(code: &Bound<'_, PyCode>) -> PyResult<()> {
    let index = INDEX.load(Ordering::Relaxed);
    let Some(_old) = CodeStateShare::of(code) else { return Ok(()) };
    // SAFETY: the index is ours. CPython calls `release` with the old entry.
    if unsafe { ffi::PyUnstable_Code_SetExtra(code.as_ptr(), index, null_mut()) } < 0 {
        return Err(PyErr::fetch(code.py()));
    }
    Ok(())
}

/// A shared reference to the state of a code object.
pub struct StateRef<'py, T: 'static> {
    entry: NonNull<StateEntry<T>>,
    token: PhantomData<Python<'py>>,
}

impl<T> StateRef<'_, T> {
    /// Shares an entry if it holds a `T`.
    ///
    /// # Safety
    /// `entry` is alive and the GIL is held for as long as the result lives.
    #[inline]
    unsafe fn share(entry: NonNull<CodeStateHeader>) -> Option<Self> {
        // SAFETY: guaranteed by the caller; an entry of this kind is a `StateEntry<T>`.
        unsafe {
            let head = entry.as_ref();
            if head.kind != TypeId::of::<T>() {
                return None;
            }
            head.holders.set(head.holders.get() + 1);
            Some(StateRef { entry: entry.cast(), token: PhantomData })
        }
    }
}

impl<T> Deref for StateRef<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: a share keeps the entry alive.
        unsafe { &self.entry.as_ref().state }
    }
}

impl<T> Clone for StateRef<'_, T> {
    fn clone(&self) -> Self {
        // SAFETY: a share keeps the entry alive, and is bound to the GIL.
        unsafe {
            let holders = &self.entry.as_ref().head.holders;
            holders.set(holders.get() + 1);
        }
        StateRef { entry: self.entry, token: PhantomData }
    }
}

impl<T> Drop for StateRef<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this share is counted, and is bound to the GIL.
        unsafe { give_back(self.entry.cast()) };
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for StateRef<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

/// `_PyCodeObjectExtra`: the target of a code object's extra field.
#[repr(C)]
pub(in crate::cpython) struct ExtraTable {
    size: isize,
    entries: [*mut c_void; 1],
}

pub(in crate::cpython) struct CodeStateHeader {
    holders: Cell<usize>,
    kind: TypeId,
    destroy: unsafe fn(NonNull<CodeStateHeader>),
    leaves_alone: unsafe fn(NonNull<CodeStateHeader>) -> bool,
    /// Knowledge about the frames that frames of the code call.
    pub(in crate::cpython) idle: IdleCode,
}

impl CodeStateHeader {
    /// True if frames of the code are left to CPython.
    #[inline]
    pub(in crate::cpython) fn leaves_alone(&self) -> bool {
        // SAFETY: a head is the beginning of the entry that its functions are for.
        unsafe { (self.leaves_alone)(NonNull::from(self)) }
    }

    /// Keeps the entry alive until [`give_back`].
    #[inline]
    pub(in crate::cpython) fn hold(&self) {
        self.holders.set(self.holders.get() + 1);
    }
}

#[repr(C)]
struct StateEntry<T> {
    head: CodeStateHeader,
    state: T,
}

/// A share in the state of a code object, of any type. CPython frees an entry before it overwrites the pointer to it,
/// so the entry has to outlive that moment.
struct CodeStateShare<'py> {
    entry: NonNull<CodeStateHeader>,
    token: PhantomData<Python<'py>>,
}

impl<'py> CodeStateShare<'py> {
    fn of(code: &Bound<'py, PyCode>) -> Option<Self> {
        // SAFETY: a code object has the layout of one, and the GIL is held.
        let entry = unsafe { read(code.as_ptr().cast())? };
        // SAFETY: the entry is alive while the code object refers to it.
        let holders = unsafe { &entry.as_ref().holders };
        holders.set(holders.get() + 1);
        Some(CodeStateShare { entry, token: PhantomData })
    }
}

impl Drop for CodeStateShare<'_> {
    fn drop(&mut self) {
        // SAFETY: this share is counted, and is bound to the GIL.
        unsafe { give_back(self.entry) };
    }
}

/// Frees an entry of `T`.
///
/// # Safety
/// `entry` is a `StateEntry<T>` that nobody holds any more.
unsafe fn destroy<T>(entry: NonNull<CodeStateHeader>) {
    // SAFETY: guaranteed by the caller; entries are made by `Box`.
    drop(unsafe { Box::from_raw(entry.cast::<StateEntry<T>>().as_ptr()) });
}

/// Returns `leaves_alone()` of the state.
///
/// # Safety
/// `entry` is a live `StateEntry<T>`.
unsafe fn leaves_alone<T: CodeState>(entry: NonNull<CodeStateHeader>) -> bool {
    // SAFETY: guaranteed by the caller.
    unsafe { entry.cast::<StateEntry<T>>().as_ref().state.leaves_alone() }
}

/// Releases one share.
///
/// # Safety
/// The share is counted, and the GIL is held.
#[inline]
pub(in crate::cpython) unsafe fn give_back(entry: NonNull<CodeStateHeader>) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let head = entry.as_ref();
        let left = head.holders.get() - 1;
        head.holders.set(left);
        if left == 0 {
            (head.destroy)(entry);
        }
    }
}

/// Index of our entry in the tables. It is requested once in a process, and never given back.
static INDEX: AtomicIsize = AtomicIsize::new(-1);

fn index(_py: Python<'_>) -> PyResult<isize> {
    let known = INDEX.load(Ordering::Relaxed);
    if known >= 0 {
        return Ok(known);
    }
    // SAFETY: the token says the GIL is held.
    let fresh = unsafe { ffi::PyUnstable_Eval_RequestCodeExtraIndex(release) };
    if fresh < 0 {
        return Err(PyRuntimeError::new_err("CPython has no index left for state of code objects"));
    }
    INDEX.store(fresh, Ordering::Relaxed);
    Ok(fresh)
}

/// Reads the entry of a code object from its table.
///
/// # Safety
/// `code` is a live code object and the GIL is held.
#[inline]
pub(in crate::cpython) unsafe fn read(code: *mut Code) -> Option<NonNull<CodeStateHeader>> {
    let index = INDEX.load(Ordering::Relaxed);
    // SAFETY: guaranteed by the caller; a table has as many entries as its size says.
    unsafe {
        let table = (*code).extra;
        if table.is_null() || index < 0 || (*table).size <= index {
            return None;
        }
        let entries = (&raw const (*table).entries).cast::<*mut c_void>();
        NonNull::new(*entries.add(index as usize)).map(NonNull::cast)
    }
}

/// True if the table read here agrees with CPython's API, for the self test.
pub(in crate::cpython) fn agrees_with_api(code: &Bound<'_, PyCode>) -> PyResult<bool> {
    let index = index(code.py())?;
    let mut entry: *mut c_void = null_mut();
    // SAFETY: a code object has the layout of one, and the GIL is held.
    unsafe {
        if ffi::PyUnstable_Code_GetExtra(code.as_ptr(), index, &raw mut entry) < 0 {
            return Err(PyErr::fetch(code.py()));
        }
        Ok(read(code.as_ptr().cast()).map_or(null_mut(), NonNull::as_ptr) == entry.cast())
    }
}

/// Free function for CPython. It is called when a code object dies (with null, if the table has entries of others
/// only), and when the entry is overwritten.
///
/// # Safety
/// CPython calls it, with the entry that was set under our index, or null.
unsafe extern "C" fn release(entry: *mut c_void) {
    let Some(entry) = NonNull::new(entry.cast::<CodeStateHeader>()) else { return };
    let given_back = catch_unwind(AssertUnwindSafe(|| {
        // Attached, so that references in the state are dropped now. An interpreter that is shutting down refuses to
        // attach.
        // SAFETY: the code object's share is counted, and CPython holds the GIL here.
        let drop_share = || unsafe { give_back(entry) };
        if Python::try_attach(|_| drop_share()).is_none() {
            drop_share();
        }
    }));
    if let Err(payload) = given_back {
        crate::cpython::hook::note_panic(&*payload);
    }
}
