//! Objects whose destruction is observable: generators, objects with a `__del__`, weak references with a callback,
//! and their referents. Also finds such objects inside others: in containers, in attributes, and in the frames of an
//! exception's traceback.

use pyo3::exceptions::PyBaseException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyCode, PyDict, PyFloat, PyFrame, PyFrozenSet, PyFunction, PyInt, PyList, PyModule, PySet, PyString,
    PyTraceback, PyTuple, PyType, PyWeakrefReference,
};
use rustc_hash::FxHashMap;

use crate::cpython;
use crate::policy::MAX_LOOKED_THROUGH;

/// Addresses from the object that was looked into to an object whose destruction is observable: each object holds the
/// next one.
pub(super) type Path = Vec<usize>;

/// Python objects that the search needs.
pub(super) struct DestructionSearch<'py> {
    builtins: Bound<'py, PyAny>,
    deque: Bound<'py, PyAny>,
    silent: [Bound<'py, PyAny>; 2],
    weak_references: Bound<'py, PyAny>,
}

/// The same objects, as they were at the first search.
static NEEDED: PyOnceLock<[Py<PyAny>; 5]> = PyOnceLock::new();

impl<'py> DestructionSearch<'py> {
    pub(super) fn new(py: Python<'py>) -> PyResult<DestructionSearch<'py>> {
        let of = |module, name: &str| PyResult::Ok(cpython::import(py, module)?.getattr(name)?.unbind());
        let needed = NEEDED.get_or_try_init(py, || {
            let builtins = cpython::import(py, "builtins")?.dict().into_any().unbind();
            let (deque, string, bytes) = (of("collections", "deque")?, of("io", "StringIO")?, of("io", "BytesIO")?);
            PyResult::Ok([builtins, deque, string, bytes, of("weakref", "getweakrefs")?])
        })?;
        let [builtins, deque, string, bytes, weak_references] = needed.each_ref().map(|object| object.bind(py).clone());
        Ok(DestructionSearch { builtins, deque, silent: [string, bytes], weak_references })
    }

    /// True if the destruction of the object is observable.
    pub(super) fn is_observable(&self, object: &Bound<'py, PyAny>) -> bool {
        if is_plain(object) {
            return false;
        }
        let ty = object.get_type();
        if object.is_instance_of::<PyWeakrefReference>() {
            // Where it is gone, its callback is not called.
            return object.getattr(intern!(object.py(), "__callback__")).is_ok_and(|callback| !callback.is_none());
        }
        // A weak reference that cannot be read may have a callback.
        if self.has_observing_weakref(object).unwrap_or(true) {
            return true;
        }
        let hook = cpython::type_lookup(&ty, intern!(ty.py(), "__del__"));
        hook.is_some() && !self.silent.iter().any(|silent| ty.is(silent))
    }

    /// True if the object's death is observable by a weak reference: one with a callback, or a proxy.
    fn has_observing_weakref(&self, object: &Bound<'py, PyAny>) -> PyResult<bool> {
        if !cpython::has_weakrefs(object) {
            return Ok(false);
        }
        for weak in self.weak_references.call1((object,))?.try_iter()? {
            let weak = weak?;
            // A proxy hands reads on to the object, so its callback cannot be read; and it raises once the object is
            // gone.
            let is_proxy = !weak.get_type().is_subclass_of::<PyWeakrefReference>()?;
            if is_proxy || !weak.getattr(intern!(weak.py(), "__callback__"))?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the paths to the objects whose destruction is observable, among all that is destroyed with `object` if
    /// nothing else holds it. `known` is true for addresses of objects to which the tracer itself holds references.
    /// Each object looked at takes one from `budget`.
    pub(super) fn paths_from(
        &self,
        object: &Bound<'py, PyAny>,
        known: impl Fn(usize) -> bool,
        budget: &mut usize,
    ) -> PyResult<Vec<Path>> {
        if is_plain(object) {
            return Ok(Vec::new());
        }
        let mut nodes: Vec<(Bound<'py, PyAny>, Option<usize>)> = vec![(object.clone(), None)];
        let mut met: FxHashMap<usize, isize> = FxHashMap::from_iter([(object.as_ptr() as usize, 1)]);
        let (mut at, mut found) = (0, Vec::new());
        while at < nodes.len() && at < MAX_LOOKED_THROUGH && *budget > 0 {
            *budget -= 1;
            let (node, is_first) = (nodes[at].0.clone(), at == 0);
            let address = node.as_ptr() as usize;
            // All references beyond the two held here and those of objects already looked through belong to other
            // objects.
            let is_shared = !known(address) && cpython::refcount(&node) - 2 > met[&address];
            if self.is_observable(&node) {
                found.push(at);
            } else if is_first || self.is_container(&node) || !is_shared {
                for held in self.held_by(&node)? {
                    let times = met.entry(held.as_ptr() as usize).or_insert(0);
                    *times += 1;
                    if *times == 1 {
                        nodes.push((held, Some(at)));
                    }
                }
            }
            at += 1;
        }
        let path = |end: usize| {
            let mut path: Path = Vec::new();
            let mut at = Some(end);
            while let Some(index) = at {
                path.push(nodes[index].0.as_ptr() as usize);
                at = nodes[index].1;
            }
            path.reverse();
            path
        };
        Ok(found.into_iter().map(path).collect())
    }

    /// Returns the contents of a container that is about to be written to.
    pub(super) fn contents(&self, container: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let is_collection = container.is_instance_of::<PyList>()
            || container.is_instance_of::<PyDict>()
            || container.is_instance_of::<PySet>()
            || container.is_instance(&self.deque)?;
        if is_collection {
            Ok(references_of(container))
        } else {
            Ok(Vec::new())
        }
    }

    fn is_container(&self, holder: &Bound<'py, PyAny>) -> bool {
        holder.is_exact_instance_of::<PyList>()
            || holder.is_exact_instance_of::<PyTuple>()
            || holder.is_exact_instance_of::<PyDict>()
            || holder.is_exact_instance_of::<PySet>()
            || holder.is_exact_instance_of::<PyFrozenSet>()
            || holder.get_type().is(&self.deque)
    }

    fn held_by(&self, holder: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        if holder.is_instance_of::<PyBaseException>() {
            return self.held_by_exception(holder);
        }
        let mut held = references_of(holder);
        if let Ok(function) = holder.cast::<PyFunction>() {
            let globals = cpython::function_globals(function);
            held.retain(|held| !held.is(&globals) && !held.is(&self.builtins));
        }
        if holder.is_instance_of::<PyTraceback>() {
            held.clear();
        }
        Ok(held)
    }

    fn held_by_exception(&self, holder: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        // A class of the program may define attributes with these names.
        let base = holder.py().get_type::<PyBaseException>();
        let part = |name: &str| base.getattr(name)?.call_method1("__get__", (holder,));
        let mut held: Vec<_> = ["__context__", "__cause__", "args"].iter().filter_map(|name| part(name).ok()).collect();
        held.extend(cpython::instance_dict(holder).map(Bound::into_any));
        // The first frame is the one that has caught the exception, and is still running.
        let mut at = part("__traceback__")?.getattr_opt("tb_next")?;
        while let Some(traceback) = at.as_ref().and_then(|at| at.cast::<PyTraceback>().ok()) {
            let frame = traceback.getattr("tb_frame")?;
            let namespaces = [frame.getattr("f_globals")?, frame.getattr("f_builtins")?];
            for local in cpython::held_objects(&frame, usize::MAX) {
                if !is_plain(&local) && !namespaces.iter().any(|namespace| namespace.is(&local)) {
                    held.push(local);
                }
            }
            at = traceback.getattr_opt("tb_next")?;
        }
        Ok(held)
    }
}

/// Returns what an object holds by references that the garbage collector visits, except for classes, modules and
/// frames.
fn references_of<'py>(holder: &Bound<'py, PyAny>) -> Vec<Bound<'py, PyAny>> {
    let mut held = cpython::held_objects(holder, MAX_LOOKED_THROUGH);
    held.retain(|referent| !is_plain(referent));
    held
}

/// True if the destruction of the object is not observable, and what it holds is not looked at.
fn is_plain(object: &Bound<'_, PyAny>) -> bool {
    object.is_none()
        || object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyString>()
        || object.is_exact_instance_of::<PyBool>()
        || object.is_instance_of::<PyType>()
        || object.is_instance_of::<PyModule>()
        || object.is_instance_of::<PyFrame>()
        || object.is_instance_of::<PyCode>()
}
