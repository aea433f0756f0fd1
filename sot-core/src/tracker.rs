//! Trackers: where a value of the trace comes from. They form a DAG whose roots are the frame's arguments, free
//! variables, globals and builtins. One tracker has several renderings made from the same value: the native fetch
//! (`guard::program`), the readable text (here) and the bytecode that loads it (`codegen::load`), so they cannot drift
//! apart.

use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFunction, PyString, PyTuple, PyType, PyWeakrefReference};
use rustc_hash::FxHashMap;

use crate::cpython::{self, Part};
use crate::entity::VarId;
use crate::foreign::Foreign;
use crate::operators::{BinaryOp, CompareOp};
use crate::value_path::{PathStep, ValuePath};

pub use crate::entity::TrackerId;

/// The globals a frame reads.
pub struct Globals {
    /// The dict.
    pub dict: Py<PyDict>,
    /// Where the dict comes from.
    pub tracker: TrackerId,
}

impl Globals {
    /// Another handle on the same globals.
    #[must_use]
    pub fn share(&self, py: Python<'_>) -> Globals {
        Globals { dict: self.dict.clone_ref(py), tracker: self.tracker }
    }
}

/// A Python object compared by identity.
#[derive(Debug)]
pub struct ById(pub Py<PyAny>);

impl ById {
    /// The address, which the object keeps while something holds it.
    fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }
}

impl PartialEq for ById {
    fn eq(&self, other: &Self) -> bool {
        self.0.is(&other.0)
    }
}

impl Eq for ById {}

impl Hash for ById {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_ptr().hash(state);
    }
}

/// Key of an item: what stands between the brackets.
#[derive(PartialEq, Eq, Hash, Debug)]
pub enum Key {
    /// Position in a list or tuple, or an integer key of a dict.
    Index(i64),
    /// Position in a list from its end: 1 is the last.
    Last(usize),
    /// String key of a dict.
    Str(Rc<str>),
    /// Any other hashable constant.
    Object(ById),
}

/// What is done with numbers, or texts of them, of which the trace assumes no values.
#[derive(PartialEq, Eq, Hash, Debug)]
pub enum Computation {
    /// `a op b`
    Binary(BinaryOp),
    /// `a op b`, a comparison
    Compare(CompareOp),
    /// `function(*of)`, for a pure function of C code
    Call(ById),
}

impl Computation {
    /// Another handle on the same.
    #[must_use]
    pub fn clone_ref(&self, py: Python<'_>) -> Computation {
        match self {
            Computation::Binary(op) => Computation::Binary(*op),
            Computation::Compare(op) => Computation::Compare(*op),
            Computation::Call(function) => Computation::Call(ById(function.0.clone_ref(py))),
        }
    }

    /// Does it. Of values that are no numbers or texts the program's code might be asked: of those there is no result.
    pub fn apply<'py>(&self, of: &[Bound<'py, PyAny>]) -> Option<Bound<'py, PyAny>> {
        let known = |value: &Bound<'py, PyAny>| cpython::is_number(value) || value.is_exact_instance_of::<PyString>();
        match (self, of) {
            (Computation::Call(function), of) if of.iter().all(known) => {
                function.0.bind(of.first()?.py()).call1(PyTuple::new(of[0].py(), of).ok()?).ok()
            }
            (Computation::Binary(op), [a, b]) if known(a) && known(b) => op.apply(a, b).ok(),
            (Computation::Compare(op), [a, b]) if known(a) && known(b) => op.apply(a, b).ok(),
            _ => None,
        }
    }

    fn text(&self, py: Python<'_>, of: &[String]) -> String {
        match (self, of) {
            (Computation::Binary(op), [a, b]) => format!("({a} {} {b})", op.symbol()),
            (Computation::Compare(op), [a, b]) => format!("({a} {} {b})", op.symbol()),
            (Computation::Call(function), of) => format!("{}({})", name(function.0.bind(py)), of.join(", ")),
            _ => String::new(),
        }
    }
}

