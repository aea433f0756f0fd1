//! Tensors in the place of numbers: `x.amax(i)`, `paddle.zeros(sizes / 2)`. Eager mode reads the number of the tensor,
//! or raises. Static functions that take no such tensor end the process, and the executor ends it where a tensor of
//! floats stands for sizes or axes. Which parameters take tensors is found in the function's signature.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use sot_core::cpython;

use crate::backend::calls::argument_types::is_frameworks;
use crate::backend::numbers::scalar;
use crate::backend::numbers::sizes;
use crate::backend::numbers::twin::parts;
use crate::backend::paddle::meta;
use crate::backend::paddle::Paddle;

/// What a parameter takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Takes {
    /// No tensor.
    Number,
    /// A `float`; few functions refuse a tensor.
    Float,
    /// Several tensors, but not one.
    Sequence,
    /// Numbers, or tensors of integers.
    Integers,
    Anything,
}

/// Parameters for axes and sizes.
const OF_INTEGERS: [&str; 20] = [
    "axes",
    "axis",
    "depth",
    "dim",
    "dims",
    "ends",
    "k",
    "num_classes",
    "num_or_sections",
    "offset",
    "perm",
    "repeat_times",
    "repeats",
    "sections",
    "shape",
    "shifts",
    "size",
    "starts",
    "strides",
    "num_or_indices",
];

/// Functions that take no tensor in the place of a `float`.
const OF_FLOATS: [&str; 1] = ["fill_"];

/// Functions that take no tensor in the place of a sequence. Others take it apart.
const OF_SEQUENCES: [&str; 3] = ["cat", "concat", "index_put"];

/// Functions whose static counterpart gives the result the same shape whatever the number of the tensor is, or takes a
/// tensor where eager mode raises.
const TAKING_NO_TENSOR: [&str; 3] = ["gather", "scatter_nd", "strided_slice"];

/// Words in annotations of parameters that take no tensor.
const PLAIN: [&str; 10] = ["None", "Sequence", "bool", "float", "int", "list", "str", "tuple", "Number", "Literal"];

/// Functions that [`refuse_types`] looks at, with their first parameters.
const TYPED: [(&str, [&str; 2]); 4] =
    [("inner", ["x", "y"]), ("pow_", ["x", "y"]), ("unique", ["x", "axis"]), ("where", ["condition", "x"])];

/// Element types of which `unique` has kernels. For others, the static function ends the process.
const TYPES_OF_UNIQUE: [&str; 4] = ["float32", "float64", "int32", "int64"];

struct Parameter {
    name: String,
    takes: Takes,
}

type Parameters = Arc<Vec<Parameter>>;

/// The parameters of functions and methods, by name. Signatures are looked at only where a second tensor is given.
#[derive(Default)]
pub(crate) struct KnownSignatures(Mutex<HashMap<String, Parameters>>);

impl KnownSignatures {
    /// Refuses a call of a function of Paddle's in which a tensor stands where only numbers may, or where tensors must be
    /// of integers.
    pub(crate) fn refuse(
        &self,
        paddle: &Paddle,
        callee: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        if !callee.is_instance_of::<PyString>() && !is_frameworks(callee)? {
            return Ok(());
        }
        let Some(name) = scalar::name(callee)? else { return Ok(()) };
        refuse_types(paddle, &name, args, kwargs)?;
        let mut parameters = None;
        for (at, argument) in args.iter().enumerate() {
            if let Some(value) = first_value(paddle, &argument)? {
                let known = self.parameters(paddle, callee, &name, &mut parameters)?;
                if let Some(parameter) = known.get(at) {
                    parameter.refuse(paddle, &name, &argument, &value)?;
                }
            }
        }
        for (keyword, argument) in kwargs.into_iter().flat_map(PyDictMethods::iter) {
            if let Some(value) = first_value(paddle, &argument)? {
                let known = self.parameters(paddle, callee, &name, &mut parameters)?;
                let keyword: String = keyword.extract()?;
                let named = |name: &str| known.iter().find(|parameter| parameter.name == name);
                // Newer releases take PyTorch's name, too, which the signature does not show.
                let alias = || if keyword == "dim" { named("axis") } else { None };
                if let Some(parameter) = named(&keyword).or_else(alias) {
                    parameter.refuse(paddle, &name, &argument, &value)?;
                }
            }
        }
        Ok(())
    }

    fn parameters(
        &self,
        paddle: &Paddle,
        callee: &Bound<'_, PyAny>,
        name: &str,
        found: &mut Option<Parameters>,
    ) -> PyResult<Parameters> {
        if let Some(found) = found {
            return Ok(Arc::clone(found));
        }
        let py = callee.py();
        let (function, key) = match callee.cast::<PyString>() {
            Ok(method) => match paddle.tensor_type.bind(py).getattr_opt(method)? {
                Some(function) => (function, format!("Tensor.{name}")),
                None => return Ok(Arc::default()),
            },
            Err(_) => {
                let module: Option<String> = callee.getattr_opt("__module__")?.and_then(|module| module.extract().ok());
                (callee.clone(), format!("{}.{name}", module.unwrap_or_default()))
            }
        };
        let known = self.0.lock().get(&key).map(Arc::clone);
        let parameters = match known {
            Some(known) => known,
            None => {
                let made = Arc::new(of_signature(&function)?);
                self.0.lock().insert(key, Arc::clone(&made));
                made
            }
        };
        *found = Some(Arc::clone(&parameters));
        Ok(parameters)
    }
}

