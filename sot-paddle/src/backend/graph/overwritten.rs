//! Protects operands from operations that Paddle runs in place. Paddle writes the result over the first operand if
//! nothing needs that operand afterwards. Paddle does not notice when another operand is the same tensor (or becomes
//! the same tensor when equal operations are merged), so that the operation reads elements that it has written
//! already. Such an operation is given a copy.

use pyo3::prelude::*;

use crate::backend::numbers::exact::Mender;
use crate::backend::paddle::meta;

/// Operations that can run in place and whose result at one position depends on other positions of their operands.
const MIXING: &[&str] = &[
    "pd_op.addmm",
    "pd_op.baddbmm",
    "pd_op.cross_entropy_with_softmax",
    "pd_op.fill_diagonal_tensor",
    "pd_op.index_add",
    "pd_op.index_elementwise_put_with_tensor",
    "pd_op.index_put",
    "pd_op.put_along_axis",
    "pd_op.scatter",
    "pd_op.set_value_with_tensor",
    "pd_op.set_value_with_tensor_",
];

/// Gives a new operation a copy of its first operand, if another operand may be the same tensor.
pub(crate) fn protect<'py>(
    mender: &Mender<'_, 'py>,
    operation: &Bound<'py, PyAny>,
    name: &str,
    sources: &[Bound<'py, PyAny>],
) -> PyResult<()> {
    if !MIXING.contains(&name) {
        return Ok(());
    }
    let Some((first, others)) = sources.split_first() else { return Ok(()) };
    let Some(own) = meta::of_value(mender.paddle, first)? else { return Ok(()) };
    for other in others {
        let Ok(Some(meta)) = meta::of_value(mender.paddle, other) else { continue };
        let elements = |shape: &[Option<i64>]| shape.iter().copied().product::<Option<i64>>();
        let may_be_one = match (elements(&own.shape), elements(&meta.shape)) {
            (Some(own), Some(other)) => own == other,
            _ => true,
        };
        if own.dtype == meta.dtype && may_be_one {
            return mender.copy_first_operand(operation);
        }
    }
    Ok(())
}
