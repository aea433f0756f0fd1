//! Long programs, run as several programs (pieces). Paddle's executor sets itself up in time quadratic in the length
//! of a program, and runs long programs slower per operation. So a long program is cut where few values cross. A cut
//! is no graph break: later pieces are given what earlier pieces computed, and gradients flow back the same way.

use std::collections::{HashMap, HashSet};

use pyo3::prelude::*;
use pyo3::types::PyList;
use sot_core::cpython;

use super::cuts;
use super::program_structure::ProgramStructure;
use crate::backend::paddle::operation;
use crate::backend::paddle::Paddle;

/// Maximum number of operations in one program that is not cut. Measured with Paddle 3.3: up to this length, the time
/// of first and later runs is proportional to the length.
const MAX_UNCUT: usize = 600;

/// Maximum number of operations of a piece.
const MAX_PIECE: usize = 200;

/// Where an input of a piece comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PieceInput {
    /// An input of the graph.
    Input(usize),
    /// A value that an earlier piece has computed, by its number among all such values.
    Computed(usize),
}

/// A program with its inputs and results.
pub(crate) struct Piece<'py> {
    pub(crate) program: Bound<'py, PyAny>,
    pub(crate) sources: Vec<PieceInput>,
    pub(crate) inputs: Bound<'py, PyList>,
    /// Indices of the graph's parameters.
    pub(crate) parameters: Vec<usize>,
    pub(crate) values: Bound<'py, PyList>,
    /// The values that it computes for others. They are numbered consecutively over all pieces.
    pub(crate) results: Bound<'py, PyList>,
    /// Equal for pieces that compute the same.
    pub(crate) program_structure: ProgramStructure,
}

/// The pieces of a program, and for each result of the program its number among the computed values.
pub(crate) struct Pieces<'py> {
    pub(crate) pieces: Vec<Piece<'py>>,
    pub(crate) results: Vec<usize>,
}

/// Cuts a program into pieces. `None` if it is short, or has operations with subprograms, which can see all values
/// around them.
pub(crate) fn pieces<'py>(
    paddle: &Paddle,
    program: &Bound<'py, PyAny>,
    (inputs, values, results): (&Bound<'py, PyList>, &Bound<'py, PyList>, &Bound<'py, PyList>),
) -> PyResult<Option<Pieces<'py>>> {
    let (longest, piece) = max_uncut_setting().map_or((MAX_UNCUT, MAX_PIECE), |said| (said, said));
    let operations = operation::of_program(program)?;
    if operations.len() <= longest {
        return Ok(None);
    }
    let mut read = Vec::with_capacity(operations.len());
    for operation in operations {
        match Operation::read(operation)? {
            Some(operation) => read.push(operation),
            None => return Ok(None),
        }
    }
    let results_ids = ids(results)?;
    let places = cuts::places(&read, &results_ids, piece);
    if places.is_empty() {
        return Ok(None);
    }
    let mut cutter = PieceBuilder::new(paddle, &read, (inputs, values), results)?;
    let ends = places.iter().copied().chain([read.len()]);
    let mut start = 0;
    for end in ends {
        cutter.cut(start, end)?;
        start = end;
    }
    let numbers = results_ids.iter().map(|id| cutter.computed.get(id).copied()).collect::<Option<Vec<_>>>();
    Ok(numbers.map(|results| Pieces { pieces: cutter.pieces, results }))
}

/// The number in `SOT_PROGRAM_SIZE`, if it is set.
fn max_uncut_setting() -> Option<usize> {
    std::env::var("SOT_PROGRAM_SIZE").ok().and_then(|size| size.trim().parse().ok()).filter(|size| *size > 0)
}

/// The identity of a value.
pub(crate) fn id(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    value.call_method0("hash")?.extract()
}

fn ids(values: &Bound<'_, PyList>) -> PyResult<Vec<u64>> {
    values.iter().map(|value| id(&value)).collect()
}

/// How an operation gets into a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieceRole {
    /// An input or a parameter: it is given to each piece that takes it.
    Given,
    /// A constant, made again in each piece that takes it.
    Constant,
    /// Computed in one piece.
    Computed,
}

