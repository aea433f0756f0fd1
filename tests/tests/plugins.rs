//! Extending the tracer from another crate: an opcode, a variable kind, a builtin and a backend (the toy) are
//! registered here and in this crate's library, and a function that needs all of them becomes one graph. A wrong
//! registration is an error with file and line.
//!
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::items_after_statements, reason = "registrations are static, and stand beside what is said of them")]
#![allow(clippy::unnecessary_wraps, reason = "the registries ask for functions that may fail")]

use std::path::Path;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyInt, PyTuple};
use sot_core::builtin::{Builtin, BuiltinTable};
use sot_core::error::{Flow, Reason, RegistrationError, Unwind};
use sot_core::executor::{object_model, CallArgs, Name, OpcodeExecutor, Trace};
use sot_core::opcode::{versions, Count, Description, DispatchTable, Next, OpcodeHandler, Operand, StackPicture};
use sot_core::origin::RegistrationOrigin;
use sot_core::runtime::Runtime;
use sot_core::tracker::{Key, Tracker, TrackerId};
use sot_core::variable::{KindTable, VarId, Variable, VariableKind, WrappedObjects};
use sot_core::version::PyVersion;
use sot_harness::{self as harness, Counts};

/// `-source` is compiled, and becomes `GET_AITER` by a change of its opcode: without a handler it breaks the graph.
const SOURCE: &str = r#"
import sys
import toy

class Steps:
    step = 2.0
    def __anext__(self):
        raise StopAsyncIteration

class Source:
    def __aiter__(self):
        return Steps()

class Config:
    def __init__(self, **data):
        object.__setattr__(self, "_data", data)
    def __getattribute__(self, name):
        data = object.__getattribute__(self, "_data")
        return data if name == "_data" else data[name]

def f(x, source, config):
    steps = -source
    name = sys.intern("in" + "terned")
    return toy.relu(x + steps.step) * config.factor, name, config.factor

class Step:
    def __init__(self, size):
        self.size = size
    def __iter__(self):
        return self
    def __next__(self):
        raise StopIteration

class Ticker:
    steps = 0
    def __anext__(self):
        self.steps += 1
        return Awaitable(2)

class Awaitable:
    def __init__(self, size):
        self.size = size
    def __await__(self):
        return Step(self.size)

def tick(x, ticker):
    doubled = x * 2
    step = found = ticker
    return doubled + step.size, found is ticker

def tick_in_loop(x, ticker):
    for _ in range(3):
        x = toy.relu(x)
        x, _ = tick(x, ticker)
        x = x + 1
    return x, ticker.steps

TABLE = {}

def write_once():
    TABLE["meanwhile"] = 1

def write_each_time():
    TABLE[len(TABLE)] = 1

def g(x):
    TABLE["own"] = 2
    sys.getswitchinterval()
    return x + 1
"#;

sot_core::opcode! { GET_AITER [3.8..3.14] (iterable -- iterator) => |cx, _| {
    object_model::call_special(cx, iterable, "__aiter__", &[])
} }

sot_core::reason! {
    /// A ticker makes a step.
    TICKS = "plugins.ticks", Unsps, "Make the step outside of the function.", page "https://plugins.example/ticks"
}

// Left to CPython wherever it is met: what it takes and leaves is all that the tracer needs to know of it.
sot_core::opcode! { GET_ANEXT [3.8..3.14] (iterator -- same, awaitable) => |_cx, _| {
    let _ = iterator;
    Flow::<[VarId; 2]>::Err(Unwind::break_graph(TICKS, "a step of a ticker"))
} }

sot_core::builtin! { INTERN = "sys:intern" => |cx, args| {
    let [text] = args.exactly("intern")?;
    Ok(text)
} }

// The simulation of this call writes to what the program has written to in the trace.
sot_core::builtin! { INTERVAL = "sys:getswitchinterval" => |cx, args| {
    let [] = args.exactly("getswitchinterval")?;
    plugin_module(cx.py)?.getattr("meanwhile")?.call0()?;
    Ok(cx.trace.none())
} }

