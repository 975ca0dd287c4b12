//! No test may leave a server running.

/// Fails a test that ends without having stopped its server: at its end a server looks whether it has returned all that it has
/// counted of its clients.
#[derive(Default)]
pub(super) struct MustStop {
    stopped: bool,
}

impl MustStop {
    pub(super) fn stops(&mut self) {
        self.stopped = true;
    }
}

impl Drop for MustStop {
    fn drop(&mut self) {
        assert!(self.stopped || std::thread::panicking(), "end the test with `server.stop().await`");
    }
}
