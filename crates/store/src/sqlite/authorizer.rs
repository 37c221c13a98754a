//! The walls between the roles within one process: SQLite asks [`judge`] for every access of a
//! statement when the statement is prepared, and the answer comes from [`grants`](crate::grants).
//!
//! PostgreSQL runs guards, audits and functions with the rights of the owner. Here they are triggers
//! and views, and SQLite says which of them an access comes from; [`OWNER_CODE`] lists what each may
//! touch, and which right of the role leads there.

use std::sync::atomic::{AtomicU8, Ordering};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use crate::grants::{self, Role, Verb};

/// Who works on a connection at the moment. The thread that owns the connection sets it before every
/// piece of work; the authorizer of the connection reads it.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// 0 is the owner, for whom everything is allowed; else the place in [`Role::ALL`], from 1 on.
    current: AtomicU8,
}

impl Gate {
    pub(super) fn admit(&self, role: Option<Role>) {
        let place = role.and_then(|role| Role::ALL.iter().position(|one| *one == role));
        let number = place.map_or(0, |place| u8::try_from(place + 1).unwrap_or(u8::MAX));
        self.current.store(number, Ordering::Relaxed);
    }

    /// What the authorizer answers for whoever works now.
    pub(super) fn judge(&self, context: &AuthContext<'_>) -> Authorization {
        let allowed = match self.current.load(Ordering::Relaxed) {
            0 => true,
            number => {
                let role = Role::ALL.get(usize::from(number) - 1);
                role.is_some_and(|role| judge(*role, context))
            }
        };
        if allowed { Authorization::Allow } else { Authorization::Deny }
    }
}

/// Table-valued functions that hold nothing but what the statement itself brings.
const TABLE_FUNCTIONS: [&str; 2] = ["rarray", "json_each"];

#[expect(clippy::wildcard_enum_match_arm, reason = "what is not named here is refused, new actions too")]
fn judge(role: Role, context: &AuthContext<'_>) -> bool {
    match context.action {
        AuthAction::Select | AuthAction::Recursive | AuthAction::Function { .. } => true,
        AuthAction::Read { table_name, .. } if TABLE_FUNCTIONS.contains(&table_name) => true,
        AuthAction::Read { table_name, column_name } => {
            // An empty column asks for the rows alone, as count(*) does.
            let column = Some(column_name).filter(|name| !name.is_empty());
            may(role, Verb::Select, table_name, column, context.accessor)
        }
        AuthAction::Insert { table_name } => may(role, Verb::Insert, table_name, None, context.accessor),
        AuthAction::Update { table_name, column_name } => {
            may(role, Verb::Update, table_name, Some(column_name), context.accessor)
        }
        AuthAction::Delete { table_name } => may(role, Verb::Delete, table_name, None, context.accessor),
        _ => false,
    }
}

fn may(role: Role, verb: Verb, table: &str, column: Option<&str>, accessor: Option<&str>) -> bool {
    if let Some(code) = accessor.and_then(|name| OWNER_CODE.iter().find(|code| code.name == name)) {
        return code.may(role, verb, table, column);
    }
    // Any other accessor is a name within the statement itself, of a WITH for example.
    grants::allows(role, verb, table, column) || may_call(role, verb, table)
}

/// The functions of the owner that are views here.
const VIEW_FUNCTIONS: [&str; 5] = [
    grants::COMPARE_EVENTS,
    grants::REQUEUE,
    grants::RESUME_LANE,
    grants::REPORT_PRESENCE,
    grants::REPORT_HEALTH,
];

/// Writing to, or reading, the view that stands for a function.
fn may_call(role: Role, verb: Verb, view: &str) -> bool {
    let calls = match verb {
        Verb::Insert | Verb::Select => true,
        Verb::Update | Verb::Delete | Verb::Execute => false,
    };
    calls
        && VIEW_FUNCTIONS.into_iter().any(|function| {
            grants::sqlite_views(function).contains(&view)
                && grants::allows(role, Verb::Execute, function, None)
        })
}

/// One trigger or view of the schema.
#[derive(Debug)]
pub(super) struct OwnerCode {
    pub(super) name: &'static str,
    /// The rights that lead here, any of them; a guard stands before everybody.
    led_by: &'static [(Verb, &'static str)],
    /// What it touches; no columns means all.
    touches: &'static [(Verb, &'static str, &'static [&'static str])],
}

