//! Resume functions: the original code entered in the middle, with its stack and locals given as arguments. New code that
//! ends in a graph break hands over to one. The outermost hand-over drives them in a loop, so that a break in every
//! iteration of a loop does not grow the Python stack: a resume function that breaks again returns a `Continuation`.

mod code;

use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyIterator, PyTuple, PyWeakrefMethods, PyWeakrefReference};

use crate::cpython;

pub use code::{build, ResumeKey};

/// A resume function to be: its code, held weakly (the code it was made from owns it), and how many of the values handed
/// over are cells.
#[derive(Debug)]
pub struct Target {
    code: Py<PyWeakrefReference>,
    cells: usize,
}

impl Target {
    /// A target.
    pub fn new(code: &Bound<'_, PyCode>, cells: usize) -> PyResult<Arc<Target>> {
        Ok(Arc::new(Target { code: PyWeakrefReference::new(code.as_any())?.unbind(), cells }))
    }

    /// Calls the resume function once.
    fn call<'py>(
        &self,
        py: Python<'py>,
        globals: &Bound<'py, PyAny>,
        values: &[Bound<'py, PyAny>],
    ) -> PyResult<Bound<'py, PyAny>> {
        let code = self.code.bind(py).upgrade();
        let code = code.ok_or_else(|| PyRuntimeError::new_err("a function was collected while it ran"))?;
        let (cells, values) = values.split_at(self.cells);
        let closure = if cells.is_empty() { py.None().into_bound(py) } else { PyTuple::new(py, cells)?.into_any() };
        let function_type = py.import("types")?.getattr("FunctionType")?;
        let function = function_type.call1((code, globals, py.None(), py.None(), closure))?;
        function.call1(PyTuple::new(py, values)?)
    }
}

/// Where control goes after the breaking instruction.
#[derive(Debug, Clone)]
pub enum HandOver {
    /// To one place.
    To(Arc<Target>),
    /// The breaking instruction is the head of a `for` loop: the last values are the iterator and what `advance` said.
    ForIter {
        /// With the next item.
        item: Arc<Target>,
        /// When exhausted; the iterator is gone.
        exhausted: Arc<Target>,
    },
}

/// A resume function's answer when it breaks in turn: where to go on, and with what.
#[pyclass(frozen, module = "sot")]
struct Continuation {
    target: Arc<Target>,
    values: Vec<Py<PyAny>>,
}

impl HandOver {
    /// The callable that new code ends with. `driving`: the new code is no resume function itself, so it runs them.
    pub fn callable(self, py: Python<'_>, driving: bool) -> PyResult<Py<PyAny>> {
        let name = if driving { "__resume__" } else { "__continue__" };
        let callable = cpython::fastcall(py, name, "Goes on after a graph break.", move |py, values| {
            let (target, values) = self.choose(values.to_vec());
            if driving {
                return Ok(drive(py, target, values)?.unbind());
            }
            let values = values.into_iter().map(Bound::unbind).collect();
            Ok(Bound::new(py, Continuation { target, values })?.into_any().unbind())
        })?;
        Ok(callable.unbind())
    }

    fn choose<'py>(&self, mut values: Vec<Bound<'py, PyAny>>) -> (Arc<Target>, Vec<Bound<'py, PyAny>>) {
        match self {
            HandOver::To(target) => (Arc::clone(target), values),
            HandOver::ForIter { item, exhausted } => {
                if values.last().is_some_and(Bound::is_instance_of::<Exhausted>) {
                    values.truncate(values.len() - 2);
                    return (Arc::clone(exhausted), values);
                }
                (Arc::clone(item), values)
            }
        }
    }
}

/// What `advance` says of an iterator at its end.
#[pyclass(frozen, module = "sot")]
struct Exhausted;

/// A function that gives an iterator's next item, or an `Exhausted` at its end.
pub fn advance(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let advance = cpython::fastcall(py, "__advance__", "The next item of an iterator.", |py, values| {
        let iterator = values.first().ok_or_else(|| PyRuntimeError::new_err("no iterator was given"))?;
        match iterator.cast::<PyIterator>()?.clone().next() {
            Some(item) => Ok(item?.unbind()),
            None => Ok(Bound::new(py, Exhausted)?.into_any().unbind()),
        }
    })?;
    Ok(advance.unbind())
}

/// Runs resume functions until one returns.
fn drive<'py>(
    py: Python<'py>,
    mut target: Arc<Target>,
    mut values: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    // The caller is the new code: its globals are the function's.
    let globals = py.import("builtins")?.getattr("globals")?.call0()?.cast_into::<PyDict>()?;
    loop {
        let result = target.call(py, globals.as_any(), &values)?;
        match result.cast::<Continuation>() {
            Ok(next) => {
                let next = next.get();
                target = Arc::clone(&next.target);
                values = next.values.iter().map(|value| value.bind(py).clone()).collect();
            }
            Err(_) => return Ok(result),
        }
    }
}
