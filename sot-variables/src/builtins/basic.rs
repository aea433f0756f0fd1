//! Functions of `builtins` on single values, and on all items of an iterable.

use std::rc::Rc;

use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString, PyTuple, PyType};

use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::{Flow, Unwind};
use sot_core::executor::{object_model, BinaryOp, CallArgs, CompareOp, OpcodeExecutor, Trace};
use sot_core::variable::{Form, VarId};

use super::codecs;
use super::{builtin_object, cannot, given, required};
use crate::classes::subclass;
use crate::containers::dict;
use crate::containers::hash_key::HashKey;
use crate::containers::list::ListVariable;
use crate::containers::sequence;
use crate::containers::tuple::TupleVariable;
use crate::functions::call_remainder;
use crate::identity::IdVariable;
use crate::iterators::dict_view::DictView;

builtin! { LEN = "len" => |cx, args| {
    let [value] = args.exactly("len")?;
    cx.claims.redirect(value);
    cx.len(value)
} }

builtin! { ABS = "abs" => |cx, args| {
    let [value] = args.exactly("abs")?;
    fold_or(cx, "abs", args, |cx| special(cx, value, "__abs__", &[], "bad operand type for abs()"))
} }

builtin! { ROUND = "round" => |cx, args| {
    let [number, digits] = args.named("round", ["number", "ndigits"], 1)?;
    let number = required(number)?;
    if let Some(rounded) = lazy_round(cx, number, digits)? {
        return Ok(rounded);
    }
    fold_or(cx, "round", args, |cx| {
        let args: Vec<VarId> = given(cx, digits)?.into_iter().collect();
        object_model::call_special(cx, number, "__round__", &args)
    })
} }

/// Rounds a number without specialising on its value. Only for a known, non-negative number of digits: no number then
/// fails.
fn lazy_round(cx: &mut OpcodeExecutor<'_>, number: VarId, digits: Option<VarId>) -> Flow<Option<VarId>> {
    let Some(digits) = digits else { return Ok(None) };
    if cx.known_int(digits)?.is_none_or(|digits| digits < 0) {
        return Ok(None);
    }
    let round = builtin_object(cx.py, "round")?;
    cx.lazy_call(&round, &[number, digits])
}

builtin! { POW = "pow" => |cx, args| {
    let [base, exponent, modulus] = args.named("pow", ["base", "exp", "mod"], 2)?;
    fold_or(cx, "pow", args, |cx| match (base, exponent, modulus) {
        (Some(base), Some(exponent), None) => cx.binary(BinaryOp::Power, base, exponent),
        (Some(base), Some(exponent), Some(modulus)) if cx.has_special(base, "__pow__")? => {
            let answer = object_model::call_special(cx, base, "__pow__", &[exponent, modulus])?;
            answered(cx, answer, "pow()")
        }
        _ => Err(cannot("pow() with a modulus")),
    })
} }

builtin! { DIVMOD = "divmod" => |cx, args| {
    let [left, right] = args.exactly("divmod")?;
    if let Some(quotient) = cx.lazy_binary(BinaryOp::FloorDivide, left, right)? {
        if let Some(rest) = cx.lazy_binary(BinaryOp::Remainder, left, right)? {
            return Ok(cx.trace.tuple(vec![quotient, rest]));
        }
    }
    fold_or(cx, "divmod", args, |cx| {
        let (left_type, right_type) = (cx.type_of(left)?, cx.type_of(right)?);
        let is_subtype = |right: &Bound<'_, PyAny>, left: &Bound<'_, PyAny>| match (right.cast(), left.cast()) {
            (Ok(right), Ok(left)) => cpython::is_subtype(right, left),
            _ => false,
        };
        let right_first = !left_type.is(&right_type) && is_subtype(&right_type, &left_type);
        if right_first {
            return Err(cannot("divmod() of values not known while tracing"));
        }
        // An operator of a known number returns `NotImplemented` for an operand that is not a number.
        let is_number = cx.known(left)?.is_some() && cx.see(right)?.form() == Form::Instance;
        let mut asked = if is_number { Vec::new() } else { vec![(left, "__divmod__", right)] };
        if !left_type.is(&right_type) {
            asked.push((right, "__rdivmod__", left));
        }
        // The operand's answer is not yet the result of the instruction, so nothing is claimed.
        cx.claims.take();
        for (operand, name, other) in asked {
            let Some(method) = object_model::find_special(cx, operand, &Rc::from(name))? else { continue };
            let answer = cx.call(method, &CallArgs::positional(vec![other]))?;
            if !cx.known(answer)?.is_some_and(|answer| answer.is(cx.py.NotImplemented())) {
                return Ok(answer);
            }
        }
        Err(cannot("divmod() to which no operand has an answer"))
    })
} }

