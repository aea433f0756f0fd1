//! The source record of a simulation: the functions and lines that were simulated, and the place of each statement.

use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::{FunctionReport, PlaceReport};
use crate::bytecode::CodeUnit;

/// The functions and lines that a simulation went through, and the places of its statements.
#[derive(Default)]
pub struct SourceRecord {
    functions: Vec<(Rc<CodeUnit>, BTreeSet<u32>)>,
    by_code: FxHashMap<usize, u32>,
    places: Vec<PlaceReport>,
    by_place: FxHashMap<PlaceReport, u32>,
    /// The registrations of plug-ins and of the program that took part.
    pub registrations: BTreeSet<String>,
}

impl SourceRecord {
    /// Returns the index of a function, adding the function at first use.
    pub fn function(&mut self, unit: &Rc<CodeUnit>) -> u32 {
        let functions = &mut self.functions;
        *self.by_code.entry(unit.object.as_ptr() as usize).or_insert_with(|| {
            functions.push((Rc::clone(unit), BTreeSet::new()));
            functions.len() as u32 - 1
        })
    }

    /// Notes that a line of a function is simulated.
    pub fn note_line(&mut self, unit: &Rc<CodeUnit>, line: u32) {
        let function = self.function(unit);
        self.functions[function as usize].1.insert(line);
    }

    /// Returns the index of a place, adding the place at first use.
    pub fn place(&mut self, place: PlaceReport) -> u32 {
        if let Some(&known) = self.by_place.get(&place) {
            return known;
        }
        let index = self.places.len() as u32;
        self.places.push(place.clone());
        self.by_place.insert(place, index);
        index
    }

    /// Ends the record. Returns its functions and places.
    pub fn finish(self) -> (Vec<FunctionReport>, Vec<PlaceReport>) {
        let functions = self.functions.into_iter().map(|(unit, simulated)| {
            let lines: BTreeSet<u32> = unit.code.instructions.iter().filter_map(|at| at.position.line).collect();
            FunctionReport {
                name: unit.code.qualname.clone(),
                file: unit.code.filename.clone(),
                line: unit.code.first_line,
                lines: lines.into_iter().collect(),
                simulated: simulated.into_iter().collect(),
            }
        });
        (functions.collect(), self.places)
    }
}
