//! Creating and unpacking containers.

use crate::iteration::ITERATION;
use pyo3::exceptions::PyTypeError;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, BinaryOp, OpcodeExecutor};
use sot_core::opcode;
use sot_core::opcode::{Next, Quiet};
use sot_core::variable::VarId;
use sot_variables::builtins::set_methods;
use sot_variables::containers::dict::{self, DictVariable};
use sot_variables::containers::list;
use sot_variables::containers::set::{self, SetVariable};
use sot_variables::containers::slice::SliceVariable;
use sot_variables::functions::function::guard_identity;

use crate::bug;
use crate::function::{qualified_name, short_name, Naming};

opcode! { BUILD_TUPLE [3.8..3.14] ([items] -- tuple) .quiet(Quiet::Always) => |cx, _| Ok(cx.trace.tuple(items)) }
opcode! { BUILD_LIST [3.8..3.14] ([items] -- list) => |cx, _| Ok(cx.trace.list(items)) }
opcode! { BUILD_SET [3.8..3.14] ([items] -- set) => |cx, _| SetVariable::build(cx, items) }
opcode! { BUILD_MAP [3.8..3.14] (..) .reach(|pairs| 2 * pairs) => |cx, op| build_map(cx, op.arg) }
opcode! { BUILD_CONST_KEY_MAP [3.8..3.14] (..) .reach(|arg| arg + 1) => |cx, op| build_const_key_map(cx, op.arg) }
opcode! { BUILD_SLICE [3.8..3.14] (..) .reach(|items| items) => |cx, op| build_slice(cx, op.arg) }

opcode! {
    LIST_APPEND [3.8..3.14] (item -- )
        .reach(|arg| arg + 1)
        => |cx, op| { let list = below(cx, op.arg)?; list::append(cx, list, item) }
}
opcode! {
    SET_ADD [3.8..3.14] (item -- )
        .reach(|arg| arg + 1)
        => |cx, op| { let set = below(cx, op.arg)?; set::add(cx, set, item) }
}
opcode! {
    MAP_ADD [3.8..3.14] (key, value -- )
        .reach(|arg| arg + 2)
        => |cx, op| { let map = below(cx, op.arg)?; cx.set_item(map, key, value) }
}

opcode! {
    LIST_EXTEND [3.9..3.14] (items -- )
        .reach(|arg| arg + 1)
        => |cx, op| { let list = below(cx, op.arg)?; extend_by_star(cx, list, items) }
}
opcode! {
    SET_UPDATE [3.9..3.14] (items -- )
        .reach(|arg| arg + 1)
        => |cx, op| { let set = below(cx, op.arg)?; set_update(cx, set, items) }
}
opcode! {
    DICT_UPDATE [3.9..3.14] (map -- )
        .reach(|arg| arg + 1)
        => |cx, op| { let dict = below(cx, op.arg)?; dict::update_from_mapping(cx, dict, map) }
}
opcode! {
    DICT_MERGE [3.9..3.13] (map -- )
        .reach(|arg| arg + 3).refuses_null("a call whose keywords are being merged")
        => |cx, op| merge_keywords(cx, op.arg, op.arg + 2, map, qualified_name)
}
opcode! { LIST_TO_TUPLE [3.9..3.12] (list -- tuple) => |cx, _| list_to_tuple(cx, list) }

opcode! {
    BUILD_TUPLE_UNPACK [3.8..3.9] ([parts] -- tuple)
        => |cx, _| chain(cx, parts).map(|items| cx.trace.tuple(items))
}
opcode! {
    BUILD_TUPLE_UNPACK_WITH_CALL [3.8..3.9] (..)
        .reach(|arg| arg + 1)
        => |cx, op| build_tuple_unpack_with_call(cx, op.arg)
}
opcode! { BUILD_LIST_UNPACK [3.8..3.9] ([parts] -- list) => |cx, _| chain(cx, parts).map(|items| cx.trace.list(items)) }
opcode! {
    BUILD_SET_UNPACK [3.8..3.9] ([parts] -- set) => |cx, _| build_set_unpack(cx, parts)
}
opcode! { BUILD_MAP_UNPACK [3.8..3.9] ([maps] -- dict) => |cx, _| build_map_unpack(cx, maps) }
opcode! {
    BUILD_MAP_UNPACK_WITH_CALL [3.8..3.9] (..)
        .reach(|arg| arg + 2)
        => |cx, op| build_map_unpack_with_call(cx, op.arg)
}

opcode! { UNPACK_SEQUENCE [3.8..3.14] (..) .reach(|_| 1).asks(ITERATION) => |cx, op| unpack_sequence(cx, op.arg) }
opcode! { UNPACK_EX [3.8..3.14] (..) .reach(|_| 1).asks(ITERATION) => |cx, op| unpack_ex(cx, op.arg) }

/// The item that an operand counts from the top of the stack (1 is the top), after the instruction's operands are
/// popped.
fn below(cx: &OpcodeExecutor<'_>, depth: u32) -> Flow<VarId> {
    cx.stack.peek(depth as usize)
}

