//! Layers that may be called as a whole. Paddle's own layers without sublayers are a few lines around one function, so
//! one statement stands for a call. The attributes that their forward reads are found by scanning its code.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};
use sot_core::backend::CallKind;
use sot_core::cpython::{self, WeakRef};

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
pub(crate) fn is_leaf(paddle: &Paddle, layers: &Layers, layer: &Bound<'_, PyAny>) -> PyResult<bool> {
    let (py, class) = (layer.py(), layer.get_type());
    let is_layer = cpython::is_subtype(&class, paddle.layer_type.bind(py));
    if !is_layer || !layers.of_own(&class)?.is_some_and(|class| class.is_pure) {
        return Ok(false);
    }
    let Some(own) = cpython::instance_dict(layer) else { return Ok(false) };
    // Such a layer writes in place to its input (`inplace`) or to its weight (`_max_norm`).
    for asked in [intern!(py, "inplace"), intern!(py, "_inplace"), intern!(py, "_max_norm")] {
        if let Some(asked) = cpython::dict_get(&own, asked) {
            if asked.is_truthy()? {
                return Ok(false);
            }
        }
    }
    let has_sublayers = match cpython::dict_get(&own, intern!(py, "_sub_layers")) {
        Some(sublayers) => sublayers.is_truthy()?,
        None => return Ok(false),
    };
    if has_sublayers || has_hooks(layer)? {
        return Ok(false);
    }
    // True only if the program has replaced none of Paddle's code, by an instance attribute, or by a patched class or
    // module.
    Ok(!is_shadowed(layer, &own) && foundation::of_layer(paddle, &class)?.replaced().is_none())
}

/// True if calling the layer runs hooks besides its `forward`.
pub(crate) fn has_hooks(layer: &Bound<'_, PyAny>) -> PyResult<bool> {
    let (py, own) = (layer.py(), cpython::instance_dict(layer));
    for hooks in [intern!(py, "_forward_pre_hooks"), intern!(py, "_forward_post_hooks")] {
        let held = own.as_ref().and_then(|own| cpython::dict_get(own, hooks));
        if held.map_or_else(|| layer.getattr(hooks), Ok)?.is_truthy()? {
            return Ok(true);
        }
    }
    Ok(false)
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

/// True if the layer's `__dict__` has another `forward` than the class. Paddle's tracers store the class's `forward`,
/// bound, in layers that they have seen; this counts as the same.
fn is_shadowed(layer: &Bound<'_, PyAny>, own: &Bound<'_, PyDict>) -> bool {
    let name = intern!(layer.py(), "forward");
    let Some(own) = cpython::dict_get(own, name).filter(|own| !own.is_none()) else { return false };
    let forward = cpython::type_lookup(&layer.get_type(), name);
    let bound = cpython::bound_method(&own);
    !bound.is_some_and(|(function, of)| of.is(layer) && forward.is_some_and(|forward| function.is(&forward)))
}

/// Facts about Paddle's own layer classes, by the address of the class. Classes are referred to weakly.
#[derive(Default)]
pub(crate) struct Layers {
    classes: Mutex<HashMap<usize, (WeakRef, Arc<LayerClass>)>>,
}

/// Facts about one layer class.
pub(crate) struct LayerClass {
    /// True if the class's forward does nothing but build graph.
    is_pure: bool,
    /// Names of the attributes that the class's forward may read.
    names: Vec<Py<PyString>>,
}

/// The attributes of one layer that its forward may read.
pub(crate) struct LayerReads<'py> {
    /// Names and values of the attributes, sorted by name.
    pub(crate) found: Vec<(Bound<'py, PyString>, Bound<'py, PyAny>)>,
    stores: Stores<'py>,
    /// Number of entries of each store.
    sizes: Vec<usize>,
}

/// A layer's `__dict__`, followed by its dicts of parameters and of buffers.
struct Stores<'py>(Vec<Bound<'py, PyDict>>);

