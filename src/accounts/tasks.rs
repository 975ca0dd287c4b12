//! The tasks of a connection's calls, so that the sweep can abort one of them.

use std::future::Future;
use std::sync::Arc;

use super::connection::ConnectionAccount;

/// The executor with which HTTP/2 starts the task of a call, right after the call was admitted.
#[derive(Clone)]
pub(crate) struct CallTasks(Arc<ConnectionAccount>);

impl CallTasks {
    pub(crate) fn of(connection: &Arc<ConnectionAccount>) -> CallTasks {
        CallTasks(Arc::clone(connection))
    }
}

impl<F> hyper::rt::Executor<F> for CallTasks
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, task: F) {
        let running = tokio::spawn(task);
        self.0.runs(running.abort_handle());
    }
}
