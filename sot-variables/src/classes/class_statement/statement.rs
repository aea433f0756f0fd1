//! `class name(*bases, metaclass=..., **keywords)`, and `type(name, bases, namespace)`.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};
use sot_core::builtin;
use sot_core::bytecode::{Op, Opcodes};
use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::executor::{names, object_model, CallArgs, Exit, Frame, Name, OpcodeExecutor};
use sot_core::variable::VarId;

use super::new_class::{held, is_library_metaclass, new_class};
use super::{class_of, constant_object, refuse};
use crate::classes::stand_in;
use crate::containers::dict::{self, DictVariable};
use crate::containers::hash_key::HashKey;
use crate::containers::tuple::TupleVariable;
use crate::functions::cell::CellVariable;
use crate::functions::{function, new_function};
use crate::iterators::library;

builtin! { BUILD_CLASS = "__build_class__" => |cx, args| build_class(cx, args) }

/// Simulates the class statement: `__build_class__(body, name, *bases, metaclass=..., **keywords)`.
fn build_class(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let [body, name, ref given @ ..] = args.positional[..] else { return Err(refuse("__build_class__() by hand")) };
    let bases = resolve_bases(cx, given)?;
    let (chosen, keywords): (Vec<_>, Vec<_>) =
        args.keywords.iter().cloned().partition(|(name, _)| &**name == "metaclass");
    let first = match (chosen.first(), bases.first()) {
        (Some((_, metaclass)), _) => *metaclass,
        (None, Some(&base)) => object_model::type_variable(cx, base)?,
        (None, None) => {
            let ty = cx.py.get_type::<PyType>().into_any();
            constant_object(cx, &ty)
        }
    };
    let metaclass = winning_metaclass(cx, first, &bases)?;
    let bases_tuple = cx.trace.tuple(bases.clone());
    let namespace = prepare(cx, metaclass, name, bases_tuple, &keywords)?;
    if is_library_metaclass(cx, metaclass)? {
        refuse_odd_body(cx, body)?;
    }
    let cell = run_body(cx, body, namespace)?;
    if bases != given {
        let original = cx.trace.tuple(given.to_vec());
        put(cx, namespace, "__orig_bases__", original)?;
    }
    let class = if is_library_metaclass(cx, metaclass)? {
        new_class(cx, metaclass, name, bases_tuple, namespace, &keywords)?
    } else {
        let args = CallArgs { positional: vec![name, bases_tuple, namespace], keywords };
        if cx.see(metaclass)?.object().is_some_and(|ty| ty.is(cx.py.get_type::<PyType>())) {
            new_class(cx, metaclass, name, bases_tuple, namespace, &args.keywords)?
        } else {
            cx.call(metaclass, &args)?
        }
    };
    // A metaclass may return something other than a class, and leave the cell empty.
    if let Some(cell) = cx.see_as::<CellVariable>(cell)? {
        if class_of(cx, class)?.is_some() && cell.contents() != Some(class) {
            return Err(refuse("a class whose metaclass does not set __class__"));
        }
    }
    Ok(class)
}

/// Replaces bases that are not classes by the result of their `__mro_entries__`; only objects of `typing` are
/// supported.
fn resolve_bases(cx: &mut OpcodeExecutor<'_>, given: &[VarId]) -> Flow<Vec<VarId>> {
    let mut objects = Vec::with_capacity(given.len());
    let mut all_classes = true;
    for &base in given {
        let Some(object) = cx.see(base)?.object().map(|object| object.bind(cx.py).clone()) else {
            return Err(refuse("a class with a base that is made in the function"));
        };
        objects.push(object.clone());
        if class_of(cx, base)?.is_some() {
            continue;
        }
        all_classes = false;
        let of_typing = |object: &Bound<'_, PyAny>| {
            object.getattr("__module__").is_ok_and(|module| module.eq("typing").unwrap_or(false))
        };
        if !of_typing(object.get_type().as_any()) && !of_typing(&object) {
            return Err(refuse("a class with a base that is no class"));
        }
        if !cx.trace.trackers.is_loadable(cx.trace.vars.tracker(base)) && !stand_in::is_known(&cx.trace, base) {
            return Err(refuse("a class with a base that is made in the function"));
        }
        function::guard_identity(cx, base, &object.unbind());
    }
    if all_classes {
        return Ok(given.to_vec());
    }
    // `__mro_entries__` may look at all bases, so they are resolved together.
    let all = library(cx.py, "types", "resolve_bases")?.into_bound(cx.py).call1((PyTuple::new(cx.py, &objects)?,));
    let mut bases = Vec::with_capacity(given.len());
    for base in all.map_err(|error| cx.raise(error))?.try_iter()? {
        let base = base?;
        let known = objects.iter().position(|object| object.is(&base)).map(|at| given[at]);
        bases.push(known.unwrap_or_else(|| constant_object(cx, &base)));
    }
    Ok(bases)
}

