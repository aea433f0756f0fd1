//! Functions that read the calling frame: `locals`, `vars`, `dir` and `globals`. Also functions that expose frames to
//! the program or to a debugger.

use std::collections::BTreeSet;
use std::rc::Rc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyFunction, PyString, PyType};

use sot_core::builtin;
use sot_core::bytecode::flags::{NESTED, OPTIMIZED};
use sot_core::cpython;
use sot_core::error::{Extent, Flow, Reason, ReasonId, Unwind};
use sot_core::executor::{names, object_model, CallArgs, Frame, Globals, Name, OpcodeExecutor, Trace, TracedFrame};
use sot_core::guard::Test;
use sot_core::language::LANGUAGE;
use sot_core::tracker::{ById, Tracker};
use sot_core::translate;
use sot_core::variable::Rebuild;
use sot_core::variable::{Form, VarId, Variable};

use super::{builtin_object, cannot};
use crate::containers::dict::{self, DictVariable};
use crate::containers::hash_key::HashKey;
use crate::functions::cell::CellVariable;
use crate::iterators::{library, or_object_type};

builtin! { LOCALS = "locals" => |cx, args| {
    let [] = args.exactly("locals")?;
    variables(cx)
} }

builtin! { VARS = "vars" => |cx, args| match args.positional[..] {
    [] if args.keywords.is_empty() => variables(cx),
    [object] if args.keywords.is_empty() => match own_dict(cx, object)? {
        Some(names) => Ok(names),
        None => Err(cx.raise(PyTypeError::new_err("vars() argument must have __dict__ attribute"))),
    },
    _ => Err(cannot("vars() with these arguments")),
} }

builtin! { GLOBALS = "globals" => |cx, args| {
    let [] = args.exactly("globals")?;
    if let Some(names) = cx.stack.frame().global_names {
        return Ok(names);
    }
    let globals = cx.stack.frame().globals.share(cx.py);
    Ok(variables_of_module(cx, &globals))
} }

builtin! { DIR = "dir" => |cx, args| match args.positional[..] {
    [] if args.keywords.is_empty() => {
        let names = variables(cx)?;
        sorted(cx, names)
    }
    [object] if args.keywords.is_empty() => dir(cx, object),
    _ => Err(cannot("dir() with these arguments")),
} }

builtin! { GETFRAME = "sys:_getframe" => |cx, args| {
    let refuse = || of_frames("sys._getframe()", SHOWS);
    let depth = depth_of(cx, args)?;
    let above = cx.stack.len().checked_sub(depth + 1).ok_or_else(refuse)?;
    if cx.stack[above].global_names.is_some() {
        return Err(refuse());
    }
    let place = cx.stack.traced_frame(above, cx.py);
    Ok(view(cx, &place))
} }

builtin! { GETFRAMEMODULENAME = "sys:_getframemodulename"? => |cx, args| {
    let depth = depth_of(cx, args)?;
    module_of(cx, depth)
} }

fn module_of(cx: &mut OpcodeExecutor<'_>, depth: usize) -> Flow<VarId> {
    let refuse = || of_frames("sys._getframemodulename()", SHOWS);
    let frame = caller(cx, depth).ok_or_else(refuse)?;
    let function = frame.function.ok_or_else(refuse)?;
    let (outermost, nested) = (depth + 1 == cx.stack.len(), frame.code.code.flags & NESTED != 0);
    // Translations of the outermost frame are shared by all functions of the same code, which may differ in the
    // module.
    if outermost && nested {
        return Err(refuse());
    }
    let name = Rc::from("__module__");
    let module = cx.get_attr(function, &name)?;
    if let Some(function) = cx.see(function)?.object().filter(|_| outermost) {
        let of = Tracker::GuardedKey(ById(function.clone_ref(cx.py)));
        let of = cx.trace.trackers.add(of);
        let tracker = cx.trace.trackers.add(Tracker::Getattr { of, name });
        let value = cx.known(module)?.ok_or_else(refuse)?;
        cx.trace.guards.add(tracker, Test::Equals(value.unbind()));
    }
    Ok(module)
}

/// Returns the module in which the library takes the caller to be: the function's `__module__` from 3.12 on,
/// `__name__` of its globals before.
pub(crate) fn module_of_caller(cx: &mut OpcodeExecutor<'_>) -> Flow<VarId> {
    let by_function = cpython::import(cx.py, "sys")?.hasattr("_getframemodulename")?;
    let module = if by_function { Some(module_of(cx, 0)?) } else { names::find_global(cx, &Rc::from("__name__"))? };
    match module {
        Some(module) if cx.truth(module)? => Ok(module),
        _ => Ok(cx.trace.string("__main__")),
    }
}

