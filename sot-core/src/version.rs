//! CPython versions and version ranges, as registrations state them.

use std::fmt;

/// A CPython 3 minor version; `PyVersion(11)` is CPython 3.11.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PyVersion(pub u8);

impl PyVersion {
    /// The oldest supported interpreter.
    pub const OLDEST: PyVersion = PyVersion(8);
    /// The newest supported interpreter.
    pub const NEWEST: PyVersion = PyVersion(13);

    /// The interpreter this library was built for (struct layouts are per minor version).
    pub const BUILT_FOR: PyVersion = PyVersion(built_for());

    /// Parses `"3.11"`; `None` for anything that is not a CPython 3 minor version.
    #[must_use]
    pub const fn parse(text: &str) -> Option<PyVersion> {
        let bytes = text.as_bytes();
        if bytes.len() < 3 || bytes.len() > 4 || bytes[0] != b'3' || bytes[1] != b'.' {
            return None;
        }
        let mut minor = 0;
        let mut i = 2;
        while i < bytes.len() {
            if !bytes[i].is_ascii_digit() {
                return None;
            }
            minor = minor * 10 + (bytes[i] - b'0');
            i += 1;
        }
        Some(PyVersion(minor))
    }
}

const fn built_for() -> u8 {
    if cfg!(Py_3_13) {
        13
    } else if cfg!(Py_3_12) {
        12
    } else if cfg!(Py_3_11) {
        11
    } else if cfg!(Py_3_10) {
        10
    } else if cfg!(Py_3_9) {
        9
    } else {
        8
    }
}

impl fmt::Display for PyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "3.{}", self.0)
    }
}

impl fmt::Debug for PyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A half-open range of versions: `since` is in it, `until` is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VersionRange {
    /// First version in the range.
    pub since: PyVersion,
    /// First version after the range.
    pub until: PyVersion,
}

impl VersionRange {
    /// Every supported version.
    pub const ALL: VersionRange = VersionRange { since: PyVersion::OLDEST, until: PyVersion(PyVersion::NEWEST.0 + 1) };

    /// True if `version` is in the range.
    #[must_use]
    pub const fn contains(self, version: PyVersion) -> bool {
        self.since.0 <= version.0 && version.0 < self.until.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_minor_versions_only() {
        assert_eq!(PyVersion::parse("3.8"), Some(PyVersion(8)));
        assert_eq!(PyVersion::parse("3.13"), Some(PyVersion(13)));
        for wrong in ["", "3", "3.", "2.7", "3.x", "3.123", "3.1.1"] {
            assert_eq!(PyVersion::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_range_excludes_its_end() {
        let range = VersionRange { since: PyVersion(8), until: PyVersion(11) };
        assert!(range.contains(PyVersion(8)) && range.contains(PyVersion(10)));
        assert!(!range.contains(PyVersion(11)));
    }
}
