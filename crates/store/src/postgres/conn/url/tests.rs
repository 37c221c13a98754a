//! Tests of the URL parser.

use super::*;

fn parse(url: &str) -> ConnectionUrl {
    ConnectionUrl::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn refusal(url: &str) -> String {
    ConnectionUrl::parse(url).map(|_| String::new()).unwrap_or_else(|error| error)
}

fn hosts(url: &str) -> String {
    parse(url).hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn all_parts_are_decoded() {
    let url = parse(
        "postgresql://us%20er:p%40ss:w@db.example:6000/my%2Fdb?options=-c%20geqo%3Doff&application_name=x",
    );
    assert_eq!(url.user.as_deref(), Some("us er"));
    assert_eq!(url.password.as_deref(), Some("p@ss:w"));
    assert_eq!(url.database.as_deref(), Some("my/db"));
    assert_eq!(url.options.as_deref(), Some("-c geqo=off"));
    assert!(!format!("{url:?}").contains("p@ss"));
    let url = parse("postgres://h?user=u&password=p&dbname=d");
    assert_eq!([url.user, url.password, url.database].map(Option::unwrap), ["u", "p", "d"]);
}

#[test]
fn hosts_are_names_addresses_and_sockets() {
    for (url, expected) in [
        ("postgres://u@h/d", "h:5432"),
        ("postgres://u@h1:1,h2,h3:3/d", "h1:1 h2:5432 h3:3"),
        ("postgres://u@[::1]:7,[fe80::1]/d", "[::1]:7 [fe80::1]:5432"),
        ("postgres://u@%2Frun%2Fpg:7,h/d", "/run/pg/.s.PGSQL.7 h:5432"),
        ("postgres:///d?host=/run/pg&port=9", "/run/pg/.s.PGSQL.9"),
        ("postgres://u@/d?host=a,b&port=1,2", "a:1 b:2"),
        ("postgres://u@a,b/d?port=4", "a:4 b:4"),
        ("postgres://u@/d?hostaddr=127.0.0.1", "127.0.0.1:5432"),
        ("postgres://u@db.example/d?hostaddr=::1", "db.example:5432"),
    ] {
        assert_eq!(hosts(url), expected, "{url}");
    }
    let address = Some("::1".parse().unwrap());
    let place = Place::Tcp { name: "db.example".to_owned(), address };
    assert_eq!(parse("postgres://u@db.example/d?hostaddr=::1").hosts[0].place, place);
}

#[test]
fn malformed_urls_are_refused_without_their_password() {
    for (url, part) in [
        ("mysql://u:hush@h/d", "postgres://"),
        ("postgres://u:hush@/d", "names no host"),
        ("postgres://u:hush@a,,b/d", "names no host"),
        ("postgres://u:hu@sh@h/d", "%40"),
        ("postgres://u:hu/sh@h/d", "%2F"),
        ("postgres://u:12/hush@h/d", "%2F"),
        ("postgres://u:hu?s=h@h/d", "%3F"),
        ("postgres://u:hush%4@h/d", "password"),
        ("postgres://u:hush%00@h/d", "password"),
        ("postgres://u:hush%ff@h/d", "UTF-8"),
        ("postgres://u:hush@h:0/d", "port"),
        ("postgres://u:hush@h:65536/d", "port"),
        ("postgres://u:hush@[::1/d", "not closed"),
        ("postgres://u:hush@[::1]7/d", "not followed"),
        ("postgres://u:hush@a,b/d?port=1,2,3", "2 hosts but 3 ports"),
        ("postgres://u:hush@a,b/d?hostaddr=::1", "2 hosts but 1 entries"),
        ("postgres://u:hush@a/d?hostaddr=b", "not an IP address"),
        ("postgres://u:hush@h/d?connect_timeout=0", "connect_timeout must be a whole number from 1 to 3600"),
        ("postgres://u:hush@h/d?keepalives_count=128", "from 1 to 127"),
        ("postgres://u:hush@h/d?tcp_user_timeout=2147483648", "tcp_user_timeout"),
        ("postgres://u:hush@h/d?connect_timeout", "no value"),
        ("postgres://u:hush@h/d?keepalives=yes", "keepalives"),
        ("postgres://u:hush@h/d?sslcrl=x", "sslcrl is not supported"),
        ("postgres://u:hush@h/d?gssencmode=require", "gssencmode is not supported"),
        ("postgres://u:hush@h/d?sslmode=require&sslmode=disable", "set twice"),
    ] {
        let error = refusal(url);
        assert!(error.contains(part) && !error.contains("hu"), "{url}: {error}");
    }
}

#[test]
fn tls_is_never_weaker_than_requested() {
    for (query, mode) in [
        ("", SslMode::Prefer),
        ("?sslmode=disable", SslMode::Disable),
        ("?sslmode=require", SslMode::Require),
        ("?ssl=true", SslMode::Require),
        ("?sslmode=verify-ca&sslrootcert=ca.pem", SslMode::VerifyCa),
        ("?sslmode=verify-full&sslrootcert=ca.pem", SslMode::VerifyFull),
        ("?sslrootcert=system", SslMode::VerifyFull),
        ("?sslmode=require&sslnegotiation=direct", SslMode::Require),
    ] {
        assert_eq!(parse(&format!("postgres://u@h/d{query}")).tls.mode, mode, "{query}");
    }
    for (query, part) in [
        ("sslmode=allow", "sslmode=allow is not supported (it would connect without TLS"),
        ("sslmode=on", "sslmode=on is not supported; accepted values: disable, prefer"),
        ("sslmode=", "sslmode= is not supported; accepted values"),
        ("ssl=false", "ssl accepts only true"),
        ("ssl=true&sslmode=disable", "remove ssl"),
        ("sslmode=require&sslrootcert=system", "use sslmode=verify-full"),
        ("sslmode=verify-full", "needs sslrootcert"),
        ("sslnegotiation=direct", "sslmode=prefer is too weak"),
        ("sslnegotiation=immediate", "accepted values: postgres, direct"),
        ("channel_binding=yes", "accepted values: disable, prefer, require"),
        ("sslmode=require&sslcert=c.pem", "needs sslkey"),
        ("sslmode=require&sslkey=k.pem", "needs sslcert"),
    ] {
        let error = refusal(&format!("postgres://u@h/d?{query}"));
        assert!(error.contains(part), "{query}: {error}");
    }
}

#[test]
fn several_hosts_mean_the_writable_one() {
    let session = |url: &str| parse(url).session;
    assert_eq!(session("postgres://u@a/d"), SessionAttributes::Any);
    assert_eq!(session("postgres://u@a,b/d"), SessionAttributes::ReadWrite);
    assert_eq!(session("postgres://u@a,b/d?target_session_attrs=any"), SessionAttributes::Any);
    assert_eq!(session("postgres://u@a/d?target_session_attrs=primary"), SessionAttributes::Primary);
    for value in ["standby", "prefer-standby", "read-only"] {
        let error = refusal(&format!("postgres://u@a/d?target_session_attrs={value}"));
        assert!(error.contains(value) && error.contains("any, read-write, primary"), "{error}");
    }
}

#[test]
fn limits_have_defaults() {
    let url = parse("postgres://u@a/d");
    assert_eq!((url.connect_timeout, url.tcp_user_timeout), (CONNECT_TIMEOUT, Some(TCP_USER_TIMEOUT)));
    assert_eq!(url.keepalive, Some(KEEPALIVE));
    let url = parse(
        "postgres://u@a/d?connect_timeout=9&tcp_user_timeout=3000&keepalives_idle=7&keepalives_interval=1\
         &keepalives_count=2",
    );
    assert_eq!(url.connect_timeout, Duration::from_secs(9));
    assert_eq!(url.tcp_user_timeout, Some(Duration::from_secs(3)));
    assert_eq!(parse("postgres://u@a/d?tcp_user_timeout=0").tcp_user_timeout, None);
    let keepalive = Keepalive { idle: Duration::from_secs(7), interval: Duration::from_secs(1), retries: 2 };
    assert_eq!(url.keepalive, Some(keepalive));
    assert_eq!(parse("postgres://u@a/d?keepalives=0").keepalive, None);
}
