//! Small arrays of numpy's from outside: what is computed of one is known, as long as it holds the same numbers.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

use sot_core::backend::ObjectTest;
use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::guard::Test;
use sot_core::tracker::Tracker;
use sot_core::variable::VarId;

/// An array of more bytes is not looked into.
const MOST_BYTES: usize = 128;

/// Methods of arrays that read alone, without the underscores.
const READERS: &[&str] = &[
    "float", "int", "bool", "complex", "index", "len", "getitem", "contains", "neg", "pos", "abs", "invert", "lt",
    "le", "eq", "ne", "gt", "ge", "item", "tolist", "sum", "mean", "min", "max", "any", "all", "prod", "argmax",
    "argmin", "std", "var",
];

/// Operators that have a method for either side.
const OPERATORS: &[&str] = &[
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "divmod", "lshift", "rshift", "and", "or", "xor",
    "matmul",
];

/// Passes for an array of the same type, shape and contents.
struct Holds {
    array: Contents,
    text: String,
}

/// What an array is and holds.
struct Contents {
    dtype: Py<PyAny>,
    shape: Py<PyTuple>,
    bytes: Py<PyAny>,
}

impl Contents {
    /// Those of an array of numbers that is small enough.
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let py = object.py();
        if !is_of_numbers(object)? || object.getattr(intern!(py, "nbytes"))?.extract::<usize>()? > MOST_BYTES {
            return Ok(None);
        }
        let dtype = object.getattr(intern!(py, "dtype"))?.unbind();
        let shape = object.getattr(intern!(py, "shape"))?.cast_into::<PyTuple>()?.unbind();
        let bytes = object.call_method0(intern!(py, "tobytes"))?.unbind();
        Ok(Some(Contents { dtype, shape, bytes }))
    }

    fn are_those_of(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = object.py();
        if !object.get_type().is(array_type(py)?) {
            return Ok(false);
        }
        let dtype = object.getattr(intern!(py, "dtype"))?;
        Ok((self.dtype.is(&dtype) || dtype.eq(&self.dtype)?)
            && object.getattr(intern!(py, "shape"))?.eq(&self.shape)?
            && object.call_method0(intern!(py, "tobytes"))?.eq(&self.bytes)?)
    }
}

impl ObjectTest for Holds {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        self.array.are_those_of(object).unwrap_or(false)
    }

    fn describe(&self, subject: &str) -> String {
        format!("{subject} holds {}", self.text)
    }
}

fn array_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static ARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let find = || PyResult::Ok(cpython::import(py, "numpy")?.getattr("ndarray")?.cast_into()?.unbind());
    ARRAY.get_or_try_init(py, find).map(|ty| ty.bind(py))
}

/// Whether the object is an array of numbers, which run no code of the program's.
pub(crate) fn is_of_numbers(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    if !object.get_type().is(array_type(py)?) {
        return Ok(false);
    }
    let kind: String = object.getattr(intern!(py, "dtype"))?.getattr(intern!(py, "kind"))?.extract()?;
    Ok(matches!(kind.as_str(), "b" | "i" | "u" | "f"))
}

/// Whether the function is a method of arrays that reads them alone.
pub(crate) fn reads(function: &Bound<'_, PyAny>) -> bool {
    let found = || -> PyResult<bool> {
        let Some(owner) = function.getattr_opt(intern!(function.py(), "__objclass__"))? else { return Ok(false) };
        if !owner.cast::<PyType>().is_ok_and(|owner| owner.module().is_ok_and(|module| module == "numpy"))
            || !owner.is(array_type(function.py())?)
        {
            return Ok(false);
        }
        let name: String = function.getattr(intern!(function.py(), "__name__"))?.extract()?;
        let plain = name.trim_matches('_');
        let is_operator =
            || OPERATORS.contains(&plain) || plain.strip_prefix('r').is_some_and(|op| OPERATORS.contains(&op));
        Ok(READERS.contains(&plain) || name != plain && is_operator())
    };
    found().unwrap_or(false)
}

/// Arguments as real objects: in the place of small arrays copies of them.
pub(crate) struct Arguments<'py> {
    pub(crate) positional: Bound<'py, PyTuple>,
    pub(crate) keywords: Bound<'py, PyDict>,
    arrays: Vec<SmallArray<'py>>,
}

struct SmallArray<'py> {
    variable: VarId,
    contents: Contents,
    copy: Bound<'py, PyAny>,
}

impl<'py> Arguments<'py> {
    /// Those of a call, if everything in them is known but for small arrays from outside: the guards ask for what these hold.
    pub(crate) fn of(cx: &mut OpcodeExecutor<'py>, args: &CallArgs) -> Flow<Option<Arguments<'py>>> {
        let mut arrays = Vec::new();
        let mut positional = Vec::new();
        for &arg in &args.positional {
            let Some(value) = argument(cx, arg, &mut arrays)? else { return Ok(None) };
            positional.push(value);
        }
        let keywords = PyDict::new(cx.py);
        for (name, arg) in &args.keywords {
            let Some(value) = argument(cx, *arg, &mut arrays)? else { return Ok(None) };
            keywords.set_item(&**name, value)?;
        }
        Ok(Some(Arguments { positional: PyTuple::new(cx.py, positional)?, keywords, arrays }))
    }

    /// Whether a function given them has written none of the arrays. From here on the guards ask for what they hold.
    pub(crate) fn are_as_before(self, cx: &mut OpcodeExecutor<'py>) -> Flow<bool> {
        for SmallArray { variable, contents, copy } in self.arrays {
            if !contents.are_those_of(&copy)? {
                return Ok(false);
            }
            let test = Holds { array: contents, text: copy.to_string().replace('\n', "") };
            cx.guards.add(cx.vars.tracker(variable), Test::Object(Box::new(test)));
        }
        Ok(true)
    }
}

fn argument<'py>(
    cx: &mut OpcodeExecutor<'py>,
    arg: VarId,
    arrays: &mut Vec<SmallArray<'py>>,
) -> Flow<Option<Bound<'py, PyAny>>> {
    if let Some(value) = cx.materialize(arg)? {
        return Ok(Some(value));
    }
    if let Some(known) = arrays.iter().find(|known| known.variable == arg) {
        return Ok(Some(known.copy.clone()));
    }
    let tracker = cx.vars.tracker(arg);
    let Some(object) = cx.vars.get(arg).object().map(|object| object.bind(cx.py).clone()) else { return Ok(None) };
    // What a variable holds behind a break has come from there, as a rule, and is new data each time.
    let is_new = cx.is_resumed && matches!(cx.trackers.get(tracker), Tracker::Local { .. });
    if is_new || !cx.trackers.is_sourced(tracker) || cx.goes_on_differing(tracker) {
        return Ok(None);
    }
    let Some(contents) = Contents::of(&object)? else { return Ok(None) };
    let copy = object.call_method0(intern!(cx.py, "copy"))?;
    arrays.push(SmallArray { variable: arg, contents, copy: copy.clone() });
    Ok(Some(copy))
}
