//! What the deliveries do: honest, but slow, and as unlucky as the bounds allow.

use super::events::Event;
use super::one_key::OneKey;
use super::world::{Action, Call, Delivery, Life, Op, Said, World};
use idempotency_ledger::domain::Reason;

impl OneKey {
    /// What a delivery may do now.
    pub(super) fn client_actions(&self, world: &World, number: usize, actions: &mut Vec<Action>) {
        let (delivery, bounds) = (&world.deliveries[number], &self.bounds);
        match delivery.life {
            // The first two differ in nothing: one order of them stands for both.
            Life::Ahead => {
                if number != 1 || world.deliveries[0].life != Life::Ahead {
                    actions.push(Action::Ask(number, Op::Claim));
                }
            }
            Life::Awaits(op) => {
                if world.spent.repeats < bounds.repeats {
                    actions.push(Action::Repeat(number));
                }
                let optional = matches!(op, Op::Renew | Op::Fail(_) | Op::Release);
                if optional && world.spent.contradictions < bounds.contradictions {
                    actions.push(Action::GoOn(number));
                }
            }
            Life::Holds => {
                if !delivery.effect && (delivery.started || !self.announces()) {
                    actions.push(Action::Effect(number));
                }
                if delivery.asked < bounds.calls {
                    let asks = |op| Action::Ask(number, op);
                    if delivery.effect {
                        actions.push(asks(Op::Complete));
                    } else {
                        actions.extend(bounds.fails.iter().map(|kind| asks(Op::Fail(*kind))));
                        actions.push(asks(Op::Release));
                    }
                    if !delivery.started {
                        actions.push(asks(Op::Start));
                    }
                    if bounds.renewals {
                        actions.push(asks(Op::Renew));
                    }
                }
            }
            Life::Gone => {}
        }
    }

    pub(super) fn ask(&self, world: &mut World, number: usize, op: Op) {
        let delivery = &mut world.deliveries[number];
        delivery.asked += 1;
        delivery.send(op);
    }

    pub(super) fn repeat(&self, world: &mut World, number: usize) {
        let delivery = &mut world.deliveries[number];
        world.spent.repeats += 1;
        delivery.give_up();
        if let Life::Awaits(op) = delivery.life {
            delivery.send(op);
        }
    }

    /// A holder's heartbeat, or its watchdog that wants to let go, does not hold up its work.
    pub(super) fn go_on(&self, world: &mut World, number: usize) {
        let delivery = &mut world.deliveries[number];
        world.spent.contradictions += 1;
        delivery.give_up();
        if delivery.life != Life::Awaits(Op::Renew) {
            world.memory.contradicted();
        }
        delivery.life = Life::Holds;
    }

    pub(super) fn effect(&self, world: &mut World, number: usize) {
        let delivery = &mut world.deliveries[number];
        delivery.effect = true;
        let accepted = world.memory.effect((delivery.token, delivery.grant), self.announces());
        if !accepted {
            self.note(Event::Fenced);
            delivery.leave();
        }
    }

    /// A delivery gets the answer that it waited for.
    pub(super) fn receive(&self, world: &mut World, number: usize, call: &Call, said: Said) {
        let delivery = &mut world.deliveries[number];
        match (said, call.op) {
            (Said::Acquired(token), _) => {
                delivery.life = Life::Holds;
                delivery.token = token;
                delivery.grant = world.memory.grant_of(number);
            }
            (Said::Settled, Op::Start) => {
                delivery.life = Life::Holds;
                delivery.started = true;
            }
            (Said::Settled, Op::Renew)
            | (Said::Refused(Reason::LeaseLimitReached | Reason::EffectStarted), _) => {
                delivery.life = Life::Holds;
            }
            // Told as OUTCOME_UNKNOWN: as good as no answer.
            (Said::Refused(_), _) if call.unknown => {}
            (Said::Settled | Said::Completed | Said::NotNow | Said::Refused(_), _) => delivery.leave(),
        }
    }
}

impl Delivery {
    fn send(&mut self, op: Op) {
        self.life = Life::Awaits(op);
        self.calls.push(Call {
            op,
            token: self.token,
            awaited: true,
            unknown: false,
            decided: None,
            behind: None,
            rests: false,
            woken_with: None,
        });
    }

    fn give_up(&mut self) {
        for call in &mut self.calls {
            call.awaited = false;
        }
    }

    /// Nothing that it knew matters any more; its calls may still arrive.
    fn leave(&mut self) {
        self.give_up();
        *self = Delivery { life: Life::Gone, calls: std::mem::take(&mut self.calls), ..Delivery::default() };
    }
}
