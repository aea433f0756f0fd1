//! Translates a whole program that has asked for no translation itself: frames that are given tensors are translated.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::cache::{file_of, CodeCache};
use crate::cpython::FreshFrame;
use crate::machine::runtime::Runtime;

/// Maximum number of items of a container that are looked at.
const ITEMS: usize = 16;

static IS_ON: AtomicBool = AtomicBool::new(false);

/// Translates from now on frames that nobody asked for, but only if they are given tensors.
pub fn translate_what_meets_tensors() {
    IS_ON.store(true, Ordering::Relaxed);
}

/// True if the frame is left to CPython because it is not given tensors. Otherwise its code counts as asked for.
pub(super) fn leaves_to_cpython(runtime: &Runtime, cache: &CodeCache, frame: &FreshFrame<'_, '_>) -> bool {
    if cache.directives.is_root() || !IS_ON.load(Ordering::Relaxed) {
        return false;
    }
    let is_wanted = is_wanted(runtime, cache, frame);
    if is_wanted {
        cache.request();
    }
    !is_wanted
}

/// True if the frame is to be translated because it is given tensors.
pub(super) fn is_wanted(runtime: &Runtime, cache: &CodeCache, frame: &FreshFrame<'_, '_>) -> bool {
    IS_ON.load(Ordering::Relaxed)
        && !cache.directives.is_root()
        && is_given_tensors(runtime, frame)
        && !runtime.backend().own_code().is_written_with(&file_of(&frame.code()))
}

/// True if an argument is a tensor, or a container that holds one.
pub(super) fn is_given_tensors(runtime: &Runtime, frame: &FreshFrame<'_, '_>) -> bool {
    (0..frame.arg_count()).filter_map(|slot| frame.arg(slot)).any(|object| holds_tensor(runtime, &object))
}

fn holds_tensor(runtime: &Runtime, object: &Bound<'_, PyAny>) -> bool {
    let is_tensor = |object: Bound<'_, PyAny>| runtime.backend().is_tensor(&object);
    if let Ok(items) = object.cast_exact::<PyTuple>() {
        items.iter().take(ITEMS).any(is_tensor)
    } else if let Ok(items) = object.cast_exact::<PyList>() {
        items.iter().take(ITEMS).any(is_tensor)
    } else if let Ok(items) = object.cast_exact::<PyDict>() {
        items.iter().take(ITEMS).any(|(_, value)| is_tensor(value))
    } else {
        runtime.backend().is_tensor(object)
    }
}