builtin! { BREAKPOINT = "breakpoint" => |_cx, _args| Err(of_frames("breakpoint()", SHOWS)) }
builtin! { PDB = "pdb:set_trace" => |_cx, _args| Err(of_frames("pdb.set_trace()", SHOWS)) }
builtin! { SETTRACE = "sys:settrace" => |_cx, _args| Err(of_frames("sys.settrace()", TELLS)) }
builtin! { SETPROFILE = "sys:setprofile" => |_cx, _args| Err(of_frames("sys.setprofile()", TELLS)) }

sot_core::variable_kind! { "frame" }

/// A frame object of the trace. Only its code and its globals can be read.
struct FrameVariable {
    place: Rc<TracedFrame>,
}

/// Returns the variable of a frame; there is a single one for each frame.
pub(crate) fn view(cx: &mut OpcodeExecutor<'_>, place: &Rc<TracedFrame>) -> VarId {
    let is_it = |frame: &FrameVariable| Rc::ptr_eq(&frame.place, place);
    cx.trace.view_of(Rc::as_ptr(place) as usize, is_it, || FrameVariable { place: Rc::clone(place) })
}

impl Variable for FrameVariable {
    fn kind(&self) -> &'static str {
        "frame"
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        let ty = library(trace.py, "types", "FrameType").map(|ty| ty.into_bound(trace.py));
        or_object_type(trace, ty)
    }

    fn text(&self, _: &Trace<'_>) -> String {
        "FrameVariable".to_owned()
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, name: &Name) -> Flow<Option<VarId>> {
        match &**name {
            "f_globals" => Ok(Some(variables_of_module(cx, &self.place.globals))),
            "f_code" => {
                let code = self.place.code.object.bind(cx.py).clone();
                let tracker = cx.trace.found_tracker(&code);
                Ok(Some(cx.trace.wrap(&code, tracker)))
            }
            _ => Err(of_frames("sys._getframe()", SHOWS)),
        }
    }

    fn reconstruct(&self, _: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        Err(of_frames("sys._getframe()", SHOWS))
    }
}

