//! Calls.

use std::rc::Rc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyModule, PyTuple, PyType};

use super::{folding, limits, object_model, warnings, Name, OpcodeExecutor, Trace};
use crate::backend::{CallPolicy, GivenArguments};
use crate::cpython;
use crate::error::{Flow, ReasonId, Unwind};
use crate::fault;
use crate::machine::variable::{VarId, Variable};
use crate::policy::MAX_NESTED;
use crate::resume_point::{is_callee_caller, Finish, SpecialResult};

/// The arguments of a call, in order.
#[derive(Clone, Default, Debug)]
pub struct CallArgs {
    /// Positional arguments.
    pub positional: Vec<VarId>,
    /// Keyword arguments in the order given.
    pub keywords: Vec<(Name, VarId)>,
}

impl CallArgs {
    /// Positional arguments only.
    pub fn positional(positional: Vec<VarId>) -> CallArgs {
        CallArgs { positional, keywords: Vec::new() }
    }

    /// Splits items as a call leaves them on the stack: the last ones are the values for `names`. `None` if there are
    /// too few.
    pub fn split(mut items: Vec<VarId>, names: Vec<Name>) -> Option<CallArgs> {
        let values = items.split_off(items.len().checked_sub(names.len())?);
        Some(CallArgs { positional: items, keywords: names.into_iter().zip(values).collect() })
    }

    /// Returns the arguments with `receiver` as an additional first argument.
    #[must_use]
    pub fn with_receiver(&self, receiver: VarId) -> CallArgs {
        let positional = std::iter::once(receiver).chain(self.positional.iter().copied()).collect();
        CallArgs { positional, keywords: self.keywords.clone() }
    }

    /// All arguments.
    pub fn all(&self) -> impl Iterator<Item = VarId> + '_ {
        self.positional.iter().copied().chain(self.keywords.iter().map(|(_, value)| *value))
    }

    /// The argument at this position or with this name.
    pub fn at_or_named(&self, at: usize, name: &str) -> Option<VarId> {
        let named = || self.keywords.iter().find(|(keyword, _)| &**keyword == name).map(|(_, value)| *value);
        self.positional.get(at).copied().or_else(named)
    }

    /// Returns exactly `N` positional arguments. Breaks the graph at any others, so that CPython raises its own
    /// error.
    pub fn exactly<const N: usize>(&self, function: &str) -> Flow<[VarId; N]> {
        let positional = <[VarId; N]>::try_from(self.positional.clone()).ok().filter(|_| self.keywords.is_empty());
        positional.ok_or_else(|| misfit(function))
    }

    /// Returns arguments by position or name, of which the first `required` of `names` must be given. Breaks the
    /// graph at any others.
    pub fn named<const N: usize>(&self, function: &str, names: [&str; N], required: usize) -> Flow<[Option<VarId>; N]> {
        let mut slots = [None; N];
        if self.positional.len() > N {
            return Err(misfit(function));
        }
        for (slot, &value) in slots.iter_mut().zip(&self.positional) {
            *slot = Some(value);
        }
        for (name, value) in &self.keywords {
            match names.iter().position(|n| *n == &**name) {
                Some(at) if slots[at].is_none() => slots[at] = Some(*value),
                _ => return Err(misfit(function)),
            }
        }
        if slots.iter().take(required).any(Option::is_none) {
            return Err(misfit(function));
        }
        Ok(slots)
    }
}

fn misfit(function: &str) -> Unwind {
    Unwind::break_graph(ReasonId::UnsupportedCall, format!("{function}() with arguments that it does not take"))
}

impl<'py> OpcodeExecutor<'py> {
    /// `callable(*args)`
    pub fn call(&mut self, callable: VarId, args: &CallArgs) -> Flow<VarId> {
        self.claims.retain_claim_on(callable);
        let payload = self.see(callable)?;
        // Before registrations are looked up, because a registration may make a further call.
        limits::refuse_full_stack()?;
        if self.limits.nesting == MAX_NESTED {
            return Err(Unwind::fallback(ReasonId::TraceTooLong, "calls nested too deeply"));
        }
        self.limits.nesting += 1;
        let result = call_seen(self, callable, &payload, args);
        self.limits.nesting -= 1;
        result
    }

