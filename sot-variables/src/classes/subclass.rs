//! Instances of subclasses of builtin types (`class Stack(list)`, `defaultdict`, members of an `IntEnum`). The state
//! of the builtin base is a variable of its own, the storage: a plain list, dict, set, deque or value. C methods of
//! the base work on the storage. Everything else follows the object model, so that overridden methods are called.

use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};
use sot_core::builtin;
use sot_core::bytecode::Op;
use sot_core::cpython;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, CallArgs, Name, OpcodeExecutor, Trace};
use sot_core::guard::{Identity, Test};
use sot_core::tracker::{self, repr, Tracker, TrackerId};
use sot_core::variable::{Argument, Form, Rebuild};
use sot_core::variable::{GraphArgument, VarId, Variable};

use crate::builtins::{conversion, receive};
use crate::containers::deque::DequeVariable;
use crate::containers::dict;
use crate::containers::hash_key::HashKey;
use crate::containers::list;
use crate::containers::set::SetVariable;
use crate::containers::tuple_class;
use crate::iterators::rebuild;

sot_core::variable_kind! { "subclass", of any class, rank: 45, when: is_subclass_object, wrap: SubclassVariable::wrap }

/// Mutable builtin types whose state subclasses inherit, with the method that fills a new instance. If several match,
/// the first is used.
const MUTABLE: &[(&str, &str, &str)] = &[
    ("collections", "OrderedDict", "update"),
    ("builtins", "dict", "update"),
    ("builtins", "list", "extend"),
    ("builtins", "set", "update"),
    DEQUE,
];
const DEQUE: (&str, &str, &str) = ("collections", "deque", "__init__");
const VALUES: &[&str] = &["str", "int", "float", "complex", "bytes", "frozenset"];

/// The builtin type that a subclass inherits its storage from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BuiltinBase {
    /// A container: module, name, and the method that fills a new one.
    Container(&'static str, &'static str, &'static str),
    /// An immutable value.
    Value(&'static str),
}

impl BuiltinBase {
    /// Returns the base of a proper subclass; `None` for the builtin types themselves and other classes.
    fn of(ty: &Bound<'_, PyType>) -> PyResult<Option<BuiltinBase>> {
        if !inherits_storage(ty) {
            return Ok(None);
        }
        let all = MUTABLE.iter().map(|&(module, name, fill)| BuiltinBase::Container(module, name, fill));
        for base in all.chain(VALUES.iter().map(|name| BuiltinBase::Value(name))) {
            let own = base.ty(ty.py())?;
            if ty.mro().iter().any(|class| class.is(&own)) {
                return Ok((!ty.is(&own)).then_some(base));
            }
        }
        Ok(None)
    }

    fn is_deque(self) -> bool {
        matches!(self, BuiltinBase::Container(_, name, _) if name == DEQUE.1)
    }

    fn ty(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        match self {
            BuiltinBase::Container(module, name, _) => cpython::import(py, module)?.getattr(name),
            BuiltinBase::Value(name) => cpython::builtin(py, name),
        }
    }
}

/// A quick check before the classes of the MRO are compared one by one.
fn inherits_storage(ty: &Bound<'_, PyType>) -> bool {
    // Some static types have no MRO yet; `defaultdict` is the only subclass among them that matters here.
    (cpython::is_heap_type(ty) || cpython::type_name(ty) == "defaultdict")
        && ty.mro().iter().any(|class| class.cast::<PyType>().is_ok_and(is_base))
}

fn is_base(ty: &Bound<'_, PyType>) -> bool {
    let name = cpython::type_name(ty);
    // `deque` is a heap type from 3.12 on.
    let deque = &*name == DEQUE.1;
    (deque || !cpython::is_heap_type(ty))
        && (MUTABLE.iter().any(|(_, base, _)| *base == &*name) || VALUES.contains(&&*name))
}

/// Deques of a subclass are excluded: guards read the storage of lists, dicts and sets directly, but would call
/// methods of a deque's class.
fn is_subclass_object(object: &Bound<'_, PyAny>) -> bool {
    matches!(BuiltinBase::of(&object.get_type()), Ok(Some(base)) if !base.is_deque())
}

/// An instance of a subclass of a builtin type.
pub struct SubclassVariable {
    class: Option<VarId>,
    ty: Py<PyAny>,
    base: BuiltinBase,
    storage: VarId,
    object: Option<Py<PyAny>>,
}

/// Returns the storage of an instance of a subclass; `None` for other values.
pub fn storage_of(cx: &mut OpcodeExecutor<'_>, object: VarId) -> Flow<Option<VarId>> {
    Ok(cx.see_as::<SubclassVariable>(object)?.map(|object| object.storage))
}

/// Returns the operand as C code of the base sees it: the storage, for an instance of a subclass.
pub fn seen_by_base(cx: &mut OpcodeExecutor<'_>, operand: VarId) -> Flow<VarId> {
    Ok(storage_of(cx, operand)?.unwrap_or(operand))
}

/// Returns the underlying value of an instance of a subclass of an immutable type.
pub fn value_of<'py>(cx: &mut OpcodeExecutor<'py>, object: VarId) -> Flow<Option<Bound<'py, PyAny>>> {
    match cx.see_as::<SubclassVariable>(object)?.map(|object| (object.base, object.storage)) {
        Some((BuiltinBase::Value(_), storage)) => cx.known(storage),
        _ => Ok(None),
    }
}