/// Returns the most derived metaclass.
fn winning_metaclass(cx: &mut OpcodeExecutor<'_>, first: VarId, bases: &[VarId]) -> Flow<VarId> {
    let mut winner = first;
    for &base in bases {
        let candidate = object_model::type_variable(cx, base)?;
        let (Some(own), Some(ty)) = (class_of(cx, winner)?, class_of(cx, candidate)?) else {
            return Err(refuse("a metaclass that is no class"));
        };
        if cpython::is_subtype(&own, &ty) {
            continue;
        }
        if !cpython::is_subtype(&ty, &own) {
            return Err(refuse("classes whose metaclasses do not fit together"));
        }
        winner = candidate;
    }
    if class_of(cx, winner)?.is_none() {
        return Err(refuse("a metaclass that is no class"));
    }
    Ok(winner)
}

/// Returns the namespace for the class body, from `__prepare__`.
fn prepare(
    cx: &mut OpcodeExecutor<'_>,
    metaclass: VarId,
    name: VarId,
    bases: VarId,
    keywords: &[(Name, VarId)],
) -> Flow<VarId> {
    let usual = cpython::type_lookup(&cx.py.get_type::<PyType>(), &PyString::intern(cx.py, "__prepare__"));
    let own = held(cx, metaclass, "__prepare__")?;
    let is_usual = matches!((&usual, &own), (Some(usual), Some(own)) if usual.is(own));
    if is_usual || is_library_metaclass(cx, metaclass)? {
        return Ok(cx.trace.produce(Rc::new(DictVariable::new(Vec::new(), false))));
    }
    let args = CallArgs { positional: vec![name, bases], keywords: keywords.to_vec() };
    let namespace = cx.call_method_with(metaclass, "__prepare__", &args)?;
    let plain = cx.type_of(namespace)?.is(cx.py.get_type::<PyDict>());
    if !plain || cx.see_as::<DictVariable>(namespace)?.is_none() {
        return Err(refuse("a class body whose names are not in a dict"));
    }
    Ok(namespace)
}

/// Breaks the graph for bodies of enumerations that write a name twice, delete a name or branch. The real namespace
/// of an enumeration observes each write, whereas the trace's dict passes on only the final entries.
fn refuse_odd_body(cx: &mut OpcodeExecutor<'_>, body: VarId) -> Flow<()> {
    let Some(parts) = new_function::parts_of_new(cx, body)? else { return Ok(()) };
    let mut written = Vec::new();
    for instruction in &parts.code.code.instructions {
        let is = |op| Opcodes::get(cx.py).is(instruction.opcode, op);
        let again = is(Op::STORE_NAME) && written.contains(&instruction.arg);
        if again || instruction.target.is_some() || is(Op::DELETE_NAME) {
            return Err(refuse(
                "an enumeration or a type of the typing module whose body writes a name twice, or branches",
            ));
        }
        if is(Op::STORE_NAME) {
            written.push(instruction.arg);
        }
    }
    for name in ["locals", "vars", "exec", "eval"] {
        if parts.code.names().iter().any(|used| &**used == name) {
            return Err(refuse(format!("an enumeration or a type of the typing module whose body uses {name}()")));
        }
    }
    Ok(())
}

fn run_body(cx: &mut OpcodeExecutor<'_>, body: VarId, namespace: VarId) -> Flow<VarId> {
    let Some(parts) = new_function::parts_of_new(cx, body)? else {
        return Err(refuse("__build_class__() of a function of the program"));
    };
    cx.claims.take();
    let mut frame = Frame::new(Rc::clone(&parts.code), parts.globals.share(cx.py));
    frame.function = Some(body);
    frame.namespace = Some(namespace);
    cx.trace.make_cells(&mut frame, &parts.closure);
    match cx.run_frame(frame)?.0 {
        Exit::Return(cell) => Ok(cell),
        Exit::Yield(_) => Err(refuse("a class body that yields")),
    }
}

fn put(cx: &mut OpcodeExecutor<'_>, namespace: VarId, name: &str, value: VarId) -> Flow<()> {
    let mut entries = dict::expect(cx, namespace)?.entries.clone();
    let key = cx.trace.string(name);
    let key = HashKey::of(cx, key)?;
    dict::put(cx, &mut entries, key, value)?;
    dict::write(cx, namespace, entries)
}

/// Simulates `type(name, bases, namespace)`.
pub fn make(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let [name, bases, namespace] = args.positional[..] else { return Err(refuse("type() with these arguments")) };
    let ty = cx.py.get_type::<PyType>().into_any();
    let metaclass = constant_object(cx, &ty);
    if cx.see_as::<TupleVariable>(bases)?.is_none() {
        return Err(refuse("type() with bases that are not in a tuple"));
    }
    let all = cx.unpack_all(bases)?;
    let winner = winning_metaclass(cx, metaclass, &all)?;
    if winner != metaclass {
        return Err(refuse("type() of bases with a metaclass of their own"));
    }
    // Copied, as the caller may change its dict later.
    let copy = dict::expect(cx, namespace)?.copy(cx);
    if let Some(module) = names::find_global(cx, &Rc::from("__name__"))? {
        let key = cx.trace.string("__module__");
        let key = HashKey::of(cx, key)?;
        if dict::expect(cx, copy)?.get(cx, &key)?.is_none() {
            let mut entries = dict::expect(cx, copy)?.entries.clone();
            dict::put(cx, &mut entries, key, module)?;
            dict::write(cx, copy, entries)?;
        }
    }
    new_class(cx, metaclass, name, bases, copy, &args.keywords)
}
