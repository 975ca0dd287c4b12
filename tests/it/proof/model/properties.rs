//! What the checker looks for.

use stateright::Property;

use super::events::Event;
use super::one_key::OneKey;
use super::promises::Promise;
use super::world::World;

/// What always holds.
pub(super) fn promised() -> Vec<(Promise, Property<OneKey>)> {
    macro_rules! always {
        ($($name:literal: $promise:ident,)*) => {
            vec![$((
                Promise::$promise,
                Property::always($name, |_: &OneKey, world: &World| world.memory.keeps(Promise::$promise)),
            )),*]
        };
    }
    always! {
        "tokens strictly grow": TokensGrow,
        "a token belongs to one claim": TokenOfOneClaim,
        "nothing is granted once it is done": NoGrantWhenDone,
        "final states stay": FinalStatesStay,
        "completed means a commit": CompletedIsCommitted,
        "only the latest token settles": OnlyTheLatestTokenSettles,
        "one holder at a time": OneHolder,
        "a fence keeps the order of grants": Fence,
        "one effect where nothing expires": EffectOnce,
        "one effect where each is announced": AnnouncedEffectOnce,
        "what is refused changes nothing": RefusedChangesNothing,
        "repeats of a settlement are replayed": RepeatsAreReplayed,
        "an unknown effect stays unknown": DoubtIsKept,
        "guesses are decisions": GuessesAreDecisions,
        "retention is kept": Retained,
        "a write is one step of the version": OneStep,
        "a mark is on the attempt that reports, once, and changes nothing else": MarksAlone,
        "a second report of a message is seen": DoublesAreSeen,
    }
}

/// What must come to pass, where a scenario says so.
pub(super) fn witnessed() -> Vec<(Event, Property<OneKey>)> {
    macro_rules! sometimes {
        ($($name:literal: $event:ident,)*) => {
            vec![$((
                Event::$event,
                Property::sometimes($name, |model: &OneKey, _| model.saw(Event::$event)),
            )),*]
        };
    }
    sometimes! {
        "an expired claim is reclaimed": Reclaim,
        "a completion comes late": LateComplete,
        "a claim is replayed": ReplayedClaim,
        "a settlement is replayed": ReplayedSettlement,
        "a claim is re-armed": Rearmed,
        "a lease is revived": Revived,
        "a lease is lost": LeaseLost,
        "an attempt is not due": Backoff,
        "an expired claim is parked": Parked,
        "no attempt is left": Exhausted,
        "a race is lost": LostRace,
        "an outcome is unknown": UnknownOutcome,
        "a fence holds": Fenced,
        "an operator redrives": Redriven,
        "an operator parks": ParkedByHand,
        "an operator deletes": Deleted,
        "a row is purged": Purged,
        "a purged key is granted again": GrantAfterPurge,
        "two calls are written together": Folded,
        "a write of two calls is lost": FoldLost,
        "the outcome of two calls is unknown": FoldUnknown,
        "a superseded Complete leaves a mark": Marked,
        "two claims report the message done": Doubled,
        "a waiting claim is granted the key": Waited,
        "a waiting claim is answered the completion": WaitedForCompletion,
    }
}
