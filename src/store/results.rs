//! The stored form of a message's result: null without one. A value of zero bytes is a mark on how the claim was closed: after
//! Complete, the result was too large; after Release, the fingerprint is unpinned. No version has stored zero bytes otherwise. A
//! version that does not know the mark reads an empty result, and removes the mark with its next write.

/// The column of a result, or of the mark.
pub(super) fn result_column(result: &[u8], marked: bool) -> Option<&[u8]> {
    (marked || !result.is_empty()).then_some(if marked { &[] } else { result })
}

/// Whether the column is the mark.
pub(super) fn is_marked(column: Option<&[u8]>) -> bool {
    column.is_some_and(<[u8]>::is_empty)
}