sot_core::variable_kind! {
    "plugin_config",
    types: |py| Ok(vec![plugin_module(py)?.getattr("Config")?.unbind()]),
    wrap: |_, object, _| Ok(Rc::new(ConfigVariable { object: object.clone().unbind() }))
}

fn plugin_module(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let make = || harness::load_module(py, SOURCE, Path::new("plugin.py")).map(Bound::unbind);
    Ok(MODULE.get_or_try_init(py, make)?.bind(py))
}

/// An object whose attributes are the entries of a dict, which only its own `__getattribute__` would tell.
struct ConfigVariable {
    object: Py<PyAny>,
}

impl Variable for ConfigVariable {
    fn kind(&self) -> &'static str {
        "plugin_config"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.object.bind(trace.py).get_type().into_any()
    }

    fn text(&self, _: &Trace<'_>) -> String {
        "ConfigVariable()".to_owned()
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        let value = self.object.bind(cx.py).clone().getattr(&**name)?;
        let of = cx.trace.vars.tracker(this);
        let of = cx.trace.trackers.add(Tracker::Attribute { of, name: "_data".into() });
        let tracker = cx.trace.trackers.add(Tracker::Item { of, key: Key::Str(Rc::clone(name)) });
        Ok(Some(cx.trace.wrap(&value, tracker)))
    }
}

#[test]
fn a_function_that_needs_every_plugin_becomes_one_graph() {
    harness::with_tracer(|py| {
        let module = plugin_module(py).unwrap();
        let function = module.getattr("f").unwrap();
        change_opcode(&function, "UNARY_NEGATIVE", "GET_AITER");
        let arguments = |factor: &str| {
            let text = std::ffi::CString::new(format!("(toy.arange(3), Source(), Config(factor={factor}))")).unwrap();
            py.eval(&text, Some(&module.dict()), None).unwrap().cast_into::<PyTuple>().unwrap()
        };
        let expected = |factor: f64| {
            let tensor: Vec<f64> = (0..3).map(|i| (f64::from(i) + 2.0) * factor).collect();
            (tensor, "interned".to_owned(), factor)
        };
        harness::mark(&function).unwrap();
        harness::reset();
        for (factor, text) in [(3.0, "3.0"), (3.0, "3.0"), (5.0, "5.0")] {
            let result = harness::call(&function, &arguments(text), None).unwrap();
            assert_eq!(read(&result), expected(factor));
        }
        let counts = harness::counts();
        println!("{counts:?}");
        let whole = Counts { translations: 2, misses: 2, hits: 1, graphs: 2, ..Counts::default() };
        assert_eq!(counts, whole, "one graph for each factor, no break, no fallback");
    });
}

#[test]
fn a_reason_from_outside_has_a_hint_and_a_page() {
    let linked = sot_core::linked::linked(PyVersion::BUILT_FOR);
    let listed = linked.iter().find(|one| one.registry == "reason" && one.name == "plugins.ticks");
    assert!(listed.is_some_and(|one| one.origin.krate == "sot-tests" && one.origin.file.contains("plugins.rs")));
    harness::with_tracer(|py| {
        let report = Reason::new(TICKS, "a step").report(py);
        assert_eq!(
            report,
            "[UNSPS plugins.ticks] a step\n  what to do: Make the step outside of the function.\n  more: \
             https://plugins.example/ticks"
        );
    });
}

