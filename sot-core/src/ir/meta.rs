//! What is known of tensors while tracing, and how statements name what they call.

use std::fmt;
use std::rc::Rc;

/// What is known of a tensor without computing it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorMeta {
    /// Size of each dimension; `None` where only the run tells.
    pub shape: Vec<Option<i64>>,
    /// The framework's name of the element type, such as `float32`.
    pub dtype: Rc<str>,
    /// Whether a gradient may flow through the tensor.
    pub gradient: GradientFlow,
}

/// Whether a gradient may flow through a tensor, and how the framework spells that.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GradientFlow {
    /// Whether it may.
    pub flows: bool,
    /// The attribute of tensors that says so, with its value where a gradient may flow. `None`: the framework has no
    /// gradients.
    pub attribute: Option<(&'static str, bool)>,
}

impl GradientFlow {
    /// What tensors of a framework without gradients have.
    pub const NONE: GradientFlow = GradientFlow { flows: false, attribute: None };

    /// The same framework's spelling of another answer.
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

/// How a statement names what it calls; with the arguments it is all a builder needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// A function of the framework: `callee(*args, **kwargs)`.
    Api,
    /// A method: `getattr(args[0], callee)(*args[1:], **kwargs)`; `callee` is a `str`.
    Method,
    /// An object of the framework, called as a whole. The word is the framework's for such objects.
    Object(&'static str),
    /// What changes its first argument, and no value but that: a method (a `str`) or a function. The builder gives the
    /// value the argument has from then on.
    InPlace,
}
