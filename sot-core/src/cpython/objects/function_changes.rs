//! Reports changes of a function's code or defaults. Such a change raises no version of a dict or type, and comparing
//! the fields of each function at each hit would be expensive. So the setters of the attributes are wrapped.

use std::ffi::{c_int, c_void, CStr};
use std::mem::transmute;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyString};

use crate::cpython::objects::type_::type_lookup;

/// Called with a function that has been changed.
type Listener = fn(&Bound<'_, PyAny>);

static LISTENER: OnceLock<Listener> = OnceLock::new();

/// `PyGetSetDescrObject`
#[repr(C)]
struct GetSetDescriptor {
    ob_base: ffi::PyObject,
    class: *mut ffi::PyTypeObject,
    name: *mut ffi::PyObject,
    qualified_name: *mut ffi::PyObject,
    definition: *mut ffi::PyGetSetDef,
}

const ATTRIBUTES: [&CStr; 3] = [c"__code__", c"__defaults__", c"__kwdefaults__"];

/// CPython's own setters, which the wrappers call.
static SETTERS: [AtomicPtr<c_void>; ATTRIBUTES.len()] = [const { AtomicPtr::new(null_mut()) }; ATTRIBUTES.len()];

/// Wrapper of a setter: calls CPython's, and then the listener.
///
/// # Safety
/// Called as CPython calls a setter.
unsafe extern "C" fn set<const AT: usize>(
    function: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
    closure: *mut c_void,
) -> c_int {
    // SAFETY: called as CPython calls a setter, with the GIL held. The pointer is that of the setter found before.
    unsafe {
        let own: ffi::setter = transmute(SETTERS[AT].load(Ordering::Relaxed));
        let result = own(function, value, closure);
        if let (0, Some(listener)) = (result, LISTENER.get()) {
            Python::try_attach(|py| listener(&Bound::from_borrowed_ptr(py, function)));
        }
        result
    }
}

/// Registers a listener that is called when a function gets other code or other defaults. Returns whether such
/// changes can be observed in this interpreter. A second listener is not accepted.
pub fn on_function_change(py: Python<'_>, listener: Listener) -> bool {
    const OURS: [ffi::setter; ATTRIBUTES.len()] = [set::<0>, set::<1>, set::<2>];
    if LISTENER.set(listener).is_err() {
        return false;
    }
    let class = py.get_type::<PyFunction>();
    ATTRIBUTES.iter().enumerate().all(|(at, attribute)| {
        let Some(found) = type_lookup(&class, &PyString::intern(py, &attribute.to_string_lossy())) else {
            return false;
        };
        // SAFETY: a getset descriptor has this layout, and its definition lasts as long as the process. The name,
        // which is compared, precedes the setter in the definition.
        unsafe {
            if ffi::Py_IS_TYPE(found.as_ptr(), &raw mut ffi::PyGetSetDescr_Type) == 0 {
                return false;
            }
            let definition = (*found.as_ptr().cast::<GetSetDescriptor>()).definition;
            let (Some(own), true) = ((*definition).set, CStr::from_ptr((*definition).name) == *attribute) else {
                return false;
            };
            SETTERS[at].store(own as *mut c_void, Ordering::Relaxed);
            (*definition).set = Some(OURS[at]);
        }
        true
    })
}
