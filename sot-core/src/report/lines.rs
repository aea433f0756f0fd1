//! The status of each source line, over all translations.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{FunctionReport, GraphReport, TranslationReport};

/// Status of a line. If a line has several, the greatest one is reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LineStatus {
    /// Evaluated while tracing; guards protect the values.
    #[default]
    Traced,
    /// Run by CPython, because there is no tensor work in it.
    Native,
    /// Its operations are called one by one.
    Replayed,
    /// Its operations are part of a program.
    Program,
    /// The function is left to CPython.
    Fallback,
    /// A graph ends in it.
    Break,
}

/// One line.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LineReport {
    /// Number of the line.
    pub line: u32,
    /// The greatest status of the line.
    pub status: LineStatus,
    /// Number of operations for this line, over all graphs.
    pub statements: usize,
    /// Numbers of the translations that the line is in.
    pub translations: BTreeSet<u64>,
}

type Lines = BTreeMap<String, BTreeMap<u32, LineReport>>;

/// Ids of reasons that are not reported for lines: the frame has no tensor work, or it raises.
const HARMLESS: [&str; 2] = ["nothing-to-compile", "raises"];

/// The lines of all files.
pub(super) fn status_of_lines(translations: &[&TranslationReport]) -> BTreeMap<String, Vec<LineReport>> {
    let mut lines = Lines::new();
    for translation in translations {
        add_simulated(&mut lines, translation);
        for graph in translation.graphs.iter().filter(|_| translation.outcome == "translated") {
            add_statements(&mut lines, translation, graph);
        }
        add_reason(&mut lines, translation);
    }
    lines.into_iter().map(|(file, lines)| (file, lines.into_values().collect())).collect()
}

fn note(lines: &mut Lines, file: &str, line: u32, status: LineStatus, translation: u64) {
    if !lines.contains_key(file) {
        lines.insert(file.to_owned(), BTreeMap::new());
    }
    let Some(lines) = lines.get_mut(file) else { return };
    let known = lines.entry(line).or_insert_with(|| LineReport { line, status, ..LineReport::default() });
    known.status = known.status.max(status);
    known.translations.insert(translation);
}

fn add_simulated(lines: &mut Lines, translation: &TranslationReport) {
    let is_left = translation.outcome == "fallback";
    let is_harmless = translation.reason.as_ref().is_some_and(|reason| HARMLESS.contains(&reason.id));
    for (index, function) in translation.functions.iter().enumerate() {
        let FunctionReport { file, lines: all, simulated, .. } = function;
        let status = match (is_left, is_harmless) {
            (false, _) => LineStatus::Traced,
            (true, true) => LineStatus::Native,
            // Functions that it had called are translated by themselves.
            (true, false) if index == 0 => LineStatus::Fallback,
            (true, false) => continue,
        };
        let whole = status == LineStatus::Fallback && translation.resume.is_none();
        for &line in if whole { all } else { simulated } {
            note(lines, file, line, status, translation.id);
        }
    }
}

/// Adds the lines of the statements, and of the calls around them.
fn add_statements(lines: &mut Lines, translation: &TranslationReport, graph: &GraphReport) {
    let status = if graph.replayed.is_some() { LineStatus::Replayed } else { LineStatus::Program };
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for statement in &graph.statements {
        *counts.entry(statement.place).or_default() += 1;
    }
    for (place, statements) in counts {
        let mut at = translation.places.get(place as usize);
        while let Some(place) = at {
            if let Some(function) = translation.functions.get(place.function as usize) {
                note(lines, &function.file, place.line, status, translation.id);
                if let Some(line) = lines.get_mut(&function.file).and_then(|lines| lines.get_mut(&place.line)) {
                    line.statements += statements;
                }
            }
            at = place.parent.and_then(|parent| translation.places.get(parent as usize));
        }
    }
}

fn add_reason(lines: &mut Lines, translation: &TranslationReport) {
    let Some(reason) = translation.reason.as_ref().filter(|reason| !HARMLESS.contains(&reason.id)) else { return };
    let status = if translation.outcome == "translated" { LineStatus::Break } else { LineStatus::Fallback };
    for at in &reason.stack {
        note(lines, &at.file, at.line, status, translation.id);
    }
}
