//! What calls of Paddle's functions mean to a trace. The module that defines a function decides, with
//! short lists of exceptions that give their reason. There is no list of the functions themselves.

use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyFunction, PyString, PyType};
use sot_core::backend::CallPolicy;
use sot_core::bytecode::flags::GENERATOR;
use sot_core::cpython;
use sot_core::tracker;

use crate::backend::calls::attributes::{breaking_attribute, is_in_place, BREAKING_ATTRIBUTES, IN_PLACE};
use crate::backend::calls::foundation;
use crate::backend::calls::layer;
use crate::backend::calls::marks;
use crate::backend::calls::origin;
use crate::backend::graph::distributed;
use crate::backend::memory::in_place;
use crate::backend::paddle::Paddle;

/// Modules whose functions build graph, by prefix.
const GRAPH_BUILDING: &[&str] = &[
    "paddle.tensor.",
    "paddle.nn.functional.",
    "paddle.linalg",
    "paddle.fft",
    "paddle.signal",
    "paddle.geometric.",
    "paddle.vision.ops",
    "paddle.incubate.nn.functional.",
    "paddle.incubate.operators.",
    "paddle.incubate.tensor.",
    "paddle.audio.functional.window",
    "paddle.compat.nn.functional",
    "paddle.base.dygraph.generated_tensor_methods_patch",
    "paddle.base.dygraph.math_op_patch",
    "paddle.base.libpaddle.pir.ops",
    "paddle.base.libpaddle.eager.ops",
    "paddle._C_ops",
];

/// Modules whose functions must run eagerly, by prefix, with the reason.
const BREAKING: &[(&str, &str)] = &[
    ("paddle.tensor.to_string", "formats values of tensors"),
    ("paddle.tensor.array", "tensor arrays are not part of graphs yet"),
    ("paddle.framework.io", "reads or writes files"),
    ("paddle.framework.random", "reads or sets the random state"),
    ("paddle.framework.framework", "changes the default element type"),
    ("paddle.device", "asks or changes the device; do it outside the hot function"),
    ("paddle.autograd", "runs or records gradients eagerly"),
    ("paddle.amp", "scales gradients or converts models for mixed precision; call it outside the translated function"),
    ("paddle.optimizer", "updates parameters in place"),
    ("paddle.distributed", "communicates; collective calls run eagerly"),
    ("paddle.io", "loads data"),
    ("paddle.jit", "converts functions by itself"),
    ("paddle.metric", "counts with numpy"),
    ("paddle.nn.utils.transform_parameters", "moves parameters to other memory"),
    ("paddle.static", "belongs to static graph programs"),
    ("paddle.hapi", "inspects a model by running it"),
    ("paddle.quantization.quanters", "keeps statistics in tensors of its own, and asks for what they hold"),
    ("paddle.sparse", "sparse tensors are not part of graphs yet"),
    ("paddle.utils.dlpack", "hands memory to other libraries"),
    ("paddle.utils.cpp_extension", "builds or loads native code"),
    ("paddle.compat.proxy", "changes what Paddle's names mean"),
];

/// Functions whose result is known while tracing, because it depends on the global state that is guarded; by module
/// and name.
const CONSTANT: &[(&str, &[&str])] = &[
    (
        "paddle.base.framework",
        &[
            "in_dygraph_mode",
            "in_dynamic_mode",
            "in_pir_mode",
            "in_dynamic_or_pir_mode",
            "use_pir_api",
            "is_compiled_with_cinn",
            "is_compiled_with_cuda",
            "is_compiled_with_distribute",
            "is_compiled_with_rocm",
            "is_compiled_with_xpu",
            "_current_expected_place",
            "_current_expected_place_",
        ],
    ),
    ("paddle.base.dygraph.base", &["in_to_static_mode", "in_sot_simulation_mode", "is_grad_enabled", "enabled"]),
    ("paddle.base.data_feeder", &["convert_dtype"]),
    ("paddle.framework.framework", &["get_default_dtype"]),
    ("paddle.amp", &["is_float16_supported", "is_bfloat16_supported"]),
    ("paddle.amp.auto_cast", &["is_autocast_enabled", "get_autocast_dtype"]),
    ("paddle.framework.dtype", &["iinfo", "finfo"]),
    (
        "paddle.device",
        &[
            "get_all_custom_device_type",
            "get_all_device_type",
            "get_cudnn_version",
            "get_device",
            "is_compiled_with_custom_device",
            "is_compiled_with_ipu",
            "is_compiled_with_xpu",
        ],
    ),
    ("paddle.tensor.manipulation", &["broadcast_shape"]),
    ("paddle.tensor.math", &["broadcast_shape", "broadcast_shapes"]),
];

