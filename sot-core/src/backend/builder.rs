//! A graph while it is built.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::{CallKind, SizesMatter, TensorMeta};
use crate::guard::StateTest;

/// A graph being built. Values are the backend's own Python objects; they may be put into argument structures freely.
pub trait GraphBuilder {
    // What enters the graph.

    /// A graph input like `tensor`, given anew at each call. `meta` is its meta, in which sizes may be left open. Where
    /// one is, what would not do the same for each size is a [`SizesMatter`].
    fn input(&mut self, name: &str, tensor: &Bound<'_, PyAny>, meta: &TensorMeta) -> PyResult<Py<PyAny>>;
    /// A parameter or buffer: bound now, held weakly by the finished graph.
    fn parameter(&mut self, tensor: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>>;
    /// A graph input that is an `int` or `float` of Python's, given anew at each call; as a value it is a tensor
    /// without dimensions.
    fn number(&mut self, name: &str, number: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let _ = (name, number);
        Err(SizesMatter::new_err("numbers are no inputs of a graph"))
    }
    /// A graph input that is an array of another library's, given anew at each call; as a value it is the tensor that
    /// the framework makes of it, of this element type and these sizes. `None`: the framework makes none.
    fn array(&mut self, name: &str, array: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let _ = (name, array);
        Ok(None)
    }

    // Statements and their values.

    /// Appends one statement. `args` and `kwargs` hold values and plain Python objects in any nesting; so may the
    /// result.
    fn call<'py>(
        &mut self,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>>;
    /// The meta if `object` is a value of a graph, else `None`.
    fn value_meta(&self, object: &Bound<'_, PyAny>) -> PyResult<Option<TensorMeta>>;
    /// What a method of a value (`item`, `__bool__`) gives without arguments, where that does not depend on what the
    /// inputs hold.
    fn answer(&self, value: &Bound<'_, PyAny>, method: &str) -> PyResult<Option<Py<PyAny>>> {
        let _ = (value, method);
        Ok(None)
    }

    // The finished graph.

    /// Ends the graph. The callable takes the inputs positionally, in the order of `inputs` and returns a tuple or list
    /// of tensors in the order of `outputs`. It must be safe to call from several threads. Where it raises, the frame
    /// runs again in CPython: whatever it has changed by then (inputs, random state) it must change back first.
    fn finish(
        self: Box<Self>,
        py: Python<'_>,
        name: &str,
        inputs: &[Py<PyAny>],
        outputs: &[Py<PyAny>],
    ) -> PyResult<Py<PyAny>>;
    /// As `finish`, of a graph whose statements may be called one by one, which `calls` does: a callable like the one
    /// asked for, which may be used in its place for some runs or for all.
    fn finish_with_calls(
        self: Box<Self>,
        py: Python<'_>,
        name: &str,
        inputs: &[Py<PyAny>],
        outputs: &[Py<PyAny>],
        calls: Py<PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let _ = calls;
        self.finish(py, name, inputs, outputs)
    }
    /// The framework's program with the statements so far, where there is one: for people, and for compilers of theirs.
    fn program(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let _ = py;
        None
    }

    // Statements that are called one by one, in the place of a graph that is small.

    /// What calling a statement on eager tensors costs, in calls of a function in C.
    fn weight(&self, kind: CallKind, callee: &Bound<'_, PyAny>) -> PyResult<usize> {
        let _ = (kind, callee);
        Ok(1)
    }
    /// The method that calling an object as a whole ([`CallKind::Object`]) comes to.
    fn object_method(&self, object: &Bound<'_, PyAny>) -> PyResult<&'static str> {
        let _ = object;
        Ok("__call__")
    }
    /// The global state under which the last statement was built, if that matters to calling it on eager tensors.
    /// Statements of one state have the same.
    fn state(&self) -> Option<Arc<dyn StateTest>> {
        None
    }

    // Writes to tensors from outside.

    /// Whether a graph may write what it computes back into this tensor, one of its inputs (see
    /// [`GraphBuilder::write_back`]).
    fn may_write_to(&self, tensor: &Bound<'_, PyAny>) -> bool {
        let _ = tensor;
        false
    }
    /// Whether this is the value of a tensor that has a gradient of its own and was changed where none is recorded:
    /// outside of the graph it has that gradient still. Where one would begin at the tensor, the value is refused.
    fn keeps_gradient(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let _ = value;
        Ok(false)
    }
    /// Says that when the graph has run, an input is to have these numbers, which operations have given it. The value
    /// leaves the graph as that very input. Only for what is finished with [`GraphBuilder::finish_with_calls`]: where
    /// inputs share memory, the statements are called one by one.
    fn write_back(&mut self, input: &Py<PyAny>, value: &Py<PyAny>) {
        let _ = (input, value);
    }

    // The memory of values.

    /// Which memory a value has in eager mode: values that may share some have the same, such as a tensor and its
    /// views.
    fn memory(&self, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        Ok(value.as_ptr() as u64)
    }
    /// How many operations the program has so far: a refused statement may leave some.
    fn operations(&self) -> PyResult<usize> {
        Ok(0)
    }
    /// Takes back all operations but the first so many, with what they did to values that stay. Asked where values
    /// [have memory](super::ValueMemory).
    fn roll_back(&mut self, operations: usize) -> PyResult<()> {
        let _ = operations;
        Ok(())
    }
    /// Whether running the graph can be seen though no result is used: it changes inputs or parameters, or draws random
    /// numbers. Asked where values [have memory](super::ValueMemory).
    fn has_effects(&self) -> bool {
        false
    }
}
