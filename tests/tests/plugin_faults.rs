//! Faulty plug-ins: handlers, kinds, fetches, tests and observers that raise, panic, give wrong answers or leave the
//! tracer's state changed. Whatever they do, and whenever, calls give the same results as in CPython, and the fault
//! is counted and reported with crate, file and line.
//!
//! `SOT_FAULTS` sets the number of cases.
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use sot_core::backend::ObjectTest;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{Name, OpcodeExecutor, Trace};
use sot_core::foreign::{Foreign, ForeignFetch};
use sot_core::guard::{Guard, Identity, Test};
use sot_core::ir::Statement;
use sot_core::observer::{Observer, TranslationOutcome};
use sot_core::opcode::Operand;
use sot_core::report;
use sot_core::stats;
use sot_core::tracker::{Key, Tracker, TrackerId};
use sot_core::variable::{VarId, Variable};
use sot_harness as harness;

const SOURCE: &str = r#"
import toy

class Bag:
    def __init__(self, **data):
        self._data = data
    def __getitem__(self, key):
        return self._data[key]

def f(x, bag, names):
    y = toy.relu(x * bag["factor"])
    for name in names:
        y = y + bag[name] * len(names)
    return y + bag["tensor"] - bag["other"], len(names), bag["factor"]

def arguments(factor):
    return toy.arange(3), Bag(factor=factor, a=1.5, b=2, tensor=toy.ones([3]), other=toy.arange(3)), ["a", "b"]
"#;

/// The function of a plug-in that has the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Point {
    Opcode,
    Builtin,
    Wrap,
    GetItem,
    Fetch,
    FetchText,
    FetchKey,
    SameKey,
    Check,
    Observer,
}

const POINTS: [Point; 10] = [
    Point::Opcode,
    Point::Builtin,
    Point::Wrap,
    Point::GetItem,
    Point::Fetch,
    Point::FetchText,
    Point::FetchKey,
    Point::SameKey,
    Point::Check,
    Point::Observer,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// Raises an unexpected Python exception.
    Raises,
    Panics,
    Breaks,
    FallsBack,
    /// Returns a wrong answer, or leaves another stack than CPython.
    Lies,
    /// Returns a value of a type that the function never returns, or wraps another object.
    Misfits,
    /// The handler repeats the operation that it handles, and so calls itself without end.
    GoesInCircles,
}

const FAULTS: [Fault; 7] =
    [Fault::Raises, Fault::Panics, Fault::Breaks, Fault::FallsBack, Fault::Lies, Fault::Misfits, Fault::GoesInCircles];

/// The fault of a test case. It occurs at visit `after + 1` of its point, or at every visit from there on (`goes_on`).
struct Plan {
    point: Point,
    fault: Fault,
    after: u32,
    goes_on: bool,
    visits: u32,
    fired: u32,
}

static PLAN: Mutex<Option<Plan>> = Mutex::new(None);

/// Counts a visit of a point, and returns the fault that must occur now.
fn visit(point: Point) -> Option<Fault> {
    let mut plan = PLAN.lock();
    let plan = plan.as_mut().filter(|plan| plan.point == point)?;
    plan.visits += 1;
    let is_due = plan.visits == plan.after + 1 || plan.goes_on && plan.visits > plan.after;
    is_due.then(|| {
        plan.fired += 1;
        plan.fault
    })
}

/// Like [`visit`], for functions that can only panic or return a wrong answer. True if the answer must be wrong.
fn lies(point: Point) -> bool {
    match visit(point) {
        None => false,
        Some(Fault::Panics) => panic!("a bug of the plug-in's"),
        Some(_) => true,
    }
}

/// Like [`visit`], for simulations. Raises, panics or unwinds itself, and returns any other fault to the caller.
fn meet(point: Point) -> Flow<Option<Fault>> {
    match visit(point) {
        None => Ok(None),
        Some(Fault::Raises) => Err(PyValueError::new_err("a bug of the plug-in's").into()),
        Some(Fault::Panics) => panic!("a bug of the plug-in's"),
        Some(Fault::Breaks) => Err(Unwind::break_graph(ReasonId::UnsupportedCall, "the plug-in asks for it")),
        Some(Fault::FallsBack) => Err(Unwind::fallback(ReasonId::UnsupportedFrame, "the plug-in asks for it")),
        Some(other) => Ok(Some(other)),
    }
}

fn leave_a_mess(cx: &mut OpcodeExecutor<'_>) -> Flow<()> {
    if meet(Point::Opcode)?.is_some() {
        let none = cx.trace.none();
        cx.stack.push(none);
    }
    Ok(())
}

sot_core::opcode! { override LOAD_FAST [3.8..3.14] => |cx, _, next| {
    leave_a_mess(cx)?;
    next.call(cx)
} }

