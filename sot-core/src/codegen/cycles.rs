//! New values in reference cycles: a container in a cycle is created empty, and filled when all objects in progress
//! exist.

use rustc_hash::FxHashMap;

use super::slots::LocalSlots;
use super::CodeGen;
use crate::error::{Flow, ReasonId, Unwind};
use crate::machine::executor::Trace;
use crate::machine::variable::{Form, VarId};
use crate::side_effects::Effect;

/// Forms whose objects keep references to their parts. Objects of other forms are made by calls that read or copy
/// their parts.
const REFERRING: [Form; 7] =
    [Form::List, Form::Dict, Form::Tuple, Form::Cell, Form::Function, Form::Method, Form::MappingProxy];

/// Part of an object that is still to be filled.
pub(super) enum Unfilled {
    Contents(VarId),
    Attributes(VarId),
}

/// The objects that are being made, and those that were made empty because they lead back to one of these.
#[derive(Default)]
pub(super) struct Construction {
    in_progress: Vec<VarId>,
    /// Objects that were made empty; they are filled later.
    unfilled: Vec<Unfilled>,
    /// Containers that are made with all their contents, even if these lead back to them.
    whole: Vec<VarId>,
    /// The new values that are in a reference cycle, once they have been looked for.
    cycles: Option<FxHashMap<VarId, usize>>,
    /// Number of classes being made.
    classes: usize,
    /// Cells made while a class is being made.
    open_cells: Vec<VarId>,
}

impl Construction {
    /// Begins making an object.
    pub(super) fn begin(&mut self, variable: VarId) -> Flow<()> {
        if self.in_progress.contains(&variable) {
            return Err(Unwind::fallback(ReasonId::CannotRestore, "a new object that contains itself"));
        }
        self.in_progress.push(variable);
        Ok(())
    }

    /// Ends making the object that was begun last.
    pub(super) fn end(&mut self) {
        self.in_progress.pop();
    }

    /// Begins making a class. Cells of functions in it stay empty until the class exists.
    pub(super) fn begin_class(&mut self) {
        self.classes += 1;
    }

    /// Ends making a class.
    pub(super) fn end_class(&mut self) {
        self.classes -= 1;
    }

    /// True if a new cell has to be left empty and filled later.
    pub(super) fn leaves_open(&mut self, cell: VarId) -> bool {
        let later = self.classes > 0;
        if later {
            self.open_cells.push(cell);
        }
        later
    }

    /// Returns the next cell to fill, once no class is being made.
    pub(super) fn next_open_cell(&mut self) -> Option<VarId> {
        if self.classes == 0 {
            self.open_cells.pop()
        } else {
            None
        }
    }

    /// Marks a container as one that is only copied into an existing object. It is not left empty, because references
    /// back lead to the existing object.
    pub(super) fn make_whole(&mut self, container: VarId) {
        self.whole.push(container);
    }

    /// Returns the next object to fill, once nothing is being made.
    fn next_unfilled(&mut self) -> Option<Unfilled> {
        if self.in_progress.is_empty() && self.classes == 0 {
            self.unfilled.pop()
        } else {
            None
        }
    }

    /// True if a new container refers back to an object in progress, itself included. It is then left empty until that
    /// object exists.
    pub(super) fn leaves_empty(&mut self, trace: &Trace<'_>, slots: &LocalSlots, container: VarId) -> bool {
        let empty = !self.whole.contains(&container) && self.leads_back(trace, slots, container);
        if empty {
            self.unfilled.push(Unfilled::Contents(container));
        }
        empty
    }

    /// True if a value refers back to an object in progress.
    fn leads_back(&mut self, trace: &Trace<'_>, slots: &LocalSlots, value: VarId) -> bool {
        if self.in_progress.is_empty() {
            return false;
        }
        let cycles = self.cycles.get_or_insert_with(|| find(trace));
        let Some(own) = cycles.get(&value) else { return false };
        let mut unmade = self.in_progress.iter().filter(|made| !slots.hold(**made)).peekable();
        let refers = |made: &VarId| REFERRING.contains(&trace.vars.get(*made).form());
        unmade.clone().all(refers) && unmade.any(|made| cycles.get(made) == Some(own))
    }
}

