//! The bytes that one call holds, and their progress: the input of the sweep.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize};
use std::task::Context;

use futures_util::task::AtomicWaker;

use super::owner::Owner;
use super::progress::TransferProgress;

/// Why the sweep ends the request of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfinished {
    /// The request did not arrive in time.
    Stalled = 1,
    /// All requests together have too many bytes, and those of the call's owner most of them.
    Full = 2,
    /// The stream of the call was reset.
    Reset = 3,
}

/// See the module.
pub(super) struct CallState {
    pub(super) owner: Arc<Owner>,
    pub(super) settles: bool,
    pub(super) requests: AtomicUsize,
    /// Of `requests`, the bytes of the message that arrives, or arrived last.
    pub(super) message: AtomicUsize,
    pub(super) answers: AtomicUsize,
    pub(super) receiving: TransferProgress,
    pub(super) sending: TransferProgress,
    /// An [`Unfinished`]; zero while its request goes on.
    unfinished: AtomicU8,
    /// The reader of the request.
    reader: AtomicWaker,
    was_reset: AtomicBool,
}

impl CallState {
    pub(super) fn new(owner: Arc<Owner>, settles: bool) -> CallState {
        let (requests, message, answers) = Default::default();
        let (receiving, sending) = Default::default();
        let (unfinished, reader, was_reset) = Default::default();
        CallState {
            owner,
            settles,
            requests,
            message,
            answers,
            receiving,
            sending,
            unfinished,
            reader,
            was_reset,
        }
    }

    /// Bytes of the call's request, and the fixed charge of the call.
    pub(super) fn request_bytes(&self) -> usize {
        self.requests.load(Relaxed)
    }

    /// Bytes of the call's answer that the client has not taken.
    pub(super) fn answer_bytes(&self) -> usize {
        self.answers.load(Acquire)
    }

    /// Whether the server has waited too long for bytes of its request.
    pub(super) fn request_is_stalled(&self, now: u32, stall: u32) -> bool {
        self.receiving.waits() && self.receiving.is_late(now, stall)
    }

    /// Whether bytes of its answer have waited too long for the client.
    pub(super) fn answer_is_stalled(&self, now: u32, stall: u32) -> bool {
        self.answer_bytes() > 0 && !self.was_reset() && self.sending.is_late(now, stall)
    }

    /// Stops waiting for its request: the reader gets an error.
    pub(super) fn end_request(&self, why: Unfinished) {
        self.receiving.stop();
        self.unfinished.store(why as u8, Relaxed);
        self.reader.wake();
    }

    /// Why its request must not be waited for; `None` otherwise, and then its reader is woken on a change.
    pub(super) fn unfinished(&self, context: &Context<'_>) -> Option<Unfinished> {
        self.reader.register(context.waker());
        [Unfinished::Stalled, Unfinished::Full, Unfinished::Reset]
            .into_iter()
            .find(|why| *why as u8 == self.unfinished.load(Relaxed))
    }

    pub(super) fn was_reset(&self) -> bool {
        self.was_reset.load(Relaxed)
    }

    /// Records that the stream of the call is reset.
    pub(super) fn set_reset(&self) {
        self.was_reset.store(true, Relaxed);
    }
}
