//! What the new code does around the graph: which values must come out of it, the call, and the replay of the writes.

use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};

use super::CodeGen;
use crate::backend::SizesMatter;
use crate::bytecode::Op;
use crate::compiler;
use crate::cpython;
use crate::error::Flow;
use crate::graph::{StatementIR, SymbolId};
use crate::machine::executor::{CallArgs, Frame, Name};
use crate::machine::variable::{Death, VarId, Variable};
use crate::side_effects::{key_of_entry, Effect};
use crate::stats;
use crate::tracker::{Tracker, TrackerId};

/// These writes, but of those to the contents of a container or cell, which has its final ones only, the first.
fn changed_once<'e>(effects: impl Iterator<Item = &'e Effect>) -> impl Iterator<Item = &'e Effect> {
    let mut changed = HashSet::new();
    effects.filter(move |effect| match effect {
        Effect::Contents { container: written } | Effect::Cell { cell: written } => changed.insert(*written),
        _ => true,
    })
}

impl CodeGen<'_, '_> {
    /// Calls the graph with its inputs and keeps its outputs: every tensor of the trace that `results` or a write
    /// needs.
    pub(super) fn call_graph(&mut self, results: &[VarId], name: &str) -> Flow<Vec<StatementIR>> {
        let outputs = self.escaping_tensors(results);
        if outputs.is_empty() && !self.cx.graph.writes_outside() {
            return Ok(Vec::new());
        }
        let symbols: Vec<SymbolId> = outputs.iter().map(|(symbol, _)| *symbol).collect();
        let inputs = self.cx.graph.inputs();
        let finished = self.cx.graph.finish(name, &symbols);
        let (callable, ir) = match finished {
            Err(error) if error.is_instance_of::<SizesMatter>(self.cx.py) => {
                return Err(self.cx.settle_sizes(error.into()));
            }
            finished => finished?,
        };
        let callable = self.compiled(callable, &ir, &inputs)?;
        let start = if self.begun.is_none() { Some(self.emitter.begin_try()?) } else { None };
        self.call(|cg| cg.load_const(callable), &inputs)?;
        if let Some(start) = start {
            self.graph_call = Some((start, self.emitter.end_try()?));
        }
        self.op(Op::UNPACK_SEQUENCE, outputs.len() as u32)?;
        for (_, variable) in outputs {
            let temp = self.temp(variable);
            self.op(Op::STORE_FAST, temp)?;
            self.outputs.push(variable);
        }
        Ok(vec![ir])
    }

    /// The callable that the program's own compiler makes of the finished graph, if one is in use. A graph that changes what it
    /// is given stays the backend's.
    fn compiled(&mut self, callable: Py<PyAny>, ir: &StatementIR, inputs: &[VarId]) -> Flow<Py<PyAny>> {
        let py = self.cx.py;
        if !compiler::is_any() || self.cx.graph.writes_outside() {
            return Ok(callable);
        }
        let given = |input: &VarId| self.cx.vars.get(*input).object().map(|object| object.bind(py).clone());
        let graph = compiler::Finished {
            ir,
            program: self.cx.graph.program.take().map(|program| program.into_bound(py)),
            inputs: inputs.iter().map(given).collect(),
            callable: &callable,
        };
        let made = compiler::compile(py, &graph)?;
        Ok(made.unwrap_or(callable))
    }

    /// The graph's tensors that can be reached from `results` and from the writes.
    fn escaping_tensors(&mut self, results: &[VarId]) -> Vec<(SymbolId, VarId)> {
        let mut log: Vec<&Effect> = changed_once(self.cx.effects.log().iter().rev()).collect();
        log.reverse();
        let mut pending: Vec<VarId> = log.into_iter().flat_map(|effect| self.values_of(effect)).collect();
        pending.extend(results.iter().rev());
        let symbol = |variable: &VarId| Some((self.cx.vars.get(*variable).symbol()?, *variable));
        self.reachable(pending).iter().filter_map(symbol).collect()
    }

    /// What can be reached, each once, in the order of the way there.
    fn reachable(&self, mut pending: Vec<VarId>) -> Vec<VarId> {
        let (mut seen, mut found) = (HashSet::new(), Vec::new());
        stats::work(pending.len());
        while let Some(variable) = pending.pop() {
            if !seen.insert(variable) {
                continue;
            }
            found.push(variable);
            let payload = self.cx.vars.get(variable);
            // What can be loaded brings its own contents along; its writes are effects.
            let tracker = self.cx.vars.tracker(variable);
            if payload.constant().is_none() {
                pending.extend(self.cx.trackers.made_with(tracker));
            }
            if !self.cx.trackers.is_loadable(tracker) {
                pending.extend(payload.children());
                pending.extend(self.cx.effects.attributes_of(variable).into_iter().map(|(_, value)| value));
            }
        }
        found
    }

