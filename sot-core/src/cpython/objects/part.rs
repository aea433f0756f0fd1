//! Parts of functions, methods and proxies, read without attribute lookup.

use pyo3::prelude::*;
use pyo3::types::PyFunction;

use crate::cpython::bound_method;
use crate::cpython::function_closure;
use crate::cpython::function_code;
use crate::cpython::function_defaults;
use crate::cpython::function_globals;
use crate::cpython::function_kwdefaults;
use crate::cpython::proxied_dict;

/// A reference held by a function, a method or a proxy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Part {
    /// `function.__code__`
    Code,
    /// `function.__globals__`
    Globals,
    /// `function.__defaults__`
    Defaults,
    /// `function.__kwdefaults__`
    KwDefaults,
    /// `function.__closure__`
    Closure,
    /// `method.__func__`
    MethodFunction,
    /// `method.__self__`
    MethodSelf,
    /// The dict behind a `types.MappingProxyType`
    Proxied,
}

impl Part {
    /// Name of the attribute in Python.
    #[must_use]
    pub const fn attribute(self) -> &'static str {
        match self {
            Part::Code => "__code__",
            Part::Globals => "__globals__",
            Part::Defaults => "__defaults__",
            Part::KwDefaults => "__kwdefaults__",
            Part::Closure => "__closure__",
            Part::MethodFunction => "__func__",
            Part::MethodSelf => "__self__",
            Part::Proxied => "mapping",
        }
    }

    /// Returns this part of `object`; `None` if there is none.
    pub fn of<'py>(self, object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        let function = object.cast_exact::<PyFunction>();
        match self {
            Part::Code => Some(function_code(function.ok()?).into_any()),
            Part::Globals => Some(function_globals(function.ok()?).into_any()),
            Part::Defaults => function_defaults(function.ok()?).map(Bound::into_any),
            Part::KwDefaults => function_kwdefaults(function.ok()?).map(Bound::into_any),
            Part::Closure => function_closure(function.ok()?).map(Bound::into_any),
            Part::MethodFunction => bound_method(object).map(|(function, _)| function),
            Part::MethodSelf => bound_method(object).map(|(_, receiver)| receiver),
            Part::Proxied => proxied_dict(object).map(Bound::into_any),
        }
    }
}
