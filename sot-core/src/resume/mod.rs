//! Resume functions: the original code entered in the middle, with stack and locals given as arguments. New code that
//! ends in a graph break hands over to a resume function. The outermost hand-over drives resume functions in a loop:
//! one that breaks again returns a `Continuation`. So a break in every iteration of a loop does not grow the Python
//! stack.
//!
//! If the break was in a function that the frame called, the frame's resume function starts with the rest of that
//! call: it is given the callee's resume function and its arguments.

mod code;
mod driving;
pub(crate) mod layout;
mod prologue;
mod raising;
mod round;
mod second_run;
mod source;

use std::sync::Arc;

use pyo3::exceptions::{PyNameError, PyRuntimeError, PyTypeError, PyUnboundLocalError};
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyIterator, PyType};

use crate::cache;
use crate::cpython::{self, WeakRef};
use crate::readers::{accessor, of_exception, traceback_of};
use crate::version::PyVersion;
use driving::Driving;

pub use crate::resume_point::{
    AskedMethod, Entry, Finish, Operation, ResumeKey, Slot, SpecialResult, SpecialResultUse,
};
pub use code::build;
pub use driving::caller;
pub use layout::{Item, Value};
pub use raising::code_raising;
pub use round::{behind_call, enclosing_loop_heads, ends, exits, innermost_loop, Stop};
pub use second_run::SecondRun;
pub use source::ResumeSource;

/// A resume function before it is created: its code, and how many of the values handed over are cells. The code is
/// held weakly, because the original code owns it.
#[derive(Debug)]
pub struct ResumeTarget {
    code: WeakRef,
    cells: usize,
}

impl ResumeTarget {
    /// Creates a target.
    pub fn new(code: &Bound<'_, PyCode>, cells: usize) -> PyResult<Arc<ResumeTarget>> {
        Ok(Arc::new(ResumeTarget { code: WeakRef::new(code.as_any(), None)?, cells }))
    }

    /// Creates the resume function.
    fn function<'py>(
        &self,
        py: Python<'py>,
        globals: &Bound<'py, PyDict>,
        cells: &[Bound<'py, PyAny>],
    ) -> PyResult<Bound<'py, PyAny>> {
        let code = self.code.get(py);
        let code = code.ok_or_else(|| PyRuntimeError::new_err("a function was collected while it ran"))?;
        cpython::new_function(code.cast::<PyCode>()?, globals, cells)
    }

    /// Converts an error into the one that the original function would raise. In the original function an empty cell
    /// of its own is an unbound local variable, and not a free one.
    fn as_unbound(&self, py: Python<'_>, error: PyErr) -> PyErr {
        let own = || {
            let code = self.code.get(py)?.cast_into::<PyCode>().ok()?;
            let cells = code.getattr("co_freevars").ok()?.extract::<Vec<String>>().ok()?;
            let raised = error.value(py);
            // Before 3.12, `__traceback__` is set on the exception only where it is caught, so it is taken from the
            // error.
            let traceback = error.traceback(py)?;
            let here = traceback.getattr("tb_next").ok()?.is_none();
            let is_name_error = here && error.get_type(py).is(py.get_type::<PyNameError>());
            let text = is_name_error.then(|| raised.str().ok())?.map(|text| text.to_string())?;
            let names = cells.into_iter().take(cache::own_cells_of(&code)?);
            let local = names.map(unbound_texts).find_map(|(free, local)| (free == text).then_some(local))?;
            let unbound = PyUnboundLocalError::new_err(local).into_value(py).into_bound(py);
            for part in ["__context__", "__cause__", "__suppress_context__"] {
                unbound.setattr(part, raised.getattr(part).ok()?).ok()?;
            }
            unbound.setattr("__traceback__", traceback).ok()?;
            Some(PyErr::from_value(unbound.into_any()))
        };
        own().unwrap_or(error)
    }

    /// Calls the resume function once. Only its frame holds the values, so that they die when the program drops them.
    fn call<'py>(
        &self,
        py: Python<'py>,
        globals: &Bound<'py, PyDict>,
        mut values: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let arguments = values.split_off(self.cells);
        let _driving = Driving::begin(py);
        cpython::call_giving(&self.function(py, globals, &values)?, arguments)
    }

    /// Continues by raising an exception.
    fn raise<'py>(&self, py: Python<'py>, values: Vec<Bound<'py, PyAny>>, error: PyErr) -> PyResult<Bound<'py, PyAny>> {
        let code = self.code.get(py).ok_or_else(|| PyRuntimeError::new_err("a function was collected while it ran"))?;
        Ok(second_run::raise_in(py, code.cast::<PyCode>()?, values, self.cells, error)?.into_bound(py))
    }

    /// Returns a callable that creates the resume function from globals and cells.
    pub fn maker(self: Arc<Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let maker = cpython::fastcall(py, "__resumed__", "A frame to go on with.", move |py, values| match values {
            [globals, cells @ ..] => Ok(self.function(py, globals.cast::<PyDict>()?, cells)?.unbind()),
            [] => Err(PyRuntimeError::new_err("no globals were given")),
        })?;
        Ok(maker.unbind())
    }

    /// Returns a callable that creates a generator suspended at a `yield`, from globals, cells and values.
    pub fn suspended(self: Arc<Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let make =
            cpython::fastcall_taking(py, "__suspended__", "A generator that has started.", move |py, mut values| {
                let globals = values.remove(0);
                let generator = self.call(py, globals.cast::<PyDict>()?, values)?;
                generator.call_method0("__next__")?;
                Ok(generator.unbind())
            })?;
        Ok(make.unbind())
    }

    /// Returns the callable that new code ends with. If `driving`, it runs the resume functions in a loop; otherwise
    /// an outer hand-over runs them, and it returns a `Continuation`.
    pub fn hand_over(self: Arc<Self>, py: Python<'_>, driving: bool) -> PyResult<Py<PyAny>> {
        let name = if driving { "__resume__" } else { "__continue__" };
        let callable = cpython::fastcall_taking(py, name, "Goes on after a graph break.", move |py, values| {
            let target = Arc::clone(&self);
            if driving {
                return Ok(drive(py, target, values)?.unbind());
            }
            // Until the resume function is driven, no signal handler may run, as it would see the frame between two
            // functions.
            cpython::defer_signals(py).hold();
            let values = values.into_iter().map(Bound::unbind).collect();
            Ok(Bound::new(py, Continuation { target, values })?.into_any().unbind())
        })?;
        Ok(callable.unbind())
    }
}

