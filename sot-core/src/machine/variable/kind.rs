//! The registry of variable kinds: which Python objects a kind wraps, and the few kinds that the executor itself
//! makes.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyType;
use rustc_hash::FxHashMap;

use super::{VarId, Variable};
use crate::backend::TensorMeta;
use crate::cpython;
use crate::error::{Flow, RegistrationError};
use crate::fault;
use crate::graph::SymbolId;
use crate::machine::executor::{Frame, OpcodeExecutor, Trace, TracedFrame};
use crate::machine::overriding::{error, sort, Override};
use crate::origin::{self, LinkedRegistration, Registered, RegistrationOrigin};
use crate::tracker::{self, TrackerId};

/// Makes the payload for a Python object reached through a tracker.
pub type Wrap = fn(&mut OpcodeExecutor<'_>, &Bound<'_, PyAny>, TrackerId) -> Flow<Rc<dyn Variable>>;

/// The objects that a kind wraps.
pub enum WrappedObjects {
    /// Objects of exactly these types.
    Types(fn(Python<'_>) -> PyResult<Vec<Py<PyAny>>>),
    /// Objects that a test accepts. Of several kinds whose tests accept an object, the one with the highest rank
    /// wraps it.
    When {
        /// Tests of a higher rank are called first. No two kinds may have the same rank.
        rank: u16,
        /// The test; it must not run Python code.
        test: fn(&Bound<'_, PyAny>) -> bool,
    },
    /// No objects: values of the kind only arise in the trace.
    Nothing,
}

/// The registration of a kind.
pub struct VariableKind {
    /// Unique name.
    pub name: &'static str,
    /// The objects that the kind wraps.
    pub wraps: WrappedObjects,
    /// Makes the payload for an object.
    pub wrap: Wrap,
    /// True for a kind of objects of any class. New code cannot make such an object again from the object alone.
    pub of_any_class: bool,
    /// Where it is registered.
    pub origin: RegistrationOrigin,
}

inventory::collect!(VariableKind);

impl Registered for VariableKind {
    fn linked(&self) -> LinkedRegistration {
        LinkedRegistration { registry: "kind", name: self.name, origin: self.origin }
    }
}

/// Makes the payload in the place of another kind's `wrap`, which it may call by the last argument.
pub type OverridingWrap =
    fn(&mut OpcodeExecutor<'_>, &Bound<'_, PyAny>, TrackerId, &OverriddenKind<'_>) -> Flow<Rc<dyn Variable>>;

/// A registration that is called before the `wrap` of a kind.
pub struct KindOverride {
    /// The name of the kind.
    pub name: &'static str,
    /// Overrides with a higher priority are called first.
    pub priority: i32,
    /// Makes the payload for an object.
    pub wrap: OverridingWrap,
    /// Where it is registered.
    pub origin: RegistrationOrigin,
}

inventory::collect!(KindOverride);

impl Registered for KindOverride {
    fn linked(&self) -> LinkedRegistration {
        LinkedRegistration { registry: "kind override", name: self.name, origin: self.origin }
    }
}

impl Override for KindOverride {
    fn priority(&self) -> i32 {
        self.priority
    }
}

/// The overrides and the kind that come after an override.
pub struct OverriddenKind<'a> {
    kind: &'static VariableKind,
    rest: &'a [&'static KindOverride],
}

impl OverriddenKind<'_> {
    /// Wraps an object as it would be without this override.
    pub fn wrap(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        object: &Bound<'_, PyAny>,
        tracker: TrackerId,
    ) -> Flow<Rc<dyn Variable>> {
        match self.rest.split_first() {
            Some((first, rest)) => {
                let next = OverriddenKind { kind: self.kind, rest };
                cx.run_registered(*first, |cx| (first.wrap)(cx, object, tracker, &next))
            }
            None => cx.run_registered(self.kind, |cx| (self.kind.wrap)(cx, object, tracker)),
        }
    }
}

/// Registers a variable kind.
///
/// ```
/// use sot_core::pyo3::{prelude::*, types::PyByteArray};
/// use sot_core::variable::VariableKind;
/// use sot_core::variable_kind;
///
/// fn has_a_shape(object: &Bound<'_, PyAny>) -> bool {
///     object.getattr("shape").is_ok()
/// }
///
/// // By type, by a question that is asked in the order of ranks, or not at all: such a kind only arises in the trace.
/// variable_kind! { "bytearray", types: |py| Ok(vec![py.get_type::<PyByteArray>().into()]), wrap: VariableKind::never }
/// variable_kind! { "shaped", rank: 200, when: has_a_shape, wrap: VariableKind::never }
/// variable_kind! { "null" }
/// ```
///
/// `of any class` behind the name is for kinds of objects of all classes, as `"object"` is: see
/// [`VariableKind::of_any_class`](crate::variable::VariableKind::of_any_class).
///
/// How a kind wraps its objects is overridden as opcodes are (see [`opcode!`](crate::opcode!)); an override does not
/// change which objects the kind wraps. `next.wrap(cx, object, tracker)` wraps an object as it would be without the
/// override:
///
/// ```
/// use sot_core::variable_kind;
///
/// variable_kind! { override "slice", wrap: |cx, object, tracker, next| next.wrap(cx, object, tracker) }
/// variable_kind! { override "slice" priority 10, wrap: |cx, object, tracker, next| next.wrap(cx, object, tracker) }
/// ```
#[macro_export]
macro_rules! variable_kind {
    (override $name:literal $(priority $priority:literal)?, wrap: $wrap:expr) => {
        $crate::inventory::submit! {
            $crate::variable::KindOverride {
                name: $name,
                priority: 0 $(+ $priority)?,
                wrap: $wrap,
                origin: $crate::origin!(),
            }
        }
    };
    ($name:literal, types: $types:ident, wrap: $wrap:expr) => {
        $crate::variable_kind!(@submit $name, $crate::variable::WrappedObjects::Types($types), $wrap, false);
    };
    ($name:literal, types: |$py:ident| $types:expr, wrap: $wrap:expr) => {
        // No function of its own: that would hide one of the same name.
        $crate::variable_kind!(@submit $name, $crate::variable::WrappedObjects::Types(
            |$py: $crate::pyo3::Python<'_>|
                -> $crate::pyo3::PyResult<Vec<$crate::pyo3::Py<$crate::pyo3::PyAny>>> { $types }
        ), $wrap, false);
    };
    ($name:literal, rank: $rank:literal, when: $test:expr, wrap: $wrap:expr) => {
        $crate::variable_kind!(
            @submit $name, $crate::variable::WrappedObjects::When { rank: $rank, test: $test }, $wrap, false
        );
    };
    ($name:literal, of any class, rank: $rank:literal, when: $test:expr, wrap: $wrap:expr) => {
        $crate::variable_kind!(
            @submit $name, $crate::variable::WrappedObjects::When { rank: $rank, test: $test }, $wrap, true
        );
    };
    ($name:literal) => {
        $crate::variable_kind!(
            @submit $name, $crate::variable::WrappedObjects::Nothing, $crate::variable::VariableKind::never, false
        );
    };
    (@submit $name:literal, $wraps:expr, $wrap:expr, $of_any_class:literal) => {
        $crate::inventory::submit! {
            $crate::variable::VariableKind {
                name: $name,
                wraps: $wraps,
                wrap: $wrap,
                of_any_class: $of_any_class,
                origin: $crate::origin!(),
            }
        }
    };
}

impl VariableKind {
    /// The `wrap` of a kind that wraps nothing.
    pub fn never(_: &mut OpcodeExecutor<'_>, _: &Bound<'_, PyAny>, _: TrackerId) -> Flow<Rc<dyn Variable>> {
        Err(pyo3::exceptions::PyRuntimeError::new_err("this kind of variable only arises in the trace").into())
    }
}

/// The frozen registry of kinds.
pub struct KindTable {
    by_type: FxHashMap<usize, &'static VariableKind>,
    by_rank: Vec<(u16, fn(&Bound<'_, PyAny>) -> bool, &'static VariableKind)>,
    names: FxHashMap<&'static str, &'static VariableKind>,
    /// Overrides by the name of their kind, the first to be called first.
    overrides: FxHashMap<&'static str, Vec<&'static KindOverride>>,
    // Keeps the types alive, so that no other type gets their addresses.
    #[allow(dead_code, reason = "held, not read")]
    kept_types: Vec<Py<PyAny>>,
}

impl KindTable {
    /// Freezes all registrations.
    pub fn freeze(py: Python<'_>) -> Result<KindTable, RegistrationError> {
        let overrides = inventory::iter::<KindOverride>.into_iter();
        Self::from_kinds(py, inventory::iter::<VariableKind>.into_iter(), overrides)
    }

