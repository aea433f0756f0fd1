//! Operations that change a tensor in place. In the graph they have a new value as result, which becomes the value of
//! the tensor's variable, and so of all that refers to the tensor. That is right as long as no reachable tensor
//! shares memory with the tensor, since it would not show the change.
//!
//! For a tensor from outside the graph, the new value is written back into that tensor when the graph has run. Only
//! the run can tell whether other inputs share memory with it; then the statements are called one by one.

use std::rc::Rc;

use pyo3::prelude::*;
use rustc_hash::FxHashSet;

use crate::backend::{CallKind, TensorMeta};
use crate::entity::SymbolId;
use crate::error::{Flow, ReasonId, Unwind};
use crate::graph::Write;
use crate::machine::executor::{CallArgs, OpcodeExecutor, Trace};
use crate::machine::variable::{Form, VarId, Variable};
use crate::side_effects::Effect;
use crate::tracker::TrackerId;

impl<'py> OpcodeExecutor<'py> {
    /// Calls an operation that changes its first argument, a tensor, in place. Returns that tensor.
    pub fn call_in_place(&mut self, callee: &Bound<'py, PyAny>, name: &str, args: &CallArgs) -> Flow<VarId> {
        let refuse = |why: &str| Unwind::break_graph(ReasonId::UnsupportedMutation, format!("{name} changes {why}"));
        let Some(&tensor) = args.positional.first() else {
            return Err(refuse("a tensor that is not its first argument"));
        };
        let payload = self.see(tensor)?;
        if self.trace.graph.building.has_memory() {
            return change_in_memory(self, callee, name, args, &refuse);
        }
        let symbol = match payload.symbol() {
            Some(symbol) => symbol,
            None => outside(self, tensor, &*payload, &refuse)?,
        };
        let input = self.trace.graph.inputs.symbol_of(tensor);
        // A kernel may read what it has already written. The values of `__setitem__` are copied first.
        let operands: Vec<VarId> = if name == "__setitem__" { Vec::new() } else { args.all().collect() };
        refuse_sharing(self, tensor, symbol, &operands, &refuse)?;
        let before = meta(self, symbol)?;
        let at = self.trace.graph.mark().statements;
        let changed = self.call_graph(CallKind::InPlace, callee, name, args)?;
        let payload = self.trace.vars.get(changed);
        let after = payload.symbol().map(|symbol| meta(self, symbol)).transpose()?.flatten();
        let keeps_gradient = match payload.symbol() {
            Some(symbol) if input.is_some() => {
                let value = self.trace.graph.value(symbol);
                self.trace.graph.building.builder()?.keeps_gradient(&value)?
            }
            _ => false,
        };
        // Open sizes are read from the tensor after the graph has run, so the tensor must keep its shape.
        let may_become_another = input.is_none() && !self.sizes.are_open();
        let stays = |a: &TensorMeta, b: &TensorMeta| may_become_another || (a.shape == b.shape && a.dtype == b.dtype);
        match (before, after) {
            (Some(before), Some(after))
                if stays(&before, &after) && (keeps_gradient || before.gradient.flows <= after.gradient.flows) =>
            {
                let payload = match (input, payload.symbol()) {
                    (Some(input), Some(symbol)) => {
                        let write = Write { input, after: symbol, at };
                        write_outside(self, tensor, write, (after, keeps_gradient), &refuse)?
                    }
                    _ => payload,
                };
                self.trace.vars.set(tensor, payload);
                // Nothing refers to the result's variable. It must not count as another tensor that shares the
                // memory.
                let none = self.trace.none();
                let none = self.trace.vars.get(none);
                self.trace.vars.set(changed, none);
                Ok(tensor)
            }
            (Some(before), Some(after)) if before.gradient.flows && !after.gradient.flows => {
                Err(refuse("a tensor that gradients of the graph flow to, without a record of the change"))
            }
            _ => Err(refuse("what the tensor is, not only its numbers")),
        }
    }
}

