//! Policies, replay runs and holds of the store that fails on demand.

use super::*;

#[async_trait]
impl PolicyBook for FaultySession {
    async fn policy_epoch(&mut self) -> Result<i64, StoreError> {
        if self.plan.no_policies.load(Ordering::SeqCst) {
            return Err(refused());
        }
        self.inner.policy_book().policy_epoch().await
    }

    async fn policies(&mut self) -> Result<Vec<PolicyVersion>, StoreError> {
        self.read()?;
        if self.plan.no_policies.load(Ordering::SeqCst) {
            return Err(refused());
        }
        let read = self.inner.policy_book().policies().await;
        let slow = self.plan.slow_reading.lock().unwrap().take();
        if let Some((has_read, going_on)) = slow {
            let _told = has_read.send(());
            let _going_on = going_on.await;
        }
        read
    }

    async fn policy_versions(
        &mut self,
        consumer: &str,
        before: i32,
        limit: usize,
    ) -> Result<Vec<PolicyVersion>, StoreError> {
        self.inner.policy_book().policy_versions(consumer, before, limit).await
    }

    async fn add_policy(
        &mut self,
        policy: &PolicyVersion,
        in_force: &EffectiveRetention,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        carried_out!(self, false, self.inner.policy_book().add_policy(policy, in_force, event))
    }

    async fn effective_retentions(&mut self) -> Result<(Reading, Vec<EffectiveRetention>), StoreError> {
        self.inner.policy_book().effective_retentions().await
    }

    async fn put_in_force(
        &mut self,
        all: &[EffectiveRetention],
        seen: Option<&[EffectiveRetention]>,
    ) -> Result<usize, StoreError> {
        let other = self.plan.overtakes.lock().unwrap().take();
        if let Some(other) = other {
            self.inner.policy_book().put_in_force(&[other], None).await?;
        }
        self.inner.policy_book().put_in_force(all, seen).await
    }

    async fn replicas_below(
        &mut self,
        format: i32,
        heard_since: StoreTime,
        limit: usize,
    ) -> Result<Vec<Replica>, StoreError> {
        self.inner.policy_book().replicas_below(format, heard_since, limit).await
    }
}

#[async_trait]
impl ReplayBook for FaultySession {
    async fn replay_runs(&mut self) -> Result<Vec<ReplayRun>, StoreError> {
        self.inner.replay_book().replay_runs().await
    }

    async fn replay_run(&mut self, consumer: &str, name: &str) -> Result<Option<ReplayRun>, StoreError> {
        self.inner.replay_book().replay_run(consumer, name).await
    }

    async fn replay_runs_of(
        &mut self,
        consumer: &str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<ReplayRun>, StoreError> {
        self.inner.replay_book().replay_runs_of(consumer, after, limit).await
    }

    async fn add_replay_run(
        &mut self,
        run: &ReplayRun,
        epoch: i64,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        carried_out!(self, false, self.inner.replay_book().add_replay_run(run, epoch, event))
    }

    async fn close_replay_run(
        &mut self,
        consumer: &str,
        name: &str,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        carried_out!(self, false, self.inner.replay_book().close_replay_run(consumer, name, event))
    }

    async fn sweep_replay_run(
        &mut self,
        consumer: &str,
        name: &str,
        at: StoreTime,
    ) -> Result<(), StoreError> {
        self.inner.replay_book().sweep_replay_run(consumer, name, at).await
    }

    async fn sweep_empty_runs(
        &mut self,
        ended_before: StoreTime,
        at: StoreTime,
    ) -> Result<usize, StoreError> {
        self.inner.replay_book().sweep_empty_runs(ended_before, at).await
    }
}

#[async_trait]
impl HoldBook for FaultySession {
    async fn holds(&mut self) -> Result<Vec<Hold>, StoreError> {
        self.inner.hold_book().holds().await
    }

    async fn add_hold(
        &mut self,
        hold: &Hold,
        epoch: i64,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        carried_out!(self, false, self.inner.hold_book().add_hold(hold, epoch, event))
    }

    async fn lift_hold(&mut self, prefix: &str, event: &AuditEvent) -> Result<WriteResult, StoreError> {
        carried_out!(self, false, self.inner.hold_book().lift_hold(prefix, event))
    }
}