    /// Freezes the given registrations; [`KindTable::freeze`] passes all that are linked.
    pub fn from_kinds(
        py: Python<'_>,
        registered: impl Iterator<Item = &'static VariableKind>,
        overrides: impl Iterator<Item = &'static KindOverride>,
    ) -> Result<KindTable, RegistrationError> {
        let mut table = KindTable {
            by_type: FxHashMap::default(),
            by_rank: Vec::new(),
            names: FxHashMap::default(),
            overrides: FxHashMap::default(),
            kept_types: Vec::new(),
        };
        let mut kinds: Vec<_> = registered.collect();
        kinds.sort_by_key(|kind| kind.linked());
        for kind in kinds {
            table.add(py, kind)?;
        }
        table.by_rank.sort_by_key(|(rank, ..)| std::cmp::Reverse(*rank));
        for one in overrides {
            table.add_override(one)?;
        }
        table.overrides.values_mut().for_each(|of_kind| sort(of_kind));
        Ok(table)
    }

    fn add_override(&mut self, one: &'static KindOverride) -> Result<(), RegistrationError> {
        let refuse = |why: &str| Err(error(one, format!("there is nothing to override: {:?} {why}", one.name)));
        match self.names.get(one.name).map(|kind| &kind.wraps) {
            None => refuse("is no kind of variable"),
            Some(WrappedObjects::Nothing) => refuse("only arises in the trace and wraps nothing"),
            Some(_) => {
                self.overrides.entry(one.name).or_default().push(one);
                Ok(())
            }
        }
    }

