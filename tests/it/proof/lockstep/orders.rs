//! What operators do to a key of a lane, and what its entry says to them.

use std::time::Duration;

use idempotency_ledger::proto::{self, admin_service_client::AdminServiceClient};

use super::{KEYS, Lane, name};
use crate::harness::server::TestServer;
use crate::proof::spec::{self, Order, World};
use crate::proof::{by_core, reconciled, reported, steps, wire};

/// What was handed out so lately is not deleted.
const YOUNG: i64 = 60_000_000;

type Admin = AdminServiceClient<tonic::transport::Channel>;

impl Lane {
    /// What an entry says to operators of its effect, and of the changes that it allows.
    async fn says(&self, admin: &mut Admin, at: usize, now: i64) -> Result<(), String> {
        let found = admin
            .get_entry(proto::GetEntryRequest { key: Some(self.keys[at].clone()), ..Default::default() })
            .await;
        let (Ok(found), Some(row)) = (found, &self.rows[at]) else { return Ok(()) };
        let entry = found.into_inner().entry.unwrap();
        let says = reported::says(&entry);
        let world =
            World { policy: &self.policies[at], now, offset: 0, behind: false, ahead: false, choice: 0 };
        let mut expected = (spec::doubtful(row), spec::allowed(row, &world));
        // The core wants a minute between, and of the version too; the contract asks for less.
        if entry.version.max(row.token) + YOUNG >= now {
            expected.1.retain(|(change, _)| *change != "DELETE");
        }
        if says == expected {
            return Ok(());
        }
        Err(format!("the entry says {says:?}, by the spec {expected:?}: {row:?}\n{}", self.log.join("\n")))
    }

    pub(super) async fn order(&mut self, server: &TestServer, now: i64) -> Result<u64, String> {
        let order = steps::order(&mut self.random);
        let at = self.random.below(KEYS as u64) as usize;
        self.carry_out(server, at, &order, now).await
    }

    /// Sent twice: the repeat changes nothing.
    pub(super) async fn carry_out(
        &mut self,
        server: &TestServer,
        at: usize,
        order: &Order,
        now: i64,
    ) -> Result<u64, String> {
        let request_id = format!("{:x}", self.random.next());
        let (key, mut admin) = (self.keys[at].clone(), server.admin.clone());
        self.until_erased(server, at, now).await?;
        self.says(&mut admin, at, now).await?;
        let (version, done) = wire::order(&mut admin, &key, order, &request_id).await;
        let world =
            World { policy: &self.policies[at], now, offset: 0, behind: false, ahead: false, choice: 0 };
        let expected = spec::order(self.rows[at].as_ref(), order, &world);
        let token = self.rows[at].as_ref().map_or(0, |row| row.token);
        self.log.push(format!("at {now} key {at} {order:?}\n  said: {done:?}\n  spec: {expected:?}"));
        match (&done, expected) {
            (Err(reason), Err(expected)) if reason == expected => {}
            // The core wants a minute between, and of the version too; the contract asks for less.
            (Err(reason), Ok(None)) if reason == "TOO_RECENT" && version.max(token) + YOUNG >= now => {}
            (Ok(Some(_)), Ok(after @ Some(_))) | (Ok(None), Ok(after @ None)) => self.becomes(at, after),
            (_, expected) => return Err(format!("{order:?} made {done:?}, by the spec {expected:?}")),
        }
        if done.is_ok() {
            let again = wire::order_of(&mut admin, &key, order, &request_id, version).await;
            let again = again.map(|entry| entry.map(|entry| entry.version));
            // The message of what this change has completed may be erased by then: one more version.
            let erases = self.rows[at].as_ref().is_some_and(|row| spec::erased(row, now).is_some());
            let erased = done.as_ref().ok().and_then(|version| version.map(|version| version + 1));
            if again != done && !(erases && again == Ok(erased)) {
                return Err(format!("{order:?} made {done:?}, its repeat {again:?}"));
            }
        }
        Ok(1)
    }

    /// Waits until the message of a row that is due for it is erased: later changes then find one state.
    async fn until_erased(&mut self, server: &TestServer, at: usize, now: i64) -> Result<(), String> {
        let Some(after) = self.rows[at].as_ref().and_then(|row| spec::erased(row, now)) else {
            return Ok(());
        };
        for _ in 0..1_000 {
            let stored = server.entry(&name(&self.keys[at])).await.as_ref().map(by_core::row);
            if stored.as_ref() == Some(&after) {
                self.rows[at] = stored;
                self.log.push(format!("at {now} key {at} erased"));
                return Ok(());
            }
            if stored != self.rows[at] {
                return Err(format!(
                    "to be erased: the store holds {stored:?}, the spec {:?}",
                    self.rows[at]
                ));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Err(format!("the message of {:?} is not erased", self.rows[at]))
    }

    /// A dry run, the row itself, and the row again: the dry run and the repeat change nothing.
    pub(super) async fn reconcile(&mut self, server: &TestServer, now: i64) -> Result<u64, String> {
        let at = self.random.below(KEYS as u64) as usize;
        self.until_erased(server, at, now).await?;
        let effect = reconciled::effect(&mut self.random, &self.seen[at], now);
        let (key, mut admin) = (self.keys[at].clone(), server.admin.clone());
        let world =
            World { policy: &self.policies[at], now, offset: 0, behind: false, ahead: false, choice: 0 };
        let (expected, after) =
            reconciled::reconcile(self.rows[at].as_ref(), &effect, &self.seen[at], &world);
        self.seen[at].note(&effect, expected);
        let (again, _) = reconciled::reconcile(after.as_ref(), &effect, &self.seen[at], &world);
        let mut said = Vec::new();
        for dry_run in [true, false, false] {
            said.push(wire::reconcile(&mut admin, &key, &effect, dry_run).await);
        }
        self.log.push(format!("at {now} key {at} {effect:?}\n  said: {said:?}\n  spec: {expected} {again}"));
        if said != [expected, expected, again] {
            return Err(format!(
                "{effect:?} made {said:?}, by the spec {expected}, and {again} of its repeat"
            ));
        }
        self.becomes(at, after);
        Ok(3)
    }
}
