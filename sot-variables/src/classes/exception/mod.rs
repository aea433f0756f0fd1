//! Exceptions made in the trace. `ExceptionVariable` holds what `BaseException` keeps in C. Everything else that is
//! written to an exception, including its cause and context, is a side effect, as for any new object.

use std::rc::Rc;

use pyo3::exceptions::{PyAttributeError, PyBaseException, PyImportError, PyMemoryError, PyNameError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PyString, PyTuple, PyType};
use sot_core::bytecode::Op;
use sot_core::cpython::{self, DescriptorKind};
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, traceback, BookkeepingVariable, CallArgs, Name, OpcodeExecutor, Trace};
use sot_core::tracker::{self, TrackerId};
use sot_core::variable::{Argument, Form, Rebuild};
use sot_core::variable::{VarId, Variable};

use crate::containers::sequence;
use crate::iterators::{emit_call, rebuild};

use self::layout::{has_more_c_fields, held_attribute, is_simple_holder, static_base};
pub(crate) use asked::handled;
use making::hold;
pub use making::{instantiate, keep_given, make};

mod asked;
mod copies;
pub mod group;
mod layout;
mod making;
pub mod replica;

sot_core::variable_kind! { "exception" }

/// Sets attributes that the interpreter adds to an exception while it propagates, such as `name` of a `NameError`.
/// Does nothing if the class has no such attributes or any of them is set already.
pub fn tell(cx: &mut OpcodeExecutor<'_>, exception: VarId, what: &[(&str, VarId)]) -> Flow<()> {
    let Some(payload) = cx.trace.vars.as_kind::<ExceptionVariable>(exception) else { return Ok(()) };
    let Some(real) = payload.real(cx.py) else { return Ok(()) };
    for (name, _) in what {
        let is_empty = real.getattr_opt(*name)?.is_some_and(|value| value.is_none());
        if !is_empty || cx.trace.effects.attribute(exception, &Rc::from(*name)).is_some() {
            return Ok(());
        }
    }
    for (name, value) in what {
        cx.trace.effects.set_attribute(exception, &Rc::from(*name), Some(*value));
    }
    Ok(())
}

/// An exception made in the trace.
pub struct ExceptionVariable {
    ty: Py<PyAny>,
    class: Option<VarId>,
    args: Vec<VarId>,
    /// A real exception with the same arguments, for classes whose C code keeps more than the arguments.
    real: Option<Py<PyAny>>,
    /// The arguments of the call that made the exception, which can be more than `args`.
    given: Option<CallArgs>,
    /// The exceptions of a group, as a tuple.
    members: Option<VarId>,
    /// The `args` tuple, once the program has read or given it.
    tuple: Option<VarId>,
}

/// Calls a C method of `BaseException` or one of its subclasses. Returns `None` for other methods, and for those not
/// simulated.
pub fn call_method(cx: &mut OpcodeExecutor<'_>, descriptor: &Bound<'_, PyAny>, args: &CallArgs) -> Flow<Option<VarId>> {
    let Some((&this, rest)) = args.positional.split_first() else { return Ok(None) };
    let Some(exception) = cx.see_as::<ExceptionVariable>(this)? else { return Ok(None) };
    let name: String = descriptor.getattr("__name__")?.extract()?;
    let ty = exception.ty.bind(cx.py).cast::<PyType>().map_err(PyErr::from)?.clone();
    if exception.members.is_some() {
        if let Some(result) = group::call_method(cx, this, &name, rest)? {
            return Ok(Some(result));
        }
    }
    if name == "__str__" && rest.is_empty() {
        if let Some(text) = exception.only_text(cx, descriptor)? {
            return Ok(Some(text));
        }
    }
    match (&*name, rest) {
        ("__init__", _) if !has_more_c_fields(&ty)? || is_simple_holder(&ty) => {
            exception.write_args(cx, this, rest.to_vec(), None);
            hold(cx, this, &ty, rest);
            Ok(Some(cx.trace.none()))
        }
        ("__str__" | "__repr__", []) => {
            let Some(real) = exception.real_for_text(cx)? else {
                let text = "the text of an exception with values that are not known while tracing";
                return Err(Unwind::break_graph(ReasonId::UnsupportedOperation, text));
            };
            let descriptor = descriptor.clone().unbind();
            cx.fold(|py| descriptor.bind(py).call1((real,))).map(Some)
        }
        ("with_traceback", [traceback]) => {
            cx.set_attr(this, &Rc::from("__traceback__"), Some(*traceback))?;
            Ok(Some(this))
        }
        ("__reduce__", []) if !has_more_c_fields(&ty)? => copies::reduce(cx, this).map(Some),
        ("__setstate__", [state]) => copies::set_state(cx, this, *state).map(Some),
        ("add_note", [note]) => {
            copies::add_note(cx, this, *note)?;
            Ok(Some(cx.trace.none()))
        }
        _ => Ok(None),
    }
}

