//! Cells: the boxes by which closures share variables.

use std::rc::Rc;

use crate::iterators::or_object_type;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::executor::{object_model, Name, OpcodeExecutor, Trace};
use sot_core::guard::Test;
use sot_core::side_effects::Effect;
use sot_core::tracker::{Tracker, TrackerId};
use sot_core::variable::{Argument, Form, Rebuild};
use sot_core::variable::{VarId, Variable};

sot_core::variable_kind! { "cell", types: |py| Ok(vec![cell_type(py)?.unbind()]), wrap: CellVariable::wrap }

/// A cell, empty or not.
pub struct CellVariable {
    contents: Option<VarId>,
}

impl CellVariable {
    /// Returns a cell with the given contents.
    pub fn new(contents: Option<VarId>) -> Self {
        CellVariable { contents }
    }

    /// Returns the contents, or `None` if the cell is empty.
    pub fn contents(&self) -> Option<VarId> {
        self.contents
    }

    fn wrap(cx: &mut OpcodeExecutor<'_>, object: &Bound<'_, PyAny>, of: TrackerId) -> Flow<Rc<dyn Variable>> {
        let object = object.clone().unbind().into_bound(cx.py);
        let contents = match cpython::cell_contents(&object) {
            Some(contents) => {
                let tracker = cx.trace.trackers.add(Tracker::CellContents { of });
                cx.trace.guards.require(tracker);
                Some(cx.trace.wrap(&contents, tracker))
            }
            None => {
                cx.trace.guards.add(of, Test::EmptyCell);
                None
            }
        };
        Ok(Rc::new(CellVariable { contents }))
    }
}

/// Stores a value in a cell that has been looked at, or empties the cell.
pub fn write(cx: &mut OpcodeExecutor<'_>, cell: VarId, value: Option<VarId>) {
    cx.trace.vars.set(cell, Rc::new(CellVariable::new(value)));
    cx.trace.effects.record(Effect::Cell { cell });
}

fn cell_type(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    cpython::import(py, "types")?.getattr("CellType")
}

impl Variable for CellVariable {
    fn kind(&self) -> &'static str {
        "cell"
    }

    fn form(&self) -> Form {
        Form::Cell
    }

    fn answers_slots(&self) -> bool {
        false
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        or_object_type(trace, cell_type(trace.py))
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        format!("CellVariable({})", self.contents.map_or_else(|| "empty".to_owned(), |contents| trace.text(contents)))
    }

    /// The contents carry their own guards.
    fn guard(&self, _: &mut OpcodeExecutor<'_>, _: VarId) -> Flow<()> {
        Ok(())
    }

    fn children(&self) -> Vec<VarId> {
        self.contents.into_iter().collect()
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        match (&**name, self.contents) {
            ("cell_contents", Some(contents)) => Ok(Some(contents)),
            ("cell_contents", None) => Err(cx.raise(PyValueError::new_err("Cell is empty"))),
            _ => object_model::get_attr(cx, this, name),
        }
    }

    fn set_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name, value: Option<VarId>) -> Flow<()> {
        if &**name != "cell_contents" {
            return object_model::set_attr(cx, this, name, value);
        }
        write(cx, this, value);
        Ok(())
    }

    /// The cell is made before its contents, as a function among the contents may refer to the cell.
    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let make = cell_type(cg.py())?.unbind();
        cg.begin_call(|cg| cg.load_const(make))?;
        cg.end_call(0)?;
        cg.define(this)?;
        if self.contents.is_some() && !cg.leaves_open(this) && !cg.leaves_empty(this) {
            self.restore_contents(cg, this)?;
        }
        Ok(())
    }

    fn restore_contents(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        cg.store_attr(this, "cell_contents", self.contents.map(Argument::from))
    }
}
