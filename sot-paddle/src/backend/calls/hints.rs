//! Advice about graph breaks, in Paddle's terms.

use sot_core::error::ReasonId;

/// Returns Paddle's own advice about a reason, if there is any.
#[must_use]
pub(crate) fn hint(reason: ReasonId) -> Option<&'static str> {
    HINTS.iter().find(|(of, _)| *of == reason).map(|(_, hint)| *hint)
}

const HINTS: &[(ReasonId, &str)] = &[
    (ReasonId::TensorTruth, "Use paddle.where or a mask, or keep the branch: the code on both sides is compiled."),
    (
        ReasonId::TensorValue,
        "Keep the value a paddle.Tensor, or read it less often, or behind the tensor work: .item(), .numpy() and float() \
         end a graph. So does .backward(), which costs nothing where no graph follows.",
    ),
    (ReasonId::UnsupportedCall, "Move the call before or after the tensor work, or use Paddle's function for it."),
    (
        ReasonId::BreakListed,
        "Take the API off sot.break_on's list, or off Paddle's (force_dynamic), if it should be compiled.",
    ),
];
