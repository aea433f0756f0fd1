//! Floating-point numbers given for an axis or a count. Eager mode takes such an argument as a scalar of any type, and
//! cuts its fraction off; static mode takes an integer only. `Categorical.sample` gives `np.prod([])`, which is 1.0.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyTuple};
use sot_core::registered;

use crate::backend::numbers::scalar;

/// Functions and methods, with position and name of that argument, where all releases compute the same as for an
/// integer. The first position of a method is that of the tensor.
const FUNCTIONS: [(&str, usize, &str); 6] = [
    ("concat", 1, "axis"),
    ("cumsum", 1, "axis"),
    ("gather", 2, "axis"),
    ("multinomial", 1, "num_samples"),
    ("one_hot", 1, "num_classes"),
    ("topk", 1, "k"),
];

/// The arguments of a call.
type Arguments<'py> = (Bound<'py, PyTuple>, Option<Bound<'py, PyDict>>);

/// Returns the arguments with an integer for the number; `None` if there is nothing to replace.
pub(crate) fn replaced<'py>(
    callee: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Option<Arguments<'py>>> {
    let Some(name) = scalar::name(callee)? else { return Ok(None) };
    let Some(&(_, position, keyword)) = FUNCTIONS.iter().find(|(function, ..)| *function == name) else {
        return Ok(None);
    };
    if registered::is_statement(callee) {
        return Ok(None);
    }
    if let Ok(given) = args.get_item(position) {
        let Some(number) = integer(&given)? else { return Ok(None) };
        let mut positional: Vec<_> = args.iter().collect();
        positional[position] = number.into_any();
        return Ok(Some((PyTuple::new(args.py(), positional)?, kwargs.cloned())));
    }
    let Some(kwargs) = kwargs else { return Ok(None) };
    let Some(given) = kwargs.get_item(keyword)? else { return Ok(None) };
    let Some(number) = integer(&given)? else { return Ok(None) };
    let kwargs = kwargs.copy()?;
    kwargs.set_item(keyword, number)?;
    Ok(Some((args.clone(), Some(kwargs))))
}

/// Returns the integer that a floating-point number is; `None` if it is none. `numpy.float64` is such a number, too.
fn integer<'py>(number: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyInt>>> {
    let Ok(number) = number.cast::<PyFloat>() else { return Ok(None) };
    let float = number.value();
    if float.fract() != 0.0 || float.abs() > f64::from(i32::MAX) {
        return Ok(None);
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is an integer of 32 bits")]
    let integer = float as i64;
    Ok(Some(PyInt::new(number.py(), integer)))
}