impl OwnerCode {
    fn may(&self, role: Role, verb: Verb, table: &str, column: Option<&str>) -> bool {
        let led = self.led_by.is_empty()
            || self.led_by.iter().any(|(verb, object)| grants::allows(role, *verb, object, None));
        led && self.touches.iter().any(|(one, name, columns)| {
            *one == verb
                && *name == table
                && column.is_none_or(|column| columns.is_empty() || columns.contains(&column))
        })
    }
}

/// A trigger that looks at the row it stands before, and at nothing else.
const fn guard(
    name: &'static str,
    touches: &'static [(Verb, &'static str, &'static [&'static str])],
) -> OwnerCode {
    OwnerCode { name, led_by: &[], touches }
}

const SUBSCRIPTION_ROW: &[(Verb, &str, &[&str])] = &[(Verb::Select, "subscriptions", &["id", "deleted_at"])];
const LEDGER_ROW: &[(Verb, &str, &[&str])] = &[(Verb::Select, "idempo_ledger", &[])];
const SAGA_ROW: &[(Verb, &str, &[&str])] = &[(Verb::Select, "webhook_delivery_sagas", &[])];
const JOB_ROW: &[(Verb, &str, &[&str])] = &[(Verb::Select, "webhook_delivery_jobs", &[])];
const ORDER_ROW: &[(Verb, &str, &[&str])] = &[(Verb::Select, "outbox_orders", &[])];
const KEY_ROW: &[(Verb, &str, &[&str])] = &[(Verb::Select, "api_keys", &[])];
const CHANGE: &[(Verb, &str, &[&str])] =
    &[(Verb::Select, "subscriptions", &[]), (Verb::Insert, "subscription_changes", &[])];
const AUDIT: &[(Verb, &str, &[&str])] =
    &[(Verb::Select, "outbox_orders", &[]), (Verb::Insert, "outbox_audit", &[])];

