//! The conditions `If-Match` and `If-None-Match` (RFC 9110, section 13.1), by which a caller makes sure that it changes
//! the subscription that it has read. [`view`](super::view) defines the entity tag.

use super::view::entity_tag;
use crate::problem::{Problem, ProblemKind};
use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName};
use posthaste_core::subscription::Subscription;

/// The conditions of a request. Without conditions, it is carried out on any state.
#[derive(Debug, Default)]
pub(crate) struct Preconditions {
    if_match: Option<Tags>,
    if_none_match: Option<Tags>,
}

#[derive(Debug)]
enum Tags {
    /// `*`: any state of a subscription that exists.
    Any,
    List(Vec<String>),
}

impl Preconditions {
    /// Parses the conditions of a request.
    ///
    /// # Errors
    ///
    /// Returns a problem with status 422 if a header is not a list of entity tags.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        let (if_match, if_none_match) = (parse(headers, &IF_MATCH)?, parse(headers, &IF_NONE_MATCH)?);
        Ok(Self { if_match, if_none_match })
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.if_match.is_none() && self.if_none_match.is_none()
    }

    /// Checks the conditions against the current state, which is `None` if the subscription does not exist.
    ///
    /// # Errors
    ///
    /// Returns a problem with status 412 if a condition does not hold.
    pub(super) fn check(&self, current: Option<&Subscription>) -> Result<(), Problem> {
        let tag = current.map(|current| entity_tag(current.id, current.revision));
        let failed = |detail: &str| Err(Problem::of(ProblemKind::PreconditionFailed, detail));
        match (&self.if_match, &tag) {
            (None, _) | (Some(Tags::Any), Some(_)) => {}
            (Some(Tags::List(tags)), Some(tag)) if tags.contains(tag) => {}
            (Some(_), Some(_)) => {
                return failed(
                    "the subscription was changed since it was read (If-Match): read it again and repeat the change",
                );
            }
            (Some(_), None) => return failed("the subscription does not exist, but If-Match requires it"),
        }
        match (&self.if_none_match, &tag) {
            (Some(Tags::Any), Some(_)) => {
                failed("the subscription exists already, but If-None-Match requires that it does not")
            }
            // This header compares weakly: W/"1-1" is the same as "1-1".
            (Some(Tags::List(tags)), Some(tag)) if tags.iter().any(|one| one.ends_with(tag)) => {
                failed("the subscription is in the state that If-None-Match excludes")
            }
            (None | Some(_), _) => Ok(()),
        }
    }
}

fn parse(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>, Problem> {
    let wrong = || {
        let detail =
            format!("{name} must be * or a list of entity tags such as \"7-3\" (with quotation marks)");
        Problem::invalid_header(name.as_str(), detail)
    };
    let mut tags = Vec::new();
    for value in headers.get_all(name) {
        for tag in value.to_str().map_err(|_| wrong())?.split(',').map(str::trim) {
            tags.push(tag.to_owned());
        }
    }
    match tags.as_slice() {
        [] => Ok(None),
        [one] if one == "*" => Ok(Some(Tags::Any)),
        tags if tags.iter().all(|tag| is_tag(tag)) => Ok(Some(Tags::List(tags.to_vec()))),
        _ => Err(wrong()),
    }
}

fn is_tag(text: &str) -> bool {
    let quoted = text.strip_prefix("W/").unwrap_or(text);
    let inside = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inside.is_some_and(|inside| !inside.contains('"'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn conditions(name: &HeaderName, values: &[&str]) -> Result<Preconditions, Problem> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, HeaderValue::from_str(value).expect("a value"));
        }
        Preconditions::of(&headers)
    }

    #[test]
    fn lists_of_tags_are_parsed() {
        for (values, expected) in [
            (vec![], "None"),
            (vec!["*"], "Some(Any)"),
            (vec![r#""7-3""#], r#"Some(List(["\"7-3\""]))"#),
            (vec![r#""7-3", W/"7-4""#, r#""""#], r#"Some(List(["\"7-3\"", "W/\"7-4\"", "\"\""]))"#),
        ] {
            let parsed = conditions(&IF_MATCH, &values).expect("conditions");
            assert_eq!(format!("{:?}", parsed.if_match), expected, "{values:?}");
        }
        for bad in ["", "7-3", "*, \"7-3\"", "\"7-3", "\"a\"b\"", "\"7-3\","] {
            let problem = conditions(&IF_NONE_MATCH, &[bad]).expect_err(bad);
            assert_eq!((problem.status, problem.field.as_deref()), (422, Some("if-none-match")), "{bad}");
        }
    }

    #[test]
    fn absent_subscriptions_match_no_tag() {
        let status = |name: &HeaderName, value| {
            let checked = conditions(name, &[value]).and_then(|conditions| conditions.check(None));
            checked.map_or_else(|problem| problem.status, |()| 0)
        };
        assert_eq!((status(&IF_MATCH, "*"), status(&IF_MATCH, r#""1-1""#)), (412, 412));
        assert_eq!((status(&IF_NONE_MATCH, "*"), status(&IF_NONE_MATCH, r#""1-1""#)), (0, 0));
        assert!(Preconditions::default().is_empty() && Preconditions::default().check(None).is_ok());
    }
}