/// Returns the answer of an operand; breaks the graph if the answer is `NotImplemented`.
fn answered(cx: &mut OpcodeExecutor<'_>, answer: VarId, name: &str) -> Flow<VarId> {
    if cx.known(answer)?.is_some_and(|answer| answer.is(cx.py.NotImplemented())) {
        return Err(cannot(&format!("{name} to which an operand has no answer")));
    }
    Ok(answer)
}

builtin! { REPR = "repr" => |cx, args| {
    let [value] = args.exactly("repr")?;
    cx.claims.redirect(value);
    fold_or(cx, "repr", args, |cx| object_model::convert(cx, value, "__repr__", &[]))
} }

builtin! { FORMAT = "format" => |cx, args| {
    let [value, spec] = args.named("format", ["value", "format_spec"], 1)?;
    let value = required(value)?;
    if let Some(spec) = spec {
        let ty = cx.type_of(spec)?;
        if !ty.cast::<PyType>().is_ok_and(|ty| cpython::is_subtype(ty, &cx.py.get_type::<PyString>())) {
            let is_none = cx.known(spec)?.is_some_and(|spec| spec.is_none());
            let spec = if is_none { "None".to_owned() } else { cx.type_name(spec)? };
            let text = format!("format() argument 2 must be str, not {spec}");
            return Err(cx.raise(PyTypeError::new_err(text)));
        }
    }
    if let Some(text) = lazy_format(cx, value, spec)? {
        return Ok(text);
    }
    cx.claims.redirect(value);
    fold_or(cx, "format", args, |cx| {
        let spec = spec.unwrap_or_else(|| cx.trace.string(""));
        object_model::convert(cx, value, "__format__", &[spec])
    })
} }

/// Formats a number without specialising on its value. The presentation type `c` is excluded, as it fails for some
/// numbers.
fn lazy_format(cx: &mut OpcodeExecutor<'_>, value: VarId, spec: Option<VarId>) -> Flow<Option<VarId>> {
    if let Some(spec) = spec {
        if cx.known_str(spec)?.is_none_or(|spec| spec.ends_with('c')) {
            return Ok(None);
        }
    }
    let format = builtin_object(cx.py, "format")?;
    let args: Vec<VarId> = std::iter::once(value).chain(spec).collect();
    cx.lazy_call(&format, &args)
}

builtin! { HASH = "hash" => |cx, args| {
    let [value] = args.exactly("hash")?;
    let hash = builtin_object(cx.py, "hash")?;
    if let Some(hash) = cx.lazy_call(&hash, &[value])? {
        return Ok(hash);
    }
    if cx.see_as::<IdVariable>(value)?.is_some() {
        // The hash of an address is the address itself.
        return Ok(value);
    }
    if cx.see_as::<DictView>(value)?.is_some() {
        return Err(cannot("the hash of a view of a dict, which is the object's own"));
    }
    let seen = subclass::value_of(cx, value)?;
    if cx.known(value)?.or(seen).is_some_and(|value| holds_nan(&value)) {
        return Err(cannot("the hash of a NaN, which is the object's own"));
    }
    fold_or(cx, "hash", args, |cx| {
        let own = cx.see(value)?.special(cx, value, "__hash__")?.is_some();
        let usual = cx.py.get_type::<PyAny>().getattr("__hash__")?;
        match object_model::lookup(cx, value, &Rc::from("__hash__"))?.filter(|(found, _)| found.is(&usual) && !own) {
            Some((_, tracker)) => {
                object_model::guard_identity(cx, &usual, tracker);
                cx.call_builtin(&usual, args, false)
            }
            None => object_model::convert(cx, value, "__hash__", &[]),
        }
    })
} }

