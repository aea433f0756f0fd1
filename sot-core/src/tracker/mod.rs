//! Trackers: where a value of the trace comes from. They form a DAG whose roots are the frame's arguments, free
//! variables, globals and builtins. One tracker is rendered in several ways that cannot drift apart: as native fetch
//! (`guard::program`), as readable text (`path_and_text`) and as the bytecode that loads the value (`codegen::load`).

mod key;
mod object_text;
mod path_and_text;

use std::cell::RefCell;
use std::hash::BuildHasher;
use std::rc::Rc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::cpython::{self, Part};
use crate::entity::VarId;
use crate::foreign::Foreign;
use crate::operators::{BinaryOp, CompareOp};

pub use self::key::{ById, Key};
pub use self::object_text::{name, repr};
pub use crate::entity::TrackerId;

/// The globals that a frame reads.
pub struct Globals {
    /// The dict.
    pub dict: Py<PyDict>,
    /// Tracker of the dict.
    pub tracker: TrackerId,
}

impl Globals {
    /// Another handle on the same globals.
    #[must_use]
    pub fn share(&self, py: Python<'_>) -> Globals {
        Globals { dict: self.dict.clone_ref(py), tracker: self.tracker }
    }
}

/// An operation on numbers, or on texts of numbers, whose values the trace does not assume.
#[derive(PartialEq, Eq, Hash, Debug)]
pub enum Computation {
    /// `a op b`
    Binary(BinaryOp),
    /// `a op b`, a comparison
    Compare(CompareOp),
    /// `function(*of)` for a pure function implemented in C
    Call(ById),
    /// `function(of)` for a value whose type is implemented in C, and runs no code of the program
    Convert {
        /// A pure function implemented in C.
        function: ById,
        /// The exact type of the value.
        ty: ById,
    },
}

impl Computation {
    /// Another handle on the same computation.
    #[must_use]
    pub fn clone_ref(&self, py: Python<'_>) -> Computation {
        match self {
            Computation::Binary(op) => Computation::Binary(*op),
            Computation::Compare(op) => Computation::Compare(*op),
            Computation::Call(function) => Computation::Call(function.clone_ref(py)),
            Computation::Convert { function, ty } => {
                Computation::Convert { function: function.clone_ref(py), ty: ty.clone_ref(py) }
            }
        }
    }

    /// Computes the result. Returns `None` if an operand is neither a number nor a text, nor of the type of a
    /// conversion, because the operation might then run the program's code.
    pub fn apply<'py>(&self, of: &[Bound<'py, PyAny>]) -> Option<Bound<'py, PyAny>> {
        let known = |value: &Bound<'py, PyAny>| cpython::is_number(value) || value.is_exact_instance_of::<PyString>();
        match (self, of) {
            (Computation::Call(function), of) if of.iter().all(known) => {
                function.0.bind(of.first()?.py()).call1(PyTuple::new(of[0].py(), of).ok()?).ok()
            }
            (Computation::Convert { function, ty }, [value]) if value.get_type().is(&ty.0) => {
                function.0.bind(value.py()).call1((value,)).ok()
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
            (Computation::Call(function) | Computation::Convert { function, .. }, of) => {
                format!("{}({})", name(function.0.bind(py)), of.join(", "))
            }
            _ => String::new(),
        }
    }
}

