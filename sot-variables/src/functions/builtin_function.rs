//! C functions: functions of modules, unbound methods of types, and bound methods of real objects.

use std::rc::Rc;

use once_cell::sync::Lazy;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyModule, PyString, PyType};
use sot_core::backend::ObjectTest;
use sot_core::cpython::{self, DescriptorKind};
use sot_core::error::{Flow, Reason, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, CompareOp, Name, OpcodeExecutor, Trace};
use sot_core::guard::{Identity, Test};
use sot_core::tracker::{self, Tracker, TrackerId};
use sot_core::variable::{Form, VarId, Variable};

use crate::builtins::dict_methods;
use crate::classes::object;
use crate::classes::stand_in;
use crate::containers::dict;
use crate::containers::sequence;
use crate::functions::call_policy::call_by_policy;
use crate::functions::function::guard_identity;
use crate::functions::method::{self, call_descriptor};
use crate::iterators::library;
use crate::numpy;

sot_core::variable_kind! {
    "builtin_function",
    types: |py| {
        let types = cpython::import(py, "types")?;
        let mut found = ["BuiltinFunctionType", "MethodDescriptorType", "WrapperDescriptorType", "MethodWrapperType",
         "ClassMethodDescriptorType"]
            .iter()
            .map(|name| Ok(types.getattr(*name)?.unbind()))
            .collect::<PyResult<Vec<_>>>()?;
        // From 3.9 on, C methods that receive their defining class (`METH_METHOD`) have another type when they are
        // bound.
        let told = cpython::import(py, "re")?.call_method1("compile", ("",))?.getattr("match")?.get_type().into_any();
        if !found.iter().any(|ty| ty.is(&told)) {
            found.push(told.unbind());
        }
        Ok(found)
    },
    wrap: BuiltinFunctionVariable::wrap
}

/// A C function.
pub struct BuiltinFunctionVariable {
    object: Py<PyAny>,
}

/// Functions of `builtins` whose result depends on more than their arguments, or that have side effects.
static IMPURE: Lazy<Vec<&'static str>> = Lazy::new(|| {
    vec![
        "__build_class__",
        "__import__",
        "compile",
        "delattr",
        "dir",
        "eval",
        "exec",
        "globals",
        "hash",
        "id",
        "input",
        "iter",
        "locals",
        "next",
        "open",
        "print",
        "setattr",
        "vars",
        "anext",
        "aiter",
    ]
});

/// Modules whose functions are pure, except for those in `WRITERS`.
const PURE_MODULES: &[&str] =
    &["math", "cmath", "_operator", "operator", "binascii", "_struct", "zlib", "unicodedata", "_json", "_sre"];

/// Functions of the modules in `PURE_MODULES` that write to their argument.
const WRITERS: &[&str] = &["insort_left", "insort_right", "setitem", "delitem", "iconcat", "pack_into"];

/// Functions that read the calling frame, in which new code keeps variables of its own; with the number of arguments
/// from which on they no longer read the frame. An argument of `None` does not count.
const FRAME_READERS: &[(&str, usize)] = &[("locals", 1), ("vars", 1), ("dir", 1), ("eval", 2), ("exec", 2)];

fn refuse_frame_readers(cx: &mut OpcodeExecutor<'_>, function: &Bound<'_, PyAny>, args: &CallArgs) -> Flow<()> {
    let name: String = function.getattr("__name__")?.extract()?;
    let Some((_, enough)) = FRAME_READERS.iter().find(|(reader, _)| *reader == name) else { return Ok(()) };
    let mut given = 0;
    for argument in args.all() {
        given += usize::from(!cx.known(argument)?.is_some_and(|argument| argument.is_none()));
    }
    if given >= *enough {
        return Ok(());
    }
    Err(cx
        .stack
        .leave_to_cpython(Reason::new(ReasonId::UnsupportedFrame, format!("{name}() reads the frame's variables"))))
}

impl BuiltinFunctionVariable {
    fn wrap(_: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, _: TrackerId) -> Flow<Rc<dyn Variable>> {
        Ok(Rc::new(BuiltinFunctionVariable { object: object.clone().unbind() }))
    }

