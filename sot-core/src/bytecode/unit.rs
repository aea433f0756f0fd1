//! Code objects in the form the tracer keeps: decoded, with shared names.

use std::rc::Rc;
use std::sync::Arc;

use once_cell::unsync::OnceCell;
use pyo3::prelude::*;

use super::{decode, BytecodeError, Code};

/// A decoded code object with the object it was decoded from.
pub struct CodeUnit {
    /// The decoded code.
    pub code: Arc<Code>,
    /// The Python code object.
    pub object: Py<PyAny>,
    names: OnceCell<Vec<Rc<str>>>,
    varnames: OnceCell<Vec<Rc<str>>>,
}

impl CodeUnit {
    /// Decodes a code object.
    pub fn new(object: &Bound<'_, PyAny>) -> Result<Rc<CodeUnit>, BytecodeError> {
        Ok(CodeUnit::of_decoded(object, Arc::new(Code::decode(object)?)))
    }

    /// Makes the unit of a code object that has been decoded.
    pub fn of_decoded(object: &Bound<'_, PyAny>, code: Arc<Code>) -> Rc<CodeUnit> {
        let (names, varnames) = (OnceCell::new(), OnceCell::new());
        Rc::new(CodeUnit { code, object: object.clone().unbind(), names, varnames })
    }

    /// `co_names` as shared strings.
    pub fn names(&self) -> &[Rc<str>] {
        self.names.get_or_init(|| shared(&self.code.names))
    }

    /// `co_varnames` as shared strings.
    pub fn varnames(&self) -> &[Rc<str>] {
        self.varnames.get_or_init(|| shared(&self.code.varnames))
    }

    /// Creates a code object from `code`; all else is that of this unit's code object.
    pub fn encode<'py>(&self, py: Python<'py>, code: &Code) -> Result<Bound<'py, PyAny>, BytecodeError> {
        code.encode_like(decode::as_code(self.object.bind(py))?, &self.code)
    }
}

fn shared(names: &[String]) -> Vec<Rc<str>> {
    names.iter().map(|name| Rc::from(name.as_str())).collect()
}
