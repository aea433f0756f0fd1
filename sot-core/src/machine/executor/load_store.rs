//! Loading and storing of names: constants, locals, cells, globals, builtins.

use std::rc::Rc;

use pyo3::exceptions::{PyNameError, PyUnboundLocalError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::stack::bad_operand;
use super::{Globals, Name, OpcodeExecutor};
use crate::cpython;
use crate::error::{Flow, ReasonId, Unwind};
use crate::guard::Test;
use crate::machine::variable::VarId;
use crate::tracker::{Key, Tracker};

impl<'py> OpcodeExecutor<'py> {
    /// `co_consts[index]`
    pub fn load_const(&mut self, index: u32) -> Flow<VarId> {
        let code = Rc::clone(&self.stack.frame().code);
        let value = code.code.consts.get(index as usize).ok_or_else(|| bad_operand("constant"))?;
        let value = value.bind(self.py);
        if crate::cpython::is_atom(value) {
            return Ok(self.trace.constant(value.clone().unbind()));
        }
        let tracker = self.trace.trackers.constant(value.clone().unbind());
        Ok(self.trace.wrap(value, tracker))
    }

    /// The local in a slot; an unbound one raises `UnboundLocalError` in the program.
    pub fn load_fast(&mut self, slot: u32) -> Flow<VarId> {
        match self.stack.frame().locals.get(slot as usize) {
            Some(Some(value)) => Ok(*value),
            Some(None) => {
                let name = Rc::clone(&self.stack.frame().code.varnames[slot as usize]);
                Err(self.raise(PyUnboundLocalError::new_err(format!(
                    "local variable '{name}' referenced before assignment"
                ))))
            }
            None => Err(bad_operand("local")),
        }
    }

    /// The value of a global name: from the frame's globals, else from the builtins.
    pub fn load_global(&mut self, name: &Name) -> Flow<VarId> {
        if let Some(value) = self.find_global(name)? {
            return Ok(value);
        }
        if let Some(value) = self.find_builtin(name)? {
            return Ok(value);
        }
        let error = self.raise(PyNameError::new_err(format!("name '{name}' is not defined")));
        if let Unwind::Raise(exception) = error {
            let name = self.trace.string(name);
            (self.runtime.factories.tell)(self, exception, &[("name", name)])?;
        }
        Err(error)
    }

    /// The value of a name in the frame's globals, if there is one.
    pub fn find_global(&mut self, name: &Name) -> Flow<Option<VarId>> {
        if let Some(names) = self.stack.frame().global_names {
            let key = self.trace.string(name);
            let found = self.contains(names, key, false)?;
            return if self.truth(found)? { self.get_item(names, key).map(Some) } else { Ok(None) };
        }
        let globals = self.stack.frame().globals.share(self.py);
        self.find_global_in(&globals, name)
    }

    /// The value of a name in these globals, if there is one. Guards that it exists, or does not.
    pub fn find_global_in(&mut self, globals: &Globals, name: &Name) -> Flow<Option<VarId>> {
        let py = self.py;
        if let Some(written) = self.trace.effects.global(&globals.dict, name) {
            return Ok(written);
        }
        self.refuse_written_names(globals.dict.bind(py))?;
        match globals.dict.bind(py).get_item(&**name)? {
            Some(object) => {
                let key = Key::Str(Rc::clone(name));
                let tracker = self.trace.trackers.add(Tracker::Item { of: globals.tracker, key });
                self.trace.guards.require(tracker);
                Ok(Some(self.trace.wrap(&object, tracker)))
            }
            None => {
                self.trace.guards.add(globals.tracker, Test::LacksKey(Key::Str(Rc::clone(name))));
                Ok(None)
            }
        }
    }

    /// Breaks the graph if a module's `__dict__` was written as a dict. Reads and writes of its variables would miss
    /// such writes.
    pub fn refuse_written_names(&self, names: &Bound<'py, PyDict>) -> Flow<()> {
        match self.trace.identities.of(names.as_any()) {
            Some(met) if self.trace.effects.written().any(|written| written == met) => {
                let text = "a variable of a module whose __dict__ is written as a dict, too";
                Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text))
            }
            _ => Ok(()),
        }
    }

    /// The value of a builtin name, if there is one. Breaks the graph if the frame's globals have a `__builtins__` of
    /// their own, as those of a sandbox do.
    pub fn find_builtin(&mut self, name: &Name) -> Flow<Option<VarId>> {
        let module = cpython::import(self.py, "builtins")?;
        let builtins = module.dict();
        // Names that `exec` or `eval` was given are looked up elsewhere, and get the builtins of the caller.
        let frame = self.stack.frame();
        let globals = frame.globals.dict.bind(self.py);
        let own = cpython::dict_get(globals, intern!(self.py, "__builtins__"));
        if frame.global_names.is_none() && own.is_some_and(|own| !own.is(&builtins) && !own.is(&module)) {
            let text = format!("the name '{name}' in a function with builtins of its own");
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
        }
        if let Some(written) = self.trace.effects.global(builtins.as_unbound(), name) {
            return Ok(written);
        }
        self.refuse_written_names(&builtins)?;
        let tracker = self.trace.trackers.add(Tracker::Builtins);
        match builtins.get_item(&**name)? {
            Some(object) => {
                let tracker = self.trace.trackers.add(Tracker::Item { of: tracker, key: Key::Str(Rc::clone(name)) });
                self.trace.guards.require(tracker);
                Ok(Some(self.trace.wrap(&object, tracker)))
            }
            None => {
                self.trace.guards.add(tracker, Test::LacksKey(Key::Str(Rc::clone(name))));
                Ok(None)
            }
        }
    }

    /// Binds (`Some`) or deletes (`None`) a global name.
    pub fn set_global(&mut self, name: &Name, value: Option<VarId>) -> Flow<()> {
        let globals = self.stack.frame().globals.share(self.py);
        if value.is_none() && self.find_global(name)?.is_none() {
            return Err(self.raise(PyNameError::new_err(format!("name '{name}' is not defined"))));
        }
        if let Some(names) = self.stack.frame().global_names {
            let key = self.trace.string(name);
            return match value {
                Some(value) => self.set_item(names, key, value),
                None => self.del_item(names, key),
            };
        }
        self.trace.effects.set_global(self.py, &globals, name, value);
        Ok(())
    }

    /// Returns the globals of a function whose globals dict is `dict`. `tracker` reaches the dict unless it is the
    /// root frame's.
    pub fn globals_of(
        &mut self,
        dict: &Bound<'py, PyDict>,
        tracker: Option<crate::tracker::TrackerId>,
    ) -> Flow<Globals> {
        let root = self.trace.trackers.add(Tracker::Globals);
        let is_root = dict.is(&self.stack.root_globals);
        let tracker = match tracker {
            Some(tracker) if is_root => {
                self.trace.guards.add(tracker, Test::SameAs(root));
                root
            }
            Some(tracker) => tracker,
            None if is_root => root,
            None => {
                return Err(Unwind::break_graph(
                    ReasonId::UnsupportedCall,
                    "a function whose globals cannot be found again",
                ))
            }
        };
        Ok(Globals { dict: dict.clone().unbind(), tracker })
    }
}
