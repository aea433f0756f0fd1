//! Operators on random values: an expression as a function's body, run by CPython and translated, gives the same
//! value or exception. Operands are arguments of the function, or literals in its body.
//!
//! `SOT_PROPTEST_CASES` sets the number of cases for each family of operators; `SOT_PROPTEST_PROGRAMS` sets the
//! number of whole programs in `random_programs`.
//! Needs the interpreter's library at run time: `LD_LIBRARY_PATH` and `PYTHONHOME` name its prefix.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::cell::Cell;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use pyo3::prelude::*;
use sot_core::executor::{BinaryOp, CompareOp, UnaryOp};
use sot_harness as harness;

const DEFAULT_CASES: u32 = 64;

fn number_of_cases() -> u32 {
    std::env::var("SOT_PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(DEFAULT_CASES)
}

/// Checks `cases` random ones of a family of expressions over `a`, `b` and `c`.
fn check(family: &str, cases: u32, expressions: impl Strategy<Value = Expression>) {
    let (done, whole) = (Cell::new(0), Cell::new(0));
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let result = harness::with_tracer(|py| {
        TestRunner::new(config).run(&expressions, |expression| {
            let became_whole = expression.compare(py).map_err(TestCaseError::fail)?;
            done.set(done.get() + 1);
            whole.set(whole.get() + u32::from(became_whole));
            Ok(())
        })
    });
    println!("{family}: {} cases, {} became one graph", done.get(), whole.get());
    result.unwrap_or_else(|error| panic!("{family}: {error}"));
    assert!(whole.get() > 0, "no case became a graph");
}

/// A statement that sets `r`, and its operands as Python source.
#[derive(Debug, Clone)]
struct Expression {
    statement: String,
    operands: Vec<String>,
    literals: bool,
}

impl Expression {
    fn source(&self) -> String {
        let names = &["a", "b", "c"][..self.operands.len()];
        let maker = format!("[lambda: (toy.arange(2), {}) for _ in range(2)]", self.operands.join(", "));
        let (parameters, locals) = if self.literals {
            let locals: Vec<_> =
                names.iter().zip(&self.operands).map(|(name, value)| format!("    {name} = {value}\n")).collect();
            ("*_".to_owned(), locals.concat())
        } else {
            (names.join(", "), String::new())
        };
        let values = names.join(", ");
        format!(
            "import toy\nfrom math import inf, nan\nmakers = {maker}\n\
             def f(x, {parameters}):\n    y = x + 1\n{locals}    {}\n    return y, r, {values}\n\
             def caught(x, {parameters}):\n{locals}    r = None\n    try:\n        {}\n    \
             except Exception as error:\n        r = type(error)\n    return x + 1, r, {values}\n",
            self.statement, self.statement
        )
    }

    /// Whether the function became one graph; an error if it does something else than CPython.
    fn compare(&self, py: Python<'_>) -> Result<bool, String> {
        let source = self.source();
        let load = || harness::load_module(py, &source, Path::new("expression.py")).unwrap();
        let mut whole = true;
        for name in ["f", "caught"] {
            let observe = |translated: bool| {
                let module = load();
                let makers: Vec<Bound<'_, PyAny>> = module.getattr("makers").unwrap().extract().unwrap();
                module.delattr("makers").unwrap();
                harness::observe(&module, name, &makers, translated).unwrap()
            };
            let expected = observe(false);
            harness::reset();
            let actual = observe(true);
            let counts = harness::counts();
            if expected != actual {
                let (expected, actual) = (expected.join("\n"), actual.join("\n"));
                return Err(format!("{source}\nCPython:\n{expected}\ntranslated:\n{actual}\n{counts:?}"));
            }
            if counts.misses == 0 {
                return Err(format!("{source}\nwas not translated"));
            }
            whole &= counts.graphs == counts.translations && counts.breaks.is_empty() && counts.fallbacks.is_empty();
        }
        Ok(whole)
    }
}

fn expression(
    statement: impl Strategy<Value = String>,
    operands: impl Strategy<Value = Vec<String>>,
) -> impl Strategy<Value = Expression> {
    (statement, operands, any::<bool>()).prop_map(|(statement, operands, literals)| Expression {
        statement,
        operands,
        literals,
    })
}

fn one_of(texts: &[&str]) -> impl Strategy<Value = String> {
    proptest::sample::select(texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
}

fn small_int() -> impl Strategy<Value = String> {
    (-5i64..8).prop_map(|n| n.to_string())
}

fn int() -> impl Strategy<Value = String> {
    let edges = ["2**31", "2**63 - 1", "2**63", "-2**63", "10**30", "-10**30", "255", "256", "257", "-6"];
    prop_oneof![3 => small_int(), 1 => any::<i64>().prop_map(|n| n.to_string()), 1 => one_of(&edges)]
}

fn float() -> impl Strategy<Value = String> {
    let edges = ["0.0", "-0.0", "nan", "inf", "-inf", "0.5", "1e308", "5e-324", "2.0", "-3.75", "1e16"];
    prop_oneof![2 => one_of(&edges), 1 => (-100.0..100.0).prop_map(|v: f64| format!("{v:?}"))]
}

fn text() -> impl Strategy<Value = String> {
    one_of(&["''", "'a'", "'abc'", "'b'", "'%s'", "'%d and %r'", "'é'", "'a\\n'", "'\\U0001f600x'", "'0'"])
}

fn bytes() -> impl Strategy<Value = String> {
    one_of(&["b''", "b'a'", "b'abc'", "b'%d'", "b'\\xff\\x00'"])
}

fn atom() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => int(),
        2 => float(),
        2 => text(),
        1 => bytes(),
        1 => one_of(&["None", "True", "False", "...", "1j", "(2-1j)", "NotImplemented"]),
    ]
}

