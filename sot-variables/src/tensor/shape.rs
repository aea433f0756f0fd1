//! The shape of a tensor with open sizes: a list, or the framework's own subclass of `list`.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyList, PySlice, PyType};
use sot_core::bytecode::Op;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, BinaryOp, CompareOp, Name, OpcodeExecutor};
use sot_core::variable::Rebuild;
use sot_core::variable::{GraphArgument, VarId, Variable};

use crate::containers::list::ListVariable;
use crate::containers::sequence;

sot_core::variable_kind! { "shape" }

/// The sizes, in order.
pub struct ShapeVariable {
    ty: Py<PyAny>,
    items: Vec<VarId>,
}

impl ShapeVariable {
    /// Makes an object of type `ty`.
    pub fn make(cx: &mut OpcodeExecutor<'_>, ty: Py<PyAny>, items: Vec<VarId>) -> VarId {
        if ty.bind(cx.py).is(cx.py.get_type::<PyList>()) {
            return cx.list(items);
        }
        cx.produce(Rc::new(ShapeVariable { ty, items }))
    }

    /// Makes another attempt with known sizes, for an operation that open sizes do not support; breaks the graph if
    /// no size was left open.
    fn needs_sizes<T>(&self, cx: &mut OpcodeExecutor<'_>, what: &str) -> Flow<T> {
        Err(cx.settle_sizes(Unwind::break_graph(ReasonId::TensorValue, format!("{what} a shape of open sizes"))))
    }
}

impl Variable for ShapeVariable {
    fn kind(&self) -> &'static str {
        "shape"
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        self.ty.bind(cx.py).clone()
    }

    fn text(&self, cx: &OpcodeExecutor<'_>) -> String {
        let items: Vec<String> = self.items.iter().map(|&item| cx.text(item)).collect();
        format!("ShapeVariable({})", items.join(", "))
    }

    fn children(&self) -> Vec<VarId> {
        self.items.clone()
    }

    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<GraphArgument> {
        let items = sequence::graph_items(cx, &self.items)?;
        let value = PyList::new(cx.py, items.values)?.into_any().unbind();
        Ok(GraphArgument { value, text: format!("[{}]", items.text), holds_tensor: items.holds_tensor })
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        let ty = self.ty.clone_ref(cg.py());
        cg.begin_call(|cg| cg.load_const(ty))?;
        for &item in &self.items {
            cg.load(item)?;
        }
        cg.op(Op::BUILD_LIST, self.items.len() as u32)?;
        cg.end_call(1)
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        match &**name {
            "__class__" => object_model::get_attr(cx, this, name),
            _ => self.needs_sizes(cx, &format!("attribute '{name}' of")),
        }
    }

    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, key: VarId) -> Flow<VarId> {
        let Some(key) = cx.materialize(key)? else { return self.needs_sizes(cx, "an unknown index into") };
        let positions = PyList::new(cx.py, 0..self.items.len())?;
        let found = match positions.as_any().get_item(&key) {
            Ok(found) => found,
            Err(error) => return Err(cx.raise(error)),
        };
        if !key.is_instance_of::<PySlice>() {
            return Ok(self.items[found.extract::<usize>()?]);
        }
        let items = found.extract::<Vec<usize>>()?.into_iter().map(|position| self.items[position]).collect();
        // An empty shape shows which type a slice has.
        let slice = self.ty.bind(cx.py).call0()?.get_item(PySlice::full(cx.py))?;
        Ok(ShapeVariable::make(cx, slice.get_type().into_any().unbind(), items))
    }

    fn set_item(&self, _: &mut OpcodeExecutor<'_>, _: VarId, _: VarId, _: VarId) -> Flow<()> {
        Err(Unwind::break_graph(ReasonId::UnsupportedMutation, "writing into a shape"))
    }

    fn items(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<Option<Vec<VarId>>> {
        Ok(Some(self.items.clone()))
    }

    fn iter(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<VarId> {
        let items = cx.tuple(self.items.clone());
        cx.iter(items)
    }

    fn len(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<VarId> {
        cx.integer(self.items.len() as i64)
    }

    fn truth(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<bool> {
        Ok(!self.items.is_empty())
    }

    fn contains(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, item: VarId) -> Flow<VarId> {
        object_model::contains_among(cx, &self.items, item)
    }

    fn binary(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        op: BinaryOp,
        _: VarId,
        other: VarId,
        reflected: bool,
    ) -> Flow<Option<VarId>> {
        let others = match (cx.see_as::<ListVariable>(other)?, cx.see_as::<ShapeVariable>(other)?) {
            (Some(list), _) => list.items.clone(),
            (_, Some(shape)) => shape.items.clone(),
            _ => return self.needs_sizes(cx, "an operator of"),
        };
        let open = |item: &VarId| cx.is_open_argument(*item) || cx.vars.get(*item).constant().is_some();
        if op != BinaryOp::Add || !others.iter().all(open) {
            return self.needs_sizes(cx, "an operator of");
        }
        let ty = self.ty.bind(cx.py);
        let (empty, list) = (ty.call0()?, PyList::empty(cx.py));
        let sum = if reflected { list.as_any().add(empty)? } else { empty.add(list)? };
        let ty = sum.get_type().cast_into::<PyType>().map_err(PyErr::from)?.into_any().unbind();
        let (mut items, rest) = if reflected { (others, self.items.clone()) } else { (self.items.clone(), others) };
        items.extend(rest);
        Ok(Some(ShapeVariable::make(cx, ty, items)))
    }

    fn inplace(&self, _: &mut OpcodeExecutor<'_>, _: BinaryOp, _: VarId, _: VarId) -> Flow<Option<VarId>> {
        Err(Unwind::break_graph(ReasonId::UnsupportedMutation, "changing a shape in place"))
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, _: VarId, other: VarId) -> Flow<Option<VarId>> {
        let others = match (cx.see_as::<ListVariable>(other)?, cx.see_as::<ShapeVariable>(other)?) {
            (Some(list), _) => list.items.clone(),
            (_, Some(shape)) => shape.items.clone(),
            _ => return self.needs_sizes(cx, "comparing"),
        };
        sequence::compare_sized(cx, op, &self.items, &others).map(Some)
    }
}