// Known tuples are folded by `hash()`. Items of others are guarded by identity, where that makes their hash known.
builtin! { HASH_OF_TUPLE = "tuple.__hash__" => |cx, args| {
    let [value] = args.exactly("__hash__")?;
    if cx.see_as::<TupleVariable>(value)?.is_none() {
        return Err(cannot("tuple.__hash__() of something else"));
    }
    match HashKey::of(cx, value)?.real_hash() {
        Some(hash) => Ok(cx.trace.constant(hash.into_pyobject(cx.py).map_err(PyErr::from)?.into_any().unbind())),
        None => Err(cannot("the hash of a tuple with an item whose hash is not known while tracing")),
    }
} }

fn holds_nan(value: &Bound<'_, PyAny>) -> bool {
    object_model::is_nan(value)
        || value.cast_exact::<PyTuple>().is_ok_and(|items| items.iter().any(|item| holds_nan(&item)))
}

builtin! { CALLABLE = "callable" => |cx, args| {
    let [value] = args.exactly("callable")?;
    let is_callable = object_model::is_callable(cx, value)?;
    Ok(cx.trace.boolean(is_callable))
} }

builtin! { SUM = "sum" => |cx, args| {
    let [iterable, start] = args.named("sum", ["iterable", "start"], 1)?;
    let iterable = required(iterable)?;
    if let Some(start) = start {
        if object_model::can_be_iterated(cx, iterable)? {
            refuse_text(cx, start)?;
        }
    }
    let total = match start {
        Some(start) => start,
        None => cx.trace.integer(0)?,
    };
    sum(cx, iterable, total)
} }

/// Raises CPython's own error if `sum` starts with a `str`, `bytes` or `bytearray`.
fn refuse_text(cx: &mut OpcodeExecutor<'_>, start: VarId) -> Flow<()> {
    let ty = cx.type_of(start)?;
    let texts = [
        cx.py.get_type::<pyo3::types::PyString>(),
        cx.py.get_type::<pyo3::types::PyBytes>(),
        cx.py.get_type::<pyo3::types::PyByteArray>(),
    ];
    let Some(text) = texts.iter().find(|text| ty.cast().is_ok_and(|ty| cpython::is_subtype(ty, text))) else {
        return Ok(());
    };
    match builtin_object(cx.py, "sum")?.call1(((), text.call0()?)) {
        Err(error) => Err(cx.raise(error)),
        Ok(_) => Ok(()),
    }
}

builtin! { MIN = "min" => |cx, args| extreme(cx, "min", CompareOp::Less, args) }

builtin! { MAX = "max" => |cx, args| extreme(cx, "max", CompareOp::Greater, args) }

builtin! { ANY = "any" => |cx, args| {
    let [iterable] = args.exactly("any")?;
    until(cx, iterable, true)
} }

builtin! { ALL = "all" => |cx, args| {
    let [iterable] = args.exactly("all")?;
    until(cx, iterable, false)
} }

builtin! { LIST_REPR = "list.__repr__" => |cx, args| container_repr(cx, args) }
builtin! { TUPLE_REPR = "tuple.__repr__" => |cx, args| container_repr(cx, args) }
builtin! { DICT_REPR = "dict.__repr__" => |cx, args| container_repr(cx, args) }

/// Returns the `repr` of a container, from those of its items.
fn container_repr(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let [this] = args.exactly("__repr__")?;
    cx.claims.take();
    if let Some(known) = cx.materialize(this)? {
        return cx.fold(|_| Ok(known.repr()?.into_any()));
    }
    let refuse = || cannot("repr() of a container with values that are not known while tracing");
    let text = |cx: &mut OpcodeExecutor<'_>, item: VarId| -> Flow<String> {
        let function = builtin_object(cx.py, "repr")?;
        let args = CallArgs::positional(vec![item]);
        let text = sequence::nested(|| cx.call_builtin(&function, &args, false)).ok_or_else(sequence::endless)??;
        cx.known_str(text)?.ok_or_else(refuse)
    };
    let mut parts = Vec::new();
    let (open, close) = if let Some(dict) = dict::of(cx, this)?.filter(|dict| !dict.ordered) {
        for entry in &dict.entries {
            parts.push(format!("{}: {}", text(cx, entry.key.variable)?, text(cx, entry.value)?));
        }
        ("{", "}")
    } else {
        let items = if let Some(list) = cx.see_as::<ListVariable>(this)? {
            list.items.clone()
        } else {
            cx.see_as::<TupleVariable>(this)?.filter(|tuple| tuple.is_plain()).ok_or_else(refuse)?.items.clone()
        };
        for item in items {
            parts.push(text(cx, item)?);
        }
        match (cx.see(this)?.form(), parts.len()) {
            (Form::List, _) => ("[", "]"),
            (_, 1) => ("(", ",)"),
            _ => ("(", ")"),
        }
    };
    Ok(cx.trace.string(&format!("{open}{}{close}", parts.join(", "))))
}

