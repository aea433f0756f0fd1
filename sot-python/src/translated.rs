//! `symbolic_translate` and its result: a callable that runs its target with the tracer on.

use pyo3::exceptions::PyTypeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyCode, PyDict, PyFunction, PyTuple, PyType};
use sot_core::compiler;
use sot_core::cpython;
use sot_core::stance::Stance;
use sot_core::tracker::Key;
use sot_core::translate::{self, Request, RequestOptions};

use crate::extension::add_class;
use crate::face;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_class::<Translated>(module)?;
    module.add_function(wrap_pyfunction!(_leave_size_open, module)?)?;
    module.add_function(wrap_pyfunction!(_copy_marks, module)?)?;
    module.add_function(wrap_pyfunction!(symbolic_translate, module)?)
}

/// A callable whose calls are translated.
#[pyclass(module = "sot", dict, weakref)]
pub(crate) struct Translated {
    target: Option<Py<PyAny>>,
    /// The options, as a request on the code object of the target; `None` if there is no such code object.
    request: Option<Request>,
    options: RequestOptions,
    /// The Python backend that compiles its graphs instead of the framework.
    compiler: Option<Py<PyAny>>,
}

#[pymethods]
impl Translated {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let target = self.target(py)?;
        if Stance::now() == Stance::Eager {
            return target.call(args, kwargs);
        }
        self.renew(py);
        let _compiler = compiler::is_any().then(|| compiler::begin(py, self.compiler.as_ref()));
        let _active =
            cpython::enter(py).map_err(|error| pyo3::exceptions::PyRuntimeError::new_err(error.to_string()))?;
        target.call(args, kwargs)
    }

    fn __get__<'py>(
        slf: Bound<'py, Self>,
        instance: &Bound<'py, PyAny>,
        owner: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = owner;
        let bound = !slf.borrow().target(slf.py())?.is_instance_of::<PyFunction>();
        if instance.is_none() || bound {
            return Ok(slf.into_any());
        }
        cpython::import(slf.py(), "types")?.getattr("MethodType")?.call1((slf, instance))
    }

    /// The target: the function or other callable that is translated.
    #[getter]
    fn __wrapped__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.target(py)
    }

    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.target(py)?.getattr(name)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<{}.symbolic_translate({})>", face::used()?.package, self.target(py)?.repr()?))
    }

    /// A function that was decorated is pickled by its name, as functions are. Another one is made anew of its target.
    fn __reduce__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, PyAny>> {
        let py = slf.py();
        let target = slf.borrow().target(py)?;
        if let Some(name) = global_name(&target, slf.as_any())? {
            return Ok(name);
        }
        let make = cpython::import(py, &face::used()?.package)?.getattr("symbolic_translate")?;
        Ok((make, (target,)).into_pyobject(py)?.into_any())
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __deepcopy__<'py>(&self, py: Python<'py>, memo: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Translated>> {
        let copy = cpython::import(py, "copy")?.call_method1("deepcopy", (self.target(py)?, memo))?;
        wrap(&copy, self.options, self.compiler.as_ref().map(|compiler| compiler.clone_ref(py)))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.compiler)?;
        visit.call(&self.target)
    }

    fn __clear__(&mut self) {
        self.target = None;
        self.compiler = None;
    }
}

impl Translated {
    /// Sets the options of the code object to those of this callable. The last caller's options count.
    pub(crate) fn renew(&self, py: Python<'_>) {
        if let Some(request) = &self.request {
            request.renew(py);
        }
    }

    pub(crate) fn target<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.target {
            Some(target) => Ok(target.bind(py).clone()),
            None => Err(pyo3::exceptions::PyReferenceError::new_err("the translated function was collected")),
        }
    }
}

