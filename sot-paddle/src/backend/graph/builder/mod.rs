//! A graph while it is built. Each statement is appended to the program that will run, with static mode on only for
//! that long. `finish` decides which results the program has and where the outputs are found; the finished program is
//! compiled separately (`planned.rs`).
//!
//! Gradients follow Paddle's grad mode at each `call`, which static mode obeys too: for a `no_grad` region inside a
//! trace, the real grad mode is switched while the region's statements are built.

mod call;
mod node;
mod operations;
mod plan;
mod refused;
mod statements;
mod twins;

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyList, PyString, PyTuple};
use sot_core::backend::{CallKind, GraphBuilder, KnownResult, SizeFormula, StateTest, TensorMeta};

use crate::backend::calls::foundation::ProgramSubstitute;
use crate::backend::graph::arrays::{self, ArrayValues};
use crate::backend::graph::distributed::DistributedValues;
use crate::backend::graph::gradient::CorrectedFlags;
use crate::backend::graph::infer_meta::CheckedOperations;
use crate::backend::graph::inner_gradients::InnerGradients;
use crate::backend::graph::may_raise;
use crate::backend::graph::random_operations;
use crate::backend::graph::weight;
use crate::backend::memory::in_place;
use crate::backend::memory::views::Views;
use crate::backend::memory::write_histories::{OwnGradients, WriteHistories};
use crate::backend::numbers::known_sizes::KnownSizes;
use crate::backend::numbers::scalar;
use crate::backend::numbers::size_probe::SizeProbes;
use crate::backend::numbers::sizes::NumberValues;
use crate::backend::numbers::twin::Twin;
use crate::backend::paddle::layout::{layout, Layout};
use crate::backend::paddle::meta;
use crate::backend::paddle::state::GlobalState;
use crate::backend::paddle::static_mode::BuildTarget;
use crate::backend::paddle::Paddle;
use crate::backend::run;
use crate::backend::run::second_passes;

use call::StatementCall;
use refused::{ProgramEnd, RefusedOperations};

/// Builds one program.
pub(crate) struct PaddleBuilder {
    paddle: Arc<Paddle>,
    target: BuildTarget,
    inputs: usize,
    corrected_flags: CorrectedFlags,
    inner_gradients: InnerGradients,
    checked: CheckedOperations,
    views: Views,
    /// True while Paddle's recorder holds the parameters that the program refers to.
    recorded: bool,
    /// The global state under which the last statement was built.
    state: Arc<GlobalState>,
    /// The different global states of all statements; the first is that at the beginning.
    states: Vec<Arc<GlobalState>>,
    /// Inputs that are written to, with the values that they have at the end.
    writes: Vec<(Py<PyAny>, Py<PyAny>)>,
    histories: WriteHistories,
    own_gradients: OwnGradients,
    /// Built beside the program if sizes are left open.
    twin: Option<Twin>,
    /// Built beside the program if no size is left open, for values whose sizes only a run tells.
    twin_for_unknown: Option<Twin>,
    probes: SizeProbes,
    numbers: NumberValues,
    known_sizes: KnownSizes,
    arrays: ArrayValues,
    distributed: DistributedValues,
    refused: RefusedOperations,
    /// The copy that runs instead of the method whose statement is being built: see [`ProgramSubstitute`].
    copy: Option<Py<PyAny>>,
}

impl PaddleBuilder {
    /// Begins an empty program.
    pub(crate) fn begin(py: Python<'_>, paddle: Arc<Paddle>) -> PyResult<Self> {
        scalar::keep_zero_unsigned(&paddle, py)?;
        let target = paddle.static_mode.new_target(py, &paddle.program)?;
        let state = Arc::new(GlobalState::now(py, &paddle)?);
        Ok(PaddleBuilder {
            target,
            inputs: 0,
            corrected_flags: CorrectedFlags::default(),
            inner_gradients: InnerGradients::default(),
            checked: CheckedOperations::default(),
            views: Views::default(),
            recorded: true,
            states: vec![Arc::clone(&state)],
            state,
            writes: Vec::new(),
            histories: WriteHistories::default(),
            own_gradients: OwnGradients::default(),
            copy: None,
            twin: None,
            twin_for_unknown: None,
            probes: SizeProbes::default(),
            numbers: NumberValues::default(),
            known_sizes: KnownSizes::default(),
            arrays: ArrayValues::default(),
            distributed: DistributedValues::default(),
            refused: RefusedOperations::default(),
            paddle,
        })
    }

