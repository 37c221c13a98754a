//! Tests `posthaste migrate --print-roles`, which needs no server, and the setting of the role prefix.

use posthaste_testkit::commands::run;

const OWNER: (&str, &str) = ("POSTHASTE_DATABASE_URL", "postgres://own%20er:hush@db.invalid/shop");

#[test]
fn sql_names_the_owner_and_the_logins_of_the_settings_but_no_password() {
    let settings = [
        OWNER,
        ("POSTHASTE_ROLE_PREFIX", "shop_"),
        ("POSTHASTE_DATABASE_URL_VIEWER", "postgres://api:hush@db.invalid/shop"),
        ("POSTHASTE_DATABASE_URL_KEYS", "postgres://api:hush@db.invalid/shop"),
        ("POSTHASTE_DATABASE_URL_OUTBOX", "postgres://own%20er:hush@db.invalid/shop"),
    ];
    let printed = run(&["migrate", "--print-roles"], &settings, "").expect(0);
    for part in [
        "CREATE ROLE \"own er\" LOGIN;",
        "CREATE ROLE \"api\" LOGIN;",
        "GRANT shop_key_keeper, shop_viewer TO \"api\";",
        "REVOKE CONNECT ON DATABASE \"shop\" FROM PUBLIC;",
        "GRANT CREATE ON DATABASE \"shop\" TO \"own er\";",
        "'shop_outbox_worker'",
    ] {
        assert!(printed.stdout.contains(part), "{part} in {}", printed.stdout);
    }
    assert!(!printed.stdout.contains("hush"), "{}", printed.stdout);
    assert!(printed.stdout.lines().all(|line| line.len() <= 120), "{}", printed.stdout);
    assert_eq!(printed.stderr, "");
    // The direct URL is that of the owner.
    let direct = [&settings[..], &[("POSTHASTE_DATABASE_URL_DIRECT", "postgres://direct@db.invalid/shop")]];
    let printed = run(&["migrate", "--print-roles"], &direct.concat(), "").expect(0).stdout;
    assert!(printed.contains("GRANT CREATE ON DATABASE \"shop\" TO \"direct\";"), "{printed}");
}

#[test]
fn missing_names_are_reported() {
    for (url, code, part) in [
        ("sqlite://posthaste.db", 1, "SQLite has no roles"),
        ("postgres://db.invalid/shop", 1, "postgres://<user>@<host>/<database>"),
        ("postgres://owner@db.invalid", 1, "postgres://<user>@<host>/<database>"),
    ] {
        let refused = run(&["migrate", "--print-roles"], &[("POSTHASTE_DATABASE_URL", url)], "").expect(code);
        assert!(refused.stderr.contains(part), "{url}: {}", refused.stderr);
        assert_eq!(refused.stdout, "", "{url}");
    }
    let viewer = ("POSTHASTE_DATABASE_URL_VIEWER", "postgres://shop_viewer@db.invalid/shop");
    let named_alike = [OWNER, ("POSTHASTE_ROLE_PREFIX", "shop_"), viewer];
    let direct = ("POSTHASTE_DATABASE_URL_DIRECT", "postgres://shop_viewer@db.invalid/shop");
    let broken = ("POSTHASTE_DATABASE_URL", "postgres://a%0Ab@db.invalid/shop");
    for (settings, part) in [
        (&named_alike[..], "has the name of a role"),
        (&[OWNER, viewer, direct], "would become the owner"),
        (&[broken], "does not support"),
    ] {
        let refused = run(&["migrate", "--print-roles"], settings, "").expect(1);
        assert!(refused.stderr.contains(part) && refused.stdout.is_empty(), "{part}: {}", refused.stderr);
    }
    for flag in ["--rename-roles", "--roles=none", "--json"] {
        let refused = run(&["migrate", "--print-roles", flag], &[OWNER], "").expect(2);
        assert!(refused.stderr.contains("--print-roles"), "{flag}: {}", refused.stderr);
    }
}

#[test]
fn an_invalid_prefix_is_refused() {
    for prefix in ["Shop_", "1shop", "shop-", "pg_shop", "shop.", &"s".repeat(44)] {
        for command in [&["migrate"][..], &["serve"], &["config"], &["migrate", "--print-roles"]] {
            let refused = run(command, &[OWNER, ("POSTHASTE_ROLE_PREFIX", prefix)], "").expect(1).stderr;
            assert!(
                refused.contains("POSTHASTE_ROLE_PREFIX") && refused.contains("lower-case letters"),
                "{prefix}: {refused}"
            );
        }
    }
    let set = run(&["config"], &[OWNER, ("POSTHASTE_ROLE_PREFIX", "shop_")], "").expect(0).stdout;
    assert!(
        set.lines().any(|line| line.contains("POSTHASTE_ROLE_PREFIX") && line.contains("shop_")),
        "{set}"
    );
}