sot_core::opcode! { override RETURN_VALUE [3.8..3.14] => |cx, _, next| {
    leave_a_mess(cx)?;
    next.call(cx)
} }

sot_core::opcode! { override GET_ITER [3.8..3.14] => |cx, _, next| {
    let to = next.call(cx)?;
    leave_a_mess(cx)?;
    Ok(to)
} }

sot_core::builtin! { override LEN = "len" => |cx, args, next| {
    match meet(Point::Builtin)? {
        None => next.call(cx, args),
        Some(Fault::Misfits) => Ok(cx.trace.string("many")),
        Some(Fault::GoesInCircles) => {
            let len = cx.py.import("builtins")?.getattr("len")?;
            let tracker = cx.trace.trackers.constant(len.clone().unbind());
            let len = cx.trace.wrap(&len, tracker);
            cx.call(len, args)
        }
        Some(_) => Err(cx.raise(PyValueError::new_err("of the program's, says the plug-in"))),
    }
} }

sot_core::variable_kind! {
    "faulty_bag",
    types: |py| Ok(vec![module(py)?.getattr("Bag")?.unbind()]),
    wrap: |_, object, _| {
        let object = match meet(Point::Wrap)? {
            Some(Fault::Misfits) => object.py().None(),
            _ => object.clone().unbind(),
        };
        Ok(Rc::new(BagVariable { object }))
    }
}

fn module(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let make = || harness::load_module(py, SOURCE, Path::new("faulty.py")).map(Bound::unbind);
    Ok(MODULE.get_or_try_init(py, make)?.bind(py))
}

struct BagVariable {
    object: Py<PyAny>,
}

impl Variable for BagVariable {
    fn kind(&self) -> &'static str {
        "faulty_bag"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.object.bind(trace.py).get_type().into_any()
    }

    fn text(&self, _: &Trace<'_>) -> String {
        "BagVariable()".to_owned()
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }

    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        let (tracker, ty) = (cx.trace.vars.tracker(this), self.python_type(&cx.trace));
        cx.trace.guards.add(tracker, Test::TypeIs(Identity::of(&ty)));
        cx.trace.guards.add(tracker, Test::Object(Box::new(IsBag)));
        Ok(())
    }

    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<VarId> {
        if meet(Point::GetItem)? == Some(Fault::GoesInCircles) {
            return cx.get_item(this, key);
        }
        let Some(key) = cx.known_str(key)? else {
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, "a key that is not known"));
        };
        let fetch = ItemFetch { key: key.clone() };
        let Some(value) = item(self.object.bind(cx.py), &fetch.key) else {
            return Err(cx.raise(PyKeyError::new_err(fetch.key)));
        };
        let of = cx.trace.vars.tracker(this);
        let tracker: TrackerId = cx.trace.trackers.add(Tracker::Foreign { of, how: Foreign(Arc::new(fetch)) });
        let value = value.unbind().into_bound(cx.py);
        Ok(cx.trace.wrap(&value, tracker))
    }
}

struct IsBag;

impl ObjectTest for IsBag {
    fn check(&self, _: &Bound<'_, PyAny>) -> bool {
        !lies(Point::Check)
    }

    fn describe(&self, subject: &str) -> String {
        format!("is_bag({subject})")
    }
}

fn item<'py>(bag: &Bound<'py, PyAny>, key: &str) -> Option<Bound<'py, PyAny>> {
    bag.getattr("_data").ok()?.cast_into::<PyDict>().ok()?.get_item(key).ok()?
}

struct ItemFetch {
    key: String,
}

impl ForeignFetch for ItemFetch {
    fn plugin(&self) -> String {
        "the faulty bag".to_owned()
    }

    fn fetch<'py>(&self, object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        (!lies(Point::Fetch)).then(|| item(object, &self.key))?
    }

    fn text(&self, of: &str) -> String {
        if lies(Point::FetchText) {
            return String::new();
        }
        format!("{of}[{:?}]", self.key)
    }

    fn key(&self) -> String {
        if lies(Point::SameKey) {
            return "the same for all".to_owned();
        }
        // A key that differs each time only costs guards.
        if lies(Point::FetchKey) {
            format!("{} {:p}", self.key, self)
        } else {
            self.key.clone()
        }
    }
}

struct Nosy;

impl Observer for Nosy {
    fn step(&self, _: &OpcodeExecutor<'_>, _: &Operand) {
        lies(Point::Observer);
    }

    fn statement(&self, _: &OpcodeExecutor<'_>, _: &Statement) {
        lies(Point::Observer);
    }

    fn guard(&self, _: &OpcodeExecutor<'_>, _: &Guard) {
        lies(Point::Observer);
    }

    fn ends(&self, _: &OpcodeExecutor<'_>, _: TranslationOutcome<'_>) {
        lies(Point::Observer);
    }
}

