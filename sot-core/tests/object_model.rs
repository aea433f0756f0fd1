//! The object model helpers against what Python says.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod interpreter;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyFunction, PyString, PyType};
use sot_core::cpython::{self, DescriptorKind, GetattrHook, Getter, WeakRef};

use interpreter::with_python;

const CLASSES: &std::ffi::CStr = c"
class Plain:
    kind = 'plain'
    @property
    def prop(self): return 'prop'
    def method(self): return self
class Child(Plain):
    def __init__(self): self.own = 'own'
class Hooked(Plain):
    def __getattr__(self, name): return name
class HookedChild(Hooked): pass
class Custom(Plain):
    def __getattribute__(self, name): return name
class Both(Custom):
    def __getattr__(self, name): return name
class Writes(Plain):
    def __setattr__(self, name, value): pass
class Slots:
    __slots__ = ('a',)
class Lying:
    __slots__ = ()
    @property
    def __dict__(self): raise SystemError('user code')
class LyingWithDict:
    @property
    def __dict__(self): raise SystemError('user code')
class WithWeak:
    __slots__ = ('__weakref__',)
def f(a, b=1, *, c=2):
    return a, free
def make(free):
    def g(): return free
    return g
g = make('x')
";

fn with_classes(test: impl for<'py> FnOnce(Python<'py>, &dyn Fn(&str) -> Bound<'py, PyAny>)) {
    with_python(|py| {
        let namespace = PyDict::new(py);
        py.run(CLASSES, Some(&namespace), None).unwrap();
        test(py, &|expression| py.eval(&std::ffi::CString::new(expression).unwrap(), Some(&namespace), None).unwrap());
    });
}

fn class<'py>(object: &Bound<'py, PyAny>) -> Bound<'py, PyType> {
    object.clone().cast_into().unwrap()
}

#[test]
fn lookup_walks_the_mro_and_asks_nobody() {
    with_classes(|py, get| {
        let look = |ty: &str, name: &str| cpython::type_lookup(&class(&get(ty)), &PyString::new(py, name));
        assert!(look("Child", "kind").unwrap().is(get("Plain.kind")));
        assert!(look("Child", "prop").unwrap().is(get("Plain.__dict__['prop']")));
        assert!(look("Child", "own").is_none());
        assert!(look("int", "real").unwrap().is(get("int.__dict__['real']")));
        assert!(!PyErr::occurred(py));
    });
}

#[test]
fn attribute_hooks_are_told_apart() {
    with_classes(|_, get| {
        for (name, hook) in [
            ("Plain", GetattrHook::Generic),
            ("Child", GetattrHook::Generic),
            ("int", GetattrHook::Generic),
            ("Hooked", GetattrHook::GetAttrHook),
            ("HookedChild", GetattrHook::GetAttrHook),
            ("Custom", GetattrHook::Custom),
            ("Both", GetattrHook::Custom),
            ("type", GetattrHook::Custom),
            ("super", GetattrHook::Custom),
        ] {
            assert_eq!(cpython::getattr_hook(&class(&get(name))), hook, "{name}");
        }
        assert!(cpython::uses_generic_getattr(&class(&get("Writes"))));
        assert!(!cpython::uses_generic_setattr(&class(&get("Writes"))));
        assert!(cpython::uses_generic_setattr(&class(&get("Plain"))));
        assert!(cpython::is_heap_type(&class(&get("Plain"))) && !cpython::is_heap_type(&class(&get("int"))));
        assert!(cpython::is_data_descriptor(&get("Plain.__dict__['prop']")));
        assert!(cpython::is_descriptor(&get("Plain.method")) && !cpython::is_data_descriptor(&get("Plain.method")));
        assert!(!cpython::is_descriptor(&get("1")));
    });
}

