//! Appends statements where sizes are known, left open, or unknown until the program runs. With open sizes a statement
//! is appended to twins, too: programs with other sizes. What is appended must not depend on the sizes.

use std::sync::Arc;

use pyo3::prelude::*;
use sot_core::backend::{CallKind, SizeFormula, SizesMatter};

use crate::backend::numbers::size_probe::{ways, Found, HoldsFrom, SizeProbe, Way};
use crate::backend::numbers::sizes;
use crate::backend::numbers::twin::{hold_unknown_sizes, refusing_endless, Twin, TwinStatement};
use crate::backend::paddle::static_mode::BuildTarget;

use super::call::StatementCall;
use super::PaddleBuilder;

/// What a twin has of a statement.
struct TwinResult<'py> {
    operations: Vec<Bound<'py, PyAny>>,
    result: Bound<'py, PyAny>,
}

impl PaddleBuilder {
    /// Appends a statement, with the numbers of known sizes in the place of values.
    pub(super) fn append_with_known_sizes<'py>(
        &mut self,
        target: &BuildTarget,
        call: &StatementCall<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let replaced = self.known_sizes.arguments(&self.paddle, &call.callee, call.arguments())?;
        let known = replaced.map_or_else(|| call.clone(), |(args, keywords)| call.with(args, keywords));
        let result = match self.twin.take() {
            Some(mut twin) => {
                let result = self.append_for_all_sizes(&mut twin, target, &known);
                self.twin = Some(twin);
                result?
            }
            None => self.append_for_these_sizes(target, &known)?,
        };
        self.known_sizes.note(&self.paddle, call.kind, &call.callee, call.arguments(), &result)?;
        Ok(result)
    }

    /// Appends a statement to a program with open sizes. If values with open sizes are among its arguments, what is
    /// appended must not depend on these sizes.
    fn append_for_all_sizes<'py>(
        &mut self,
        twin: &mut Twin,
        target: &BuildTarget,
        call: &StatementCall<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if twin.concerns(&call.args, call.keywords())? {
            self.append_twice(twin, target, call)
        } else {
            self.append(target, call)
        }
    }

    /// Appends a statement where no size is open. A size may still be unknown because it follows from the elements of a
    /// tensor.
    fn append_for_these_sizes<'py>(
        &mut self,
        target: &BuildTarget,
        call: &StatementCall<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if !hold_unknown_sizes(&self.paddle, &call.args, call.keywords())? {
            return self.append(target, call);
        }
        let mut twin = match self.twin_for_unknown.take() {
            Some(twin) => twin,
            None => Twin::new(call.py(), &self.paddle)?,
        };
        let result = self.append_twice(&mut twin, target, call);
        self.twin_for_unknown = Some(twin);
        result
    }

    fn append_twice<'py>(
        &mut self,
        twin: &mut Twin,
        target: &BuildTarget,
        call: &StatementCall<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, paddle) = (call.py(), Arc::clone(&self.paddle));
        let Some(here) = self.append_to_twin(twin, call)? else {
            return refusing_endless(&paddle, py, || self.append(target, call));
        };
        twin.refuse_dangerous(&here.operations)?;
        let before = Twin::operations(py, target)?.len();
        let matter = |error: PyErr| SizesMatter::new_err(error.to_string());
        let made = refusing_endless(&paddle, py, || self.append(target, call)).map_err(matter);
        let there = Twin::operations(py, target)?.split_off(before);
        let agrees = |result: Bound<'py, PyAny>| {
            twin.compare(&here.operations, &there)?;
            twin.compare_objects(&here.result, &result)?;
            Ok(result)
        };
        let result = made.and_then(agrees)?;
        self.find_shape(twin, call, &result)?;
        self.refuse_other_shape(twin, call, &result)?;
        twin.note(TwinStatement {
            kind: call.kind,
            callee: call.callee.clone().unbind(),
            args: call.args.clone().unbind(),
            kwargs: call.keywords().map(|keywords| keywords.clone().unbind()),
            result: result.clone().unbind(),
            operations: there.into_iter().map(Bound::unbind).collect(),
        });
        Ok(result)
    }

    /// Appends a statement to a twin. Returns what the twin has of it; `None` if the statement has operands with
    /// invented sizes, and cannot be built with them. It may be right for the sizes of a run.
    fn append_to_twin<'py>(&mut self, twin: &mut Twin, call: &StatementCall<'py>) -> PyResult<Option<TwinResult<'py>>> {
        let py = call.py();
        let given = twin.arguments(&call.args, call.keywords())?;
        self.numbers.note_alike(&self.paddle, call.args.as_any(), given.positional.as_any())?;
        if let (Some(original), Some(twin)) = (call.keywords(), &given.keywords) {
            self.numbers.note_alike(&self.paddle, original.as_any(), twin.as_any())?;
        }
        twin.refuse_to_take_apart(&call.callee, &given)?;
        let target = twin.target(py);
        let mut before = Twin::operations(py, &target)?.len();
        // If this fails with open numbers, it may succeed with the numbers themselves.
        let numbers = self.numbers.are_in(&self.paddle, &call.args, call.keywords())?;
        let matter = |error: PyErr| if numbers { SizesMatter::new_err(error.to_string()) } else { error };
        let made = self.append(&target, &call.with(given.positional, given.keywords));
        let result = match made {
            Ok(result) => result,
            Err(error) => {
                let Some(given) = twin.other_arguments(&call.args, call.keywords())? else { return Err(matter(error)) };
                before = Twin::operations(py, &target)?.len();
                match self.append(&target, &call.with(given.positional, given.keywords)) {
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
        let call = StatementCall {
            kind: statement.kind,
            callee: statement.callee.bind(py).clone(),
            args: statement.args.bind(py).clone(),
            keywords: statement.kwargs.as_ref().map(|keywords| keywords.bind(py).clone()),
        };
        let made = self.with_own_code(&call.callee, |builder| builder.append_to_twin(twin, &call))?;
        let Some(here) = made else { return Ok(()) };
        let there: Vec<_> = statement.operations.iter().map(|operation| operation.bind(py).clone()).collect();
        twin.compare(&here.operations, &there)?;
        twin.compare_objects(&here.result, statement.result.bind(py))?;
        self.find_shape(twin, &call, statement.result.bind(py))
    }

    /// Lets the twin know the shape of a statement's result, if the statement is given sizes as values of the graph.
    /// The shape stays unknown where the statement cannot be built with the numbers.
    fn find_shape<'py>(
        &mut self,
        twin: &mut Twin,
        call: &StatementCall<'py>,
        result: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        twin.note_number(call.kind, &call.callee, &call.args, result)?;
        if call.kind == CallKind::InPlace || !self.numbers.are_in(&self.paddle, &call.args, call.keywords())? {
            return Ok(());
        }
        let Some(given) = twin.with_numbers(&call.args, call.keywords(), result)? else { return Ok(()) };
        let target = twin.target(call.py());
        match self.append(&target, &call.with(given.positional, given.keywords)) {
            Ok(known) if self.paddle.is_value(&known) => twin.replace_result(result, &known),
            _ => Ok(()),
        }
    }

    /// Refuses a statement that is given numbers as values of the graph, if static mode infers another shape for its
    /// result than with the numbers themselves.
    fn refuse_other_shape<'py>(
        &mut self,
        twin: &mut Twin,
        call: &StatementCall<'py>,
        result: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        // The result of an operator has the shape of the tensor.
        let has_shape = call.kind == CallKind::InPlace || sizes::is_operator(call.kind, &call.callee)?;
        if has_shape || !self.numbers.are_in(&self.paddle, &call.args, call.keywords())? {
            return Ok(());
        }
        let Some(given) = twin.with_present_numbers(&call.args, call.keywords())? else { return Ok(()) };
        let target = twin.target(call.py());
        match self.append(&target, &call.with(given.positional, given.keywords)) {
            Ok(there) => twin.refuse_other_shape(result, &there),
            Err(_) => Ok(()),
        }
    }
}