static NOSY: Nosy = Nosy;
sot_core::observer! { NOSY }

/// Returns the results of calls with several factors, some of them repeated.
fn results(py: Python<'_>, translated: bool) -> Vec<String> {
    let module = harness::load_module(py, SOURCE, Path::new("faulty.py")).unwrap();
    // The plug-in's kind is registered for the class in its own module.
    module.setattr("Bag", self::module(py).unwrap().getattr("Bag").unwrap()).unwrap();
    let function = module.getattr("f").unwrap();
    if translated {
        harness::mark(&function).unwrap();
    }
    let call = |factor: f64| {
        let arguments = module.getattr("arguments").unwrap().call1((factor,)).unwrap().cast_into::<PyTuple>().unwrap();
        let result = if translated { harness::call(&function, &arguments, None) } else { function.call1(&arguments) };
        result.map_or_else(|error| format!("raises {error}"), |value| value.to_string())
    };
    [2.0, 2.0, 3.0, 2.0, 3.0].map(call).to_vec()
}

/// True for the error of a value that a fetch finds while guards are tested, but not when new code loads the value.
fn is_fetch_error(point: Point, found: &str) -> bool {
    let gone = "raises RuntimeError: what the faulty bag has found is gone";
    point == Point::Fetch && (found == gone || found == "raises RuntimeError: a bug of the plug-in's")
}

fn number_of_cases() -> u64 {
    std::env::var("SOT_FAULTS").ok().and_then(|cases| cases.parse().ok()).unwrap_or(511)
}

/// Returns the plan of a case. Successive cases cover all points and faults.
fn plan(case: u64) -> Plan {
    let next = |range: usize, seed: u64| (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as usize % range;
    Plan {
        point: POINTS[case as usize % POINTS.len()],
        fault: FAULTS[case as usize / POINTS.len() % FAULTS.len()],
        after: [0, 0, 1, 2, 3, 5, 8, 13][next(8, case + 1)],
        goes_on: next(2, case + 1_000_003) == 1,
        visits: 0,
        fired: 0,
    }
}

const BLIND: &str = r"
import toy

class Jar:
    def __init__(self, factor):
        self.factor = factor

def f(x, jar):
    return toy.relu(x) * jar.factor
";

/// Selects which guard of `blind_jar` never holds: `false`, its test; `true`, the fetch of its attribute. Neither uses
/// a fetch of the plug-in.
static JAR_IS_FETCHED: AtomicBool = AtomicBool::new(false);

sot_core::variable_kind! {
    "blind_jar",
    types: |py| Ok(vec![jars(py)?.getattr("Jar")?.unbind()]),
    wrap: |_, object, _| Ok(Rc::new(JarVariable { object: object.clone().unbind() }))
}

fn jars(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let make = || harness::load_module(py, BLIND, Path::new("blind.py")).map(Bound::unbind);
    Ok(MODULE.get_or_try_init(py, make)?.bind(py))
}

struct JarVariable {
    object: Py<PyAny>,
}

impl Variable for JarVariable {
    fn kind(&self) -> &'static str {
        "blind_jar"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.object.bind(trace.py).get_type().into_any()
    }

    fn text(&self, _: &Trace<'_>) -> String {
        "JarVariable()".to_owned()
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }

    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        let tracker = cx.trace.vars.tracker(this);
        if !JAR_IS_FETCHED.load(Ordering::Relaxed) {
            cx.trace.guards.add(tracker, Test::Object(Box::new(IsNever)));
        }
        Ok(())
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        let value = self.object.bind(cx.py).getattr(&**name)?;
        // This tracker is wrong: a jar has no items.
        let tracker = Tracker::Item { of: cx.trace.vars.tracker(this), key: Key::Str(name.clone()) };
        let tracker = cx.trace.trackers.add(tracker);
        Ok(Some(cx.trace.wrap(&value, tracker)))
    }
}

struct IsNever;

impl ObjectTest for IsNever {
    fn check(&self, _: &Bound<'_, PyAny>) -> bool {
        false
    }

    fn describe(&self, subject: &str) -> String {
        format!("is_never({subject})")
    }
}

