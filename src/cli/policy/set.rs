//! `policy set` and `policy delete`: one consumer at a time.

use clap::Args;
use prost_types::FieldMask;

use super::{diff, show, warned};
use crate::cli::client::{Admin, Client};
use crate::cli::confirm::confirm;
use crate::cli::consumer;
use crate::cli::json::marked;
use crate::cli::problem::{Exit, Problem};
use crate::cli::retry;
use crate::cli::retry::ConfirmedAnswer;
use crate::cli::text::{clean, quoted};
use crate::policy_args::PolicyArgs;
use crate::proto;

pub(super) const INBOX: &str = "note: the first policy with `inbox` raises the level of the store: servers of an older version are refused from \
                     then on";

/// The arguments of each change of one policy.
#[derive(Args)]
#[group(skip)]
struct PolicyChangeArgs {
    /// Why, for the audit and the history
    #[arg(long)]
    reason: String,
    /// The version that you looked at, as `policy get` shows it [default: the present one]
    #[arg(long, value_name = "N")]
    expected_version: Option<i32>,
    /// Your own id of the request; a repeat with it and the same --expected-version changes nothing more
    /// [default: a random one]
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
}

/// `policy set`.
#[derive(Args)]
pub(in crate::cli) struct Set {
    /// The consumer
    consumer: String,
    #[command(flatten)]
    fields: PolicyArgs,
    #[command(flatten)]
    args: PolicyChangeArgs,
    /// Change nothing; show the difference
    #[arg(long)]
    dry_run: bool,
}

impl Set {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        if self.fields.paths().is_empty() {
            return Err(Problem::usage("name at least one field to set, such as --lease 2m"));
        }
        let mut admin = client.connect().await?;
        let found = show::fetch(client, &mut admin, &self.consumer).await?;
        let version = self.args.expected_version.unwrap_or(found.version);
        let request_id = self.args.request_id.unwrap_or_else(retry::id);
        let request =
            PolicyRequest { consumer: &self.consumer, version, request_id, reason: &self.args.reason };
        let output = client.output;
        let unknown = found.source() == proto::PolicySource::Default
            && consumer::is_unknown(client, &mut admin, &self.consumer).await;
        let validated = request.validate(client, &mut admin, &self.fields).await;
        // Where the server would refuse the policy, the change itself reports why.
        let would_be = validated.as_ref().ok().and_then(|answer| answer.policy.clone()?.policy);
        if let Some(policy) = would_be {
            if policy.inbox() && !found.policy.as_ref().is_some_and(proto::Policy::inbox) {
                output.note(INBOX);
            }
            warned::warn(client, &mut admin, &self.consumer, &policy).await;
        }
        let (answer, last) = if self.dry_run {
            let answer = validated.map_err(|status| {
                let problem = Problem::of(&status);
                Problem { text: format!("the server would refuse it: {}", problem.text), ..problem }
            })?;
            (answer, "dry run: nothing was changed".to_owned())
        } else {
            let ConfirmedAnswer { answer, repeated } = request.set(client, &admin, &self.fields).await?;
            let last = request.done(answer.policy.as_ref(), answer.replayed && !repeated);
            (answer, last)
        };
        if !answer.replayed {
            output.note(&clean(&self.consumer));
            for line in diff::lines(output, &answer.changes) {
                output.note(&line);
            }
            if answer.changes.is_empty() {
                output.note("  no field changes");
            }
        }
        if unknown {
            output.note(consumer::UNKNOWN);
        }
        if output.json() {
            output.line(&marked("SetPolicyResponse", &answer, self.dry_run)?)?;
        } else {
            output.line(&last)?;
        }
        Ok(Exit::Done)
    }
}

/// `policy delete`.
#[derive(Args)]
pub(in crate::cli) struct Delete {
    /// The consumer
    consumer: String,
    #[command(flatten)]
    args: PolicyChangeArgs,
    /// Skip the confirmation prompt
    #[arg(long, short)]
    yes: bool,
}

