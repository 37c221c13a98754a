//! Parses the fields of a JSON object in a request by name and type, and rejects unknown ones. Collects all errors of
//! an object. Values keep their original text.

use crate::problem::{Problem, ProblemKind, RequestError, ValidationErrors};
use crate::values::Field;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The maximum number of characters of an unknown name that an error message repeats.
const NAME_CHARS_MAX: usize = 100;

/// The fields of an object that have not been read yet, and the errors found so far.
#[derive(Debug, Default)]
pub(crate) struct Fields<'a> {
    /// The index of the object if it is an element of an array.
    index: Option<usize>,
    members: Members<'a>,
    is_extensible: bool,
    errors: ValidationErrors,
}

#[derive(Debug, Default)]
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Parses a body that consists of one object.
    pub(crate) fn parse(text: &'a str) -> Result<Self, Problem> {
        let members = serde_json::from_str(text).map_err(|error| not_an_object(&error, "the body"))?;
        Ok(Self { members, ..Self::default() })
    }

    /// Parses one element of an array.
    pub(crate) fn of_element(raw: &'a RawValue, index: usize) -> Result<Self, Problem> {
        let fields = Self { index: Some(index), ..Self::default() };
        match serde_json::from_str(raw.get()) {
            Ok(members) => Ok(Self { members, ..fields }),
            Err(error) => {
                let name = format!("[{index}]");
                let Problem { kind, detail, .. } = not_an_object(&error, &name);
                let error = RequestError::in_body(&[&index.to_string()], detail.clone());
                Err(Problem::of(kind, detail).at(name, error))
            }
        }
    }

    /// Parses a body that may be empty.
    pub(crate) fn parse_optional(text: &'a str) -> Result<Self, Problem> {
        if text.trim().is_empty() { Ok(Self::default()) } else { Self::parse(text) }
    }

    /// Makes [`Self::finish`] accept unknown fields.
    #[must_use]
    pub(crate) fn extensible(self) -> Self {
        Self { is_extensible: true, ..self }
    }

    /// Returns the name of a field with the index of its object, such as `[3].event_type`.
    pub(crate) fn path(&self, name: &str) -> String {
        self.index.map_or_else(|| name.to_owned(), |index| format!("[{index}].{name}"))
    }

    /// Creates a problem for an invalid field. `detail` must begin with the name of the field.
    pub(crate) fn wrong(&self, name: &str, detail: impl fmt::Display) -> Problem {
        self.problem(ProblemKind::ValidationFailed, name, self.path(&detail.to_string()))
    }

    /// Creates a problem of the given kind for a field.
    pub(crate) fn problem(&self, kind: ProblemKind, name: &str, detail: String) -> Problem {
        let index = self.index.map(|index| index.to_string());
        let path: Vec<&str> = index.as_deref().into_iter().chain([name]).collect();
        let error = RequestError::in_body(&path, detail.clone());
        Problem::of(kind, detail).at(self.path(name), error)
    }

    /// Removes a field and returns its value. If the value is not valid, records an error and returns `None`.
    pub(crate) fn read<T: Field<'a>>(&mut self, name: &str) -> Option<T> {
        let index = self.members.0.iter().position(|(found, _)| found == name);
        let raw = index.map(|index| self.members.0.swap_remove(index).1);
        let value = T::of(name, raw).map_err(|detail| self.wrong(name, detail));
        self.errors.check(value)
    }

    /// Removes and returns the fields that have not been read.
    pub(crate) fn take_rest(&mut self) -> Vec<(Cow<'a, str>, &'a RawValue)> {
        std::mem::take(&mut self.members.0)
    }

    /// Checks that no error was recorded and no unknown field remains.
    ///
    /// # Errors
    ///
    /// Returns a problem that lists all errors.
    pub(crate) fn finish(&mut self) -> Result<(), Problem> {
        let unknown = if self.is_extensible { Members::default() } else { std::mem::take(&mut self.members) };
        for (name, _) in unknown.0 {
            let name: String = name.chars().take(NAME_CHARS_MAX).collect();
            let problem = self.wrong(
                &name,
                format_args!("{name} is not a known field: leave it out, or check its spelling"),
            );
            self.errors.add(problem);
        }
        std::mem::take(&mut self.errors).into_result()
    }
}

/// Returns the elements of an array.
///
/// # Errors
///
/// Returns a problem if the array has more than `elements_max` elements. The remaining elements are not parsed, because
/// small elements would take many times the memory of the body.
pub(crate) fn elements(text: &str, elements_max: usize) -> Result<Vec<&RawValue>, Problem> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = Elements { elements_max }.deserialize(&mut deserializer);
    let read = read.and_then(|elements| deserializer.end().map(|()| elements));
    read.map_err(|error| match error.to_string().starts_with(TOO_MANY) {
        true => Problem::too_large(format!(
            "the array has too many events: send at most {elements_max} in a request"
        )),
        false => not_json_or(&error, "the body must be a JSON array"),
    })
}

fn not_an_object(error: &serde_json::Error, what: &str) -> Problem {
    not_json_or(error, &format!("{what} must be a JSON object"))
}

