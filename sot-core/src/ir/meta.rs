//! What is known of tensors, and how statements name what they call.

use std::fmt;
use std::rc::Rc;

/// What is known of a tensor without computing it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorMeta {
    /// Size of each dimension; `None` where only the run tells.
    pub shape: Vec<Option<i64>>,
    /// The framework's name of the element type, such as `float32`.
    pub dtype: Rc<str>,
    /// True when no gradient flows through the tensor.
    pub stop_gradient: bool,
}

impl fmt::Display for TensorMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> =
            self.shape.iter().map(|d| d.map_or_else(|| "-1".to_owned(), |d| d.to_string())).collect();
        let (dims, dtype, stop) = (dims.join(", "), &self.dtype, self.stop_gradient);
        write!(f, "shape: [{dims}], dtype: {dtype}, stop_gradient: {}", if stop { "True" } else { "False" })
    }
}

/// How a statement names what it calls; with the arguments it is all a builder needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// A function of the framework: `callee(*args, **kwargs)`.
    Api,
    /// A method: `getattr(args[0], callee)(*args[1:], **kwargs)`; `callee` is a `str`.
    Method,
    /// A layer object, called as a whole.
    Layer,
    /// What changes its first argument, and no value but that: a method (a `str`) or a function. The builder gives the value
    /// the argument has from then on.
    InPlace,
}
