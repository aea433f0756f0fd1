//! `isinstance`, `issubclass` and `type`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyString, PyType};

use sot_core::backend::ObjectTest;
use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::executor::{object_model, OpcodeExecutor};
use sot_core::guard::{Identity, Test};
use sot_core::tracker::TrackerId;
use sot_core::variable::VarId;

use super::cannot;
use crate::classes::class_statement;
use crate::containers::sequence;
use crate::containers::tuple::TupleVariable;

builtin! { ISINSTANCE = "isinstance" => |cx, args| {
    let [object, classes] = args.exactly("isinstance")?;
    let ty = cx.type_of(object)?;
    let of = cx.see_type(object)?.type_tracker(cx, object);
    let question = TypeCheck { ty, of, object, hook: "__instancecheck__", function: "isinstance" };
    let answer = question.ask(cx, classes)?;
    Ok(cx.trace.boolean(answer))
} }

// A type made by `typing.NewType` returns its argument.
builtin! { SAME = "_typing:_idfunc"? => |cx, args| {
    let [value] = args.exactly("_idfunc")?;
    Ok(value)
} }

builtin! { FSPATH = "os:fspath" => |cx, args| {
    let [path] = args.exactly("fspath")?;
    match cx.known(path)? {
        Some(path) => cx.fold(|py| cpython::import(py, "os")?.getattr("fspath")?.call1((path,))),
        None => Err(cannot("os.fspath() of a path that is not known while tracing")),
    }
} }

builtin! { ISSUBCLASS = "issubclass" => |cx, args| {
    let [class, classes] = args.exactly("issubclass")?;
    let ty = cx.see(class)?.object().map(|object| object.bind(cx.py).clone());
    let Some(ty) = ty.filter(Bound::is_instance_of::<PyType>) else {
        return Err(cx.raise(PyTypeError::new_err("issubclass() arg 1 must be a class")));
    };
    let of = cx.trace.vars.tracker(class);
    let question = TypeCheck { ty, of, object: class, hook: "__subclasscheck__", function: "issubclass" };
    let answer = question.ask(cx, classes)?;
    Ok(cx.trace.boolean(answer))
} }

// Metaclasses that override the hook call this to avoid recursion.
builtin! { INSTANCE_CHECK = "type.__instancecheck__" => |cx, args| {
    let [class, object] = args.exactly("__instancecheck__")?;
    let ty = cx.type_of(object)?;
    let of = cx.see_type(object)?.type_tracker(cx, object);
    TypeCheck { ty, of, object, hook: "__instancecheck__", function: "isinstance" }.answer_of_type(cx, class)
} }

builtin! { SUBCLASS_CHECK = "type.__subclasscheck__" => |cx, args| {
    let [class, object] = args.exactly("__subclasscheck__")?;
    let ty = cx.see(object)?.object().map(|object| object.bind(cx.py).clone());
    let Some(ty) = ty.filter(Bound::is_instance_of::<PyType>) else {
        return Err(cannot("__subclasscheck__() of what is no class"));
    };
    let of = cx.trace.vars.tracker(object);
    TypeCheck { ty, of, object, hook: "__subclasscheck__", function: "issubclass" }.answer_of_type(cx, class)
} }

builtin! { MRO = "type.mro" => |cx, args| {
    let [class] = args.exactly("mro")?;
    let order = cx.get_attr(class, &"__mro__".into())?;
    let order = cx.unpack_all(order)?;
    Ok(cx.trace.list(order))
} }

builtin! { TYPE = "type" => |cx, args| match args.positional[..] {
    [object] if args.keywords.is_empty() => object_model::type_variable(cx, object),
    _ => class_statement::make(cx, args),
} }

/// Guard: no class was registered with any abstract base class since. `ABCMeta` invalidates its caches by the same
/// token.
struct AbstractToken {
    token: u64,
}

