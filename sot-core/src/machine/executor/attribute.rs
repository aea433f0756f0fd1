//! Attribute access by name.

use std::rc::Rc;

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyModule, PyType};

use super::{Name, OpcodeExecutor};
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
                let text = self.missing_from_module(object, name)?;
                let text = text.unwrap_or_else(|| format!("{owner} has no attribute '{name}'"));
                let error = self.raise(PyAttributeError::new_err(text));
                if let Unwind::Raise(exception) = error {
                    self.tell_reader(exception, object, name)?;
                }
                Err(error)
            }
        }
    }

    /// What CPython says where a module lacks an attribute: it names the module, and may know why.
    fn missing_from_module(&mut self, object: VarId, name: &Name) -> Flow<Option<String>> {
        let payload = self.see(object)?;
        let object = payload.object().map(|object| object.bind(self.py));
        let Some(module) = object.and_then(|object| object.cast_exact::<PyModule>().ok()) else { return Ok(None) };
        if module.dict().contains("__getattr__")? {
            return Ok(None);
        }
        let error = module.getattr(&**name).err();
        Ok(error.map(|error| error.value(self.py).to_string()))
    }

    /// `object.name`, or `None` where reading it raises `AttributeError`.
    pub fn find_attr(&mut self, object: VarId, name: &Name) -> Flow<Option<VarId>> {
        let depth = self.stack.len();
        let found = self.see(object)?.get_attr(self, object, name);
        if let Err(Unwind::Raise(exception)) = found {
            self.note_reader(exception, depth, object, name)?;
        }
        found
    }

    /// The interpreter tells an `AttributeError` of the program's which attribute of which object was read, when it
    /// leaves the instruction that did so: only there can it be raised for real.
    fn note_reader(&mut self, exception: VarId, depth: usize, object: VarId, name: &Name) -> Flow<()> {
        let base = self.py.get_type::<PyAttributeError>();
        let is_told = base.hasattr("obj").unwrap_or(false);
        let ty = self.vars.get(exception).python_type(self);
        if is_told && ty.cast::<PyType>().is_ok_and(|ty| cpython::is_subtype(ty, &base)) {
            self.note_step_of(exception, depth);
            self.tell_reader(exception, object, name)?;
        }
        Ok(())
    }

    /// Not what `super()` was asked for, which depends on how that is done.
    fn tell_reader(&mut self, exception: VarId, object: VarId, name: &Name) -> Flow<()> {
        if self.see(object)?.form() == Form::Super {
            return Ok(());
        }
        let name = self.string(name);
        (self.runtime.factories.tell)(self, exception, &[("name", name), ("obj", object)])
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
