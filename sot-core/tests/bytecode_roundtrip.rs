//! Decoding and encoding every code object of the interpreter's own standard library.
//!
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.
//! `SOT_ROUNDTRIP_LIMIT` caps the number of source files.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod interpreter;

use std::ffi::CString;
use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCode, PyDict, PyFrozenSet, PyTuple};
use sot_core::bytecode::{stack_depth, Code, Label, Opcodes};
use sot_core::version::PyVersion;

use interpreter::with_python;

/// Reads with Python's own `dis` and `code` what this crate reads by itself.
const ORACLE: &str = r"
import dis, sys, warnings

warnings.simplefilter('ignore')

def compiled(path):
    try:
        with open(path, 'rb') as file:
            return compile(file.read(), path, 'exec', dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None

def positions(code):
    if sys.version_info >= (3, 11):
        return list(code.co_positions())
    units = [None] * (len(code.co_code) // 2)
    if sys.version_info >= (3, 10):
        for start, end, line in code.co_lines():
            units[start // 2:end // 2] = [line] * ((end - start) // 2)
    else:
        starts = dict(dis.findlinestarts(code))
        line = code.co_firstlineno
        for unit in range(len(units)):
            line = units[unit] = starts.get(unit * 2, line)
    return [(line, None, None, None) for line in units]

def instructions(code):
    jumps = set(dis.hasjrel) | set(dis.hasjabs)
    return [
        (i.offset, i.opcode, i.argval if i.opcode in jumps else i.arg)
        for i in dis.get_instructions(code)
        if i.opname not in ('EXTENDED_ARG', 'CACHE')
    ]

def bare(code):
    if sys.version_info >= (3, 11):
        return code.replace(co_linetable=b'', co_exceptiontable=b'', co_stacksize=1)
    if sys.version_info >= (3, 10):
        return code.replace(co_linetable=b'', co_stacksize=1)
    return code.replace(co_lnotab=b'', co_stacksize=1)
";

#[derive(Default, Debug)]
struct Tally {
    files: usize,
    files_not_compiled: usize,
    codes: usize,
    line_tables_rebuilt_byte_for_byte: usize,
    compared_with_dis: usize,
    stack_as_cpython: usize,
    stack_deeper: usize,
    /// CPython counted code that it then removed or made unreachable.
    stack_shallower: usize,
}

#[test]
fn the_standard_library_survives() {
    Python::initialize();
    with_python(|py| {
        let oracle = oracle(py).unwrap();
        let mut tally = Tally::default();
        for path in sources(py).unwrap() {
            tally.files += 1;
            let code = oracle.getattr("compiled").unwrap().call1((path.as_os_str(),)).unwrap();
            if code.is_none() {
                tally.files_not_compiled += 1;
            } else {
                check_tree(&oracle, &code, &mut tally);
            }
        }
        println!("{}: {tally:?}", PyVersion::BUILT_FOR);
        if std::env::var_os("SOT_ROUNDTRIP_LIMIT").is_none() {
            assert!(tally.codes > 10_000);
        }
    });
}

fn oracle(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    let source = CString::new(ORACLE).expect("the source has no NUL");
    PyModule::from_code(py, &source, c"oracle.py", c"oracle")
}

fn sources(py: Python<'_>) -> PyResult<Vec<PathBuf>> {
    let stdlib: PathBuf = py.import("sysconfig")?.call_method1("get_path", ("stdlib",))?.extract()?;
    let mut found = Vec::new();
    find_sources(&stdlib, &mut found);
    found.sort();
    let limit = std::env::var("SOT_ROUNDTRIP_LIMIT").ok().and_then(|limit| limit.parse().ok());
    found.truncate(limit.unwrap_or(usize::MAX));
    Ok(found)
}

fn find_sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "site-packages") {
            find_sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "py") {
            found.push(path);
        }
    }
}

fn check_tree(oracle: &Bound<'_, PyModule>, code: &Bound<'_, PyAny>, tally: &mut Tally) {
    tally.codes += 1;
    check(oracle, code, tally);
    for constant in code.getattr("co_consts").unwrap().cast::<PyTuple>().unwrap() {
        if constant.is_instance_of::<PyCode>() {
            check_tree(oracle, &constant, tally);
        }
    }
}

fn check(oracle: &Bound<'_, PyModule>, code: &Bound<'_, PyAny>, tally: &mut Tally) {
    let name = code.repr().unwrap().to_string();
    let model = Code::decode(code).unwrap_or_else(|error| panic!("{name}: {error}"));
    check_positions(oracle, code, &model);
    if tally.codes % 10 == 0 {
        check_instructions(oracle, code, &model);
        tally.compared_with_dis += 1;
    }
    check_unedited(code, &model);
    check_rebuilt(oracle, code, &model, tally);
    check_stack(code, &model, tally);
    check_cells(&model);
}

