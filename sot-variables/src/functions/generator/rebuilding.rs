//! Code that makes a generator of the trace again.

use pyo3::types::PyString;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::Frame;
use sot_core::guard::Test;
use sot_core::tracker::Tracker;
use sot_core::variable::Rebuild;
use sot_core::variable::VarId;

use super::GeneratorVariable;
use crate::containers::dict::DictVariable;
use crate::iterators::{emit_call, rebuild};

/// `CO_VARARGS | CO_VARKEYWORDS`
const STARRED: u32 = 0x0c;

/// The arguments a frame that has not run was called with. Those that are cell variables stand in their cells.
fn arguments(cg: &mut dyn Rebuild<'_>, frame: &Frame) -> Option<Vec<VarId>> {
    let code = &frame.code.code;
    (0..code.total_args())
        .map(|slot| {
            if let Some(value) = frame.locals[slot] {
                return Some(value);
            }
            let name = frame.code.varnames.get(slot)?;
            let cell = code.cellvars.iter().position(|cell| cell.as_str() == &**name)?;
            cg.cx().vars.get(*frame.cells.get(cell)?).children().first().copied()
        })
        .collect()
}

/// Emits a call of the generator's function anew.
pub(super) fn rebuild_fresh(cg: &mut dyn Rebuild<'_>, frame: &Frame) -> Flow<()> {
    let code = &frame.code.code;
    let refuse = || Unwind::fallback(ReasonId::CannotRestore, "a generator made in the function");
    if code.flags & STARRED != 0 {
        return Err(refuse());
    }
    let mut positional = arguments(cg, frame).ok_or_else(refuse)?;
    let values = positional.split_off(code.arg_count as usize);
    let names = &frame.code.varnames[code.arg_count as usize..];
    let keywords = names.iter().cloned().zip(values).collect();
    let py = cg.py();
    let tracker = cg.cx_mut().constant_tracker(frame.code.object.clone_ref(py));
    let object = cg.cx_mut().wrap(frame.code.object.bind(py), tracker);
    let dict = frame.globals.dict.bind(py).clone().into_any();
    let globals = (cg.cx().runtime.factories.object)(dict.unbind());
    let globals = cg.cx_mut().vars.add(globals, frame.globals.tracker);
    let cells = cg.cx_mut().tuple(frame.cells[code.cellvars.len()..].to_vec());
    let positional = cg.cx_mut().tuple(positional);
    let keywords = DictVariable::from_keywords(cg.cx_mut(), keywords)?;
    let keywords = cg.cx_mut().produce(keywords);
    emit_call(cg, rebuild::generator, &[object, globals, cells, positional, keywords])
}

fn text_constant(cg: &mut dyn Rebuild<'_>, text: &str) -> VarId {
    let text = PyString::new(cg.py(), text).into_any().unbind();
    cg.cx_mut().constant(text)
}

/// Emits code that makes a generator of that name which has ended.
pub(super) fn rebuild_finished(cg: &mut dyn Rebuild<'_>, ended: &GeneratorVariable) -> Flow<()> {
    let (name, qualname) = (text_constant(cg, &ended.name), text_constant(cg, &ended.qualname));
    let code = match &ended.code {
        Some(code) => {
            let py = cg.py();
            let tracker = cg.cx_mut().constant_tracker(code.clone_ref(py));
            cg.cx_mut().wrap(code.bind(py), tracker)
        }
        None => cg.cx_mut().none(),
    };
    emit_call(cg, rebuild::finished_generator, &[name, qualname, code])
}

impl GeneratorVariable {
    /// Gives what has been made the names that the function has, and goes on to have.
    pub(super) fn restore_names(&self, cg: &mut dyn Rebuild<'_>, this: VarId, frame: &Frame) -> Flow<()> {
        let Some(function) = self.function else { return Ok(()) };
        let of = cg.cx().vars.tracker(function);
        let code = &frame.code.code;
        for (attribute, name, usual) in
            [("__name__", &self.name, &code.name), ("__qualname__", &self.qualname, &code.qualname)]
        {
            if cg.cx().trackers.is_sourced(of) {
                let name = PyString::new(cg.py(), name).into_any().unbind();
                let tracker = cg.cx_mut().trackers.add(Tracker::Getattr { of, name: attribute.into() });
                cg.cx_mut().guards.add(tracker, Test::Equals(name));
            }
            if **name != **usual {
                if !cg.is_defined(this) {
                    cg.define(this)?;
                }
                let name = text_constant(cg, name);
                cg.store_attr(this, attribute, Some(name))?;
            }
        }
        Ok(())
    }
}
