//! Results of statements: values of the graph become tensors of the trace, and containers become containers of variables.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::backend::TensorMeta;
use crate::entity::{SymbolId, VarId};
use crate::error::{Flow, ReasonId, Unwind};
use crate::machine::executor::{CallArgs, OpcodeExecutor, Trace};
use crate::registered;
use crate::tracker;

/// The results of a statement while they are wrapped.
#[derive(Default)]
pub(super) struct Results {
    pub(super) outputs: Vec<SymbolId>,
    /// The variables of the objects wrapped so far, by address: an object that occurs twice is one variable.
    known: FxHashMap<usize, VarId>,
    /// True if a value may be given back that the graph had before, because code of the program has run.
    by_program: bool,
    /// The addresses of containers that existed before the call, and are no argument.
    from_before: FxHashSet<usize>,
}

impl Results {
    /// For a call that has run code of the program, which reaches these containers besides its arguments. `given` has
    /// the arguments, as values of the graph and as variables.
    pub(super) fn of_followed_code<'py>(
        trace: &Trace<'py>,
        given: impl Iterator<Item = (Bound<'py, PyAny>, VarId)>,
        reached: FxHashSet<usize>,
    ) -> Self {
        let mut results = Results { by_program: true, from_before: reached, ..Results::default() };
        for (value, variable) in given {
            if !trace.runtime.is_constant(&value) {
                results.known.insert(value.as_ptr() as usize, variable);
                for held in held_by(&value) {
                    note_containers(&held, &mut results.from_before);
                }
            }
        }
        results
    }

    /// Returns the variable of an object that has one already.
    fn variable_of<'py>(&self, trace: &Trace<'py>, object: &Bound<'py, PyAny>) -> Option<VarId> {
        let known = self.known.get(&(object.as_ptr() as usize)).copied();
        if known.is_some() || !self.by_program {
            return known;
        }
        let symbol = trace.graph.symbol_of(object)?;
        let symbol_of = |variable| trace.vars.get(variable).symbol().or_else(|| trace.graph.inputs.symbol_of(variable));
        trace.vars.iter().map(|(variable, _)| variable).find(|variable| symbol_of(*variable) == Some(symbol))
    }
}

/// Returns what a list, tuple or dict holds.
fn held_by<'py>(object: &Bound<'py, PyAny>) -> Vec<Bound<'py, PyAny>> {
    if let Ok(items) = object.cast::<PyTuple>() {
        return items.iter().collect();
    }
    if let Ok(items) = object.cast::<PyList>() {
        return items.iter().collect();
    }
    object.cast::<PyDict>().map(|entries| entries.values().iter().collect()).unwrap_or_default()
}

/// Notes the addresses of a container and of those in it.
fn note_containers(object: &Bound<'_, PyAny>, found: &mut FxHashSet<usize>) {
    let is_container =
        object.is_instance_of::<PyList>() || object.is_instance_of::<PyDict>() || object.is_instance_of::<PyTuple>();
    if is_container && found.insert(object.as_ptr() as usize) {
        for held in held_by(object) {
            note_containers(&held, found);
        }
    }
}

/// Wraps a statement's result: graph values become tensors, containers become containers of variables.
pub(super) fn wrap_result<'py>(
    cx: &mut OpcodeExecutor<'py>,
    result: &Bound<'py, PyAny>,
    results: &mut Results,
) -> Flow<VarId> {
    if let Some(known) = results.variable_of(&cx.trace, result) {
        return Ok(known);
    }
    let variable = wrap_new_result(cx, result, results)?;
    if !cx.runtime.is_constant(result) {
        results.known.insert(result.as_ptr() as usize, variable);
    }
    Ok(variable)
}