/// Where a value of the trace comes from.
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
    /// An object that a registration at run time puts into the trace: the result of a function that is assumed, or a
    /// substitute. Always this object, but its contents may change, so they are guarded.
    Registered(ById),
    /// An object that guards have found as a dict key. Translations refer to it weakly, so that the program decides
    /// how long it lives.
    GuardedKey(ById),
    /// An entry of the object's own `__dict__` (instances and modules).
    Attribute {
        /// The object.
        of: TrackerId,
        /// The entry.
        name: Rc<str>,
    },
    /// An entry found in the type's method resolution order; no descriptor is run.
    Lookup {
        /// The type.
        of: TrackerId,
        /// Name of the entry.
        name: Rc<str>,
    },
    /// An attribute read by a descriptor implemented in C (a slot or a getter).
    Getattr {
        /// The object.
        of: TrackerId,
        /// The attribute.
        name: Rc<str>,
    },
    /// The cached result of a `functools.lru_cache` function for these arguments.
    Cached {
        /// The function.
        of: TrackerId,
        /// Key of the result in the cache.
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
        /// The expression between the brackets.
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
        /// The part.
        part: Part,
    },
    /// The same object, seen as an instance of its builtin base class: items and attributes are read by the base
    /// class, so that no method of the object's own class runs.
    AsBuiltinBase {
        /// The object.
        of: TrackerId,
    },
    /// Length of a list, dict, set or deque.
    Length {
        /// The container.
        of: TrackerId,
    },
    /// An item that an iterator implemented in C will yield.
    Upcoming {
        /// The iterator.
        of: TrackerId,
        /// Number of items that come before it.
        after: usize,
        /// True if the iterator creates the item when it yields it, as `zip` does: each look at it gives another
        /// object.
        is_new: bool,
    },
    /// The iterable of an iterator implemented in C: a sequence, or one of the iterators it combines.
    Iterated {
        /// The iterator.
        of: TrackerId,
        /// Index among the iterables.
        index: usize,
    },
    /// A result computed from numbers that may differ from call to call.
    Computed {
        /// The operation.
        how: Computation,
        /// The operands.
        of: Vec<TrackerId>,
    },
    /// A value that a plug-in fetches from an object.
    Foreign {
        /// The object.
        of: TrackerId,
        /// The plug-in's fetch.
        how: Foreign,
    },
    /// A value made in the trace, which cannot be loaded from anywhere.
    Produced,
    /// An object made in the trace, such as a class, that already exists as a real Python object while tracing. New
    /// code makes the object again. Values reached from it are loaded from the new object.
    RealObject(VarId),
}

impl Tracker {
    /// The tracker that this one is derived from.
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
            | Tracker::AsBuiltinBase { of }
            | Tracker::Length { of }
            | Tracker::Upcoming { of, .. }
            | Tracker::Iterated { of, .. }
            | Tracker::Foreign { of, .. }
            | Tracker::Part { of, .. } => Some(*of),
            _ => None,
        }
    }
}

/// The root of the chain of trackers that leads to a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The frame, or a part of a constant: the value may differ at the next call.
    Frame,
    /// A constant.
    Constant,
    /// The trace: the value cannot be loaded.
    Trace,
    /// An object made in the trace that already exists as a real Python object.
    RealObject,
}

/// Maximum number of steps in the text or path of a tracker; earlier steps are left out. In nested lists, each level
/// adds a step.
const LONGEST_TEXT: usize = 64;
/// Maximum weight of an operand that is written out in the text or path of a computed number. A number that is used
/// twice in each iteration of a loop doubles the weight each time.
const LARGEST_OPERAND: u32 = 64;

/// The trackers of one translation. Equal trackers share one id, so that their guards share fetches.
#[derive(Default)]
pub struct Trackers {
    nodes: Vec<TrackerNode>,
    /// The trackers of each hash.
    ids: FxHashMap<u64, SmallVec<[TrackerId; 1]>>,
    /// Texts of trackers that other trackers are derived from.
    texts: RefCell<FxHashMap<TrackerId, Rc<str>>>,
}

struct TrackerNode {
    tracker: Rc<Tracker>,
    origin: Origin,
    /// Length of the longest chain of trackers before this one.
    depth: usize,
    /// Number of trackers that this one is derived from, with itself. A tracker reached on several paths counts once
    /// for each path.
    weight: u32,
}

impl Trackers {
    /// Returns the tracker of a constant.
    pub fn constant(&mut self, value: Py<PyAny>) -> TrackerId {
        self.add(Tracker::Constant(ById(value)))
    }

    /// Adds a tracker and returns its id, or returns the id of an equal tracker. Each `Produced` is a new tracker.
    pub fn add(&mut self, tracker: Tracker) -> TrackerId {
        let hash = (tracker != Tracker::Produced).then(|| FxBuildHasher.hash_one(&tracker));
        if let Some(id) = hash.and_then(|hash| self.find_hashed(hash, &tracker)) {
            return id;
        }
        let origin = match (&tracker, tracker.parent()) {
            (Tracker::Produced, _) => Origin::Trace,
            (Tracker::RealObject(_), _) => Origin::RealObject,
            (Tracker::Constant(_) | Tracker::GuardedKey(_), _) => Origin::Constant,
            (_, Some(of)) if matches!(self.origin(of), Origin::Trace | Origin::RealObject) => self.origin(of),
            _ => Origin::Frame,
        };
        let tracker = Rc::new(tracker);
        let id = TrackerId(self.nodes.len() as u32);
        if let Some(hash) = hash {
            self.ids.entry(hash).or_default().push(id);
        }
        let parent = tracker.parent();
        let before = match &*tracker {
            Tracker::Computed { of, .. } => of,
            _ => parent.as_slice(),
        };
        let depth = before.iter().map(|before| self.depth(*before) + 1).max().unwrap_or(0);
        let weight = before.iter().fold(1, |sum: u32, before| sum.saturating_add(self.weight(*before)));
        self.nodes.push(TrackerNode { tracker, origin, depth, weight });
        id
    }