/// An atom, or tuples and lists of such, a few levels deep.
fn value(atom: impl Strategy<Value = String> + 'static) -> impl Strategy<Value = String> {
    atom.prop_recursive(3, 8, 3, |inner| {
        let items = || proptest::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            items().prop_map(|items| format!("[{}]", items.join(", "))),
            items().prop_map(|items| if items.is_empty() {
                "()".to_owned()
            } else {
                format!("({},)", items.join(", "))
            }),
        ]
    })
}

fn pairs(atom: impl Strategy<Value = String> + Clone + 'static) -> impl Strategy<Value = Vec<String>> {
    let either = prop_oneof![3 => atom.clone(), 2 => value(atom)].boxed();
    proptest::collection::vec(either, 2)
}

/// Operators whose result may be too large to compute get small numbers.
fn is_explosive(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::Multiply | BinaryOp::Power | BinaryOp::LeftShift)
}

fn small_atom() -> impl Strategy<Value = String> + Clone {
    prop_oneof![4 => small_int(), 1 => float(), 1 => text(), 1 => bytes(), 1 => one_of(&["None", "True", "False"])]
        .boxed()
}

fn binary_with(pattern: fn(&str) -> String) -> impl Strategy<Value = Expression> {
    let any_op = proptest::sample::select(BinaryOp::ALL.to_vec());
    any_op.prop_flat_map(move |op| {
        let statement = pattern(op.symbol());
        let operands = if is_explosive(op) { pairs(small_atom()).boxed() } else { pairs(atom().boxed()).boxed() };
        expression(Just(statement), operands)
    })
}

#[test]
fn binary_operators() {
    let cases = number_of_cases() * 2;
    check("binary", cases, binary_with(|op| format!("r = a {op} b")));
}

#[test]
fn inplace_operators() {
    check("in-place", number_of_cases(), binary_with(|op| format!("r = a; r {op}= b")));
}

#[test]
fn comparisons() {
    let ops = CompareOp::ALL.iter().map(|op| op.symbol()).chain(["is", "is not", "in", "not in"]);
    let statements: Vec<String> = ops.map(|op| format!("r = a {op} b")).collect();
    let statement = proptest::sample::select(statements);
    check("comparison", number_of_cases() * 2, expression(statement, pairs(atom().boxed())));
}

#[test]
fn membership() {
    let container = prop_oneof![value(atom().boxed()), text(), bytes()];
    let operands = (value(atom().boxed()), container).prop_map(|(a, b)| vec![a, b]);
    check(
        "membership",
        number_of_cases(),
        expression(one_of(&["r = a in b", "r = a not in b", "r = b.count(a)"]), operands),
    );
}

#[test]
fn unary_operators() {
    let ops = UnaryOp::ALL.iter().map(|op| op.symbol().to_owned()).chain(["not ".to_owned()]);
    let functions = ["abs", "bool", "len", "type", "repr", "str"].map(|name| format!("{name} "));
    let statements: Vec<String> = ops.chain(functions).map(|op| format!("r = {op}(a)")).collect();
    let operand = value(atom().boxed()).prop_map(|a| vec![a]);
    check("unary", number_of_cases(), expression(proptest::sample::select(statements), operand));
}

#[test]
fn conversions() {
    let functions =
        ["int", "float", "complex", "list", "tuple", "bytes", "set", "sum", "max", "sorted", "any", "round", "ord"];
    let mut statements: Vec<String> = functions.iter().map(|name| format!("r = {name}(a)")).collect();
    // Every NaN has a hash of its own, and the two runs compared have each theirs.
    statements.push("r = a == a and hash(a)".to_owned());
    // A large number makes as many bytes.
    let operand = value(small_atom()).prop_map(|a| vec![a]);
    check("conversion", number_of_cases(), expression(proptest::sample::select(statements), operand));
}

#[test]
fn subscription() {
    let index = prop_oneof![3 => small_int(), 1 => atom()];
    let operands = (value(atom().boxed()), index).prop_map(|(a, b)| vec![a, b]);
    let statements = [
        "r = a[b]",
        "r = a[b:]",
        "r = a[:b]",
        "r = a[::b]",
        "r = {1: 'one', 'a': a}[b]",
        "r = a[b] = 5",
        "r = 0; del a[b]",
    ];
    check("subscription", number_of_cases() * 2, expression(one_of(&statements), operands));
}

#[test]
fn slicing() {
    let bound = || prop_oneof![3 => small_int(), 1 => Just("None".to_owned()), 1 => int()];
    let operands = (value(atom().boxed()), bound(), bound()).prop_map(|(a, b, c)| vec![a, b, c]);
    let statements = [
        "r = a[b:c]",
        "r = a[b::c]",
        "r = a[slice(b, c)]",
        "r = a[b:c] = [1, 2]",
        "r = 0; del a[b:c]",
        "r = a[::b] = c",
    ];
    check("slicing", number_of_cases(), expression(one_of(&statements), operands));
}
