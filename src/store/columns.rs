//! The single table of the columns of `entries`. The row, the select list of every statement, the reading of rows, and the
//! columns that a replacement writes are generated from it. (The insert of first grants writes fewer columns, and names them.)
//!
//! Most columns are nullable: a column is null if its value follows from the others, as for a claim that is granted and
//! completed once. `row.rs` defines what follows from what.

use uuid::Uuid;

/// The table: for each column its type in Rust and in Postgres. The columns under `fixed` are written by
/// the insert alone, those under `replaced` by every replacement too. Not in the table: `key` and `version`,
/// by which a statement finds its row, and `attention`, which follows from the state.
macro_rules! entry_columns {
    ($use:ident $(, $given:tt)*) => {
        $use! { [$($given),*]
            fixed {
                consumer: i32, "int";
                source: i32, "int";
                id: Option<String>, "text";
                id_uuid: Option<Uuid>, "uuid";
                created_at: i64, "bigint";
                traceparent: Option<Vec<u8>>, "bytea";
            }
            replaced {
                claim_id: Option<Uuid>, "uuid";
                token: i64, "bigint";
                lease_until: i64, "bigint";
                terms: i32, "int";
                attempts: i32, "int";
                state: i16, "smallint";
                closed_by: i16, "smallint";
                updated_at: Option<i64>, "bigint";
                granted_at: Option<i64>, "bigint";
                closed_at: Option<i64>, "bigint";
                parked_at: Option<i64>, "bigint";
                not_before: Option<i64>, "bigint";
                retain_until: Option<i64>, "bigint";
                next_at: Option<i64>, "bigint";
                erase_at: Option<i64>, "bigint";
                body: Option<i16>, "smallint";
                cause: Option<i16>, "smallint";
                rearmed: Option<bool>, "boolean";
                effect_started: Option<bool>, "boolean";
                prior_effect_started: Option<bool>, "boolean";
                effect_unknown: Option<bool>, "boolean";
                superseded_completes: Option<i32>, "int";
                doubled: Option<bool>, "boolean";
                principal: Option<i32>, "int";
                owner: Option<String>, "text";
                last_error: Option<String>, "text";
                history: Option<String>, "text";
                fingerprint: Option<Vec<u8>>, "bytea";
                result: Option<Vec<u8>>, "bytea";
                checkpoint: Option<Vec<u8>>, "bytea";
            }
        }
    };
}
pub(super) use entry_columns;

/// Reads a row of `entries` from a row of a statement: the columns are adjacent in the order of the list, the first of them at
/// the index `first`. They are read by index, since looking up all names takes longer, for each row, than everything else that
/// is done with it.
pub(super) trait ReadAt<'r, R>: Sized {
    /// # Errors
    /// The column that cannot be read, and why.
    fn read_at(row: &'r R, first: usize) -> Result<Self, (&'static str, sqlx::Error)>;
}

macro_rules! row {
    ([] fixed { $($fixed:ident: $fixed_type:ty, $_f:literal;)* } replaced { $($name:ident: $type:ty, $_t:literal;)* }) => {
        /// A row of `entries`.
        pub(super) struct Row {
            pub(super) key: Uuid,
            pub(super) version: i64,
            $(pub(super) $fixed: $fixed_type,)*
            $(pub(super) $name: $type,)*
        }

        impl<'r, R: sqlx::Row> ReadAt<'r, R> for Row
        where
            usize: sqlx::ColumnIndex<R>,
            Uuid: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,
            $($fixed_type: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,)*
            $($type: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,)*
        {
            fn read_at(row: &'r R, first: usize) -> Result<Row, (&'static str, sqlx::Error)> {
                // Rust evaluates the fields in the order of this literal, which is the order of the list.
                let mut next = first;
                let mut index = || {
                    next += 1;
                    next - 1
                };
                Ok(Row {
                    key: row.try_get(index()).map_err(|error| ("key", error))?,
                    version: row.try_get(index()).map_err(|error| ("version", error))?,
                    $($fixed: row.try_get(index()).map_err(|error| (stringify!($fixed), error))?,)*
                    $($name: row.try_get(index()).map_err(|error| (stringify!($name), error))?,)*
                })
            }
        }

        /// The columns that a replacement writes, with their types in Postgres.
        pub(super) const REPLACED: &[(&str, &str)] = &[$((stringify!($name), $_t)),*];
    };
}
entry_columns!(row);

macro_rules! select_list {
    ([] fixed { $($fixed:ident: $_ft:ty, $_f:literal;)* } replaced { $($name:ident: $_t:ty, $_l:literal;)* }) => {
        concat!("e.key, e.version", $(", e.", stringify!($fixed),)* $(", e.", stringify!($name),)*)
    };
}
pub(super) use select_list;

macro_rules! empty_list {
    ([] fixed { $($fixed:ident: $_ft:ty, $_f:literal;)* } replaced { $($name:ident: $_t:ty, $_l:literal;)* }) => {
        concat!(
            "NULL AS key, NULL AS version",
            $(", NULL AS ", stringify!($fixed),)*
            $(", NULL AS ", stringify!($name),)*
        )
    };
}
pub(super) use empty_list;

/// The select list of every statement that reads entries. No other column of such a statement is named `key`.
macro_rules! columns {
    () => {
        crate::store::columns::entry_columns!(select_list)
    };
}
pub(super) use columns;

/// The same columns as nulls, for a row in which a statement returns something else.
macro_rules! no_columns {
    () => {
        crate::store::columns::entry_columns!(empty_list)
    };
}
pub(super) use no_columns;
