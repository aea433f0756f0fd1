//! The shape of a tensor: a list, or an object of the framework's own subclass of `list`. If all sizes are known, a
//! shape behaves as the real object. If some sizes are open, only some operations are simulated. A shape that was made
//! in the trace may be written to as a list may.

use std::ops::RangeInclusive;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyList, PySlice, PyType};
use sot_core::bytecode::Op;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, BinaryOp, CallArgs, CompareOp, Name, OpcodeExecutor, Trace};
use sot_core::guard::{Identity, Test};
use sot_core::side_effects::Effect;
use sot_core::tracker::{Key, Tracker, TrackerId};
use sot_core::variable::{Argument, Rebuild};
use sot_core::variable::{GraphArgument, VarId, Variable};

use crate::containers::list::{self, ListVariable};
use crate::containers::sequence;
use crate::functions::method;
use crate::iterators::sequence::SequenceIterator;

sot_core::variable_kind! { "shape" }

/// Methods of lists that only read the list.
const READING: &[&str] = &["index", "count", "copy", "__len__", "__getitem__"];
/// Methods of lists that write to the list, with the numbers of positional arguments that they take.
const WRITING: &[(&str, RangeInclusive<usize>)] = &[
    ("append", 1..=1),
    ("extend", 1..=1),
    ("insert", 2..=2),
    ("pop", 0..=1),
    ("remove", 1..=1),
    ("clear", 0..=0),
    ("reverse", 0..=0),
    ("sort", 0..=0),
];

/// The variable of a shape.
pub struct ShapeVariable {
    ty: Py<PyAny>,
    /// The sizes, in order: known numbers and open sizes.
    pub items: Vec<VarId>,
    /// True if the shape is an object from outside. Writes to such a shape break the graph.
    is_found: bool,
}

impl ShapeVariable {
    /// Makes a shape of type `ty`; a list if `ty` is `list`.
    pub fn make(cx: &mut OpcodeExecutor<'_>, ty: Py<PyAny>, items: Vec<VarId>) -> VarId {
        if ty.bind(cx.py).is(cx.py.get_type::<PyList>()) {
            return cx.trace.list(items);
        }
        cx.trace.produce(Rc::new(ShapeVariable { ty, items, is_found: false }))
    }

    /// Returns the variable of a real object, all of whose sizes are known.
    pub fn of(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, is_found: bool) -> Flow<Rc<dyn Variable>> {
        let numbers = object.cast::<PyList>().map_err(PyErr::from)?.as_sequence().to_list()?;
        let items = numbers.iter().map(|number| cx.trace.constant(number.unbind())).collect();
        Ok(Rc::new(ShapeVariable { ty: object.get_type().into_any().unbind(), items, is_found }))
    }

    /// Returns the variable of an object from outside that was another one in earlier calls: each of its numbers is
    /// guarded, or left open, on its own.
    pub fn of_numbers(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, of: TrackerId) -> Flow<Rc<dyn Variable>> {
        let numbers = object.cast::<PyList>().map_err(PyErr::from)?.as_sequence().to_list()?;
        let mut items = Vec::with_capacity(numbers.len());
        for (at, number) in numbers.iter().enumerate() {
            let tracker = cx.trace.trackers.add(Tracker::Item { of, key: Key::Index(at as i64) });
            let number = number.unbind().into_bound(cx.py);
            let item = cx.trace.wrap(&number, tracker);
            // A number that has not differed is specialised on, as `known` reads it.
            if !cx.trace.guard_type_if_lazy(item) {
                cx.see(item)?;
            }
            items.push(item);
        }
        Ok(Rc::new(ShapeVariable { ty: object.get_type().into_any().unbind(), items, is_found: true }))
    }

    /// Returns an equal shape with all numbers specialised on, for an operation that needs them; `None` if that is not
    /// possible because the sizes are those of a value of the graph.
    fn specialised(&self, cx: &mut OpcodeExecutor<'_>) -> Flow<Option<VarId>> {
        if !self.is_found {
            return Ok(None);
        }
        let mut items = Vec::with_capacity(self.items.len());
        for &item in &self.items {
            let Some(number) = cx.known_int(item)? else { return Ok(None) };
            items.push(cx.trace.integer(number)?);
        }
        let known = ShapeVariable { ty: self.ty.clone_ref(cx.py), items, is_found: true };
        Ok(Some(cx.trace.produce(Rc::new(known))))
    }