/// Functions that make context managers for the global state, by module and name.
const MANAGERS: &[(&str, &[&str])] = &[("paddle.amp.auto_cast", &["auto_cast", "amp_guard", "autocast"])];

/// Functions that read state that a context manager changes besides the guarded one: by module and name, with what
/// they read.
const FOLLOWED_OUTSIDE: &[(&str, &str, &str)] =
    &[("paddle.amp.auto_cast", "amp_state", "tells what the innermost auto_cast was called with")];

/// Functions that are followed although the rest of their module must run eagerly, by module and name.
const FOLLOWED: &[(&str, &[&str])] = &[
    ("paddle.amp.auto_cast", &["amp_global_state"]),
    ("paddle.amp.grad_scaler", &["scale"]),
    (
        "paddle.distributed.auto_parallel.process_mesh",
        &["dim_names", "get_dim_size", "get_rank_by_dim_and_process_id", "mesh", "unique_id"],
    ),
    ("paddle.distributed.communication.group", &["is_initialized"]),
    ("paddle.distributed.fleet.base.topology", &["_get_hybrid_communicate_group"]),
    ("paddle.distributed.fleet.fleet", &["get_hybrid_communicate_group"]),
    ("paddle.distributed.fleet.layers.mpu.random", &["get_rng_state_tracker"]),
    ("paddle.base.dygraph.math_op_patch", &["requires_grad", "requires_grad_"]),
    // In static mode, the C++ function that it calls ends the process with Paddle 3.0.
    ("paddle.tensor.creation", &["_to_tensor_non_static", "cauchy_"]),
    ("paddle.tensor.logic", &["is_tensor"]),
    ("paddle.tensor.manipulation", &["atleast_1d", "atleast_2d", "atleast_3d"]),
    ("paddle.tensor.random", &["bernoulli_", "log_normal_", "normal_"]),
    ("paddle.jit.api", &["not_to_static"]),
    ("paddle.jit.dy2static.convert_call_func", &["ConversionOptions", "__init__", "attach"]),
    ("paddle.jit.dy2static.utils", &["Nil", "TransformOptions", "__init__", "attach", "with_skip_transform_mode"]),
    ("paddle.jit.marker", &["not_to_static", "unified"]),
    ("paddle.metric.metrics", &["accumulate", "compute", "name", "reset"]),
    // In eager mode it raises for the numbers of some windows, in static mode for none.
    ("paddle.signal", &["istft"]),
    ("paddle.optimizer.lr", &["__call__"]),
    ("paddle.optimizer.optimizer", &["get_lr"]),
    ("paddle.static.amp.fp16_utils", &["fp16_guard"]),
    ("paddle.static.nn.control_flow", &["case", "cond"]),
    ("paddle.static.nn.sequence_lod", &["sequence_mask"]),
    (
        "paddle.distributed.parallel",
        &[
            "_find_tensor",
            "_get_global_parallel_env",
            "forward",
            "get_rank",
            "get_world_size",
            "local_rank",
            "nranks",
            "rank",
            "world_size",
        ],
    ),
];

