//! The stance: what happens at a call that no translation fits. It holds for the whole process.

use std::sync::atomic::{AtomicU8, Ordering};

/// What happens at a cache miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Stance {
    /// The frame is translated.
    Default,
    /// Nothing is translated and no existing translation runs; CPython runs all frames.
    Eager,
    /// CPython runs the frame; existing translations are used where they fit.
    EagerOnRecompile,
    /// `RecompileError` is raised.
    FailOnRecompile,
    /// The first call of a function runs in CPython. The sizes it shows are known to the translation at the second
    /// call.
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
    /// The stance in force.
    #[inline]
    pub fn now() -> Stance {
        ALL[usize::from(NOW.load(Ordering::Relaxed))].1
    }

    /// Sets this stance. Returns the name of the stance before.
    pub fn take(self) -> &'static str {
        ALL[usize::from(NOW.swap(self as u8, Ordering::Relaxed))].0
    }

    /// Returns the stance of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Stance> {
        ALL.iter().find(|(known, _)| *known == name).map(|(_, stance)| *stance)
    }

    /// Returns the name of the stance.
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
