//! `print` of known values. The texts are made while tracing. The call is replayed after the graph, in order with the
//! other side effects. An open number is printed with its value in each call.

use pyo3::prelude::*;

use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::{Flow, Unwind};
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::side_effects::Effect;
use sot_core::variable::{Form, VarId};

use super::output_guard::{self, TextCharacters};
use super::{builtin_object, cannot, is_none, original_builtin};
use crate::containers::c_state::CStateVariable;

builtin! { PRINT = "print" => |cx, args| {
    let mut texts = Vec::with_capacity(args.positional.len());
    for &arg in &args.positional {
        texts.push(text(cx, arg)?);
    }
    let mut written = texts.clone();
    written.extend(args.keywords.iter().filter(|(name, _)| matches!(&**name, "sep" | "end")).map(|(_, text)| *text));
    let Some(file) = file(cx, args)? else {
        refuse_options(cx, args)?;
        let taken = TextCharacters::that_must_be_taken(cx, &written)?;
        if !output_guard::guard_stdout(cx, taken)? {
            return Err(cannot("print() to a file of the program's own, or where one that may fail is in a try"));
        }
        let callable = original_builtin(cx, "print")?;
        cx.trace.effects.record(Effect::Call { callable, args: texts, keywords: args.keywords.clone() });
        return Ok(cx.trace.none());
    };
    let others = args.keywords.iter().filter(|(name, _)| &**name != "file").cloned().collect();
    let mut options = CallArgs { positional: Vec::new(), keywords: others };
    refuse_options(cx, &options)?;
    if is_plain_file(cx, file)? {
        if let Some(texts) = TextCharacters::that_must_be_taken(cx, &written)? {
            if !output_guard::guard_file_takes_texts(cx, file, texts)? {
                return Err(cannot("print() to a file that may fail, where exceptions are caught"));
            }
        }
        let callable = original_builtin(cx, "print")?;
        options.keywords.push(("file".into(), file));
        cx.trace.effects.record(Effect::Call { callable, args: texts, keywords: options.keywords });
    } else {
        print_to(cx, file, &texts, &options)?;
    }
    Ok(cx.trace.none())
} }

/// Returns the file to print to; `None` for the `sys.stdout` from before the trace.
fn file(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<Option<VarId>> {
    for (name, value) in &args.keywords {
        if &**name == "file" && !is_none(cx, *value)? {
            return Ok(Some(*value));
        }
    }
    Ok(cx.trace.effects.global(&cpython::import(cx.py, "sys")?.dict().unbind(), &"stdout".into()).flatten())
}

/// Simulates `print` to a `StringIO` made in the trace: calls `write` with each text.
fn print_to(cx: &mut OpcodeExecutor<'_>, file: VarId, texts: &[VarId], options: &CallArgs) -> Flow<()> {
    if cx.see_as::<CStateVariable>(file)?.is_none() {
        return Err(cannot("print() to a file of the program's own"));
    }
    let option = |name: &str| options.keywords.iter().find(|(option, _)| &**option == name).map(|(_, value)| *value);
    let mut ends = Vec::new();
    for (name, usual) in [("sep", " "), ("end", "\n")] {
        ends.push(match option(name) {
            Some(given) if !is_none(cx, given)? => given,
            _ => cx.trace.string(usual),
        });
    }
    for (at, &text) in texts.iter().enumerate() {
        if at > 0 {
            cx.call_method(file, "write", &[ends[0]])?;
        }
        cx.call_method(file, "write", &[text])?;
    }
    cx.call_method(file, "write", &[ends[1]])?;
    match option("flush") {
        Some(flush) if cx.truth(flush)? => cx.call_method(file, "flush", &[]).map(drop),
        _ => Ok(()),
    }
}

/// Breaks the graph for options of `print` that are not known or not accepted, and for a file whose writes the
/// program could observe.
pub(super) fn refuse_options(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<()> {
    for (name, value) in &args.keywords {
        let fits = match &**name {
            "sep" | "end" => is_none(cx, *value)? || cx.known_str(*value)?.is_some(),
            "flush" => cx.known(*value)?.is_some(),
            "file" => prints_to_real_stdout(cx, *value)? || is_plain_file(cx, *value)?,
            _ => false,
        };
        if !fits {
            return Err(cannot(&format!("print() with this {name}")));
        }
    }
    Ok(())
}

/// True if `file` is `None`, the trace has not replaced `sys.stdout`, and writing there runs no code of the program.
fn prints_to_real_stdout(cx: &mut OpcodeExecutor<'_>, file: VarId) -> Flow<bool> {
    let written = cx.trace.effects.global(&cpython::import(cx.py, "sys")?.dict().unbind(), &"stdout".into());
    Ok(is_none(cx, file)? && written.is_none() && output_guard::guard_stdout(cx, None)?)
}

fn is_plain_file(cx: &mut OpcodeExecutor<'_>, file: VarId) -> Flow<bool> {
    let tracker = cx.trace.vars.tracker(file);
    let payload = cx.see(file)?;
    let Some(object) = payload.object() else { return Ok(false) };
    Ok(cx.trace.trackers.is_loadable(tracker) && output_guard::writes_without_program_code(object.bind(cx.py))?)
}

/// Returns the text of a value to print, made now, because containers may change before the replay.
pub(super) fn text(cx: &mut OpcodeExecutor<'_>, value: VarId) -> Flow<VarId> {
    let str = builtin_object(cx.py, "str")?;
    if let Some(text) = cx.lazy_call(&str, &[value])? {
        return Ok(text);
    }
    match cx.materialize(value)? {
        Some(value) => cx.fold(|_| Ok(value.str()?.into_any())),
        None => text_by_the_program(cx, &str, value),
    }
}

/// Returns the text of an object whose `__str__` is inlined, if `__str__` has no side effects.
fn text_by_the_program<'py>(cx: &mut OpcodeExecutor<'py>, str: &Bound<'py, PyAny>, value: VarId) -> Flow<VarId> {
    if cx.see(value)?.form() == Form::Tensor {
        return Err(cannot("print() of a value that is not known while tracing"));
    }
    let before = cx.trace.effects.len();
    let tracker = cx.trace.trackers.constant(str.clone().unbind());
    let str = cx.trace.wrap(str, tracker);
    match cx.call(str, &CallArgs::positional(vec![value])) {
        Ok(text) if cx.trace.effects.len() == before && cx.known_str(text)?.is_some() => Ok(text),
        Ok(_) | Err(Unwind::Raise(_) | Unwind::BreakGraph(_)) => {
            Err(cannot("print() of a value that is not known while tracing"))
        }
        Err(other) => Err(other),
    }
}
