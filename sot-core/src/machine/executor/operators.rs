//! Operators: unary, binary, in-place, comparison, identity, membership and truth, by the rules of the language
//! reference (reflected operands, `NotImplemented`, subclass priority).

use std::rc::Rc;

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

use super::changing_values::{lazy_number, open_input, open_number};
use super::graph_breaks::claim;
use super::{object_model, warnings, OpcodeExecutor};
use crate::cpython;
use crate::error::{Flow, Reason, ReasonId, Unwind};
use crate::guard::Test;
use crate::machine::variable::{Form, VarId, Variable};
use crate::operators::{BinaryOp, CompareOp, UnaryOp};

impl<'py> OpcodeExecutor<'py> {
    /// `lhs op rhs`
    pub fn binary(&mut self, op: BinaryOp, lhs: VarId, rhs: VarId) -> Flow<VarId> {
        if let Some(result) = self.lazy_binary(op, lhs, rhs)? {
            return Ok(result);
        }
        if let Some(result) = open_input::open_operator(self, op, lhs, rhs)? {
            return Ok(result);
        }
        if let Some(result) = try_binary(self, op, lhs, rhs)? {
            return Ok(result);
        }
        refuse_unusual_count(self, op, lhs, rhs)?;
        Err(self.misfit(op.method(), &[lhs, rhs])?)
    }

    /// `lhs op= rhs`
    pub fn inplace(&mut self, op: BinaryOp, lhs: VarId, rhs: VarId) -> Flow<VarId> {
        if let Some(result) = self.lazy_binary(op, lhs, rhs)? {
            return Ok(result);
        }
        if let (Some(left), Some(right)) = (self.known(lhs)?, self.known(rhs)?) {
            // Not as the plain operator, because an error names the in-place one.
            return self.fold(|py| cpython::import(py, "operator")?.getattr(op.inplace())?.call1((left, right)));
        }
        if concatenates_last(self, op, lhs, rhs)? {
            let text = format!("+= of a {} that may ask the right operand first", self.type_name(lhs)?);
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
        }
        let left = self.see(lhs)?;
        if left.form() == Form::Tensor && self.is_open_operand(rhs) && !self.has_special(lhs, &op.inplace())? {
            return self.binary(op, lhs, rhs);
        }
        if left.constant().is_none() {
            self.see(rhs)?;
            let right_first = right_goes_first(self, lhs, rhs)?;
            claim::claim_left(self, lhs, rhs, right_first)?;
            let claim = self.claims.take();
            self.claims.put_back(claim.clone());
            self.claims.ask_in_place();
            if let Some(result) = left.inplace(self, op, lhs, rhs)? {
                return Ok(result);
            }
            if op.is_final_in_place() && self.has_special(lhs, &op.inplace())? {
                return Err(self.misfit(&op.inplace(), &[lhs, rhs])?);
            }
            self.claims.put_back(claim);
        }
        if op == BinaryOp::Add && matches!(left.form(), Form::List | Form::Deque) && right_goes_first(self, lhs, rhs)? {
            // The reflected method of a subclass is asked first, but then nothing new is made.
            self.claims.take();
            if let Some(result) = self.see(rhs)?.binary(self, op, rhs, lhs, true)? {
                return Ok(result);
            }
        } else if left.form() != Form::Tensor && keeps_right_from_repeating(self, op, lhs, rhs)? {
            if let Some(result) = left.binary(self, op, lhs, rhs, false)? {
                return Ok(result);
            }
        } else if let Some(result) = try_binary(self, op, lhs, rhs)? {
            return Ok(result);
        }
        if op == BinaryOp::Add {
            self.claims.take();
            if let Some(result) = self.see(lhs)?.concat_in_place(self, lhs, rhs)? {
                return Ok(result);
            }
        }
        refuse_unusual_count(self, op, lhs, rhs)?;
        Err(self.misfit(&op.inplace(), &[lhs, rhs])?)
    }

    /// `op operand`
    pub fn unary(&mut self, op: UnaryOp, operand: VarId) -> Flow<VarId> {
        if op == UnaryOp::Positive
            && (self.trace.is_open_number(operand) || lazy_number::is_of_sizes(&self.trace, operand))
        {
            return Ok(operand);
        }
        if op == UnaryOp::Invert && open_input::is_open_integer(self, operand) {
            let minus_one = self.trace.integer(-1)?;
            return self.binary(BinaryOp::Subtract, minus_one, operand);
        }
        if op == UnaryOp::Negative && open_input::is_open_integer(self, operand) {
            let zero = self.trace.integer(0)?;
            return self.binary(BinaryOp::Subtract, zero, operand);
        }
        if op == UnaryOp::Negative && lazy_number::lazy_float(&self.trace, operand).is_some() {
            // No product changes the sign of a NaN.
            let negative = cpython::import(self.py, "operator")?.getattr("neg")?;
            if let Some(result) = self.lazy_call(&negative, &[operand])? {
                return Ok(result);
            }
        }
        if let Some(value) = self.known(operand)? {
            return self.fold(|_| op.apply(&value));
        }
        self.see(operand)?.unary(self, op, operand)
    }

