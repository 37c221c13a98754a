//! A real browser: Chromium, told what to do through the WebDriver protocol, as a person would do it.

use crate::served::PATIENCE;
use crate::tools;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use posthaste_testkit::client::Call;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::time::Instant;
use tempfile::TempDir;

/// The name of an element in an answer, as the protocol has it.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const ENTER: &str = "\u{e007}";
/// More than any page has places for the focus.
const TABS_MAX: usize = 100;

pub(crate) struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    /// Where it puts its profile and what else it leaves behind.
    _folder: TempDir,
}

impl Browser {
    pub(crate) fn start() -> Self {
        let folder = TempDir::new().expect("a folder");
        let mut driver = tools::chromedriver()
            .arg("--port=0")
            .env("TMPDIR", folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver");
        let lines = BufReader::new(driver.stdout.take().expect("its output")).lines();
        let port = lines.map_while(Result::ok).find_map(|line| {
            line.split_once("started successfully on port ")?.1.trim_end_matches('.').parse().ok()
        });
        let address = SocketAddr::from(([127, 0, 0, 1], port.expect("a port")));
        let mut browser = Self { driver, address, session: String::new(), _folder: folder };
        // Root has no sandbox, and a small container little shared memory.
        let options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "timeouts": {"script": PATIENCE.as_millis() as u64},
            "goog:chromeOptions": {"args": options},
        }}});
        let made = browser.ask("POST", "", &wanted).expect("a session");
        browser.session = format!("/{}", made["sessionId"].as_str().expect("its name"));
        browser
    }

    fn tell(&self, what: &str, body: &Value) -> Result<Value, String> {
        self.ask("POST", what, body)
    }

    fn ask(&self, method: &str, what: &str, body: &Value) -> Result<Value, String> {
        let (path, body) = (format!("/session{}{what}", self.session), body.to_string());
        let answer = Call::get(self.address, &path).method(method).body(body).send_blocking();
        let value = answer.json()["value"].take();
        if value["error"].is_string() { Err(value["message"].to_string()) } else { Ok(value) }
    }

    #[track_caller]
    fn must(&self, what: &str, body: &Value) -> Value {
        self.tell(what, body).unwrap_or_else(|error| panic!("{what} {body}: {error}"))
    }

    #[track_caller]
    pub(crate) fn open(&self, url: &str) {
        self.must("/url", &json!({"url": url}));
    }

    /// Loads the page again.
    #[track_caller]
    pub(crate) fn reload(&self) {
        self.must("/refresh", &json!({}));
    }

    /// The value of an expression in the page.
    #[track_caller]
    pub(crate) fn value(&self, expression: &str) -> Value {
        self.must("/execute/sync", &json!({"script": format!("return {expression}"), "args": []}))
    }

    #[track_caller]
    pub(crate) fn text(&self, selector: &str) -> String {
        let text = self.value(&format!("document.querySelector({selector:?})?.textContent.trim() ?? null"));
        text.as_str().unwrap_or_else(|| panic!("there is no {selector} in {}", self.source())).to_owned()
    }

    pub(crate) fn source(&self) -> String {
        self.value("location.href + '\\n' + document.body.innerText").as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression is true, on whatever page that will be.
    #[track_caller]
    pub(crate) fn until(&self, expression: &str) {
        let script = format!(
            "const done = arguments[0];\
             const look = () => {{ if ({expression}) done(true); else setTimeout(look, 20); }}; look();"
        );
        let begun = Instant::now();
        // A page that goes away takes its wait with it.
        while let Err(error) = self.tell("/execute/async", &json!({"script": script, "args": []})) {
            assert!(begun.elapsed() < PATIENCE, "not {expression}: {error}\n{}", self.source());
        }
    }

    #[track_caller]
    fn find(&self, selector: &str) -> String {
        let found = self.must("/element", &json!({"using": "css selector", "value": selector}));
        found[ELEMENT].as_str().expect("an element").to_owned()
    }

    #[track_caller]
    pub(crate) fn click(&self, selector: &str) {
        self.must(&format!("/element/{}/click", self.find(selector)), &json!({}));
    }

    /// Types into what has the focus or, with a selector, into a field. Keys such as Enter have letters of
    /// their own.
    #[track_caller]
    pub(crate) fn write(&self, selector: &str, text: &str) {
        self.must(&format!("/element/{}/value", self.find(selector)), &json!({"text": text}));
    }

    /// Presses keys one after another, wherever the focus is.
    #[track_caller]
    pub(crate) fn press(&self, keys: &str) {
        let key = |key: char| {
            let value = key.to_string();
            [json!({"type": "keyDown", "value": value}), json!({"type": "keyUp", "value": value})]
        };
        let actions: Vec<Value> = keys.chars().flat_map(key).collect();
        self.must("/actions", &json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}));
    }

    /// Goes on with Tab until the focus is there.
    #[track_caller]
    pub(crate) fn tab_to(&self, selector: &str) {
        let is_there = format!("document.activeElement.matches({selector:?})");
        for _ in 0..TABS_MAX {
            if self.value(&is_there) == true {
                return;
            }
            self.press(TAB);
        }
        panic!("Tab does not lead to {selector} in {}", self.source());
    }

    fn command(&self, command: &str, params: &Value) -> Value {
        self.must("/goog/cdp/execute", &json!({"cmd": command, "params": params}))
    }

    /// The size of the screen, and whether its owner likes it dark.
    pub(crate) fn screen(&self, width: u32, height: u32, dark: bool) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.command("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.command("Emulation.setEmulatedMedia", &media);
    }

    /// What can be seen, as a PNG.
    pub(crate) fn picture(&self) -> Vec<u8> {
        let picture = self.command("Page.captureScreenshot", &json!({"format": "png"}));
        STANDARD.decode(picture["data"].as_str().expect("a picture")).expect("base64")
    }

    /// What axe-core has against the page: each serious finding on a line.
    pub(crate) fn complaints(&self, axe: &str) -> Vec<String> {
        let script = format!(
            "const done = arguments[0]; {axe};\
             axe.run(document).then((found) => done(found.violations\
               .filter((one) => ['serious', 'critical'].includes(one.impact))\
               .map((one) => one.id + ': ' + one.nodes.map((node) => node.html.slice(0, 150)).slice(0, 3).join(' | '))));"
        );
        let found = self.must("/execute/async", &json!({"script": script, "args": []}));
        let lines = found.as_array().expect("findings").iter();
        lines.map(|line| line.as_str().unwrap_or_default().to_owned()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver takes the browser with it when its session ends.
        let _ = self.ask("DELETE", "", &json!({}));
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
