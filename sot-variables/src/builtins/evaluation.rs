//! `compile` of a known text; `eval` and `exec`, which run code with its names in dicts, in a frame like that of a
//! class body.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCode, PyDict, PyString};

use sot_core::builtin;
use sot_core::bytecode::flags::{NESTED, OPTIMIZED, SUSPENDS};
use sot_core::cpython;
use sot_core::error::{Flow, Reason, ReasonId, Unwind};
use sot_core::executor::{names, CallArgs, CodeUnit, Exit, Frame, Globals, OpcodeExecutor};
use sot_core::tracker::Tracker;
use sot_core::variable::VarId;

use super::{cannot, frame, given, required};
use crate::containers::dict::DictVariable;
use crate::globals::GlobalsVariable;

builtin! { COMPILE = "compile" => |cx, args| compile(cx, args) }
builtin! { EVAL = "eval" => |cx, args| run(cx, "eval", args) }
builtin! { EXEC = "exec" => |cx, args| run(cx, "exec", args) }

/// `PyCF_ONLY_AST`
const ONLY_AST: i64 = 0x400;

fn compile(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let names = ["source", "filename", "mode", "flags", "dont_inherit", "optimize"];
    let [source, file, mode, flags, alone, optimize] = args.named("compile", names, 3)?;
    let unknown = || cannot("compile() of something that is not known while tracing");
    let source = text(cx, required(source)?)?.ok_or_else(unknown)?;
    let mut known = Vec::new();
    for value in [file, mode] {
        let value = cx.known(required(value)?)?;
        known.push(value.filter(PyAnyMethods::is_exact_instance_of::<PyString>).ok_or_else(unknown)?);
    }
    let mut number = |value: Option<VarId>, usual: i64| match value {
        Some(value) => cx.known_int(value)?.ok_or_else(unknown),
        None => Ok(usual),
    };
    let (flags, alone, optimize) = (number(flags, 0)?, number(alone, 0)?, number(optimize, -1)?);
    if flags & ONLY_AST != 0 {
        return Err(cannot("compile() to a syntax tree"));
    }
    let inherited = if alone == 0 { future_flags(cx)? } else { 0 };
    let compile = super::builtin_object(cx.py, "compile")?;
    let (file, mode) = (known[0].clone(), known[1].clone());
    cx.fold(|_| compile.call1((source, file, mode, flags | inherited, true, optimize)))
}

/// Returns a known source text.
fn text<'py>(cx: &mut OpcodeExecutor<'py>, source: VarId) -> Flow<Option<Bound<'py, PyAny>>> {
    let source = cx.known(source)?;
    Ok(source.filter(|text| text.is_exact_instance_of::<PyString>() || text.is_exact_instance_of::<PyBytes>()))
}

/// Returns the `__future__` flags of the frame's code, which code compiled by it inherits.
fn future_flags(cx: &OpcodeExecutor<'_>) -> Flow<i64> {
    let future = cpython::import(cx.py, "__future__")?;
    let mut all = 0_u32;
    for name in future.getattr("all_feature_names")?.try_iter()? {
        all |= future
            .getattr(name?.cast_into::<PyString>().map_err(PyErr::from)?)?
            .getattr("compiler_flag")?
            .extract::<u32>()?;
    }
    Ok(i64::from(cx.stack.frame().code.code.flags & all & !NESTED))
}

/// Simulates `eval(source, globals, locals)` and `exec`.
fn run(cx: &mut OpcodeExecutor<'_>, name: &str, args: &CallArgs) -> Flow<VarId> {
    let [source, globals, locals] = args.named(name, ["source", "globals", "locals"], 1)?;
    // Before 3.13, globals and locals are positional only; CPython raises the error.
    if !args.keywords.is_empty() {
        return Err(cannot("eval() or exec() with keyword arguments"));
    }
    let (globals, locals) = (given(cx, globals)?, given(cx, locals)?);
    let reads_frame = globals.is_none();
    if reads_frame {
        cx.note_frame_read();
    }
    let outcome = code_of(cx, name, required(source)?).and_then(|code| evaluate(cx, code, globals, locals));
    match outcome {
        Err(Unwind::BreakGraph(_)) if reads_frame => {
            let text = format!("{name}() reads the frame's variables");
            Err(cx.stack.leave_to_cpython(Reason::new(ReasonId::UnsupportedFrame, text)))
        }
        Ok(_) if name == "exec" => Ok(cx.trace.none()),
        outcome => outcome,
    }
}

