//! Which opcodes of the interpreter have no handler, and why. The table is frozen as at start, so every registration is
//! checked against CPython's own stack effects on the way.
//!
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

use pyo3::Python;
use sot_core::bytecode::Opcodes;
use sot_core::opcode::DispatchTable;
use sot_core::version::PyVersion;
use sot_opcodes_py312 as _;
use sot_opcodes_py38 as _;
use sot_variables as _;

const ASYNC: &str = "only in coroutines and asynchronous generators, which run in CPython";
const CLASS_BODY: &str = "only in class bodies and annotation scopes, which run in CPython";
const MODULE: &str = "only in modules and class bodies";
const INTERPRETER: &str = "never in the code of a function";

/// First version that has the opcode, first that has it no more or has a handler, name, reason.
const WITHOUT_HANDLER: &[(u8, u8, &str, &str)] = &[
    (8, 14, "BEFORE_ASYNC_WITH", ASYNC),
    (8, 11, "SETUP_ASYNC_WITH", ASYNC),
    (8, 14, "END_ASYNC_FOR", ASYNC),
    (8, 14, "GET_AITER", ASYNC),
    (8, 14, "GET_ANEXT", ASYNC),
    (8, 14, "GET_AWAITABLE", ASYNC),
    (11, 12, "ASYNC_GEN_WRAP", ASYNC),
    (8, 12, "LOAD_CLASSDEREF", CLASS_BODY),
    (12, 14, "LOAD_FROM_DICT_OR_DEREF", CLASS_BODY),
    (12, 14, "LOAD_FROM_DICT_OR_GLOBALS", CLASS_BODY),
    (12, 14, "LOAD_LOCALS", CLASS_BODY),
    (8, 14, "LOAD_NAME", MODULE),
    (8, 14, "STORE_NAME", MODULE),
    (8, 14, "DELETE_NAME", MODULE),
    (8, 14, "SETUP_ANNOTATIONS", MODULE),
    (8, 12, "IMPORT_STAR", MODULE),
    (8, 12, "PRINT_EXPR", "only at the interactive prompt"),
    (12, 14, "INTERPRETER_EXIT", INTERPRETER),
    (12, 14, "RESERVED", INTERPRETER),
    (13, 14, "ENTER_EXECUTOR", INTERPRETER),
    (13, 14, "EXIT_INIT_CHECK", INTERPRETER),
    (13, 14, "SET_FUNCTION_ATTRIBUTE", "done along with the MAKE_FUNCTION before it"),
];

#[test]
fn every_opcode_of_functions_has_a_handler() {
    Python::initialize();
    Python::attach(|py| {
        let version = PyVersion::BUILT_FOR;
        let table = DispatchTable::freeze(py, version).unwrap_or_else(|error| panic!("{error}"));
        let opcodes = Opcodes::get(py);
        let mut found: Vec<&str> = (0..=255)
            .filter(|&opcode| !opcodes.name(opcode).starts_with('<') && table.get(opcode).is_none())
            .map(|opcode| opcodes.name(opcode))
            .collect();
        let mut written: Vec<&str> = WITHOUT_HANDLER
            .iter()
            .filter(|(since, until, ..)| (*since..*until).contains(&version.0))
            .map(|(.., name, _)| *name)
            .collect();
        found.sort_unstable();
        written.sort_unstable();
        println!("CPython {version}: {} handlers, none for {}", table.iter().count(), found.join(" "));
        assert_eq!(found, written);
    });
}