#[test]
fn an_opcode_from_outside_breaks_the_graph_and_is_gone_on_behind() {
    harness::with_tracer(|py| {
        let module = plugin_module(py).unwrap();
        let copy = if py.version_info() >= (3, 11) { "COPY" } else { "DUP_TOP" };
        change_opcode(&module.getattr("tick").unwrap(), copy, "GET_ANEXT");
        let call = |name: &str| {
            let function = module.getattr(name).unwrap();
            let arguments = py.eval(c"(toy.arange(3), Ticker())", Some(&module.dict()), None).unwrap();
            let arguments = arguments.cast_into::<PyTuple>().unwrap();
            let read = |result: Bound<'_, PyAny>| -> (Vec<f64>, String) {
                let tensor = result.get_item(0).unwrap().call_method0("tolist").unwrap();
                (tensor.extract().unwrap(), result.get_item(1).unwrap().to_string())
            };
            (function.clone(), arguments.clone(), read)
        };
        for (name, breaks) in [("tick", 1), ("tick_in_loop", 2)] {
            let (function, arguments, read) = call(name);
            let untranslated = read(function.call1(&arguments).unwrap());
            let (_, arguments, _) = call(name);
            harness::mark(&function).unwrap();
            harness::reset();
            assert_eq!(read(harness::call(&function, &arguments, None).unwrap()), untranslated, "{name}");
            let counts = harness::counts();
            println!("{name}: {counts:?}");
            assert_eq!((counts.breaks.len(), counts.fallbacks.len()), (breaks, 0), "{name}: {counts:?}");
            assert!(counts.graphs as usize > breaks, "{name}: {counts:?}");
            let own = counts.breaks.iter().all(|reason| reason.starts_with("plugins.ticks: a step of a ticker at "));
            assert!(own, "{name}: {counts:?}");
        }
    });
}

/// The keys of what `g` writes to after a call, and the counts, where `meanwhile` writes to it while the call is
/// simulated.
fn written_meanwhile(py: Python<'_>, meanwhile: &str) -> (String, Counts) {
    let module = plugin_module(py).unwrap();
    let table = module.getattr("TABLE").unwrap();
    table.call_method0("clear").unwrap();
    module.setattr("meanwhile", module.getattr(meanwhile).unwrap()).unwrap();
    let function = module.getattr("g").unwrap();
    harness::mark(&function).unwrap();
    harness::reset();
    let arguments = py.eval(c"(toy.arange(3),)", Some(&module.dict()), None).unwrap().cast_into::<PyTuple>().unwrap();
    let result = harness::call(&function, &arguments, None).unwrap();
    assert_eq!(result.call_method0("tolist").unwrap().extract::<Vec<f64>>().unwrap(), [1.0, 2.0, 3.0]);
    (table.call_method0("keys").unwrap().to_string(), harness::counts())
}

#[test]
fn what_comes_while_a_frame_is_translated_stays() {
    harness::with_tracer(|py| {
        let whole = Counts { translations: 1, misses: 1, graphs: 1, ..Counts::default() };
        let (keys, counts) = written_meanwhile(py, "write_once");
        assert_eq!(keys, "dict_keys(['meanwhile', 'own'])");
        assert_eq!(counts, whole);

        let (keys, counts) = written_meanwhile(py, "write_each_time");
        assert_eq!(keys, "dict_keys([0, 'own'])");
        assert_eq!(counts, whole);
    });
}

fn read(result: &Bound<'_, PyAny>) -> (Vec<f64>, String, f64) {
    let tensor = result.get_item(0).unwrap().call_method0("tolist").unwrap();
    (
        tensor.extract().unwrap(),
        result.get_item(1).unwrap().extract().unwrap(),
        result.get_item(2).unwrap().extract().unwrap(),
    )
}

/// Changes each instruction `from` of a function into `to`.
fn change_opcode(function: &Bound<'_, PyAny>, from: &str, to: &str) {
    let py = function.py();
    let numbers = py.import("opcode").unwrap().getattr("opmap").unwrap();
    let number = |name: &str| -> u8 { numbers.get_item(name).unwrap().extract().unwrap() };
    let code = function.getattr("__code__").unwrap();
    let mut bytes: Vec<u8> = code.getattr("co_code").unwrap().extract().unwrap();
    let mut changed = 0;
    for instruction in bytes.chunks_exact_mut(2).filter(|instruction| instruction[0] == number(from)) {
        instruction[0] = number(to);
        changed += 1;
    }
    assert_eq!(changed, 1, "{from} in the function");
    let kwargs = pyo3::types::PyDict::new(py);
    kwargs.set_item("co_code", PyBytes::new(py, &bytes)).unwrap();
    function.setattr("__code__", code.call_method("replace", (), Some(&kwargs)).unwrap()).unwrap();
}

