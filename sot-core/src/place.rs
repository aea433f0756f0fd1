//! Places: where a value is found, as a value that outlives the trace that found it. What is remembered between calls is
//! kept by place. A tracker says the same within one trace; `Trackers::place` gives its place.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use crate::cpython::Part;
use crate::operators::{BinaryOp, CompareOp};

/// Where a value is found: the way from an argument, a free variable or the globals of the frame to it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Place(Arc<[PlaceStep]>);

/// A step of the way. Objects are named by their addresses: a place keeps none alive.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum PlaceStep {
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
    /// The size of a tensor's dimension.
    Size(usize),
    /// What an operator gives.
    Binary(BinaryOp, [Place; 2]),
    /// What a comparison gives.
    Compare(CompareOp, [Place; 2]),
    /// What a function gives.
    Call(usize, Box<[Place]>),
    /// A value made in the trace.
    Made,
    /// Steps that are left out of a long way.
    Omitted,
}

impl Place {
    /// The place at the end of these steps.
    #[must_use]
    pub fn new(steps: Vec<PlaceStep>) -> Self {
        Place(steps.into())
    }

    /// The argument of a name.
    #[must_use]
    pub fn argument(name: &str) -> Self {
        Place::new(vec![PlaceStep::Argument(name.into())])
    }

    /// One step further.
    #[must_use]
    pub fn then(&self, step: PlaceStep) -> Self {
        Place(self.0.iter().cloned().chain([step]).collect())
    }

    /// The size of a dimension of the tensor that is found here.
    #[must_use]
    pub fn size(&self, axis: usize) -> Self {
        self.then(PlaceStep::Size(axis))
    }
}

impl Display for Place {
    /// For people.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for step in &*self.0 {
            match step {
                PlaceStep::Argument(name) | PlaceStep::FreeCell(name) => write!(f, "{name}")?,
                PlaceStep::Globals => write!(f, "globals()")?,
                PlaceStep::Builtins => write!(f, "builtins")?,
                PlaceStep::Object(_) => write!(f, "<object>")?,
                PlaceStep::Attribute(name) => write!(f, ".{name}")?,
                PlaceStep::Index(index) => write!(f, "[{index}]")?,
                PlaceStep::FromEnd(back) => write!(f, "[-{back}]")?,
                PlaceStep::Key(key) => write!(f, "['{key}']")?,
                PlaceStep::KeyObject(_) => write!(f, "[<object>]")?,
                PlaceStep::Cached(_) => write!(f, "(...)")?,
                PlaceStep::Type => write!(f, ".__class__")?,
                PlaceStep::CellContents => write!(f, ".cell_contents")?,
                PlaceStep::Part(part) => write!(f, ".{}", part.attribute())?,
                PlaceStep::Length => write!(f, ".__len__()")?,
                PlaceStep::Upcoming(after) => write!(f, "<item {after} to come>")?,
                PlaceStep::Iterated(index) => write!(f, "<iterated {index}>")?,
                PlaceStep::Size(axis) => write!(f, ".shape[{axis}]")?,
                PlaceStep::Binary(op, [a, b]) => write!(f, "({a} {} {b})", op.symbol())?,
                PlaceStep::Compare(op, [a, b]) => write!(f, "({a} {} {b})", op.symbol())?,
                PlaceStep::Call(_, of) => {
                    let of: Vec<String> = of.iter().map(ToString::to_string).collect();
                    write!(f, "<function>({})", of.join(", "))?;
                }
                PlaceStep::Made => write!(f, "<made in the trace>")?,
                PlaceStep::Omitted => write!(f, "...")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Place, PlaceStep};

    #[test]
    fn equal_ways_are_one_place() {
        let layers = Place::argument("model").then(PlaceStep::Attribute("layers".into()));
        let first = layers.then(PlaceStep::Index(0));
        assert_eq!(
            first,
            Place::argument("model").then(PlaceStep::Attribute("layers".into())).then(PlaceStep::Index(0))
        );
        assert_ne!(first, layers.then(PlaceStep::Key("0".into())), "a string key is another item");
        assert_eq!(first.size(1).to_string(), "model.layers[0].shape[1]");
    }
}
