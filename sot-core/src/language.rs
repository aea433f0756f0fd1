//! Differences between Python versions that no opcode shows, in the language and in its library: one table, whose
//! facts handlers query by name.

use crate::version::PyVersion;

/// The facts of the interpreter this library was built for.
pub const LANGUAGE: Language = Language::of(PyVersion::BUILT_FOR);

/// The facts of one Python version.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each asked by its name")]
pub struct Language {
    /// `x in items` calls `__eq__` of `x` and not of the item first (before 3.9).
    pub asks_the_sought_first: bool,
    /// `repr` of a `SimpleNamespace` sorts the attributes by name (before 3.9).
    pub sorts_namespaces: bool,
    /// `list(x)` asks for the length of `x` first of all, and once more later (before 3.10).
    pub asks_length_first: bool,
    /// A `range` keeps the number objects it was given, whatever their class (before 3.10).
    pub ranges_keep_objects: bool,
    /// No other method is tried after an `__ipow__` that returns `NotImplemented` (before 3.10).
    pub in_place_power_is_final: bool,
    /// `int()` and `float()` name a "real number" in their error messages, where they named a "number" (3.10).
    pub asks_for_real_numbers: bool,
    /// Error messages of attributes and indices name the type of the unsuitable value (3.11).
    pub names_misfits: bool,
    /// A frame keeps its locals and its cells in one array (3.11).
    pub has_one_list_of_variables: bool,
    /// A log record whose `stacklevel` exceeds the stack is attributed to the outermost frame, and not to the
    /// innermost (3.11).
    pub far_records_are_outermost: bool,
    /// A handled exception keeps the traceback that it had when its handler began (before 3.11).
    pub handlers_keep_tracebacks: bool,
    /// The caller of a Python function holds the arguments until the function returns (before 3.11).
    pub calls_hold_arguments: bool,
    /// `traceback` suggests similar names for a name that is not found (3.12).
    pub suggests_names: bool,
    /// `locals()` of a function returns the same dict each time (before 3.13, PEP 667).
    pub has_lasting_locals: bool,
    /// `generator.close()` returns the generator's return value (3.13).
    pub close_gives_value: bool,
    /// Error messages say that an object has no `__dict__` for new attributes (3.13).
    pub tells_of_missing_dicts: bool,
}

impl Language {
    /// The facts of a version.
    #[must_use]
    pub const fn of(version: PyVersion) -> Language {
        Language {
            asks_the_sought_first: version.0 < 9,
            sorts_namespaces: version.0 < 9,
            asks_length_first: version.0 < 10,
            ranges_keep_objects: version.0 < 10,
            in_place_power_is_final: version.0 < 10,
            asks_for_real_numbers: version.0 >= 10,
            names_misfits: version.0 >= 11,
            has_one_list_of_variables: version.0 >= 11,
            far_records_are_outermost: version.0 >= 11,
            handlers_keep_tracebacks: version.0 < 11,
            calls_hold_arguments: version.0 < 11,
            suggests_names: version.0 >= 12,
            has_lasting_locals: version.0 < 13,
            close_gives_value: version.0 >= 13,
            tells_of_missing_dicts: version.0 >= 13,
        }
    }
}
