//! Native reads of an eager tensor's shape and element type, of grad mode, and of automatic mixed precision. Guards
//! need these values at each call. Reading works if the installed Paddle keeps the values where they are expected. The
//! values are compared with Paddle's attributes once at start; if they differ, the attributes are used instead.

use std::ffi::{c_int, CStr};
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use sot_core::cpython::{
    ArrayField, Embedded, EmbeddedNumber, EmbeddedObject, NumberField, Place, Recorder, SharedNumber, SharedValue,
    ThreadFlag, ThreadNumber,
};

/// `phi::DDim::kMaxRank`
const MAX_RANK: usize = 9;
const CLASS: &CStr = c"_ZTVN3phi11DenseTensorE";
/// The autograd data of a tensor. `paddle::Tensor` has a shared pointer to the dense tensor and one to this data.
const GRADIENT_CLASS: &CStr = c"_ZTVN3egr12AutogradMetaE";
const GRADIENT_POSITION: usize = 2;
const DIMS: &CStr = c"_ZNK6paddle6Tensor4dimsEv";
const DTYPE: &CStr = c"_ZNK6paddle6Tensor5dtypeEv";
/// The header must have these declarations, because the symbol of a function does not tell what it returns.
const HEADER: &str = "include/paddle/phi/api/include/tensor.h";
const DECLARATIONS: [&str; 2] = ["const common::DDim& dims() const;", "DataType dtype() const;"];

/// Reads dense tensors.
pub(crate) struct DenseTensorReader {
    tensors: Embedded,
    dims: ArrayField<MAX_RANK>,
    dtype: NumberField,
    memory: Option<MetaMemory>,
    version: Option<VersionCounter>,
}

/// The memory in which tensors keep their metas. As long as that memory stays the same, the metas are not read again.
struct MetaMemory {
    dtype: EmbeddedNumber,
    gradients: Embedded,
    stop_gradient: EmbeddedNumber,
    /// The number that stands for a `stop_gradient` that nobody has set. It counts as true.
    unset: c_int,
}

impl DenseTensorReader {
    /// Finds the accessors; `None` if anything is not as expected.
    pub(crate) fn find(
        paddle: &Bound<'_, PyModule>,
        tensor_type: &Bound<'_, PyType>,
        parameter_type: &Bound<'_, PyType>,
    ) -> Option<DenseTensorReader> {
        let folder: PathBuf = paddle.getattr("__path__").ok()?.get_item(0).ok()?.extract().ok()?;
        let header = std::fs::read_to_string(folder.join(HEADER)).ok()?;
        if !DECLARATIONS.iter().all(|declaration| header.contains(declaration)) {
            return None;
        }
        let library = folder.join("libs/libphi_core.so");
        let samples = samples(paddle).ok()?;
        let (first, shape, _) = samples.first()?;
        let tensors = Embedded::find(tensor_type, first, 0, CLASS)?.knowing(parameter_type);
        let native = DenseTensorReader {
            dims: tensors.array(&library, DIMS, first, shape)?,
            dtype: tensors.number(&library, DTYPE)?,
            version: VersionCounter::find(&tensors, paddle),
            tensors,
            memory: None,
        };
        if !native.agrees(&samples) {
            return None;
        }
        let memory = native.find_memory(tensor_type, parameter_type, &samples);
        Some(DenseTensorReader { memory, ..native })
    }

