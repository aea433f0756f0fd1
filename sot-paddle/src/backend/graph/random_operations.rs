//! Operations that draw random numbers, as Paddle's programs name them.

use crate::backend::paddle::operation;
use pyo3::prelude::*;

/// Operations that Paddle merges if they are equal, though each draws numbers of its own.
const MERGED: [&str; 26] = [
    "bernoulli",
    "binomial",
    "class_center_sample",
    "cudnn_lstm",
    "dirichlet",
    "dpsgd",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "fused_attention",
    "fused_bias_dropout_residual_layer_norm",
    "fused_dropout_add",
    "fused_feedforward",
    "graph_khop_sampler",
    "graph_sample_neighbors",
    "gumbel_softmax",
    "multinomial",
    "nce",
    "poisson",
    "rnn",
    "rrelu",
    "shuffle_batch",
    "standard_gamma",
    "tdm_sampler",
    "top_p_sampling",
    "truncated_gaussian_random",
    "weighted_sample_neighbors",
];

/// Beginnings of the names of attention operations, which may drop out weights. Paddle merges them, too.
const ATTENTION: [&str; 3] = ["flash", "memory_efficient_attention", "variable_length_memory"];

/// Other operations that draw random numbers, without the underscore of those that write in place.
const UNMERGED: [&str; 10] = [
    "dropout",
    "exponential",
    "gaussian",
    "gaussian_inplace",
    "randint",
    "random",
    "randperm",
    "uniform",
    "uniform_inplace",
    "uniform_random_batch_size_like",
];

/// True if an operation draws random numbers, and Paddle merges two of them if they are equal.
pub(crate) fn draws_but_is_merged(name: &str) -> bool {
    let name = bare(name);
    MERGED.contains(&name) || ATTENTION.iter().any(|beginning| name.starts_with(beginning))
}

/// True if an operation draws random numbers.
pub(crate) fn draws(name: &str) -> bool {
    UNMERGED.contains(&bare(name)) || draws_but_is_merged(name)
}

/// True if an operation of the program draws random numbers.
pub(crate) fn are_in(program: &Bound<'_, PyAny>) -> PyResult<bool> {
    for operation in operation::of_program(program)? {
        if draws(&operation::name_of(&operation)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The name of an operation without its dialect and the underscore of operations that write in place.
fn bare(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name).trim_end_matches('_')
}
