//! Loading and storing of names: constants, locals, cells, globals, builtins.

use std::rc::Rc;

use pyo3::exceptions::{PyNameError, PyUnboundLocalError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::stack::bad_operand;
use super::{Globals, Name, OpcodeExecutor, Trace};
use crate::cpython;
use crate::error::{Flow, ReasonId, Unwind};
use crate::guard::Test;
use crate::machine::variable::VarId;
use crate::tracker::{Key, Tracker};

impl<'py> Trace<'py> {
    /// The value of a name in these globals, if there is one. Guards that it exists, or does not.
    pub fn find_global_in(&mut self, globals: &Globals, name: &Name) -> Flow<Option<VarId>> {
        let py = self.py;
        if let Some(written) = self.effects.global(&globals.dict, name) {
            return Ok(written);
        }
        self.refuse_written_names(globals.dict.bind(py))?;
        match globals.dict.bind(py).get_item(&**name)? {
            Some(object) => {
                let key = Key::Str(Rc::clone(name));
                let tracker = self.trackers.add(Tracker::Item { of: globals.tracker, key });
                self.guards.require(tracker);
                Ok(Some(self.wrap(&object, tracker)))
            }
            None => {
                self.guards.add(globals.tracker, Test::LacksKey(Key::Str(Rc::clone(name))));
                Ok(None)
            }
        }
    }

    /// Breaks the graph if a module's `__dict__` was written as a dict. Reads and writes of its variables would miss
    /// such writes.
    pub fn refuse_written_names(&self, names: &Bound<'py, PyDict>) -> Flow<()> {
        match self.identities.of(names.as_any()) {
            Some(met) if self.effects.written().any(|written| written == met) => {
                let text = "a variable of a module whose __dict__ is written as a dict, too";
                Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text))
            }
            _ => Ok(()),
        }
    }
}

/// `co_consts[index]`
pub fn load_const(cx: &mut OpcodeExecutor<'_>, index: u32) -> Flow<VarId> {
    let code = Rc::clone(&cx.stack.frame().code);
    let value = code.code.consts.get(index as usize).ok_or_else(|| bad_operand("constant"))?;
    let value = value.bind(cx.py);
    if crate::cpython::is_atom(value) {
        return Ok(cx.trace.constant(value.clone().unbind()));
    }
    let tracker = cx.trace.trackers.constant(value.clone().unbind());
    Ok(cx.trace.wrap(value, tracker))
}

/// The local in a slot; an unbound one raises `UnboundLocalError` in the program.
pub fn load_fast(cx: &mut OpcodeExecutor<'_>, slot: u32) -> Flow<VarId> {
    match cx.stack.frame().locals.get(slot as usize) {
        Some(Some(value)) => Ok(*value),
        Some(None) => {
            let name = Rc::clone(&cx.stack.frame().code.varnames()[slot as usize]);
            Err(cx.raise(PyUnboundLocalError::new_err(format!("local variable '{name}' referenced before assignment"))))
        }
        None => Err(bad_operand("local")),
    }
}

/// The value of a global name: from the frame's globals, else from the builtins.
pub fn load_global(cx: &mut OpcodeExecutor<'_>, name: &Name) -> Flow<VarId> {
    if let Some(value) = find_global(cx, name)? {
        return Ok(value);
    }
    if let Some(value) = find_builtin(cx, name)? {
        return Ok(value);
    }
    let error = cx.raise(PyNameError::new_err(format!("name '{name}' is not defined")));
    if let Unwind::Raise(exception) = error {
        let name = cx.trace.string(name);
        (cx.runtime.factories.tell)(cx, exception, &[("name", name)])?;
    }
    Err(error)
}

/// The value of a name in the frame's globals, if there is one.
pub fn find_global(cx: &mut OpcodeExecutor<'_>, name: &Name) -> Flow<Option<VarId>> {
    if let Some(names) = cx.stack.frame().global_names {
        let key = cx.trace.string(name);
        let found = cx.contains(names, key, false)?;
        return if cx.truth(found)? { cx.get_item(names, key).map(Some) } else { Ok(None) };
    }
    let globals = cx.stack.frame().globals.share(cx.py);
    cx.trace.find_global_in(&globals, name)
}

/// The value of a builtin name, if there is one. Breaks the graph if the frame's globals have a `__builtins__` of
/// their own, as those of a sandbox do.
pub fn find_builtin(cx: &mut OpcodeExecutor<'_>, name: &Name) -> Flow<Option<VarId>> {
    let module = cpython::import(cx.py, "builtins")?;
    let builtins = module.dict();
    // Names that `exec` or `eval` was given are looked up elsewhere, and get the builtins of the caller.
    let frame = cx.stack.frame();
    let globals = frame.globals.dict.bind(cx.py);
    let own = cpython::dict_get(globals, intern!(cx.py, "__builtins__"));
    if frame.global_names.is_none() && own.is_some_and(|own| !own.is(&builtins) && !own.is(&module)) {
        let text = format!("the name '{name}' in a function with builtins of its own");
        return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
    }
    let tracker = cx.trace.trackers.add(Tracker::Builtins);
    cx.trace.find_global_in(&Globals { dict: builtins.unbind(), tracker }, name)
}

/// Binds (`Some`) or deletes (`None`) a global name.
pub fn set_global(cx: &mut OpcodeExecutor<'_>, name: &Name, value: Option<VarId>) -> Flow<()> {
    let globals = cx.stack.frame().globals.share(cx.py);
    if value.is_none() && find_global(cx, name)?.is_none() {
        return Err(cx.raise(PyNameError::new_err(format!("name '{name}' is not defined"))));
    }
    if let Some(names) = cx.stack.frame().global_names {
        let key = cx.trace.string(name);
        return match value {
            Some(value) => cx.set_item(names, key, value),
            None => cx.del_item(names, key),
        };
    }
    cx.trace.effects.set_global(cx.py, &globals, name, value);
    Ok(())
}

/// Returns the globals of a function whose globals dict is `dict`. `tracker` reaches the dict unless it is the
/// root frame's.
pub fn globals_of<'py>(
    cx: &mut OpcodeExecutor<'py>,
    dict: &Bound<'py, PyDict>,
    tracker: Option<crate::tracker::TrackerId>,
) -> Flow<Globals> {
    let root = cx.trace.trackers.add(Tracker::Globals);
    let is_root = dict.is(&cx.stack.root_globals);
    let tracker = match tracker {
        Some(tracker) if is_root => {
            cx.trace.guards.add(tracker, Test::SameAs(root));
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
