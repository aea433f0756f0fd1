//! Random operands as Python source. The kind of an operand says what the opcode usually accepts; sometimes the
//! operand is of another kind.

use proptest::prelude::*;
use proptest::strategy::BoxedStrategy;

/// The kind of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any value.
    Any,
    /// A number, or an object with operators.
    Number,
    /// An object with a truth value of its own, or whose comparisons have one.
    Truth,
    /// A small int, so that results stay small.
    Small,
    /// An index or key.
    Index,
    /// A container whose items can be read and written: a list, a dict, an object.
    Container,
    /// A hashable value.
    Key,
    /// An iterable.
    Iterable,
    /// A dict, or another mapping for `**`.
    Mapping,
    /// A callable.
    Callable,
    /// A Python function.
    Function,
    /// A context manager.
    Manager,
    /// An object with attributes.
    Object,
    /// An exception or exception class.
    Exception,
    /// A text, or an object that is converted to one.
    Text,
}

/// Generates operands of a kind.
pub(super) fn operand(kind: Kind) -> BoxedStrategy<String> {
    let suitable = match kind {
        Kind::Any => return any_value(),
        Kind::Number => prop_oneof![4 => number(), 3 => with_operators(), 1 => text(), 1 => tensor()].boxed(),
        Kind::Truth => prop_oneof![4 => truth(), 1 => number(), 1 => one_of(EMPTY), 1 => tensor()].boxed(),
        // No large numbers, whose powers and multiples would take too long.
        Kind::Small => {
            return prop_oneof![6 => small_int(), 2 => with_operators(), 1 => tensor(), 1 => one_of(EDGES)].boxed()
        }
        Kind::Index => prop_oneof![5 => small_int(), 2 => slice(), 1 => atom()].boxed(),
        Kind::Container => prop_oneof![3 => sequence(any_value()), 2 => dict(), 2 => of_box(), 1 => text()].boxed(),
        Kind::Key => key(),
        Kind::Iterable => prop_oneof![3 => sequence(any_value()), 1 => dict(), 3 => one_of(ITERABLES)].boxed(),
        Kind::Mapping => prop_oneof![3 => keyword_dict(), 1 => dict(), 2 => one_of(MAPPINGS)].boxed(),
        Kind::Callable => one_of(CALLABLES),
        Kind::Function => one_of(FUNCTIONS),
        Kind::Manager => one_of(MANAGERS),
        Kind::Object => one_of(OBJECTS),
        Kind::Exception => one_of(EXCEPTIONS),
        Kind::Text => prop_oneof![2 => text(), 1 => number(), 1 => one_of(TEXTS), 1 => tensor()].boxed(),
    };
    prop_oneof![9 => suitable, 1 => any_value()].boxed()
}

const EDGES: &[&str] = &["0.5", "-0.0", "nan", "'a'", "b'a'", "None", "True", "[1, 2]", "(1,)", "1j", "inf"];
const EMPTY: &[&str] = &["None", "''", "()", "[]", "{}", "b''", "[0]", "'0'", "toy.full([], 0.0)"];
const MODES: &[&str] = &["", ", 'declines'", ", 'raises'", ", 'itself'", ", 'breaks'"];
const ITERABLES: &[&str] = &[
    "Steps(2)",
    "Steps(3, 'raises')",
    "Steps(3, 'breaks')",
    "Steps(0)",
    "range(3)",
    "'ab'",
    "iter([1, 2])",
    "Box([1, 2])",
    "counting()",
    "map(plain, [1, 2])",
    "(i for i in [3, 4])",
    "{'k': 1}.items()",
    "zip([1, 2], 'ab')",
    "enumerate('xy')",
    "toy.arange(2)",
    "b'ab'",
];
const MAPPINGS: &[&str] = &[
    "{}",
    "Keys({'q': 1})",
    "Keys({'z': 2, 'q': 3}, 'raises')",
    "Keys({'q': 1}, 'breaks')",
    "Keys({3: 1})",
    "Mapped({'q': 2})",
    "{3: 4}",
    "[('q', 1)]",
    "None",
];
const CALLABLES: &[&str] = &[
    "function",
    "plain",
    "strict",
    "fails",
    "Calls('c')",
    "Calls('c', 'raises')",
    "Calls('c', 'breaks')",
    "Attrs('m').method",
    "Deep('m').method",
    "Attrs.of_class",
    "Deep('d').static",
    "Attrs",
    "Point",
    "Slots",
    "len",
    "list",
    "dict",
    "int",
    "str",
    "ValueError",
    "lambda *a, **k: (a, k)",
    "lambda a=1, *, key=2: [a, key]",
    "[].append",
    "'{}'.format",
    "toy.relu",
    "toy.arange(2).sum",
    "counting",
    "type",
];
const FUNCTIONS: &[&str] =
    &["function", "plain", "strict", "fails", "counting", "lambda p=1: p", "Attrs.method", "Attrs.static"];
const MANAGERS: &[&str] = &[
    "Manager('m')",
    "Manager('m', 'itself')",
    "Manager('m', 'declines')",
    "Manager('m', 'raises')",
    "Manager('m', 'breaks')",
    "Enters('e')",
    "Attrs('n')",
];
const OBJECTS: &[&str] = &[
    "Attrs('o')",
    "Attrs('o', 'raises')",
    "Attrs('o', 'declines')",
    "Attrs('o', 'breaks')",
    "Deep('d')",
    "Slots('s')",
    "Point(1, 2)",
    "Box([1])",
    "Attrs",
    "Deep",
    "function",
    "ValueError('v')",
    "toy.arange(2)",
    "Attrs('o').method",
];
const EXCEPTIONS: &[&str] = &[
    "ValueError",
    "ValueError('v')",
    "KeyError('k')",
    "Failure('f', 2)",
    "Failure",
    "StopIteration(3)",
    "Exception",
    "(ValueError, KeyError)",
    "(ValueError, (Failure, KeyError))",
    "LookupError",
    "None",
    "ArithmeticError('a')",
];
const TEXTS: &[&str] = &[
    "Text('t')",
    "Text('t', 'raises')",
    "Text('t', 'itself')",
    "Text('t', 'breaks')",
    "Text(3, 'itself')",
    "Attrs('o')",
    "ValueError('v')",
];

