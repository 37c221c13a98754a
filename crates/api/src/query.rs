//! Parses query parameters and cursors, and creates JSON responses. A cursor is opaque to clients. It contains the name
//! of its list and the last returned id, so it stays valid while rows are inserted.

use crate::problem::{Problem, ValidationErrors};
use crate::values::{Parameter, described, number_schema, string_schema};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode, Uri};
use posthaste_core::ids::IdOutOfRange;
use posthaste_core::ports::{Page, PageRequest};
use serde::Serialize;
use utoipa::openapi::path::{Parameter as Described, ParameterIn};
use utoipa::{IntoParams, ToSchema};

/// Encodes the query parameters that are not empty.
pub(crate) fn write_query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let filled = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(filled).finish()
}

/// The maximum number of parameters of a query or form, more than any operation has. Bounds the search for repeated
/// names, which is quadratic.
const PARAMETERS_MAX: usize = 100;

/// Decodes the parameters of a query string or form body.
///
/// # Errors
///
/// Returns a problem if there are more than [`PARAMETERS_MAX`] parameters. The remaining parameters are not decoded.
pub(crate) fn parameters(text: &[u8]) -> Result<Vec<(String, String)>, Problem> {
    let mut decoded = url::form_urlencoded::parse(text);
    let pairs =
        decoded.by_ref().take(PARAMETERS_MAX).map(|(name, value)| (name.into_owned(), value.into_owned()));
    let pairs = pairs.collect();
    if decoded.next().is_some() {
        let detail = format!("there are too many parameters: send at most {PARAMETERS_MAX}");
        return Err(Problem::invalid_parameter("parameters", detail));
    }
    Ok(pairs)
}

/// The default number of items on a page.
pub(crate) const ITEMS_DEFAULT: u32 = 50;
/// The maximum number of items on a page.
pub(crate) const ITEMS_MAX: u32 = 200;

/// The query parameters that have not been read yet, and the errors found so far.
#[derive(Debug)]
pub(crate) struct Query {
    pairs: Vec<(String, String)>,
    errors: ValidationErrors,
}

impl Query {
    /// Parses the query parameters of `uri`. A parameter without a value is treated as absent.
    ///
    /// # Errors
    ///
    /// Returns a problem if a parameter occurs twice or if there are too many parameters.
    pub(crate) fn of(uri: &Uri) -> Result<Self, Problem> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for (name, value) in parameters(uri.query().unwrap_or_default().as_bytes())? {
            if pairs.iter().any(|(known, _)| *known == name) {
                let name = shortened(&name);
                return Err(Problem::invalid_parameter(&name, format!("{name} occurs twice: send it once")));
            }
            pairs.push((name, value));
        }
        pairs.retain(|(name, value)| !value.is_empty() || name.is_empty());
        Ok(Self { pairs, errors: ValidationErrors::default() })
    }

    /// Removes a parameter and returns its text, or `None` if it is absent.
    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let index = self.pairs.iter().position(|(found, _)| found == name)?;
        Some(self.pairs.swap_remove(index).1)
    }

    /// Removes the parameters whose names begin with `prefix`, and returns them without it.
    pub(crate) fn take_prefixed(&mut self, prefix: &str) -> Vec<(String, String)> {
        let taken = self.pairs.extract_if(.., |(name, _)| name.starts_with(prefix));
        taken.map(|(name, value)| (name.trim_start_matches(prefix).to_owned(), value)).collect()
    }

    /// Removes a parameter and returns its value, or `None` if it is absent.
    ///
    /// # Errors
    ///
    /// Returns a problem if the value is not valid.
    pub(crate) fn get<T: Parameter>(&mut self, name: &str) -> Result<Option<T>, Problem> {
        let read = self.take(name).map(|text| T::read(name, text)).transpose();
        read.map_err(|detail| Problem::invalid_parameter(name, detail))
    }

    /// Removes a parameter and returns its value. If the value is not valid, records an error and returns `None`.
    pub(crate) fn read<T: Parameter>(&mut self, name: &str) -> Option<T> {
        let value = self.get(name);
        self.errors.check(value).flatten()
    }

    /// Reads a boolean parameter. The default is `false`.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        self.read::<bool>(name).unwrap_or(false)
    }

    /// Reads the parameters `limit` and `cursor`.
    pub(crate) fn page(&mut self, list: &str) -> PageRequest {
        let limit = self.take("limit").map_or(Some(ITEMS_DEFAULT), |text| text.parse().ok());
        let items_max = limit.filter(|limit| (1..=ITEMS_MAX).contains(limit)).unwrap_or_else(|| {
            let detail = format!("limit must be a whole number from 1 to {ITEMS_MAX}");
            self.errors.add(Problem::invalid_parameter("limit", detail));
            ITEMS_DEFAULT
        });
        let after = self.take("cursor").and_then(|text| self.errors.check(read_cursor(list, &text)));
        PageRequest::first(items_max).behind(after)
    }

    /// Checks that no error was recorded and no unknown parameter remains.
    ///
    /// # Errors
    ///
    /// Returns a problem that lists all errors.
    pub(crate) fn finish(mut self) -> Result<(), Problem> {
        for (name, _) in self.pairs {
            let name = shortened(&name);
            let detail = format!("{name} is not a known parameter: leave it out, or check its spelling");
            self.errors.add(Problem::invalid_parameter(&name, detail));
        }
        self.errors.into_result()
    }
}

/// Returns at most the first 100 characters of a name, for an error message.
fn shortened(name: &str) -> String {
    name.chars().take(100).collect()
}

