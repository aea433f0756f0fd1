//! The structs of CPython that the hook and the object model use, by minor version: one file for each version, with
//! the same item names.

#[cfg(not(Py_3_9))]
mod v38;
#[cfg(not(Py_3_9))]
pub(super) use v38::*;
#[cfg(all(Py_3_9, not(Py_3_10)))]
mod v39;
#[cfg(all(Py_3_9, not(Py_3_10)))]
pub(super) use v39::*;
#[cfg(all(Py_3_10, not(Py_3_11)))]
mod v310;
#[cfg(all(Py_3_10, not(Py_3_11)))]
pub(super) use v310::*;
#[cfg(all(Py_3_11, not(Py_3_12)))]
mod v311;
#[cfg(all(Py_3_11, not(Py_3_12)))]
pub(super) use v311::*;
#[cfg(all(Py_3_12, not(Py_3_13)))]
mod v312;
#[cfg(all(Py_3_12, not(Py_3_13)))]
pub(super) use v312::*;
#[cfg(Py_3_13)]
mod v313;
#[cfg(Py_3_13)]
pub(super) use v313::*;
