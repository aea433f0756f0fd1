//! Class statements, and other ways to make a class. The body runs in the trace, with a dict as its namespace. Then a real
//! class is made of real objects that stand for its values (`stand_in`), so that whatever asks a class finds CPython's own
//! answers; new code makes another one, of the values, where the class leaves the graph.
//! See `docs/decisions/14-class-statements.md`.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyFunction, PyString, PyTuple, PyType};
use sot_core::builtin;
use sot_core::codegen::CodeGen;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, Exit, Frame, Name, OpcodeExecutor};
use sot_core::side_effects::Effect;
use sot_core::variable::VarId;

use crate::builtins::frame;
use crate::cell::CellVariable;
use crate::class::ClassVariable;
use crate::dict::{self, DictVariable, Entry};
use crate::function;
use crate::hash_key::HashKey;
use crate::iterators::library;
use crate::stand_in;
use crate::tuple::TupleVariable;

/// How a class was made.
#[derive(Clone)]
pub struct MadeClass {
    /// The function that makes it, and of what.
    maker: Rc<Py<PyAny>>,
    parts: Vec<VarId>,
    steps: Vec<Step>,
    /// Whether real objects say all that there is to what was in the namespace.
    exact: bool,
    /// The number of writes when that was so.
    writes: usize,
}

/// What happened to a class since.
#[derive(Clone)]
enum Step {
    /// `class.name = value`, or its deletion.
    Attribute(VarId, Option<VarId>),
    /// A call that does nothing but to complete the class.
    Call(Rc<Py<PyAny>>, Vec<VarId>),
}

fn refuse(what: impl Into<String>) -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedCall, what)
}

builtin! { BUILD_CLASS = "__build_class__" => |cx, args| build_class(cx, args) }

builtin! { NEW = "type.__new__" => |cx, args| match args.positional[..] {
    [metaclass, name, bases, namespace] => new_class(cx, metaclass, name, bases, namespace, &args.keywords),
    _ => Err(refuse("type.__new__() with these arguments")),
} }

builtin! { INIT = "type.__init__" => |cx, args| match args.positional.len() {
    4 => Ok(cx.none()),
    _ => Err(refuse("type.__init__() with these arguments")),
} }

// What an abstract class has in C.
builtin! { ABC_INIT = "_abc:_abc_init" => |cx, args| {
    let [class] = args.exactly(cx, "_abc_init")?;
    complete(cx, "_abc", "_abc_init", vec![class])
} }

builtin! { PROCESS_DATACLASS = "dataclasses:_process_class" => |cx, args| {
    if let Some((name, _)) = args.keywords.first() {
        return Err(refuse(format!("dataclasses._process_class({name}=...)")));
    }
    let slots = args.positional.get(SLOTS).map(|&slots| cx.truth(slots)).transpose()?;
    if let (Some(true), Some(&class)) = (slots, args.positional.first()) {
        // Another class is made of all that this one holds.
        let class = class_of(cx, class)?.filter(|class| runs_nothing_when_made(class).unwrap_or(false));
        class.ok_or_else(|| refuse("a dataclass with slots whose making runs code of the program"))?;
    }
    complete(cx, "dataclasses", "_process_class", args.positional.clone())
} }

/// The place of `slots` among the arguments of `dataclasses._process_class`.
const SLOTS: usize = 9;

/// Whether a class like this one can be made without running code of the program.
fn runs_nothing_when_made(class: &Bound<'_, PyType>) -> PyResult<bool> {
    let py = class.py();
    if !class.get_type().is(py.get_type::<PyType>()) {
        return Ok(false);
    }
    let field = library(py, "dataclasses", "Field")?.into_bound(py);
    for value in cpython::class_dict(class)?.call_method0("values")?.try_iter()? {
        let ty = value?.get_type();
        let hook = cpython::type_lookup(&ty, &PyString::intern(py, "__set_name__"));
        // Fields are not in the other class.
        if !ty.is(&field) && hook.is_some_and(|hook| is_followed(&hook)) {
            return Ok(false);
        }
    }
    for base in class.mro().iter() {
        if cpython::class_dict(&base)?.get_item("__init_subclass__").is_ok_and(|hook| is_followed(&hook)) {
            return Ok(false);
        }
    }
    Ok(true)
}