/// Result of a resume function that breaks again: the next resume function, and its values.
#[pyclass(module = "sot")]
struct Continuation {
    target: Arc<ResumeTarget>,
    values: Vec<Py<PyAny>>,
}

/// Returns a function that advances an iterator. It returns whether the iterator is exhausted, and its next item.
pub fn advance(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let advance = cpython::fastcall(py, "__advance__", "The next item of an iterator.", |py, values| {
        let iterator = values.first().ok_or_else(|| PyRuntimeError::new_err("no iterator was given"))?;
        let item = iterator.cast::<PyIterator>()?.clone().next().transpose()?;
        let answer = (item.is_none(), item.unwrap_or_else(|| py.None().into_bound(py)));
        Ok(answer.into_pyobject(py)?.into_any().unbind())
    })?;
    Ok(advance.unbind())
}

/// Returns a function that makes a callable `c` of an object, such that `c.__call__(...)` calls the object. A callable
/// is its own `c`. A class is wrapped in `functools.partial`, because the attribute `__call__` of a class is the method
/// of its instances. For an object that is not callable, `c` is a function that raises CPython's error.
pub fn own_callable(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let wrap =
        cpython::fastcall(py, "__callable__", "What is called by its own __call__.", |py, values| match values {
            [class] if class.is_instance_of::<PyType>() => {
                Ok(cpython::import(py, "functools")?.getattr("partial")?.call1((class,))?.unbind())
            }
            [callable] if callable.is_callable() => Ok(callable.clone().unbind()),
            [other] => {
                let text = format!("'{}' object is not callable", cpython::type_name(&other.get_type()));
                let raise = cpython::fastcall(py, "__call__", "Says that an object cannot be called.", move |_, _| {
                    Err(PyTypeError::new_err(text.clone()))
                })?;
                Ok(raise.unbind())
            }
            _ => Err(PyTypeError::new_err("one object is expected")),
        })?;
    Ok(wrap.unbind())
}