    fn find_memory(
        &self,
        tensor_type: &Bound<'_, PyType>,
        parameter_type: &Bound<'_, PyType>,
        samples: &[Sample<'_>],
    ) -> Option<MetaMemory> {
        let dtypes: Option<Vec<_>> = samples.iter().map(|(tensor, ..)| Some((tensor, self.dtype(tensor)?))).collect();
        let set = |tensor: &Bound<'_, PyAny>, stop| tensor.setattr("stop_gradient", stop == 1).ok();
        let stops: Vec<_> = samples.iter().map(|(tensor, ..)| tensor).zip([1, 0, 0, 1, 0, 1]).collect();
        let others: Vec<_> = stops.iter().map(|(tensor, stop)| (*tensor, 1 - stop)).collect();
        let (first, ..) = samples.first()?;
        // A tensor gets its autograd data when the attribute is set.
        set(first, 1)?;
        let gradients = Embedded::find(tensor_type, first, GRADIENT_POSITION, GRADIENT_CLASS)?.knowing(parameter_type);
        let stop_gradient = gradients.settable_number(&[&stops, &others, &stops], set)?;
        let (not_set, ..) = samples.get(stops.len())?;
        // The tensor gets its autograd data when the attribute is read for the first time.
        let counts_as_true = not_set.getattr("stop_gradient").ok()?.is_truthy().ok()?;
        let unset = gradients.of(not_set)?.kept(stop_gradient);
        (counts_as_true && unset != 0).then_some(())?;
        Some(MetaMemory { dtype: self.tensors.kept_number(&dtypes?)?, gradients, stop_gradient, unset })
    }

    /// Records the memory of a tensor's class, shape, element type and `stop_gradient`; `false` if that memory is not
    /// known.
    pub(crate) fn note(&self, place: &Place<'_>, recorder: &mut Recorder) -> bool {
        let Some(memory) = &self.memory else { return false };
        let Some(tensor) = recorder.held(place, &self.tensors) else { return false };
        let Some(gradient) = recorder.held(place, &memory.gradients) else { return false };
        recorder.number(tensor, memory.dtype);
        recorder.number(gradient, memory.stop_gradient);
        recorder.array(tensor, self.dims)
    }

    /// True if `tensor` is dense and has this shape and element type.
    pub(crate) fn is(&self, tensor: &Bound<'_, PyAny>, shape: &[i64], dtype: i32) -> bool {
        self.tensors.of(tensor).is_some_and(|held| held.number(self.dtype) == dtype && held.array_is(self.dims, shape))
    }

    /// True if `tensor` is dense and has this element type and shape. A negative size in `shape` stands for any size
    /// from `least` on.
    pub(crate) fn fits(&self, tensor: &Bound<'_, PyAny>, shape: &[i64], dtype: i32, least: i64) -> bool {
        let fits =
            |held: EmbeddedObject<'_>| held.number(self.dtype) == dtype && held.array_fits(self.dims, shape, least);
        self.tensors.of(tensor).is_some_and(fits)
    }

    /// Returns the tensor's `stop_gradient`; `None` if its place is not known, or the tensor has no autograd data yet.
    pub(crate) fn stop_gradient(&self, tensor: &Bound<'_, PyAny>) -> Option<bool> {
        let memory = self.memory.as_ref()?;
        match memory.gradients.of(tensor)?.kept(memory.stop_gradient) {
            0 => Some(false),
            1 => Some(true),
            number => (number == memory.unset).then_some(true),
        }
    }

    /// True if `tensor` is dense and has one element.
    pub(crate) fn is_single(&self, tensor: &Bound<'_, PyAny>) -> bool {
        self.tensors.of(tensor).is_some_and(|held| held.all(self.dims, |size| size == 1))
    }

    /// Returns the shape, and Paddle's number of the element type; `None` if the tensor is not dense.
    pub(crate) fn meta(&self, tensor: &Bound<'_, PyAny>) -> Option<(Vec<i64>, i32)> {
        let held = self.tensors.of(tensor)?;
        Some((held.array(self.dims)?, held.number(self.dtype)))
    }

    /// Returns the tensor's in-place version, with the number of C++ tensors that share its counter; `None` if the
    /// tensor is not dense, or the place of the counter is not known.
    pub(crate) fn version(&self, tensor: &Bound<'_, PyAny>) -> Option<SharedValue> {
        self.tensors.of(tensor)?.shared(self.version.as_ref()?.kept)
    }

    /// Gives a tensor an in-place version of its own, which is zero. The counter is that of `spare`, which is replaced
    /// if another tensor has its counter.
    pub(crate) fn renew_version(&self, tensor: &Bound<'_, PyAny>, spare: &mut Option<Py<PyAny>>) -> PyResult<()> {
        self.version.as_ref().map_or(Ok(()), |version| version.renew(&self.tensors, tensor, spare))
    }

    /// Returns Paddle's number of the element type; `None` if the tensor is not dense.
    pub(crate) fn dtype(&self, tensor: &Bound<'_, PyAny>) -> Option<i32> {
        self.tensors.of(tensor).map(|held| held.number(self.dtype))
    }

    fn agrees(&self, samples: &[Sample<'_>]) -> bool {
        samples.iter().all(|(tensor, shape, dtype)| {
            self.tensors.of(tensor).is_some_and(|held| held.array_is(self.dims, shape))
                && samples
                    .iter()
                    .all(|(other, _, other_dtype)| (self.dtype(tensor) == self.dtype(other)) == (dtype == other_dtype))
        })
    }
}

/// The in-place versions of tensors: `phi::DenseTensor::inplace_version_counter_`.
struct VersionCounter {
    kept: SharedNumber,
    /// The C++ tensor in objects of `class`.
    bare_tensors: Embedded,
    /// `paddle.base.core.DenseTensor`, whose objects are C++ tensors without autograd data.
    class: Py<PyAny>,
}

impl VersionCounter {
    /// Finds the place of the counter in tensors that were written to, and whose views share it.
    fn find(tensors: &Embedded, paddle: &Bound<'_, PyModule>) -> Option<VersionCounter> {
        let make = |number: c_int, owners: c_int| {
            let tensor = paddle.call_method1("empty", ([3],))?;
            for _ in 0..number {
                tensor.call_method0("_bump_inplace_version")?;
            }
            let sharing =
                (1..owners).map(|_| tensor.call_method1("reshape", ([1, 3],))).collect::<PyResult<Vec<_>>>()?;
            Ok::<_, PyErr>((tensor, sharing, SharedValue { number, owners }))
        };
        let examples: Vec<_> =
            [(0, 1), (1, 1), (2, 3), (5, 2)].into_iter().map(|(n, o)| make(n, o).ok()).collect::<Option<_>>()?;
        let samples: Vec<_> = examples.iter().map(|(tensor, _, value)| (tensor, *value)).collect();
        let kept = tensors.shared_number(&samples)?;
        let class = paddle.getattr("base").and_then(|base| base.getattr("core")?.getattr("DenseTensor")).ok()?;
        let bare_tensors = Embedded::find(class.cast().ok()?, &class.call0().ok()?, 0, CLASS)?;
        let found = VersionCounter { kept, bare_tensors, class: class.unbind() };
        // The exchange is tried on a written tensor: it must then have the spare tensor's version, and its view the old
        // one. A write to it must show in the spare tensor.
        let (written, sharing, _) = examples.last()?;
        let mut spare = None;
        found.renew(tensors, written, &mut spare).ok()?;
        let version = |tensor: &Bound<'_, PyAny>| tensor.getattr("inplace_version").ok()?.extract::<c_int>().ok();
        let is_renewed = version(written)? == 0 && version(sharing.first()?)? == 5;
        written.call_method0("_bump_inplace_version").ok()?;
        let spare = spare.as_ref().and_then(|spare| found.bare_tensors.of(spare.bind(written.py()))?.shared(kept));
        (is_renewed && spare == Some(SharedValue { number: 1, owners: 2 })).then_some(found)
    }

    /// Gives a tensor the counter of `spare`, which is zero. `spare` is replaced if another tensor has its counter.
    fn renew(&self, tensors: &Embedded, tensor: &Bound<'_, PyAny>, spare: &mut Option<Py<PyAny>>) -> PyResult<()> {
        let py = tensor.py();
        let is_unused = |spare: &Py<PyAny>| {
            let shared = self.bare_tensors.of(spare.bind(py)).and_then(|spare| spare.shared(self.kept));
            shared == Some(SharedValue { number: 0, owners: 1 })
        };
        if !spare.as_ref().is_some_and(is_unused) {
            *spare = Some(self.class.bind(py).call0()?.unbind());
        }
        let spare = spare.as_ref().map(|spare| spare.bind(py));
        if let (Some(own), Some(new)) = (tensors.of(tensor), spare.and_then(|spare| self.bare_tensors.of(spare))) {
            own.share(new, self.kept);
        }
        Ok(())
    }
}

/// `paddle::imperative::AmpAttrs::amp_dtype_`
const AMP_DTYPE: &CStr = c"_ZN6paddle10imperative8AmpAttrs10amp_dtype_E";

/// The element type of automatic mixed precision, which Paddle keeps for each thread.
pub(crate) struct AmpDtype {
    kept: ThreadNumber,
    off: i32,
}

impl AmpDtype {
    /// Finds the element type by changing `_amp_dtype` of the tracer; `None` if anything is not as expected.
    pub(crate) fn find(paddle: &Bound<'_, PyModule>, tracer: &Bound<'_, PyAny>) -> Option<AmpDtype> {
        let folder: PathBuf = paddle.getattr("__path__").ok()?.get_item(0).ok()?.extract().ok()?;
        let kept = ThreadNumber::find(&folder.join("base/libpaddle.so"), AMP_DTYPE)?;
        let read_as = |name: &str| {
            tracer.setattr("_amp_dtype", name).ok()?;
            let says: String = tracer.getattr("_amp_dtype").ok()?.extract().ok()?;
            (says == name).then(|| kept.read())?
        };
        let before: String = tracer.getattr("_amp_dtype").ok()?.extract().ok()?;
        let (half, off) = (read_as("float16"), read_as("float32"));
        tracer.setattr("_amp_dtype", before).ok()?;
        (half? != off?).then_some(AmpDtype { kept, off: off? })
    }

    /// True if mixed precision is off in this thread; `None` if that cannot be read.
    pub(crate) fn is_off(&self) -> Option<bool> {
        self.kept.read().map(|now| now == self.off)
    }
}

/// A tensor, its shape and its element type.
type Sample<'py> = (Bound<'py, PyAny>, Vec<i64>, &'static str);

/// `paddle::imperative::Tracer::HasGrad`
const HAS_GRAD: &CStr = c"_ZNK6paddle10imperative6Tracer7HasGradEv";

/// Finds the native flag of grad mode; `None` if it disagrees with `asked` after `switch` has changed grad mode.
pub(crate) fn grad_flag(
    paddle: &Bound<'_, PyModule>,
    asked: &Bound<'_, PyAny>,
    switch: &Bound<'_, PyAny>,
) -> Option<ThreadFlag> {
    let folder: PathBuf = paddle.getattr("__path__").ok()?.get_item(0).ok()?.extract().ok()?;
    let flag = ThreadFlag::find(&folder.join("base/libpaddle.so"), HAS_GRAD)?;
    let says = || asked.call0().and_then(|on| on.is_truthy()).ok();
    let before = says()?;
    let agrees = [!before, before].map(|on| {
        switch.call1((on,)).ok()?;
        (says()? == on && flag.read() == on).then_some(())
    });
    agrees.into_iter().collect::<Option<Vec<()>>>().map(|_| flag)
}

/// Tensors of several shapes and element types.
fn samples<'py>(paddle: &Bound<'py, PyModule>) -> PyResult<Vec<Sample<'py>>> {
    let make = |shape: &[i64], dtype| {
        let named = PyDict::new(paddle.py());
        named.set_item("dtype", dtype)?;
        Ok((paddle.call_method("empty", (shape.to_vec(),), Some(&named))?, shape.to_vec(), dtype))
    };
    [
        make(&[2, 3, 5, 7], "float32"),
        make(&[], "float64"),
        make(&[11], "int64"),
        make(&[1, 4], "bool"),
        make(&[3, 2, 1], "float16"),
        make(&[6], "float32"),
        make(&[2], "int32"),
    ]
    .into_iter()
    .collect()
}
