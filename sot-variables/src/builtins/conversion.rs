//! Classes of `builtins` as conversions: numbers and strings through special methods, containers from any iterable.

use std::rc::Rc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyFrozenSet, PyFunction, PyMemoryView, PyString};

use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::executor::{object_model, CallArgs, OpcodeExecutor};
use sot_core::language::LANGUAGE;
use sot_core::resume::SpecialResult;
use sot_core::variable::VarId;

use super::basic::fold_or;
use super::cannot;
use crate::classes::object::is_struct_sequence;
use crate::classes::subclass;
use crate::containers::dict::{self, DictVariable};
use crate::containers::replica::{self, Replica};
use crate::containers::set::SetVariable;
use crate::containers::slice::SliceVariable;
use crate::containers::tuple::TupleVariable;
use crate::containers::tuple_class;

builtin! { INT = "int" => |cx, args| {
    fold_or(cx, "int", args, |cx| number(cx, args, &["__int__", "__index__", "__trunc__"]))
} }

builtin! { FLOAT = "float" => |cx, args| {
    fold_or(cx, "float", args, |cx| number(cx, args, &["__float__", "__index__"]))
} }

builtin! { COMPLEX = "complex" => |cx, args| {
    fold_or(cx, "complex", args, |cx| {
        if let [value] = args.positional[..] {
            // A string is parsed, whatever methods its class has.
            if subclass::value_of(cx, value)?.is_some_and(|value| value.is_instance_of::<PyString>()) {
                return Err(cannot("complex() of a string of a class derived from str"));
            }
        }
        convert_to(cx, args, "__complex__", "complex")
    })
} }

builtin! { BYTES = "bytes" => |cx, args| fold_or(cx, "bytes", args, |cx| convert_to(cx, args, "__bytes__", "bytes")) }

builtin! { BOOL = "bool" => |cx, args| match args.positional[..] {
    [value] if args.keywords.is_empty() => {
        cx.claims.redirect(value);
        cx.claims.special_result(value, SpecialResult::Truth);
        let truth = cx.truth(value)?;
        Ok(cx.trace.boolean(truth))
    }
    _ => fold_or(cx, "bool", args, |_| Err(cannot("bool() with these arguments"))),
} }

builtin! { STR = "str" => |cx, args| fold_or(cx, "str", args, |cx| match args.positional[..] {
    [value] if args.keywords.is_empty() => {
        cx.claims.redirect(value);
        object_model::convert(cx, value, "__str__", &[])
    }
    _ => Err(cannot("str() with these arguments")),
}) }

builtin! { LIST = "list" => |cx, args| {
    if let ([iterable], true) = (&args.positional[..], args.keywords.is_empty()) {
        ask_length_first(cx, *iterable)?;
    }
    let items = from_iterable(cx, args, "list")?;
    Ok(cx.trace.list(items))
} }

builtin! { TUPLE = "tuple" => |cx, args| {
    if let ([value], true) = (&args.positional[..], args.keywords.is_empty()) {
        let value = *value;
        // `tuple()` of a tuple returns the same object.
        if cx.see_as::<TupleVariable>(value)?.is_some_and(|tuple| tuple.is_plain()) {
            return Ok(value);
        }
    }
    let items = from_iterable(cx, args, "tuple")?;
    Ok(cx.trace.tuple(items))
} }

builtin! { SET = "set" => |cx, args| set(cx, args, false) }

builtin! { FROZENSET = "frozenset" => |cx, args| set(cx, args, true) }

builtin! { DICT = "dict" => |cx, args| dict(cx, args, false) }

builtin! { ORDERED_DICT = "collections:OrderedDict" => |cx, args| dict(cx, args, true) }

builtin! { SLICE = "slice" => |cx, args| match args.positional[..] {
    [stop] if args.keywords.is_empty() => {
        let start = cx.trace.none();
        SliceVariable::build(cx, start, stop, None)
    }
    [start, stop] if args.keywords.is_empty() => SliceVariable::build(cx, start, stop, None),
    [start, stop, step] if args.keywords.is_empty() => SliceVariable::build(cx, start, stop, Some(step)),
    _ => fold_or(cx, "slice", args, |_| Err(cannot("slice() with these arguments"))),
} }

