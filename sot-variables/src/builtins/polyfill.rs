//! C functions of the standard library that have an equivalent in Python, which is inlined instead. The library
//! defines both in one module, where the C function replaces the Python one if it is available.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyType};
use rustc_hash::FxHashSet;

use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::executor::{CallArgs, Frame, OpcodeExecutor};
use sot_core::variable::{Form, VarId};

use super::cannot;
use crate::classes::subclass;
use crate::containers::dict;

macro_rules! twins {
    ($seen:ident, $module:literal, $accelerator:literal: $($item:ident = $path:literal, $name:literal;)+) => {$(
        builtin! { $item = $path? => |cx, args| {
            static TWIN: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
            let args = $seen(cx, args)?;
            let module = TWIN.get_or_try_init(cx.py, || in_python(cx.py, $module, $accelerator))?;
            let function = module.bind(cx.py).getattr($name)?;
            follow(cx, &function, &args)
        } }
    )+};
}

twins! { seen_as_heap, "heapq", "_heapq":
    HEAPIFY = "heapq:heapify", "heapify";
    HEAPPUSH = "heapq:heappush", "heappush";
    HEAPPUSHPOP = "heapq:heappushpop", "heappushpop";
    HEAPIFY_MAX = "heapq:_heapify_max", "_heapify_max";
}

twins! { seen_as_filled_heap, "heapq", "_heapq":
    HEAPPOP = "heapq:heappop", "heappop";
    HEAPREPLACE = "heapq:heapreplace", "heapreplace";
    HEAPPOP_MAX = "heapq:_heappop_max", "_heappop_max";
    HEAPREPLACE_MAX = "heapq:_heapreplace_max", "_heapreplace_max";
}

twins! { seen_as_sequence, "bisect", "_bisect":
    BISECT_LEFT = "bisect:bisect_left", "bisect_left";
    BISECT_RIGHT = "bisect:bisect_right", "bisect_right";
    INSORT_LEFT = "bisect:insort_left", "insort_left";
    INSORT_RIGHT = "bisect:insort_right", "insort_right";
}