impl CodeGen<'_, '_> {
    /// Sets the attributes of a new object, or postpones that if they refer back to an object in progress.
    pub(super) fn fill_attributes_in_time(&mut self, object: VarId) -> Flow<()> {
        if self.construction.leads_back(self.trace, &self.slots, object) {
            self.construction.unfilled.push(Unfilled::Attributes(object));
            return Ok(());
        }
        self.fill_attributes(object)
    }

    /// Fills the objects that were left empty.
    pub(super) fn fill(&mut self) -> Flow<()> {
        while let Some(unfilled) = self.construction.next_unfilled() {
            match unfilled {
                Unfilled::Contents(container) => self.trace.vars.get(container).restore_contents(self, container)?,
                Unfilled::Attributes(object) => self.fill_attributes(object)?,
            }
        }
        Ok(())
    }
}

/// Returns the new values that are in a reference cycle, each with the number of its cycle.
fn find(trace: &Trace<'_>) -> FxHashMap<VarId, usize> {
    let mut attributes: FxHashMap<VarId, Vec<VarId>> = FxHashMap::default();
    for effect in trace.effects.log() {
        if let Effect::Attribute { object, value: Some(value), .. } = effect {
            attributes.entry(*object).or_default().push(*value);
        }
    }
    let leads_to = |value: VarId| -> Vec<VarId> {
        let tracker = trace.vars.tracker(value);
        if trace.trackers.is_loadable(tracker) && !trace.trackers.is_made(tracker) {
            return Vec::new();
        }
        let mut values = trace.vars.get(value).children();
        values.extend(attributes.get(&value).into_iter().flatten());
        values
    };
    let all: Vec<VarId> = trace.vars.iter().map(|(value, _)| value).collect();
    let mut components = Components::default();
    for value in all {
        components.visit(value, &leads_to);
    }
    components.cycles
}

/// Tarjan's strongly connected components, without components of a single value that does not refer to itself.
#[derive(Default)]
struct Components {
    indices: FxHashMap<VarId, usize>,
    lowest: FxHashMap<VarId, usize>,
    open: Vec<VarId>,
    cycles: FxHashMap<VarId, usize>,
    closed: usize,
}

impl Components {
    fn visit(&mut self, first: VarId, leads_to: &dyn Fn(VarId) -> Vec<VarId>) {
        if self.indices.contains_key(&first) {
            return;
        }
        let mut path = vec![(first, self.enter(first, leads_to))];
        while let Some((value, ahead)) = path.last_mut() {
            let value = *value;
            match ahead.pop() {
                Some(next) if next == value => {
                    self.cycles.entry(value).or_insert(usize::MAX);
                }
                Some(next) => match self.indices.get(&next) {
                    None => path.push((next, self.enter(next, leads_to))),
                    Some(&index) if self.lowest.contains_key(&next) => self.lower(value, index),
                    Some(_) => {}
                },
                None => {
                    path.pop();
                    let lowest = self.lowest[&value];
                    if let Some((before, _)) = path.last() {
                        self.lower(*before, lowest);
                    }
                    if lowest == self.indices[&value] {
                        self.close(value);
                    }
                }
            }
        }
    }

    fn enter(&mut self, value: VarId, leads_to: &dyn Fn(VarId) -> Vec<VarId>) -> Vec<VarId> {
        let index = self.indices.len();
        self.indices.insert(value, index);
        self.lowest.insert(value, index);
        self.open.push(value);
        leads_to(value)
    }

    fn lower(&mut self, value: VarId, to: usize) {
        self.lowest.entry(value).and_modify(|lowest| *lowest = to.min(*lowest));
    }

    fn close(&mut self, root: VarId) {
        let at = self.open.iter().rposition(|value| *value == root).expect("a root is open until it is closed");
        let members = self.open.split_off(at);
        self.closed += 1;
        for member in &members {
            // A value without an entry in `lowest` is not open any more.
            self.lowest.remove(member);
            if members.len() > 1 || self.cycles.contains_key(member) {
                self.cycles.insert(*member, self.closed);
            }
        }
    }
}