builtin! { NAMED_TUPLE = "collections:namedtuple" => |cx, args| {
    let names = ["typename", "field_names", "rename", "defaults", "module"];
    let [name, fields, rename, defaults, module] = args.named(cx, "namedtuple", names, 2)?;
    let (Some(name), Some(fields), true) = (name, fields, args.positional.len() < 3) else {
        return Err(refuse("namedtuple() with these arguments"));
    };
    let module = match module {
        Some(module) if !cx.known(module)?.is_some_and(|module| module.is_none()) => module,
        _ => frame::module_of_caller(cx)?,
    };
    // As they are now.
    let fields = match cx.known_str(fields)? {
        Some(_) => fields,
        None => {
            let fields = cx.unpack_all(fields)?;
            cx.tuple(fields)
        }
    };
    let defaults = match defaults {
        Some(defaults) if !cx.known(defaults)?.is_some_and(|defaults| defaults.is_none()) => {
            let defaults = cx.unpack_all(defaults)?;
            for &value in &defaults {
                let lasts = matches!(cx.see(value)?.kind(), "class" | "function" | "builtin_function" | "module");
                // What is read of the class is what it is at this call.
                if cx.known(value)?.is_none() && !lasts && cx.trackers.is_sourced(cx.vars.tracker(value)) {
                    return Err(refuse("namedtuple() with an object from outside as a default"));
                }
            }
            cx.tuple(defaults)
        }
        _ => cx.none(),
    };
    let rename = rename.unwrap_or_else(|| cx.boolean(false));
    let parts = vec![name, fields, rename, defaults, module];
    let mut exact = true;
    let real = parts.iter().map(|&part| stand_in::of(cx, part, &mut exact)).collect::<Flow<Vec<_>>>()?;
    if !exact {
        return Err(refuse("namedtuple() of values that are not known while tracing"));
    }
    let maker = named_tuple_maker(cx.py)?;
    match maker.bind(cx.py).clone().call1(PyTuple::new(cx.py, real)?) {
        Ok(class) => Ok(made_by(cx, maker, parts, &class)),
        Err(error) => Err(cx.raise(error)),
    }
} }

/// The function that makes a named tuple.
fn named_tuple_maker(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static MAKER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || -> PyResult<Py<PyAny>> {
        let make =
            cpython::fastcall(py, "__make_named_tuple__", "A named tuple of a module.", |py, values| match values {
                [name, fields, rename, defaults, module] => {
                    let keywords = PyDict::new(py);
                    for (key, value) in [("rename", rename), ("defaults", defaults), ("module", module)] {
                        keywords.set_item(key, value)?;
                    }
                    let make = cpython::import(py, "collections")?.getattr("namedtuple")?;
                    Ok(make.call((name, fields), Some(&keywords))?.unbind())
                }
                _ => Err(pyo3::exceptions::PyTypeError::new_err("the parts of a named tuple are expected")),
            })?;
        Ok(make.unbind())
    };
    Ok(MAKER.get_or_try_init(py, make)?.clone_ref(py))
}

/// A class that one call has made, of which real objects say all that there is.
fn made_by<'py>(cx: &mut OpcodeExecutor<'py>, maker: Py<PyAny>, parts: Vec<VarId>, class: &Bound<'py, PyAny>) -> VarId {
    let made = MadeClass { maker: Rc::new(maker), parts, steps: Vec::new(), exact: true, writes: cx.effects.len() };
    cx.produce_made(Rc::new(ClassVariable::of(class.clone().unbind(), made)), class)
}