    /// `lhs op rhs`, rich comparison
    pub fn compare(&mut self, op: CompareOp, lhs: VarId, rhs: VarId) -> Flow<VarId> {
        if let Some(result) = lazy_number::lazy_compare(self, op, lhs, rhs)? {
            return Ok(result);
        }
        if let Some(result) = open_number::open_compare(self, op, lhs, rhs)? {
            return Ok(result);
        }
        if let Some(result) = open_input::open_question(self, op, lhs, rhs)? {
            return Ok(result);
        }
        if let (Some(left), Some(right)) = (self.known(lhs)?, self.known(rhs)?) {
            return self.fold(|_| op.apply(&left, &right));
        }
        let (left, right) = (self.see(lhs)?, self.see(rhs)?);
        let right_first = right_goes_first(self, lhs, rhs)?;
        claim::claim_left(self, lhs, rhs, right_first)?;
        if right_first {
            if let Some(result) = right.compare(self, op.mirrored(), rhs, lhs)? {
                return Ok(result);
            }
        }
        if let Some(result) = left.compare(self, op, lhs, rhs)? {
            return Ok(result);
        }
        if !right_first {
            self.claims.ask_right_operand(lhs, rhs);
            if let Some(result) = right.compare(self, op.mirrored(), rhs, lhs)? {
                return Ok(result);
            }
        }
        match op {
            CompareOp::Equal => self.is_op(lhs, rhs, false),
            CompareOp::NotEqual => self.is_op(lhs, rhs, true),
            _ => {
                let (left, right) = (self.type_name(lhs)?, self.type_name(rhs)?);
                Err(self.raise(PyTypeError::new_err(format!(
                    "'{}' not supported between instances of '{left}' and '{right}'",
                    op.symbol()
                ))))
            }
        }
    }

    /// `lhs is rhs`, or `is not` if `invert`.
    pub fn is_op(&mut self, lhs: VarId, rhs: VarId, invert: bool) -> Flow<VarId> {
        let same = self.is_same(lhs, rhs)?;
        Ok(self.trace.boolean(same != invert))
    }

    /// True if two variables are one object.
    pub fn is_same(&mut self, lhs: VarId, rhs: VarId) -> Flow<bool> {
        if lhs == rhs {
            return Ok(true);
        }
        // An open number is never a singleton.
        for (side, other) in [(lhs, rhs), (rhs, lhs)] {
            if (self.trace.is_open_number(side) || self.trace.guard_type_if_lazy(side))
                && self.trace.vars.get(other).constant().is_some_and(|other| is_singleton(other.bind(self.py)))
            {
                return Ok(false);
            }
        }
        if let (Some(left), Some(right)) = (self.known(lhs)?, self.known(rhs)?) {
            return self.is_same_known(&left, &right);
        }
        let mut empty = true;
        for side in [lhs, rhs] {
            let is_tuple = self.type_of(side)?.is(self.py.get_type::<PyTuple>());
            empty = empty && is_tuple && self.see(side)?.items(self, side)?.is_some_and(|items| items.is_empty());
        }
        // CPython has one empty tuple.
        if empty {
            return Ok(true);
        }
        // One object is one variable. Two sourced objects may be one in another call.
        let (left, right) = (self.trace.vars.tracker(lhs), self.trace.vars.tracker(rhs));
        self.see(lhs)?;
        self.see(rhs)?;
        let (one, other) = (self.trace.vars.get(lhs), self.trace.vars.get(rhs));
        if one.form() == Form::InstanceDict && other.form() == Form::InstanceDict {
            return Ok(one.children() == other.children());
        }
        let constants = one.constant().is_some() || other.constant().is_some();
        // A tracker that returns a new object at each read needs no guard.
        if !constants && left != right && self.trace.trackers.is_sourced(left) && self.trace.trackers.is_sourced(right)
        {
            self.trace.guards.add(left, Test::DiffersFrom(right));
        }
        Ok(false)
    }

