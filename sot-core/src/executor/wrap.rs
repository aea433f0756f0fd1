//! From Python objects to variables. Wrapping is lazy: an object gets its kind, and earns guards, when it is first looked
//! at. One Python object is one variable, whichever way it was reached.

use std::any::TypeId;
use std::collections::HashMap;
use std::rc::Rc;

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyComplex, PyFloat, PyInt, PyIterator, PyList, PyString, PyTuple, PyType};

use super::{BinaryOp, CompareOp, OpcodeExecutor};
use crate::cpython;
use crate::error::{Flow, ReasonId, Unwind};
use crate::guard::{Identity, Test};
use crate::tracker::{self, ById, Computation, Tracker, TrackerId};
use crate::variable::{VarId, Variable};

/// Which variable an object is.
#[derive(Default)]
pub struct IdentityMap {
    variables: HashMap<usize, VarId>,
    // An object wrapped once stays alive while the map knows its address.
    objects: Vec<Py<PyAny>>,
    stand_ins: HashMap<VarId, Py<PyAny>>,
}

impl IdentityMap {
    /// Forgets the variables from an index on.
    pub(super) fn forget_from(&mut self, first: VarId) {
        self.variables.retain(|_, variable| *variable < first);
        self.stand_ins.retain(|variable, _| *variable < first);
    }

    fn insert(&mut self, object: &Bound<'_, PyAny>, variable: VarId) {
        self.variables.insert(object.as_ptr() as usize, variable);
        self.objects.push(object.clone().unbind());
    }
}

/// Real classes that stand for those made in the trace. Their bases forget them when the translation is over.
#[derive(Default)]
pub(super) struct StandInClasses(Vec<Py<PyType>>);

impl Drop for StandInClasses {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            Python::attach(|py| self.0.iter().for_each(|class| cpython::forget_subclass(class.bind(py))));
        }
    }
}

/// An object nobody looked at yet.
struct LazyVariable {
    object: Py<PyAny>,
}

impl Variable for LazyVariable {
    fn kind(&self) -> &'static str {
        "lazy"
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        self.object.bind(cx.py).get_type().into_any()
    }

    fn text(&self, cx: &OpcodeExecutor<'_>) -> String {
        let name = self.object.bind(cx.py).get_type().name().map_or_else(|_| String::new(), |n| n.to_string());
        format!("LazyVariable({name})")
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }
}

/// So many values of one `float` are translated for, and of one `int`, of which programs have few more often. Behind a break
/// a number that differs is one that a loop counts in, as a rule.
const FLOATS: usize = 4;
const VALUES: usize = 3;
const INTEGERS: usize = 8;
const BEHIND_BREAKS: usize = 1;
/// So many texts are translated for behind a break.
const TEXTS: usize = 3;
/// So many ways through the code behind a break are translated as a whole.
const MOST_PATHS: usize = 8;

/// What is computed of more numbers than this is looked at.
const MOST_OPERANDS: usize = 32;

/// A number that differs from call to call, or a number or text computed from such: its value is only assumed if it matters.
/// To compute with it or to print it does not; the new code does it again. To compare it asks for the answer alone.
struct LazyNumber {
    value: Py<PyAny>,
    /// How many translations assumed another value.
    others: usize,
    /// Of how many numbers it is computed.
    operands: usize,
}

impl Variable for LazyNumber {
    fn kind(&self) -> &'static str {
        "lazy number"
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        self.value.bind(cx.py).get_type().into_any()
    }

    fn text(&self, cx: &OpcodeExecutor<'_>) -> String {
        format!("LazyNumber(now {})", tracker::repr(cx.py, &self.value))
    }
}

impl LazyNumber {
    /// Another translation for yet another value would not be the last: what needs the value runs natively.
    fn refuse_if_too_many(&self, cx: &mut OpcodeExecutor<'_>) -> Flow<()> {
        let value = self.value.bind(cx.py);
        let enough = match value.is_exact_instance_of::<PyFloat>() {
            _ if is_text(value) => TEXTS,
            _ if cx.is_resumed => BEHIND_BREAKS,
            true => FLOATS,
            false => INTEGERS,
        };
        let what = if is_text(value) { "text" } else { "number" };
        let text = format!("a {what} that is another one at every call (now {})", tracker::repr(cx.py, &self.value));
        cx.refuse_changing(self.others, enough, text)
    }
}