/// Functions that must run eagerly although their module builds graph or is followed, by name, with the reason.
const BREAKING_FUNCTIONS: &[(&str, &str)] = &[
    ("tolist", "needs the tensor's values; use .detach() and keep it a tensor, or convert outside the hot function"),
    ("from_numpy", "copies Python data, which may change between calls; make the tensor outside the hot function"),
    ("create_parameter", "makes a parameter; make it in the layer's __init__"),
    ("create_tensor", "makes a variable outside the graph"),
    ("create_global_var", "makes a variable outside the graph"),
    ("grad", "runs backward passes eagerly"),
    ("enable_dygraph", "changes the execution mode"),
    ("disable_dygraph", "leaves eager mode"),
    ("set_flags", "changes global flags"),
    ("get_flags", "reads global flags, which no guard covers"),
    ("decode_jpeg", "reads an encoded image, whose size is known only then"),
    ("read_file", "reads a file"),
    ("matrix_exp", "loops while its values say so, through which no gradient flows in a program"),
    ("class_center_sample", "samples by the values of its labels"),
    ("householder_product", "writes to its operand"),
    (
        "recompute",
        "runs its block once more in the backward pass, which a program cannot; the block is translated by itself",
    ),
];

/// Functions in C that take more arguments in a program than in eager mode. Without these, Paddle ends the process.
const OTHER_IN_PROGRAMS: &[&str] = &["unique"];

/// Decides what a call of `callable` means.
pub(crate) fn call_policy(paddle: &Paddle, callable: &Bound<'_, PyAny>) -> CallPolicy {
    if !is_function(callable) {
        return CallPolicy::Follow;
    }
    policy(paddle, callable).unwrap_or_else(|error| {
        CallPolicy::Break(format!(
            "{}, whose meaning to Paddle could not be found out: {error}",
            tracker::name(callable)
        ))
    })
}

fn policy(paddle: &Paddle, callable: &Bound<'_, PyAny>) -> PyResult<CallPolicy> {
    if let Some(list) = marks::listed(callable)? {
        return Ok(CallPolicy::Listed(list.to_owned()));
    }
    if marks::is_statement(callable)? {
        return Ok(CallPolicy::FollowOrCall);
    }
    match callable.cast::<PyType>() {
        Ok(class) => of_class(paddle, class),
        Err(_) => of_function(paddle, callable),
    }
}

/// True if `callable` is a class or a function. Other objects are called by their own `__call__`, and reading their
/// attributes may run code of the program.
fn is_function(callable: &Bound<'_, PyAny>) -> bool {
    let ty = callable.get_type();
    callable.is_instance_of::<PyType>()
        || callable.is_instance_of::<PyFunction>()
        || callable.is_instance_of::<PyCFunction>()
        || ty.module().is_ok_and(|module| module == "builtins") && !cpython::is_heap_type(&ty)
}

fn of_class(paddle: &Paddle, class: &Bound<'_, PyType>) -> PyResult<CallPolicy> {
    let py = class.py();
    if paddle.is_plain_type(class) {
        return Ok(CallPolicy::Constant);
    }
    if class.is_subclass(paddle.tensor_type.bind(py))? {
        return Ok(breaks("Tensor", "makes a tensor object; make it outside the hot function"));
    }
    if class.is_subclass(paddle.layer_type.bind(py))? {
        let name = class.name()?.to_string();
        if layer::is_bare(paddle, class)? {
            return Ok(match foundation::of_making(paddle, class)?.replaced() {
                None => CallPolicy::Make,
                Some(replaced) => breaks(&name, &format!("is made by way of {replaced}, which is replaced")),
            });
        }
        return Ok(breaks(&name, "may make parameters; make the layer outside the translated function"));
    }
    Ok(CallPolicy::Follow)
}

