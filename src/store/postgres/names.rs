//! Consumers and sources as numbers. What a session has learnt is forgotten with its connection:
//! another database may stand behind the next one.

use std::collections::{BTreeSet, HashMap};

use sqlx::Row as _;

use super::PgSession;
use super::errors::of_sqlx;
use super::statements as sql;
use crate::domain::Entry;
use crate::store::{Fault, StoreError};

/// How many names a session remembers.
const NAMES_MAX: usize = 100_000;
/// How often two sessions may pick the same number before one gives up.
const ROUNDS_MAX: usize = 20;

impl PgSession {
    pub(super) async fn learn_names(&mut self, rows: &[Entry]) -> Result<(), StoreError> {
        self.learn_consumers(rows.iter().map(|row| row.key.consumer())).await?;
        let missing = unknown(&mut self.sources, rows.iter().map(|row| row.key.source()));
        let found = self.numbers(missing, sql::SOURCES_ADD, sql::SOURCES_FIND).await?;
        self.sources.extend(found);
        Ok(())
    }

    pub(super) async fn learn_consumers(
        &mut self,
        names: impl Iterator<Item = &str> + Send,
    ) -> Result<(), StoreError> {
        let missing = unknown(&mut self.consumers, names);
        let found = self.numbers(missing, sql::CONSUMERS_ADD, sql::CONSUMERS_FIND).await?;
        self.consumers.extend(found);
        Ok(())
    }

    async fn numbers(
        &mut self,
        missing: Vec<String>,
        add: &'static str,
        find: &'static str,
    ) -> Result<Vec<(String, i32)>, StoreError> {
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        for _ in 0..ROUNDS_MAX {
            let query = self.query(find).bind(missing.clone());
            let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
            if rows.len() == missing.len() {
                let pair = |row: &sqlx::postgres::PgRow| Ok((row.try_get("name")?, row.try_get("no")?));
                return rows.iter().map(pair).collect::<Result<_, sqlx::Error>>().map_err(of_sqlx);
            }
            let query = self.query(add).bind(missing.clone());
            query.execute(&mut self.connection).await.map_err(of_sqlx)?;
        }
        Err(StoreError::NotApplied(Fault::Conflict("too many new names at once".into())))
    }
}

/// The names that have no number yet, sorted, each once.
fn unknown<'a>(known: &mut HashMap<String, i32>, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    if known.len() > NAMES_MAX {
        known.clear();
    }
    let missing: BTreeSet<&str> = names.filter(|name| !known.contains_key(*name)).collect();
    missing.into_iter().map(str::to_owned).collect()
}
