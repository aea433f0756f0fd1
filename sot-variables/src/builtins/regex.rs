//! `re.compile`, `finditer`, and methods of patterns with a function or an index-like count as argument: `sub`, `subn`
//! and `split`. With known values, methods of patterns are folded.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};

use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::variable::{Rebuild, VarId};

use super::{cannot, fresh, required};
use crate::containers::sequence;
use crate::functions::function::guard_identity;
use crate::iterators::sentinel::callable_iterator_type;
use crate::iterators::{library, produce, IteratorState};

builtin! { SUB = "re:Pattern.sub" => |cx, args| substitute(cx, args, false) }
builtin! { SUBN = "re:Pattern.subn" => |cx, args| substitute(cx, args, true) }
builtin! { SPLIT = "re:Pattern.split" => |cx, args| split(cx, args) }
builtin! { FINDITER = "re:Pattern.finditer" => |cx, args| {
    let Some((positional, keywords)) = cx.materialize_args(args)? else {
        return Err(cannot("a search in a text that is not known while tracing"));
    };
    // CPython's iterator keeps the memory of a text that can be changed, so that it cannot be resized.
    let text = positional.get_item(1).ok().or(keywords.get_item("string")?);
    if !text.is_some_and(|text| text.is_instance_of::<PyString>() || text.is_instance_of::<PyBytes>()) {
        return Err(cannot("a search in what is neither a str nor bytes"));
    }
    let function = library(cx.py, "re", "Pattern")?.bind(cx.py).getattr("finditer")?;
    let matches = cx.fold(|_| function.call(positional, Some(&keywords)))?;
    Ok(produce(cx, MatchIterator { matches }))
} }
builtin! { COMPILE = "re:compile" => |cx, args| compile(cx, "compile", args) }
builtin! { COMPILE_CACHED = "re:_compile" => |cx, args| compile(cx, "_compile", args) }

sot_core::variable_kind! { "match_iterator" }

/// State of the iterator that `finditer` returns.
#[derive(Clone)]
struct MatchIterator {
    /// An iterator over the matches, all of which have been found.
    matches: VarId,
}

impl IteratorState for MatchIterator {
    const KIND: &'static str = "match_iterator";

    /// CPython's iterator calls a method of a scanner.
    fn python_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        callable_iterator_type(py)
    }

    fn advance(&mut self, cx: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>> {
        cx.next(self.matches)
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.matches]
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>) -> Flow<()> {
        let (iter, no_match) = (library(cg.py(), "builtins", "iter")?, cg.py().get_type::<PyAny>().call0()?.unbind());
        cg.begin_call(|cg| cg.load_const(iter))?;
        cg.load(self.matches)?;
        cg.load_attr("__next__")?;
        cg.load_const(no_match)?;
        cg.end_call(2)
    }
}

fn substitute(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, counted: bool) -> Flow<VarId> {
    let name = if counted { "subn" } else { "sub" };
    if let Some((positional, keywords)) = cx.materialize_args(args)? {
        let function = cpython::import(cx.py, "re")?.getattr("Pattern")?.getattr(name)?;
        return cx.fold(|_| function.call(positional, Some(&keywords)));
    }
    let [pattern, function, text, count] = args.named(name, ["self", "repl", "string", "count"], 3)?;
    let (Some(pattern), Some(text)) = (cx.materialize(required(pattern)?)?, cx.known_str(required(text)?)?) else {
        return Err(cannot("a substitution in a text that is not known while tracing"));
    };
    let count = limit(cx, count)?;
    if let Some(piece) = cx.materialize(required(function)?)? {
        return cx.fold(|_| pattern.call_method1(name, (piece, text, count)));
    }
    let text: Vec<char> = text.chars().collect();
    let (mut result, mut done, mut found) = (String::new(), 0, 0);
    let whole: String = text.iter().collect();
    for matched in pattern.call_method1("finditer", (whole,))?.try_iter()? {
        if count > 0 && found == count {
            break;
        }
        let matched = matched?;
        let (start, end): (usize, usize) = matched.call_method0("span")?.extract()?;
        let matched = cx.wrap_fresh(&matched)?;
        let piece = cx.call(required(function)?, &CallArgs::positional(vec![matched]))?;
        let Some(piece) = cx.known_str(piece)? else {
            return Err(cannot("a substitution by a text that is not known while tracing"));
        };
        result.extend(&text[done..start]);
        result.push_str(&piece);
        (done, found) = (end, found + 1);
    }
    result.extend(&text[done..]);
    let result = cx.trace.string(&result);
    if !counted {
        return Ok(result);
    }
    let found = cx.trace.integer(found)?;
    Ok(cx.trace.tuple(vec![result, found]))
}

