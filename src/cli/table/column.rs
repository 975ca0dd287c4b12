//! The columns of tables: how each becomes narrower.

/// The space between two columns.
pub(super) const GAP: usize = 2;

/// How a column becomes narrower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Narrows {
    Never,
    /// Both ends stay, which distinguish names.
    Middle,
    End,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(super) heading: &'static str,
    pub(super) narrows: Narrows,
    /// The order in which columns are left out on a narrow terminal; 0 for a column that always stays.
    pub(super) leaves: u8,
}

impl Column {
    /// An instant, a number, or a word of an enum: never cut.
    pub(crate) const fn whole(heading: &'static str) -> Column {
        Column { heading, narrows: Narrows::Never, leaves: 0 }
    }

    /// A name: its middle may be left out.
    pub(crate) const fn name(heading: &'static str) -> Column {
        Column { heading, narrows: Narrows::Middle, leaves: 0 }
    }

    /// A text: its end may be left out.
    pub(crate) const fn text(heading: &'static str) -> Column {
        Column { heading, narrows: Narrows::End, leaves: 0 }
    }

    pub(crate) const fn heading(&self) -> &'static str {
        self.heading
    }

    /// On a narrow terminal the column may be left out, the one with the lowest number first.
    pub(crate) const fn left_out(self, order: u8) -> Column {
        Column { leaves: order, ..self }
    }
}