/// Creates a problem for text that is not JSON, or for JSON that is not of the `expected` type.
fn not_json_or(error: &serde_json::Error, expected: &str) -> Problem {
    match error.classify() {
        Category::Data => {
            let text = error.to_string();
            Problem::invalid_body(if text.starts_with(MEMBERS) { text } else { expected.to_owned() })
        }
        Category::Io | Category::Syntax | Category::Eof => {
            Problem::malformed(format!("the body is not valid JSON: {error}"))
        }
    }
}

/// The beginning of error messages about the members of an object.
const MEMBERS: &str = "the object";
const TOO_MANY: &str = "there are too many elements";

/// Deserializes an array of at most `elements_max` elements.
struct Elements {
    elements_max: usize,
}

impl<'de> DeserializeSeed<'de> for Elements {
    type Value = Vec<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Elements {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = sequence.next_element()? {
            if elements.len() >= self.elements_max {
                return Err(A::Error::custom(TOO_MANY));
            }
            elements.push(element);
        }
        Ok(elements)
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::new();
                while let Some((Name(name), value)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                    if members.len() >= FIELDS_MAX {
                        let detail = format_args!("{MEMBERS} has more than {FIELDS_MAX} fields");
                        return Err(A::Error::custom(detail));
                    }
                    if members.iter().any(|(known, _)| *known == name) {
                        let name: String = name.chars().take(NAME_CHARS_MAX).collect();
                        let detail = format_args!("{MEMBERS} has the field {name:?} twice: send it once");
                        return Err(A::Error::custom(detail));
                    }
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// The maximum number of fields of an object, more than any body has. Fields inside payloads are not counted.
const FIELDS_MAX: usize = 100;

/// The name of a field, borrowed if it contains no escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn malformed_json_differs_from_json_of_another_type() {
        let status = |text: &str| Fields::parse(text).map(|_| 0).unwrap_or_else(|problem| problem.status);
        let deep = "[".repeat(100_000);
        for (text, expected) in [
            ("{}", 0),
            ("", 400),
            ("{", 400),
            ("{}x", 400),
            (r#"{"a":}"#, 400),
            (r#"{"a":tru}"#, 400),
            ("[]", 422),
            ("1", 422),
            ("null", 422),
            (r#"{"a":1,"a":2}"#, 422),
            (deep.as_str(), 422),
        ] {
            assert_eq!(status(text), expected, "{}", &text[..text.len().min(20)]);
        }
    }

    /// Checks that text after the first excess element is not read: it would be rejected with 400.
    #[test]
    fn an_array_is_read_up_to_its_limit() {
        let status = |text: &str| elements(text, 2).map_or_else(|problem| problem.status, |_| 0);
        for (text, expected) in [
            ("[]", 0),
            (" [1, {}] ", 0),
            ("[1,1,1]", 413),
            ("[1,1,1,nonsense", 413),
            ("[1,1,nonsense", 400),
            ("[1,1] x", 400),
            ("{}", 422),
        ] {
            assert_eq!(status(text), expected, "{text}");
        }
    }

    #[test]
    fn fields_are_read_by_name_and_type_and_all_errors_are_reported() {
        let text = r#"{"b":true,"s":"x","z":null,"y":null,"r":[1.50, 2],"more":1}"#;
        let mut fields = Fields::parse(text).expect("fields");
        assert_eq!(fields.read::<Option<bool>>("b"), Some(Some(true)));
        assert_eq!(fields.read::<Option<String>>("z"), Some(None));
        assert_eq!(fields.read::<Option<Option<String>>>("y"), Some(Some(None)));
        assert_eq!(fields.read::<Option<Option<String>>>("y"), Some(None), "it has been read");
        assert_eq!(fields.read::<&RawValue>("r").expect("JSON").get(), "[1.50, 2]");
        assert_eq!(fields.read::<bool>("s"), None);
        assert_eq!(fields.read::<String>("gone"), None);
        let problem = fields.finish().expect_err("three errors");
        assert_eq!((problem.status, problem.field.as_deref()), (422, Some("s")));
        assert_eq!(problem.detail, "s must be true or false");
        let expected = json!([
            {"detail": "s must be true or false", "pointer": "#/s"},
            {"detail": "gone is required", "pointer": "#/gone"},
            {"detail": "more is not a known field: leave it out, or check its spelling", "pointer": "#/more"},
        ]);
        assert_eq!(serde_json::to_value(&problem.errors).expect("JSON"), expected);
    }

    #[test]
    fn a_problem_of_an_element_has_its_index() {
        let raw = serde_json::from_str("{}").expect("JSON");
        let mut fields = Fields::of_element(raw, 3).expect("fields");
        assert_eq!(fields.read::<bool>("b"), None);
        let problem = fields.finish().expect_err("an error");
        assert_eq!((problem.field.as_deref(), problem.detail.as_str()), (Some("[3].b"), "[3].b is required"));
        assert_eq!(problem.errors, [RequestError::in_body(&["3", "b"], "[3].b is required")]);
        let raw = serde_json::from_str("[]").expect("JSON");
        let problem = Fields::of_element(raw, 3).expect_err("no object");
        assert_eq!(
            (problem.field.as_deref(), problem.detail.as_str()),
            (Some("[3]"), "[3] must be a JSON object")
        );
    }
}