    /// `callable(*args)`, as all that the present instruction does.
    pub fn call_directly(&mut self, callable: VarId, args: &CallArgs) -> Flow<VarId> {
        self.claims.direct(callable, Finish::Keep);
        self.call(callable, args)
    }

    /// `callable(*args)`, as all that a call of `this` does.
    pub fn call_instead_of(&mut self, this: VarId, callable: VarId, args: &CallArgs) -> Flow<VarId> {
        self.claims.pass(this, callable);
        self.call(callable, args)
    }

    /// `object.name(*args)`
    pub fn call_method(&mut self, object: VarId, name: &str, args: &[VarId]) -> Flow<VarId> {
        let method = self.get_attr(object, &Rc::from(name))?;
        self.call(method, &CallArgs::positional(args.to_vec()))
    }

    /// `object.name(...)`
    pub fn call_method_with(&mut self, object: VarId, name: &str, args: &CallArgs) -> Flow<VarId> {
        let method = self.get_attr(object, &Rc::from(name))?;
        self.call(method, args)
    }

    /// `callable(*args, **kwargs)` with packed arguments, as all that the present instruction does.
    pub fn call_packed(&mut self, callable: VarId, args: VarId, kwargs: Option<VarId>) -> Flow<VarId> {
        if !object_model::is_iterable(self, args)? {
            return Err(Unwind::break_graph(ReasonId::UnsupportedCall, "`*` of an object that is not iterable"));
        }
        let positional = self.unpack_all(args)?;
        let keywords = match kwargs {
            Some(kwargs) => self.keyword_items(kwargs)?,
            None => Vec::new(),
        };
        self.call_directly(callable, &CallArgs { positional, keywords })
    }

    /// Calls the method `keys` of a mapping. Breaks the graph if it is not callable, because CPython's message for
    /// that depends on the release.
    pub fn call_keys(&mut self, keys: VarId) -> Flow<VarId> {
        if !self.has_special(keys, "__call__")? {
            let text = "a mapping with `keys` that cannot be called";
            return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
        }
        self.call(keys, &CallArgs::default())
    }

    /// Returns the entries of a mapping with string keys, for `**`.
    pub fn keyword_items(&mut self, mapping: VarId) -> Flow<Vec<(Name, VarId)>> {
        let mut keywords = Vec::new();
        let keys = if self.type_of(mapping)?.is(self.py.get_type::<PyDict>()) {
            mapping
        } else if let Some(keys) = self.find_attr(mapping, &Rc::from("keys"))? {
            self.call_keys(keys)?
        } else {
            return Err(Unwind::break_graph(ReasonId::UnsupportedCall, "`**` of an object that is not a mapping"));
        };
        for key in self.unpack_all(keys)? {
            let Some(name) = self.known_str(key)? else {
                return Err(Unwind::break_graph(
                    ReasonId::UnsupportedCall,
                    "`**` of a mapping whose keys are not plain strings",
                ));
            };
            let value = self.get_item(mapping, key)?;
            keywords.push((Rc::from(name), value));
        }
        Ok(keywords)
    }

    /// Calls a C function: as the program has registered it, by its handler, or by folding if it is `pure` and all
    /// arguments are known. Breaks the graph at any other.
    pub fn call_builtin(&mut self, function: &Bound<'py, PyAny>, args: &CallArgs, pure: bool) -> Flow<VarId> {
        if let Some(result) = self.call_registered(None, function, args)? {
            return Ok(result);
        }
        if args.keywords.is_empty() && is_of_numbers(function)? {
            if let Some(number) = self.open_call(function, &args.positional)? {
                return Ok(number);
            }
        }
        if let Some(result) = self.runtime.builtins.call(self, function, args) {
            return result;
        }
        if pure {
            if let Some(result) = fold_call(self, function, args)? {
                return Ok(result);
            }
        }
        let name = name_of_c_function(function);
        Err(Unwind::break_graph(ReasonId::UnsupportedCall, format!("call of {name}, which cannot be simulated")))
    }

    /// Asks the backend what a call means.
    pub fn call_policy(&mut self, callable: &Bound<'py, PyAny>, args: &CallArgs) -> Flow<CallPolicy> {
        let backend = self.runtime.backend();
        let mut given = AskedArguments { cx: self, args, unwind: None };
        let policy = fault::in_backend(|| backend.call_policy(callable, &mut given));
        given.unwind.map_or(Ok(policy), Err)
    }