fn nothing(_: &mut OpcodeExecutor<'_>, _: &Operand) -> Flow<Next> {
    Ok(Next::Continue)
}

const fn origin(line: u32) -> RegistrationOrigin {
    RegistrationOrigin { krate: "plugin", version: "1.2.3", file: "plugin.rs", line }
}

const fn handler(name: &'static str, picture: StackPicture, line: u32) -> OpcodeHandler {
    let description = Description::of(picture);
    OpcodeHandler { name, versions: versions("3.8", "3.14"), description, handler: nothing, origin: origin(line) }
}

fn freeze(registered: &'static [OpcodeHandler]) -> Result<DispatchTable, RegistrationError> {
    Python::initialize();
    Python::attach(|py| DispatchTable::from_handlers(py, PyVersion::BUILT_FOR, registered.iter(), [].into_iter()))
}

/// The text of the error, which must stand where the registration at fault stands.
fn error_of<T>(result: Result<T, RegistrationError>, line: u32) -> String {
    let error = result.err().expect("a registration that does not fit was taken");
    assert_eq!(error.origin, origin(line));
    assert!(error.to_string().starts_with(&format!("plugin.rs:{line} (crate plugin 1.2.3): ")), "{error}");
    error.what
}

const ONE_TO_ONE: StackPicture = Some((Count::Fixed(1), Count::Fixed(1)));

#[test]
fn an_opcode_has_one_handler() {
    static TWO: [OpcodeHandler; 2] = [handler("UNARY_NOT", ONE_TO_ONE, 7), handler("UNARY_NOT", ONE_TO_ONE, 9)];
    let error = error_of(freeze(&TWO), 9);
    assert!(
        error.contains("UNARY_NOT already has a handler") && error.ends_with("plugin.rs:7 (crate plugin 1.2.3)"),
        "{error}"
    );
}

#[test]
fn handlers_for_different_versions_do_not_meet() {
    static OLD: OpcodeHandler =
        OpcodeHandler { versions: versions("3.6", "3.8"), ..handler("UNARY_NOT", ONE_TO_ONE, 7) };
    static NEW: OpcodeHandler = handler("UNARY_NOT", ONE_TO_ONE, 9);
    Python::initialize();
    let both = [&OLD, &NEW].into_iter();
    let table = Python::attach(|py| DispatchTable::from_handlers(py, PyVersion::BUILT_FOR, both, [].into_iter()));
    assert_eq!(table.unwrap().iter().count(), 1);
}

#[test]
fn an_opcode_is_one_of_the_interpreter() {
    static UNKNOWN: [OpcodeHandler; 1] = [handler("NO_SUCH_OPCODE", None, 11)];
    let error = error_of(freeze(&UNKNOWN), 11);
    assert!(error.ends_with("has no opcode NO_SUCH_OPCODE"), "{error}");
}

#[test]
fn a_stack_picture_is_cpythons() {
    static WRONG: [OpcodeHandler; 1] = [handler("UNARY_NOT", Some((Count::Fixed(1), Count::Fixed(2))), 13)];
    let error = error_of(freeze(&WRONG), 13);
    assert!(
        error.starts_with("UNARY_NOT declares a stack effect of +1") && error.ends_with("CPython's is +0"),
        "{error}"
    );
    static VARYING: [OpcodeHandler; 1] = [handler("BUILD_LIST", ONE_TO_ONE, 15)];
    assert!(error_of(freeze(&VARYING), 15).starts_with("BUILD_LIST declares a stack effect"));
}

const fn kind(name: &'static str, wraps: WrappedObjects, line: u32) -> VariableKind {
    VariableKind { name, wraps, wrap: no_wrap, of_any_class: false, origin: origin(line) }
}

