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
pub(super) struct SizeNumbers(HashMap<u64, i64>);

impl Twin {
    /// Notes the number that the result of a statement stands for: the statement reads a size, or computes with sizes.
    pub(crate) fn note_number(
        &mut self,
        kind: CallKind,
        callee: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        result: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let number = match kind {
            CallKind::Api if callee.is(&sizes::function(callee.py(), &self.paddle)?) => {
                self.size(&args.get_item(0)?, args.get_item(1)?.extract()?)?
            }
            CallKind::Method => self.computed(callee, args)?,
            _ => None,
        };
        if let Some(number) = number {
            self.numbers.0.insert(identity(&self.paddle, result)?, number);
        }
        Ok(())
    }

    fn computed(&self, method: &Bound<'_, PyAny>, args: &Bound<'_, PyTuple>) -> PyResult<Option<i64>> {
        let method = method.cast::<PyString>()?;
        if args.len() != 2 || !sizes::OPERATORS.contains(&method.to_str()?) {
            return Ok(None);
        }
        let (Some(receiver), Some(other)) = (self.number(&args.get_item(0)?)?, self.number(&args.get_item(1)?)?) else {
            return Ok(None);
        };
        // No number is computed where this raises, or gives a float.
        let computed = receiver.call_method1(method, (other,));
        Ok(computed.ok().and_then(|number| number.extract().ok()))
    }

    /// Returns the integer that an operand is or stands for.
    fn number<'py>(&self, operand: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if operand.is_exact_instance_of::<PyInt>() {
            return Ok(Some(operand.clone()));
        }
        if !self.paddle.is_value(operand) {
            return Ok(None);
        }
        let known = self.numbers.0.get(&identity(&self.paddle, operand)?);
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
        if self.numbers.0.is_empty() || !self.paddle.is_value(result) {
            return Ok(None);
        }
        let twin = self.values.get(&identity(&self.paddle, result)?);
        if !twin.map_or(Ok(false), |twin| has_unknown_size(twin.bind(result.py())))? {
            return Ok(None);
        }
        let mut are_given = false;
        let mut numbered = |object: &Bound<'py, PyAny>| {
            with_values(&self.paddle, object, &mut |value| match self.number(value)? {
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
}
