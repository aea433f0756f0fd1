//! `super`.
