//! Paths to values, which outlive the trace: facts that are remembered between calls have a path as key. Within one
//! trace, trackers are used instead; `Trackers::path` turns a tracker into its path.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use crate::cpython::Part;
use crate::foreign::Foreign;
use crate::operators::{BinaryOp, CompareOp};

/// The steps from an argument, a free variable or the globals of the frame to a value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ValuePath(Arc<[PathStep]>);

/// A step of the path. Objects are named by their addresses, so that a path keeps no object alive.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum PathStep {
    /// The argument of this name.
    Argument(Box<str>),
    /// The cell of the free variable of this name.
    FreeCell(Box<str>),
    /// The globals dict.
    Globals,
    /// The builtins dict.
    Builtins,
    /// An object that was known when the path was made, by address.
    Object(usize),
    /// An attribute, found in any way.
    Attribute(Box<str>),
    /// The item at a position, or under an integer key.
    Index(i64),
    /// The item at a position from the end: 1 is the last.
    FromEnd(usize),
    /// The item under a string key.
    Key(Box<str>),
    /// The item under a key of another type, by the key's address.
    KeyObject(usize),
    /// The cached result of a cached function, by the address of the cache's key.
    Cached(usize),
    /// The class of the object.
    Type,
    /// The contents of a cell.
    CellContents,
    /// A part of a function or method.
    Part(Part),
    /// The length of the object.
    Length,
    /// The item that an iterator yields after this many others.
    Upcoming(usize),
    /// The iterable, by its index, that an iterator goes over.
    Iterated(usize),
    /// A value that a plug-in fetches from an object.
    Foreign(Foreign),
    /// The size of a tensor's dimension.
    Size(usize),
    /// The result of an operator.
    Binary(BinaryOp, [ValuePath; 2]),
    /// The result of a comparison.
    Compare(CompareOp, [ValuePath; 2]),
    /// The result of a function, by the function's address, called with these values.
    Call(usize, Box<[ValuePath]>),
    /// A value that was made in the trace.
    Made,
    /// Steps left out of a long path.
    Omitted,
}

impl ValuePath {
    /// The path of these steps.
    #[must_use]
    pub fn new(steps: Vec<PathStep>) -> Self {
        ValuePath(steps.into())
    }

    /// The argument of a name.
    #[must_use]
    pub fn argument(name: &str) -> Self {
        ValuePath::new(vec![PathStep::Argument(name.into())])
    }

    /// Extends the path by one step.
    #[must_use]
    pub fn then(&self, step: PathStep) -> Self {
        ValuePath(self.0.iter().cloned().chain([step]).collect())
    }

    /// The path of a dimension's size of the tensor that is found here.
    #[must_use]
    pub fn size(&self, axis: usize) -> Self {
        self.then(PathStep::Size(axis))
    }
}

impl Display for ValuePath {
    /// Writes the path for people.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for step in &*self.0 {
            match step {
                PathStep::Argument(name) | PathStep::FreeCell(name) => write!(f, "{name}")?,
                PathStep::Globals => write!(f, "globals()")?,
                PathStep::Builtins => write!(f, "builtins")?,
                PathStep::Object(_) => write!(f, "<object>")?,
                PathStep::Attribute(name) => write!(f, ".{name}")?,
                PathStep::Index(index) => write!(f, "[{index}]")?,
                PathStep::FromEnd(back) => write!(f, "[-{back}]")?,
                PathStep::Key(key) => write!(f, "['{key}']")?,
                PathStep::KeyObject(_) => write!(f, "[<object>]")?,
                PathStep::Cached(_) => write!(f, "(...)")?,
                PathStep::Type => write!(f, ".__class__")?,
                PathStep::CellContents => write!(f, ".cell_contents")?,
                PathStep::Part(part) => write!(f, ".{}", part.attribute())?,
                PathStep::Length => write!(f, ".__len__()")?,
                PathStep::Upcoming(after) => write!(f, "<item {after} to come>")?,
                PathStep::Iterated(index) => write!(f, "<iterated {index}>")?,
                PathStep::Foreign(how) => write!(f, "{}", how.0.text(""))?,
                PathStep::Size(axis) => write!(f, ".shape[{axis}]")?,
                PathStep::Binary(op, [a, b]) => write!(f, "({a} {} {b})", op.symbol())?,
                PathStep::Compare(op, [a, b]) => write!(f, "({a} {} {b})", op.symbol())?,
                PathStep::Call(_, of) => {
                    let of: Vec<String> = of.iter().map(ToString::to_string).collect();
                    write!(f, "<function>({})", of.join(", "))?;
                }
                PathStep::Made => write!(f, "<made in the trace>")?,
                PathStep::Omitted => write!(f, "...")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{PathStep, ValuePath};

    #[test]
    fn equal_steps_are_one_path() {
        let parts = ValuePath::argument("machine").then(PathStep::Attribute("parts".into()));
        let first = parts.then(PathStep::Index(0));
        assert_eq!(
            first,
            ValuePath::argument("machine").then(PathStep::Attribute("parts".into())).then(PathStep::Index(0))
        );
        assert_ne!(first, parts.then(PathStep::Key("0".into())), "a string key is another item");
        assert_eq!(first.size(1).to_string(), "machine.parts[0].shape[1]");
    }
}
