//! Formatting of values that are not fully known: `object.__format__`, `str.format`, and `%` on strings. Each part is
//! formatted by the special methods of its value.

use std::rc::Rc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::executor::{object_model, CallArgs, OpcodeExecutor};
use sot_core::variable::VarId;

use super::basic::fold_or;
use super::{builtin_object, cannot};
use crate::classes::subclass;

// In CPython, the result is an iterator in C; here, all of its items are known at once.
builtin! { FORMATTER_PARSER = "_string:formatter_parser" => |cx, args| {
    let [format] = args.exactly("formatter_parser")?;
    let Some(format) = cx.known(format)? else { return Err(cannot("a format that is not known while tracing")) };
    let parts = cx.fold(|py| items(&cpython::import(py, "_string")?.call_method1("formatter_parser", (format,))?))?;
    cx.iter(parts)
} }

builtin! { FORMATTER_FIELD = "_string:formatter_field_name_split" => |cx, args| {
    let [field] = args.exactly("formatter_field_name_split")?;
    let Some(field) = cx.known(field)? else { return Err(cannot("a field that is not known while tracing")) };
    let split = cpython::import(cx.py, "_string")?.call_method1("formatter_field_name_split", (field,));
    let (first, rest): (Py<PyAny>, Py<PyAny>) = split.map_err(|error| cx.raise(error))?.extract()?;
    let rest = cx.fold(|py| items(rest.bind(py)))?;
    let (first, rest) = (cx.wrap_fresh(first.bind(cx.py))?, cx.iter(rest)?);
    Ok(cx.trace.tuple(vec![first, rest]))
} }

fn items<'py>(iterator: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let items = iterator.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    Ok(PyTuple::new(iterator.py(), items)?.into_any())
}

builtin! { OBJECT_FORMAT = "object.__format__" => |cx, args| {
    let [this, spec] = args.exactly("__format__")?;
    match cx.known_str(spec)? {
        Some(spec) if spec.is_empty() => {
            cx.claims.redirect(this);
            object_model::convert(cx, this, "__str__", &[])
        }
        Some(_) => {
            let name = cx.type_name(this)?;
            Err(cx.raise(PyTypeError::new_err(format!("unsupported format string passed to {name}.__format__"))))
        }
        None => Err(cannot("a format that is not known while tracing")),
    }
} }

builtin! { STR_FORMAT = "str.format" => |cx, args| {
    if let Some(&template) = args.positional.first() {
        // For a template without fields, C code returns the template itself, which may be of a subclass.
        let owner = subclass::owner_of(&cx.trace, template);
        let plain = |text: String| !text.is_empty() && !text.contains(['{', '}']);
        if owner != template && cx.known_str(template)?.is_some_and(plain) {
            return Ok(owner);
        }
    }
    if let Some((positional, keywords)) = cx.materialize_args(args)? {
        let function = builtin_object(cx.py, "str")?.getattr("format")?;
        return cx.fold(|_| function.call(positional, Some(&keywords)));
    }
    let Some((&template, rest)) = args.positional.split_first() else { return Err(cannot("str.format() of nothing")) };
    let Some(template) = cx.known_str(template)? else { return Err(cannot("str.format() of an unknown text")) };
    let rest = CallArgs { positional: rest.to_vec(), keywords: args.keywords.clone() };
    let mut filled = Template { args: &rest, next: 0, derived: None };
    let text = filled.fill(cx, &template)?;
    if filled.derived.is_some_and(|derived| derived == text) {
        return Err(cannot("str.format() that gives a text of a class derived from str"));
    }
    Ok(cx.trace.string(&text))
} }

/// A template while it is filled in.
struct Template<'a> {
    args: &'a CallArgs,
    /// The index of the next automatically numbered field.
    next: usize,
    /// The text of a field that is of a class derived from `str`. C code returns it if there is no other part.
    derived: Option<String>,
}

