//! The checker can fail: with each of these bugs it does.

use super::promises::Promise::{self, *};
use super::rules::{
    Dropping, RULES, Reading, Rules, again_announced, attach_pins_nothing, attach_reopens, given_up_is_done,
    gone, known_is_kept, over_without_its_message,
};

/// A bug, the rules with it, a scenario, and a promise that it breaks there.
pub(super) type Bug = (&'static str, Rules, &'static str, Promise);

const R: Rules = RULES;

pub(super) const BUGS: &[Bug] = &[
    (
        "the erasure deletes the message of any life",
        Rules { erasure_compares: false, ..R },
        "operator",
        EntryHasItsMessage,
    ),
    (
        "the collector deletes the message of any life",
        Rules { collector_compares: false, ..R },
        "operator",
        EntryHasItsMessage,
    ),
    ("the collector misses entries", Rules { keeps_none: gone, ..R }, "operator", NothingIsLeftOver),
    (
        "a message is not written over one of an earlier life",
        Rules { replaces_messages: false, ..R },
        "purge",
        StoresAreWritten,
    ),
    (
        "a message is not written over one that was dropped",
        Rules { replaces_messages: false, ..R },
        "operator",
        StoresAreWritten,
    ),
    ("an entry is written before its message", Rules { together: false, ..R }, "races", EntryHasItsMessage),
    (
        "what was given up is acknowledged",
        Rules { store: given_up_is_done, ..R },
        "races",
        AcknowledgedOnProof,
    ),
    ("any entry is answered as kept", Rules { store: known_is_kept, ..R }, "races", AcknowledgedOnProof),
    (
        "an attached message pins nothing",
        Rules { store: attach_pins_nothing, ..R },
        "operator",
        AcknowledgedOnProof,
    ),
    ("an attached message is due", Rules { store: attach_reopens, ..R }, "races", OneLiveClaim),
    ("a new row has the clock of its load", Rules { stamps: false, ..R }, "purge", TokensGrow),
    ("attaches to any row", Rules { attach_compares: false, ..R }, "races", FinalStatesStay),
    ("attaches to any row", Rules { attach_compares: false, ..R }, "races", StoreChangesNothingElse),
    (
        "a look reads the message before it takes the row",
        Rules { reading: Reading::Before, ..R },
        "operator",
        MessageOfThisLife,
    ),
    (
        "a look reads the message after its commit",
        Rules { reading: Reading::After, ..R },
        "operator",
        MessageOfThisLife,
    ),
    (
        "a repeat reads the message of any life",
        Rules { repeat_compares: false, ..R },
        "repeats-and-operator",
        MessageOfThisLife,
    ),
    (
        "a repeat is answered what was announced",
        Rules { again: again_announced, ..R },
        "repeats",
        AnnouncedIsNotRepeated,
    ),
    ("a look does not look back", Rules { looks_back: false, ..R }, "repeats", RepeatsAreReplayed),
    ("a look neither locks nor compares", NEITHER, "expiry", OneLiveClaim),
    ("a look neither locks nor compares", NEITHER, "races", FinalStatesStay),
    (
        "the purge does not look at the message",
        Rules { is_over: over_without_its_message, ..R },
        "purge",
        KeptUntilTheEnd,
    ),
    (
        "a Complete does not decide when the message is erased",
        Rules { complete_decides: false, ..R },
        "races",
        NothingIsLeftOver,
    ),
    (
        "a Redrive keeps the message whose fingerprint it drops",
        Rules { dropping: Dropping::Nothing, ..R },
        "operator",
        MessageOfThisLife,
    ),
    (
        "a Redrive deletes the message, and the entry keeps it",
        Rules { dropping: Dropping::Message, ..R },
        "operator",
        EntryHasItsMessage,
    ),
];

const NEITHER: Rules = Rules { locks: false, commit_compares: false, ..RULES };