/// Returns the argument of `sys._getframe`, the number of frames to go up. It is 0 by default.
fn depth_of(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<usize> {
    let depth = match args.positional[..] {
        [] => Some(0),
        [depth, ..] => cx.known_int(depth)?,
    };
    let depth = depth.filter(|_| args.positional.len() < 2 && args.keywords.is_empty());
    let depth =
        depth.and_then(|depth| usize::try_from(depth).ok()).ok_or_else(|| of_frames("sys._getframe()", SHOWS))?;
    refuse_unknown_caller(cx, "sys._getframe()", i64::try_from(depth).ok().map(|depth| depth.saturating_add(1)))?;
    Ok(depth)
}

/// Returns the frame of the trace that is `depth` calls above the running one.
fn caller<'a>(cx: &'a OpcodeExecutor<'_>, depth: usize) -> Option<&'a Frame> {
    cx.stack.iter().rev().nth(depth)
}

fn variables_of_module(cx: &mut OpcodeExecutor<'_>, globals: &Globals) -> VarId {
    let dict = globals.dict.bind(cx.py).clone();
    cx.trace.wrap(dict.as_any(), globals.tracker)
}

const SHOWS: &str = "shows the frames of its callers, with their variables";
const TELLS: &str = "has each frame told of that begins from there on";

/// Library functions that look for variables in the frames of their callers, after code that cannot be inlined. By
/// module and qualified name.
const FRAME_INSPECTORS: &[(&str, &[&str])] = &[
    ("numexpr.necompiler", &["evaluate", "re_evaluate", "validate"]),
    ("pandas.core.computation.eval", &["eval"]),
    ("pandas.core.frame", &["DataFrame.eval", "DataFrame.query"]),
];

/// Falls back at a function that looks for variables in the frames of its callers.
pub(crate) fn refuse_frame_inspection(function: &Bound<'_, PyFunction>) -> Flow<()> {
    let text = |name: &str| function.getattr(name).and_then(|text| text.extract::<String>()).unwrap_or_default();
    let module = text("__module__");
    let Some((_, names)) = FRAME_INSPECTORS.iter().find(|(inspector, _)| *inspector == module) else { return Ok(()) };
    let name = text("__qualname__");
    if names.contains(&&*name) {
        return Err(of_frames(&format!("{module}.{name}()"), "looks for variables in the frames of its callers"));
    }
    Ok(())
}

/// Returns a fallback. New code has variables of its own, inlined functions have no frames, and a resume function is
/// an additional frame. Functions that observe frames therefore need CPython to run all of them.
fn of_frames(function: &str, what: &str) -> Unwind {
    Unwind::fallback(ReasonId::UnsupportedFrame, format!("{function} {what}"))
}

/// Breaks the graph at a function that names the `level`-th frame, counted from the running one, which is the first. In
/// between may be Python functions without a frame in the trace, such as `copy.deepcopy`. `None` for a level that is
/// not known.
pub(super) fn refuse_unknown_caller(cx: &OpcodeExecutor<'_>, function: &str, level: Option<i64>) -> Flow<()> {
    let calls = level.map_or(usize::MAX, |level| usize::try_from(level.saturating_sub(1)).unwrap_or(0));
    if cx.stack.has_callers(calls) {
        return Ok(());
    }
    let text = format!("{function} counts the frames of its callers, some of which are those of a library");
    let reason = Reason::new(ReasonId::UnsupportedFrame, text);
    Err(Unwind::BreakGraph(Box::new(Reason { extent: Extent::InstructionInItsStack, ..reason })))
}

/// Simulates `locals()`: returns a dict of the bound variables. Before 3.13 each frame has a single dict, which each
/// call updates.
pub(super) fn variables(cx: &mut OpcodeExecutor<'_>) -> Flow<VarId> {
    if let Some(names) = cx.stack.frame().namespace {
        return Ok(names);
    }
    let unit = Rc::clone(&cx.stack.frame().code);
    let code = unit.object.bind(cx.py).cast::<PyCode>().map_err(PyErr::from)?;
    if unit.code.flags & OPTIMIZED == 0 || translate::is_resume_function(code) {
        let text = "locals() reads the frame's variables";
        return Err(cx.stack.leave_to_cpython(Reason::new(ReasonId::UnsupportedFrame, text)));
    }
    let lasting = LANGUAGE.has_lasting_locals;
    let known = cx.stack.frame().variables.filter(|_| lasting);
    let mut entries = match known {
        Some(known) => dict::expect(cx, known)?.entries.clone(),
        None => Vec::new(),
    };
    for (name, value) in bindings(cx)? {
        let key = cx.trace.string(&name);
        let key = HashKey::of(cx, key)?;
        match value {
            Some(value) => dict::put(cx, &mut entries, key, value)?,
            None => {
                if let Some(at) = dict::find(cx, &entries, &key)? {
                    entries.remove(at);
                }
            }
        }
    }
    match known {
        Some(known) => {
            dict::write(cx, known, entries)?;
            Ok(known)
        }
        None => {
            let made = cx.trace.produce(Rc::new(DictVariable::new(entries, false)));
            cx.stack.frame_mut().variables = Some(made);
            Ok(made)
        }
    }
}

/// Returns the variables of the frame in CPython's order. From 3.11 on, a parameter that is a cell variable keeps its
/// place among the locals.
fn bindings(cx: &mut OpcodeExecutor<'_>) -> Flow<Vec<(Rc<str>, Option<VarId>)>> {
    let unit = Rc::clone(&cx.stack.frame().code);
    let (locals, cells) = (cx.stack.frame().locals.clone(), cx.stack.frame().cells.clone());
    let one_list = LANGUAGE.has_one_list_of_variables;
    let names = unit.code.cellvars.iter().chain(&unit.code.freevars);
    let mut boxed = Vec::new();
    for (name, &cell) in names.zip(&cells) {
        let contents = match cx.see_as::<CellVariable>(cell)? {
            Some(cell) => cell.contents(),
            None => None,
        };
        boxed.push((Rc::from(name.as_str()), contents));
    }
    let mut found: Vec<(Rc<str>, Option<VarId>)> = Vec::new();
    for (name, value) in unit.varnames().iter().zip(locals) {
        match boxed.iter().position(|(boxed, _)| boxed == name) {
            Some(at) if one_list => found.push(boxed.remove(at)),
            Some(_) => {}
            None => found.push((Rc::clone(name), value)),
        }
    }
    found.extend(boxed);
    Ok(found)
}

fn sorted(cx: &mut OpcodeExecutor<'_>, names: VarId) -> Flow<VarId> {
    let function = builtin_object(cx.py, "sorted")?;
    let tracker = cx.trace.trackers.constant(function.clone().unbind());
    let function = cx.trace.wrap(&function, tracker);
    cx.call(function, &CallArgs::positional(vec![names]))
}

/// Simulates `dir(object)`: calls `__dir__` of the program, folds `dir` for types in C, and collects the names
/// otherwise.
fn dir(cx: &mut OpcodeExecutor<'_>, object: VarId) -> Flow<VarId> {
    let ty = cx.type_of(object)?.cast_into::<PyType>().map_err(PyErr::from)?;
    if object_model::is_python_method(cx, object, "__dir__")? {
        let names = object_model::call_special(cx, object, "__dir__", &[])?;
        return sorted(cx, names);
    }
    let sample = match cx.materialize(object)? {
        Some(known) => Some(known),
        None if matches!(cx.see(object)?.form(), Form::List | Form::Dict | Form::Set) => ty.call0().ok(),
        None => None,
    };
    let in_c = |sample: &Bound<'_, PyAny>| match sample.cast::<PyType>() {
        Ok(class) => !cpython::is_heap_type(class),
        Err(_) => !cpython::is_heap_type(&sample.get_type()),
    };
    match sample.filter(in_c) {
        Some(sample) => {
            let dir = builtin_object(cx.py, "dir")?;
            cx.fold(|_| dir.call1((sample,)))
        }
        None => {
            let mut names = BTreeSet::new();
            collect_names(cx, object, &ty, &mut names)?;
            let names = names.iter().map(|name| cx.trace.string(name)).collect();
            Ok(cx.trace.list(names))
        }
    }
}