    fn within<T>(&self, py: Python<'_>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        self.paddle.static_mode.within(py, &self.target, work)
    }

    /// Returns the twin for open sizes, which is begun with the first of them.
    fn twin(&mut self, py: Python<'_>) -> PyResult<&mut Twin> {
        let twin = self.twin.take().map_or_else(|| Twin::new(py, &self.paddle), Ok)?;
        Ok(self.twin.insert(twin))
    }

    /// Notes the global state under which the next statement is built.
    fn note_state(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.state.check(py) {
            return Ok(());
        }
        if let Some(known) = self.states.iter().find(|state| state.check(py)) {
            self.state = Arc::clone(known);
        } else {
            self.state = Arc::new(GlobalState::now(py, &self.paddle)?);
            self.states.push(Arc::clone(&self.state));
        }
        Ok(())
    }

    /// Does some work on a statement. The statement of a method whose code the program has replaced runs the copy of
    /// the framework's own code.
    fn with_own_code<T>(
        &mut self,
        callee: &Bound<'_, PyAny>,
        work: impl FnOnce(&mut Self) -> PyResult<T>,
    ) -> PyResult<T> {
        let Ok(method) = callee.cast::<PyString>() else { return work(self) };
        let code = ProgramSubstitute::of_method(&self.paddle, method)?;
        self.copy = code.copy.as_ref().map(|copy| copy.clone_ref(method.py()));
        let made = code.refusing_replaced(method, || work(self));
        self.copy = None;
        made
    }

    /// Returns the tensors that the program refers to, with their values, and removes them from Paddle's recorder,
    /// which holds them strongly.
    fn take_parameters<'py>(&mut self, py: Python<'py>) -> PyResult<Parameters<'py>> {
        self.recorded = false;
        for twin in self.probes.take_twins().into_iter().chain(self.twin.take()).chain(self.twin_for_unknown.take()) {
            self.forget_recorded(py, &twin.target(py))?;
        }
        let recorded = self.paddle.recorder.bind(py).call_method1(intern!(py, "pop"), (&self.target.main,))?;
        self.paddle.inplace_map.bind(py).call_method1(intern!(py, "pop"), (&self.target.main,))?;
        let (tensors, values) = recorded.extract()?;
        Ok(Parameters { tensors, values })
    }

    /// Removes what a program refers to from Paddle's recorder.
    fn forget_recorded(&self, py: Python<'_>, target: &BuildTarget) -> PyResult<()> {
        for record in [&self.paddle.recorder, &self.paddle.inplace_map] {
            record.bind(py).call_method1(intern!(py, "pop"), (&target.main,))?;
        }
        Ok(())
    }
}

struct Parameters<'py> {
    tensors: Bound<'py, PyList>,
    values: Bound<'py, PyList>,
}

impl GraphBuilder for PaddleBuilder {
    fn input(&mut self, name: &str, tensor: &Bound<'_, PyAny>, meta: &TensorMeta) -> PyResult<Py<PyAny>> {
        let py = tensor.py();
        // The executor finds values by name, and a parameter may have any name. This prefix keeps inputs apart from
        // parameters.
        let name = format!("sot.input.{}.{name}", self.inputs);
        let shape: Vec<i64> = meta.shape.iter().map(|size| size.unwrap_or(-1)).collect();
        let dtype = tensor.getattr(intern!(py, "dtype"))?;
        let value = self.within(py, || {
            let value = self.paddle.data.bind(py).call1((name, PyList::new(py, shape)?, dtype))?;
            value.setattr(intern!(py, "stop_gradient"), !meta.gradient.flows)?;
            Ok(value)
        })?;
        self.inputs += 1;
        self.distributed.note_input(&self.paddle, tensor, &value)?;
        if meta.shape.contains(&None) {
            self.twin(py)?.add_input(&value, tensor.getattr(intern!(py, "shape"))?.extract()?)?;
        }
        Ok(value.unbind())
    }

