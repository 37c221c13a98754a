//! Tests of the lane with refused credentials, outages and rate limits.

use proptest::prelude::*;

use super::*;
use crate::broker::{BrokerFault, PROCESSED_MARKER, classify_answer};
use crate::order::IdempotencyKey;

const UNREACHABLE: BrokerOutcome = BrokerOutcome::NoAnswer(BrokerFault::ConnectFailed);

fn at(millis: i64) -> Timestamp {
    Timestamp::from_micros(millis * 1000)
}

fn answer(status: u16) -> BrokerOutcome {
    let key = IdempotencyKey::parse("k").unwrap();
    classify_answer(status, b"{}", &key, PROCESSED_MARKER, None, at(0))
}

/// Returns the lane after the given outcomes, all at the same time.
fn after(lane: Lane, statuses: &[u16], now: Timestamp) -> Lane {
    statuses.iter().fold(lane, |lane, status| lane.after(&answer(*status), true, now))
}

#[test]
fn open_lane_allows_every_claim_and_needs_no_write() {
    let lane = Lane::open(at(0));
    assert_eq!(lane.may_claim(0, 32, at(0)), ClaimMode::Normal(32));
    assert_eq!(lane.may_claim(10_000, u32::MAX, at(0)), ClaimMode::Normal(u32::MAX));
    assert_eq!(lane.may_claim(0, 0, at(0)), ClaimMode::Nothing);
    assert_eq!(lane.clone().claimed(32, at(5)), lane);
    assert_eq!(after(lane.clone(), &[200, 200], at(5)), lane);
}

#[test]
fn consecutive_refusals_pause_the_lane() {
    let rows: &[(&[u16], bool)] = &[
        (&[401, 401, 401, 401], false),
        (&[401, 403, 401, 403, 401], true),
        (&[401, 401, 401, 401, 200, 401], false),
        (&[401, 401, 401, 401, 422, 401], false),
        // Outcomes that do not depend on the credentials do not interrupt the sequence.
        (&[401, 401, 500, 401, 429, 401, 500, 401], true),
    ];
    for (statuses, paused) in rows {
        let lane = after(Lane::open(at(0)), statuses, at(7));
        assert_eq!(lane.paused_at, paused.then_some(at(7)), "{statuses:?}");
        assert_eq!(lane.reason.is_some(), *paused, "{statuses:?}");
    }
}

#[test]
fn paused_lane_sends_probes_until_one_succeeds() {
    let paused = after(Lane::open(at(0)), &[401; 5], at(0));
    let wait = 30_000;
    assert_eq!(paused.may_claim(0, 32, at(wait - 1)), ClaimMode::Nothing);
    assert_eq!(paused.may_claim(0, 32, at(wait)), ClaimMode::Probe);
    // There is one probe at a time across all processes. A lost probe ends at its deadline.
    let probing = paused.clone().probing(at(wait + 10_000), at(wait));
    assert_eq!(probing.may_claim(1, 32, at(wait + 9_999)), ClaimMode::Nothing);
    assert_eq!(probing.may_claim(1, 32, at(wait + 10_000)), ClaimMode::Probe);
    for status in [401, 403, 400, 429, 302, 409] {
        let still = after(probing.clone(), &[status], at(wait + 500));
        assert_eq!(still.paused_at, Some(at(0)), "{status}");
        assert_eq!(still.may_claim(0, 1, at(wait + 500 + 29_999)), ClaimMode::Nothing, "{status}");
        assert_eq!(still.may_claim(0, 1, at(wait + 500 + 30_000)), ClaimMode::Probe, "{status}");
    }
    let through = after(probing, &[200], at(wait + 500));
    assert_eq!((through.paused_at, through.reason.clone(), through.unauthorized_in_row), (None, None, 0));
    assert_eq!(through.may_claim(0, 32, at(wait + 500)), ClaimMode::Normal(32));
}

#[test]
fn operator_resumes_the_lane() {
    let lane = after(Lane::open(at(0)), &[401; 7], at(0)).resumed(at(9));
    assert_eq!(lane, Lane::open(at(9)));
    let throttled = after(Lane::open(at(0)), &[429], at(0)).resumed(at(9));
    assert!(throttled.rate < RATE_MAX, "resuming does not change the rate");
    // Four further refusals are below the limit.
    assert_eq!(after(lane, &[401; 4], at(10)).paused_at, None);
}