/// Returns the instance that the storage belongs to, or the variable itself if it is not a storage.
pub fn owner_of(trace: &Trace<'_>, storage: VarId) -> VarId {
    trace.vars.owner_of_storage(storage).unwrap_or(storage)
}

/// Breaks the graph for an operation in C that would call one of these methods, if the class of the variable, or of the
/// instance that the storage belongs to, overrides it.
pub fn refuse_overriding(cx: &mut OpcodeExecutor<'_>, storage: VarId, asked: &[&str], what: &str) -> Flow<()> {
    let owner = owner_of(&cx.trace, storage);
    let payload = cx.see(owner)?;
    let (ty, of) = (payload.python_type(&cx.trace), payload.type_tracker(cx, owner));
    let class = ty.cast::<PyType>().map_err(PyErr::from)?;
    let Some(base) = class.mro().iter().find_map(|base| base.cast_into::<PyType>().ok().filter(is_builtin_base)) else {
        return Ok(());
    };
    if base.is(class) || object_model::inherits(cx, (&ty, of), &base, asked)? {
        return Ok(());
    }
    let text = format!("{what} of a class that overrides {}", asked.join(" or "));
    Err(Unwind::break_graph(ReasonId::UnsupportedCall, text))
}

/// True for the builtin types whose instances hold a value or items.
fn is_builtin_base(class: &Bound<'_, PyType>) -> bool {
    is_base(class) || class.is(class.py().get_type::<PyTuple>())
}

/// Returns the receiver, if a C method of a text returns it although it is of a subclass; `None` for other results.
/// That is so where the method writes nothing but the text itself (`_PyUnicodeWriter_Finish`).
pub fn unchanged_text(
    cx: &mut OpcodeExecutor<'_>,
    descriptor: &Bound<'_, PyAny>,
    (receiver, storage): (VarId, VarId),
    result: VarId,
) -> Flow<Option<VarId>> {
    let Some(text) = cx.known_str(storage)?.filter(|text| !text.is_empty()) else { return Ok(None) };
    let marks: &[char] = match &*descriptor.getattr("__name__")?.extract::<String>()? {
        "__mod__" => &['%'],
        "format_map" => &['{', '}'],
        "__format__" => &[],
        _ => return Ok(None),
    };
    let is_whole = !text.contains(marks) && cx.known_str(result)?.is_some_and(|result| result == text);
    Ok(is_whole.then_some(receiver))
}

