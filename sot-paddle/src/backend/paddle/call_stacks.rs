//! Leaves Python's call stack out of the operations of programs. Paddle notes the stack with each operation that it
//! appends to a program, for the messages of operations that fail. It gets the stack from `traceback.extract_stack`,
//! which looks at the source file of each frame: half of the time that a statement takes, and more in programs with
//! deep stacks. The stack would be that of the call that is translated, not of the frames that are simulated. An
//! operation of a graph that fails is run again [in eager mode](../../../../docs/decisions/19-graph-errors.md), which
//! names the line.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyModule, PyTuple};
use sot_core::cpython;

use crate::backend::paddle::static_warnings;

/// While this lives, operations that this thread appends to a program get an empty call stack.
pub(crate) struct NoCallStacks<'py> {
    /// The module `traceback`. `None` within another such scope, of this thread or of another one.
    replaced_in: Option<Bound<'py, PyModule>>,
}

impl<'py> NoCallStacks<'py> {
    pub(crate) fn begin(py: Python<'py>) -> PyResult<Self> {
        let module = cpython::import(py, "traceback")?;
        let extract_stack = module.getattr(intern!(py, "extract_stack"))?;
        if extract_stack.is_instance_of::<ExtractStack>() {
            return Ok(NoCallStacks { replaced_in: None });
        }
        let replacement = Bound::new(
            py,
            ExtractStack { replaced: extract_stack.unbind(), caller: cpython::current_frame(py).map(Bound::unbind) },
        )?;
        module.setattr(intern!(py, "extract_stack"), replacement)?;
        Ok(NoCallStacks { replaced_in: Some(module) })
    }
}

impl Drop for NoCallStacks<'_> {
    fn drop(&mut self) {
        let Some(module) = &self.replaced_in else { return };
        let (py, name) = (module.py(), intern!(module.py(), "extract_stack"));
        let put_back = module.getattr(name).and_then(|present| match present.cast::<ExtractStack>() {
            Ok(replacement) => module.setattr(name, &replacement.get().replaced),
            Err(_) => Ok(()),
        });
        if let Err(error) = put_back {
            error.write_unraisable(py, None);
        }
    }
}

/// Replaces the function `traceback.extract_stack`.
#[pyclass(frozen, module = "sot")]
struct ExtractStack {
    replaced: Py<PyAny>,
    /// The frame that was running when the scope began.
    caller: Option<Py<PyAny>>,
}

impl ExtractStack {
    /// True if the call comes from Paddle's Python code or, as no code has run since the scope began, from its C code.
    /// Code of the program that runs while a statement is built gets its call stack.
    fn is_called_by_paddle(&self, py: Python<'_>) -> bool {
        let frame = cpython::current_frame(py);
        if frame.as_ref().map(Bound::as_ptr) == self.caller.as_ref().map(Py::as_ptr) {
            return true;
        }
        let name = cpython::current_globals(py).and_then(|all| cpython::dict_get(&all, intern!(py, "__name__")));
        let name = name.and_then(|name| name.extract::<String>().ok());
        name.is_some_and(|name| name == "paddle" || name.starts_with("paddle."))
    }
}

#[pymethods]
impl ExtractStack {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = args.py();
        if args.is_empty() && kwargs.is_none() && static_warnings::is_building() && self.is_called_by_paddle(py) {
            return Ok(PyList::empty(py).into_any());
        }
        self.replaced.bind(py).call(args, kwargs)
    }
}