    /// What the program drops unless these values hold it, and what shows when it dies, if anything does.
    fn dropped(&mut self, results: &[VarId]) -> Vec<VarId> {
        let runs = |(id, payload): (VarId, &Rc<dyn Variable>)| payload.runs_when_dropped(self.cx).then_some(id);
        let observable: Vec<VarId> = self.cx.vars.iter().filter_map(runs).collect();
        if observable.is_empty() {
            return Vec::new();
        }
        let lasting = self.lasting_values().into_iter().chain(results.iter().copied()).collect();
        let living: HashSet<VarId> = self.reachable(lasting).into_iter().collect();
        let dropped = observable.into_iter().filter(|id| !living.contains(id));
        let deaths = dropped.map(|id| (id, self.cx.vars.get(id).death(self.cx, id, &living)));
        let deaths: Vec<(VarId, Death)> = deaths.filter(|(_, death)| *death != Death::Silent).collect();
        if deaths.iter().all(|(_, death)| *death == Death::Refused) {
            // No one will ask for the tracebacks of the exceptions that they hold.
            let held = self.reachable(deaths.iter().map(|(id, _)| *id).collect());
            held.into_iter().filter(|held| !living.contains(held)).for_each(|held| self.cx.forget_raised(held));
        }
        deaths.into_iter().map(|(id, _)| id).collect()
    }

    /// What runs code of the program when it dies and has died before the graph ends is CPython's from the start.
    pub(super) fn refuse_dropped(&mut self, live: &[VarId]) -> Flow<()> {
        let dropped = self.dropped(live);
        dropped.first().map_or(Ok(()), |id| Err(self.cx.plan_to_make(*id, "runs code when it dies")))
    }

    /// The variables of the frame that hold the last references to what runs code when it dies, in the order in which
    /// they let it go: new code holds them to its end, too.
    pub(super) fn dying_with(&mut self, frame: &Frame, result: VarId) -> Flow<Vec<VarId>> {
        let dropped = self.dropped(&[result]);
        let variables = frame.locals.iter().flatten().chain(&frame.cells);
        let (mut dying, mut held): (Vec<VarId>, HashSet<VarId>) = Default::default();
        for &variable in variables {
            let reachable = self.reachable(vec![variable]);
            let last: Vec<VarId> = dropped.iter().filter(|dropped| reachable.contains(dropped)).copied().collect();
            if !last.is_empty() && !dying.contains(&variable) {
                dying.push(variable);
                held.extend(last);
            }
        }
        match dropped.iter().find(|dropped| !held.contains(dropped)) {
            Some(value) => Err(self.cx.plan_to_make(*value, "runs code when it dies")),
            None => Ok(dying),
        }
    }

    /// Leaves what the variables `dying` hold to them alone, so that it dies when they let it go, one after the other.
    pub(super) fn leave_to(&mut self, dying: &[VarId]) -> Flow<()> {
        if dying.is_empty() {
            return Ok(());
        }
        let temps: BTreeSet<u32> = self.temps.values().copied().collect();
        for (at, &variable) in dying.iter().enumerate() {
            self.load(variable)?;
            let last = self.emitter.new_local(&format!("___d{at}"));
            self.op(Op::STORE_FAST, last)?;
        }
        for temp in temps {
            let none = self.cx.py.None();
            self.load_const(none)?;
            self.op(Op::STORE_FAST, temp)?;
        }
        Ok(())
    }

    /// What the writes leave in what outlives the frame.
    fn lasting_values(&self) -> Vec<VarId> {
        let mut last = HashSet::new();
        let log = self.cx.effects.log().iter().rev();
        let lasting = log.filter(|effect| match effect {
            Effect::Attribute { object, name, .. } => last.insert((Some(*object), None, Rc::clone(name))),
            Effect::Global { globals, name, .. } => last.insert((None, Some(*globals), Rc::clone(name))),
            _ => true,
        });
        changed_once(lasting).flat_map(|effect| self.values_of(effect)).collect()
    }

    fn effect_values(&self) -> Vec<VarId> {
        changed_once(self.cx.effects.log().iter()).flat_map(|effect| self.values_of(effect)).collect()
    }

    /// What a write hands to what outlives the frame.
    fn values_of(&self, effect: &Effect) -> Vec<VarId> {
        match effect {
            Effect::Attribute { object, value, .. } => value.filter(|_| self.outlives(*object)).into_iter().collect(),
            Effect::Global { value, .. } => value.iter().copied().collect(),
            Effect::Contents { container: changed } | Effect::Cell { cell: changed } => {
                if self.outlives(*changed) {
                    self.cx.vars.get(*changed).children()
                } else {
                    Vec::new()
                }
            }
            Effect::Call { callable, args, keywords } => {
                let keywords = keywords.iter().map(|(_, value)| value);
                [callable].into_iter().chain(args).chain(keywords).copied().collect()
            }
        }
    }

    fn written_objects(&self) -> Vec<VarId> {
        self.cx.effects.written().filter(|object| self.outlives(*object)).collect()
    }

