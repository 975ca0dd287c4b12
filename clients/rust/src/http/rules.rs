//! What becomes of a request and of its answer, without a service.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use super::settings::{Rule, Settings};
use crate::{Advice, EffectResult, Outcome, Steer};

const KEY_MAX: usize = 255;

/// The key of a request by the values of its header. `None` where it is malformed, or there more than once.
///
/// Bare, as most clients send it: visible characters without the comma by which proxies join two headers. Or a string of
/// structured fields.
pub(crate) fn key_of(values: &[&HeaderValue]) -> Option<String> {
    let [value] = values else { return None };
    let text = value.to_str().ok()?;
    let key = match text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(quoted) => unquoted(quoted)?,
        None if text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b',') => {
            text.to_owned()
        }
        None => return None,
    };
    (1..=KEY_MAX).contains(&key.len()).then_some(key)
}

fn unquoted(quoted: &str) -> Option<String> {
    let mut key = String::new();
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        key.push(match character {
            '\\' => characters.next().filter(|next| ['"', '\\'].contains(next))?,
            '"' => return None,
            ' '..='~' => character,
            _ => return None,
        });
    }
    Some(key)
}

/// How the claim of an answered request is settled.
pub(crate) fn settled(
    settings: &Settings,
    answer: &Response<Bytes>,
    whole: bool,
    announced: bool,
) -> Result<EffectResult, Steer> {
    let reason = || format!("status {}", answer.status().as_u16());
    match (settings.rule)(answer.status()) {
        Rule::Fail => Err(failure(reason(), announced)),
        Rule::Release if !announced => Err(Steer::GiveBack {
            reason: Some(reason()),
            after: std::time::Duration::ZERO,
            unpin_fingerprint: true,
        }),
        Rule::Release | Rule::Store => Ok(stored(settings, answer, whole).into()),
    }
}

/// How the claim of a request is settled whose effect is unknown.
pub(crate) fn failure(reason: String, announced: bool) -> Steer {
    let reason = Some(reason);
    if announced {
        Steer::Park { reason }
    } else {
        Steer::Retry { reason, after: Some(std::time::Duration::ZERO) }
    }
}

/// What the ledger stores of an answer: a line of JSON, then the body, unless it is too large or incomplete. Services in
/// other languages read it, too.
fn stored(settings: &Settings, answer: &Response<Bytes>, whole: bool) -> Vec<u8> {
    let kept: Vec<(&str, String)> = answer
        .headers()
        .iter()
        .filter(|(name, _)| settings.kept_headers.contains(name))
        .map(|(name, value)| (name.as_str(), value.as_bytes().iter().copied().map(char::from).collect()))
        .collect();
    let status = answer.status().as_u16();
    let mut line = json!([status, kept]).to_string().into_bytes();
    if whole && line.len() + 1 + answer.body().len() <= settings.result_max {
        line.push(b'\n');
        line.extend_from_slice(answer.body());
        return line;
    }
    json!([status, kept, "omitted"]).to_string().into_bytes()
}

/// The answer to a repeat, and whether its body is left out. The effect happened also where no result is stored.
pub(crate) fn replayed(outcome: &Outcome) -> (Response<Bytes>, bool) {
    let result = outcome.result.clone().unwrap_or_default();
    let read = read_back(&result);
    let (mut answer, omitted) = read.unwrap_or_else(|| (Response::new(Bytes::new()), true));
    if omitted {
        answer.headers_mut().insert("idempotency-body", HeaderValue::from_static("omitted"));
    }
    (marked(answer), omitted)
}

fn read_back(result: &Bytes) -> Option<(Response<Bytes>, bool)> {
    let end = result.iter().position(|byte| *byte == b'\n').unwrap_or(result.len());
    let head: Vec<Value> = serde_json::from_slice(&result[..end]).ok()?;
    let mut answer = Response::new(result.slice((end + 1).min(result.len())..));
    *answer.status_mut() = StatusCode::from_u16(u16::try_from(head.first()?.as_u64()?).ok()?).ok()?;
    for pair in head.get(1)?.as_array()? {
        let name = HeaderName::from_bytes(pair.get(0)?.as_str()?.as_bytes()).ok()?;
        let value: Option<Vec<u8>> =
            pair.get(1)?.as_str()?.chars().map(|each| u8::try_from(each).ok()).collect();
        answer.headers_mut().append(name, HeaderValue::from_bytes(&value?).ok()?);
    }
    Some((answer, head.len() > 2))
}

/// An answer to a repeat, marked as that.
pub(crate) fn marked(mut answer: Response<Bytes>) -> Response<Bytes> {
    answer.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    answer
}

/// The answer where there is none of the application: it did not run, or its claim was lost amid it.
pub(crate) fn refused(outcome: &Outcome) -> Response<Bytes> {
    match (outcome.reason.as_deref(), outcome.advice) {
        (Some("fingerprint_mismatch"), _) => {
            problem(422, "this Idempotency-Key was used with another body", None)
        }
        (_, Advice::DeadLetter) => {
            problem(500, "an earlier request may have had its effect: a person must find out", None)
        }
        (Some("in_progress" | "backoff"), advice) => {
            problem(409, "the first request with this Idempotency-Key is not done yet", Some(advice))
        }
        (_, advice) => {
            problem(503, "whether this request was processed cannot be known now: repeat it", Some(advice))
        }
    }
}

pub(crate) fn malformed() -> Response<Bytes> {
    let title = "Idempotency-Key must be there once: 1 to 255 visible ASCII characters, or a quoted string";
    problem(400, title, None)
}

pub(crate) fn missing() -> Response<Bytes> {
    problem(400, "this request needs the header Idempotency-Key", None)
}

pub(crate) fn closing() -> Response<Bytes> {
    let later = Advice::RetryLater { after: std::time::Duration::from_secs(1) };
    problem(503, "this server is shutting down", Some(later))
}

/// An answer of the layer itself (RFC 9457). With an advice to retry later it names the time.
pub(crate) fn problem(status: u16, title: &str, advice: Option<Advice>) -> Response<Bytes> {
    let mut answer = Response::new(Bytes::from(json!({ "title": title, "status": status }).to_string()));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if let Some(Advice::RetryLater { after }) = advice {
        let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}

/// The answer as it is sent: its server adds the length of its body.
pub(crate) fn sent(mut answer: Response<Bytes>) -> Response<Bytes> {
    let headers: &mut HeaderMap = answer.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.remove(header::TRANSFER_ENCODING);
    answer
}