/// Returns the arguments of a C method with the receiver replaced by its storage; also the receiver and the storage.
pub fn with_storage(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<Option<(CallArgs, VarId, VarId)>> {
    let Some((&receiver, rest)) = args.positional.split_first() else { return Ok(None) };
    let Some(storage) = storage_of(cx, receiver)? else { return Ok(None) };
    let rest = CallArgs { positional: rest.to_vec(), keywords: args.keywords.clone() };
    Ok(Some((rest.with_receiver(storage), receiver, storage)))
}

/// Methods of `OrderedDict` that call overridden methods of a subclass, and which.
const ASKING: &[(&str, &[&str])] = &[
    ("__init__", &["__setitem__"]),
    ("update", &["__setitem__"]),
    ("__ior__", &["__setitem__"]),
    ("setdefault", &["__contains__", "__getitem__", "__setitem__"]),
    ("pop", &["__contains__", "__getitem__", "__delitem__"]),
    ("popitem", &["__contains__", "__getitem__", "__delitem__"]),
];

/// Methods of `OrderedDict` that make another instance of the subclass.
const MAKING: &[&str] = &["copy", "__or__", "__ror__", "__reduce__"];

/// Methods of `deque` that make another instance of the subclass.
const MAKING_DEQUES: &[&str] = &["copy", "__copy__", "__add__", "__mul__", "__rmul__", "__reduce__"];

/// Simulates methods of `OrderedDict` and `deque` that call overridden methods of the subclass, or make new instances
/// of it. Returns `None` if the method can run on the storage.
pub fn by_own_methods(
    cx: &mut OpcodeExecutor<'_>,
    descriptor: &Bound<'_, PyAny>,
    args: &CallArgs,
    storage: VarId,
) -> Flow<Option<VarId>> {
    let name: String = descriptor.getattr("__name__")?.extract()?;
    if cx.see_as::<DequeVariable>(storage)?.is_some() && MAKING_DEQUES.contains(&&*name) {
        let text = format!("{name}() of a deque of a class derived from it");
        return Err(Unwind::break_graph(ReasonId::UnsupportedCall, text));
    }
    if !dict::by_keys(cx, storage)?.is_some_and(|dict| dict.ordered) {
        return Ok(None);
    }
    let gives = args.positional.len() > 1 || !args.keywords.is_empty();
    let asked = ASKING.iter().find(|(asking, _)| *asking == name && (gives || name == "popitem"));
    let (receiver, base) = (args.positional[0], cx.type_of(storage)?);
    let mut own = MAKING.contains(&&*name);
    for asked in asked.map_or(&[][..], |(_, asked)| *asked) {
        let Some((found, tracker)) = object_model::lookup(cx, receiver, &Rc::from(*asked))? else { continue };
        own = own || !base.getattr(*asked)?.is(&found);
        object_model::guard_identity(cx, &found, tracker);
    }
    if !own {
        return Ok(None);
    }
    if matches!(&*name, "__init__" | "update") {
        if let Some(pairs) = pairs_of(cx, args)? {
            for (key, value) in pairs {
                cx.set_item(receiver, key, value)?;
            }
            return Ok(Some(cx.trace.none()));
        }
    }
    let text = format!("{name}() of an OrderedDict of a class derived from it");
    Err(Unwind::break_graph(ReasonId::UnsupportedCall, text))
}

/// Returns the pairs that `OrderedDict.update` takes from a dict and keywords; `None` for other arguments
/// (`mutablemapping_update` in `Objects/odictobject.c`).
fn pairs_of(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<Option<Vec<(VarId, VarId)>>> {
    let mut pairs = Vec::new();
    match args.positional[..] {
        [_] => {}
        [_, given] if cx.type_of(given)?.is(cx.py.get_type::<PyDict>()) => {
            let items = cx.call_method(given, "items", &[])?;
            for pair in cx.unpack_all(items)? {
                if let [key, value] = cx.unpack_all(pair)?[..] {
                    pairs.push((key, value));
                }
            }
        }
        _ => return Ok(None),
    }
    for (keyword, value) in &args.keywords {
        pairs.push((cx.trace.string(keyword), *value));
    }
    Ok(Some(pairs))
}

/// Simulates `__missing__`, which `dict.__getitem__` calls for a missing key if the receiver is of a subclass.
pub fn missing(
    cx: &mut OpcodeExecutor<'_>,
    descriptor: &Bound<'_, PyAny>,
    receiver: VarId,
    args: &CallArgs,
) -> Flow<Option<VarId>> {
    let [storage, key] = args.positional[..] else { return Ok(None) };
    let name: String = descriptor.getattr("__name__")?.extract()?;
    if name != "__getitem__" || dict::by_keys(cx, storage)?.is_none() {
        return Ok(None);
    }
    let found = HashKey::of(cx, key)?;
    if dict::value_of(cx, storage, &found)?.is_some() || !cx.has_special(receiver, "__missing__")? {
        return Ok(None);
    }
    object_model::call_special(cx, receiver, "__missing__", &[key]).map(Some)
}

constructors! { new;
    LIST = "list.__new__";
    DICT = "dict.__new__";
    SET = "set.__new__";
    STR = "str.__new__";
    INT = "int.__new__";
    FLOAT = "float.__new__";
    COMPLEX = "complex.__new__";
    BYTES = "bytes.__new__";
    FROZENSET = "frozenset.__new__";
    DEQUE_NEW = "collections:deque.__new__";
}

builtin! { LIST_INIT = "list.__init__" => |cx, args| {
    let (this, [items]) = receive(cx, args, "list", "__init__", 0)?;
    let items = match items {
        Some(items) => {
            conversion::ask_length_first(cx, items)?;
            cx.unpack_into_list(items)?
        }
        None => Vec::new(),
    };
    list::write(cx, this, items)?;
    Ok(cx.trace.none())
} }

builtin! { DICT_INIT = "dict.__init__" => |cx, args| fill_dict(cx, args) }
builtin! { ORDERED_INIT = "collections:OrderedDict.__init__" => |cx, args| fill_dict(cx, args) }

/// Simulates `dict.__init__`, which does not clear the dict.
pub(crate) fn fill_dict(cx: &mut OpcodeExecutor<'_>, args: &CallArgs) -> Flow<VarId> {
    let this = args
        .positional
        .first()
        .copied()
        .ok_or_else(|| Unwind::break_graph(ReasonId::UnsupportedCall, "dict.__init__() without a dict"))?;
    if args.positional.len() > 1 || !args.keywords.is_empty() {
        cx.call_method_with(
            this,
            "update",
            &CallArgs { positional: args.positional[1..].to_vec(), keywords: args.keywords.clone() },
        )?;
    }
    Ok(cx.trace.none())
}

builtin! { SET_INIT = "set.__init__" => |cx, args| {
    let (this, [items]) = receive(cx, args, "set", "__init__", 0)?;
    cx.call_method(this, "clear", &[])?;
    if let Some(items) = items {
        cx.call_method(this, "update", &[items])?;
    }
    Ok(cx.trace.none())
} }

/// Simulates `base.__new__(class, ...)`: containers start empty, immutable values are made from the arguments.
fn new(cx: &mut OpcodeExecutor<'_>, path: &str, args: &CallArgs) -> Flow<VarId> {
    let refuse = || Unwind::break_graph(ReasonId::UnsupportedCall, "__new__() of an unknown class");
    let (&class, rest) = args.positional.split_first().ok_or_else(refuse)?;
    let object = cx.see(class)?.object().map(|object| object.bind(cx.py).clone()).ok_or_else(refuse)?;
    let ty = object.cast::<PyType>().map_err(|_| refuse())?.clone();
    let rest = CallArgs { positional: rest.to_vec(), keywords: args.keywords.clone() };
    let Some(base) = BuiltinBase::of(&ty)? else {
        let own = path.rsplit(':').next().unwrap_or(path);
        if !own.starts_with(&format!("{}.", cpython::type_name(&ty))) {
            // Another type implemented in C: CPython raises a `TypeError` if calling this `__new__` is not safe.
            return Err(refuse());
        }
        // The builtin type itself: for an immutable value, `__new__` does the same as a call.
        let none = CallArgs::default();
        let is_value = VALUES.contains(&&*cpython::type_name(&ty));
        return cx.call(class, if is_value { &rest } else { &none });
    };
    let storage = match base {
        BuiltinBase::Container(..) => call_type(cx, base, &CallArgs::default())?,
        BuiltinBase::Value(_) => call_type(cx, base, &rest)?,
    };
    let ty = ty.into_any().unbind();
    Ok(cx.trace.produce(Rc::new(SubclassVariable { class: Some(class), ty, base, storage, object: None })))
}

fn call_type(cx: &mut OpcodeExecutor<'_>, base: BuiltinBase, args: &CallArgs) -> Flow<VarId> {
    let ty = base.ty(cx.py)?;
    let tracker = cx.trace.trackers.constant(ty.clone().unbind());
    let ty = cx.trace.wrap(&ty, tracker);
    cx.call(ty, args)
}

impl SubclassVariable {
    fn wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, of: TrackerId) -> Flow<Rc<dyn Variable>> {
        let object = object.clone().unbind().into_bound(cx.py);
        let refuse = || Unwind::break_graph(ReasonId::UnsupportedOperation, "an object whose class changed");
        let base = BuiltinBase::of(&object.get_type())?.ok_or_else(refuse)?;
        let storage = match base {
            BuiltinBase::Container(..) => {
                let ty = base.ty(cx.py)?;
                let kind = cx.runtime.kinds.of_type(&ty).ok_or_else(refuse)?;
                let of = cx.trace.trackers.add(Tracker::AsBuiltinBase { of });
                let payload = cx.runtime.kinds.wrap(kind, cx, &object, of)?;
                let storage = cx.trace.vars.add(payload, of);
                cx.trace.identities.keeps(&object, storage);
                storage
            }
            BuiltinBase::Value(_) => {
                // The value is immutable, so guarding the object's identity suffices.
                if cx.trace.trackers.is_sourced(of) {
                    cx.refuse_keeping_alive(&object)?;
                    cx.trace.guards.add(of, Test::Is(Identity::of(&object)));
                }
                let value = plain_value(base, &object)?;
                cx.wrap_fresh(&value)?
            }
        };
        let ty = object.get_type().into_any().unbind();
        Ok(Rc::new(SubclassVariable { class: None, ty, base, storage, object: Some(object.unbind()) }))
    }
}

/// Returns the underlying value as an instance of the builtin type, without running code of the program.
fn plain_value<'py>(base: BuiltinBase, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let ty = base.ty(object.py())?;
    match base {
        BuiltinBase::Value("str") => ty.call_method1("__str__", (object,))?.call_method1("__add__", ("",)),
        BuiltinBase::Value("int") => ty.call_method1("__int__", (object,)),
        BuiltinBase::Value("float") => ty.call_method1("__float__", (object,)),
        BuiltinBase::Value("bytes") => {
            ty.call_method1("__add__", (object, pyo3::types::PyBytes::new(object.py(), b"")))
        }
        BuiltinBase::Value("complex") => ty.call_method1("__pos__", (object,)),
        _ => cpython::copy_of_set(object, true),
    }
}

