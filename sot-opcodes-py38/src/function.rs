//! Creating functions, and returning from them.

use pyo3::prelude::*;
use pyo3::types::PyFunction;
use sot_core::error::Flow;
use sot_core::executor::{OpcodeExecutor, Trace};
use sot_core::opcode;
use sot_core::opcode::{Next, Quiet};
use sot_core::variable::VarId;
use sot_variables::functions::new_function::{self, NewFunction};

opcode! { RETURN_VALUE [3.8..3.14] (value -- ) .quiet(Quiet::Always) => |_cx, _| Ok(Next::Return(value)) }
opcode! { MAKE_FUNCTION [3.8..3.11] (..) => |cx, op| make_named_function(cx, op.arg) }

/// Positional defaults are on the stack.
pub const DEFAULTS: u32 = 0x01;
/// Defaults of keyword-only parameters are on the stack.
pub const KEYWORD_DEFAULTS: u32 = 0x02;
/// Annotations are on the stack.
pub const ANNOTATIONS: u32 = 0x04;
/// The closure is on the stack.
pub const CLOSURE: u32 = 0x08;

fn make_named_function(cx: &mut OpcodeExecutor<'_>, flags: u32) -> Flow<Next> {
    let [code, name] = cx.stack.pop_array()?;
    make_function(cx, code, Some(name), flags)
}

/// Creates a function from code, and from the parts on the stack that the flags announce.
pub fn make_function(cx: &mut OpcodeExecutor<'_>, code: VarId, name: Option<VarId>, flags: u32) -> Flow<Next> {
    let mut part = |flag: u32| if flags & flag != 0 { cx.stack.pop().map(Some) } else { Ok(None) };
    let closure = part(CLOSURE)?;
    let annotations = part(ANNOTATIONS)?;
    let keyword_defaults = part(KEYWORD_DEFAULTS)?;
    let defaults = part(DEFAULTS)?;
    let new = NewFunction { code, name, defaults, keyword_defaults, annotations, closure };
    let function = new_function::build(cx, new)?;
    cx.stack.push(function);
    Ok(Next::Continue)
}

/// Names a callable as error messages about its arguments do, without parentheses. `None` if only CPython knows the
/// name.
pub type Naming = fn(&Trace<'_>, VarId) -> Option<String>;

/// `module.Class.method`
pub fn qualified_name(trace: &Trace<'_>, callable: VarId) -> Option<String> {
    let name = function_attribute(trace, callable, "__qualname__")?;
    Some(match function_attribute(trace, callable, "__module__") {
        Some(module) => format!("{module}.{name}"),
        None => name,
    })
}

/// `method`
pub(crate) fn short_name(trace: &Trace<'_>, callable: VarId) -> Option<String> {
    function_attribute(trace, callable, "__name__")
}

fn function_attribute(trace: &Trace<'_>, callable: VarId, name: &str) -> Option<String> {
    let payload = trace.vars.get(callable);
    let object = payload.object()?.bind(trace.py);
    let is_function = object.is_exact_instance_of::<PyFunction>();
    is_function.then(|| object.getattr(name).ok()?.extract::<String>().ok()).flatten()
}
