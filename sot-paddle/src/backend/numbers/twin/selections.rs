//! Slices in a program and in its twin. Paddle leaves out a slice that selects all of a dimension whose size it knows,
//! and replaces an end behind the last position by the largest one. The slice in the program, where the size is not
//! known, selects the same.

use crate::backend::paddle::operation;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The end that stands for the end of the dimension.
const LAST: i64 = i32::MAX as i64;

/// The operations of one slice: its bounds, which are constants, and the slice itself.
pub(super) struct Selection<'py> {
    /// Number of operations.
    pub(super) length: usize,
    /// The operation that slices.
    pub(super) slice: Bound<'py, PyAny>,
    /// What is sliced.
    pub(super) operand: Bound<'py, PyAny>,
    name: String,
    cuts: Vec<Cut>,
    /// The dimensions that are removed.
    removed: Vec<i64>,
}

/// What is selected of one dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
    axis: i64,
    start: i64,
    end: i64,
    step: i64,
}

impl<'py> Selection<'py> {
    /// Returns the slice that the first operations make; `None` if they make something else.
    pub(super) fn first_of(operations: &[Bound<'py, PyAny>]) -> PyResult<Option<Self>> {
        let mut bounds = Vec::new();
        for (at, operation) in operations.iter().enumerate() {
            let name = operation::name_of(operation)?;
            let attributes = operation.call_method0(intern!(operation.py(), "attrs"))?.cast_into::<PyDict>()?;
            match (&*name, &bounds[..]) {
                ("pd_op.full_int_array", [] | [_] | [_, _]) => {
                    let Some(values) = attributes.get_item("value")? else { return Ok(None) };
                    bounds.push(values.extract::<Vec<i64>>()?);
                }
                ("pd_op.slice", [_, _]) | ("pd_op.strided_slice", [_, _, _]) => {
                    let numbers =
                        |name: &str| attributes.get_item(name)?.map_or(Ok(Vec::new()), |found| found.extract());
                    let axes: Vec<i64> = numbers("axes")?;
                    if bounds.iter().any(|bound| bound.len() != axes.len()) {
                        return Ok(None);
                    }
                    let step = |at: usize| bounds.get(2).map_or(1, |steps| steps[at]);
                    let cut = |(at, &axis)| Cut { axis, start: bounds[0][at], end: bounds[1][at], step: step(at) };
                    return Ok(Some(Selection {
                        length: at + 1,
                        operand: operation.call_method1(intern!(operation.py(), "operand_source"), (0,))?,
                        slice: operation.clone(),
                        cuts: axes.iter().enumerate().map(cut).collect(),
                        removed: numbers("decrease_axis")?,
                        name,
                    }));
                }
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// True if this slice of the program does what `twin` does, for these sizes of the twin.
    pub(super) fn is_like(&self, twin: &Selection<'_>, sizes: &[i64]) -> bool {
        self.name == twin.name && self.removed == twin.removed && are_alike(&self.cuts, &twin.cuts, sizes)
    }

    /// True if this slice selects everything, for these sizes of the twin.
    pub(super) fn selects_all(&self, sizes: &[i64]) -> bool {
        self.removed.is_empty() && are_alike(&self.cuts, &[], sizes)
    }
}

fn are_alike(program: &[Cut], twin: &[Cut], sizes: &[i64]) -> bool {
    let size = |cut: &Cut| usize::try_from(cut.axis).ok().and_then(|at| sizes.get(at)).copied();
    let ends_behind = |cut: &Cut| size(cut).is_some_and(|size| cut.end >= size);
    let alike = |cut: &Cut| match twin.iter().find(|other| other.axis == cut.axis) {
        Some(other) => cut == other || (Cut { end: LAST, ..*cut } == *other && ends_behind(cut)),
        None => (cut.start, cut.step) == (0, 1) && ends_behind(cut),
    };
    program.iter().all(alike) && twin.iter().all(|other| program.iter().any(|cut| cut.axis == other.axis))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn cut(axis: i64, start: i64, end: i64, step: i64) -> Cut {
        Cut { axis, start, end, step }
    }

    #[test]
    fn what_selects_all_is_left_out_of_the_twin() {
        assert!(are_alike(&[cut(0, 0, 9, 1), cut(1, 0, 3, 1)], &[cut(1, 0, 3, 1)], &[5, 7]));
        assert!(!are_alike(&[cut(0, 0, 4, 1), cut(1, 0, 3, 1)], &[cut(1, 0, 3, 1)], &[5, 7]));
        assert!(!are_alike(&[cut(0, 1, 9, 1)], &[], &[5]));
        assert!(!are_alike(&[cut(0, 0, 9, 2)], &[], &[5]));
        assert!(!are_alike(&[], &[cut(0, 0, 3, 1)], &[5]));
    }

    #[test]
    fn an_end_behind_the_last_position_is_the_largest_in_the_twin() {
        assert!(are_alike(&[cut(0, 2, 9, 2)], &[cut(0, 2, LAST, 2)], &[5]));
        assert!(!are_alike(&[cut(0, 2, 4, 2)], &[cut(0, 2, LAST, 2)], &[5]));
        assert!(!are_alike(&[cut(0, 2, 9, 2)], &[cut(0, 2, 5, 2)], &[5]));
        assert!(!are_alike(&[cut(0, -1, 9, 1)], &[cut(0, 1, LAST, 1)], &[5]));
    }
}
