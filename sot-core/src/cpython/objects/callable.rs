//! Rust closures as Python callables without an argument tuple, and calls with a vector of arguments.

use std::ffi::{c_void, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::{null_mut, NonNull};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
#[cfg(not(Py_3_9))]
use pyo3::types::PyDict;
use pyo3::types::{PyString, PyTuple};

use crate::cpython::hook::chain;
use crate::cpython::hook::panic_text;
use crate::cpython::hook::session::attached;
use crate::cpython::layout::{Code, Frame};

/// Creates a Python callable that runs `f` with its positional arguments. It takes no keywords. A panic becomes a
/// `RuntimeError`.
///
/// The garbage collector does not see what `f` holds: if that refers back to the callable, the cycle is never freed.
pub fn fastcall<'py, F>(py: Python<'py>, name: &str, doc: &str, f: F) -> PyResult<Bound<'py, PyAny>>
where
    F: for<'b> Fn(Python<'b>, &[Bound<'b, PyAny>]) -> PyResult<Py<PyAny>> + Send + Sync + 'static,
{
    make(py, name, doc, BorrowsArguments(f))
}

/// Creates a callable that owns its arguments, so that the calling bytecode keeps none of them alive. Only new code
/// may call it, because the arguments are taken from the caller's value stack.
pub fn fastcall_taking<'py, F>(py: Python<'py>, name: &str, doc: &str, f: F) -> PyResult<Bound<'py, PyAny>>
where
    F: for<'b> Fn(Python<'b>, Vec<Bound<'b, PyAny>>) -> PyResult<Py<PyAny>> + Send + Sync + 'static,
{
    make(py, name, doc, TakesArguments(f))
}

/// True if the callable was made by `fastcall` or `fastcall_taking`.
pub(in crate::cpython) fn is_fastcall(callable: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a live object. Its `self` is read only if it is a C function, and may be null.
    unsafe {
        let is_function = ffi::PyCFunction_Check(callable.as_ptr()) != 0;
        is_function && ffi::PyCapsule_IsValid(ffi::PyCFunction_GetSelf(callable.as_ptr()), TARGET.as_ptr()) != 0
    }
}

/// Body of a callable.
trait NativeFunction: Send + Sync + 'static {
    /// # Safety
    /// As many live arguments as `count` says, in a vector that the caller reads again to drop them.
    unsafe fn run(&self, py: Python<'_>, args: *mut *mut ffi::PyObject, count: usize) -> PyResult<Py<PyAny>>;
}

struct BorrowsArguments<F>(F);

impl<F> NativeFunction for BorrowsArguments<F>
where
    F: for<'b> Fn(Python<'b>, &[Bound<'b, PyAny>]) -> PyResult<Py<PyAny>> + Send + Sync + 'static,
{
    unsafe fn run(&self, py: Python<'_>, args: *mut *mut ffi::PyObject, count: usize) -> PyResult<Py<PyAny>> {
        let first = NonNull::new(args).unwrap_or_else(NonNull::dangling);
        // SAFETY: the arguments live as long as the call, and a shared `Bound` is a pointer that is not null and is not
        // dropped.
        let args = unsafe { std::slice::from_raw_parts(first.as_ptr().cast::<Bound<'_, PyAny>>(), count) };
        (self.0)(py, args)
    }
}

struct TakesArguments<F>(F);

impl<F> NativeFunction for TakesArguments<F>
where
    F: for<'b> Fn(Python<'b>, Vec<Bound<'b, PyAny>>) -> PyResult<Py<PyAny>> + Send + Sync + 'static,
{
    unsafe fn run(&self, py: Python<'_>, args: *mut *mut ffi::PyObject, count: usize) -> PyResult<Py<PyAny>> {
        // SAFETY: the places are on the caller's value stack. Each is given another object, so the old reference is
        // owned.
        let take = |place: usize| unsafe { Bound::from_owned_ptr(py, args.add(place).replace(py.None().into_ptr())) };
        (self.0)(py, (0..count).map(take).collect())
    }
}

/// Calls a function in place of the calling Python code, whose frame is taken out of the chain of frames meanwhile
/// (see `cpython::hook::chain`). If the hook sees the function's frame, only that frame owns the arguments while it
/// runs.
pub fn call_giving<'py>(function: &Bound<'py, PyAny>, args: Vec<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the calling frame waits.
    unsafe { call_with_owned(function, args, chain::step_back(function.py())) }
}

/// Calls a function. If the hook sees the function's frame, only that frame owns the arguments while it runs.
pub fn call_giving_arguments<'py>(
    function: &Bound<'py, PyAny>,
    args: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: no frame is taken out of the chain.
    unsafe { call_with_owned(function, args, null_mut()) }
}

/// Calls a function whose frame takes over the arguments.
///
/// # Safety
/// `waiting` is the frame that this call has taken out of the chain, or null.
unsafe fn call_with_owned<'py>(
    function: &Bound<'py, PyAny>,
    args: Vec<Bound<'py, PyAny>>,
    waiting: *mut Frame,
) -> PyResult<Bound<'py, PyAny>> {
    let mut args: Vec<*mut ffi::PyObject> = args.into_iter().map(Bound::into_ptr).collect();
    // SAFETY: a live function and live arguments. Arguments still given away are taken back before the vector is
    // dropped.
    unsafe {
        let code = ffi::PyFunction_GetCode(function.as_ptr()).cast();
        let mut given = FrameArguments { code, args: args.as_mut_ptr(), count: args.len(), waiting };
        let outer = crate::cpython::hook::give(&raw mut given);
        let result = vectorcall(function.as_ptr(), args.as_ptr(), args.len());
        chain::go_back(waiting);
        crate::cpython::hook::give(outer);
        given.drop_all();
        Bound::from_owned_ptr_or_err(function.py(), result)
    }
}

