//! The names that code may look up, found in its instructions and constants.

use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCode, PyString, PyTuple};
use rustc_hash::{FxHashMap, FxHashSet};
use sot_core::bytecode::Names;
use sot_core::{cpython, opcode};

/// Builtins that call a special method of tensors.
const ASKING: &[(&str, &str)] = &[("len", "__len__"), ("float", "__float__"), ("int", "__int__"), ("bool", "__bool__")];

/// The names that a code object, and the code objects among its constants, may look up. No list has a name twice.
pub(super) struct Scanned {
    /// Keeps the code object alive, because its address is the key in the cache.
    _code: Py<PyCode>,
    /// Names that are looked up among globals, then among builtins.
    pub(super) globals: Vec<Py<PyString>>,
    /// Other names: of attributes, methods and imported modules.
    pub(super) others: Vec<Py<PyString>>,
    /// Special methods of tensors that operators and builtins call.
    pub(super) methods: Vec<Py<PyString>>,
}

/// Returns the names that the code may look up. Each code object is scanned once, because most foundations contain the
/// same code.
pub(super) fn scanned(code: &Bound<'_, PyCode>) -> PyResult<Arc<Scanned>> {
    static SCANNED: LazyLock<Mutex<FxHashMap<usize, Arc<Scanned>>>> = LazyLock::new(Mutex::default);
    let known = || SCANNED.lock();
    let key = code.as_ptr() as usize;
    if let Some(scanned) = known().get(&key) {
        return Ok(Arc::clone(scanned));
    }
    let py = code.py();
    let names = Names::of(code).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    let mut methods = Vec::new();
    scan_operators(code, &mut methods)?;
    let asking = |name: &Bound<'_, PyString>| ASKING.iter().find(|(asking, _)| *name == *asking);
    methods.extend(names.globals.iter().filter_map(asking).map(|(_, method)| *method));
    let methods = methods.into_iter().map(|method| cpython::interned(py, method)).collect();
    let scanned = Arc::new(Scanned {
        _code: code.clone().unbind(),
        globals: each_once(names.globals),
        others: each_once(names.others),
        methods: each_once(methods),
    });
    let before = known().insert(key, Arc::clone(&scanned));
    drop(before);
    Ok(scanned)
}

fn each_once(names: Vec<Bound<'_, PyString>>) -> Vec<Py<PyString>> {
    let mut seen = FxHashSet::default();
    names.into_iter().filter(|name| seen.insert(name.as_ptr() as usize)).map(Bound::unbind).collect()
}

/// Collects the special methods that the operators in the code, and in code objects among its constants, call.
fn scan_operators(code: &Bound<'_, PyCode>, methods: &mut Vec<&'static str>) -> PyResult<()> {
    let bytes = code.getattr("co_code")?.cast_into::<PyBytes>()?;
    let opcodes: FxHashSet<u8> = bytes.as_bytes().iter().step_by(2).copied().collect();
    methods.extend(opcodes.into_iter().flat_map(|opcode| opcode::describe(opcode).asks));
    for constant in code.getattr("co_consts")?.cast_into::<PyTuple>()?.iter() {
        if let Ok(inner) = constant.cast::<PyCode>() {
            scan_operators(inner, methods)?;
        }
    }
    Ok(())
}
