//! The lines of the protocol.

use std::{
    collections::HashMap,
    io::{BufRead as _, Write as _},
    sync::{Arc, LazyLock, Mutex},
};

use serde_json::Value;
use tokio::sync::{Semaphore, mpsc};

/// Says an event.
macro_rules! say {
    ($event:literal $(, $name:ident: $value:expr)* $(,)?) => {
        $crate::lines::write(&::serde_json::json!({ "event": $event $(, stringify!($name): $value)* }))
    };
}
pub(crate) use say;

pub(crate) fn write(event: &Value) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{event}").and_then(|()| out.flush()).expect("the scenario reads the events");
}

/// The commands, as they arrive. The channel ends with the input.
pub(crate) fn commands() -> mpsc::UnboundedReceiver<Value> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let command = serde_json::from_str(&line).expect("a command is JSON");
            if sender.send(command).is_err() {
                return;
            }
        }
    });
    receiver
}

static GOING: LazyLock<Mutex<HashMap<String, Arc<Semaphore>>>> = LazyLock::new(Mutex::default);

fn going(call: &str) -> Arc<Semaphore> {
    let mut all = GOING.lock().expect("no holder panics");
    Arc::clone(all.entry(call.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(0))))
}

/// Lets the step of a delivery go on that waits.
pub(crate) fn go(call: &str) {
    going(call).add_permits(1);
}

/// Waits for `go`.
pub(crate) async fn gone_on(call: &str) {
    going(call).acquire_owned().await.expect("it is never closed").forget();
}

pub(crate) fn text(command: &Value, name: &str) -> String {
    command[name].as_str().unwrap_or_default().to_owned()
}