fn push(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Next {
    cx.stack.push(value);
    Next::Continue
}

fn build_map(cx: &mut OpcodeExecutor<'_>, count: u32) -> Flow<Next> {
    let items = cx.stack.pop_many(2 * count as usize)?;
    let entries = items.chunks_exact(2).map(|entry| (entry[0], entry[1])).collect();
    let dict = DictVariable::build(cx, entries)?;
    Ok(push(cx, dict))
}

fn build_const_key_map(cx: &mut OpcodeExecutor<'_>, count: u32) -> Flow<Next> {
    let keys = cx.stack.pop()?;
    let keys = cx.unpack_all(keys)?;
    let values = cx.stack.pop_many(count as usize)?;
    let dict = DictVariable::build(cx, keys.into_iter().zip(values).collect())?;
    Ok(push(cx, dict))
}

fn build_slice(cx: &mut OpcodeExecutor<'_>, count: u32) -> Flow<Next> {
    let items = cx.stack.pop_many(count as usize)?;
    let (start, stop, stride) = match items[..] {
        [start, stop] => (start, stop, None),
        [start, stop, stride] => (start, stop, Some(stride)),
        _ => return Err(bug("a slice of neither two nor three parts")),
    };
    let slice = SliceVariable::build(cx, start, stop, stride)?;
    Ok(push(cx, slice))
}

/// `[*items]`
fn extend_by_star(cx: &mut OpcodeExecutor<'_>, list: VarId, items: VarId) -> Flow<()> {
    if !object_model::is_iterable(cx, items)? {
        let name = cx.type_name(items)?;
        return Err(cx.raise(PyTypeError::new_err(format!("Value after * must be an iterable, not {name}"))));
    }
    list::extend(cx, list, items)
}

fn set_update(cx: &mut OpcodeExecutor<'_>, set: VarId, items: VarId) -> Flow<()> {
    set_methods::update(cx, set, BinaryOp::Or, items)
}

/// Returns the items of a list as a tuple.
pub fn list_to_tuple(cx: &mut OpcodeExecutor<'_>, list: VarId) -> Flow<VarId> {
    let items = cx.unpack_all(list)?;
    Ok(cx.trace.tuple(items))
}

/// Merges keywords into the dict at stack depth `dict`, for a call of the callable at depth `callable`.
pub fn merge_keywords(
    cx: &mut OpcodeExecutor<'_>,
    dict: u32,
    callable: u32,
    keywords: VarId,
    name: Naming,
) -> Flow<()> {
    let (dict, callable) = (below(cx, dict)?, below(cx, callable)?);
    let name = name(&cx.trace, callable);
    let merged = dict::merge(cx, dict, keywords, name.as_deref());
    if matches!(merged, Err(Unwind::Raise(_))) {
        // The error message contains the callable's name.
        if let Some(object) = cx.trace.vars.get(callable).object().map(|object| object.clone_ref(cx.py)) {
            guard_identity(cx, callable, &object);
        }
    }
    merged
}

fn chain(cx: &mut OpcodeExecutor<'_>, parts: Vec<VarId>) -> Flow<Vec<VarId>> {
    let mut items = Vec::new();
    for part in parts {
        items.extend(cx.unpack_into_list(part)?);
    }
    Ok(items)
}

/// Builds the positional arguments of a call. The callable is below the parts.
fn build_tuple_unpack_with_call(cx: &mut OpcodeExecutor<'_>, count: u32) -> Flow<Next> {
    let parts = cx.stack.pop_many(count as usize)?;
    let callable = below(cx, 1)?;
    let mut items = Vec::new();
    for part in parts {
        if !object_model::is_iterable(cx, part)? {
            return Err(refuse_part(cx, callable, part)?);
        }
        items.extend(cx.unpack_into_list(part)?);
    }
    let items = cx.trace.tuple(items);
    Ok(push(cx, items))
}

/// The error of `f(*part)`, whose message contains the callable's name.
fn refuse_part(cx: &mut OpcodeExecutor<'_>, callable: VarId, part: VarId) -> Flow<Unwind> {
    let Some(name) = short_name(&cx.trace, callable) else {
        let text = "wrong arguments for a callable whose name CPython knows";
        return Ok(Unwind::break_graph(ReasonId::UnsupportedCall, text));
    };
    if let Some(object) = cx.trace.vars.get(callable).object().map(|object| object.clone_ref(cx.py)) {
        guard_identity(cx, callable, &object);
    }
    let text = format!("{name}() argument after * must be an iterable, not {}", cx.type_name(part)?);
    Ok(cx.raise(PyTypeError::new_err(text)))
}

fn build_set_unpack(cx: &mut OpcodeExecutor<'_>, parts: Vec<VarId>) -> Flow<VarId> {
    let set = SetVariable::build(cx, Vec::new())?;
    for part in parts {
        set_update(cx, set, part)?;
    }
    Ok(set)
}

fn build_map_unpack(cx: &mut OpcodeExecutor<'_>, maps: Vec<VarId>) -> Flow<VarId> {
    let dict = DictVariable::build(cx, Vec::new())?;
    for map in maps {
        dict::update_from_mapping(cx, dict, map)?;
    }
    Ok(dict)
}

/// Builds the keyword arguments of a call. The callable is below the positional arguments, which are below the maps.
fn build_map_unpack_with_call(cx: &mut OpcodeExecutor<'_>, count: u32) -> Flow<Next> {
    let maps = cx.stack.pop_many(count as usize)?;
    let dict = DictVariable::build(cx, Vec::new())?;
    cx.stack.push(dict);
    for map in maps {
        merge_keywords(cx, 1, 3, map, short_name)?;
    }
    Ok(Next::Continue)
}

fn unpack_sequence(cx: &mut OpcodeExecutor<'_>, count: u32) -> Flow<Next> {
    let sequence = cx.stack.pop()?;
    let items = cx.unpack_exactly(sequence, count as usize)?;
    cx.stack.frame_mut().stack.extend(items.into_iter().rev());
    Ok(Next::Continue)
}

fn unpack_ex(cx: &mut OpcodeExecutor<'_>, counts: u32) -> Flow<Next> {
    let iterable = cx.stack.pop()?;
    let items = cx.unpack_starred(iterable, (counts & 0xff) as usize, (counts >> 8) as usize)?;
    cx.stack.frame_mut().stack.extend(items.into_iter().rev());
    Ok(Next::Continue)
}
