//! Functions made in the trace by `def` and `lambda`.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFunction, PyString, PyTuple, PyType};
use sot_core::bytecode::flags::GENERATOR;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{
    object_model, CallArgs, FunctionParts, Globals, Name, OpcodeExecutor, OpcodeInlineExecutor, Trace,
};
use sot_core::side_effects::key_of_entry;
use sot_core::tracker::{Key, Tracker};
use sot_core::variable::{Argument, Form, Rebuild, VarId, Variable};

use crate::classes::stand_in;
use crate::containers::dict::DictVariable;
use crate::containers::tuple::TupleVariable;
use crate::functions::function::function_type;
use crate::functions::generator;
use crate::functions::method;
use crate::iterators::or_object_type;

/// The operands of `MAKE_FUNCTION`.
#[derive(Clone, Copy)]
pub struct NewFunction {
    /// The code object, a constant.
    pub code: VarId,
    /// The qualified name, where the interpreter passes it (before 3.11).
    pub name: Option<VarId>,
    /// Tuple of defaults.
    pub defaults: Option<VarId>,
    /// Dict of keyword-only defaults.
    pub keyword_defaults: Option<VarId>,
    /// Annotations: a dict, or a flat tuple of names and values (3.10+).
    pub annotations: Option<VarId>,
    /// Tuple of cells.
    pub closure: Option<VarId>,
}

/// A function made in the trace.
struct NewFunctionVariable {
    new: NewFunction,
    globals: Globals,
}

/// Makes a function variable for `MAKE_FUNCTION`. Breaks the graph if the frame's globals are a dict made in the
/// trace.
pub fn build(cx: &mut OpcodeExecutor<'_>, new: NewFunction) -> Flow<VarId> {
    if cx.stack.frame().global_names.is_some() {
        let text = "a function whose globals are a dict made in the function";
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
    }
    let globals = cx.stack.frame().globals.share(cx.py);
    Ok(cx.trace.produce(Rc::new(NewFunctionVariable { new, globals })))
}

/// Raises CPython's own `TypeError` for a label of the wrong type, such as a `__name__` that is not a string.
fn refuse_label(cx: &mut OpcodeExecutor<'_>, name: &Name, value: VarId) -> Flow<()> {
    let py = cx.py;
    let expected = match &**name {
        "__name__" | "__qualname__" => py.get_type::<PyString>(),
        "__annotations__" => py.get_type::<PyDict>(),
        "__type_params__" => py.get_type::<PyTuple>(),
        _ => return Ok(()),
    };
    let ty = cx.type_of(value)?;
    let fits = ty.cast::<PyType>().is_ok_and(|ty| cpython::is_subtype(ty, &expected));
    if fits || cx.known(value)?.is_some_and(|value| value.is_none() && &**name == "__annotations__") {
        return Ok(());
    }
    let function =
        cpython::import(py, "functools")?.getattr("wraps")?.cast_into::<PyFunction>().map_err(PyErr::from)?;
    let empty = function_type(py)?.call1((cpython::function_code(&function), PyDict::new(py)))?;
    // CPython's message does not depend on the object that is refused.
    empty.setattr(&**name, py.get_type::<PyAny>().call0()?).map_err(|error| cx.raise(error))
}