/// Functions that accept any number, so that the trace need not specialise on the number.
const LAZY: &[&str] = &["abs", "repr", "str"];

/// Functions from numbers to numbers. New code can call them again on numbers computed from open sizes.
const OF_NUMBERS: &[&str] = &["abs", "float", "int", "pow", "round"];

/// Folds a call if all arguments are known; else simulates it by `otherwise`.
pub(super) fn fold_or<'py>(
    cx: &mut OpcodeExecutor<'py>,
    name: &str,
    args: &CallArgs,
    otherwise: impl FnOnce(&mut OpcodeExecutor<'py>) -> Flow<VarId>,
) -> Flow<VarId> {
    if LAZY.contains(&name) && args.keywords.is_empty() {
        let function = builtin_object(cx.py, name)?;
        if let Some(result) = cx.lazy_call(&function, &args.positional)? {
            return Ok(result);
        }
    }
    if OF_NUMBERS.contains(&name) && args.keywords.is_empty() {
        let function = builtin_object(cx.py, name)?;
        if let Some(result) = cx.open_call(&function, &args.positional)? {
            return Ok(result);
        }
    }
    match cx.materialize_args(args)? {
        Some((positional, keywords)) => {
            refuse_many_digits(name, &positional)?;
            if matches!(name, "str" | "bytes") {
                codecs::refuse_registered(cx.py, &positional, &keywords)?;
            }
            let function = builtin_object(cx.py, name)?;
            cx.fold(|_| function.call(positional, Some(&keywords)))
        }
        None => otherwise(cx),
    }
}

/// Lowest limit that `sys.set_int_max_str_digits` accepts, and the bits of the smallest number with more digits.
const MIN_DIGITS_LIMIT: (usize, u64) = (640, 2126);

/// Breaks the graph at the conversion of a number with so many digits that the limit of the interpreter, which may
/// change, decides about it.
fn refuse_many_digits(name: &str, positional: &Bound<'_, PyTuple>) -> Flow<()> {
    let Ok(value) = positional.get_item(0) else { return Ok(()) };
    let (most_digits, bits) = MIN_DIGITS_LIMIT;
    let is_long = match name {
        "int" => value.is_instance_of::<PyString>() && value.len()? > most_digits,
        "str" | "repr" | "ascii" | "format" => {
            value.is_exact_instance_of::<PyInt>() && value.call_method0("bit_length")?.extract::<u64>()? >= bits
        }
        _ => false,
    };
    if is_long {
        return Err(cannot("a number of many digits, which sys.set_int_max_str_digits may limit"));
    }
    Ok(())
}

fn special(cx: &mut OpcodeExecutor<'_>, value: VarId, name: &str, args: &[VarId], error: &str) -> Flow<VarId> {
    if let Some(method) = cx.special_method(value, name)? {
        cx.call(method, &CallArgs::positional(args.to_vec()))
    } else {
        let ty = cx.type_name(value)?;
        Err(cx.raise(PyTypeError::new_err(format!("{error}: '{ty}'"))))
    }
}

/// Simulates `sum`. Known numbers at the start are summed by CPython, which compensates rounding errors of floats
/// from 3.12 on.
fn sum(cx: &mut OpcodeExecutor<'_>, iterable: VarId, start: VarId) -> Flow<VarId> {
    let (mut total, mut numbers) = (start, vec![start]);
    cx.each(iterable, |cx, item| {
        if cx.trace.is_open_number(item) || cx.trace.is_open_number(total) {
            total = sum_of_known(cx, std::mem::take(&mut numbers), total)?;
            if is_whole(&cx.trace, total) && is_whole(&cx.trace, item) {
                total = cx.binary(BinaryOp::Add, total, item)?;
                return Ok(());
            }
            // CPython does not sum floats by plain `+`, so the values are specialised on.
            if cx.trace.is_open_number(item) || cx.see(item)?.constant().is_some() {
                cx.see(total)?;
                cx.see(item)?;
            }
        }
        if !numbers.is_empty() && is_number(cx, total)? && is_number(cx, item)? {
            numbers.push(item);
            return Ok(());
        }
        total = sum_of_known(cx, std::mem::take(&mut numbers), total)?;
        total = cx.binary(BinaryOp::Add, total, item)?;
        Ok(())
    })?;
    sum_of_known(cx, numbers, total)
}