fn no_wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, tracker: TrackerId) -> Flow<Rc<dyn Variable>> {
    VariableKind::never(cx, object, tracker)
}

fn freeze_kinds(registered: &'static [VariableKind]) -> Result<KindTable, RegistrationError> {
    Python::initialize();
    Python::attach(|py| KindTable::from_kinds(py, registered.iter(), [].into_iter()))
}

fn anything(_: &Bound<'_, PyAny>) -> bool {
    true
}

fn int_type(py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
    Ok(vec![py.get_type::<PyInt>().into_any().unbind()])
}

fn no_type(py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
    Ok(vec![py.import("builtins")?.getattr("no_such_type")?.unbind()])
}

#[test]
fn kinds_have_names_ranks_and_types_of_their_own() {
    static NAMES: [VariableKind; 2] =
        [kind("same", WrappedObjects::Nothing, 21), kind("same", WrappedObjects::Nothing, 22)];
    let error = error_of(freeze_kinds(&NAMES), 22);
    assert!(error.contains("\"same\" is already registered at plugin.rs:21"), "{error}");
    static RANKS: [VariableKind; 2] = [
        kind("a", WrappedObjects::When { rank: 5, test: anything }, 23),
        kind("b", WrappedObjects::When { rank: 5, test: anything }, 24),
    ];
    let error = error_of(freeze_kinds(&RANKS), 24);
    assert!(error.contains("rank 5 is already taken by kind \"a\", plugin.rs:23"), "{error}");
    static TYPES: [VariableKind; 2] =
        [kind("a", WrappedObjects::Types(int_type), 25), kind("b", WrappedObjects::Types(int_type), 26)];
    let error = error_of(freeze_kinds(&TYPES), 26);
    assert!(error.contains("<class 'int'> is already wrapped by kind \"a\", plugin.rs:25"), "{error}");
    static MISSING: [VariableKind; 1] = [kind("a", WrappedObjects::Types(no_type), 27)];
    assert!(error_of(freeze_kinds(&MISSING), 27).starts_with("its types cannot be found"));
}

fn cannot(_: &mut OpcodeExecutor<'_>, _: &CallArgs) -> Flow<VarId> {
    Err(Unwind::break_graph(sot_core::error::ReasonId::UnsupportedCall, "a test's handler"))
}

const fn builtin(path: &'static str, line: u32) -> Builtin {
    Builtin { path, is_optional: false, handler: cannot, origin: origin(line) }
}

fn freeze_builtins(registered: &'static [Builtin]) -> Result<BuiltinTable, RegistrationError> {
    Python::initialize();
    Python::attach(|py| BuiltinTable::from_builtins(py, registered.iter(), [].into_iter()))
}

#[test]
fn a_builtin_has_one_handler() {
    static TWO: [Builtin; 2] = [builtin("len", 31), builtin("builtins:len", 32)];
    let error = error_of(freeze_builtins(&TWO), 32);
    assert_eq!(error, "builtins:len already has a handler: len at plugin.rs:31 (crate plugin 1.2.3)");
    // Also where reading it makes a new object each time.
    static CLASS_METHODS: [Builtin; 2] = [builtin("dict.fromkeys", 33), builtin("builtins:dict.fromkeys", 34)];
    assert!(error_of(freeze_builtins(&CLASS_METHODS), 34).contains("already has a handler"));
}

#[test]
fn a_path_that_leads_nowhere_is_an_error_unless_it_is_one_of_some_versions() {
    static ABSENT: [Builtin; 1] = [builtin("math:no_such_function", 35)];
    let error = error_of(freeze_builtins(&ABSENT), 35);
    assert!(error.starts_with("the builtin \"math:no_such_function\" leads nowhere: "), "{error}");
    static NO_MODULE: [Builtin; 1] = [builtin("no_such_module:function", 36)];
    assert!(error_of(freeze_builtins(&NO_MODULE), 36).contains("no_such_module"));
    static OPTIONAL: [Builtin; 1] = [Builtin { is_optional: true, ..builtin("math:no_such_function", 37) }];
    assert!(freeze_builtins(&OPTIONAL).is_ok());
}

