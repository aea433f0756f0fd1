//! A description of what a program computes, so that programs which compute the same can share an executor: for
//! example the layers of a deep model, which differ only in their parameters.

use std::collections::HashMap;

use pyo3::prelude::*;

use crate::backend::numbers::twin;
use crate::backend::paddle::operation;

/// The operations of a program in order, with their attributes and the sources of their operands.
#[derive(Default, PartialEq, Eq)]
pub(crate) struct ProgramStructure {
    operations: Vec<StructureItem>,
    results: Vec<Option<usize>>,
    /// Numbers of the values, in the order in which they are made.
    known: ValueNumbers,
}

/// Numbers of values by their identity in the original program. The identities are not compared, because they do not
/// describe what is computed.
#[derive(Default)]
struct ValueNumbers(HashMap<u64, usize>);

impl PartialEq for ValueNumbers {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
    }
}

impl Eq for ValueNumbers {}

#[derive(PartialEq, Eq)]
enum StructureItem {
    Operation { name: String, attributes: String, operands: Vec<Option<usize>>, results: usize },
    Given { shape: Vec<i64>, dtype: String, stop_gradient: bool },
}

impl ProgramStructure {
    /// Adds an operation, with the values that it takes and the values that it makes.
    pub(super) fn add(&mut self, operation: &Bound<'_, PyAny>, taken: &[u64], given: &[u64]) -> PyResult<()> {
        self.operations.push(StructureItem::Operation {
            name: operation::name_of(operation)?,
            attributes: twin::attributes_text(operation)?,
            operands: taken.iter().map(|id| self.known.0.get(id).copied()).collect(),
            results: given.len(),
        });
        for &id in given {
            self.note(id);
        }
        Ok(())
    }

    /// Adds an input or a parameter.
    pub(super) fn add_given(&mut self, value: &Bound<'_, PyAny>, id: u64) -> PyResult<()> {
        self.operations.push(StructureItem::Given {
            shape: value.getattr("shape")?.extract()?,
            dtype: value.getattr("dtype")?.repr()?.to_string(),
            stop_gradient: value.getattr("stop_gradient")?.is_truthy()?,
        });
        self.note(id);
        Ok(())
    }

    /// Adds a value that is a result of the program.
    pub(super) fn add_result(&mut self, id: u64) {
        self.results.push(self.known.0.get(&id).copied());
    }

    fn note(&mut self, id: u64) {
        let next = self.known.0.len();
        self.known.0.entry(id).or_insert(next);
    }
}
