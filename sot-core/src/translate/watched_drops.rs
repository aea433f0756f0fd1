//! Values whose destruction is observable: generators, objects with a `__del__` of the program's, and referents of weak
//! references with a callback. The frame of a resume function may own the last reference to such an argument: directly,
//! in a container, or in the frames of an exception's traceback. Any frame may take the last
//! reference out of a container that it was given.

use std::collections::HashSet;

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrame, PyFrozenSet, PyList, PyModule, PySet, PyString, PyTraceback, PyTuple, PyType};

use crate::cpython::{self, FreshFrame};
use crate::error::Flow;
use crate::machine::executor::{Frame, OpcodeExecutor, WatchedDrop};

/// More than so many values are not looked through.
const MOST: usize = 1000;

/// Makes the trace stop where the program drops such an argument of the frame.
pub(super) fn watch(cx: &mut OpcodeExecutor<'_>, fresh: &FreshFrame<'_, '_>, root: &Frame) -> Flow<()> {
    let look = Look::new(fresh.py())?;
    for (slot, value) in root.locals.iter().enumerate() {
        let (Some(value), Some(object)) = (*value, fresh.arg(slot)) else { continue };
        if look.shows(&object) {
            // The caller holds what any other frame was given.
            if cx.history.is_resumed {
                cx.see(value)?;
                cx.watch(WatchedDrop::Itself(value));
            }
            continue;
        }
        for inside in look.inside(object)? {
            cx.watch(WatchedDrop::Inside { holder: value, object: inside.unbind() });
        }
    }
    Ok(())
}

struct Look<'py> {
    generator: Bound<'py, PyAny>,
    deque: Bound<'py, PyAny>,
    weak_references: Bound<'py, PyAny>,
    referents: Bound<'py, PyAny>,
}

impl<'py> Look<'py> {
    fn new(py: Python<'py>) -> PyResult<Look<'py>> {
        let of = |module, name: &str| cpython::import(py, module)?.getattr(name);
        Ok(Look {
            generator: of("types", "GeneratorType")?,
            deque: of("collections", "deque")?,
            weak_references: of("weakref", "getweakrefs")?,
            referents: of("gc", "get_referents")?,
        })
    }

    fn shows(&self, object: &Bound<'py, PyAny>) -> bool {
        let ty = object.get_type();
        let lives_on = object.is_instance_of::<PyType>() || object.is_instance_of::<PyModule>();
        if !lives_on && self.is_told_of(object).unwrap_or(false) {
            return true;
        }
        let hook = cpython::type_lookup(&ty, &PyString::intern(ty.py(), "__del__"));
        ty.is(&self.generator) || hook.is_some_and(|hook| cpython::builtin_type_name(&hook) == "function")
    }

    fn is_told_of(&self, object: &Bound<'py, PyAny>) -> PyResult<bool> {
        let mut references = self.weak_references.call1((object,))?.try_iter()?;
        references.try_fold(false, |told, weak| Ok(told || !weak?.getattr("__callback__")?.is_none()))
    }

    /// What shows when it dies in containers and tracebacks, from an object on.
    fn inside(&self, object: Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let (mut pending, mut seen, mut found) = (vec![object], HashSet::new(), Vec::new());
        while let Some(holder) = pending.pop() {
            if !seen.insert(holder.as_ptr() as usize) || seen.len() > MOST {
                continue;
            }
            for held in self.held_by(&holder)? {
                if self.shows(&held) {
                    found.push(held);
                } else {
                    pending.push(held);
                }
            }
        }
        Ok(found)
    }

    fn held_by(&self, holder: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let is_container = holder.is_exact_instance_of::<PyList>()
            || holder.is_exact_instance_of::<PyTuple>()
            || holder.is_exact_instance_of::<PyDict>()
            || holder.is_exact_instance_of::<PySet>()
            || holder.is_exact_instance_of::<PyFrozenSet>()
            || holder.get_type().is(&self.deque);
        if is_container {
            return self.referents.call1((holder,))?.try_iter()?.take(MOST).collect();
        }
        if !holder.is_instance_of::<PyBaseException>() {
            return Ok(Vec::new());
        }
        // A class of the program's may have attributes of these names.
        let base = holder.py().get_type::<PyBaseException>();
        let part = |name: &str| base.getattr(name)?.call_method1("__get__", (holder,));
        let mut held: Vec<_> = ["__context__", "__cause__"].iter().filter_map(|name| part(name).ok()).collect();
        // The first frame is the one that has caught it, and runs still.
        let mut at = part("__traceback__")?.getattr_opt("tb_next")?;
        while let Some(traceback) = at.as_ref().and_then(|at| at.cast::<PyTraceback>().ok()) {
            let frame = traceback.getattr("tb_frame")?;
            let namespaces = [frame.getattr("f_globals")?, frame.getattr("f_builtins")?];
            for local in self.referents.call1((&frame,))?.try_iter()? {
                let local = local?;
                if !local.is_instance_of::<PyFrame>() && !namespaces.iter().any(|namespace| namespace.is(&local)) {
                    held.push(local);
                }
            }
            at = traceback.getattr_opt("tb_next")?;
        }
        Ok(held)
    }
}
