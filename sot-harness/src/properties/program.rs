//! Makes a module with a function `f` from a fragment, and runs calls of that function.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use sot_core::bytecode::Code;

use crate::harness::{self, Counts};

const PRELUDE: &str = include_str!("prelude.py");
const FILE: &str = "property.py";
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Where a fragment is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Plain,
    /// In a `try` that catches its exceptions.
    Caught,
    /// In a loop, whose iterator is on the stack, and in a `with` block.
    Nested,
    /// In a function that is called while other values are on the stack.
    Called,
    /// Behind a graph break.
    Resumed,
    /// In a nested function, with the operands in cells.
    Closure,
}

impl Place {
    pub(super) const ALL: [Place; 6] =
        [Place::Plain, Place::Caught, Place::Nested, Place::Called, Place::Resumed, Place::Closure];
}

/// How the operands are passed to the function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passing {
    Argument,
    Literal,
    Global,
}

/// A fragment with its operands.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) fragment: &'static str,
    pub(super) place: Place,
    pub(super) passing: Passing,
    /// Operands of the first two calls, and of the third call.
    pub(super) operands: [Vec<String>; 2],
    pub(super) assemble: Option<(fn(&mut Code, u8), u8)>,
}

/// Returns a fragment's lines. A line that is marked `#x300` is repeated 300 times, with a different number for `N`.
fn lines(fragment: &str) -> Vec<String> {
    let repeated = |line: &str| match line.split_once("#x") {
        Some((text, times)) => (0..times.trim().parse().unwrap_or(0))
            .map(|n: u32| text.trim_end().replace('N', &(1000 + n).to_string()))
            .collect(),
        None => vec![line.to_owned()],
    };
    fragment.lines().flat_map(repeated).collect()
}

impl Case {
    fn body(&self, margin: usize) -> String {
        let margin = " ".repeat(margin);
        let lines: Vec<_> = lines(self.fragment).iter().map(|line| format!("{margin}{line}\n")).collect();
        lines.concat()
    }

    /// Returns the module's source without the prelude: `f`, and `makers` of the arguments for its calls.
    pub(super) fn source(&self) -> String {
        let names = &NAMES[..self.operands[0].len()];
        let values = names.iter().map(|name| format!("{name}, ")).collect::<Vec<_>>().concat();
        let set = |prefix: &str, operands: &[String], indent: &str| -> String {
            let pairs = names.iter().zip(operands);
            let lines: Vec<_> = pairs.map(|(name, value)| format!("{indent}{prefix}{name} = {value}\n")).collect();
            lines.concat()
        };
        let (parameters, start) = match self.passing {
            Passing::Argument => (format!("x, {values}"), String::new()),
            Passing::Literal => ("x".to_owned(), set("", &self.operands[0], "    ")),
            Passing::Global => {
                let start: Vec<_> = names.iter().map(|name| format!("    {name} = global_{name}\n")).collect();
                ("x".to_owned(), start.concat())
            }
        };
        let globals =
            if self.passing == Passing::Global { set("global_", &self.operands[0], "") } else { String::new() };
        let makers = self.operands.iter().map(|operands| match self.passing {
            Passing::Argument => format!("lambda: (toy.arange(2), {})", operands.join(", ")),
            Passing::Literal | Passing::Global => "lambda: (toy.arange(2),)".to_owned(),
        });
        let makers: Vec<_> = makers.collect();
        let makers = format!("makers = [{}, {}, {}]", makers[0], makers[0], makers[1]);
        let function = self.function(&parameters, &start, &values);
        format!("{globals}\n{function}\n{makers}\n")
    }

