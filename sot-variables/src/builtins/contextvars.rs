//! Context variables. A value set before the trace is a constant, whose guard asks for the current value. Values set
//! in the trace are set when the graph has run.

use std::rc::Rc;

use pyo3::exceptions::PyLookupError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use sot_core::backend::ObjectTest;
use sot_core::builtin;
use sot_core::bytecode::Op;
use sot_core::error::{Flow, Unwind};
use sot_core::executor::{object_model, CallArgs, Name, OpcodeExecutor, Trace};
use sot_core::guard::{Identity, Test};
use sot_core::side_effects::Effect;
use sot_core::tracker::repr;
use sot_core::variable::{Argument, Rebuild};
use sot_core::variable::{VarId, Variable};

use super::cannot;
use crate::classes::exception;
use crate::containers::dict;
use crate::containers::hash_key::HashKey;
use crate::iterators::{library, or_object_type};

sot_core::variable_kind! { "context_variable" }
sot_core::variable_kind! { "token" }
sot_core::variable_kind! { "context" }

/// A context variable that the trace has made, set or reset.
struct ContextVariable {
    origin: ContextVariableOrigin,
    value: Option<VarId>,
}

/// Where a context variable comes from.
enum ContextVariableOrigin {
    Outside(Py<PyAny>),
    New { name: VarId, default: Option<VarId> },
}

/// The result of `ContextVar.set`: the value before, and whether `reset` has used the token.
struct TokenVariable {
    variable: VarId,
    before: Option<VarId>,
    used: bool,
}

/// A context made in the trace: the values of those context variables that the trace has set.
#[derive(Clone)]
struct ContextCopy {
    values: Vec<(VarId, Option<VarId>)>,
    /// True if the context has no values of other variables; false if these have their values from outside.
    is_bare: bool,
    /// While the context runs: the number of contexts entered before it.
    entered: Option<usize>,
}

builtin! { NEW = "contextvars:ContextVar" => |cx, args| {
    let (name, default) = match (&args.positional[..], &args.keywords[..]) {
        (&[name], []) => (name, None),
        (&[name], [(keyword, default)]) if &**keyword == "default" => (name, Some(*default)),
        _ => return Err(cannot("ContextVar() with these arguments")),
    };
    if !cx.type_of(name)?.is(cx.py.get_type::<PyString>()) {
        return Err(cannot("ContextVar() with these arguments"));
    }
    Ok(produce(cx, ContextVariable { origin: ContextVariableOrigin::New { name, default }, value: None }))
} }

builtin! { GET = "contextvars:ContextVar.get" => |cx, args| {
    let (variable, default) = match args.positional[..] {
        [variable] if args.keywords.is_empty() => (variable, None),
        [variable, default] if args.keywords.is_empty() => (variable, Some(default)),
        _ => return Err(cannot("ContextVar.get() with these arguments")),
    };
    match (value_of(cx, variable)?, default) {
        (Some(value), _) | (None, Some(value)) => Ok(value),
        (None, None) => {
            if let Some((_, default)) = made_here(cx, variable)? {
                return default.ok_or_else(|| lookup_error(cx, variable));
            }
            let object = real(cx, variable)?;
            // The variable has no value here but may have a default. It is read in an empty context, as the variable
            // may have a value outside.
            let bare = library(cx.py, "contextvars", "Context")?.call0(cx.py)?.into_bound(cx.py);
            let missing = bare.call_method1("run", (object.getattr("get")?,));
            match missing {
                Ok(default) if cx.runtime.is_constant(&default) => Ok(cx.trace.constant(default.unbind())),
                Ok(_) => Err(cannot("a ContextVar that holds an object")),
                Err(error) => Err(cx.raise(error)),
            }
        }
    }
} }

builtin! { SET = "contextvars:ContextVar.set" => |cx, args| {
    let [variable, value] = args.exactly("set")?;
    let before = value_of(cx, variable)?;
    write(cx, variable, Some(value))?;
    Ok(produce(cx, TokenVariable { variable, before, used: false }))
} }

builtin! { RESET = "contextvars:ContextVar.reset" => |cx, args| {
    let [variable, token] = args.exactly("reset")?;
    let made = cx.see_as::<TokenVariable>(token)?.filter(|token| token.variable == variable && !token.used);
    let made = made.ok_or_else(|| cannot("ContextVar.reset() with this token"))?;
    write(cx, variable, made.before)?;
    cx.trace.vars.set(token, Rc::new(TokenVariable { variable, before: made.before, used: true }));
    Ok(cx.trace.none())
} }

