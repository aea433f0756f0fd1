//! What a report shows of each translation, as plain data for JSON, and where it is kept until somebody asks. The small
//! facts (function, seconds, sizes, reason) are always kept; the rest only while details are asked for, and so is the
//! time that calls take. Else a hit costs nothing more: entries count their uses anyway, and are asked for the count
//! when a report is written.

mod data;
mod lines;
mod store;
mod trail;

pub use data::{
    AttemptReport, CodeReport, FailedGuard, FunctionReport, GraphReport, GuardReport, PhaseSeconds, PlaceReport,
    ReasonReport, ResumeReport, StackEntry, StatementReport, TimesReport, TrackerReport, TranslationReport,
    ValueReport,
};
pub use lines::{LineReport, LineStatus};
pub use store::{
    add, attach, clear, collect_details, has_details, json, keep_counts, misses, next_id, now, number_kept, truncate,
    CountsUses,
};
pub use trail::Trail;
