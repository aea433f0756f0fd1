//! Overrides of registrations from another crate are asked in the documented order, and an override of something that
//! has no handler is an error with crate, file and line. Observers are told of the steps and results of translations.
//!
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use parking_lot::{Mutex, MutexGuard};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use sot_core::builtin::{Builtin, BuiltinOverride, BuiltinTable};
use sot_core::error::{Flow, RegistrationError};
use sot_core::executor::{CallArgs, CodeUnit, OpcodeExecutor};
use sot_core::guard::Guard;
use sot_core::ir::Statement;
use sot_core::linked::linked;
use sot_core::observer::{Observer, TranslationOutcome};
use sot_core::opcode::{
    versions, Count, Description, DispatchTable, Next, OpcodeHandler, OpcodeOverride, Operand, OverriddenOpcode,
};
use sot_core::origin::RegistrationOrigin;
use sot_core::runtime::Runtime;
use sot_core::variable::{KindOverride, KindTable, VarId};
use sot_core::version::PyVersion;
use sot_harness::{self as harness, Counts};

const SOURCE: &str = r"
import toy

def f(x, items):
    n = len(items)
    return toy.relu(x * n) + n

def breaks(x):
    y = toy.relu(x)
    toy.save(y)
    return y + 1
";

/// What the overrides and observers have seen, in order.
static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn seen() -> MutexGuard<'static, Vec<String>> {
    SEEN.lock()
}

fn note(what: impl Into<String>) {
    seen().push(what.into());
}

fn take(prefix: &str) -> Vec<String> {
    std::mem::take(&mut *seen()).into_iter().filter(|text| text.starts_with(prefix)).collect()
}

sot_core::opcode! { override RETURN_VALUE [3.8..3.14] => |cx, _, next| {
    note("return: second");
    next.call(cx)
} }

sot_core::opcode! { override RETURN_VALUE [3.8..3.14] priority 5 => |cx, op, next| {
    note(format!("return: first, {} on the stack", cx.stack.frame().stack.len()));
    let _ = op.arg;
    next.call(cx)
} }

sot_core::opcode! { override RETURN_VALUE [3.8..3.14] priority -1 => |cx, _, next| {
    note("return: last");
    next.call(cx)
} }

sot_core::builtin! { override LAST_LEN = "len" priority -5 => |cx, args, next| {
    note("len: last");
    next.call(cx, args)
} }

sot_core::builtin! { override FIRST_LEN = "builtins:len" => |cx, args, next| {
    note("len: first");
    // What is before it decides what the others are given.
    let items = cx.unpack_all(args.positional[0])?;
    let copy = cx.trace.list(items);
    next.call(cx, &CallArgs::positional(vec![copy]))
} }

sot_core::builtin! { override NEWER_THAN_ALL = "math:of_a_later_release"? => |cx, args, next| next.call(cx, args) }

sot_core::variable_kind! { override "list", wrap: |cx, object, tracker, next| {
    note("list: second");
    next.wrap(cx, object, tracker)
} }

sot_core::variable_kind! { override "list" priority 1, wrap: |cx, object, tracker, next| {
    note("list: first");
    next.wrap(cx, object, tracker)
} }

struct Watcher;

impl Observer for Watcher {
    fn begins(&self, _: &OpcodeExecutor<'_>, code: &CodeUnit) {
        note(format!("begins: {}", code.code.qualname));
    }

    fn step(&self, cx: &OpcodeExecutor<'_>, instruction: &Operand) {
        note(format!("step: {}", cx.runtime.opcode_name(cx.py, instruction.opcode)));
    }

    fn statement(&self, _: &OpcodeExecutor<'_>, statement: &Statement) {
        note(format!("statement: {}", statement.callee));
    }

    fn guard(&self, cx: &OpcodeExecutor<'_>, guard: &Guard) {
        note(format!("guard: {}", guard.text(cx.py, &cx.trace.trackers)));
    }

    fn ends(&self, _: &OpcodeExecutor<'_>, outcome: TranslationOutcome<'_>) {
        note(match outcome {
            TranslationOutcome::Whole => "ends: whole".to_owned(),
            TranslationOutcome::Broken(reason) => format!("ends: broken, {}", reason.id.id()),
            TranslationOutcome::LeftAlone(reason) => format!("ends: left alone, {}", reason.id.id()),
        });
    }
}

