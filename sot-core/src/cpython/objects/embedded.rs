//! Fields of a C++ object that a Python object holds by a pointer behind its header. They are read by accessors that
//! the C++ library exports, in a few nanoseconds instead of the hundred that the Python attribute takes. No layout is
//! assumed: everything is found with the help of samples, and memory is examined in a way that cannot fault.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::fs::File;
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::null;
use std::sync::atomic::{AtomicI32, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Position of the C++ object in instances of a Python type, and the C++ class it has to be of.
#[derive(Debug)]
pub struct Embedded {
    owner: Py<PyType>,
    /// A derived type that is known, so that the type check can be skipped.
    derived: Option<Py<PyType>>,
    /// Offset of the pointer in the Python object.
    offset: usize,
    virtual_table: usize,
}

/// Position of a number in the C++ object: an `int`, or an `enum` based on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddedNumber {
    offset: usize,
}

/// Position of a `std::shared_ptr` in the C++ object, to an object that begins with a 32-bit number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedNumber {
    offset: usize,
}

/// A number that several C++ objects share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedValue {
    /// The number.
    pub number: c_int,
    /// Number of objects that share it.
    pub owners: c_int,
}

/// Offset of the number of owners in the control block of libstdc++ that the second word of a `std::shared_ptr` points
/// to.
const OWNERS: usize = size_of::<usize>();

/// Accessor of a number.
#[derive(Debug, Clone, Copy)]
pub struct NumberField(NumberAccessor);

type NumberAccessor = extern "C" fn(*const c_void) -> c_int;

/// Accessor of a short array: `N` places of 64 bits, followed by the number of used places.
#[derive(Debug, Clone, Copy)]
pub struct ArrayField<const N: usize>(ArrayAccessor<N>);

type ArrayAccessor<const N: usize> = extern "C" fn(*const c_void) -> *const Array<N>;

#[repr(C)]
struct Array<const N: usize> {
    items: [i64; N],
    used: c_int,
}

/// Number of bytes of a C++ object that are searched for a number.
const NUMBERS_END: usize = 256;

impl Embedded {
    /// Examines `sample`, an instance of `owner`. Word `position` behind its header has to be a pointer to an object
    /// whose virtual table has the (mangled) symbol `virtual_table`; otherwise `None`.
    pub fn find(
        owner: &Bound<'_, PyType>,
        sample: &Bound<'_, PyAny>,
        position: usize,
        virtual_table: &CStr,
    ) -> Option<Embedded> {
        let offset = size_of::<ffi::PyObject>() + position * size_of::<usize>();
        let holds_pointer = basic_size(owner) >= offset + size_of::<usize>();
        if !holds_pointer || !sample.is_instance(owner).ok()? {
            return None;
        }
        let memory = ProcessMemory::open()?;
        let object = memory.word(sample.as_ptr() as usize + offset)?;
        let found = memory.word(object)?;
        (symbol_at(found)?.as_c_str() == virtual_table).then(|| Embedded {
            owner: owner.clone().unbind(),
            derived: None,
            offset,
            virtual_table: found,
        })
    }

    /// Adds a derived type, for which the type check is skipped.
    #[must_use]
    pub fn knowing(self, derived: &Bound<'_, PyType>) -> Embedded {
        let is_derived = derived.is_subclass(self.owner.bind(derived.py())).unwrap_or(false);
        Embedded { derived: is_derived.then(|| derived.clone().unbind()), ..self }
    }

    /// Finds the accessor of a number by its symbol. The caller has to compare its answers for samples with Python's.
    pub fn number(&self, library: &Path, accessor: &CStr) -> Option<NumberField> {
        let found = find_function(library, accessor)?;
        // SAFETY: the symbol is a function of the library, which stays loaded. What the symbol names, an accessor of a
        // C++ class without arguments, takes the object and returns an `int` or an `enum` based on it.
        Some(NumberField(unsafe { std::mem::transmute::<*mut c_void, NumberAccessor>(found) }))
    }

