//! OpenTelemetry's environment variables, with the names and meanings of the standard; the exporter reads most of them itself.

use std::collections::BTreeMap;

/// A variable: its name without `OTEL_`, its default, and its description. `NUMBERS` has the defaults and bounds of numbers.
struct Variable(&'static str, &'static str, &'static str);

/// All supported variables. For those that begin with `EXPORTER_OTLP_`, the form `EXPORTER_OTLP_TRACES_` is supported too, and
/// has precedence.
const VARIABLES: &[Variable] = &[
    Variable(
        "EXPORTER_OTLP_ENDPOINT",
        "",
        "The collector, as `http://HOST:PORT` or `https://HOST:PORT`; its port for gRPC is 4317 by default. Traces are recorded \
         where this is set, or `OTEL_TRACES_EXPORTER` is `otlp`, which means `http://localhost:4317`",
    ),
    Variable(
        "EXPORTER_OTLP_HEADERS",
        "",
        "Headers of each export, as `name=value,name=value`; values are percent-encoded",
    ),
    Variable("EXPORTER_OTLP_TIMEOUT", "", "How long one export may take, in milliseconds"),
    Variable("EXPORTER_OTLP_COMPRESSION", "none", "`gzip`, or none"),
    Variable("EXPORTER_OTLP_INSECURE", "false", "Of an endpoint without a scheme: `true` means `http://`"),
    Variable(
        "EXPORTER_OTLP_CERTIFICATE",
        "",
        "A file with the certificates, in PEM, of the authorities that a collector's own must be signed by; \
         without it, those that the system trusts",
    ),
    Variable("EXPORTER_OTLP_PROTOCOL", "grpc", "Only `grpc` is spoken: with any other nothing is recorded"),
    Variable("TRACES_EXPORTER", "", "`otlp`, or `none`: nothing is recorded"),
    Variable("SDK_DISABLED", "false", "`true`: nothing is recorded"),
    Variable(
        "TRACES_SAMPLER",
        "parentbased_always_on",
        "Which calls are recorded: `always_on`, `always_off`, `traceidratio`, or one of them behind `parentbased_`, by which \
         the caller decides, and the sampler only where the caller has sent no trace",
    ),
    Variable("TRACES_SAMPLER_ARG", "1", "The share of `traceidratio`, from 0 to 1"),
    Variable("SERVICE_NAME", "idempotency-ledger", "The name of the service that the spans belong to"),
    Variable("RESOURCE_ATTRIBUTES", "", "More about the service, as `name=value,name=value`"),
    Variable("BSP_SCHEDULE_DELAY", "", "How often spans are sent, in milliseconds"),
    Variable("BSP_MAX_QUEUE_SIZE", "", "How many spans may wait; more are dropped, which the log reports"),
    Variable("BSP_MAX_EXPORT_BATCH_SIZE", "", "Maximum number of spans of one export"),
    Variable("SPAN_ATTRIBUTE_COUNT_LIMIT", "", "Maximum number of attributes of a span"),
    Variable("SPAN_LINK_COUNT_LIMIT", "", "Maximum number of links of a span"),
];
const EXPORTER: &str = "EXPORTER_OTLP_";

/// A number: its variable without `OTEL_`, default, minimum and maximum. Outside of these bounds the exporter would spin, or
/// exhaust the memory.
pub(super) struct Number(&'static str, u32, u32, u32);

pub(super) const TIMEOUT: Number = Number("EXPORTER_OTLP_TIMEOUT", 10_000, 1, 600_000);
pub(super) const DELAY: Number = Number("BSP_SCHEDULE_DELAY", 5_000, 10, 3_600_000);
pub(super) const QUEUE: Number = Number("BSP_MAX_QUEUE_SIZE", 2_048, 1, 100_000);
pub(super) const BATCH: Number = Number("BSP_MAX_EXPORT_BATCH_SIZE", 512, 1, 100_000);
pub(super) const ATTRIBUTES: Number = Number("SPAN_ATTRIBUTE_COUNT_LIMIT", 128, 0, 1_000);
pub(super) const LINKS: Number = Number("SPAN_LINK_COUNT_LIMIT", 128, 0, 1_000);
const NUMBERS: [Number; 6] = [TIMEOUT, DELAY, QUEUE, BATCH, ATTRIBUTES, LINKS];

/// Variables with a fixed set of values.
const WORDS: &[(&str, &[&str])] = &[
    ("SDK_DISABLED", &["true", "false"]),
    ("EXPORTER_OTLP_INSECURE", &["true", "false"]),
    ("EXPORTER_OTLP_COMPRESSION", &["gzip", "none"]),
    (
        "TRACES_SAMPLER",
        &[
            "always_on",
            "always_off",
            "traceidratio",
            "parentbased_always_on",
            "parentbased_always_off",
            "parentbased_traceidratio",
        ],
    ),
];

/// The table of the variables, as docs/traces.md shows it.
#[must_use]
pub fn table() -> String {
    let rows = VARIABLES.iter().map(|Variable(name, usual, what)| {
        let number = NUMBERS.iter().find(|Number(number, ..)| number == name);
        let (usual, bounds) = match number {
            Some(Number(_, usual, least, most)) => (format!("`{usual}`"), format!("{least} to {most}")),
            None if usual.is_empty() => (String::new(), String::new()),
            None => (format!("`{usual}`"), String::new()),
        };
        format!("| `OTEL_{name}` | {usual} | {bounds} | {what} |\n")
    });
    format!("| variable | default | bounds | |\n| --- | --- | --- | --- |\n{}", rows.collect::<String>())
}

/// The OpenTelemetry variables that are set.
pub(super) struct Given(BTreeMap<String, String>);

impl Given {
    /// Reads the environment. An empty variable counts as not set.
    pub(super) fn of(environment: impl Iterator<Item = (String, String)>) -> Given {
        Given(environment.filter(|(name, value)| name.starts_with("OTEL_") && !value.is_empty()).collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A variable of the exporter: the form for traces has precedence.
    pub(super) fn of_exporter(&self, name: &str) -> Option<&str> {
        let of_traces = self.get(&format!("OTEL_{EXPORTER}TRACES_{name}"));
        of_traces.or_else(|| self.get(&format!("OTEL_{EXPORTER}{name}")))
    }

    /// The value of a variable without `OTEL_`.
    fn value(&self, name: &str) -> Option<&str> {
        match name.strip_prefix(EXPORTER) {
            Some(of_exporter) => self.of_exporter(of_exporter),
            None => self.get(&format!("OTEL_{name}")),
        }
    }

    /// The number that is set, or the default. A value out of bounds is an error.
    fn number(&self, Number(name, usual, least, most): &Number) -> Result<u32, String> {
        let Some(value) = self.value(name) else { return Ok(*usual) };
        let number = value.parse().ok().filter(|number| (*least..=*most).contains(number));
        number.ok_or_else(|| format!("OTEL_{name}: is {value}, must be {least} to {most}; {usual} is used"))
    }

    pub(super) fn number_or_usual(&self, number: &Number) -> u32 {
        self.number(number).unwrap_or(number.1)
    }

    /// Whether the collector is reached by TLS.
    pub(super) fn is_secure(&self) -> bool {
        let insecure = self.of_exporter("INSECURE").is_some_and(|word| word.eq_ignore_ascii_case("true"));
        self.of_exporter("ENDPOINT").is_some_and(|endpoint| {
            endpoint.starts_with("https://") || (!endpoint.contains("://") && !insecure)
        })
    }

    fn is_known(name: &str) -> bool {
        let Some(name) = name.strip_prefix("OTEL_") else { return false };
        let general = name.strip_prefix("EXPORTER_OTLP_TRACES_").map(|rest| format!("{EXPORTER}{rest}"));
        let general = general.as_deref().unwrap_or(name);
        VARIABLES.iter().any(|Variable(known, ..)| *known == general)
    }

    /// Whether calls are recorded; an error if the variables ask for something that is not supported.
    pub(super) fn wanted(&self) -> Result<bool, String> {
        if self.get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(false);
        }
        let wanted = match self.get("OTEL_TRACES_EXPORTER") {
            Some("none") => false,
            Some("otlp") => true,
            None => self.of_exporter("ENDPOINT").is_some(),
            Some(other) => {
                return Err(format!("OTEL_TRACES_EXPORTER: is {other}; this server knows otlp and none"));
            }
        };
        match self.of_exporter("PROTOCOL") {
            Some(other) if wanted && other != "grpc" => Err(format!(
                "OTEL_EXPORTER_OTLP_PROTOCOL: is {other}; this server speaks grpc alone: set \
                 OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc, and the port of the collector for that"
            )),
            _ => Ok(wanted),
        }
    }

    /// Warnings about variables that are set and do not have the intended effect.
    pub(super) fn doubts(&self) -> Vec<String> {
        let unknown: Vec<&str> =
            self.0.keys().map(String::as_str).filter(|name| !Given::is_known(name)).collect();
        let mut doubts = Vec::new();
        if !unknown.is_empty() {
            doubts.push(format!(
                "{}: not used by this server; docs/traces.md lists what is",
                unknown.join(", ")
            ));
        }
        let numbers = NUMBERS.iter().filter_map(|number| self.number(number).err());
        doubts.extend(numbers);
        for (name, words) in WORDS {
            // The exporter knows samplers by their exact names.
            let exact = *name == "TRACES_SAMPLER";
            let is = |value: &str, word: &&str| {
                if exact { value == *word } else { value.eq_ignore_ascii_case(word) }
            };
            let value = self.value(name).filter(|value| !words.iter().any(|word| is(value, word)));
            if let Some(value) = value {
                doubts.push(format!(
                    "OTEL_{name}: is {value}, must be one of {}; the default is used",
                    words.join(", ")
                ));
            }
        }
        let share = self.get("OTEL_TRACES_SAMPLER_ARG");
        let is_share = |text: &&str| text.parse().is_ok_and(|share: f64| (0.0..=1.0).contains(&share));
        if let Some(value) = share.filter(|text| !is_share(text)) {
            doubts.push(format!("OTEL_TRACES_SAMPLER_ARG: is {value}, must be 0 to 1"));
        }
        doubts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_secure_follows_endpoint() {
        const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
        for (all, secure) in [
            (&[][..], false),
            (&[(ENDPOINT, "http://collector:4317")], false),
            (&[(ENDPOINT, "https://collector:4317")], true),
            (&[(ENDPOINT, "collector:4317")], true),
            (&[(ENDPOINT, "collector:4317"), ("OTEL_EXPORTER_OTLP_INSECURE", "True")], false),
            (&[(ENDPOINT, "https://collector:4317"), ("OTEL_EXPORTER_OTLP_INSECURE", "true")], true),
            (&[(ENDPOINT, "unix:///tmp/collector")], false),
        ] {
            assert_eq!(given(all).is_secure(), secure, "{all:?}");
        }
    }

    fn given(all: &[(&str, &str)]) -> Given {
        Given::of(all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn wanted_follows_environment() {
        let at = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317");
        for (all, wanted) in [
            (&[][..], Ok(false)),
            (&[at], Ok(true)),
            (&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector:4317")], Ok(true)),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")], Ok(false)),
            (&[("OTEL_SERVICE_NAME", "x")], Ok(false)),
            (&[("OTEL_TRACES_EXPORTER", "otlp")], Ok(true)),
            (&[at, ("OTEL_TRACES_EXPORTER", "none")], Ok(false)),
            (&[at, ("OTEL_TRACES_EXPORTER", "zipkin")], Err("OTEL_TRACES_EXPORTER: is zipkin")),
            (&[at, ("OTEL_SDK_DISABLED", "True")], Ok(false)),
            (&[at, ("OTEL_SDK_DISABLED", "false")], Ok(true)),
            (&[at, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], Ok(true)),
            (
                &[at, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")],
                Err("OTEL_EXPORTER_OTLP_PROTOCOL: is http/protobuf"),
            ),
            (&[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")], Ok(false)),
            (
                &[
                    at,
                    ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
                    ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"),
                ],
                Ok(true),
            ),
        ] {
            let got = given(all).wanted();
            match wanted {
                Ok(wanted) => assert_eq!(got, Ok(wanted), "{all:?}"),
                Err(begin) => {
                    assert!(got.as_ref().is_err_and(|text| text.starts_with(begin)), "{all:?}: {got:?}");
                }
            }
        }
    }

    #[test]
    fn doubts_report_variables_without_effect() {
        for (all, doubts) in [
            (&[("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=b"), ("PATH", "x")][..], &[][..]),
            (
                &[("OTEL_METRICS_EXPORTER", "otlp"), ("OTEL_PROPAGATORS", "b3")],
                &["OTEL_METRICS_EXPORTER, OTEL_PROPAGATORS: not used"],
            ),
            (&[("OTEL_EXPORTER_OTLP_TRACES", "x")], &["OTEL_EXPORTER_OTLP_TRACES: not used"]),
            (
                &[("OTEL_BSP_SCHEDULE_DELAY", "5s")],
                &["OTEL_BSP_SCHEDULE_DELAY: is 5s, must be 10 to 3600000; 5000 is used"],
            ),
            (&[("OTEL_BSP_SCHEDULE_DELAY", "0")], &["OTEL_BSP_SCHEDULE_DELAY: is 0, must be 10 to"]),
            (&[("OTEL_BSP_MAX_QUEUE_SIZE", "4000000000")], &["OTEL_BSP_MAX_QUEUE_SIZE: is 4000000000"]),
            (&[("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "0")], &["OTEL_BSP_MAX_EXPORT_BATCH_SIZE: is 0"]),
            (&[("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "-1")], &["OTEL_EXPORTER_OTLP_TIMEOUT: is -1"]),
            (&[("OTEL_SDK_DISABLED", "1")], &["OTEL_SDK_DISABLED: is 1, must be one of true, false"]),
            (&[("OTEL_EXPORTER_OTLP_TRACES_INSECURE", "yes")], &["OTEL_EXPORTER_OTLP_INSECURE: is yes"]),
            (
                &[("OTEL_TRACES_SAMPLER", "jaeger_remote")],
                &["OTEL_TRACES_SAMPLER: is jaeger_remote, must be"],
            ),
            (&[("OTEL_TRACES_SAMPLER", "Always_On")], &["OTEL_TRACES_SAMPLER: is Always_On"]),
            (&[("OTEL_TRACES_SAMPLER_ARG", "5")], &["OTEL_TRACES_SAMPLER_ARG: is 5, must be 0 to 1"]),
            (&[("OTEL_TRACES_SAMPLER", "always_on"), ("OTEL_SDK_DISABLED", "TRUE")], &[]),
        ] {
            let found = given(all).doubts();
            assert_eq!(found.len(), doubts.len(), "{all:?}: {found:?}");
            assert!(
                found.iter().zip(doubts).all(|(found, begin)| found.starts_with(begin)),
                "{all:?}: {found:?}"
            );
        }
    }
}
