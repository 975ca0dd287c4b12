//! The columns of `entries`, once: the row, the list that every statement selects, and what a replacement
//! writes are made of this table. (The insert of first grants adds the clock to some columns and leaves out
//! others: it names its own.)

use uuid::Uuid;

use super::from_row::from_row;

/// The table: for each column its type in Rust and in Postgres. The columns under `fixed` are written by
/// the insert alone, those under `replaced` by every replacement too. Not in the table: `key` and `version`,
/// by which a statement finds its row, `attention`, which follows from the state, and the names of
/// consumer and source, which stand in tables of their own.
macro_rules! entry_columns {
    ($use:ident $(, $given:tt)*) => {
        $use! { [$($given),*]
            fixed {
                id: String, "text";
                created_at: i64, "bigint";
                traceparent: Option<String>, "text";
            }
            replaced {
                token: i64, "bigint";
                granted_at: i64, "bigint";
                lease_until: i64, "bigint";
                grace: i64, "bigint";
                hold_until: i64, "bigint";
                retention: i64, "bigint";
                not_before: i64, "bigint";
                sweep_at: i64, "bigint";
                updated_at: i64, "bigint";
                closed_at: Option<i64>, "bigint";
                parked_at: Option<i64>, "bigint";
                retain_until: Option<i64>, "bigint";
                claim_id: Option<Uuid>, "uuid";
                policy_version: i32, "int";
                attempts: i32, "int";
                state: i16, "smallint";
                cause: i16, "smallint";
                closed_by: i16, "smallint";
                on_expiry: i16, "smallint";
                rearmed: bool, "boolean";
                effect_started: bool, "boolean";
                prior_effect_started: bool, "boolean";
                effect_unknown: bool, "boolean";
                principal: Option<String>, "text";
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

macro_rules! row {
    ([] fixed { $($fixed:ident: $fixed_type:ty, $_f:literal;)* } replaced { $($name:ident: $type:ty, $_t:literal;)* }) => {
        from_row! {
            /// A row of `entries`, with consumer and source as names.
            #[allow(clippy::struct_excessive_bools, reason = "these are the columns")]
            pub(super) struct Row {
                pub(super) key: Uuid,
                pub(super) version: i64,
                pub(super) consumer: String,
                pub(super) source: String,
                $(pub(super) $fixed: $fixed_type,)*
                $(pub(super) $name: $type,)*
            }
        }

        /// The columns that a replacement writes, with their types in Postgres.
        pub(super) const REPLACED: &[(&str, &str)] = &[$((stringify!($name), $_t)),*];
    };
}
entry_columns!(row);

macro_rules! select_list {
    ([] fixed { $($fixed:ident: $_ft:ty, $_f:literal;)* } replaced { $($name:ident: $_t:ty, $_l:literal;)* }) => {
        concat!(
            $("e.", stringify!($fixed), ", ",)*
            $("e.", stringify!($name), ", ",)*
            "e.key, e.version, n.name AS consumer, s.name AS source"
        )
    };
}
pub(super) use select_list;

/// The columns that every statement which reads entries selects, in no order that matters.
macro_rules! columns {
    () => {
        crate::store::columns::entry_columns!(select_list)
    };
}
pub(super) use columns;
