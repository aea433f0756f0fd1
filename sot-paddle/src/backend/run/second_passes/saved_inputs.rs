//! Inputs and parameters that a backward pass reads. A program reads their present numbers, whatever was written to
//! them since it ran. As in eager mode, a pass is refused if one of them was written to in place.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::carries_other_gradients::id;
use super::divided::only_divided_by_numbers;
use super::pass::refuse;
use super::reach::{ProgramInput, Results};
use super::unreached::is_defined;
use crate::backend::paddle::operation;
use crate::backend::paddle::Paddle;

/// An input or parameter that the backward part of a program reads.
pub(crate) struct SavedInput {
    pub(super) given: ProgramInput,
    /// The results whose gradients are multiplied by something computed from it; `None` if that is not known, and may
    /// be any.
    readers: Option<Results>,
}

impl SavedInput {
    /// The same, as an input or parameter of the program of which this program is a piece. The results of the piece
    /// are not those of the whole.
    pub(crate) fn of_piece(&self, given: ProgramInput) -> Self {
        SavedInput { given, readers: None }
    }

    /// Which input or parameter it is.
    pub(crate) fn place(&self) -> ProgramInput {
        self.given
    }
}

/// Returns the inputs and parameters that the backward part of a program reads. `layer` is Paddle's object of the
/// program.
pub(crate) fn read_backward(layer: &Bound<'_, PyAny>) -> PyResult<Vec<SavedInput>> {
    let program = layer.getattr("program")?;
    let names = program.getattr("program_name_attr")?;
    let names = names.cast::<PyDict>()?;
    let all = |part| -> PyResult<Vec<String>> {
        names.get_item(part)?.map_or_else(|| Ok(Vec::new()), |names| names.extract())
    };
    let unread = all("no_need_buffers")?;
    let given: Vec<String> = all("bx")?.into_iter().chain(all("bp")?).filter(|name| !is_absent(name)).collect();
    let divided = only_divided_by_numbers(&program, &given)?;
    let is_read = |name: &String| !is_absent(name) && !unread.contains(name) && !divided.contains(name);
    let read = |part| Ok::<_, PyErr>(all(part)?.into_iter().enumerate().filter(|(_, name)| is_read(name)));
    let inputs = read("bx")?.map(|(at, name)| (ProgramInput::Input(at), name)).collect::<Vec<_>>();
    let parameters = read("bp")?.map(|(at, name)| (ProgramInput::Parameter(at), name));
    let read: Vec<_> = inputs.into_iter().chain(parameters).collect();
    let gradients = all("bo_g")?;
    let readers = match gradients.iter().filter(|name| !is_absent(name)).count() {
        // One result: it reads them all.
        0 | 1 => None,
        _ if read.is_empty() => None,
        _ => Some(readers(&program.getattr("backward_program")?, &gradients, &read)?),
    };
    let of = |name: &String| readers.as_ref().map(|readers| readers.get(name).cloned().unwrap_or_default());
    Ok(read.iter().map(|(given, name)| SavedInput { given: *given, readers: of(name) }).collect())
}

/// True for the names that Paddle gives to places without a value.
fn is_absent(name: &str) -> bool {
    matches!(name, "Fake_var" | "FakeValue")
}

/// For each of the values that a backward program reads, by name: the results whose gradients flow into an operation
/// that reads the value. `gradients` has the names of the results' gradients.
fn readers(
    program: &Bound<'_, PyAny>,
    gradients: &[String],
    read: &[(ProgramInput, String)],
) -> PyResult<HashMap<String, Results>> {
    let block = program.call_method0("global_block")?;
    let given = block.call_method0("kwargs")?;
    let given: HashMap<String, Bound<'_, PyAny>> = given.extract()?;
    // What is known of a value: the results whose gradients it is computed from, and the inputs.
    let mut from: HashMap<u64, Results> = HashMap::new();
    let mut of: HashMap<u64, HashSet<&str>> = HashMap::new();
    for (at, name) in gradients.iter().enumerate() {
        if let Some(value) = given.get(name) {
            from.entry(id(value)?).or_default().insert(at);
        }
    }
    for (_, name) in read {
        if let Some(value) = given.get(name) {
            of.entry(id(value)?).or_default().insert(name);
        }
    }
    let mut readers: HashMap<String, Results> = HashMap::new();
    for operation in operation::of_block(&block)? {
        let (mut results, mut inputs) = (Results::new(), HashSet::<&str>::new());
        for operand in operation.call_method0("operands_source")?.try_iter()? {
            let operand = id(&operand?)?;
            results.extend(from.get(&operand).into_iter().flatten());
            inputs.extend(of.get(&operand).into_iter().flatten());
        }
        if !results.is_empty() {
            for name in inputs.drain() {
                readers.entry(name.to_owned()).or_default().extend(&results);
            }
        }
        if results.is_empty() && inputs.is_empty() {
            continue;
        }
        for result in operation.call_method0("results")?.try_iter()? {
            let result = id(&result?)?;
            if results.is_empty() {
                of.insert(result, inputs.clone());
            } else {
                from.insert(result, results.clone());
            }
        }
    }
    Ok(readers)
}

