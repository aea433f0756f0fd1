//! `type.__new__`, and its replacement for metaclasses of the standard library.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyFunction, PyString, PyTuple, PyType};
use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, Name, OpcodeExecutor};
use sot_core::variable::VarId;

use super::maker::maker;
use super::{class_of, is_followed, is_of_library, refuse, MadeClass};
use crate::classes::class::ClassVariable;
use crate::classes::stand_in;
use crate::containers::dict::{self, DictVariable, Entry};
use crate::containers::tuple::TupleVariable;
use crate::functions::cell::{self, CellVariable};

builtin! { NEW = "type.__new__" => |cx, args| match args.positional[..] {
    [metaclass, name, bases, namespace] => new_class(cx, metaclass, name, bases, namespace, &args.keywords),
    _ => Err(refuse("type.__new__() with these arguments")),
} }

builtin! { INIT = "type.__init__" => |cx, args| match args.positional.len() {
    4 => Ok(cx.trace.none()),
    _ => Err(refuse("type.__init__() with these arguments")),
} }

/// Simulates `type.__new__(metaclass, name, bases, namespace, **keywords)`.
pub(super) fn new_class(
    cx: &mut OpcodeExecutor<'_>,
    metaclass: VarId,
    name: VarId,
    bases: VarId,
    namespace: VarId,
    keywords: &[(Name, VarId)],
) -> Flow<VarId> {
    let Some(bases_of) = cx.see_as::<TupleVariable>(bases)?.map(|tuple| tuple.items.clone()) else {
        return Err(refuse("a class whose bases are not in a tuple"));
    };
    refuse_bases(cx, metaclass, &bases_of)?;
    let body = ClassNamespace::read(cx, namespace)?;
    let hooks = init_subclass(cx, &bases_of)?;
    if is_library_metaclass(cx, metaclass)? {
        if !body.exact || !body.told.is_empty() || hooks {
            let what = "an enumeration or a type of the typing module with values that are not known while tracing";
            return Err(refuse(what));
        }
        refuse_own_hooks(cx, &bases_of, &body.entries)?;
    }
    let namespace = cx.trace.produce(Rc::new(DictVariable::new(body.entries, false)));
    let told = cx.trace.tuple(body.told.iter().map(|(name, _)| *name).collect());
    let keywords_dict = DictVariable::from_keywords(cx, keywords.to_vec())?;
    let keywords_dict = cx.trace.produce(keywords_dict);
    let parts = vec![metaclass, name, bases, namespace, keywords_dict, told];
    let class = make_stand_in(cx, &parts)?;
    let changes = Vec::new();
    let made =
        MadeClass { maker: Rc::new(maker(cx.py)?), parts, changes, exact: body.exact, writes: 0, answers: Vec::new() };
    let this = cx.trace.produce_made(Rc::new(ClassVariable::of(class.clone().unbind(), made.clone())), &class);
    if let Some(cell) = body.cell {
        cx.see(cell)?;
        cell::write(cx, cell, Some(this));
    }
    let made = MadeClass { writes: cx.trace.effects.len(), ..made };
    cx.trace.vars.set(this, Rc::new(ClassVariable::of(class.unbind(), made)));
    for (name, value) in body.told {
        // The interpreter adds the place to the exception: as a note since 3.12, before as a `RuntimeError` around it.
        object_model::call_special(cx, value, "__set_name__", &[this, name]).map_err(|unwind| match unwind {
            Unwind::Raise(_) => Unwind::break_graph(ReasonId::Raises, "__set_name__ raises an exception"),
            unwind => unwind,
        })?;
    }
    if hooks {
        let owner = library_super(cx, this)?;
        let given = CallArgs { positional: Vec::new(), keywords: keywords.to_vec() };
        cx.call_method_with(owner, "__init_subclass__", &given)?;
    }
    Ok(this)
}

/// True for metaclasses of the standard library (`typing`, `enum`), which make a class in Python code. They are
/// called while tracing, as they do nothing else besides calling those methods of the program that `refuse_own_hooks`
/// looks for.
pub(super) fn is_library_metaclass(cx: &mut OpcodeExecutor<'_>, metaclass: VarId) -> Flow<bool> {
    Ok(class_of(cx, metaclass)?.is_some_and(|ty| is_of_library(ty.as_any()) && !ty.is(ty.py().get_type::<PyType>())))
}

fn refuse_bases(cx: &mut OpcodeExecutor<'_>, metaclass: VarId, bases: &[VarId]) -> Flow<()> {
    for &base in bases {
        // Writes to the base are still pending side effects.
        if class_of(cx, base)?.is_none() || cx.trace.effects.is_written(base) {
            return Err(refuse("a class with a base that was written to"));
        }
    }
    let order = held(cx, metaclass, "mro")?;
    if !order.is_some_and(|order| cx.py.get_type::<PyType>().getattr("mro").is_ok_and(|usual| usual.is(&order))) {
        return Err(refuse("a class whose metaclass orders its bases"));
    }
    Ok(())
}