#[test]
fn a_path_that_begins_with_a_dot_is_of_the_package() {
    static RELATIVE: [Builtin; 1] = [builtin(".psdb:breakgraph", 38)];
    let error = error_of(freeze_builtins(&RELATIVE), 38);
    assert!(error.contains("started for no package"), "{error}");
}

#[test]
fn there_is_one_backend_for_each_library() {
    harness::with_tracer(|py| {
        let Err(error) = Runtime::start(py, "another") else { panic!("it must not start") };
        assert!(
            error.to_string().contains("runs with the backend \"toy\" and cannot start with \"another\""),
            "{error}"
        );
        assert_eq!(Runtime::start(py, "toy").unwrap().backend().name(), "toy");
    });
}

/// What a registration is named inside a macro is of no concern to a plug-in that has such names itself.
mod names_of_a_plugin {
    use sot_core::pyo3::{prelude::*, types::PyByteArray};
    use sot_core::variable::VariableKind;

    pub(super) fn types(py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        Ok(vec![py.get_type::<PyByteArray>().into_any().unbind()])
    }

    sot_core::variable_kind! { "plugin_bytearray", types: |py| types(py), wrap: VariableKind::never }
}

/// Objects that are called, as operations of C extensions are, are asked as functions are.
mod called_objects {
    use std::path::Path;

    use sot_core::pyo3::prelude::*;
    use sot_core::pyo3::sync::PyOnceLock;
    use sot_core::pyo3::types::PyTuple;
    use sot_harness as harness;

    const SOURCE: &str = r"
import functools
import operator
import toy

class Doubled:
    def __call__(self, x):
        raise RuntimeError('the plug-in knows better')

doubled = Doubled()

def call_object(x):
    return doubled(x) + 1

def operation(x):
    return toy.multiply(x, x) + 1

def operation_without_out(x):
    return toy.multiply(x, x, out=None) + 1

def operation_into(x):
    y = x * 2
    return toy.multiply(x, x, out=y) + y
";

    fn module(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
        static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
        let make = || -> PyResult<Py<PyModule>> {
            let module = harness::load_module(py, SOURCE, Path::new("called.py"))?;
            py.import("sys")?.getattr("modules")?.set_item("toy.called", &module)?;
            Ok(module.unbind())
        };
        Ok(MODULE.get_or_try_init(py, make)?.bind(py))
    }

    sot_core::builtin! { DOUBLED = "toy.called:doubled" => |cx, args| {
        let [x] = args.exactly("doubled")?;
        cx.binary(sot_core::executor::BinaryOp::Add, x, x)
    } }

    #[test]
    fn they_are_asked_for_their_handlers_and_policies() {
        harness::with_tracer(|py| {
            let module = module(py).unwrap();
            let arguments = || py.eval(c"(toy.arange(3),)", Some(&module.dict()), None).unwrap().cast_into::<PyTuple>();
            for (name, expected, breaks) in [
                ("call_object", [1.0, 3.0, 5.0], 0),
                ("operation", [1.0, 2.0, 5.0], 0),
                ("operation_without_out", [1.0, 2.0, 5.0], 0),
                ("operation_into", [0.0, 2.0, 8.0], 1),
            ] {
                let function = module.getattr(name).unwrap();
                harness::mark(&function).unwrap();
                harness::reset();
                for _ in 0..2 {
                    let result = harness::call(&function, &arguments().unwrap(), None).unwrap();
                    let result: Vec<f64> = result.call_method0("tolist").unwrap().extract().unwrap();
                    assert_eq!(result, expected, "{name}");
                }
                let counts = harness::counts();
                assert_eq!((counts.breaks.len(), counts.fallbacks.len()), (breaks, 0), "{name}: {counts:?}");
                assert!(counts.graphs > 0 && counts.hits > 0, "{name}: {counts:?}");
            }
        });
    }
}
