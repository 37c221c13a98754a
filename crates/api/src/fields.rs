//! A JSON object that came from outside, field by field. Each is asked for by name and type; what nobody
//! asked for is refused. Values stay the text that they were.

use crate::problem::Problem;
use crate::values::Field;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

#[derive(Debug)]
pub(crate) struct Fields<'a> {
    /// What stands before a field's name in messages, such as `[3].`.
    at: String,
    members: Members<'a>,
}

#[derive(Debug, Default)]
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Of the text of a whole body.
    pub(crate) fn parse(text: &'a str) -> Result<Self, Problem> {
        Ok(Self { at: String::new(), members: read(text, "the body must be a JSON object")? })
    }

    /// Of one element of a list.
    pub(crate) fn of_element(raw: &'a RawValue, index: usize) -> Result<Self, Problem> {
        let members = read(raw.get(), "must be a JSON object").map_err(|problem| Problem {
            field: Some(format!("[{index}]")),
            detail: format!("[{index}]: {}", problem.detail),
            ..problem
        })?;
        Ok(Self { at: format!("[{index}]."), members })
    }

    /// A body that may be left out.
    pub(crate) fn parse_optional(text: &'a str) -> Result<Self, Problem> {
        if text.trim().is_empty() {
            return Ok(Self { at: String::new(), members: Members::default() });
        }
        Self::parse(text)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}{name}", self.at)
    }

    /// Says that a field is wrong.
    pub(crate) fn wrong(&self, name: &str, detail: impl fmt::Display) -> Problem {
        Problem::invalid(self.path(name), format!("{}{detail}", self.at))
    }

    /// Takes a field out and reads its value.
    pub(crate) fn take<T: Field<'a>>(&mut self, name: &str) -> Result<T, Problem> {
        let index = self.members.0.iter().position(|(found, _)| found == name);
        let raw = index.map(|index| self.members.0.swap_remove(index).1);
        T::of(name, raw).map_err(|detail| self.wrong(name, detail))
    }

    /// Refuses what is left over.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        match self.members.0.first() {
            None => Ok(()),
            Some((name, _)) => {
                let shown: String = name.chars().take(100).collect();
                Err(self.wrong(&shown, "this field is not known: leave it out, or check its spelling"))
            }
        }
    }
}

/// The elements of a list, at most `elements_max` of them. One more is an error, and nothing behind it is read:
/// a body of a few bytes for each element would otherwise become many times as large in memory.
pub(crate) fn elements(text: &str, elements_max: usize) -> Result<Vec<&RawValue>, Problem> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = Elements { elements_max }.deserialize(&mut deserializer);
    let read = read.and_then(|elements| deserializer.end().map(|()| elements));
    read.map_err(|error| match error.to_string().starts_with(TOO_MANY) {
        true => {
            Problem::too_large(format!("the array holds more than {elements_max} events: send fewer at once"))
        }
        false => told(&error, "the body must be a JSON array"),
    })
}

fn read<'a>(text: &'a str, expected: &str) -> Result<Members<'a>, Problem> {
    serde_json::from_str(text).map_err(|error| told(&error, expected))
}

fn told(error: &serde_json::Error, expected: &str) -> Problem {
    match error.classify() {
        Category::Data => {
            let repeated = error.to_string();
            let detail = if repeated.starts_with(REPEATED) { repeated } else { expected.to_owned() };
            Problem::invalid("body", detail)
        }
        Category::Io | Category::Syntax | Category::Eof => {
            Problem::unreadable(format!("the body is not JSON: {error}"))
        }
    }
}

const REPEATED: &str = "a field comes twice";
const TOO_MANY: &str = "there are too many elements";

/// Reads an array up to a number of elements.
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
                        return Err(A::Error::custom(format_args!("{REPEATED} or there are too many")));
                    }
                    if members.iter().any(|(known, _)| *known == name) {
                        return Err(A::Error::custom(REPEATED));
                    }
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// More than any object that we know has; payloads are not counted.
const FIELDS_MAX: usize = 100;

/// A name, borrowed where it has no escapes.
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

    #[test]
    fn what_cannot_be_read_differs_from_what_is_wrong() {
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

    /// What stands behind one element too many would be refused with 400 if it were read.
    #[test]
    fn a_list_is_read_up_to_its_limit() {
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
    fn fields_are_taken_by_name_and_type() {
        let text = r#"{"b":true,"s":"x","z":null,"y":null,"r":[1.50, 2],"more":1}"#;
        let mut fields = Fields::parse(text).expect("fields");
        assert_eq!(fields.take::<Option<bool>>("b").expect("a value"), Some(true));
        assert_eq!(fields.take::<Option<String>>("z").expect("null"), None);
        assert_eq!(fields.take::<Option<Option<String>>>("y").expect("null"), Some(None));
        assert_eq!(fields.take::<Option<Option<String>>>("y").expect("left out"), None);
        assert_eq!(fields.take::<&RawValue>("r").expect("JSON").get(), "[1.50, 2]");
        let problem = fields.take::<bool>("s").expect_err("text");
        assert_eq!((problem.status, problem.field.as_deref()), (422, Some("s")));
        assert_eq!(problem.detail, "s must be true or false");
        let problem = fields.take::<String>("gone").expect_err("not there");
        assert_eq!(problem.detail, "gone is missing");
        let problem = fields.finish().expect_err("a field too many");
        assert_eq!(problem.field.as_deref(), Some("more"));
    }
}
