//! Binding of arguments to parameters, as CPython does it (`Python/ceval.c`, `initialize_locals`), errors included.

use std::rc::Rc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use super::inline::FunctionParts;
use super::{CallArgs, CodeUnit, Name, OpcodeExecutor};
use crate::error::{Flow, Unwind};
use crate::variable::VarId;

/// `CO_VARARGS`
const VARARGS: u32 = 0x04;
/// `CO_VARKEYWORDS`
const VARKEYWORDS: u32 = 0x08;

/// The argument slots of a frame: positional parameters, keyword-only ones, `*args`, `**kwargs`.
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
        let extra = self.bind_keywords(cx, args, named, varkeywords)?;
        if !rest.is_empty() && !varargs {
            return Err(self.too_many(cx, args.positional.len()));
        }
        self.fill_defaults(cx, positional, named)?;
        if varargs {
            self.slots[named] = Some(cx.tuple(rest));
        }
        if varkeywords {
            let payload = (cx.runtime.factories.keyword_dict)(cx, extra)?;
            let last = self.slots.len() - 1;
            self.slots[last] = Some(cx.produce(payload));
        }
        Ok(self.slots)
    }

    fn bind_keywords(
        &mut self,
        cx: &mut OpcodeExecutor<'_>,
        args: &CallArgs,
        named: usize,
        varkeywords: bool,
    ) -> Flow<Vec<(Name, VarId)>> {
        let posonly = self.code.code.posonly_count as usize;
        let mut extra = Vec::new();
        for (name, value) in &args.keywords {
            let slot = (posonly..named).find(|&slot| self.code.varnames[slot] == *name);
            match slot {
                Some(slot) if self.slots[slot].is_some() => {
                    return Err(self.error(cx, &format!("got multiple values for argument '{name}'")));
                }
                Some(slot) => self.slots[slot] = Some(*value),
                None if varkeywords => extra.push((Rc::clone(name), *value)),
                None => return Err(self.error(cx, &format!("got an unexpected keyword argument '{name}'"))),
            }
        }
        Ok(extra)
    }

    fn fill_defaults(&mut self, cx: &mut OpcodeExecutor<'_>, positional: usize, named: usize) -> Flow<()> {
        let mut missing = Vec::new();
        for slot in 0..positional {
            if self.slots[slot].is_none() {
                self.slots[slot] = (self.function.default)(cx, slot)?;
                if self.slots[slot].is_none() {
                    missing.push(Rc::clone(&self.code.varnames[slot]));
                }
            }
        }
        self.report_missing(cx, &missing, "positional")?;
        for slot in positional..named {
            if self.slots[slot].is_none() {
                let name = Rc::clone(&self.code.varnames[slot]);
                self.slots[slot] = (self.function.keyword_default)(cx, &name)?;
                if self.slots[slot].is_none() {
                    missing.push(name);
                }
            }
        }
        self.report_missing(cx, &missing, "keyword-only")
    }

    fn report_missing(&self, cx: &mut OpcodeExecutor<'_>, missing: &[Name], what: &str) -> Flow<()> {
        if missing.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = missing.iter().map(|name| format!("'{name}'")).collect();
        let list = match names.as_slice() {
            [one] => one.clone(),
            [a, b] => format!("{a} and {b}"),
            [head @ .., last] => format!("{}, and {last}", head.join(", ")),
            [] => String::new(),
        };
        let plural = if missing.len() == 1 { "" } else { "s" };
        let count = missing.len();
        Err(self.error(cx, &format!("missing {count} required {what} argument{plural}: {list}")))
    }

    fn too_many(&self, cx: &mut OpcodeExecutor<'_>, given: usize) -> Unwind {
        let takes = self.code.code.arg_count;
        let plural = if takes == 1 { "" } else { "s" };
        let was = if given == 1 { "was" } else { "were" };
        self.error(cx, &format!("takes {takes} positional argument{plural} but {given} {was} given"))
    }

    fn error(&self, cx: &mut OpcodeExecutor<'_>, what: &str) -> Unwind {
        let code = &self.code.code;
        let own =
            || self.function.function.as_ref()?.bind(cx.py).getattr("__qualname__").ok()?.extract::<String>().ok();
        let name = if cx.runtime.version.0 < 10 { &code.name } else { &own().unwrap_or_else(|| code.qualname.clone()) };
        cx.raise(PyTypeError::new_err(format!("{name}() {what}")))
    }
}