/// An operation with its values.
pub(super) struct Operation<'py> {
    object: Bound<'py, PyAny>,
    pub(super) role: PieceRole,
    operands: Vec<Bound<'py, PyAny>>,
    pub(super) taken: Vec<u64>,
    pub(super) given: Vec<u64>,
    /// True if its results can be given to another program; a list of tensors cannot.
    pub(super) may_cross: bool,
}

impl<'py> Operation<'py> {
    /// Reads an operation; `None` if it has subprograms.
    fn read(object: Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        if object.call_method0("num_regions")?.extract::<usize>()? > 0 {
            return Ok(None);
        }
        let name = operation::name_of(&object)?;
        let role = match name.as_str() {
            "pd_op.data" | "builtin.parameter" => PieceRole::Given,
            "pd_op.full" | "pd_op.full_int_array" => PieceRole::Constant,
            _ => PieceRole::Computed,
        };
        let (mut operands, mut taken) = (Vec::new(), Vec::new());
        for operand in object.call_method0("operands_source")?.try_iter()? {
            let operand = operand?;
            // Skips optional operands that are left out.
            if operand.call_method0("initialized")?.is_truthy()? {
                taken.push(id(&operand)?);
                operands.push(operand);
            }
        }
        let (mut given, mut may_cross) = (Vec::new(), true);
        for result in object.call_method0("results")?.try_iter()? {
            let result = result?;
            may_cross &= result.call_method0("is_dense_tensor_type")?.is_truthy()?;
            given.push(id(&result)?);
        }
        // A constant with operands is computed from them.
        let role = if role == PieceRole::Constant && !taken.is_empty() { PieceRole::Computed } else { role };
        Ok(Some(Operation { object, role, operands, taken, given, may_cross }))
    }
}

/// Makes the pieces, one after another.
struct PieceBuilder<'a, 'py> {
    paddle: &'a Paddle,
    operations: &'a [Operation<'py>],
    /// For each value that pieces make anew (inputs, parameters, constants), the index of its operation.
    renewed: HashMap<u64, usize>,
    inputs: HashMap<u64, usize>,
    parameters: HashMap<u64, usize>,
    /// For each value, the index of the last operation that takes it. Results of the program count as taken after all
    /// operations.
    last_taken: HashMap<u64, usize>,
    /// The numbers of the values that pieces compute for others.
    computed: HashMap<u64, usize>,
    pieces: Vec<Piece<'py>>,
    pir: Bound<'py, PyAny>,
}

