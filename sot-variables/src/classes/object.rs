//! Objects without a kind of their own, simulated by CPython's object model alone.

use std::rc::Rc;

use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};
use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::{Flow, Unwind};
use sot_core::executor::{object_model, BinaryOp, CallArgs, ChangingScalar, CompareOp, Name, OpcodeExecutor, Trace};
use sot_core::guard::{Identity, Test};
use sot_core::registered;
use sot_core::tracker::{repr, TrackerId};
use sot_core::variable::{Form, GraphArgument, VarId, Variable};

use crate::builtins::cannot;
use crate::classes::decimal;
use crate::classes::registered_value::{self, EqualValue};
use crate::functions::call_policy::call_known_object;
use crate::iterators::library;
use crate::numpy;
use crate::numpy::array_comparison;
use crate::numpy::small_array;

sot_core::variable_kind! { "object", of any class, rank: 0, when: |_| true, wrap: ObjectVariable::wrap }

/// A real object.
pub struct ObjectVariable {
    object: Py<PyAny>,
    /// True if it is a value, but another one at each call. What it is asked is then asked by CPython.
    differs: bool,
}

impl ObjectVariable {
    /// Returns the variable of `object`.
    pub fn new(object: Py<PyAny>) -> Self {
        ObjectVariable { object, differs: false }
    }

    fn wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, tracker: TrackerId) -> Flow<Rc<dyn Variable>> {
        if numpy::is_value_type(&object.get_type()) {
            if let Some(changing) = ChangingScalar::wrap(&cx.trace, object, tracker) {
                return Ok(changing);
            }
        }
        if decimal::is_decimal(object.get_type().as_any()) {
            decimal::assume_context(cx)?;
        }
        let is_guarded_by_identity = is_c_value(object) && !is_compared_value(object);
        let differs = is_guarded_by_identity && cx.trace.is_short_lived(tracker);
        Ok(Rc::new(ObjectVariable { object: object.clone().unbind(), differs }))
    }
}

/// Immutable types implemented in C.
const VALUES: &[(&str, &str)] = &[
    ("re", "Pattern"),
    ("re", "Match"),
    ("struct", "Struct"),
    ("types", "GenericAlias"),
    ("types", "UnionType"),
    ("datetime", "date"),
    ("datetime", "datetime"),
    ("datetime", "time"),
    ("datetime", "timedelta"),
    ("datetime", "timezone"),
    ("_decimal", "Decimal"),
];

/// True if the object is an immutable value implemented in C, whose methods depend on their arguments alone.
pub fn is_c_value(object: &Bound<'_, PyAny>) -> bool {
    is_value_type(object.get_type().as_any()) && !has_own_time_zone(object)
}

/// True if the object is a time with a `tzinfo` written in Python.
fn has_own_time_zone(object: &Bound<'_, PyAny>) -> bool {
    let zone = object.getattr_opt("tzinfo").ok().flatten();
    zone.is_some_and(|zone| !zone.is_none() && !is_value_type(zone.get_type().as_any()))
}

/// True if the object is a type hint made by `typing`, which is written in Python.
fn is_type_hint(object: &Bound<'_, PyAny>) -> bool {
    let ty = object.get_type();
    cpython::is_heap_type(&ty) && ty.module().is_ok_and(|module| module == "typing")
}

builtin! { CALL_OF_ALIAS = "types:GenericAlias.__call__"? => |cx, args| {
    let Some((&alias, rest)) = args.positional.split_first() else { return Err(cannot("an alias that is not given")) };
    let origin = cx.get_attr(alias, &Rc::from("__origin__"))?;
    let made = cx.call(origin, &CallArgs { positional: rest.to_vec(), keywords: args.keywords.clone() })?;
    match cx.set_attr(made, &Rc::from("__orig_class__"), Some(alias)) {
        Err(Unwind::Raise(exception)) if is_refusal(cx, exception)? => {}
        other => other?,
    }
    Ok(made)
} }

/// True if the exception says that the object cannot have the attribute.
fn is_refusal(cx: &mut OpcodeExecutor<'_>, exception: VarId) -> Flow<bool> {
    let (ty, refusals) =
        (cx.type_of(exception)?, [cx.py.get_type::<PyAttributeError>(), cx.py.get_type::<PyTypeError>()]);
    Ok(ty.cast::<PyType>().is_ok_and(|ty| refusals.iter().any(|refusal| cpython::is_subtype(ty, refusal))))
}

/// The types in `VALUES` whose equal instances are interchangeable.
const COMPARED: &[&str] = &["date", "timedelta"];

/// True if the object is a value that may be replaced by an equal one.
pub fn is_compared_value(object: &Bound<'_, PyAny>) -> bool {
    COMPARED.contains(&&*cpython::type_name(&object.get_type())) && is_c_value(object)
}

