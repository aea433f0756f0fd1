//! Facts about the sizes of one code object's tensors: sizes that the user asked to leave open, sizes that differed
//! between calls, and sizes whose value has mattered in a translation.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::open_sizes::{ClosedValue, OpenAtFirst, Sizes};
use crate::policy::{SizePolicy, SizeTreatment};
use crate::value_path::ValuePath;

/// The sizes that translations of one code object leave open.
#[derive(Default)]
pub struct OpenSizes {
    /// True if the user asked for open sizes.
    asked: bool,
    wanted: FxHashSet<ValuePath>,
    /// Open values that turned out to matter.
    closed: FxHashSet<ClosedValue>,
    /// True if the graph broke where sizes were opened early.
    opens_only_if_often: bool,
    /// The dynamic-shape setting of the function.
    pub(super) dynamic: Option<bool>,
    /// True if graphs with open sizes or numbers have raised though the program does not.
    leaves_nothing_open: bool,
    /// Shapes of arguments in the first call that the stance left to CPython.
    first_shapes: Option<Vec<(ValuePath, Vec<i64>)>>,
    /// Sizes that differed in later calls.
    differing_sizes: FxHashSet<ValuePath>,
    /// The sizes that are left open from the first translation on, if the user asked for that.
    at_first: OpenAtFirst,
}

impl OpenSizes {
    /// Forgets facts from calls, but keeps the user's requests.
    pub(super) fn forget(&mut self) {
        self.closed.clear();
        self.differing_sizes.clear();
        self.first_shapes = None;
        self.at_first = OpenAtFirst::All;
        self.leaves_nothing_open = false;
    }

    /// From now on specialises on all sizes and numbers.
    pub(super) fn leave_nothing_open(&mut self) {
        self.leaves_nothing_open = true;
    }

    /// Returns whether sizes and numbers are left open; `None` if the environment decides.
    pub(super) fn dynamic(&self) -> Option<bool> {
        if self.leaves_nothing_open {
            Some(false)
        } else {
            self.dynamic
        }
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
    pub fn note_shapes(&mut self, shapes: Vec<(ValuePath, Vec<i64>)>) -> bool {
        let OpenSizes { first_shapes, differing_sizes, .. } = self;
        let Some(first) = first_shapes else {
            *first_shapes = Some(shapes);
            return true;
        };
        for (path, shape) in shapes {
            let Some((_, before)) = first.iter().find(|(known, _)| *known == path) else { continue };
            if before.len() == shape.len() {
                let differing = (0..shape.len()).filter(|axis| before[*axis] != shape[*axis]);
                differing_sizes.extend(differing.map(|axis| path.size(axis)));
            }
        }
        false
    }

    /// Returns the sizes that the next translation is to leave open. `is_resumed`: the code is that of a resume
    /// function. `differing` are the sizes that had another value in earlier translations, with the number of these.
    /// `dynamic` is the dynamic-shape setting.
    pub(crate) fn next(
        &self,
        is_resumed: bool,
        dynamic: Option<bool>,
        differing: FxHashMap<ValuePath, usize>,
    ) -> Sizes {
        let mut wanted: FxHashSet<_> = self.wanted.union(&self.differing_sizes).cloned().collect();
        let policy = SizePolicy::new(self.asked && is_resumed, self.opens_only_if_often, dynamic);
        let mut early = false;
        for (size, times_differed) in differing {
            let treatment = policy.treatment(times_differed);
            early |= treatment == SizeTreatment::OpenEarly;
            if treatment != SizeTreatment::Specialize {
                wanted.insert(size);
            }
        }
        let sizes = Sizes::new(wanted, self.closed.clone()).asked(dynamic, self.at_first);
        if early {
            sizes.early()
        } else {
            sizes
        }
    }

    /// From now on leaves only sizes open that differ often.
    pub fn open_only_if_often(&mut self) {
        self.opens_only_if_often = true;
    }

    /// From now on specialises on these values, which have turned out to matter.
    pub fn close(&mut self, closed: Vec<ClosedValue>) {
        for what in closed {
            match what {
                ClosedValue::AtFirst(fewer) => self.at_first = fewer,
                _ => _ = self.closed.insert(what),
            }
        }
    }
}
