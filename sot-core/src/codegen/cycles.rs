//! New values in reference cycles: a container in a cycle is created empty, and filled when all objects in progress
//! exist.

use std::collections::HashMap;

use super::CodeGen;
use crate::error::Flow;
use crate::machine::executor::OpcodeExecutor;
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

impl CodeGen<'_, '_> {
    /// True if a new container refers back to an object in progress, itself included. It is then left empty until
    /// that object exists.
    pub fn leaves_empty(&mut self, container: VarId) -> bool {
        let empty = !self.whole.contains(&container) && self.leads_back(container);
        if empty {
            self.unfilled.push(Unfilled::Contents(container));
        }
        empty
    }

    /// Marks a container as one that is only copied into an existing object. It is not left empty, because references
    /// back lead to the existing object.
    pub fn makes_whole(&mut self, container: VarId) {
        self.whole.push(container);
    }

    /// Sets the attributes of a new object, or postpones that if they refer back to an object in progress.
    pub(super) fn fill_attributes_in_time(&mut self, object: VarId) -> Flow<()> {
        if self.leads_back(object) {
            self.unfilled.push(Unfilled::Attributes(object));
            return Ok(());
        }
        self.fill_attributes(object)
    }

    /// Fills the objects that were left empty.
    pub(super) fn fill(&mut self) -> Flow<()> {
        while self.in_progress.is_empty() && self.classes_in_progress == 0 {
            match self.unfilled.pop() {
                Some(Unfilled::Contents(container)) => {
                    self.cx.vars.get(container).restore_contents(self, container)?;
                }
                Some(Unfilled::Attributes(object)) => self.fill_attributes(object)?,
                None => break,
            }
        }
        Ok(())
    }

    fn leads_back(&mut self, value: VarId) -> bool {
        if self.in_progress.is_empty() {
            return false;
        }
        let cx = self.cx;
        let cycles = self.cycles.get_or_insert_with(|| find(cx));
        let Some(own) = cycles.get(&value) else { return false };
        let mut unmade = self.in_progress.iter().filter(|made| !self.temps.contains_key(made)).peekable();
        let refers = |made: &VarId| REFERRING.contains(&cx.vars.get(*made).form());
        unmade.clone().all(refers) && unmade.any(|made| cycles.get(made) == Some(own))
    }
}

/// Returns the new values that are in a reference cycle, each with the number of its cycle.
fn find(cx: &OpcodeExecutor<'_>) -> HashMap<VarId, usize> {
    let mut attributes: HashMap<VarId, Vec<VarId>> = HashMap::new();
    for effect in cx.effects.log() {
        if let Effect::Attribute { object, value: Some(value), .. } = effect {
            attributes.entry(*object).or_default().push(*value);
        }
    }
    let leads_to = |value: VarId| -> Vec<VarId> {
        let tracker = cx.vars.tracker(value);
        if cx.trackers.is_loadable(tracker) && !cx.trackers.is_made(tracker) {
            return Vec::new();
        }
        let mut values = cx.vars.get(value).children();
        values.extend(attributes.get(&value).into_iter().flatten());
        values
    };
    let all: Vec<VarId> = cx.vars.iter().map(|(value, _)| value).collect();
    let mut components = Components::default();
    for value in all {
        components.visit(value, &leads_to);
    }
    components.cycles
}

/// Tarjan's strongly connected components, without components of a single value that does not refer to itself.
#[derive(Default)]
struct Components {
    indices: HashMap<VarId, usize>,
    lowest: HashMap<VarId, usize>,
    open: Vec<VarId>,
    cycles: HashMap<VarId, usize>,
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
        let at = self.open.iter().rposition(|value| *value == root).unwrap_or_default();
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
