//! Reports of translations, as plain data for JSON, and the store that keeps them until they are asked for. A few
//! facts (function, seconds, sizes, reason) are always kept. All others, and the time that calls take, are collected
//! only while details are switched on. Otherwise reports cost nothing at a hit: cache entries count their uses
//! anyway, and are asked for the count when a report is written.

mod data;
mod lines;
mod source_record;
mod store;

pub use data::{
    AbandonedReport, AttemptReport, CodeReport, FailedGuard, FunctionReport, GraphReport, GuardReport, LaterReport,
    PhaseSeconds, PlaceReport, ReasonReport, ResumeReport, StackEntry, StatementReport, TimesReport, TrackerReport,
    TranslationReport, ValueReport,
};
pub use lines::{LineReport, LineStatus};
pub use source_record::SourceRecord;
pub use store::{
    add, attach, clear, collect_details, compiled_later, has_details, json, keep_counts, misses, next_id, now,
    number_kept, truncate, upcoming_id, CountsUses,
};