/// Makes a real exception with the arguments, cause and context of one of the trace. Returns `None` if the arguments
/// are not known.
pub fn replica<'py>(cx: &mut OpcodeExecutor<'py>, exception: VarId) -> Flow<Option<Bound<'py, PyAny>>> {
    let Some(payload) = cx.see_as::<ExceptionVariable>(exception)? else { return cx.materialize(exception) };
    let Some(real) = payload.real_with_args(cx)? else { return Ok(None) };
    for name in ["__context__", "__cause__", "__suppress_context__"] {
        let Some(value) = cx.trace.effects.attribute(exception, &Rc::from(name)).flatten() else { continue };
        let value = if name == "__suppress_context__" { cx.materialize(value)? } else { replica(cx, value)? };
        if let Some(value) = value {
            real.setattr(name, value)?;
        }
    }
    Ok(Some(real))
}

impl ExceptionVariable {
    /// Returns an exception of a class whose C code keeps nothing besides the arguments.
    pub fn new(ty: &Bound<'_, PyType>, class: VarId, args: Vec<VarId>) -> Self {
        let ty = ty.clone().into_any().unbind();
        ExceptionVariable { ty, class: Some(class), args, real: None, given: None, members: None, tuple: None }
    }

    /// Returns the arguments.
    pub fn args(&self) -> &[VarId] {
        &self.args
    }

    /// Returns the exceptions of a group, as a tuple.
    pub fn members(&self) -> Option<VarId> {
        self.members
    }