impl NewFunctionVariable {
    fn parts(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<FunctionParts> {
        let code = cx.known(self.new.code)?;
        let code =
            code.ok_or_else(|| Unwind::break_graph(ReasonId::UnsupportedCall, "a function with unknown code"))?;
        let code = cx.code_unit(&code)?;
        let closure = match self.new.closure {
            Some(cells) => cx.unpack_all(cells)?,
            None => Vec::new(),
        };
        let (first, new) = (code.code.arg_count as usize, self.new);
        Ok(FunctionParts {
            variable: this,
            function: None,
            code,
            globals: self.globals.share(cx.py),
            closure,
            default: Box::new(move |cx, slot| {
                let Some(defaults) = new.defaults else { return Ok(None) };
                let defaults = cx.unpack_all(defaults)?;
                Ok((slot + defaults.len()).checked_sub(first).and_then(|index| defaults.get(index).copied()))
            }),
            keyword_default: Box::new(move |cx, name| {
                let Some(defaults) = new.keyword_defaults else { return Ok(None) };
                let found = cx.keyword_items(defaults)?.into_iter().find(|(key, _)| key == name);
                Ok(found.map(|(_, value)| value))
            }),
        })
    }
}

/// Returns the parts of a function made in the trace; `None` for other functions.
pub(crate) fn parts_of_new(cx: &mut OpcodeExecutor<'_>, function: VarId) -> Flow<Option<FunctionParts>> {
    match cx.see_as::<NewFunctionVariable>(function)? {
        Some(new) => new.parts(cx, function).map(Some),
        None => Ok(None),
    }
}

/// Makes a real function that stands for one made in the trace. Clears `exact` if a part of the function had to be
/// approximated.
pub(crate) fn stand_in<'py>(
    cx: &mut OpcodeExecutor<'py>,
    function: VarId,
    exact: &mut bool,
) -> Flow<Option<Bound<'py, PyAny>>> {
    let Some(made) = cx.see_as::<NewFunctionVariable>(function)? else { return Ok(None) };
    let new = made.new;
    let part = |cx: &mut OpcodeExecutor<'py>, part: Option<VarId>, exact: &mut bool| match part {
        Some(part) => stand_in::of(cx, part, exact),
        None => Ok(cx.py.None().into_bound(cx.py)),
    };
    let (code, defaults) = (part(cx, Some(new.code), exact)?, part(cx, new.defaults, exact)?);
    let closure = part(cx, new.closure, exact)?;
    let globals = made.globals.dict.bind(cx.py).clone();
    let real = function_type(cx.py)?.call1((code, globals, cx.py.None(), defaults, closure))?;
    cx.trace.stand_for(&real, function);
    if new.keyword_defaults.is_some() {
        real.setattr("__kwdefaults__", part(cx, new.keyword_defaults, exact)?)?;
    }
    if new.name.is_some() {
        real.setattr("__qualname__", part(cx, new.name, exact)?)?;
    }
    if let Some(annotations) = new.annotations {
        let annotations = annotations_dict(cx, annotations)?;
        real.setattr("__annotations__", stand_in::of(cx, annotations, exact)?)?;
    }
    for (name, value) in cx.trace.effects.attributes_of(function) {
        let value = stand_in::of(cx, value, exact)?;
        match key_of_entry(&name) {
            Some(key) => real.getattr("__dict__")?.set_item(key, value)?,
            None => real.setattr(&*name, value)?,
        }
    }
    Ok(Some(real))
}

/// Attributes that describe a function; calls of the function do not depend on them.
pub(super) const LABELS: &[&str] =
    &["__name__", "__qualname__", "__module__", "__doc__", "__annotations__", "__type_params__"];

impl NewFunctionVariable {
    /// Returns an attribute that C code keeps of a function, as it is before any write; `None` for other names.
    fn kept(&self, cx: &mut OpcodeExecutor<'_>, name: &Name) -> Flow<Option<VarId>> {
        let py = cx.py;
        let new = self.new;
        let code = cx.known(new.code)?;
        let code = |name: &str| match &code {
            Some(code) => code.getattr(name),
            None => Err(pyo3::exceptions::PyRuntimeError::new_err("a function without code")),
        };
        Ok(Some(match &**name {
            "__code__" => new.code,
            "__name__" => cx.trace.constant(code("co_name")?.unbind()),
            "__qualname__" => match new.name {
                Some(name) => name,
                None => cx.trace.constant(code("co_qualname")?.unbind()),
            },
            "__doc__" => {
                let first = code("co_consts")?.get_item(0).ok().filter(Bound::is_instance_of::<PyString>);
                cx.trace.constant(first.map_or_else(|| py.None(), Bound::unbind))
            }
            "__module__" => match self.globals.dict.bind(py).get_item("__name__")? {
                Some(module) => {
                    let key = Key::Str("__name__".into());
                    let tracker = cx.trace.trackers.add(Tracker::Item { of: self.globals.tracker, key });
                    cx.trace.wrap(&module, tracker)
                }
                None => cx.trace.none(),
            },
            "__globals__" => {
                let globals = self.globals.dict.bind(py).clone().into_any();
                cx.trace.wrap(&globals, self.globals.tracker)
            }
            "__defaults__" => new.defaults.unwrap_or_else(|| cx.trace.none()),
            "__kwdefaults__" => new.keyword_defaults.unwrap_or_else(|| cx.trace.none()),
            "__closure__" => new.closure.unwrap_or_else(|| cx.trace.none()),
            "__annotations__" => match new.annotations {
                Some(annotations) => annotations_dict(cx, annotations)?,
                None => {
                    let empty = DictVariable::from_keywords(cx, Vec::new())?;
                    cx.trace.produce(empty)
                }
            },
            "__type_params__" if function_type(py)?.hasattr("__type_params__")? => cx.trace.tuple(Vec::new()),
            _ => return Ok(None),
        }))
    }
}

