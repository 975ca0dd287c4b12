//! Large batches give way: a flood of them holds up nobody for longer than a few items take.

/// So many items of a batch are worked on at a stretch.
const STRETCH: usize = 64;

/// Lets others have their turns after each stretch; to be called with the number of items that are done.
pub(crate) async fn give_way(done: usize) {
    if done % STRETCH == STRETCH - 1 {
        tokio::task::yield_now().await;
    }
}

/// Does something to each item of a batch.
pub(crate) async fn in_stretches<T, R>(
    items: impl ExactSizeIterator<Item = T>,
    mut each: impl FnMut(T) -> R,
) -> Vec<R> {
    let mut done = Vec::with_capacity(items.len());
    for item in items {
        give_way(done.len()).await;
        done.push(each(item));
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn items_keep_their_order_and_a_large_batch_gives_way() {
        for (items, stretches) in [(0, 1), (1, 1), (63, 1), (64, 2), (127, 2), (128, 3), (1_000, 16)] {
            let mut polls = 0;
            let mut doing = std::pin::pin!(in_stretches(0..items, |item| item * 2));
            let done = std::future::poll_fn(|context| {
                polls += 1;
                doing.poll_unpin(context)
            });
            let expected: Vec<usize> = (0..items).map(|item| item * 2).collect();
            assert_eq!(done.await, expected);
            assert_eq!(polls, stretches, "{items} items");
        }
    }
}