    /// Returns a new object that equals the shape; `None` if a size is open.
    fn known<'py>(&self, trace: &Trace<'py>) -> Option<Bound<'py, PyAny>> {
        let numbers: Option<Vec<_>> =
            self.items.iter().map(|item| Some(trace.vars.get(*item).constant()?.bind(trace.py).clone())).collect();
        self.ty.bind(trace.py).call1((numbers?,)).ok()
    }

    /// Makes another attempt with known sizes, for an operation that open sizes do not support; breaks the graph if
    /// no size was left open.
    fn needs_sizes<T>(&self, cx: &mut OpcodeExecutor<'_>, what: &str) -> Flow<T> {
        Err(cx.settle_sizes(Unwind::break_graph(ReasonId::TensorValue, format!("{what} a shape of open sizes"))))
    }

    /// Does `work` with a list of the sizes, and makes the items of the list the sizes of the shape. Breaks the graph
    /// if the shape is from outside, or if an item is no size.
    fn edit<'py, T>(
        cx: &mut OpcodeExecutor<'py>,
        this: VarId,
        work: impl FnOnce(&mut OpcodeExecutor<'py>, VarId) -> Flow<T>,
    ) -> Flow<T> {
        let refuse = |what| Err(Unwind::break_graph(ReasonId::UnsupportedMutation, what));
        let Some(shape) = cx.see_as::<ShapeVariable>(this)?.filter(|shape| !shape.is_found) else {
            return refuse("writing into a shape that was made outside the graph");
        };
        let sizes = cx.trace.list(shape.items.clone());
        let done = work(cx, sizes);
        if !matches!(done, Ok(_) | Err(Unwind::Raise(_))) {
            return done;
        }
        let items = list::expect(cx, sizes)?.items.clone();
        if !items.iter().all(|&item| is_size(cx, item)) {
            return refuse("writing what is no size into a shape");
        }
        if items != shape.items {
            let ty = shape.ty.clone_ref(cx.py);
            cx.trace.vars.set(this, Rc::new(ShapeVariable { ty, items, is_found: false }));
            cx.trace.effects.record(Effect::Contents { container: this });
        }
        done
    }

    /// Returns the result of a binary operator on a shape without open sizes. `None` if the shape has open sizes, or
    /// the other operand is neither known nor a list with items other than sizes.
    fn known_binary(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        op: BinaryOp,
        other: VarId,
        reflected: bool,
    ) -> Flow<Option<VarId>> {
        let Some(value) = self.known(&cx.trace) else { return Ok(None) };
        if let Some(other) = cx.materialize(other)? {
            let result = cx.fold(|_| if reflected { op.apply(&other, &value) } else { op.apply(&value, &other) })?;
            return Ok(Some(result));
        }
        // A list with items that are not sizes: the result is that of the list operator.
        let Some(list) = cx.see_as::<ListVariable>(other)? else { return Ok(None) };
        if list.items.iter().all(|item| cx.is_open_argument(*item) || cx.trace.vars.get(*item).constant().is_some()) {
            return Ok(None);
        }
        let items = cx.trace.list(self.items.clone());
        let result = if reflected { cx.binary(op, other, items) } else { cx.binary(op, items, other) };
        result.map(Some)
    }

    /// Returns the items of the other operand, if it is a list or a shape.
    fn sizes_of(cx: &mut OpcodeExecutor<'_>, other: VarId) -> Flow<Option<Vec<VarId>>> {
        Ok(match (cx.see_as::<ListVariable>(other)?, cx.see_as::<ShapeVariable>(other)?) {
            (Some(list), _) => Some(list.items.clone()),
            (_, Some(shape)) => Some(shape.items.clone()),
            _ => None,
        })
    }
}

/// True if the item is a size: an `int` or an open size.
fn is_size(cx: &OpcodeExecutor<'_>, item: VarId) -> bool {
    let is_number = |value: &Py<PyAny>| value.bind(cx.py).is_exact_instance_of::<PyInt>();
    cx.is_open_argument(item) || cx.trace.vars.get(item).constant().is_some_and(is_number)
}

