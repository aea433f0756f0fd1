//! `tuple`: an immutable sequence of variables.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};

use sot_core::bytecode::Op;
use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::executor::{object_model, BinaryOp, CompareOp, OpcodeExecutor, Trace};
use sot_core::guard::{Identity, Test};
use sot_core::tracker::TrackerId;
use sot_core::variable::{Argument, Form, Rebuild};
use sot_core::variable::{GraphArgument, VarId, Variable};

use crate::containers::sequence::{self, Selection, Sequence};
use crate::containers::tuple_class::{self, is_like_tuple};
use crate::iterators::library;
use crate::iterators::sequence::SequenceIterator;

sot_core::variable_kind! { "tuple", types: |py| Ok(vec![library(py, "builtins", "tuple")?]), wrap: TupleVariable::wrap }

sot_core::variable_kind! { "named_tuple", rank: 60, when: is_tuple_like, wrap: TupleVariable::wrap }

/// True if the object is of a subclass of `tuple` that does not override iteration, indexing, length, containment or
/// equality.
fn is_tuple_like(object: &Bound<'_, PyAny>) -> bool {
    is_like_tuple(&object.get_type())
}

/// A tuple, or an instance of a subclass such as a named tuple.
pub struct TupleVariable {
    /// The items.
    pub items: Vec<VarId>,
    object: Option<Py<PyAny>>,
    class: Option<Class>,
}

/// The class of an instance of a subclass.
struct Class {
    ty: Py<PyAny>,
    /// The variable of the class, for an instance made in the trace.
    variable: Option<VarId>,
}

impl TupleVariable {
    /// Returns a tuple made in the trace.
    pub fn new(items: Vec<VarId>) -> Self {
        TupleVariable { items, object: None, class: None }
    }

    /// Returns an instance of a subclass, made in the trace.
    pub(crate) fn of_class(class: VarId, ty: Py<PyAny>, items: Vec<VarId>) -> Self {
        TupleVariable { items, object: None, class: Some(Class { ty, variable: Some(class) }) }
    }

    /// True if the type is `tuple` itself.
    pub(crate) fn is_plain(&self) -> bool {
        self.class.is_none()
    }

    /// True if a subclass overrides the special method.
    fn has_own(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &str) -> Flow<bool> {
        if self.is_plain() {
            return Ok(false);
        }
        let inherited = cpython::type_lookup(&cx.py.get_type::<PyTuple>(), &PyString::intern(cx.py, name));
        let Some((found, tracker)) = object_model::lookup(cx, this, &Rc::from(name))? else { return Ok(false) };
        let own = !inherited.is_some_and(|inherited| inherited.is(&found));
        if !own {
            object_model::guard_identity(cx, &found, tracker);
        }
        Ok(own)
    }

    /// True if the hash is the one of a plain tuple of the items.
    pub(crate) fn is_hashed_as_tuple(&self, py: Python<'_>) -> bool {
        let own = |class: &Class| {
            let base = py.get_type::<PyTuple>();
            ["__hash__", "__eq__"].iter().all(|name| {
                let name = PyString::intern(py, name);
                let found = class.ty.bind(py).cast::<PyType>().ok().and_then(|ty| cpython::type_lookup(ty, &name));
                found.is_some_and(|found| cpython::type_lookup(&base, &name).is_some_and(|own| own.is(&found)))
            })
        };
        self.class.as_ref().is_none_or(own)
    }

    fn wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, tracker: TrackerId) -> Flow<Rc<dyn Variable>> {
        let object = object.clone().unbind();
        let tuple = object.bind(cx.py).cast::<PyTuple>().map_err(PyErr::from)?.clone();
        let items = sequence::wrap_items(cx, tuple.iter(), tracker);
        let ty = tuple.get_type();
        let class = (!ty.is(cx.py.get_type::<PyTuple>())).then(|| Class { ty: ty.into_any().unbind(), variable: None });
        Ok(Rc::new(TupleVariable { items, object: Some(object), class }))
    }
}

/// Makes a real object of the tuple's type.
fn real(ty: &Bound<'_, PyAny>, items: Vec<Py<PyAny>>) -> PyResult<Py<PyAny>> {
    let items = PyTuple::new(ty.py(), items)?;
    if ty.is(ty.py().get_type::<PyTuple>()) {
        return Ok(items.into_any().unbind());
    }
    Ok(ty.py().get_type::<PyTuple>().call_method1("__new__", (ty, items))?.unbind())
}

/// True if a known slice has no step, or step 1.
fn steps_by_one(cx: &mut OpcodeExecutor<'_>, slice: VarId) -> Flow<bool> {
    let slice = Sequence::Tuple.key_object(cx, slice)?;
    let step = slice.getattr("step")?;
    Ok(step.is_none() || step.extract::<i64>().is_ok_and(|step| step == 1))
}

