//! Tests workers that die or report too late: the delivery continues, and every attempt is counted once.

use posthaste_core::job::JobStatus;
use posthaste_core::ports::{Report, Stores, WorkerStore as _};
use posthaste_core::saga::SagaStatus;
use posthaste_services::step::Step as _;
use posthaste_testkit::fixtures::{LEASE, claim, delivered};
use posthaste_testkit::harness::Harness;
use posthaste_testkit::pipeline::Rig;
use posthaste_testkit::receiver::{Answer, Receiver};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Starts a receiver that never responds to the first request and accepts all others.
async fn slow_starter() -> Receiver {
    let seen = AtomicUsize::new(0);
    Receiver::start(move |_| match seen.fetch_add(1, Ordering::SeqCst) {
        0 => Answer::Hang,
        _ => Answer::Status(200),
    })
    .await
}

/// Advances the clock just past the end of the lease.
fn expire_lease<S: Stores>(rig: &Rig<S>) {
    rig.move_by(LEASE + Duration::from_micros(1));
}

pub(crate) async fn a_job_of_a_killed_worker_is_sent_again_after_its_lease<S: Stores>(h: Harness<S>) {
    let mut rig = Rig::new(h);
    let receiver = slow_starter().await;
    rig.subscribe("a", &receiver.url("/")).await;
    let event = rig.publish("a").await;
    rig.route().await;
    rig.admit().await;
    rig.send().await;
    receiver.wait_for(1).await;
    rig.kill_workers();
    rig.add_worker();
    // Until the lease has expired, no other worker may claim the job.
    rig.move_by(LEASE - Duration::from_micros(1));
    rig.clean().await;
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(event).await, (SagaStatus::InProgress, 0, String::new()));
    rig.move_by(Duration::from_micros(2));
    rig.clean().await;
    rig.until_quiet().await;
    let received = receiver.received();
    let ids: Vec<_> = received.iter().map(|request| request.webhook_id()).collect();
    assert_eq!((ids.len(), ids[0]), (2, ids[1]));
    assert!(received.iter().all(|request| request.header("posthaste-attempt") == "1"));
    assert_eq!(rig.fate_of(event).await, (SagaStatus::Completed, 1, String::new()));
    let attempts = rig.attempts(rig.saga_of(event).await.id).await;
    let [attempt] = attempts.as_slice() else { panic!("{attempts:?}") };
    assert_eq!((attempt.lease_resets, attempt.worker_id.as_deref()), (1, Some("worker-2")));
    rig.h.check_invariants().await;
}

pub(crate) async fn a_late_report_is_refused<S: Stores>(h: Harness<S>) {
    let mut rig = Rig::new(h);
    let gates = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
    let ([first, second], seen) = (gates.clone(), AtomicUsize::new(0));
    let receiver = Receiver::start(move |_| match seen.fetch_add(1, Ordering::SeqCst) {
        0 => Answer::Gate(Arc::clone(&first), Box::new(Answer::Status(200))),
        _ => Answer::Gate(Arc::clone(&second), Box::new(Answer::Status(500))),
    })
    .await;
    rig.subscribe("a", &receiver.url("/")).await;
    let event = rig.publish("a").await;
    rig.route().await;
    rig.admit().await;
    rig.send().await;
    receiver.wait_for(1).await;
    expire_lease(&rig);
    rig.clean().await;
    // Another worker holds the lease when the first one receives a successful response.
    let mut late = rig.processes.pop().expect("the first worker");
    rig.add_worker();
    rig.send().await;
    receiver.wait_for(2).await;
    let saga = rig.saga_of(event).await.id;
    let (row, attempts) = (rig.h.row("webhook_delivery_sagas", saga.get()).await, rig.attempts(saga).await);
    gates[0].add_permits(1);
    late.worker.settle().await;
    assert_eq!(rig.metrics.leases_lost.get(), 1);
    rig.apply().await;
    assert_eq!(rig.h.row("webhook_delivery_sagas", saga.get()).await, row);
    assert_eq!(rig.attempts(saga).await, attempts);
    // Only the report of the lease holder is accepted.
    gates[1].add_permits(1);
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(event).await, (SagaStatus::PendingRetry, 1, "HTTP_500".into()));
    assert_eq!((receiver.received().len(), rig.metrics.leases_lost.get()), (2, 1));
    rig.h.check_invariants().await;
}

pub(crate) async fn a_draining_worker_releases_its_jobs<S: Stores>(h: Harness<S>) {
    let mut rig = Rig::new(h);
    let receiver = slow_starter().await;
    rig.subscribe("a", &receiver.url("/")).await;
    let event = rig.publish("a").await;
    rig.route().await;
    rig.admit().await;
    rig.send().await;
    receiver.wait_for(1).await;
    let mut leaving = rig.processes.pop().expect("the first worker");
    leaving.worker.drain(&rig.clock, Duration::ZERO).await;
    drop(leaving);
    // The next worker claims the job before the lease would have expired, and no reset is counted.
    rig.add_worker();
    rig.until_quiet().await;
    assert_eq!(rig.fate_of(event).await, (SagaStatus::Completed, 1, String::new()));
    let attempts = rig.attempts(rig.saga_of(event).await.id).await;
    let [attempt] = attempts.as_slice() else { panic!("{attempts:?}") };
    assert_eq!((attempt.lease_resets, attempt.worker_id.as_deref()), (0, Some("worker-2")));
    assert_eq!(receiver.received().len(), 2);
    rig.h.check_invariants().await;
}

