//! The HTTP application behind the layer: it takes the steps that a request's header names.

use std::time::Duration;

use axum::{
    Router,
    body::{Body, Bytes},
    error_handling::HandleError,
    http::{Request, Response, StatusCode, request::Parts},
};
use idempotency_ledger_client::{
    Claim, Connection, Ledger,
    http::{IdempotencyLayer, Settings},
};
use serde_json::Value;
use tower::{Layer as _, service_fn};

use crate::{
    lines::{gone_on, say, text},
    steps::{Other, content},
};

type Problem = Box<dyn std::error::Error + Send + Sync>;

fn header(parts: &Parts, name: &str) -> String {
    parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

fn answer(status: u16, body: Vec<u8>) -> Response<Body> {
    Response::builder()
        .status(status)
        .header("Content-Type", "text/plain")
        .header("Location", "/orders/1")
        .header("X-Private", "not stored")
        .body(Body::from(body))
        .expect("it is an answer")
}

async fn application(request: Request<Body>) -> Result<Response<Body>, Problem> {
    let (parts, _) = request.into_parts();
    let claim = parts.extensions.get::<Claim>().cloned();
    let call = header(&parts, "x-call");
    let steps: Vec<Value> = serde_json::from_str(&header(&parts, "x-steps"))?;
    for step in &steps {
        match (step["do"].as_str(), &claim) {
            (Some("effect"), _) => {
                let token = claim.as_ref().map_or(0, Claim::token).to_string();
                let key = claim.as_ref().map_or(call.as_str(), Claim::idempotency_key);
                say!("effect", call: call, id: call, token: token, idempotency_key: key);
                gone_on(&call).await;
            }
            (Some("pause"), _) => {
                say!("paused", call: call);
                gone_on(&call).await;
            }
            (Some("announce"), Some(claim)) => claim.announce().await?,
            (Some("raise"), _) => return Err(Other("no answer".to_owned()).into()),
            (Some("answer"), _) => {
                let status = step["status"].as_u64().and_then(|status| u16::try_from(status).ok());
                return Ok(answer(status.expect("a status"), content(step, "body")));
            }
            (other, _) => panic!("the step is not known: {other:?}"),
        }
    }
    Ok(answer(204, Vec::new()))
}

async fn read_again(_: Parts) -> Response<Bytes> {
    Response::new(Bytes::from_static(b"read again"))
}

/// Serves the application, and says where.
pub(crate) async fn serve(command: Value) {
    let connection = Connection::to(text(&command, "endpoint"));
    let ledger =
        Ledger::builder(text(&command, "consumer")).connection(connection).build().expect("right options");
    let number = |name: &str| command[name].as_u64().map(|number| usize::try_from(number).expect("it fits"));
    let mut settings = Settings::default().tenant(|request| header(request, "x-tenant"));
    settings = command["wait"]
        .as_f64()
        .map_or(settings.clone(), |wait| settings.wait(Duration::from_secs_f64(wait)));
    settings = command["required"].as_bool().map_or(settings.clone(), |required| settings.required(required));
    settings = number("result_max").map_or(settings.clone(), |most| settings.result_max(most));
    settings = number("body_max").map_or(settings.clone(), |most| settings.body_max(most));
    if command["reread"].as_bool() == Some(true) {
        settings = settings.reread(read_again);
    }
    let layered = IdempotencyLayer::new(ledger, settings).layer(service_fn(application));
    let service = HandleError::new(layered, |_: Problem| async { StatusCode::INTERNAL_SERVER_ERROR });
    let router: Router = Router::new().fallback_service(service);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    say!("serving", address: listener.local_addr().expect("it is bound").to_string());
    axum::serve(listener, router).await.expect("it serves");
}