impl Template<'_> {
    fn fill(&mut self, cx: &mut OpcodeExecutor<'_>, template: &str) -> Flow<String> {
        let parser = cpython::import(cx.py, "_string")?.getattr("formatter_parser")?;
        let parts = parser.call1((template,)).and_then(|parts| parts.try_iter()?.collect::<PyResult<Vec<_>>>());
        let mut text = String::new();
        for part in parts.map_err(|error| cx.raise(error))? {
            type Part = (String, Option<String>, Option<String>, Option<String>);
            let (literal, field, spec, conversion): Part = part.extract()?;
            text.push_str(&literal);
            let Some(field) = field else { continue };
            let mut value = self.field(cx, &field)?;
            if let Some(conversion) = conversion {
                value = convert(cx, value, &conversion)?;
            }
            let spec = self.fill(cx, &spec.unwrap_or_default())?;
            let spec = cx.trace.string(&spec);
            let formatted = formatted(cx, value, spec)?;
            let part =
                cx.known_str(formatted)?.ok_or_else(|| cannot("formatting of a value not known while tracing"))?;
            if !part.is_empty() && !cx.type_of(formatted)?.is(cx.py.get_type::<PyString>()) {
                self.derived = Some(part.clone());
            }
            text.push_str(&part);
        }
        Ok(text)
    }

    /// Returns the value of a field `name.attribute[item]`.
    fn field(&mut self, cx: &mut OpcodeExecutor<'_>, field: &str) -> Flow<VarId> {
        let split = cpython::import(cx.py, "_string")?.getattr("formatter_field_name_split")?;
        let (first, rest): (Py<PyAny>, Py<PyAny>) =
            split.call1((field,)).and_then(|parts| parts.extract()).map_err(|error| cx.raise(error))?;
        let first = first.into_bound(cx.py);
        let mut value = match first.extract::<usize>() {
            Ok(index) => self.positional(index)?,
            Err(_) => {
                let name: String = first.extract()?;
                if name.is_empty() {
                    self.next += 1;
                    self.positional(self.next - 1)?
                } else {
                    let found = self.args.keywords.iter().find(|(keyword, _)| **keyword == *name);
                    found.map(|(_, value)| *value).ok_or_else(|| cannot("str.format() with a field that is missing"))?
                }
            }
        };
        for step in rest.into_bound(cx.py).try_iter()? {
            let (is_attribute, name): (bool, Py<PyAny>) = step?.extract()?;
            if is_attribute {
                value = cx.get_attr(value, &Rc::from(name.extract::<String>(cx.py)?))?;
            } else {
                let key = cx.trace.constant(name);
                value = cx.get_item(value, key)?;
            }
        }
        Ok(value)
    }

    fn positional(&self, index: usize) -> Flow<VarId> {
        let found = self.args.positional.get(index).copied();
        found.ok_or_else(|| cannot("str.format() with a field that is missing"))
    }
}

fn convert(cx: &mut OpcodeExecutor<'_>, value: VarId, conversion: &str) -> Flow<VarId> {
    let args = CallArgs::positional(vec![value]);
    match conversion {
        "r" => fold_or(cx, "repr", &args, |cx| object_model::convert(cx, value, "__repr__", &[])),
        "s" => fold_or(cx, "str", &args, |cx| object_model::convert(cx, value, "__str__", &[])),
        _ => fold_or(cx, "ascii", &args, |_| Err(cannot("ascii() of a value not known while tracing"))),
    }
}

fn formatted(cx: &mut OpcodeExecutor<'_>, value: VarId, spec: VarId) -> Flow<VarId> {
    let args = CallArgs::positional(vec![value, spec]);
    fold_or(cx, "format", &args, |cx| object_model::convert(cx, value, "__format__", &[spec]))
}

/// Simulates `template % values`, where values of `%s` and `%r` need not be fully known, if their texts are. A right
/// operand that is not a tuple may be a `mapping` for named fields.
pub(crate) fn percent(
    cx: &mut OpcodeExecutor<'_>,
    template: &Bound<'_, PyAny>,
    values: &[VarId],
    mapping: Option<VarId>,
) -> Flow<VarId> {
    let refuse = || cannot("formatting of a value not known while tracing");
    let text: String = template.extract().map_err(|_| refuse())?;
    let mut rest = text.as_str();
    let (mut plain, mut given, mut named) = (String::new(), Vec::new(), false);
    let mut next = values.iter();
    while let Some(at) = rest.find('%') {
        let (before, mut directive) = rest.split_at(at);
        plain.push_str(before);
        let mut by_name = None;
        if let Some(name) = directive.strip_prefix("%(") {
            let end = name.find([')', '(']).filter(|end| name[*end..].starts_with(')')).ok_or_else(refuse)?;
            let key = cx.trace.string(&name[..end]);
            by_name = Some(cx.get_item(mapping.ok_or_else(refuse)?, key)?);
            named = true;
            plain.push('%');
            directive = &name[end + 1..];
        }
        let from = usize::from(by_name.is_none());
        let kind = |c: char| c.is_ascii_alphabetic() || c == '%';
        let end = directive.get(from..).and_then(|rest| rest.find(kind)).ok_or_else(refuse)? + from;
        let (options, kind) = (&directive[..end], &directive[end..=end]);
        rest = &directive[end + 1..];
        if options.contains(['(', '*']) {
            return Err(refuse());
        }
        plain.push_str(options);
        if kind == "%" {
            plain.push('%');
            continue;
        }
        let value = match by_name {
            Some(value) => value,
            None => *next.next().filter(|_| !named).ok_or_else(refuse)?,
        };
        let value = match cx.materialize(value)? {
            Some(value) => {
                plain.push_str(kind);
                value
            }
            None => {
                let value = convert(cx, value, kind)?;
                plain.push('s');
                cx.known(value)?.ok_or_else(refuse)?
            }
        };
        given.push(value);
    }
    plain.push_str(rest);
    if !named && next.next().is_some() {
        return Err(refuse());
    }
    let (plain, given) = (PyString::new(cx.py, &plain), PyTuple::new(cx.py, given)?);
    cx.fold(|_| plain.rem(given))
}