/// Calls a method of `list` that writes to a shape, or `__reversed__`. `None` for any other method or receiver.
pub(crate) fn call_method<'py>(
    cx: &mut OpcodeExecutor<'py>,
    descriptor: &Bound<'py, PyAny>,
    args: &CallArgs,
) -> Flow<Option<VarId>> {
    let Some((&this, rest)) = args.positional.split_first() else { return Ok(None) };
    let Some(shape) = cx.see_as::<ShapeVariable>(this)? else { return Ok(None) };
    let name: String = descriptor.getattr("__name__")?.extract()?;
    let of_list = cx.py.get_type::<PyList>().getattr_opt(name.as_str())?;
    if !of_list.is_some_and(|of_list| of_list.is(descriptor)) {
        return Ok(None);
    }
    if name == "__reversed__" && rest.is_empty() {
        return Ok(Some(SequenceIterator::reversed(cx, this, shape.items.len())));
    }
    let Some((_, count)) = WRITING.iter().find(|(writing, _)| *writing == name) else { return Ok(None) };
    if !count.contains(&rest.len()) || !args.keywords.is_empty() && name != "sort" {
        // CPython's error message names the class, which the simulated list does not have.
        let text = format!("{name}() of a shape with other arguments than it takes");
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
    }
    let rest = CallArgs { positional: rest.to_vec(), keywords: args.keywords.clone() };
    ShapeVariable::edit(cx, this, |cx, sizes| method::call_descriptor(cx, descriptor, &rest.with_receiver(sizes)))
        .map(Some)
}

