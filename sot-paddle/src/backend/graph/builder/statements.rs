//! Appends statements to the program: once, or twice if sizes are left open.

use std::sync::Arc;

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use sot_core::backend::{CallKind, SizeFormula, SizesMatter};
use sot_core::cpython;
use sot_core::registered;

use crate::backend::calls::argument_types;
use crate::backend::calls::empty_tensors;
use crate::backend::calls::float_counts;
use crate::backend::calls::given_back;
use crate::backend::calls::ignored_arguments;
use crate::backend::calls::index_masks;
use crate::backend::calls::items;
use crate::backend::calls::kept_operands;
use crate::backend::calls::stand_in::{self, MethodArguments, StandIn};
use crate::backend::graph::copied_row::CopiedRow;
use crate::backend::graph::data;
use crate::backend::graph::inner_gradients;
use crate::backend::graph::other_gradients;
use crate::backend::memory::in_place;
use crate::backend::memory::views::Step;
use crate::backend::numbers::diagonals;
use crate::backend::numbers::floats;
use crate::backend::numbers::rounded::CallNumbers;
use crate::backend::numbers::scalar;
use crate::backend::numbers::size_probe::{ways, Found, HoldsFrom, SizeProbe, Way};
use crate::backend::numbers::sizes;
use crate::backend::numbers::twin::{hold_unknown_sizes, refusing_endless, Twin, TwinStatement};
use crate::backend::numbers::where_op;
use crate::backend::paddle::meta;
use crate::backend::paddle::static_mode::BuildTarget;
use crate::backend::paddle::Paddle;

use super::{node, PaddleBuilder};

/// What a twin has of a statement.
struct TwinResult<'py> {
    operations: Vec<Bound<'py, PyAny>>,
    result: Bound<'py, PyAny>,
}