impl<'py> OpcodeExecutor<'py> {
    /// The variable for a number that was another one in earlier calls, or may be one that a loop counts in, as behind breaks;
    /// `None` for everything else.
    fn wrap_changing(&mut self, object: &Bound<'py, PyAny>, tracker: TrackerId) -> Option<VarId> {
        let may_differ = self.is_resumed || !self.changing.is_empty();
        let is_text = self.is_resumed && is_text(object);
        if !may_differ || !(is_text || is_number(object)) || !self.trackers.is_sourced(tracker) {
            return None;
        }
        let others = self.changing.get(&self.trackers.text(self.py, tracker)).copied();
        let others = others.or((self.is_resumed && !is_text).then_some(0))?;
        let payload = LazyNumber { value: object.clone().unbind(), others, operands: 1 };
        Some(self.vars.add(Rc::new(payload), tracker))
    }

    /// What is in a container that the program has made is about to be assumed: behind a break that may be another thing each
    /// time. Once it was, what asks for it runs natively, and so does all else that asks for the contents of that variable.
    pub fn refuse_changing_contents(&mut self, tracker: TrackerId, what: &str) -> Flow<()> {
        if !self.is_resumed {
            return Ok(());
        }
        let was_another = self.changing.get(&self.trackers.text(self.py, tracker)).is_some_and(|others| *others > 0);
        if !was_another && !self.holds_changing(tracker) {
            return Ok(());
        }
        self.note_changing(tracker);
        self.note_differing();
        let text = format!("{what} that holds something else at every call");
        Err(Unwind::break_graph(ReasonId::ChangingNumber, text))
    }

    /// Whether what a tracker leads to goes on being another value: it should not be assumed once more.
    #[must_use]
    pub fn goes_on_differing(&self, tracker: TrackerId) -> bool {
        let others = self.changing.get(&self.trackers.text(self.py, tracker)).copied().unwrap_or(0);
        others >= if self.is_resumed { BEHIND_BREAKS } else { VALUES }
    }

    /// The answers of many comparisons make a path for each combination of them: where there are many already, the comparison
    /// runs natively, and each answer is gone on with by itself.
    fn refuse_more_paths(&mut self, now: &Bound<'py, PyAny>) -> Flow<()> {
        if !self.is_resumed || self.frames.len() > 1 {
            return Ok(());
        }
        if self.others < MOST_PATHS && !self.branches_much() {
            return Ok(());
        }
        self.note_branching();
        let text = format!("one of many answers that differ (of {})", tracker::repr(self.py, now.as_unbound()));
        Err(Unwind::break_graph(ReasonId::ChangingNumber, text))
    }

    /// Where a value was needed that differs, it is not assumed again in another translation of the loop.
    fn refuse_changing(&mut self, others: usize, enough: usize, text: String) -> Flow<()> {
        if others < enough && !(self.is_resumed && self.differs_here()) {
            return Ok(());
        }
        self.note_differing();
        Err(Unwind::break_graph(ReasonId::ChangingNumber, text))
    }

    /// `lhs op rhs` without assuming the values, where one is a number that differs, or a text of it.
    pub fn lazy_binary(&mut self, op: BinaryOp, lhs: VarId, rhs: VarId) -> Flow<Option<VarId>> {
        if let Some(open) = self.open_binary(op, lhs, rhs)? {
            return Ok(Some(open));
        }
        let Some((left, right)) = self.differing_pair(lhs, rhs) else { return Ok(None) };
        let whole = !left.is_exact_instance_of::<PyFloat>() && !right.is_exact_instance_of::<PyFloat>();
        let endless = match op {
            BinaryOp::LeftShift | BinaryOp::MatrixMultiply => true,
            // Of what size the result is, the next values decide.
            BinaryOp::Power => whole,
            _ => false,
        };
        let texts = op == BinaryOp::Add && is_text(&left) && is_text(&right);
        if endless || !(texts || is_number(&left) && is_number(&right)) {
            return Ok(None);
        }
        let Ok(value) = op.apply(&left, &right) else { return Ok(None) };
        if !(texts || is_number(&value)) {
            return Ok(None);
        }
        let Some(result) = self.compute(Computation::Binary(op), &[lhs, rhs], &value) else { return Ok(None) };
        let tracker = self.vars.tracker(result);
        match op {
            BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply => {}
            // A negative number has a complex root.
            BinaryOp::Power => self.guards.add(tracker, Test::TypeIs(Identity::of(value.get_type().as_any()))),
            // It might divide by zero.
            _ => self.guards.require(tracker),
        }
        Ok(Some(result))
    }

