//! Binding of arguments to parameters by CPython's rules (`Python/ceval.c`, `initialize_locals`), with CPython's error
//! messages.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySlice, PyTuple};
use rustc_hash::FxHashMap;

use super::inline::FunctionParts;
use super::{CallArgs, CodeUnit, Name, OpcodeExecutor};
use crate::bytecode::flags::{STARRED, VARARGS, VARKEYWORDS};
use crate::cpython;
use crate::error::{Flow, ReasonId, Unwind};
use crate::machine::variable::VarId;

/// Returns the argument slots of a frame: positional parameters, keyword-only ones, `*args`, `**kwargs`.
pub(super) fn bind(cx: &mut OpcodeExecutor<'_>, function: &FunctionParts, args: &CallArgs) -> Flow<Vec<Option<VarId>>> {
    Binder { function, code: &function.code, slots: vec![None; function.code.code.total_args()] }.run(cx, args)
}

struct Binder<'a> {
    function: &'a FunctionParts,
    code: &'a Rc<CodeUnit>,
    slots: Vec<Option<VarId>>,
}

impl Binder<'_> {
    fn run(mut self, cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<Vec<Option<VarId>>> {
        let code = &self.code.code;
        let (positional, named) = (code.arg_count as usize, (code.arg_count + code.kwonly_count) as usize);
        let (varargs, varkeywords) = (code.flags & VARARGS != 0, code.flags & VARKEYWORDS != 0);

        let direct = args.positional.len().min(positional);
        for (slot, &value) in self.slots.iter_mut().zip(&args.positional[..direct]) {
            *slot = Some(value);
        }
        let rest = args.positional[direct..].to_vec();
        let Some(extra) = self.bind_keywords(args, named, varkeywords) else { return Err(self.refuse(cx, args)?) };
        if !rest.is_empty() && !varargs || !self.fill_defaults(cx, positional, named)? {
            return Err(self.refuse(cx, args)?);
        }
        if varargs {
            self.slots[named] = Some(cx.trace.tuple(rest));
        }
        if varkeywords {
            let payload = (cx.runtime.factories.keyword_dict)(cx, extra)?;
            let last = self.slots.len() - 1;
            self.slots[last] = Some(cx.trace.produce(payload));
        }
        Ok(self.slots)
    }

    /// Binds the keyword arguments, and returns those for `**kwargs`. `None` if a keyword names no parameter, and
    /// there is no `**kwargs`, or names one that has a value.
    fn bind_keywords(&mut self, args: &CallArgs, named: usize, varkeywords: bool) -> Option<Vec<(Name, VarId)>> {
        let posonly = self.code.code.posonly_count as usize;
        let mut extra = Vec::new();
        let places: FxHashMap<&Name, usize> = if args.keywords.is_empty() {
            FxHashMap::default()
        } else {
            (posonly..named).map(|slot| (&self.code.varnames()[slot], slot)).collect()
        };
        for (name, value) in &args.keywords {
            let slot = places.get(name).copied();
            match slot {
                Some(slot) if self.slots[slot].is_none() => self.slots[slot] = Some(*value),
                None if varkeywords => extra.push((Rc::clone(name), *value)),
                _ => return None,
            }
        }
        Some(extra)
    }

    /// Gives unbound parameters their defaults. Returns whether all parameters have values.
    fn fill_defaults(&mut self, cx: &mut OpcodeExecutor<'_>, positional: usize, named: usize) -> Flow<bool> {
        for slot in 0..named {
            if self.slots[slot].is_none() {
                self.slots[slot] = self.default(cx, slot, positional)?;
            }
        }
        Ok(self.slots[..named].iter().all(Option::is_some))
    }

    fn default(&self, cx: &mut OpcodeExecutor<'_>, slot: usize, positional: usize) -> Flow<Option<VarId>> {
        if slot < positional {
            return (self.function.default)(cx, slot);
        }
        (self.function.keyword_default)(cx, &self.code.varnames()[slot])
    }

    /// Returns CPython's own error for these arguments, raised by a function with the same parameters and an empty
    /// body.
    fn refuse(&self, cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<Unwind> {
        let py = cx.py;
        let (code, own) = (&self.code.code, self.code.object.bind(py));
        let (positional, named) = (code.arg_count as usize, (code.arg_count + code.kwonly_count) as usize);
        let (defaults, keyword_defaults) = (PyList::empty(py), PyDict::new(py));
        for slot in 0..named {
            match self.default(cx, slot, positional)? {
                Some(_) if slot < positional => defaults.append(py.None())?,
                Some(_) => keyword_defaults.set_item(&*self.code.varnames()[slot], py.None())?,
                None => {}
            }
        }
        let changes = PyDict::new(py);
        for part in ["co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_name"] {
            changes.set_item(part, own.getattr(part)?)?;
        }
        changes.set_item("co_nlocals", code.total_args())?;
        changes.set_item(
            "co_varnames",
            own.getattr("co_varnames")?.get_item(PySlice::new(py, 0, code.total_args() as isize, 1))?,
        )?;
        let nothing = py.eval(c"(lambda: None).__code__", None, None)?;
        let flags: u32 = nothing.getattr("co_flags")?.extract()?;
        changes.set_item("co_flags", flags | code.flags & STARRED)?;
        let nothing = nothing.call_method("replace", (), Some(&changes))?;
        let function = cpython::import(py, "types")?.getattr("FunctionType")?;
        let function = function.call1((nothing, PyDict::new(py), &code.name, defaults.to_tuple()))?;
        function.setattr("__kwdefaults__", keyword_defaults)?;
        let known = match &self.function.function {
            Some(function) => function.bind(py).getattr("__qualname__").ok(),
            None => {
                let name = cx.get_attr(self.function.variable, &Rc::from("__qualname__"))?;
                cx.known(name)?
            }
        };
        match known {
            Some(name) => function.setattr("__qualname__", name)?,
            None => function.setattr("__qualname__", &code.qualname)?,
        }
        let keywords = PyDict::new(py);
        for (name, _) in &args.keywords {
            keywords.set_item(&**name, py.None())?;
        }
        let given = PyTuple::new(py, args.positional.iter().map(|_| py.None()))?;
        Ok(match function.call(given, Some(&keywords)) {
            Err(error) => cx.raise(error),
            Ok(_) => Unwind::break_graph(ReasonId::UnsupportedCall, "arguments that do not fit the parameters"),
        })
    }
}