    /// Returns the real exception with the same arguments, if there is one.
    pub fn real<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.real.as_ref().map(|real| real.bind(py).clone())
    }

    /// Returns the class.
    pub fn python_class<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyType>> {
        Ok(self.ty.bind(py).cast::<PyType>()?.clone())
    }

    /// Returns the variable of a real exception that was made while tracing. `given` are the arguments of the
    /// program's call, if the program made the exception.
    pub fn of_real<'py>(
        cx: &mut OpcodeExecutor<'py>,
        real: &Bound<'py, PyAny>,
        class: Option<VarId>,
        given: Option<CallArgs>,
    ) -> Flow<VarId> {
        let args = real.getattr("args")?.cast_into::<PyTuple>().map_err(PyErr::from)?;
        let args = args.iter().map(|item| cx.wrap_fresh(&item)).collect::<Flow<Vec<_>>>()?;
        let ty = real.get_type().into_any().unbind();
        let payload =
            ExceptionVariable { ty, class, args, real: Some(real.clone().unbind()), given, members: None, tuple: None };
        let exception = cx.trace.produce(Rc::new(payload));
        if let Some(name) = held_attribute(&real.get_type()) {
            let value = cx.wrap_fresh(&real.getattr(name)?)?;
            cx.trace.effects.set_attribute(exception, &Rc::from(name), Some(value));
        }
        if let Some(dict) = cpython::instance_dict(real) {
            for (name, value) in dict.iter() {
                let value = cx.wrap_fresh(&value)?;
                cx.trace.effects.set_attribute(exception, &Rc::from(name.extract::<String>()?), Some(value));
            }
        }
        Ok(exception)
    }

    /// Returns the variable of the exception that an import of the program raises, with all attributes that the
    /// interpreter sets.
    pub fn of_import<'py>(cx: &mut OpcodeExecutor<'py>, real: &Bound<'py, PyAny>) -> Flow<VarId> {
        let class = real.get_type().into_any();
        let tracker = cx.trace.trackers.constant(class.clone().unbind());
        let class = cx.trace.wrap(&class, tracker);
        let args = real.getattr("args")?.cast_into::<PyTuple>().map_err(PyErr::from)?;
        let positional = args.iter().map(|item| cx.wrap_fresh(&item)).collect::<Flow<Vec<_>>>()?;
        let mut keywords = Vec::new();
        for name in ["name", "path", "name_from"] {
            if let Some(value) = real.getattr_opt(name)?.filter(|value| !value.is_none()) {
                keywords.push((Rc::from(name), cx.wrap_fresh(&value)?));
            }
        }
        Self::of_real(cx, real, Some(class), Some(CallArgs { positional, keywords }))
    }

    /// Replaces the arguments. `tuple` is the program's own `args` tuple, if there is one.
    fn write_args(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: Vec<VarId>, tuple: Option<VarId>) {
        let (ty, members) = (self.ty.clone_ref(cx.py), self.members);
        let payload = ExceptionVariable { ty, class: self.class, args, real: None, given: None, members, tuple };
        cx.trace.vars.set(this, Rc::new(payload));
    }

    /// Returns the `args` tuple, and keeps it so that later reads give the same object.
    fn read_args(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> VarId {
        let tuple = cx.trace.tuple(self.args.clone());
        self.keep_tuple(cx, this, tuple);
        tuple
    }

    fn keep_tuple(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, tuple: VarId) {
        let payload = ExceptionVariable {
            ty: self.ty.clone_ref(cx.py),
            class: self.class,
            args: self.args.clone(),
            real: self.real.as_ref().map(|real| real.clone_ref(cx.py)),
            given: self.given.clone(),
            members: self.members,
            tuple: Some(tuple),
        };
        cx.trace.vars.set(this, Rc::new(payload));
    }

    /// Makes a real exception with the current arguments, without running code of the program.
    fn real_with_args<'py>(&self, cx: &mut OpcodeExecutor<'py>) -> Flow<Option<Bound<'py, PyAny>>> {
        if let Some(real) = &self.real {
            return Ok(Some(real.bind(cx.py).clone()));
        }
        let args = CallArgs::positional(self.args.clone());
        let Some((args, _)) = cx.materialize_args(&args)? else { return Ok(None) };
        let ty = self.ty.bind(cx.py).clone();
        let base = static_base(ty.cast::<PyType>().map_err(PyErr::from)?)?;
        let real = base.call_method1("__new__", (&ty,))?;
        cx.py.get_type::<PyBaseException>().getattr("args")?.call_method1("__set__", (&real, args))?;
        Ok(Some(real))
    }

    /// Returns the argument if it is the only one and a text: it is the text of the exception as well, and need not be
    /// known.
    fn only_text(&self, cx: &mut OpcodeExecutor<'_>, descriptor: &Bound<'_, PyAny>) -> Flow<Option<VarId>> {
        let is_plain = descriptor.getattr("__objclass__")?.is(cx.py.get_type::<PyBaseException>());
        let [text] = self.args[..] else { return Ok(None) };
        Ok((is_plain && cx.type_of(text)?.is(cx.py.get_type::<PyString>())).then_some(text))
    }

    /// Makes a real exception with the same text. Exceptions among the arguments are converted likewise, unless their
    /// classes override `__str__` or `__repr__`.
    fn real_for_text<'py>(&self, cx: &mut OpcodeExecutor<'py>) -> Flow<Option<Bound<'py, PyAny>>> {
        if let Some(real) = self.real_with_args(cx)? {
            return Ok(Some(real));
        }
        let ty = self.ty.bind(cx.py).cast::<PyType>().map_err(PyErr::from)?.clone();
        let base = static_base(&ty)?;
        if let Some(members) = self.members {
            let members = cx.unpack_all(members)?;
            let message = self.args.first().copied().map_or(Ok(None), |message| cx.known(message))?;
            let Some((message, members)) = message.zip(real_arguments(cx, &members)?) else { return Ok(None) };
            let members = PyList::new(cx.py, members)?;
            let is_tuple = self.args.get(1).is_some_and(|given| cx.trace.vars.get(*given).form() == Form::Tuple);
            let given = if is_tuple { members.to_tuple().into_any() } else { members.into_any() };
            return Ok(Some(base.call_method1("__new__", (&ty, message, given))?));
        }
        if has_more_c_fields(&ty)? {
            return Ok(None);
        }
        let Some(args) = real_arguments(cx, &self.args)? else { return Ok(None) };
        let real = base.call_method1("__new__", (&ty,))?;
        let args = PyTuple::new(cx.py, args)?;
        cx.py.get_type::<PyBaseException>().getattr("args")?.call_method1("__set__", (&real, args))?;
        Ok(Some(real))
    }

    /// Returns an attribute that C code keeps; `None` if `name` is not one.
    fn kept(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        let written = cx.trace.effects.attribute(this, name).flatten();
        Ok(match &**name {
            "args" => Some(self.tuple.unwrap_or_else(|| self.read_args(cx, this))),
            "message" if self.members.is_some() => self.args.first().copied(),
            "exceptions" if self.members.is_some() => self.members,
            "__traceback__" if cx.trace.raised.step_of(this).is_some() => Some(cx.trace.traceback(this)),
            "__cause__" | "__context__" | "__traceback__" => Some(written.unwrap_or_else(|| cx.trace.none())),
            "__suppress_context__" => Some(written.unwrap_or_else(|| cx.trace.boolean(false))),
            _ => {
                let ty = self.ty.bind(cx.py).cast::<PyType>().map_err(PyErr::from)?.clone();
                if held_attribute(&ty) != Some(&**name) {
                    return Ok(written);
                }
                Some(written.unwrap_or_else(|| cx.trace.none()))
            }
        })
    }

    /// Reads an attribute with C state from the real exception.
    fn read(&self, cx: &mut OpcodeExecutor<'_>, name: &Name) -> Flow<VarId> {
        let py = cx.py;
        let refuse = || {
            Unwind::break_graph(
                ReasonId::UnsupportedAttribute,
                format!("attribute '{name}' of an exception made by C code"),
            )
        };
        let real = self.real.as_ref().ok_or_else(refuse)?.bind(py).clone();
        // The interpreter sets these attributes on errors that it raises itself; the exception made while tracing may
        // lack them.
        let told = real.is_instance_of::<PyAttributeError>()
            || real.is_instance_of::<PyNameError>()
            || real.is_instance_of::<PyImportError>();
        if told && self.class.is_none() {
            return Err(refuse());
        }
        let value = real.getattr(&**name).map_err(|error| cx.raise(error))?;
        cx.wrap_fresh(&value)
    }
}

