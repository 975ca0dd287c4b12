use std::time::Duration;

use crate::report::Report;

#[tokio::test(start_paused = true)]
async fn a_kind_is_logged_once_a_second_with_the_number_of_the_suppressed() {
    let report = Report::new("payments");
    assert_eq!(report.due("LEASE_LOST"), Some(0));
    assert_eq!(report.due("LEASE_LOST"), None);
    assert_eq!(report.due("LEASE_LOST"), None);
    assert_eq!(report.due("OVERLOADED"), Some(0));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(report.due("LEASE_LOST"), Some(2));
}

#[tokio::test(start_paused = true)]
async fn kinds_beyond_the_bound_share_one() {
    let report = Report::new("payments");
    let logged = (0..1000).filter(|number| report.due(&number.to_string()).is_some()).count();
    assert_eq!(logged, 65);
}
