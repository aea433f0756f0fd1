//! Error types.
