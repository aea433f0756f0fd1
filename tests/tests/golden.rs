//! What the tracer makes of a function: each file of `golden/` holds a function, the arguments of a call, and the
//! expected StatementIR, guards and new code. Statements and guards are the same on every version; new code is
//! compared on the versions that the file lists. Functions in a list `MARKED` are also translated on the user's
//! request. With `RESUME = True` the file also holds the resume functions as they are before they are translated.
//!
//! `SOT_BLESS=1` writes the actual output to the files: review the difference. New code is written for the versions
//! in `BLESSED` and for those that a file lists already.
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyTuple};
use sot_core::bytecode::Code;
use sot_core::stats::Record;
use sot_core::version::PyVersion;
use sot_core::{cpython, translate};
use sot_harness as harness;
use sot_harness::suite::{self, Case};

/// One version of each family of bytecodes.
const BLESSED: &[u8] = &[8, 11, 12];

fn main() -> ExitCode {
    let paths = golden_files();
    let all = paths.len();
    let case = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        Case::new(name, move |py| check(py, &path))
    };
    suite::run(paths.into_iter().map(case).collect(), || {
        format!("CPython {}: {all} golden files", PyVersion::BUILT_FOR)
    })
}

/// Compares a file with what the tracer makes of its function, or writes that into it.
fn check(py: Python<'_>, path: &Path) -> Result<(), String> {
    let bless = std::env::var("SOT_BLESS").is_ok_and(|bless| bless == "1");
    let file = Golden::parse(&std::fs::read_to_string(path).map_err(|error| error.to_string())?);
    let found = file.run(py, path).map_err(|error| error.to_string())?;
    if bless {
        return std::fs::write(path, found.to_string()).map_err(|error| error.to_string());
    }
    if found == file {
        return Ok(());
    }
    Err(format!("differs (SOT_BLESS=1 accepts):\n{}", file.difference(&found)))
}

fn golden_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ext| ext == "txt"));
    paths.sort();
    paths
}

/// A file: titled sections, each begun by `-- title`.
#[derive(PartialEq, Eq)]
struct Golden {
    sections: Vec<(String, String)>,
}

impl Golden {
    fn parse(text: &str) -> Golden {
        let mut sections: Vec<(String, String)> = Vec::new();
        for line in text.lines() {
            match (line.strip_prefix("-- "), sections.last_mut()) {
                (Some(title), _) => sections.push((title.to_owned(), String::new())),
                (None, Some((_, body))) => {
                    body.push_str(line);
                    body.push('\n');
                }
                (None, None) => sections.push((String::new(), format!("{line}\n"))),
            }
        }
        for (_, body) in &mut sections {
            *body = body.trim_end().to_owned();
        }
        Golden { sections }
    }

    fn get(&self, title: &str) -> Option<&str> {
        self.sections.iter().find(|(known, _)| known == title).map(|(_, body)| body.as_str())
    }

    fn set(&mut self, title: &str, body: String) {
        match self.sections.iter_mut().find(|(known, _)| known == title) {
            Some((_, old)) => *old = body,
            None => self.sections.push((title.to_owned(), body)),
        }
    }

    /// The same file with what the tracer makes of its function now.
    fn run(&self, py: Python<'_>, path: &Path) -> PyResult<Golden> {
        let source = format!("import toy\n{}\n", self.get("function").unwrap_or_default());
        let module = harness::load_module(py, &source, path)?;
        let arguments = format!("({},)", self.get("arguments").unwrap_or_default());
        let arguments = std::ffi::CString::new(arguments)?;
        let arguments = py.eval(&arguments, Some(&module.dict()), None)?.cast_into::<PyTuple>()?;
        let function = module.getattr("f")?;
        harness::mark(&function)?;
        if let Some(others) = module.getattr_opt("MARKED")? {
            others.try_iter()?.try_for_each(|other| harness::mark(&other?))?;
        }
        harness::reset();
        let (result, records) = harness::recorded(|| harness::call(&function, &arguments, None));
        result?;
        let mut found = Golden { sections: self.sections.clone() };
        found.set("statements", statements(&records));
        found.set("guards", lines(records.iter().flat_map(|record| &record.guards)));
        let minor = PyVersion::BUILT_FOR.0;
        let title = format!("code 3.{minor}");
        if self.get(&title).is_some() || BLESSED.contains(&minor) {
            found.set(&title, lines(records.iter().filter_map(|record| record.code.as_ref())));
            if module.hasattr("RESUME")? {
                found.set(&format!("resume 3.{minor}"), lines(resume_functions(py, &function)?.iter()));
            }
        }
        found.sections.sort_by_key(|(title, _)| order(title));
        Ok(found)
    }

    fn difference(&self, found: &Golden) -> String {
        let differ = found.sections.iter().filter(|(title, body)| self.get(title) != Some(body));
        let shown = differ.map(|(title, body)| {
            format!("{title}\n-- expected\n{}\n-- found\n{body}", self.get(title).unwrap_or("(nothing)"))
        });
        shown.collect::<Vec<_>>().join("\n")
    }
}

impl std::fmt::Display for Golden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (title, body) in &self.sections {
            if !title.is_empty() {
                writeln!(f, "-- {title}")?;
            }
            writeln!(f, "{body}\n")?;
        }
        Ok(())
    }
}

/// The resume functions of a function, as they are before they are translated.
fn resume_functions(py: Python<'_>, function: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let code = cpython::function_code(function.cast::<PyFunction>()?);
    let codes = translate::cache_of(&code).map(|cache| cache.resumes.all(py)).unwrap_or_default();
    let decode = |code: &Py<PyAny>| Code::decode(code.bind(py)).map(|code| code.disassemble(py));
    let mut listings: Vec<String> = codes.iter().filter_map(|code| decode(code).ok()).collect();
    listings.sort();
    Ok(listings)
}

/// Code comes last, older versions first, and what follows a break behind it.
fn order(title: &str) -> (u8, bool) {
    let minor = |prefix: &str| title.strip_prefix(prefix).and_then(|minor| minor.parse::<u8>().ok());
    match (minor("code 3."), minor("resume 3.")) {
        (Some(minor), _) => (100 + minor, false),
        (_, Some(minor)) => (100 + minor, true),
        _ => (0, false),
    }
}

fn statements(records: &[Record]) -> String {
    let mut parts = Vec::new();
    for record in records {
        parts.extend(record.graphs.iter().map(ToString::to_string));
        parts.extend(record.reason.iter().map(|reason| format!("{}: {}", reason.id.id(), reason.text)));
    }
    lines(parts.iter())
}

fn lines<'a>(texts: impl Iterator<Item = &'a String>) -> String {
    let texts: Vec<String> = texts.map(|text| without_addresses(text.trim_end())).collect();
    texts.join("\n")
}

/// Addresses, paths and the running number of a graph are different at every run.
fn without_addresses(text: &str) -> String {
    let text = text.replace(concat!(env!("CARGO_MANIFEST_DIR"), "/"), "");
    let text = replace_after(&text, "0x", char::is_alphanumeric, "...");
    replace_after(&text, "SIR_", |c| c.is_ascii_digit(), "N")
}

/// The text with the run of characters `what` after each `prefix` replaced.
fn replace_after(text: &str, prefix: &str, what: impl Fn(char) -> bool + Copy, with: &str) -> String {
    let mut parts = text.split(prefix);
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        result.push_str(prefix);
        result.push_str(with);
        result.push_str(part.trim_start_matches(what));
    }
    result
}