/// Calls a function that completes a class made in the trace and does nothing else, and that gives the class, another one made
/// of it, or nothing.
fn complete(cx: &mut OpcodeExecutor<'_>, module: &str, name: &str, args: Vec<VarId>) -> Flow<VarId> {
    let function = library(cx.py, module, name)?;
    let class = args.first().copied().ok_or_else(|| refuse(format!("{name}() without a class")))?;
    let made = match cx.see_as::<ClassVariable>(class)?.and_then(|class| class.made()) {
        Some(made) if made.writes != cx.effects.len() => {
            return Err(refuse(format!("{name}() of a class that was made a while ago")));
        }
        Some(made) if made.exact => made,
        _ => return Err(refuse(format!("{name}() of a class with values that are not known while tracing"))),
    };
    let mut exact = true;
    let real = args.iter().map(|&arg| stand_in::of(cx, arg, &mut exact)).collect::<Flow<Vec<_>>>()?;
    let object = real[0].clone();
    let result = function.bind(cx.py).clone().call1(PyTuple::new(cx.py, real)?);
    let result = result.map_err(|error| refuse(format!("{name}() that raises {error}")))?;
    if !exact {
        return Err(refuse(format!("{name}() of values that are not known while tracing")));
    }
    if !(result.is(&object) || result.is_none()) {
        // Of the first class as it is now: what is written to it from here on, the other one does not have.
        let now = cx.produce(Rc::new(ClassVariable::of(object.unbind(), (*made).clone())));
        let parts = std::iter::once(now).chain(args.into_iter().skip(1)).collect();
        return Ok(made_by(cx, function, parts, &result));
    }
    let steps = made.steps.iter().cloned().chain([Step::Call(Rc::new(function), args)]).collect();
    let made = MadeClass { steps, ..(*made).clone() };
    cx.vars.set(class, Rc::new(ClassVariable::of(object.unbind(), made)));
    Ok(if result.is_none() { cx.none() } else { class })
}

/// `class.name = value` for a class made in the trace.
pub fn set_attr(
    cx: &mut OpcodeExecutor<'_>,
    this: VarId,
    made: &MadeClass,
    name: &Name,
    value: Option<VarId>,
) -> Flow<()> {
    let Some(object) = cx.vars.get(this).object().map(|object| object.bind(cx.py).clone()) else { return Ok(()) };
    let mut exact = made.exact;
    let done = match value {
        Some(value) => {
            let real = stand_in::of(cx, value, &mut exact)?;
            cx.py.get_type::<PyType>().call_method1("__setattr__", (&object, &**name, real))
        }
        None => cx.py.get_type::<PyType>().call_method1("__delattr__", (&object, &**name)),
    };
    done.map_err(|error| cx.raise(error))?;
    let name = cx.string(name);
    let steps = made.steps.iter().cloned().chain([Step::Attribute(name, value)]).collect();
    let told = made.writes == cx.effects.len();
    cx.effects.record(Effect::Contents { container: this });
    let writes = if told { cx.effects.len() } else { usize::MAX };
    let made = MadeClass { steps, exact, writes, ..made.clone() };
    cx.vars.set(this, Rc::new(ClassVariable::of(object.unbind(), made)));
    Ok(())
}

/// `type(name, bases, namespace)`
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
    // A copy, as the caller may go on with its dict.
    let copy = dict::expect(cx, namespace)?.copy(cx);
    if let Some(module) = cx.find_global(&Rc::from("__name__"))? {
        let key = cx.string("__module__");
        let key = HashKey::of(cx, key)?;
        if dict::expect(cx, copy)?.get(cx, &key)?.is_none() {
            let mut entries = dict::expect(cx, copy)?.entries.clone();
            dict::put(cx, &mut entries, key, module)?;
            dict::write(cx, copy, entries)?;
        }
    }
    new_class(cx, metaclass, name, bases, copy, &args.keywords)
}

fn constant_object(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>) -> VarId {
    let object = object.clone().unbind();
    let tracker = cx.constant_tracker(object.clone_ref(cx.py));
    let object = object.bind(cx.py).clone();
    cx.wrap(&object, tracker)
}

