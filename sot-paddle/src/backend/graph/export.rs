//! `SOT_EXPORT`: hands a finished graph to `sot/_export.py`, which writes it to a file.

use std::path::Path;

use pyo3::prelude::*;
use sot_core::backend::TensorMeta;
use sot_core::cpython;
use sot_core::graph::{Exported, Statement, StatementKind};

const MODULE: &str = "sot._export";

/// A value: symbol, sizes, element type, and `stop_gradient`.
type Described<'a> = (&'a str, &'a [Option<i64>], &'a str, bool);

pub(crate) fn export(py: Python<'_>, folder: &Path, graph: &Exported<'_>) -> PyResult<()> {
    let statements: Vec<_> = graph.ir.statements.iter().zip(graph.targets).map(statement).collect();
    let arguments =
        (folder, &graph.ir.name, described(&graph.inputs), described(&graph.parameters), statements, &graph.ir.outputs);
    cpython::import(py, MODULE)?.call_method1("export", arguments).map(drop)
}

fn described(symbols: &[(String, TensorMeta)]) -> Vec<Described<'_>> {
    symbols.iter().map(|(name, meta)| (&**name, &*meta.shape, &*meta.dtype, !meta.gradient.flows)).collect()
}

fn statement<'a>(
    (statement, target): (&'a Statement, &'a String),
) -> (&'static str, &'a str, &'a [String], &'a [String], &'a str) {
    let kind = match statement.kind {
        StatementKind::Api => "api",
        StatementKind::Method => "method",
        StatementKind::InPlace => "inplace",
        StatementKind::Object(_) | StatementKind::Sir => "whole",
    };
    (kind, &statement.callee, &statement.args, &statement.kwargs, target)
}