impl AbstractToken {
    fn now(py: Python<'_>) -> PyResult<u64> {
        static ASK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let ask =
            ASK.get_or_try_init(py, || PyResult::Ok(cpython::import(py, "abc")?.getattr("get_cache_token")?.unbind()))?;
        ask.bind(py).call0()?.extract()
    }
}

impl ObjectTest for AbstractToken {
    fn check(&self, value: &Bound<'_, PyAny>) -> bool {
        Self::now(value.py()).is_ok_and(|token| token == self.token)
    }

    fn describe(&self, _: &str) -> String {
        format!("abc.get_cache_token() == {}", self.token)
    }
}

/// Guards that no class is registered with an abstract base class. `class` is such a base class.
pub(super) fn assume_registered(cx: &mut OpcodeExecutor<'_>, class: VarId) -> Flow<()> {
    let tracker = cx.trace.vars.tracker(class);
    if cx.trace.trackers.is_loadable(tracker) {
        let token = AbstractToken { token: AbstractToken::now(cx.py)? };
        cx.trace.guards.add(tracker, Test::Object(Box::new(token)));
    }
    Ok(())
}

/// An instance or subclass check.
struct TypeCheck<'py> {
    ty: Bound<'py, PyAny>,
    /// Tracker of the type.
    of: TrackerId,
    object: VarId,
    hook: &'static str,
    function: &'static str,
}

/// Libraries whose hooks always give the same answer.
const LIBRARIES_WITH_HOOKS: &[&str] = &["_collections_abc", "collections.abc", "contextlib", "os", "typing"];

/// True if `issubclass` runs a `__subclasshook__` of the program for the class.
pub(crate) fn has_own_hook(class: &Bound<'_, PyType>) -> bool {
    let hook = cpython::type_lookup(class, &PyString::intern(class.py(), "__subclasshook__"));
    let function = hook.and_then(|hook| hook.getattr("__func__").ok());
    function.is_some_and(|function| {
        let module = function.getattr("__module__").and_then(|module| module.extract::<String>());
        !module.is_ok_and(|module| LIBRARIES_WITH_HOOKS.contains(&&*module))
    })
}

impl<'py> TypeCheck<'py> {
    fn ask(&self, cx: &mut OpcodeExecutor<'py>, classes: VarId) -> Flow<bool> {
        if let Some(tuple) = cx.see_as::<TupleVariable>(classes)? {
            // CPython raises an error of its own for tuples that are nested too deeply.
            return sequence::nested(|| self.ask_each(cx, &tuple.items)).ok_or_else(sequence::endless)?;
        }
        let Some(class) = cx.see(classes)?.object().map(|object| object.bind(cx.py).clone()) else {
            return Err(self.misuse(cx));
        };
        // For instances of exactly this class, CPython skips the hook of the metaclass.
        let has_metaclass = !class.get_type().is(cx.py.get_type::<PyType>());
        if self.ty.is(&class) && !(has_metaclass && self.function == "issubclass") {
            return Ok(true);
        }
        match class.cast::<PyType>() {
            Ok(class) => self.ask_class(cx, class, classes),
            Err(_) => self.ask_other(cx, &class, classes),
        }
    }