// A copy: later changes of the current context do not affect it, nor the other way round.
builtin! { COPY_CONTEXT = "contextvars:copy_context" => |cx, args| {
    let [] = args.exactly("copy_context")?;
    let copy = ContextCopy { values: written(&cx.trace), is_bare: is_bare(&cx.trace), entered: None };
    Ok(produce(cx, copy))
} }

builtin! { NEW_CONTEXT = "contextvars:Context" => |cx, args| {
    let [] = args.exactly("Context")?;
    Ok(produce(cx, ContextCopy { values: Vec::new(), is_bare: true, entered: None }))
} }

builtin! { COPY = "contextvars:Context.copy" => |cx, args| {
    let [context] = args.exactly("copy")?;
    let copy = not_running(cx, context, "copy() of a Context from outside, or that runs")?;
    Ok(produce(cx, copy))
} }

builtin! { RUN = "contextvars:Context.run" => |cx, args| {
    let [context, function, ref rest @ ..] = args.positional[..] else {
        return Err(cannot("Context.run() without a function"));
    };
    let copy = not_running(cx, context, "Context.run() of a context from outside, or that runs")?;
    let (outside, depth) = (written(&cx.trace), entered(&cx.trace).count());
    cx.trace.vars.set(context, Rc::new(ContextCopy { values: Vec::new(), entered: Some(depth), ..copy }));
    enter(cx, &copy.values)?;
    cx.claims.take();
    let result = cx.call(function, &CallArgs { positional: rest.to_vec(), keywords: args.keywords.clone() });
    if matches!(result, Ok(_) | Err(Unwind::Raise(_))) {
        cx.trace.vars.set(context, Rc::new(ContextCopy { values: written(&cx.trace), entered: None, ..copy }));
        enter(cx, &outside)?;
    }
    result
} }

builtin! { GETITEM = "contextvars:Context.__getitem__" => |cx, args| {
    let [context, variable] = args.exactly("__getitem__")?;
    match value_in(cx, context, variable)? {
        Some(value) => Ok(value),
        None => {
            let key = HashKey::of(cx, variable)?;
            Err(dict::key_error(cx, &key))
        }
    }
} }

builtin! { CONTAINS = "contextvars:Context.__contains__" => |cx, args| {
    let [context, variable] = args.exactly("__contains__")?;
    let found = value_in(cx, context, variable)?.is_some();
    Ok(cx.trace.boolean(found))
} }

builtin! { GET_OF = "contextvars:Context.get" => |cx, args| {
    let (context, variable, default) = match args.positional[..] {
        [context, variable] if args.keywords.is_empty() => (context, variable, cx.trace.none()),
        [context, variable, default] if args.keywords.is_empty() => (context, variable, default),
        _ => return Err(cannot("Context.get() with these arguments")),
    };
    Ok(value_in(cx, context, variable)?.unwrap_or(default))
} }

/// Returns the value of a variable in a context made in the trace.
fn value_in(cx: &mut OpcodeExecutor<'_>, context: VarId, variable: VarId) -> Flow<Option<VarId>> {
    let ty = library(cx.py, "contextvars", "ContextVar")?;
    let copy = not_running(cx, context, "a Context from outside, or that runs, as a mapping")?;
    if !cx.type_of(variable)?.is(&ty) {
        return Err(cannot("a Context asked for what is no ContextVar"));
    }
    match copy.values.iter().find(|(known, _)| *known == variable) {
        Some((_, value)) => Ok(*value),
        None if copy.is_bare => Ok(None),
        None => value_outside(cx, variable),
    }
}

fn produce(cx: &mut OpcodeExecutor<'_>, made: impl Variable) -> VarId {
    let made = cx.trace.produce(Rc::new(made));
    cx.note_step(made);
    made
}

/// Returns a class of the module `contextvars`.
fn class<'py>(trace: &Trace<'py>, name: &str) -> Bound<'py, PyAny> {
    let class = library(trace.py, "contextvars", name).map(|class| class.into_bound(trace.py));
    or_object_type(trace, class)
}

/// Returns a context made in the trace that is not running.
fn not_running(cx: &mut OpcodeExecutor<'_>, context: VarId, what: &str) -> Flow<ContextCopy> {
    let copy = cx.see_as::<ContextCopy>(context)?.filter(|copy| copy.entered.is_none());
    copy.map(|copy| (*copy).clone()).ok_or_else(|| cannot(what))
}

