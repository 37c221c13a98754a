//! Tests that receivers that never respond occupy few slots and do not delay other deliveries. The tests count
//! rounds instead of measuring time.

use posthaste_core::SubscriptionId;
use posthaste_core::ports::Stores;
use posthaste_testkit::harness::Harness;
use posthaste_testkit::pipeline::{Rig, Setup};
use posthaste_testkit::receiver::{Answer, Receiver};
use std::time::Duration;

const SUBSCRIPTIONS: usize = 20;
const BACKLOG: usize = 2_000;
/// The number of events for each healthy subscription in each of two waves.
const EVENTS: usize = 8;
const SLOTS: u32 = 64;
/// The initial in-flight limit of a subscription.
const AT_FIRST: i64 = 16;
/// The in-flight limit of a subscription after a first round without any response.
const LATER: i64 = 4;

pub(crate) async fn one_hanging_receiver_does_not_delay_nineteen_others<S: Stores>(h: Harness<S>) {
    black_holes(h, 1).await;
}

pub(crate) async fn five_hanging_receivers_do_not_delay_fifteen_others<S: Stores>(h: Harness<S>) {
    black_holes(h, 5).await;
}

async fn black_holes<S: Stores>(h: Harness<S>, count: usize) {
    // The deadline is in real time, because real sockets hang. It is long enough for healthy receivers on a busy
    // machine.
    let mut rig = Rig::with(h, Setup { slots: SLOTS, deadline: Duration::from_secs(1), ..Setup::default() });
    let hole = Receiver::start_unlogged(|_| Answer::Hang).await;
    let healthy = Receiver::start(|_| Answer::Status(200)).await;
    let mut holes = Vec::new();
    for number in 0..count {
        let kind = format!("hole-{number}");
        holes.push(rig.subscribe(&kind, &hole.url("/")).await);
        rig.publish_many(&kind, BACKLOG / count).await;
    }
    let others = SUBSCRIPTIONS - count;
    for _ in 0..others {
        rig.subscribe("healthy", &healthy.url("/")).await;
    }
    let wave = EVENTS * others;
    // Even if the first claim contains the initial attempts for all hanging receivers, the second leaves most slots
    // free.
    for (rounds_max, delivered) in [(5, wave), (4, 2 * wave)] {
        rig.publish_many("healthy", EVENTS).await;
        let mut rounds = 0;
        while rounds == 0 || waiting(&rig, &holes).await > 0 {
            rounds += 1;
            assert!(rounds <= rounds_max, "{} still wait", waiting(&rig, &holes).await);
            round(&mut rig, &holes).await;
        }
        assert_eq!(healthy.received().len(), delivered);
    }
    let left = "SELECT count(*) FROM webhook_delivery_sagas WHERE status = 'Pending'";
    assert!(rig.h.direct.number(left).await > BACKLOG as i64 / 2, "the backlog outlasted the test");
    rig.h.check_invariants().await;
}

/// Returns the number of unfinished deliveries of all subscriptions except `holes`.
async fn waiting<S: Stores>(rig: &Rig<S>, holes: &[SubscriptionId]) -> i64 {
    let sql = format!(
        "SELECT count(*) FROM webhook_delivery_sagas WHERE status <> 'Completed' AND subscription_id NOT IN ({})",
        list(holes)
    );
    rig.h.direct.number(&sql).await
}

/// Runs one turn of all components and checks how many slots each of `holes` occupies during the requests.
async fn round<S: Stores>(rig: &mut Rig<S>, holes: &[SubscriptionId]) {
    // One second later, full scans find rows behind the low-water mark. All rounds together take far less than the
    // delay of the first retry.
    rig.move_by(Duration::from_secs(1));
    rig.route().await;
    rig.admit().await;
    rig.send().await;
    for hole in holes {
        let jobs = async |status: &str| {
            let sql = format!(
                "SELECT count(*) FROM webhook_delivery_jobs j JOIN webhook_delivery_sagas g ON g.id = j.saga_id
                WHERE g.subscription_id = {hole} AND j.status = '{status}'"
            );
            rig.h.direct.number(&sql).await
        };
        let (held, failed) = (jobs("Leased").await, jobs("Failed").await);
        let bound = if failed < AT_FIRST { AT_FIRST } else { LATER };
        assert!(held <= bound, "{hole} holds {held} slots after {failed} attempts");
    }
    rig.settle().await;
    rig.apply().await;
}

fn list(ids: &[SubscriptionId]) -> String {
    let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
    ids.join(", ")
}
