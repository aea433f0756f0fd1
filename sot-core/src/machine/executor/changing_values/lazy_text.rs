//! Texts that differ from call to call. Methods of `str` that give a text, a number or a truth value for any text are
//! computed again by new code. The trace specialises on their answers, not on the text.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};

use super::lazy_number::{assume_answer, lazily_known, LazyNumber};
use crate::cpython;
use crate::error::Flow;
use crate::machine::executor::{CallArgs, OpcodeExecutor, Trace};
use crate::machine::variable::VarId;

/// Methods of `str` whose results for texts are texts, numbers or truth values, and which fail for no text.
const METHODS_OF_TEXTS: [&str; 31] = [
    "__contains__",
    "__len__",
    "capitalize",
    "casefold",
    "count",
    "endswith",
    "find",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "lower",
    "lstrip",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rstrip",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "upper",
];

impl<'py> OpcodeExecutor<'py> {
    /// `function(*args)` of texts, one of which differs from call to call, where the function is a method of `str` that
    /// gives a text, number or truth value for any texts. New code computes the result again. The trace specialises on
    /// an answer that is `True` or `False`.
    pub fn lazy_text_call(&mut self, function: &Bound<'py, PyAny>, args: &CallArgs) -> Flow<Option<VarId>> {
        let given = &args.positional[..];
        let is_text = |arg: &VarId| lazily_known(&self.trace, *arg).is_some_and(|(arg, _)| cpython::is_text(&arg));
        let differs = given.iter().any(|&arg| is_lazy_text(&self.trace, arg));
        if !differs || !args.keywords.is_empty() || !given.iter().all(is_text) {
            return Ok(None);
        }
        let of_text = self.py.get_type::<PyString>();
        let is_known = |name: &&str| of_text.getattr(*name).is_ok_and(|known| known.is(function));
        if !METHODS_OF_TEXTS.iter().any(is_known) {
            return Ok(None);
        }
        let Some(result) = self.lazy_call(function, given)? else { return Ok(None) };
        match lazily_known(&self.trace, result) {
            Some((answer, _)) if answer.is_exact_instance_of::<PyBool>() => {
                assume_answer(self, result, &answer).map(Some)
            }
            _ => Ok(Some(result)),
        }
    }

    /// `item in text` of texts, one of which differs from call to call. The trace specialises on the answer.
    pub(in crate::machine::executor) fn lazy_text_contains(&mut self, text: VarId, item: VarId) -> Flow<Option<VarId>> {
        if !is_lazy_text(&self.trace, text) && !is_lazy_text(&self.trace, item) {
            return Ok(None);
        }
        let function = self.py.get_type::<PyString>().getattr(intern!(self.py, "__contains__"))?;
        self.lazy_text_call(&function, &CallArgs::positional(vec![text, item]))
    }

    /// `len(text)` of a text that differs from call to call, which new code computes again.
    pub(in crate::machine::executor) fn lazy_text_len(&mut self, text: VarId) -> Flow<Option<VarId>> {
        if !is_lazy_text(&self.trace, text) {
            return Ok(None);
        }
        let function = self.py.get_type::<PyString>().getattr(intern!(self.py, "__len__"))?;
        self.lazy_text_call(&function, &CallArgs::positional(vec![text]))
    }
}

/// True if the value is a text that differs from call to call, on which the trace has not specialised.
pub(super) fn is_lazy_text(trace: &Trace<'_>, id: VarId) -> bool {
    trace.vars.as_kind::<LazyNumber>(id).is_some_and(|text| cpython::is_text(text.value.bind(trace.py)))
}

/// Returns one of [`METHODS_OF_TEXTS`], bound to a text that differs from call to call.
pub(in crate::machine::executor) fn method_of_text(
    cx: &mut OpcodeExecutor<'_>,
    text: VarId,
    name: &str,
) -> Flow<Option<VarId>> {
    if !is_lazy_text(&cx.trace, text) || !METHODS_OF_TEXTS.contains(&name) {
        return Ok(None);
    }
    let Some(method) = cx.py.get_type::<PyString>().getattr_opt(name)? else { return Ok(None) };
    let bound = (cx.runtime.factories.builtin_method)(method.unbind(), text);
    Ok(Some(cx.trace.produce(bound)))
}