/// Returns the maximum number of matches; 0 means no limit. From 3.13 on, missing counts are instances of a class of
/// their own.
fn limit(cx: &mut OpcodeExecutor<'_>, count: Option<VarId>) -> Flow<i64> {
    let Some(count) = count else { return Ok(0) };
    match sequence::index_object(cx, count)? {
        Some(count) => count.extract().map_err(|error| cx.raise(error)),
        None => Err(cannot("a number of matches that is not known while tracing")),
    }
}

fn split(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let [pattern, text, most] = args.named("split", ["self", "string", "maxsplit"], 2)?;
    let (Some(pattern), Some(text)) = (cx.materialize(required(pattern)?)?, cx.materialize(required(text)?)?) else {
        return Err(cannot("a split of a text that is not known while tracing"));
    };
    let most = limit(cx, most)?;
    fresh(cx, pattern.call_method1("split", (text, most)))
}

/// `re.DEBUG`
const DEBUG: i64 = 128;

/// Folds `re.compile()`. It is never inlined, because folded calls fill its cache, and replayed writes of a trace
/// would fill it again. With `re.DEBUG` it prints, so that breaks the graph.
fn compile<'py>(cx: &mut OpcodeExecutor<'py>, name: &str, args: &CallArgs) -> Flow<VarId> {
    let re = cpython::import(cx.py, "re")?;
    let function = re.getattr(name)?;
    let types = (re.getattr("Pattern")?, re.getattr("RegexFlag")?);
    // From 3.13 on, a sentinel stands for absent flags.
    let nothing = re.getattr_opt("_zero_sentinel")?;
    let known = |cx: &mut OpcodeExecutor<'py>, arg: VarId| -> Flow<Bound<'py, PyAny>> {
        let object = match cx.materialize(arg)? {
            Some(value) => return Ok(value),
            None => cx.see(arg)?.object().map(|object| object.clone_ref(cx.py)),
        };
        let object = object.filter(|object| {
            let ty = object.bind(cx.py).get_type();
            let is_nothing = nothing.as_ref().is_some_and(|nothing| nothing.is(object));
            ty.is(&types.0) || ty.is(&types.1) || is_nothing
        });
        let object = object.ok_or_else(|| cannot("re.compile() of something that is not known while tracing"))?;
        guard_identity(cx, arg, &object);
        Ok(object.into_bound(cx.py))
    };
    let positional = args.positional.iter().map(|&arg| known(cx, arg)).collect::<Flow<Vec<_>>>()?;
    let keywords = PyDict::new(cx.py);
    for (name, arg) in &args.keywords {
        keywords.set_item(&**name, known(cx, *arg)?)?;
    }
    let flags = positional.iter().skip(1).cloned().chain(keywords.values().iter());
    for flags in flags {
        if flags.extract::<i64>().is_ok_and(|flags| flags & DEBUG != 0) {
            return Err(cannot("re.compile() with re.DEBUG"));
        }
    }
    let positional = PyTuple::new(cx.py, positional)?;
    cx.fold(|_| function.call(positional, Some(&keywords)))
}
