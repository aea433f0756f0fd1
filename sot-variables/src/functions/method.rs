//! Bound methods: of Python functions, and of C functions (the type's descriptor with a receiver).

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use sot_core::cpython::{self, DescriptorKind, Part};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, Name, OpcodeExecutor, Trace};
use sot_core::tracker::{self, Tracker, TrackerId};
use sot_core::variable::{Argument, Form, Rebuild};
use sot_core::variable::{VarId, Variable};

use crate::classes::decimal;
use crate::classes::exception;
use crate::classes::object::is_c_value;
use crate::classes::subclass;
use crate::containers::c_state;
use crate::containers::dict;
use crate::functions::slots;
use crate::globals::GlobalsVariable;
use crate::iterators::or_object_type;
use crate::numpy;
use crate::tensor::shape;

sot_core::variable_kind! { "method", types: |py| Ok(vec![method_type(py)?.unbind()]), wrap: MethodVariable::wrap }
sot_core::variable_kind! { "builtin_method" }

sot_core::builtin! { METHOD_TYPE = "types:MethodType" => |cx, args| {
    let [function, receiver] = args.exactly("method")?;
    if !object_model::is_callable(cx, function)? {
        let none = cx.py.None();
        return cx.fold(|py| method_type(py)?.call1((&none, &none)));
    }
    if cx.known(receiver)?.is_some_and(|receiver| receiver.is_none()) {
        let function = cpython::builtin(cx.py, "len")?;
        return cx.fold(|py| method_type(py)?.call1((function, py.None())));
    }
    Ok(cx.trace.produce(Rc::new(MethodVariable::new(function, receiver))))
} }

/// A Python method and its receiver.
pub struct MethodVariable {
    function: VarId,
    receiver: VarId,
}

fn method_type(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    cpython::import(py, "types")?.getattr("MethodType")
}

impl MethodVariable {
    /// Returns `function` bound to `receiver`.
    pub fn new(function: VarId, receiver: VarId) -> Self {
        MethodVariable { function, receiver }
    }

    /// Returns the function.
    pub fn function(&self) -> VarId {
        self.function
    }

    /// Returns the receiver.
    pub fn receiver(&self) -> VarId {
        self.receiver
    }

    fn wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, of: TrackerId) -> Flow<Rc<dyn Variable>> {
        let object = object.clone().unbind().into_bound(cx.py);
        let (function, receiver) = cpython::bound_method(&object)
            .ok_or_else(|| Unwind::break_graph(ReasonId::UnsupportedCall, "a method without function or receiver"))?;
        let function_tracker = cx.trace.trackers.add(Tracker::Part { of, part: Part::MethodFunction });
        let receiver_tracker = cx.trace.trackers.add(Tracker::Part { of, part: Part::MethodSelf });
        let function = cx.trace.wrap(&function, function_tracker);
        let receiver = cx.trace.wrap(&receiver, receiver_tracker);
        Ok(Rc::new(MethodVariable { function, receiver }))
    }
}

impl Variable for MethodVariable {
    fn kind(&self) -> &'static str {
        "method"
    }

    fn form(&self) -> Form {
        Form::Method
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        or_object_type(trace, method_type(trace.py))
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("MethodVariable({}, {})", trace.text(self.function), trace.text(self.receiver))
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.function, self.receiver]
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        match &**name {
            "__call__" => call_of(cx, this),
            "__func__" => Ok(Some(self.function)),
            "__self__" => Ok(Some(self.receiver)),
            "__doc__" => cx.find_attr(self.function, name),
            _ => {
                // Attributes of the method type itself, such as `__class__`, take precedence over those of the
                // function.
                let ty = method_type(cx.py)?;
                let own =
                    ty.cast::<PyType>().ok().and_then(|ty| cpython::type_lookup(ty, &PyString::intern(cx.py, name)));
                match own {
                    Some(_) => object_model::get_attr(cx, this, name),
                    None => cx.find_attr(self.function, name),
                }
            }
        }
    }

    fn call(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
        cx.call_instead_of(this, self.function, &args.with_receiver(self.receiver))
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        let make = method_type(cg.py())?.unbind();
        cg.call(|cg| cg.load_const(make), [self.function, self.receiver])
    }
}