#[test]
fn instance_dicts_come_without_user_code() {
    with_classes(|py, get| {
        let object = get("Child()");
        let dict = cpython::instance_dict(&object).unwrap();
        assert!(dict.is(object.getattr("__dict__").unwrap()));
        assert_eq!(dict.get_item("own").unwrap().unwrap().to_string(), "own");
        for without in ["1", "Slots()", "Lying()", "int", "Plain", "()"] {
            assert!(cpython::instance_dict(&get(without)).is_none(), "{without}");
        }
        assert!(cpython::instance_dict(&get("LyingWithDict()")).unwrap().is_empty());
        let function = get("f");
        assert!(cpython::instance_dict(&function).unwrap().is(function.getattr("__dict__").unwrap()));
        let own = cpython::generic_getattr(&object, intern!(py, "own")).unwrap().unwrap();
        assert!(own.is(object.getattr("own").unwrap()));
        assert!(cpython::generic_getattr(&object, intern!(py, "none")).unwrap().is_none());
        assert!(cpython::generic_getattr(&get("Hooked()"), intern!(py, "none")).unwrap().is_none());
        assert!(!PyErr::occurred(py));
    });
}

#[test]
fn functions_methods_and_cells_show_their_parts() {
    with_classes(|py, get| {
        let f: Bound<'_, PyFunction> = get("f").cast_into().unwrap();
        let g: Bound<'_, PyFunction> = get("g").cast_into().unwrap();
        assert!(cpython::function_code(&f).is(f.getattr("__code__").unwrap()));
        assert!(cpython::function_globals(&f).is(f.getattr("__globals__").unwrap()));
        assert!(cpython::function_defaults(&f).unwrap().is(f.getattr("__defaults__").unwrap()));
        assert!(cpython::function_kwdefaults(&f).unwrap().is(f.getattr("__kwdefaults__").unwrap()));
        assert!(cpython::function_closure(&f).is_none() && cpython::function_defaults(&g).is_none());
        let cell = cpython::function_closure(&g).unwrap().get_item(0).unwrap();
        assert!(cpython::is_cell(&cell) && !cpython::is_cell(&f));
        assert_eq!(cpython::cell_contents(&cell).unwrap().to_string(), "x");
        cpython::set_cell_contents(&cell, Some(&f)).unwrap();
        assert!(g.call0().unwrap().is(&f));
        cpython::set_cell_contents(&cell, None).unwrap();
        assert!(cpython::cell_contents(&cell).is_none());
        assert!(cpython::set_cell_contents(&f, None).unwrap_err().is_instance_of::<PyTypeError>(py));
        assert!(cpython::cell_contents(&cpython::new_cell(py, Some(&f)).unwrap()).unwrap().is(&f));
        let method = get("Child().method");
        let (function, receiver) = cpython::bound_method(&method).unwrap();
        assert!(function.is(get("Plain.method")) && receiver.is(method.getattr("__self__").unwrap()));
        assert!(cpython::bound_method(&f).is_none());
        assert_eq!(cpython::total_arg_count(&cpython::function_code(&f)), 3);
    });
}

#[test]
fn getters_read_their_attribute_only() {
    with_classes(|py, get| {
        let getter = Getter::find(&class(&get("int")), intern!(py, "numerator")).unwrap();
        assert!(getter.get(&get("7")).unwrap().eq(7).unwrap());
        assert!(getter.get(&get("True")).unwrap().eq(1).unwrap());
        assert!(getter.get(&get("'seven'")).is_none());
        assert!(Getter::find(&class(&get("Plain")), intern!(py, "prop")).is_none());
        assert!(Getter::find(&class(&get("Plain")), intern!(py, "method")).is_none());
        assert!(Getter::find(&class(&get("Plain")), intern!(py, "none")).is_none());
        assert!(!PyErr::occurred(py));
    });
}

/// Counts when it goes.
struct CountsDrop(Arc<AtomicU64>);