/// What a variable is, if it is a class.
fn class_of<'py>(cx: &mut OpcodeExecutor<'py>, variable: VarId) -> Flow<Option<Bound<'py, PyType>>> {
    let object = cx.see(variable)?.object().map(|object| object.bind(cx.py).clone());
    Ok(object.and_then(|object| object.cast_into::<PyType>().ok()))
}

/// The class statement: `__build_class__(body, name, *bases, metaclass=..., **keywords)`.
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
    let bases_tuple = cx.tuple(bases.clone());
    let namespace = prepare(cx, metaclass, name, bases_tuple, &keywords)?;
    if is_library_metaclass(cx, metaclass)? {
        refuse_odd_body(cx, body)?;
    }
    let cell = run_body(cx, body, namespace)?;
    if bases != given {
        let original = cx.tuple(given.to_vec());
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
    // A metaclass may give something else, and keep the cell to itself.
    if let Some(cell) = cx.see_as::<CellVariable>(cell)? {
        if class_of(cx, class)?.is_some() && cell.contents() != Some(class) {
            return Err(refuse("a class whose metaclass does not set __class__"));
        }
    }
    Ok(class)
}

/// Bases that are no classes say what takes their place.
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
        if !cx.trackers.is_loadable(cx.vars.tracker(base)) && !stand_in::is_known(cx, base) {
            return Err(refuse("a class with a base that is made in the function"));
        }
        function::guard_identity(cx, base, &object.unbind());
    }
    if all_classes {
        return Ok(given.to_vec());
    }
    // What stands for a base depends on the others.
    let all = library(cx.py, "types", "resolve_bases")?.into_bound(cx.py).call1((PyTuple::new(cx.py, &objects)?,));
    let mut bases = Vec::with_capacity(given.len());
    for base in all.map_err(|error| cx.raise(error))?.try_iter()? {
        let base = base?;
        let known = objects.iter().position(|object| object.is(&base)).map(|at| given[at]);
        bases.push(known.unwrap_or_else(|| constant_object(cx, &base)));
    }
    Ok(bases)
}

/// The most derived metaclass.
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

/// Metaclasses of the standard library that make a class in Python and, but for methods of the program's that
/// `refuse_own_hooks` looks for, do nothing else: they are called for real.
fn is_library_metaclass(cx: &mut OpcodeExecutor<'_>, metaclass: VarId) -> Flow<bool> {
    Ok(class_of(cx, metaclass)?.is_some_and(|ty| is_of_library(ty.as_any()) && !ty.is(ty.py().get_type::<PyType>())))
}

const LIBRARY: &[&str] = &["typing", "enum"];

pub(crate) fn is_of_library(object: &Bound<'_, PyAny>) -> bool {
    let module = object.getattr("__module__").and_then(|module| module.extract::<String>());
    module.is_ok_and(|module| LIBRARY.contains(&&*module))
}

/// The dict of the class body.
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
        return Ok(cx.produce(Rc::new(DictVariable::new(Vec::new(), false))));
    }
    let args = CallArgs { positional: vec![name, bases], keywords: keywords.to_vec() };
    let namespace = cx.call_method_with(metaclass, "__prepare__", &args)?;
    let plain = cx.type_of(namespace)?.is(cx.py.get_type::<PyDict>());
    if !plain || cx.see_as::<DictVariable>(namespace)?.is_none() {
        return Err(refuse("a class body whose names are not in a dict"));
    }
    Ok(namespace)
}