/// Calls a C method with its receiver as first argument. If the receiver is an instance of a subclass, the method
/// works on the receiver's storage, the value of the built-in base.
pub fn call_descriptor<'py>(
    cx: &mut OpcodeExecutor<'py>,
    descriptor: &Bound<'py, PyAny>,
    args: &CallArgs,
) -> Flow<VarId> {
    if let Some(result) = cx.lazy_text_call(descriptor, args)? {
        return Ok(result);
    }
    if is_inherited_from_storage(cx, descriptor, args)? {
        if let Some(result) = call_with_storage(cx, descriptor, args)? {
            return Ok(result);
        }
    }
    let Some(&receiver) = args.positional.first() else { return cx.call_builtin(descriptor, args, false) };
    dict::refuse_method_of_base(cx, descriptor, receiver)?;
    if is_call_of(cx, descriptor, receiver)? {
        let args = CallArgs { positional: args.positional[1..].to_vec(), keywords: args.keywords.clone() };
        return cx.call(receiver, &args);
    }
    if let Some(globals) = cx.see_as::<GlobalsVariable>(receiver)? {
        let name: String = descriptor.getattr("__name__")?.extract()?;
        return globals.call_method(cx, &name, args);
    }
    if let Some(result) = c_state::call_method(cx, descriptor, args)? {
        return Ok(result);
    }
    if let Some(result) = shape::call_method(cx, descriptor, args)? {
        return Ok(result);
    }
    if let Some(result) = exception::call_method(cx, descriptor, args)? {
        return Ok(result);
    }
    if let Some(result) = numpy::call_method(cx, descriptor, args)? {
        return Ok(result);
    }
    let receiver = cx.see(receiver)?;
    let c_value = receiver.object().filter(|object| is_c_value(object.bind(cx.py)));
    // `pack_into` is the only method of such values that writes.
    let writes = descriptor.getattr("__name__").is_ok_and(|name| name.eq("pack_into").unwrap_or(false));
    let c_value = c_value.filter(|_| !writes);
    let is_union = || descriptor.getattr("__name__").is_ok_and(|name| name.eq("__or__").unwrap_or(false));
    let pure = receiver.constant().is_some()
        || c_value.is_some()
        || matches!(receiver.form(), Form::Tuple | Form::Range | Form::Slice)
        || receiver.form() == Form::Class && is_union();
    if !cx.runtime.builtins.has(descriptor) {
        if let Some(result) = slots::call(cx, descriptor, args)? {
            return Ok(result);
        }
    }
    let ty = receiver.python_type(&cx.trace);
    decimal::of_context(cx, &ty, |cx| cx.call_builtin(descriptor, args, pure))
}

/// Calls a C method that a subclass inherits with the receiver's storage, and returns the result; `None` if the receiver
/// has none.
fn call_with_storage<'py>(
    cx: &mut OpcodeExecutor<'py>,
    descriptor: &Bound<'py, PyAny>,
    args: &CallArgs,
) -> Flow<Option<VarId>> {
    if let [receiver, spec] = args.positional[..] {
        // With an empty format, `__format__` of an instance of a subclass returns its `__str__`.
        let is_format = descriptor.getattr("__name__")?.eq("__format__")?;
        if is_format && cx.known_str(spec)?.is_some_and(|spec| spec.is_empty()) {
            return object_model::convert(cx, receiver, "__str__", &[]).map(Some);
        }
    }
    let Some((inner, receiver, storage)) = subclass::with_storage(cx, args)? else { return Ok(None) };
    if let Some(done) = subclass::by_own_methods(cx, descriptor, args, storage)? {
        return Ok(Some(done));
    }
    if let Some(value) = subclass::missing(cx, descriptor, receiver, &inner)? {
        return Ok(Some(value));
    }
    let result = call_descriptor(cx, descriptor, &inner)?;
    if result == storage {
        return Ok(Some(receiver));
    }
    let unchanged = subclass::unchanged_text(cx, descriptor, (receiver, storage), result)?;
    Ok(Some(unchanged.unwrap_or(result)))
}

/// Returns `__call__` of a function or method, bound; it is a C method.
pub(crate) fn call_of(cx: &mut OpcodeExecutor<'_>, function: VarId) -> Flow<Option<VarId>> {
    let name = Rc::from("__call__");
    let Some((call, tracker)) = object_model::lookup(cx, function, &name)? else { return Ok(None) };
    object_model::bind_descriptor(cx, function, &name, &call, tracker).map(Some)
}

/// True if the descriptor is a `__call__` slot in C, which does nothing but call its receiver.
fn is_call_of(cx: &mut OpcodeExecutor<'_>, descriptor: &Bound<'_, PyAny>, receiver: VarId) -> Flow<bool> {
    let forms = [Form::Function, Form::Method, Form::BuiltinFunction, Form::BuiltinMethod];
    let ty = cx.type_of(receiver)?;
    Ok(forms.contains(&cx.see(receiver)?.form())
        && DescriptorKind::of(descriptor) == DescriptorKind::SlotWrapper
        && descriptor.getattr("__objclass__")?.is(&ty)
        && descriptor.getattr("__name__")?.eq("__call__")?)
}