    /// True if two known values are one object in CPython.
    fn is_same_known(&mut self, left: &Bound<'py, PyAny>, right: &Bound<'py, PyAny>) -> Flow<bool> {
        if is_singleton(left) || is_singleton(right) || !left.get_type().is(right.get_type()) {
            return Ok(left.is(right));
        }
        // The code object of a function is the same, wherever it is read.
        if left.is(right) && left.is_exact_instance_of::<pyo3::types::PyCode>() {
            return Ok(true);
        }
        // CPython keeps one object of each small number. Different values are never one object, except for a NaN,
        // which differs from itself.
        let equal = left.eq(right)?;
        if self.runtime.backend().constants().is_one_object(left) {
            return Ok(equal);
        }
        let is_frameworks = self.runtime.backend().constants().is_constant(left);
        if !equal && left.eq(left)?
            || !is_frameworks && left.extract::<i64>().is_ok_and(|number| SINGLETON_INTEGERS.contains(&number))
        {
            return Ok(equal && left.get_type().is(self.py.get_type::<pyo3::types::PyInt>()));
        }
        // The graph does not break here: both values would become constants of one code object, which may merge
        // them.
        let text = if is_frameworks {
            "`is` between two equal values of the framework depends on how it makes them"
        } else {
            "`is` between two numbers or strings depends on how CPython stores them"
        };
        Err(self.stack.leave_to_cpython(Reason::new(ReasonId::UnsupportedOperation, text)))
    }

    /// `item in container`, or `not in` if `invert`.
    pub fn contains(&mut self, container: VarId, item: VarId, invert: bool) -> Flow<VarId> {
        let found = match self.lazy_text_contains(container, item)? {
            Some(found) => found,
            None => {
                if !self.trace.is_open_number(item) {
                    self.see(item)?;
                }
                self.see(container)?.contains(self, container, item)?
            }
        };
        if !invert {
            return Ok(found);
        }
        self.not(found)
    }

    /// `bool(value)`; of a tensor a graph break.
    pub fn truth(&mut self, value: VarId) -> Flow<bool> {
        if let Some(truth) = lazy_number::lazy_truth(self, value)? {
            return Ok(truth);
        }
        if let Some(truth) = open_number::open_truth(self, value)? {
            return Ok(truth);
        }
        if let Some(known) = self.known(value)? {
            if known.is(self.py.NotImplemented()) {
                // From 3.9 on, CPython warns.
                return Ok(warnings::unless_it_warns(self.py, || known.is_truthy())??);
            }
            return Ok(known.is_truthy()?);
        }
        self.see(value)?.truth(self, value)
    }

    /// `not value`
    pub fn not(&mut self, value: VarId) -> Flow<VarId> {
        let truth = self.truth(value)?;
        Ok(self.trace.boolean(!truth))
    }

    /// The payload of a variable whose type alone is needed. An open number has a known type, so the trace does not
    /// specialise on its value.
    pub fn see_type(&mut self, value: VarId) -> Flow<Rc<dyn Variable>> {
        if self.trace.is_open_number(value) || self.trace.guard_type_if_lazy(value) {
            return Ok(self.trace.vars.get(value));
        }
        self.see(value)
    }

    /// `type(value)`
    pub fn type_of(&mut self, value: VarId) -> Flow<Bound<'py, PyAny>> {
        Ok(self.see_type(value)?.python_type(&self.trace))
    }

    /// True if the value's type is `class`, or a subclass of it. No `__instancecheck__` is called.
    pub fn is_of_class(&mut self, value: VarId, class: &Bound<'py, PyType>) -> Flow<bool> {
        let ty = self.type_of(value)?;
        Ok(ty.cast::<PyType>().is_ok_and(|ty| cpython::is_subtype(ty, class)))
    }

    /// The name of a value's type, as in CPython's error messages.
    pub fn type_name(&mut self, value: VarId) -> Flow<String> {
        let ty = self.type_of(value)?;
        Ok(ty.cast::<pyo3::types::PyType>().map_or_else(|_| "object".to_owned(), cpython::full_type_name))
    }
}

fn try_binary(cx: &mut OpcodeExecutor<'_>, op: BinaryOp, lhs: VarId, rhs: VarId) -> Flow<Option<VarId>> {
    if let (Some(left), Some(right)) = (cx.known(lhs)?, cx.known(rhs)?) {
        return cx.fold(|_| op.apply(&left, &right)).map(Some);
    }
    let (left, right) = (cx.see(lhs)?, cx.see(rhs)?);
    let right_first = right_goes_first(cx, lhs, rhs)? && overloads(cx, op.reflected(), lhs, rhs)?
        || concatenates_last(cx, op, lhs, rhs)?;
    claim::claim_left(cx, lhs, rhs, right_first)?;
    if right_first {
        if let Some(result) = right.binary(cx, op, rhs, lhs, true)? {
            return Ok(Some(result));
        }
    }
    if let Some(result) = left.binary(cx, op, lhs, rhs, false)? {
        return Ok(Some(result));
    }
    // For operands of one type the reflected method is not called.
    if right_first || cx.type_of(lhs)?.is(cx.type_of(rhs)?) {
        return Ok(None);
    }
    cx.claims.ask_right_operand(lhs, rhs);
    right.binary(cx, op, rhs, lhs, true)
}

