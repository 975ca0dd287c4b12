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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use tracing_subscriber::fmt::MakeWriter;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Lines {
        type Writer = Lines;

        fn make_writer(&self) -> Lines {
            self.clone()
        }
    }

    /// A format whose lines of the kind `export` were held back twice, more than a second ago.
    fn held_back<F>(format: F, json: bool) -> Bounded<F> {
        let bounded = Bounded::new(format, json);
        let before = Instant::now().checked_sub(Duration::from_secs(9)).unwrap();
        for _ in 0..3 {
            bounded.written.permit("export", before);
        }
        bounded
    }

    fn log() {
        for number in 0..3 {
            tracing::event!(name: "export", target: "opentelemetry_sdk", tracing::Level::WARN, number, "failed");
        }
        tracing::warn!(target: "idempotency_ledger", "of the server");
    }

    #[test]
    fn line_after_a_pause_has_the_number_of_suppressed_lines() {
        let lines = Lines::default();
        let logs = tracing_subscriber::fmt::layer().with_writer(lines.clone()).with_ansi(false);
        let text = logs.map_event_format(|format| held_back(format, false));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(text), log);
        let written = String::from_utf8(std::mem::take(&mut *lines.0.lock().unwrap())).unwrap();
        let [first, own] = written.lines().collect::<Vec<_>>().try_into().unwrap();
        assert!(first.ends_with("failed number=0 held_back=2"), "{first}");
        assert!(own.ends_with("of the server"), "{own}");
        let logs = tracing_subscriber::fmt::layer().with_writer(lines.clone()).json().flatten_event(true);
        let json = logs.map_event_format(|format| held_back(format, true));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(json), log);
        let written = String::from_utf8(std::mem::take(&mut *lines.0.lock().unwrap())).unwrap();
        let read = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
        let [first, own] = written.lines().map(read).collect::<Vec<_>>().try_into().unwrap();
        assert_eq!((&first["message"], &first["held_back"]), (&"failed".into(), &2.into()), "{first}");
        assert_eq!((&own["message"], own.get("held_back")), (&"of the server".into(), None), "{own}");
    }
}