/// True if the method belongs to the built-in type of the receiver's storage, or a base of it other than `object`.
fn is_inherited_from_storage(
    cx: &mut OpcodeExecutor<'_>,
    descriptor: &Bound<'_, PyAny>,
    args: &CallArgs,
) -> Flow<bool> {
    let Some(&receiver) = args.positional.first() else { return Ok(false) };
    let Some(storage) = subclass::storage_of(cx, receiver)? else { return Ok(false) };
    let owner = descriptor.getattr("__objclass__").ok();
    let ty = cx.type_of(storage)?;
    let object = cx.py.get_type::<PyAny>();
    Ok(owner.is_some_and(|owner| {
        let derived = matches!((ty.cast(), owner.cast()), (Ok(ty), Ok(owner)) if cpython::is_subtype(ty, owner));
        !owner.is(&object) && derived
    }))
}

/// A C method and its receiver.
pub struct BuiltinMethodVariable {
    descriptor: Py<PyAny>,
    receiver: VarId,
}

impl BuiltinMethodVariable {
    /// Returns `descriptor`, as found in the type, bound to `receiver`.
    pub fn new(descriptor: Py<PyAny>, receiver: VarId) -> Self {
        BuiltinMethodVariable { descriptor, receiver }
    }

    fn name(&self, trace: &Trace<'_>) -> PyResult<String> {
        self.descriptor.bind(trace.py).getattr("__name__")?.extract()
    }
}

impl Variable for BuiltinMethodVariable {
    fn kind(&self) -> &'static str {
        "builtin_method"
    }

    fn form(&self) -> Form {
        Form::BuiltinMethod
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        // C values may have methods that receive their defining class, which have another type when bound.
        let receiver = trace.vars.get(self.receiver);
        let receiver =
            receiver.object().map(|receiver| receiver.bind(trace.py)).filter(|receiver| is_c_value(receiver));
        if let Some(Ok(bound)) = receiver.zip(self.name(trace).ok()).map(|(receiver, name)| receiver.getattr(&*name)) {
            return bound.get_type().into_any();
        }
        let is_slot = DescriptorKind::of(self.descriptor.bind(trace.py)) == DescriptorKind::SlotWrapper;
        let name = if is_slot { "MethodWrapperType" } else { "BuiltinMethodType" };
        let ty = cpython::import(trace.py, "types").and_then(|types| types.getattr(name));
        or_object_type(trace, ty)
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        let name = tracker::name(self.descriptor.bind(trace.py));
        format!("BuiltinMethodVariable({name}, {})", trace.text(self.receiver))
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.receiver]
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        match &**name {
            "__call__" => call_of(cx, this),
            "__self__" => Ok(Some(self.receiver)),
            "__name__" => {
                let name = self.name(&cx.trace)?;
                Ok(Some(cx.trace.string(&name)))
            }
            _ => Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, format!("attribute '{name}' of a C method"))),
        }
    }

    /// Methods of values are pure. The side effects of other methods are known only to their handlers.
    fn call(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, args: &CallArgs) -> Flow<VarId> {
        let descriptor = self.descriptor.bind(cx.py).clone();
        call_descriptor(cx, &descriptor, &args.with_receiver(self.receiver))
    }

    /// If an attribute of the receiver or an override in a subclass could hide the method, the descriptor is bound by
    /// `__get__`.
    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        let name = self.name(cg.trace())?;
        let descriptor = self.descriptor.bind(cg.py()).clone();
        let ty = cg.trace().vars.get(self.receiver).python_type(cg.trace());
        let found = ty.cast::<PyType>().ok().and_then(|ty| {
            let alone = cpython::uses_generic_getattr(ty) && !cpython::is_heap_type(ty);
            cpython::type_lookup(ty, &PyString::new(cg.py(), &name)).filter(|_| alone)
        });
        if found.is_some_and(|found| found.is(&descriptor)) {
            cg.load(self.receiver)?;
            return cg.load_attr(&name);
        }
        let get = descriptor.getattr("__get__")?.unbind();
        if DescriptorKind::of(&descriptor) == DescriptorKind::CClassMethod {
            let none = Argument::none(cg.py());
            return cg.call(|cg| cg.load_const(get), [none, self.receiver.into()]);
        }
        // Without a type, `__get__` of methods that receive their defining class would crash.
        let owner = descriptor.getattr("__objclass__")?.unbind();
        cg.begin_call(|cg| cg.load_const(get))?;
        cg.load(self.receiver)?;
        cg.load_const(owner)?;
        cg.end_call(2)
    }
}