/// Reads `__dict__` of an object; `None` if that raises an `AttributeError`.
fn own_dict(cx: &mut OpcodeExecutor<'_>, object: VarId) -> Flow<Option<VarId>> {
    match cx.find_attr(object, &Rc::from("__dict__")) {
        Err(Unwind::Raise(error)) if object_model::is_attribute_error(cx, error)? => Ok(None),
        found => found,
    }
}

/// Collects the names that `object.__dir__`, or `type.__dir__` for a class, finds: those of the object and of the
/// classes in its MRO.
fn collect_names(
    cx: &mut OpcodeExecutor<'_>,
    object: VarId,
    ty: &Bound<'_, PyType>,
    names: &mut BTreeSet<String>,
) -> Flow<()> {
    let class = cx.see(object)?.object().and_then(|object| object.bind(cx.py).clone().cast_into::<PyType>().ok());
    let usual = if class.is_some() { cx.py.get_type::<PyType>() } else { cx.py.get_type::<PyAny>() };
    let usual = usual.getattr("__dict__")?.get_item("__dir__")?;
    let own = cpython::type_lookup(ty, &PyString::intern(cx.py, "__dir__"));
    if !own.is_some_and(|own| own.is(&usual)) || object_model::has_own_class(cx, object)? {
        return Err(cannot("dir() of an object of the program's"));
    }
    let (class, variable) = match class {
        Some(class) => (class, object),
        None => {
            if let Some(attributes) = own_dict(cx, object)? {
                let ty = cx.type_of(attributes)?;
                if ty.cast::<PyType>().is_ok_and(|ty| ty.is_subclass_of::<PyDict>().unwrap_or(false)) {
                    collect_keys(cx, attributes, names)?;
                }
            }
            (ty.clone().unbind().into_bound(cx.py), object_model::type_variable(cx, object)?)
        }
    };
    for (at, base) in class.mro().iter().enumerate() {
        let base = base.cast_into::<PyType>().map_err(PyErr::from)?;
        if !cpython::is_heap_type(&base) {
            for name in cpython::class_dict(&base)?.try_iter()? {
                names.insert(name?.extract()?);
            }
            continue;
        }
        let base = if at == 0 {
            variable
        } else {
            let order = cx.get_attr(variable, &Rc::from("__mro__"))?;
            cx.unpack_all(order)?[at]
        };
        let held = cx.get_attr(base, &Rc::from("__dict__"))?;
        collect_keys(cx, held, names)?;
    }
    Ok(())
}

fn collect_keys(cx: &mut OpcodeExecutor<'_>, mapping: VarId, names: &mut BTreeSet<String>) -> Flow<()> {
    for key in cx.unpack_all(mapping)? {
        let name = cx.known_str(key)?.ok_or_else(|| cannot("dir() of an object with keys that are no names"))?;
        names.insert(name);
    }
    Ok(())
}
