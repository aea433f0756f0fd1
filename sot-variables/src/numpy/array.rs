//! numpy arrays made in the trace from known values. For an array that owns its memory, a real array holds its
//! contents. No other code can reach that array, and it is never written: calls work on copies, and a copy that was
//! written replaces it. A view is described by its layout in the array that owns the memory. So a write to either
//! shows in both, in the trace as in new code.

use std::rc::Rc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use sot_core::bytecode::Op;
use sot_core::cpython::DescriptorKind;
use sot_core::error::{Flow, ReasonId, Unwind};
use sot_core::executor::{object_model, BinaryOp, CompareOp, Name, OpcodeExecutor, Trace};
use sot_core::variable::{Argument, Form, Rebuild};
use sot_core::variable::{GraphArgument, VarId, Variable};

use crate::iterators::items::ItemIterator;
use crate::numpy;
use crate::numpy::small_array::array_type;

sot_core::variable_kind! { "array" }

/// Maximum size in bytes of an array in a trace.
const MAX_BYTES: usize = 64 * 1024;

/// Number of bytes whose copying takes as long as copying one item.
const BYTES_PER_ITEM: usize = 8;

/// Kinds of element types that are values. Excluded are objects, records (whose fields can be renamed) and dates
/// (which may be the current one).
const KINDS: &str = "biufcSU";

/// An array.
pub(crate) enum ArrayVariable {
    /// An array that owns its memory, with its current contents.
    Owner(Py<PyAny>),
    /// An array that shares the memory of another one.
    View(ArrayView),
}

/// A view of an array.
pub(crate) struct ArrayView {
    /// The array that owns the memory.
    pub(crate) base: VarId,
    layout: ArrayLayout,
}

struct ArrayLayout {
    shape: Py<PyAny>,
    dtype: Py<PyAny>,
    offset: isize,
    strides: Py<PyAny>,
    is_writeable: bool,
    /// True if the base is in Fortran order: its first index varies fastest.
    is_turned: bool,
}

impl ArrayLayout {
    fn of(view: &Bound<'_, PyAny>, base: &Bound<'_, PyAny>) -> PyResult<ArrayLayout> {
        let get = |name: &str| view.getattr(name).map(Bound::unbind);
        Ok(ArrayLayout {
            shape: get("shape")?,
            dtype: get("dtype")?,
            offset: address(view)? - address(base)?,
            strides: get("strides")?,
            is_writeable: has_flag(view, WRITEABLE)?,
            is_turned: !has_flag(base, C_CONTIGUOUS)?,
        })
    }

    /// Makes the view on another array with the layout of the base.
    fn on<'py>(&self, base: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = base.py();
        let buffer = if self.is_turned { base.getattr("T")? } else { base.clone() };
        let view = array_type(py)?.call1((&self.shape, &self.dtype, buffer, self.offset, &self.strides))?;
        if !self.is_writeable {
            view.call_method1("setflags", (false,))?;
        }
        Ok(view)
    }
}

/// Flags of an array, as numpy's C API numbers them.
const C_CONTIGUOUS: i64 = 0x1;
const WRITEABLE: i64 = 0x400;

/// Reading the attribute `flags.writeable` would warn if the array is a result of `broadcast_arrays`.
fn has_flag(array: &Bound<'_, PyAny>, flag: i64) -> PyResult<bool> {
    Ok(flags(array)? & flag != 0)
}

fn flags(array: &Bound<'_, PyAny>) -> PyResult<i64> {
    array.getattr("flags")?.getattr("num")?.extract()
}

fn address(array: &Bound<'_, PyAny>) -> PyResult<isize> {
    array.getattr("__array_interface__")?.get_item("data")?.get_item(0)?.extract()
}

/// True if two arrays agree in element type, shape, strides and flags.
pub(crate) fn are_alike(one: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(one.getattr("dtype")?.is(&other.getattr("dtype")?)
        && one.getattr("shape")?.eq(other.getattr("shape")?)?
        && one.getattr("strides")?.eq(other.getattr("strides")?)?
        && flags(one)? == flags(other)?)
}

/// Returns a copy of the array that owns its memory.
pub(crate) fn copy<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let copy = array.call_method1(intern!(array.py(), "copy"), ("K",))?;
    if !has_flag(array, WRITEABLE)? {
        copy.call_method1("setflags", (false,))?;
    }
    Ok(copy)
}

/// Replaces the contents of an array that owns its memory.
pub(crate) fn replace(cx: &mut OpcodeExecutor<'_>, variable: VarId, array: &Bound<'_, PyAny>) {
    cx.trace.vars.set(variable, Rc::new(ArrayVariable::Owner(array.clone().unbind())));
}

/// Counts the copy of an array towards the limits of the trace, as if it took instructions.
pub(crate) fn charge(cx: &mut OpcodeExecutor<'_>, array: &Bound<'_, PyAny>) -> PyResult<()> {
    cx.limits.charge(array.getattr(intern!(array.py(), "nbytes"))?.extract::<usize>()? / BYTES_PER_ITEM);
    Ok(())
}