impl Parameter {
    fn refuse<'py>(
        &self,
        paddle: &Paddle,
        function: &str,
        argument: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let is_refused = match self.takes {
            Takes::Number => !sizes::is_taken_by(function),
            Takes::Float => OF_FLOATS.contains(&function),
            Takes::Sequence => OF_SEQUENCES.contains(&function) && paddle.is_value(argument),
            Takes::Integers => {
                TAKING_NO_TENSOR.contains(&function) || !matches!(&*dtype(paddle, value)?, "int32" | "int64")
            }
            Takes::Anything => false,
        };
        if is_refused {
            let text = format!("a tensor as '{}' of {function} is read in eager mode only", self.name);
            return Err(PyNotImplementedError::new_err(text));
        }
        Ok(())
    }
}

/// Refuses calls whose tensors eager mode treats in another way than a program does: it refuses their element type, or
/// that there is a tensor, or gives another shape. Some of them would end the process.
fn refuse_types(
    paddle: &Paddle,
    name: &str,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let Some((_, names)) = TYPED.iter().find(|(function, _)| *function == name) else { return Ok(()) };
    let value = |at: usize| -> PyResult<_> {
        let by_name = || kwargs.map(|kwargs| kwargs.get_item(names[at])).transpose().map(Option::flatten);
        let given = args.get_item(at).map_or_else(|_| by_name(), |given| Ok(Some(given)))?;
        Ok(given.filter(|given| paddle.is_value(given)))
    };
    let why = match (name, value(0)?, value(1)?) {
        ("unique", Some(value), _) => {
            let dtype = dtype(paddle, &value)?;
            (!TYPES_OF_UNIQUE.contains(&&*dtype)).then(|| format!("unique has no kernel for {dtype}"))
        }
        ("where", Some(condition), _) if args.len() + kwargs.map_or(0, PyDictMethods::len) > 1 => {
            let dtype = dtype(paddle, &condition)?;
            (dtype != "bool").then(|| format!("where takes a condition of bool, not of {dtype}"))
        }
        ("pow_", _, Some(_)) => Some("pow_ takes no tensor".to_owned()),
        ("inner", Some(x), Some(y)) => {
            let why = "inner of a tensor with one element is a product, of the shape of both, in eager mode only";
            (is_single(paddle, &x)? || is_single(paddle, &y)?).then(|| why.to_owned())
        }
        _ => None,
    };
    why.map_or(Ok(()), |why| Err(PyNotImplementedError::new_err(why)))
}

fn dtype(paddle: &Paddle, value: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(meta::of_value(paddle, value)?.map(|meta| meta.dtype.to_string()).unwrap_or_default())
}

/// True if a value has one element.
fn is_single(paddle: &Paddle, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let meta = meta::of_value(paddle, value)?;
    Ok(meta.is_some_and(|meta| meta.shape.iter().all(|size| *size == Some(1))))
}

/// Returns the first graph value in an argument.
fn first_value<'py>(paddle: &Paddle, argument: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    if paddle.is_value(argument) {
        return Ok(Some(argument.clone()));
    }
    for part in parts(argument)? {
        if let Some(found) = first_value(paddle, &part)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns the parameters of a function; none if it has no signature.
fn of_signature(function: &Bound<'_, PyAny>) -> PyResult<Vec<Parameter>> {
    let py = function.py();
    let inspect = cpython::import(py, "inspect")?;
    let Ok(signature) = inspect.call_method1("signature", (function,)) else { return Ok(Vec::new()) };
    let empty = inspect.getattr("Parameter")?.getattr("empty")?;
    let mut found = Vec::new();
    for parameter in signature.getattr("parameters")?.call_method0("values")?.try_iter()? {
        let parameter = parameter?;
        if parameter.getattr("kind")?.getattr("name")?.extract::<String>()?.starts_with("VAR") {
            // What follows has no place of its own.
            break;
        }
        let name: String = parameter.getattr("name")?.extract()?;
        let annotation = parameter.getattr("annotation")?;
        let annotation: Option<String> = if annotation.is(&empty) { None } else { annotation.extract().ok() };
        let takes = takes(&name, annotation.as_deref());
        found.push(Parameter { name, takes });
    }
    Ok(found)
}

fn takes(name: &str, annotation: Option<&str>) -> Takes {
    let Some(annotation) = annotation else {
        return if matches!(name, "axis" | "dim") { Takes::Number } else { Takes::Anything };
    };
    let annotation = annotation.replace("paddle.", "");
    if matches!(&*annotation, "Sequence[Tensor]" | "list[Tensor]" | "tuple[Tensor, ...]") {
        return Takes::Sequence;
    }
    if annotation == "float" {
        return Takes::Float;
    }
    // Such as the offsets of a deformable convolution.
    if annotation == "Tensor" {
        return Takes::Anything;
    }
    let mut words =
        annotation.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty());
    // Bounds such as those of `clip`, which are no integers, take tensors, too.
    if words.clone().all(|word| PLAIN.contains(&word)) && words.any(|word| word == "int") {
        Takes::Number
    } else if OF_INTEGERS.contains(&name) {
        Takes::Integers
    } else {
        Takes::Anything
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_tell_what_is_taken() {
        assert_eq!(takes("axis", Some("int | Sequence[int] | None")), Takes::Number);
        assert_eq!(takes("axis", None), Takes::Number);
        assert_eq!(takes("axis", Some("int | Tensor")), Takes::Integers);
        assert_eq!(takes("shape", Some("ShapeLike")), Takes::Integers);
        assert_eq!(takes("x", Some("Sequence[Tensor]")), Takes::Sequence);
        assert_eq!(takes("min", Some("float | None")), Takes::Anything);
        assert_eq!(takes("value", Some("float")), Takes::Float);
        assert_eq!(takes("y", Some("paddle.Tensor")), Takes::Anything);
        assert_eq!(takes("offset", Some("Tensor")), Takes::Anything);
    }
}
