//! `str.encode` and `bytes.decode`. Codecs and error handlers that may be functions of the program are left to
//! CPython.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::executor::{CallArgs, OpcodeExecutor};
use sot_core::variable::VarId;

use super::cannot;

builtin! { ENCODE = "str.encode" => |cx, args| convert(cx, args, "encode") }
builtin! { DECODE = "bytes.decode" => |cx, args| convert(cx, args, "decode") }

/// Encodings whose C code handles common errors without a lookup.
const DIRECT: &[&str] = &["utf_8", "utf8", "ascii", "us_ascii", "latin_1", "latin1", "iso_8859_1", "iso8859_1"];

/// Error handlers that the C code of these encodings implements directly.
const HANDLED_DIRECTLY: &[&str] =
    &["strict", "ignore", "replace", "surrogateescape", "surrogatepass", "backslashreplace", "xmlcharrefreplace"];

fn convert(cx: &mut OpcodeExecutor<'_>, args: &CallArgs, name: &'static str) -> Flow<VarId> {
    let Some((positional, keywords)) = cx.materialize_args(args)? else {
        return Err(cannot(&format!("{name}() of text that is not known while tracing")));
    };
    refuse_registered(cx.py, &positional, &keywords)?;
    let ty = if name == "encode" { "str" } else { "bytes" };
    let method = super::builtin_object(cx.py, ty)?.getattr(name)?;
    cx.fold(|_| method.call(positional, Some(&keywords)))
}

/// Breaks the graph for an encoding that is not in the standard library, or an error handler that may be the
/// program's.
pub(crate) fn refuse_registered(
    py: Python<'_>,
    positional: &Bound<'_, PyTuple>,
    keywords: &Bound<'_, PyDict>,
) -> Flow<()> {
    let text = |at: usize, name: &str, default: &str| -> PyResult<Option<String>> {
        let given = match positional.get_item(at) {
            Ok(value) => Some(value),
            Err(_) => keywords.get_item(name)?,
        };
        Ok(given.map_or_else(|| Some(default.to_owned()), |value| value.extract().ok()))
    };
    // Arguments that are not strings raise CPython's `TypeError`.
    let (Some(encoding), Some(errors)) = (text(1, "encoding", "utf-8")?, text(2, "errors", "strict")?) else {
        return Ok(());
    };
    let encoding = encoding.to_lowercase().replace(['-', ' '], "_");
    let is_direct = DIRECT.contains(&&*encoding);
    if is_direct && HANDLED_DIRECTLY.contains(&&*errors) || errors == "strict" && is_standard(py, &encoding)? {
        return Ok(());
    }
    Err(cannot(&format!("encoding '{encoding}' with errors='{errors}', which may be code of the program's")))
}

/// True if the standard library has the encoding. Its codecs are found before those of the program.
fn is_standard(py: Python<'_>, encoding: &str) -> PyResult<bool> {
    let aliases = cpython::import(py, "encodings.aliases")?.getattr("aliases")?;
    Ok(aliases.contains(encoding)? || aliases.call_method0("values")?.contains(encoding)?)
}
