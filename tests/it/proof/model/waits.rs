//! Claims that wait for another verdict. A waiting Claim looks at any moment: what calls it is in the model of the room,
//! `ledger::waiting::line::model`. Each of its looks is a load like that of any Claim, and the last one is its answer.

use idempotency_ledger::domain::{Sight, Span, awaited, sight};

use super::one_key::OneKey;
use super::rules::Waking;
use super::world::{Action, Call, Delivery, Op, Said, World};

/// Longer than any back-off of the model.
const LONG: Span = Span::from_secs(60);

impl OneKey {
    pub(super) fn waiting_actions(
        &self,
        world: &World,
        call: &Call,
        (number, place): (usize, usize),
        actions: &mut Vec<Action>,
    ) {
        if call.rests {
            actions.push(Action::Over(number, place));
            if self.woken(world, call).is_some() {
                actions.push(Action::Wake(number, place));
            }
            return;
        }
        if call.op != Op::Claim || world.spent.waits == self.bounds.waits {
            return;
        }
        let looked = self.decide(world.row.as_deref(), &self.command(number, call), world.now);
        if awaited(&looked.answer, LONG).is_some() {
            actions.push(Action::Wait(number, place));
        }
    }

    pub(super) fn wait(&self, world: &mut World, number: usize, place: usize) {
        world.spent.waits += 1;
        world.deliveries[number].calls[place].rests = true;
    }

    /// The token with which a seeded bug answers a waiting Claim. `None` if it looks, as it must.
    fn woken(&self, world: &World, call: &Call) -> Option<i64> {
        let row = world.row.as_deref();
        match self.rules.waking {
            Waking::Looks => None,
            Waking::TakesTheKey => {
                row.filter(|_| sight(row, world.now) == Sight::Claimable).map(|row| row.token)
            }
            Waking::KeepsTheToken => call.woken_with,
        }
    }

    /// The delivery was granted the key by another call of the same claim.
    pub(super) fn wakes(&self, delivery: &mut Delivery, token: i64) {
        if self.rules.waking == Waking::KeepsTheToken {
            for call in delivery.calls.iter_mut().filter(|call| call.rests) {
                call.woken_with = Some(token);
            }
        }
    }

    pub(super) fn wake(&self, world: &mut World, number: usize, place: usize) {
        let call = world.deliveries[number].calls[place].clone();
        let Some(token) = self.woken(world, &call) else { return };
        let said = Said::Acquired(token);
        if let Some(row) = world.row.clone() {
            world.memory.followed(number, &call, &row, said);
        }
        self.answer(world, number, place, said);
    }
}