/// The dict of an enumeration's body watches what is written to it; a dict of the trace only gives what was there at the end.
fn refuse_odd_body(cx: &mut OpcodeExecutor<'_>, body: VarId) -> Flow<()> {
    let Some(parts) = function::parts_of_new(cx, body)? else { return Ok(()) };
    let mut written = Vec::new();
    for instruction in &parts.code.code.instructions {
        let name = cx.runtime.opcode_name(cx.py, instruction.opcode);
        let again = name == "STORE_NAME" && written.contains(&instruction.arg);
        if again || instruction.target.is_some() || name == "DELETE_NAME" {
            return Err(refuse(
                "an enumeration or a type of the typing module whose body writes a name twice, or branches",
            ));
        }
        if name == "STORE_NAME" {
            written.push(instruction.arg);
        }
    }
    for name in ["locals", "vars", "exec", "eval"] {
        if parts.code.names.iter().any(|used| &**used == name) {
            return Err(refuse(format!("an enumeration or a type of the typing module whose body uses {name}()")));
        }
    }
    Ok(())
}

fn run_body(cx: &mut OpcodeExecutor<'_>, body: VarId, namespace: VarId) -> Flow<VarId> {
    let Some(parts) = function::parts_of_new(cx, body)? else {
        return Err(refuse("__build_class__() of a function of the program"));
    };
    cx.unclaim();
    let mut frame = Frame::new(Rc::clone(&parts.code), parts.globals.share(cx.py));
    frame.function = Some(body);
    frame.namespace = Some(namespace);
    cx.make_cells(&mut frame, &parts.closure);
    match cx.run_frame(frame)?.0 {
        Exit::Return(cell) => Ok(cell),
        Exit::Yield(_) => Err(refuse("a class body that yields")),
    }
}

fn put(cx: &mut OpcodeExecutor<'_>, namespace: VarId, name: &str, value: VarId) -> Flow<()> {
    let mut entries = dict::expect(cx, namespace)?.entries.clone();
    let key = cx.string(name);
    let key = HashKey::of(cx, key)?;
    dict::put(cx, &mut entries, key, value)?;
    dict::write(cx, namespace, entries)
}

/// `type.__new__(metaclass, name, bases, namespace, **keywords)`
fn new_class(
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
    let body = Body::read(cx, namespace)?;
    let hooks = init_subclass(cx, &bases_of)?;
    if is_library_metaclass(cx, metaclass)? {
        if !body.exact || !body.told.is_empty() || hooks {
            let what = "an enumeration or a type of the typing module with values that are not known while tracing";
            return Err(refuse(what));
        }
        refuse_own_hooks(cx, &bases_of, &body.entries)?;
    }
    let namespace = cx.produce(Rc::new(DictVariable::new(body.entries, false)));
    let told = cx.tuple(body.told.iter().map(|(name, _)| *name).collect());
    let keywords_dict = DictVariable::from_keywords(cx, keywords.to_vec())?;
    let keywords_dict = cx.produce(keywords_dict);
    let parts = vec![metaclass, name, bases, namespace, keywords_dict, told];
    let class = make_stand_in(cx, &parts)?;
    let steps = Vec::new();
    let made = MadeClass { maker: Rc::new(maker(cx.py)?), parts, steps, exact: body.exact, writes: 0 };
    let this = cx.produce_made(Rc::new(ClassVariable::of(class.clone().unbind(), made.clone())), &class);
    if let Some(cell) = body.cell {
        cx.see(cell)?;
        cx.vars.set(cell, Rc::new(CellVariable::new(Some(this))));
        cx.effects.record(Effect::Cell { cell });
    }
    let made = MadeClass { writes: cx.effects.len(), ..made };
    cx.vars.set(this, Rc::new(ClassVariable::of(class.unbind(), made)));
    for (name, value) in body.told {
        object_model::call_special(cx, value, "__set_name__", &[this, name])?;
    }
    if hooks {
        let owner = library_super(cx, this)?;
        let given = CallArgs { positional: Vec::new(), keywords: keywords.to_vec() };
        cx.call_method_with(owner, "__init_subclass__", &given)?;
    }
    Ok(this)
}

