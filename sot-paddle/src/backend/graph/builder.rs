//! A graph being built: each statement is appended to the program that will run, with static mode on for its length
//! only. Finishing settles what the program gives and where its outputs are found; what is finished is compiled apart
//! (`planned.rs`).
//!
//! Gradients follow Paddle's grad mode at each `call`, which static mode obeys too: a `no_grad` region inside a trace
//! is honoured by switching the real grad mode for the statements in it.

use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyList, PyString, PyTuple};
use sot_core::backend::{CallKind, GraphBuilder, SizesMatter, StateTest, TensorMeta};
use sot_core::cpython::{self, WeakRef};

use crate::backend::calls::foundation::InPrograms;
use crate::backend::calls::given_back;
use crate::backend::calls::output_argument;
use crate::backend::calls::stand_in::{self, MethodArguments, StandIn};
use crate::backend::graph::arrays::{self, Arrays};
use crate::backend::graph::data;
use crate::backend::graph::gradient::Settled;
use crate::backend::graph::infer_meta::Checked;
use crate::backend::graph::outputs::{known_values, plan_outputs, Known, Origin};
use crate::backend::graph::planned::Planned;
use crate::backend::graph::weight;
use crate::backend::memory::in_place::{self, OwnGradients, Versions};
use crate::backend::memory::views::{Step, Views};
use crate::backend::memory::write_back::{Write, Writes};
use crate::backend::numbers::floats;
use crate::backend::numbers::known_sizes::KnownSizes;
use crate::backend::numbers::number_inputs::GivenAs;
use crate::backend::numbers::rounded::Given;
use crate::backend::numbers::scalar;
use crate::backend::numbers::sizes::Numbers;
use crate::backend::numbers::twin::Twin;
use crate::backend::numbers::whether;
use crate::backend::paddle::meta;
use crate::backend::paddle::state::GlobalState;
use crate::backend::paddle::static_mode::Target;
use crate::backend::paddle::Paddle;
use crate::backend::run::late;
use crate::backend::run::second_passes;
use crate::backend::run::{self, Statements};

/// Builds one program.
pub(crate) struct PaddleBuilder {
    paddle: Arc<Paddle>,
    target: Target,
    inputs: usize,
    settled: Settled,
    checked: Checked,
    views: Views,
    /// Whether Paddle's recorder still holds what the program refers to.
    recorded: bool,
    /// The global state of the last statement.
    state: Arc<GlobalState>,
    /// The global states of all statements.
    states: Vec<Arc<GlobalState>>,
    /// Inputs and the values they are to have in the end.
    writes: Vec<(Py<PyAny>, Py<PyAny>)>,
    versions: Versions,
    own_gradients: OwnGradients,
    /// Where sizes are left open.
    twin: Option<Twin>,
    numbers: Numbers,
    known_sizes: KnownSizes,
    arrays: Arrays,
    /// What runs in the place of the method whose statement is being made.
    copy: Option<Py<PyAny>>,
}

impl PaddleBuilder {
    /// An empty program.
    pub(crate) fn begin(py: Python<'_>, paddle: Arc<Paddle>) -> PyResult<Self> {
        scalar::keep_nought(&paddle, py)?;
        let target = paddle.static_mode.new_target(py, &paddle.program)?;
        let state = Arc::new(GlobalState::now(py, &paddle)?);
        Ok(PaddleBuilder {
            target,
            inputs: 0,
            settled: Settled::default(),
            checked: Checked::default(),
            views: Views::default(),
            recorded: true,
            states: vec![Arc::clone(&state)],
            state,
            writes: Vec::new(),
            versions: Versions::default(),
            own_gradients: OwnGradients::default(),
            copy: None,
            twin: None,
            numbers: Numbers::default(),
            known_sizes: KnownSizes::default(),
            arrays: Arrays::default(),
            paddle,
        })
    }

    fn within<T>(&self, py: Python<'_>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        self.paddle.static_mode.within(py, &self.target, work)
    }

    /// Notes the state that the next statement obeys.
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