    /// Returns the receiver of a bound method. `None` if `__self__` is a module or a record of a binding library:
    /// these have no method of the function's name.
    fn receiver<'py>(&self, trace: &Trace<'py>) -> Option<Bound<'py, PyAny>> {
        let function = self.object.bind(trace.py);
        let receiver = receiver(function)?;
        let name = function.getattr("__name__").ok()?.cast_into::<PyString>().ok()?;
        let is_bound =
            receiver.is_instance_of::<PyType>() || cpython::type_lookup(&receiver.get_type(), &name).is_some();
        is_bound.then_some(receiver)
    }

    fn call_bound(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        this: VarId,
        receiver: &Bound<'_, PyAny>,
        args: &CallArgs,
    ) -> Flow<VarId> {
        let object = self.object.bind(cx.py).clone();
        let receiver = receiver.clone().unbind().into_bound(cx.py);
        if receiver.is_instance_of::<pyo3::types::PyType>() && cx.runtime.builtins.has(&object) {
            return cx.call_builtin(&object, args, false);
        }
        let of = cx.trace.vars.tracker(this);
        let tracker = cx.trace.trackers.add(Tracker::Getattr { of, name: "__self__".into() });
        let class = receiver.cast::<PyType>().ok();
        let (is_class, is_value) = (class.is_some(), class.is_some_and(is_value_type));
        let receiver = cx.trace.wrap(&receiver, tracker);
        let name: String = object.getattr("__name__")?.extract()?;
        if is_class {
            return call_class_method(cx, (&object, &name), receiver, is_value, args);
        }
        let ty = cx.type_of(receiver)?;
        if let Some(hidden) = hidden_descriptor(&ty, &name, &object)? {
            return call_descriptor(cx, &hidden, &args.with_receiver(receiver));
        }
        let method = cx.get_attr(receiver, &Rc::from(name))?;
        cx.call(method, args)
    }
}

/// Calls a class method in C on a class, of values if `is_value`. Each lookup makes a new bound object, so that only the
/// descriptor has a lasting identity.
fn call_class_method<'py>(
    cx: &mut OpcodeExecutor<'py>,
    (object, name): (&Bound<'py, PyAny>, &str),
    receiver: VarId,
    is_value: bool,
    args: &CallArgs,
) -> Flow<VarId> {
    let descriptor = object_model::lookup_in_class(cx, receiver, &Rc::from(name))?;
    let owner = descriptor.as_ref().and_then(|descriptor| descriptor.getattr("__objclass__").ok());
    let descriptor_owner = owner.clone();
    let of_dict = owner.is_some_and(|owner| {
        owner.cast::<PyType>().is_ok_and(|owner| cpython::is_subtype(owner, &cx.py.get_type::<PyDict>()))
    });
    // The builtin for `dict.fromkeys` is not given the class that it was called on.
    if name == "fromkeys"
        && of_dict
        && cx.trace.vars.get(receiver).object().is_none_or(|class| !class.is(cx.py.get_type::<PyDict>()))
    {
        return dict_methods::from_keys_of_class(cx, receiver, args);
    }
    if !is_value && cx.trace.trackers.is_made(cx.trace.vars.tracker(receiver)) {
        let text = format!("{name}() of a class made in the trace");
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
    }
    match descriptor.filter(|descriptor| cx.runtime.builtins.has(descriptor)) {
        Some(descriptor) => cx.call_builtin(&descriptor, args, false),
        // The format of floats is state of the process.
        None if name == "__setformat__" => cx.call_builtin(object, args, false),
        None if makes_alias(object)? && cx.materialize_args(args)?.is_none() => {
            let alias = library(cx.py, "types", "GenericAlias")?;
            stand_in::call_with_known(cx, alias, &args.with_receiver(receiver))
        }
        None if makes_generic(&cx.trace, name, descriptor_owner.as_ref())? && cx.materialize_args(args)?.is_none() => {
            let getitem = library(cx.py, "operator", "getitem")?;
            stand_in::call_with_known(cx, getitem, &args.with_receiver(receiver))
        }
        None => {
            let pure = is_value || name == "__class_getitem__" || is_pure_maker(&cx.trace, receiver, name);
            cx.call_builtin(object, args, pure)
        }
    }
}

/// Class methods of value types whose result depends on more than their arguments: the clock or the time zone.
const ASK_THE_CLOCK: &[&str] = &["now", "today", "utcnow", "fromtimestamp", "utcfromtimestamp"];

/// True if a class method makes a value from its arguments alone.
fn is_pure_maker(trace: &Trace<'_>, class: VarId, name: &str) -> bool {
    let class = trace.vars.get(class).object().map(|class| class.bind(trace.py).clone());
    class.is_some_and(|class| object::is_value_type(&class)) && !ASK_THE_CLOCK.contains(&name)
}