impl<'py> Stores<'py> {
    fn of(layer: &Bound<'py, PyAny>) -> Self {
        let py = layer.py();
        let Some(own) = cpython::instance_dict(layer) else { return Stores(Vec::new()) };
        let store = |name| cpython::dict_get(&own, name).and_then(|store| store.cast_into::<PyDict>().ok());
        let others = [store(intern!(py, "_parameters")), store(intern!(py, "_buffers"))];
        Stores(std::iter::once(own).chain(others.into_iter().flatten()).collect())
    }

    fn get(&self, name: &Bound<'py, PyString>) -> Option<Bound<'py, PyAny>> {
        self.0.iter().filter(|store| !store.is_empty()).find_map(|store| cpython::dict_get(store, name))
    }

    fn sizes(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().map(PyDictMethods::len)
    }
}

/// True if the layer's class is Paddle's own.
pub(crate) fn is_own(layer: &Bound<'_, PyAny>) -> bool {
    let module = layer.get_type().getattr(intern!(layer.py(), "__module__")).and_then(|name| name.extract::<String>());
    module.is_ok_and(|module| module.starts_with(OWN))
}

/// True if the container is the layer's dict of parameters or of buffers.
pub(crate) fn is_store(layer: &Bound<'_, PyAny>, container: &Bound<'_, PyAny>) -> bool {
    Stores::of(layer).0.iter().skip(1).any(|store| store.is(container))
}

impl LayerReads<'_> {
    /// True if the layer still has these values under these names, and its stores still have the same numbers of
    /// entries. The forward may have set an attribute otherwise.
    pub(crate) fn is_unchanged(&self) -> bool {
        let is_same = |(name, value): &(_, Bound<'_, PyAny>)| self.stores.get(name).is_some_and(|now| now.is(value));
        self.stores.sizes().eq(self.sizes.iter().copied()) && self.found.iter().all(is_same)
    }
}

impl Layers {
    /// Returns the attributes of the layer that its forward may read.
    pub(crate) fn reads<'py>(&self, layer: &Bound<'py, PyAny>) -> PyResult<LayerReads<'py>> {
        let (py, class) = (layer.py(), layer.get_type());
        let class = match self.of_own(&class)? {
            Some(known) => known,
            None => Arc::new(LayerClass::of(&class)?),
        };
        let stores = Stores::of(layer);
        let held = |name: &Py<PyString>| stores.get(name.bind(py)).map(|value| (name.bind(py).clone(), value));
        Ok(LayerReads { found: class.names.iter().filter_map(held).collect(), sizes: stores.sizes().collect(), stores })
    }

    /// Returns the facts about the class; `None` if the class is not Paddle's.
    pub(crate) fn of_own(&self, class: &Bound<'_, PyType>) -> PyResult<Option<Arc<LayerClass>>> {
        let key = class.as_ptr() as usize;
        if let Some((_, known)) = self.classes().get(&key).filter(|(known, _)| known.is(class)) {
            return Ok(Some(Arc::clone(known)));
        }
        let module: String = class.getattr(intern!(class.py(), "__module__"))?.extract()?;
        if !module.starts_with(OWN) {
            return Ok(None);
        }
        let found = Arc::new(LayerClass::of(class)?);
        let known = (WeakRef::new(class, None)?, Arc::clone(&found));
        let before = self.classes().insert(key, known);
        drop(before);
        Ok(Some(found))
    }

    fn classes(&self) -> parking_lot::MutexGuard<'_, HashMap<usize, (WeakRef, Arc<LayerClass>)>> {
        self.classes.lock()
    }
}

impl LayerClass {
    fn of(class: &Bound<'_, PyType>) -> PyResult<LayerClass> {
        let name = |name: &String| PyString::intern(class.py(), name).unbind();
        let names = scan_methods(class)?.iter().map(name).collect();
        Ok(LayerClass { is_pure: !NOT_PURE.contains(&&*cpython::type_name(class)), names })
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