/// Translate a function, a bound method, a callable object or a model. The result is called like the original.
///
/// A model is returned itself, with its `forward` translated. Without `fn_`, a decorator is returned.
///
/// Args:
///     fn_: a Python function, a bound method, an object with a `__call__` in Python, a `functools.partial` of one of
///         these, or a model of the framework.
///     fullgraph: a function that cannot become one graph raises `GraphBreakError` instead of running in parts.
///     dynamic: `True`: all sizes of tensor arguments are left open from the first translation on. `False`: none ever
///         is. `None`: `SOT_ALLOW_DYNAMIC_SHAPE` decides.
///     backend: a function that makes the callable of each graph, or the name of one that `register.backend` has
///         registered. Names of the framework's own compilers are accepted, and ignored.
///     training: accepted for programs that pass it to the framework's own function, and ignored.
///     build_strategy: the same.
///
/// Raises:
///     TypeError: `fn_` has no Python code: it is a class, a C function, or not callable.
///     ValueError: no backend has this name.
#[allow(clippy::doc_markdown, reason = "the text is Python's docstring, and its names are no items of this crate")]
#[pyfunction]
#[pyo3(
    signature = (
        fn_=None, /, *, fullgraph=Given::default(), dynamic=None, training=None, backend=None, build_strategy=None
    ),
    text_signature = "(fn_=None, /, *, fullgraph=False, dynamic=None, training=None, backend=None, build_strategy=None)"
)]
fn symbolic_translate<'py>(
    py: Python<'py>,
    fn_: Option<Bound<'py, PyAny>>,
    fullgraph: Given<'py>,
    dynamic: Option<Bound<'py, PyAny>>,
    training: Option<Bound<'py, PyAny>>,
    backend: Option<Bound<'py, PyAny>>,
    build_strategy: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _ = (training, build_strategy);
    let fullgraph = fullgraph.0.map_or(Ok(false), |value| truth_of(&value, "fullgraph", "True or False"))?;
    let dynamic = dynamic.map(|value| truth_of(&value, "dynamic", "True, False or None")).transpose()?;
    let compiler = match backend {
        Some(backend) => compiler_of(&backend)?,
        None => None,
    };
    let Some(mut target) = fn_ else {
        let options = PyDict::new(py);
        options.set_item("fullgraph", fullgraph)?;
        options.set_item("dynamic", dynamic)?;
        options.set_item("backend", compiler)?;
        let decorator = wrap_pyfunction!(symbolic_translate, py)?;
        return cpython::import(py, "functools")?.getattr("partial")?.call((decorator,), Some(&options));
    };
    let options = RequestOptions { whole: fullgraph, dynamic };
    if let Some(original) = original_of(&target)? {
        if asks_for_nothing(options, compiler.as_ref()) {
            return Ok(target);
        }
        target = original;
    }
    if let Some(entry) = face::used()?.face.entry(&target) {
        return translate_entry(target, entry, options, compiler);
    }
    refuse(&target)?;
    Ok(wrap(&target, options, compiler)?.into_any())
}

/// An argument that may be left out, and is not left out by `None`.
#[derive(Default)]
struct Given<'py>(Option<Bound<'py, PyAny>>);

impl<'py> FromPyObject<'_, 'py> for Given<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Given(Some(object.to_owned())))
    }
}

/// Returns the value of an option that is true or false.
fn truth_of(value: &Bound<'_, PyAny>, name: &str, values: &str) -> PyResult<bool> {
    value.extract().or_else(|_| {
        let shown = sot_core::tracker::repr(value.py(), value.as_unbound());
        let package = &face::used()?.package;
        Err(PyTypeError::new_err(format!("{package}.symbolic_translate(): {name} is {values}, not {shown}")))
    })
}

/// Returns the callable that a translated one was made from; `None` if this one is not translated.
fn original_of<'py>(callable: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    callable.cast::<Translated>().ok().map(|translated| translated.borrow().target(callable.py())).transpose()
}

/// True if nothing is asked for that a callable which is translated already could lack.
fn asks_for_nothing(options: RequestOptions, compiler: Option<&Py<PyAny>>) -> bool {
    !options.whole && options.dynamic.is_none() && compiler.is_none()
}

/// Translates a model: replaces the method that its calls run, and returns the model itself.
fn translate_entry<'py>(
    model: Bound<'py, PyAny>,
    entry: &'static str,
    options: RequestOptions,
    compiler: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let method = model.getattr(entry)?;
    let original = original_of(&method)?;
    if original.is_none() || !asks_for_nothing(options, compiler.as_ref()) {
        let translated = wrap(&original.unwrap_or(method), options, compiler)?;
        model.py().get_type::<PyAny>().call_method1("__setattr__", (&model, entry, translated))?;
    }
    Ok(model)
}

/// Returns the compiler that a name or function means; `None` for the framework's own compilers.
fn compiler_of(backend: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
    let found = face::module(backend.py(), "_backends")?.call_method1("find", (backend,))?;
    if found.is_none() {
        return Ok(None);
    }
    compiler::announce();
    Ok(Some(found.unbind()))
}

