//! Module `toy.steering`: the functions by which programs of the toy framework control the tracer.

use std::ffi::CString;

use pyo3::prelude::*;
use sot_core::builtin;
use sot_variables::builtins::steering;

use crate::toy;

/// Makes `toy.steering` and adds it to `sys.modules`, before the registrations look it up.
pub(crate) fn load(py: Python<'_>) -> PyResult<()> {
    let modules = py.import("sys")?.getattr("modules")?;
    if modules.contains("toy.steering")? {
        return Ok(());
    }
    let source = CString::new(include_str!("python/steering.py"))?;
    let module = PyModule::from_code(py, &source, c"<toy>/steering.py", c"toy.steering")?;
    toy::module(py)?.setattr("steering", &module)?;
    modules.set_item("toy.steering", module)
}

builtin! { BREAKGRAPH = "toy.steering:breakgraph" => |cx, args| steering::breakgraph(cx, args) }

builtin! { FALLBACK = "toy.steering:fallback" => |cx, args| steering::fallback(cx, args) }

builtin! { IN_SOT = "toy.steering:in_sot" => |cx, args| steering::in_sot(cx, args) }

builtin! { ASSERT_TRUE = "toy.steering:assert_true" => |cx, args| steering::assert_true(cx, args) }

builtin! { PRINT = "toy.steering:print" => |cx, args| steering::print(cx, args) }

builtin! { BREAKPOINT = "toy.steering:breakpoint" => |cx, args| steering::breakpoint(cx, args) }