/// Returns the variable and the real array that own the memory, and the real array for the variable itself. Neither
/// array may be written.
pub(crate) fn real<'py>(
    trace: &Trace<'py>,
    variable: VarId,
) -> Flow<Option<(VarId, Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
    let Some(payload) = trace.vars.as_kind::<ArrayVariable>(variable) else { return Ok(None) };
    match &*payload {
        ArrayVariable::Owner(array) => {
            let array = array.bind(trace.py).clone();
            Ok(Some((variable, array.clone(), array)))
        }
        ArrayVariable::View(view) => {
            let Some((owner, base, _)) = real(trace, view.base)? else { return Ok(None) };
            let array = view.layout.on(&base)?;
            Ok(Some((owner, base, array)))
        }
    }
}

/// Returns the view on another array with the layout of its base.
pub(crate) fn on<'py>(trace: &Trace<'py>, view: VarId, base: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match trace.vars.as_kind::<ArrayVariable>(view).as_deref() {
        Some(ArrayVariable::View(view)) => view.layout.on(base),
        _ => Ok(base.clone()),
    }
}

/// The real arrays that a call was given, with their variables.
#[derive(Default)]
pub(crate) struct KnownArrays<'py> {
    pub(crate) arrays: Vec<(Bound<'py, PyAny>, VarId)>,
    /// Copies of arrays from outside: which other arrays share the memory of the originals is unknown.
    pub(crate) foreign: Vec<Bound<'py, PyAny>>,
}

impl<'py> KnownArrays<'py> {
    /// Returns the variable of a call's result; `None` if new code could not rebuild the result.
    pub(crate) fn wrap(&mut self, cx: &mut OpcodeExecutor<'py>, value: &Bound<'py, PyAny>) -> Flow<Option<VarId>> {
        let is_tuple = value.is_exact_instance_of::<PyTuple>();
        if is_tuple || value.is_exact_instance_of::<PyList>() {
            let mut items = Vec::new();
            for item in value.try_iter()? {
                let Some(item) = self.wrap(cx, &item?)? else { return Ok(None) };
                items.push(item);
            }
            return Ok(Some(if is_tuple { cx.trace.tuple(items) } else { cx.trace.list(items) }));
        }
        if numpy::is_known(&cx.trace, value) {
            return cx.wrap_fresh(value).map(Some);
        }
        if !value.get_type().is(array_type(cx.py)?) {
            return Ok(None);
        }
        if let Some((_, known)) = self.arrays.iter().find(|(array, _)| array.is(value)) {
            return Ok(Some(*known));
        }
        let Some(payload) = self.payload(cx, value)? else { return Ok(None) };
        let made = cx.trace.produce(Rc::new(payload));
        self.arrays.push((value.clone(), made));
        Ok(Some(made))
    }

    fn payload(&mut self, cx: &mut OpcodeExecutor<'py>, array: &Bound<'py, PyAny>) -> Flow<Option<ArrayVariable>> {
        let kind: String = array.getattr("dtype")?.getattr("kind")?.extract()?;
        let bytes: usize = array.getattr("nbytes")?.extract()?;
        if !KINDS.contains(&*kind) || bytes > MAX_BYTES || self.foreign.iter().any(|foreign| foreign.is(array)) {
            return Ok(None);
        }
        let base = array.getattr("base")?;
        if base.is_none() {
            let made_anew = copy(array)?;
            return Ok(are_alike(array, &made_anew)?.then(|| ArrayVariable::Owner(array.clone().unbind())));
        }
        if !base.get_type().is(array_type(cx.py)?) {
            return Ok(None);
        }
        let Some(owner) = self.wrap(cx, &base)? else { return Ok(None) };
        let owns = matches!(cx.trace.vars.as_kind::<ArrayVariable>(owner).as_deref(), Some(ArrayVariable::Owner(_)));
        let layout = ArrayLayout::of(array, &base)?;
        // The constructor of arrays accepts contiguous buffers only.
        let made_anew = layout.on(&base).ok().filter(|_| owns);
        let made_anew = made_anew.map(|view| PyResult::Ok(view.getattr("base")?.is(&base) && are_alike(&view, array)?));
        Ok(made_anew.transpose()?.unwrap_or(false).then_some(ArrayVariable::View(ArrayView { base: owner, layout })))
    }
}

