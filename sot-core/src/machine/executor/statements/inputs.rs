//! Inputs and parameters of the graph: the tensors, numbers and arrays from outside that statements take.

use pyo3::prelude::*;

use super::in_place;
use crate::backend::{GraphBuilder, TensorMeta};
use crate::cpython::WeakRef;
use crate::entity::{SymbolId, VarId};
use crate::error::{Flow, ReasonId, Unwind};
use crate::guard::{Identity, Test};
use crate::machine::executor::OpcodeExecutor;
use crate::machine::variable::GraphArgument;
use crate::tracker::Tracker;

impl<'py> OpcodeExecutor<'py> {
    /// Returns the symbol of a tensor from outside: a parameter of the graph, or an input passed at each call.
    pub fn graph_input(&mut self, variable: VarId, tensor: &Bound<'py, PyAny>, meta: &TensorMeta) -> Flow<SymbolId> {
        if let Some(symbol) = self.trace.graph.inputs.symbol_of(variable) {
            return Ok(symbol);
        }
        let tracker = self.trace.vars.tracker(variable);
        let refuse = |error: PyErr| {
            Unwind::break_graph(ReasonId::BackendRefused, format!("a tensor cannot enter the graph: {error}"))
        };
        // A function is called with one parameter after another, so a parameter that is an argument is an input.
        let is_argument = matches!(self.trace.trackers.get(tracker), Tracker::Local { .. });
        let is_parameter = self.runtime.backend().is_parameter(tensor)
            && !is_argument
            && !in_place::is_written(self, tracker)
            && !self.trace.is_short_lived(tracker);
        let name = self.trace.graph.symbols.next_name();
        let make = |builder: &mut dyn GraphBuilder| {
            if is_parameter {
                builder.parameter(tensor)
            } else {
                builder.input(&name, tensor, meta)
            }
        };
        let value = self.trace.graph.building.build(make).map_err(refuse)?;
        let symbol = self.trace.graph.symbols.add_input(value);
        if is_parameter {
            self.trace.graph.inputs.add_parameter(symbol, variable, WeakRef::new(tensor, None).ok());
            self.trace.guards.add(tracker, Test::Is(Identity::of(tensor)));
        } else {
            self.trace.graph.inputs.pass(symbol, variable);
        }
        Ok(symbol)
    }

    /// Returns the symbol of a number that is passed at each call.
    pub(crate) fn number_input(&mut self, variable: VarId, number: &Bound<'py, PyAny>) -> PyResult<SymbolId> {
        if let Some(symbol) = self.trace.graph.inputs.symbol_of(variable) {
            return Ok(symbol);
        }
        // The program may compute the number once more, as in `a[i : i + n], b[i : i + n]`.
        let tracker = self.trace.vars.tracker(variable);
        let is_same = |other: VarId| self.trace.vars.tracker(other) == tracker;
        if let Some(symbol) = self.trace.graph.inputs.passed_number(is_same) {
            return Ok(symbol);
        }
        let name = self.trace.graph.symbols.next_name();
        let value = self.trace.graph.building.build(|builder| builder.number(&name, number))?;
        let symbol = self.trace.graph.symbols.add_input(value);
        self.trace.graph.inputs.pass_number(symbol, variable);
        Ok(symbol)
    }

    /// True if the statement that is being made accepts arrays that are passed at each call.
    pub fn takes_arrays(&self) -> bool {
        self.statement.takes_arrays
    }

    /// Returns an array as an argument of the statement that is being made, passed at each call. In `shape`, `None`
    /// stands for an open size. Returns `None` if the statement accepts no arrays.
    pub fn array_input(
        &mut self,
        variable: VarId,
        array: &Bound<'py, PyAny>,
        shape: &[Option<i64>],
    ) -> Flow<Option<GraphArgument>> {
        if !self.statement.takes_arrays {
            return Ok(None);
        }
        let known = self.trace.graph.inputs.symbol_of(variable);
        let symbol = if known.is_some() { known } else { new_array_input(self, variable, array, shape)? };
        Ok(symbol.map(|symbol| {
            let (value, text) = (self.trace.graph.value(symbol).unbind(), self.trace.graph.name(symbol).to_owned());
            GraphArgument { value, text, holds_tensor: true }
        }))
    }
}

fn new_array_input<'py>(
    cx: &mut OpcodeExecutor<'py>,
    variable: VarId,
    array: &Bound<'py, PyAny>,
    shape: &[Option<i64>],
) -> PyResult<Option<SymbolId>> {
    let name = cx.trace.graph.symbols.next_name();
    let Some(value) = cx.trace.graph.building.build(|builder| builder.array(&name, array, shape))? else {
        return Ok(None);
    };
    let symbol = cx.trace.graph.symbols.add_input(value);
    cx.trace.graph.inputs.pass(symbol, variable);
    Ok(Some(symbol))
}
