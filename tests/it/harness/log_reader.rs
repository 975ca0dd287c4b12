//! What reads the log of a server's process: an agent that can hang.

use std::fs::File;
use std::io::{BufRead as _, BufReader, PipeReader, Write as _};
use std::process::Stdio;
use std::sync::{Arc, Condvar, Mutex};

/// Makes a server log some lines for each call: a reader that stalls is noticed soon.
pub(crate) const MUCH: &str = "warn,h2=debug";

/// Reads the logs of one server, one process after the other, until it stalls.
#[derive(Clone, Default)]
pub(crate) struct LogReader(Arc<(Mutex<bool>, Condvar)>);

impl LogReader {
    /// Whether it stalls from now on.
    pub(crate) fn stall(&self, stalls: bool) {
        *self.0.0.lock().unwrap() = stalls;
        self.0.1.notify_all();
    }

    /// The standard error of a process. The lines that h2 logs are read, and left out of the file.
    pub(crate) fn reads_into(&self, file: File) -> Stdio {
        let (reader, writer) = std::io::pipe().unwrap();
        let all = self.clone();
        std::thread::spawn(move || all.read(reader, file));
        writer.into()
    }

    fn read(&self, reader: PipeReader, mut file: File) {
        for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
            drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |stalls| *stalls).unwrap());
            if !line.windows(5).any(|word| word == b"DEBUG") {
                file.write_all(&[&line[..], b"\n"].concat()).unwrap();
            }
        }
    }
}
