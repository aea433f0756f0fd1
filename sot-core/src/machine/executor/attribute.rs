//! Attribute access by name.

use std::rc::Rc;

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyModule, PyType};

use super::changing_values::lazy_text;
use super::graph_breaks::checkpoint;
use super::{object_model, Name, OpcodeExecutor};
use crate::cpython;
use crate::error::{Flow, Unwind};
use crate::machine::variable::{Form, VarId};

impl OpcodeExecutor<'_> {
    /// `object.name`
    pub fn get_attr(&mut self, object: VarId, name: &Name) -> Flow<VarId> {
        match self.find_attr(object, name)? {
            Some(value) => Ok(value),
            None => {
                let class = self
                    .see(object)?
                    .object()
                    .and_then(|object| object.bind(self.py).cast::<PyType>().ok().map(crate::cpython::type_name));
                let bound = self.see(object)?.form() == Form::Method;
                let owner = match class {
                    // A bound method looks on its function last, so the error is about a function.
                    _ if bound => "'function' object".to_owned(),
                    Some(class) => format!("type object '{class}'"),
                    None => format!("'{}' object", self.type_name(object)?),
                };
                let text = missing_from_module(self, object, name)?;
                let text = text.unwrap_or_else(|| format!("{owner} has no attribute '{name}'"));
                let error = self.raise(PyAttributeError::new_err(text));
                if let Unwind::Raise(exception) = error {
                    tell_reader(self, exception, object, name)?;
                }
                Err(error)
            }
        }
    }

    /// `object.name`; `None` if it raises `AttributeError`.
    pub fn find_attr(&mut self, object: VarId, name: &Name) -> Flow<Option<VarId>> {
        let depth = self.stack.len();
        if let Some(method) = lazy_text::method_of_text(self, object, name)? {
            return Ok(Some(method));
        }
        let found = self.see(object)?.get_attr(self, object, name);
        if let Err(Unwind::Raise(exception)) = found {
            note_reader(self, exception, depth, object, name)?;
        }
        found
    }

    /// `object.name = value`, or `del object.name`
    pub fn set_attr(&mut self, object: VarId, name: &Name, value: Option<VarId>) -> Flow<()> {
        self.see(object)?.set_attr(self, object, name, value)
    }

    /// Returns a special method of the type, bound to the object; `None` if the type has none.
    pub fn special_method(&mut self, object: VarId, name: &str) -> Flow<Option<VarId>> {
        object_model::find_special(self, object, &Rc::from(name))
    }

    /// True if the object's type has a special method. The method is not bound, since that may run code.
    pub fn has_special(&mut self, object: VarId, name: &str) -> Flow<bool> {
        object_model::has_special(self, object, name)
    }
}

/// CPython's message for a missing attribute of a module: it names the module, and may add the cause.
fn missing_from_module(cx: &mut OpcodeExecutor<'_>, object: VarId, name: &Name) -> Flow<Option<String>> {
    let payload = cx.see(object)?;
    let object = payload.object().map(|object| object.bind(cx.py));
    let Some(module) = object.and_then(|object| object.cast_exact::<PyModule>().ok()) else { return Ok(None) };
    if module.dict().contains("__getattr__")? {
        return Ok(None);
    }
    let error = module.getattr(&**name).err();
    Ok(error.map(|error| error.value(cx.py).to_string()))
}

/// Sets `obj` and `name` of an `AttributeError` as the interpreter does (3.10 and newer) when the exception leaves
/// the instruction that reads the attribute. That instruction is noted as the one that can raise the exception
/// natively.
fn note_reader(cx: &mut OpcodeExecutor<'_>, exception: VarId, depth: usize, object: VarId, name: &Name) -> Flow<()> {
    let base = cx.py.get_type::<PyAttributeError>();
    let is_told = base.hasattr("obj").unwrap_or(false);
    let ty = cx.trace.vars.get(exception).python_type(&cx.trace);
    if is_told && ty.cast::<PyType>().is_ok_and(|ty| cpython::is_subtype(ty, &base)) {
        checkpoint::note_step_of(cx, exception, depth);
        tell_reader(cx, exception, object, name)?;
    }
    Ok(())
}

/// Sets `obj` and `name` of an `AttributeError`. Not for an attribute of a `super` object, where it depends on how
/// CPython reads the attribute.
fn tell_reader(cx: &mut OpcodeExecutor<'_>, exception: VarId, object: VarId, name: &Name) -> Flow<()> {
    if cx.see(object)?.form() == Form::Super {
        return Ok(());
    }
    let name = cx.trace.string(name);
    (cx.runtime.factories.tell)(cx, exception, &[("name", name), ("obj", object)])
}
