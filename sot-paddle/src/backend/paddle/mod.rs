//! The installed Paddle: the objects of Paddle that the backend uses, looked up once at start, and the check that this
//! Paddle is supported.

pub(crate) mod call_stacks;
pub(crate) mod layout;
pub(crate) mod meta;
pub(crate) mod native;
pub(crate) mod operation;
pub(crate) mod paddle_3_0;
pub(crate) mod paddle_3_3;
pub(crate) mod release;
pub(crate) mod state;
pub(crate) mod static_mode;
pub(crate) mod static_warnings;
pub(crate) mod truth;

use pyo3::exceptions::PyImportError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyType};
use sot_core::cpython::{self, Recorder, ThreadFlag};

use crate::backend::calls::foundation::Foundations;
use crate::backend::calls::layer;
use crate::backend::calls::tensors_for_numbers::KnownSignatures;
use crate::backend::paddle::meta::TensorGetters;
use crate::backend::paddle::native::{AmpDtype, DenseTensorReader};
use crate::backend::paddle::release::Release;
use crate::backend::paddle::static_mode::StaticMode;
use crate::backend::paddle::truth::TruthReader;

/// The oldest Paddle whose program format the backend can build.
const OLDEST: (u32, u32) = (3, 0);

/// Paddle's objects, named by their purpose.
pub(crate) struct Paddle {
    /// Which parameters of functions take tensors.
    pub(crate) signatures: KnownSignatures,
    /// What differs between releases.
    pub(crate) release: &'static Release,
    /// Enters and leaves static mode.
    pub(crate) static_mode: StaticMode,
    /// `paddle.Tensor`: eager tensors.
    pub(crate) tensor_type: Py<PyType>,
    /// `EagerParamBase`: parameters.
    pub(crate) parameter_type: Py<PyType>,
    /// `pir.Value`: values of a graph.
    pub(crate) value_type: Py<PyType>,
    /// `paddle.nn.Layer`.
    pub(crate) layer_type: Py<PyType>,
    /// `paddle.static.Program`.
    pub(crate) program: Py<PyAny>,
    /// `paddle.static.data`: makes a graph input.
    pub(crate) data: Py<PyAny>,
    /// Makes a tensor a parameter of the current program: `_convert_into_value`.
    pub(crate) convert_into_value: Py<PyAny>,
    /// Types of data types, places, `finfo` and `iinfo`: immutable objects, compared by `==`.
    plain_types: Vec<Py<PyAny>>,
    /// The singleton object of each data type, by its value. `None` for Paddle 3.0, where each read of a data type
    /// makes a new object.
    lasting: Option<Py<PyDict>>,
    /// Records, for each program, the parameters that it refers to.
    pub(crate) recorder: Py<PyAny>,
    /// Records, for each program, the results of in-place operations.
    pub(crate) inplace_map: Py<PyAny>,
    /// Splits a program into forward and backward.
    pub(crate) partial_program_layer: Py<PyAny>,
    /// Makes an executor's scope.
    pub(crate) scope: Py<PyAny>,
    /// Tells if an operation of a program has a gradient.
    pub(crate) has_vjp: Py<PyAny>,
    /// `paddle.grad`.
    pub(crate) grad: Py<PyAny>,
    /// The type of `Tensor.size`: `int`, or a subclass of it that can be called.
    pub(crate) size_type: Py<PyAny>,
    /// What `tensor == None` gives; `None` if it raises.
    pub(crate) equals_none: Option<bool>,
    /// Returns the grad mode.
    pub(crate) grad_mode: Py<PyAny>,
    /// Sets the grad mode.
    set_grad_mode: Py<PyAny>,
    /// Returns the element type of new tensors.
    pub(crate) default_dtype: DefaultDtype,
    /// The namespace of `paddle.base.framework`, where the expected place is kept.
    pub(crate) framework: Py<PyDict>,
    /// The place of every tensor, if this Paddle was built for one device only.
    pub(crate) only_place: Option<Py<PyAny>>,
    /// Reads tensors natively.
    pub(crate) native: Option<DenseTensorReader>,
    /// Reads the element type of automatic mixed precision natively.
    pub(crate) amp_dtype: Option<AmpDtype>,
    /// Reads grad mode natively.
    grad_flag: Option<ThreadFlag>,
    /// Computes the truth of a tensor natively, for branches.
    pub(crate) truth: Option<TruthReader>,
    /// Reads attributes of eager tensors.
    pub(crate) facts: TensorGetters,
    /// The names that Paddle's functions resolve when they are called in eager mode.
    pub(crate) foundations: Foundations,
    /// The names that methods of values of a program resolve when they are called.
    pub(crate) in_programs: Foundations,
    /// The foundations of making layers, by class.
    pub(crate) makings: Foundations,
}

