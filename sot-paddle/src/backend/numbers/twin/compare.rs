//! The comparison of a statement's operations in the program and in the twin.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use sot_core::cpython;

use super::selections::Selection;
use super::shape_arguments::{self, ShapeArgument};
use super::{refused, Twin};
use crate::backend::graph::builder::identity;
use crate::backend::paddle::meta;
use crate::backend::paddle::operation;

/// Attributes that only describe how an operation was made, or that the builder corrects.
const IRRELEVANT: &[&str] = &["op_callstack", "stop_gradient", "sym_shape_str"];
/// Attributes, by operation, that say what the shape of an operand says at run time.
const OF_OPERANDS: &[(&str, &str)] = &[("pd_op.expand_as", "target_shape")];

impl Twin {
    /// The twin's value for a value of the program, as the present statement takes it.
    fn of(&self, id: u64) -> Option<&Py<PyAny>> {
        self.invented.get(&id).filter(|_| self.uses_invented).or_else(|| self.values.get(&id))
    }

    /// Refuses the statement unless the twin's operations and the program's are the same. Notes which results
    /// correspond.
    pub(crate) fn compare<'py>(&mut self, here: &[Bound<'py, PyAny>], there: &[Bound<'py, PyAny>]) -> PyResult<()> {
        let (mut here, mut there) = (here, there);
        while let Some(next) = there.first() {
            if let Some(slice) = Selection::first_of(there)? {
                here = self.compare_slices(here, &slice)?;
                there = &there[slice.length..];
                continue;
            }
            if let (Some(own), Some(shape)) = (ShapeArgument::first_of(here)?, ShapeArgument::first_of(there)?) {
                self.compare_shapes(&own, &shape)?;
                (here, there) = (&here[shape_arguments::LENGTH..], &there[shape_arguments::LENGTH..]);
                continue;
            }
            let Some(twin) = here.first() else { return Err(refused("another number of operations")) };
            let name = operation::name_of(next)?;
            if operation::name_of(twin)? != name || operation::has_blocks(next)? {
                return Err(refused(&format!("{name} is another operation")));
            }
            let of_operands =
                OF_OPERANDS.iter().find(|(operation, _)| *operation == name).map(|(_, attribute)| *attribute);
            if text_without(twin, of_operands)? != text_without(next, of_operands)? {
                return Err(refused(&format!("{name} has other attributes")));
            }
            self.compare_operands(twin, next)?;
            self.compare_results(twin, next, &name)?;
            (here, there) = (&here[1..], &there[1..]);
        }
        if here.is_empty() {
            Ok(())
        } else {
            Err(refused("another number of operations"))
        }
    }

    /// Refuses the statement if it returns other objects than values of the graph, such as sizes, and these differ in
    /// the twin.
    pub(crate) fn compare_objects(&self, here: &Bound<'_, PyAny>, there: &Bound<'_, PyAny>) -> PyResult<()> {
        if self.paddle.is_value(there) && self.paddle.is_value(here) {
            return Ok(());
        }
        if !here.get_type().is(there.get_type()) {
            return Err(refused("it returns another object"));
        }
        if cpython::is_atom(there) && !here.eq(there)? {
            return Err(refused("it returns a size"));
        }
        let (own, parts) = (items(here)?, items(there)?);
        if own.len() != parts.len() {
            return Err(refused("it returns another number of objects"));
        }
        own.iter().zip(&parts).try_for_each(|(here, there)| self.compare_objects(here, there))
    }

    /// Compares an expansion or reshape of the twin with that of the program.
    fn compare_shapes(&mut self, here: &ShapeArgument<'_>, there: &ShapeArgument<'_>) -> PyResult<()> {
        let operand: Vec<i64> = here.operand.getattr(intern!(here.operand.py(), "shape"))?.extract()?;
        if !there.is_like(here, &operand) {
            return Err(refused("another shape"));
        }
        self.compare_results(&here.shape, &there.shape, "a shape")?;
        self.compare_operands(&here.taken_by, &there.taken_by)?;
        self.compare_results(&here.taken_by, &there.taken_by, &operation::name_of(&there.taken_by)?)
    }

    /// Compares a slice of the program with the twin's operations, and returns the operations that are left. A slice
    /// that selects everything may be missing in the twin, or be a copy.
    fn compare_slices<'a, 'py>(
        &mut self,
        here: &'a [Bound<'py, PyAny>],
        slice: &Selection<'py>,
    ) -> PyResult<&'a [Bound<'py, PyAny>]> {
        let py = slice.operand.py();
        let operand = self.of(identity(&self.paddle, &slice.operand)?).map(|twin| twin.bind(py).clone());
        let sizes: Vec<i64> = match &operand {
            Some(operand) => operand.getattr(intern!(py, "shape"))?.extract()?,
            None => Vec::new(),
        };
        if let Some(twin) = Selection::first_of(here)? {
            if slice.is_like(&twin, &sizes) {
                self.compare_operand(&twin.operand, &slice.operand)?;
                self.compare_results(&twin.slice, &slice.slice, "a slice")?;
                return Ok(&here[twin.length..]);
            }
        }
        let Some(operand) = operand.filter(|_| slice.selects_all(&sizes)) else {
            return Err(refused("another selection"));
        };
        let result = slice.slice.call_method1(intern!(py, "result"), (0,))?;
        match here {
            [copy] if operation::name_of(copy)? == "pd_op.assign" => {
                self.compare_operand(&copy.call_method1(intern!(py, "operand_source"), (0,))?, &slice.operand)?;
                self.compare_result(&copy.call_method1(intern!(py, "result"), (0,))?, &result, "a slice")?;
                Ok(&[])
            }
            _ => {
                self.compare_result(&operand, &result, "a slice")?;
                Ok(here)
            }
        }
    }

    fn compare_operands(&mut self, here: &Bound<'_, PyAny>, there: &Bound<'_, PyAny>) -> PyResult<()> {
        let sources = |operation: &Bound<'_, PyAny>| -> PyResult<Vec<Py<PyAny>>> {
            operation.call_method0(intern!(operation.py(), "operands_source"))?.extract()
        };
        let (py, here, there) = (here.py(), sources(here)?, sources(there)?);
        if here.len() != there.len() {
            return Err(refused("another number of operands"));
        }
        here.iter().zip(&there).try_for_each(|(here, there)| self.compare_operand(here.bind(py), there.bind(py)))
    }

    fn compare_operand(&mut self, here: &Bound<'_, PyAny>, there: &Bound<'_, PyAny>) -> PyResult<()> {
        let (Ok(here_id), Ok(there_id)) = (identity(&self.paddle, here), identity(&self.paddle, there)) else {
            return Ok(()); // An operand that is left out.
        };
        let known = match self.of(there_id).or_else(|| self.stand_ins.get(&there_id)) {
            Some(known) => identity(&self.paddle, known.bind(here.py()))?,
            None => {
                self.stand_ins.insert(there_id, here.clone().unbind());
                here_id
            }
        };
        if known == here_id {
            Ok(())
        } else {
            Err(refused("another operand"))
        }
    }

    fn compare_results(&mut self, here: &Bound<'_, PyAny>, there: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
        let results = |operation: &Bound<'_, PyAny>| -> PyResult<Vec<Py<PyAny>>> {
            operation.call_method0(intern!(operation.py(), "results"))?.extract()
        };
        let (py, here, there) = (here.py(), results(here)?, results(there)?);
        if here.len() != there.len() {
            return Err(refused(&format!("{name} has another number of results")));
        }
        for (here, there) in here.iter().zip(&there) {
            let (here, there) = (here.bind(py), there.bind(py));
            if there.call_method0(intern!(py, "is_combine"))?.is_truthy()? {
                self.insert(there, here)?;
                continue;
            }
            self.compare_result(here, there, name)?;
        }
        Ok(())
    }

    fn compare_result(&mut self, here: &Bound<'_, PyAny>, there: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
        // A result without a shape, such as a place for scratch memory, is no argument of other statements.
        let (Ok(Some(now)), Ok(Some(open))) = (meta::of_value(&self.paddle, here), meta::of_value(&self.paddle, there))
        else {
            return Ok(());
        };
        let agree = now.shape.len() == open.shape.len()
            && now.dtype == open.dtype
            && now.shape.iter().zip(&open.shape).all(|(now, open)| open.is_none() || now == open);
        if !agree {
            return Err(refused(&format!("{name} gives {open} for {now}")));
        }
        self.insert(there, here)
    }
}

/// Returns the items of a list, tuple or dict, also of a subclass.
fn items<'py>(object: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if let Ok(dict) = object.cast::<PyDict>() {
        return Ok(dict.values().iter().collect());
    }
    let is_sequence = object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>();
    if is_sequence {
        object.try_iter()?.collect()
    } else {
        Ok(Vec::new())
    }
}

/// Returns the attributes of an operation, without its operands, as text. It is a text because Paddle 3.0 cannot
/// compare places. The text distinguishes any two floats, and `nan` equals itself in it.
pub(crate) fn attributes_text(operation: &Bound<'_, PyAny>) -> PyResult<String> {
    text_without(operation, None)
}

fn text_without(operation: &Bound<'_, PyAny>, left_out: Option<&str>) -> PyResult<String> {
    let attributes = operation.call_method0(intern!(operation.py(), "attrs"))?.cast_into::<PyDict>()?;
    let mut texts = Vec::with_capacity(attributes.len());
    for (name, value) in attributes {
        let name: String = name.extract()?;
        if !IRRELEVANT.contains(&name.as_str()) && left_out != Some(name.as_str()) {
            texts.push(format!("{name}={}", value.repr()?));
        }
    }
    texts.sort();
    Ok(texts.join(" "))
}
