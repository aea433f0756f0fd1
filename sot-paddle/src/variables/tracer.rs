//! The tracer of Paddle's eager mode, which `Layer.train` and `Layer.eval` tell of the mode. Paddle keeps it in an
//! object of each thread's own; there is one as long as eager mode is on, as it is in all that is translated.

use pyo3::prelude::*;
use sot_core::builtin;
use sot_core::cpython;

builtin! { DYGRAPH_TRACER = "paddle.base.framework:_dygraph_tracer" => |cx, args| {
    let [] = args.exactly(cx, "_dygraph_tracer")?;
    let tracer = cpython::import(cx.py, "paddle.base.framework")?.call_method0("_dygraph_tracer")?;
    let tracker = cx.constant_tracker(tracer.clone().unbind());
    Ok(cx.wrap(&tracer, tracker))
} }
