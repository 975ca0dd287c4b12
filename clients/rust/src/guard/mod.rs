//! An effect that is rows in your own SQL database, once: a guard row and the effect commit together, or not at all.
//!
//! [`once`] is called inside of a handler, with a connection of sqlx. The table `effect_guard` is made by [`POSTGRES_TABLE`],
//! [`MYSQL_TABLE`] or [`SQLITE_TABLE`], in the database that the effects are in. docs/effects.md of the ledger has the
//! reasons, and what a guard does not promise: nothing outside of that database, and nothing after the guard row was deleted.
//!
//! ```no_run
//! # #[cfg(feature = "guard-sqlite")]
//! # async fn paid(pool: sqlx::SqlitePool, ledger: idempotency_ledger_client::Ledger) -> Result<(), Box<dyn std::error::Error>> {
//! use idempotency_ledger_client::{Key, Steer, guard};
//!
//! let outcome = ledger.process(Key::of("shop", "1"), async move |claim| {
//!     // Without a connection the effect has not begun. The error itself, by `?`, would park the message.
//!     let mut connection = pool.acquire().await.map_err(|_| Steer::retry())?;
//!     guard::once(&mut *connection, &claim, async |database| {
//!         sqlx::query("INSERT INTO payments (id, amount) VALUES (1, 42)").execute(database).await?;
//!         Ok("receipt")
//!     })
//!     .await
//! });
//! outcome.await?;
//! # Ok(())
//! # }
//! ```

mod dialects;

use bytes::Bytes;
use sqlx::Transaction;
use tokio::time::Instant;

use crate::{Claim, EffectResult, Steer};
use dialects::Row;
pub use dialects::{GuardConnection, LOCK_WAIT, SILENCE};

/// The table for `PostgreSQL`, 11 or newer, and the statement that deletes old rows.
pub const POSTGRES_TABLE: &str = include_str!("postgres.sql");
/// The table for `MySQL` 8.0.13 and `MariaDB` 10.2 or newer, and the statement that deletes old rows.
pub const MYSQL_TABLE: &str = include_str!("mysql.sql");
/// The table for `SQLite` 3.24 or newer, and the statement that deletes old rows.
pub const SQLITE_TABLE: &str = include_str!("sqlite.sql");

/// Has the effect unless an attempt has had it before; returns the result of the attempt that had it.
///
/// `connection`: one for the guard alone, without an open transaction: its waits are bounded by settings of the session. One
/// whose statement has failed is best not used again. `effect` writes by nothing but the connection that it is given,
/// neither begins nor ends a transaction, catches no error of the database, and returns the result.
///
/// # Errors
/// [`Steer::Doubtful`] where it is unknown here whether the effect happened, after an error of the database for example:
/// nothing is settled, and the next attempt learns it from the guard. The same where the guard row is that of another
/// message, or has no result: something else writes the table. What the effect returns as an error is returned after a
/// rollback, so that it has certainly not happened: steering errors as they are, any other one as [`Steer::Retry`]. An error
/// that became [`Steer::Retry`] or [`Steer::Doubtful`] is logged by its type, or by its code in the database.
pub async fn once<C, R>(
    connection: &mut C,
    claim: &Claim,
    effect: impl AsyncFnOnce(&mut C) -> Result<R, Steer>,
) -> Result<EffectResult, Steer>
where
    C: GuardConnection,
    R: Into<EffectResult>,
{
    attempted(connection, claim, effect).await.map_err(|fault| match fault {
        Fault::Effect(steer) => steer,
        Fault::Guard(reason) => {
            drop(claim.hold.guard_fault.set(reason.clone()));
            Steer::Doubtful { reason: Some(reason) }
        }
        Fault::RolledBack(name) => {
            drop(claim.hold.guard_fault.set(format!("the effect ended with {name}")));
            Steer::Retry { reason: Some(name), after: None }
        }
    })
}

/// Why there is no result.
enum Fault {
    /// What the effect returned to steer.
    Effect(Steer),
    /// The effect ended with an error of this type that does not steer: the handler has not chosen the retry, so that
    /// it is logged with the outcome.
    RolledBack(String),
    /// The guard could not decide. It is logged with the outcome: the message is delivered again and again while no
    /// person mends the cause.
    Guard(String),
}