fn refuse_bases(cx: &mut OpcodeExecutor<'_>, metaclass: VarId, bases: &[VarId]) -> Flow<()> {
    for &base in bases {
        // What is written to it is not there yet.
        if class_of(cx, base)?.is_none() || cx.effects.is_written(base) {
            return Err(refuse("a class with a base that was written to"));
        }
    }
    let order = held(cx, metaclass, "mro")?;
    if !order.is_some_and(|order| cx.py.get_type::<PyType>().getattr("mro").is_ok_and(|usual| usual.is(&order))) {
        return Err(refuse("a class whose metaclass orders its bases"));
    }
    Ok(())
}

/// What the body of a class statement has left in its namespace.
struct Body {
    entries: Vec<Entry>,
    /// The cell through which methods find the class.
    cell: Option<VarId>,
    /// Whether the class as it is while tracing has the values that it will have.
    exact: bool,
    /// The names of values that are told them, in a function of the program's, and the values.
    told: Vec<(VarId, VarId)>,
}

impl Body {
    fn read(cx: &mut OpcodeExecutor<'_>, namespace: VarId) -> Flow<Body> {
        let mut body =
            Body { entries: dict::expect(cx, namespace)?.entries.clone(), cell: None, exact: true, told: Vec::new() };
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
                body.told.push((cx.constant(key.unbind()), entry.value));
            }
        }
        Ok(body)
    }
}

/// The class as it is while tracing, made of stand-ins for what is not known.
fn make_stand_in<'py>(cx: &mut OpcodeExecutor<'py>, parts: &[VarId]) -> Flow<Bound<'py, PyAny>> {
    let mut exact = true;
    let real = parts.iter().map(|&part| stand_in::of(cx, part, &mut exact)).collect::<Flow<Vec<_>>>()?;
    let made = maker(cx.py)?.into_bound(cx.py).call1(PyTuple::new(cx.py, real)?);
    made.map_err(|error| cx.raise(error))
}

/// `super(class, class)`
fn library_super(cx: &mut OpcodeExecutor<'_>, class: VarId) -> Flow<VarId> {
    let function = cpython::import(cx.py, "builtins")?.getattr("super")?;
    cx.call_builtin(&function, &CallArgs::positional(vec![class, class]), false)
}

/// What a class holds under a name, which it is assumed to go on holding.
fn held<'py>(cx: &mut OpcodeExecutor<'py>, class: VarId, name: &str) -> Flow<Option<Bound<'py, PyAny>>> {
    let of = cx.vars.tracker(class);
    let Some(ty) = class_of(cx, class)? else { return Ok(None) };
    let found = object_model::lookup_in_type(cx, ty.as_any(), of, &Rc::from(name))?;
    Ok(found.map(|(found, tracker)| {
        object_model::guard_identity(cx, &found, tracker);
        found
    }))
}