impl Drop for CountsDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn closures_are_called_without_a_tuple() {
    with_classes(|py, get| {
        let freed = Arc::new(AtomicU64::new(0));
        let marker = CountsDrop(freed.clone());
        let callable = cpython::fastcall(py, "joined", "Joins.", move |py, args| {
            let _ = &marker;
            match args.len() {
                0 => Err(PyValueError::new_err("nothing")),
                9 => panic!("nine"),
                _ => {
                    Ok(PyString::new(py, &args.iter().map(ToString::to_string).collect::<String>()).into_any().unbind())
                }
            }
        })
        .unwrap();
        assert_eq!(callable.getattr("__name__").unwrap().to_string(), "joined");
        assert_eq!(callable.getattr("__doc__").unwrap().to_string(), "Joins.");
        assert_eq!(callable.call1((1, "b", 3)).unwrap().to_string(), "1b3");
        assert!(callable.call0().unwrap_err().is_instance_of::<PyValueError>(py));
        let panicked = callable.call1(pyo3::types::PyTuple::new(py, 0..9).unwrap()).unwrap_err();
        assert!(panicked.is_instance_of::<PyRuntimeError>(py) && panicked.to_string().contains("nine"));
        assert!(callable.call((), Some(&[("a", 1)].into_py_dict(py).unwrap())).is_err());
        let values: Vec<_> = (1..=20).map(|i| get(&i.to_string())).collect();
        for n in [1, 2, 8, 12, 20] {
            let args: Vec<_> = values.iter().take(n).collect();
            let expected: String = (1..=n).map(|i| i.to_string()).collect();
            assert_eq!(cpython::call_with_vector(&callable, &args).unwrap().to_string(), expected);
        }
        let bound = get("'-'.join");
        assert_eq!(cpython::call_with_vector(&bound, &[&get("['a', 'b']")]).unwrap().to_string(), "a-b");
        assert_eq!(cpython::call_with_vector(&get("Child"), &[]).unwrap().getattr("own").unwrap().to_string(), "own");
        assert!(cpython::fastcall(py, "a\0", "", |py, _| Ok(py.None())).is_err());
        assert_eq!(freed.load(Ordering::Relaxed), 0);
        drop(callable);
        assert_eq!(freed.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn weak_references_tell_of_death() {
    with_classes(|py, get| {
        let deaths = Arc::new(AtomicU64::new(0));
        let count = {
            let deaths = deaths.clone();
            move || -> Option<cpython::OnDeath> {
                let deaths = deaths.clone();
                Some(Box::new(move |_py| {
                    deaths.fetch_add(1, Ordering::Relaxed);
                }))
            }
        };
        let object = get("Child()");
        let weak = WeakRef::new(&object, count()).unwrap();
        let dropped_before = WeakRef::new(&object, count()).unwrap();
        let silent = WeakRef::new(&object, None).unwrap();
        assert!(weak.get(py).unwrap().is(&object) && silent.get(py).unwrap().is(&object));
        assert_eq!(weak.address(), object.as_ptr() as usize);
        drop(dropped_before);
        drop(object);
        assert_eq!(deaths.load(Ordering::Relaxed), 1);
        assert!(weak.get(py).is_none() && silent.get(py).is_none());
        for (expression, supported) in [
            ("Child()", true),
            ("WithWeak()", true),
            ("Slots()", false),
            ("1", false),
            ("f", true),
            ("f.__code__", true),
            ("int", true),
            ("[]", false),
        ] {
            assert_eq!(cpython::supports_weakref(&get(expression)), supported, "{expression}");
            assert_eq!(WeakRef::new(&get(expression), None).is_ok(), supported, "{expression}");
        }
    });
}

#[test]
fn kinds_of_descriptors() {
    with_classes(|_, get| {
        for (expression, kind) in [
            ("f", DescriptorKind::Function),
            ("list.__dict__['append']", DescriptorKind::Method),
            ("list.__dict__['__len__']", DescriptorKind::SlotWrapper),
            ("dict.__dict__['fromkeys']", DescriptorKind::CClassMethod),
            ("list.__dict__['__new__']", DescriptorKind::BuiltinFunction),
            ("staticmethod(f)", DescriptorKind::StaticMethod),
            ("classmethod(f)", DescriptorKind::ClassMethod),
            ("Plain.prop", DescriptorKind::Property),
            ("Slots.a", DescriptorKind::Member),
            ("type.__dict__['__dict__']", DescriptorKind::Getset),
            ("type('property', (), {})()", DescriptorKind::Other),
        ] {
            assert_eq!(DescriptorKind::of(&get(expression)), kind, "{expression}");
        }
    });
}
