//! Bound methods: of Python functions, and of C functions (the descriptor in the type, with a receiver).

use std::rc::Rc;

use pyo3::prelude::*;
use sot_core::codegen::CodeGen;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{CallArgs, Name, OpcodeExecutor};
use sot_core::tracker::{self, Part, Tracker, TrackerId};
use sot_core::variable::{VarId, Variable};

sot_core::variable_kind! { "method", types: |py| Ok(vec![method_type(py)?.unbind()]), wrap: MethodVariable::wrap }
sot_core::variable_kind! { "builtin_method" }

/// A Python method and its receiver.
pub struct MethodVariable {
    function: VarId,
    receiver: VarId,
}

fn method_type(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("types")?.getattr("MethodType")
}

impl MethodVariable {
    /// `function` bound to `receiver`.
    pub fn new(function: VarId, receiver: VarId) -> Self {
        MethodVariable { function, receiver }
    }

    /// The function.
    pub fn function(&self) -> VarId {
        self.function
    }

    /// The receiver.
    pub fn receiver(&self) -> VarId {
        self.receiver
    }

    fn wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, of: TrackerId) -> Flow<Rc<dyn Variable>> {
        let object = object.clone().unbind().into_bound(cx.py);
        let (function, receiver) = cpython::bound_method(&object)
            .ok_or_else(|| Unwind::break_graph(ReasonId::UnsupportedCall, "a method without function or receiver"))?;
        let function_tracker = cx.trackers.add(Tracker::Part { of, part: Part::MethodFunction });
        let receiver_tracker = cx.trackers.add(Tracker::Part { of, part: Part::MethodSelf });
        let function = cx.wrap(&function, function_tracker);
        let receiver = cx.wrap(&receiver, receiver_tracker);
        Ok(Rc::new(MethodVariable { function, receiver }))
    }
}

impl Variable for MethodVariable {
    fn kind(&self) -> &'static str {
        "method"
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        method_type(cx.py).unwrap_or_else(|_| cx.py.None().into_bound(cx.py))
    }

    fn text(&self, cx: &OpcodeExecutor<'_>) -> String {
        format!("MethodVariable({}, {})", cx.text(self.function), cx.text(self.receiver))
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.function, self.receiver]
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        match &**name {
            "__call__" => Ok(Some(this)),
            "__func__" => Ok(Some(self.function)),
            "__self__" => Ok(Some(self.receiver)),
            _ => cx.find_attr(self.function, name),
        }
    }

    fn call(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
        cx.call_instead_of(this, self.function, &args.with_receiver(self.receiver))
    }

    fn reconstruct(&self, cg: &mut CodeGen<'_, '_>, _: VarId) -> Flow<()> {
        let make = method_type(cg.cx.py)?.unbind();
        cg.call(|cg| cg.load_const(make), &[self.function, self.receiver])
    }
}

/// A C method and its receiver.
pub struct BuiltinMethodVariable {
    descriptor: Py<PyAny>,
    receiver: VarId,
}

impl BuiltinMethodVariable {
    /// `descriptor`, as the type has it, bound to `receiver`.
    pub fn new(descriptor: Py<PyAny>, receiver: VarId) -> Self {
        BuiltinMethodVariable { descriptor, receiver }
    }

    fn name(&self, cx: &OpcodeExecutor<'_>) -> PyResult<String> {
        self.descriptor.bind(cx.py).getattr("__name__")?.extract()
    }
}

impl Variable for BuiltinMethodVariable {
    fn kind(&self) -> &'static str {
        "builtin_method"
    }

    fn python_type<'py>(&self, cx: &OpcodeExecutor<'py>) -> Bound<'py, PyAny> {
        let builtin = cx.py.import("types").and_then(|types| types.getattr("BuiltinMethodType"));
        builtin.unwrap_or_else(|_| cx.py.None().into_bound(cx.py))
    }

    fn text(&self, cx: &OpcodeExecutor<'_>) -> String {
        let name = tracker::name(self.descriptor.bind(cx.py));
        format!("BuiltinMethodVariable({name}, {})", cx.text(self.receiver))
    }

    fn children(&self) -> Vec<VarId> {
        vec![self.receiver]
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        match &**name {
            "__call__" => Ok(Some(this)),
            "__self__" => Ok(Some(self.receiver)),
            "__name__" => {
                let name = self.name(cx)?;
                Ok(Some(cx.string(&name)))
            }
            _ => Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, format!("attribute '{name}' of a C method"))),
        }
    }

    /// Methods of values are pure; what others do to their receiver only a handler knows.
    fn call(&self, cx: &mut OpcodeExecutor<'_>, _: VarId, args: &CallArgs) -> Flow<VarId> {
        let receiver = cx.see(self.receiver)?;
        let pure = receiver.constant().is_some() || matches!(receiver.kind(), "tuple" | "range" | "slice");
        let descriptor = self.descriptor.bind(cx.py).clone();
        cx.call_builtin(&descriptor, &args.with_receiver(self.receiver), pure)
    }

    fn reconstruct(&self, cg: &mut CodeGen<'_, '_>, _: VarId) -> Flow<()> {
        let name = self.name(cg.cx)?;
        cg.load(self.receiver)?;
        cg.load_attr(&name)
    }
}