/// The functions in C take a list, or an instance of a subclass of which they see the items alone.
fn seen_as_heap(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<CallArgs> {
    let refuse = || cannot("a function of heapq without a list");
    let (&given, rest) = args.positional.split_first().filter(|_| args.keywords.is_empty()).ok_or_else(refuse)?;
    let heap = subclass::seen_by_base(cx, given)?;
    if !cx.type_of(heap)?.is(cx.py.get_type::<PyList>()) {
        return Err(refuse());
    }
    Ok(CallArgs::positional(rest.to_vec()).with_receiver(heap))
}

/// The error about an empty list has another text in C.
fn seen_as_filled_heap(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<CallArgs> {
    let args = seen_as_heap(cx, args)?;
    let heap = args.positional[0];
    match cx.see(heap)?.items(cx, heap)? {
        Some(items) if items.is_empty() => Err(cannot("an item of an empty heap")),
        _ => Ok(args),
    }
}

/// The functions in C call the methods of a sequence as those in Python do, but refuse what is no sequence.
fn seen_as_sequence(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<CallArgs> {
    let is_no_sequence = |form| matches!(form, Form::Dict | Form::Set | Form::MappingProxy);
    match args.positional.first() {
        Some(&given) if is_no_sequence(cx.see(given)?.form()) => Err(cannot("a function of bisect without a sequence")),
        _ => Ok(args.clone()),
    }
}

/// Methods that `JSONEncoder` calls in Python and not in C, where it reads the contents directly.
const ASKED_IN_PYTHON: &[(&str, &[&str])] = &[
    ("list", &["__iter__", "__len__", "__bool__"]),
    ("tuple", &["__iter__", "__len__", "__bool__"]),
    ("dict", &["__len__", "__bool__"]),
    ("float", &["__eq__", "__ne__"]),
];

/// Breaks the graph for a value of a class that overrides a method which the encoder in Python calls in vain.
fn refuse_overriding(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<()> {
    let (mut todo, mut seen) = (vec![value], FxHashSet::default());
    while let Some(value) = todo.pop() {
        if !seen.insert(value) {
            continue;
        }
        let ty = cx.type_of(value)?.cast_into::<PyType>().map_err(PyErr::from)?;
        for (name, asked) in ASKED_IN_PYTHON {
            let base = super::builtin_object(cx.py, name)?.cast_into::<PyType>().map_err(PyErr::from)?;
            if cpython::is_subtype(&ty, &base) {
                subclass::refuse_overriding(cx, value, asked, "the JSON")?;
            }
        }
        let held = subclass::seen_by_base(cx, value)?;
        match dict::of(cx, held)? {
            Some(dict) => todo.extend(dict.entries.iter().map(|entry| entry.value)),
            None if matches!(cx.see(held)?.form(), Form::List | Form::Tuple) => {
                todo.extend(cx.see(held)?.items(cx, held)?.unwrap_or_default());
            }
            None => {}
        }
    }
    Ok(())
}

// Without its C accelerators, `JSONEncoder` can be inlined. Strings are still encoded by C code.
builtin! { JSON_ENCODER = "json.encoder:JSONEncoder.iterencode" => |cx, args| {
    if let Some(&value) = args.positional.get(1) {
        refuse_overriding(cx, value)?;
    }
    static TWIN: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let make = || {
        let twin = in_python(cx.py, "json.encoder", "_json")?;
        let own = cpython::import(cx.py, "json.encoder")?;
        for name in ["encode_basestring", "encode_basestring_ascii"] {
            twin.bind(cx.py).setattr(name, own.getattr(name)?)?;
        }
        PyResult::Ok(twin)
    };
    let encoder = TWIN.get_or_try_init(cx.py, make)?.bind(cx.py).getattr("JSONEncoder")?;
    follow(cx, &encoder.getattr("iterencode")?, args)
} }

// A decoder that outlives the call would have the scanner in C.
builtin! { JSON_SCANNER = "json.scanner:c_make_scanner" => |cx, args| {
    let reads_at_once = |frame: &Frame| {
        let code = &frame.code.code;
        &*code.name == "loads" && code.filename.ends_with("json/__init__.py")
    };
    if !cx.stack.iter().any(reads_at_once) {
        return Err(cannot("a decoder of JSON that is made in the function"));
    }
    let scanner = cpython::import(cx.py, "json.scanner")?.getattr("py_make_scanner")?;
    follow(cx, &scanner, args)
} }

/// Loads a second copy of a library module without its C accelerator. The imported modules are left unchanged.
fn in_python(py: Python<'_>, module: &str, accelerator: &str) -> PyResult<Py<PyModule>> {
    let modules = cpython::import(py, "sys")?.getattr("modules")?.cast_into::<PyDict>()?;
    let kept = modules.get_item(accelerator)?;
    let util = cpython::import(py, "importlib.util")?;
    let spec = util.getattr("find_spec")?.call1((module,))?;
    let made = util.getattr("module_from_spec")?.call1((&spec,))?;
    modules.set_item(accelerator, py.None())?;
    let loaded = spec.getattr("loader")?.call_method1("exec_module", (&made,));
    match kept {
        Some(kept) => modules.set_item(accelerator, kept)?,
        None => modules.del_item(accelerator)?,
    }
    loaded?;
    Ok(made.cast_into::<PyModule>()?.unbind())
}

fn follow<'py>(cx: &mut OpcodeExecutor<'py>, function: &Bound<'py, PyAny>, args: &CallArgs) -> Flow<VarId> {
    let tracker = cx.trace.trackers.constant(function.clone().unbind());
    let function = cx.trace.wrap(function, tracker);
    cx.without_frame(|cx| cx.call(function, args))
}
