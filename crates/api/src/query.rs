//! The parameters behind a question mark, and the cursors that lists go on from. A cursor is opaque to
//! callers; inside it names its list and the last id seen, so that it stays right while rows arrive.

use crate::problem::Problem;
use crate::values::{Parameter, described};
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

/// Parameters for an address; those without a value are left out.
pub(crate) fn write_query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let filled = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(filled).finish()
}

/// The parameters of one query or form. More than any call has, as for the fields of a body; it also bounds the
/// search for repeated names, which compares every pair.
const PARAMETERS_MAX: usize = 100;

/// Decodes the pairs of a query or of a form's body. Error if there are more than [`PARAMETERS_MAX`]; what
/// follows those is not read.
pub(crate) fn parameters(text: &[u8]) -> Result<Vec<(String, String)>, Problem> {
    let mut decoded = url::form_urlencoded::parse(text);
    let pairs =
        decoded.by_ref().take(PARAMETERS_MAX).map(|(name, value)| (name.into_owned(), value.into_owned()));
    let pairs = pairs.collect();
    if decoded.next().is_some() {
        let detail = format!("there are more than {PARAMETERS_MAX} parameters: send fewer");
        return Err(Problem::invalid("parameters", detail));
    }
    Ok(pairs)
}

pub(crate) const ITEMS_DEFAULT: u32 = 50;
pub(crate) const ITEMS_MAX: u32 = 200;

#[derive(Debug)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// A parameter without a value counts as left out.
    pub(crate) fn of(uri: &Uri) -> Result<Self, Problem> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for (name, value) in parameters(uri.query().unwrap_or_default().as_bytes())? {
            if pairs.iter().any(|(known, _)| *known == name) {
                let detail = format!("{} comes twice", shortened(&name));
                return Err(Problem::invalid(shortened(&name), detail));
            }
            pairs.push((name, value));
        }
        pairs.retain(|(name, value)| !value.is_empty() || name.is_empty());
        Ok(Self(pairs))
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let index = self.0.iter().position(|(found, _)| found == name)?;
        Some(self.0.swap_remove(index).1)
    }

    /// Takes a parameter and reads its value.
    pub(crate) fn get<T: Parameter>(&mut self, name: &str) -> Result<Option<T>, Problem> {
        let read = self.take(name).map(|text| T::read(name, text)).transpose();
        read.map_err(|detail| Problem::invalid(name, detail))
    }

    /// Whether something is asked for that is left out otherwise.
    pub(crate) fn flag(&mut self, name: &str) -> Result<bool, Problem> {
        match self.take(name).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(Problem::invalid(name, format!("{name} must be true or false"))),
        }
    }

    /// Which part of a list is asked for.
    pub(crate) fn page(&mut self, list: &str) -> Result<PageRequest, Problem> {
        let limit = self.take("limit").map_or(Some(ITEMS_DEFAULT), |text| text.parse().ok());
        let items_max = limit.filter(|limit| (1..=ITEMS_MAX).contains(limit)).ok_or_else(|| {
            Problem::invalid("limit", format!("limit must be a whole number from 1 to {ITEMS_MAX}"))
        })?;
        let after = self.take("cursor").map(|text| read_cursor(list, &text)).transpose()?;
        Ok(PageRequest::first(items_max).behind(after))
    }

    pub(crate) fn finish(self) -> Result<(), Problem> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => {
                let detail = "this parameter is not known: leave it out, or check its spelling";
                Err(Problem::invalid(shortened(name), detail))
            }
        }
    }
}

fn shortened(name: &str) -> String {
    name.chars().take(100).collect()
}

/// The parameters that [`Query::page`] reads.
#[derive(Debug)]
pub(crate) struct PageParameters;

impl PageParameters {
    pub(crate) fn described() -> [Described; 2] {
        let limit = format!("1 to {ITEMS_MAX}; {ITEMS_DEFAULT} unless said otherwise");
        [
            described::<u32>("limit", &limit),
            described::<String>("cursor", "The next_cursor of the page before"),
        ]
    }
}

