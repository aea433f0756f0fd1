//! The results of a run, as a table of interpreters and steps.

use std::time::Duration;

/// Result of a step for an interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    Passed {
        counts: String,
        taken: Duration,
    },
    Failed {
        counts: String,
        taken: Duration,
        /// The names of the tests that failed, each with the reason where the test runner tells it in one line.
        tests: Vec<String>,
    },
    /// The step was not run, for this reason.
    Skipped(String),
}

impl Cell {
    pub(crate) fn failed_at_once() -> Cell {
        Cell::Failed { counts: String::new(), taken: Duration::ZERO, tests: Vec::new() }
    }

    pub(crate) fn is_failure(&self) -> bool {
        matches!(self, Cell::Failed { .. })
    }

    fn text(&self) -> String {
        match self {
            Cell::Passed { counts, taken } => spaced(&[counts, &seconds(*taken)]),
            Cell::Failed { counts, taken, .. } => spaced(&["FAILED", counts, &seconds(*taken)]),
            Cell::Skipped(why) => why.clone(),
        }
    }
}

fn spaced(parts: &[&str]) -> String {
    parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(" ")
}

fn seconds(taken: Duration) -> String {
    format!("{:.1} s", taken.as_secs_f64())
}

/// A table with a heading and a row for each interpreter.
pub(crate) struct Report {
    heading: Vec<String>,
    rows: Vec<(String, Vec<Cell>)>,
}

impl Report {
    pub(crate) fn new(columns: &[&str]) -> Report {
        let heading = std::iter::once("Python").chain(columns.iter().copied()).map(str::to_owned).collect();
        Report { heading, rows: Vec::new() }
    }

    pub(crate) fn add(&mut self, python: String, cells: Vec<Cell>) {
        self.rows.push((python, cells));
    }

    /// Counts the interpreters with a failure.
    pub(crate) fn failures(&self) -> usize {
        self.rows.iter().filter(|(_, cells)| cells.iter().any(Cell::is_failure)).count()
    }

    /// Lists the tests that failed, each after its interpreter.
    pub(crate) fn failed_tests(&self) -> Vec<String> {
        let named = |(python, cells): &(String, Vec<Cell>)| {
            let tests = cells.iter().flat_map(|cell| match cell {
                Cell::Failed { tests, .. } => tests.as_slice(),
                _ => &[],
            });
            tests.map(|test| format!("{python}: {test}")).collect::<Vec<_>>()
        };
        self.rows.iter().flat_map(named).collect()
    }

    /// Returns the table with aligned columns.
    pub(crate) fn text(&self) -> String {
        let body = self.rows.iter().map(|(python, cells)| {
            std::iter::once(python.clone()).chain(cells.iter().map(Cell::text)).collect::<Vec<_>>()
        });
        let rows: Vec<Vec<String>> = std::iter::once(self.heading.clone()).chain(body).collect();
        let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|t| t.chars().count()).max();
        let widths: Vec<usize> = (0..self.heading.len()).map(|column| width(column).unwrap_or(0)).collect();
        let line = |row: &Vec<String>| {
            let padded: Vec<String> = row.iter().zip(&widths).map(|(text, width)| format!("{text:<width$}")).collect();
            padded.join("  ").trim_end().to_owned()
        };
        rows.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_failures_are_counted() {
        let mut report = Report::new(&["build", "tests"]);
        let passed = |counts: &str| Cell::Passed { counts: counts.to_owned(), taken: Duration::from_millis(1500) };
        report.add("3.8".to_owned(), vec![passed(""), passed("3 passed")]);
        report.add("3.12".to_owned(), vec![Cell::failed_at_once(), Cell::Skipped("not built".to_owned())]);
        assert_eq!(report.failures(), 1);
        let expected = "Python  build         tests\n\
                        3.8     1.5 s         3 passed 1.5 s\n\
                        3.12    FAILED 0.0 s  not built";
        assert_eq!(report.text(), expected);
    }

    #[test]
    fn failed_tests_are_listed_after_their_interpreter() {
        let mut report = Report::new(&["tests"]);
        let failed = |tests: &[&str]| Cell::Failed {
            counts: String::new(),
            taken: Duration::ZERO,
            tests: tests.iter().map(|&test| test.to_owned()).collect(),
        };
        report.add("3.8".to_owned(), vec![failed(&["a", "b"])]);
        report.add("3.9".to_owned(), vec![Cell::Skipped("not built".to_owned())]);
        report.add("3.10".to_owned(), vec![failed(&["a"])]);
        assert_eq!(report.failed_tests(), ["3.8: a", "3.8: b", "3.10: a"]);
    }
}
