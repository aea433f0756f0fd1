//! Layers that may be called as a whole. Paddle's own layers without sublayers are a few lines around one function, so
//! one statement stands for a call. The attributes that their forward reads are found by scanning its code.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};
use sot_core::backend::CallKind;
use sot_core::cpython;

use crate::backend::calls::foundation;
use crate::backend::paddle::Paddle;

/// The kind of a statement that calls a layer as a whole.
pub(crate) const LAYER: CallKind = CallKind::Object("layer");

/// Where Paddle defines its layers.
const OWN: &str = "paddle.nn.layer.";

/// Layers whose forward does more than build graph, with the reason.
const NOT_PURE: &[&str] = &[
    "SpectralNorm", // writes its vectors back after each forward
    "RNNCellBase",  // abstract
    "RNN",          // loops over time steps in Python
    "BiRNN",        // the same
    "LayerList",    // containers have no forward
    "LayerDict",
    "ParameterList",
    "ParameterDict",
];

/// True if calling `layer` only builds graph.
pub(crate) fn is_leaf(paddle: &Paddle, layer: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = layer.py();
    if !layer.is_instance(paddle.layer_type.bind(py))? {
        return Ok(false);
    }
    let class = layer.get_type();
    let module: String = class.getattr("__module__")?.extract()?;
    let name = class.name()?.to_string();
    if !module.starts_with(OWN) || NOT_PURE.contains(&name.as_str()) {
        return Ok(false);
    }
    // Layers that write in place to their input or to their weight.
    for asked in ["inplace", "_inplace", "_max_norm"] {
        if layer.getattr("__dict__")?.call_method1("get", (asked,))?.is_truthy()? {
            return Ok(false);
        }
    }
    for registered in ["_sub_layers", "_forward_pre_hooks", "_forward_post_hooks"] {
        if layer.getattr(registered)?.is_truthy()? {
            return Ok(false);
        }
    }
    // True only if the program has replaced none of Paddle's code, by an instance attribute, or by a patched class or
    // module.
    let forward = class.getattr("forward")?;
    Ok(!is_shadowed(layer, &forward)? && foundation::of_layer(paddle, &class)?.replaced().is_none())
}

