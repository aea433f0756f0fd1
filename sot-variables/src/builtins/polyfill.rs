//! C functions of the standard library that have an equivalent in Python, which is inlined instead. The library
//! defines both in one module, where the C function replaces the Python one if it is available.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::executor::{CallArgs, Frame, OpcodeExecutor};
use sot_core::variable::VarId;

use super::cannot;

macro_rules! twins {
    ($($item:ident = $module:literal, $accelerator:literal, $path:literal, $name:literal;)+) => {$(
        builtin! { $item = $path? => |cx, args| {
            static TWIN: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
            let module = TWIN.get_or_try_init(cx.py, || in_python(cx.py, $module, $accelerator))?;
            let function = module.bind(cx.py).getattr($name)?;
            follow(cx, &function, args)
        } }
    )+};
}

twins! {
    HEAPIFY = "heapq", "_heapq", "heapq:heapify", "heapify";
    HEAPPUSH = "heapq", "_heapq", "heapq:heappush", "heappush";
    HEAPPOP = "heapq", "_heapq", "heapq:heappop", "heappop";
    HEAPREPLACE = "heapq", "_heapq", "heapq:heapreplace", "heapreplace";
    HEAPPUSHPOP = "heapq", "_heapq", "heapq:heappushpop", "heappushpop";
    HEAPIFY_MAX = "heapq", "_heapq", "heapq:_heapify_max", "_heapify_max";
    HEAPPOP_MAX = "heapq", "_heapq", "heapq:_heappop_max", "_heappop_max";
    HEAPREPLACE_MAX = "heapq", "_heapq", "heapq:_heapreplace_max", "_heapreplace_max";
    BISECT_LEFT = "bisect", "_bisect", "bisect:bisect_left", "bisect_left";
    BISECT_RIGHT = "bisect", "_bisect", "bisect:bisect_right", "bisect_right";
    INSORT_LEFT = "bisect", "_bisect", "bisect:insort_left", "insort_left";
    INSORT_RIGHT = "bisect", "_bisect", "bisect:insort_right", "insort_right";
}

// Without its C accelerators, `JSONEncoder` can be inlined. Strings are still encoded by C code.
builtin! { JSON_ENCODER = "json.encoder:JSONEncoder.iterencode" => |cx, args| {
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
    let outcome = cx.call(function, args);
    cx.trace.without_frames(outcome)
}
