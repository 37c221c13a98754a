//! Renders schemas of the OpenAPI document as HTML: types, fields and examples.

use super::html::{code, escaped};
use super::{entries, list, row, table, text};
use serde_json::Value;

const REFERENCE: &str = "#/components/schemas/";

/// Returns the type of a schema as HTML. Named schemas become links.
pub(super) fn as_type(schema: &Value) -> String {
    if let Some(name) = text(&schema["$ref"]).strip_prefix(REFERENCE) {
        return format!("<a href=\"#type-{0}\">{0}</a>", escaped(name));
    }
    let either: Vec<String> = list(&schema["oneOf"]).chain(list(&schema["anyOf"])).map(as_type).collect();
    if !either.is_empty() {
        return either.join(" or ");
    }
    let names: Vec<&str> = list(&schema["type"]).chain([&schema["type"]]).filter_map(Value::as_str).collect();
    if names.is_empty() {
        return "any JSON".to_owned();
    }
    let one = |name: &str| match name {
        "array" => format!("list of {}", as_type(&schema["items"])),
        "null" => "null".to_owned(),
        other => escaped(other) + &bounds(schema),
    };
    names.iter().map(|name| one(name)).collect::<Vec<_>>().join(" or ")
}

/// Returns the constraints of a schema in parentheses, or an empty string if it has none.
fn bounds(schema: &Value) -> String {
    let number = |name: &str| schema[name].as_number().map(ToString::to_string);
    let mut parts = Vec::new();
    parts.extend(schema["format"].as_str().filter(|format| *format == "date-time").map(escaped));
    match (number("minimum"), number("maximum")) {
        (Some(min), Some(max)) => parts.push(format!("{min} to {max}")),
        (Some(min), None) => parts.push(format!("at least {min}")),
        (None, Some(max)) => parts.push(format!("at most {max}")),
        (None, None) => {}
    }
    if let Some(chars) = number("maxLength") {
        parts.push(format!("at most {chars} characters"));
    }
    if let Some(pattern) = schema["pattern"].as_str() {
        parts.push(code(pattern));
    }
    let allowed: Vec<String> = list(&schema["enum"]).map(|value| code(text(value))).collect();
    if !allowed.is_empty() {
        parts.push(allowed.join(", "));
    }
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
}

/// Returns a table of the fields if the schema is an object, and its type otherwise.
pub(super) fn as_fields(schema: &Value) -> String {
    let required: Vec<&str> = list(&schema["required"]).map(text).collect();
    let rows: String = entries(&schema["properties"])
        .map(|(name, field)| {
            let needed = if required.contains(&name) { "yes" } else { "" };
            row(&[code(name), as_type(field), needed.to_owned(), escaped(text(&field["description"]))])
        })
        .collect();
    if rows.is_empty() {
        return format!("<p>{}</p>", as_type(schema));
    }
    table("", &["field", "type", "required", "description"], &rows)
}

/// Returns the example of a schema, or of the schema that it refers to, as HTML.
pub(super) fn as_example(schema: &Value, document: &Value) -> Option<String> {
    let mut schema = schema;
    // Follows references and the first of several alternatives. The limit prevents endless loops on cyclic references.
    for _ in 0..8 {
        if !schema["example"].is_null() {
            return serde_json::to_string_pretty(&schema["example"]).ok().map(|json| escaped(&json));
        }
        schema = match text(&schema["$ref"]).strip_prefix(REFERENCE) {
            Some(name) => &document["components"]["schemas"][name],
            None => schema["oneOf"].get(0)?,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn types_are_rendered() {
        for (schema, words) in [
            (json!({}), "any JSON"),
            (json!({"type": "integer", "minimum": 1}), "integer (at least 1)"),
            (json!({"type": ["string", "null"], "maxLength": 9}), "string (at most 9 characters) or null"),
            (json!({"type": "string", "format": "date-time"}), "string (date-time)"),
            (json!({"type": "string", "enum": ["a", "<"]}), "string (<code>a</code>, <code>&lt;</code>)"),
            (json!({"type": "array", "items": {"type": "boolean"}}), "list of boolean"),
            (json!({"$ref": "#/components/schemas/Key"}), "<a href=\"#type-Key\">Key</a>"),
            (json!({"oneOf": [{"type": "null"}, {"type": "string"}]}), "null or string"),
        ] {
            assert_eq!(as_type(&schema), words);
        }
    }

    #[test]
    fn examples_are_found_through_references() {
        let document = json!({"components": {"schemas": {
            "Either": {"oneOf": [{"$ref": "#/components/schemas/One"}]},
            "One": {"example": {"a": "<"}},
            "Loop": {"$ref": "#/components/schemas/Loop"},
        }}});
        let of = |name: &str| as_example(&json!({ "$ref": format!("{REFERENCE}{name}") }), &document);
        assert_eq!(of("Either").as_deref(), Some("{\n  &quot;a&quot;: &quot;&lt;&quot;\n}"));
        assert_eq!(of("Loop"), None);
    }
}
