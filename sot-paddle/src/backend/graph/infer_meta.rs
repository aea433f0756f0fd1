//! Operations whose result static mode describes wrongly: with another element type or shape than the kernel gives, or
//! because it runs the kernel of another type than eager mode does. Later operations of the program would be built from
//! the wrong meta, so it is corrected where nothing has been built from it yet, and the operation is refused elsewhere.

use std::collections::HashSet;

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;

use crate::backend::graph::builder::identity;
use crate::backend::graph::kernels;
use crate::backend::graph::other_gradients;
use crate::backend::graph::overwritten;
use crate::backend::graph::unknown_sizes;
use crate::backend::numbers::exact::OperandReplacer;
use crate::backend::numbers::rounded::CallNumbers;
use crate::backend::numbers::where_op;
use crate::backend::paddle::meta::{self, dtype_name};
use crate::backend::paddle::operation;
use crate::backend::paddle::static_mode::BuildTarget;
use crate::backend::paddle::Paddle;
use sot_core::cpython;

/// The correct element type of an operation's result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DtypeRule {
    Bool,
    /// The type that the release gives ranks of matrices.
    Rank,
    /// `int32` or `int64`.
    Index,
    /// Floating or complex: numbers of other types become `float32`.
    Floating,
    /// The element type of the first operand.
    Operand,
    /// All operands have one element type, or eager mode would have converted them to one.
    OneForAll,
    /// The shape that static mode describes is always wrong.
    OtherShape,
}

/// Operations with a wrong description, with the rules for their first results. The rule for the first result must
/// hold whichever result is used. Found by comparing eager mode with static mode for all functions and several element
/// types (`tests/api_table`).
const KINDS: [(&str, &[DtypeRule]); 19] = [
    ("pd_op.all", &[DtypeRule::Bool]),
    ("pd_op.any", &[DtypeRule::Bool]),
    ("pd_op.equal_all", &[DtypeRule::Bool]),
    ("pd_op.exp", &[DtypeRule::Floating]),
    ("pd_op.expm1", &[DtypeRule::Floating]),
    ("pd_op.log", &[DtypeRule::Floating]),
    ("pd_op.log10", &[DtypeRule::Floating]),
    ("pd_op.log1p", &[DtypeRule::Floating]),
    ("pd_op.log2", &[DtypeRule::Floating]),
    ("pd_op.lstsq", &[DtypeRule::OtherShape]),
    ("pd_op.matmul", &[DtypeRule::OneForAll]),
    ("pd_op.matrix_rank", &[DtypeRule::Rank]),
    ("pd_op.matrix_rank_tol", &[DtypeRule::Rank]),
    ("pd_op.matrix_rank_atol_rtol", &[DtypeRule::Rank]),
    ("pd_op.overlap_add", &[DtypeRule::Operand]),
    ("pd_op.reduce_as", &[DtypeRule::Operand]),
    ("pd_op.slogdet_v2", &[DtypeRule::OtherShape]),
    ("pd_op.unique", &[DtypeRule::Operand, DtypeRule::Index, DtypeRule::Index, DtypeRule::Index]),
    ("pd_op.unique_consecutive", &[DtypeRule::Operand, DtypeRule::Index, DtypeRule::Index]),
];

/// The operations that have been checked, by their results.
#[derive(Default)]
pub(crate) struct CheckedOperations(HashSet<u64>);

impl CheckedOperations {
    /// Checks the operations that compute the values in `result`, at any depth. If one is described wrongly, the
    /// operations that the statement has appended are removed from the program, and the call is an error.
    pub(crate) fn check(
        &mut self,
        paddle: &Paddle,
        target: &BuildTarget,
        numbers: &CallNumbers,
        result: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let mut new = HashSet::new();
        let replacer = OperandReplacer { paddle, target, py: result.py() };
        let values = meta::values_in(paddle, result)?;
        let finals = values.iter().map(|value| identity(paddle, value)).collect::<PyResult<HashSet<_>>>()?;
        let checked =
            values.iter().try_for_each(|value| self.check_value(&replacer, numbers, (value, &finals), &mut new));
        if checked.is_err() {
            remove(paddle, target, result.py(), &new)?;
        } else {
            self.0.extend(new);
        }
        checked
    }