    /// The tensors the program refers to with their values, taken out of Paddle's recorder, which holds them strongly.
    fn take_parameters<'py>(&mut self, py: Python<'py>) -> PyResult<Parameters<'py>> {
        self.recorded = false;
        if let Some(twin) = self.twin.take() {
            self.forget_recorded(py, &twin.target(py))?;
        }
        let recorded = self.paddle.recorder.bind(py).call_method1(intern!(py, "pop"), (&self.target.main,))?;
        self.paddle.inplace_map.bind(py).call_method1(intern!(py, "pop"), (&self.target.main,))?;
        let (tensors, values) = recorded.extract()?;
        Ok(Parameters { tensors, values })
    }

    /// Makes Paddle's recorder let go of what a program refers to.
    fn forget_recorded(&self, py: Python<'_>, target: &Target) -> PyResult<()> {
        for record in [&self.paddle.recorder, &self.paddle.inplace_map] {
            record.bind(py).call_method1(intern!(py, "pop"), (&target.main,))?;
        }
        Ok(())
    }

    /// Appends the statement of a call.
    fn append_call<'py>(
        &mut self,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if !matches!(kind, CallKind::Object(_)) {
            output_argument::refuse(&self.paddle, callee, args, kwargs)?;
        }
        self.note_state(callee.py())?;
        self.numbers.refuse_positions(&self.paddle, kind, args)?;
        let given = Given::of(&self.paddle, (kind, callee), args, kwargs)?;
        if !matches!(kind, CallKind::Object(_)) {
            scalar::refuse_minus_nought(args, kwargs)?;
        }
        given_back::refuse_axes(&self.paddle, callee, args, kwargs)?;
        self.own_gradients.check(&self.paddle, callee, args, kwargs)?;
        let paddle = Arc::clone(&self.paddle);
        let target = self.target.clone_ref(callee.py());
        let operands = data::operands(&paddle, &target, (kind, callee), args)?;
        let args = operands.as_ref().unwrap_or(args);
        let filled = scalar::filled_with_text(kind, callee, args, kwargs)?;
        let args = filled.as_ref().unwrap_or(args);
        let is_array = self.arrays.are_in(&paddle, args, kwargs)?;
        let known = if is_array { None } else { data::values(&paddle, &self.numbers, (kind, callee), args, kwargs)? };
        let result = match known {
            Some(data) => {
                let made = paddle.static_mode.within(callee.py(), &target, || data::constant(&data))?;
                self.known_sizes.note_data(&self.paddle, &data, &made)?;
                made
            }
            None => self.append_for_all_sizes(&target, kind, callee, (args, kwargs))?,
        };
        if kind == CallKind::InPlace {
            self.versions.note(&self.paddle, callee, args, &result)?;
            self.own_gradients.note(&self.paddle, callee, args, &result)?;
        }
        self.checked.check(&self.paddle, &target, &given, &result)?;
        self.settled.settle(&self.paddle, &result)?;
        self.views.note(&self.paddle, (kind, callee), args, kwargs, &result, &self.numbers)?;
        Ok(result)
    }

    /// Appends a statement. Where it is given values with open sizes, they must make no difference to what is appended.
    fn append_for_all_sizes<'py>(
        &mut self,
        target: &Target,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        (args, kwargs): (&Bound<'py, PyTuple>, Option<&Bound<'py, PyDict>>),
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(mut twin) = self.twin.take() else {
            return self.append_for_these_sizes(target, kind, callee, (args, kwargs));
        };
        let result = match twin.concerns(args, kwargs) {
            Ok(true) => self.append_twice(&mut twin, target, kind, callee, (args, kwargs)),
            Ok(false) => self.append(target, kind, callee, args, kwargs),
            Err(error) => Err(error),
        };
        self.twin = Some(twin);
        result
    }

    fn append_for_these_sizes<'py>(
        &mut self,
        target: &Target,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        (args, kwargs): (&Bound<'py, PyTuple>, Option<&Bound<'py, PyDict>>),
    ) -> PyResult<Bound<'py, PyAny>> {
        let result = match self.known_sizes.arguments(&self.paddle, callee, (args, kwargs))? {
            Some((args, kwargs)) => self.append(target, kind, callee, &args, kwargs.as_ref())?,
            None => self.append(target, kind, callee, args, kwargs)?,
        };
        self.known_sizes.note(&self.paddle, kind, callee, args, &result)?;
        Ok(result)
    }

    fn append_twice<'py>(
        &mut self,
        twin: &mut Twin,
        target: &Target,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        (args, kwargs): (&Bound<'py, PyTuple>, Option<&Bound<'py, PyDict>>),
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = callee.py();
        let given = twin.arguments(args, kwargs)?;
        self.numbers.note_alike(&self.paddle, args.as_any(), given.positional.as_any())?;
        if let (Some(original), Some(twin)) = (kwargs, &given.keywords) {
            self.numbers.note_alike(&self.paddle, original.as_any(), twin.as_any())?;
        }
        let twin_target = twin.target(py);
        let (before, twin_before) = (Twin::operations(py, target)?.len(), Twin::operations(py, &twin_target)?.len());
        // Where this fails with numbers for sizes, it may not with the numbers themselves.
        let numbers = self.numbers.are_in(&self.paddle, args, kwargs)?;
        let matter = |error: PyErr| if numbers { SizesMatter::new_err(error.to_string()) } else { error };
        self.append(&twin_target, kind, callee, &given.positional, given.keywords.as_ref()).map_err(matter)?;
        let here = Twin::operations(py, &twin_target)?.split_off(twin_before);
        twin.refuse_dangerous(&here)?;
        let matter = |error: PyErr| SizesMatter::new_err(error.to_string());
        let result = self.append(target, kind, callee, args, kwargs).map_err(matter)?;
        twin.compare(&here, &Twin::operations(py, target)?.split_off(before))?;
        Ok(result)
    }

    fn append<'py>(
        &mut self,
        target: &Target,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let paddle = Arc::clone(&self.paddle);
        paddle.static_mode.within(callee.py(), target, || {
            if let Some(result) = self.arrays.call(&self.paddle, (kind, callee), args, kwargs)? {
                return Ok(result);
            }
            if let Some(result) = floats::call(&self.paddle, &self.numbers, (kind, callee), args, kwargs)? {
                return Ok(result);
            }
            if let Some(result) = self.numbers.operator(&self.paddle, kind, callee, args)? {
                return Ok(result);
            }
            if let Some(result) = scalar::operator_with_number(&self.paddle, kind, callee, args)? {
                return Ok(result);
            }
            if let Some(result) = whether::call(&self.paddle, (kind, callee), args, kwargs)? {
                return Ok(result);
            }
            if let Some(made) = data::of_numbers(&self.paddle, &self.numbers, (kind, callee), args, kwargs)? {
                return Ok(made);
            }
            let result = match kind {
                CallKind::Api if stand_in::is_function(callee)? => {
                    let arguments =
                        MethodArguments { positional: args.get_slice(1, args.len()), keywords: kwargs.cloned() };
                    let name = callee.getattr(intern!(callee.py(), "__name__"))?.cast_into()?;
                    let receiver = args.get_item(0).map_err(|_| stand_in::refused("a tensor given by name"))?;
                    self.call_method(&name, &receiver, &arguments)
                }
                CallKind::Api => {
                    if let Some(method) = stand_in::of_attribute(callee, args)? {
                        let arguments = MethodArguments { positional: PyTuple::empty(callee.py()), keywords: None };
                        return self.call_method(&method, &args.get_item(0)?, &arguments);
                    }
                    let result = callee.call(args, kwargs)?;
                    self.numbers.note(&self.paddle, callee, &result)?;
                    Ok(result)
                }
                CallKind::InPlace => in_place::call(&self.paddle, callee, args, kwargs),
                CallKind::Object(_) => self.paddle.layer_body(callee)?.call(args, kwargs),
                CallKind::Method => {
                    let arguments =
                        MethodArguments { positional: args.get_slice(1, args.len()), keywords: kwargs.cloned() };
                    self.call_method(callee.cast()?, &args.get_item(0)?, &arguments)
                }
            }?;
            let built = matches!(kind, CallKind::Api | CallKind::Method);
            if built && given_back::is_given_back(&self.paddle, callee, args, kwargs)? {
                return args.get_item(0);
            }
            Ok(result)
        })
    }

    fn call_method<'py>(
        &mut self,
        method: &Bound<'py, PyString>,
        receiver: &Bound<'py, PyAny>,
        arguments: &MethodArguments<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let bare = arguments.positional.is_empty() && arguments.keywords.is_none();
        if bare && method == "contiguous" && in_place::is_laid_out(&self.paddle, &self.views, &self.versions, receiver)?
        {
            return Ok(receiver.clone());
        }
        if method == "as_strided" && !in_place::is_laid_out(&self.paddle, &self.views, &self.versions, receiver)? {
            return Err(stand_in::refused("a tensor that may lie in the memory of another"));
        }
        let Some(StandIn { value, again }) = stand_in::of(&self.paddle, method, receiver, arguments)? else {
            let result = match &self.copy {
                Some(code) => {
                    let given = std::iter::once(receiver.clone()).chain(arguments.positional.iter());
                    let given = PyTuple::new(method.py(), given.collect::<Vec<_>>())?;
                    code.bind(method.py()).call(given, arguments.keywords.as_ref())?
                }
                None => receiver.getattr(method)?.call(&arguments.positional, arguments.keywords.as_ref())?,
            };
            if !result.is(receiver) || method != "__getitem__" {
                return Ok(result);
            }
            // An index that takes all of a tensor gives another one in eager mode, a view.
            let value = cpython::import(method.py(), "paddle")?.call_method1("assign", (result,))?;
            let again = Step::method(method.py(), "__getitem__", &arguments.positional, None);
            self.views.note_step(&self.paddle, receiver, &value, again)?;
            return Ok(value);
        };
        if let Some(again) = again {
            self.views.note_step(&self.paddle, receiver, &value, again)?;
        }
        Ok(value)
    }

    /// Runs for its effects: with no result asked for, the last one stands in, as a program must have an output.
    fn last_result<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let block = self.target.main.bind(py).call_method0("global_block")?;
        let operations: Vec<Bound<'py, PyAny>> = block.getattr("ops")?.extract()?;
        for operation in operations.iter().rev() {
            let name: String = operation.call_method0("name")?.extract()?;
            if matches!(name.as_str(), "pd_op.data" | "builtin.parameter") {
                continue;
            }
            if let Some(result) = operation.call_method0("results")?.try_iter()?.next() {
                return result.map(Some);
            }
        }
        Ok(None)
    }
}