impl PaddleBuilder {
    /// Appends the statement of a call.
    pub(super) fn append_call<'py>(
        &mut self,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if !matches!(kind, CallKind::Object(_)) {
            ignored_arguments::refuse(&self.paddle, callee, args, kwargs)?;
            argument_types::refuse(&self.paddle, callee, args, kwargs)?;
        }
        empty_tensors::refuse(&self.paddle, callee, args, kwargs)?;
        index_masks::refuse(&self.paddle, callee, args)?;
        self.note_state(callee.py())?;
        items::refuse_unlike(&self.paddle, callee, args)?;
        self.numbers.refuse_in_index(&self.paddle, (kind, callee), args)?;
        let given = CallNumbers::of(&self.paddle, (kind, callee), args, kwargs)?;
        if !matches!(kind, CallKind::Object(_)) {
            scalar::refuse_minus_zero(args, kwargs)?;
            let by_integer = self.numbers.are_in(&self.paddle, args, kwargs)?
                && !self.numbers.floats_are_in(&self.paddle, args, kwargs)?;
            if !by_integer {
                scalar::refuse_mixed_floor_division(&self.paddle, callee, args)?;
            }
        }
        given_back::refuse_axes(&self.paddle, callee, args, kwargs)?;
        other_gradients::refuse_call(&self.paddle, callee, args, kwargs)?;
        self.own_gradients.check(&self.paddle, callee, args, kwargs)?;
        let paddle = Arc::clone(&self.paddle);
        let target = self.target.clone_ref(callee.py());
        let replaced = float_counts::replaced(callee, args, kwargs)?;
        let (args, kwargs) = replaced.as_ref().map_or((args, kwargs), |(args, kwargs)| (args, kwargs.as_ref()));
        let operands = data::operands(&paddle, &target, (kind, callee), args)?;
        let args = operands.as_ref().unwrap_or(args);
        let filled = scalar::filled_with_text(kind, callee, args, kwargs)?;
        let args = filled.as_ref().unwrap_or(args);
        let is_array = self.arrays.are_in(&paddle, args, kwargs)?;
        let copied = CopiedRow::of_call(&paddle, &self.numbers, (kind, callee), args, kwargs)?;
        let known = match &copied {
            None if !is_array => data::values(&paddle, &self.numbers, (kind, callee), args, kwargs)?,
            _ => None,
        };
        let result = match (known, copied) {
            (None, Some(row)) => {
                let copy = paddle.static_mode.within(callee.py(), &target, || row.copy())?;
                self.known_sizes.note(&self.paddle, kind, callee, (args, kwargs), &copy)?;
                copy
            }
            (Some(data), _) => {
                let inner = &mut self.inner_gradients;
                let made = paddle.static_mode.within(callee.py(), &target, || {
                    let made = data::constant(&data.array)?;
                    if data.is_leaf {
                        inner.switch(&paddle, &made, true)
                    } else {
                        Ok(made)
                    }
                })?;
                if data.is_leaf {
                    self.corrected_flags.keep(&self.paddle, &made)?;
                }
                self.known_sizes.note_data(&self.paddle, &data.array, &made)?;
                made
            }
            (None, None) => self.append_with_known_sizes(&target, kind, callee, (args, kwargs))?,
        };
        if kind == CallKind::InPlace {
            self.histories.note(&self.paddle, callee, args, &result)?;
            self.own_gradients.note(&self.paddle, callee, args, &result)?;
        }
        self.checked.check(&self.paddle, &target, &given, &result)?;
        if kind == CallKind::Method && items::are_at_positions(&paddle, (kind, callee), args)? {
            paddle.static_mode.within(callee.py(), &target, || items::append_check(&paddle, &result))?;
        }
        self.corrected_flags.correct(&self.paddle, &result)?;
        self.views.note(&self.paddle, (kind, callee), args, kwargs, &result)?;
        self.distributed.note_statement(&self.paddle, args, kwargs, &result)?;
        Ok(result)
    }

    /// Appends a statement, with the numbers of known sizes in the place of values.
    fn append_with_known_sizes<'py>(
        &mut self,
        target: &BuildTarget,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        (args, kwargs): (&Bound<'py, PyTuple>, Option<&Bound<'py, PyDict>>),
    ) -> PyResult<Bound<'py, PyAny>> {
        let replaced = self.known_sizes.arguments(&self.paddle, callee, (args, kwargs))?;
        let given = replaced.as_ref().map_or((args, kwargs), |(args, kwargs)| (args, kwargs.as_ref()));
        let result = match self.twin.take() {
            Some(mut twin) => {
                let result = self.append_for_all_sizes(&mut twin, target, kind, callee, given);
                self.twin = Some(twin);
                result?
            }
            None => self.append_for_these_sizes(target, kind, callee, given)?,
        };
        self.known_sizes.note(&self.paddle, kind, callee, (args, kwargs), &result)?;
        Ok(result)
    }

    /// Appends a statement to a program with open sizes. If values with open sizes are among its arguments, what is
    /// appended must not depend on these sizes.
    fn append_for_all_sizes<'py>(
        &mut self,
        twin: &mut Twin,
        target: &BuildTarget,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        (args, kwargs): (&Bound<'py, PyTuple>, Option<&Bound<'py, PyDict>>),
    ) -> PyResult<Bound<'py, PyAny>> {
        if twin.concerns(args, kwargs)? {
            self.append_twice(twin, target, kind, callee, (args, kwargs))
        } else {
            self.append(target, kind, callee, args, kwargs)
        }
    }

    /// Appends a statement where no size is open. A size may still be unknown because it follows from the elements of a
    /// tensor.
    fn append_for_these_sizes<'py>(
        &mut self,
        target: &BuildTarget,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        (args, kwargs): (&Bound<'py, PyTuple>, Option<&Bound<'py, PyDict>>),
    ) -> PyResult<Bound<'py, PyAny>> {
        if !hold_unknown_sizes(&self.paddle, args, kwargs)? {
            return self.append(target, kind, callee, args, kwargs);
        }
        let mut twin = match self.twin_for_unknown.take() {
            Some(twin) => twin,
            None => Twin::new(callee.py(), &self.paddle)?,
        };
        let result = self.append_twice(&mut twin, target, kind, callee, (args, kwargs));
        self.twin_for_unknown = Some(twin);
        result
    }

    fn append_twice<'py>(
        &mut self,
        twin: &mut Twin,
        target: &BuildTarget,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        (args, kwargs): (&Bound<'py, PyTuple>, Option<&Bound<'py, PyDict>>),
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, paddle) = (callee.py(), Arc::clone(&self.paddle));
        let Some(here) = self.append_to_twin(twin, kind, callee, (args, kwargs))? else {
            return refusing_endless(&paddle, py, || self.append(target, kind, callee, args, kwargs));
        };
        twin.refuse_dangerous(&here.operations)?;
        let before = Twin::operations(py, target)?.len();
        let matter = |error: PyErr| SizesMatter::new_err(error.to_string());
        let made = refusing_endless(&paddle, py, || self.append(target, kind, callee, args, kwargs)).map_err(matter);
        let there = Twin::operations(py, target)?.split_off(before);
        let agrees = |result: Bound<'py, PyAny>| {
            twin.compare(&here.operations, &there)?;
            twin.compare_objects(&here.result, &result)?;
            Ok(result)
        };
        let result = made.and_then(agrees)?;
        self.find_shape(twin, kind, callee, (args, kwargs), &result)?;
        self.refuse_other_shape(twin, kind, callee, (args, kwargs), &result)?;
        twin.note(TwinStatement {
            kind,
            callee: callee.clone().unbind(),
            args: args.clone().unbind(),
            kwargs: kwargs.map(|kwargs| kwargs.clone().unbind()),
            result: result.clone().unbind(),
            operations: there.into_iter().map(Bound::unbind).collect(),
        });
        Ok(result)
    }

    /// Appends a statement to a twin. Returns what the twin has of it; `None` if the statement has operands with
    /// invented sizes, and cannot be built with them. It may be right for the sizes of a run.
    fn append_to_twin<'py>(
        &mut self,
        twin: &mut Twin,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        (args, kwargs): (&Bound<'py, PyTuple>, Option<&Bound<'py, PyDict>>),
    ) -> PyResult<Option<TwinResult<'py>>> {
        let py = callee.py();
        let given = twin.arguments(args, kwargs)?;
        self.numbers.note_alike(&self.paddle, args.as_any(), given.positional.as_any())?;
        if let (Some(original), Some(twin)) = (kwargs, &given.keywords) {
            self.numbers.note_alike(&self.paddle, original.as_any(), twin.as_any())?;
        }
        twin.refuse_to_take_apart(callee, &given)?;
        let target = twin.target(py);
        let mut before = Twin::operations(py, &target)?.len();
        // If this fails with open numbers, it may succeed with the numbers themselves.
        let numbers = self.numbers.are_in(&self.paddle, args, kwargs)?;
        let matter = |error: PyErr| if numbers { SizesMatter::new_err(error.to_string()) } else { error };
        let made = self.append(&target, kind, callee, &given.positional, given.keywords.as_ref());
        let result = match made {
            Ok(result) => result,
            Err(error) => {
                let Some(given) = twin.other_arguments(args, kwargs)? else { return Err(matter(error)) };
                before = Twin::operations(py, &target)?.len();
                match self.append(&target, kind, callee, &given.positional, given.keywords.as_ref()) {
                    Ok(result) => result,
                    Err(_) => return Ok(None),
                }
            }
        };
        Ok(Some(TwinResult { operations: Twin::operations(py, &target)?.split_off(before), result }))
    }

    /// Returns the formula of a size, found with the sizes of other twins.
    pub(super) fn probed_formula(
        &mut self,
        twin: &Twin,
        value: &Bound<'_, PyAny>,
        axis: usize,
    ) -> PyResult<Option<SizeFormula>> {
        let Some(now) = twin.size(value, axis)? else { return Ok(None) };
        for (way, checks) in ways() {
            let py = value.py();
            let Some(found) = self.probed(twin, way, py, |probe| probe.find(value, axis, now))?.flatten() else {
                continue;
            };
            for check in checks {
                let confirmed = self.probed(twin, *check, py, |probe| probe.confirms(&found, value, axis))?.flatten();
                // Some statements cannot be built with the sizes of other probes, but all can with the next sizes.
                if confirmed == Some(false) || confirmed.is_none() && *check == Way::Next {
                    return Ok(None);
                }
            }
            let from = self.smallest_sizes(twin, &found, value, axis)?;
            return self.probed(twin, way, py, |probe| Ok(probe.formula(found, from.as_ref(), py)));
        }
        Ok(None)
    }

    /// Returns the sizes from which on a formula holds; `None` if it holds for all open sizes.
    fn smallest_sizes(
        &mut self,
        twin: &Twin,
        found: &Found,
        value: &Bound<'_, PyAny>,
        axis: usize,
    ) -> PyResult<Option<HoldsFrom>> {
        let smallest = self.probed(twin, Way::Smallest, value.py(), |probe| probe.confirms(found, value, axis))?;
        if smallest.flatten() == Some(true) {
            return Ok(None);
        }
        let small = self.probed(twin, Way::Small, value.py(), |probe| {
            Ok((probe.confirms(found, value, axis)? == Some(true)).then(|| probe.probed_sizes()))
        })?;
        Ok(Some(small.flatten().map_or(HoldsFrom::Now, HoldsFrom::Sizes)))
    }

    /// Asks the probe of a way, after the statements that it does not have yet were added to it. `None` if there is no
    /// such probe.
    fn probed<R>(
        &mut self,
        twin: &Twin,
        way: Way,
        py: Python<'_>,
        ask: impl FnOnce(&SizeProbe) -> PyResult<R>,
    ) -> PyResult<Option<R>> {
        let Some(mut probe) = self.probes.take(&self.paddle, way, twin, py)? else { return Ok(None) };
        while let Some(statement) = probe.next_statement(twin) {
            let built = self.append_again(&mut probe.twin, statement, py);
            probe.note(built.is_ok());
        }
        let answer = ask(&probe);
        self.probes.put_back(way, probe);
        answer.map(Some)
    }

    /// Appends a statement of the program to a further twin.
    fn append_again(&mut self, twin: &mut Twin, statement: &TwinStatement, py: Python<'_>) -> PyResult<()> {
        let (callee, args) = (statement.callee.bind(py), statement.args.bind(py));
        let kwargs = statement.kwargs.as_ref().map(|kwargs| kwargs.bind(py));
        let made =
            self.with_own_code(callee, |builder| builder.append_to_twin(twin, statement.kind, callee, (args, kwargs)))?;
        let Some(here) = made else { return Ok(()) };
        let there: Vec<_> = statement.operations.iter().map(|operation| operation.bind(py).clone()).collect();
        twin.compare(&here.operations, &there)?;
        twin.compare_objects(&here.result, statement.result.bind(py))?;
        self.find_shape(twin, statement.kind, callee, (args, kwargs), statement.result.bind(py))
    }

    /// Lets the twin know the shape of a statement's result, if the statement is given sizes as values of the graph.
    /// The shape stays unknown where the statement cannot be built with the numbers.
    fn find_shape<'py>(
        &mut self,
        twin: &mut Twin,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        (args, kwargs): (&Bound<'py, PyTuple>, Option<&Bound<'py, PyDict>>),
        result: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        twin.note_number(kind, callee, args, result)?;
        if kind == CallKind::InPlace || !self.numbers.are_in(&self.paddle, args, kwargs)? {
            return Ok(());
        }
        let Some(given) = twin.with_numbers(args, kwargs, result)? else { return Ok(()) };
        let target = twin.target(callee.py());
        match self.append(&target, kind, callee, &given.positional, given.keywords.as_ref()) {
            Ok(known) if self.paddle.is_value(&known) => twin.replace_result(result, &known),
            _ => Ok(()),
        }
    }

    /// Refuses a statement that is given numbers as values of the graph, if static mode infers another shape for its
    /// result than with the numbers themselves.
    fn refuse_other_shape<'py>(
        &mut self,
        twin: &mut Twin,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        (args, kwargs): (&Bound<'py, PyTuple>, Option<&Bound<'py, PyDict>>),
        result: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        // The result of an operator has the shape of the tensor.
        let has_shape = kind == CallKind::InPlace || sizes::is_operator(kind, callee)?;
        if has_shape || !self.numbers.are_in(&self.paddle, args, kwargs)? {
            return Ok(());
        }
        let Some(given) = twin.with_present_numbers(args, kwargs)? else { return Ok(()) };
        let target = twin.target(callee.py());
        match self.append(&target, kind, callee, &given.positional, given.keywords.as_ref()) {
            Ok(there) => twin.refuse_other_shape(result, &there),
            Err(_) => Ok(()),
        }
    }

    fn append<'py>(
        &mut self,
        target: &BuildTarget,
        kind: CallKind,
        callee: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let paddle = Arc::clone(&self.paddle);
        let by_comparison = self.numbers.are_in(&paddle, args, kwargs)? && diagonals::take_sizes(kind, callee)?;
        if !by_comparison && !matches!(kind, CallKind::Object(_)) {
            paddle.signatures.refuse(&paddle, callee, args, kwargs)?;
        }
        paddle.static_mode.within(callee.py(), target, || {
            if by_comparison {
                return diagonals::call(&self.paddle, &self.numbers, (kind, callee), args, kwargs);
            }
            if let Some(result) = self.distributed.call(&self.paddle, (kind, callee), args, kwargs)? {
                return Ok(result);
            }
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
            let is_twin = !target.main.is(&self.target.main);
            if let Some(result) = scalar::number_over_open(&self.paddle, (kind, callee), args, is_twin)? {
                return Ok(result);
            }
            if let Some(result) = where_op::call(&self.paddle, (kind, callee), args, kwargs)? {
                return Ok(result);
            }
            if let Some(result) = kept_operands::call(&self.paddle, (kind, callee), args, kwargs)? {
                return Ok(result);
            }
            if inner_gradients::is_switch(callee)? {
                let value = args.get_item(0)?;
                let switched = self.inner_gradients.switch(&self.paddle, &value, args.get_item(1)?.is_truthy()?)?;
                let again = Step::method(callee.py(), "detach", &PyTuple::empty(callee.py()), None);
                self.views.note_step(&self.paddle, &value, &switched, again)?;
                self.corrected_flags.keep(&self.paddle, &switched)?;
                return Ok(switched);
            }
            if inner_gradients::are_asked_for(&self.paddle, kind, callee) {
                let has_writes = !self.histories.is_empty();
                let gradients = self.inner_gradients.append(&self.paddle, target, (args, kwargs), has_writes)?;
                self.corrected_flags.keep(&self.paddle, &gradients)?;
                return Ok(gradients);
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
                    if let Some(method) = stand_in::of_attribute(&self.paddle, callee, args)? {
                        let arguments = MethodArguments { positional: PyTuple::empty(callee.py()), keywords: None };
                        return self.call_method(&method, &args.get_item(0)?, &arguments);
                    }
                    let result = if registered::is_statement(callee) {
                        node::call(target, callee, args, kwargs)?
                    } else {
                        callee.call(args, kwargs)?
                    };
                    self.numbers.note(&self.paddle, callee, &result)?;
                    Ok(result)
                }
                CallKind::InPlace => {
                    self.inner_gradients.refuse_write(&self.paddle, &args.get_item(0)?)?;
                    in_place::call(&self.paddle, callee, args, kwargs)
                }
                CallKind::Object(_) => self.paddle.layer_body(callee)?.call(args, kwargs),
                CallKind::Method => {
                    let arguments =
                        MethodArguments { positional: args.get_slice(1, args.len()), keywords: kwargs.cloned() };
                    self.call_method(callee.cast()?, &args.get_item(0)?, &arguments)
                }
            }?;
            refuse_missing_results(&self.paddle, &result)?;
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
        if bare
            && method == "contiguous"
            && in_place::is_contiguous_in_eager_mode(&self.paddle, &self.views, &self.histories, receiver)?
        {
            return Ok(receiver.clone());
        }
        if method == "as_strided"
            && !in_place::is_contiguous_in_eager_mode(&self.paddle, &self.views, &self.histories, receiver)?
        {
            return Err(stand_in::refused("a tensor that may lie in the memory of another"));
        }
        if method == "view" && !self.numbers.are_all(&self.paddle, &arguments.positional)? {
            return Err(stand_in::refused("view() with a tensor in the place of a number"));
        }
        let Some(StandIn { value, again }) = stand_in::of(&self.paddle, method, receiver, arguments)? else {
            let result = match items::in_steps(&self.paddle, method, arguments)? {
                Some(steps) => {
                    let step = |part: Bound<'py, PyAny>, step| self.call_own(method, &part, &step);
                    steps.into_iter().try_fold(receiver.clone(), step)?
                }
                None => self.call_own(method, receiver, arguments)?,
            };
            if !result.is(receiver) || method != "__getitem__" {
                return Ok(result);
            }
            // In eager mode, an index that selects all of a tensor returns a new tensor, a view.
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

    /// Calls a method, or the copy of it that runs in its place.
    fn call_own<'py>(
        &self,
        method: &Bound<'py, PyString>,
        receiver: &Bound<'py, PyAny>,
        arguments: &MethodArguments<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let keywords = arguments.keywords.as_ref();
        let Some(code) = &self.copy else { return receiver.getattr(method)?.call(&arguments.positional, keywords) };
        let given = std::iter::once(receiver.clone()).chain(arguments.positional.iter());
        code.bind(method.py()).call(PyTuple::new(method.py(), given.collect::<Vec<_>>())?, keywords)
    }
}

/// Refuses a call with a result that its kernel leaves out. In eager mode such a result is a tensor without numbers.
fn refuse_missing_results(paddle: &Paddle, result: &Bound<'_, PyAny>) -> PyResult<()> {
    for value in meta::values_in(paddle, result)? {
        if !value.call_method0(intern!(value.py(), "initialized"))?.is_truthy()? {
            return Err(PyNotImplementedError::new_err("one of its results is a tensor that is not initialized"));
        }
    }
    Ok(())
}
