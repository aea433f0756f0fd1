//! Attribute access and method loads.

use sot_core::error::Flow;
use sot_core::executor::OpcodeExecutor;
use sot_core::opcode;
use sot_core::opcode::{Native, Quiet};
use sot_core::resume::Finish;
use sot_core::variable::{Form, VarId};

opcode! {
    LOAD_ATTR [3.8..3.12] (object -- value)
        .quiet(Quiet::ModuleUnwritten)
        => |cx, op| load_attr(cx, object, op.arg, Finish::Keep)
}
opcode! { STORE_ATTR [3.8..3.14] (value, object -- ) => |cx, op| set_attr(cx, object, op.arg, Some(value)) }
opcode! { DELETE_ATTR [3.8..3.14] (object -- ) => |cx, op| set_attr(cx, object, op.arg, None) }
opcode! {
    LOAD_METHOD [3.8..3.12] (object -- null, method)
        .leaves_pair(|_| true).native(Native::As("LOAD_ATTR"))
        => |cx, op| { let method = load_method(cx, object, op.arg)?; Ok([cx.trace.null(), method]) }
}

/// Loads the callable of a method call. For a function, `__call__` would be a method implemented in C that calls it.
/// The function itself does as well, and resume functions load every callable in that way.
fn load_method(cx: &mut OpcodeExecutor<'_>, object: VarId, index: u32) -> Flow<VarId> {
    const FUNCTIONS: [Form; 4] = [Form::Function, Form::Method, Form::BuiltinFunction, Form::BuiltinMethod];
    if &*cx.stack.name(index)? == "__call__" && FUNCTIONS.contains(&cx.see(object)?.form()) {
        return Ok(object);
    }
    load_attr(cx, object, index, Finish::Pair)
}

/// Reads the attribute that `co_names[index]` names. `finish` says in which form the instruction leaves it.
pub fn load_attr(cx: &mut OpcodeExecutor<'_>, object: VarId, index: u32, finish: Finish) -> Flow<VarId> {
    let name = cx.stack.name(index)?;
    cx.claims.direct(object, finish);
    cx.get_attr(object, &name)
}

fn set_attr(cx: &mut OpcodeExecutor<'_>, object: VarId, index: u32, value: Option<VarId>) -> Flow<()> {
    let name = cx.stack.name(index)?;
    cx.claims.direct(object, Finish::Drop);
    cx.set_attr(object, &name, value)
}
