//! Cooperative yield: work on a large batch yields to other tasks after each chunk of items, so that a flood of large batches
//! delays other callers by no more than one chunk takes.

/// Items that are worked on between two yields.
const CHUNK: usize = 64;

/// Yields after each chunk; call it with the number of items that are done.
pub(crate) async fn yield_after_chunk(done: usize) {
    if done % CHUNK == CHUNK - 1 {
        tokio::task::yield_now().await;
    }
}

/// Applies `each` to all items of a batch, and yields after each chunk.
pub(crate) async fn map_in_chunks<T, R>(
    items: impl ExactSizeIterator<Item = T>,
    mut each: impl FnMut(T) -> R,
) -> Vec<R> {
    let mut done = Vec::with_capacity(items.len());
    for item in items {
        yield_after_chunk(done.len()).await;
        done.push(each(item));
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn items_keep_their_order_and_a_large_batch_yields() {
        for (items, chunks) in [(0, 1), (1, 1), (63, 1), (64, 2), (127, 2), (128, 3), (1_000, 16)] {
            let mut polls = 0;
            let mut doing = std::pin::pin!(map_in_chunks(0..items, |item| item * 2));
            let done = std::future::poll_fn(|context| {
                polls += 1;
                doing.poll_unpin(context)
            });
            let expected: Vec<usize> = (0..items).map(|item| item * 2).collect();
            assert_eq!(done.await, expected);
            assert_eq!(polls, chunks, "{items} items");
        }
    }
}
