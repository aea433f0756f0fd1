//! `paddle.Size`: the list that newer releases return as a tensor's shape. It is treated as a value; writes to it are
//! not simulated.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList};
use sot_core::bytecode::Op;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, BinaryOp, CompareOp, Name, OpcodeExecutor};
use sot_core::guard::Test;
use sot_core::tracker::{repr, TrackerId};
use sot_core::variable::Rebuild;
use sot_core::variable::{GraphArgument, VarId, Variable};
use sot_variables::containers::list::ListVariable;

sot_core::variable_kind! { "size", types: size_types, wrap: SizeVariable::wrap }

/// Returns the type, if this Paddle has it.
fn size_types(py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
    let shape = cpython::import(py, "paddle")?.call_method1("empty", ((1,),))?.getattr("shape")?;
    let ty = shape.get_type();
    Ok(if ty.is(py.get_type::<PyList>()) { Vec::new() } else { vec![ty.into_any().unbind()] })
}

/// The variable of a shape.
struct SizeVariable {
    value: Py<PyAny>,
}

impl SizeVariable {
    fn wrap(_: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, _: TrackerId) -> Flow<Rc<dyn Variable>> {
        Ok(Rc::new(SizeVariable { value: copy(object)? }))
    }

    fn list<'py>(&self, cx: &OpcodeExecutor<'py>) -> Flow<Bound<'py, PyList>> {
        Ok(self.value.bind(cx.py).cast::<PyList>().map_err(PyErr::from)?.clone())
    }

    /// Returns the other operand as a real object, if it is a list or shape of known numbers.
    fn operand<'py>(cx: &mut OpcodeExecutor<'py>, other: VarId) -> Flow<Option<Bound<'py, PyAny>>> {
        cx.materialize(other)
    }
}

fn copy(object: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let items = object.cast::<PyList>()?.as_sequence().to_list()?;
    Ok(object.get_type().call1((items,))?.unbind())
}

impl Variable for SizeVariable {
    fn kind(&self) -> &'static str {
        "size"
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        self.value.bind(cx.py).get_type().into_any()
    }

    fn text(&self, cx: &OpcodeExecutor<'_>) -> String {
        format!("SizeVariable({})", repr(cx.py, &self.value))
    }

    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        let value = self.value.clone_ref(cx.py);
        cx.guards.add(cx.vars.tracker(this), Test::Equals(value));
        Ok(())
    }

    fn materialize(&self, cx: &OpcodeExecutor<'_>) -> Option<Py<PyAny>> {
        copy(self.value.bind(cx.py)).ok()
    }

    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<GraphArgument> {
        let items = self.list(cx)?.as_sequence().to_list()?;
        let text = items.repr()?.to_string();
        Ok(GraphArgument { value: items.into_any().unbind(), text, holds_tensor: false })
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        let ty = self.python_type(cg.cx()).unbind();
        let numbers = self.list(cg.cx())?;
        cg.begin_call(|cg| cg.load_const(ty))?;
        for number in numbers.iter() {
            cg.load_const(number.unbind())?;
        }
        cg.op(Op::BUILD_LIST, numbers.len() as u32)?;
        cg.end_call(1)
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        match &**name {
            "__class__" | "numel" => object_model::get_attr(cx, this, name),
            "index" | "count" | "copy" | "__len__" | "__getitem__" => {
                let numbers = self.list(cx)?.as_sequence().to_list()?;
                let numbers = cx.wrap_fresh(numbers.as_any())?;
                cx.find_attr(numbers, name)
            }
            _ => Err(Unwind::break_graph(ReasonId::UnsupportedMutation, format!("method '{name}' of a shape"))),
        }
    }

    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, key: VarId) -> Flow<VarId> {
        let Some(key) = cx.materialize(key)? else {
            return Err(Unwind::break_graph(
                ReasonId::UnsupportedOperation,
                "a shape index that is not known while tracing",
            ));
        };
        let value = self.value.bind(cx.py).clone();
        cx.fold(|_| value.get_item(key))
    }

    fn set_item(&self, _: &mut OpcodeExecutor<'_>, _: VarId, _: VarId, _: VarId) -> Flow<()> {
        Err(Unwind::break_graph(ReasonId::UnsupportedMutation, "writing into a shape"))
    }

    fn items(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<Option<Vec<VarId>>> {
        let numbers = self.list(cx)?;
        Ok(Some(numbers.iter().map(|number| cx.constant(number.unbind())).collect()))
    }

    fn iter(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        let items = self.items(cx, this)?.unwrap_or_default();
        let items = cx.tuple(items);
        cx.iter(items)
    }

    fn len(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<VarId> {
        let len = self.list(cx)?.len();
        cx.integer(len as i64)
    }

    fn truth(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<bool> {
        Ok(!self.list(cx)?.is_empty())
    }

    fn contains(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, item: VarId) -> Flow<VarId> {
        let items = self.items(cx, this)?.unwrap_or_default();
        object_model::contains_among(cx, &items, item)
    }

    fn binary(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        op: BinaryOp,
        this: VarId,
        other: VarId,
        reflected: bool,
    ) -> Flow<Option<VarId>> {
        let value = self.value.bind(cx.py).clone();
        if let Some(other) = Self::operand(cx, other)? {
            let result = cx.fold(|_| if reflected { op.apply(&other, &value) } else { op.apply(&value, &other) })?;
            return Ok(Some(result));
        }
        // A list that holds more than numbers.
        if cx.see_as::<ListVariable>(other)?.is_some() {
            let items = self.items(cx, this)?.unwrap_or_default();
            let list = cx.list(items);
            let result = if reflected { cx.binary(op, other, list) } else { cx.binary(op, list, other) };
            return result.map(Some);
        }
        Ok(None)
    }

    fn inplace(&self, _: &mut OpcodeExecutor<'_>, _: BinaryOp, _: VarId, _: VarId) -> Flow<Option<VarId>> {
        Err(Unwind::break_graph(ReasonId::UnsupportedMutation, "changing a shape in place"))
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, _: VarId, other: VarId) -> Flow<Option<VarId>> {
        let value = self.value.bind(cx.py).clone();
        match Self::operand(cx, other)? {
            Some(other) => cx
                .fold(|py| Ok(PyBool::new(py, op.apply(&value, &other)?.is_truthy()?).to_owned().into_any()))
                .map(Some),
            None => Ok(None),
        }
    }
}
