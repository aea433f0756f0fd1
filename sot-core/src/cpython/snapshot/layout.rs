//! Layouts of CPython's structs that snapshots read, as far as they are needed.

use pyo3::ffi;

extern "C" {
    #[link_name = "PyODict_Type"]
    pub(super) static mut ORDERED_DICT: ffi::PyTypeObject;
    #[link_name = "_PyObject_GetDictPtr"]
    pub(super) fn dict_pointer(object: *mut ffi::PyObject) -> *mut *mut ffi::PyObject;
}

/// `Py_TPFLAGS_VALID_VERSION_TAG`
pub(super) const VALID_VERSION: std::ffi::c_ulong = 1 << 19;

/// `PyODictObject`, as far as it is needed.
#[repr(C)]
pub(super) struct OrderedDict {
    dict: ffi::PyDictObject,
    first: *mut u8,
    last: *mut u8,
    fast_nodes: *mut u8,
    fast_nodes_size: isize,
    resize_sentinel: *mut u8,
    /// Counter of changes of the order.
    pub(super) state: usize,
}

/// `PyMethodObject`, as far as it is needed.
#[repr(C)]
pub(super) struct Method {
    header: ffi::PyObject,
    pub(super) function: *mut ffi::PyObject,
    pub(super) receiver: *mut ffi::PyObject,
}

/// True if every write to the dict changes its version. From 3.13 on, an attribute may be written directly to the
/// values that a dict shares with its object.
///
/// # Safety
/// `dict` is a live dict.
pub(super) unsafe fn version_tells(dict: *mut ffi::PyDictObject) -> bool {
    // SAFETY: guaranteed by the caller.
    cfg!(not(Py_3_13)) || unsafe { (*dict).ma_values.is_null() }
}

/// True if all keys of the dict are strings, as the kind of its table tells.
///
/// # Safety
/// `dict` is a live dict, and the GIL is held.
#[inline]
pub(in crate::cpython) unsafe fn has_string_keys(dict: *mut ffi::PyDictObject) -> bool {
    // SAFETY: guaranteed by the caller; a dict always has a table, and that begins as `Keys` declares.
    unsafe {
        #[cfg(Py_3_11)]
        {
            const GENERAL: u8 = 0;
            (*(*dict).ma_keys.cast::<Keys>()).kind != GENERAL
        }
        #[cfg(not(Py_3_11))]
        {
            let general = GENERAL_LOOKUP.load(std::sync::atomic::Ordering::Relaxed);
            general != 0 && (*(*dict).ma_keys.cast::<Keys>()).lookup != general
        }
    }
}

/// `PyDictKeysObject`, as far as it is needed.
#[repr(C)]
pub(super) struct Keys {
    holders: isize,
    #[cfg(Py_3_11)]
    log2_size: u8,
    #[cfg(Py_3_11)]
    log2_index_bytes: u8,
    #[cfg(Py_3_11)]
    kind: u8,
    #[cfg(not(Py_3_11))]
    size: isize,
    #[cfg(not(Py_3_11))]
    pub(super) lookup: usize,
}

/// The lookup function of dicts whose keys are of any type. Zero, which no dict has, until
/// [`look_for_blind_spots`](super::look_for_blind_spots) has read it from such a dict.
#[cfg(not(Py_3_11))]
pub(super) static GENERAL_LOOKUP: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