    fn ask_each(&self, cx: &mut OpcodeExecutor<'py>, classes: &[VarId]) -> Flow<bool> {
        for &class in classes {
            if self.ask(cx, class)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Checks a class: by CPython if the metaclass is `type` or `ABCMeta`, otherwise by inlining the hook of the
    /// metaclass.
    fn ask_class(&self, cx: &mut OpcodeExecutor<'py>, class: &Bound<'py, PyType>, variable: VarId) -> Flow<bool> {
        let hook = self.hook_of_metaclass(cx, class, variable)?;
        let is_own = |ty: PyResult<Bound<'py, PyAny>>| {
            let own = ty.and_then(|ty| ty.getattr("__dict__")?.get_item(self.hook));
            matches!((&hook, own), (Some(hook), Ok(own)) if hook.is(&own))
        };
        let plain = is_own(Ok(cx.py.get_type::<PyType>().into_any()));
        if plain || is_own(cpython::import(cx.py, "abc").and_then(|abc| abc.getattr("ABCMeta"))) {
            let made_here = !cx.trace.trackers.is_loadable(cx.trace.vars.tracker(variable));
            if !plain && made_here && has_own_hook(class) {
                return self.ask_hook(cx, class, variable);
            }
            let is_of_trace = cx.trace.trackers.is_made(self.of) || !cx.trace.trackers.is_loadable(self.of);
            if !plain && is_of_trace && has_own_hook(class) {
                // CPython asks the hook for each class that the function makes.
                return Err(cannot("a class test of a class made in the trace, by a __subclasshook__ of the program"));
            }
            let ty = self.ty.cast::<PyType>().map_err(PyErr::from)?;
            if !plain && !self.asks_plain_hook(cx, class, variable)? {
                return Err(cannot("a class test by a __subclasscheck__ of the program"));
            }
            let is = if plain {
                cpython::is_subtype(ty, class)
            } else {
                ty.is_subclass(class.as_any()).map_err(|error| cx.raise(error))?
            };
            if !plain
                && !cpython::is_subtype(ty, class)
                && cx.trace.trackers.is_loadable(cx.trace.vars.tracker(variable))
            {
                assume_registered(cx, variable)?;
            } else if cpython::is_heap_type(ty) && cx.trace.trackers.is_sourced(self.of) {
                cx.trace.guards.add(self.of, Test::Subclass(Identity::of(class.as_any()), is));
            }
            return if is || self.function != "isinstance" {
                Ok(is)
            } else {
                self.claims_subclass_by_class_attribute(cx, class)
            };
        }
        let answer = object_model::call_special(cx, variable, self.hook, &[self.object])?;
        cx.truth(answer)
    }

    /// True if the `__subclasscheck__` of a metaclass derived from `ABCMeta`, which `ABCMeta.__instancecheck__` calls, is
    /// the one of `ABCMeta`.
    fn asks_plain_hook(&self, cx: &mut OpcodeExecutor<'py>, class: &Bound<'py, PyType>, variable: VarId) -> Flow<bool> {
        let abstract_type = cpython::import(cx.py, "abc")?.getattr("ABCMeta")?;
        if class.get_type().is(&abstract_type) {
            return Ok(true);
        }
        let Some((found, tracker)) = object_model::lookup(cx, variable, &"__subclasscheck__".into())? else {
            return Ok(false);
        };
        object_model::guard_identity(cx, &found, tracker);
        Ok(abstract_type.getattr("__dict__")?.get_item("__subclasscheck__")?.is(&found))
    }

    /// Returns the hook of the metaclass. Guards the hook of a metaclass of the program, which may get another one.
    fn hook_of_metaclass(
        &self,
        cx: &mut OpcodeExecutor<'py>,
        class: &Bound<'py, PyType>,
        variable: VarId,
    ) -> Flow<Option<Bound<'py, PyAny>>> {
        let metaclass = class.get_type();
        if metaclass.is(cpython::import(cx.py, "abc")?.getattr("ABCMeta")?) {
            return Ok(cpython::type_lookup(&metaclass, &PyString::intern(cx.py, self.hook)));
        }
        let found = object_model::lookup(cx, variable, &self.hook.into())?;
        Ok(found.map(|(found, tracker)| {
            object_model::guard_identity(cx, &found, tracker);
            found
        }))
    }

