//! Converts metrics from the OpenMetrics format of the registry to the Prometheus text format, which is returned unless
//! the client accepts OpenMetrics. In the text format, the name of a counter ends with `_total`, and there are no
//! `UNIT` and `EOF` lines.

use http::HeaderMap;
use http::header::ACCEPT;

pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
pub(crate) const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns whether the `Accept` header contains OpenMetrics.
pub(crate) fn asks_for_open_metrics(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|media| {
        media
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .eq_ignore_ascii_case("application/openmetrics-text")
    })
}

/// Converts metrics from OpenMetrics to the Prometheus text format.
pub(crate) fn as_text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    // The TYPE line follows the HELP line, so the type has to be looked up.
    let is_counter = |name: &str| {
        let prefix = format!("# TYPE {name} counter");
        open_metrics.lines().any(|line| line == prefix)
    };
    for line in open_metrics.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(keyword @ ("HELP" | "TYPE")), Some(name), Some(rest)) if is_counter(name) => {
                text.extend(["# ", keyword, " ", name, "_total ", rest]);
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn counters_are_named_like_their_samples() {
        let open = "# HELP a_events Events.\n# TYPE a_events counter\na_events_total 7\n\
                    # HELP a_seconds One step.\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\n\
                    a_seconds_sum 1.5\n# EOF\n";
        let text = "# HELP a_events_total Events.\n# TYPE a_events_total counter\na_events_total 7\n\
                    # HELP a_seconds One step.\n# TYPE a_seconds histogram\na_seconds_sum 1.5\n";
        assert_eq!(as_text(open), text);
    }

    #[test]
    fn open_metrics_is_returned_only_if_accepted() {
        for (accept, asked) in [
            (None, false),
            (Some("*/*"), false),
            (Some("text/plain;version=0.0.4;q=0.5,*/*;q=0.1"), false),
            (Some("application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5"), true),
            (Some("text/plain, Application/OpenMetrics-Text; version=1.0.0"), true),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(ACCEPT, HeaderValue::from_static(accept));
            }
            assert_eq!(asks_for_open_metrics(&headers), asked, "{accept:?}");
        }
    }
}