static WATCHER: Watcher = Watcher;
sot_core::observer! { WATCHER }

fn call<'py>(py: Python<'py>, name: &str, arguments: &str) -> (Bound<'py, PyAny>, Counts) {
    let module = harness::load_module(py, SOURCE, Path::new("overridden.py")).unwrap();
    let function = module.getattr(name).unwrap();
    let arguments = std::ffi::CString::new(arguments).unwrap();
    let arguments = py.eval(&arguments, Some(&module.dict()), None).unwrap().cast_into::<PyTuple>().unwrap();
    harness::mark(&function).unwrap();
    harness::reset();
    seen().clear();
    let result = harness::call(&function, &arguments, None).unwrap();
    let first = harness::counts();
    let told = seen().len();
    let again = harness::call(&function, &arguments, None).unwrap();
    assert!(result.eq(again).unwrap_or(true));
    assert_eq!(seen().len(), told, "a hit asks no override and tells no observer");
    (result, first)
}

#[test]
fn overrides_are_asked_in_the_order_of_priorities() {
    harness::with_tracer(|py| {
        let (result, counts) = call(py, "f", "(toy.arange(3), [1, 2])");
        assert_eq!(result.call_method0("tolist").unwrap().extract::<Vec<f64>>().unwrap(), [2.0, 4.0, 6.0]);
        assert_eq!(counts, Counts { translations: 1, misses: 1, graphs: 1, ..Counts::default() });
        let all = seen().clone();
        let of = |prefix: &str| all.iter().filter(|text| text.starts_with(prefix)).cloned().collect::<Vec<_>>();
        assert_eq!(of("return:"), ["return: first, 1 on the stack", "return: second", "return: last"]);
        assert_eq!(of("len:"), ["len: first", "len: last"]);
        assert_eq!(of("list:"), ["list: first", "list: second"]);
    });
}

#[test]
fn an_observer_sees_steps_statements_guards_and_breaks() {
    harness::with_tracer(|py| {
        call(py, "f", "(toy.arange(3), [1, 2])");
        let all = take("");
        let of = |prefix: &str| all.iter().filter(|text| text.starts_with(prefix)).cloned().collect::<Vec<_>>();
        assert_eq!(all.first().unwrap(), "begins: f");
        assert_eq!(all.last().unwrap(), "ends: whole");
        assert_eq!(of("statement: "), ["statement: __mul__", "statement: toy.relu", "statement: __add__"]);
        assert!(of("step: ").len() > 8 && of("step: ").contains(&"step: RETURN_VALUE".to_owned()), "{all:?}");
        assert!(of("guard: ").iter().any(|text| text.contains("items")), "{all:?}");

        let (_, counts) = call(py, "breaks", "(toy.arange(3),)");
        assert_eq!(counts.breaks.len(), 1, "{counts:?}");
        let all = take("");
        assert!(all.contains(&"ends: broken, unsupported-call".to_owned()), "{all:?}");
    });
}

#[test]
fn all_that_is_linked_says_where_it_stands() {
    let own: Vec<_> =
        linked(PyVersion::BUILT_FOR).into_iter().filter(|found| found.origin.krate == "sot-tests").collect();
    let of = |registry: &str| own.iter().filter(|found| found.registry == registry).count();
    assert_eq!((of("opcode override"), of("builtin override"), of("kind override"), of("observer")), (3, 3, 2, 1));
    for found in own {
        assert_eq!(found.origin.version, env!("CARGO_PKG_VERSION"));
        assert!(found.origin.file.contains("overrides.rs") && found.origin.line > 0, "{found}");
    }
}

const fn origin(line: u32) -> RegistrationOrigin {
    RegistrationOrigin { krate: "plugin", version: "1.2.3", file: "plugin.rs", line }
}

/// The text of the error, which must stand where the registration at fault stands.
fn error_of<T>(result: Result<T, RegistrationError>, line: u32) -> String {
    let error = result.err().expect("a registration that does not fit was taken");
    assert!(error.to_string().starts_with(&format!("plugin.rs:{line} (crate plugin 1.2.3): ")), "{error}");
    error.what
}

fn plain(_: &mut OpcodeExecutor<'_>, _: &Operand) -> Flow<Next> {
    Ok(Next::Continue)
}

fn first(cx: &mut OpcodeExecutor<'_>, _: &Operand, next: &OverriddenOpcode<'_>) -> Flow<Next> {
    next.call(cx)
}