/// An input or parameter that was written to since the run, and that a backward pass must not read.
pub(super) struct OverwrittenInput {
    readers: Option<Results>,
    /// Eager mode's error.
    refusal: String,
}

/// The inputs and parameters of a run that were written to since.
#[derive(Default)]
pub(super) struct OverwrittenInputs {
    inputs: Mutex<Vec<OverwrittenInput>>,
    are_there: AtomicBool,
}

impl OverwrittenInputs {
    pub(super) fn set(&self, inputs: Vec<OverwrittenInput>) {
        self.are_there.store(!inputs.is_empty(), Ordering::Relaxed);
        *self.inputs.lock() = inputs;
    }

    /// Stops the running pass if it comes from this result with a gradient, and would read one of the inputs.
    pub(super) fn refuse(&self, result: usize, gradient: &Bound<'_, PyAny>) -> PyResult<()> {
        if !self.are_there.load(Ordering::Relaxed) || !is_defined(gradient)? {
            return Ok(());
        }
        let is_read =
            |input: &&OverwrittenInput| input.readers.as_ref().is_none_or(|readers| readers.contains(&result));
        let refusal = self.inputs.lock().iter().find(is_read).map(|input| input.refusal.clone());
        refusal.map_or(Ok(()), |text| refuse(&text))
    }
}

/// The in-place versions of the tensors that a backward pass will read, when the program ran.
pub(super) struct SavedVersions(Vec<Option<i32>>);

impl SavedVersions {
    pub(super) fn now(
        paddle: &Paddle,
        saved: &[SavedInput],
        inputs: &Bound<'_, PyTuple>,
        parameters: &Bound<'_, PyTuple>,
    ) -> PyResult<Self> {
        let Some(native) = &paddle.native else { return Ok(SavedVersions(Vec::new())) };
        let version = |saved: &SavedInput| {
            let tensor = saved.given.of(inputs, parameters)?;
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
        saved: &[SavedInput],
        (inputs, parameters): (&Bound<'_, PyTuple>, &Bound<'_, PyTuple>),
        written: &[&Bound<'_, PyAny>],
    ) -> PyResult<()> {
        let now = SavedVersions::now(paddle, saved, inputs, parameters)?;
        for ((saved, before), now) in saved.iter().zip(&mut self.0).zip(now.0) {
            let tensor = saved.given.of(inputs, parameters)?;
            if !written.iter().any(|written| written.is(&tensor)) {
                *before = now;
            }
        }
        Ok(())
    }

    /// Returns the tensors that were written to since, each with eager mode's error.
    pub(super) fn overwritten(
        &self,
        paddle: &Paddle,
        saved: &[SavedInput],
        inputs: &Bound<'_, PyTuple>,
        parameters: &Bound<'_, PyTuple>,
    ) -> PyResult<Vec<OverwrittenInput>> {
        let now = SavedVersions::now(paddle, saved, inputs, parameters)?;
        let mut found = Vec::new();
        for ((saved, before), now) in saved.iter().zip(&self.0).zip(&now.0) {
            let (Some(before), Some(now)) = (before, now) else { continue };
            if before == now {
                continue;
            }
            let name = saved.given.of(inputs, parameters)?.getattr("name")?;
            let refusal = format!(
                "(PermissionDenied) Tensor '{name}' used in gradient computation has been modified by an inplace \
                 operation. Its version is {now} but the expected version is {before}. Please fix your code to void \
                 calling an inplace operator after using the Tensor which will used in gradient computation."
            );
            found.push(OverwrittenInput { readers: saved.readers.clone(), refusal });
        }
        Ok(found)
    }
}