    /// `lhs op rhs` of numbers one of which differs: the answer is assumed, and not the values.
    pub(super) fn lazy_compare(&mut self, op: CompareOp, lhs: VarId, rhs: VarId) -> Flow<Option<VarId>> {
        let Some((left, right)) = self.differing_pair(lhs, rhs) else { return Ok(None) };
        let texts = is_text(&left) && is_text(&right);
        if !(texts || is_number(&left) && is_number(&right)) {
            return Ok(None);
        }
        self.refuse_more_paths(&left)?;
        let value = op.apply(&left, &right)?;
        let Some(result) = self.compute(Computation::Compare(op), &[lhs, rhs], &value) else { return Ok(None) };
        let tracker = self.vars.tracker(result);
        self.guards.add(tracker, Test::Equals(value.clone().unbind()));
        Ok(Some(self.boolean(value.is_truthy()?)))
    }

    /// The truth of a number that differs, which is assumed, and not its value.
    pub(super) fn lazy_truth(&mut self, number: VarId) -> Flow<Option<bool>> {
        if self.vars.as_kind::<LazyNumber>(number).is_none() {
            return Ok(None);
        }
        let zero = self.integer(0)?;
        let Some(answer) = self.lazy_compare(CompareOp::NotEqual, number, zero)? else { return Ok(None) };
        Ok(self.known(answer)?.map(|answer| answer.is_truthy()).transpose()?)
    }

    /// `function(*args)` without assuming the values, where one is a number that differs, or a text of it, and the others are
    /// known. The function must be pure, and whether it fails must depend on the types alone.
    pub fn lazy_call(&mut self, function: &Bound<'py, PyAny>, args: &[VarId]) -> Flow<Option<VarId>> {
        let Some(known) = args.iter().map(|&arg| self.lazily_known(arg)).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        if !known.iter().any(|(_, differs)| *differs) {
            return Ok(None);
        }
        let values = PyTuple::new(self.py, known.iter().map(|(value, _)| value))?;
        let Ok(value) = function.call1(values) else { return Ok(None) };
        Ok(self.compute(Computation::Call(ById(function.clone().unbind())), args, &value))
    }