impl Delete {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let mut admin = client.connect().await?;
        let version = match self.args.expected_version {
            Some(version) => version,
            None => show::fetch(client, &mut admin, &self.consumer).await?.version,
        };
        let question = format!("Take the policy of {} back (version {version})?", clean(&self.consumer));
        confirm(client, &question, self.yes)?;
        if version == 0 {
            let text = "POLICY_NOT_FOUND: no policy was ever set for this consumer";
            return Err(Problem::new(Exit::NotFound, text).next("see where it comes from with `policy get`"));
        }
        let request_id = self.args.request_id.unwrap_or_else(retry::id);
        let request =
            PolicyRequest { consumer: &self.consumer, version, request_id, reason: &self.args.reason };
        let ConfirmedAnswer { answer, repeated } = request.delete(client, &admin).await?;
        if client.output.json() {
            client.output.message("DeletePolicyResponse", &answer)?;
        } else {
            client.output.line(&request.done(answer.policy.as_ref(), answer.replayed && !repeated))?;
        }
        Ok(Exit::Done)
    }
}

/// A change of one policy.
pub(super) struct PolicyRequest<'w> {
    pub(super) consumer: &'w str,
    pub(super) version: i32,
    pub(super) request_id: String,
    pub(super) reason: &'w str,
}

impl PolicyRequest<'_> {
    pub(super) async fn set(
        &self,
        client: &Client,
        admin: &Admin,
        fields: &PolicyArgs,
    ) -> Result<ConfirmedAnswer<proto::SetPolicyResponse>, Problem> {
        let request = proto::SetPolicyRequest {
            request_id: self.request_id.clone(),
            reason: self.reason.to_owned(),
            ..self.request(fields)
        };
        let call = || {
            let (mut admin, request) = (admin.clone(), client.request(request.clone()));
            async move { admin.set_policy(request).await }
        };
        retry::until_known(call).await.map_err(|status| self.problem(&status))
    }

    /// Asks the server for the policy that the request would make, or for its refusal. Nothing is changed: a
    /// server that does not know `validate_only` refuses a request without an id.
    pub(super) async fn validate(
        &self,
        client: &Client,
        admin: &mut Admin,
        fields: &PolicyArgs,
    ) -> Result<proto::SetPolicyResponse, tonic::Status> {
        let request = proto::SetPolicyRequest { validate_only: true, ..self.request(fields) };
        admin.set_policy(client.request(request)).await.map(tonic::Response::into_inner)
    }

    fn request(&self, fields: &PolicyArgs) -> proto::SetPolicyRequest {
        proto::SetPolicyRequest {
            consumer: self.consumer.to_owned(),
            expected_version: self.version,
            policy: Some(fields.message()),
            update_mask: Some(FieldMask { paths: fields.paths() }),
            ..proto::SetPolicyRequest::default()
        }
    }

    pub(super) async fn delete(
        &self,
        client: &Client,
        admin: &Admin,
    ) -> Result<ConfirmedAnswer<proto::DeletePolicyResponse>, Problem> {
        let request = proto::DeletePolicyRequest {
            consumer: self.consumer.to_owned(),
            request_id: self.request_id.clone(),
            expected_version: self.version,
            reason: self.reason.to_owned(),
        };
        let call = || {
            let (mut admin, request) = (admin.clone(), client.request(request.clone()));
            async move { admin.delete_policy(request).await }
        };
        retry::until_known(call).await.map_err(|status| self.problem(&status))
    }

    fn problem(&self, status: &tonic::Status) -> Problem {
        let problem = Problem::of(status);
        if !retry::unknown(status) {
            return problem;
        }
        problem.next(format!(
            "it may have been done: repeat the same command with --request-id {} --expected-version {}",
            quoted(&self.request_id),
            self.version
        ))
    }

    pub(super) fn done(&self, now: Option<&proto::ConsumerPolicy>, replayed: bool) -> String {
        let now = now.cloned().unwrap_or_default();
        let from = crate::cli::enums::source(now.source);
        let repeat = if replayed { " (it had been done before; this repeat changed nothing)" } else { "" };
        format!("{}: version {} in force, from {from}{repeat}", clean(self.consumer), now.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::problem::tests::status;

    #[test]
    fn change_with_an_unknown_outcome_is_repeated_with_its_id_and_version() {
        let request = PolicyRequest { consumer: "c", version: 3, request_id: "p 1".into(), reason: "r" };
        let repeat =
            "it may have been done: repeat the same command with --request-id 'p 1' --expected-version 3";
        for (status, next) in [
            (tonic::Status::unavailable(""), repeat),
            (status(proto::ErrorReason::OutcomeUnknown, &[]), repeat),
            (
                status(proto::ErrorReason::VersionMismatch, &[]),
                "it was changed: look again with `get`, then decide again",
            ),
        ] {
            assert_eq!(request.problem(&status).next.as_deref(), Some(next));
        }
    }
}
