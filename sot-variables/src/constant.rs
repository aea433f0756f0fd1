//! Known immutable values: numbers, strings, bytes, `None`, `...`, code objects, and objects that the backend
//! declares to be values.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyComplex, PyString, PyTuple};
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, BinaryOp, CompareOp, Name, OpcodeExecutor, Trace};
use sot_core::guard::Test;
use sot_core::tracker::repr;
use sot_core::variable::Rebuild;
use sot_core::variable::{VarId, Variable};

use crate::builtins::format;
use crate::classes::subclass;
use crate::containers::sequence::{self, Sequence};
use crate::containers::tuple::TupleVariable;
use crate::iterators::sequence::SequenceIterator;

sot_core::variable_kind! { "constant" }

/// A known value.
pub struct ConstantVariable {
    value: Py<PyAny>,
}

impl ConstantVariable {
    /// Returns the variable of `value`.
    pub fn new(value: Py<PyAny>) -> Self {
        ConstantVariable { value }
    }
}

impl Variable for ConstantVariable {
    fn kind(&self) -> &'static str {
        "constant"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.value.bind(trace.py).get_type().into_any()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("ConstantVariable({})", repr(trace.py, &self.value))
    }

    fn constant(&self) -> Option<&Py<PyAny>> {
        Some(&self.value)
    }

    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        let value = self.value.clone_ref(cx.py);
        cx.trace.guards.add(cx.trace.vars.tracker(this), Test::Equals(value));
        Ok(())
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        let value = self.value.clone_ref(cg.py());
        cg.load_const(value)
    }

    /// Attributes of a value of the backend are folded if they are constants themselves.
    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        let value = self.value.bind(cx.py).clone();
        if cx.runtime.backend().constants().is_constant(&value) {
            if let Some(found) = value.getattr_opt(&**name)?.filter(|found| cx.runtime.is_constant(found)) {
                return Ok(Some(cx.trace.constant(found.unbind())));
            }
        }
        object_model::get_attr(cx, this, name)
    }

    /// Only called for keys that are not constants.
    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, key: VarId) -> Flow<VarId> {
        let value = self.value.bind(cx.py).clone();
        if !value.is_exact_instance_of::<PyString>() && !value.is_exact_instance_of::<PyBytes>() {
            return cx.fold(|py| value.get_item(py.None()));
        }
        let kind = if value.is_instance_of::<PyBytes>() { Sequence::Bytes } else { Sequence::Text };
        let key = kind.key_object(cx, key)?;
        cx.fold(|_| value.get_item(key))
    }

    fn items(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<Option<Vec<VarId>>> {
        let value = self.value.bind(cx.py).clone();
        if let Ok(count) = value.len() {
            cx.limits.refuse_many(count)?;
        }
        match value.try_iter() {
            Ok(items) => {
                let items = items.collect::<PyResult<Vec<_>>>()?;
                Ok(Some(items.into_iter().map(|item| cx.trace.constant(item.unbind())).collect()))
            }
            Err(error) => Err(cx.raise(error)),
        }
    }

    fn iter(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        let value = self.value.bind(cx.py);
        if value.is_exact_instance_of::<PyString>() || value.is_exact_instance_of::<PyBytes>() {
            return Ok(SequenceIterator::over(cx, this));
        }
        let items = self.items(cx, this)?.unwrap_or_default();
        let items = cx.trace.tuple(items);
        cx.iter(items)
    }

    fn contains(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, item: VarId) -> Flow<VarId> {
        match cx.materialize(item)? {
            Some(item) => {
                let value = self.value.bind(cx.py).clone();
                cx.fold(|py| Ok(pyo3::types::PyBool::new(py, value.contains(item)?).to_owned().into_any()))
            }
            None => Err(Unwind::break_graph(
                ReasonId::UnsupportedOperation,
                "membership of a value that is not known while tracing in a string",
            )),
        }
    }

    /// Only called when the other operand is not a constant. Atoms know no other types, except that `%` formats any
    /// object.
    fn binary(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        op: BinaryOp,
        _: VarId,
        other: VarId,
        reflected: bool,
    ) -> Flow<Option<VarId>> {
        let value = self.value.bind(cx.py);
        let is_format = value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>();
        if op != BinaryOp::Remainder || reflected || !is_format {
            if value.is_instance_of::<PyComplex>() && matches!(op, BinaryOp::FloorDivide | BinaryOp::Remainder) {
                // Before 3.10, complex numbers raise here without asking the other operand.
                let text = format!("{} of a complex number and an object", op.symbol());
                return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
            }
            let method = if reflected { op.reflected() } else { op.method() };
            if let Some(answer) = self.ask(cx, method, other)? {
                return Ok(answer);
            }
            let value = self.value.bind(cx.py);
            if cx.type_of(other)?.is(value.get_type()) {
                let text = format!("{} {} an unknown {}", self.text(&cx.trace), op.symbol(), cx.type_name(other)?);
                return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
            }
            return Ok(None);
        }
        match cx.materialize(other)? {
            Some(other) => {
                let value = self.value.bind(cx.py).clone();
                cx.fold(|_| value.rem(other)).map(Some)
            }
            None => {
                let is_tuple =
                    cx.type_of(other)?.cast().is_ok_and(|ty| cpython::is_subtype(ty, &cx.py.get_type::<PyTuple>()));
                let (values, mapping) = match cx.see_as::<TupleVariable>(other)? {
                    Some(tuple) => (tuple.items.clone(), None),
                    None if is_tuple => {
                        // CPython takes the items of the tuple, whatever its class overrides.
                        let text = "formatting of a tuple whose class overrides what tuples do";
                        return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
                    }
                    None => (vec![other], cx.has_special(other, "__getitem__")?.then_some(other)),
                };
                let template = self.value.bind(cx.py).clone();
                format::percent(cx, &template, &values, mapping).map(Some)
            }
        }
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, _: VarId, other: VarId) -> Flow<Option<VarId>> {
        Ok(self.ask(cx, op.method(), other)?.flatten())
    }
}