fn of_function(paddle: &Paddle, callable: &Bound<'_, PyAny>) -> PyResult<CallPolicy> {
    // A bound method is decided by its function, and an instance by its class.
    if callable.hasattr("__self__")? && !callable.is_instance_of::<PyCFunction>() {
        return Ok(CallPolicy::Follow);
    }
    let Some(name) = text(callable, "__name__")? else { return Ok(CallPolicy::Follow) };
    let Some(module) = module_of(paddle, callable)? else { return Ok(CallPolicy::Follow) };
    if is_special_method(paddle, callable, &name) {
        return Ok(CallPolicy::Method(name));
    }
    let policy = by_module(&module, &name);
    let is_followed =
        matches!(policy, CallPolicy::Api | CallPolicy::InPlace | CallPolicy::Constant | CallPolicy::Manager)
            && foundation::is_replaced(paddle, callable)?
            || policy != CallPolicy::Follow && !origin::is_own(callable)?;
    if is_followed {
        return Ok(CallPolicy::Follow);
    }
    if policy == CallPolicy::Api {
        if let Some((argument, at)) = in_place::asked_by(paddle, callable, &name)? {
            return Ok(CallPolicy::InPlaceIf { argument, at });
        }
    }
    if policy == CallPolicy::Manager && is_generator_function(callable)? {
        return Ok(breaks(&name, "changes mixed precision as a decorator; use it in a with statement"));
    }
    Ok(policy)
}

/// True if `callable` is the special method `name` of tensors, and values of a program have that method, too. Methods
/// that break the graph when called on a tensor do not count: as functions they are followed.
fn is_special_method(paddle: &Paddle, callable: &Bound<'_, PyAny>, name: &str) -> bool {
    let breaks = || BREAKING_ATTRIBUTES.iter().any(|(breaking, _)| *breaking == name);
    if !name.starts_with("__") || !name.ends_with("__") || breaks() {
        return false;
    }
    let py = callable.py();
    let own = Paddle::defined(py, &paddle.tensor_type, name);
    let of_object = cpython::type_lookup(&py.get_type::<PyAny>(), &PyString::new(py, name));
    let is_own = own.is_some_and(|own| own.is(callable)) && of_object.is_none_or(|of_object| !of_object.is(callable));
    is_own && Paddle::defined(py, &paddle.value_type, name).is_some()
}

/// True if a call of `callable` makes a generator, like the functions from which context managers are made.
fn is_generator_function(callable: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Some(code) = callable.getattr_opt("__code__")? else { return Ok(false) };
    Ok(code.getattr("co_flags")?.extract::<u32>()? & GENERATOR != 0)
}

/// Returns the module that defines a function. Operations in C are found by the object that they are bound to.
fn module_of(paddle: &Paddle, callable: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if let Some(module) = text(callable, "__module__")? {
        return Ok(Some(module));
    }
    let owner = match callable.getattr_opt("__objclass__")? {
        Some(owner) => owner,
        None => match callable.getattr_opt("__self__")? {
            Some(owner) => owner,
            None => return Ok(None),
        },
    };
    if owner.is(&paddle.tensor_type) {
        return Ok(Some("paddle.Tensor".to_owned()));
    }
    text(&owner, "__name__")
}

fn text(object: &Bound<'_, PyAny>, attribute: &str) -> PyResult<Option<String>> {
    match object.getattr_opt(attribute)? {
        Some(value) => Ok(value.extract().ok()),
        None => Ok(None),
    }
}