pub(crate) async fn a_job_that_kills_its_workers_fails_after_the_last_reset<S: Stores>(h: Harness<S>) {
    let mut rig = Rig::new(h);
    let receiver = Receiver::start(|_| Answer::Hang).await;
    rig.subscribe("a", &receiver.url("/")).await;
    let event = rig.publish("a").await;
    for life in 1..=4 {
        rig.route().await;
        rig.admit().await;
        rig.send().await;
        receiver.wait_for(life).await;
        rig.kill_workers();
        rig.add_worker();
        expire_lease(&rig);
        rig.clean().await;
    }
    let saga = rig.saga_of(event).await.id;
    rig.apply().await;
    assert_eq!(rig.fate_of(event).await, (SagaStatus::PendingRetry, 1, "LEASE_EXPIRED".into()));
    let attempts = rig.attempts(saga).await;
    let [attempt] = attempts.as_slice() else { panic!("{attempts:?}") };
    assert_eq!((attempt.status, attempt.lease_resets), (JobStatus::Failed, 4));
    rig.until_quiet().await;
    assert_eq!(receiver.received().len(), 4, "nothing is sent before the retry is due");
    // A job cannot be reported with the token of another claim.
    rig.move_by(Duration::from_secs(30));
    rig.admit().await;
    let (mine, foreign) = (claim(1), claim(1));
    assert!(rig.h.claim_all(&claim(1), rig.now()).await.is_empty(), "it is suspect");
    let job = rig.h.claim_suspect(&mine, rig.now()).await.expect("a suspect");
    let reports = vec![delivered(&job, foreign.token)];
    let answers = rig.h.store.worker().report_jobs(reports, rig.now()).await.expect("a result");
    assert_eq!(answers, [Report::LeaseLost]);
    rig.h.check_invariants().await;
}

/// The maximum number of rounds until the job in [`neighbours_of_a_job_that_kills_its_worker_are_delivered`] is
/// dead-lettered. Each of its five attempts kills four workers.
const ROUNDS_MAX: u32 = 200;

pub(crate) async fn neighbours_of_a_job_that_kills_its_worker_are_delivered<S: Stores>(h: Harness<S>) {
    let mut rig = Rig::new(h);
    let poisoned = Receiver::start(|_| Answer::Hang).await;
    // The receiver is healthy, but its requests are still in flight when the worker dies. Each round has its own
    // gate.
    let gate = Arc::new(Mutex::new(Arc::new(Semaphore::new(0))));
    let current = Arc::clone(&gate);
    let healthy = Receiver::start(move |_| {
        Answer::Gate(Arc::clone(&current.lock().expect("the gate")), Box::new(Answer::Status(200)))
    })
    .await;
    rig.subscribe("poison", &poisoned.url("/")).await;
    rig.subscribe("healthy", &healthy.url("/")).await;
    let poison = rig.publish("poison").await;
    let neighbours = rig.publish_many("healthy", 20).await;
    rig.route().await;
    let is_leased = format!(
        "SELECT count(*) FROM webhook_delivery_jobs WHERE status = 'Leased' AND saga_id = {}",
        rig.saga_of(poison).await.id
    );
    for _ in 0..ROUNDS_MAX {
        let opened = Arc::new(Semaphore::new(0));
        *gate.lock().expect("the gate") = Arc::clone(&opened);
        let sent = poisoned.received().len();
        rig.admit().await;
        // A suspect is claimed in a separate step. The following steps claim the other jobs.
        for _ in 0..3 {
            rig.send().await;
        }
        if rig.h.direct.number(&is_leased).await > 0 {
            poisoned.wait_for(sent + 1).await;
            rig.kill_workers();
            rig.add_worker();
            expire_lease(&rig);
        } else {
            opened.add_permits(Semaphore::MAX_PERMITS / 2);
            rig.settle().await;
            rig.move_by(Duration::from_secs(30));
        }
        rig.clean().await;
        rig.apply().await;
        if rig.saga_of(poison).await.state.status.is_terminal() {
            break;
        }
    }
    assert_eq!(rig.fate_of(poison).await, (SagaStatus::DeadLettered, 5, "LEASE_EXPIRED".into()));
    for event in neighbours {
        assert_eq!(rig.fate_of(event).await, (SagaStatus::Completed, 1, String::new()), "{event}");
    }
    let sent = healthy.received().len();
    assert!(sent <= 3 * 20, "{sent} requests: two next to the poison job and one alone, each");
    rig.h.check_invariants().await;
}
