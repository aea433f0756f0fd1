//! The symbols of a graph: the names that its values have in the StatementIR.

use std::collections::hash_map::Entry;

use pyo3::prelude::*;
use rustc_hash::FxHashMap;

use super::SymbolId;

struct Symbol {
    name: String,
    value: Py<PyAny>,
    /// Memory of the value, once it was asked for.
    memory: Option<u64>,
}

/// The symbols of a graph, with the backend's values.
#[derive(Default)]
pub(crate) struct Symbols {
    all: Vec<Symbol>,
    /// The first symbol of each value, by the value's address. The symbols keep the values alive.
    first: FxHashMap<usize, SymbolId>,
    /// True if one value entered the graph as several symbols. Only a program keeps these apart, replay does not.
    has_value_entered_twice: bool,
    /// True if a statement returned one of its arguments, as a module does that leaves its input unchanged.
    has_given_argument: bool,
}

impl Symbols {
    /// The name that the next symbol will have.
    pub(crate) fn next_name(&self) -> String {
        format!("var_{}", self.all.len())
    }

    /// Adds a symbol for a value that enters the graph.
    pub(crate) fn add_input(&mut self, value: Py<PyAny>) -> SymbolId {
        let (id, is_first) = self.add(value);
        self.has_value_entered_twice |= !is_first;
        id
    }

    /// Adds a symbol for a statement's result.
    pub(crate) fn add_result(&mut self, value: Py<PyAny>) -> SymbolId {
        let (id, is_first) = self.add(value);
        self.has_given_argument |= !is_first;
        id
    }

    /// Adds a symbol. Returns also whether no earlier symbol has this value.
    fn add(&mut self, value: Py<PyAny>) -> (SymbolId, bool) {
        let id = SymbolId(self.all.len() as u32);
        let is_first = match self.first.entry(value.as_ptr() as usize) {
            Entry::Vacant(entry) => {
                entry.insert(id);
                true
            }
            Entry::Occupied(_) => false,
        };
        self.all.push(Symbol { name: self.next_name(), value, memory: None });
        (id, is_first)
    }

    /// Returns the name of a symbol.
    pub(crate) fn name(&self, symbol: SymbolId) -> &str {
        &self.all[symbol.0 as usize].name
    }

    /// Returns the value of a symbol.
    pub(crate) fn value(&self, symbol: SymbolId) -> &Py<PyAny> {
        &self.all[symbol.0 as usize].value
    }

    /// Returns the first symbol that has a value.
    pub(super) fn first_of(&self, value: &Bound<'_, PyAny>) -> Option<SymbolId> {
        self.first.get(&(value.as_ptr() as usize)).copied()
    }

    /// The memory of a symbol's value, once it was noted.
    pub(crate) fn memory(&self, symbol: SymbolId) -> Option<u64> {
        self.all[symbol.0 as usize].memory
    }

    /// Notes the memory of a symbol's value.
    pub(crate) fn note_memory(&mut self, symbol: SymbolId, memory: u64) {
        self.all[symbol.0 as usize].memory = Some(memory);
    }

    /// Number of symbols.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The symbols by name.
    pub(super) fn by_name(&self) -> impl Iterator<Item = (&str, SymbolId)> {
        self.all.iter().enumerate().map(|(at, symbol)| (&*symbol.name, SymbolId(at as u32)))
    }

    /// True if a value identifies its tensor in a replay. It does not if one value entered as several symbols, or if
    /// a statement returned its argument and some statement writes in place.
    pub(super) fn tell_values_apart(&self, writes_in_place: bool) -> bool {
        !(self.has_value_entered_twice || self.has_given_argument && writes_in_place)
    }
}