#[test]
fn consecutive_faults_allow_one_order_at_a_time_with_growing_pauses() {
    let mut lane = after(Lane::open(at(0)), &[500, 503, 408, 500], at(0));
    assert_eq!(lane.may_claim(0, 32, at(0)), ClaimMode::Normal(32));
    let mut now = 0;
    for wait in [16_000, 32_000, 60_000, 60_000] {
        lane = lane.after(&UNREACHABLE, true, at(now));
        assert_eq!(lane.may_claim(0, 32, at(now + wait - 1)), ClaimMode::Nothing, "{wait}");
        assert_eq!(lane.may_claim(0, 32, at(now + wait)), ClaimMode::Probe, "{wait}");
        now += wait;
    }
    assert_eq!(lane.paused_at, None, "an outage does not pause the lane");
    for status in [200, 400, 401, 409, 429, 302] {
        let answered = after(lane.clone(), &[status], at(now));
        assert!(!answered.is_holding(), "{status}");
        assert_eq!(answered.probe_until, None, "{status}");
    }
    let once = after(lane, &[200, 500], at(now));
    assert_eq!((once.faults_in_row, once.may_claim(0, 9, at(now))), (1, ClaimMode::Normal(9)));
}

#[test]
fn outage_of_an_hour_costs_about_seventy_sends() {
    let mut lane = Lane::open(at(0));
    let mut sends = 0;
    for second in 0..3600 {
        let now = at(second * 1000);
        if lane.may_claim(0, 1, now) != ClaimMode::Nothing {
            lane = lane.after(&UNREACHABLE, true, now);
            sends += 1;
        }
    }
    assert!((60..80).contains(&sends), "{sends}");
}

#[test]
fn each_burst_of_429_halves_the_rate_once() {
    let rows: &[(&[(u16, i64)], f64)] = &[
        (&[(429, 0)], 500.0),
        (&[(429, 0), (429, 10), (429, 999)], 500.0),
        (&[(429, 0), (429, 1000)], 250.0),
        (&[(429, 0), (200, 10)], 500.002),
    ];
    for (answers, expected) in rows {
        let lane = answers.iter().fold(Lane::open(at(0)), |lane, (status, millis)| {
            lane.after(&answer(*status), true, at(*millis))
        });
        assert!((lane.rate - expected).abs() < 1e-9, "{answers:?}: {}", lane.rate);
    }
    let bottom = (0..100).fold(Lane::open(at(0)), |lane, n| after(lane, &[429], at(n * 2000)));
    assert_eq!(bottom.rate.to_bits(), RATE_MIN.to_bits());
}

#[test]
fn one_second_of_successes_adds_the_step() {
    for rate in [1.0, 10.0, 200.0] {
        let lane = Lane { rate, ..Lane::open(at(0)) };
        let after = (0..rate as u32).fold(lane, |lane, _| after(lane, &[200], at(0)));
        assert!((after.rate - rate - RATE_STEP).abs() < 0.06, "{rate} became {}", after.rate);
    }
    let slow = after(Lane { rate: RATE_MIN, ..Lane::open(at(0)) }, &[200], at(0));
    assert!((slow.rate - RATE_MIN - RATE_STEP).abs() < 1e-9);
}

#[test]
fn throttled_lane_sends_at_its_rate() {
    let mut lane = Lane { rate: 10.0, ..Lane::open(at(0)) };
    // Columns: time in milliseconds, wanted, allowed.
    let rows = [
        (0, 32, ClaimMode::Normal(1)), // no capacity accumulated yet
        (99, 32, ClaimMode::Nothing),
        (100, 32, ClaimMode::Normal(1)),
        (450, 32, ClaimMode::Normal(3)),
        (499, 1, ClaimMode::Nothing),
        (700, 1, ClaimMode::Normal(1)),
        (700, 32, ClaimMode::Normal(2)),
        (9_000, 32, ClaimMode::Normal(11)), // the capacity of one second, and the order that is due
        (9_050, 32, ClaimMode::Nothing),
    ];
    for (millis, wanted, expected) in rows {
        let mode = lane.may_claim(5, wanted, at(millis));
        assert_eq!(mode, expected, "at {millis} ms");
        if let ClaimMode::Normal(sends) = mode {
            lane = lane.claimed(sends, at(millis));
        }
    }
}

#[test]
fn clock_step_back_does_not_stop_the_lane() {
    let lane = Lane { rate: 10.0, next_send_at: Some(at(3_600_000)), ..Lane::open(at(0)) };
    assert_eq!(lane.may_claim(0, 5, at(0)), ClaimMode::Normal(1));
}

