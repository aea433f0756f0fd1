//! Reasons that plug-ins define: with an id, a hint and a page of their own, counted and shown like the tracer's.

use super::{ReasonId, ReasonKind, RegistrationError};
use crate::origin::{LinkedRegistration, Registered, RegistrationOrigin};

/// A reason that a plug-in defines.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct PluginReason {
    /// The stable id.
    pub id: &'static str,
    /// The kind of break, or `Frame` for a reason that leaves the whole frame to CPython.
    pub kind: ReasonKind,
    /// What the reason means.
    pub meaning: &'static str,
    /// What a user can do about it.
    pub hint: &'static str,
    /// Address of a page about the reason.
    pub page: Option<&'static str>,
    /// Where it is registered.
    pub origin: RegistrationOrigin,
}

/// The registration of a [`PluginReason`].
pub struct LinkedReason(pub &'static PluginReason);

inventory::collect!(LinkedReason);

impl Registered for LinkedReason {
    fn linked(&self) -> LinkedRegistration {
        LinkedRegistration { registry: "reason", name: self.0.id, origin: self.0.origin }
    }
}

/// Defines a reason as a constant, for [`Unwind::break_graph`](crate::error::Unwind::break_graph) and
/// [`Unwind::fallback`](crate::error::Unwind::fallback): its doc comment, the stable id, the [`ReasonKind`], what a user
/// can do about it, and, if there is one, a page about it.
///
/// ```
/// use sot_core::error::{ReasonId, Unwind};
///
/// sot_core::reason! {
///     /// A map holds a key that is no text.
///     KEY_IS_NO_TEXT = "maps.key-is-no-text", Unsps, "Convert the keys outside of the function.",
///     page "https://maps.example/sot#keys"
/// }
///
/// assert_eq!(KEY_IS_NO_TEXT.id(), "maps.key-is-no-text");
/// let why = Unwind::break_graph(KEY_IS_NO_TEXT, "the key 3");
/// # assert!(matches!(why, Unwind::BreakGraph(_)));
/// ```
///
/// [`ReasonKind`]: crate::error::ReasonKind
#[macro_export]
macro_rules! reason {
    ($(#[doc = $meaning:literal])+ $visible:vis $item:ident = $id:literal, $kind:ident, $hint:literal
        $(, page $page:literal)? $(,)?) => {
        $(#[doc = $meaning])+
        $visible const $item: $crate::error::ReasonId = $crate::error::ReasonId::Plugin({
            const REASON: &$crate::error::PluginReason = &$crate::error::PluginReason {
                id: $id,
                kind: $crate::error::ReasonKind::$kind,
                meaning: concat!($($meaning),+).trim_ascii(),
                hint: $hint,
                page: $crate::reason!(@page $($page)?),
                origin: $crate::origin!(),
            };
            $crate::inventory::submit! { $crate::error::LinkedReason(REASON) }
            REASON
        });
    };
    (@page) => { None };
    (@page $page:literal) => { Some($page) };
}

/// Returns the reasons of all linked plug-ins, in the order of their crates, files and lines.
pub(crate) fn linked() -> Vec<&'static PluginReason> {
    let mut all: Vec<_> = inventory::iter::<LinkedReason>.into_iter().map(|linked| linked.0).collect();
    all.sort_by_key(|reason| reason.origin);
    all
}

/// Checks that every id is used once.
pub(crate) fn check() -> Result<(), RegistrationError> {
    find_clash(&linked())
}

fn find_clash(all: &[&'static PluginReason]) -> Result<(), RegistrationError> {
    for (at, reason) in all.iter().enumerate() {
        let wrong = |what| Err(RegistrationError { what, origin: reason.origin });
        if ReasonId::ALL.iter().any(|own| own.id() == reason.id) {
            return wrong(format!("the reason {:?} is one of the tracer's own", reason.id));
        }
        if let Some(other) = all[..at].iter().find(|other| other.id == reason.id) {
            return wrong(format!("a reason {:?} is already registered at {}", reason.id, other.origin));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Reason;

    crate::reason! {
        /// A shelf is full.
        FULL = "shelves.full", Unsps, "Take something off.", page "https://shelves.example/full"
    }

    fn plugin(id: ReasonId) -> &'static PluginReason {
        let ReasonId::Plugin(reason) = id else { panic!("a plug-in's") };
        reason
    }

    #[test]
    fn it_has_all_that_the_tracers_own_have() {
        assert_eq!((FULL.id(), FULL.kind().name(), FULL.meaning()), ("shelves.full", "UNSPS", "A shelf is full."));
        assert_eq!((FULL.hint(), FULL.page()), ("Take something off.", Some("https://shelves.example/full")));
        assert_eq!(Reason::new(FULL, "three books").to_string(), "shelves.full: three books");
        assert!(linked().contains(&plugin(FULL)));
    }

    #[test]
    fn an_id_is_used_once() {
        static OWN: PluginReason = PluginReason {
            id: "raises",
            kind: ReasonKind::Frame,
            meaning: "",
            hint: "",
            page: None,
            origin: crate::origin!(),
        };
        assert!(find_clash(&[plugin(FULL)]).is_ok());
        let twice = find_clash(&[plugin(FULL), plugin(FULL)]).unwrap_err().to_string();
        assert!(twice.contains("\"shelves.full\" is already registered at") && twice.contains("sot-core"), "{twice}");
        let own = find_clash(&[&OWN]).unwrap_err().to_string();
        assert!(own.contains("one of the tracer's own"), "{own}");
    }
}
