//! Shapes that Paddle's functions compute from the sizes of their operands, and give to `expand` and `reshape`. In a
//! program with open sizes they hold -1. To `expand` this means the size of the operand, to `reshape` the size that is
//! left: that is the size which the twin has, also for other sizes.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A shape, and the operation that takes it as its second operand.
pub(super) struct ShapeArgument<'py> {
    /// The operation that makes the shape.
    pub(super) shape: Bound<'py, PyAny>,
    /// The operation that takes it.
    pub(super) taken_by: Bound<'py, PyAny>,
    /// What is expanded or reshaped.
    pub(super) operand: Bound<'py, PyAny>,
    name: String,
    sizes: Vec<i64>,
}

/// Number of operations of a [`ShapeArgument`].
pub(super) const LENGTH: usize = 2;

impl<'py> ShapeArgument<'py> {
    /// Returns the shape that the first operations make and take; `None` if they do something else.
    pub(super) fn first_of(operations: &[Bound<'py, PyAny>]) -> PyResult<Option<Self>> {
        let [shape, taken_by, ..] = operations else { return Ok(None) };
        let py = shape.py();
        let name: String = taken_by.call_method0(intern!(py, "name"))?.extract()?;
        let made_by: String = shape.call_method0(intern!(py, "name"))?.extract()?;
        if made_by != "pd_op.full_int_array" || !matches!(&*name, "pd_op.expand" | "pd_op.reshape") {
            return Ok(None);
        }
        let attributes = shape.call_method0(intern!(py, "attrs"))?.cast_into::<PyDict>()?;
        let Some(sizes) = attributes.get_item("value")? else { return Ok(None) };
        Ok(Some(ShapeArgument {
            operand: taken_by.call_method1(intern!(py, "operand_source"), (0,))?,
            sizes: sizes.extract()?,
            shape: shape.clone(),
            taken_by: taken_by.clone(),
            name,
        }))
    }

    /// True if the program, which has this shape, does what the twin does with its own. `operand` are the sizes of the
    /// twin's operand.
    pub(super) fn is_like(&self, twin: &ShapeArgument<'_>, operand: &[i64]) -> bool {
        self.name == twin.name
            && if self.name == "pd_op.expand" {
                are_expanded_alike(&self.sizes, &twin.sizes, operand)
            } else {
                are_reshaped_alike(&self.sizes, &twin.sizes)
            }
    }
}

fn are_expanded_alike(program: &[i64], twin: &[i64], operand: &[i64]) -> bool {
    let Some(new) = twin.len().checked_sub(operand.len()) else { return false };
    let is_kept = |at: usize, size: i64| at.checked_sub(new).is_some_and(|at| operand[at] == size);
    program.len() == twin.len()
        && program.iter().zip(twin).enumerate().all(|(at, (open, now))| open == now || *open == -1 && is_kept(at, *now))
}

fn are_reshaped_alike(program: &[i64], twin: &[i64]) -> bool {
    let differing = program.iter().zip(twin).filter(|(open, now)| open != now);
    program.len() == twin.len()
        && program.iter().filter(|size| **size == -1).count() <= 1
        && differing.into_iter().all(|(open, now)| *open == -1 && *now >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expanded_keeps_its_size() {
        assert!(are_expanded_alike(&[-1, 16], &[6, 16], &[6, 1]));
        assert!(are_expanded_alike(&[3, -1, 16], &[3, 6, 16], &[6, 1]));
        assert!(!are_expanded_alike(&[-1, 16], &[6, 16], &[1, 16]));
        assert!(!are_expanded_alike(&[-1, 16], &[6, 16], &[16]));
        assert!(!are_expanded_alike(&[5, 16], &[6, 16], &[6, 16]));
    }

    #[test]
    fn one_size_of_a_new_shape_is_what_is_left() {
        assert!(are_reshaped_alike(&[-1, 16], &[6, 16]));
        assert!(!are_reshaped_alike(&[-1, -1], &[6, 16]));
        assert!(!are_reshaped_alike(&[-1, 8], &[6, 16]));
        assert!(!are_reshaped_alike(&[-1, 16], &[6, 16, 1]));
    }
}