    fn parameter(&mut self, tensor: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = tensor.py();
        let meta = meta::of_tensor(&self.paddle, tensor)?;
        if layout(&self.paddle, tensor)? == Some(Layout::Distributed) {
            return self.input("parameter", tensor, &meta);
        }
        let value = self.within(py, || self.paddle.convert_into_value.call1(py, (tensor,)))?;
        self.distributed.note_input(&self.paddle, tensor, value.bind(py))?;
        Ok(value)
    }

    fn number(&mut self, name: &str, number: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = number.py();
        let name = format!("sot.input.{}.{name}", self.inputs);
        let is_float = number.is_exact_instance_of::<PyFloat>();
        let dtype = if is_float { "float64" } else { "int64" };
        let data = || self.paddle.data.bind(py).call1((name, PyList::empty(py), dtype));
        let value = self.within(py, data)?;
        self.inputs += 1;
        if is_float {
            // Operations that take the number do not depend on its value, so there is nothing to compare.
            self.numbers.insert(&self.paddle, &value)?;
            return Ok(value.unbind());
        }
        let twin = self.twin(py)?;
        let here = twin.add_input(&value, Vec::new())?;
        twin.note_given_number(&value, number.extract()?)?;
        self.numbers.insert(&self.paddle, &value)?;
        self.numbers.insert(&self.paddle, &here)?;
        Ok(value.unbind())
    }

    fn array(&mut self, name: &str, array: &Bound<'_, PyAny>, shape: &[Option<i64>]) -> PyResult<Option<Py<PyAny>>> {
        let py = array.py();
        let Ok(tensor) = arrays::tensor_of(array) else { return Ok(None) };
        let name = format!("sot.input.{}.{name}", self.inputs);
        let dtype = tensor.getattr(intern!(py, "dtype"))?;
        let sizes: Vec<i64> = shape.iter().map(|size| size.unwrap_or(-1)).collect();
        let value = self.within(py, || {
            let value = self.paddle.data.bind(py).call1((name, PyList::new(py, sizes)?, dtype))?;
            value.setattr(intern!(py, "stop_gradient"), true)?;
            Ok(value)
        })?;
        self.inputs += 1;
        self.arrays.insert(&self.paddle, &value, array)?;
        if shape.contains(&None) {
            let here = self.twin(py)?.add_input(&value, tensor.getattr(intern!(py, "shape"))?.extract()?)?;
            self.arrays.insert(&self.paddle, &here, array)?;
        }
        Ok(Some(value.unbind()))
    }