impl ConstantVariable {
    /// Folds a special method whose operand is an instance of a subclass of the value's type, such as a member of an
    /// `IntEnum`: C code sees only the underlying value. Returns `None` for other operands, and `Some(None)` if the
    /// method returns `NotImplemented`.
    #[allow(clippy::option_option, reason = "not asked and no answer are two things")]
    fn ask(&self, cx: &mut OpcodeExecutor<'_>, method: &str, other: VarId) -> Flow<Option<Option<VarId>>> {
        let (operand, seen) = (other, subclass::value_of(cx, other)?);
        let value = self.value.bind(cx.py).clone();
        let repeats = matches!(method, "__mul__" | "__rmul__")
            && (value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>());
        // A string is repeated `other.__index__()` times, also where `other` is not an `int`.
        let count = if repeats { sequence::times(cx, other)? } else { None };
        let is_counted = count.is_some();
        let other = match (count, seen) {
            (Some(count), _) => count.into_pyobject(cx.py).map_err(PyErr::from)?.into_any(),
            (None, Some(seen)) => seen,
            (None, None) => return Ok(None),
        };
        // A string is concatenated after the other operand's reflected method was asked.
        let is_string = value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>();
        let is_concatenated = method == "__add__" && is_string && !other.is_instance(&value.get_type())?;
        if is_concatenated && cx.has_special(operand, "__radd__")? {
            return Ok(Some(None));
        }
        // Looked up in the type alone: if the value is a class, it has operators of its own.
        let found = cpython::type_lookup(&value.get_type(), &PyString::intern(cx.py, method));
        let Some(method) = found.filter(|_| !repeats || is_counted) else { return Ok(Some(None)) };
        let answer = cx.fold(|_| method.call1((value, other)))?;
        let refused = cx.known(answer)?.is_some_and(|answer| answer.is(cx.py.NotImplemented()));
        Ok(Some((!refused).then_some(answer)))
    }
}
