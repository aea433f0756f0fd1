//! Property tests of opcodes. A fragment of Python around an opcode, with random operands and in random places, must
//! have the same effect translated as in CPython: results, sharing of objects, side effects, exceptions and their
//! positions. An opcode with a handler but without a property fails.
//!
//! `SOT_PROPTEST_OPCODES` sets the number of cases for each opcode. `SOT_PROPTEST_SEED` selects the cases; with
//! `random`, each run has different ones. Each opcode is a test: `cargo test --test opcodes BINARY`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::cell::RefCell;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use pyo3::exceptions::PySyntaxError;
use pyo3::prelude::*;
use sot_core::opcode::OpcodeHandler;
use sot_core::runtime::Runtime;
use sot_core::version::PyVersion;

use crate::harness;
use crate::suite;

mod operands;
mod program;
mod property;

use program::{Case, OperandSource, Place};
use property::occurrences_in;

pub use operands::Kind;
pub use property::{intersperse, Property};

const DEFAULT_CASES: u32 = 24;

/// Minimum number of cases for each fragment.
const CASES_OF_A_FRAGMENT: u32 = 2;

fn number_of_cases() -> u32 {
    std::env::var("SOT_PROPTEST_OPCODES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(DEFAULT_CASES)
}

fn seed() -> u64 {
    match std::env::var("SOT_PROPTEST_SEED").as_deref() {
        Ok("random") => {
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
        }
        Ok(seed) => seed.parse().expect("SOT_PROPTEST_SEED is a number or 'random'"),
        Err(_) => 0,
    }
}

/// Runs a test for each opcode that has a handler or an override in one of these crates. Returns the exit code for
/// `main` of a test with `harness = false`.
///
/// # Panics
/// If the tracer does not start.
pub fn run(crates: &[&str]) -> ExitCode {
    let (cases, seed) = (number_of_cases(), seed());
    println!("SOT_PROPTEST_SEED={seed}");
    for (text, place, reason) in EXCLUDED {
        println!("excluded: {text:?} in place {place:?}: {reason}");
    }
    let handlers: Vec<_> = harness::with_tracer(|_| {
        let dispatch = Runtime::get().map(|runtime| runtime.dispatch);
        let of_crates = |(opcode, handler): &(u8, &'static OpcodeHandler)| {
            let overrides = dispatch.map(|dispatch| dispatch.overrides(*opcode)).unwrap_or_default();
            let origins = overrides.iter().map(|one| one.origin).chain([handler.origin]);
            { origins }.any(|origin| crates.contains(&origin.krate))
        };
        dispatch.map(|dispatch| dispatch.iter().filter(of_crates).collect()).unwrap_or_default()
    });
    let (opcodes, all) = (handlers.len(), Arc::new(Mutex::new(Tally::default())));
    let of_handler = |(opcode, handler): (u8, &'static OpcodeHandler)| {
        let all = Arc::clone(&all);
        suite::Case::new(handler.name, move |py| {
            let tally = check(py, opcode, handler.name, cases, seed)
                .map_err(|what| format!("{}:{}: {what}", handler.origin.file, handler.origin.line))?;
            if suite::is_chosen() {
                println!("{}: {tally}", handler.name);
            }
            all.lock().add(&tally);
            Ok(())
        })
    };
    suite::run(handlers.into_iter().map(of_handler).collect(), || {
        format!("CPython {}: {opcodes} opcodes, {}", PyVersion::BUILT_FOR, all.lock())
    })
}

/// Opcodes that decoding removes from the code; their properties are about the decoding.
const FOLDED: &[&str] = &["CACHE", "EXTENDED_ARG"];

/// Outcomes of the cases of an opcode.
#[derive(Debug, Default, Clone)]
struct Tally {
    cases: u64,
    whole: u64,
    broken: u64,
    graphs: u64,
    raising: u64,
    /// Cases in which the opcode's handler completed and the frame was not left to CPython.
    simulated: u64,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.cases += other.cases;
        self.whole += other.whole;
        self.broken += other.broken;
        self.graphs += other.graphs;
        self.raising += other.raising;
        self.simulated += other.simulated;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { cases, whole, broken, graphs, raising, simulated } = self;
        write!(f, "{cases} cases: {simulated} simulate it, {whole} whole, {broken} with breaks, ")?;
        write!(f, "{raising} raise, {graphs} graphs")
    }
}

/// Places in which fragments with this text are not tested, with the reason.
const EXCLUDED: &[(&str, Place, &str)] = &[(
    "    del t",
    Place::Resumed,
    "behind a break, a cell variable without a value is a free variable without a value, which has an error of its own",
)];

/// Fails if an opcode has no property, if a property does not hold, or if no case simulates the opcode. The cases are
/// divided among the fragments.
fn check(py: Python<'_>, opcode: u8, name: &str, cases: u32, seed: u64) -> Result<Tally, String> {
    // The collector would run the `finally` of generators held by a frame of an exception at unpredictable times.
    let gc = py.import("gc").map_err(|error| error.to_string())?;
    for call in ["disable", "collect"] {
        gc.call_method0(call).map_err(|error| error.to_string())?;
    }
    let fragments = fragments(py, opcode, name)?;
    let share = cases.div_ceil(fragments.len() as u32).max(CASES_OF_A_FRAGMENT);
    let mut tally = Tally::default();
    for (index, fragment) in fragments.into_iter().enumerate() {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        (bytes[8], bytes[9]) = (opcode, index as u8);
        let of_fragment = check_fragment(py, fragment, (opcode, name), share, bytes)?;
        if std::env::var_os("SOT_PROPTEST_TRACE").is_some() {
            eprintln!("{name}: {:?}: {of_fragment}", fragment.1);
        }
        tally.add(&of_fragment);
    }
    if tally.simulated == 0 && !FOLDED.contains(&name) {
        return Err(format!("was never simulated to its end: {tally}"));
    }
    Ok(tally)
}