impl Paddle {
    /// Looks everything up.
    pub(crate) fn import(py: Python<'_>) -> PyResult<Paddle> {
        check_installed(py)?;
        let paddle = cpython::import(py, "paddle")?;
        let framework = cpython::import(py, "paddle.base.framework")?;
        let core = cpython::import(py, "paddle.base.core")?;
        let pir = cpython::import(py, "paddle.pir.core")?;
        let release = release::installed(py)?;
        let recorder = cpython::import(py, release.recorder_module)?;
        let static_api = paddle.getattr("static")?;
        let static_mode = StaticMode::new(py)?;
        let mut known = Paddle {
            signatures: KnownSignatures::default(),
            release,
            amp_dtype: AmpDtype::find(&paddle, &static_mode.tracer(py)?),
            static_mode,
            tensor_type: class(&paddle, "Tensor")?,
            parameter_type: class(&framework, "EagerParamBase")?,
            value_type: class(&paddle.getattr("pir")?, "Value")?,
            layer_type: class(&paddle.getattr("nn")?, "Layer")?,
            program: static_api.getattr("Program")?.unbind(),
            data: static_api.getattr("data")?.unbind(),
            convert_into_value: pir.getattr("_convert_into_value")?.unbind(),
            plain_types: plain_types(&paddle, &core)?,
            lasting: lasting(&paddle)?,
            recorder: recorder.getattr("_global_parameter_recorder")?.unbind(),
            inplace_map: recorder.getattr("_global_inplace_map")?.unbind(),
            partial_program_layer: cpython::import(py, "paddle.jit.dy2static.pir_partial_program")?
                .getattr("PartialProgramLayer")?
                .unbind(),
            scope: core.getattr("Scope")?.unbind(),
            has_vjp: paddle.getattr("framework")?.getattr("core")?.getattr("has_vjp")?.unbind(),
            grad: paddle.getattr("grad")?.unbind(),
            size_type: paddle.call_method1("empty", ((1,),))?.getattr("size")?.get_type().into_any().unbind(),
            equals_none: equals_none(&paddle)?,
            grad_mode: grad_mode(&paddle, &core)?,
            set_grad_mode: cpython::import(py, "paddle.base.dygraph.base")?.getattr("_set_grad_enabled")?.unbind(),
            default_dtype: DefaultDtype::find(&paddle)?,
            framework: framework.dict().unbind(),
            only_place: only_place(&paddle, &core)?,
            native: DenseTensorReader::find(
                &paddle,
                class(&paddle, "Tensor")?.bind(py),
                class(&framework, "EagerParamBase")?.bind(py),
            ),
            grad_flag: None,
            truth: None,
            facts: TensorGetters::of(class(&paddle, "Tensor")?.bind(py))?,
            foundations: Foundations::default(),
            in_programs: Foundations::default(),
            makings: Foundations::default(),
        };
        known.grad_flag = native::grad_flag(&paddle, known.grad_mode.bind(py), known.set_grad_mode.bind(py));
        known.truth = TruthReader::find(&known, &paddle);
        Ok(known)
    }

    /// True if `object` is an eager tensor. Decided by its type: reading `__class__` could run code of the program.
    pub(crate) fn is_tensor(&self, object: &Bound<'_, PyAny>) -> bool {
        cpython::is_subtype(&object.get_type(), self.tensor_type.bind(object.py()))
    }

    /// True if `object` is a value of a graph.
    pub(crate) fn is_value(&self, object: &Bound<'_, PyAny>) -> bool {
        crate::backend::has_exact_type(object, &self.value_type)
    }

    /// True if `object` is a data type, a place, or another instance of the plain types.
    pub(crate) fn is_plain_value(&self, object: &Bound<'_, PyAny>) -> bool {
        self.is_plain_type(&object.get_type())
    }

    /// True if equal values of this kind are always the same object.
    pub(crate) fn is_lasting(&self, value: &Bound<'_, PyAny>) -> bool {
        self.lasting_of(value).ok().flatten().is_some()
    }