    fn add(&mut self, py: Python<'_>, kind: &'static VariableKind) -> Result<(), RegistrationError> {
        if let Some(first) = self.names.insert(kind.name, kind) {
            let text = format!("a variable kind named {:?} is already registered at {}", kind.name, first.origin);
            return Err(error(kind, text));
        }
        match &kind.wraps {
            WrappedObjects::Types(types) => {
                let types = types(py).map_err(|why| error(kind, format!("its types cannot be found: {why}")))?;
                for ty in types {
                    if let Some(first) = self.by_type.insert(ty.as_ptr() as usize, kind) {
                        let (ty, name, origin) = (ty.bind(py), first.name, first.origin);
                        let text = format!("{ty} is already wrapped by kind {name:?}, {origin}");
                        return Err(error(kind, text));
                    }
                    self.kept_types.push(ty);
                }
            }
            WrappedObjects::When { rank, test } => {
                if let Some((.., first)) = self.by_rank.iter().find(|(other, ..)| other == rank) {
                    let text = format!("rank {rank} is already taken by kind {:?}, {}", first.name, first.origin);
                    return Err(error(kind, text));
                }
                self.by_rank.push((*rank, *test, kind));
            }
            WrappedObjects::Nothing => {}
        }
        Ok(())
    }

    /// Returns the kind that wraps objects of exactly this type.
    pub fn of_type(&self, ty: &Bound<'_, PyAny>) -> Option<&'static VariableKind> {
        self.by_type.get(&(ty.as_ptr() as usize)).copied()
    }

    /// Returns the kind that wraps `object`.
    pub fn find(&self, object: &Bound<'_, PyAny>) -> Option<&'static VariableKind> {
        if let Some(kind) = self.by_type.get(&(object.get_type().as_ptr() as usize)) {
            return Some(kind);
        }
        self.by_rank.iter().find(|(_, test, _)| test(object)).map(|(.., kind)| *kind)
    }

    /// Wraps an object by the overrides of a kind and the kind itself.
    pub fn wrap(
        &self,
        kind: &'static VariableKind,
        cx: &mut OpcodeExecutor<'_>,
        object: &Bound<'_, PyAny>,
        tracker: TrackerId,
    ) -> Flow<Rc<dyn Variable>> {
        let rest = self.overrides.get(kind.name).map(Vec::as_slice).unwrap_or_default();
        let payload = OverriddenKind { kind, rest }.wrap(cx, object, tracker)?;
        let asked = rest.first().map_or_else(|| kind.linked(), |first| first.linked());
        if !origin::is_of_the_tracer(asked.origin.krate) {
            fault::running(&asked, || refuse_other(&cx.trace, object, &*payload))?;
        }
        Ok(payload)
    }

    /// Returns the kind with this name.
    pub fn named(&self, name: &str) -> Option<&'static VariableKind> {
        self.names.get(name).copied()
    }

    /// True if some kind is registered neither by the tracer nor by its own backend.
    pub(crate) fn has_plugins(&self) -> bool {
        self.names.values().any(|kind| !origin::is_of_the_tracer(kind.linked().origin.krate))
    }

    /// Returns the names of all kinds, sorted.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.names.keys().copied().collect();
        names.sort_unstable();
        names
    }
}

/// Refuses a plug-in's payload that represents another object, or whose type is not a base of the object's type. A
/// base is allowed because an object of a derived class may be wrapped as an object of the base.
fn refuse_other(trace: &Trace<'_>, object: &Bound<'_, PyAny>, payload: &dyn Variable) -> Flow<()> {
    let (own, said) = (object.get_type(), payload.python_type(trace));
    let is_other = payload.object().is_some_and(|said| !said.is(object));
    let is_its = said.cast::<PyType>().is_ok_and(|said| cpython::is_subtype(&own, said));
    if is_its && !is_other {
        return Ok(());
    }
    let [own, said] = [own.as_any(), &said].map(tracker::name);
    let text = if is_other {
        format!("a {own} is wrapped as if it were another object")
    } else {
        format!("a {own} is wrapped as a {said}")
    };
    Err(pyo3::exceptions::PyTypeError::new_err(text).into())
}

/// Makers of the kinds that the executor itself needs. Registered once, by the crate that has the kinds.
pub struct Factories {
    /// A known immutable value.
    pub constant: fn(Py<PyAny>) -> Rc<dyn Variable>,
    /// True if an object is an immutable value, so that one object may stand for those made anew at each call.
    pub is_value: fn(&Bound<'_, PyAny>) -> bool,
    /// A real object without a kind of its own, handled by CPython's general rules only.
    pub object: fn(Py<PyAny>) -> Rc<dyn Variable>,
    /// An exception that C code has raised while tracing.
    pub exception: for<'py> fn(&mut OpcodeExecutor<'py>, &Bound<'py, PyAny>) -> Flow<VarId>,
    /// Sets attributes that the interpreter fills in on an exception (`name`, `obj`), if all of them are unset.
    pub tell: fn(&mut OpcodeExecutor<'_>, VarId, &[(&str, VarId)]) -> Flow<()>,
    /// An iterator over `x[0]`, `x[1]` and so on, for an object without `__iter__`.
    pub item_iterator: fn(&mut OpcodeExecutor<'_>, VarId) -> Flow<VarId>,
    /// `x.__dict__`
    pub instance_dict: fn(&mut OpcodeExecutor<'_>, VarId) -> Flow<VarId>,
    /// The frame object of a simulated frame.
    pub frame: fn(&mut OpcodeExecutor<'_>, &Rc<TracedFrame>) -> VarId,
    /// The NULL that calls have on the stack.
    pub null: fn() -> Rc<dyn Variable>,
    /// A tuple of variables.
    pub tuple: fn(Vec<VarId>) -> Rc<dyn Variable>,
    /// A list of variables, for results of the framework and unpacking.
    pub list: fn(Vec<VarId>) -> Rc<dyn Variable>,
    /// A dict with string keys, for `**kwargs`.
    pub keyword_dict: fn(&mut OpcodeExecutor<'_>, Vec<(Rc<str>, VarId)>) -> Flow<Rc<dyn Variable>>,
    /// A cell, with contents or empty.
    pub cell: fn(Option<VarId>) -> Rc<dyn Variable>,
    /// A bound method: function and receiver.
    pub method: fn(VarId, VarId) -> Rc<dyn Variable>,
    /// A C method, which is the descriptor in the type, bound to a receiver.
    pub builtin_method: fn(Py<PyAny>, VarId) -> Rc<dyn Variable>,
    /// A tensor that is a result of the graph.
    pub tensor: fn(SymbolId, TensorMeta) -> Rc<dyn Variable>,
    /// A tensor from outside whose value is now a result of the graph; the last argument is its former payload.
    pub written: fn(Python<'_>, SymbolId, TensorMeta, Rc<dyn Variable>) -> Rc<dyn Variable>,
    /// A generator over a frame that has not run yet.
    pub generator: fn(Frame) -> Rc<dyn Variable>,
}

inventory::collect!(Factories);