sot_core::builtin! { GET = "types:FunctionType.__get__" => |cx, args| {
    let (function, object) = match args.positional[..] {
        [function, object] | [function, object, _] if args.keywords.is_empty() => (function, object),
        _ => return Err(Unwind::break_graph(ReasonId::UnsupportedCall, "__get__() with these arguments")),
    };
    if cx.known(object)?.is_some_and(|object| object.is_none()) {
        return Ok(function);
    }
    let method = (cx.runtime.factories.method)(function, object);
    Ok(cx.trace.produce(method))
} }

/// Returns the annotations as a dict; from 3.10 on `MAKE_FUNCTION` is given a flat tuple.
fn annotations_dict(cx: &mut OpcodeExecutor<'_>, annotations: VarId) -> Flow<VarId> {
    if cx.see(annotations)?.form() != Form::Tuple {
        return Ok(annotations);
    }
    let mut entries = Vec::new();
    for pair in cx.unpack_all(annotations)?.chunks_exact(2) {
        let name = cx.known_str(pair[0])?;
        let name = name.ok_or_else(|| Unwind::fallback(ReasonId::CannotRestore, "an annotation without a name"))?;
        entries.push((Rc::from(name), pair[1]));
    }
    let dict = DictVariable::from_keywords(cx, entries)?;
    Ok(cx.trace.produce(dict))
}

/// Returns the annotations as an argument for new code.
fn annotations_argument(trace: &Trace<'_>, annotations: VarId) -> Argument {
    let Some(flat) = trace.vars.as_kind::<TupleVariable>(annotations) else { return annotations.into() };
    let pairs = flat.items.chunks_exact(2);
    Argument::Dict(pairs.map(|pair| (pair[0].into(), pair[1].into())).collect())
}

impl Variable for NewFunctionVariable {
    fn kind(&self) -> &'static str {
        "function"
    }

    fn form(&self) -> Form {
        Form::Function
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        or_object_type(trace, function_type(trace.py))
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("FunctionVariable(new, {})", trace.text(self.new.code))
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        if &**name == "__call__" {
            return method::call_of(cx, this);
        }
        if let Some(written) = cx.trace.effects.attribute(this, name) {
            return Ok(written);
        }
        match self.kept(cx, name)? {
            Some(value) => {
                // Recorded as written, so that every read gives the same dict.
                if &**name == "__annotations__" {
                    cx.trace.effects.set_attribute(this, name, Some(value));
                }
                Ok(Some(value))
            }
            None => object_model::get_attr(cx, this, name),
        }
    }

    fn set_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name, value: Option<VarId>) -> Flow<()> {
        if let Some(label) = value.filter(|_| LABELS.contains(&&**name)) {
            refuse_label(cx, name, label)?;
            cx.trace.effects.set_attribute(this, name, value);
            return Ok(());
        }
        if &**name == "__dict__" {
            let text = "the __dict__ of a function is replaced";
            return Err(Unwind::break_graph(ReasonId::UnsupportedMutation, text));
        }
        object_model::set_attr(cx, this, name, value)
    }

    fn call(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, args: &CallArgs) -> Flow<VarId> {
        let parts = self.parts(cx, this)?;
        let result = OpcodeInlineExecutor::new(cx).call(&parts, args)?;
        if parts.code.code.flags & GENERATOR != 0 {
            generator::name_after(cx, result, this)?;
        }
        Ok(result)
    }

    fn children(&self) -> Vec<VarId> {
        let new = &self.new;
        [new.defaults, new.keyword_defaults, new.annotations, new.closure].into_iter().flatten().collect()
    }

    fn prepare(&self, cx: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<()> {
        self.new.annotations.map_or(Ok(()), |annotations| cx.see(annotations).map(drop))
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let make = function_type(cg.py())?.unbind();
        let py = cg.py();
        let or_none = |value: Option<VarId>| value.map_or_else(|| Argument::none(py), Argument::from);
        let (name, new) = (self.new.name, self.new);
        cg.begin_call(|cg| cg.load_const(make))?;
        cg.load(new.code)?;
        cg.load_globals(self.globals.tracker)?;
        cg.load_const(py.None())?;
        cg.load_argument(or_none(new.defaults))?;
        cg.load_argument(or_none(new.closure))?;
        cg.end_call(5)?;
        cg.define(this)?;
        if new.keyword_defaults.is_some() {
            cg.store_attr(this, "__kwdefaults__", new.keyword_defaults.map(Argument::from))?;
        }
        if name.is_some() {
            cg.store_attr(this, "__qualname__", name.map(Argument::from))?;
        }
        if let Some(annotations) = new.annotations {
            let annotations = annotations_argument(cg.trace(), annotations);
            cg.store_attr(this, "__annotations__", Some(annotations))?;
        }
        Ok(())
    }
}