/// Returns a function that gives class, value and traceback of an exception.
pub fn exception_parts(py: Python<'_>) -> PyResult<Py<PyAny>> {
    of_exception(py, "__parts__", "Class, value and traceback of an exception.", |exception| {
        let parts = (exception.get_type(), exception, traceback_of(exception)?);
        Ok(parts.into_pyobject(exception.py())?.into_any().unbind())
    })
}

/// Returns a function that removes this many entries from the traceback of an exception, the outermost first, and
/// returns the rest. Nothing is removed if the first entry is not of the calling frame: then creating the exception
/// raised another one.
pub fn trim_traceback(py: Python<'_>, entries: usize) -> PyResult<Py<PyAny>> {
    of_exception(py, "__trim__", "Takes entries off a traceback.", move |exception| {
        let mut rest = traceback_of(exception)?;
        let is_ours = !rest.is_none()
            && cpython::current_frame(exception.py())
                .is_none_or(|frame| rest.getattr("tb_frame").is_ok_and(|first| first.is(&frame)));
        for _ in 0..if is_ours { entries } else { 0 } {
            if !rest.is_none() {
                rest = rest.getattr("tb_next")?;
            }
        }
        accessor(exception)?.call_method1("__set__", (exception, &rest))?;
        Ok(rest.unbind())
    })
}

/// Returns a function that gives the handled exception.
pub fn handled(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let handled = cpython::fastcall(py, "__handled__", "The exception being handled.", |py, _| {
        Ok(cpython::import(py, "sys")?.getattr("exc_info")?.call0()?.get_item(1)?.unbind())
    })?;
    Ok(handled.unbind())
}

/// Returns a function that raises `UnboundLocalError` for a variable.
pub fn unbound(py: Python<'_>, name: String) -> PyResult<Py<PyAny>> {
    let (_, text) = unbound_texts(name);
    let unbound = cpython::fastcall(py, "__unbound__", "The error of a variable without a value.", move |_, _| {
        Err(PyUnboundLocalError::new_err(text.clone()))
    })?;
    Ok(unbound.unbind())
}

/// CPython's messages for an empty cell of an enclosing function, and for one of the function's own.
fn unbound_texts(name: String) -> (String, String) {
    if PyVersion::BUILT_FOR < PyVersion(11) {
        let free = format!("free variable '{name}' referenced before assignment in enclosing scope");
        return (free, format!("local variable '{name}' referenced before assignment"));
    }
    let free =
        format!("cannot access free variable '{name}' where it is not associated with a value in enclosing scope");
    (free, format!("cannot access local variable '{name}' where it is not associated with a value"))
}

/// Returns a function that defers signal handlers until the frame is handed over or they are released.
pub fn hold_signals(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let hold = cpython::fastcall(py, "__hold__", "Defers handlers of signals.", |py, _| {
        cpython::defer_signals(py).hold();
        Ok(py.None())
    })?;
    Ok(hold.unbind())
}

/// Returns a function that lets signal handlers run again, and runs pending ones at once.
pub fn release_signals(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let release = cpython::fastcall(py, "__release__", "Runs deferred handlers of signals.", |py, _| {
        drop(cpython::take_held(py));
        if cpython::has_signals() {
            py.check_signals()?;
        }
        Ok(py.None())
    })?;
    Ok(release.unbind())
}

/// Runs resume functions in a loop until one returns a result.
fn drive<'py>(
    py: Python<'py>,
    mut target: Arc<ResumeTarget>,
    mut values: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    // The caller is the new code, whose globals are those of the original function.
    let globals = cpython::current_globals(py);
    let globals = globals.ok_or_else(|| PyRuntimeError::new_err("a resume function is called by Python code"))?;
    drop(cpython::take_held(py));
    loop {
        // An exception of a signal handler is raised where the frame continues.
        if cpython::has_signals() {
            if let Err(error) = py.check_signals() {
                return target.raise(py, values, error);
            }
        }
        let result = target.call(py, &globals, values);
        let _signals = cpython::take_held(py);
        let result = result.map_err(|error| target.as_unbound(py, error))?;
        let Ok(next) = result.cast::<Continuation>() else { return Ok(result) };
        let mut next = next.borrow_mut();
        target = Arc::clone(&next.target);
        values = next.values.drain(..).map(|value| value.into_bound(py)).collect();
    }
}
