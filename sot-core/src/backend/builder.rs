//! `GraphBuilder`: a backend's graph while it is built.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::{CallKind, KnownResult, SizeFormula, SizesMatter, TensorMeta};
use crate::guard::StateTest;

/// A graph while it is built. Values are the backend's own Python objects, which may appear anywhere in arguments.
pub trait GraphBuilder {
    // Inputs and parameters.

    /// Adds a graph input like `tensor`, which is given at each call. Sizes may be open in `meta`. A later operation
    /// on an open size whose result depends on the size's value raises [`SizesMatter`].
    fn input(&mut self, name: &str, tensor: &Bound<'_, PyAny>, meta: &TensorMeta) -> PyResult<Py<PyAny>>;
    /// Adds a parameter or buffer. It is bound now, and the finished graph holds it weakly.
    fn parameter(&mut self, tensor: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>>;
    /// Adds a graph input that is a Python `int` or `float`, given at each call. Its value is a tensor without
    /// dimensions.
    fn number(&mut self, name: &str, number: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let _ = (name, number);
        Err(SizesMatter::new_err("numbers are no inputs of a graph"))
    }
    /// Adds a graph input that is an array of another library, given at each call. Its value is the tensor that the
    /// framework makes of it, with this element type and these sizes; `None` stands for an open size. Returns `None` if
    /// the framework makes no tensor of it.
    fn array(&mut self, name: &str, array: &Bound<'_, PyAny>, shape: &[Option<i64>]) -> PyResult<Option<Py<PyAny>>> {
        let _ = (name, array, shape);
        Ok(None)
    }

    // Statements and their values.

    /// Appends a statement. `args`, `kwargs` and the result hold values and plain Python objects in any nesting.
    fn call<'py>(
        &mut self,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>>;
    /// Returns the meta of a value of the graph; `None` if `object` is none.
    fn value_meta(&self, object: &Bound<'_, PyAny>) -> PyResult<Option<TensorMeta>>;
    /// Returns the result of a value's method without arguments (`item`, `__bool__`), if it does not depend on the
    /// contents of the inputs.
    fn answer(&self, value: &Bound<'_, PyAny>, method: &str) -> PyResult<Option<KnownResult>> {
        let _ = (value, method);
        Ok(None)
    }

    /// Returns how an open size of a value follows from the inputs' open sizes, if the framework's rules for sizes
    /// tell.
    fn size_formula(&mut self, value: &Bound<'_, PyAny>, axis: usize) -> PyResult<Option<SizeFormula>> {
        let _ = (value, axis);
        Ok(None)
    }

    // The finished graph.

    /// Finishes the graph. The callable takes the inputs positionally, in the order of `inputs`, and returns a tuple
    /// or list of tensors in the order of `outputs`. It must be safe to call from several threads. If it raises, the
    /// frame runs again in CPython: it must first undo its changes of inputs and of random state.
    fn finish(
        self: Box<Self>,
        py: Python<'_>,
        name: &str,
        inputs: &[Py<PyAny>],
        outputs: &[Py<PyAny>],
    ) -> PyResult<Py<PyAny>>;
    /// Finishes a graph whose statements can also be called one by one. `calls` does so with the same interface, and
    /// may be used instead of the program for some runs or for all.
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
    /// Returns the framework's program of the statements so far, if there is one: for people, and for users'
    /// compilers.
    fn program(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let _ = py;
        None
    }

    // Replay: calling the statements of a small graph one by one.

    /// True if the graph runs only as calls of its statements one by one, so that each statement must be one that can
    /// be called again.
    fn must_be_called(&self) -> bool {
        false
    }
    /// How much longer a statement takes on eager tensors than in a program, in calls of a function implemented in C.
    /// Negative if it takes longer in a program; `None` if the statement can run only in a program.
    fn weight(&self, kind: CallKind, callee: &Bound<'_, PyAny>, args: &Bound<'_, PyTuple>) -> PyResult<Option<isize>> {
        let _ = (kind, callee, args);
        Ok(Some(1))
    }
    /// True if a statement that is called on eager tensors may raise although the same call of the same element types
    /// and shapes did not: because of the numbers that it is given, such as an index out of range. What is written to
    /// tensors from outside before such a call is saved before each run.
    fn may_raise(
        &self,
        kind: CallKind,
        callee: &Bound<'_, PyAny>,
        given: (&Bound<'_, PyTuple>, Option<&Bound<'_, PyDict>>),
    ) -> PyResult<bool> {
        let _ = (kind, callee, given);
        Ok(true)
    }
    /// Name of the method that a call of an object ([`CallKind::Object`]) amounts to.
    fn object_method(&self, object: &Bound<'_, PyAny>) -> PyResult<&'static str> {
        let _ = object;
        Ok("__call__")
    }
    /// Returns the global state that the last statement was built under, if it matters for calling the statement on
    /// eager tensors. Statements under one state share the `Arc`.
    fn state(&self) -> Option<Arc<dyn StateTest>> {
        None
    }

    // Writes to tensors from outside.

    /// True if a graph may write a result back into this tensor, one of its inputs ([`GraphBuilder::write_back`]).
    fn may_write_to(&self, tensor: &Bound<'_, PyAny>) -> bool {
        let _ = tensor;
        false
    }
    /// True if the value belongs to a tensor that has a gradient of its own and was changed while no gradient is
    /// recorded: outside the graph the tensor keeps that gradient. The value is refused where a gradient would begin
    /// at the tensor.
    fn keeps_gradient(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let _ = value;
        Ok(false)
    }
    /// Registers that an input is to hold this value when the graph has run. The value leaves the graph as that input
    /// object. Used only before [`GraphBuilder::finish_with_calls`]: if inputs share memory at run time, the
    /// statements are called one by one.
    fn write_back(&mut self, input: &Py<PyAny>, value: &Py<PyAny>) {
        let _ = (input, value);
    }

    // The memory of values.

    /// Id of the memory that a value has in eager mode. Values that may share memory, such as a tensor and its views,
    /// have the same id.
    fn memory(&self, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        Ok(value.as_ptr() as u64)
    }
    /// Number of operations in the program so far; a refused statement may leave some behind.
    fn operations(&self) -> PyResult<usize> {
        Ok(0)
    }
    /// Takes back all operations behind the first `operations`, with their effects on remaining values. Called only
    /// where values [have memory](super::ValueMemory).
    fn roll_back(&mut self, operations: usize) -> PyResult<()> {
        let _ = operations;
        Ok(())
    }
    /// True if a run of the graph draws random numbers. If the graph's statements are called one by one and one of them
    /// raises, the numbers that were drawn are given back by [`EagerTensors::put_back_random_state`].
    ///
    /// [`EagerTensors::put_back_random_state`]: super::EagerTensors::put_back_random_state
    fn draws_random_numbers(&self, py: Python<'_>) -> PyResult<bool> {
        let _ = py;
        Ok(false)
    }
    /// True if running the graph is observable even if no result is used: it changes inputs or parameters, or draws
    /// random numbers. Called only where values [have memory](super::ValueMemory).
    fn has_effects(&self) -> bool {
        false
    }
}