/// Returns the code object to run.
fn code_of(cx: &mut OpcodeExecutor<'_>, name: &str, source: VarId) -> Flow<Rc<CodeUnit>> {
    let code = match cx.known(source)? {
        Some(code) if code.is_exact_instance_of::<PyCode>() => code,
        _ => {
            let source = text(cx, source)?;
            let source =
                source.ok_or_else(|| cannot("eval() or exec() of something that is not known while tracing"))?;
            let source = if name == "eval" { source.call_method1("lstrip", (blank(&source),))? } else { source };
            let flags = future_flags(cx)?;
            let compile = super::builtin_object(cx.py, "compile")?;
            let code = cx.fold(|_| compile.call1((source, "<string>", name, flags, true)))?;
            cx.known(code)?.ok_or_else(|| cannot("eval() or exec() of something that is not known while tracing"))?
        }
    };
    let unit = cx.code_unit(&code)?;
    if unit.code.flags & (OPTIMIZED | SUSPENDS) != 0 || !unit.code.freevars.is_empty() {
        return Err(cannot("eval() or exec() of the code of a function"));
    }
    Ok(unit)
}

/// Returns the characters that `eval` strips from the start of a text.
fn blank<'py>(source: &Bound<'py, PyAny>) -> Bound<'py, PyAny> {
    if source.is_instance_of::<PyBytes>() {
        PyBytes::new(source.py(), b" \t").into_any()
    } else {
        PyString::new(source.py(), " \t").into_any()
    }
}

fn evaluate(
    cx: &mut OpcodeExecutor<'_>,
    code: Rc<CodeUnit>,
    globals: Option<VarId>,
    locals: Option<VarId>,
) -> Flow<VarId> {
    let mut frame = match globals {
        Some(names) => frame_in(cx, code, names)?,
        None => {
            let mut frame = Frame::new(code, cx.stack.frame().globals.share(cx.py));
            frame.global_names = cx.stack.frame().global_names;
            frame
        }
    };
    let names = match (locals, globals) {
        (Some(names), _) | (None, Some(names)) => names,
        (None, None) => frame::variables(cx)?,
    };
    if !is_plain(cx, names)? {
        return Err(cannot("eval() or exec() with variables that are not in a dict"));
    }
    frame.namespace = Some(names);
    cx.claims.take();
    cx.trace.make_cells(&mut frame, &[]);
    match cx.run_frame(frame)?.0 {
        Exit::Return(value) => Ok(value),
        Exit::Yield(_) => Err(cannot("eval() of code that yields")),
    }
}

/// True if the value is a dict, and not of a subclass.
fn is_plain(cx: &mut OpcodeExecutor<'_>, names: VarId) -> Flow<bool> {
    let is_dict = cx.type_of(names)?.is(cx.py.get_type::<PyDict>());
    Ok(is_dict && (cx.see_as::<GlobalsVariable>(names)?.is_some() || cx.see_as::<DictVariable>(names)?.is_some()))
}

/// Returns a frame with a dict as its globals: the dict of a module, or another dict, to which `__builtins__` is
/// added.
fn frame_in(cx: &mut OpcodeExecutor<'_>, code: Rc<CodeUnit>, names: VarId) -> Flow<Frame> {
    if !is_plain(cx, names)? {
        return Err(cannot("eval() or exec() with globals that are not in a dict"));
    }
    let builtins = cpython::import(cx.py, "builtins")?;
    let foreign = || cannot("eval() or exec() with builtins of its own");
    if let Some(module) = cx.see_as::<GlobalsVariable>(names)? {
        let globals = module.globals(cx.py);
        let dict = globals.dict.bind(cx.py).clone();
        let own = dict.get_item("__builtins__")?;
        if !own.is_some_and(|own| own.is(&builtins) || own.is(builtins.dict())) {
            return Err(foreign());
        }
        let globals = names::globals_of(cx, &dict, Some(globals.tracker))?;
        return Ok(Frame::new(code, globals));
    }
    let key = cx.trace.string("__builtins__");
    let has_builtins = cx.contains(names, key, false)?;
    if cx.truth(has_builtins)? {
        let own = cx.get_item(names, key)?;
        let own = cx.see(own)?.object().map(|own| own.clone_ref(cx.py));
        if !own.is_some_and(|own| own.is(&builtins) || own.is(builtins.dict())) {
            return Err(foreign());
        }
    } else {
        let tracker = cx.trace.trackers.add(Tracker::Builtins);
        let own = cx.trace.wrap(builtins.dict().as_any(), tracker);
        cx.set_item(names, key, own)?;
    }
    // A placeholder that no code can reach: the names are in the trace's own dict.
    let tracker = cx.trace.trackers.add(Tracker::Produced);
    let mut frame = Frame::new(code, Globals { dict: PyDict::new(cx.py).unbind(), tracker });
    frame.global_names = Some(names);
    Ok(frame)
}