/// True if a C class method is the `__class_getitem__` that returns a `types.GenericAlias`.
fn makes_alias(method: &Bound<'_, PyAny>) -> PyResult<bool> {
    let usual = method.py().get_type::<PyList>().getattr_opt("__class_getitem__")?;
    Ok(usual.is_some_and(|usual| cpython::c_code(&usual) == cpython::c_code(method)))
}

/// True if a class method is `typing.Generic.__class_getitem__`.
fn makes_generic(trace: &Trace<'_>, name: &str, owner: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
    let generic = library(trace.py, "typing", "Generic")?;
    Ok(name == "__class_getitem__" && owner.is_some_and(|owner| owner.is(&generic)))
}

/// Returns `__self__` of a C function; `None` if that is `None` or a module.
fn receiver<'py>(function: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let receiver = function.getattr("__self__").ok()?;
    (!receiver.is_none() && !receiver.is_instance_of::<PyModule>()).then_some(receiver)
}

/// Returns the descriptor that a bound method was made from, if the type's own lookup of that name finds another one.
fn hidden_descriptor<'py>(
    ty: &Bound<'py, PyAny>,
    name: &str,
    method: &Bound<'py, PyAny>,
) -> Flow<Option<Bound<'py, PyAny>>> {
    let Ok(ty) = ty.cast::<PyType>() else { return Ok(None) };
    let receiver = method.getattr("__self__")?;
    let code = BoundCode::of(method);
    let found = cpython::type_lookup(ty, &PyString::new(ty.py(), name));
    for class in ty.mro().iter() {
        let Ok(held) = cpython::class_dict(&class)?.get_item(name) else { continue };
        let is_method = DescriptorKind::of(&held).is_c_method();
        if is_method && code.check(&held.call_method1("__get__", (&receiver, receiver.get_type()))?) {
            return Ok((!found.is_some_and(|found| found.is(&held))).then_some(held));
        }
    }
    if found.is_some_and(|found| DescriptorKind::of(&found) == DescriptorKind::Function) {
        let text = format!("a method {name}() of C code, bound to an object whose class has another one");
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
    }
    Ok(None)
}

/// Guard: a C method runs this code. The name alone would not do, as several bases may define it.
struct BoundCode {
    name: String,
    code: Option<usize>,
    owner: Option<Py<PyAny>>,
}

impl BoundCode {
    fn of(method: &Bound<'_, PyAny>) -> Self {
        let name = method.getattr("__name__").and_then(|name| name.extract()).unwrap_or_default();
        let owner = method.getattr("__objclass__").ok().map(Bound::unbind);
        BoundCode { name, code: cpython::c_code(method), owner }
    }
}

impl ObjectTest for BoundCode {
    fn check(&self, object: &Bound<'_, PyAny>) -> bool {
        if self.code.is_some() {
            return cpython::c_code(object) == self.code;
        }
        let owner = || object.getattr("__objclass__").ok().map(Bound::unbind);
        cpython::builtin_type_name(object) == "method-wrapper"
            && object.getattr("__name__").is_ok_and(|name| name.eq(&*self.name).unwrap_or(false))
            && matches!((owner(), &self.owner), (Some(owner), Some(own)) if owner.is(own))
    }

    fn describe(&self, subject: &str) -> String {
        format!("{subject}.__name__ == '{}'", self.name)
    }
}

fn is_pure(function: &Bound<'_, PyAny>) -> bool {
    let text = |name: &str| function.getattr(name).and_then(|value| value.extract::<String>()).unwrap_or_default();
    match text("__module__").as_str() {
        "builtins" => !IMPURE.contains(&text("__name__").as_str()),
        module if PURE_MODULES.contains(&module) => !WRITERS.contains(&text("__name__").as_str()),
        module if PURE.iter().any(|(known, names)| *known == module && names.contains(&&*text("__name__"))) => true,
        _ => is_method_of_value(function) || is_static_method_of_value(function),
    }
}

/// Functions of numbers that convert other objects by `__index__`.
const BY_INDEX: &[&str] = &["builtins.hex", "builtins.oct", "builtins.bin", "builtins.chr"];

fn as_indices(cx: &mut OpcodeExecutor<'_>, args: &[VarId]) -> Flow<Vec<VarId>> {
    let index = |&arg: &VarId| match sequence::index_object(cx, arg)? {
        Some(known) => Ok(cx.trace.constant(known.unbind())),
        None => Ok(arg),
    };
    args.iter().map(index).collect()
}

