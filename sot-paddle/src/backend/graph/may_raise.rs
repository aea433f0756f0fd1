//! Operations, and calls in eager mode, that raise for no numbers of their operands: what they raise for, element
//! types, shapes and flags, is the same in each run of a graph.

use std::collections::HashSet;
use std::sync::LazyLock;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use sot_core::backend::CallKind;

use crate::backend::memory::in_place;
use crate::backend::numbers::scalar;
use crate::backend::paddle::meta;
use crate::backend::paddle::operation;
use crate::backend::paddle::Paddle;

/// Operations that compute the same way for all numbers of all operands. Here and below, names are without dialect,
/// without the ending of gradients, and without the underscore of operations in place.
const TAKE_ALL_NUMBERS: &str = "\
    abs acos acosh add add_n addmm allclose argsort as_complex as_real asin asinh assign assign_out assign_value atan \
    atan2 atanh baddbmm batch_norm bilinear bitwise_and bitwise_not bitwise_or bitwise_xor bmm broadcast_tensors cast \
    ceil celu channel_shuffle combine complex conj constant conv2d conv2d_transpose conv3d conv3d_transpose \
    copysign cos cosh cross data depthwise_conv2d depthwise_conv2d_transpose diag diag_embed diagonal digamma dist dot \
    einsum elu equal equal_all erf erfinv exp expand_as expm1 exponential fft_c2c fft_c2r fft_r2c fill \
    fill_diagonal flash_attn flatten flip floor fmax fmin frobenius_norm full full_int_array gaussian_inplace gelu \
    greater_equal greater_than group_norm gumbel_softmax hardshrink hardsigmoid hardswish hardtanh heaviside \
    huber_loss i0 i0e i1 i1e imag increment instance_norm isclose isfinite isinf isnan kldiv_loss kron label_smooth \
    layer_norm leaky_relu lerp less_equal less_than lgamma linear linear_v2 log log10 log1p log2 log_softmax \
    logcumsumexp logical_and logical_not logical_or logical_xor logit logsigmoid matmul maximum maxout meshgrid \
    minimum mish multiply mv nextafter not_equal numel ones ones_like p_norm parameter pixel_shuffle pixel_unshuffle \
    pow prelu real relu relu6 rint rms_norm round rrelu rsqrt scale selu set_parameter shadow_output shape shape64 \
    share_data sigmoid sigmoid_cross_entropy_with_logits sign silu sin sinh softmax softplus softshrink softsign sqrt \
    square squared_l2_norm stack stanh subtract swiglu swish sync_batch_norm tan tanh tanh_shrink thresholded_relu \
    trace transpose tril triu trunc unbind uniform_inplace unstack where zeros zeros_like";

/// Operations that do so for their first operand. Further ones are axes, sizes and bounds, of which some are refused.
const TAKE_ALL_FIRST_NUMBERS: &str = "\
    all amax amin any arange argmax argmin bicubic_interp bilinear_interp clip concat cumprod cumsum dropout empty \
    expand eye full_like full_with_tensor gaussian linear_interp linspace logsumexp max max_pool2d_with_index \
    max_pool3d_with_index mean mean_all min nearest_interp pad pad3d pool2d pool3d prod randint randperm \
    repeat_interleave reshape roll slice split split_with_num squeeze strided_slice sum tile topk trilinear_interp \
    truncated_gaussian_random uniform unsqueeze";

/// Operations that do so for floating-point numbers. Integers are not divided by zero.
const TAKE_ALL_FLOATS: &str = "divide elementwise_pow reciprocal";

/// Further functions and methods that do so, if their numbers are no integers. Names are without the underscores of
/// operators.
const CALLS: &str = "\
    assign_to astype clear_gradient_to_zero clone copy detach div ge gt le lt mm mul neg norm radd rand randn rmul \
    rsub rtruediv set_value sub truediv zero";

/// Operations that make the axes, sizes and bounds that are known while tracing.
const CONSTANTS: [&str; 2] = ["full", "full_int_array"];

/// The lists above.
struct Names {
    all: HashSet<&'static str>,
    first: HashSet<&'static str>,
    floats: HashSet<&'static str>,
    calls: HashSet<&'static str>,
}

static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let names = |list: &'static str| list.split_whitespace().collect();
    Names {
        all: names(TAKE_ALL_NUMBERS),
        first: names(TAKE_ALL_FIRST_NUMBERS),
        floats: names(TAKE_ALL_FLOATS),
        calls: names(CALLS),
    }
});