    /// Checks all operations that lead to a value. `finals` are the values that the statement gives. The first wrong
    /// description is the error.
    fn check_value(
        &self,
        replacer: &OperandReplacer<'_, '_>,
        numbers: &CallNumbers,
        (value, finals): (&Bound<'_, PyAny>, &HashSet<u64>),
        new: &mut HashSet<u64>,
    ) -> PyResult<()> {
        let py = value.py();
        let (mut pending, mut wrong) = (vec![value.clone()], Ok(()));
        while let Some(value) = pending.pop() {
            let id = identity(replacer.paddle, &value)?;
            if self.0.contains(&id) || !new.insert(id) {
                continue;
            }
            let operation = value.call_method0(intern!(py, "get_defining_op"))?;
            if operation.is_none() {
                continue;
            }
            let sources: Vec<Bound<'_, PyAny>> = operation.call_method0(intern!(py, "operands_source"))?.extract()?;
            let name = operation.call_method0(intern!(py, "name"))?;
            let name = name.extract::<&str>()?;
            let is_final = |result: &Bound<'_, PyAny>| Ok(finals.contains(&identity(replacer.paddle, result)?));
            if !is_described(replacer, (&operation, name), id, &sources, is_final)? {
                let types = sources.iter().map(dtype).collect::<PyResult<Vec<_>>>()?.join(", ");
                let text = format!("static mode takes the result of {name} of {types} for another tensor than it is");
                wrong = Err(PyNotImplementedError::new_err(text));
            }
            wrong = wrong.and_then(|()| unknown_sizes::correct(&operation, name, &sources, is_final));
            wrong = wrong.and_then(|()| kernels::refuse_view(py, name));
            wrong = wrong.and_then(|()| kernels::refuse_missing(replacer.paddle, name, &sources));
            wrong = wrong.and_then(|()| other_gradients::refuse_operation(replacer.paddle, &operation, name, &sources));
            let is_new = |value: &Bound<'_, PyAny>| Ok(!self.0.contains(&identity(replacer.paddle, value)?));
            wrong = wrong.and_then(|()| numbers.check(replacer, &operation, name, is_new));
            wrong = wrong.and_then(|()| where_op::keep_sign(replacer, &operation, name, &sources, is_new));
            wrong = wrong.and_then(|()| overwritten::protect(replacer, &operation, name, &sources));
            pending.extend(sources);
        }
        wrong
    }
}

/// False if an operation is in `KINDS`, and static mode describes the result with this identity, or its first result,
/// wrongly. A wrong element type is corrected if no other operation has taken the result yet.
fn is_described(
    replacer: &OperandReplacer<'_, '_>,
    (operation, name): (&Bound<'_, PyAny>, &str),
    used: u64,
    sources: &[Bound<'_, PyAny>],
    is_final: impl Fn(&Bound<'_, PyAny>) -> PyResult<bool>,
) -> PyResult<bool> {
    let Some((_, rules)) = KINDS.iter().find(|(known, _)| *known == name) else { return Ok(true) };
    let results: Vec<Bound<'_, PyAny>> = operation.call_method0(intern!(operation.py(), "results"))?.extract()?;
    for (at, (result, rule)) in results.iter().zip(*rules).enumerate() {
        if at > 0 && identity(replacer.paddle, result)? != used || rule.is_that_of(replacer.paddle, result, sources)? {
            continue;
        }
        let Some(correct) = rule.correct_dtype(replacer.paddle, operation, sources)? else { return Ok(false) };
        let is_unused = result.call_method0(intern!(result.py(), "use_empty"))?.is_truthy()?;
        if !is_unused || !is_final(result)? {
            return Ok(false);
        }
        set_dtype(replacer, result, &correct)?;
    }
    Ok(true)
}

/// Describes a value as one of another element type.
fn set_dtype(replacer: &OperandReplacer<'_, '_>, value: &Bound<'_, PyAny>, dtype: &str) -> PyResult<()> {
    let py = value.py();
    // There is no other way to a type than a value that has it.
    let of_that_type = replacer.paddle.static_mode.within(py, replacer.target, || {
        let other = cpython::import(py, "paddle")?.call_method1("zeros", ([1], dtype))?;
        let ty = other.call_method0(intern!(py, "type"))?;
        let operation = other.call_method0(intern!(py, "get_defining_op"))?;
        replacer.target.block(py).call_method1(intern!(py, "remove_op"), (operation,))?;
        Ok(ty)
    })?;
    let create = cpython::import(py, "paddle.pir")?.getattr(intern!(py, "create_shaped_type"))?;
    let ty = create.call1((of_that_type, value.getattr(intern!(py, "shape"))?))?;
    value.call_method1(intern!(py, "set_type"), (ty,)).map(drop)
}

/// Removes the operations with these results from the program, which would run them, and the operations that use the
/// results. Such operations exist because operands have been replaced by others made from them.
fn remove(paddle: &Paddle, target: &BuildTarget, py: Python<'_>, results: &HashSet<u64>) -> PyResult<()> {
    let (mut gone, mut removed) = (results.clone(), Vec::new());
    let block = target.main.bind(py).call_method0(intern!(py, "global_block"))?;
    for operation in operation::of_block(&block)? {
        if KEPT.contains(&&*operation::name_of(&operation)?) {
            continue;
        }
        let ids = |method: &str| -> PyResult<Vec<u64>> {
            let values: Vec<Bound<'_, PyAny>> = operation.call_method0(method)?.extract()?;
            Ok(values.iter().filter_map(|value| identity(paddle, value).ok()).collect())
        };
        let (own, sources) = (ids("results")?, ids("operands_source")?);
        if own.first().is_some_and(|first| gone.contains(first)) || sources.iter().any(|source| gone.contains(source)) {
            gone.extend(own);
            removed.push(operation);
        }
    }
    for operation in removed.iter().rev() {
        block.call_method1(intern!(py, "remove_op"), (operation,))?;
    }
    Ok(())
}

/// Operations that stand for inputs and parameters; they are never removed.
const KEPT: [&str; 2] = ["pd_op.data", "builtin.parameter"];

impl DtypeRule {
    fn is_that_of(self, paddle: &Paddle, result: &Bound<'_, PyAny>, sources: &[Bound<'_, PyAny>]) -> PyResult<bool> {
        let ty = dtype(result)?;
        Ok(match self {
            DtypeRule::Bool => ty == "bool",
            DtypeRule::Rank => ty == paddle.release.rank_dtype,
            DtypeRule::Index => matches!(&*ty, "int32" | "int64"),
            DtypeRule::Floating => ty.contains("float") || ty.contains("complex"),
            DtypeRule::Operand => sources.first().map(dtype).transpose()?.is_none_or(|operand| operand == ty),
            DtypeRule::OneForAll => {
                sources.iter().try_fold(true, |same, source| PyResult::Ok(same && dtype(source)? == ty))?
            }
            DtypeRule::OtherShape => false,
        })
    }

    /// The element type of the result, if it is known.
    fn correct_dtype(
        self,
        paddle: &Paddle,
        operation: &Bound<'_, PyAny>,
        sources: &[Bound<'_, PyAny>],
    ) -> PyResult<Option<String>> {
        let py = operation.py();
        Ok(match self {
            DtypeRule::Bool => Some("bool".to_owned()),
            DtypeRule::Rank => Some(paddle.release.rank_dtype.to_owned()),
            DtypeRule::Index => {
                let wanted = operation.call_method0(intern!(py, "attrs"))?.get_item("dtype")?;
                Some(dtype_name(&wanted)?.to_string())
            }
            DtypeRule::Operand => sources.first().map(dtype).transpose()?,
            DtypeRule::Floating | DtypeRule::OneForAll | DtypeRule::OtherShape => None,
        })
    }
}

fn dtype(value: &Bound<'_, PyAny>) -> PyResult<String> {
    dtype_name(&value.getattr(intern!(value.py(), "dtype"))?).map(|name| name.to_string())
}
