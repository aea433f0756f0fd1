//! Trackers: where a value of the trace comes from. They form a DAG whose roots are the frame's arguments, free
//! variables, globals and builtins. One tracker has several renderings made from the same value: the native fetch
//! (`guard::program`), the readable text (`way`) and the bytecode that loads it (`codegen::load`), so they cannot drift
//! apart.

mod key;
mod object_text;
mod way;

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
/// They show what a number is computed from if that is so few trackers. A number that is used twice in each round of a
/// loop has twice as many behind it as the one before.
const LARGEST_OPERAND: u32 = 64;

/// The trackers of one translation. Equal trackers get one id, so guards share their fetches.
#[derive(Default)]
pub struct Trackers {
    nodes: Vec<TrackerNode>,
    /// Those of each hash.
    ids: FxHashMap<u64, SmallVec<[TrackerId; 1]>>,
    /// Texts of trackers that others start from.
    texts: RefCell<FxHashMap<TrackerId, Rc<str>>>,
}

struct TrackerNode {
    tracker: Rc<Tracker>,
    origin: Origin,
    /// How many trackers there are before it.
    depth: usize,
    /// How many there are in all that leads to it, those met on several ways counted for each.
    weight: u32,
}

impl Trackers {
    /// The id of `tracker`, the old one if an equal tracker is known. `Produced` is always new.
    pub fn add(&mut self, tracker: Tracker) -> TrackerId {
        let hash = (tracker != Tracker::Produced).then(|| FxBuildHasher.hash_one(&tracker));
        if let Some(id) = hash.and_then(|hash| self.find_hashed(hash, &tracker)) {
            return id;
        }
        let origin = match (&tracker, tracker.parent()) {
            (Tracker::Produced, _) => Origin::Trace,
            (Tracker::Made(_), _) => Origin::Made,
            (Tracker::Constant(_) | Tracker::Found(_), _) => Origin::Constant,
            (_, Some(of)) if matches!(self.origin(of), Origin::Trace | Origin::Made) => self.origin(of),
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

    /// The id of a tracker that is known.
    pub fn find(&self, tracker: &Tracker) -> Option<TrackerId> {
        self.find_hashed(FxBuildHasher.hash_one(tracker), tracker)
    }

    fn find_hashed(&self, hash: u64, tracker: &Tracker) -> Option<TrackerId> {
        self.ids.get(&hash)?.iter().copied().find(|id| self.get(*id) == tracker)
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

    /// The numbers that a computed one is made of in the end, each once.
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

    /// Whether it leads to the globals of the frame or of a function.
    pub fn is_globals(&self, id: TrackerId) -> bool {
        matches!(self.get(id), Tracker::Globals | Tracker::Part { part: Part::Globals, .. })
    }
}