/// Arguments given to the next frame of a code object.
pub(in crate::cpython) struct FrameArguments {
    pub(in crate::cpython) code: *mut Code,
    args: *mut *mut ffi::PyObject,
    count: usize,
    /// The frame taken out of the chain, or null.
    pub(in crate::cpython) waiting: *mut Frame,
}

impl FrameArguments {
    /// Drops the remaining arguments.
    ///
    /// # Safety
    /// The arguments are owned, and the GIL is held.
    pub(in crate::cpython) unsafe fn drop_all(&mut self) {
        for place in 0..std::mem::take(&mut self.count) {
            // SAFETY: guaranteed by the caller.
            unsafe { ffi::Py_DECREF(*self.args.add(place)) };
        }
    }
}

fn make<'py, F: NativeFunction>(py: Python<'py>, name: &str, doc: &str, f: F) -> PyResult<Bound<'py, PyAny>> {
    let no_nul = |_| PyValueError::new_err("a name or doc string contains a NUL character");
    let name = CString::new(name).map_err(no_nul)?;
    let doc = CString::new(doc).map_err(no_nul)?;
    let definition = ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFast: call::<F> },
        ml_flags: ffi::METH_FASTCALL,
        ml_doc: doc.as_ptr(),
    };
    let target = Box::into_raw(Box::new(NativeCallable { definition, function: f, _name: name, _doc: doc }));
    // SAFETY: the capsule takes over the target and frees it. The function object keeps the capsule alive, and does
    // not read its definition after releasing the capsule.
    unsafe {
        let capsule = ffi::PyCapsule_New(target.cast(), TARGET.as_ptr(), Some(free::<F>));
        let Some(capsule) = Bound::from_owned_ptr_or_opt(py, capsule) else {
            drop(Box::from_raw(target));
            return Err(PyErr::fetch(py));
        };
        let function = ffi::PyCFunction_NewEx(&raw mut (*target).definition, capsule.as_ptr(), null_mut());
        Bound::from_owned_ptr_or_err(py, function)
    }
}

/// Calls with positional arguments, given as references.
#[inline]
pub fn call_with_vector<'py>(callable: &Bound<'py, PyAny>, args: &[&Bound<'py, PyAny>]) -> PyResult<Bound<'py, PyAny>> {
    const INLINE: usize = 8;
    if args.len() <= INLINE {
        let mut vector = [null_mut(); INLINE + 1];
        return call_through(callable, args, &mut vector);
    }
    call_through(callable, args, &mut vec![null_mut(); args.len() + 1])
}

/// Calls with an argument vector whose first place is reserved for the callee.
#[inline]
fn call_through<'py>(
    callable: &Bound<'py, PyAny>,
    args: &[&Bound<'py, PyAny>],
    vector: &mut [*mut ffi::PyObject],
) -> PyResult<Bound<'py, PyAny>> {
    for (place, arg) in vector[1..].iter_mut().zip(args) {
        *place = arg.as_ptr();
    }
    // SAFETY: live objects, which outlive the call; the place before the arguments may be written to, as the flag says.
    unsafe {
        let count = args.len() | ffi::PY_VECTORCALL_ARGUMENTS_OFFSET;
        let result = vectorcall(callable.as_ptr(), vector.as_ptr().add(1), count);
        Bound::from_owned_ptr_or_err(callable.py(), result)
    }
}

/// Calls with arguments, of which the last ones are keyword arguments with the names in `keywords`.
#[inline]
pub fn call_with_names<'py>(
    callable: &Bound<'py, PyAny>,
    args: &[Bound<'py, PyAny>],
    keywords: Option<&Bound<'py, PyTuple>>,
) -> PyResult<Bound<'py, PyAny>> {
    let named = keywords.map_or(0, PyTupleMethods::len);
    #[cfg(Py_3_9)]
    // SAFETY: live objects. A `Bound` is a pointer. There are `count` positional arguments, then one for each name in
    // the tuple, which may be null.
    unsafe {
        let (tuple, count) = (keywords.map_or(null_mut(), Bound::as_ptr), args.len() - named);
        let result = ffi::PyObject_Vectorcall(callable.as_ptr(), args.as_ptr().cast(), count, tuple);
        Bound::from_owned_ptr_or_err(callable.py(), result)
    }
    #[cfg(not(Py_3_9))]
    {
        let (positional, rest) = args.split_at(args.len() - named);
        let given = PyDict::new(callable.py());
        let mut pairs = keywords.into_iter().flat_map(PyTupleMethods::iter).zip(rest);
        pairs.try_for_each(|(name, value)| given.set_item(name, value))?;
        callable.call(PyTuple::new(callable.py(), positional)?, Some(&given))
    }
}