/// Returns the running contexts that were made in the trace.
fn entered<'a>(trace: &'a Trace<'_>) -> impl Iterator<Item = Rc<ContextCopy>> + 'a {
    trace.vars.iter().filter_map(|(id, _)| trace.vars.as_kind::<ContextCopy>(id)).filter(|copy| copy.entered.is_some())
}

/// True if the innermost running context has no values from outside.
fn is_bare(trace: &Trace<'_>) -> bool {
    entered(trace).max_by_key(|copy| copy.entered).is_some_and(|copy| copy.is_bare)
}

/// Returns the context variables that the trace has written, with their values.
fn written(trace: &Trace<'_>) -> Vec<(VarId, Option<VarId>)> {
    let known = trace.vars.iter().map(|(id, _)| id);
    known.filter_map(|id| Some((id, trace.vars.as_kind::<ContextVariable>(id)?.value))).collect()
}

/// Gives all written context variables their values in a context. Those without a value there get the value from
/// outside.
fn enter(cx: &mut OpcodeExecutor<'_>, values: &[(VarId, Option<VarId>)]) -> Flow<()> {
    for (variable, now) in written(&cx.trace) {
        let value = match values.iter().find(|(known, _)| *known == variable) {
            Some((_, value)) => *value,
            None => value_unwritten(cx, variable)?,
        };
        if value != now {
            write(cx, variable, value)?;
        }
    }
    Ok(())
}

fn real<'py>(cx: &mut OpcodeExecutor<'py>, variable: VarId) -> Flow<Bound<'py, PyAny>> {
    let object = cx.see(variable)?.object().map(|object| object.bind(cx.py).clone());
    object.ok_or_else(|| cannot("what is no ContextVar as one"))
}

/// Returns name and default of a variable that the trace has made.
fn made_here(cx: &mut OpcodeExecutor<'_>, variable: VarId) -> Flow<Option<(VarId, Option<VarId>)>> {
    Ok(cx.see_as::<ContextVariable>(variable)?.and_then(|known| match known.origin {
        ContextVariableOrigin::New { name, default } => Some((name, default)),
        ContextVariableOrigin::Outside(_) => None,
    }))
}

fn lookup_error(cx: &mut OpcodeExecutor<'_>, variable: VarId) -> Unwind {
    let class = cx.py.get_type::<PyLookupError>().into_any();
    exception::make(cx, &class, vec![variable]).map_or_else(|unwind| unwind, Unwind::Raise)
}

fn write(cx: &mut OpcodeExecutor<'_>, variable: VarId, value: Option<VarId>) -> Flow<()> {
    let origin = match made_here(cx, variable)? {
        Some((name, default)) => ContextVariableOrigin::New { name, default },
        None => ContextVariableOrigin::Outside(real(cx, variable)?.unbind()),
    };
    cx.trace.vars.set(variable, Rc::new(ContextVariable { origin, value }));
    cx.trace.effects.record(Effect::Contents { container: variable });
    Ok(())
}

/// Returns the value of a variable, if it has one: the value written by the trace, or that from outside, which is
/// guarded.
fn value_of(cx: &mut OpcodeExecutor<'_>, variable: VarId) -> Flow<Option<VarId>> {
    if let Some(written) = cx.see_as::<ContextVariable>(variable)? {
        return Ok(written.value);
    }
    value_unwritten(cx, variable)
}

/// Returns the value of a variable in the running context, apart from writes of the trace.
fn value_unwritten(cx: &mut OpcodeExecutor<'_>, variable: VarId) -> Flow<Option<VarId>> {
    if is_bare(&cx.trace) {
        return Ok(None);
    }
    value_outside(cx, variable)
}

/// Returns the value of a variable from outside, and guards it. `None` for a variable that the trace has made.
fn value_outside(cx: &mut OpcodeExecutor<'_>, variable: VarId) -> Flow<Option<VarId>> {
    if made_here(cx, variable)?.is_some() {
        return Ok(None);
    }
    let object = real(cx, variable)?;
    let missing = cx.py.get_type::<PyAny>().call0()?;
    let now = object.call_method1("get", (&missing,))?;
    let value = (!now.is(&missing)).then(|| now.clone().unbind());
    let is_set = value.is_some();
    let tracker = cx.trace.vars.tracker(variable);
    if cx.trace.trackers.is_sourced(tracker) {
        cx.trace.guards.add(tracker, Test::Is(Identity::of(&object)));
    }
    // A constant has no guards of its own. This guard is on the variable's value, however the variable is reached.
    cx.trace.guards.add(tracker, Test::Object(Box::new(ContextValue { missing: missing.unbind(), value })));
    match is_set {
        false => Ok(None),
        true if cx.runtime.is_constant(&now) => Ok(Some(cx.trace.constant(now.unbind()))),
        true => Err(cannot("a ContextVar that holds an object")),
    }
}

