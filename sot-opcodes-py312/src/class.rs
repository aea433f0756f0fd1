//! Names in class bodies that are looked up in a mapping on the stack (3.12).

use sot_core::opcode;
use sot_opcodes_py38::class::{load_deref_from, load_global_from, namespace};

use crate::load_store::unbound_cell;

opcode! { LOAD_LOCALS [3.12..3.14] ( -- names) => |cx, _| namespace(cx) }
opcode! { LOAD_FROM_DICT_OR_DEREF [3.12..3.14] (names -- value) => |cx, op| {
    load_deref_from(cx, names, op.arg, unbound_cell)
} }
opcode! { LOAD_FROM_DICT_OR_GLOBALS [3.12..3.14] (names -- value) => |cx, op| {
    let name = cx.stack.name(op.arg)?;
    load_global_from(cx, names, &name)
} }