/// Records a write to a tensor from outside, which happens when the graph has run. Returns the tensor's new payload.
fn write_outside(
    cx: &mut OpcodeExecutor<'_>,
    tensor: VarId,
    write: Write,
    (after, keeps_gradient): (TensorMeta, bool),
    refuse: &dyn Fn(&str) -> Unwind,
) -> Flow<Rc<dyn Variable>> {
    if after.gradient.flows {
        return Err(refuse("a tensor in place that exists outside the graph, which would begin to require gradients"));
    }
    let symbol = write.after;
    cx.trace.graph.writes.push(write);
    if !cx.trace.graph.can_be_called() {
        return Err(refuse("a tensor from outside the graph by a call that cannot be repeated"));
    }
    let gradient = after.gradient.with(keeps_gradient);
    let meta = TensorMeta { gradient, ..after };
    Ok((cx.runtime.factories.written)(cx.py, symbol, meta, cx.trace.vars.get(tensor)))
}

/// Calls an operation that changes its first argument in place, on a backend whose values have memory. The statement
/// changes the memory in the graph as in eager mode, for all values that share it.
fn change_in_memory<'py>(
    cx: &mut OpcodeExecutor<'py>,
    callee: &Bound<'py, PyAny>,
    name: &str,
    args: &CallArgs,
    refuse: &dyn Fn(&str) -> Unwind,
) -> Flow<VarId> {
    let tensor = args.positional[0];
    let payload = cx.see(tensor)?;
    if let Some(object) = payload.object().map(|object| object.bind(cx.py).clone()) {
        if !cx.trace.graph.building.builder()?.may_write_to(&object) {
            return Err(refuse("a tensor in place that exists outside the graph"));
        }
    }
    let value = payload.graph_argument(cx, tensor)?.value.into_bound(cx.py);
    let before = cx.trace.graph.building.value_meta(&value)?;
    cx.call_graph(CallKind::InPlace, callee, name, args)?;
    if before.is_none() || cx.trace.graph.building.value_meta(&value)? != before {
        return Err(refuse("what the tensor is, not only its numbers"));
    }
    Ok(tensor)
}

/// True if an earlier attempt has found that a parameter is changed in place.
pub(super) fn is_written(cx: &OpcodeExecutor<'_>, parameter: TrackerId) -> bool {
    cx.sizes.is_written(cx.trace.trackers.path(parameter))
}

/// Returns the symbol of a tensor from outside that may be changed.
fn outside(
    cx: &mut OpcodeExecutor<'_>,
    tensor: VarId,
    payload: &dyn Variable,
    refuse: &dyn Fn(&str) -> Unwind,
) -> Flow<SymbolId> {
    let there = "a tensor in place that exists outside the graph";
    let tracker = cx.trace.vars.tracker(tensor);
    let object = payload.object().filter(|_| payload.form() == Form::Tensor && cx.trace.trackers.is_sourced(tracker));
    let Some(object) = object.map(|object| object.bind(cx.py).clone()) else { return Err(refuse(there)) };
    if !cx.trace.graph.building.builder()?.may_write_to(&object) || !cx.trace.graph.can_be_called() {
        return Err(refuse(there));
    }
    payload.graph_argument(cx, tensor)?;
    if cx.trace.graph.inputs.is_parameter(tensor) {
        let path = cx.trace.trackers.path(tracker);
        cx.note_abandoned(&format!("{path} is changed in place, so it becomes an input of the graph"));
        return Err(cx.sizes.note_written(path));
    }
    cx.trace.graph.inputs.symbol_of(tensor).ok_or_else(|| refuse(there))
}

fn meta(cx: &mut OpcodeExecutor<'_>, symbol: SymbolId) -> Flow<Option<TensorMeta>> {
    let value = cx.trace.graph.value(symbol);
    Ok(cx.trace.graph.building.value_meta(&value)?)
}