builtin! { TUPLE_NEW = "tuple.__new__" => |cx, args| match args.positional[..] {
    [class, items] if args.keywords.is_empty() => {
        let items = cx.unpack_all(items)?;
        new_tuple(cx, class, items)
    }
    [class] if args.keywords.is_empty() => new_tuple(cx, class, Vec::new()),
    _ => Err(cannot("tuple.__new__() with these arguments")),
} }

fn new_tuple(cx: &mut OpcodeExecutor<'_>, class: VarId, items: Vec<VarId>) -> Flow<VarId> {
    let Some(ty) = cx.see(class)?.object().map(|object| object.clone_ref(cx.py)) else {
        return Err(cannot("tuple.__new__() of an unknown class"));
    };
    if ty.bind(cx.py).is(cx.py.get_type::<pyo3::types::PyTuple>()) {
        return Ok(cx.trace.tuple(items));
    }
    let made_here = |ty: &Bound<'_, pyo3::types::PyType>| tuple_class::is_like_tuple(ty) && cpython::is_heap_type(ty);
    if !ty.bind(cx.py).cast().is_ok_and(made_here) || is_struct_sequence(ty.bind(cx.py)) {
        return Err(cannot("tuple.__new__() of a class with items of its own"));
    }
    let of = cx.trace.vars.tracker(class);
    tuple_class::assume_runs_no_code(cx, ty.bind(cx.py), of)?;
    Ok(cx.trace.produce(Rc::new(TupleVariable::of_class(class, ty, items))))
}

/// Converts a value by calling a special method.
fn special(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, method: &str, refused: &str) -> Flow<VarId> {
    match args.positional[..] {
        [value] if args.keywords.is_empty() && cx.has_special(value, method)? => {
            object_model::call_special(cx, value, method, &[])
        }
        _ => Err(cannot(refused)),
    }
}

/// Returns the result of the special method, which must be exactly of the type. Breaks the graph for a result of
/// another type.
fn convert_to(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, method: &str, ty: &str) -> Flow<VarId> {
    let result = special(cx, args, method, &format!("{ty}() of an unknown value"))?;
    if cx.type_of(result)?.is(&super::builtin_object(cx.py, ty)?) {
        return Ok(result);
    }
    Err(cannot(&format!("{method} that gives a {}", cx.type_name(result)?)))
}

fn number(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, methods: &[&str]) -> Flow<VarId> {
    let (&[value], true) = (&args.positional[..], args.keywords.is_empty()) else {
        return Err(cannot("a number with a base that is not known"));
    };
    let function = super::builtin_object(cx.py, if methods[0] == "__float__" { "float" } else { "int" })?;
    if let Some(number) = cx.trace.number_of_scalar(&function, value)? {
        return Ok(number);
    }
    for &method in methods {
        if cx.has_special(value, method)? {
            if method == "__index__" && methods[0] == "__float__" {
                return Err(cannot("float() of an object with __index__"));
            }
            if method == "__trunc__" && cx.py.version_info() >= (3, 11) {
                // From 3.11 on, `int()` warns that `__trunc__` is deprecated.
                return Err(cannot("int() of an object with __trunc__"));
            }
            return object_model::convert(cx, value, method, &[]);
        }
    }
    if let Some(text) = subclass::value_of(cx, value)? {
        // The error message contains the `repr` of the object, which the program may override.
        let name = if methods[0] == "__int__" { "int" } else { "float" };
        let number = super::builtin_object(cx.py, name)?.call1((text,));
        let number = number.map_err(|_| cannot("a number in a text of a class that is none"))?;
        return cx.wrap_fresh(&number);
    }
    if holds_bytes(cx, value)? {
        return Err(cannot("a number in the bytes of an object"));
    }
    let ty = cx.type_name(value)?;
    let number = if LANGUAGE.asks_for_real_numbers { "real number" } else { "number" };
    let text = if methods[0] == "__int__" {
        format!("int() argument must be a string, a bytes-like object or a {number}, not '{ty}'")
    } else {
        format!("float() argument must be a string or a {number}, not '{ty}'")
    };
    Err(cx.raise(PyTypeError::new_err(text)))
}

