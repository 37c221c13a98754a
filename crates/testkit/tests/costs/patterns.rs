//! Tests that the cost of routing an event depends on the subscriptions that match it, not on the number of
//! subscriptions with patterns. On PostgreSQL, the cost is the number of buffers of the statement; on SQLite, it is the
//! number of virtual machine steps of the statements.

use crate::backlog::{File, SUBSCRIPTIONS, Server};
use crate::plan::{buffers, top};
use crate::statements::load;
use posthaste_core::event::EventType;
use posthaste_core::pattern::probes;
use posthaste_testkit::fixtures::T0;
use rusqlite::types::Value;
use tokio_postgres::SimpleQueryMessage;

const FEW: i64 = 100;
const MANY: i64 = 10_000;

/// An event type of two segments, and one of more segments than have a probe.
const TYPES: [&str; 2] = ["order.paid", "order.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r"];
/// The number of subscriptions that match each of the types.
const MATCHING: [usize; 2] = [7, 6];

/// SQL that gives a pattern to each of the subscriptions, of which a few match the events. Half of the others are those
/// of another tenant, to all types.
const PATTERNS: &str = "
    INSERT INTO subscription_patterns (tenant, pattern, subscription_id, current)
        SELECT CASE WHEN k > 10 AND k % 2 = 0 THEN 'acme' ELSE '' END,
            CASE WHEN k <= 3 THEN 'order.*' WHEN k <= 6 THEN '*' WHEN k = 7 THEN 'order.paid'
                WHEN k > 10 AND k % 2 = 0 THEN '*' WHEN k % 4 = 1 THEN 'order.kind' || k ELSE 'kind' || k || '.*' END,
            k, {true}
        FROM {numbers};";

fn script(count: i64) -> [(&'static str, i64); 2] {
    [(SUBSCRIPTIONS, count), (PATTERNS, count)]
}

/// SQL that queues an event of this type with the id 1. Where triggers run, one of them has queued it.
fn queue(event_type: &str, created_at: &str) -> String {
    format!(
        "INSERT INTO events (id, event_type, payload, created_at) {{ids}} VALUES (1, '{event_type}', '1', {created_at});
         INSERT INTO routing_queue (event_id) VALUES (1) ON CONFLICT DO NOTHING;"
    )
}

/// Returns the number of buffers that routing one event of a type accesses.
async fn routed_on(server: &Server, event_type: &str, matching: usize) -> f64 {
    let client = &server.client;
    let event = queue(event_type, "now()").replace("{ids}", "OVERRIDING SYSTEM VALUE");
    client.batch_execute(&format!("BEGIN; {event}")).await.expect("an event");
    let prepare = format!("PREPARE routing AS {}", load("postgres", "router/route_events"));
    client.batch_execute(&prepare).await.expect("the statement");
    let sql = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE routing (0, 1, now(), false)";
    let answer = client.simple_query(sql).await.expect("a plan");
    let text = answer
        .iter()
        .find_map(|message| if let SimpleQueryMessage::Row(row) = message { row.get(0) } else { None });
    let explained: serde_json::Value = serde_json::from_str(text.expect("a plan")).expect("JSON");
    let sagas = client.query_one("SELECT count(*) FROM webhook_delivery_sagas", &[]).await.expect("a count");
    assert_eq!(usize::try_from(sagas.get::<_, i64>(0)), Ok(matching), "{event_type}");
    client.batch_execute("DEALLOCATE routing; ROLLBACK").await.expect("the end");
    buffers(top(&explained))
}

#[tokio::test]
async fn on_postgres_routing_costs_no_more_next_to_many_patterns() {
    let few = Server::with("patterns_few", &script(FEW)).await;
    let many = Server::with("patterns_many", &script(MANY)).await;
    for statistics in ["no", "fresh"] {
        for plan in ["force_custom_plan", "force_generic_plan"] {
            for server in [&few, &many] {
                let sql = format!("SET plan_cache_mode = {plan}");
                server.client.batch_execute(&sql).await.expect("a setting");
            }
            for (event_type, matching) in TYPES.into_iter().zip(MATCHING) {
                let next_to_few = routed_on(&few, event_type, matching).await;
                let next_to_many = routed_on(&many, event_type, matching).await;
                let found = format!(
                    "{statistics} statistics, {plan}, {event_type}: {next_to_few} buffers next to {FEW}, \
                     {next_to_many} next to {MANY}"
                );
                println!("{found}");
                assert!(2.0 * next_to_many <= 3.0 * next_to_few, "{found}");
            }
        }
        for server in [&few, &many] {
            server.client.batch_execute("ANALYZE").await.expect("statistics");
        }
    }
}

#[test]
fn on_sqlite_routing_costs_no_more_next_to_many_patterns() {
    for (event_type, matching) in TYPES.into_iter().zip(MATCHING) {
        let steps = |count: i64, analyzed: bool| {
            let file = File::with(&script(count));
            if analyzed {
                file.connection.execute_batch("ANALYZE").expect("statistics");
            }
            let event = queue(event_type, "0").replace("{ids}", "");
            file.connection.execute_batch(&event).expect("an event");
            let none = |_| Vec::new();
            let integers = |numbers: &[i64]| -> Vec<Value> {
                numbers.iter().map(|number| Value::Integer(*number)).collect()
            };
            let probes: Vec<Value> =
                probes(&EventType::parse(event_type).expect("a type")).into_iter().map(Value::Text).collect();
            let targets: Vec<i64> = (1..=matching as i64).collect();
            let lists = |place| integers(if place == 1 { &[1] } else { &targets });
            file.steps_with("router/fetch_queued_events", &integers(&[0, 1]), none, 1)
                + file.steps_with(
                    "router/match_subscriptions",
                    &[Value::Text(String::new())],
                    |_| probes.clone(),
                    matching,
                )
                + file.steps_with(
                    "router/insert_sagas",
                    &[Value::Null, Value::Null, Value::Integer(T0.micros())],
                    lists,
                    0,
                )
                + file.steps_with("router/delete_routed", &integers(&[1, 1]), none, 0)
        };
        for analyzed in [false, true] {
            let (next_to_few, next_to_many) = (steps(FEW, analyzed), steps(MANY, analyzed));
            println!("{event_type}: {next_to_few} steps next to {FEW}, {next_to_many} next to {MANY}");
            assert!(2 * next_to_many <= 3 * next_to_few, "{next_to_many} steps, {next_to_few} next to few");
        }
    }
}
