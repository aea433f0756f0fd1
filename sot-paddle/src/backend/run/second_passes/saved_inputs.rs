//! Inputs and parameters that a backward pass reads. A program reads their present numbers, whatever was written to
//! them since it ran. As in eager mode, a pass is refused if one of them was written to in place.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::reach::ProgramInput;
use crate::backend::paddle::Paddle;

/// Returns the inputs and parameters that the backward part of a program reads. `names` has the names of a program's
/// values by their part in it.
pub(crate) fn read_backward(names: &Bound<'_, PyAny>) -> PyResult<Vec<ProgramInput>> {
    let names = names.cast::<PyDict>()?;
    let all = |part| -> PyResult<Vec<String>> {
        names.get_item(part)?.map_or_else(|| Ok(Vec::new()), |names| names.extract())
    };
    let unread = all("no_need_buffers")?;
    let is_read = |name: &String| !matches!(name.as_str(), "Fake_var" | "FakeValue") && !unread.contains(name);
    let read = |part| Ok::<_, PyErr>(all(part)?.into_iter().enumerate().filter(|(_, name)| is_read(name)));
    let inputs = read("bx")?.map(|(at, _)| ProgramInput::Input(at)).collect::<Vec<_>>();
    Ok(inputs.into_iter().chain(read("bp")?.map(|(at, _)| ProgramInput::Parameter(at))).collect())
}

/// The in-place versions of the tensors that a backward pass will read, when the program ran.
pub(super) struct SavedVersions(Vec<Option<i32>>);

impl SavedVersions {
    pub(super) fn now(
        paddle: &Paddle,
        saved: &[ProgramInput],
        inputs: &Bound<'_, PyTuple>,
        parameters: &Bound<'_, PyTuple>,
    ) -> PyResult<Self> {
        let Some(native) = &paddle.native else { return Ok(SavedVersions(Vec::new())) };
        let version = |given: &ProgramInput| {
            let tensor = given.of(inputs, parameters)?;
            Ok(native.version(&tensor).map(|version| version.number))
        };
        saved.iter().map(version).collect::<PyResult<_>>().map(SavedVersions)
    }

    /// Takes the present versions of all tensors except those in `written`, which the graph itself wrote to after the
    /// run. A write counts for every tensor that shares the counter, even if it does not change that tensor's memory:
    /// a reshaped copy of a transposed tensor shares the counter of the original.
    pub(super) fn renew(
        &mut self,
        paddle: &Paddle,
        saved: &[ProgramInput],
        (inputs, parameters): (&Bound<'_, PyTuple>, &Bound<'_, PyTuple>),
        written: &[&Bound<'_, PyAny>],
    ) -> PyResult<()> {
        let now = SavedVersions::now(paddle, saved, inputs, parameters)?;
        for ((given, before), now) in saved.iter().zip(&mut self.0).zip(now.0) {
            let tensor = given.of(inputs, parameters)?;
            if !written.iter().any(|written| written.is(&tensor)) {
                *before = now;
            }
        }
        Ok(())
    }

    /// Returns eager mode's error for a tensor that was written to since; `None` if there is none.
    pub(super) fn refusal(
        &self,
        paddle: &Paddle,
        saved: &[ProgramInput],
        inputs: &Bound<'_, PyTuple>,
        parameters: &Bound<'_, PyTuple>,
    ) -> PyResult<Option<String>> {
        let now = SavedVersions::now(paddle, saved, inputs, parameters)?;
        let differs = self.0.iter().zip(&now.0).position(|(before, now)| before != now);
        let Some(at) = differs else { return Ok(None) };
        let (Some(before), Some(now)) = (self.0[at], now.0[at]) else { return Ok(None) };
        let name = saved[at].of(inputs, parameters)?.getattr("name")?;
        Ok(Some(format!(
            "(PermissionDenied) Tensor '{name}' used in gradient computation has been modified by an inplace operation. \
             Its version is {now} but the expected version is {before}. Please fix your code to void calling an inplace \
             operator after using the Tensor which will used in gradient computation."
        )))
    }
}