/// The query parameters `limit` and `cursor`, which [`Query::page`] reads.
#[derive(Debug)]
pub(crate) struct PageParameters;

impl PageParameters {
    pub(crate) fn described() -> [Described; 2] {
        let limit =
            number_schema().minimum(Some(1)).maximum(Some(ITEMS_MAX)).default(Some(ITEMS_DEFAULT.into()));
        [
            described("limit", "The maximum number of items on the page.", limit.build()),
            described("cursor", "The `next_cursor` of the previous page.", string_schema().build()),
        ]
    }
}

impl IntoParams for PageParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Described> {
        Self::described().into()
    }
}

/// Parses an id in a path.
///
/// # Errors
///
/// Returns a problem if the text is not a number from 1 to 2⁶³ − 1.
pub(crate) fn id<T>(name: &str, text: &str, new: fn(i64) -> Result<T, IdOutOfRange>) -> Result<T, Problem> {
    read_id(name, text, new).map_err(|detail| Problem::invalid_parameter(name, detail))
}

/// Parses the id in the parameter or field `name`.
///
/// # Errors
///
/// Returns an error message if the id is not valid.
pub(crate) fn read_id<T>(
    name: &str,
    text: &str,
    new: fn(i64) -> Result<T, IdOutOfRange>,
) -> Result<T, String> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| plain).and_then(|raw| new(raw).ok());
    number.ok_or_else(|| format!("{name} must be a whole number from 1 to {}", i64::MAX))
}

/// Decodes a cursor of the list `list`.
///
/// # Errors
///
/// Returns a problem if the text is not a cursor, or if it belongs to another list.
pub(crate) fn read_cursor(list: &str, text: &str) -> Result<i64, Problem> {
    let decoded = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let after = decoded.as_deref().and_then(|inner| {
        let (of, after) = inner.split_once(':')?;
        if of == list { after.parse().ok() } else { None }
    });
    after.filter(|after: &i64| *after >= 0).ok_or_else(|| {
        Problem::invalid_parameter("cursor", "cursor must be the next_cursor of a page of the same list")
    })
}

/// Encodes the cursor of the next page, or returns `None` if there is none.
pub(crate) fn write_cursor(list: &str, next: Option<i64>) -> Option<String> {
    next.map(|next| URL_SAFE_NO_PAD.encode(format!("{list}:{next}")))
}

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Listed<T> {
    /// The items of this page. With a filter, a page may be empty although more pages follow.
    pub(crate) items: Vec<T>,
    /// The `cursor` of the next page; null on the last page.
    pub(crate) next_cursor: Option<String>,
}

impl<T> Listed<T> {
    /// Returns a page without items that is the last one.
    pub(crate) const fn empty() -> Self {
        Self { items: Vec::new(), next_cursor: None }
    }

    pub(crate) fn of<U>(list: &str, page: Page<U>, view: impl Fn(U) -> T) -> Self {
        let next_cursor = write_cursor(list, page.next);
        Self { items: page.items.into_iter().map(view).collect(), next_cursor }
    }
}

/// Creates a JSON response.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Result<Response, Problem> {
    let text = serde_json::to_vec(body);
    let text = text.map_err(|error| Problem::broken("the response could not be serialized", &error))?;
    Ok((status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], text).into_response())
}

/// Creates a JSON response with status 200.
pub(crate) fn ok(body: &impl Serialize) -> Result<Response, Problem> {
    json(StatusCode::OK, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_valid_for_its_own_list_only() {
        let cursor = write_cursor("events", Some(41)).expect("a cursor");
        assert_eq!(read_cursor("events", &cursor).expect("the id"), 41);
        for bad in ["", "x", "ZXZlbnRzOg", "*", cursor.get(1..).expect("a part")] {
            assert_eq!(read_cursor("events", bad).expect_err(bad).status, 422);
        }
        assert!(read_cursor("deliveries", &cursor).is_err());
    }

    #[test]
    fn parameters_are_checked_and_all_errors_are_reported() {
        let page = |query: &str| {
            let uri: Uri = format!("/v1/events?{query}").parse().expect("a URI");
            let mut query = Query::of(&uri)?;
            let page = query.page("events");
            query.finish().map(|()| page.items_max)
        };
        assert_eq!(page("").expect("a page"), 50);
        assert_eq!(page("limit=200&cursor=").expect("a page"), 200);
        for bad in ["limit=0", "limit=201", "limit=x", "limit=1&limit=1", "limits=1", "cursor=x"] {
            assert_eq!(page(bad).expect_err(bad).status, 422, "{bad}");
        }
        let problem = page("cursor=x&limit=x&more=1").expect_err("three errors");
        let errors = serde_json::to_value(&problem.errors).expect("JSON");
        let parameters: Vec<_> =
            errors.as_array().expect("a list").iter().map(|one| &one["parameter"]).collect();
        assert_eq!(parameters, ["limit", "cursor", "more"]);
        assert_eq!(problem.field.as_deref(), Some("limit"));
    }

    #[test]
    fn the_number_of_parameters_is_limited() {
        let query = |count: usize| (0..count).map(|number| format!("p{number}=1&")).collect::<String>();
        assert_eq!(parameters(query(PARAMETERS_MAX).as_bytes()).expect("pairs").len(), PARAMETERS_MAX);
        // About 15,000 parameters fit into the head of a request.
        for count in [PARAMETERS_MAX + 1, 15_000] {
            let problem = parameters(query(count).as_bytes()).expect_err("too many");
            assert_eq!((problem.status, problem.field.as_deref()), (422, Some("parameters")), "{count}");
        }
    }
}