/// True if an operation of a program may raise although it did not in an earlier run.
pub(crate) fn operation_may_raise(paddle: &Paddle, operation: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    let py = operation.py();
    let bare = bare_name(name);
    let floats_only = NAMES.floats.contains(bare);
    let first_only = NAMES.first.contains(bare);
    if !floats_only && !first_only && !NAMES.all.contains(bare) {
        return Ok(true);
    }
    let operands = operation.call_method0(intern!(py, "operands_source"))?;
    for (at, operand) in operands.try_iter()?.enumerate() {
        let operand = operand?;
        // An operand that was left out.
        if !operand.call_method0(intern!(py, "initialized"))?.is_truthy()? {
            continue;
        }
        if has_unknown_size(paddle, &operand)? || first_only && at > 0 && !is_constant(&operand)? {
            return Ok(true);
        }
    }
    if !floats_only && !first_only {
        return Ok(false);
    }
    for result in operation.call_method0(intern!(py, "results"))?.try_iter()? {
        let result = result?;
        // The first operand may be a shape.
        if first_only && has_unknown_size(paddle, &result)? || floats_only && !is_floating(paddle, &result)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The name of an operation without dialect, without the ending of gradients, and without the underscore of operations
/// in place.
fn bare_name(name: &str) -> &str {
    let name = name.rsplit('.').next().unwrap_or(name).trim_end_matches('_');
    let name = name.strip_suffix("_grad").unwrap_or(name);
    ["_double", "_triple"].iter().find_map(|order| name.strip_suffix(order)).unwrap_or(name)
}

fn has_unknown_size(paddle: &Paddle, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    // Several values, as lists have them, are looked at where they are computed.
    if !value.call_method0(intern!(py, "initialized"))?.is_truthy()?
        || !value.call_method0(intern!(py, "is_dense_tensor_type"))?.is_truthy()?
    {
        return Ok(false);
    }
    Ok(meta::of_value(paddle, value)?.is_some_and(|meta| meta.shape.contains(&None)))
}

fn is_constant(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = value.py();
    let operation = value.call_method0(intern!(py, "get_defining_op"))?;
    if operation.is_none() {
        return Ok(false);
    }
    let name = operation::name_of(&operation)?;
    Ok(CONSTANTS.contains(&bare_name(&name)))
}

fn is_floating(paddle: &Paddle, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let dtype = meta::of_value(paddle, value)?.map(|meta| meta.dtype);
    Ok(dtype.is_some_and(|dtype| dtype.contains("float") || dtype.contains("complex")))
}

/// True if a call may raise although the same call of the same element types and shapes did not.
pub(crate) fn may_raise(
    paddle: &Paddle,
    kind: CallKind,
    callee: &Bound<'_, PyAny>,
    (args, kwargs): (&Bound<'_, PyTuple>, Option<&Bound<'_, PyDict>>),
) -> PyResult<bool> {
    if matches!(kind, CallKind::Object(_)) {
        return Ok(true);
    }
    let Some(name) = scalar::name(callee)? else { return Ok(true) };
    let name = name.trim_matches('_');
    let first_only = NAMES.first.contains(name);
    if !first_only && ![&NAMES.all, &NAMES.floats, &NAMES.calls].iter().any(|names| names.contains(name)) {
        return Ok(true);
    }
    let mut values = meta::values_in(paddle, args)?;
    if let Some(kwargs) = kwargs {
        values.extend(meta::values_in(paddle, kwargs)?);
    }
    if first_only {
        let first = args.get_item(0).map_or(Ok(Vec::new()), |first| meta::values_in(paddle, &first))?;
        if values.len() > first.len() {
            return Ok(true);
        }
    }
    for value in &values {
        let known = meta::of_value(paddle, value)?;
        if known.is_none_or(|meta| meta.shape.contains(&None) || meta.dtype.contains("int")) {
            return Ok(true);
        }
    }
    // A tensor that needs gradients cannot be changed where they are recorded, unless it was computed.
    let changed = args.get_item(0).ok().filter(|_| kind == CallKind::InPlace);
    match changed {
        Some(changed) if paddle.grad_enabled(callee.py())? && !in_place::is_set_value(callee)? => {
            Ok(!in_place::stops(&changed)?)
        }
        _ => Ok(false),
    }
}
