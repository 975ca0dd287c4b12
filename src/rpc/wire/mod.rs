//! Between messages and the core's types: the only place that knows both. Fields, conversions, refusals, and what
//! of an answer fits.

mod carried;
pub(super) mod convert;
pub(super) mod digest;
pub(super) mod entry;
pub(super) mod errors;
pub(super) mod fields;
pub(super) mod fit;
pub(super) mod lookup;
pub(super) mod policy;
pub(super) mod reasons;
pub(super) mod words;
