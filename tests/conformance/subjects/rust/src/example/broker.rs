//! Stands for a broker: the scenario delivers, and sees what becomes of it.

use std::{sync::LazyLock, time::Duration};

use serde_json::Value;
use tokio::sync::{Mutex, mpsc};

use crate::lines::{commands, go, say, text};

pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) body: Vec<u8>,
    call: String,
}

impl Message {
    pub(crate) async fn ack(self) {
        self.done("ACK", Duration::ZERO);
    }

    pub(crate) async fn dead_letter(self) {
        self.done("DEAD_LETTER", Duration::ZERO);
    }

    pub(crate) async fn retry(self, after: Duration) {
        self.done("RETRY_LATER", after);
    }

    fn done(self, advice: &str, delay: Duration) {
        say!("outcome", call: self.call, advice: advice, delay: delay.as_secs_f64(), reason: Value::Null);
    }
}

static MESSAGES: LazyLock<Mutex<mpsc::UnboundedReceiver<Message>>> = LazyLock::new(|| {
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut lines = commands();
        say!("ready");
        while let Some(command) = lines.recv().await {
            let call = text(&command, "call");
            if command["do"] == "go" {
                go(&call);
                continue;
            }
            let id = text(&command, "id");
            let message = Message { body: id.clone().into_bytes(), id, call };
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    Mutex::new(receiver)
});

pub(crate) async fn receive() -> Option<Message> {
    MESSAGES.lock().await.recv().await
}
