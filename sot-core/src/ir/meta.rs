//! Metas of tensors, and how a statement names its callee.

use std::fmt;
use std::rc::Rc;

/// Properties of a tensor that are known without computing it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorMeta {
    /// Size of each dimension; `None` if it is not known before run time.
    pub shape: Vec<Option<i64>>,
    /// The framework's name of the element type, such as `float32`.
    pub dtype: Rc<str>,
    /// Says whether a gradient may flow through the tensor.
    pub gradient: GradientFlow,
}

/// Says whether a gradient may flow through a tensor, and by which attribute the framework expresses it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GradientFlow {
    /// True if a gradient may flow.
    pub flows: bool,
    /// The attribute of tensors that tells it, with the attribute's value if a gradient may flow. `None` if the
    /// framework has no gradients.
    pub attribute: Option<(&'static str, bool)>,
}

impl GradientFlow {
    /// Gradient flow of tensors of a framework without gradients.
    pub const NONE: GradientFlow = GradientFlow { flows: false, attribute: None };

    /// Returns the same framework's description with another `flows`.
    #[must_use]
    pub fn with(self, flows: bool) -> Self {
        GradientFlow { flows, ..self }
    }
}

impl fmt::Display for GradientFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((name, flowing)) = self.attribute else { return Ok(()) };
        write!(f, ", {name}: {}", if self.flows == flowing { "True" } else { "False" })
    }
}

impl fmt::Display for TensorMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> =
            self.shape.iter().map(|d| d.map_or_else(|| "-1".to_owned(), |d| d.to_string())).collect();
        let (dims, dtype, gradient) = (dims.join(", "), &self.dtype, self.gradient);
        write!(f, "shape: [{dims}], dtype: {dtype}{gradient}")
    }
}

/// How a statement names its callee. With the arguments this is all that a builder needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// A function of the framework: `callee(*args, **kwargs)`.
    Api,
    /// A method: `getattr(args[0], callee)(*args[1:], **kwargs)`; `callee` is a `str`.
    Method,
    /// An object of the framework, called as a whole. The word is the framework's name for such objects.
    Object(&'static str),
    /// A method (a `str`) or a function that changes its first argument and nothing else. The builder returns the
    /// value that the argument has from then on.
    InPlace,
}
