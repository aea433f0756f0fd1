//! The code objects that have translations, so that all translations can be dropped at once.

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyCode;

use super::CodeCache;
use crate::cpython::{self, WeakRef};
use crate::forgetting;

/// The list is searched for code objects that are gone when it has this many, and again when it has twice as many as
/// are left.
const MANY: usize = 64;

static TRANSLATED: Mutex<TranslatedCode> = Mutex::new(TranslatedCode { codes: Vec::new(), many: MANY });

struct TranslatedCode {
    codes: Vec<WeakRef>,
    many: usize,
}

/// Notes that a code object has translations.
pub(super) fn note(code: &Bound<'_, PyCode>) {
    let Ok(reference) = WeakRef::new(code.as_any(), None) else { return };
    let mut translated = TRANSLATED.lock();
    if translated.codes.len() >= translated.many {
        translated.codes.retain(|known| known.get(code.py()).is_some());
        translated.many = MANY.max(2 * translated.codes.len());
    }
    translated.codes.push(reference);
}

/// Drops all translations at once, and the facts learnt from them.
pub fn drop_translations(py: Python<'_>) {
    let codes = std::mem::take(&mut TRANSLATED.lock().codes);
    for code in codes.iter().filter_map(|code| code.get(py)) {
        let cache = code.cast_into::<PyCode>().ok().and_then(|code| cpython::code_state::<CodeCache>(&code));
        if let Some(cache) = cache {
            cache.forget_noted();
            cache.refresh(forgetting::generation());
        }
    }
}