    /// Finds the position of a number by its values in samples. `None` unless there is exactly one such position.
    pub fn kept_number(&self, samples: &[(&Bound<'_, PyAny>, c_int)]) -> Option<EmbeddedNumber> {
        self.settable_number(&[samples], |_, _| Some(()))
    }

    /// Finds the position of a number that can be set, by several rounds of values in samples: `set` is called with
    /// each sample and its value before the round. Other numbers nearby may have the values of one round by chance.
    /// `None` unless there is exactly one position.
    pub fn settable_number<'s, 'py>(
        &self,
        rounds: &[&[(&'s Bound<'py, PyAny>, c_int)]],
        mut set: impl FnMut(&'s Bound<'py, PyAny>, c_int) -> Option<()>,
    ) -> Option<EmbeddedNumber> {
        let memory = ProcessMemory::open()?;
        let mut left: Vec<usize> = (size_of::<usize>()..NUMBERS_END).step_by(size_of::<c_int>()).collect();
        for samples in rounds {
            samples.iter().try_for_each(|(sample, value)| set(sample, *value))?;
            for (sample, expected) in *samples {
                let object = self.of(sample)?.address();
                left.retain(|offset| memory.number(object + offset) == Some(*expected));
            }
        }
        match left[..] {
            [offset] => Some(EmbeddedNumber { offset }),
            _ => None,
        }
    }

    /// Finds the position of a shared number by its values in samples. `None` unless there is exactly one such
    /// position.
    pub fn shared_number(&self, samples: &[(&Bound<'_, PyAny>, SharedValue)]) -> Option<SharedNumber> {
        let memory = ProcessMemory::open()?;
        let mut left: Vec<usize> = (size_of::<usize>()..NUMBERS_END).step_by(size_of::<usize>()).collect();
        for (sample, expected) in samples {
            let object = self.of(sample)?.address();
            left.retain(|offset| {
                let word = |at: usize| memory.word(object + offset + at);
                let (Some(number), Some(control)) = (word(0), word(size_of::<usize>())) else { return false };
                memory.number(number) == Some(expected.number)
                    && memory.number(control.wrapping_add(OWNERS)) == Some(expected.owners)
            });
        }
        match left[..] {
            [offset] => Some(SharedNumber { offset }),
            _ => None,
        }
    }

    /// Finds the accessor of an array by its symbol. It has to return a reference. Its answer for `sample` is
    /// examined here, and has to be `expected`.
    pub fn array<const N: usize>(
        &self,
        library: &Path,
        accessor: &CStr,
        sample: &Bound<'_, PyAny>,
        expected: &[i64],
    ) -> Option<ArrayField<N>> {
        let place = self.place(sample)?;
        let found = find_function(library, accessor)?;
        // SAFETY: the symbol is a function of the library, which stays loaded. An accessor of a C++ class without arguments
        // takes the object; what it returns is read as an integer first, and checked below.
        let read = unsafe { std::mem::transmute::<*mut c_void, ArrayAccessor<N>>(found) };
        let answer = read(place) as usize;
        let memory = ProcessMemory::open()?;
        let used = memory.word(answer + size_of::<[i64; N]>())? as c_int;
        if used as usize != expected.len() || expected.len() > N {
            return None;
        }
        let same = |(at, item): (usize, &i64)| memory.word(answer + at * size_of::<i64>()) == Some(*item as usize);
        expected.iter().enumerate().all(same).then_some(ArrayField(read))
    }

    /// Returns the C++ object of `object`; `None` if there is none of this class.
    #[inline]
    pub fn of<'a>(&self, object: &'a Bound<'_, PyAny>) -> Option<EmbeddedObject<'a>> {
        self.place(object).map(|place| EmbeddedObject { place, owner: PhantomData })
    }

    /// Returns the address of the pointer in `object`, which accessors take.
    #[inline]
    fn place(&self, object: &Bound<'_, PyAny>) -> Option<*const c_void> {
        // SAFETY: an instance of the type has the pointer. It is null, or points to an object that begins with the
        // address of its virtual table, as a sample has shown.
        unsafe {
            let ty = object.get_type_ptr();
            let known = self.derived.as_ref().is_some_and(|derived| derived.as_ptr().cast() == ty);
            if !known && ffi::PyObject_TypeCheck(object.as_ptr(), self.owner.as_ptr().cast()) == 0 {
                return None;
            }
            let place = object.as_ptr().byte_add(self.offset).cast::<*const usize>();
            let held = *place;
            (!held.is_null() && *held == self.virtual_table).then_some(place.cast())
        }
    }
}

/// The C++ object of a Python object.
#[derive(Debug, Clone, Copy)]
pub struct EmbeddedObject<'a> {
    place: *const c_void,
    owner: PhantomData<&'a ()>,
}

impl EmbeddedObject<'_> {
    /// Address of the pointer to the C++ object.
    pub(in crate::cpython) fn pointer(self) -> *const usize {
        self.place.cast()
    }

    /// Address of the C++ object, which begins with the address of its virtual table.
    pub(in crate::cpython) fn address(self) -> usize {
        // SAFETY: `place` is within the Python object, which lives as long as this.
        unsafe { *self.pointer() }
    }

    /// Returns the address of the word that contains a number.
    pub(in crate::cpython) fn word_of_number(self, kept: EmbeddedNumber) -> *const u64 {
        (self.address() + kept.offset / size_of::<u64>() * size_of::<u64>()) as *const u64
    }

    /// Returns the addresses of the words of an array: the items, and the length.
    pub(in crate::cpython) fn words_of_array<const N: usize>(self, field: ArrayField<N>) -> Option<Vec<*const u64>> {
        let array = (field.0)(self.place);
        let used = self.used(field)?.len();
        // SAFETY: `used` has read the array at this address; only addresses within it are made.
        let (items, end) =
            unsafe { ((&raw const (*array).items).cast::<u64>(), (&raw const (*array).used).cast::<u64>()) };
        Some((0..used).map(|at| items.wrapping_add(at)).chain([end]).collect())
    }

    /// Reads a number.
    #[inline]
    pub fn number(self, field: NumberField) -> c_int {
        (field.0)(self.place)
    }

    /// Reads a number whose position is known.
    #[inline]
    pub fn kept(self, kept: EmbeddedNumber) -> c_int {
        // SAFETY: as samples have shown, the object has the number there. The object lives, and the GIL prevents that
        // it is changed.
        unsafe { *((self.address() + kept.offset) as *const c_int) }
    }

    /// Reads a shared number; `None` if the pointer is null.
    #[inline]
    pub fn shared(self, kept: SharedNumber) -> Option<SharedValue> {
        let pointer = (self.address() + kept.offset) as *const [usize; 2];
        // SAFETY: as samples have shown, the object has a `std::shared_ptr` there: a pointer to the number and one to
        // the control block, both null or both valid. The object lives, and the GIL prevents that it is changed.
        unsafe {
            let [number, control] = *pointer;
            if number == 0 || control == 0 {
                return None;
            }
            let owners = &*((control + OWNERS) as *const AtomicI32);
            Some(SharedValue { number: *(number as *const c_int), owners: owners.load(Ordering::Relaxed) })
        }
    }

    /// Makes the object share the number of another one. Returns `false`, and does nothing, unless the number that it
    /// has shared until now has other owners.
    pub fn share(self, other: EmbeddedObject<'_>, kept: SharedNumber) -> bool {
        let may_be_left = |value: SharedValue| value.owners > 1;
        if !self.shared(kept).is_some_and(may_be_left) || other.shared(kept).is_none() {
            return false;
        }
        let [own, others] = [self, other].map(|object| (object.address() + kept.offset) as *mut [usize; 2]);
        // SAFETY: as samples have shown, both objects have a `std::shared_ptr` of one type there, and neither is null.
        // Its copy counts as one more owner of the new number, and as one less of the old one, which keeps an owner. The
        // objects live, and the GIL prevents that they are used meanwhile.
        unsafe {
            let [_, before] = *own;
            let [_, after] = *others;
            (*((after + OWNERS) as *const AtomicI32)).fetch_add(1, Ordering::Relaxed);
            (*((before + OWNERS) as *const AtomicI32)).fetch_sub(1, Ordering::AcqRel);
            *own = *others;
        }
        true
    }

    /// Returns the items of an array; `None` if the stored length is negative or greater than the capacity.
    pub fn array<const N: usize>(self, field: ArrayField<N>) -> Option<Vec<i64>> {
        self.used(field).map(<[i64]>::to_vec)
    }

    /// True if an array has exactly these items.
    #[inline]
    pub fn array_is<const N: usize>(self, field: ArrayField<N>, expected: &[i64]) -> bool {
        self.used(field) == Some(expected)
    }

    /// True if an array has these items. A negative expected item matches every item of at least `least`.
    pub fn array_fits<const N: usize>(self, field: ArrayField<N>, expected: &[i64], least: i64) -> bool {
        let fits = |(item, expected): (&i64, &i64)| if *expected < 0 { *item >= least } else { item == expected };
        self.used(field).is_some_and(|items| items.len() == expected.len() && items.iter().zip(expected).all(fits))
    }

    /// True if each item of an array passes.
    #[inline]
    pub fn all<const N: usize>(self, field: ArrayField<N>, passes: impl Fn(i64) -> bool) -> bool {
        self.used(field).is_some_and(|items| items.iter().all(|item| passes(*item)))
    }

    #[inline]
    fn used<'a, const N: usize>(self, field: ArrayField<N>) -> Option<&'a [i64]>
    where
        Self: 'a,
    {
        // SAFETY: the accessor returns a reference into the object, as a sample has shown. The object is not dropped,
        // and the GIL prevents changes.
        let array = unsafe { &*(field.0)(self.place) };
        array.items.get(..array.used as usize)
    }
}

/// A C++ method that returns a flag of this thread, and reads nothing from the object that it is called on.
#[derive(Debug, Clone, Copy)]
pub struct ThreadFlag(extern "C" fn(*const ZeroedObject) -> u8);

/// A stand-in for the object. If the method reads the object nevertheless, it finds zeros, which the comparison in the
/// caller detects.
#[repr(C, align(64))]
struct ZeroedObject([u8; 4096]);

static ZEROED_OBJECT: ZeroedObject = ZeroedObject([0; 4096]);

impl ThreadFlag {
    /// Finds the method by its symbol in a loaded library. The caller has to compare the answers with known ones.
    pub fn find(library: &Path, method: &CStr) -> Option<ThreadFlag> {
        let found = find_function(library, method)?;
        // SAFETY: the symbol is a function of the library, which stays loaded. A method of a C++ class without arguments takes
        // the object; that it returns a flag, a byte, is what the caller's comparison shows.
        Some(ThreadFlag(unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(*const ZeroedObject) -> u8>(found) }))
    }

    /// Reads the flag of this thread.
    #[inline]
    pub fn read(self) -> bool {
        (self.0)(&raw const ZEROED_OBJECT) != 0
    }
}

/// An `int`, or an `enum` based on it, that a library keeps for each thread.
#[derive(Debug)]
pub struct ThreadNumber {
    library: Library,
    name: &'static CStr,
}

thread_local! {
    /// Address of this thread's number, with the address of the number's name. Only the number read last is kept.
    static PLACE: Cell<(*const c_char, *const c_int)> = const { Cell::new((null(), null())) };
}

impl ThreadNumber {
    /// Finds the number by its symbol in a loaded library. The caller has to compare the answers with known ones.
    pub fn find(library: &Path, name: &'static CStr) -> Option<ThreadNumber> {
        let number = ThreadNumber { library: Library::loaded(library)?, name };
        number.read().map(|_| number)
    }