    fn call<'py>(
        &mut self,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = callee.py();
        let end = ProgramEnd::of(&self.target, py)?;
        let call = StatementCall { kind, callee: callee.clone(), args: args.clone(), keywords: kwargs.cloned() };
        let made = self.with_own_code(callee, |builder| builder.append_call(&call));
        // The result of a write is the present value of its operand, so operations in place stay.
        if made.is_err() && kind != CallKind::InPlace {
            self.refused.note(&self.target, &end, py)?;
        }
        made
    }

    fn value_meta(&self, object: &Bound<'_, PyAny>) -> PyResult<Option<TensorMeta>> {
        meta::of_value(&self.paddle, object)
    }

    fn answer(&self, value: &Bound<'_, PyAny>, method: &str) -> PyResult<Option<KnownResult>> {
        self.known_sizes.answer(&self.paddle, value, method)
    }

    fn size_formula(&mut self, value: &Bound<'_, PyAny>, axis: usize) -> PyResult<Option<SizeFormula>> {
        let Some(twin) = self.twin.take() else { return Ok(None) };
        let found = self.probed_formula(&twin, value, axis);
        self.twin = Some(twin);
        found
    }

    fn finish(
        mut self: Box<Self>,
        py: Python<'_>,
        _name: &str,
        inputs: &[Py<PyAny>],
        outputs: &[Py<PyAny>],
    ) -> PyResult<Py<PyAny>> {
        if !self.writes.is_empty() || self.must_be_called() {
            let text =
                "a graph that writes into its inputs, or that must not run as a program, must be there as calls, too";
            return Err(PyTypeError::new_err(text));
        }
        let (planned, _alive) = self.plan(py, inputs, outputs, None)?;
        run::callable(py, planned.compile(py)?)
    }

    fn finish_with_calls(
        mut self: Box<Self>,
        py: Python<'_>,
        _name: &str,
        inputs: &[Py<PyAny>],
        outputs: &[Py<PyAny>],
        calls: Py<PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let inner = &self.inner_gradients;
        if self.distributed.is_any() || inner.must_be_called(&self.paddle, &self.views, outputs, py)? {
            return Ok(calls);
        }
        let (planned, _alive) = self.plan(py, inputs, outputs, Some(&calls))?;
        if !planned.needs_grad(py)? {
            return run::callable(py, planned.compile(py)?);
        }
        second_passes::callable(py, planned, calls)
    }

    fn program(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        (!self.must_be_called()).then(|| self.target.main.clone_ref(py))
    }

    fn must_be_called(&self) -> bool {
        self.distributed.is_any() || self.inner_gradients.may_have_to_be_called()
    }

    fn weight(&self, kind: CallKind, callee: &Bound<'_, PyAny>, args: &Bound<'_, PyTuple>) -> PyResult<Option<isize>> {
        weight::weight(&self.paddle, (kind, callee), args)
    }

    fn may_raise(
        &self,
        kind: CallKind,
        callee: &Bound<'_, PyAny>,
        given: (&Bound<'_, PyTuple>, Option<&Bound<'_, PyDict>>),
    ) -> PyResult<bool> {
        may_raise::may_raise(&self.paddle, kind, callee, given)
    }

    fn draws_random_numbers(&self, py: Python<'_>) -> PyResult<bool> {
        random_operations::are_in(self.target.main.bind(py))
    }

    fn object_method(&self, layer: &Bound<'_, PyAny>) -> PyResult<&'static str> {
        Ok(if self.paddle.is_forward_all(layer)? { "forward" } else { "__call__" })
    }

    fn state(&self) -> Option<Arc<dyn StateTest>> {
        Some(Arc::clone(&self.state) as Arc<dyn StateTest>)
    }

    fn may_write_to(&self, tensor: &Bound<'_, PyAny>) -> bool {
        tensor.call_method0(intern!(tensor.py(), "is_contiguous")).and_then(|is| is.is_truthy()).unwrap_or(false)
    }

    fn keeps_gradient(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.own_gradients.has(identity(&self.paddle, value)?))
    }

    fn write_back(&mut self, input: &Py<PyAny>, value: &Py<PyAny>) {
        Python::attach(|py| self.writes.push((input.clone_ref(py), value.clone_ref(py))));
    }

    fn memory(&self, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        in_place::memory(&self.paddle, &self.views, value)
    }

    fn operations(&self) -> PyResult<usize> {
        Python::attach(|py| {
            let twin = self.twin.as_ref().map_or(Ok(0), |twin| twin.target(py).operations(py))?;
            Ok(self.target.operations(py)? + twin)
        })
    }
}

impl Drop for PaddleBuilder {
    fn drop(&mut self) {
        if self.recorded {
            // Attaching fails only while the interpreter shuts down, when nothing is left to release.
            Python::try_attach(|py| self.take_parameters(py).is_ok());
        }
    }
}

/// Returns the identity of a graph value, which is the same for all Python objects that stand for the value.
pub(crate) fn identity(paddle: &Paddle, value: &Bound<'_, PyAny>) -> PyResult<u64> {
    if !paddle.is_value(value) {
        return Err(PyTypeError::new_err(format!("{} is no value of a graph", value.get_type())));
    }
    value.call_method0("hash")?.extract()
}