/// True for static methods of an immutable type, such as `str.maketrans`. Only their `__qualname__` tells the type.
fn is_static_method_of_value(function: &Bound<'_, PyAny>) -> bool {
    let own = || {
        let path: String = function.getattr("__qualname__")?.extract()?;
        let Some((owner, name)) = path.split_once('.') else { return Ok(false) };
        let owner = cpython::import(function.py(), "builtins")?.getattr(owner)?;
        PyResult::Ok(owner.getattr(name)?.eq(function)? && owner.cast::<PyType>().is_ok_and(is_value_type))
    };
    own().unwrap_or(false)
}

/// True for unbound methods of an immutable type, such as `str.upper`.
fn is_method_of_value(function: &Bound<'_, PyAny>) -> bool {
    function.getattr("__objclass__").is_ok_and(|owner| owner.cast::<PyType>().is_ok_and(is_value_type))
}

/// Pure functions of modules whose other functions are not pure.
const PURE: &[(&str, &[&str])] =
    &[("sys", &["intern"]), ("posix", &["_path_splitroot_ex", "_path_splitroot", "_path_normpath"])];

/// True if the C functions of the type depend on nothing but their arguments.
fn is_value_type(ty: &Bound<'_, PyType>) -> bool {
    let values = ["str", "int", "float", "complex", "bytes", "bool", "tuple", "range", "frozenset"];
    ty.module().is_ok_and(|module| module == "builtins") && values.contains(&&*cpython::type_name(ty))
}

impl Variable for BuiltinFunctionVariable {
    fn kind(&self) -> &'static str {
        "builtin_function"
    }

    fn form(&self) -> Form {
        Form::BuiltinFunction
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.object.bind(trace.py).get_type().into_any()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("BuiltinVariable({})", tracker::name(self.object.bind(trace.py)))
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        Some(&self.object)
    }

    fn guard(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<()> {
        let (object, tracker) = (self.object.bind(cx.py).clone(), cx.trace.vars.tracker(this));
        cx.trace.guards.add(tracker, Test::TypeIs(Identity::of(object.get_type().as_any())));
        if receiver(&object).is_some() {
            cx.trace.guards.add(tracker, Test::Object(Box::new(BoundCode::of(&object))));
        }
        Ok(())
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        if &**name == "__call__" {
            return method::call_of(cx, this);
        }
        object_model::get_attr(cx, this, name)
    }

    /// Two C functions are equal if they run the same code for the same receiver.
    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        let other_object = cx.see_as::<BuiltinFunctionVariable>(other)?.map(|other| other.object.clone_ref(cx.py));
        match other_object {
            Some(object) if matches!(op, CompareOp::Equal | CompareOp::NotEqual) => {
                guard_identity(cx, this, &self.object);
                guard_identity(cx, other, &object);
                let equal = self.object.bind(cx.py).eq(&object)?;
                Ok(Some(cx.trace.boolean(equal == (op == CompareOp::Equal))))
            }
            _ => object_model::compare(cx, op, this, other),
        }
    }

    fn call(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
        if let Some(result) = call_by_policy(cx, this, &self.object, args)? {
            return Ok(result);
        }
        if let Some(result) = numpy::call(cx, this, &self.object, args)? {
            return Ok(result);
        }
        if let Some(receiver) = self.receiver(&cx.trace) {
            return self.call_bound(cx, this, &receiver, args);
        }
        guard_identity(cx, this, &self.object);
        let object = self.object.bind(cx.py).clone();
        if object.hasattr("__objclass__")? && !args.positional.is_empty() {
            if let Some(result) = cx.lazy_text_call(&object, args)? {
                return Ok(result);
            }
            dict::refuse_method_of_base(cx, &object, args.positional[0])?;
            let first = cx.see(args.positional[0])?;
            if first.form() == Form::Subclass || !cx.runtime.builtins.has(&object) && !is_method_of_value(&object) {
                return call_descriptor(cx, &object, args);
            }
        }
        let pure = is_pure(&object);
        if pure && BY_INDEX.contains(&&*tracker::name(&object)) {
            let args = CallArgs { positional: as_indices(cx, &args.positional)?, keywords: args.keywords.clone() };
            return cx.call_builtin(&object, &args, true);
        }
        if !pure && !cx.runtime.builtins.has(&object) {
            refuse_frame_readers(cx, &object, args)?;
        }
        cx.call_builtin(&object, args, pure)
    }
}