struct Parameters<'py> {
    tensors: Bound<'py, PyList>,
    values: Bound<'py, PyList>,
}

impl GraphBuilder for PaddleBuilder {
    fn input(&mut self, name: &str, tensor: &Bound<'_, PyAny>, meta: &TensorMeta) -> PyResult<Py<PyAny>> {
        let py = tensor.py();
        // Values are found by name, and a parameter may bear any name: this prefix keeps the two apart.
        let name = format!("sot.input.{}.{name}", self.inputs);
        let shape: Vec<i64> = meta.shape.iter().map(|size| size.unwrap_or(-1)).collect();
        let dtype = tensor.getattr(intern!(py, "dtype"))?;
        let value = self.within(py, || {
            let value = self.paddle.data.bind(py).call1((name, PyList::new(py, shape)?, dtype))?;
            value.setattr(intern!(py, "stop_gradient"), !meta.gradient.flows)?;
            Ok(value)
        })?;
        self.inputs += 1;
        if meta.shape.contains(&None) {
            let twin = match &mut self.twin {
                Some(twin) => twin,
                None => self.twin.insert(Twin::new(py, &self.paddle)?),
            };
            twin.add_input(&value, tensor)?;
        }
        Ok(value.unbind())
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
            // What takes it does not look at it: there is nothing to compare.
            self.numbers.insert(&self.paddle, &value)?;
            return Ok(value.unbind());
        }
        let twin = match &mut self.twin {
            Some(twin) => twin,
            None => self.twin.insert(Twin::new(py, &self.paddle)?),
        };
        let here = twin.add_number(&value)?;
        self.numbers.insert(&self.paddle, &value)?;
        self.numbers.insert(&self.paddle, &here)?;
        Ok(value.unbind())
    }

    fn array(&mut self, name: &str, array: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
        let py = array.py();
        let Ok(tensor) = arrays::tensor_of(array) else { return Ok(None) };
        let name = format!("sot.input.{}.{name}", self.inputs);
        let (shape, dtype) = (tensor.getattr(intern!(py, "shape"))?, tensor.getattr(intern!(py, "dtype"))?);
        let value = self.within(py, || {
            let value = self.paddle.data.bind(py).call1((name, shape, dtype))?;
            value.setattr(intern!(py, "stop_gradient"), true)?;
            Ok(value)
        })?;
        self.inputs += 1;
        self.arrays.insert(&self.paddle, &value, array)?;
        Ok(Some(value.unbind()))
    }

    fn parameter(&mut self, tensor: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = tensor.py();
        meta::of_tensor(&self.paddle, tensor)?;
        self.within(py, || self.paddle.convert_into_value.call1(py, (tensor,)))
    }

    fn call<'py>(
        &mut self,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let paddle = Arc::clone(&self.paddle);
        match callee.cast::<PyString>() {
            Ok(method) => {
                let code = InPrograms::of_method(&paddle, method)?;
                self.copy = code.copy.as_ref().map(|copy| copy.clone_ref(method.py()));
                let made = code.refusing_replaced(method, || self.append_call(kind, callee, args, kwargs));
                self.copy = None;
                made
            }
            Err(_) => self.append_call(kind, callee, args, kwargs),
        }
    }

    fn answer(&self, value: &Bound<'_, PyAny>, method: &str) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.known_sizes.answer(&self.paddle, value, method)?.map(Bound::unbind))
    }

    fn operations(&self) -> PyResult<usize> {
        Python::attach(|py| {
            let twin = self.twin.as_ref().map_or(Ok(0), |twin| count(&twin.target(py), py))?;
            Ok(count(&self.target, py)? + twin)
        })
    }

    fn value_meta(&self, object: &Bound<'_, PyAny>) -> PyResult<Option<TensorMeta>> {
        meta::of_value(&self.paddle, object)
    }

    fn memory(&self, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        in_place::memory(&self.paddle, &self.views, value)
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

    fn weight(&self, kind: CallKind, callee: &Bound<'_, PyAny>) -> PyResult<usize> {
        weight::weight(&self.paddle, kind, callee)
    }

    fn object_method(&self, layer: &Bound<'_, PyAny>) -> PyResult<&'static str> {
        Ok(if self.paddle.layer_body(layer)?.is(layer) { "__call__" } else { "forward" })
    }

    fn program(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        Some(self.target.main.clone_ref(py))
    }

    fn finish(
        mut self: Box<Self>,
        py: Python<'_>,
        _name: &str,
        inputs: &[Py<PyAny>],
        outputs: &[Py<PyAny>],
    ) -> PyResult<Py<PyAny>> {
        if !self.writes.is_empty() {
            return Err(PyTypeError::new_err("a graph that writes into its inputs must be there as calls, too"));
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
        let (planned, _alive) = self.plan(py, inputs, outputs, Some(&calls))?;
        if !planned.needs_grad(py)? {
            return run::callable(py, planned.compile(py)?);
        }
        late::callable(py, planned, calls)
    }
}

impl PaddleBuilder {
    /// Settles what the program gives and where its outputs are found. Its parameters live as long as the second value.
    fn plan<'py>(
        &mut self,
        py: Python<'py>,
        inputs: &[Py<PyAny>],
        outputs: &[Py<PyAny>],
        calls: Option<&Py<PyAny>>,
    ) -> PyResult<(Planned, Bound<'py, PyList>)> {
        let parameters = self.take_parameters(py)?;
        refuse_shared_names(&parameters.tensors)?;
        let mut known = known_values(&self.paddle, py, inputs, &parameters.values)?;
        let results = PyList::empty(py);
        let each = self.plan_writes(&mut known, &results)?;
        let writes = calls.filter(|_| !each.is_empty()).map(|calls| Writes { each, calls: calls.clone_ref(py) });
        let plan = plan_outputs(&self.paddle, py, (known, &results), outputs, &self.views)?;
        if results.is_empty() {
            if let Some(result) = self.last_result(py)? {
                results.append(result)?;
            }
        }
        let through = second_passes::through(self.target.main.bind(py), outputs, &plan)?;
        let reach = second_passes::Reach::of(self.target.main.bind(py), &results)?;
        let mut numbers = Vec::new();
        for (at, input) in inputs.iter().enumerate() {
            if self.numbers.has(&self.paddle, input.bind(py)) {
                numbers.push((at, GivenAs::Number));
            } else if self.arrays.has(&self.paddle, input.bind(py)) {
                numbers.push((at, GivenAs::Array));
            }
        }
        let planned = Planned {
            numbers,
            paddle: Arc::clone(&self.paddle),
            program: self.target.main.clone_ref(py),
            partial: reach.partial(&PyList::new(py, inputs)?, &parameters.values)?,
            viewed: reach.viewed(&PyList::new(py, inputs)?, &parameters.values)?,
            apart: reach.has_apart(),
            inputs: PyList::new(py, inputs)?.unbind(),
            parameters: parameters.tensors.iter().map(|tensor| WeakRef::new(&tensor, None)).collect::<PyResult<_>>()?,
            values: parameters.values.unbind(),
            results: results.unbind(),
            plan,
            through: through.into(),
            writes,
            statements: calls
                .map(|calls| Statements { calls: calls.clone_ref(py), state: Arc::clone(&self.states[0]) }),
        };
        Ok((planned, parameters.tensors))
    }

    /// The results to be written back. Each leaves the graph as the input that has it in the end.
    fn plan_writes(&self, known: &mut Known, results: &Bound<'_, PyList>) -> PyResult<Vec<Write>> {
        let py = results.py();
        let mut writes = Vec::new();
        for (input, value) in &self.writes {
            let (input, value) = (identity(&self.paddle, input.bind(py))?, value.bind(py));
            let Some(&Origin::Input(input)) = known.get(&input) else {
                return Err(PyTypeError::new_err("what is written to is no input of the graph"));
            };
            let id = identity(&self.paddle, value)?;
            known.insert(id, Origin::Input(input));
            results.append(value)?;
            let keeps_gradient = self.own_gradients.has(id);
            writes.push(Write { input, result: results.len() - 1, versions: self.versions.of(id), keeps_gradient });
        }
        Ok(writes)
    }
}

impl Drop for PaddleBuilder {
    fn drop(&mut self) {
        if self.recorded {
            // It fails only while the interpreter shuts down, when nothing is left to release.
            Python::try_attach(|py| self.take_parameters(py).is_ok());
        }
    }
}

/// How many operations a program has.
fn count(target: &Target, py: Python<'_>) -> PyResult<usize> {
    let block = target.main.bind(py).call_method0(intern!(py, "global_block"))?;
    block.call_method0(intern!(py, "num_ops"))?.extract()
}

/// Programs bind parameters by name: two tensors of one name would become one.
fn refuse_shared_names(tensors: &Bound<'_, PyList>) -> PyResult<()> {
    let mut names = std::collections::HashSet::new();
    for tensor in tensors {
        let name: String = tensor.getattr("name")?.extract()?;
        if names.contains(&name) {
            return Err(PyValueError::new_err(format!("two parameters or buffers share the name {name}")));
        }
        names.insert(name);
    }
    Ok(())
}

/// Several Python objects may stand for one value; this is what they share.
pub(crate) fn identity(paddle: &Paddle, value: &Bound<'_, PyAny>) -> PyResult<u64> {
    if !paddle.is_value(value) {
        return Err(PyTypeError::new_err(format!("{} is no value of a graph", value.get_type())));
    }
    value.call_method0("hash")?.extract()
}