/// An unedited code comes out equal, to the byte.
fn check_unedited(code: &Bound<'_, PyAny>, model: &Code) {
    let again = model.encode(code).unwrap_or_else(|error| panic!("{code}: {error}"));
    assert!(again.eq(code).unwrap(), "{code}: not equal");
    for attribute in tables() {
        assert!(same(&again, code, attribute), "{code}: {attribute} differs");
    }
}

/// All tables come back when the template has none.
fn check_rebuilt(oracle: &Bound<'_, PyModule>, code: &Bound<'_, PyAny>, model: &Code, tally: &mut Tally) {
    let bare = oracle.getattr("bare").unwrap().call1((code,)).unwrap();
    let again = model.encode(&bare).unwrap_or_else(|error| panic!("{code}: {error}"));
    assert!(same(&again, code, "co_code"), "{code}: co_code differs");
    if PyVersion::BUILT_FOR >= PyVersion(11) {
        assert!(same(&again, code, "co_exceptiontable"), "{code}: exception table differs");
    }
    check_positions(oracle, &again, model);
    let exact = same(&again, code, line_table());
    assert!(exact || PyVersion::BUILT_FOR < PyVersion(10), "{code}: line table differs");
    tally.line_tables_rebuilt_byte_for_byte += usize::from(exact);
}

/// Python finds each opcode where the model says it is. (Not each unit: 3.8 and 3.9 can start a line between an
/// `EXTENDED_ARG` and its opcode.)
fn check_positions(oracle: &Bound<'_, PyModule>, code: &Bound<'_, PyAny>, model: &Code) {
    type Columns = (Option<u32>, Option<u32>, Option<u32>, Option<u32>);
    let units: Vec<Columns> = oracle.getattr("positions").unwrap().call1((code,)).unwrap().extract().unwrap();
    let offsets = model.offsets(code.py()).unwrap();
    for (instruction, offset) in model.instructions.iter().zip(offsets) {
        let p = instruction.position;
        let found = (p.line, p.end_line, p.column, p.end_column);
        assert_eq!(found, units[offset as usize / 2], "{code} at {offset}");
    }
}

fn check_instructions(oracle: &Bound<'_, PyModule>, code: &Bound<'_, PyAny>, model: &Code) {
    let wanted: Vec<(u32, u8, Option<u32>)> =
        oracle.getattr("instructions").unwrap().call1((code,)).unwrap().extract().unwrap();
    let opcodes = Opcodes::get(code.py());
    let offsets = model.offsets(code.py()).unwrap();
    let start = |target: Label| {
        let prefixes = model.instructions[target.index()].extended;
        offsets[target.index()] - 2 * u32::from(prefixes)
    };
    assert_eq!(wanted.len(), model.instructions.len(), "{code}");
    for ((instruction, &offset), wanted) in model.instructions.iter().zip(&offsets).zip(wanted) {
        let arg = instruction.target.map_or(instruction.arg, start);
        let arg = opcodes.info(instruction.opcode).has_arg.then_some(arg);
        assert_eq!((offset, instruction.opcode, arg), wanted, "{code}");
    }
}

fn check_stack(code: &Bound<'_, PyAny>, model: &Code, tally: &mut Tally) {
    let depth = stack_depth(code.py(), model).unwrap_or_else(|error| panic!("{code}: {error}")).max(1);
    match depth.cmp(&model.stack_size.max(1)) {
        std::cmp::Ordering::Equal => tally.stack_as_cpython += 1,
        std::cmp::Ordering::Greater => tally.stack_deeper += 1,
        std::cmp::Ordering::Less => {
            let explained = has_dead_code(code.py(), model) || depth + folded(code.py(), model) >= model.stack_size;
            assert!(explained, "{code}: {depth} is too little\n{}", model.disassemble(code.py()));
            tally.stack_shallower += 1;
        }
    }
}

/// 3.8 and 3.9 measure the stack before they fold tuples of constants: one less than the longest tuple.
fn folded(py: Python<'_>, model: &Code) -> u32 {
    if PyVersion::BUILT_FOR >= PyVersion(10) {
        return 0;
    }
    let load = Opcodes::get(py).number("LOAD_CONST");
    let loaded = model.instructions.iter().filter(|instruction| Some(instruction.opcode) == load);
    let loaded = loaded.map(|instruction| model.consts[instruction.arg as usize].bind(py));
    let folded = loaded.filter(|value| value.is_instance_of::<PyTuple>() || value.is_instance_of::<PyFrozenSet>());
    folded.filter_map(|value| value.len().ok()).max().unwrap_or(0).saturating_sub(1) as u32
}

