//! The end of the lanes: the clock moves beyond every lease and back-off, and another server hands out all that is due. Nothing
//! is stuck, and no message of these lanes is left for the next ones.

use std::sync::Arc;

use idempotency_ledger::domain::{Body, Span, State};

use super::rows::{due, logs};
use super::{Failed, Inbox, START};
use crate::harness::server::{Served, Setup, TestServer};
use crate::proof::lockstep::{Asked, Lane};
use crate::proof::spec::{Op, Order};
use crate::proof::wire;

/// Longer than any lease, grace and back-off of the policies.
const ALL_DUE: Span = Span::from_secs(120);
/// More than the lanes have.
const MAX: usize = 100;

impl Inbox {
    pub(in crate::proof::lockstep) async fn drain(
        &mut self,
        server: &TestServer,
        setup: &Setup,
        lanes: &mut [Lane],
    ) -> Result<i64, Failed> {
        server.advance(ALL_DUE).await;
        let now = server.at.now().micros();
        // Its cursors stand at the start.
        let other = Served::start(Arc::clone(&server.at.store), setup.clone()).await;
        for consumer in 0..self.passed.len() {
            let drained = self.drained(server, &other, lanes, consumer, now).await;
            drained.map_err(|problem| (format!("drain: {problem}"), logs(lanes, consumer)))?;
        }
        other.stop().await;
        self.handouts.clear();
        for lane in lanes.iter_mut() {
            let ended = lane.end(server, now).await;
            ended.map_err(|problem| (problem, lane.log.join("\n")))?;
        }
        Ok(now)
    }

    /// Hands out and completes all that is due of a consumer, unless the consumer is disabled.
    async fn drained(
        &mut self,
        server: &TestServer,
        other: &Served,
        lanes: &mut [Lane],
        consumer: usize,
        now: i64,
    ) -> Result<(), String> {
        let mut client = other.client.clone();
        self.again(&mut client, lanes, consumer, now).await?;
        loop {
            let taken = self.look(server, &mut client, lanes, (consumer, MAX), (now, START)).await?;
            if taken.refused {
                return Ok(());
            }
            if taken.places.is_empty() && taken.parked == 0 {
                break;
            }
            self.again(&mut client, lanes, consumer, now).await?;
            self.counts.drained += taken.places.len();
            for (lane, at) in taken.places {
                let lane = &mut lanes[lane];
                let token = lane.rows[at].as_ref().map_or(0, |row| row.token);
                let op = Op::Complete { token, result: Vec::new(), too_large: false };
                let answer = wire::call(&mut client, &lane.keys[at], &op, None).await;
                lane.check((at, token), &op, &answer, Asked::default(), now)?;
            }
        }
        let left = due(lanes, consumer, now);
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?} are due, and handed out to no call")) }
    }
}

impl Lane {
    /// Ends by an operator what is kept and not done: parked messages, and those of a disabled consumer.
    async fn end(&mut self, server: &TestServer, now: i64) -> Result<(), String> {
        for at in 0..self.keys.len() {
            let kept = self.rows[at].as_ref().is_some_and(|row| {
                let done = matches!(row.state, State::Completed | State::FailedTerminal);
                row.body == Some(Body::Kept) && !done
            });
            if kept {
                let order = Order::Complete { force: true, result: Vec::new() };
                self.carry_out(server, at, &order, now).await?;
            }
        }
        Ok(())
    }
}
