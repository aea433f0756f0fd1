//! `warnings.warn` of known values. If the trace has not changed the filters, the warning is replayed after the
//! graph, in order with the other side effects, with file and line of the program's call. If the trace has changed
//! them (`catch_warnings`), the effect of a warning is known: functions of the library are inlined, and changes of C
//! state are replayed.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyType};

use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::{Flow, Unwind};
use sot_core::executor::{CallArgs, Name, OpcodeExecutor};
use sot_core::resume;
use sot_core::side_effects::Effect;
use sot_core::variable::VarId;

use super::frame::refuse_unknown_caller;
use super::output::{frame_at, place, replayed};
use super::{builtin_object, cannot, is_none, output_guard, required};
use crate::containers::list::ListVariable;
use crate::containers::tuple::TupleVariable;

builtin! { WARN = "warnings:warn" => |cx, args| warn(cx, args) }

// Invalidates the registries of warnings that were shown before.
builtin! { FILTERS_MUTATED = "_warnings:_filters_mutated" => |cx, args| {
    let [] = args.exactly("_filters_mutated")?;
    let function = cpython::import(cx.py, "_warnings")?.getattr("_filters_mutated")?;
    let callable = cx.wrap_fresh(&function)?;
    cx.trace.effects.record(Effect::Call { callable, args: Vec::new(), keywords: Vec::new() });
    switch_filters(cx)?;
    Ok(cx.trace.none())
} }

fn module(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    cpython::import(py, "warnings")
}

/// Returns an attribute of the module `warnings`, including writes of the trace.
fn state(cx: &mut OpcodeExecutor<'_>, name: &str) -> Flow<VarId> {
    let module = module(cx.py)?.into_any();
    let tracker = cx.trace.trackers.constant(module.clone().unbind());
    let module = cx.trace.wrap(&module, tracker);
    cx.get_attr(module, &Rc::from(name))
}

/// True if the trace has announced a change of the filters.
fn are_filters_touched(cx: &mut OpcodeExecutor<'_>) -> Flow<bool> {
    let changed = cpython::import(cx.py, "_warnings")?.getattr("_filters_mutated")?;
    let is_call = |effect: &Effect| match effect {
        Effect::Call { callable, .. } => {
            cx.trace.vars.get(*callable).object().is_some_and(|object| object.is(&changed))
        }
        _ => false,
    };
    Ok(cx.trace.effects.log().iter().any(is_call))
}

/// Installs the trace's filters as the real ones until the end of the trace, because the framework may warn while the
/// graph is built. A warning that the program would record is turned into an error, so that the operation is left to
/// CPython.
fn switch_filters(cx: &mut OpcodeExecutor<'_>) -> Flow<()> {
    let warnings = module(cx.py)?;
    let before = warnings.getattr("filters")?;
    let filters = state(cx, "filters")?;
    let written = cx.trace.effects.written().any(|written| written == filters);
    let own = cx.trace.vars.get(filters).object().map(|object| object.bind(cx.py).clone()).filter(|_| !written);
    let real = match own {
        Some(own) => own,
        None => match real_filters(cx, filters)? {
            Some(real) => {
                // Code that reads the filters gets the trace's variable.
                cx.trace.identities.insert(&real, filters);
                real.into_any()
            }
            None => return Ok(()),
        },
    };
    let before = before.unbind();
    cx.switches.put_back_later(Box::new(move |py| module(py)?.setattr("filters", before)));
    warnings.setattr("filters", real)?;
    Ok(())
}

/// An entry of `warnings.filters`.
struct WarningFilter<'py> {
    action: String,
    /// Pattern of the message, category, pattern of the module, and line.
    rest: [Bound<'py, PyAny>; 4],
}

impl<'py> WarningFilter<'py> {
    /// Returns the filter of a variable; `None` if a part of it is not known.
    fn of(cx: &mut OpcodeExecutor<'py>, filter: VarId) -> Flow<Option<Self>> {
        let Some(filter) = cx.see_as::<TupleVariable>(filter)? else { return Ok(None) };
        let [action, message, category, module, line] = filter.items[..] else { return Ok(None) };
        let Some(action) = cx.known_str(action)? else { return Ok(None) };
        let mut rest = Vec::new();
        for part in [message, category, module, line] {
            let payload = cx.see(part)?;
            let Some(known) = payload.constant().or(payload.object()) else { return Ok(None) };
            rest.push(known.bind(cx.py).clone());
        }
        Ok(rest.try_into().ok().map(|rest| WarningFilter { action, rest }))
    }

