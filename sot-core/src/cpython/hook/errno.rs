//! C's `errno`. C code that calls back into Python may read it after the call, so the tracer must leave it unchanged.

use std::ffi::c_int;

/// Keeps `errno` as it was: it is set back when the value is dropped. System calls of a translation would change it.
#[must_use]
pub(crate) struct KeptErrno(c_int);

impl KeptErrno {
    /// Remembers `errno`.
    pub(crate) fn new() -> KeptErrno {
        // SAFETY: the place of this thread's `errno` is valid as long as the thread runs.
        KeptErrno(unsafe { *place() })
    }
}

impl Drop for KeptErrno {
    fn drop(&mut self) {
        // SAFETY: as above; `KeptErrno` lives on the stack of one thread, and no reference to the place exists.
        unsafe { *place() = self.0 };
    }
}

/// Returns the place of this thread's `errno`.
fn place() -> *mut c_int {
    // SAFETY: the function has no preconditions.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::__errno_location()
    }
    // SAFETY: the function has no preconditions.
    #[cfg(not(target_os = "linux"))]
    unsafe {
        libc::__error()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errno_is_set_back() {
        let outer = KeptErrno(77);
        drop(outer);
        {
            let _kept = KeptErrno::new();
            assert!(std::fs::metadata("/there is no such file").is_err());
            assert_ne!(std::io::Error::last_os_error().raw_os_error(), Some(77));
        }
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(77));
    }
}