    /// Calls the `__subclasshook__` of an abstract base class made in the trace. CPython caches its result for each
    /// class.
    fn ask_hook(&self, cx: &mut OpcodeExecutor<'py>, class: &Bound<'py, PyType>, variable: VarId) -> Flow<bool> {
        let refuse = |what| cannot(&format!("{}() of a class with a __subclasshook__ of its own{what}", self.function));
        if object_model::has_own_class(cx, self.object)? {
            return Err(refuse(", of an object with a class of its own"));
        }
        if let Some(known) = class_statement::answer(cx, variable, &self.ty)? {
            return Ok(known);
        }
        let (subclass, before) = (cx.trace.wrap(&self.ty, self.of), cx.trace.effects.len());
        let answer = cx.call_method(variable, "__subclasshook__", &[subclass])?;
        if cx.trace.effects.len() != before {
            return Err(refuse(", which writes"));
        }
        let ty = self.ty.cast::<PyType>().map_err(PyErr::from)?;
        let is = match cx.known(answer)? {
            Some(answer) if answer.is_instance_of::<PyBool>() => answer.is_truthy()?,
            // Registered classes and subclasses of registered ones cannot be known without CPython's own check.
            Some(answer) if answer.is(cx.py.NotImplemented()) && cpython::is_subtype(ty, class) => true,
            _ => return Err(refuse(", which leaves it open")),
        };
        class_statement::remember(cx, variable, &self.ty, is)?;
        Ok(is)
    }

    /// Returns the answer of `type.__instancecheck__` or `type.__subclasscheck__`, whatever the metaclass is.
    fn answer_of_type(&self, cx: &mut OpcodeExecutor<'py>, variable: VarId) -> Flow<VarId> {
        let class = cx.see(variable)?.object().map(|object| object.bind(cx.py).clone());
        let Some(class) = class.and_then(|class| class.cast_into::<PyType>().ok()) else {
            return Err(cannot("a class test against something that is no class"));
        };
        let ty = self.ty.cast::<PyType>().map_err(PyErr::from)?;
        let mut is = cpython::is_subtype(ty, &class);
        if cpython::is_heap_type(ty) && cx.trace.trackers.is_sourced(self.of) {
            // A guard that asks for the subclass relation would call the metaclass's hook, so the type's identity is
            // guarded.
            object_model::guard_identity(cx, &self.ty, self.of);
        }
        if !is && self.function == "isinstance" {
            is = self.claims_subclass_by_class_attribute(cx, &class)?;
        }
        Ok(cx.trace.boolean(is))
    }

    /// True if `__class__` of the object is overridden, and is a subclass of the class.
    fn claims_subclass_by_class_attribute(
        &self,
        cx: &mut OpcodeExecutor<'py>,
        class: &Bound<'py, PyType>,
    ) -> Flow<bool> {
        if !object_model::has_own_class(cx, self.object)? {
            return Ok(false);
        }
        let Some(said) = cx.find_attr(self.object, &"__class__".into())? else { return Ok(false) };
        let said = cx.see(said)?.object().map(|said| said.bind(cx.py).clone());
        match said.as_ref().and_then(|said| said.cast::<PyType>().ok()) {
            Some(said) => Ok(said.is_subclass(class.as_any())?),
            None => Ok(false),
        }
    }

    /// Checks unions (`int | str`) and other objects that have the hook.
    fn ask_other(&self, cx: &mut OpcodeExecutor<'py>, class: &Bound<'py, PyAny>, variable: VarId) -> Flow<bool> {
        let union = cpython::import(cx.py, "types")?.getattr("UnionType").ok();
        if union.is_some_and(|union| class.get_type().is(&union)) {
            let members = class.getattr("__args__")?;
            for member in members.try_iter()? {
                let member = member?;
                let tracker = cx.trace.trackers.constant(member.clone().unbind());
                let member = cx.trace.wrap(&member, tracker);
                if self.ask(cx, member)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        if !cx.has_special(variable, self.hook)? {
            return Err(self.misuse(cx));
        }
        let answer = object_model::call_special(cx, variable, self.hook, &[self.object])?;
        cx.truth(answer)
    }

    /// Raises CPython's own error for a second argument that is not a class.
    fn misuse(&self, cx: &mut OpcodeExecutor<'py>) -> sot_core::error::Unwind {
        let asked = super::builtin_object(cx.py, self.function)
            .and_then(|function| function.call1((cx.py.get_type::<PyType>(), 0)));
        match asked {
            Err(error) => cx.raise(error),
            Ok(_) => cannot("a class test against something that is no class"),
        }
    }
}
