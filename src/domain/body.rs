//! What the ledger keeps of an entry's message: docs/contract.md, section 15.

/// What the ledger keeps of the message itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// The message is stored, to be handed out.
    Kept,
    /// It was stored.
    Erased,
}
