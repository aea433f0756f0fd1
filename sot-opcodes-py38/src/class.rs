//! Class statements: the function that creates the class, and names in class bodies, which are kept in a mapping.

use std::rc::Rc;

use pyo3::exceptions::PyNameError;
use sot_core::error::{Flow, Unwind};
use sot_core::executor::{names, Name, OpcodeExecutor};
use sot_core::opcode;
use sot_core::variable::VarId;
use sot_variables::containers::dict::DictVariable;
use sot_variables::globals::GlobalsVariable;

use crate::bug;
use crate::load_store::{cell_name, load_deref, UnboundCell};

opcode! { LOAD_BUILD_CLASS [3.8..3.14] ( -- function) => |cx, _| build_class(cx) }

opcode! { LOAD_NAME [3.8..3.14] ( -- value) => |cx, op| { let name = cx.stack.name(op.arg)?; load_name(cx, &name) } }
opcode! { STORE_NAME [3.8..3.14] (value -- ) => |cx, op| {
    let (names, name) = (namespace(cx)?, cx.stack.name(op.arg)?);
    let name = cx.trace.string(&name);
    cx.set_item(names, name, value)
} }
opcode! { DELETE_NAME [3.8..3.14] ( -- ) => |cx, op| { let name = cx.stack.name(op.arg)?; delete_name(cx, &name) } }
opcode! { SETUP_ANNOTATIONS [3.8..3.14] ( -- ) => |cx, _| set_up_annotations(cx) }
opcode! { LOAD_CLASSDEREF [3.8..3.11] ( -- value) => |cx, op| {
    let names = namespace(cx)?;
    load_deref_from(cx, names, op.arg, referenced_before_assignment)
} }
opcode! { LOAD_CLASSDEREF [3.11..3.12] ( -- value) => |cx, op| {
    let names = namespace(cx)?;
    load_deref_from(cx, names, op.arg, not_associated)
} }

fn build_class(cx: &mut OpcodeExecutor<'_>) -> Flow<VarId> {
    match names::find_builtin(cx, &Rc::from("__build_class__"))? {
        Some(function) => Ok(function),
        None => Err(cx.raise(PyNameError::new_err("__build_class__ not found"))),
    }
}

/// The mapping of the class body's names.
pub fn namespace(cx: &OpcodeExecutor<'_>) -> Flow<VarId> {
    cx.stack.frame().namespace.ok_or_else(|| bug("a function has no names in a mapping"))
}

/// Returns the value of a name in the mapping.
fn find(cx: &mut OpcodeExecutor<'_>, names: VarId, name: &str) -> Flow<Option<VarId>> {
    let key = cx.trace.string(name);
    if let Some(globals) = cx.see_as::<GlobalsVariable>(names)? {
        return globals.find(cx, key);
    }
    match cx.see_as::<DictVariable>(names)? {
        Some(dict) => dict.find(cx, key),
        None => Err(bug("the names of a class body are in something else than a dict")),
    }
}

fn load_name(cx: &mut OpcodeExecutor<'_>, name: &Name) -> Flow<VarId> {
    let names = namespace(cx)?;
    load_global_from(cx, names, name)
}

/// Loads a name from the mapping, or else from the globals or builtins.
pub fn load_global_from(cx: &mut OpcodeExecutor<'_>, names: VarId, name: &Name) -> Flow<VarId> {
    match find(cx, names, name)? {
        Some(value) => Ok(value),
        None => names::load_global(cx, name),
    }
}

fn delete_name(cx: &mut OpcodeExecutor<'_>, name: &Name) -> Flow<()> {
    let names = namespace(cx)?;
    if find(cx, names, name)?.is_none() {
        return Err(cx.raise(PyNameError::new_err(format!("name '{name}' is not defined"))));
    }
    let key = cx.trace.string(name);
    cx.del_item(names, key)
}

fn set_up_annotations(cx: &mut OpcodeExecutor<'_>) -> Flow<()> {
    let names = namespace(cx)?;
    if find(cx, names, "__annotations__")?.is_none() {
        let (key, annotations) = (cx.trace.string("__annotations__"), DictVariable::build(cx, Vec::new())?);
        cx.set_item(names, key, annotations)?;
    }
    Ok(())
}

/// Loads the name of a cell from the mapping, or else the contents of the cell.
pub fn load_deref_from(cx: &mut OpcodeExecutor<'_>, names: VarId, arg: u32, unbound: UnboundCell) -> Flow<VarId> {
    let index = cx.stack.frame().code.code.cell_index(arg).ok_or_else(|| bug("a cell that the code does not have"))?;
    let (name, _) = cell_name(cx, index);
    match find(cx, names, &name)? {
        Some(value) => Ok(value),
        None => load_deref(cx, arg, unbound),
    }
}

fn referenced_before_assignment(cx: &mut OpcodeExecutor<'_>, index: usize) -> Unwind {
    let (name, _) = cell_name(cx, index);
    let text = format!("free variable '{name}' referenced before assignment in enclosing scope");
    cx.raise(PyNameError::new_err(text))
}

fn not_associated(cx: &mut OpcodeExecutor<'_>, index: usize) -> Unwind {
    let (name, _) = cell_name(cx, index);
    let text =
        format!("cannot access free variable '{name}' where it is not associated with a value in enclosing scope");
    cx.raise(PyNameError::new_err(text))
}
