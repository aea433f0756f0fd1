//! Calls, iteration, truth, containment, comparison and operators, by special methods. Follows `Objects/abstract.c` and
//! `Objects/object.c`.

use std::rc::Rc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyFloatMethods, PyFunction, PyString, PyType};

use super::lookup::{guard_identity, lookup};
use super::special_methods::{call_special, checked, find_special, has_special};
use crate::cpython::{self, DescriptorKind};
use crate::error::{Flow, ReasonId, Unwind};
use crate::language::LANGUAGE;
use crate::machine::executor::{BinaryOp, CallArgs, CompareOp, OpcodeExecutor, Trace};
use crate::machine::variable::{GraphArgument, VarId};
use crate::resume_point::SpecialResult;
use crate::tracker::repr;

/// `x(...)` through `type(x).__call__`.
pub fn call(cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
    match find_special(cx, this, &Rc::from("__call__"))? {
        Some(method) => cx.call_instead_of(this, method, args),
        None => call_special(cx, this, "__call__", &args.positional),
    }
}

/// `next(x)` through `type(x).__next__`.
pub fn next(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<Option<VarId>> {
    call_special(cx, this, "__next__", &[]).map(Some)
}

/// `bool(x)` through `__bool__`, then `__len__`, else true.
pub fn truth(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<bool> {
    for name in ["__bool__", "__len__"] {
        match lookup(cx, this, &Rc::from(name))? {
            Some((descriptor, tracker)) if descriptor.is_none() => {
                guard_identity(cx, &descriptor, tracker);
                return Err(cx.raise(PyTypeError::new_err("'NoneType' object is not callable")));
            }
            Some(_) => break,
            None => {}
        }
    }
    if has_special(cx, this, "__bool__")? {
        cx.claims.special_result(this, SpecialResult::Truth);
        let answer = call_special(cx, this, "__bool__", &[])?;
        let answer = checked(cx, SpecialResult::Truth, answer)?;
        return cx.truth(answer);
    }
    if has_special(cx, this, "__len__")? {
        let length = cx.len(this)?;
        return cx.truth(length);
    }
    Ok(true)
}

/// `len(x)` through `__len__`, whose result must be a valid length.
pub fn len(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
    cx.claims.special_result(this, SpecialResult::Length);
    let answer = call_special(cx, this, "__len__", &[])?;
    checked(cx, SpecialResult::Length, answer)
}

/// `item in x` through `__contains__`, else by iteration.
pub fn contains(cx: &mut OpcodeExecutor<'_>, this: VarId, item: VarId) -> Flow<VarId> {
    match lookup(cx, this, &Rc::from("__contains__"))? {
        Some((refused, tracker)) if refused.is_none() => {
            guard_identity(cx, &refused, tracker);
            let text = format!("'{}' object is not a container", cx.type_name(this)?);
            return Err(cx.raise(PyTypeError::new_err(text)));
        }
        Some(_) => {
            cx.claims.special_result(this, SpecialResult::Found);
            let found = call_special(cx, this, "__contains__", &[item])?;
            cx.claims.take();
            return checked(cx, SpecialResult::Found, found);
        }
        None => cx.claims.take(),
    };
    let iterator = match cx.iter(this) {
        Err(Unwind::Raise(error)) if cx.type_of(error)?.is(cx.py.get_type::<PyTypeError>()) => {
            let text = format!("argument of type '{}' is not iterable", cx.type_name(this)?);
            return Err(cx.raise(PyTypeError::new_err(text)));
        }
        iterator => iterator?,
    };
    while let Some(candidate) = cx.next(iterator)? {
        if is_sought(cx, candidate, item)? {
            return Ok(cx.trace.boolean(true));
        }
    }
    Ok(cx.trace.boolean(false))
}

/// `iter(x)` through `__iter__`, else over `x[0]`, `x[1]` and so on.
pub fn iter(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
    let refused = lookup(cx, this, &Rc::from("__iter__"))?.is_some_and(|(found, _)| found.is_none());
    if !refused && !has_special(cx, this, "__iter__")? && has_special(cx, this, "__getitem__")? {
        if !is_sequence(cx, this)? {
            let name = cx.type_name(this)?;
            return Err(cx.raise(PyTypeError::new_err(format!("'{name}' object is not iterable"))));
        }
        return (cx.runtime.factories.item_iterator)(cx, this);
    }
    cx.claims.special_result(this, SpecialResult::Iterator);
    let iterator = call_special(cx, this, "__iter__", &[])?;
    checked(cx, SpecialResult::Iterator, iterator)
}

/// True if the type of the object supports iteration. An `__iter__` that is `None` is called, too.
pub fn is_iterable(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<bool> {
    let says = lookup(cx, this, &Rc::from("__iter__"))?.is_some();
    Ok(says || has_special(cx, this, "__getitem__")? && is_sequence(cx, this)?)
}

/// True if the object can be iterated over, unlike one whose `__iter__` is `None`.
pub fn can_be_iterated(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<bool> {
    match lookup(cx, this, &Rc::from("__iter__"))? {
        Some((found, tracker)) if found.is_none() => {
            guard_identity(cx, &found, tracker);
            Ok(false)
        }
        Some(_) => Ok(true),
        None => is_iterable(cx, this),
    }
}

/// True if C code takes the object for a sequence: its type has items by number. Types in C may have items by other
/// keys only, such as matches of regular expressions.
pub fn is_sequence(cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<bool> {
    Ok(cx.type_of(this)?.cast::<PyType>().is_ok_and(cpython::has_items_by_number))
}

/// True if an item equals the sought one. The order of the operands depends on the version.
fn is_sought(cx: &mut OpcodeExecutor<'_>, candidate: VarId, item: VarId) -> Flow<bool> {
    if LANGUAGE.asks_the_sought_first {
        equal(cx, item, candidate)
    } else {
        equal(cx, candidate, item)
    }
}

/// `item in items`, by identity or equality.
pub fn contains_among(cx: &mut OpcodeExecutor<'_>, items: &[VarId], item: VarId) -> Flow<VarId> {
    for &candidate in items {
        if is_sought(cx, candidate, item)? {
            return Ok(cx.trace.boolean(true));
        }
    }
    Ok(cx.trace.boolean(false))
}

/// `a is b or a == b`, known while tracing.
pub fn equal(cx: &mut OpcodeExecutor<'_>, a: VarId, b: VarId) -> Flow<bool> {
    if a == b {
        return Ok(true);
    }
    let equal = cx.compare(CompareOp::Equal, a, b)?;
    if cx.trace.is_open_number(a) || cx.trace.is_open_number(b) {
        return cx.truth(equal); // Sizes are no NaNs.
    }
    if let (Some(a), Some(b)) = (cx.known(a)?, cx.known(b)?) {
        if is_nan(&a) && is_nan(&b) {
            return Err(Unwind::break_graph(
                ReasonId::UnsupportedOperation,
                "whether two numbers are one object, which alone makes a NaN equal to itself",
            ));
        }
    }
    cx.truth(equal)
}

/// True if a value is a NaN. A NaN is not equal to itself: containers find it by identity only and, from 3.10 on, its
/// hash depends on its identity.
pub fn is_nan(value: &Bound<'_, PyAny>) -> bool {
    value.cast_exact::<PyFloat>().is_ok_and(|value| value.value().is_nan())
}

/// Calls the special method of one side of a binary operator. A C type without a handler breaks the graph unless both
/// sides are known, because only running it would tell whether it answers `NotImplemented`.
pub fn binary(
    cx: &mut OpcodeExecutor<'_>,
    op: BinaryOp,
    this: VarId,
    other: VarId,
    reflected: bool,
) -> Flow<Option<VarId>> {
    let name = if reflected { op.reflected() } else { op.method() };
    call_operator(cx, this, name, other)
}

/// Calls the in-place special method, if the type has one.
pub fn inplace(cx: &mut OpcodeExecutor<'_>, op: BinaryOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
    call_operator(cx, this, &op.inplace(), other)
}

/// Calls the special method of one side of a comparison.
pub fn compare(cx: &mut OpcodeExecutor<'_>, op: CompareOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
    call_operator(cx, this, op.method(), other)
}

/// Calls an operator method; `None` if the type has none or it answers `NotImplemented`.
fn call_operator(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &str, other: VarId) -> Flow<Option<VarId>> {
    let Some((descriptor, tracker)) = lookup(cx, this, &Rc::from(name))? else { return Ok(None) };
    if is_object_default(&descriptor, name) {
        guard_identity(cx, &descriptor, tracker);
        if name == "__ne__" {
            // `object.__ne__` calls `__eq__`.
            cx.claims.take();
            let Some(equal) = call_operator(cx, this, "__eq__", other)? else { return Ok(None) };
            return cx.not(equal).map(Some);
        }
        return Ok(None);
    }
    if repeats(&descriptor, name) && !cx.has_special(other, "__index__")? {
        guard_identity(cx, &descriptor, tracker);
        return Ok(None);
    }
    let result = call_special(cx, this, name, &[other])?;
    match cx.known(result)? {
        Some(value) if value.is(cx.py.NotImplemented()) => Ok(None),
        _ => Ok(Some(result)),
    }
}

/// True if the method repeats a sequence of C. The operator checks first whether the other operand is an integer.
pub(crate) fn repeats(descriptor: &Bound<'_, PyAny>, name: &str) -> bool {
    matches!(name, "__mul__" | "__rmul__" | "__imul__") && is_method_of_sequence(descriptor)
}

/// True if the method is a slot of a sequence of C.
pub(crate) fn is_method_of_sequence(descriptor: &Bound<'_, PyAny>) -> bool {
    let owner = || descriptor.getattr("__objclass__").ok().and_then(|owner| owner.cast_into::<PyType>().ok());
    let sequences = ["str", "bytes", "bytearray", "list", "tuple", "deque", "array"];
    DescriptorKind::of(descriptor) == DescriptorKind::SlotWrapper
        && owner().is_some_and(|owner| sequences.contains(&&*cpython::type_name(&owner)))
}

/// True if the method is that of `object`, by which `==` is identity and ordering is not defined.
fn is_object_default(descriptor: &Bound<'_, PyAny>, name: &str) -> bool {
    let object = descriptor.py().get_type::<PyAny>();
    object.getattr(name).is_ok_and(|default| default.is(descriptor))
}

/// Returns a real object as the argument of a graph statement, which holds for this very object only.
pub fn graph_argument(cx: &mut OpcodeExecutor<'_>, this: VarId, object: Option<&Py<PyAny>>) -> Flow<GraphArgument> {
    let Some(object) = object else {
        let text = cx.trace.text(this);
        return Err(Unwind::break_graph(
            ReasonId::UnsupportedCall,
            format!("{text} as an argument of a graph operation"),
        ));
    };
    if cx.trace.effects.is_written(this) {
        return Err(Unwind::break_graph(
            ReasonId::UnsupportedMutation,
            "an object written in the function is passed to a graph operation",
        ));
    }
    let tracker = cx.trace.vars.tracker(this);
    let constant = cx.see(this)?.constant().is_some();
    if !object.bind(cx.py).is_instance_of::<PyType>() {
        refuse_answering(&cx.trace, &object.bind(cx.py).get_type(), METHODS_ASKED_FOR)?;
    }
    if !constant {
        cx.statement.assumed_objects.push((object.clone_ref(cx.py), tracker));
    }
    Ok(GraphArgument { value: object.clone_ref(cx.py), text: repr(cx.py, object), holds_tensor: false })
}

/// Methods that an operation may call on its arguments.
const METHODS_ASKED_FOR: &[&str] = &[
    "__getattribute__",
    "__getattr__",
    "__index__",
    "__int__",
    "__float__",
    "__bool__",
    "__len__",
    "__iter__",
    "__getitem__",
    "__array__",
];

/// Methods that an operation may call on an argument that is a number, text or container: it compares sizes and axes,
/// and computes with them.
const METHODS_OF_VALUES: &[&str] = &[
    "__eq__",
    "__ne__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "__contains__",
    "__reversed__",
    "__hash__",
    "__complex__",
    "__trunc__",
    "__neg__",
    "__pos__",
    "__abs__",
    "__add__",
    "__radd__",
    "__sub__",
    "__rsub__",
    "__mul__",
    "__rmul__",
    "__truediv__",
    "__rtruediv__",
    "__floordiv__",
    "__rfloordiv__",
    "__mod__",
    "__rmod__",
    "__pow__",
    "__rpow__",
];

/// Breaks the graph if instances of a class derived from a builtin one have a method of the program that an operation
/// may call, as the operation is given the value of the builtin class, or calls it while the statement is built.
pub fn refuse_own_methods(cx: &OpcodeExecutor<'_>, ty: &Bound<'_, PyType>) -> Flow<()> {
    refuse_answering(&cx.trace, ty, METHODS_ASKED_FOR)?;
    refuse_answering(&cx.trace, ty, METHODS_OF_VALUES)
}

fn refuse_answering(trace: &Trace<'_>, ty: &Bound<'_, PyType>, asked: &[&str]) -> Flow<()> {
    let Some(method) = method_that_answers(trace, ty, asked) else { return Ok(()) };
    let text = format!("an object with a {method}() of the program's is passed to a graph operation, which may ask it");
    Err(Unwind::break_graph(ReasonId::UnsupportedCall, text))
}

/// Returns a method of the program, not of a library, that an operation may call. It would be called once while the
/// statement is built, and again when it runs.
fn method_that_answers<'a>(trace: &Trace<'_>, ty: &Bound<'_, PyType>, asked: &[&'a str]) -> Option<&'a str> {
    if !cpython::is_heap_type(ty) {
        return None;
    }
    let is_programs = |name: &&str| {
        let found = cpython::type_lookup(ty, &PyString::intern(trace.py, name));
        let code = found.and_then(|found| found.cast_into::<PyFunction>().ok()?.getattr("__code__").ok());
        let file = code.and_then(|code| code.getattr("co_filename").ok()?.extract::<String>().ok());
        file.is_some_and(|file| !trace.runtime.is_library(&file))
    };
    asked.iter().copied().find(is_programs)
}