impl Variable for ExceptionVariable {
    fn kind(&self) -> &'static str {
        "exception"
    }

    fn form(&self) -> Form {
        Form::Exception
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.ty.bind(trace.py).clone()
    }

    fn type_tracker(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> TrackerId {
        match self.class {
            Some(class) => cx.trace.vars.tracker(class),
            None => cx.trace.trackers.constant(self.ty.clone_ref(cx.py)),
        }
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("ExceptionVariable({})", tracker::name(self.ty.bind(trace.py)))
    }

    fn children(&self) -> Vec<VarId> {
        let given = self.given.iter().flat_map(CallArgs::all);
        self.class.iter().chain(&self.args).chain(&self.members).copied().chain(given).collect()
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        let Some((found, _)) = object_model::lookup(cx, this, name)? else {
            return object_model::get_attr(cx, this, name);
        };
        if !DescriptorKind::of(&found).is_c_attribute() {
            return object_model::get_attr(cx, this, name);
        }
        if let Some(value) = self.kept(cx, this, name)? {
            return Ok(Some(value));
        }
        if matches!(&**name, "__class__" | "__dict__")
            || found.getattr("__objclass__")?.cast::<PyType>().is_ok_and(cpython::is_heap_type)
        {
            return object_model::get_attr(cx, this, name);
        }
        self.read(cx, name).map(Some)
    }

    fn set_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name, value: Option<VarId>) -> Flow<()> {
        let is_overridden = !is_method_of_c(cx, this, "__setattr__")?;
        let Some(given) = value.filter(|_| !is_overridden) else {
            return object_model::set_attr(cx, this, name, value);
        };
        match &**name {
            "args" => {
                let ty = self.ty.bind(cx.py).cast::<PyType>().map_err(PyErr::from)?.clone();
                if has_more_c_fields(&ty)? && !is_simple_holder(&ty) {
                    let text = "the arguments of an exception that C code keeps more of";
                    return Err(Unwind::break_graph(ReasonId::UnsupportedMutation, text));
                }
                let args = cx.unpack_all(given)?;
                let tuple = is_tuple(cx, given)?.then_some(given);
                self.write_args(cx, this, args, tuple);
            }
            "__cause__" | "__context__" if !is_none(cx, given)? && !is_exception(cx, given)? => {
                return object_model::set_attr(cx, this, name, value);
            }
            "__cause__" => {
                let suppressed = cx.trace.boolean(true);
                cx.trace.effects.set_attribute(this, name, value);
                cx.trace.effects.set_attribute(this, &Rc::from("__suppress_context__"), Some(suppressed));
            }
            "__context__" => cx.trace.effects.set_attribute(this, name, value),
            "__suppress_context__" if cx.type_of(given)?.is(cx.py.get_type::<PyBool>()) => {
                cx.trace.effects.set_attribute(this, name, value);
            }
            // Setting the traceback that the exception already has is no write.
            "__traceback__" if traceback_of(&cx.trace, given) == Some(this) => {}
            "__traceback__" if traceback::set_traceback(cx, this, given)? => {}
            "__traceback__" => {
                let text = "an exception is given another traceback";
                return Err(Unwind::break_graph(ReasonId::UnsupportedMutation, text));
            }
            _ => return object_model::set_attr(cx, this, name, value),
        }
        Ok(())
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        // A raised exception has a traceback, which new code could not rebuild.
        if cg.trace().raised.step_of(this).is_some() {
            return Err(cg.plan_to_raise(this));
        }
        let py = cg.py();
        let class = self.class.map_or_else(|| Argument::Constant(self.ty.clone_ref(py)), Argument::from);
        let ty = self.ty.bind(py).cast::<PyType>().map_err(PyErr::from)?.clone();
        if let Some(given) = self.given.as_ref().filter(|given| !given.keywords.is_empty()) {
            let keywords = Argument::keywords(py, &given.keywords);
            emit_call(cg, rebuild::apply, [class, Argument::tuple(&given.positional), keywords])?;
        } else if self.real.is_some() && has_more_c_fields(&ty)? {
            let args = self.given.as_ref().map_or(&self.args, |given| &given.positional).clone();
            cg.call(|cg| cg.load_argument(class), &args)?;
        } else {
            let new = static_base(&ty)?.getattr("__new__")?.unbind();
            let mut args = self.args.clone();
            if let (Some(members), [_, given]) = (self.members, &mut args[..]) {
                *given = members;
            }
            cg.call(|cg| cg.load_const(new), std::iter::once(class).chain(args.iter().map(Argument::from)))?;
        }
        cg.define(this)?;
        // A group is made of a tuple, because the list that the program gave may change. Its `args` have that list.
        let is_made_of_others = self.members.is_some_and(|members| !self.args.contains(&members));
        // `MemoryError.__new__` may hand out an object that was made before, without the arguments.
        let is_made_before = ty.is(py.get_type::<PyMemoryError>()) && !self.args.is_empty();
        let given = (is_made_of_others || is_made_before).then(|| Argument::tuple(&self.args));
        match self.tuple.map(Argument::from).or(given) {
            Some(tuple) => {
                let set = py.get_type::<PyBaseException>().getattr("args")?.getattr("__set__")?.unbind();
                cg.call(|cg| cg.load_const(set), [this.into(), tuple])?;
                cg.op(Op::POP_TOP, 0)
            }
            None => Ok(()),
        }
    }
}