    /// Whether the object was there before the frame ran, or something that was there holds it: writes to other objects
    /// are part of making them.
    fn outlives(&self, object: VarId) -> bool {
        self.cx.trackers.is_loadable(self.cx.vars.tracker(object)) || self.cx.vars.get(object).is_held_outside()
    }

    /// Replays the writes. All values are made first, from the state before the writes.
    pub(super) fn restore_effects(&mut self) -> Flow<()> {
        let outputs = std::mem::take(&mut self.outputs);
        let put_on_them = |cg: &Self| -> Vec<VarId> {
            let values = outputs.iter().flat_map(|output| cg.cx.effects.attributes_of(*output));
            values.map(|(_, value)| value).collect()
        };
        for value in put_on_them(self).into_iter().chain(self.effect_values()).chain(self.written_objects()) {
            self.keep(value)?;
        }
        for output in outputs {
            self.fill_attributes(output)?;
        }
        let effects = self.cx.effects.log().to_vec();
        for effect in &effects {
            if let Effect::Global { globals, .. } = effect {
                self.keep_globals(*globals)?;
            }
        }
        let mut restored = HashSet::new();
        for effect in effects {
            match effect {
                Effect::Attribute { object, name, value } if self.outlives(object) => {
                    self.restore_attribute(object, &name, value)?;
                }
                Effect::Global { globals, name, value } => self.restore_global(globals, &name, value)?,
                Effect::Contents { container: changed } | Effect::Cell { cell: changed }
                    if self.outlives(changed) && restored.insert(changed) =>
                {
                    let payload = self.cx.vars.get(changed);
                    payload.restore_contents(self, changed)?;
                }
                Effect::Call { callable, args, keywords } => self.replay_call(callable, &args, &keywords)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Gives an object that was just made, of whatever kind, the attributes that it has in the trace.
    pub(super) fn fill_attributes(&mut self, object: VarId) -> Flow<()> {
        for (name, value) in self.cx.effects.attributes_of(object) {
            self.restore_attribute(object, &name, Some(value))?;
        }
        Ok(())
    }

    /// The entry that the program wrote, be it directly or in a `__setattr__` of its own: no hook is asked again.
    fn restore_attribute(&mut self, object: VarId, name: &Name, value: Option<VarId>) -> Flow<()> {
        let py = self.cx.py;
        if let Some(key) = key_of_entry(name) {
            return self.restore_entry(object, key, value);
        }
        let ty = self.cx.vars.get(object).python_type(self.cx);
        let Ok(ty) = ty.cast::<PyType>() else { return self.store_attr(object, name, value) };
        let in_c = |found: &Bound<'_, PyAny>| {
            ["member_descriptor", "getset_descriptor"].contains(&&*cpython::type_name(&found.get_type()))
        };
        let found = cpython::type_lookup(ty, &PyString::intern(py, name));
        if found.is_some_and(|found| cpython::is_data_descriptor(&found) && !in_c(&found)) {
            return self.restore_entry(object, name, value);
        }
        let hook = if value.is_some() { "__setattr__" } else { "__delattr__" };
        let found = cpython::type_lookup(ty, &PyString::intern(py, hook));
        if found.is_none_or(|found| cpython::type_name(&found.get_type()) != "function") {
            return self.store_attr(object, name, value);
        }
        let set = py.get_type::<PyAny>().getattr(hook)?.unbind();
        let name = self.cx.string(name);
        let args: Vec<VarId> = [object, name].into_iter().chain(value).collect();
        self.call(|cg| cg.load_const(set), &args)?;
        self.op(Op::POP_TOP, 0)
    }

    /// `object.__dict__[key] = value`
    fn restore_entry(&mut self, object: VarId, key: &str, value: Option<VarId>) -> Flow<()> {
        value.map_or(Ok(()), |value| self.load(value))?;
        self.load_instance_dict(object)?;
        self.load_const(PyString::intern(self.cx.py, key).into_any().unbind())?;
        self.op(if value.is_some() { Op::STORE_SUBSCR } else { Op::DELETE_SUBSCR }, 0)
    }

    fn restore_global(&mut self, globals: TrackerId, name: &str, value: Option<VarId>) -> Flow<()> {
        if let Some(value) = value {
            self.load(value)?;
        }
        if *self.cx.trackers.get(globals) == Tracker::Globals {
            let index = self.emitter.name(name);
            return self.op(if value.is_some() { Op::STORE_GLOBAL } else { Op::DELETE_GLOBAL }, index);
        }
        self.load_globals(globals)?;
        let key = pyo3::types::PyString::new(self.cx.py, name).into_any().unbind();
        self.load_const(key)?;
        self.op(if value.is_some() { Op::STORE_SUBSCR } else { Op::DELETE_SUBSCR }, 0)
    }

    fn replay_call(&mut self, callable: VarId, args: &[VarId], keywords: &[(Name, VarId)]) -> Flow<()> {
        let args = CallArgs { positional: args.to_vec(), keywords: keywords.to_vec() };
        self.call_with(callable, &args)?;
        self.op(Op::POP_TOP, 0)
    }
}
