//! The result of a message, as a row keeps it: empty without a result, and of zero bytes where there was one that was too
//! large. No version has stored one of zero bytes otherwise, and every version reads it as an empty result.

/// The column of a result.
pub(super) fn result_column(result: &[u8], dropped: bool) -> Option<&[u8]> {
    (dropped || !result.is_empty()).then_some(if dropped { &[] } else { result })
}

/// Whether the column of a completed entry says that its result was too large.
pub(super) fn is_dropped(column: Option<&[u8]>) -> bool {
    column.is_some_and(<[u8]>::is_empty)
}
