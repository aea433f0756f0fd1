//! Code objects in the form the tracer keeps: decoded once, with shared names.

use std::rc::Rc;

use pyo3::prelude::*;

use super::{BytecodeError, Code};

/// A decoded code object with the object it was decoded from.
pub struct CodeUnit {
    /// The decoded code.
    pub code: Code,
    /// The Python code object.
    pub object: Py<PyAny>,
    /// `co_names` as shared strings.
    pub names: Vec<Rc<str>>,
    /// `co_varnames` as shared strings.
    pub varnames: Vec<Rc<str>>,
}

impl CodeUnit {
    /// Decodes a code object.
    pub fn new(object: &Bound<'_, PyAny>) -> Result<Rc<CodeUnit>, BytecodeError> {
        let code = Code::decode(object)?;
        let share = |names: &[String]| names.iter().map(|name| Rc::from(name.as_str())).collect();
        let (names, varnames) = (share(&code.names), share(&code.varnames));
        Ok(Rc::new(CodeUnit { code, object: object.clone().unbind(), names, varnames }))
    }
}