/// Whether a base has an `__init_subclass__` of the program's, which is followed once the class is there.
fn init_subclass(cx: &mut OpcodeExecutor<'_>, bases: &[VarId]) -> Flow<bool> {
    for &base in bases {
        held(cx, base, "__init_subclass__")?;
        // One of the library's calls those behind it.
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

fn is_followed(hook: &Bound<'_, PyAny>) -> bool {
    let function = hook.getattr("__func__").unwrap_or_else(|_| hook.clone());
    function.is_exact_instance_of::<PyFunction>() && !is_of_library(&function)
}

/// Methods of the program's that the library's metaclasses call while they make the class.
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

impl MadeClass {
    /// What the class is made of.
    pub fn children(&self) -> Vec<VarId> {
        let steps = self.steps.iter().flat_map(|step| match step {
            Step::Attribute(_, value) => value.iter().copied().collect::<Vec<_>>(),
            Step::Call(_, args) => args.clone(),
        });
        self.parts.iter().copied().chain(steps).collect()
    }

    /// Emits code that makes the class anew.
    pub fn reconstruct(&self, cg: &mut CodeGen<'_, '_>, this: VarId) -> Flow<()> {
        cg.making_class(|cg| {
            let make = self.maker.clone_ref(cg.cx.py);
            cg.call(|cg| cg.load_const(make), &self.parts)?;
            cg.define(this)?;
            for step in &self.steps {
                match step {
                    Step::Attribute(name, value) => {
                        let hook = if value.is_some() { "__setattr__" } else { "__delattr__" };
                        let hook = cg.cx.py.get_type::<PyType>().getattr(hook)?.unbind();
                        let args: Vec<VarId> = [this, *name].into_iter().chain(*value).collect();
                        cg.call(|cg| cg.load_const(hook), &args)?;
                    }
                    Step::Call(function, args) => {
                        let function = function.clone_ref(cg.cx.py);
                        cg.call(|cg| cg.load_const(function), args)?;
                    }
                }
                cg.op("POP_TOP", 0)?;
            }
            Ok(())
        })
    }
}

/// The function that makes a class whose hooks were followed already.
fn maker(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static MAKER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || -> PyResult<Py<PyAny>> {
        let make =
            cpython::fastcall(py, "__make_class__", "A class whose hooks have run.", |_, values| match values {
                [metaclass, name, bases, namespace, keywords, told] => {
                    let (namespace, keywords) = (namespace.cast::<PyDict>()?, keywords.cast::<PyDict>()?);
                    Ok(make_class(metaclass, name, bases, namespace, keywords, told)?.unbind())
                }
                _ => Err(pyo3::exceptions::PyTypeError::new_err("the parts of a class are expected")),
            })?;
        Ok(make.unbind())
    };
    Ok(MAKER.get_or_try_init(py, make)?.clone_ref(py))
}

fn make_class<'py>(
    metaclass: &Bound<'py, PyAny>,
    name: &Bound<'py, PyAny>,
    bases: &Bound<'py, PyAny>,
    namespace: &Bound<'py, PyDict>,
    keywords: &Bound<'py, PyDict>,
    told: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = metaclass.py();
    let ty = py.get_type::<PyType>();
    if is_of_library(metaclass) && !metaclass.is(&ty) {
        let names = metaclass.getattr("__prepare__")?.call((name, bases), Some(keywords))?;
        for (key, value) in namespace.iter() {
            names.set_item(key, value)?;
        }
        return metaclass.call((name, bases, names), Some(keywords));
    }
    let namespace = namespace.copy()?;
    let mut late = Vec::new();
    for key in told.try_iter()? {
        let key = key?;
        late.push((key.clone(), namespace.get_item(&key)?));
        namespace.set_item(key, py.None())?;
    }
    let silenced = silence(bases)?;
    let class = ty.getattr("__new__")?.call((metaclass, name, bases, namespace), Some(keywords));
    for (owner, hook) in silenced {
        ty.call_method1("__setattr__", (owner, "__init_subclass__", hook))?;
    }
    let class = class?;
    for (key, value) in late {
        ty.call_method1("__setattr__", (&class, key, value))?;
    }
    Ok(class)
}

#[pyfunction]
#[pyo3(signature = (*_args, **_keywords))]
fn nothing(_args: &Bound<'_, PyTuple>, _keywords: Option<&Bound<'_, PyDict>>) {}

/// Lets no base of a class that is about to be made be told of it, and gives the bases with what they had: C code makes the
/// class, so nothing of the program runs in between.
fn silence<'py>(bases: &Bound<'py, PyAny>) -> PyResult<Vec<(Bound<'py, PyType>, Bound<'py, PyAny>)>> {
    let py = bases.py();
    let mut silenced = Vec::new();
    for base in bases.try_iter()? {
        let Ok(base) = base?.cast_into::<PyType>() else { continue };
        for owner in base.mro().iter().filter_map(|owner| owner.cast_into::<PyType>().ok()) {
            let hook = cpython::class_dict(&owner)?.get_item("__init_subclass__").ok();
            if let Some(hook) = hook.filter(is_followed) {
                let nothing = wrap_pyfunction!(nothing, py)?;
                py.get_type::<PyType>().call_method1("__setattr__", (&owner, "__init_subclass__", nothing))?;
                silenced.push((owner, hook));
            }
        }
    }
    Ok(silenced)
}