static NOT: OpcodeHandler = OpcodeHandler {
    name: "UNARY_NOT",
    versions: versions("3.8", "3.14"),
    description: Description::of(Some((Count::Fixed(1), Count::Fixed(1)))),
    handler: plain,
    origin: origin(1),
};

const fn opcode_override(name: &'static str, since: &str, until: &str, line: u32) -> OpcodeOverride {
    OpcodeOverride { name, versions: versions(since, until), priority: 0, handler: first, origin: origin(line) }
}

fn freeze(one: &'static OpcodeOverride) -> Result<DispatchTable, RegistrationError> {
    Python::initialize();
    Python::attach(|py| DispatchTable::from_handlers(py, PyVersion::BUILT_FOR, [&NOT].into_iter(), [one].into_iter()))
}

#[test]
fn an_override_of_an_opcode_needs_a_handler_and_a_range() {
    static FITS: OpcodeOverride = opcode_override("UNARY_NOT", "3.8", "3.14", 2);
    assert!(freeze(&FITS).is_ok());
    static OTHER: OpcodeOverride = opcode_override("UNARY_NOT", "3.6", "3.8", 3);
    assert!(error_of(freeze(&OTHER), 3).contains("for [3.6..3.8], where there is no CPython"));
    static EMPTY: OpcodeOverride = opcode_override("UNARY_NOT", "3.12", "3.9", 4);
    assert!(error_of(freeze(&EMPTY), 4).contains("for [3.12..3.9], where there is no CPython"));
    static HOLE: OpcodeOverride = opcode_override("UNARY_NEGATIVE", "3.8", "3.14", 5);
    assert!(error_of(freeze(&HOLE), 5).starts_with("there is nothing to override: UNARY_NEGATIVE has no handler"));
    static UNKNOWN: OpcodeOverride = opcode_override("NO_SUCH_OPCODE", "3.8", "3.14", 6);
    assert!(error_of(freeze(&UNKNOWN), 6).ends_with("has no opcode NO_SUCH_OPCODE"));
}

fn cannot(cx: &mut OpcodeExecutor<'_>, _: &CallArgs) -> Flow<VarId> {
    Ok(cx.trace.none())
}

const fn builtin_override(path: &'static str, line: u32) -> BuiltinOverride {
    BuiltinOverride {
        path,
        is_optional: false,
        priority: 0,
        handler: |cx: &mut OpcodeExecutor<'_>, args: &CallArgs, next: &sot_core::builtin::OverriddenBuiltin<'_>| {
            next.call(cx, args)
        },
        origin: origin(line),
    }
}

#[test]
fn an_override_of_a_builtin_needs_a_handler() {
    static LEN: Builtin = Builtin { path: "len", is_optional: false, handler: cannot, origin: origin(1) };
    let freeze = |one: &'static BuiltinOverride| {
        Python::initialize();
        Python::attach(|py| BuiltinTable::from_builtins(py, [&LEN].into_iter(), [one].into_iter()))
    };
    static FITS: BuiltinOverride = builtin_override("builtins:len", 2);
    assert!(freeze(&FITS).is_ok());
    static HOLE: BuiltinOverride = builtin_override("repr", 3);
    assert_eq!(error_of(freeze(&HOLE), 3), "there is nothing to override: \"repr\" has no handler");
    static NOWHERE: BuiltinOverride = builtin_override("lenn", 4);
    assert!(error_of(freeze(&NOWHERE), 4).starts_with("the builtin override \"lenn\" leads nowhere"));
}

#[test]
fn an_override_of_a_kind_needs_a_kind_that_wraps() {
    let freeze = |one: &'static KindOverride| {
        Python::initialize();
        Python::attach(|py| KindTable::from_kinds(py, [].into_iter(), [one].into_iter()))
    };
    static UNKNOWN: KindOverride = KindOverride {
        name: "no_such_kind",
        priority: 0,
        wrap: |cx, object, tracker, next| next.wrap(cx, object, tracker),
        origin: origin(2),
    };
    assert_eq!(error_of(freeze(&UNKNOWN), 2), "there is nothing to override: \"no_such_kind\" is no kind of variable");
}

#[test]
fn nothing_is_asked_where_nothing_is_overridden() {
    harness::with_tracer(|_| {
        let runtime = Runtime::get().unwrap();
        assert_eq!(runtime.observers.len(), 1);
    });
}
