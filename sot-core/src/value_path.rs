//! Where a value is found, as a value that outlives the trace that found it: what is remembered between calls is kept
//! by path. A tracker says the same within one trace; `Trackers::path` gives its path.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use crate::cpython::Part;
use crate::foreign::Foreign;
use crate::operators::{BinaryOp, CompareOp};

/// Where a value is found: the way from an argument, a free variable or the globals of the frame to it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ValuePath(Arc<[PathStep]>);

/// A step of the path. Objects are named by their addresses: a path keeps none alive.
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
    /// An object that is known.
    Object(usize),
    /// An attribute, however it is found.
    Attribute(Box<str>),
    /// The item at a position, or of an integer key.
    Index(i64),
    /// The item at a position from the end: 1 is the last.
    FromEnd(usize),
    /// The item of a string key.
    Key(Box<str>),
    /// The item of another key.
    KeyObject(usize),
    /// What a cached function has for the arguments that it keeps under this key.
    Cached(usize),
    /// The class.
    Type,
    /// The contents of a cell.
    CellContents,
    /// A part of a function or method.
    Part(Part),
    /// The length.
    Length,
    /// What an iterator gives after so many others.
    Upcoming(usize),
    /// What an iterator goes over.
    Iterated(usize),
    /// What a plug-in finds in an object.
    Foreign(Foreign),
    /// The size of a tensor's dimension.
    Size(usize),
    /// What an operator gives.
    Binary(BinaryOp, [ValuePath; 2]),
    /// What a comparison gives.
    Compare(CompareOp, [ValuePath; 2]),
    /// What a function gives.
    Call(usize, Box<[ValuePath]>),
    /// A value made in the trace.
    Made,
    /// Steps that are left out of a long path.
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

    /// One step further.
    #[must_use]
    pub fn then(&self, step: PathStep) -> Self {
        ValuePath(self.0.iter().cloned().chain([step]).collect())
    }

    /// The size of a dimension of the tensor that is found here.
    #[must_use]
    pub fn size(&self, axis: usize) -> Self {
        self.then(PathStep::Size(axis))
    }
}

impl Display for ValuePath {
    /// For people.
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
