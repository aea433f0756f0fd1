//! What is known of the sizes of one code object's tensors: those that somebody asked to be left open, those that calls
//! have shown to differ, and those that have mattered in a translation.

use std::collections::{HashMap, HashSet};

use crate::open_sizes::{Matters, OpenAtFirst, Sizes};
use crate::policy;
use crate::value_path::ValuePath;

/// The sizes that translations of one code object leave open.
#[derive(Default)]
pub struct OpenSizes {
    /// Whether somebody asked for it.
    asked: bool,
    wanted: HashSet<ValuePath>,
    /// What has mattered.
    closed: HashSet<Matters>,
    /// Whether the graph broke where sizes were left open early.
    wait: bool,
    /// Whether sizes and numbers are left open, as was asked.
    pub(super) dynamic: Option<bool>,
    /// The shapes of arguments in the first call that was left to CPython for the stance.
    first_shapes: Option<Vec<(ValuePath, Vec<i64>)>>,
    /// Those that later calls have shown to differ.
    shown: HashSet<ValuePath>,
    /// The sizes that the first translation leaves open, if that was asked for.
    at_first: OpenAtFirst,
}

impl OpenSizes {
    /// Forgets what calls have shown, but not what was asked for.
    pub(super) fn forget(&mut self) {
        self.closed.clear();
        self.shown.clear();
        self.first_shapes = None;
        self.at_first = OpenAtFirst::All;
    }

    /// Asks that sizes be left open, and, behind a break, those that differ.
    pub fn leave_open(&mut self, sizes: &[ValuePath]) {
        self.asked = true;
        self.wanted.extend(sizes.iter().cloned());
    }

    /// Whether somebody asked for sizes to be left open.
    pub fn is_asked(&self) -> bool {
        self.asked
    }

    /// Shapes of arguments in a call that is left to CPython: the sizes that differ from those shown
    /// before are left open. Whether none was shown before.
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

    /// The sizes that the next translation is to leave open; `is_resumed`: the code is that of a resume function;
    /// `differing` are those that were others in earlier ones,
    /// and in how many; `dynamic` is what was asked for.
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

    /// From here on sizes are left open only where they differ often.
    pub fn let_wait(&mut self) {
        self.wait = true;
    }

    /// From here on this is assumed.
    pub fn close(&mut self, matters: Vec<Matters>) {
        for what in matters {
            match what {
                Matters::AtFirst(fewer) => self.at_first = fewer,
                _ => _ = self.closed.insert(what),
            }
        }
    }
}
