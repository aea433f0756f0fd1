//! A graph as reports show it: operations with their places in the source, and the metas of its values.

use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use super::{unit, FunctionGraph, SymbolId};
use crate::ir::StatementIR;
use crate::report::{GraphReport, StatementReport, ValueReport};

/// Where a statement was made, and the object that it calls as a whole.
pub(crate) struct StatementPlace {
    pub(crate) place: u32,
    pub(crate) object: Option<String>,
}

/// What reports show of a graph. It is empty unless the user asked for details.
#[derive(Default)]
pub(super) struct Drawing {
    /// Where each statement was made.
    pub(super) places: Vec<StatementPlace>,
    /// The report of the finished graph.
    graph: Option<GraphReport>,
}

impl FunctionGraph<'_> {
    /// Notes the place of the last statement.
    pub(crate) fn note_place(&mut self, place: StatementPlace) {
        self.drawing.places.push(place);
    }

    /// Keeps the report of the graph, if the places of its statements were noted. An error does not reach the
    /// program.
    pub(super) fn draw(&mut self, ir: &StatementIR) {
        if self.drawing.places.is_empty() || self.drawing.places.len() != ir.statements.len() {
            return;
        }
        match self.drawn(ir) {
            Ok(graph) => self.drawing.graph = Some(graph),
            Err(error) => error.write_unraisable(self.py, None),
        }
    }

    /// Takes the report of the finished graph.
    pub(crate) fn take_drawn(&mut self, ir: &StatementIR) -> Option<GraphReport> {
        let folded = (!ir.parts.is_empty()).then(|| ir.to_string());
        Some(GraphReport { name: ir.name.clone(), replayed: ir.replayed, folded, ..self.drawing.graph.take()? })
    }

    fn drawn(&mut self, ir: &StatementIR) -> PyResult<GraphReport> {
        let symbols: FxHashMap<String, SymbolId> =
            self.symbols.by_name().map(|(name, symbol)| (name.to_owned(), symbol)).collect();
        let places = std::mem::take(&mut self.drawing.places);
        let statements: Vec<StatementReport> = ir
            .statements
            .iter()
            .zip(places)
            .map(|(statement, at)| StatementReport {
                text: statement.to_string(),
                callee: statement.callee.clone(),
                uses: unit::uses(statement),
                outputs: statement.outputs.clone(),
                place: at.place,
                object: at.object,
            })
            .collect();
        let mut values = Vec::new();
        let mut known = std::collections::HashSet::new();
        for name in &ir.inputs {
            known.insert(name.clone());
            values.push(self.described(name, "input", symbols.get(name))?);
        }
        for statement in &statements {
            for name in statement.uses.iter().chain(&statement.outputs) {
                if known.insert(name.clone()) {
                    let role = if statement.outputs.contains(name) { "result" } else { "parameter" };
                    values.push(self.described(name, role, symbols.get(name))?);
                }
            }
        }
        let (inputs, outputs) = (ir.inputs.clone(), ir.outputs.clone());
        Ok(GraphReport { inputs, outputs, values, statements, ..GraphReport::default() })
    }

    fn described(&mut self, name: &str, role: &'static str, symbol: Option<&SymbolId>) -> PyResult<ValueReport> {
        let meta = match symbol {
            Some(&symbol) => {
                let value = self.value(symbol);
                self.building.value_meta(&value)?
            }
            None => None,
        };
        Ok(ValueReport {
            name: name.to_owned(),
            role,
            dtype: meta.as_ref().map(|meta| meta.dtype.to_string()),
            shape: meta.map(|meta| meta.shape),
            from: None,
        })
    }
}