/// Where a value comes from.
#[derive(PartialEq, Eq, Hash, Debug)]
pub enum Tracker {
    /// Argument of the translated frame.
    Local {
        /// Position in `co_varnames`.
        slot: u32,
        /// Name of the parameter.
        name: Rc<str>,
    },
    /// The cell of a free variable of the translated frame.
    FreeCell {
        /// Position in `co_freevars`.
        index: u32,
        /// Name of the variable.
        name: Rc<str>,
    },
    /// The globals dict of the translated frame.
    Globals,
    /// The builtins dict of the translated frame.
    Builtins,
    /// A constant of the code or of the trace.
    Constant(ById),
    /// An object that guards have found as a key, and that lives as long as the program wants: what comes of the trace
    /// refers to it weakly.
    Found(ById),
    /// An entry of the object's own `__dict__` (instances and modules).
    Attribute {
        /// The object.
        of: TrackerId,
        /// The entry.
        name: Rc<str>,
    },
    /// What the type's method resolution order finds; no descriptor is run.
    Lookup {
        /// The type.
        of: TrackerId,
        /// What is looked up.
        name: Rc<str>,
    },
    /// An attribute served by a C descriptor (a slot, a getter).
    Getattr {
        /// The object.
        of: TrackerId,
        /// The attribute.
        name: Rc<str>,
    },
    /// What a function made by `functools.lru_cache` has for these arguments.
    Cached {
        /// The function.
        of: TrackerId,
        /// What it keeps their value under.
        key: ById,
        /// The positional arguments, a tuple.
        args: ById,
        /// The keyword arguments, a dict.
        keywords: ById,
    },
    /// `type(x)`
    Type {
        /// The object.
        of: TrackerId,
    },
    /// An item of a list, tuple or dict (exactly these types, or their storage in a subclass).
    Item {
        /// The container.
        of: TrackerId,
        /// What stands between the brackets.
        key: Key,
    },
    /// Contents of a cell.
    CellContents {
        /// The cell.
        of: TrackerId,
    },
    /// A part of a function or method.
    Part {
        /// The function or method.
        of: TrackerId,
        /// Which part.
        part: Part,
    },
    /// What the base of an object's class keeps in it: the object, but no method of its class is asked for what is in
    /// it, nor for its attributes.
    Storage {
        /// The object.
        of: TrackerId,
    },
    /// Length of a list.
    Length {
        /// The list.
        of: TrackerId,
    },
    /// What an iterator of C code is about to give.
    Upcoming {
        /// The iterator.
        of: TrackerId,
        /// After so many other items.
        after: usize,
        /// Whether it makes the item then, as `zip` does: another each time it is looked at.
        is_new: bool,
    },
    /// What an iterator of C code goes over: a sequence, or one of the iterators that it puts together.
    Iterated {
        /// The iterator.
        of: TrackerId,
        /// Which of them.
        index: usize,
    },
    /// Computed from other numbers, which may differ from call to call.
    Computed {
        /// What is done with them.
        how: Computation,
        /// The others.
        of: Vec<TrackerId>,
    },
    /// Found in an object by a way of a plug-in's.
    Foreign {
        /// The object.
        of: TrackerId,
        /// The way.
        how: Foreign,
    },
    /// Made in the trace: there is nowhere to load it from.
    Produced,
    /// An object made in the trace for which a real one stands, such as a class. New code makes it anew; what is found
    /// in it is what the trace found, and is loaded from the new one.
    Made(VarId),
}

impl Tracker {
    /// The tracker this one starts from.
    #[must_use]
    pub const fn parent(&self) -> Option<TrackerId> {
        match self {
            Tracker::Attribute { of, .. }
            | Tracker::Lookup { of, .. }
            | Tracker::Getattr { of, .. }
            | Tracker::Cached { of, .. }
            | Tracker::Type { of }
            | Tracker::Item { of, .. }
            | Tracker::CellContents { of }
            | Tracker::Storage { of }
            | Tracker::Length { of }
            | Tracker::Upcoming { of, .. }
            | Tracker::Iterated { of, .. }
            | Tracker::Foreign { of, .. }
            | Tracker::Part { of, .. } => Some(*of),
            _ => None,
        }
    }
}

/// Where the chain of trackers begins that leads to a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The frame, or a part of a constant: it may be different at the next call.
    Frame,
    /// A constant.
    Constant,
    /// The trace.
    Trace,
    /// An object of the trace for which a real one stands.
    Made,
}

/// Texts and paths of trackers go back so many steps: in a list of lists of lists each is a step longer than the one
/// before.
const LONGEST_TEXT: usize = 64;

/// The trackers of one translation. Equal trackers get one id, so guards share their fetches.
#[derive(Default)]
pub struct Trackers {
    nodes: Vec<TrackerNode>,
    ids: FxHashMap<Rc<Tracker>, TrackerId>,
    /// Texts of trackers that others start from.
    texts: RefCell<FxHashMap<TrackerId, Rc<str>>>,
}

struct TrackerNode {
    tracker: Rc<Tracker>,
    origin: Origin,
    /// How many trackers there are before it.
    depth: usize,
}