    /// Returns the arguments as real objects; `None` if something in them is not known.
    pub fn materialize_args(&mut self, args: &CallArgs) -> Flow<Option<(Bound<'py, PyTuple>, Bound<'py, PyDict>)>> {
        let mut positional = Vec::new();
        for &arg in &args.positional {
            match self.materialize(arg)? {
                Some(value) => positional.push(value),
                None => return Ok(None),
            }
        }
        let keywords = PyDict::new(self.py);
        for (name, arg) in &args.keywords {
            match self.materialize(*arg)? {
                Some(value) => keywords.set_item(&**name, value)?,
                None => return Ok(None),
            }
        }
        Ok(Some((PyTuple::new(self.py, positional)?, keywords)))
    }
}

fn call_seen(cx: &mut OpcodeExecutor<'_>, callable: VarId, payload: &Rc<dyn Variable>, args: &CallArgs) -> Flow<VarId> {
    if let Some(object) = payload.object() {
        if let Some(result) = cx.call_registered(Some(callable), object.bind(cx.py), args)? {
            return Ok(result);
        }
        if let (Some(answer), &[value]) = (SpecialResult::checked_by(object.bind(cx.py)), &args.positional[..]) {
            return object_model::checked(cx, answer, value);
        }
        if let ([callee, rest @ ..], true) = (&args.positional[..], is_callee_caller(object.bind(cx.py))) {
            return cx.call_instead_of(callable, *callee, &CallArgs::positional(rest.to_vec()));
        }
    }
    payload.call(cx, callable, args)
}

/// Folds a call of a pure function; `None` if something in its arguments is not known.
pub(super) fn fold_call<'py>(
    cx: &mut OpcodeExecutor<'py>,
    function: &Bound<'py, PyAny>,
    args: &CallArgs,
) -> Flow<Option<VarId>> {
    let Some((positional, keywords)) = cx.materialize_args(args)? else { return Ok(None) };
    let copies: Vec<_> = positional.iter().filter(is_mutable).collect();
    let result = call_on_copies(&cx.trace, function, positional, keywords, &copies)?;
    folding::outcome(cx, result).map(Some)
}

/// Like `fold_call`, for a function that is pure only according to the program. Also breaks the graph if the call
/// changes an argument, or returns a part of one that may change.
pub(super) fn fold_registered<'py>(
    cx: &mut OpcodeExecutor<'py>,
    function: &Bound<'py, PyAny>,
    args: &CallArgs,
) -> Flow<Option<VarId>> {
    let Some((positional, keywords)) = cx.materialize_args(args)? else { return Ok(None) };
    let mut copies = Vec::new();
    for (copy, arg) in positional.iter().chain(keywords.values().iter()).zip(args.all()) {
        if !mutable_parts(&copy).is_empty() {
            let before = cx.materialize(arg)?;
            copies.push((copy, before));
        }
    }
    let (copies, before): (Vec<_>, Vec<_>) = copies.into_iter().unzip();
    let result = call_on_copies(&cx.trace, function, positional, keywords, &copies)?;
    let refuse = |what: &str| {
        let name = crate::tracker::name(function);
        let text = format!("{name}, which is registered as pure, {what}");
        Err(Unwind::break_graph(ReasonId::UnsupportedCall, text))
    };
    let is_unchanged = |(copy, before): (&Bound<'py, PyAny>, &Option<Bound<'py, PyAny>>)| {
        before.as_ref().is_some_and(|before| copy.eq(before).unwrap_or(false))
    };
    if !copies.iter().zip(&before).all(is_unchanged) {
        return refuse("changes an argument");
    }
    if let Ok(result) = &result {
        let given: Vec<_> = copies.iter().flat_map(mutable_parts).collect();
        if mutable_parts(result).iter().any(|part| given.iter().any(|given| given.is(part))) {
            return refuse("returns a part of an argument, which may change");
        }
    }
    folding::outcome(cx, result).map(Some)
}

