//! C methods of a builtin base that see more of the instance than its storage: they call methods that the subclass
//! overrides, make another instance of the subclass, or return the instance itself.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, OpcodeExecutor};
use sot_core::variable::VarId;

use crate::containers::deque::DequeVariable;
use crate::containers::dict;
use crate::containers::hash_key::HashKey;

/// Returns the receiver, if a C method of a text returns it although it is of a subclass; `None` for other results.
/// That is so where the method writes nothing but the text itself (`_PyUnicodeWriter_Finish`).
pub fn unchanged_text(
    cx: &mut OpcodeExecutor<'_>,
    descriptor: &Bound<'_, PyAny>,
    (receiver, storage): (VarId, VarId),
    result: VarId,
) -> Flow<Option<VarId>> {
    let Some(text) = cx.known_str(storage)?.filter(|text| !text.is_empty()) else { return Ok(None) };
    let marks: &[char] = match &*descriptor.getattr("__name__")?.extract::<String>()? {
        "__mod__" => &['%'],
        "format_map" => &['{', '}'],
        "__format__" => &[],
        _ => return Ok(None),
    };
    let is_whole = !text.contains(marks) && cx.known_str(result)?.is_some_and(|result| result == text);
    Ok(is_whole.then_some(receiver))
}

/// Methods of `OrderedDict` that call overridden methods of a subclass, and which.
const ASKING: &[(&str, &[&str])] = &[
    ("__init__", &["__setitem__"]),
    ("update", &["__setitem__"]),
    ("__ior__", &["__setitem__"]),
    ("setdefault", &["__contains__", "__getitem__", "__setitem__"]),
    ("pop", &["__contains__", "__getitem__", "__delitem__"]),
    ("popitem", &["__contains__", "__getitem__", "__delitem__"]),
];

/// Methods of `OrderedDict` that make another instance of the subclass.
const MAKING: &[&str] = &["copy", "__or__", "__ror__", "__reduce__"];

/// Methods of `deque` that make another instance of the subclass.
const MAKING_DEQUES: &[&str] = &["copy", "__copy__", "__add__", "__mul__", "__rmul__", "__reduce__"];

/// Simulates methods of `OrderedDict` and `deque` that call overridden methods of the subclass, or make new instances
/// of it. Returns `None` if the method can run on the storage.
pub fn by_own_methods(
    cx: &mut OpcodeExecutor<'_>,
    descriptor: &Bound<'_, PyAny>,
    args: &CallArgs,
    storage: VarId,
) -> Flow<Option<VarId>> {
    let name: String = descriptor.getattr("__name__")?.extract()?;
    if cx.see_as::<DequeVariable>(storage)?.is_some() && MAKING_DEQUES.contains(&&*name) {
        let text = format!("{name}() of a deque of a class derived from it");
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
    }
    if !dict::by_keys(cx, storage)?.is_some_and(|dict| dict.ordered) {
        return Ok(None);
    }
    let gives = args.positional.len() > 1 || !args.keywords.is_empty();
    let asked = ASKING.iter().find(|(asking, _)| *asking == name && (gives || name == "popitem"));
    let (receiver, base) = (args.positional[0], cx.type_of(storage)?);
    let mut own = MAKING.contains(&&*name);
    for asked in asked.map_or(&[][..], |(_, asked)| *asked) {
        let Some((found, tracker)) = object_model::lookup(cx, receiver, &Rc::from(*asked))? else { continue };
        own = own || !base.getattr(*asked)?.is(&found);
        object_model::guard_identity(cx, &found, tracker);
    }
    if !own {
        return Ok(None);
    }
    if matches!(&*name, "__init__" | "update") {
        if let Some(pairs) = pairs_of(cx, args)? {
            for (key, value) in pairs {
                cx.set_item(receiver, key, value)?;
            }
            return Ok(Some(cx.trace.none()));
        }
    }
    let text = format!("{name}() of an OrderedDict of a class derived from it");
    Err(Unwind::break_graph(ReasonId::UnsupportedCall, text))
}

/// Returns the pairs that `OrderedDict.update` takes from a dict and keywords; `None` for other arguments
/// (`mutablemapping_update` in `Objects/odictobject.c`).
fn pairs_of(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<Option<Vec<(VarId, VarId)>>> {
    let mut pairs = Vec::new();
    match args.positional[..] {
        [_] => {}
        [_, given] if cx.type_of(given)?.is(cx.py.get_type::<PyDict>()) => {
            let items = cx.call_method(given, "items", &[])?;
            for pair in cx.unpack_all(items)? {
                if let [key, value] = cx.unpack_all(pair)?[..] {
                    pairs.push((key, value));
                }
            }
        }
        _ => return Ok(None),
    }
    for (keyword, value) in &args.keywords {
        pairs.push((cx.trace.string(keyword), *value));
    }
    Ok(Some(pairs))
}

/// Simulates `__missing__`, which `dict.__getitem__` calls for a missing key if the receiver is of a subclass.
pub fn missing(
    cx: &mut OpcodeExecutor<'_>,
    descriptor: &Bound<'_, PyAny>,
    receiver: VarId,
    args: &CallArgs,
) -> Flow<Option<VarId>> {
    let [storage, key] = args.positional[..] else { return Ok(None) };
    let name: String = descriptor.getattr("__name__")?.extract()?;
    if name != "__getitem__" || dict::by_keys(cx, storage)?.is_none() {
        return Ok(None);
    }
    let found = HashKey::of(cx, key)?;
    if dict::value_of(cx, storage, &found)?.is_some() || !cx.has_special(receiver, "__missing__")? {
        return Ok(None);
    }
    object_model::call_special(cx, receiver, "__missing__", &[key]).map(Some)
}
