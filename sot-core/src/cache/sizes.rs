//! What is known of the sizes of one code object's tensors: those that the user asked to leave open, those that
//! differed between calls, and those that have mattered in a translation.

use std::collections::{HashMap, HashSet};

use crate::open_sizes::{Matters, OpenAtFirst, Sizes};
use crate::policy;
use crate::value_path::ValuePath;

/// The sizes that translations of one code object leave open.
#[derive(Default)]
pub struct OpenSizes {
    /// True if the user asked for open sizes.
    asked: bool,
    wanted: HashSet<ValuePath>,
    /// Open values that turned out to matter.
    closed: HashSet<Matters>,
    /// True if the graph broke where sizes were opened early.
    wait: bool,
    /// The dynamic-shape setting of the function.
    pub(super) dynamic: Option<bool>,
    /// Shapes of arguments in the first call that the stance left to CPython.
    first_shapes: Option<Vec<(ValuePath, Vec<i64>)>>,
    /// Sizes that differed in later calls.
    shown: HashSet<ValuePath>,
    /// The sizes that are left open from the first translation on, if the user asked for that.
    at_first: OpenAtFirst,
}

impl OpenSizes {
    /// Forgets what calls have shown, but keeps what the user asked for.
    pub(super) fn forget(&mut self) {
        self.closed.clear();
        self.shown.clear();
        self.first_shapes = None;
        self.at_first = OpenAtFirst::All;
    }

    /// Leaves these sizes open and, behind a break, all sizes that differ.
    pub fn leave_open(&mut self, sizes: &[ValuePath]) {
        self.asked = true;
        self.wanted.extend(sizes.iter().cloned());
    }

    /// True if the user asked for open sizes.
    pub fn is_asked(&self) -> bool {
        self.asked
    }

    /// Notes the shapes of arguments in a call that is left to CPython. Sizes that differ from those of the first
    /// such call are left open. Returns whether this is the first such call.
    pub fn show(&mut self, shapes: Vec<(ValuePath, Vec<i64>)>) -> bool {
        let OpenSizes { first_shapes, shown, .. } = self;
        let Some(first) = first_shapes else {
            *first_shapes = Some(shapes);
            return true;
        };
        for (path, shape) in shapes {
            let Some((_, before)) = first.iter().find(|(known, _)| *known == path) else { continue };
            if before.len() == shape.len() {
                let differing = (0..shape.len()).filter(|axis| before[*axis] != shape[*axis]);
                shown.extend(differing.map(|axis| path.size(axis)));
            }
        }
        false
    }

    /// Returns the sizes that the next translation is to leave open. `is_resumed`: the code is that of a resume
    /// function. `differing` are the sizes that had another value in earlier translations, with the number of these.
    /// `dynamic` is the dynamic-shape setting.
    pub fn next(&self, is_resumed: bool, dynamic: Option<bool>, differing: HashMap<ValuePath, usize>) -> Sizes {
        let mut wanted: HashSet<_> = self.wanted.union(&self.shown).cloned().collect();
        let asked = self.asked && is_resumed;
        let after = if self.wait { policy::opens_after(dynamic) } else { policy::sizes_open_after(dynamic) };
        let mut early = false;
        if let (Some(enough), Some(often)) = (if asked { Some(0) } else { after }, policy::opens_after(dynamic)) {
            early = !asked && enough < often && differing.values().any(|others| (enough..often).contains(others));
            wanted.extend(differing.into_iter().filter(|(_, others)| *others >= enough).map(|(size, _)| size));
        } else if asked {
            wanted.extend(differing.into_keys());
        }
        let sizes = Sizes::new(wanted, self.closed.clone()).asked(dynamic, self.at_first);
        if early {
            sizes.early()
        } else {
            sizes
        }
    }

    /// Opens sizes from now on only where they differ often.
    pub fn let_wait(&mut self) {
        self.wait = true;
    }

    /// Specialises from now on on what has turned out to matter.
    pub fn close(&mut self, matters: Vec<Matters>) {
        for what in matters {
            match what {
                Matters::AtFirst(fewer) => self.at_first = fewer,
                _ => _ = self.closed.insert(what),
            }
        }
    }
}
