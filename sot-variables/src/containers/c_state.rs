//! Mutable objects of C types that hold plain values only (`bytearray`, `array`, `StringIO`), made in the trace. A
//! real object, which no other code can reach, holds the state. A method call works on a copy, which becomes the new
//! state.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use sot_core::builtin;
use sot_core::cpython::{self, DescriptorKind};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, Name, OpcodeExecutor, Trace};
use sot_core::variable::Rebuild;
use sot_core::variable::{VarId, Variable};

use crate::iterators::items::ItemIterator;
use crate::iterators::{library, rebuild};

sot_core::variable_kind! { "c_state" }

/// The current state of such an object.
pub struct CStateVariable {
    object: Py<PyAny>,
}

builtin! { BYTEARRAY = "bytearray" => |cx, args| make(cx, "builtins", "bytearray", args) }
builtin! { ARRAY = "array:array" => |cx, args| make(cx, "array", "array", args) }
builtin! { STRING_IO = "io:StringIO" => |cx, args| make(cx, "io", "StringIO", args) }
builtin! { BYTES_IO = "io:BytesIO" => |cx, args| make(cx, "io", "BytesIO", args) }

// Only views of immutable `bytes`: a view of a `bytearray` would observe its writes.
builtin! { MEMORYVIEW = "memoryview" => |cx, args| {
    let of_bytes = match args.positional[..] {
        [bytes] => cx.known(bytes)?.is_some_and(|bytes| bytes.is_exact_instance_of::<PyBytes>()),
        _ => false,
    };
    if !of_bytes {
        return Err(refuse("memoryview() of something that changes"));
    }
    make(cx, "builtins", "memoryview", args)
} }

/// Methods that tell the address or memory use of an object. New code makes another object, for which these differ.
const OF_MEMORY: &[&str] = &["buffer_info", "__sizeof__", "__alloc__"];

fn refuse(what: &str) -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedCall, what)
}

fn make(cx: &mut OpcodeExecutor<'_>, module: &str, name: &str, args: &CallArgs) -> Flow<VarId> {
    // A `StringIO` with its own newline translation cannot be copied.
    let is_text = name == "StringIO" && (args.positional.len() > 1 || !args.keywords.is_empty());
    let Some((positional, keywords)) = cx.materialize_args(args)?.filter(|_| !is_text) else {
        return Err(refuse(&format!("{name}() of values that are not known while tracing")));
    };
    match library(cx.py, module, name)?.into_bound(cx.py).call(positional, Some(&keywords)) {
        Ok(object) => {
            charge(cx, &object)?;
            Ok(cx.trace.produce(Rc::new(CStateVariable { object: object.unbind() })))
        }
        Err(error) => Err(cx.raise(error)),
    }
}

/// Counts the memory and time of a copy towards the limits of the trace.
fn charge(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>) -> PyResult<()> {
    let bytes = object.call_method0("__sizeof__")?.extract()?;
    cx.limits.charge_memory(bytes);
    Ok(())
}

/// Returns a copy of the object.
pub(crate) fn copy<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let ty = object.get_type();
    match &*cpython::type_name(&ty) {
        "bytearray" | "memoryview" => ty.call1((object,)),
        "array" => object.call_method0("__copy__"),
        _ => {
            let copy = ty.call1((object.call_method0("getvalue")?,))?;
            copy.call_method1("seek", (object.call_method0("tell")?,))?;
            Ok(copy)
        }
    }
}

/// Calls a C method of such an object. Returns `None` for other receivers, and for methods of `object`.
pub fn call_method(cx: &mut OpcodeExecutor<'_>, descriptor: &Bound<'_, PyAny>, args: &CallArgs) -> Flow<Option<VarId>> {
    let Some((&this, rest)) = args.positional.split_first() else { return Ok(None) };
    let Some(kept) = cx.see_as::<CStateVariable>(this)? else { return Ok(None) };
    if descriptor.getattr("__objclass__")?.is(cx.py.get_type::<PyAny>()) {
        return Ok(None);
    }
    let rest = CallArgs { positional: rest.to_vec(), keywords: args.keywords.clone() };
    let Some((positional, keywords)) = cx.materialize_args(&rest)? else {
        return Err(refuse("a method of an object in C with values that are not known while tracing"));
    };
    let name: String = descriptor.getattr("__name__")?.extract()?;
    if OF_MEMORY.contains(&&*name) {
        return Err(refuse(&format!("{name}() of an object that is made in the function")));
    }
    let object = copy(kept.object.bind(cx.py)).map_err(|_| refuse("a closed io.StringIO or io.BytesIO"))?;
    charge(cx, &object)?;
    let result = object.getattr(&*name)?.call(&positional, Some(&keywords));
    let is_self = result.as_ref().is_ok_and(|result| result.is(&object));
    // Arguments may have been changed: written to by `readinto`, or advanced by `fromfile`.
    for (&arg, worked_on) in rest.positional.iter().zip(positional.iter()) {
        if arg != this && cx.trace.vars.as_kind::<CStateVariable>(arg).is_some() {
            cx.trace.vars.set(arg, Rc::new(CStateVariable { object: worked_on.unbind() }));
        }
    }
    cx.trace.vars.set(this, Rc::new(CStateVariable { object: object.unbind() }));
    match result {
        Ok(_) if is_self => Ok(Some(this)),
        Ok(result) if result.get_type().is(kept.object.bind(cx.py).get_type()) => {
            Ok(Some(cx.trace.produce(Rc::new(CStateVariable { object: result.unbind() }))))
        }
        Ok(result) => cx.wrap_fresh(&result).map(Some),
        Err(error) => Err(cx.raise(error)),
    }
}

impl Variable for CStateVariable {
    fn kind(&self) -> &'static str {
        "c_state"
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.object.bind(trace.py).get_type().into_any()
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("CStateVariable({})", cpython::type_name(&self.object.bind(trace.py).get_type()))
    }

    fn materialize(&self, trace: &Trace<'_>) -> Option<Py<PyAny>> {
        copy(self.object.bind(trace.py)).ok().map(Bound::unbind)
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        let found = object_model::lookup(cx, this, name)?;
        let is_read = |found: &Bound<'_, PyAny>| DescriptorKind::of(found).is_c_attribute();
        if found.is_some_and(|(found, _)| is_read(&found)) && !name.starts_with("__") {
            let object = self.object.bind(cx.py).clone();
            return cx.fold(|_| object.getattr(&**name)).map(Some);
        }
        object_model::get_attr(cx, this, name)
    }

    /// Reads items one by one, so that later writes are seen.
    fn iter(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        if cx.has_special(this, "__getitem__")? {
            return Ok(ItemIterator::over(cx, this));
        }
        object_model::iter(cx, this)
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, _: VarId) -> Flow<()> {
        if copy(self.object.bind(cg.py())).is_err() {
            return Err(Unwind::fallback(ReasonId::CannotRestore, "a closed io.StringIO or io.BytesIO"));
        }
        let object = self.object.clone_ref(cg.py());
        cg.begin_call(|cg| {
            let make = rebuild::copied(cg.py())?;
            cg.load_const(make)
        })?;
        cg.load_const(object)?;
        cg.end_call(1)
    }
}