fn has_dead_code(py: Python<'_>, model: &Code) -> bool {
    let opcodes = Opcodes::get(py);
    let mut reached = vec![false; model.instructions.len()];
    let mut work = vec![Label(0)];
    while let Some(at) = work.pop() {
        if std::mem::replace(&mut reached[at.index()], true) {
            continue;
        }
        let instruction = model.instructions[at.index()];
        work.extend(instruction.target);
        work.extend(model.handler_at(at).map(|handler| handler.target));
        work.extend(opcodes.info(instruction.opcode).falls_through.then_some(Label(at.0 + 1)));
    }
    reached.contains(&false)
}

fn check_cells(model: &Code) {
    for index in 0..model.cellvars.len() + model.freevars.len() {
        assert_eq!(model.cell_index(model.deref_arg(index)), Some(index));
    }
}

fn tables() -> Vec<&'static str> {
    let mut tables =
        vec!["co_code", "co_stacksize", "co_consts", "co_varnames", "co_flags", "co_filename", line_table()];
    if PyVersion::BUILT_FOR >= PyVersion(11) {
        tables.extend(["co_exceptiontable", "co_qualname"]);
    }
    tables
}

fn line_table() -> &'static str {
    if PyVersion::BUILT_FOR < PyVersion(10) {
        "co_lnotab"
    } else {
        "co_linetable"
    }
}

fn same(left: &Bound<'_, PyAny>, right: &Bound<'_, PyAny>, attribute: &str) -> bool {
    let (left, right) = (left.getattr(attribute).unwrap(), right.getattr(attribute).unwrap());
    match (left.cast::<PyBytes>(), right.cast::<PyBytes>()) {
        (Ok(left), Ok(right)) => left.as_bytes() == right.as_bytes(),
        _ => left.eq(right).unwrap(),
    }
}

/// Functions with loops, handlers, cells and generators.
const PROGRAM: &str = r"
def collatz(n):
    steps = 0
    while n != 1:
        if n % 2:
            n = 3 * n + 1
        else:
            n = n // 2
        steps = steps + 1
        if steps > 1000:
            break
    return steps

def handlers(n):
    log = []
    for i in range(n):
        try:
            a = 10 // (i - 3)
            try:
                b = [1, 2, 3][i]
            finally:
                c = i
                log.append(c)
        except ZeroDivisionError as error:
            d = str(error)
            log.append(d)
            continue
        except IndexError:
            e = 'index'
            log.append(e)
        else:
            f = (a, b)
            log.append(f)
    return log

def generated(n):
    def inner(start):
        x = start
        while x < n:
            got = yield x
            x = x + (got or 1)
        return 'done'
    def outer():
        result = yield from inner(2)
        yield result
    total = [y for y in outer()]
    return total, [(x, z) for x in range(n) for z in 'ab' if x and z]

def mixed(n, *rest, key=None, **options):
    captured = n
    def add(m):
        nonlocal captured
        captured = captured + m
        return captured
    with open('/dev/null') as file:
        text = file.read()
    for k in options:
        value = add(len(k))
    return captured, text, rest, key, n and not key or rest

CALLS = [
    (collatz, (27,), {}), (collatz, (1,), {}), (handlers, (6,), {}), (generated, (7,), {}),
    (mixed, (4, 5, 6), {'key': 1, 'other': 2, 'third': 3}),
]

def answers(transform, times):
    out = []
    for function, args, keywords in CALLS:
        function.__code__ = transform(function.__code__)
        for _ in range(times):
            answer = function(*args, **keywords)
        out.append(answer)
    return out
";

/// Inserts copies of NOP after every instruction that stores a local.
fn widen(code: &Bound<'_, PyAny>, count: usize) -> Code {
    let opcodes = Opcodes::get(code.py());
    let nop = opcodes.number("NOP").unwrap();
    let mut model = Code::decode(code).unwrap();
    let mut moved = Vec::new();
    let mut wide = Vec::new();
    for instruction in &model.instructions {
        moved.push(Label(wide.len() as u32));
        wide.push(*instruction);
        if opcodes.name(instruction.opcode).starts_with("STORE_FAST") {
            let mut padding = *instruction;
            (padding.opcode, padding.arg, padding.extended) = (nop, 0, 0);
            wide.extend(std::iter::repeat_n(padding, count));
        }
    }
    moved.push(Label(wide.len() as u32));
    let follow = |label: &mut Label| *label = moved[label.index()];
    wide.iter_mut().filter_map(|instruction| instruction.target.as_mut()).for_each(follow);
    for handler in &mut model.handlers {
        [&mut handler.start, &mut handler.end, &mut handler.target].into_iter().for_each(follow);
    }
    model.instructions = wide;
    model
}