/// Like `call_with_names`, for a method of the first argument.
#[inline]
pub fn call_method_with_names<'py>(
    name: &Bound<'py, PyString>,
    args: &[Bound<'py, PyAny>],
    keywords: Option<&Bound<'py, PyTuple>>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some((receiver, rest)) = args.split_first() else {
        return Err(PyValueError::new_err("a method is called on an object"));
    };
    #[cfg(Py_3_9)]
    // SAFETY: as above, and there is a first argument.
    unsafe {
        let named = keywords.map_or(0, PyTupleMethods::len);
        let (tuple, count) = (keywords.map_or(null_mut(), Bound::as_ptr), 1 + rest.len() - named);
        let result = ffi::PyObject_VectorcallMethod(name.as_ptr(), args.as_ptr().cast(), count, tuple);
        Bound::from_owned_ptr_or_err(receiver.py(), result)
    }
    #[cfg(not(Py_3_9))]
    call_with_names(&receiver.getattr(name)?, rest, keywords)
}

/// `PyObject_Vectorcall` without keywords.
///
/// # Safety
/// As the C function: live objects, as many as `count` says, and the GIL held.
#[cfg(Py_3_9)]
#[inline]
pub(in crate::cpython) unsafe fn vectorcall(
    callable: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: usize,
) -> *mut ffi::PyObject {
    // SAFETY: guaranteed by the caller.
    unsafe { ffi::PyObject_Vectorcall(callable, args, count, null_mut()) }
}

/// `PyObject_Vectorcall` on 3.8, where it is an inline function that pyo3 declares with the parameters of 3.9.
///
/// # Safety
/// As the C function: live objects, as many as `count` says, and the GIL held.
#[cfg(not(Py_3_9))]
pub(in crate::cpython) unsafe fn vectorcall(
    callable: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: usize,
) -> *mut ffi::PyObject {
    extern "C" {
        #[link_name = "_PyObject_FastCallDict"]
        fn call(
            callable: *mut ffi::PyObject,
            args: *const *mut ffi::PyObject,
            count: usize,
            keywords: *mut ffi::PyObject,
        ) -> *mut ffi::PyObject;
    }
    // SAFETY: guaranteed by the caller.
    unsafe { call(callable, args, count, null_mut()) }
}

const TARGET: &CStr = c"sot.fastcall";

/// Layout of `PyCapsule`, equal in all versions. `PyCapsule_GetPointer` compares the names at each call.
#[repr(C)]
struct Capsule {
    head: ffi::PyObject,
    pointer: *mut c_void,
}

/// State of a callable.
struct NativeCallable<F> {
    definition: ffi::PyMethodDef,
    function: F,
    _name: CString,
    _doc: CString,
}

/// C entry point of a callable over `F`.
///
/// # Safety
/// Called by CPython for a function object made by [`fastcall`] with the same `F`.
unsafe extern "C" fn call<F: NativeFunction>(
    capsule: *mut ffi::PyObject,
    args: *mut *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
) -> *mut ffi::PyObject {
    let called = catch_unwind(AssertUnwindSafe(|| {
        let run = |py: Python<'_>| {
            // SAFETY: the capsule is the one the function object was made with, and holds a `NativeCallable<F>`; the
            // arguments are those of the call.
            let result = unsafe {
                let target = (*capsule.cast::<Capsule>()).pointer.cast::<NativeCallable<F>>();
                (*target).function.run(py, args, count as usize)
            };
            match result {
                Ok(value) => value.into_ptr(),
                Err(error) => {
                    error.restore(py);
                    null_mut()
                }
            }
        };
        // SAFETY: CPython calls with the GIL held.
        unsafe { attached(run) }
    }));
    called.unwrap_or_else(|payload| {
        Python::attach(|py| PyRuntimeError::new_err(panic_text(&*payload)).restore(py));
        null_mut()
    })
}

/// Frees the state of a callable.
///
/// # Safety
/// Called by CPython for a capsule made by [`fastcall`] with the same `F`.
unsafe extern "C" fn free<F>(capsule: *mut ffi::PyObject) {
    // SAFETY: the capsule holds a boxed `NativeCallable<F>`, and is freed once.
    let target = unsafe { ffi::PyCapsule_GetPointer(capsule, TARGET.as_ptr()) }.cast::<NativeCallable<F>>();
    let freed = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: as above.
        let free = || drop(unsafe { Box::from_raw(target) });
        // Attached, so that references in the closure are dropped now. An interpreter that is shutting down refuses
        // to attach.
        if Python::try_attach(|_| free()).is_none() {
            free();
        }
    }));
    if let Err(payload) = freed {
        crate::cpython::hook::note_panic(&*payload);
    }
}

const _: () = assert!(size_of::<Bound<'_, PyAny>>() == size_of::<*mut c_void>());