/// A guard that never holds is attributed to the plug-in that made it, whichever fetch it uses.
#[test]
fn a_guard_that_never_holds_is_reported_once() {
    harness::with_tracer(|py| {
        std::env::remove_var("STRICT_MODE");
        let warnings = py.import("warnings").unwrap();
        for (is_fetched, owner) in [(false, "the test plugin_faults::IsNever"), (true, "the kind blind_jar at ")] {
            JAR_IS_FETCHED.store(is_fetched, Ordering::Relaxed);
            let module = harness::load_module(py, BLIND, Path::new("blind.py")).unwrap();
            module.setattr("Jar", jars(py).unwrap().getattr("Jar").unwrap()).unwrap();
            let function = module.getattr("f").unwrap();
            harness::mark(&function).unwrap();
            harness::reset();
            let record = PyDict::new(py);
            record.set_item("record", true).unwrap();
            let caught = warnings.call_method("catch_warnings", (), Some(&record)).unwrap();
            let told = caught.call_method0("__enter__").unwrap();
            warnings.call_method1("simplefilter", ("always",)).unwrap();
            for _ in 0..3 {
                let given = py.eval(c"(toy.arange(3), Jar(2.0))", Some(&module.dict()), None).unwrap();
                let result = harness::call(&function, &given.cast_into::<PyTuple>().unwrap(), None).unwrap();
                let result: Vec<f64> = result.call_method0("tolist").unwrap().extract().unwrap();
                assert_eq!(result, [0.0, 2.0, 4.0]);
            }
            let told: Vec<String> = told.try_iter().unwrap().map(|one| one.unwrap().to_string()).collect();
            caught.call_method1("__exit__", (py.None(), py.None(), py.None())).unwrap();
            let (_, stats) = stats::snapshot();
            let words = format!("a guard of {owner}");
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].contains(&words), "{told:?}");
            assert!(stats.fallbacks.keys().any(|text| text.contains(&words)), "{stats:?}");
            let counts = harness::counts();
            assert_eq!((counts.misses, counts.hits), (1, 0), "the frame is CPython's: {counts:?}");
        }
        std::env::set_var("STRICT_MODE", "1");
    });
}

/// Verify mode shows the same list with a difference, because the tracer cannot detect a wrong answer of the right
/// type.
#[test]
fn reports_name_the_plug_ins_that_took_part() {
    harness::with_tracer(|py| {
        let before = report::collect_details(true);
        let since = report::upcoming_id();
        results(py, true);
        let told = report::json(since).unwrap();
        report::truncate(since);
        report::collect_details(before);
        for word in ["opcode override GET_ITER at ", "builtin override len at ", "kind faulty_bag at "] {
            assert!(told.contains(word), "{word} is not in {told}");
        }
        assert!(!told.contains("opcode GET_ITER at "), "the tracer's own are left out: {told}");
    });
}

#[test]
fn a_faulty_plug_in_does_no_harm() {
    harness::with_tracer(|py| {
        std::env::remove_var("STRICT_MODE");
        py.import("warnings").unwrap().call_method1("simplefilter", ("ignore",)).unwrap();
        let expected = results(py, false);
        let mut fired: BTreeMap<(Point, Fault), u32> = BTreeMap::new();
        for case in 0..number_of_cases() {
            harness::reset();
            *PLAN.lock() = Some(plan(case));
            let found = results(py, true);
            let plan = PLAN.lock().take().unwrap();
            let (_, stats) = stats::snapshot();
            let what = format!("case {case}: {:?} {:?} after {}, {stats:?}", plan.point, plan.fault, plan.after);
            // The tracer cannot detect a builtin handler that returns a wrong value.
            let is_believed = (plan.point, plan.fault) == (Point::Builtin, Fault::Lies) && plan.fired > 0;
            let same = |(found, expected): (&String, &String)| found == expected || is_fetch_error(plan.point, found);
            let are_same = found.iter().zip(&expected).all(same);
            assert!(are_same || is_believed, "{what}\n{found:?}\n{expected:?}");
            *fired.entry((plan.point, plan.fault)).or_default() += plan.fired;
            if plan.fired == 0 {
                assert!(stats.fallbacks.is_empty() && stats.graphs > 0, "{what}");
            } else if plan.fault == Fault::Panics && found == expected {
                assert!(stats.panics > 0, "{what}");
            }
            let is_named = |texts: &BTreeMap<String, u64>| texts.keys().any(|text| text.contains("crate sot-tests"));
            let of_registration = matches!(plan.point, Point::Opcode | Point::Builtin | Point::Wrap | Point::Observer);
            let misfits = matches!(plan.point, Point::Builtin | Point::Wrap) && plan.fault == Fault::Misfits;
            if plan.fired > 0 && misfits {
                assert!(is_named(&stats.fallbacks), "{what}");
            }
            if plan.fired > 0 && of_registration && matches!(plan.fault, Fault::Raises | Fault::Panics) {
                let is_quiet = plan.point == Point::Observer && plan.fault == Fault::Raises;
                assert!(is_quiet || is_named(&stats.fallbacks), "{what}");
            }
        }
        for point in POINTS {
            assert!(fired.get(&(point, Fault::Panics)).is_some_and(|times| *times > 0), "{point:?}: {fired:?}");
        }
        std::env::set_var("STRICT_MODE", "1");
    });
}
