//! C functions of abstract base classes: instance and subclass checks.

use pyo3::prelude::*;
use pyo3::types::PyType;

use sot_core::builtin;
use sot_core::cpython;
use sot_core::error::Flow;
use sot_core::executor::OpcodeExecutor;
use sot_core::variable::VarId;

use super::cannot;
use super::types::assume_registered;

builtin! { INSTANCE = "_abc:_abc_instancecheck" => |cx, args| {
    let [class, object] = args.exactly("_abc_instancecheck")?;
    let ty = cx.type_of(object)?;
    check(cx, class, &ty)
} }

builtin! { SUBCLASS = "_abc:_abc_subclasscheck" => |cx, args| {
    let [class, subclass] = args.exactly("_abc_subclasscheck")?;
    let ty = cx.see(subclass)?.object().map(|object| object.bind(cx.py).clone());
    match ty.filter(Bound::is_instance_of::<PyType>) {
        Some(ty) => check(cx, class, &ty),
        None => Err(cannot("a class test of something that is no class")),
    }
} }

fn check<'py>(cx: &mut OpcodeExecutor<'py>, class: VarId, ty: &Bound<'py, PyAny>) -> Flow<VarId> {
    assume_registered(cx, class)?;
    let Some(class) = cx.see(class)?.object().map(|object| object.bind(cx.py).clone()) else {
        return Err(cannot("a class test against something that is no class"));
    };
    let check = cpython::import(cx.py, "_abc")?.getattr("_abc_subclasscheck")?;
    cx.fold(|_| check.call1((class, ty)))
}