/// True if the variable is an integer, known or open.
fn is_whole(trace: &Trace<'_>, value: VarId) -> bool {
    let payload = trace.vars.get(value);
    trace.is_open_number(value)
        || payload.constant().is_some_and(|known| known.bind(trace.py).is_exact_instance_of::<PyInt>())
}

fn is_number(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<bool> {
    let known = cx.known(value)?;
    Ok(known.is_some_and(|known| {
        known.is_exact_instance_of::<PyInt>()
            || known.is_exact_instance_of::<PyFloat>()
            || known.is_instance_of::<PyBool>()
    }))
}

fn sum_of_known(cx: &mut OpcodeExecutor<'_>, numbers: Vec<VarId>, start: VarId) -> Flow<VarId> {
    if numbers.len() < 2 {
        return Ok(start);
    }
    let mut known = numbers.into_iter().map(|number| cx.known(number)).collect::<Flow<Vec<_>>>()?;
    let (start, function) = (known.remove(0), builtin_object(cx.py, "sum")?);
    cx.fold(|_| function.call1((known, start)))
}

fn extreme(cx: &mut OpcodeExecutor<'_>, name: &str, op: CompareOp, args: &CallArgs) -> Flow<VarId> {
    let direct = cx.claims.take_call();
    let option = |wanted: &str| args.keywords.iter().find(|(name, _)| &**name == wanted).map(|(_, value)| *value);
    let (key, default) = (option("key"), option("default"));
    if let Some((other, _)) = args.keywords.iter().find(|(name, _)| !matches!(&**name, "key" | "default")) {
        let text = format!("'{other}' is an invalid keyword argument for {name}()");
        return Err(cx.raise(PyTypeError::new_err(text)));
    }
    let iterable = match args.positional[..] {
        [] => return Err(refused(cx, name, ())),
        [iterable] => match cx.see(iterable)?.items(cx, iterable)? {
            Some(items) => cx.trace.tuple(items),
            None => iterable,
        },
        _ if default.is_some() => {
            let text = format!("Cannot specify a default for {name}() with multiple positional arguments");
            return Err(cx.raise(PyTypeError::new_err(text)));
        }
        _ => cx.trace.tuple(args.positional.clone()),
    };
    let iterator = cx.iter(iterable)?;
    let Some(first) = cx.next(iterator)? else {
        return default.ok_or_else(|| refused(cx, name, ((),)));
    };
    if let Some(key) = given(cx, key)? {
        return call_remainder::extreme(cx, op == CompareOp::Greater, key, first, iterator, direct);
    }
    let mut best = first;
    cx.each_left(iterator, |cx, item| {
        let better = cx.compare(op, item, best)?;
        if cx.truth(better)? {
            best = item;
        }
        Ok(())
    })?;
    Ok(best)
}

/// Returns the error of `min` or `max` without items or arguments, raised by CPython itself, as its wording differs
/// between versions.
fn refused<'py>(cx: &mut OpcodeExecutor<'py>, name: &str, args: impl PyCallArgs<'py>) -> Unwind {
    match builtin_object(cx.py, name).and_then(|function| function.call1(args)) {
        Err(error) => cx.raise(error),
        Ok(_) => cx.raise(PyValueError::new_err("empty sequence")),
    }
}

/// Iterates until an item has the given truth. Returns the result of `any` or `all`.
fn until(cx: &mut OpcodeExecutor<'_>, iterable: VarId, wanted: bool) -> Flow<VarId> {
    let iterator = cx.iter(iterable)?;
    while let Some(item) = cx.next(iterator)? {
        if cx.truth(item)? == wanted {
            return Ok(cx.trace.boolean(wanted));
        }
    }
    Ok(cx.trace.boolean(!wanted))
}