/// Breaks the graph if another tensor may show the change, an operand included, or if a replayed effect would show the
/// change too early.
fn refuse_sharing(
    cx: &mut OpcodeExecutor<'_>,
    tensor: VarId,
    symbol: SymbolId,
    operands: &[VarId],
    refuse: &dyn Fn(&str) -> Unwind,
) -> Flow<()> {
    let memory = memory_of(cx, symbol)?;
    let others = cx.trace.graph.inputs.entered().filter(|(variable, _)| *variable != tensor);
    let outside: Vec<SymbolId> = others.map(|(_, symbol)| symbol).collect();
    for other in outside {
        if memory_of(cx, other)? == memory {
            return Err(refuse("a tensor in place that may share memory with one from outside the graph"));
        }
    }
    let mut shared = Vec::new();
    for (id, payload) in cx.trace.vars.iter() {
        match payload.symbol() {
            Some(other) if id != tensor => shared.push((id, other)),
            _ => {}
        }
    }
    let mut sharing = FxHashSet::default();
    for (id, other) in shared {
        if memory_of(cx, other)? == memory {
            sharing.insert(id);
        }
    }
    if operands.iter().any(|operand| sharing.contains(operand)) {
        return Err(refuse("a tensor in place that may share memory with an operand"));
    }
    // An earlier write gave a tensor from outside a new value, which it has when the graph has run.
    if sharing.iter().any(|other| cx.trace.graph.inputs.symbol_of(*other).is_some()) {
        return Err(refuse("a tensor in place that may share memory with one from outside the graph"));
    }
    if !sharing.is_empty() {
        let called_directly = cx.stack.iter().skip(1).all(|frame| frame.claim.is_some());
        if !called_directly || !reachable(&cx.trace, roots(cx)).is_disjoint(&sharing) {
            return Err(refuse("a tensor in place that may share memory with another one"));
        }
    }
    let noted = cx.trace.effects.log().iter().filter_map(|effect| match effect {
        Effect::Call { args, keywords, .. } => Some(args.iter().chain(keywords.iter().map(|(_, arg)| arg)).copied()),
        _ => None,
    });
    let noted: Vec<VarId> = noted.flatten().collect();
    if !noted.is_empty() && reachable(&cx.trace, noted).contains(&tensor) {
        return Err(refuse("a tensor that was used for an effect before"));
    }
    Ok(())
}

fn memory_of(cx: &mut OpcodeExecutor<'_>, symbol: SymbolId) -> Flow<u64> {
    if let Some(known) = cx.trace.graph.symbols.memory(symbol) {
        return Ok(known);
    }
    let value = cx.trace.graph.value(symbol);
    let memory = cx.trace.graph.building.builder()?.memory(&value)?;
    cx.trace.graph.symbols.note_memory(symbol, memory);
    Ok(memory)
}

/// The values that the program can still reach: from the frames, and from its writes.
fn roots(cx: &OpcodeExecutor<'_>) -> Vec<VarId> {
    let mut roots = Vec::new();
    for frame in cx.stack.iter() {
        roots.extend(frame.stack.iter().chain(frame.locals.iter().flatten()).chain(&frame.cells));
        roots.extend(frame.handled.iter().map(|handled| handled.exception).chain(frame.variables));
        roots.extend(frame.claim.iter().flat_map(|claim| &claim.below));
    }
    for effect in cx.trace.effects.log() {
        match effect {
            Effect::Attribute { object, value, .. } => roots.extend(std::iter::once(object).chain(value)),
            Effect::Global { value, .. } => roots.extend(value),
            Effect::Contents { container: changed } | Effect::Cell { cell: changed } => roots.push(*changed),
            Effect::Call { callable, args, keywords } => {
                roots.push(*callable);
                roots.extend(args.iter().chain(keywords.iter().map(|(_, arg)| arg)));
            }
        }
    }
    roots
}

fn reachable(trace: &Trace<'_>, mut pending: Vec<VarId>) -> FxHashSet<VarId> {
    let mut seen = FxHashSet::default();
    while let Some(variable) = pending.pop() {
        if seen.insert(variable) {
            pending.extend(trace.vars.get(variable).children());
        }
    }
    seen
}
