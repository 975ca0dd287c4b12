//! A table of many entries: nothing that is done often, or asked by an operator, reads it in proportion.

mod audited;
mod bounded;
mod calls;
mod growth;
mod load;
mod plans;

use crate::harness::postgres::Cluster;
use crate::proof::run::Run;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_reads_in_proportion_to_the_table() {
    let mut run = Run::new("rows", 20_000);
    let cluster = tokio::task::spawn_blocking(|| Cluster::start(load::SETTINGS)).await.unwrap();
    load::migrate(&cluster).await;
    run.progress(0, "the table is being filled");
    load::fill(&cluster, run.size, run.seed).await;
    run.progress(run.size, "filled; the plans without statistics");
    let raw = plans::check(&run, &cluster, "never analysed").await;
    load::analyse(&cluster).await;
    run.progress(run.size, "analysed; the plans with statistics");
    let analysed = plans::check(&run, &cluster, "analysed").await;
    run.progress(run.size, "calls of a server");
    let calls = calls::time(&run, &cluster).await;
    let size = load::size(&cluster).await;
    run.summary(format!(
        "{} entries, {size}; buffers never analysed: {raw}; analysed: {analysed}; median and longest of 50 calls: \
         {calls}",
        run.size
    ));
}