    /// Two known numbers or texts, if one of them differs.
    fn differing_pair(&self, lhs: VarId, rhs: VarId) -> Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let ((left, a), (right, b)) = (self.lazily_known(lhs)?, self.lazily_known(rhs)?);
        (a || b).then_some((left, right))
    }

    /// The result of a computation whose operands have these types, whatever their values; `None` if it takes too many.
    fn compute(&mut self, how: Computation, of: &[VarId], value: &Bound<'py, PyAny>) -> Option<VarId> {
        let operands = of.iter().map(|id| self.vars.as_kind::<LazyNumber>(*id).map_or(0, |number| number.operands));
        let operands = operands.sum::<usize>() + 1;
        if operands > MOST_OPERANDS {
            return None;
        }
        let mut trackers = Vec::with_capacity(of.len());
        for &id in of {
            let (known, _) = self.lazily_known(id)?;
            let mut tracker = self.vars.tracker(id);
            if self.trackers.is_sourced(tracker) {
                self.guards.add(tracker, Test::TypeIs(Identity::of(known.get_type().as_any())));
            } else {
                tracker = self.constant_tracker(known.unbind());
            }
            trackers.push(tracker);
        }
        let tracker = self.trackers.add(Tracker::Computed { how, of: trackers });
        let others = self.changing.get(&self.trackers.text(self.py, tracker)).copied().unwrap_or(0);
        let payload = LazyNumber { value: value.clone().unbind(), others, operands };
        Some(self.vars.add(Rc::new(payload), tracker))
    }

    /// The variable of an `int` that differs from call to call, or was computed from such, and its value now.
    pub(super) fn lazy_integer(&self, id: VarId) -> Option<i64> {
        let number = self.vars.as_kind::<LazyNumber>(id)?;
        let value = number.value.bind(self.py);
        value.is_exact_instance_of::<PyInt>().then(|| value.extract().ok()).flatten()
    }

    /// In how many translations a number that differs was another one.
    pub(super) fn others_of(&self, id: VarId) -> usize {
        self.vars.as_kind::<LazyNumber>(id).map_or(0, |number| number.others)
    }

    /// Whether the variable is a number that differs from call to call, or a text of one, and nothing has assumed its value.
    /// What replays it assumes its type.
    pub fn is_open_number(&mut self, id: VarId) -> bool {
        let Some(number) = self.vars.as_kind::<LazyNumber>(id) else { return false };
        let tracker = self.vars.tracker(id);
        self.guards.add(tracker, Test::TypeIs(Identity::of(number.value.bind(self.py).get_type().as_any())));
        true
    }

    /// The number or text now in a variable, and whether it may differ.
    fn lazily_known(&self, id: VarId) -> Option<(Bound<'py, PyAny>, bool)> {
        if let Some(number) = self.vars.as_kind::<LazyNumber>(id) {
            return Some((number.value.bind(self.py).clone(), true));
        }
        let payload = self.vars.get(id);
        let value = payload.constant()?.bind(self.py).clone();
        (is_number(&value) || is_text(&value)).then_some((value, false))
    }

    /// The variable for an object reached through `tracker`.
    pub fn wrap(&mut self, object: &Bound<'py, PyAny>, tracker: TrackerId) -> VarId {
        if self.is_constant(object) {
            if let Some(changing) = self.wrap_changing(object, tracker) {
                return changing;
            }
            let payload = (self.runtime.factories.constant)(object.clone().unbind());
            return self.vars.add(payload, tracker);
        }
        if let Some(&known) = self.identities.variables.get(&(object.as_ptr() as usize)) {
            self.assume_same(known, tracker, object);
            return known;
        }
        let lazy = Rc::new(LazyVariable { object: object.clone().unbind() });
        let id = self.vars.add(lazy, tracker);
        self.identities.insert(object, id);
        id
    }

    /// Whether it leads to another object at each call: one that was made for the call, or is part of such.
    pub fn is_passing(&self, tracker: TrackerId) -> bool {
        let mut at = Some(tracker).filter(|_| !self.passing.is_empty());
        while let Some(id) = at {
            if let Tracker::Local { slot, .. } = self.trackers.get(id) {
                return self.passing.contains(&(*slot as usize));
            }
            at = self.trackers.get(id).parent();
        }
        false
    }

    /// The variable of an object, if the trace has reached it.
    pub fn met(&self, object: &Bound<'py, PyAny>) -> Option<VarId> {
        self.identities.variables.get(&(object.as_ptr() as usize)).copied()
    }

    /// From here on the object is the variable.
    pub fn is_reached_as(&mut self, object: &Bound<'py, PyAny>, id: VarId) {
        self.identities.insert(object, id);
    }

    /// From here on the object is the variable, which was made in the trace.
    pub fn stand_for(&mut self, object: &Bound<'py, PyAny>, id: VarId) {
        self.identities.insert(object, id);
        self.identities.stand_ins.insert(id, object.clone().unbind());
    }

    /// The real object that stands for a variable made in the trace.
    pub fn stand_in(&self, id: VarId) -> Option<Bound<'py, PyAny>> {
        self.identities.stand_ins.get(&id).map(|object| object.bind(self.py).clone())
    }

    /// A variable made in the trace for which a real object stands.
    pub fn produce_made(&mut self, payload: Rc<dyn Variable>, object: &Bound<'py, PyAny>) -> VarId {
        if let Ok(class) = object.cast::<PyType>() {
            self.stand_in_classes.0.push(class.clone().unbind());
        }
        let tracker = self.trackers.add(Tracker::Made(self.vars.next_id()));
        let id = self.vars.add(payload, tracker);
        self.stand_for(object, id);
        id
    }

    fn assume_same(&mut self, known: VarId, tracker: TrackerId, object: &Bound<'py, PyAny>) {
        let first = self.vars.tracker(known);
        match (self.trackers.is_sourced(first), self.trackers.is_sourced(tracker)) {
            (true, true) if first != tracker => self.guards.add(tracker, Test::SameAs(first)),
            // What the program made in the trace holds the other object then.
            (true, false) if self.is_passing(first) && self.trackers.is_produced(tracker) => {}
            (true, false) => self.guards.add(first, Test::Is(Identity::of(object))),
            (false, true) => self.guards.add(tracker, Test::Is(Identity::of(object))),
            _ => {}
        }
    }

    /// Where the trace wrote to an object, the others of its type that it looked at are other objects: at the next call they
    /// might be one.
    pub fn assume_distinct(&mut self) {
        let looked_at: Vec<_> = self.identities.variables.values().filter_map(|&id| self.told_apart(id)).collect();
        let mut written: Vec<VarId> = self.effects.written().collect();
        written.sort_unstable();
        written.dedup();
        for id in written {
            let Some((tracker, ty)) = self.told_apart(id) else { continue };
            let mut others: Vec<_> =
                looked_at.iter().filter(|(_, other)| other.is(&ty)).map(|(other, _)| *other).collect();
            others.sort_unstable();
            for other in others.into_iter().filter(|other| *other != tracker) {
                self.guards.add(tracker, Test::DiffersFrom(other));
            }
        }
    }

    /// Where an object of the program comes from, and its type, if nothing but its identity tells it from others.
    fn told_apart(&self, id: VarId) -> Option<(TrackerId, Bound<'py, PyAny>)> {
        let (tracker, payload) = (self.vars.tracker(id), self.vars.get(id));
        let looked_at = !matches!(payload.kind(), "lazy" | "class" | "module");
        (looked_at && self.trackers.is_sourced(tracker)).then(|| (tracker, payload.python_type(self)))
    }

    /// Whether the object is a value: its type and contents are all there is to it.
    pub fn is_constant(&self, object: &Bound<'py, PyAny>) -> bool {
        is_atom(object) || self.runtime.backend.is_constant(object)
    }

    /// What the variable holds; the first look gives it its kind and its guards.
    pub fn see(&mut self, id: VarId) -> Flow<Rc<dyn Variable>> {
        if !self.vars.look(id) {
            self.materialize_lazy(id)?;
            if self.trackers.is_sourced(self.vars.tracker(id)) {
                self.vars.get(id).guard(self, id)?;
            }
        }
        Ok(self.vars.get(id))
    }

    /// What the variable holds, if it is of the kind `T`; a container is looked into.
    pub fn see_as<T: Variable>(&mut self, id: VarId) -> Flow<Option<Rc<T>>> {
        let payload = self.see(id)?;
        if payload.opens_to() == Some(TypeId::of::<T>()) {
            payload.open(self, id)?;
        }
        Ok(self.vars.as_kind::<T>(id))
    }

    fn materialize_lazy(&mut self, id: VarId) -> Flow<()> {
        if self.is_open(id) {
            return Err(self.needs(id));
        }
        if let Some(number) = self.vars.as_kind::<LazyNumber>(id) {
            number.refuse_if_too_many(self)?;
            let value = number.value.clone_ref(self.py);
            self.vars.set(id, (self.runtime.factories.constant)(value));
            return Ok(());
        }
        let Some(lazy) = self.vars.as_kind::<LazyVariable>(id) else { return Ok(()) };
        let object = lazy.object.bind(self.py).clone();
        let Some(kind) = self.runtime.kinds.find(&object) else {
            let name = object.get_type().qualname().map_or_else(|_| "?".to_owned(), |n| n.to_string());
            return Err(Unwind::break_graph(
                ReasonId::UnsupportedOperation,
                format!("no variable kind is registered for objects of type {name}"),
            ));
        };
        let tracker = self.vars.tracker(id);
        let payload = (kind.wrap)(self, &object, tracker)?;
        self.vars.set(id, payload);
        Ok(())
    }

    /// A variable made in the trace.
    pub fn produce(&mut self, payload: Rc<dyn Variable>) -> VarId {
        let tracker = self.trackers.add(Tracker::Produced);
        self.vars.add(payload, tracker)
    }

    /// A constant of the trace.
    pub fn constant(&mut self, value: Py<PyAny>) -> VarId {
        let tracker = self.constant_tracker(value.clone_ref(self.py));
        let payload = (self.runtime.factories.constant)(value);
        self.vars.add(payload, tracker)
    }

    /// The tracker of a constant.
    pub fn constant_tracker(&mut self, value: Py<PyAny>) -> TrackerId {
        self.trackers.add(Tracker::Constant(ById(value)))
    }

    /// A variable for the result of a pure call made while tracing: a value of its own, which the new code must make anew.
    pub fn wrap_fresh(&mut self, object: &Bound<'py, PyAny>) -> Flow<VarId> {
        if self.is_constant(object) {
            return Ok(self.constant(object.clone().unbind()));
        }
        if let Ok(tuple) = object.cast_exact::<PyTuple>() {
            let items = tuple.iter().map(|item| self.wrap_fresh(&item)).collect::<Flow<Vec<_>>>()?;
            return Ok(self.tuple(items));
        }
        if let Ok(list) = object.cast_exact::<PyList>() {
            let items = list.iter().map(|item| self.wrap_fresh(&item)).collect::<Flow<Vec<_>>>()?;
            let payload = (self.runtime.factories.list)(items);
            return Ok(self.produce(payload));
        }
        if object.is_instance_of::<PyBaseException>() {
            return (self.runtime.factories.exception)(self, object);
        }
        if let Ok(items) = object.cast::<PyIterator>() {
            // What it gives is known: nothing but the trace advances it.
            let items = items.clone().collect::<PyResult<Vec<_>>>()?;
            let items = items.iter().map(|item| self.wrap_fresh(item)).collect::<Flow<Vec<_>>>()?;
            let items = self.tuple(items);
            return self.iter(items);
        }
        let is_value = (self.runtime.factories.is_value)(object);
        if is_value || object.is_instance_of::<pyo3::types::PyType>() || object.is_callable() {
            // Types and functions are not made by pure calls, only handed out; of immutable values one is as good as another.
            let tracker = self.constant_tracker(object.clone().unbind());
            return Ok(self.wrap(object, tracker));
        }
        if self.runtime.kinds.find(object).is_some_and(|kind| matches!(kind.name, "object" | "subclass")) {
            let name = object.get_type().qualname().map_or_else(|_| "?".to_owned(), |name| name.to_string());
            let text = format!("a call that makes a {name}");
            return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
        }
        let tracker = self.trackers.add(Tracker::Produced);
        Ok(self.wrap(object, tracker))
    }

    /// A tuple made in the trace.
    pub fn tuple(&mut self, items: Vec<VarId>) -> VarId {
        let payload = (self.runtime.factories.tuple)(items);
        self.produce(payload)
    }

    /// A list made in the trace.
    pub fn list(&mut self, items: Vec<VarId>) -> VarId {
        let payload = (self.runtime.factories.list)(items);
        self.produce(payload)
    }

    /// The `None` constant.
    pub fn none(&mut self) -> VarId {
        let none = self.py.None();
        self.constant(none)
    }

    /// `True` or `False`.
    pub fn boolean(&mut self, value: bool) -> VarId {
        let value = PyBool::new(self.py, value).to_owned().into_any().unbind();
        self.constant(value)
    }

    /// An `int` constant.
    pub fn integer(&mut self, value: i64) -> Flow<VarId> {
        let value = value.into_pyobject(self.py).map_err(PyErr::from)?.into_any().unbind();
        Ok(self.constant(value))
    }

    /// A `str` constant.
    pub fn string(&mut self, value: &str) -> VarId {
        let value = PyString::new(self.py, value).into_any().unbind();
        self.constant(value)
    }
}

/// Whether the object is an `int` or `float`, and of no subclass.
pub(crate) fn is_number(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyInt>() || object.is_exact_instance_of::<PyFloat>()
}

/// Whether the object is of an immutable atomic type whose value is its meaning.
pub(crate) fn is_atom(object: &Bound<'_, PyAny>) -> bool {
    object.is_none()
        || object.is_exact_instance_of::<PyInt>()
        || object.is_exact_instance_of::<PyBool>()
        || object.is_exact_instance_of::<PyString>()
        || object.is_exact_instance_of::<PyFloat>()
        || object.is_exact_instance_of::<PyBytes>()
        || object.is_exact_instance_of::<PyComplex>()
        || object.is(object.py().Ellipsis())
        || object.is(object.py().NotImplemented())
        || object.is_exact_instance_of::<pyo3::types::PyCode>()
}

/// Whether the object is a `str`, and of no subclass.
pub(crate) fn is_text(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyString>()
}