impl Trackers {
    /// The id of `tracker`, the old one if an equal tracker is known. `Produced` is always new.
    pub fn add(&mut self, tracker: Tracker) -> TrackerId {
        let produced = tracker == Tracker::Produced;
        let origin = match (&tracker, tracker.parent()) {
            (Tracker::Produced, _) => Origin::Trace,
            (Tracker::Made(_), _) => Origin::Made,
            (Tracker::Constant(_) | Tracker::Found(_), _) => Origin::Constant,
            (_, Some(of)) if matches!(self.origin(of), Origin::Trace | Origin::Made) => self.origin(of),
            _ => Origin::Frame,
        };
        let tracker = Rc::new(tracker);
        if !produced {
            if let Some(&id) = self.ids.get(&tracker) {
                return id;
            }
        }
        let id = TrackerId(self.nodes.len() as u32);
        if !produced {
            self.ids.insert(Rc::clone(&tracker), id);
        }
        let before = match &*tracker {
            Tracker::Computed { of, .. } => of.iter().copied().max_by_key(|of| self.depth(*of)),
            tracker => tracker.parent(),
        };
        let depth = before.map_or(0, |before| self.depth(before) + 1);
        self.nodes.push(TrackerNode { tracker, origin, depth });
        id
    }

    /// The id of a tracker that is known.
    pub fn find(&self, tracker: &Tracker) -> Option<TrackerId> {
        self.ids.get(tracker).copied()
    }

    fn origin(&self, id: TrackerId) -> Origin {
        self.nodes[id.0 as usize].origin
    }

    fn depth(&self, id: TrackerId) -> usize {
        self.nodes[id.0 as usize].depth
    }

    /// The tracker of an id.
    pub fn get(&self, id: TrackerId) -> &Tracker {
        &self.nodes[id.0 as usize].tracker
    }

    /// A handle on the tracker that does not borrow the arena.
    pub fn share(&self, id: TrackerId) -> Rc<Tracker> {
        Rc::clone(&self.nodes[id.0 as usize].tracker)
    }

    /// Whether the value can be fetched again from the frame: not made in the trace.
    pub fn is_sourced(&self, id: TrackerId) -> bool {
        self.origin(id) == Origin::Frame
    }

    /// Whether the trace made the value, or what it is found in.
    pub fn is_produced(&self, id: TrackerId) -> bool {
        self.origin(id) == Origin::Trace
    }

    /// Whether the value can be loaded by new code: fetched, a constant, or found in what new code makes.
    pub fn is_loadable(&self, id: TrackerId) -> bool {
        self.origin(id) != Origin::Trace && !matches!(self.get(id), Tracker::Made(_))
    }

    /// Whether the value is an object of the trace for which a real one stands, or found in one: there is nothing to
    /// guard.
    pub fn is_made(&self, id: TrackerId) -> bool {
        self.origin(id) == Origin::Made
    }

    /// The object of the trace in which the value is found.
    pub fn made_with(&self, id: TrackerId) -> Option<VarId> {
        let mut id = id;
        while let Some(of) = self.get(id).parent() {
            id = of;
        }
        match self.get(id) {
            Tracker::Made(variable) => Some(*variable),
            _ => None,
        }
    }

    /// Whether it leads to an argument of the frame, or to what is in it.
    pub fn is_argument(&self, id: TrackerId) -> bool {
        match self.get(id) {
            Tracker::Local { .. } | Tracker::Upcoming { .. } => true,
            Tracker::Item { of, .. } => self.is_argument(*of),
            _ => false,
        }
    }