fn check_fragment(
    py: Python<'_>,
    fragment: Fragment,
    (opcode, name): (u8, &str),
    cases: u32,
    seed: [u8; 32],
) -> Result<Tally, String> {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 500, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    let tally = RefCell::new(Tally::default());
    let result = runner.run(&case(fragment), |case| {
        let case = in_place(py, case, opcode);
        if std::env::var_os("SOT_PROPTEST_TRACE").is_some() {
            eprintln!("{name}: {case:?}");
        }
        let counts = case.compare(py).map_err(TestCaseError::fail)?;
        let mut tally = tally.borrow_mut();
        tally.cases += 1;
        tally.graphs += counts.graphs;
        tally.simulated += u64::from(harness::was_simulated(opcode));
        let raises = counts.breaks.iter().any(|reason| reason.starts_with("raises"));
        tally.raising += u64::from(raises);
        if !counts.breaks.is_empty() {
            tally.broken += 1;
        } else if counts.fallbacks.is_empty() && counts.graphs == counts.translations {
            tally.whole += 1;
        }
        Ok(())
    });
    match result {
        Err(TestError::Fail(reason, _) | TestError::Abort(reason)) => Err(reason.to_string()),
        Ok(()) => Ok(tally.into_inner()),
    }
}

/// A fragment that compiles to the opcode: property, source, and the opcode if it must be assembled.
type Fragment = (&'static Property, &'static str, Option<u8>);

fn fragments(py: Python<'_>, opcode: u8, name: &str) -> Result<Vec<Fragment>, String> {
    let properties = Property::of(name);
    if properties.is_empty() {
        return Err("has no property".to_owned());
    }
    let all =
        || properties.iter().flat_map(|property| property.fragments.iter().map(move |fragment| (*property, *fragment)));
    let (mut found, mut shared) = (Vec::new(), Vec::new());
    for (property, fragment) in all() {
        let around = occurrences(&plain(property, "pass", None).load(py).unwrap(), opcode).unwrap();
        match plain(property, fragment, None).load(py) {
            Ok(module) => match occurrences(&module, opcode).unwrap() {
                0 => {}
                count if count > around => found.push((property, fragment, None)),
                _ => shared.push((property, fragment, None)),
            },
            Err(error) if error.is_instance_of::<PySyntaxError>(py) && PyVersion::BUILT_FOR < PyVersion::NEWEST => {}
            Err(error) => return Err(format!("{}:{}: {fragment}: {error}", property.file, property.line)),
        }
    }
    // Opcodes that are in the code around every fragment.
    if found.is_empty() {
        found = shared;
    }
    if found.is_empty() {
        let assembled = all().filter(|(property, _)| property.assemble.is_some());
        found.extend(assembled.map(|(property, fragment)| (property, fragment, Some(opcode))));
    }
    if found.is_empty() {
        return Err("none of its fragments compiles to it".to_owned());
    }
    Ok(found)
}

fn plain(property: &Property, fragment: &'static str, assembled: Option<u8>) -> Case {
    let operands = vec!["None".to_owned(); property.operands.len()];
    Case {
        fragment,
        place: Place::Plain,
        source: OperandSource::Argument,
        operands: [operands.clone(), operands],
        assemble: assembled.and_then(|opcode| Some((property.assemble?, opcode))),
    }
}

/// Counts the occurrences of the opcode in `f` and in the function that it calls.
fn occurrences(module: &Bound<'_, PyModule>, opcode: u8) -> PyResult<usize> {
    let mut count = 0;
    for name in ["f", "h"] {
        if module.hasattr(name)? {
            count += occurrences_in(&module.getattr(name)?.getattr("__code__")?, opcode)?;
        }
    }
    Ok(count)
}

fn case((property, fragment, assembled): Fragment) -> impl Strategy<Value = Case> {
    use OperandSource::{Argument, Global, Literal};
    let operands = || property.operands.iter().map(|&kind| operands::operand(kind)).collect::<Vec<_>>();
    // Where no exception is caught, the graph breaks before the instruction that raises it.
    let place = prop_oneof![1 => Just(Place::Caught), 5 => proptest::sample::select(Place::ALL.to_vec())];
    let source = prop_oneof![2 => Just(Argument), 1 => Just(Literal), 1 => Just(Global)];
    (place, source, operands(), operands()).prop_map(move |(place, source, first, second)| Case {
        place,
        source,
        operands: [first, second],
        ..plain(property, fragment, assembled)
    })
}

/// Returns the case, moved to the plain place if its own place does not have the opcode.
fn in_place(py: Python<'_>, case: Case, opcode: u8) -> Case {
    let excluded = |(text, place, _): &(&str, Place, &str)| case.place == *place && case.fragment.contains(text);
    let fits = case.assemble.is_none()
        && !EXCLUDED.iter().any(excluded)
        && case.load(py).is_ok_and(|module| occurrences(&module, opcode).unwrap() > 0);
    if fits {
        return case;
    }
    let plain = Case { place: Place::Plain, ..case };
    let found =
        plain.assemble.is_some() || plain.load(py).is_ok_and(|module| occurrences(&module, opcode).unwrap() > 0);
    assert!(found, "the fragment lost its opcode");
    plain
}