/// True if layers of the class have only settings and a `forward`: the class is Paddle's own and makes neither
/// parameters nor layers, or it is made in the same way as such a class.
pub(crate) fn is_bare(paddle: &Paddle, class: &Bound<'_, PyType>) -> PyResult<bool> {
    const REGISTERS: [&str; 4] = ["create_parameter", "add_parameter", "register_buffer", "add_sublayer"];
    let py = class.py();
    let (layer, exported) = (paddle.layer_type.bind(py), cpython::import(py, "paddle.nn")?);
    if class.is(layer) || NOT_PURE.contains(&&*class.name()?.to_string()) {
        return Ok(false);
    }
    // A metaclass, or a base behind `Layer`, may change what a call of the class does.
    if !class.get_type().is(layer.get_type()) || !class.getattr("__new__")?.is(&layer.getattr("__new__")?) {
        return Ok(false);
    }
    let mut names = BTreeSet::new();
    for base in class.mro().iter().take_while(|base| !base.is(layer)) {
        let module: String = base.getattr("__module__")?.extract()?;
        if !module.starts_with(OWN) && is_made_by_its_bases(&base)? {
            continue;
        }
        let Some(code) = code_of(&base.getattr("__init__")?)?.filter(|_| module.starts_with(OWN)) else {
            return Ok(false);
        };
        names_of(&code, &mut names)?;
    }
    for name in names {
        let other = exported.getattr_opt(&*name)?.and_then(|other| other.cast_into::<PyType>().ok());
        if REGISTERS.contains(&&*name) || other.is_some_and(|other| other.is_subclass(layer).unwrap_or(true)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True if a class does not define how its objects are made.
fn is_made_by_its_bases(class: &Bound<'_, PyAny>) -> PyResult<bool> {
    const MAKING: [&str; 3] = ["__init__", "__setattr__", "__del__"];
    let own = class.getattr("__dict__")?;
    for name in MAKING {
        if own.contains(name)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True if the layer has a `forward` of its own. Paddle's tracers store the bound `forward` of the class in layers
/// that they have seen; that does not count.
fn is_shadowed(layer: &Bound<'_, PyAny>, forward: &Bound<'_, PyAny>) -> PyResult<bool> {
    match layer.getattr("__dict__")?.call_method1("get", ("forward",))? {
        own if own.is_none() => Ok(false),
        own => Ok(!cpython::bound_method(&own).is_some_and(|(function, of)| function.is(forward) && of.is(layer))),
    }
}

/// Names that layer classes may read. Only Paddle's own classes are remembered, by name, so no class is kept alive.
#[derive(Default)]
pub(crate) struct Layers {
    names: Mutex<HashMap<String, Arc<[Py<PyString>]>>>,
}

impl Layers {
    /// Attributes that the forward of `layer` may read, sorted.
    pub(crate) fn reads<'py>(&self, layer: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyString>>> {
        let py = layer.py();
        let candidates = self.names_in_code(&layer.get_type())?;
        let attributes = layer.getattr(intern!(py, "__dict__"))?;
        let stores = [layer.getattr(intern!(py, "_parameters"))?, layer.getattr(intern!(py, "_buffers"))?];
        let mut found = Vec::new();
        for name in candidates.iter().map(|name| name.bind(py)) {
            if attributes.contains(name)? || stores[0].contains(name)? || stores[1].contains(name)? {
                found.push(name.clone());
            }
        }
        Ok(found)
    }

    fn names_in_code(&self, class: &Bound<'_, PyType>) -> PyResult<Arc<[Py<PyString>]>> {
        let module: String = class.getattr(intern!(class.py(), "__module__"))?.extract()?;
        let own = module.starts_with(OWN);
        let key = format!("{module}.{}", class.qualname()?);
        if let Some(known) = self.known().get(&key).filter(|_| own) {
            return Ok(Arc::clone(known));
        }
        let names = scan_methods(class)?;
        let names: Arc<[_]> = names.iter().map(|name| PyString::intern(class.py(), name).unbind()).collect();
        if own {
            self.known().insert(key, Arc::clone(&names));
        }
        Ok(names)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<[Py<PyString>]>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the names in the code of `forward`, and of every method that it names, directly or through another method,
/// in the class and its bases.
fn scan_methods(class: &Bound<'_, PyType>) -> PyResult<BTreeSet<String>> {
    let mut seen = BTreeSet::from(["forward".to_owned()]);
    let mut todo = vec!["forward".to_owned()];
    while let Some(method) = todo.pop() {
        let mut names = BTreeSet::new();
        for base in class.mro().iter() {
            let members = base.getattr("__dict__")?;
            if members.contains("_dygraph_call_func")? {
                break; // `Layer` itself: its machinery is not part of a leaf's forward.
            }
            if let Some(code) = members.call_method1("get", (&method,)).and_then(|function| code_of(&function))? {
                names_of(&code, &mut names)?;
            }
        }
        for name in names {
            if seen.insert(name.clone()) {
                todo.push(name);
            }
        }
    }
    Ok(seen)
}

/// Returns the code of a function of Paddle's, below its decorators.
pub(crate) fn code_of<'py>(function: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let mut function = function.clone();
    // Decorated methods lead to the original through `__wrapped__`.
    while let Some(inner) = function.getattr_opt("__wrapped__")? {
        function = inner;
    }
    function.getattr_opt("__code__")
}

pub(crate) fn names_of(code: &Bound<'_, PyAny>, names: &mut impl Extend<String>) -> PyResult<()> {
    for name in code.getattr("co_names")?.cast_into::<PyTuple>()?.iter() {
        names.extend([name.cast::<PyString>()?.to_string()]);
    }
    // Comprehensions and lambdas are constants of the code around them.
    for constant in code.getattr("co_consts")?.cast_into::<PyTuple>()?.iter() {
        if constant.hasattr("co_names")? {
            names_of(&constant, names)?;
        }
    }
    Ok(())
}