    /// Reads the number of this thread.
    #[inline]
    pub fn read(&self) -> Option<c_int> {
        let (name, place) = PLACE.get();
        let place = if name == self.name.as_ptr() { place } else { self.look_up()? };
        // SAFETY: the dynamic linker's address of a thread's own variable is good as long as the thread lives.
        Some(unsafe { *place })
    }

    fn look_up(&self) -> Option<*const c_int> {
        let place = self.library.symbol(self.name)?.cast_const().cast::<c_int>();
        PLACE.set((self.name.as_ptr(), place));
        Some(place)
    }
}

fn basic_size(ty: &Bound<'_, PyType>) -> usize {
    // SAFETY: a live type.
    unsafe { (*ty.as_type_ptr()).tp_basicsize as usize }
}

/// This process's memory as a file, so that reading an unmapped address is an error and no fault.
struct ProcessMemory(File);

impl ProcessMemory {
    fn open() -> Option<ProcessMemory> {
        File::open("/proc/self/mem").ok().map(ProcessMemory)
    }

    fn word(&self, address: usize) -> Option<usize> {
        let mut bytes = [0; size_of::<usize>()];
        self.0.read_exact_at(&mut bytes, address as u64).ok()?;
        Some(usize::from_ne_bytes(bytes))
    }

