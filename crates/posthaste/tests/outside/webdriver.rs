//! Controls a real browser for tests: Chromium, through the WebDriver protocol.

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

/// The JSON key of an element reference in responses, as defined by the WebDriver protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const ENTER: &str = "\u{e007}";
/// The maximum number of times that Tab is pressed. It exceeds the number of focusable elements on any page.
const TABS_MAX: usize = 100;

pub(crate) struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    /// The folder for the browser's profile and temporary files.
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
        // The sandbox does not work as root, and containers may have little shared memory.
        let options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "timeouts": {"script": PATIENCE.as_millis() as u64},
            "goog:chromeOptions": {"args": options},
        }}});
        let created = browser.send("POST", "", &capabilities).expect("a session");
        browser.session = format!("/{}", created["sessionId"].as_str().expect("its name"));
        browser
    }

    fn try_post(&self, what: &str, body: &Value) -> Result<Value, String> {
        self.send("POST", what, body)
    }

    fn send(&self, method: &str, what: &str, body: &Value) -> Result<Value, String> {
        let (path, body) = (format!("/session{}{what}", self.session), body.to_string());
        let answer = Call::get(self.address, &path).method(method).body(body).send_blocking();
        let value = answer.json()["value"].take();
        if value["error"].is_string() { Err(value["message"].to_string()) } else { Ok(value) }
    }

    #[track_caller]
    fn post(&self, what: &str, body: &Value) -> Value {
        self.try_post(what, body).unwrap_or_else(|error| panic!("{what} {body}: {error}"))
    }

    #[track_caller]
    pub(crate) fn open(&self, url: &str) {
        self.post("/url", &json!({"url": url}));
    }

    #[track_caller]
    pub(crate) fn reload(&self) {
        self.post("/refresh", &json!({}));
    }

    /// Evaluates a JavaScript expression in the page and returns its value.
    #[track_caller]
    pub(crate) fn value(&self, expression: &str) -> Value {
        self.post("/execute/sync", &json!({"script": format!("return {expression}"), "args": []}))
    }

    #[track_caller]
    pub(crate) fn text(&self, selector: &str) -> String {
        let text = self.value(&format!("document.querySelector({selector:?})?.textContent.trim() ?? null"));
        text.as_str().unwrap_or_else(|| panic!("there is no {selector} in {}", self.source())).to_owned()
    }

    pub(crate) fn source(&self) -> String {
        self.value("location.href + '\\n' + document.body.innerText").as_str().unwrap_or_default().to_owned()
    }

    /// Waits until a JavaScript expression is true, even across page loads.
    #[track_caller]
    pub(crate) fn until(&self, expression: &str) {
        let script = format!(
            "const done = arguments[0];\
             const check = () => {{ if ({expression}) done(true); else setTimeout(check, 20); }}; check();"
        );
        let started = Instant::now();
        // The script fails if the browser leaves the page, and is then restarted on the next page.
        while let Err(error) = self.try_post("/execute/async", &json!({"script": script, "args": []})) {
            assert!(started.elapsed() < PATIENCE, "not {expression}: {error}\n{}", self.source());
        }
    }

    #[track_caller]
    fn find(&self, selector: &str) -> String {
        let found = self.post("/element", &json!({"using": "css selector", "value": selector}));
        found[ELEMENT].as_str().expect("an element").to_owned()
    }

    #[track_caller]
    pub(crate) fn click(&self, selector: &str) {
        self.post(&format!("/element/{}/click", self.find(selector)), &json!({}));
    }

    /// Types text into a field. The WebDriver protocol represents special keys such as Enter by private-use code
    /// points.
    #[track_caller]
    pub(crate) fn write(&self, selector: &str, text: &str) {
        self.post(&format!("/element/{}/value", self.find(selector)), &json!({"text": text}));
    }

    /// Presses keys in sequence in the focused element.
    #[track_caller]
    pub(crate) fn press(&self, keys: &str) {
        let key = |key: char| {
            let value = key.to_string();
            [json!({"type": "keyDown", "value": value}), json!({"type": "keyUp", "value": value})]
        };
        let actions: Vec<Value> = keys.chars().flat_map(key).collect();
        self.post("/actions", &json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}));
    }

    /// Presses Tab until the element that matches `selector` has focus.
    #[track_caller]
    pub(crate) fn tab_to(&self, selector: &str) {
        let is_focused = format!("document.activeElement.matches({selector:?})");
        for _ in 0..TABS_MAX {
            if self.value(&is_focused) == true {
                return;
            }
            self.press(TAB);
        }
        panic!("Tab does not lead to {selector} in {}", self.source());
    }

    fn command(&self, command: &str, params: &Value) -> Value {
        self.post("/goog/cdp/execute", &json!({"cmd": command, "params": params}))
    }

    /// Sets the size of the screen and the preferred color scheme. Scrollbars are hidden.
    pub(crate) fn screen(&self, width: u32, height: u32, dark: bool) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.command("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.command("Emulation.setEmulatedMedia", &media);
        self.command("Emulation.setScrollbarsHidden", &json!({"hidden": true}));
    }

    /// Sets a fixed time for the scripts of all subsequent pages, in milliseconds since the Unix epoch.
    pub(crate) fn set_time(&self, ms: i64) {
        let source = format!("Date.now = () => {ms};");
        self.command("Page.addScriptToEvaluateOnNewDocument", &json!({"source": source}));
    }

    /// Returns a PNG screenshot of the visible part of the page. Removes the focus first, because a blinking cursor
    /// would change the image.
    pub(crate) fn screenshot(&self) -> Vec<u8> {
        self.value("document.activeElement.blur()");
        let image = self.command("Page.captureScreenshot", &json!({"format": "png"}));
        STANDARD.decode(image["data"].as_str().expect("an image")).expect("base64")
    }

    /// Returns the serious and critical findings of axe-core.
    pub(crate) fn complaints(&self, axe: &str) -> Vec<String> {
        let script = format!(
            "const done = arguments[0]; {axe};\
             axe.run(document).then((found) => done(found.violations\
               .filter((one) => ['serious', 'critical'].includes(one.impact))\
               .map((one) => one.id + ': ' + one.nodes.slice(0, 3)\
                 .map((node) => node.html.slice(0, 150)).join(' | '))));"
        );
        let found = self.post("/execute/async", &json!({"script": script, "args": []}));
        let lines = found.as_array().expect("findings").iter();
        lines.map(|line| line.as_str().unwrap_or_default().to_owned()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Deleting the session closes the browser.
        let _ = self.send("DELETE", "", &json!({}));
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