fn one_of(texts: &'static [&'static str]) -> BoxedStrategy<String> {
    proptest::sample::select(texts).prop_map(str::to_owned).boxed()
}

fn small_int() -> BoxedStrategy<String> {
    (-3i64..6).prop_map(|n| n.to_string()).boxed()
}

fn number() -> BoxedStrategy<String> {
    let int = ["2**31", "2**63 - 1", "2**63", "-2**63", "10**30", "255", "256", "257", "-6"];
    let float = ["0.0", "-0.0", "nan", "inf", "-inf", "0.5", "1e308", "5e-324", "2.0", "-3.75"];
    let other = ["True", "False", "1j", "(2-1j)", "None"];
    prop_oneof![
        4 => small_int(),
        2 => proptest::sample::select(int.to_vec()).prop_map(str::to_owned),
        2 => proptest::sample::select(float.to_vec()).prop_map(str::to_owned),
        1 => any::<i64>().prop_map(|n| n.to_string()),
        1 => (-100.0..100.0).prop_map(|v: f64| format!("{v:?}")),
        1 => proptest::sample::select(other.to_vec()).prop_map(str::to_owned),
    ]
    .boxed()
}

fn text() -> BoxedStrategy<String> {
    one_of(&["''", "'a'", "'abc'", "'%s'", "'é\\n'", "'\\U0001f600x'", "'key'", "b''", "b'a'", "b'\\xff\\x00'", "'>5'"])
}

fn tensor() -> BoxedStrategy<String> {
    one_of(&["toy.arange(2)", "toy.ones([2])", "toy.arange(1)", "toy.arange(2, 2)", "toy.full([], 3.0)"])
}

fn with_operators() -> BoxedStrategy<String> {
    of_class(&["Op", "Derived", "Half", "InPlace", "Judged", "Truth", "Sized"])
}

fn truth() -> BoxedStrategy<String> {
    of_class(&["Truth", "Sized", "Judged"])
}

fn of_class(classes: &'static [&'static str]) -> BoxedStrategy<String> {
    (proptest::sample::select(classes), "[ab]", proptest::sample::select(MODES))
        .prop_map(|(class, tag, mode)| format!("{class}('{tag}'{mode})"))
        .boxed()
}

fn of_box() -> BoxedStrategy<String> {
    (sequence(atom()), proptest::sample::select(vec!["", ", 'declines'", ", 'raises'", ", 'breaks'"]))
        .prop_map(|(items, mode)| format!("Box({items}{mode})"))
        .boxed()
}

fn slice() -> BoxedStrategy<String> {
    let bound = || prop_oneof![2 => small_int(), 1 => Just("None".to_owned())];
    (bound(), bound(), bound()).prop_map(|(a, b, c)| format!("slice({a}, {b}, {c})")).boxed()
}

fn key() -> BoxedStrategy<String> {
    prop_oneof![
        4 => atom(),
        1 => (atom(), atom()).prop_map(|(a, b)| format!("({a}, {b})")),
        1 => atom().prop_map(|a| format!("frozenset([{a}])")),
    ]
    .boxed()
}

fn atom() -> BoxedStrategy<String> {
    prop_oneof![4 => number(), 3 => text(), 1 => one_of(&["...", "NotImplemented", "'k'", "int"])].boxed()
}

fn sequence(items: BoxedStrategy<String>) -> BoxedStrategy<String> {
    (proptest::collection::vec(items, 0..4), 0..4usize)
        .prop_map(|(items, kind)| match kind {
            0 if items.is_empty() => "()".to_owned(),
            0 => format!("({},)", items.join(", ")),
            3 => format!("list(({}))", if items.is_empty() { String::new() } else { items.join(", ") + "," }),
            _ => format!("[{}]", items.join(", ")),
        })
        .boxed()
}

fn dict() -> BoxedStrategy<String> {
    // Keys are compared by value, and the trace keeps one of several equal keys. So keys must not have an observable
    // identity.
    proptest::collection::vec((atom(), atom()), 0..3)
        .prop_map(|items| {
            let items: Vec<_> = items.into_iter().map(|(key, value)| format!("{key}: {value}")).collect();
            format!("{{{}}}", items.join(", "))
        })
        .boxed()
}

fn keyword_dict() -> BoxedStrategy<String> {
    let name = proptest::sample::select(vec!["p", "q", "key", "other", "r"]);
    proptest::collection::vec((name, atom()), 0..3)
        .prop_map(|items| {
            let items: Vec<_> = items.into_iter().map(|(key, value)| format!("'{key}': {value}")).collect();
            format!("{{{}}}", items.join(", "))
        })
        .boxed()
}

fn any_value() -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        8 => atom(),
        2 => with_operators(),
        2 => tensor(),
        1 => one_of(OBJECTS),
        1 => one_of(CALLABLES),
        1 => one_of(&["SHARED", "range(3)", "set()", "{1, 2}", "slice(1)", "frozenset([1])"]),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            2 => sequence(inner.clone().boxed()),
            1 => (atom(), inner).prop_map(|(key, value)| format!("{{{key}: {value}}}")),
        ]
    })
    .boxed()
}
