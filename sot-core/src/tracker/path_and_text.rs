//! Paths and texts of trackers: how a value's place is remembered between calls, and how people read it.

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
        let mut text = String::new();
        self.write_text(py, id, &mut text);
        text
    }

    /// Writes the text of a tracker behind what `out` holds.
    pub fn write_text(&self, py: Python<'_>, id: TrackerId, out: &mut String) {
        self.write_last_steps(py, id, LONGEST_TEXT, out);
    }

    /// Writes the last steps of a tracker. Complete texts are kept, because the guards of one object share their
    /// beginning (`f_locals['self'].blocks[0]`). A truncated text is not kept, because it depends on how many steps
    /// are left.
    fn write_last_steps(&self, py: Python<'_>, id: TrackerId, steps: usize, out: &mut String) {
        let is_whole = steps > self.depth(id);
        if let Some(known) = self.texts.borrow().get(&id).filter(|_| is_whole) {
            return out.push_str(known);
        }
        let start = out.len();
        match steps.checked_sub(1) {
            Some(steps) => self.write_steps(py, id, steps, out),
            None => out.push_str("..."),
        }
        if is_whole {
            self.texts.borrow_mut().insert(id, out[start..].into());
        }
    }

    /// Writes the last step of a tracker behind `steps` steps of what it is derived from.
    fn write_steps(&self, py: Python<'_>, id: TrackerId, steps: usize, out: &mut String) {
        let mut write = |parts: &[TextPart<'_>]| {
            for part in parts {
                match part {
                    TextPart::Text(text) => out.push_str(text),
                    TextPart::Value(of) => self.write_last_steps(py, *of, steps, out),
                }
            }
        };
        use TextPart::{Text, Value};
        match self.get(id) {
            Tracker::Local { name, .. } => write(&[Text("frame.f_locals['"), Text(name), Text("']")]),
            Tracker::FreeCell { name, .. } => write(&[Text("frame.closure['"), Text(name), Text("']")]),
            Tracker::Globals => write(&[Text("frame.f_globals")]),
            Tracker::Builtins => write(&[Text("frame.f_builtins")]),
            Tracker::Constant(object) | Tracker::Registered(object) | Tracker::GuardedKey(object) => {
                write(&[Text(&repr(py, &object.0))]);
            }
            Tracker::Cached { of, args, keywords, .. } => {
                write(&[Value(*of), Text(&format!("(*{}, **{})", args.0, keywords.0))]);
            }
            Tracker::Attribute { of, name } | Tracker::Getattr { of, name } | Tracker::Lookup { of, name } => {
                write(&[Value(*of), Text("."), Text(name)]);
            }
            Tracker::Type { of } => write(&[Text("type("), Value(*of), Text(")")]),
            Tracker::Item { of, key } => write(&[Value(*of), Text("["), Text(&key.text(py)), Text("]")]),
            Tracker::CellContents { of } => write(&[Value(*of), Text(".cell_contents")]),
            Tracker::Part { of, part } => write(&[Value(*of), Text("."), Text(part.attribute())]),
            Tracker::Computed { how, of } => {
                let operand = |of: &TrackerId| {
                    let mut text = String::new();
                    match self.weight(*of) {
                        0..=LARGEST_OPERAND => self.write_last_steps(py, *of, steps, &mut text),
                        _ => text.push_str("..."),
                    }
                    text
                };
                write(&[Text(&how.text(py, &of.iter().map(operand).collect::<Vec<_>>()))]);
            }
            Tracker::AsBuiltinBase { of } => write(&[Value(*of)]),
            Tracker::Length { of } => write(&[Text("len("), Value(*of), Text(")")]),
            Tracker::Upcoming { of, after, .. } => {
                write(&[Text("upcoming("), Value(*of), Text(&format!(", {after})"))]);
            }
            Tracker::Iterated { of, index } => write(&[Value(*of), Text(&format!(".__reduce__()[1][{index}]"))]),
            Tracker::Foreign { of, how } => {
                let mut text = String::new();
                self.write_last_steps(py, *of, steps, &mut text);
                write(&[Text(&how.0.text(&text))]);
            }
            Tracker::Produced | Tracker::RealObject(_) => write(&[Text("<made in the trace>")]),
        }
    }
}

/// A part of a tracker's text.
enum TextPart<'a> {
    Text(&'a str),
    /// The text of another tracker.
    Value(TrackerId),
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