/// Up to 3.9, `list()` asks for the length of its argument first, and then once more.
pub(crate) fn ask_length_first(cx: &mut OpcodeExecutor<'_>, iterable: VarId) -> Flow<()> {
    if LANGUAGE.asks_length_first
        && cx.see(iterable)?.items(cx, iterable)?.is_none()
        && cx.has_special(iterable, "__len__")?
    {
        cx.ask_length(iterable)?;
    }
    Ok(())
}

fn from_iterable(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, name: &str) -> Flow<Vec<VarId>> {
    match args.positional[..] {
        [] if args.keywords.is_empty() => Ok(Vec::new()),
        [iterable] if args.keywords.is_empty() && ["list", "tuple"].contains(&name) => cx.unpack_into_list(iterable),
        [iterable] if args.keywords.is_empty() => cx.unpack_all(iterable),
        _ => fold_or(cx, name, args, |_| Err(cannot(&format!("{name}() with these arguments")))).map(|_| Vec::new()),
    }
}

fn set(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, frozen: bool) -> Flow<VarId> {
    let name = if frozen { "frozenset" } else { "set" };
    if let [source] = args.positional[..] {
        let seen = crate::containers::set::seen(cx, source)?;
        if let Some(old) = cx.see_as::<SetVariable>(seen)? {
            if frozen && old.frozen && seen == source {
                return Ok(source);
            }
            let made = replica::made_of(cx, seen)?;
            return Ok(SetVariable::make(cx, made, frozen));
        }
        if dict::of(cx, source)?.is_some() {
            let made = replica::made_of(cx, source)?;
            return Ok(SetVariable::make(cx, made, frozen));
        }
    }
    let items = from_iterable(cx, args, name)?;
    let set = SetVariable::build(cx, items)?;
    if !frozen {
        return Ok(set);
    }
    let keys = crate::containers::set::elements(cx, set)?;
    let order = Replica::order_of_added(cx.py, &keys)?;
    match sole_empty_frozenset(cx.py)?.filter(|_| keys.is_empty()) {
        Some(empty) => {
            let tracker = cx.trace.trackers.constant(empty.clone().unbind());
            Ok(cx.trace.wrap(&empty, tracker))
        }
        None => Ok(SetVariable::make(cx, (keys, order), true)),
    }
}

/// Returns the empty frozenset that all calls share, if the interpreter has a single one (up to 3.9).
fn sole_empty_frozenset(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    let ty = py.get_type::<PyFrozenSet>();
    let empty = ty.call0()?;
    Ok(ty.call0()?.is(&empty).then_some(empty))
}

fn dict(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, ordered: bool) -> Flow<VarId> {
    let name = if ordered { "OrderedDict" } else { "dict" };
    let mut filling = dict::IndexedEntries::of(&cx.trace, Vec::new());
    match args.positional[..] {
        [] => {}
        [source] => {
            for (key, value) in dict::pairs(cx, source, ordered)? {
                filling.put(cx, key, value)?;
            }
        }
        _ => {
            let given = args.positional.len();
            let text = format!("{name} expected at most 1 argument, got {given}");
            return Err(cx.raise(PyTypeError::new_err(text)));
        }
    }
    filling.put_keywords(cx, &args.keywords)?;
    Ok(cx.trace.produce(Rc::new(DictVariable::new(filling.finish(), ordered))))
}

/// True if C code can read the object as bytes, which may contain the text of a number.
fn holds_bytes(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<bool> {
    let real = match cx.materialize(value)? {
        Some(real) => Some(real),
        None => cx.see(value)?.object().map(|object| object.bind(cx.py).clone()),
    };
    let Some(real) = real else { return Ok(false) };
    let own = cpython::type_lookup(&real.get_type(), &PyString::intern(cx.py, "__buffer__"));
    Ok(own.is_some_and(|own| own.is_instance_of::<PyFunction>()) || PyMemoryView::from(&real).is_ok())
}
