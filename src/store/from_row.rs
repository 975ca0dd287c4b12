//! Structs that are read from rows of either database, column by column, by the names of their fields.
//!
//! (`sqlx` has a derive macro for this. Its macros are a separate crate, for which `sqlx`, its drivers and `SQLite` would be
//! built a second time.)

/// Declares a struct, and how a row of any database becomes one.
macro_rules! from_row {
    ($(#[$attribute:meta])* $visible:vis struct $name:ident {
        $($(#[$about:meta])* $open:vis $field:ident: $type:ty,)*
    }) => {
        $(#[$attribute])*
        $visible struct $name {
            $($(#[$about])* $open $field: $type,)*
        }

        impl<'r, R: sqlx::Row> sqlx::FromRow<'r, R> for $name
        where
            &'static str: sqlx::ColumnIndex<R>,
            $($type: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,)*
        {
            fn from_row(row: &'r R) -> Result<$name, sqlx::Error> {
                Ok($name { $($field: row.try_get(stringify!($field))?,)* })
            }
        }
    };
}
pub(super) use from_row;
