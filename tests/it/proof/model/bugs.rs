//! The checker can fail: with each of these bugs it does.

use super::mutants::*;
use super::promises::Promise::{self, *};
use super::rules::{Compare, Folding, RULES, Rules, Waking};
use super::scenarios::SCENARIOS;
use super::search::search;

/// A bug, the rules with it, a scenario, and a promise that it breaks there.
type Bug = (&'static str, Rules, &'static str, Promise);

const BUGS: &[Bug] = &[
    ("completes with any token", core(any_token_completes), "expiry", OnlyTheLatestTokenSettles),
    ("renews with any token", core(any_token_renews), "expiry", OnlyTheLatestTokenSettles),
    ("grants by owner alone", core(owner_alone), "calm", TokenOfOneClaim),
    ("grants by owner alone", core(owner_alone), "calm", EffectOnce),
    ("grants what is held", core(held_is_free), "calm", OneHolder),
    ("ignores the grace", core(no_grace), "expiry", OneHolder),
    ("keeps the token at a reclaim", core(token_kept), "expiry", TokenOfOneClaim),
    ("restarts the tokens after a redrive", core(token_restarts), "operator", TokensGrow),
    ("restarts the tokens after a redrive", core(token_restarts), "operator", Fence),
    ("reclaims what must be parked", core(always_reclaims), "park-if-started", AnnouncedEffectOnce),
    ("grants what is completed", core(completed_is_new), "calm", FinalStatesStay),
    ("grants what is completed", core(completed_is_new), "calm", EffectOnce),
    ("replays a claim that is completed", core(completed_is_held), "loss", NoGrantWhenDone),
    ("says completed while it is held", core(held_is_completed), "calm", CompletedIsCommitted),
    ("completes what failed for good", core(terminal_is_open), "contradiction", FinalStatesStay),
    ("reopens what is completed", core(release_reopens), "contradiction", FinalStatesStay),
    ("refuses the repeat of a settlement", core(repeat_refused), "loss", RepeatsAreReplayed),
    ("gives an attempt back twice", core(gives_back_twice), "loss", RepeatsAreReplayed),
    ("writes with a refusal", core(writes_with_refusal), "expiry", RefusedChangesNothing),
    ("forgets the unknown effect", core(forgets_doubt), "expiry", DoubtIsKept),
    ("forgets the grace at a look", core(no_grace_at_a_look), "calm", GuessesAreDecisions),
    ("writes over any row", Rules { write: Compare::Presence, ..RULES }, "calm", TokenOfOneClaim),
    ("writes over any row", Rules { write: Compare::Presence, ..RULES }, "contradiction", FinalStatesStay),
    ("begins at version 1 again", Rules { fresh_versions: false, ..RULES }, "purge", TokensGrow),
    ("begins at version 1 again", Rules { fresh_versions: false, ..RULES }, "purge", OneHolder),
    ("begins at version 1 again", Rules { fresh_versions: false, ..RULES }, "two-purges", Retained),
    ("purges any row", Rules { purge: Compare::Presence, ..RULES }, "purge", Retained),
    ("inserts an old clock", Rules { stamps: false, ..RULES }, "purge", TokensGrow),
    (
        "decides behind a change on what was read",
        folding(Folding::OnWhatWasRead),
        "folds-and-expiry",
        TokensGrow,
    ),
    ("counts each change of one write", folding(Folding::TwoSteps), "folds", OneStep),
    ("answers though the write is lost", folding(Folding::AnswersTheLost), "folds", TokenOfOneClaim),
    ("grants a waiter without a round", waking(Waking::TakesTheKey), "waits", TokenOfOneClaim),
    ("wakes a waiter with a stale token", waking(Waking::KeepsTheToken), "waits", NoGrantWhenDone),
    ("marks an attempt at each repeat", core(marks_again), "loss-and-marks", MarksAlone),
    ("forgets the first report", core(forgets_the_first_report), "expiry", DoublesAreSeen),
    (
        "refuses what it applied",
        Rules { says_unknown: false, ..RULES },
        "loss-and-expiry",
        RefusedChangesNothing,
    ),
];

const fn waking(waking: Waking) -> Rules {
    Rules { waking, ..RULES }
}

const fn folding(folding: Folding) -> Rules {
    Rules { folding, ..RULES }
}

const fn core(decide: Core) -> Rules {
    Rules { decide, ..RULES }
}

#[test]
fn each_seeded_bug_breaks_a_promise() {
    for (bug, rules, scenario, promise) in BUGS {
        let scenario = SCENARIOS.iter().find(|known| known.name == *scenario).unwrap();
        let found = search(scenario, *rules, 1, u64::MAX, Some(*promise), |_| {});
        assert!(found.broken.is_some(), "{bug}: {promise:?} holds in {} states", found.states);
    }
}
