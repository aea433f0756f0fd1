//! Emits code that rebuilds a generator of the trace.

use pyo3::types::PyString;
use sot_core::bytecode::flags::STARRED;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{Frame, Name, OpcodeExecutor};
use sot_core::guard::Test;
use sot_core::tracker::Tracker;
use sot_core::variable::VarId;
use sot_core::variable::{Argument, Rebuild};

use super::GeneratorVariable;
use crate::iterators::{emit_call, rebuild};

/// Returns the arguments that a frame was called with, which has not run yet. Arguments that are cell variables are
/// in their cells.
fn arguments(cg: &mut dyn Rebuild<'_>, frame: &Frame) -> Option<Vec<VarId>> {
    let code = &frame.code.code;
    (0..code.total_args())
        .map(|slot| {
            if let Some(value) = frame.locals[slot] {
                return Some(value);
            }
            let name = frame.code.varnames().get(slot)?;
            let cell = code.cellvars.iter().position(|cell| cell.as_str() == &**name)?;
            cg.trace().vars.get(*frame.cells.get(cell)?).children().first().copied()
        })
        .collect()
}

/// Emits another call of the generator's function.
pub(super) fn rebuild_fresh(cg: &mut dyn Rebuild<'_>, frame: &Frame) -> Flow<()> {
    let code = &frame.code.code;
    let refuse = || Unwind::fallback(ReasonId::CannotRestore, "a generator made in the function");
    if code.flags & STARRED != 0 {
        return Err(refuse());
    }
    let mut positional = arguments(cg, frame).ok_or_else(refuse)?;
    let values = positional.split_off(code.arg_count as usize);
    let names = &frame.code.varnames()[code.arg_count as usize..];
    let keywords: Vec<(Name, VarId)> = names.iter().cloned().zip(values).collect();
    let py = cg.py();
    let parts = [
        Argument::Constant(frame.code.object.clone_ref(py)),
        Argument::Globals(frame.globals.tracker),
        Argument::tuple(&frame.cells[code.cellvars.len()..]),
        Argument::tuple(positional),
        Argument::keywords(py, &keywords),
    ];
    emit_call(cg, rebuild::generator, parts)
}

/// Emits code that makes a finished generator with the names of `ended`.
pub(super) fn rebuild_finished(cg: &mut dyn Rebuild<'_>, ended: &GeneratorVariable) -> Flow<()> {
    let py = cg.py();
    let code = ended.code.as_ref().map_or_else(|| py.None(), |code| code.clone_ref(py));
    let (name, qualname) = (Argument::string(py, &ended.name), Argument::string(py, &ended.qualname));
    emit_call(cg, rebuild::finished_generator, [name, qualname, Argument::Constant(code)])
}

impl GeneratorVariable {
    /// Guards that the function keeps its names.
    pub(super) fn assume_names(&self, cx: &mut OpcodeExecutor<'_>) {
        let Some(function) = self.function else { return };
        let of = cx.trace.vars.tracker(function);
        if !cx.trace.trackers.is_sourced(of) {
            return;
        }
        for (attribute, name) in [("__name__", &self.name), ("__qualname__", &self.qualname)] {
            let name = PyString::new(cx.py, name).into_any().unbind();
            let tracker = cx.trace.trackers.add(Tracker::Getattr { of, name: attribute.into() });
            cx.trace.guards.add(tracker, Test::Equals(name));
        }
    }

    /// Emits code that renames the rebuilt generator, if its function was renamed.
    pub(super) fn restore_names(&self, cg: &mut dyn Rebuild<'_>, this: VarId, frame: &Frame) -> Flow<()> {
        if self.function.is_none() {
            return Ok(());
        }
        let code = &frame.code.code;
        for (attribute, name, usual) in
            [("__name__", &self.name, &code.name), ("__qualname__", &self.qualname, &code.qualname)]
        {
            if **name != **usual {
                if !cg.is_defined(this) {
                    cg.define(this)?;
                }
                let name = Argument::string(cg.py(), name);
                cg.store_attr(this, attribute, Some(name))?;
            }
        }
        Ok(())
    }
}