impl IntoParams for PageParameters {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Described> {
        Self::described().into()
    }
}

/// An id in a path.
pub(crate) fn id<T>(name: &str, text: &str, new: fn(i64) -> Result<T, IdOutOfRange>) -> Result<T, Problem> {
    read_id(name, text, new).map_err(|detail| Problem::invalid(name, detail))
}

/// Reads an id. The error says what is wrong with the parameter `name`.
pub(crate) fn read_id<T>(
    name: &str,
    text: &str,
    new: fn(i64) -> Result<T, IdOutOfRange>,
) -> Result<T, String> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| plain).and_then(|raw| new(raw).ok());
    number.ok_or_else(|| format!("{name} must be a whole number from 1 to {}", i64::MAX))
}

pub(crate) fn read_cursor(list: &str, text: &str) -> Result<i64, Problem> {
    let decoded = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let after = decoded.as_deref().and_then(|inner| {
        let (of, after) = inner.split_once(':')?;
        if of == list { after.parse().ok() } else { None }
    });
    after.filter(|after: &i64| *after >= 0).ok_or_else(|| {
        Problem::invalid("cursor", "cursor must be the next_cursor of the page before, of the same list")
    })
}

pub(crate) fn write_cursor(list: &str, next: Option<i64>) -> Option<String> {
    next.map(|next| URL_SAFE_NO_PAD.encode(format!("{list}:{next}")))
}

/// A part of a list, as an answer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Listed<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next_cursor: Option<String>,
}

impl<T> Listed<T> {
    pub(crate) fn of<U>(list: &str, page: Page<U>, view: impl Fn(U) -> T) -> Self {
        let next_cursor = write_cursor(list, page.next);
        Self { items: page.items.into_iter().map(view).collect(), next_cursor }
    }
}

pub(crate) fn json(status: StatusCode, answer: &impl Serialize) -> Result<Response, Problem> {
    let text = serde_json::to_vec(answer);
    let text = text.map_err(|error| Problem::broken("the answer could not be written", &error))?;
    Ok((status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], text).into_response())
}

pub(crate) fn ok(answer: &impl Serialize) -> Result<Response, Problem> {
    json(StatusCode::OK, answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_fits_its_own_list_only() {
        let cursor = write_cursor("events", Some(41)).expect("a cursor");
        assert_eq!(read_cursor("events", &cursor).expect("the id"), 41);
        for bad in ["", "x", "ZXZlbnRzOg", "*", cursor.get(1..).expect("a part")] {
            assert_eq!(read_cursor("events", bad).expect_err(bad).status, 422);
        }
        assert!(read_cursor("deliveries", &cursor).is_err());
    }

    #[test]
    fn parameters_are_checked() {
        let page = |query: &str| {
            let uri: Uri = format!("/v1/events?{query}").parse().expect("a URI");
            let mut query = Query::of(&uri)?;
            let page = query.page("events")?;
            query.finish().map(|()| page.items_max)
        };
        assert_eq!(page("").expect("a page"), 50);
        assert_eq!(page("limit=200&cursor=").expect("a page"), 200);
        for bad in ["limit=0", "limit=201", "limit=x", "limit=1&limit=1", "limits=1", "cursor=x"] {
            assert_eq!(page(bad).expect_err(bad).status, 422, "{bad}");
        }
    }

    #[test]
    fn the_number_of_parameters_is_limited() {
        let query = |count: usize| (0..count).map(|number| format!("p{number}=1&")).collect::<String>();
        assert_eq!(parameters(query(PARAMETERS_MAX).as_bytes()).expect("pairs").len(), PARAMETERS_MAX);
        // The largest query that fits into the head of a request: nothing behind the limit is read.
        for count in [PARAMETERS_MAX + 1, 15_000] {
            let problem = parameters(query(count).as_bytes()).expect_err("too many");
            assert_eq!((problem.status, problem.field.as_deref()), (422, Some("parameters")), "{count}");
        }
    }
}