/// True if instances of the type are immutable values implemented in C, or numpy scalars.
pub fn is_value_type(ty: &Bound<'_, PyAny>) -> bool {
    static TYPES: PyOnceLock<Vec<Py<PyAny>>> = PyOnceLock::new();
    let own = |py: Python<'_>| VALUES.iter().filter_map(|(module, name)| library(py, module, name).ok()).collect();
    TYPES.get_or_init(ty.py(), || own(ty.py())).iter().any(|own| own.is(ty))
        || ty.cast::<PyType>().is_ok_and(numpy::is_value_type)
}

/// True if the type is a struct sequence: a tuple type in C whose items have names, such as `os.stat_result`.
pub fn is_struct_sequence(ty: &Bound<'_, PyAny>) -> bool {
    let is_tuple = || ty.cast::<PyType>().is_ok_and(|ty| ty.is_subclass_of::<PyTuple>().unwrap_or(false));
    ty.hasattr("n_sequence_fields").unwrap_or(false) && is_tuple()
}

/// True if the object, which a call makes anew each time, may be replaced by the object of the traced call.
pub fn is_kept_value(object: &Bound<'_, PyAny>) -> bool {
    if registered_value::is_one(object) {
        return true;
    }
    if is_struct_sequence(object.get_type().as_any()) {
        return object.cast::<PyTuple>().is_ok_and(|tuple| tuple.iter().all(|item| item.hash().is_ok()));
    }
    is_c_value(object)
}

impl Variable for ObjectVariable {
    fn kind(&self) -> &'static str {
        "object"
    }

    fn form(&self) -> Form {
        Form::Object
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.object.bind(trace.py).get_type().into_any()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("ObjectVariable({})", repr(trace.py, &self.object))
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }

    fn materialize(&self, trace: &Trace<'_>) -> Option<Py<PyAny>> {
        let object = self.object.bind(trace.py);
        let is_value = is_c_value(object) || is_type_hint(object) || registered_value::is_one(object);
        (is_value && !self.differs).then(|| self.object.clone_ref(trace.py))
    }

    /// Guards a value: by `==` for types whose equal instances are interchangeable, by identity for other values,
    /// which are rarely made anew. Of other objects only the type is guarded.
    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        let object = self.object.bind(cx.py).clone();
        let tracker = cx.trace.vars.tracker(this);
        let of_numpy = numpy::is_value_type(&object.get_type());
        if let Some(registration) = registered::value_class(object.get_type().as_any()) {
            cx.note_registered(&registration);
            let value = self.object.clone_ref(cx.py);
            cx.trace.guards.add(tracker, Test::Object(Box::new(EqualValue { value, registration })));
        } else if of_numpy || is_compared_value(&object) {
            cx.trace.guards.add(tracker, Test::Equals(self.object.clone_ref(cx.py)));
        } else if (is_c_value(&object) || is_type_hint(&object)) && !self.differs {
            cx.trace.guards.add(tracker, Test::Is(Identity::of(&object)));
        } else {
            cx.trace.guards.add(tracker, Test::TypeIs(Identity::of(object.get_type().as_any())));
        }
        Ok(())
    }

    fn len(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        small_array::len(cx, this)?.map_or_else(|| object_model::len(cx, this), Ok)
    }

    /// A numpy scalar may be replaced by an equal one, as it is guarded by `==`.
    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<GraphArgument> {
        if let Some(input) = small_array::graph_input(cx, this)? {
            return Ok(input);
        }
        if let Some(array) = small_array::graph_argument(cx, this)? {
            return Ok(GraphArgument { value: array.unbind(), text: repr(cx.py, &self.object), holds_tensor: false });
        }
        let object = self.object.bind(cx.py);
        if !numpy::is_value_type(&object.get_type()) && !registered_value::is_one(object) {
            return object_model::graph_argument(cx, this, Some(&self.object));
        }
        let value = self.object.clone_ref(cx.py);
        Ok(GraphArgument { value, text: repr(cx.py, &self.object), holds_tensor: false })
    }

    fn call(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
        if let Some(result) = call_known_object(cx, this, &self.object, args)? {
            return Ok(result);
        }
        match numpy::call(cx, this, &self.object, args)? {
            Some(result) => Ok(result),
            None => object_model::call(cx, this, args),
        }
    }

    fn binary(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        op: BinaryOp,
        this: VarId,
        other: VarId,
        reflected: bool,
    ) -> Flow<Option<VarId>> {
        if numpy::leaves_operators_to(cx, &self.object, other)? {
            return Ok(None);
        }
        object_model::binary(cx, op, this, other, reflected)
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        if numpy::leaves_operators_to(cx, &self.object, other)? {
            return Ok(None);
        }
        match array_comparison::compare(cx, &self.object, op, this, other)? {
            Some(result) => Ok(Some(result)),
            None => object_model::compare(cx, op, this, other),
        }
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        let object = self.object.bind(cx.py).clone();
        if is_c_value(&object) && !self.differs {
            let value = object.getattr(&**name).ok();
            if let Some(value) = value.filter(|value| value.is_instance_of::<PyType>() || !value.is_callable()) {
                return cx.wrap_fresh(&value).map(Some);
            }
        }
        object_model::get_attr(cx, this, name)
    }
}