fn by_module(module: &str, name: &str) -> CallPolicy {
    if !module.starts_with("paddle") {
        return CallPolicy::Follow;
    }
    if CONSTANT.iter().any(|(of, names)| *of == module && names.contains(&name)) {
        return CallPolicy::Constant;
    }
    if module == "paddle.base.core" || module == "paddle.base.libpaddle" || module == "paddle.base.libpaddle.eager" {
        return of_core(name);
    }
    if module == "paddle.Tensor" {
        return breaks(name, "is a method of eager tensors; call it as a method");
    }
    // Paddle defines `Tensor.__float__` under the name `_float_`, and others alike.
    if name.starts_with('_') && is_in_place(name) && is_within(module, "paddle.base.dygraph.math_op_patch") {
        let method = format!("_{name}_");
        let reads = |reason| CallPolicy::ReadsValue(format!("Tensor.{method} {reason}"));
        return breaking_attribute(&method).map_or(CallPolicy::Follow, reads);
    }
    if module == "paddle.base.libpaddle.pir.ops" && OTHER_IN_PROGRAMS.contains(&name) {
        return breaks(name, "takes other arguments in a program");
    }
    if let Some((_, reason)) = BREAKING_FUNCTIONS.iter().find(|(of, _)| *of == name) {
        return breaks(name, reason);
    }
    if MANAGERS.iter().any(|(of, names)| *of == module && names.contains(&name)) {
        return CallPolicy::Manager;
    }
    if let Some((.., reason)) = FOLLOWED_OUTSIDE.iter().find(|(of, function, _)| *of == module && *function == name) {
        return CallPolicy::FollowOutside(format!("paddle: {name} {reason}"));
    }
    if FOLLOWED.iter().any(|(of, names)| *of == module && names.contains(&name)) {
        return CallPolicy::Follow;
    }
    if module == "paddle.metric.metrics" && name == "accuracy" {
        return CallPolicy::Api;
    }
    if module == distributed::MODULE && distributed::FUNCTIONS.contains(&name) {
        return CallPolicy::Api;
    }
    if let Some((_, reason)) = BREAKING.iter().find(|(prefix, _)| is_within(module, prefix)) {
        return breaks(name, reason);
    }
    if !GRAPH_BUILDING.iter().any(|prefix| is_within(module, prefix)) {
        return CallPolicy::Follow;
    }
    if !is_in_place(name) {
        return CallPolicy::Api;
    }
    if in_place::is_functional(name) {
        return CallPolicy::InPlace;
    }
    breaks(name, IN_PLACE)
}

/// Decides for functions of Paddle's C++ core: pure questions about the build, places and placements are known,
/// everything else runs eagerly.
fn of_core(name: &str) -> CallPolicy {
    let asks_a_place = name.starts_with("is_") && name.ends_with("_place");
    let asks_a_placement = matches!(name, "is_shard" | "is_replicated" | "is_partial" | "reduce_type");
    if name == "_has_grad" || name.starts_with("is_compiled_with") || asks_a_place || asks_a_placement {
        CallPolicy::Constant
    } else if name == "_set_has_grad" {
        CallPolicy::Switch
    } else {
        breaks(name, "is part of Paddle's core and cannot be followed")
    }
}

fn breaks(name: &str, reason: &str) -> CallPolicy {
    CallPolicy::Break(format!("paddle: {name} {reason}"))
}

/// True if `module` is `prefix` or lies in it.
fn is_within(module: &str, prefix: &str) -> bool {
    match module.strip_prefix(prefix.trim_end_matches('.')) {
        Some(rest) => rest.is_empty() || rest.starts_with('.'),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_at_a_dot() {
        assert!(is_within("paddle.fft", "paddle.fft") && is_within("paddle.tensor.math", "paddle.tensor."));
        assert!(!is_within("paddle.fftpack", "paddle.fft"));
    }

    #[test]
    fn functions_fall_into_the_four_kinds() {
        assert_eq!(by_module("paddle.tensor.math", "add"), CallPolicy::Api);
        assert_eq!(by_module("paddle.base.framework", "in_dynamic_mode"), CallPolicy::Constant);
        assert_eq!(by_module("paddle.vision.models.resnet", "conv3x3"), CallPolicy::Follow);
        assert_eq!(by_module("mine", "add"), CallPolicy::Follow);
        assert_eq!(by_module("paddle.tensor.math", "add_"), CallPolicy::InPlace);
        assert_eq!(by_module("paddle.tensor.random", "normal_"), CallPolicy::Follow);
        assert!(matches!(by_module("paddle.framework.random", "seed"), CallPolicy::Break(_)));
    }
}
