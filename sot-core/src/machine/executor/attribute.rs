//! Attribute access by name.

use std::rc::Rc;

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyModule, PyType};

use super::{checkpoint, Name, OpcodeExecutor};
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
                    // The function is asked last.
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

    /// `object.name`, or `None` where reading it raises `AttributeError`.
    pub fn find_attr(&mut self, object: VarId, name: &Name) -> Flow<Option<VarId>> {
        let depth = self.stack.len();
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

    /// A special method looked up on the type, bound to the object; `None` if the type has none.
    pub fn special_method(&mut self, object: VarId, name: &str) -> Flow<Option<VarId>> {
        super::object_model::find_special(self, object, &Rc::from(name))
    }

    /// Whether the object's type has a special method. What binding one would run is left alone.
    pub fn has_special(&mut self, object: VarId, name: &str) -> Flow<bool> {
        super::object_model::has_special(self, object, name)
    }
}

/// What CPython says where a module lacks an attribute: it names the module, and may know why.
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

/// The interpreter tells an `AttributeError` of the program's which attribute of which object was read, when it
/// leaves the instruction that did so: only there can it be raised for real.
fn note_reader(cx: &mut OpcodeExecutor<'_>, exception: VarId, depth: usize, object: VarId, name: &Name) -> Flow<()> {
    let base = cx.py.get_type::<PyAttributeError>();
    let is_told = base.hasattr("obj").unwrap_or(false);
    let ty = cx.vars.get(exception).python_type(cx);
    if is_told && ty.cast::<PyType>().is_ok_and(|ty| cpython::is_subtype(ty, &base)) {
        checkpoint::note_step_of(cx, exception, depth);
        tell_reader(cx, exception, object, name)?;
    }
    Ok(())
}

/// Not what `super()` was asked for, which depends on how that is done.
fn tell_reader(cx: &mut OpcodeExecutor<'_>, exception: VarId, object: VarId, name: &Name) -> Flow<()> {
    if cx.see(object)?.form() == Form::Super {
        return Ok(());
    }
    let name = cx.string(name);
    (cx.runtime.factories.tell)(cx, exception, &[("name", name), ("obj", object)])
}