proptest! {
    #[test]
    fn invariants_hold_after_any_history(
        rate in any::<f64>(),
        history in prop::collection::vec((0_u16..700, any::<i64>(), any::<u32>(), any::<u32>()), 0..50),
    ) {
        let mut lane = Lane { rate, ..Lane::open(at(0)) };
        for (status, micros, in_flight, wanted) in history {
            let now = Timestamp::from_micros(micros);
            lane = lane.after(&answer(status), true, now);
            match lane.may_claim(in_flight, wanted, now) {
                ClaimMode::Normal(sends) => {
                    prop_assert!(sends >= 1 && sends <= wanted && !lane.is_holding());
                    lane = lane.claimed(sends, now);
                }
                ClaimMode::Probe => {
                    prop_assert!(lane.is_holding());
                    lane = lane.probing(now.after(PROBE_WAIT), now);
                }
                ClaimMode::Nothing => {}
            }
            lane = lane.claimed(in_flight, now);
            let in_force = lane.rate_in_force();
            prop_assert!((RATE_MIN..=RATE_MAX).contains(&in_force));
            prop_assert_eq!(lane.paused_at.is_some(), lane.reason.is_some());
        }
    }

    #[test]
    fn rate_is_never_exceeded_over_any_span(
        rate in 0.2_f64..500.0,
        gaps in prop::collection::vec(0_i64..700, 1..100),
    ) {
        let mut lane = Lane { rate, ..Lane::open(at(0)) };
        let mut now = 0;
        let mut sent = 0_u32;
        for gap in gaps {
            now += gap;
            if let ClaimMode::Normal(sends) = lane.may_claim(0, 1000, at(now)) {
                sent += sends;
                lane = lane.claimed(sends, at(now));
            }
            let allowed = (now as f64 / 1000.0 + 1.0) * rate + 1.0;
            prop_assert!(f64::from(sent) <= allowed + 0.01, "{} sent after {} ms at {}", sent, now, rate);
        }
    }
}

#[test]
fn mode_and_next_claim_are_derived_from_the_row() {
    let open = Lane::open(at(0));
    let throttled = Lane { rate: 4.0, ..open.clone() };
    let unreachable = Lane { faults_in_row: FAULTS_MAX, ..open.clone() };
    let paused = Lane { paused_at: Some(at(0)), ..unreachable.clone() };
    let next = |lane: &Lane, until| Lane { probe_until: Some(at(until)), ..lane.clone() };
    let rows = [
        (open.clone(), LaneMode::Open, None),
        (Lane { next_send_at: Some(at(15)), ..open.clone() }, LaneMode::Open, None),
        (throttled.clone(), LaneMode::Throttled, None),
        (Lane { next_send_at: Some(at(15)), ..throttled.clone() }, LaneMode::Throttled, Some(at(15))),
        (Lane { next_send_at: Some(at(10)), ..throttled.clone() }, LaneMode::Throttled, None),
        (Lane { next_send_at: Some(at(50_000)), ..throttled }, LaneMode::Throttled, None),
        (unreachable.clone(), LaneMode::OneAtATime, None),
        (next(&unreachable, 12), LaneMode::OneAtATime, Some(at(12))),
        (next(&unreachable, 10), LaneMode::OneAtATime, None),
        (paused.clone(), LaneMode::Paused, None),
        (next(&paused, 40), LaneMode::Paused, Some(at(40))),
        (Lane { rate: 4.0, ..unreachable.clone() }, LaneMode::OneAtATime, None),
        (Lane { rate: 4.0, ..paused.clone() }, LaneMode::Paused, None),
    ];
    for (lane, mode, next_claim_at) in rows {
        assert_eq!(lane.is_throttled(), lane.rate < RATE_MAX, "in every state: {lane:?}");
        assert_eq!(lane.is_holding(), matches!(mode, LaneMode::OneAtATime | LaneMode::Paused), "{lane:?}");
        assert_eq!((lane.mode(), lane.next_claim_at(at(10))), (mode, next_claim_at), "{lane:?}");
        if let Some(at) = next_claim_at {
            assert_eq!(lane.may_claim(0, 1, at.before(Duration::from_micros(1))), ClaimMode::Nothing);
            assert_ne!(lane.may_claim(0, 1, at), ClaimMode::Nothing);
        }
    }
}

#[test]
fn only_a_probe_ends_a_pause() {
    let paused = after(Lane::open(at(0)), &[401; 5], at(1));
    assert!(paused.paused_at.is_some());
    let late = paused.clone().after(&answer(200), false, at(2));
    assert_eq!((late.paused_at, late.reason.as_deref()), (paused.paused_at, paused.reason.as_deref()));
    assert_eq!(late.unauthorized_in_row, 5, "the refusals still count");
    assert_eq!(paused.after(&answer(200), true, at(2)).paused_at, None);
    let faulty = (0..FAULTS_MAX).fold(Lane::open(at(0)), |lane, _| lane.after(&UNREACHABLE, false, at(1)));
    assert_eq!(faulty.after(&answer(200), false, at(2)).mode(), LaneMode::Open, "a response ends the outage");
}