/// Widens a code object and all code objects among its constants.
fn widen_tree<'py>(code: &Bound<'py, PyAny>, count: usize) -> Bound<'py, PyAny> {
    let mut model = widen(code, count);
    for constant in &mut model.consts {
        if constant.bind(code.py()).is_instance_of::<PyCode>() {
            *constant = widen_tree(constant.bind(code.py()), count).unbind();
        }
    }
    let encoded = model.encode(code).unwrap();
    let again = Code::decode(&encoded).unwrap();
    let essence = |code: &Code| code.instructions.iter().map(|i| (i.opcode, i.target, i.position)).collect::<Vec<_>>();
    assert_eq!(essence(&again), essence(&model));
    assert_eq!(again.handlers, model.handlers);
    encoded
}

#[test]
fn edited_code_runs_to_the_same_answer() {
    Python::initialize();
    with_python(|py| {
        let run = |count: usize, times: u32| {
            let source = CString::new(PROGRAM).unwrap();
            let program = PyModule::from_code(py, &source, c"program.py", c"program").unwrap();
            let transform = pyo3::types::PyCFunction::new_closure(
                py,
                None,
                None,
                move |args: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>| -> PyResult<Py<PyAny>> {
                    Ok(widen_tree(&args.get_item(0)?, count).unbind())
                },
            );
            program.getattr("answers").unwrap().call1((transform.unwrap(), times)).unwrap()
        };
        let plain = run(0, 1);
        for (count, times) in [(1, 100), (300, 100), (40_000, 2)] {
            let widened = run(count, times);
            assert!(widened.eq(&plain).unwrap(), "{count} inserted: {widened} is not {plain}");
        }
    });
}

#[test]
fn signature_names_and_constants_can_be_edited() {
    Python::initialize();
    with_python(|py| {
        let function = py.eval(c"lambda a, *args, k=3, **kw: (lambda: (a, args, k, kw, 'old'))()", None, None).unwrap();
        let code = function.getattr("__code__").unwrap();
        let mut model = Code::decode(&code).unwrap();
        model.arg_count = model.total_args() as u32;
        (model.kwonly_count, model.flags) = (0, model.flags & !0xC);
        (model.name, model.first_line) = ("flat".to_owned(), model.first_line + 10);
        model.varnames.push("extra".to_owned());
        model.consts.push(py.None());
        let edited = model.encode(&code).unwrap();
        function.setattr("__code__", &edited).unwrap();
        let answer = function.call1((1, 2, 3, 4)).unwrap().repr().unwrap().to_string();
        assert_eq!(answer, "(1, 3, 2, 4, 'old')");
        let again = Code::decode(&edited).unwrap();
        assert_eq!((again.name.as_str(), again.varnames.last().unwrap().as_str()), ("flat", "extra"));
        assert_eq!(again.consts.len(), model.consts.len());
        assert_eq!(again.first_line, model.first_line);
        let positions = |code: &Code| code.instructions.iter().map(|i| i.position).collect::<Vec<_>>();
        assert_eq!(positions(&again), positions(&model));
    });
}

#[test]
fn what_cannot_be_encoded_is_said_clearly() {
    Python::initialize();
    with_python(|py| {
        let code = py.eval(c"(lambda x: [y for y in x if y]).__code__", None, None).unwrap();
        assert_eq!(
            Code::decode(py.None().bind(py)).unwrap_err().to_string(),
            "expected a code object, got an object of type `<class 'NoneType'>`"
        );
        let mut model = Code::decode(&code).unwrap();
        let opcodes = Opcodes::get(py);
        let forward = opcodes.number("FOR_ITER").unwrap();
        model.instructions[2].opcode = forward;
        model.instructions[2].target = Some(Label(1));
        let message = model.encode(&code).unwrap_err().to_string();
        assert_eq!(message, "FOR_ITER at #2 can only jump forward, but its target is #1");
        model.instructions[2].target = None;
        let message = model.encode(&code).unwrap_err().to_string();
        assert_eq!(message, "FOR_ITER at #2 is a jump without a target");
        assert!(model.disassemble(py).starts_with("(not encodable: FOR_ITER"));
    });
}

#[test]
fn the_listing_reads_like_dis() {
    Python::initialize();
    with_python(|py| {
        let code = py.eval(c"(lambda x: x.size if x else ((1, 'a'), f)).__code__", None, None).unwrap();
        let model = Code::decode(&code).unwrap();
        let listing = model.disassemble(py);
        println!("{listing}");
        for text in ["LOAD_FAST                0 (x)", "(size)", "((1, 'a'))", "(f)", "(to ", ">>", "  1"] {
            assert!(listing.contains(text), "{text:?} is not in\n{listing}");
        }
        let last = Label(model.instructions.len() as u32 - 1);
        assert!(model.disassemble_instruction(py, last).contains("RETURN_VALUE"));
    });
}
