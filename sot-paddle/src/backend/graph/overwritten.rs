//! Operations that Paddle runs in place, over their first operand, when nothing needs it afterwards. It does not see
//! where another operand is the same tensor (also one that only becomes the same when equal operations are made one),
//! of which the operation reads elements that it has written already. Such an operation is given a copy.

use pyo3::prelude::*;

use crate::backend::numbers::exact::Mender;
use crate::backend::paddle::meta;

/// Operations that can be run in place and whose result at one place depends on other places of their operands.
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

/// Gives a new operation a copy of its first operand where another operand may be that tensor.
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
