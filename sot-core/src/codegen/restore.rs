//! Writes what surrounds the graph in new code: the call of the graph, and the replay of the writes.

use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use rustc_hash::FxHashSet;

use super::CodeGen;
use crate::bytecode::Op;
use crate::cpython::{self, DescriptorKind};
use crate::error::Flow;
use crate::graph::StatementIR;
use crate::machine::executor::{CallArgs, Name};
use crate::machine::variable::{Argument, Rebuild, VarId};
use crate::side_effects::{key_of_entry, Effect};
use crate::trace::{self, FinishedGraph};
use crate::tracker::{Tracker, TrackerId};

impl CodeGen<'_, '_> {
    /// Calls the graph, if there is one, and stores its outputs into locals.
    pub(super) fn call_graph(&mut self, graph: Option<FinishedGraph>) -> Flow<Vec<StatementIR>> {
        let Some(FinishedGraph { callable, inputs, outputs, ir }) = graph else { return Ok(Vec::new()) };
        let start = if self.ranges.is_beginning() { None } else { Some(self.emitter.begin_try()?) };
        self.call_of(callable, inputs.iter().map(Argument::from))?;
        if let Some(start) = start {
            self.ranges.set_graph_call(start, self.emitter.end_try()?);
        }
        self.op(Op::UNPACK_SEQUENCE, outputs.len() as u32)?;
        for &variable in &outputs {
            self.define(variable)?;
        }
        self.outputs = outputs;
        Ok(vec![ir])
    }

    /// Moves the values `dying` into locals that own them alone, so that they die one after the other when the frame
    /// ends.
    pub(super) fn leave_to(&mut self, dying: &[VarId]) -> Flow<()> {
        if dying.is_empty() {
            return Ok(());
        }
        let temps = self.slots.all();
        for (at, &variable) in dying.iter().enumerate() {
            self.load(variable)?;
            let last = self.emitter.new_local(&format!("___d{at}"));
            self.op(Op::STORE_FAST, last)?;
        }
        for temp in temps {
            self.load_const(self.trace.py.None())?;
            self.op(Op::STORE_FAST, temp)?;
        }
        Ok(())
    }

    /// Replays the writes. All values are made first, in the state before the writes.
    pub(super) fn restore_effects(&mut self) -> Flow<()> {
        let outputs = std::mem::take(&mut self.outputs);
        let put_on_them = |cg: &Self| -> Vec<VarId> {
            let values = outputs.iter().flat_map(|output| cg.trace.effects.attributes_of(*output));
            values.map(|(_, value)| value).collect()
        };
        for value in put_on_them(self)
            .into_iter()
            .chain(trace::replayed_values(self.trace))
            .chain(trace::written_objects(self.trace))
        {
            self.keep(value)?;
        }
        for output in outputs {
            self.fill_attributes(output)?;
        }
        let effects = self.trace.effects.log().to_vec();
        for effect in &effects {
            if let Effect::Global { globals, .. } = effect {
                self.keep_globals(*globals)?;
            }
        }
        let mut restored = FxHashSet::default();
        for effect in effects {
            match effect {
                Effect::Attribute { object, name, value } if trace::outlives(self.trace, object) => {
                    self.restore_attribute(object, &name, value)?;
                }
                Effect::Global { globals, name, value } => self.restore_global(globals, &name, value)?,
                Effect::Contents { container: changed } | Effect::Cell { cell: changed }
                    if trace::outlives(self.trace, changed) && restored.insert(changed) =>
                {
                    let payload = self.trace.vars.get(changed);
                    payload.restore_contents(self, changed)?;
                }
                Effect::Call { callable, args, keywords } => self.replay_call(callable, &args, &keywords)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Sets the attributes of a new object, of any kind, as they are in the trace.
    pub(super) fn fill_attributes(&mut self, object: VarId) -> Flow<()> {
        for (name, value) in self.trace.effects.attributes_of(object) {
            self.restore_attribute(object, &name, Some(value))?;
        }
        Ok(())
    }

    /// Writes an attribute where the program wrote it, directly or by a `__setattr__` of its own. The hook is not
    /// called again.
    fn restore_attribute(&mut self, object: VarId, name: &Name, value: Option<VarId>) -> Flow<()> {
        let py = self.trace.py;
        if let Some(key) = key_of_entry(name) {
            return self.restore_entry(object, key, value);
        }
        let ty = self.trace.vars.get(object).python_type(self.trace);
        let Ok(ty) = ty.cast::<PyType>() else { return self.store_attr(object, name, value.map(Argument::from)) };
        // A class of the program with such a name is none of these.
        let in_c = |found: &Bound<'_, PyAny>| DescriptorKind::of(found).is_c_attribute();
        let found = cpython::type_lookup(ty, &PyString::intern(py, name));
        if found.is_some_and(|found| cpython::is_data_descriptor(&found) && !in_c(&found)) {
            return self.restore_entry(object, name, value);
        }
        let hook = if value.is_some() { "__setattr__" } else { "__delattr__" };
        let found = cpython::type_lookup(ty, &PyString::intern(py, hook));
        if found.is_none_or(|found| DescriptorKind::of(&found) != DescriptorKind::Function) {
            return self.store_attr(object, name, value.map(Argument::from));
        }
        let set = py.get_type::<PyAny>().getattr(hook)?.unbind();
        let args = [object.into(), Argument::string(py, name)].into_iter().chain(value.map(Argument::from));
        self.call_of(set, args)?;
        self.op(Op::POP_TOP, 0)
    }

    /// `object.__dict__[key] = value`
    fn restore_entry(&mut self, object: VarId, key: &str, value: Option<VarId>) -> Flow<()> {
        value.map_or(Ok(()), |value| self.load(value))?;
        self.load_instance_dict(object)?;
        self.load_const(PyString::intern(self.trace.py, key).into_any().unbind())?;
        self.op(if value.is_some() { Op::STORE_SUBSCR } else { Op::DELETE_SUBSCR }, 0)
    }

    fn restore_global(&mut self, globals: TrackerId, name: &str, value: Option<VarId>) -> Flow<()> {
        if let Some(value) = value {
            self.load(value)?;
        }
        if *self.trace.trackers.get(globals) == Tracker::Globals {
            let index = self.emitter.name(name);
            return self.op(if value.is_some() { Op::STORE_GLOBAL } else { Op::DELETE_GLOBAL }, index);
        }
        self.load_globals(globals)?;
        let key = pyo3::types::PyString::new(self.trace.py, name).into_any().unbind();
        self.load_const(key)?;
        self.op(if value.is_some() { Op::STORE_SUBSCR } else { Op::DELETE_SUBSCR }, 0)
    }

    fn replay_call(&mut self, callable: VarId, args: &[VarId], keywords: &[(Name, VarId)]) -> Flow<()> {
        let args = CallArgs { positional: args.to_vec(), keywords: keywords.to_vec() };
        self.call_with(callable.into(), &args)?;
        self.op(Op::POP_TOP, 0)
    }
}