fn wrap_new_result<'py>(
    cx: &mut OpcodeExecutor<'py>,
    result: &Bound<'py, PyAny>,
    results: &mut Results,
) -> Flow<VarId> {
    if let Some(meta) = cx.trace.graph.building.value_meta(result)? {
        return Ok(wrap_value(cx, result, meta, &mut results.outputs));
    }
    if let Ok(items) = result.cast::<PyTuple>() {
        let variables = items.iter().map(|item| wrap_result(cx, &item, results)).collect::<Flow<Vec<_>>>()?;
        let tuple = cx.trace.tuple(variables);
        return if items.is_exact_instance_of::<PyTuple>() { Ok(tuple) } else { of_class(cx, items, tuple) };
    }
    if let Ok(items) = result.cast::<PyList>() {
        let items = items.iter().map(|item| wrap_result(cx, &item, results)).collect::<Flow<Vec<_>>>()?;
        return Ok(cx.trace.list(items));
    }
    if let Ok(entries) = result.cast_exact::<PyDict>() {
        let mut variables = Vec::new();
        for (name, item) in entries {
            let Ok(name) = name.extract::<String>() else {
                let text = "an operation whose result is a dict with keys that are not strings";
                return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
            };
            variables.push((name.into(), wrap_result(cx, &item, results)?));
        }
        let payload = (cx.runtime.factories.keyword_dict)(cx, variables)?;
        return Ok(cx.trace.produce(payload));
    }
    if registered::container_of(result.get_type().as_any()).is_some() {
        let name = tracker::name(result.get_type().as_any());
        let text = format!("an operation whose result is a {name}; results may be tensors in tuples, lists and dicts");
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
    }
    cx.wrap_fresh(result)
}

/// Breaks the graph at results of a function that is one statement if they may hold values of the graph elsewhere than
/// in tuples, lists and dicts, such as in the closure of a function, or if they hold a list or dict that is not made by
/// the call, or that holds itself.
pub(super) fn refuse_other_results<'py>(
    cx: &mut OpcodeExecutor<'py>,
    result: &Bound<'py, PyAny>,
    results: &Results,
) -> Flow<()> {
    refuse_other_results_in(cx, result, results, &mut Vec::new())
}

/// [`refuse_other_results`] of a result that is in the containers `around`.
fn refuse_other_results_in<'py>(
    cx: &mut OpcodeExecutor<'py>,
    result: &Bound<'py, PyAny>,
    results: &Results,
    around: &mut Vec<usize>,
) -> Flow<()> {
    if cx.runtime.is_constant(result) || cx.trace.graph.building.value_meta(result)?.is_some() {
        return Ok(());
    }
    let address = result.as_ptr() as usize;
    if results.known.contains_key(&address) {
        return Ok(());
    }
    let name = tracker::name(result.get_type().as_any());
    let refuse = |what: String| Err(Unwind::break_graph(ReasonId::UnsupportedCall, what));
    let is_tuple = result.is_instance_of::<PyTuple>();
    if !is_tuple && !result.is_instance_of::<PyList>() && !result.is_exact_instance_of::<PyDict>() {
        return refuse(format!(
            "a function that is one statement gives a {name}; tensors in tuples, lists and dicts are results"
        ));
    }
    if !is_tuple && results.from_before.contains(&address) {
        return refuse(format!("a function that is one statement gives a {name} that existed before the call"));
    }
    if around.contains(&address) {
        return refuse(format!("a function that is one statement gives a {name} that holds itself"));
    }
    around.push(address);
    for held in held_by(result) {
        refuse_other_results_in(cx, &held, results, around)?;
    }
    around.pop();
    Ok(())
}

/// Makes a named tuple of its class from the items.
fn of_class<'py>(cx: &mut OpcodeExecutor<'py>, object: &Bound<'py, PyTuple>, items: VarId) -> Flow<VarId> {
    let class = cx.wrap_fresh(object.get_type().as_any())?;
    let make = cx.py.get_type::<PyTuple>().getattr("__new__")?;
    cx.call_builtin(&make, &CallArgs::positional(vec![class, items]), false)
}

fn wrap_value<'py>(
    cx: &mut OpcodeExecutor<'py>,
    value: &Bound<'py, PyAny>,
    meta: TensorMeta,
    outputs: &mut Vec<SymbolId>,
) -> VarId {
    let symbol = cx.trace.graph.symbols.add_result(value.clone().unbind());
    outputs.push(symbol);
    let payload = (cx.runtime.factories.tensor)(symbol, meta);
    cx.trace.produce(payload)
}
