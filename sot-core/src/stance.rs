//! The stance: what becomes of a call for which there is no translation yet. It holds for the whole process.

use std::sync::atomic::{AtomicU8, Ordering};

/// What becomes of frames that no translation fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Stance {
    /// They are translated.
    Default,
    /// No translation runs at all: the program's own frames do.
    Eager,
    /// They run in CPython; translations that fit are used.
    EagerOnRecompile,
    /// They are an error.
    FailOnRecompile,
    /// The first call of a function runs in CPython; what it shows of sizes is known to the translation of the second.
    EagerThenCompile,
}

const ALL: [(&str, Stance); 5] = [
    ("default", Stance::Default),
    ("eager", Stance::Eager),
    ("eager_on_recompile", Stance::EagerOnRecompile),
    ("fail_on_recompile", Stance::FailOnRecompile),
    ("eager_then_compile", Stance::EagerThenCompile),
];

static NOW: AtomicU8 = AtomicU8::new(Stance::Default as u8);

impl Stance {
    /// The stance of this moment.
    #[inline]
    pub fn now() -> Stance {
        ALL[usize::from(NOW.load(Ordering::Relaxed))].1
    }

    /// Takes this stance; the name of the one before.
    pub fn take(self) -> &'static str {
        ALL[usize::from(NOW.swap(self as u8, Ordering::Relaxed))].0
    }

    /// The stance of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Stance> {
        ALL.iter().find(|(known, _)| *known == name).map(|(_, stance)| *stance)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        ALL[usize::from(self as u8)].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stance_is_at_its_own_place() {
        for (name, stance) in ALL {
            assert_eq!((stance.name(), Stance::named(name)), (name, Some(stance)));
        }
        assert_eq!(Stance::named("force_eager"), None);
    }
}
