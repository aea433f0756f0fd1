//! Sizes that a statement is given as values of the graph, such as those of `x.reshape([n, -1])`. Static mode then
//! does not know the shape of the result. The twin knows the numbers, so it builds the statement once more with them:
//! that result has the shape which the other one will have.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString, PyTuple};
use sot_core::backend::CallKind;

use super::{has_unknown_size, with_values, Arguments, Twin};
use crate::backend::graph::builder::identity;
use crate::backend::numbers::sizes;

/// The numbers of values that stand for integers, by identity of the program's values.
#[derive(Default)]
pub(super) struct SizeNumbers {
    /// Of values computed from sizes alone.
    of_sizes: HashMap<u64, i64>,
    /// Of all values, with the numbers that the program is given in this call.
    present: HashMap<u64, i64>,
}

impl Twin {
    /// Notes the number that the result of a statement stands for: the statement reads a size, or computes with sizes.
    pub(crate) fn note_number(
        &mut self,
        kind: CallKind,
        callee: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        result: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (of_sizes, present) = match kind {
            CallKind::Api if callee.is(&sizes::function(callee.py(), &self.paddle)?) => {
                let size = self.size(&args.get_item(0)?, args.get_item(1)?.extract()?)?;
                (size, size)
            }
            CallKind::Method => {
                let computed = |known| self.computed(known, callee, args);
                (computed(&self.numbers.of_sizes)?, computed(&self.numbers.present)?)
            }
            _ => (None, None),
        };
        if of_sizes.is_some() || present.is_some() {
            let id = identity(&self.paddle, result)?;
            self.numbers.of_sizes.extend(of_sizes.map(|number| (id, number)));
            self.numbers.present.extend(present.map(|number| (id, number)));
        }
        Ok(())
    }

    /// Notes the number that the program is given as an input in this call.
    pub(crate) fn note_given_number(&mut self, value: &Bound<'_, PyAny>, number: i64) -> PyResult<()> {
        self.numbers.present.insert(identity(&self.paddle, value)?, number);
        Ok(())
    }

    fn computed(
        &self,
        known: &HashMap<u64, i64>,
        method: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
    ) -> PyResult<Option<i64>> {
        let method = method.cast::<PyString>()?;
        if args.len() != 2 || !sizes::OPERATORS.contains(&method.to_str()?) {
            return Ok(None);
        }
        let number = |at| self.number(known, &args.get_item(at)?);
        let (Some(receiver), Some(other)) = (number(0)?, number(1)?) else { return Ok(None) };
        // No number is computed where this raises, or gives a float.
        let computed = receiver.call_method1(method, (other,));
        Ok(computed.ok().and_then(|number| number.extract().ok()))
    }

    /// Returns the integer that an operand is or stands for.
    fn number<'py>(
        &self,
        known: &HashMap<u64, i64>,
        operand: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if operand.is_exact_instance_of::<PyInt>() {
            return Ok(Some(operand.clone()));
        }
        if !self.paddle.is_value(operand) {
            return Ok(None);
        }
        let known = known.get(&identity(&self.paddle, operand)?);
        Ok(known.map(|number| PyInt::new(operand.py(), *number).into_any()))
    }

    /// Returns the arguments of a statement with the twin's values, and with numbers for values that stand for some.
    /// `None` if the twin knows the shape of the statement's result without them, or does not know a number.
    pub(crate) fn with_numbers<'py>(
        &mut self,
        args: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
        result: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Arguments<'py>>> {
        if self.numbers.of_sizes.is_empty() || !self.paddle.is_value(result) {
            return Ok(None);
        }
        let twin = self.values.get(&identity(&self.paddle, result)?);
        if !twin.map_or(Ok(false), |twin| has_unknown_size(twin.bind(result.py())))? {
            return Ok(None);
        }
        let known = std::mem::take(&mut self.numbers.of_sizes);
        let given = self.numbered(&known, args, keywords);
        self.numbers.of_sizes = known;
        given
    }

    /// Returns the arguments of a statement with the twin's values, and with this call's numbers for values that stand
    /// for some. `None` if none is known.
    pub(crate) fn with_present_numbers<'py>(
        &mut self,
        args: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Arguments<'py>>> {
        let known = std::mem::take(&mut self.numbers.present);
        let given = self.numbered(&known, args, keywords);
        self.numbers.present = known;
        given
    }

    fn numbered<'py>(
        &mut self,
        known: &HashMap<u64, i64>,
        args: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Option<Arguments<'py>>> {
        let mut are_given = false;
        let mut numbered = |object: &Bound<'py, PyAny>| {
            with_values(&self.paddle, object, &mut |value| match self.number(known, value)? {
                Some(number) => {
                    are_given = true;
                    Ok(number)
                }
                None => Ok(value.clone()),
            })
        };
        let args = numbered(args.as_any())?.cast_into::<PyTuple>()?;
        let keywords = keywords.map(|keywords| numbered(keywords.as_any())).transpose()?;
        let keywords = keywords.map(Bound::cast_into::<PyDict>).transpose()?;
        if are_given {
            self.arguments(&args, keywords.as_ref()).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Replaces the twin's value for the result of a statement by one of the same rank and element type whose shape is
    /// known.
    pub(crate) fn replace_result(&mut self, result: &Bound<'_, PyAny>, known: &Bound<'_, PyAny>) -> PyResult<()> {
        let id = identity(&self.paddle, result)?;
        let Some(twin) = self.values.get(&id) else { return Ok(()) };
        let dtype = "dtype";
        let (shape, open) = (super::sizes_of(known)?, super::sizes_of(twin.bind(result.py()))?);
        let agree = shape.len() == open.len()
            && shape.iter().zip(&open).all(|(size, open)| size == open || *open == super::UNKNOWN)
            && known.getattr(dtype)?.eq(twin.bind(result.py()).getattr(dtype)?)?;
        if agree && !self.uses_invented && !shape.contains(&super::UNKNOWN) {
            self.insert(result, known)?;
        }
        Ok(())
    }

    /// Refuses a statement if the program knows a size of its result, and infers another one for the numbers and sizes
    /// of this call. `there` is the result with them.
    pub(crate) fn refuse_other_shape(&self, result: &Bound<'_, PyAny>, there: &Bound<'_, PyAny>) -> PyResult<()> {
        if self.uses_invented {
            return Ok(());
        }
        if !self.paddle.is_value(result) {
            let both = super::parts(result)?.into_iter().zip(super::parts(there)?);
            return both.into_iter().try_for_each(|(result, there)| self.refuse_other_shape(&result, &there));
        }
        let (sizes, right) = (super::sizes_of(result)?, super::sizes_of(there)?);
        let is_known = |size: &i64| *size != super::UNKNOWN;
        let differs = |(size, right): (&i64, &i64)| is_known(size) && is_known(right) && size != right;
        if sizes.len() != right.len() || sizes.iter().zip(&right).any(differs) {
            return Err(super::refused(&format!("static mode infers the shape {sizes:?} in the place of {right:?}")));
        }
        Ok(())
    }
}
