//! Paths and texts of trackers: how a value's place is remembered between calls, and how people read it.

use std::rc::Rc;

use pyo3::prelude::*;

use super::{repr, Computation, Tracker, TrackerId, Trackers, LARGEST_OPERAND, LONGEST_TEXT};
use crate::value_path::{PathStep, ValuePath};

impl Trackers {
    /// Returns where the value is found, independent of this trace. A long path keeps only its end, and a large
    /// computation only its last operations.
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

    /// Returns the last step of the path; `None` for `AsBuiltinBase`, whose object is at the same place.
    fn step(&self, id: TrackerId) -> Option<PathStep> {
        Some(match self.get(id) {
            Tracker::Local { name, .. } => PathStep::Argument((**name).into()),
            Tracker::FreeCell { name, .. } => PathStep::FreeCell((**name).into()),
            Tracker::Globals => PathStep::Globals,
            Tracker::Builtins => PathStep::Builtins,
            Tracker::Constant(object) | Tracker::Registered(object) | Tracker::GuardedKey(object) => {
                PathStep::Object(object.address())
            }
            Tracker::Cached { key, .. } => PathStep::Cached(key.address()),
            Tracker::Attribute { name, .. } | Tracker::Getattr { name, .. } | Tracker::Lookup { name, .. } => {
                PathStep::Attribute((**name).into())
            }
            Tracker::Type { .. } => PathStep::Type,
            Tracker::Item { key, .. } => key.step(),
            Tracker::CellContents { .. } => PathStep::CellContents,
            Tracker::Part { part, .. } => PathStep::Part(*part),
            Tracker::Computed { how, of } => {
                let operand = |of: &TrackerId| match self.weight(*of) {
                    0..=LARGEST_OPERAND => self.path(*of),
                    _ => ValuePath::new(vec![PathStep::Omitted]),
                };
                let of: Vec<ValuePath> = of.iter().map(operand).collect();
                match (how, of.try_into()) {
                    (Computation::Binary(op), Ok(of)) => PathStep::Binary(*op, of),
                    (Computation::Compare(op), Ok(of)) => PathStep::Compare(*op, of),
                    (Computation::Call(function) | Computation::Convert { function, .. }, Ok(of)) => {
                        PathStep::Call(function.address(), Box::new(of) as Box<[ValuePath]>)
                    }
                    (Computation::Call(function) | Computation::Convert { function, .. }, Err(of)) => {
                        PathStep::Call(function.address(), of.into())
                    }
                    (_, Err(_)) => PathStep::Made,
                }
            }
            Tracker::AsBuiltinBase { .. } => return None,
            Tracker::Length { .. } => PathStep::Length,
            Tracker::Upcoming { after, .. } => PathStep::Upcoming(*after),
            Tracker::Iterated { index, .. } => PathStep::Iterated(*index),
            Tracker::Foreign { how, .. } => PathStep::Foreign(how.clone()),
            Tracker::Produced | Tracker::RealObject(_) => PathStep::Made,
        })
    }

    /// Returns the value as a Python expression over `frame`, for logs and guard texts. A long chain is shown from
    /// its end.
    pub fn text(&self, py: Python<'_>, id: TrackerId) -> String {
        self.start_of_text(py, id, LONGEST_TEXT).to_string()
    }

    /// Returns the text of a tracker that another one is derived from. Complete texts are kept, because the guards of
    /// one object share their beginning (`f_locals['self'].blocks[0]`). A truncated text is not kept, because it
    /// depends on how many steps are left.
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
            Tracker::Constant(object) | Tracker::Registered(object) | Tracker::GuardedKey(object) => {
                repr(py, &object.0)
            }
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
                let operand = |of: &TrackerId| match self.weight(*of) {
                    0..=LARGEST_OPERAND => text(*of).to_string(),
                    _ => "...".to_owned(),
                };
                how.text(py, &of.iter().map(operand).collect::<Vec<_>>())
            }
            Tracker::AsBuiltinBase { of } => text(*of).to_string(),
            Tracker::Length { of } => format!("len({})", text(*of)),
            Tracker::Upcoming { of, after, .. } => format!("upcoming({}, {after})", text(*of)),
            Tracker::Iterated { of, index } => format!("{}.__reduce__()[1][{index}]", text(*of)),
            Tracker::Foreign { of, how } => how.0.text(&text(*of)),
            Tracker::Produced | Tracker::RealObject(_) => "<made in the trace>".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::BinaryOp;

    #[test]
    fn numbers_that_double_in_each_round_have_short_paths() {
        let mut trackers = Trackers::default();
        let first = trackers.add(Tracker::Local { name: "n".into(), slot: 0 });
        let double = |trackers: &mut Trackers, of: TrackerId| {
            trackers.add(Tracker::Computed { how: Computation::Binary(BinaryOp::Add), of: vec![of, of] })
        };
        let (mut last, mut paths) = (first, Vec::new());
        for _ in 0..1_000 {
            last = double(&mut trackers, last);
            paths.push(trackers.path(last).to_string());
        }
        assert_eq!(paths[1], "((n + n) + (n + n))");
        assert_eq!(paths[999], "(... + ...)");
        assert!(paths.iter().all(|path| path.len() < 1_000));
        assert_eq!(trackers.leaves(last), [first]);
    }
}