impl Variable for ShapeVariable {
    fn kind(&self) -> &'static str {
        "shape"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.ty.bind(trace.py).clone()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        let items: Vec<String> = self.items.iter().map(|&item| trace.text(item)).collect();
        format!("ShapeVariable({})", items.join(", "))
    }

    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        let of = cx.trace.vars.tracker(this);
        if !self.is_found {
            return Ok(());
        }
        if cx.trace.has_differed(of) {
            // The numbers have guards of their own.
            cx.trace.guards.add(of, Test::TypeIs(Identity::of(self.ty.bind(cx.py))));
            cx.trace.guards.add(of, Test::Length(self.items.len()));
        } else if let Some(value) = self.known(&cx.trace) {
            cx.trace.guards.add(of, Test::Equals(value.unbind()));
        }
        Ok(())
    }

    fn materialize(&self, trace: &Trace<'_>) -> Option<Py<PyAny>> {
        self.known(trace).map(Bound::unbind)
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

    fn restore_contents(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let set = cg.py().get_type::<PyList>().getattr("__setitem__")?.unbind();
        let all = Argument::Constant(PySlice::full(cg.py()).into_any().unbind());
        cg.call(|cg| cg.load_const(set), [this.into(), all, Argument::list(&self.items)])?;
        cg.op(Op::POP_TOP, 0)
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        let known = self.known(&cx.trace).is_some();
        match &**name {
            "__class__" => object_model::get_attr(cx, this, name),
            name_of if WRITING.iter().any(|(writing, _)| *writing == name_of) => object_model::get_attr(cx, this, name),
            "numel" if known => object_model::get_attr(cx, this, name),
            reading if known && READING.contains(&reading) => {
                let numbers = cx.trace.list(self.items.clone());
                cx.find_attr(numbers, name)
            }
            _ if known => Err(Unwind::break_graph(ReasonId::UnsupportedCall, format!("'{name}' of a shape"))),
            _ => match self.specialised(cx)? {
                Some(shape) => cx.find_attr(shape, name),
                None => self.needs_sizes(cx, &format!("attribute '{name}' of")),
            },
        }
    }

    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, key: VarId) -> Flow<VarId> {
        let known = self.known(&cx.trace);
        let Some(key) = cx.materialize(key)? else {
            if known.is_none() && !self.is_found {
                return self.needs_sizes(cx, "an unknown index into");
            }
            let text = "a shape index that is not known while tracing";
            return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
        };
        if let Some(value) = known {
            return cx.fold(|_| value.get_item(key));
        }
        let positions = PyList::new(cx.py, 0..self.items.len())?;
        let found = match positions.as_any().get_item(&key) {
            Ok(found) => found,
            Err(error) => return Err(cx.raise(error)),
        };
        if !key.is_instance_of::<PySlice>() {
            return Ok(self.items[found.extract::<usize>()?]);
        }
        let items = found.extract::<Vec<usize>>()?.into_iter().map(|position| self.items[position]).collect();
        // Slicing an empty shape shows the type of slices.
        let slice = self.ty.bind(cx.py).call0()?.get_item(PySlice::full(cx.py))?;
        Ok(ShapeVariable::make(cx, slice.get_type().into_any().unbind(), items))
    }

    fn set_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId, value: VarId) -> Flow<()> {
        Self::edit(cx, this, |cx, sizes| cx.set_item(sizes, key, value))
    }

    fn del_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<()> {
        Self::edit(cx, this, |cx, sizes| cx.del_item(sizes, key))
    }

    fn items(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<Option<Vec<VarId>>> {
        Ok(Some(self.items.clone()))
    }

    fn iter(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        Ok(SequenceIterator::over(cx, this))
    }

    fn len(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<VarId> {
        cx.trace.integer(self.items.len() as i64)
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
        if let Some(result) = self.known_binary(cx, op, other, reflected)? {
            return Ok(Some(result));
        }
        let others = Self::sizes_of(cx, other)?;
        if others.is_none() && self.known(&cx.trace).is_some() {
            return Ok(None);
        }
        let open = |item: &VarId| cx.is_open_argument(*item) || cx.trace.vars.get(*item).constant().is_some();
        let others = others.filter(|others| op == BinaryOp::Add && others.iter().all(open));
        let Some(others) = others else {
            return match self.specialised(cx)? {
                Some(shape) if reflected => cx.binary(op, other, shape).map(Some),
                Some(shape) => cx.binary(op, shape, other).map(Some),
                None => self.needs_sizes(cx, "an operator of"),
            };
        };
        let ty = self.ty.bind(cx.py);
        let (empty, list) = (ty.call0()?, PyList::empty(cx.py));
        let sum = if reflected { list.as_any().add(empty)? } else { empty.add(list)? };
        let ty = sum.get_type().cast_into::<PyType>().map_err(PyErr::from)?.into_any().unbind();
        let (mut items, rest) = if reflected { (others, self.items.clone()) } else { (self.items.clone(), others) };
        items.extend(rest);
        Ok(Some(ShapeVariable::make(cx, ty, items)))
    }

    /// `shape += other` writes to the shape if its class inherits the operator from `list`. Some classes make a new
    /// shape instead.
    fn inplace(&self, cx: &mut OpcodeExecutor<'_>, op: BinaryOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        if makes_another(self.ty.bind(cx.py), op)? {
            return Ok(None);
        }
        Self::edit(cx, this, |cx, sizes| cx.inplace(op, sizes, other)).map(|_| Some(this))
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, _: VarId, other: VarId) -> Flow<Option<VarId>> {
        if let Some(value) = self.known(&cx.trace) {
            if let Some(other) = cx.materialize(other)? {
                let compared = |py| Ok(PyBool::new(py, op.apply(&value, &other)?.is_truthy()?).to_owned().into_any());
                return cx.fold(compared).map(Some);
            }
        }
        let Some(others) = Self::sizes_of(cx, other)? else {
            if self.known(&cx.trace).is_some() {
                return Ok(None);
            }
            return match self.specialised(cx)? {
                Some(shape) => cx.compare(op, shape, other).map(Some),
                None => self.needs_sizes(cx, "comparing"),
            };
        };
        sequence::compare_sized(cx, op, &self.items, &others).map(Some)
    }
}

/// True if an in-place operator of the class returns a new object.
fn makes_another(ty: &Bound<'_, PyAny>, op: BinaryOp) -> PyResult<bool> {
    let shape = ty.call1((PyList::new(ty.py(), [2])?,))?;
    let operator = cpython::import(ty.py(), "operator")?;
    Ok(match op {
        BinaryOp::Add => !operator.call_method1("iadd", (&shape, PyList::new(ty.py(), [3])?))?.is(&shape),
        BinaryOp::Multiply => !operator.call_method1("imul", (&shape, 2))?.is(&shape),
        _ => true,
    })
}
