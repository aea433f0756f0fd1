//! Graphs as files. Each finished graph is written as text into the folder that `SOT_EXPORT` names, for users to read
//! and to run by itself. The backend writes the text.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use rustc_hash::FxHashMap;

use super::{FunctionGraph, SymbolId};
use crate::ir::{Exported, StatementIR, TensorMeta};

/// The folder that graphs are exported to, if the user wants it. Read each time, because tests change it.
pub fn folder() -> Option<PathBuf> {
    std::env::var_os("SOT_EXPORT").filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// The export of one graph.
pub(super) struct Exporting {
    /// The folder, unless graphs are not exported, or this one has been.
    folder: Option<PathBuf>,
    /// The target that each statement's result is assigned to.
    targets: Vec<String>,
}

impl Exporting {
    pub(super) fn new() -> Self {
        Exporting { folder: folder(), targets: Vec::new() }
    }

    /// Removes the targets of the statements behind the first `statements`.
    pub(super) fn roll_back(&mut self, statements: usize) {
        self.targets.truncate(statements);
    }
}

/// Symbol names with their metas.
type Described = Vec<(String, TensorMeta)>;

impl<'py> FunctionGraph<'py> {
    /// Notes the target that the result of a statement is assigned to in an exported graph.
    pub(crate) fn note_target(&mut self, result: &Bound<'py, PyAny>, outputs: &[SymbolId]) -> PyResult<()> {
        if self.exporting.folder.is_some() {
            let target = self.target(result, &mut outputs.iter(), &mut FxHashMap::default())?;
            self.exporting.targets.push(target);
        }
        Ok(())
    }

    fn target<'a>(
        &mut self,
        result: &Bound<'py, PyAny>,
        outputs: &mut impl Iterator<Item = &'a SymbolId>,
        named: &mut FxHashMap<usize, String>,
    ) -> PyResult<String> {
        let address = result.as_ptr() as usize;
        // A value that occurs twice is one output.
        if let Some(name) = named.get(&address) {
            return Ok(name.clone());
        }
        if self.building.value_meta(result)?.is_some() {
            let name = outputs.next().map_or_else(|| "_".to_owned(), |symbol| self.name(*symbol).to_owned());
            named.insert(address, name.clone());
            return Ok(name);
        }
        if !(result.is_instance_of::<PyTuple>() || result.is_instance_of::<PyList>()) {
            return Ok("_".to_owned());
        }
        let items: Vec<String> =
            result.try_iter()?.map(|item| self.target(&item?, outputs, named)).collect::<PyResult<_>>()?;
        Ok(format!("[{}]", items.join(", ")))
    }

    /// Exports the graph. An error does not reach the program.
    pub(super) fn export(&mut self, ir: &StatementIR) {
        let Some(folder) = self.exporting.folder.take() else { return };
        let exported = self.with_metas().and_then(|(inputs, parameters)| {
            let graph = Exported { ir, targets: &self.exporting.targets, inputs, parameters };
            self.building.backend().user_interface().export(self.py, &folder, &graph)
        });
        if let Err(error) = exported {
            error.write_unraisable(self.py, None);
        }
    }

    /// The described inputs, and the described parameters.
    fn with_metas(&mut self) -> PyResult<(Described, Described)> {
        let inputs: Vec<SymbolId> = self.inputs.passed_symbols().collect();
        let mut parameters: Vec<SymbolId> =
            self.inputs.entered().map(|(_, symbol)| symbol).filter(|symbol| !inputs.contains(symbol)).collect();
        parameters.sort_unstable();
        let mut described = |symbols: &[SymbolId]| -> PyResult<Described> {
            let mut all = Vec::with_capacity(symbols.len());
            for &symbol in symbols {
                let value = self.value(symbol);
                if let Some(meta) = self.building.value_meta(&value)? {
                    all.push((self.name(symbol).to_owned(), meta));
                }
            }
            Ok(all)
        };
        Ok((described(&inputs)?, described(&parameters)?))
    }
}