    /// Returns the id of a tracker that was added.
    pub fn find(&self, tracker: &Tracker) -> Option<TrackerId> {
        self.find_hashed(FxBuildHasher.hash_one(tracker), tracker)
    }

    fn find_hashed(&self, hash: u64, tracker: &Tracker) -> Option<TrackerId> {
        self.ids.get(&hash)?.iter().copied().find(|id| self.get(*id) == tracker)
    }

    /// Returns the first tracker of the chain that leads to a value.
    pub fn root(&self, id: TrackerId) -> TrackerId {
        let mut root = id;
        while let Some(of) = self.get(root).parent() {
            root = of;
        }
        root
    }

    fn origin(&self, id: TrackerId) -> Origin {
        self.nodes[id.0 as usize].origin
    }

    fn depth(&self, id: TrackerId) -> usize {
        self.nodes[id.0 as usize].depth
    }

    fn weight(&self, id: TrackerId) -> u32 {
        self.nodes[id.0 as usize].weight
    }

    /// Returns the tracker of an id.
    pub fn get(&self, id: TrackerId) -> &Tracker {
        &self.nodes[id.0 as usize].tracker
    }

    /// A handle on the tracker that does not borrow the arena.
    pub fn share(&self, id: TrackerId) -> Rc<Tracker> {
        Rc::clone(&self.nodes[id.0 as usize].tracker)
    }

    /// True if the value can be fetched from the frame, so that it can be guarded.
    pub fn is_sourced(&self, id: TrackerId) -> bool {
        self.origin(id) == Origin::Frame
    }

    /// True if the value was made in the trace, or is reached from such a value, and cannot be loaded.
    pub fn is_produced(&self, id: TrackerId) -> bool {
        self.origin(id) == Origin::Trace
    }

    /// True if new code can load the value: from the frame, as a constant, or from an object that new code makes.
    pub fn is_loadable(&self, id: TrackerId) -> bool {
        self.origin(id) != Origin::Trace && !matches!(self.get(id), Tracker::RealObject(_))
    }

    /// True if the value is a `RealObject` or is reached from one: there is nothing to guard.
    pub fn is_made(&self, id: TrackerId) -> bool {
        self.origin(id) == Origin::RealObject
    }

    /// The variable of the `RealObject` that the value is reached from.
    pub fn made_with(&self, id: TrackerId) -> Option<VarId> {
        let mut id = id;
        while let Some(of) = self.get(id).parent() {
            id = of;
        }
        match self.get(id) {
            Tracker::RealObject(variable) => Some(*variable),
            _ => None,
        }
    }

    /// True for an argument of the frame, for an item of an iterator, and for an item of such a value.
    pub fn is_argument(&self, id: TrackerId) -> bool {
        match self.get(id) {
            Tracker::Local { .. } | Tracker::Upcoming { .. } => true,
            Tracker::Item { of, .. } => self.is_argument(*of),
            _ => false,
        }
    }

    /// Names of the plug-ins whose fetches are used, sorted and each once.
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

    /// Returns the trackers that a computed number is made of in the end, each once; for any other tracker the
    /// tracker itself.
    pub fn leaves(&self, id: TrackerId) -> Vec<TrackerId> {
        let (mut seen, mut todo, mut leaves) = (FxHashSet::default(), vec![id], Vec::new());
        while let Some(id) = todo.pop() {
            match self.get(id) {
                _ if !seen.insert(id) => {}
                Tracker::Computed { of, .. } => todo.extend(of.iter().rev()),
                _ => leaves.push(id),
            }
        }
        leaves
    }

    /// True for the globals of the frame or of a function.
    pub fn is_globals(&self, id: TrackerId) -> bool {
        matches!(self.get(id), Tracker::Globals | Tracker::Part { part: Part::Globals, .. })
    }
}