fn wrap<'py>(
    target: &Bound<'py, PyAny>,
    options: RequestOptions,
    compiler: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, Translated>> {
    let py = target.py();
    let request = match code_of(target)? {
        Some(code) => Request::new(&code, options)?,
        None => None,
    };
    let translated = Translated { target: Some(target.clone().unbind()), request, options, compiler };
    let translated = Bound::new(py, translated)?;
    for name in ["__module__", "__name__", "__qualname__", "__doc__"] {
        if let Some(value) = target.getattr_opt(name)? {
            translated.as_any().getattr("__dict__")?.set_item(name, value)?;
        }
    }
    Ok(translated)
}

/// Returns the code object that a call of `target` runs first, apart from the code of `functools.partial` and of calls
/// of models.
pub(crate) fn code_of<'py>(target: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyCode>>> {
    let py = target.py();
    let face = face::used()?.face;
    let partial = cpython::import(py, "functools")?.getattr("partial")?;
    let mut function = target.clone();
    let mut is_call = false;
    loop {
        function = if function.is_instance(&partial)? {
            function.getattr("func")?
        } else if let Ok(translated) = function.cast::<Translated>() {
            translated.borrow().target(py)?
        } else if let Some(entry) = face.entry(&function) {
            function.getattr(entry)?
        } else if let Some((inner, _)) = cpython::bound_method(&function) {
            inner
        } else if is_call || function.is_instance_of::<PyFunction>() {
            break;
        } else {
            is_call = true;
            match function.get_type().getattr_opt("__call__")? {
                Some(call) => call,
                None => return Ok(None),
            }
        };
    }
    Ok(function.cast::<PyFunction>().ok().map(cpython::function_code))
}

/// Leaves the size of dimension `axis` open in translations of a function, for the tensor that `keys` lead to in an
/// argument.
#[pyfunction]
fn _leave_size_open(
    function: &Bound<'_, PyAny>,
    argument: &str,
    keys: Vec<Bound<'_, PyAny>>,
    axis: usize,
) -> PyResult<()> {
    if let Some(code) = code_of(function)? {
        let keys: Vec<Key> = keys.iter().map(Key::of).collect();
        translate::leave_size_open(&code, argument, &keys, axis);
    }
    Ok(())
}

/// Copies the marks that turn breaks and fallbacks into errors from a function to its copy.
#[pyfunction]
fn _copy_marks(function: &Bound<'_, PyAny>, copy: &Bound<'_, PyAny>) -> PyResult<()> {
    if let (Some(code), Some(copy)) = (code_of(function)?, code_of(copy)?) {
        translate::copy_marks(&code, &copy);
    }
    Ok(())
}

/// Returns a clear error for a target that has no Python code to translate.
fn refuse(target: &Bound<'_, PyAny>) -> PyResult<()> {
    let shown = sot_core::tracker::repr(target.py(), &target.clone().unbind());
    let used = face::used()?;
    let functions = "a Python function, a bound method, a callable object";
    let taken = match used.face.also_taken() {
        Some(also) => format!("{functions}, a functools.partial of one or {also}"),
        None => format!("{functions} or a functools.partial of one"),
    };
    let wrong = |what: &str| {
        let package = &used.package;
        Err(PyTypeError::new_err(format!("{package}.symbolic_translate() takes {taken}; {shown} is {what}")))
    };
    if target.is_instance_of::<PyType>() {
        return wrong("a class: translate its methods, or an instance");
    }
    let kind = target.get_type();
    for descriptor in ["staticmethod", "classmethod", "property"] {
        if kind.is(&cpython::import(target.py(), "builtins")?.getattr(descriptor)?) {
            return wrong(&format!("a {descriptor}: put @{descriptor} above @{}.symbolic_translate", used.package));
        }
    }
    if !target.is_callable() {
        return wrong("not callable");
    }
    if target.is_instance_of::<PyCFunction>() || code_of(target)?.is_none() {
        return wrong("implemented in C and has no bytecode: call it as it is, or wrap it in a Python function");
    }
    Ok(())
}

/// Returns the qualified name of a function or class, if its module has the translated one under this name.
fn global_name<'py>(target: &Bound<'py, PyAny>, translated: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (module, name) = (target.getattr_opt("__module__")?, target.getattr_opt("__qualname__")?);
    let (Some(module), Some(name)) = (module, name) else { return Ok(None) };
    let Ok(path) = name.extract::<String>() else { return Ok(None) };
    let modules = cpython::import(target.py(), "sys")?.getattr("modules")?;
    let Ok(mut found) = modules.get_item(module) else { return Ok(None) };
    for part in path.split('.') {
        match found.getattr_opt(part)? {
            Some(inner) => found = inner,
            None => return Ok(None),
        }
    }
    Ok(found.is(translated).then_some(name))
}
