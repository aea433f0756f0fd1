//! What differs between versions of the language and its library, and no opcode tells: one table, which handlers ask by
//! name.

use crate::version::PyVersion;

/// That of the interpreter this library was built for.
pub const LANGUAGE: Language = Language::of(PyVersion::BUILT_FOR);

/// What one version does.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each asked by its name")]
pub struct Language {
    /// `x in items` asks `x` for equality first, and not the item (before 3.9).
    pub asks_the_sought_first: bool,
    /// Texts of `SimpleNamespace` are sorted by name (before 3.9).
    pub sorts_namespaces: bool,
    /// `list(x)` asks for the length of `x` before anything else, and then once more (before 3.10).
    pub asks_length_first: bool,
    /// A `range` has the very numbers it was given, of whatever class (before 3.10).
    pub ranges_keep_objects: bool,
    /// Nothing is asked after an `__ipow__` that declines (before 3.10).
    pub in_place_power_is_final: bool,
    /// `int()` and `float()` ask for a real number, where they asked for a number (3.10).
    pub asks_for_real_numbers: bool,
    /// Errors of attributes and indices name the types of what does not fit (3.11).
    pub names_misfits: bool,
    /// The variables of a frame and its cells are one list (3.11).
    pub has_one_list_of_variables: bool,
    /// A log record with a `stacklevel` beyond all frames is the outermost frame's, and not the innermost one's (3.11).
    pub far_records_are_outermost: bool,
    /// What is handled keeps the traceback that it had when its handler began (before 3.11).
    pub handlers_keep_tracebacks: bool,
    /// `traceback` looks for names that are alike where one is not found (3.12).
    pub suggests_names: bool,
    /// `locals()` of a function gives one dict again and again (before 3.13, PEP 667).
    pub has_lasting_locals: bool,
    /// `generator.close()` gives what the generator returned (3.13).
    pub close_gives_value: bool,
    /// Errors say that an object has no `__dict__` for new attributes (3.13).
    pub tells_of_missing_dicts: bool,
}

impl Language {
    /// That of a version.
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
            suggests_names: version.0 >= 12,
            has_lasting_locals: version.0 < 13,
            close_gives_value: version.0 >= 13,
            tells_of_missing_dicts: version.0 >= 13,
        }
    }
}