    /// True if the filter applies to a warning. `None` if that depends on the module, which is not known here.
    fn is_for(&self, text: &str, category: &Bound<'py, PyType>, line: i64) -> PyResult<Option<bool>> {
        let [message, class, module, own_line] = &self.rest;
        if !class.cast::<PyType>().is_ok_and(|class| cpython::is_subtype(category, class)) {
            return Ok(Some(false));
        }
        let own_line: i64 = own_line.extract()?;
        if own_line != 0 && own_line != line {
            return Ok(Some(false));
        }
        if !message.is_none() && message.call_method1("match", (text,))?.is_none() {
            return Ok(Some(false));
        }
        Ok(module.is_none().then_some(true))
    }
}

/// Returns a real list of the trace's filters; `None` if a part is not known.
fn real_filters<'py>(cx: &mut OpcodeExecutor<'py>, filters: VarId) -> Flow<Option<Bound<'py, PyList>>> {
    let records = cx.trace.effects.global(&module(cx.py)?.dict().unbind(), &Name::from("_showwarnmsg_impl")).is_some();
    let Some(list) = cx.see_as::<ListVariable>(filters)? else { return Ok(None) };
    let real = PyList::empty(cx.py);
    for &item in &list.items {
        let Some(WarningFilter { action, rest: [message, category, module, line] }) = WarningFilter::of(cx, item)?
        else {
            return Ok(None);
        };
        let action = if records && action != "ignore" { "error" } else { &*action };
        real.append((action, message, category, module, line))?;
    }
    Ok(Some(real))
}

fn warn(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    if args.keywords.iter().any(|(name, _)| &**name == "skip_file_prefixes") {
        return Err(cannot("warnings.warn() that skips files"));
    }
    let [message, category, depth, source] = args.named("warn", ["message", "category", "stacklevel", "source"], 1)?;
    let depth = match depth {
        Some(depth) => cx.known_int(depth)?,
        None => Some(1),
    };
    refuse_unknown_caller(cx, "warnings.warn()", depth)?;
    // CPython counts down from the level, which wraps around at the smallest integer.
    let depth = depth.filter(|depth| *depth > i64::MIN);
    let depth = depth.ok_or_else(|| cannot("warnings.warn() with an unknown stacklevel"))?;
    let message = required(message)?;
    if !cx.trace.guard_type_if_lazy(message) && cx.known_str(message)?.is_none() {
        return Err(cannot("warnings.warn() of something that is no known text"));
    }
    if let Some(source) = source {
        if !is_none(cx, source)? {
            return Err(cannot("warnings.warn() with a source"));
        }
    }
    let touched = are_filters_touched(cx)?;
    // A filter may turn the warning into an exception, which the replay would raise too late.
    if !touched && cx.stack.iter().any(output_guard::may_catch) {
        return Err(cannot("warnings.warn() where exceptions are caught"));
    }
    if !touched && !output_guard::guard_warnings(cx)? {
        return Err(cannot("warnings.warn() where the program shows warnings in its own way"));
    }
    let category = category_variable(cx, category)?;
    let above = usize::try_from(depth).unwrap_or(0).saturating_sub(cx.stack.len());
    if above > 0 && !touched {
        let callable = replayed(cx, &wrap_pyfunction!(emit_warning_for_caller, cx.py)?)?;
        let above = cx.trace.integer(above as i64)?;
        let args = vec![message, category, above];
        cx.trace.effects.record(Effect::Call { callable, args, keywords: Vec::new() });
        return Ok(cx.trace.none());
    }
    let [file, line, _] = place(cx, depth).ok_or_else(|| cannot("warnings.warn() for a caller of the function"))?;
    let globals = match frame_at(cx, depth) {
        Some(frame) if frame.global_names.is_none() => {
            (frame.globals.dict.bind(cx.py).clone().into_any(), frame.globals.tracker)
        }
        _ => return Err(cannot("warnings.warn() for a caller of the function")),
    };
    let globals = cx.trace.wrap(&globals.0, globals.1);
    if touched {
        return warn_as_filtered(cx, message, category, [file, line, globals]);
    }
    let callable = replayed(cx, &wrap_pyfunction!(emit_warning, cx.py)?)?;
    let args = vec![message, category, file, line, globals];
    cx.trace.effects.record(Effect::Call { callable, args, keywords: Vec::new() });
    Ok(cx.trace.none())
}