    fn number(&self, address: usize) -> Option<c_int> {
        let mut bytes = [0; size_of::<c_int>()];
        self.0.read_exact_at(&mut bytes, address as u64).ok()?;
        Some(c_int::from_ne_bytes(bytes))
    }
}

/// `Dl_info`.
#[repr(C)]
struct SymbolInfo {
    file: *const c_char,
    base: *mut c_void,
    name: *const c_char,
    address: *mut c_void,
}

extern "C" {
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dladdr(address: *const c_void, info: *mut SymbolInfo) -> c_int;
}

const RTLD_LAZY: c_int = 1;
const RTLD_NOLOAD: c_int = 4;

/// Name of the symbol at an address, if the dynamic linker knows it.
fn symbol_at(address: usize) -> Option<CString> {
    let mut info = SymbolInfo { file: null(), base: std::ptr::null_mut(), name: null(), address: std::ptr::null_mut() };
    // SAFETY: any address may be asked about; a name that is found belongs to a loaded library.
    unsafe {
        if dladdr(address as *const c_void, &raw mut info) == 0 || info.name.is_null() {
            return None;
        }
        Some(CStr::from_ptr(info.name).to_owned())
    }
}

/// A library that stays loaded, because the reference taken here is never released.
#[derive(Debug)]
struct Library(usize);

impl Library {
    /// Returns the library of this file, if it is loaded.
    fn loaded(file: &Path) -> Option<Library> {
        let file = CString::new(file.as_os_str().as_bytes()).ok()?;
        // SAFETY: a `CString` ends in NUL; with `RTLD_NOLOAD` nothing is loaded, so no code of a library runs.
        let library = unsafe { dlopen(file.as_ptr(), RTLD_LAZY | RTLD_NOLOAD) };
        (!library.is_null()).then_some(Library(library as usize))
    }

    /// Returns the address of a symbol, in this thread.
    fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the library stays loaded, as its reference is never released; a `CStr` ends in NUL.
        let found = unsafe { dlsym(self.0 as *mut c_void, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }
}

/// Returns a function of a loaded library.
fn find_function(library: &Path, name: &CStr) -> Option<*mut c_void> {
    Library::loaded(library)?.symbol(name)
}
