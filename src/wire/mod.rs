//! Between messages and the core's types: the only module that knows both. Validation, conversion, refusals,
//! and cutting an answer to its bound.

mod carried;
pub(crate) mod convert;
pub(crate) mod digest;
pub(crate) mod entry;
pub(crate) mod errors;
pub(crate) mod fields;
pub(crate) mod fit;
pub(crate) mod inbox;
pub(crate) mod lookup;
pub(crate) mod policy;
pub(crate) mod reasons;
pub(crate) mod words;