impl Variable for ContextVariable {
    fn kind(&self) -> &'static str {
        "context_variable"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        class(trace, "ContextVar")
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        match &self.origin {
            ContextVariableOrigin::Outside(object) => format!("ContextVariable({})", repr(trace.py, object)),
            ContextVariableOrigin::New { name, .. } => format!("ContextVariable({})", trace.text(*name)),
        }
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        match &self.origin {
            ContextVariableOrigin::Outside(object) => Some(object),
            ContextVariableOrigin::New { .. } => None,
        }
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        match self.origin {
            ContextVariableOrigin::New { name: own, .. } if &**name == "name" => Ok(Some(own)),
            _ => object_model::get_attr(cx, this, name),
        }
    }

    fn children(&self) -> Vec<VarId> {
        let own = match &self.origin {
            ContextVariableOrigin::Outside(_) => Vec::new(),
            ContextVariableOrigin::New { name, default } => std::iter::once(*name).chain(*default).collect(),
        };
        own.into_iter().chain(self.value).collect()
    }

    /// A variable with a value is referenced by the context of the thread.
    fn is_held_outside(&self) -> bool {
        self.value.is_some()
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let ContextVariableOrigin::New { name, default } = self.origin else {
            return Err(cg.plan_to_make(this, "outlives the graph"));
        };
        let py = cg.py();
        let class = Argument::Constant(library(py, "contextvars", "ContextVar")?);
        let keywords = default.map(|default| (Name::from("default"), default)).into_iter().collect();
        cg.call_with(class, &CallArgs { positional: vec![name], keywords })
    }

    /// Sets the variable to its final value. A variable without a value had none before the trace either, so nothing
    /// is emitted.
    fn restore_contents(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let Some(value) = self.value else { return Ok(()) };
        let set = library(cg.py(), "contextvars", "ContextVar")?.getattr(cg.py(), "set")?;
        cg.call(|cg| cg.load_const(set), [this, value])?;
        cg.op(Op::POP_TOP, 0)
    }
}

impl Variable for TokenVariable {
    fn kind(&self) -> &'static str {
        "token"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        class(trace, "Token")
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("TokenVariable({})", trace.text(self.variable))
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        match (&**name, self.before) {
            ("var", _) => Ok(Some(self.variable)),
            ("old_value", Some(before)) => Ok(Some(before)),
            ("old_value", None) => {
                let missing = library(cx.py, "contextvars", "Token")?.getattr(cx.py, "MISSING")?;
                let tracker = cx.trace.trackers.constant(missing.clone_ref(cx.py));
                Ok(Some(cx.trace.wrap(missing.bind(cx.py), tracker)))
            }
            _ => object_model::get_attr(cx, this, name),
        }
    }

    fn children(&self) -> Vec<VarId> {
        std::iter::once(self.variable).chain(self.before).collect()
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        Err(cg.plan_to_make(this, "outlives the graph"))
    }
}

impl Variable for ContextCopy {
    fn kind(&self) -> &'static str {
        "context"
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        class(trace, "Context")
    }

    fn text(&self, _: &Trace<'_>) -> String {
        "ContextCopy".to_owned()
    }

    fn children(&self) -> Vec<VarId> {
        self.values.iter().flat_map(|(variable, value)| std::iter::once(*variable).chain(*value)).collect()
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        Err(cg.plan_to_make(this, "outlives the graph"))
    }
}

/// Guard: a context variable has this value, or none.
struct ContextValue {
    missing: Py<PyAny>,
    value: Option<Py<PyAny>>,
}

impl ObjectTest for ContextValue {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        let Ok(now) = object.call_method1("get", (&self.missing,)) else { return false };
        match &self.value {
            Some(value) => now.is(value),
            None => now.is(&self.missing),
        }
    }

    fn describe(&self, subject: &str) -> String {
        Python::attach(|py| match &self.value {
            Some(value) => format!("{subject}.get() is {}", repr(py, value)),
            None => format!("{subject} has no value"),
        })
    }
}
