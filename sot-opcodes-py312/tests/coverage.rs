//! Every opcode of the interpreter has a handler or a reason to have none. `docs/opcodes.md` says which; each
//! interpreter checks its own column, and `SOT_BLESS=1` writes it anew. The table is frozen as at start, so every
//! registration is checked against CPython's own stack effects on the way.
//!
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use pyo3::Python;
use sot_core::bytecode::Opcodes;
use sot_core::opcode::{DispatchTable, OpcodeHandler};
use sot_core::version::PyVersion;
use sot_opcodes_py312 as _;
use sot_opcodes_py38 as _;
use sot_variables as _;

/// Why opcodes have no handler: the word in the page's cells, and what it means.
const REASONS: &[(&str, &str)] = &[
    (
        ASYNC,
        "Coroutines and asynchronous generators run in CPython; the synchronous functions they call are translated.",
    ),
    (MODULE, "Modules run in CPython."),
    (PROMPT, "Only the interactive prompt compiles to it."),
    (INTERPRETER, "The interpreter's own; never in the code of a function."),
    (FOLDED, "Done along with the `MAKE_FUNCTION` before it."),
];

const ASYNC: &str = "async";
const MODULE: &str = "module";
const PROMPT: &str = "prompt";
const INTERPRETER: &str = "interpreter";
const FOLDED: &str = "folded";

/// First version that has the opcode, first that has it no more or has a handler, name, reason.
const WITHOUT_HANDLER: &[(u8, u8, &str, &str)] = &[
    (8, 14, "BEFORE_ASYNC_WITH", ASYNC),
    (8, 11, "SETUP_ASYNC_WITH", ASYNC),
    (8, 14, "END_ASYNC_FOR", ASYNC),
    (8, 14, "GET_AITER", ASYNC),
    (8, 14, "GET_ANEXT", ASYNC),
    (8, 14, "GET_AWAITABLE", ASYNC),
    (11, 12, "ASYNC_GEN_WRAP", ASYNC),
    (8, 12, "IMPORT_STAR", MODULE),
    (8, 12, "PRINT_EXPR", PROMPT),
    (12, 14, "INTERPRETER_EXIT", INTERPRETER),
    (12, 14, "RESERVED", INTERPRETER),
    (13, 14, "ENTER_EXECUTOR", INTERPRETER),
    (13, 14, "EXIT_INIT_CHECK", INTERPRETER),
    (13, 14, "SET_FUNCTION_ATTRIBUTE", FOLDED),
];

const INTRODUCTION: &str = "\
# Opcodes

Every opcode of every supported interpreter, and the file whose handler simulates it: `py38/jump` is
`sot-opcodes-py38/src/jump.rs`. An empty cell says that the version has no such opcode. A word in italics is a reason to
have no handler. If a frame holds such an opcode nevertheless, the graph breaks there, or the frame is left to CPython,
and the report says so.

Inline caches and instrumented, specialised and pseudo opcodes are not listed: code objects do not show them.

This page is generated; each interpreter checks its own column.
`SOT_BLESS=1 cargo test -p sot-opcodes-py312 --test coverage` writes the column of the interpreter it is built for.

";

/// Cells of the page by opcode and minor version.
type Cells = BTreeMap<String, BTreeMap<u8, String>>;

fn versions() -> std::ops::RangeInclusive<u8> {
    PyVersion::OLDEST.0..=PyVersion::NEWEST.0
}

/// What the page says of the running interpreter's opcodes.
fn column(py: Python<'_>, version: PyVersion) -> BTreeMap<String, String> {
    let table = DispatchTable::freeze(py, version).unwrap_or_else(|error| panic!("{error}"));
    let opcodes = Opcodes::get(py);
    let mut column = BTreeMap::new();
    for opcode in 0..=255 {
        let name = opcodes.name(opcode);
        if name.starts_with('<') {
            continue;
        }
        let known =
            WITHOUT_HANDLER.iter().find(|(since, until, n, _)| *n == name && (*since..*until).contains(&version.0));
        let cell = match (table.get(opcode), known) {
            (Some(handler), None) => place(handler),
            (None, Some((.., reason))) => format!("*{reason}*"),
            (None, None) => panic!("{name} has neither a handler nor a reason on CPython {version}"),
            (Some(_), Some(_)) => panic!("{name} has both a handler and a reason on CPython {version}"),
        };
        column.insert(name.to_owned(), cell);
    }
    for (.., name, _) in WITHOUT_HANDLER.iter().filter(|(since, until, ..)| (*since..*until).contains(&version.0)) {
        assert!(column.contains_key(*name), "CPython {version} has no {name}, which has a reason");
    }
    println!("CPython {version}: {} opcodes, {} with handlers", column.len(), table.iter().count());
    column
}

/// `py38/jump` for a handler in `sot-opcodes-py38/src/jump.rs`.
fn place(handler: &OpcodeHandler) -> String {
    let file = handler.origin.file;
    let path = file.rsplit_once("sot-opcodes-").map_or(file, |(_, path)| path);
    path.replace("/src/", "/").trim_end_matches(".rs").to_owned()
}

fn read(page: &str) -> Cells {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut cells = Cells::new();
    for row in rows {
        let mut parts = row.trim_end_matches('|').split('|').map(str::trim);
        let name = parts.next().unwrap_or_default().trim_end_matches('`').to_owned();
        let row = versions().zip(parts).filter(|(_, cell)| !cell.is_empty());
        cells.insert(name, row.map(|(minor, cell)| (minor, cell.to_owned())).collect());
    }
    cells
}

fn write(cells: &Cells) -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("| reason | meaning |\n|---|---|\n");
    for (word, meaning) in REASONS {
        writeln!(page, "| *{word}* | {meaning} |").expect("a string takes any text");
    }
    page.push_str("\n| opcode |");
    for minor in versions() {
        write!(page, " 3.{minor} |").expect("a string takes any text");
    }
    page += "\n|---|";
    page += &"---|".repeat(versions().count());
    page += "\n";
    for (name, row) in cells {
        write!(page, "| `{name}` |").expect("a string takes any text");
        for minor in versions() {
            let cell = row.get(&minor).map_or(String::new(), |cell| format!(" {cell}"));
            write!(page, "{cell} |").expect("a string takes any text");
        }
        page.push('\n');
    }
    page
}

#[test]
fn every_opcode_has_a_handler_or_a_reason_and_the_page_says_which() {
    Python::initialize();
    Python::attach(|py| {
        let version = PyVersion::BUILT_FOR;
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/opcodes.md");
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        let mut cells = read(&found);
        for row in cells.values_mut() {
            row.remove(&version.0);
        }
        for (name, cell) in column(py, version) {
            cells.entry(name).or_default().insert(version.0, cell);
        }
        cells.retain(|_, row| !row.is_empty());
        let page = write(&cells);
        if std::env::var_os("SOT_BLESS").is_some() {
            std::fs::write(&path, &page).expect("docs/opcodes.md can be written");
        } else {
            assert!(
                found == page,
                "docs/opcodes.md is out of date for CPython {version}; write it anew with SOT_BLESS=1"
            );
        }
    });
}
