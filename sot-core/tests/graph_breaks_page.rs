//! `docs/graph-breaks.md` is made from `ReasonId`, so that it cannot drift from what the tracer says. `SOT_BLESS=1`
//! writes it.

use std::fmt::Write as _;
use std::path::PathBuf;

use sot_core::error::{ReasonId, ReasonKind};

const INTRODUCTION: &str = "\
# Graph breaks and fallbacks

The tracer never changes what a program does. Where it cannot go on, one of two things happens:

- **Graph break**: the graph ends before an instruction. That instruction runs in CPython, and a resume function,
  translated on its own, goes on behind it. The function becomes several graphs.
- **Fallback**: the frame is left to CPython as a whole. Functions it calls are still translated.

Each has a reason with a stable id, a text and the place in your source. There are four ways to see the reasons: a
[report](report.md) shows each with its cost, line and advice, `SOT_LOGS=breaks` logs each, `sot.stats()` counts them,
and `sot.explain(fn)(*args)` lists those of one call.

A reason usually leads to a break. It leads to a fallback where the code around it cannot be cut in two, for example in
a `try` or `with` block.

`sot.explain` shows a code before the id: `[DDCF data-dependent-control-flow]`. The code is the kind of the reason:

| code | stands for | meaning |
|---|---|---|
| `DDCF` | data-dependent control flow | which way the program takes depends on the elements of a tensor |
| `UNSPS` | unsupported simulation | a call, an operation or a write cannot be simulated |
| `CDBL` | break list | the user, the framework or the program itself asks for the break |
| `UNIMP` | unimplemented | an opcode has no handler |
| `FRAME` | frame | CPython runs the frame as a whole |

A plug-in may define reasons of its own ([how](plugins.md#register)), with an id, a hint and a page.

This page is generated from `sot-core/src/error/mod.rs`: `SOT_BLESS=1 cargo test -p sot-core --test graph_breaks_page`.

";

const KINDS: &[ReasonKind] =
    &[ReasonKind::Ddcf, ReasonKind::Unsps, ReasonKind::Cdbl, ReasonKind::Unimp, ReasonKind::Frame];

fn heading(kind: ReasonKind) -> &'static str {
    match kind {
        ReasonKind::Ddcf => "Data-dependent control flow (DDCF)",
        ReasonKind::Unsps => "Unsupported simulation (UNSPS)",
        ReasonKind::Cdbl => "Break list (CDBL)",
        ReasonKind::Unimp => "Unimplemented opcode (UNIMP)",
        ReasonKind::Frame => "The frame as a whole (FRAME)",
    }
}

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for &kind in KINDS {
        writeln!(page, "## {}\n", heading(kind)).expect("a string takes any text");
        for reason in ReasonId::ALL.iter().filter(|reason| reason.kind() == kind) {
            let (id, meaning, hint) = (reason.id(), reason.meaning(), reason.hint());
            writeln!(page, "### `{id}`\n\n{meaning}\n\n*What to do:* {hint}\n").expect("a string takes any text");
        }
    }
    page.truncate(page.trim_end().len());
    page + "\n"
}

#[test]
fn the_page_says_what_the_code_says() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/graph-breaks.md");
    let page = page();
    if std::env::var_os("SOT_BLESS").is_some() {
        std::fs::write(&path, &page).expect("docs/graph-breaks.md can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "docs/graph-breaks.md is out of date; write it anew with SOT_BLESS=1");
}

#[test]
fn ids_are_unique_and_every_reason_has_its_text() {
    for (at, reason) in ReasonId::ALL.iter().enumerate() {
        assert!(KINDS.contains(&reason.kind()), "{reason:?} has no place on the page");
        assert!(reason.meaning().ends_with('.') && reason.hint().ends_with('.'), "{reason:?}");
        assert!(!ReasonId::ALL[..at].iter().any(|other| other.id() == reason.id()), "{} is used twice", reason.id());
    }
}