/// The namespace that the body of a class statement has left.
struct ClassNamespace {
    entries: Vec<Entry>,
    /// `__classcell__`: the cell through which methods find the class.
    cell: Option<VarId>,
    /// True if the real class made while tracing has the actual values.
    exact: bool,
    /// Names and values whose `__set_name__` is a function of the program.
    told: Vec<(VarId, VarId)>,
}

impl ClassNamespace {
    fn read(cx: &mut OpcodeExecutor<'_>, namespace: VarId) -> Flow<ClassNamespace> {
        let mut body = ClassNamespace {
            entries: dict::expect(cx, namespace)?.entries.clone(),
            cell: None,
            exact: true,
            told: Vec::new(),
        };
        let is_cell = |entry: &Entry| entry.key.bind(cx.py).eq("__classcell__").unwrap_or(false);
        if let Some(at) = body.entries.iter().position(is_cell) {
            let cell = body.entries.remove(at).value;
            if cx.see_as::<CellVariable>(cell)?.is_none() {
                return Err(refuse("a class with a __classcell__ that is no cell"));
            }
            body.cell = Some(cell);
        }
        for entry in &body.entries {
            let key = entry.key.bind(cx.py).clone();
            if !key.is_exact_instance_of::<PyString>() {
                return Err(refuse("a class with names that are no strings"));
            }
            let mut fits = true;
            stand_in::of(cx, entry.value, &mut fits)?;
            if key.eq("__slots__")? && !fits {
                return Err(refuse("a class whose slots are not known while tracing"));
            }
            body.exact &= fits;
            let hook = object_model::lookup(cx, entry.value, &Rc::from("__set_name__"))?;
            if hook.is_some_and(|(hook, _)| hook.is_exact_instance_of::<PyFunction>() && !is_of_library(&hook)) {
                body.told.push((cx.trace.constant(key.unbind()), entry.value));
            }
        }
        Ok(body)
    }
}

/// Makes the real class that stands for the class while tracing, with stand-ins for unknown values.
fn make_stand_in<'py>(cx: &mut OpcodeExecutor<'py>, parts: &[VarId]) -> Flow<Bound<'py, PyAny>> {
    let mut exact = true;
    let real = parts.iter().map(|&part| stand_in::of(cx, part, &mut exact)).collect::<Flow<Vec<_>>>()?;
    let made = maker(cx.py)?.into_bound(cx.py).call1(PyTuple::new(cx.py, real)?);
    made.map_err(|error| cx.raise(error))
}

/// Simulates `super(class, class)`.
fn library_super(cx: &mut OpcodeExecutor<'_>, class: VarId) -> Flow<VarId> {
    let function = cpython::builtin(cx.py, "super")?;
    cx.call_builtin(&function, &CallArgs::positional(vec![class, class]), false)
}

/// Returns the class attribute of a name, and guards its identity.
pub(super) fn held<'py>(cx: &mut OpcodeExecutor<'py>, class: VarId, name: &str) -> Flow<Option<Bound<'py, PyAny>>> {
    let of = cx.trace.vars.tracker(class);
    let Some(ty) = class_of(cx, class)? else { return Ok(None) };
    let found = object_model::lookup_in_type(cx, ty.as_any(), of, &Rc::from(name))?;
    Ok(found.map(|(found, tracker)| {
        object_model::guard_identity(cx, &found, tracker);
        found
    }))
}

/// True if a base has an `__init_subclass__` of the program. It is called once the class is made.
fn init_subclass(cx: &mut OpcodeExecutor<'_>, bases: &[VarId]) -> Flow<bool> {
    for &base in bases {
        held(cx, base, "__init_subclass__")?;
        // Hooks of the standard library call `super().__init_subclass__`, so the whole MRO counts.
        let order = class_of(cx, base)?.map(|class| class.mro());
        for class in order.iter().flatten() {
            let hook = cpython::class_dict(&class)?.get_item("__init_subclass__");
            if hook.is_ok_and(|hook| is_followed(&hook)) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Methods of the program that metaclasses of the standard library call while they make a class.
const CALLED: &[&str] = &[
    "__new__",
    "__init__",
    "__set_name__",
    "_generate_next_value_",
    "_missing_",
    "_ignore_",
    "__init_subclass__",
    "__class_getitem__",
];

fn refuse_own_hooks(cx: &mut OpcodeExecutor<'_>, bases: &[VarId], entries: &[dict::Entry]) -> Flow<()> {
    let calls = |name: &str| refuse(format!("a class whose {name} runs while it is made"));
    for entry in entries {
        let key = entry.key.bind(cx.py);
        if let Some(name) = CALLED.iter().find(|name| key.eq(**name).unwrap_or(false)) {
            return Err(calls(name));
        }
    }
    for &base in bases {
        for name in CALLED {
            let found = held(cx, base, name)?;
            if found.is_some_and(|found| is_followed(&found)) {
                return Err(calls(name));
            }
        }
    }
    Ok(())
}
