//! Appends statements to the program.

use std::sync::Arc;

use pyo3::prelude::*;
use sot_core::backend::CallKind;

use crate::backend::calls::argument_types;
use crate::backend::calls::empty_tensors;
use crate::backend::calls::float_counts;
use crate::backend::calls::given_back;
use crate::backend::calls::ignored_arguments;
use crate::backend::calls::index_masks;
use crate::backend::calls::items;
use crate::backend::graph::copied_row::CopiedRow;
use crate::backend::graph::data;
use crate::backend::graph::other_gradients;
use crate::backend::numbers::rounded::CallNumbers;
use crate::backend::numbers::scalar;
use crate::backend::paddle::static_mode::BuildTarget;

use super::call::StatementCall;
use super::PaddleBuilder;

impl PaddleBuilder {
    /// Appends the statement of a call. Returns its result, whose tensors are values of the graph.
    pub(super) fn append_call<'py>(&mut self, call: &StatementCall<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.refuse_unlike_eager_mode(call)?;
        self.own_gradients.check(&self.paddle, &call.callee, &call.args, call.keywords())?;
        self.note_state(call.py())?;
        let given = CallNumbers::of(&self.paddle, call.what(), &call.args, call.keywords())?;
        let target = self.target.clone_ref(call.py());
        let call = &self.with_operands_of_static_mode(&target, call)?;
        let result = match self.without_operation(&target, call)? {
            Some(result) => result,
            None => self.append_with_known_sizes(&target, call)?,
        };
        self.note_writes(call, &result)?;
        self.checked.check(&self.paddle, &target, &given, &result)?;
        if call.kind == CallKind::Method && items::are_at_positions(&self.paddle, call.what(), &call.args)? {
            self.paddle.static_mode.within(call.py(), &target, || items::append_check(&self.paddle, &result))?;
        }
        self.corrected_flags.correct(&self.paddle, &result)?;
        self.views.note(&self.paddle, call.what(), &call.args, call.keywords(), &result)?;
        self.distributed.note_statement(&self.paddle, &call.args, call.keywords(), &result)?;
        Ok(result)
    }

    /// Refuses a call that static mode does not do as eager mode does, as far as its arguments tell.
    fn refuse_unlike_eager_mode(&self, call: &StatementCall<'_>) -> PyResult<()> {
        let (callee, args, keywords) = (&call.callee, &call.args, call.keywords());
        if !call.is_of_object() {
            ignored_arguments::refuse(&self.paddle, callee, args, keywords)?;
            argument_types::refuse(&self.paddle, callee, args, keywords)?;
        }
        empty_tensors::refuse(&self.paddle, callee, args, keywords)?;
        index_masks::refuse(&self.paddle, callee, args)?;
        items::refuse_unlike(&self.paddle, callee, args)?;
        self.numbers.refuse_in_index(&self.paddle, call.what(), args)?;
        if !call.is_of_object() {
            scalar::refuse_minus_zero(args, keywords)?;
            let by_integer = self.numbers.are_in(&self.paddle, args, keywords)?
                && !self.numbers.floats_are_in(&self.paddle, args, keywords)?;
            if !by_integer {
                scalar::refuse_mixed_floor_division(&self.paddle, callee, args)?;
            }
        }
        given_back::refuse_axes(&self.paddle, callee, args, keywords)?;
        other_gradients::refuse_call(&self.paddle, callee, args, keywords)
    }

    /// Returns the call with arguments that static mode takes in the place of those that only eager mode takes.
    fn with_operands_of_static_mode<'py>(
        &self,
        target: &BuildTarget,
        call: &StatementCall<'py>,
    ) -> PyResult<StatementCall<'py>> {
        let mut call = call.clone();
        if let Some((args, keywords)) = float_counts::replaced(&call.callee, &call.args, call.keywords())? {
            call = call.with(args, keywords);
        }
        if let Some(operands) = data::operands(&self.paddle, target, call.what(), &call.args)? {
            call.args = operands;
        }
        if let Some(filled) = scalar::filled_with_text(call.kind, &call.callee, &call.args, call.keywords())? {
            call.args = filled;
        }
        Ok(call)
    }

    /// Returns the result of a call that is no operation in a program: a constant, or the copy of a row.
    fn without_operation<'py>(
        &mut self,
        target: &BuildTarget,
        call: &StatementCall<'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (paddle, (args, keywords)) = (Arc::clone(&self.paddle), call.arguments());
        if let Some(row) = CopiedRow::of_call(&paddle, &self.numbers, call.what(), args, keywords)? {
            let copy = paddle.static_mode.within(call.py(), target, || row.copy())?;
            self.known_sizes.note(&paddle, call.kind, &call.callee, (args, keywords), &copy)?;
            return Ok(Some(copy));
        }
        if self.arrays.are_in(&paddle, args, keywords)? {
            return Ok(None);
        }
        let Some(data) = data::values(&paddle, &self.numbers, call.what(), args, keywords)? else { return Ok(None) };
        let inner = &mut self.inner_gradients;
        let made = paddle.static_mode.within(call.py(), target, || {
            let made = data::constant(&data.array)?;
            if data.is_leaf {
                inner.switch(&paddle, &made, true)
            } else {
                Ok(made)
            }
        })?;
        if data.is_leaf {
            self.corrected_flags.keep(&paddle, &made)?;
        }
        self.known_sizes.note_data(&paddle, &data.array, &made)?;
        Ok(Some(made))
    }

    /// Notes what a statement writes to its first argument.
    fn note_writes<'py>(&mut self, call: &StatementCall<'py>, result: &Bound<'py, PyAny>) -> PyResult<()> {
        if call.kind != CallKind::InPlace {
            return Ok(());
        }
        self.histories.note(&self.paddle, &call.callee, &call.args, result)?;
        self.own_gradients.note(&self.paddle, &call.callee, &call.args, result)
    }
}
