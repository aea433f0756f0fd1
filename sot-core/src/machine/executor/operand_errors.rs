//! CPython's own messages for operands of the wrong types. The operation is executed on stand-ins, because these
//! errors depend only on the names of the operands' types.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PySlice, PyTuple, PyType};

use super::OpcodeExecutor;
use crate::cpython;
use crate::error::{Flow, ReasonId, Unwind};
use crate::machine::variable::{Form, VarId};

impl OpcodeExecutor<'_> {
    /// Returns the error that a function of the `operator` module raises for these operands.
    pub fn misfit(&mut self, function: &str, operands: &[VarId]) -> Flow<Unwind> {
        let operands = operands.iter().map(|&operand| look_alike(self, operand)).collect::<Flow<Option<Vec<_>>>>()?;
        let error = match operands {
            Some(operands) => {
                let function = cpython::import(self.py, "operator")?.getattr(function)?;
                function.call1(PyTuple::new(self.py, operands)?).err()
            }
            None => None,
        };
        Ok(match error {
            Some(error) => self.raise(error),
            None => {
                Unwind::break_graph(ReasonId::UnsupportedOperation, format!("{function} of operands that do not fit"))
            }
        })
    }
}

/// Makes an object whose type has the same name and the same C code, and no code of the program; `None` if there is
/// none.
fn look_alike<'py>(cx: &mut OpcodeExecutor<'py>, value: VarId) -> Flow<Option<Bound<'py, PyAny>>> {
    if let Some(known) = cx.materialize(value)? {
        return Ok(Some(known));
    }
    let payload = cx.see(value)?;
    if payload.form() == Form::Tensor {
        // A tensor is iterable, and its operators are the framework's.
        return Ok(None);
    }
    let (py, ty) = (cx.py, payload.python_type(&cx.trace));
    let Ok(ty) = ty.cast::<PyType>() else { return Ok(None) };
    let like =
        |name: String, base: &Bound<'py, PyType>| py.get_type::<PyType>().call1((name, (base,), PyDict::new(py))).ok();
    let object = payload.object().map(|object| object.bind(py));
    if let Some(class) = object.and_then(|object| object.cast::<PyType>().ok()) {
        let plain = ty.is(py.get_type::<PyType>());
        return Ok(like(cpython::type_name(class), &py.get_type::<PyAny>().cast_into().map_err(PyErr::from)?)
            .filter(|_| plain));
    }
    if ty.is(py.get_type::<PySlice>()) {
        return Ok(Some(PySlice::full(py).into_any()));
    }
    if cpython::is_made_by_c(ty)? {
        return Ok(ty.call0().ok());
    }
    let mut bases = ty.mro().iter().filter_map(|base| base.cast_into::<PyType>().ok());
    let base = bases.find(|base| cpython::is_made_by_c(base).unwrap_or(false));
    let class = base.and_then(|base| like(cpython::full_type_name(ty), &base));
    Ok(class.and_then(|class| class.call0().ok()))
}
