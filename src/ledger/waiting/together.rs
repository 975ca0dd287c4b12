//! Looks that are queued together: once the verdict of a key is final, all calls that wait for it look in one batch, which
//! loads each key once. The last call that joins, or whose caller is gone, queues them.

use std::sync::{Arc, PoisonError};

use crate::ledger::claims::queue::Queue;
use crate::ledger::claims::request::{KeyQueue, Request};
use crate::ledger::runtime::{Instant, Mutex};

use crate::domain::Key;

/// The per-key queue of the calls of one key that look together. Each call has a clone of the `Arc`, and adds its request or only
/// drops the clone. When the last clone is dropped, the per-key queue is pushed.
#[derive(Default)]
pub(in crate::ledger) struct Together(Mutex<Option<(KeyQueue, Arc<Queue>)>>);

impl Together {
    /// Adds a look at this key.
    pub(in crate::ledger) fn join(self: Arc<Together>, key: &Key, look: Request, queue: &Arc<Queue>) {
        let mut joined = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((key_queue, _)) = &mut *joined {
            key_queue.push(look);
        } else {
            let key_queue = KeyQueue::new(key.clone(), look, Instant::now()).loads_first();
            *joined = Some((key_queue, Arc::clone(queue)));
        }
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        let joined = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((key_queue, queue)) = joined {
            queue.push_or_refuse(key_queue);
        }
    }
}