    fn function(&self, parameters: &str, start: &str, values: &str) -> String {
        let head = format!("def f({parameters}):\n{start}    r = None\n");
        match self.place {
            Place::Plain => {
                format!("{head}    y = x + 1\n{}    return y * 2, r, {values}\n", self.body(4))
            }
            Place::Caught => format!(
                "{head}    try:\n{}    except Exception as error:\n        r = type(error), error.args\n    \
                 return x + 1, r, {values}\n",
                self.body(8)
            ),
            Place::Nested => format!(
                "{head}    out = []\n    for i in [x, 7]:\n        with Manager(i):\n{}        out.append((i, r))\n    \
                 return out, r, x + 1, {values}\n",
                self.body(12)
            ),
            Place::Called => format!(
                "def h({values}):\n    r = None\n{}    return r, {values}\n{head}    \
                 return [x + 1, h({values}), {values}]\n",
                self.body(4)
            ),
            Place::Resumed => {
                format!("{head}    y = x + 1\n    toy.save(y)\n{}    return y * 2, r, {values}\n", self.body(4))
            }
            Place::Closure => format!(
                "{head}    def inner():\n        nonlocal {}\n{}        return r\n    r = inner()\n    \
                 return x + 1, r, {values}\n",
                if values.is_empty() { "r".to_owned() } else { format!("r, {}", values.trim_end_matches(", ")) },
                self.body(8)
            ),
        }
    }

    /// Loads the module, and assembles the opcode into its function if needed.
    pub(super) fn load<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyModule>> {
        let module = PyModule::new(py, "property")?;
        let builtins = py.import("builtins")?;
        module.add("__builtins__", &builtins)?;
        module.add("__file__", FILE)?;
        builtins.call_method1("exec", (prelude(py)?, module.dict()))?;
        let code = builtins.call_method1("compile", (self.source(), FILE, "exec"))?;
        builtins.call_method1("exec", (code, module.dict()))?;
        if let Some((assemble, opcode)) = self.assemble {
            let function = module.getattr("f")?;
            let original = function.getattr("__code__")?;
            let mut code = Code::decode(&original).unwrap();
            assemble(&mut code, opcode);
            function.setattr("__code__", code.encode(&original).unwrap())?;
        }
        Ok(module)
    }

    /// Runs the calls and returns a description of each.
    pub(super) fn run(&self, py: Python<'_>, translated: bool) -> PyResult<Vec<String>> {
        let module = self.load(py)?;
        let makers: Vec<Bound<'_, PyAny>> = module.getattr("makers")?.extract()?;
        module.delattr("makers")?;
        harness::observe(&module, "f", &makers, translated)
    }

    /// Compares the calls by CPython and translated. Returns the counts, or an error that describes the difference.
    pub(super) fn compare(&self, py: Python<'_>) -> Result<Counts, String> {
        let fail = |what: &str, error: PyErr| format!("{}\n{what}: {error}", self.source());
        let expected = self.run(py, false).map_err(|error| fail("not a program", error))?;
        harness::reset();
        let actual = self.run(py, true).map_err(|error| fail("an error of the tracer's", error))?;
        let counts = harness::counts();
        if counts.misses == 0 {
            return Err(format!("{}\nwas not translated", self.source()));
        }
        let mut calls = expected.iter().zip(&actual).enumerate();
        match calls.find(|(_, (expected, actual))| without_addresses(expected) != without_addresses(actual)) {
            None => Ok(counts),
            Some((call, (expected, actual))) => Err(format!(
                "{}\ncall {} differs\nCPython:\n{}\ntranslated:\n{}\n{counts:?}",
                self.source(),
                call + 1,
                lines_not_in(actual, expected),
                lines_not_in(expected, actual)
            )),
        }
    }
}

/// Returns the code of the prelude of all modules, compiled once.
fn prelude(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static CODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let compile = || py.import("builtins")?.call_method1("compile", (PRELUDE, FILE, "exec")).map(Bound::unbind);
    CODE.get_or_try_init(py, compile).map(|code| code.bind(py))
}

fn lines_not_in(other: &str, text: &str) -> String {
    let differing = text.lines().filter(|line| !other.lines().any(|known| known == *line));
    differing.map(|line| line.chars().take(7000).collect::<String>()).collect::<Vec<_>>().join("\n")
}

/// Removes addresses from a text, because objects of two runs have different ones.
fn without_addresses(text: &str) -> String {
    let mut parts = text.split(" at 0x");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + " at " + part.trim_start_matches(|digit: char| digit.is_ascii_hexdigit()))
}