/// Returns real arguments, in which exceptions of the trace are replaced by real ones of the same text.
fn real_arguments<'py>(cx: &mut OpcodeExecutor<'py>, args: &[VarId]) -> Flow<Option<Vec<Bound<'py, PyAny>>>> {
    let mut real = Vec::with_capacity(args.len());
    for &arg in args {
        let found = match cx.see_as::<ExceptionVariable>(arg)? {
            Some(exception) => {
                if !is_method_of_c(cx, arg, "__str__")? || !is_method_of_c(cx, arg, "__repr__")? {
                    return Ok(None);
                }
                sequence::nested(|| exception.real_for_text(cx)).ok_or_else(sequence::endless)??
            }
            None => cx.materialize(arg)?,
        };
        let Some(found) = found else { return Ok(None) };
        real.push(found);
    }
    Ok(Some(real))
}

/// Returns the exception whose traceback the variable is.
fn traceback_of(trace: &Trace<'_>, variable: VarId) -> Option<VarId> {
    match trace.vars.as_kind::<BookkeepingVariable>(variable).as_deref() {
        Some(BookkeepingVariable::Traceback(exception)) => Some(*exception),
        _ => None,
    }
}

fn is_tuple(cx: &mut OpcodeExecutor<'_>, variable: VarId) -> Flow<bool> {
    Ok(cx.type_of(variable)?.is(cx.py.get_type::<PyTuple>()))
}

pub(super) fn is_none(cx: &mut OpcodeExecutor<'_>, variable: VarId) -> Flow<bool> {
    Ok(cx.known(variable)?.is_some_and(|value| value.is_none()))
}

fn is_exception(cx: &mut OpcodeExecutor<'_>, variable: VarId) -> Flow<bool> {
    let ty = cx.type_of(variable)?;
    Ok(ty.cast::<PyType>().is_ok_and(|ty| cpython::is_subtype(ty, &cx.py.get_type::<PyBaseException>())))
}

/// True if the special method of the value's class is one of C. Guards the method.
fn is_method_of_c(cx: &mut OpcodeExecutor<'_>, this: VarId, name: &str) -> Flow<bool> {
    let Some((found, tracker)) = object_model::lookup(cx, this, &Rc::from(name))? else { return Ok(false) };
    object_model::guard_identity(cx, &found, tracker);
    Ok(DescriptorKind::of(&found) == DescriptorKind::SlotWrapper)
}