    /// Whose ways of finding things there are among them.
    pub fn plugins(&self) -> Vec<String> {
        let foreign = self.nodes.iter().filter_map(|node| match &*node.tracker {
            Tracker::Foreign { how, .. } => Some(how.0.plugin()),
            _ => None,
        });
        let mut all: Vec<_> = foreign.collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The numbers that a computed one is made of in the end.
    pub fn leaves(&self, id: TrackerId) -> Vec<TrackerId> {
        match self.get(id) {
            Tracker::Computed { of, .. } => of.iter().flat_map(|of| self.leaves(*of)).collect(),
            _ => vec![id],
        }
    }

    /// Whether it leads to the globals of the frame or of a function.
    pub fn is_globals(&self, id: TrackerId) -> bool {
        matches!(self.get(id), Tracker::Globals | Tracker::Part { part: Part::Globals, .. })
    }

    /// Where the value is found, apart from this trace; of a long way, the end.
    pub fn path(&self, id: TrackerId) -> ValuePath {
        let mut steps = Vec::new();
        let mut at = Some(id);
        while let Some(id) = at {
            if steps.len() == LONGEST_TEXT {
                steps.push(PathStep::Omitted);
                break;
            }
            steps.extend(self.step(id));
            at = self.get(id).parent();
        }
        steps.reverse();
        ValuePath::new(steps)
    }

    /// The last step of the way to a value. What the base of a class keeps in an object is found where the object is.
    fn step(&self, id: TrackerId) -> Option<PathStep> {
        Some(match self.get(id) {
            Tracker::Local { name, .. } => PathStep::Argument((**name).into()),
            Tracker::FreeCell { name, .. } => PathStep::FreeCell((**name).into()),
            Tracker::Globals => PathStep::Globals,
            Tracker::Builtins => PathStep::Builtins,
            Tracker::Constant(object) | Tracker::Found(object) => PathStep::Object(object.address()),
            Tracker::Cached { key, .. } => PathStep::Cached(key.address()),
            Tracker::Attribute { name, .. } | Tracker::Getattr { name, .. } | Tracker::Lookup { name, .. } => {
                PathStep::Attribute((**name).into())
            }
            Tracker::Type { .. } => PathStep::Type,
            Tracker::Item { key, .. } => key.step(),
            Tracker::CellContents { .. } => PathStep::CellContents,
            Tracker::Part { part, .. } => PathStep::Part(*part),
            Tracker::Computed { how, of } => {
                let of: Vec<ValuePath> = of.iter().map(|of| self.path(*of)).collect();
                match (how, of.try_into()) {
                    (Computation::Binary(op), Ok(of)) => PathStep::Binary(*op, of),
                    (Computation::Compare(op), Ok(of)) => PathStep::Compare(*op, of),
                    (Computation::Call(function), Ok(of)) => {
                        PathStep::Call(function.address(), Box::new(of) as Box<[ValuePath]>)
                    }
                    (Computation::Call(function), Err(of)) => PathStep::Call(function.address(), of.into()),
                    (_, Err(_)) => PathStep::Made,
                }
            }
            Tracker::Storage { .. } => return None,
            Tracker::Length { .. } => PathStep::Length,
            Tracker::Upcoming { after, .. } => PathStep::Upcoming(*after),
            Tracker::Iterated { index, .. } => PathStep::Iterated(*index),
            Tracker::Foreign { how, .. } => PathStep::Foreign(how.clone()),
            Tracker::Produced | Tracker::Made(_) => PathStep::Made,
        })
    }

    /// The value as a Python expression over `frame`, for logs and guard texts; of a long chain, the end.
    pub fn text(&self, py: Python<'_>, id: TrackerId) -> String {
        self.end_of_text(py, id, LONGEST_TEXT)
    }

    /// The text of the tracker that another one starts from. Guards of one object all begin with the same text, which is
    /// kept: `f_locals['self'].blocks[0]`. A chain that is not followed to its beginning has another text for each length.
    fn start_of_text(&self, py: Python<'_>, id: TrackerId, steps: usize) -> Rc<str> {
        let is_whole = steps > self.depth(id);
        if let Some(known) = self.texts.borrow().get(&id).filter(|_| is_whole) {
            return Rc::clone(known);
        }
        let text: Rc<str> = self.end_of_text(py, id, steps).into();
        if is_whole {
            self.texts.borrow_mut().insert(id, Rc::clone(&text));
        }
        text
    }

    fn end_of_text(&self, py: Python<'_>, id: TrackerId, steps: usize) -> String {
        let Some(steps) = steps.checked_sub(1) else { return "...".to_owned() };
        let text = |of: TrackerId| self.start_of_text(py, of, steps);
        match self.get(id) {
            Tracker::Local { name, .. } => format!("frame.f_locals['{name}']"),
            Tracker::FreeCell { name, .. } => format!("frame.closure['{name}']"),
            Tracker::Globals => "frame.f_globals".to_owned(),
            Tracker::Builtins => "frame.f_builtins".to_owned(),
            Tracker::Constant(object) | Tracker::Found(object) => repr(py, &object.0),
            Tracker::Cached { of, args, keywords, .. } => {
                format!("{}(*{}, **{})", text(*of), args.0, keywords.0)
            }
            Tracker::Attribute { of, name } | Tracker::Getattr { of, name } => {
                format!("{}.{name}", text(*of))
            }
            Tracker::Lookup { of, name } => format!("{}.{name}", text(*of)),
            Tracker::Type { of } => format!("type({})", text(*of)),
            Tracker::Item { of, key } => format!("{}[{}]", text(*of), key.text(py)),
            Tracker::CellContents { of } => format!("{}.cell_contents", text(*of)),
            Tracker::Part { of, part } => format!("{}.{}", text(*of), part.attribute()),
            Tracker::Computed { how, of } => {
                how.text(py, &of.iter().map(|of| text(*of).to_string()).collect::<Vec<_>>())
            }
            Tracker::Storage { of } => text(*of).to_string(),
            Tracker::Length { of } => format!("len({})", text(*of)),
            Tracker::Upcoming { of, after, .. } => format!("upcoming({}, {after})", text(*of)),
            Tracker::Iterated { of, index } => format!("{}.__reduce__()[1][{index}]", text(*of)),
            Tracker::Foreign { of, how } => how.0.text(&text(*of)),
            Tracker::Produced | Tracker::Made(_) => "<made in the trace>".to_owned(),
        }
    }
}

impl Key {
    /// The step to the item.
    pub fn step(&self) -> PathStep {
        match self {
            Key::Index(index) => PathStep::Index(*index),
            Key::Last(back) => PathStep::FromEnd(*back),
            Key::Str(text) => PathStep::Key((**text).into()),
            Key::Object(object) => PathStep::KeyObject(object.address()),
        }
    }