impl Variable for TupleVariable {
    fn kind(&self) -> &'static str {
        "tuple"
    }

    fn form(&self) -> Form {
        Form::Tuple
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        match &self.class {
            Some(class) => class.ty.bind(trace.py).clone(),
            None => trace.py.get_type::<PyTuple>().into_any(),
        }
    }

    fn type_tracker(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> TrackerId {
        if let Some(class) = self.class.as_ref().and_then(|class| class.variable) {
            return cx.trace.vars.tracker(class);
        }
        object_model::type_tracker(cx, this, self.python_type(&cx.trace))
    }

    fn text(&self, _: &Trace<'_>) -> String {
        format!("TupleVariable(len: {})", self.items.len())
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        self.object.as_ref()
    }

    /// Special methods of the program are not known to pure calls: the object model calls them.
    fn materialize(&self, trace: &Trace<'_>) -> Option<Py<PyAny>> {
        let ty = self.python_type(trace);
        if self.class.is_some() {
            let ty = ty.cast::<PyType>().ok()?;
            if tuple_class::is_written(trace, ty) || tuple_class::runs_code(ty).unwrap_or(true) {
                return None;
            }
        }
        let items = sequence::materialize(trace, &self.items)?;
        real(&ty, items).ok()
    }

    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        let (ty, tracker) = (self.python_type(&cx.trace), cx.trace.vars.tracker(this));
        cx.trace.guards.add(tracker, Test::TypeIs(Identity::of(&ty)));
        cx.trace.guards.add(tracker, Test::Length(self.items.len()));
        if self.class.is_some() {
            let (of, base) = (self.type_tracker(cx, this), cx.py.get_type::<PyTuple>());
            object_model::inherits(cx, (&ty, of), &base, &tuple_class::LIKE_TUPLE)?;
            tuple_class::assume_runs_no_code(cx, &ty, of)?;
        }
        Ok(())
    }

    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<GraphArgument> {
        let items = sequence::graph_items(cx, &self.items)?;
        let value = real(&self.python_type(&cx.trace), items.values)?;
        let comma = if self.items.len() == 1 { "," } else { "" };
        let text = format!("({}{comma})", items.text);
        Ok(GraphArgument { value, text, holds_tensor: items.holds_tensor })
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        if let Some(class) = self.class.as_ref().and_then(|class| class.variable) {
            let new = cg.py().get_type::<PyTuple>().getattr("__new__")?.unbind();
            return cg.call(|cg| cg.load_const(new), [class.into(), Argument::tuple(&self.items)]);
        }
        for &item in &self.items {
            cg.load(item)?;
        }
        cg.op(Op::BUILD_TUPLE, self.items.len() as u32)
    }

    fn children(&self) -> Vec<VarId> {
        let class = self.class.as_ref().and_then(|class| class.variable);
        class.into_iter().chain(self.items.iter().copied()).collect()
    }

    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<VarId> {
        match Sequence::Tuple.select(cx, key, self.items.len())? {
            Selection::One(index) => Ok(self.items[index]),
            // For a full slice, CPython returns the tuple itself.
            Selection::Many(selected)
                if self.is_plain()
                    && selected.iter().copied().eq(0..self.items.len())
                    && (selected.len() != 1 || steps_by_one(cx, key)?) =>
            {
                Ok(this)
            }
            Selection::Many(selected) => {
                Ok(cx.trace.tuple(selected.into_iter().map(|index| self.items[index]).collect()))
            }
        }
    }

    fn iter(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        Ok(SequenceIterator::over(cx, this))
    }

    fn items(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<Option<Vec<VarId>>> {
        Ok(Some(self.items.clone()))
    }

    fn len(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<VarId> {
        cx.trace.integer(self.items.len() as i64)
    }

    fn truth(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<bool> {
        if self.has_own(cx, this, "__bool__")? {
            return object_model::truth(cx, this);
        }
        Ok(!self.items.is_empty())
    }

    fn contains(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, item: VarId) -> Flow<VarId> {
        object_model::contains_among(cx, &self.items, item)
    }

    fn binary(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        op: BinaryOp,
        this: VarId,
        other: VarId,
        reflected: bool,
    ) -> Flow<Option<VarId>> {
        if self.has_own(cx, this, if reflected { op.reflected() } else { op.method() })? {
            return object_model::binary(cx, op, this, other, reflected);
        }
        match op {
            BinaryOp::Add if !reflected => {
                let Some(right) = cx.see_as::<TupleVariable>(other)? else { return Ok(None) };
                // If one operand is empty, CPython returns the other one.
                if self.items.is_empty() && right.is_plain() {
                    return Ok(Some(other));
                }
                if right.items.is_empty() && self.is_plain() {
                    return Ok(Some(this));
                }
                let items = self.items.iter().chain(&right.items).copied().collect();
                Ok(Some(cx.trace.tuple(items)))
            }
            BinaryOp::Multiply => match sequence::times(cx, other)? {
                Some(1) if self.is_plain() => Ok(Some(this)),
                Some(count) => {
                    let items = sequence::repeat(&self.items, count)?;
                    Ok(Some(cx.trace.tuple(items)))
                }
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    fn inplace(&self, cx: &mut OpcodeExecutor<'_>, op: BinaryOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        if self.is_plain() {
            return Ok(None);
        }
        object_model::inplace(cx, op, this, other)
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        if self.has_own(cx, this, op.method())? {
            return object_model::compare(cx, op, this, other);
        }
        let Some(right) = cx.see_as::<TupleVariable>(other)? else { return Ok(None) };
        sequence::compare(cx, op, &self.items, &right.items).map(Some)
    }
}