async fn attempted<C, R>(
    connection: &mut C,
    claim: &Claim,
    effect: impl AsyncFnOnce(&mut C) -> Result<R, Steer>,
) -> Result<EffectResult, Fault>
where
    C: GuardConnection,
    R: Into<EffectResult>,
{
    if connection.is_in_transaction() {
        return Err(in_doubt(
            "the connection has an open transaction: the guard row must be its first statement",
        ));
    }
    connection.bound_waits().await.map_err(undecided)?;
    // Until then an older attempt may begin, and its guard row is kept; later it may have been deleted.
    if claim.hold.hold_until().is_some_and(|end| Instant::now() >= end) {
        return Err(in_doubt("the hold of the claim is over"));
    }
    let mut transaction = connection.begun().await.map_err(undecided)?;
    match decided(&mut transaction, claim, effect).await {
        Ok(Decided::Now(result)) => {
            // An error leaves it unknown whether it is committed.
            transaction.commit().await.map_err(undecided)?;
            Ok(result)
        }
        other => {
            // A connection that cannot roll back is lost, and its server rolls back.
            drop(transaction.rollback().await);
            match other? {
                Decided::Now(result) | Decided::Before(result) => Ok(result),
            }
        }
    }
}

/// Which attempt had the effect.
enum Decided {
    Now(EffectResult),
    Before(EffectResult),
}

async fn decided<C, R>(
    transaction: &mut Transaction<'_, C::Database>,
    claim: &Claim,
    effect: impl AsyncFnOnce(&mut C) -> Result<R, Steer>,
) -> Result<Decided, Fault>
where
    C: GuardConnection,
    R: Into<EffectResult>,
{
    let connection: &mut C = transaction;
    let (hold, idempotency_key) = (&claim.hold, claim.idempotency_key());
    let row = Row { key: &hold.key, idempotency_key, token: claim.token() };
    // The first statement. While another transaction has the row and did not commit, it waits: not for ever.
    if !connection.insert_new(&row).await.map_err(not_inserted)? {
        return before(connection, &row).await.map(Decided::Before);
    }
    let result: EffectResult = match effect(connection).await {
        Ok(result) => result.into(),
        Err(Steer::Unexpected(error)) => return Err(unexpected(&error)),
        Err(steer) => return Err(Fault::Effect(steer)),
    };
    if connection.keep(&row, &result.bytes).await.map_err(undecided)? != 1 {
        return Err(in_doubt("the guard row is gone: the effect has ended the guard's transaction"));
    }
    Ok(Decided::Now(result))
}

/// The result of the attempt that had the effect, if the guard row is that of this very message.
async fn before<C: GuardConnection>(connection: &mut C, row: &Row<'_>) -> Result<EffectResult, Fault> {
    let Some((names, result)) = connection.read(row).await.map_err(undecided)? else {
        return Err(in_doubt("the guard row was deleted this very moment"));
    };
    if names != [row.key.consumer.as_bytes(), row.key.source.as_bytes(), row.key.id.as_bytes()] {
        return Err(in_doubt("the guard row is that of another message"));
    }
    let result =
        result.ok_or_else(|| in_doubt("the guard row has no result: it was committed without its effect"))?;
    Ok(Bytes::from(result).into())
}

fn in_doubt(reason: &str) -> Fault {
    Fault::Guard(reason.to_owned())
}

/// A wait that was too long, a deadlock, a lost connection, a commit without an answer: the next attempt finds out.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn undecided(error: sqlx::Error) -> Fault {
    about(&error)
}

/// The first statement, which names no table but the guard's.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn not_inserted(error: sqlx::Error) -> Fault {
    let found = error.as_database_error();
    let missing = found.is_some_and(|known| match known.code().as_deref() {
        Some("42P01" | "42S02") => true,
        // SQLite has one code for all errors of a statement.
        Some("1") => known.message().contains("no such table: effect_guard"),
        _ => false,
    });
    if missing {
        return in_doubt(
            "the database has no table effect_guard; run POSTGRES_TABLE, MYSQL_TABLE or SQLITE_TABLE of the guard in it",
        );
    }
    about(&error)
}

fn about(error: &sqlx::Error) -> Fault {
    let code = error.as_database_error().and_then(|known| known.code().map(|code| format!("error {code}")));
    in_doubt(&format!("{} of the database", code.as_deref().unwrap_or("an error")))
}

/// An error of the effect that does not steer.
fn unexpected(error: &crate::Unexpected) -> Fault {
    match error.error.downcast_ref::<sqlx::Error>() {
        Some(of_database) => about(of_database),
        None => Fault::RolledBack(error.name.clone()),
    }
}
