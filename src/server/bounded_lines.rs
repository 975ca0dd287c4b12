//! Rate-limited log lines of libraries: the exporter of traces logs a line or two for each failed export, and the driver one
//! for each notice of Postgres, which an extension of the server may send for each statement. One line of each kind is written
//! per second, with the number of lines suppressed since the previous one.

use std::fmt;
use std::time::Instant;

use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::common::log_limit::LogLimitByKind;

/// A log format that limits the lines of these libraries. A filter could not add the number of suppressed lines to a line.
pub(super) struct Bounded<F> {
    format: F,
    json: bool,
    written: LogLimitByKind,
}

impl<F> Bounded<F> {
    pub(super) fn new(format: F, json: bool) -> Bounded<F> {
        Bounded { format, json, written: LogLimitByKind::new() }
    }
}

impl<S, N, F> FormatEvent<S, N> for Bounded<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let line = event.metadata();
        let is_bounded =
            line.target().starts_with("opentelemetry") || line.target() == "sqlx::postgres::notice";
        if !is_bounded {
            return self.format.format_event(context, writer, event);
        }
        let Some(turn) = self.written.permit(line.name(), Instant::now()) else { return Ok(()) };
        let Some(held_back) = turn.logged() else { return self.format.format_event(context, writer, event) };
        let mut text = String::new();
        self.format.format_event(context, Writer::new(&mut text), event)?;
        let text = text.trim_end();
        match text.strip_suffix('}').filter(|_| self.json) {
            Some(object) => writeln!(writer, "{object},\"held_back\":{held_back}}}"),
            None => writeln!(writer, "{text} held_back={held_back}"),
        }
    }
}