/// True for `lhs + rhs` if `lhs` inherits the concatenation of a sequence of C, and the class of `rhs` has an
/// `__radd__` in Python. An addition of numbers is tried before the concatenation (`PyNumber_Add`).
fn concatenates_last(cx: &mut OpcodeExecutor<'_>, op: BinaryOp, lhs: VarId, rhs: VarId) -> Flow<bool> {
    if op != BinaryOp::Add {
        return Ok(false);
    }
    let heap_type =
        |ty: Bound<'_, PyAny>| ty.cast_into::<PyType>().ok().filter(cpython::is_heap_type).map(Bound::unbind);
    let (left, right) = (heap_type(cx.type_of(lhs)?), heap_type(cx.type_of(rhs)?));
    let (Some(left), Some(_)) = (left, right) else { return Ok(false) };
    let method = cpython::type_lookup(left.bind(cx.py), intern!(cx.py, "__add__"));
    let Some(method) = method.filter(object_model::is_method_of_sequence) else { return Ok(false) };
    if let Some((_, tracker)) = object_model::lookup(cx, lhs, &op.method().into())? {
        object_model::guard_identity(cx, &method, tracker);
    }
    Ok(!cx.has_special(lhs, op.reflected())? && cx.has_special(rhs, op.reflected())?)
}

/// True for `lhs *= rhs` if `lhs` is of a class written in Python and `rhs` is a sequence of C. Such a sequence repeats
/// itself in `lhs * rhs`, but not in `lhs *= rhs` (`PyNumber_InPlaceMultiply`).
fn keeps_right_from_repeating(cx: &mut OpcodeExecutor<'_>, op: BinaryOp, lhs: VarId, rhs: VarId) -> Flow<bool> {
    if op != BinaryOp::Multiply || !cx.type_of(lhs)?.cast::<PyType>().is_ok_and(cpython::is_heap_type) {
        return Ok(false);
    }
    let name = op.reflected();
    let method = object_model::lookup(cx, rhs, &name.into())?;
    let Some((method, tracker)) = method else { return Ok(false) };
    object_model::guard_identity(cx, &method, tracker);
    Ok(object_model::repeats(&method, name))
}

/// Breaks the graph before an error about `sequence * count` if the count is no number, but has an `__index__`, such as
/// a list of a class that has the method: after both operators have refused, CPython repeats the sequence.
fn refuse_unusual_count(cx: &mut OpcodeExecutor<'_>, op: BinaryOp, lhs: VarId, rhs: VarId) -> Flow<()> {
    if op != BinaryOp::Multiply {
        return Ok(());
    }
    for (sequence, count) in [(lhs, rhs), (rhs, lhs)] {
        if object_model::is_sequence(cx, sequence)? && object_model::has_special(cx, count, "__index__")? {
            let text = format!("a sequence times a {}", cx.type_name(count)?);
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
        }
    }
    Ok(())
}

/// True if the type of the right operand is a proper subclass of the left one's, so that the right operand is asked
/// first.
fn right_goes_first(cx: &mut OpcodeExecutor<'_>, lhs: VarId, rhs: VarId) -> Flow<bool> {
    let (left, right) = (cx.type_of(lhs)?, cx.type_of(rhs)?);
    if left.is(&right) {
        return Ok(false);
    }
    // The metaclass's `__subclasscheck__` is not called.
    Ok(matches!((left.cast(), right.cast()), (Ok(left), Ok(right)) if cpython::is_subtype(right, left)))
}

/// True if the right operand's class defines another method than the left one's.
fn overloads(cx: &mut OpcodeExecutor<'_>, name: &str, lhs: VarId, rhs: VarId) -> Flow<bool> {
    let mut found = Vec::new();
    for operand in [lhs, rhs] {
        let method = object_model::lookup(cx, operand, &name.into())?;
        if let Some((method, tracker)) = &method {
            object_model::guard_identity(cx, method, *tracker);
        }
        found.push(method.map(|(method, _)| method.as_ptr()));
    }
    Ok(found[0] != found[1])
}

/// Numbers of which CPython keeps one object each.
const SINGLETON_INTEGERS: std::ops::RangeInclusive<i64> = -5..=256;

fn is_singleton(object: &Bound<'_, PyAny>) -> bool {
    object.is_none()
        || object.is_instance_of::<pyo3::types::PyBool>()
        || object.is(object.py().Ellipsis())
        || object.is(object.py().NotImplemented())
}
