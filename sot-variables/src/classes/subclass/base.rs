//! The builtin types from which subclasses inherit their state.

use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use sot_core::cpython;

/// Mutable builtin types whose state subclasses inherit, with the method that fills a new instance. If several match,
/// the first is used.
const MUTABLE: &[(&str, &str, &str)] = &[
    ("collections", "OrderedDict", "update"),
    ("builtins", "dict", "update"),
    ("builtins", "list", "extend"),
    ("builtins", "set", "update"),
    DEQUE,
];

const DEQUE: (&str, &str, &str) = ("collections", "deque", "__init__");

/// Immutable builtin types whose value subclasses inherit.
pub(super) const VALUES: &[&str] = &["str", "int", "float", "complex", "bytes", "frozenset"];

/// The builtin type that a subclass inherits its storage from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BuiltinBase {
    /// A container: module, name, and the method that fills a new one.
    Container(&'static str, &'static str, &'static str),
    /// An immutable value.
    Value(&'static str),
}

impl BuiltinBase {
    /// Returns the base of a proper subclass; `None` for the builtin types themselves and other classes.
    pub(super) fn of(ty: &Bound<'_, PyType>) -> PyResult<Option<BuiltinBase>> {
        if !inherits_storage(ty) {
            return Ok(None);
        }
        let all = MUTABLE.iter().map(|&(module, name, fill)| BuiltinBase::Container(module, name, fill));
        for base in all.chain(VALUES.iter().map(|name| BuiltinBase::Value(name))) {
            let own = base.ty(ty.py())?;
            if ty.mro().iter().any(|class| class.is(&own)) {
                return Ok((!ty.is(&own)).then_some(base));
            }
        }
        Ok(None)
    }

    pub(super) fn is_deque(self) -> bool {
        matches!(self, BuiltinBase::Container(_, name, _) if name == DEQUE.1)
    }

    pub(super) fn ty(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        match self {
            BuiltinBase::Container(module, name, _) => cpython::import(py, module)?.getattr(name),
            BuiltinBase::Value(name) => cpython::builtin(py, name),
        }
    }

    /// Returns the value of an instance as one of the builtin type, without running code of the program.
    pub(super) fn plain_value<'py>(self, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let ty = self.ty(object.py())?;
        match self {
            BuiltinBase::Value("str") => ty.call_method1("__str__", (object,))?.call_method1("__add__", ("",)),
            BuiltinBase::Value("int") => ty.call_method1("__int__", (object,)),
            BuiltinBase::Value("float") => ty.call_method1("__float__", (object,)),
            BuiltinBase::Value("bytes") => {
                ty.call_method1("__add__", (object, pyo3::types::PyBytes::new(object.py(), b"")))
            }
            BuiltinBase::Value("complex") => ty.call_method1("__pos__", (object,)),
            _ => cpython::copy_of_set(object, true),
        }
    }
}

/// A quick check before the classes of the MRO are compared one by one.
fn inherits_storage(ty: &Bound<'_, PyType>) -> bool {
    // Some static types have no MRO yet; `defaultdict` is the only subclass among them that matters here.
    (cpython::is_heap_type(ty) || cpython::type_name(ty) == "defaultdict")
        && ty.mro().iter().any(|class| class.cast::<PyType>().is_ok_and(is_base))
}

fn is_base(ty: &Bound<'_, PyType>) -> bool {
    let name = cpython::type_name(ty);
    // `deque` is a heap type from 3.12 on.
    let deque = &*name == DEQUE.1;
    (deque || !cpython::is_heap_type(ty))
        && (MUTABLE.iter().any(|(_, base, _)| *base == &*name) || VALUES.contains(&&*name))
}

/// True for the builtin types whose instances hold a value or items.
pub(super) fn is_builtin_base(class: &Bound<'_, PyType>) -> bool {
    is_base(class) || class.is(class.py().get_type::<PyTuple>())
}