/// Calls a pure function with copies of the arguments; `copies` are those that may change. Breaks the graph if the
/// result keeps one of these: it would not show later changes of the argument.
fn call_on_copies<'py>(
    trace: &Trace<'py>,
    function: &Bound<'py, PyAny>,
    positional: Bound<'py, PyTuple>,
    keywords: Bound<'py, PyDict>,
    copies: &[Bound<'py, PyAny>],
) -> Flow<PyResult<Bound<'py, PyAny>>> {
    let before: Vec<_> = copies.iter().map(cpython::refcount).collect();
    let call = move || function.call(positional, Some(&keywords));
    let result = warnings::unless_it_warns(trace.py, call)?;
    if result.is_ok() && copies.iter().zip(before).any(|(copy, before)| cpython::refcount(copy) >= before) {
        let name = crate::tracker::repr(trace.py, &function.clone().unbind());
        let text = format!("call of {name}, whose result keeps an argument that may change");
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
    }
    Ok(result)
}

/// Returns the objects that may change among an object and what it consists of.
fn mutable_parts<'py>(object: &Bound<'py, PyAny>) -> Vec<Bound<'py, PyAny>> {
    fn collect<'py>(object: &Bound<'py, PyAny>, into: &mut Vec<Bound<'py, PyAny>>) {
        if cpython::is_atom(object) || into.iter().any(|known| known.is(object)) || !cpython::has_stack_to_go_on() {
            return;
        }
        if is_mutable(object) {
            into.push(object.clone());
        }
        if let Ok(dict) = object.cast_exact::<PyDict>() {
            dict.values().iter().for_each(|value| collect(&value, into));
        } else if let Ok(list) = object.cast_exact::<PyList>() {
            list.iter().for_each(|item| collect(&item, into));
        } else if let Ok(tuple) = object.cast_exact::<PyTuple>() {
            tuple.iter().for_each(|item| collect(&item, into));
        }
    }
    let mut parts = Vec::new();
    collect(object, &mut parts);
    parts
}

/// The arguments of a call as a backend asks for them.
struct AskedArguments<'a, 'py> {
    cx: &'a mut OpcodeExecutor<'py>,
    args: &'a CallArgs,
    /// The first error of a look at an argument.
    unwind: Option<Unwind>,
}

impl<'py> AskedArguments<'_, 'py> {
    fn look(&mut self, at: usize, name: &str) -> Option<Bound<'py, PyAny>> {
        let argument = self.args.at_or_named(at, name)?;
        match self.cx.known(argument) {
            Ok(known) => known,
            Err(unwind) => {
                self.unwind.get_or_insert(unwind);
                None
            }
        }
    }
}

impl GivenArguments for AskedArguments<'_, '_> {
    fn positional(&self) -> usize {
        self.args.positional.len()
    }

    fn names(&self) -> Vec<&str> {
        self.args.keywords.iter().map(|(name, _)| &**name).collect()
    }

    fn is_given(&mut self, at: usize, name: &str) -> bool {
        self.args.at_or_named(at, name).is_some() && !self.look(at, name).is_some_and(|value| value.is_none())
    }

    fn known(&mut self, at: usize, name: &str) -> Option<Py<PyAny>> {
        self.look(at, name).map(Bound::unbind)
    }
}

/// True if the function is from `math`, whose functions return numbers for numbers.
fn is_of_numbers(function: &Bound<'_, PyAny>) -> PyResult<bool> {
    let module = function.getattr_opt(intern!(function.py(), "__module__"))?;
    Ok(module.is_some_and(|module| module.extract::<&str>().is_ok_and(|module| module == "math")))
}

/// True if the object's type has no hash, as mutable types have none.
fn is_mutable(object: &Bound<'_, PyAny>) -> bool {
    let hash = cpython::type_lookup(&object.get_type(), intern!(object.py(), "__hash__"));
    hash.is_some_and(|hash| hash.is_none())
}

/// Returns the name of a C function as the program would write it: `module.name` or `Class.name`; its text, if it is
/// neither a function of a module nor a method.
fn name_of_c_function(function: &Bound<'_, PyAny>) -> String {
    let part = |object: &Bound<'_, PyAny>, name: &str| object.getattr(name).ok()?.extract::<String>().ok();
    let owner = || {
        let owner = function.getattr("__self__").or_else(|_| function.getattr("__objclass__")).ok()?;
        if owner.is_instance_of::<PyModule>() {
            return part(&owner, "__name__");
        }
        let class = owner.cast_into::<PyType>().unwrap_or_else(|error| error.into_inner().get_type());
        part(class.as_any(), "__qualname__")
    };
    match (owner(), part(function, "__name__")) {
        (Some(owner), Some(name)) => format!("{owner}.{name}"),
        _ => crate::tracker::repr(function.py(), function.as_unbound()),
    }
}