impl<'a, 'py> PieceBuilder<'a, 'py> {
    fn new(
        paddle: &'a Paddle,
        operations: &'a [Operation<'py>],
        (inputs, values): (&Bound<'py, PyList>, &Bound<'py, PyList>),
        results: &Bound<'py, PyList>,
    ) -> PyResult<Self> {
        let numbered = |values: &Bound<'py, PyList>| -> PyResult<HashMap<u64, usize>> {
            Ok(ids(values)?.into_iter().enumerate().map(|(at, id)| (id, at)).collect())
        };
        let renewed = operations.iter().enumerate().filter(|(_, operation)| operation.role != PieceRole::Computed);
        Ok(PieceBuilder {
            paddle,
            operations,
            renewed: renewed.flat_map(|(at, operation)| operation.given.iter().map(move |&id| (id, at))).collect(),
            inputs: numbered(inputs)?,
            parameters: numbered(values)?,
            last_taken: cuts::last_taken(operations, &ids(results)?),
            computed: HashMap::new(),
            pieces: Vec::new(),
            pir: cpython::import(results.py(), "paddle.base.libpaddle")?.getattr("pir")?,
        })
    }

    /// Copies the operations from `start` up to `end` into a program of their own, unless they compute nothing.
    fn cut(&mut self, start: usize, end: usize) -> PyResult<()> {
        if self.operations[start..end].iter().all(|operation| operation.role != PieceRole::Computed) {
            return Ok(());
        }
        let py = self.pir.py();
        let target = self.paddle.static_mode.new_target(py, &self.paddle.program)?;
        let mut piece = Piece {
            program: target.main.bind(py).clone(),
            sources: Vec::new(),
            inputs: PyList::empty(py),
            parameters: Vec::new(),
            values: PyList::empty(py),
            results: PyList::empty(py),
            program_structure: ProgramStructure::default(),
        };
        let paddle = self.paddle;
        paddle.static_mode.within(py, &target, || self.fill(&mut piece, start, end))?;
        self.pieces.push(piece);
        Ok(())
    }

    fn fill(&mut self, piece: &mut Piece<'py>, start: usize, end: usize) -> PyResult<()> {
        let operations = self.operations;
        let copies = self.pir.getattr("IrMapping")?.call0()?;
        let whole = self.pir.getattr("CloneOptions")?.call1((true, true, true))?;
        let mut present = HashSet::new();
        for operation in operations[start..end].iter().filter(|operation| operation.role == PieceRole::Computed) {
            for (operand, &id) in operation.operands.iter().zip(&operation.taken) {
                if present.insert(id) {
                    self.supply(piece, (operand, id), &copies, &whole)?;
                }
            }
            operation.object.call_method1("clone", (&copies, &whole))?;
            piece.program_structure.add(&operation.object, &operation.taken, &operation.given)?;
            present.extend(&operation.given);
        }
        for operation in operations[start..end].iter().filter(|operation| operation.role == PieceRole::Computed) {
            let values: Vec<Bound<'py, PyAny>> = operation.object.call_method0("results")?.extract()?;
            for (value, &id) in values.iter().zip(&operation.given) {
                if self.last_taken.get(&id).is_some_and(|&last| last >= end) {
                    self.give(piece, value, id, &copies)?;
                }
            }
        }
        if piece.results.is_empty() {
            // Some releases run no program without a result.
            let may_cross = |operation: &&Operation<'_>| operation.role == PieceRole::Computed && operation.may_cross;
            if let Some(operation) = operations[start..end].iter().rfind(may_cross) {
                let values: Vec<Bound<'py, PyAny>> = operation.object.call_method0("results")?.extract()?;
                if let (Some(value), Some(&id)) = (values.first(), operation.given.first()) {
                    self.give(piece, value, id, &copies)?;
                }
            }
        }
        Ok(())
    }

    /// Makes a value that a piece computes one of its results.
    fn give(
        &mut self,
        piece: &mut Piece<'py>,
        value: &Bound<'py, PyAny>,
        id: u64,
        copies: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        self.computed.insert(id, self.computed.len());
        piece.program_structure.add_result(id);
        piece.results.append(copies.call_method1("look_up", (value,))?)
    }

    /// Makes a value available in a piece that does not compute it.
    fn supply(
        &self,
        piece: &mut Piece<'py>,
        (value, id): (&Bound<'py, PyAny>, u64),
        copies: &Bound<'py, PyAny>,
        whole: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let py = value.py();
        let source = match (self.inputs.get(&id), self.computed.get(&id)) {
            (Some(&at), _) => PieceInput::Input(at),
            (None, Some(&at)) => PieceInput::Computed(at),
            (None, None) => {
                if let Some(&at) = self.renewed.get(&id) {
                    let operation = &self.operations[at].object;
                    operation.call_method1("clone", (copies, whole))?;
                    if self.parameters.contains_key(&id) {
                        piece.program_structure.add_given(value, id)?;
                    } else {
                        piece.program_structure.add(operation, &[], &[id])?;
                    }
                }
                if let Some(&at) = self.parameters.get(&id) {
                    piece.parameters.push(at);
                    piece.values.append(copies.call_method1("look_up", (value,))?)?;
                }
                return Ok(());
            }
        };
        let name = format!("sot.piece.{}", piece.sources.len());
        let data = self.paddle.data.bind(py).call1((name, value.getattr("shape")?, value.getattr("dtype")?))?;
        data.setattr("stop_gradient", value.getattr("stop_gradient")?)?;
        copies.call_method1("add", (value, &data))?;
        piece.program_structure.add_given(value, id)?;
        piece.sources.push(source);
        piece.inputs.append(data)
    }
}
