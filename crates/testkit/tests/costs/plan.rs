//! Checks the output of `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)` against limits.

use crate::LARGE;
use serde_json::Value;

/// The limits for one statement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// The maximum number of rows that a single node of the plan may read, including filtered rows.
    pub(crate) rows_max: f64,
    pub(crate) buffers_max: f64,
}

/// Returns the root node of the plan.
pub(crate) fn top(explained: &Value) -> &Value {
    &explained[0]["Plan"]
}

/// Returns the number of pages that the statement accessed, cached or not.
pub(crate) fn buffers(top: &Value) -> f64 {
    figure(top, "Shared Hit Blocks") + figure(top, "Shared Read Blocks")
}

/// Returns all violations of `bounds` in a plan.
pub(crate) fn faults(top: &Value, bounds: Bounds) -> Vec<String> {
    let mut faults = Vec::new();
    examine(top, false, bounds, &mut faults);
    let touched = buffers(top);
    if touched > bounds.buffers_max {
        faults.push(format!("touches {touched} buffers, more than {}", bounds.buffers_max));
    }
    faults
}

fn examine(node: &Value, below_limit: bool, bounds: Bounds, faults: &mut Vec<String>) {
    let kind = node["Node Type"].as_str().expect("a type");
    let table = node["Relation Name"].as_str().unwrap_or_default();
    let index = node["Index Name"].as_str().unwrap_or_default();
    if kind == "Seq Scan" && LARGE.contains(&table) {
        faults.push(format!("sequential scan of {table}"));
    }
    // Below a Limit, this is an ordered index scan that stops early, as the row counts of the nodes prove.
    let walks_all = matches!(kind, "Index Scan" | "Index Only Scan") && node["Index Cond"].is_null();
    if walks_all && LARGE.contains(&table) && !below_limit {
        faults.push(format!("{kind} of all of {index} on {table}"));
    }
    let removed = figure(node, "Rows Removed by Filter")
        + figure(node, "Rows Removed by Index Recheck")
        + figure(node, "Rows Removed by Join Filter");
    let rows = (figure(node, "Actual Rows") + removed) * figure(node, "Actual Loops");
    if rows > bounds.rows_max {
        faults.push(format!("{kind} {table} {index} reads {rows} rows, more than {}", bounds.rows_max));
    }
    let below_limit = below_limit || kind == "Limit";
    for child in node["Plans"].as_array().into_iter().flatten() {
        examine(child, below_limit, bounds, faults);
    }
}

fn figure(node: &Value, name: &str) -> f64 {
    node[name].as_f64().unwrap_or(0.0)
}