impl Variable for ArrayVariable {
    fn kind(&self) -> &'static str {
        "array"
    }

    fn form(&self) -> Form {
        Form::Array
    }

    fn python_type<'py>(&self, trace: &Trace<'py>) -> Bound<'py, PyAny> {
        array_type(trace.py).map_or_else(|_| trace.py.get_type::<PyAny>().into_any(), |ty| ty.clone().into_any())
    }

    fn text(&self, trace: &Trace<'_>) -> String {
        match self {
            ArrayVariable::Owner(array) => {
                let form =
                    |name: &str| array.bind(trace.py).getattr(name).map_or_else(|_| "?".into(), |it| it.to_string());
                format!("ArrayVariable({}, {})", form("shape"), form("dtype"))
            }
            ArrayVariable::View(view) => {
                format!("ArrayVariable({}, of {})", view.layout.shape.bind(trace.py), trace.text(view.base))
            }
        }
    }

    fn children(&self) -> Vec<VarId> {
        match self {
            ArrayVariable::Owner(_) => Vec::new(),
            ArrayVariable::View(view) => vec![view.base],
        }
    }

    fn get_attr(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, name: &Name) -> Flow<Option<VarId>> {
        let descriptor = object_model::lookup(cx, this, name)?;
        let is_read = |found: &Bound<'_, PyAny>| DescriptorKind::of(found) == DescriptorKind::Getset;
        if name.starts_with("__") || !descriptor.is_some_and(|(found, _)| is_read(&found)) {
            return object_model::get_attr(cx, this, name);
        }
        let Some((owner, base, array)) = real(&cx.trace, this)? else { return Ok(None) };
        let mut known = KnownArrays { arrays: vec![(array.clone(), this), (base, owner)], foreign: Vec::new() };
        let value = array.getattr(&**name).map_err(|error| cx.raise(error))?;
        if let Some(value) = known.wrap(cx, &value)? {
            return Ok(Some(value));
        }
        let text = format!("attribute '{name}' of an array made in the function");
        Err(Unwind::break_graph(ReasonId::UnsupportedAttribute, text))
    }

    /// Reads items one by one, so that later writes are seen.
    fn iter(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<VarId> {
        let Some((_, _, array)) = real(&cx.trace, this)? else { return object_model::iter(cx, this) };
        array.try_iter().map_err(|error| cx.raise(error))?;
        Ok(ItemIterator::over(cx, this))
    }

    /// Reading an item needs no copy of the array.
    fn get_item(&self, cx: &mut OpcodeExecutor<'_>, this: VarId, key: VarId) -> Flow<VarId> {
        let Some((owner, base, array)) = real(&cx.trace, this)? else {
            return object_model::call_special(cx, this, "__getitem__", &[key]);
        };
        let Some(key) = cx.known(key)? else {
            return object_model::call_special(cx, this, "__getitem__", &[key]);
        };
        let mut known = KnownArrays { arrays: vec![(array.clone(), this), (base, owner)], foreign: Vec::new() };
        let item = numpy::quietly(cx.py, || array.get_item(key))?.map_err(|error| cx.raise(error))?;
        let refuse = || Unwind::break_graph(ReasonId::UnsupportedCall, "an array item that is not known while tracing");
        known.wrap(cx, &item)?.ok_or_else(refuse)
    }

    fn binary(
        &self,
        cx: &mut OpcodeExecutor<'_>,
        op: BinaryOp,
        this: VarId,
        other: VarId,
        reflected: bool,
    ) -> Flow<Option<VarId>> {
        if numpy::is_left_to(cx, other)? {
            return Ok(None);
        }
        object_model::binary(cx, op, this, other, reflected)
    }

    fn compare(&self, cx: &mut OpcodeExecutor<'_>, op: CompareOp, this: VarId, other: VarId) -> Flow<Option<VarId>> {
        if numpy::is_left_to(cx, other)? {
            return Ok(None);
        }
        object_model::compare(cx, op, this, other)
    }

    fn graph_argument(&self, cx: &mut OpcodeExecutor<'_>, this: VarId) -> Flow<GraphArgument> {
        if let Some((_, _, array)) = real(&cx.trace, this)? {
            if let Some(value) = cx.runtime.backend().constants().known_data(&array)? {
                return Ok(GraphArgument { value: value.unbind(), text: self.text(&cx.trace), holds_tensor: false });
            }
        }
        object_model::graph_argument(cx, this, None)
    }

    fn reconstruct(&self, cg: &mut dyn Rebuild<'_>, this: VarId) -> Flow<()> {
        let py = cg.py();
        let is_writeable = match self {
            ArrayVariable::Owner(array) => {
                let array = array.bind(py);
                let copy = array.getattr("copy")?.unbind();
                cg.begin_call(|cg| cg.load_const(copy))?;
                cg.load_argument(Argument::string(py, "K"))?;
                cg.end_call(1)?;
                has_flag(array, WRITEABLE)?
            }
            ArrayVariable::View(ArrayView { base, layout }) => {
                let ty = array_type(py)?.clone().into_any().unbind();
                cg.begin_call(|cg| cg.load_const(ty))?;
                cg.load_const(layout.shape.clone_ref(py))?;
                cg.load_const(layout.dtype.clone_ref(py))?;
                cg.load(*base)?;
                if layout.is_turned {
                    cg.load_attr("T")?;
                }
                cg.load_const(layout.offset.into_pyobject(py).map_err(PyErr::from)?.into_any().unbind())?;
                cg.load_const(layout.strides.clone_ref(py))?;
                cg.end_call(5)?;
                layout.is_writeable
            }
        };
        if is_writeable {
            return Ok(());
        }
        cg.define(this)?;
        cg.begin_call(|cg| {
            cg.load(this)?;
            cg.load_attr("setflags")
        })?;
        cg.load_argument(Argument::boolean(py, false))?;
        cg.end_call(1)?;
        cg.op(Op::POP_TOP, 0)
    }
}
