//! The tracer of Paddle's eager mode. `Layer.train` and `Layer.eval` set the mode on it. Paddle keeps it in a
//! thread-local object. It exists while eager mode is on, which holds for all translated code.

use pyo3::prelude::*;
use sot_core::builtin;
use sot_core::cpython;

builtin! { DYGRAPH_TRACER = "paddle.base.framework:_dygraph_tracer" => |cx, args| {
    let [] = args.exactly("_dygraph_tracer")?;
    let tracer = cpython::import(cx.py, "paddle.base.framework")?.call_method0("_dygraph_tracer")?;
    let tracker = cx.trace.trackers.constant(tracer.clone().unbind());
    Ok(cx.trace.wrap(&tracer, tracker))
} }