impl Variable for SubclassVariable {
    fn kind(&self) -> &'static str {
        "subclass"
    }

    fn form(&self) -> Form {
        Form::Subclass
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn storage(&self) -> Option<VarId> {
        Some(self.storage)
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        self.ty.bind(trace.py).clone()
    }

    fn type_tracker(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> TrackerId {
        match self.class {
            Some(class) => cx.trace.vars.tracker(class),
            None => object_model::type_tracker(cx, this, self.python_type(&cx.trace)),
        }
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        match &self.object {
            Some(object) => format!("SubclassVariable({})", repr(trace.py, object)),
            None => format!("SubclassVariable(new, {})", tracker::name(self.ty.bind(trace.py))),
        }
    }

    fn object(&self) -> Option<&Py<PyAny>> {
        self.object.as_ref()
    }

    /// Attributes served by a getter of the builtin base are read from the storage.
    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        let keeps = self.base.is_deque() || matches!(self.base, BuiltinBase::Value(_));
        if let Some((found, tracker)) = object_model::lookup(cx, this, name)?.filter(|_| keeps) {
            let is_getter = matches!(cpython::builtin_type_name(&found), "getset_descriptor" | "member_descriptor");
            if is_getter && found.getattr("__objclass__")?.is(self.base.ty(cx.py)?) {
                object_model::guard_identity(cx, &found, tracker);
                return cx.get_attr(self.storage, name).map(Some);
            }
        }
        object_model::get_attr(cx, this, name)
    }

    fn children(&self) -> Vec<VarId> {
        self.class.into_iter().chain([self.storage]).collect()
    }

    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<GraphArgument> {
        let (ty, of) = (self.python_type(&cx.trace), self.type_tracker(cx, this));
        object_model::refuse_own_methods(cx, ty.cast().map_err(PyErr::from)?)?;
        tuple_class::assume_runs_no_code(cx, &ty, of)?;
        if matches!(self.base, BuiltinBase::Container(_, "list", _)) {
            return cx.see(self.storage)?.graph_argument(cx, self.storage);
        }
        if self.object.is_some() && !cx.trace.vars.is_mutated(self.storage) {
            return object_model::graph_argument(cx, this, self.object());
        }
        let text = self.text(&cx.trace);
        match self.base {
            BuiltinBase::Value("int" | "float" | "complex") => cx.see(self.storage)?.graph_argument(cx, self.storage),
            _ => Err(Unwind::break_graph(
                ReasonId::UnsupportedCall,
                format!("{text} as an argument of a graph operation"),
            )),
        }
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let class = self.class.ok_or_else(|| Unwind::fallback(ReasonId::CannotRestore, "an object without a class"))?;
        let py = cg.py();
        let base = self.base.ty(py)?;
        let new = base.getattr("__new__")?.unbind();
        match self.base {
            BuiltinBase::Value(_) => {
                cg.call(|cg| cg.load_const(new), [class, self.storage])?;
                cg.define(this)?;
            }
            _ if self.base.is_deque() => {
                cg.call(|cg| cg.load_const(new), [class])?;
                cg.define(this)?;
                let init = base.getattr("__init__")?.unbind();
                let deque = cg.trace().vars.as_kind::<DequeVariable>(self.storage);
                let maxlen = deque.map_or_else(|| Ok(Argument::none(py)), |deque| deque.maxlen_argument(py))?;
                cg.call(|cg| cg.load_const(init), [this.into(), self.storage.into(), maxlen])?;
                cg.op(Op::POP_TOP, 0)?;
            }
            BuiltinBase::Container(module, _, fill) => {
                // `OrderedDict.update` calls `__setitem__` of the subclass; the other bases do not.
                let overridden = module == "collections" && own_setitem(self.ty.bind(py), &base)?;
                cg.call(|cg| cg.load_const(new), [class])?;
                cg.define(this)?;
                let mut fill = if overridden { rebuild::ordered(py)? } else { base.getattr(fill)?.unbind() };
                cg.makes_whole(self.storage);
                let mut items = Argument::from(self.storage);
                if let Some(set) = cg.trace().vars.as_kind::<SetVariable>(self.storage) {
                    let (arranged, ordered) = set.rebuilding(cg.trace())?;
                    items = Argument::tuple(ordered);
                    fill = arranged.map_or(Ok(fill), |arranged| arranged.getattr(py, "fill"))?;
                }
                cg.call(|cg| cg.load_const(fill), [this.into(), items])?;
                cg.op(Op::POP_TOP, 0)?;
            }
        }
        Ok(())
    }
}

/// True if a subclass overrides `__setitem__`.
fn own_setitem(ty: &Bound<'_, PyAny>, base: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(!cpython::class_attr(ty, "__setitem__")?.is(base.getattr("__setitem__")?))
}