/// Every trigger and view of the schema; a test compares it with the schema itself. No statement of a
/// role may contain the name of a trigger: SQLite reports a WITH of that name as if it were the trigger.
pub(super) const OWNER_CODE: &[OwnerCode] = &[
    OwnerCode {
        name: "event_queue",
        led_by: &[(Verb::Insert, "events")],
        touches: &[(Verb::Select, "events", &["id"]), (Verb::Insert, "routing_queue", &[])],
    },
    guard("event_immutable_update", &[]),
    guard("event_immutable_delete", &[]),
    OwnerCode {
        name: "subscription_change_insert",
        led_by: &[(Verb::Insert, "subscriptions")],
        touches: CHANGE,
    },
    OwnerCode {
        name: "subscription_change_update",
        led_by: &[(Verb::Update, "subscriptions")],
        touches: CHANGE,
    },
    guard("subscription_stays", &[]),
    guard("subscription_deleted", SUBSCRIPTION_ROW),
    guard("subscription_identity", SUBSCRIPTION_ROW),
    guard("ledger_identity", LEDGER_ROW),
    guard("subscription_change_immutable_update", &[]),
    guard("subscription_change_immutable_delete", &[]),
    guard("saga_first_state", SAGA_ROW),
    guard("saga_transition", SAGA_ROW),
    guard("saga_identity", SAGA_ROW),
    guard("saga_stays", &[]),
    guard("job_first_state", JOB_ROW),
    guard("job_transition", JOB_ROW),
    guard("job_identity", JOB_ROW),
    guard("job_stays", &[]),
    guard("dead_letter_immutable_update", &[]),
    guard("dead_letter_immutable_delete", &[]),
    OwnerCode {
        name: "saga_dead_letter",
        led_by: &[(Verb::Update, "webhook_delivery_sagas")],
        touches: &[
            (Verb::Select, "webhook_delivery_sagas", &[]),
            (Verb::Select, "events", &["id", "payload"]),
            (Verb::Insert, "dead_letters", &[]),
        ],
    },
    guard("compare_events", &[]),
    OwnerCode {
        name: "compare_events_insert",
        led_by: &[(Verb::Execute, grants::COMPARE_EVENTS)],
        touches: &[
            (Verb::Select, "compare_events", &[]),
            (Verb::Select, "events", &["external_event_id", "event_type", "payload"]),
        ],
    },
    OwnerCode {
        name: "requeue",
        led_by: &[(Verb::Execute, grants::REQUEUE)],
        touches: &[
            (Verb::Select, "dead_letters", &["id", "subscription_id"]),
            (Verb::Select, "webhook_delivery_sagas", &["id", "requeued_from"]),
            (Verb::Select, "subscriptions", &["id", "deleted_at"]),
        ],
    },
    OwnerCode {
        name: "requeue_insert",
        led_by: &[(Verb::Execute, grants::REQUEUE)],
        touches: &[
            (Verb::Select, "requeue", &[]),
            (Verb::Select, "dead_letters", &["id", "event_id", "subscription_id"]),
            (Verb::Select, "subscriptions", &["id", "deleted_at"]),
            (Verb::Select, "webhook_delivery_sagas", &["requeued_from"]),
            (Verb::Insert, "webhook_delivery_sagas", &[]),
        ],
    },
    OwnerCode {
        name: "resume_lane",
        led_by: &[(Verb::Execute, grants::RESUME_LANE)],
        touches: &[(Verb::Select, "outbox_lane", &[])],
    },
    OwnerCode {
        name: "resume_lane_insert",
        led_by: &[(Verb::Execute, grants::RESUME_LANE)],
        touches: &[
            (Verb::Select, "resume_lane", &[]),
            (Verb::Select, "outbox_lane", &["id"]),
            (Verb::Update, "outbox_lane", &[]),
        ],
    },
    OwnerCode {
        name: "ledger_outlives_order",
        led_by: &[(Verb::Delete, "idempo_ledger")],
        touches: &[(Verb::Select, "idempo_ledger", &[]), (Verb::Select, "outbox_orders", &[])],
    },
    OwnerCode { name: "order_audit_insert", led_by: &[(Verb::Insert, "outbox_orders")], touches: AUDIT },
    OwnerCode { name: "order_audit_update", led_by: &[(Verb::Update, "outbox_orders")], touches: AUDIT },
    guard("order_first_state", ORDER_ROW),
    guard("order_transition", ORDER_ROW),
    guard("order_counts_with_transition", ORDER_ROW),
    guard("order_identity", ORDER_ROW),
    guard("order_stays", &[]),
    guard("audit_immutable_update", &[]),
    guard("audit_immutable_delete", &[]),
    guard("key_first_state", KEY_ROW),
    guard("key_identity", KEY_ROW),
    guard("key_revoked", KEY_ROW),
    guard("key_stays", &[]),
    guard("operator_audit_immutable_update", &[]),
    guard("operator_audit_immutable_delete", &[]),
    guard("presence_reports", &[]),
    OwnerCode {
        name: "presence_report_insert",
        led_by: &[(Verb::Execute, grants::REPORT_PRESENCE)],
        touches: &[
            (Verb::Select, "presence_reports", &[]),
            (Verb::Select, "processes", &[]),
            (Verb::Insert, "processes", &[]),
            (Verb::Update, "processes", &[]),
            (Verb::Delete, "processes", &[]),
            (Verb::Select, "rollups", &[]),
            (Verb::Delete, "rollups", &[]),
        ],
    },
    guard("rollup_reports", &[]),
    OwnerCode {
        name: "rollup_report_insert",
        led_by: &[(Verb::Execute, grants::REPORT_PRESENCE)],
        touches: &[
            (Verb::Select, "rollup_reports", &[]),
            (Verb::Select, "rollups", &[]),
            (Verb::Insert, "rollups", &[]),
            (Verb::Update, "rollups", &[]),
        ],
    },
    guard("health_reports", &[]),
    OwnerCode {
        name: "health_report_insert",
        led_by: &[(Verb::Execute, grants::REPORT_HEALTH)],
        touches: &[
            (Verb::Select, "health_reports", &[]),
            (Verb::Select, "subscriptions", &["id"]),
            (Verb::Select, "subscription_health", &[]),
            (Verb::Insert, "subscription_health", &[]),
            (Verb::Update, "subscription_health", &[]),
            (Verb::Delete, "subscription_health", &[]),
        ],
    },
];

/// Views that a role writes to or reads by name; every other entry of [`OWNER_CODE`] is a trigger.
pub(super) const VIEWS: [&str; 6] =
    ["compare_events", "requeue", "resume_lane", "presence_reports", "rollup_reports", "health_reports"];