    /// The key as Python text.
    pub fn text(&self, py: Python<'_>) -> String {
        match self {
            Key::Index(index) => index.to_string(),
            Key::Last(back) => format!("-{back}"),
            Key::Str(text) => format!("'{text}'"),
            Key::Object(object) => repr(py, &object.0),
        }
    }

    /// The key as a Python object.
    pub fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Key::Index(index) => index.into_pyobject(py)?.into_any(),
            Key::Last(back) => back.into_pyobject(py)?.neg()?,
            Key::Str(text) => pyo3::types::PyString::intern(py, text).into_any(),
            Key::Object(object) => object.0.bind(py).clone(),
        })
    }

    /// The key for a constant object: exact ints and strings by value, the rest by identity.
    pub fn of(object: &Bound<'_, PyAny>) -> Key {
        if object.is_exact_instance_of::<pyo3::types::PyInt>() {
            if let Ok(index) = object.extract::<i64>() {
                return Key::Index(index);
            }
        }
        if object.is_exact_instance_of::<pyo3::types::PyString>() {
            if let Ok(text) = object.extract::<String>() {
                return Key::Str(text.into());
            }
        }
        Key::Object(ById(object.clone().unbind()))
    }
}

/// A callable for texts: its module and name. Runs no code of the program's.
pub fn name(callable: &Bound<'_, PyAny>) -> String {
    let class = callable.is_instance_of::<PyType>();
    if !class && cpython::is_heap_type(&callable.get_type()) {
        return repr(callable.py(), &callable.clone().unbind());
    }
    // A metaclass may have a say in how attributes are read.
    let read = |name: &str| {
        if class {
            let getter = callable.py().get_type::<PyType>().getattr("__dict__")?.get_item(name)?;
            getter.call_method1("__get__", (callable,))
        } else {
            callable.getattr(name)
        }
    };
    let text = |name: &str| read(name).and_then(|value| value.extract::<String>()).ok();
    let Some(name) = text("__qualname__").or_else(|| text("__name__")) else {
        return repr(callable.py(), &callable.clone().unbind());
    };
    match text("__module__") {
        Some(module) => format!("{module}.{name}"),
        None => name,
    }
}

/// The object for texts, shortened: its `repr` where C code makes it, else its type or name. Never fails, and never
/// runs Python code.
pub fn repr(py: Python<'_>, object: &Py<PyAny>) -> String {
    let full = text_of(object.bind(py));
    if full.chars().count() > 120 {
        format!("{}...", full.chars().take(117).collect::<String>())
    } else {
        full
    }
}

fn text_of(object: &Bound<'_, PyAny>) -> String {
    let ty = object.get_type();
    if let Ok(class) = object.cast::<PyType>() {
        return format!("<class '{}'>", cpython::type_name(class));
    }
    let name = PyString::intern(object.py(), "__repr__");
    let made_by_python = cpython::type_lookup(&ty, &name).is_none_or(|repr| repr.is_exact_instance_of::<PyFunction>());
    let holds_others = cpython::instance_dict(object).is_some()
        // Before 3.12 its `repr` asks the referent for a name.
        || object.is_instance_of::<PyWeakrefReference>()
        || [
            "list",
            "tuple",
            "dict",
            "set",
            "frozenset",
            "OrderedDict",
            "deque",
            "method",
            "slice",
            "mappingproxy",
            "repeat",
            "count",
        ]
        .contains(&&*cpython::type_name(&ty));
    if object.is_exact_instance_of::<PyFunction>() || !(made_by_python || holds_others) {
        return object.repr().map_or_else(|_| "<unprintable>".to_owned(), |text| text.to_string());
    }
    format!("<{} object>", cpython::type_name(&ty))
}