    /// Returns the singleton object of a data type, if this Paddle has singletons. The data types of values of a
    /// program are equal, but other objects.
    pub(crate) fn lasting_of<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match &self.lasting {
            Some(lasting) if self.is_plain_value(value) => lasting.bind(value.py()).get_item(value),
            _ => Ok(None),
        }
    }

    /// True if the instances of the class are plain values: data types, places, placements of distributed tensors.
    pub(crate) fn is_plain_type(&self, class: &Bound<'_, PyType>) -> bool {
        self.plain_types.iter().any(|plain| class.is(plain))
    }

    /// Returns the attribute as `class` defines it; `None` if the class does not define it.
    pub(crate) fn defined<'py>(py: Python<'py>, class: &Py<PyType>, name: &str) -> Option<Bound<'py, PyAny>> {
        cpython::type_lookup(class.bind(py), &cpython::interned(py, name)).filter(|found| !found.is_none())
    }

    /// Returns the callable that a call of `layer` comes to. In static mode `Layer.__call__` names every operation of
    /// the program after the layer, which takes the longer the longer the program is. Without hooks, its `forward`
    /// does the same.
    pub(crate) fn layer_body<'py>(&self, layer: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if self.is_forward_all(layer)? {
            layer.getattr(intern!(layer.py(), "forward"))
        } else {
            Ok(layer.clone())
        }
    }

    /// True if a call of `layer` does the same as a call of its `forward`: it has no hooks and `nn.Layer`'s `__call__`.
    pub(crate) fn is_forward_all(&self, layer: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (py, class) = (layer.py(), layer.get_type());
        let base = self.layer_type.bind(py);
        let is_own = |name| match (cpython::type_lookup(&class, name), cpython::type_lookup(base, name)) {
            (Some(found), Some(own)) => found.is(&own),
            _ => false,
        };
        let is_called = is_own(intern!(py, "__call__")) && is_own(intern!(py, "_build_once"));
        Ok(is_called && !layer::has_hooks(layer)?)
    }

    /// Turns grad mode on or off.
    pub(crate) fn set_grad_enabled(&self, py: Python<'_>, on: bool) -> PyResult<()> {
        self.set_grad_mode.bind(py).call1((on,)).map(drop)
    }

    /// Runs `work` with grad mode on. Grad mode must be off.
    pub(crate) fn with_grad<T>(&self, py: Python<'_>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        self.set_grad_enabled(py, true)?;
        let result = work();
        self.set_grad_enabled(py, false)?;
        result
    }

    /// Runs `work` with grad mode off.
    pub(crate) fn without_grad<T>(&self, py: Python<'_>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        if !self.grad_enabled(py)? {
            return work();
        }
        self.set_grad_enabled(py, false)?;
        let result = work();
        self.set_grad_enabled(py, true)?;
        result
    }

    /// True if gradients are recorded now.
    pub(crate) fn grad_enabled(&self, py: Python<'_>) -> PyResult<bool> {
        match self.grad_flag {
            Some(flag) => Ok(flag.read()),
            None => self.grad_mode.bind(py).call0()?.is_truthy(),
        }
    }
}

/// The native function that `paddle.is_grad_enabled` calls, or `paddle.is_grad_enabled` itself.
fn grad_mode(paddle: &Bound<'_, PyModule>, core: &Bound<'_, PyModule>) -> PyResult<Py<PyAny>> {
    match core.getattr_opt("_has_grad")? {
        Some(native) => Ok(native.unbind()),
        None => Ok(paddle.getattr("is_grad_enabled")?.unbind()),
    }
}

/// Reads `paddle.get_default_dtype()`.
pub(crate) struct DefaultDtype {
    function: Py<PyAny>,
    /// The class and its attribute that the function reads, if they are found.
    kept_in: Option<(Py<PyType>, Py<PyString>)>,
}

impl DefaultDtype {
    fn find(paddle: &Bound<'_, PyModule>) -> PyResult<Self> {
        let py = paddle.py();
        let function = paddle.getattr("get_default_dtype")?;
        let name = PyString::intern(py, "_LayerHelperBase__dtype");
        let now = function.call0()?;
        let owner = cpython::import(py, "paddle.base.layer_helper_base")?.getattr_opt("LayerHelperBase")?;
        let kept_in = owner
            .and_then(|owner| owner.cast_into::<PyType>().ok())
            .filter(|owner| cpython::type_lookup(owner, &name).is_some_and(|found| found.is(&now)))
            .map(|owner| (owner.unbind(), name.unbind()));
        Ok(DefaultDtype { function: function.unbind(), kept_in })
    }

    /// Records the memory that the answer rests on; `false` if that memory is not known.
    pub(crate) fn note(&self, py: Python<'_>, recorder: &mut Recorder) -> bool {
        self.kept_in.as_ref().is_some_and(|(owner, _)| {
            let owner = recorder.keep(owner.bind(py).as_any());
            recorder.lookups_of(&owner)
        })
    }

    /// Returns the default data type now.
    pub(crate) fn read<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let kept = self.kept_in.as_ref().and_then(|(owner, name)| cpython::type_lookup(owner.bind(py), name.bind(py)));
        kept.map_or_else(|| self.function.bind(py).call0(), Ok)
    }
}