/// Simulates a warning under filters known to the trace.
fn warn_as_filtered(
    cx: &mut OpcodeExecutor<'_>,
    message: VarId,
    category: VarId,
    [file, line, globals]: [VarId; 3],
) -> Flow<VarId> {
    let text = cx.known_str(message)?.ok_or_else(|| cannot("warnings.warn() of a text that is not known"))?;
    let class = cx.see(category)?.object().map(|class| class.bind(cx.py).clone());
    let class = class.and_then(|class| class.cast_into::<PyType>().ok());
    let class = class.ok_or_else(|| cannot("warnings.warn() with this category"))?;
    let at = cx.known_int(line)?.unwrap_or(0);
    let action = action_for(cx, &text, &class, at)?;
    let ignores = replayed(cx, &wrap_pyfunction!(note_ignored, cx.py)?)?;
    let kept = Effect::Call { callable: ignores, args: vec![category, globals], keywords: Vec::new() };
    match &*action {
        "ignore" => {
            cx.trace.effects.record(kept);
            Ok(cx.trace.none())
        }
        "always" => {
            let made = cx.call(category, &CallArgs::positional(vec![message]))?;
            let (record, show) = (state(cx, "WarningMessage")?, state(cx, "_showwarnmsg")?);
            let none = cx.trace.none();
            let parts = vec![made, category, file, line, none, none, none];
            cx.trace.effects.record(kept);
            let record = cx.call(record, &CallArgs::positional(parts))?;
            cx.call(show, &CallArgs::positional(vec![record]))?;
            Ok(cx.trace.none())
        }
        "error" => {
            cx.trace.effects.record(kept);
            Err(Unwind::Raise(cx.call(category, &CallArgs::positional(vec![message]))?))
        }
        _ => Err(cannot("warnings.warn() that depends on the warnings before")),
    }
}

/// Returns the action that the trace's filters give for a warning.
fn action_for<'py>(cx: &mut OpcodeExecutor<'py>, text: &str, class: &Bound<'py, PyType>, line: i64) -> Flow<String> {
    let unknown = || cannot("warnings.warn() under filters that are not known while tracing");
    let filters = state(cx, "filters")?;
    let filters = cx.see_as::<ListVariable>(filters)?.ok_or_else(unknown)?;
    for &filter in &filters.items {
        let filter = WarningFilter::of(cx, filter)?.ok_or_else(unknown)?;
        match filter.is_for(text, class, line)? {
            Some(true) => return Ok(filter.action),
            Some(false) => {}
            None => return Err(unknown()),
        }
    }
    Err(unknown())
}

/// Updates the C state of a warning that is ignored or shown each time.
#[pyfunction]
fn note_ignored(category: &Bound<'_, PyAny>, globals: &Bound<'_, PyDict>) -> PyResult<()> {
    let py = globals.py();
    let module = module(py)?;
    let filters = module.getattr("filters")?;
    let ignore = PyList::new(py, [("ignore", py.None(), py.get_type::<pyo3::exceptions::PyWarning>(), py.None(), 0)])?;
    module.setattr("filters", ignore)?;
    let noted = emit_warning(PyString::new(py, "").as_any(), category, "", 1, globals);
    module.setattr("filters", filters)?;
    noted
}

/// Returns the category of the warning; the default is `UserWarning`.
fn category_variable(cx: &mut OpcodeExecutor<'_>, category: Option<VarId>) -> Flow<VarId> {
    let category = match category {
        Some(category) if !is_none(cx, category)? => category,
        _ => {
            let default = builtin_object(cx.py, "UserWarning")?;
            cx.wrap_fresh(&default)?
        }
    };
    let payload = cx.see(category)?;
    let warning = builtin_object(cx.py, "Warning")?;
    let class = payload.object().and_then(|object| object.bind(cx.py).cast::<PyType>().ok().cloned());
    match class {
        Some(class)
            if class.is_subclass(&warning)? && cx.trace.trackers.is_loadable(cx.trace.vars.tracker(category)) =>
        {
            Ok(category)
        }
        _ => Err(cannot("warnings.warn() with this category")),
    }
}

/// Calls `warnings.warn(message, category)` as from a given file and line.
#[pyfunction]
fn emit_warning(
    message: &Bound<'_, PyAny>,
    category: &Bound<'_, PyAny>,
    file: &str,
    line: i64,
    globals: &Bound<'_, PyDict>,
) -> PyResult<()> {
    let py = message.py();
    let registry = match globals.get_item("__warningregistry__")? {
        Some(registry) => registry,
        None => {
            let registry = PyDict::new(py);
            globals.set_item("__warningregistry__", &registry)?;
            registry.into_any()
        }
    };
    let module = match globals.get_item("__name__")? {
        Some(name) => name,
        None => PyString::new(py, "<string>").into_any(),
    };
    let explicit = cpython::import(py, "warnings")?.getattr("warn_explicit")?;
    explicit.call1((message, category, file, line, module, registry)).map(drop)
}

/// Calls `warnings.warn(message, category)` for the frame `calls` levels above the translated function.
#[pyfunction]
fn emit_warning_for_caller(message: &Bound<'_, PyAny>, category: &Bound<'_, PyAny>, calls: usize) -> PyResult<()> {
    let py = message.py();
    // If the stack has fewer frames, any larger number has the same effect.
    let level = resume::caller(py, calls)?.map_or(isize::MAX as usize, |(_, frames)| frames + 1);
    module(py)?.getattr("warn")?.call1((message, category, level)).map(drop)
}
