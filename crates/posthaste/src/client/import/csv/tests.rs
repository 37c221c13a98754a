//! Tests the mapping of CSV files: quoting, values, and the place of every error.

use super::*;

fn fields(plan: &Plan) -> Vec<Value> {
    plan.entries.iter().map(|entry| entry.desired.fields.clone().into()).collect()
}

#[test]
fn lines_become_subscriptions() {
    let text = "\u{feff}UID,url, event_types ,tenant,secret,name,description,signature,active\r\n\
        a,https://h.example/a,order.paid;order.*,acme,0123456789,\"The \"\"A\"\"\",\"one,\r\ntwo\",stripe,FALSE\r\n\
        \r\n\
        b,https://h.example/b,\"order.paid  invoice.paid\",,,,,,\r\n";
    let plan = parse(text).expect("a plan");
    let identities: Vec<String> =
        plan.entries.iter().map(|entry| entry.desired.identity.to_string()).collect();
    assert_eq!(identities, ["a of tenant acme", "b"]);
    assert_eq!(
        fields(&plan),
        [
            json!({
                "callback_url": "https://h.example/a", "event_types": ["order.paid", "order.*"], "active": false,
                "secret": "0123456789", "name": "The \"A\"", "description": "one,\r\ntwo",
                "signatures": [{"preset": "stripe"}]
            }),
            json!({
                "callback_url": "https://h.example/b", "event_types": ["order.paid", "invoice.paid"], "active": true
            })
        ]
    );
    let least = parse("event_types,uid,url\n*,a,https://h.example/\n*,b,https://h.example/").expect("a plan");
    assert_eq!(least.entries.len(), 2);
    assert_eq!(
        parse("uid,url,event_types,signature\na,https://h,*,Standard")
            .map(|plan| fields(&plan)[0]["signatures"].clone()),
        Ok(json!(["standard"]))
    );
}

#[test]
fn errors_name_line_and_column() {
    let head = "uid,url,event_types,signature,active";
    for (text, message) in [
        ("", "line 1: the column uid is missing"),
        ("uid,url\n", "line 1: the column event_types is missing"),
        (
            "uid,url,event_types,colour\n",
            "line 1: there is no column \"colour\", only uid, url, event_types, tenant",
        ),
        ("uid,url,event_types,UID\n", "line 1: there are two columns uid"),
        (&format!("{head}\n,https://h,a,,"), "line 2, column uid: a value is required"),
        (&format!("{head}\na,,a,,"), "line 2, column url: a value is required"),
        (&format!("{head}\na,ftp://h,a,,"), "line 2, column url: must begin with https://, got ftp://h"),
        (&format!("{head}\na,https://h, ,,"), "line 2, column event_types: a value is required"),
        (
            &format!("{head}\na,https://h,a,md5,"),
            "line 2, column signature: must be one of standard, svix, github",
        ),
        (
            &format!("{head}\n\n\na,https://h,a,,maybe"),
            "line 4, column active: must be true or false, got maybe",
        ),
        (&format!("{head}\na,https://h\n"), "line 2: 2 columns, but the first line has 5"),
        (&format!("{head}\na,\"x\ny\nz"), "line 2: a quote is opened and not closed"),
        (
            &format!("{head}\n\"a\n\"b,"),
            "line 3: a comma or the end of the line is expected after a closing quote",
        ),
        (&format!("{head}\n\"a\nb\",https://h,a,,\nc,,a,,"), "line 4, column url: a value is required"),
    ] {
        let errors = parse(text).expect_err(text);
        assert!(errors.iter().any(|error| error.contains(message)), "{text:?}: {errors:?}");
    }
}

#[test]
fn all_bad_lines_are_reported() {
    let text = "uid,url,event_types\na,https://h.example/,*\n,https://h.example/,*\nc,mailto:x,*\nd,https://h.example/\n";
    let errors = parse(text).expect_err("three errors");
    let lines: Vec<&str> = errors.iter().filter_map(|error| error.split([',', ':']).next()).collect();
    assert_eq!(lines, ["line 3", "line 4", "line 5"]);
}

#[test]
fn a_uid_may_appear_once_per_tenant() {
    let rows = "uid,url,event_types,tenant\na,https://h/,*,t\na,https://h/,*,\n";
    assert!(parse(rows).and_then(Plan::checked).is_ok());
    let twice = format!("{rows}a,https://h/,*,t\n");
    assert_eq!(parse(&twice).and_then(Plan::checked), Err(vec!["a of tenant t appears twice".to_owned()]));
}