fn class(owner: &Bound<'_, PyAny>, name: &str) -> PyResult<Py<PyType>> {
    Ok(owner.getattr(name)?.cast_into::<PyType>()?.unbind())
}

fn plain_types(paddle: &Bound<'_, PyModule>, core: &Bound<'_, PyModule>) -> PyResult<Vec<Py<PyAny>>> {
    let mut types = vec![paddle.getattr("float32")?.get_type().into_any().unbind()];
    let base = core.getattr("VarDesc")?.getattr("VarType")?.into_any();
    types.push(base.unbind());
    let types_and_places =
        ["DataType", "Place", "CPUPlace", "CUDAPlace", "CUDAPinnedPlace", "CustomPlace", "finfo", "iinfo"];
    // A `Shard` is mutable.
    let placements = ["Replicate", "Partial", "ReduceType"];
    for name in types_and_places.into_iter().chain(placements) {
        if let Some(found) = core.getattr_opt(name)? {
            types.push(found.unbind());
        }
    }
    Ok(types)
}

/// Returns the singleton object of each data type, by its value. `None` if this Paddle makes new objects: the data type
/// of a tensor is not the same object as `paddle.float32`.
fn lasting(paddle: &Bound<'_, PyModule>) -> PyResult<Option<Py<PyDict>>> {
    let known = paddle.getattr("float32")?;
    let found = paddle.call_method1("empty", ((1,), "float32"))?.getattr("dtype")?;
    if !found.is(&known) {
        return Ok(None);
    }
    let each = PyDict::new(paddle.py());
    for value in known.get_type().getattr("__dict__")?.call_method0("values")?.try_iter()? {
        let value = value?;
        if value.get_type().is(known.get_type()) {
            each.set_item(&value, &value)?;
        }
    }
    Ok(Some(each.unbind()))
}

/// Raises `ImportError`, with the remedy, if Paddle is missing or too old.
fn check_installed(py: Python<'_>) -> PyResult<()> {
    const REMEDY: &str = "install it with: pip install 'paddlepaddle>=3.0'";
    let paddle = cpython::import(py, "paddle").map_err(|error| {
        let wrapped = PyImportError::new_err(format!("sot needs Paddle, which cannot be imported ({error}); {REMEDY}"));
        wrapped.set_cause(py, Some(error));
        wrapped
    })?;
    let version: String = paddle.getattr("__version__").and_then(|version| version.extract()).unwrap_or_default();
    match parse_version(&version) {
        Some(found) if found < OLDEST => {
            Err(PyImportError::new_err(format!("sot needs Paddle 3.0 or newer and found {version}; {REMEDY}")))
        }
        // Development builds call themselves 0.0.0.
        _ => Ok(()),
    }
}

/// Major and minor number; `None` for builds without a version.
fn parse_version(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(str::parse);
    match (numbers.next()?.ok()?, numbers.next()?.ok()?) {
        (0, 0) => None,
        found => Some(found),
    }
}

/// What `tensor == None` gives in this release of Paddle, and `tensor != None` the other way round.
fn equals_none(paddle: &Bound<'_, PyAny>) -> PyResult<Option<bool>> {
    let sample = paddle.call_method1("empty", ((1,),))?;
    let compared = |method: &str| {
        let answer = sample.call_method1(method, (paddle.py().None(),)).ok()?;
        answer.cast::<PyBool>().ok().map(pyo3::types::PyBoolMethods::is_true)
    };
    Ok(compared("__eq__").zip(compared("__ne__")).and_then(|(equal, unequal)| (equal != unequal).then_some(equal)))
}

/// The only place that tensors can have, if Paddle knows a single device; tests of the place are then not needed.
fn only_place(paddle: &Bound<'_, PyAny>, core: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
    for other in ["is_compiled_with_cuda", "is_compiled_with_xpu", "is_compiled_with_rocm"] {
        if paddle.call_method0(other)?.is_truthy()? {
            return Ok(None);
        }
    }
    if core.call_method0("get_all_custom_device_type")?.is_truthy()? {
        return Ok(None);
    }
    let sample = paddle.call_method1("empty", ((1,),))?;
    Ok(Some(sample.getattr("place")?.unbind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_and_development_builds_pass() {
        assert_eq!(parse_version("3.3.1"), Some((3, 3)));
        assert_eq!(parse_version("2.6.2"), Some((2, 6)));
        assert_eq!(parse_version("0.0.0"), None);
        assert_eq!(parse_version("unknown"), None);
    }
}
