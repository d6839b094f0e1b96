//! Tests of the page in a real browser: headless Chromium, controlled by chromedriver. `ci/test.sh report` runs these
//! tests without network access.
//!
//! With ARMATURE_SCREENSHOTS=DIR the tests write screenshots of the page to DIR for inspection.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use armature::observe::Log;
use armature_report::{Job, page};
use serde_json::{Value, json};

/// Headless browser, which is ended when the `Browser` is dropped.
struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    fn start(width: u32, dark: bool) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .spawn()
            .expect("chromedriver is not installed: ci/setup.sh test installs it");
        let mut driver_lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = driver_lines.find_map(|line| {
            let line = line.unwrap();
            line.split("started successfully on port ").nth(1)?.trim_end_matches('.').parse().ok()
        });
        let port = port.expect("chromedriver says on which port it listens");
        // chromedriver first prints its port. Later output is read and discarded, so that
        // chromedriver never blocks on a full pipe.
        std::thread::spawn(move || driver_lines.for_each(drop));
        let mut args = vec![
            "--headless".to_string(),
            "--no-sandbox".into(),
            "--disable-gpu".into(),
            "--disable-quic".into(),
            "--no-first-run".into(),
            "--disable-background-networking".into(),
            "--disable-component-update".into(),
            "--disable-sync".into(),
            "--disable-dev-shm-usage".into(),
            format!("--window-size={width},1000"),
            format!("--user-data-dir={}", profile.path().display()),
        ];
        if dark {
            args.push("--blink-settings=preferredColorScheme=0".into());
        }
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": {"args": args}, "goog:loggingPrefs": {"browser": "ALL"}}}});
        let mut browser = Browser { driver, port, session: String::new(), _profile: profile };
        let answer = browser.ask("POST", "/session", &capabilities);
        browser.session = format!("/session/{}", answer["sessionId"].as_str().expect("a session"));
        browser.resize(width, 1000);
        browser
    }

    /// Sets the size of the window's content. A real window has a minimum width that exceeds that of a telephone.
    fn resize(&self, width: u32, height: i64) {
        self.post(
            "goog/cdp/execute",
            &json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}}),
        );
    }

    /// Sends an HTTP request to chromedriver and returns the value of its answer.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let body = if method == "GET" || method == "DELETE" { String::new() } else { body.to_string() };
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert!(answer["value"].get("error").is_none(), "{method} {path}: {}", answer["value"]);
        answer["value"].clone()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", &format!("{}/{path}", self.session), body)
    }

    /// Runs a script on the page that the browser shows, and returns the result of the script.
    fn run(&self, script: &str) -> Value {
        self.post("execute/sync", &json!({"script": script, "args": []}))
    }

    fn open(&self, file: &Path) {
        self.post("url", &json!({"url": format!("file://{}", file.display())}));
    }

    /// Moves the pointer to `from`. If `to` differs, also presses the button, drags to `to` and releases the button.
    fn pointer(&self, from: (i64, i64), to: (i64, i64)) {
        let at = |(x, y): (i64, i64)| json!({"type": "pointerMove", "duration": 20, "x": x, "y": y});
        let mut actions = vec![at(from)];
        if from != to {
            actions.extend([
                json!({"type": "pointerDown", "button": 0}),
                at(to),
                json!({"type": "pointerUp", "button": 0}),
            ]);
        }
        self.post("actions", &json!({"actions": [{"type": "pointer", "id": "mouse", "actions": actions}]}));
    }

    /// Returns the errors and warnings in the browser log.
    fn complaints(&self) -> Vec<Value> {
        let log = self.post("se/log", &json!({"type": "browser"}));
        log.as_array()
            .unwrap()
            .iter()
            .filter(|entry| entry["level"] != "INFO" && entry["level"] != "DEBUG")
            .cloned()
            .collect()
    }

    /// Writes a screenshot of the whole page if ARMATURE_SCREENSHOTS is set.
    fn picture(&self, name: &str) {
        let Some(dir) = std::env::var_os("ARMATURE_SCREENSHOTS") else { return };
        let height = self.run("return document.documentElement.scrollHeight").as_i64().unwrap().min(9000);
        let width = self.run("return window.innerWidth").as_i64().unwrap() as u32;
        self.resize(width, height);
        let shot = self
            .post("goog/cdp/execute", &json!({"cmd": "Page.captureScreenshot", "params": {"format": "png"}}));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(Path::new(&dir).join(name), unbase64(shot["data"].as_str().unwrap())).unwrap();
        self.resize(width, 1000);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ending the session ends Chromium, also after a failed check. Errors are ignored, because a panic while panicking would abort.
        let _ = TcpStream::connect(("127.0.0.1", self.port)).and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(20)))?;
            write!(
                stream,
                "DELETE {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                self.session
            )?;
            stream.read(&mut [0; 256])
        });
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn unbase64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u32> = text.bytes().filter(|c| *c != b'=').map(|c| u32::from(digit(c))).collect();
    let bits = digits
        .chunks(4)
        .map(|four| (four.iter().fold(0, |bits, d| bits << 6 | d) << (6 * (4 - four.len())), four.len()));
    bits.flat_map(|(bits, count)| bits.to_be_bytes()[1..count].to_vec()).collect()
}

fn written(dir: &Path, name: &str, text: &str) -> std::path::PathBuf {
    let file = dir.join(name);
    std::fs::write(&file, text).unwrap();
    file
}

/// Checks the picture that the browser shows: no two labels overlap, all of them are inside, none is smaller than 11 pixels, the axis has ticks
/// within its ends, and the page is not wider than the window.
fn check_picture(browser: &Browser) {
    let labels = browser.run(
        "const c = document.querySelector('canvas.time-line'); return [c.clientWidth, c.labels.map((l) => [l.text, l.x0, l.y0, l.x1, l.y1])]",
    );
    let (width, labels) = (labels[0].as_f64().unwrap(), labels[1].as_array().unwrap());
    let at = |label: &Value, n: usize| label[n].as_f64().unwrap();
    assert!(labels.len() > 10, "{labels:?}");
    for (n, a) in labels.iter().enumerate() {
        assert!(at(a, 1) >= 0.0 && at(a, 3) <= width, "{a} is outside");
        assert!(at(a, 4) - at(a, 2) >= 11.0, "{a} is too small");
        let overlaps = |b: &&Value| {
            at(a, 1) < at(b, 3) && at(b, 1) < at(a, 3) && at(a, 2) < at(b, 4) && at(b, 2) < at(a, 4)
        };
        assert!(labels[..n].iter().find(overlaps).is_none(), "{a} is over another label");
    }
    let ticks = browser
        .run("const c = document.querySelector('canvas.time-line'); return [c.ticks, c.left, c.clientWidth]");
    let ticks_at: Vec<f64> = ticks[0].as_array().unwrap().iter().map(|tick| tick.as_f64().unwrap()).collect();
    let (left, right) = (ticks[1].as_f64().unwrap(), ticks[2].as_f64().unwrap());
    assert!((2..=30).contains(&ticks_at.len()), "{ticks_at:?}");
    assert!(ticks_at.iter().all(|tick| (left - 1.0..=right).contains(tick)), "{ticks}");
    let sideways = browser.run("return document.documentElement.scrollWidth - window.innerWidth");
    assert!(sideways.as_i64().unwrap() <= 0, "the page is {sideways} pixels too wide");
    // Text of the page outside of tables that scroll must not be cut, and no text is smaller than 11 pixels.
    let small = browser.run(
        "return [...document.querySelectorAll('body *')].filter((e) => e.childNodes.length && [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) \
         && !e.closest('svg, script, style, noscript') && parseFloat(getComputedStyle(e).fontSize) < 11).map((e) => e.outerHTML.slice(0, 80))",
    );
    assert_eq!(small, json!([]));
    // Text is readable if its contrast is at least 4.5 to 1.
    let contrast = browser.run(
        "const lum = (c) => { const v = c.match(/[\\d.]+/g).slice(0, 3).map((x) => { x /= 255; return x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4; }); return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; }; \
         const page = lum(getComputedStyle(document.body).backgroundColor); \
         return Math.min(...['.summary', '.note', '.diagnosis', 'dt', '.efficiency'].map((s) => document.querySelector(s)).filter((e) => e).map((e) => { const b = lum(getComputedStyle(e).color); return (Math.max(page, b) + .05) / (Math.min(page, b) + .05); }))",
    );
    assert!(contrast.as_f64().unwrap() >= 4.5, "{contrast}");
}

#[test]
#[ignore = "needs chromium and chromedriver"]
fn page_works_in_a_browser() {
    let dir = tempfile::tempdir().unwrap();
    let job = Job { title: "target/demo/events-live".into(), ..Job::default() };
    let good = written(dir.path(), "good.html", &page(&common::pipeline("square"), &job));
    for (width, dark) in [(1300, false), (1300, true), (2560, false), (400, false), (400, true)] {
        let browser = Browser::start(width, dark);
        browser.open(&good);
        // If the canvas has several colours, the script of the page has drawn the picture.
        let colours = browser.run(
            "const c = document.querySelector('canvas.time-line'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; \
             const s = new Set(); for (let i = 0; i < d.length; i += 4) s.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return s.size",
        );
        assert!(colours.as_i64().unwrap() > 4, "{colours}");
        check_picture(&browser);
        let is_dark = browser.run("return matchMedia('(prefers-color-scheme: dark)').matches");
        assert_eq!(is_dark, json!(dark));
        browser.picture(&format!("page-{width}-{}.png", if dark { "dark" } else { "light" }));
        browser.run("document.querySelector('canvas.cursor').scrollIntoView({block: 'center'})");
        let place = browser.run("const b = document.querySelector('canvas.cursor').getBoundingClientRect(), c = document.querySelector('canvas.time-line'); \
             return [b.left, b.top, b.width, c.left, c.rows.find((r) => r[0] === 'activity')[1]]");
        let number = |n: usize| place[n].as_f64().unwrap() as i64;
        let (left, wide, row) = (number(0) + number(3), number(2) - number(3) - 8, number(1) + number(4) + 8);
        // If the pointer is over the picture, a card must describe the rank below the pointer and the other lanes.
        let middle = left + wide / 2;
        browser.pointer((middle, row), (middle, row));
        let card =
            browser.run("const t = document.getElementById('tip'); return t.hidden ? '' : t.textContent");
        let card = card.as_str().unwrap();
        for part in [
            "at ",
            "rank 2 on h1square",
            "here: computes",
            "longest call here: square ",
            "Ranks of each stage: numbers 0; square 1-3",
            "Results per second: ",
        ] {
            assert!(card.contains(part), "{part} is not in the card: {card}");
        }
        // Dragging, buttons and keys must zoom the picture.
        let span = || {
            let ends = browser
                .run("const d = document.querySelector('canvas.cursor').dataset; return d.to - d.from");
            ends.as_f64().unwrap()
        };
        assert!((span() - 10.0).abs() < 1e-6);
        browser.pointer((left + wide / 4, row), (middle, row));
        assert!((span() - 2.5).abs() < 0.3, "{}", span());
        check_picture(&browser);
        browser.run("document.querySelector('button.out').click()");
        assert!((span() - 5.0).abs() < 0.6, "{}", span());
        browser.run("document.querySelector('button.all').click()");
        assert!((span() - 10.0).abs() < 1e-6);
        let key = |options: &str| {
            browser.run(&format!("document.querySelector('canvas.cursor').dispatchEvent(new KeyboardEvent('keydown', {{{options}}}))"));
        };
        key("key: '+'");
        assert!((span() - 5.0).abs() < 1e-6);
        key("key: 'Escape'");
        let is_hidden = || browser.run("return document.getElementById('tip').hidden");
        assert_eq!(is_hidden(), json!(true));
        key("key: 'ArrowRight', shiftKey: true");
        assert_eq!(is_hidden(), json!(false));
        // A word in the search field must filter the table of events.
        browser.run("const s = document.querySelector('input.search'); s.value = 'in effect'; s.dispatchEvent(new Event('input'))");
        let rows = browser
            .run("return [...document.querySelectorAll('table.events tbody tr')].map((r) => r.textContent)");
        assert!(
            rows.as_array().unwrap().len() == 1 && rows[0].as_str().unwrap().contains("Mapping number 2"),
            "{rows}"
        );
        assert_eq!(browser.complaints(), Vec::<Value>::new());
    }
}

/// The page of a run in progress must load itself again and keep the zoom.
#[test]
#[ignore = "needs chromium and chromedriver"]
fn page_that_loads_again_keeps_its_zoom() {
    let dir = tempfile::tempdir().unwrap();
    let job = Job { reload_s: Some(1), ..Job::default() };
    let file = written(dir.path(), "live.html", &page(&common::pipeline("square"), &job));
    let browser = Browser::start(1300, false);
    browser.open(&file);
    let first = browser.run(
        "const c = document.querySelector('canvas.cursor'); \
         c.dispatchEvent(new WheelEvent('wheel', {ctrlKey: true, deltaY: -1, clientX: 600, bubbles: true, cancelable: true})); \
         return [performance.timeOrigin, c.dataset.to - c.dataset.from]",
    );
    assert!((first[1].as_f64().unwrap() - 8.0).abs() < 1e-6, "{first}");
    let limit = Instant::now() + Duration::from_secs(30);
    loop {
        let again = browser.run(
            "const c = document.querySelector('canvas.cursor'); return [performance.timeOrigin, c && c.dataset.to ? c.dataset.to - c.dataset.from : null]",
        );
        if again[0] != first[0] && !again[1].is_null() {
            assert!((again[1].as_f64().unwrap() - 8.0).abs() < 1e-6, "{again}");
            break;
        }
        assert!(Instant::now() < limit, "the page was not loaded again");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(browser.complaints(), Vec::<Value>::new());
}

/// The time axis must have units and numbers that a person would choose, for runs from a millisecond to a day and for up to 1,000 ranks.
#[test]
#[ignore = "needs chromium and chromedriver"]
fn axis_and_ranks_are_readable_at_every_scale() {
    let dir = tempfile::tempdir().unwrap();
    let browser = Browser::start(1300, false);
    let runs = [
        (1, 1e-5, "ms", vec!["0.1", "0.5", "1.0"]),
        (4, 0.5, "s", vec!["5", "25", "50"]),
        (1000, 12.0, "min:s", vec!["2:00", "20:00"]),
        (4, 864.0, "h:min", vec!["2:00", "12:00", "24:00"]),
    ];
    for (ranks, seconds, unit, ticks) in runs {
        let records = (0..ranks).flat_map(|n| common::rank(n, ranks, 100, seconds, "square")).collect();
        let file = written(dir.path(), "scale.html", &page(&Log::new(records), &Job::default()));
        browser.open(&file);
        check_picture(&browser);
        let shown = browser.run(
            "const c = document.querySelector('canvas.time-line'); return [c.labels.map((l) => l.text), c.rows.filter((r) => r[0] === 'activity').length]",
        );
        let labels: Vec<&str> =
            shown[0].as_array().unwrap().iter().map(|label| label.as_str().unwrap()).collect();
        assert_eq!(labels[0], unit, "{labels:?}");
        for tick in ticks {
            assert!(labels.contains(&tick), "{ranks} ranks, {seconds} s: no {tick} in {labels:?}");
        }
        assert!(shown[1].as_u64().unwrap() <= 16, "{shown}");
        assert_eq!(browser.complaints(), Vec::<Value>::new());
    }
    // Opening the groups shows all ranks for which the page has room.
    let records = (0..100).flat_map(|n| common::rank(n, 100, 100, 1.0, "square")).collect();
    let file = written(dir.path(), "scale.html", &page(&Log::new(records), &Job::default()));
    browser.open(&file);
    let rows = || {
        browser.run("return document.querySelector('canvas.time-line').rows.filter((r) => r[0] === 'activity').length").as_u64().unwrap()
    };
    let closed = rows();
    browser.run("document.querySelector('button.open').click()");
    assert!(closed <= 16 && rows() >= 100, "{closed} and {} rows", rows());
    check_picture(&browser);
}

#[test]
#[ignore = "needs chromium and chromedriver"]
fn hostile_names_are_shown_as_text() {
    let dir = tempfile::tempdir().unwrap();
    let job = Job { title: common::HOSTILE.into(), ..Job::default() };
    let file = written(dir.path(), "hostile.html", &page(&common::pipeline(common::HOSTILE), &job));
    let browser = Browser::start(1300, false);
    browser.open(&file);
    assert!(browser.run("return document.title").as_str().unwrap().starts_with("</script><script>"));
    let scripts = browser.run(
        "return [document.scripts.length, document.images.length, document.querySelector('h1').textContent]",
    );
    assert_eq!(scripts, json!([2, 0, common::HOSTILE]));
    let shown = browser.run(
        "return [...document.querySelectorAll('.events td')].some((c) => c.textContent.includes('<script>'))",
    );
    assert_eq!(shown, json!(true));
    assert_eq!(browser.complaints(), Vec::<Value>::new());
}

/// Checks the page of a workflow of `tasks` tasks on `ranks` ranks in a browser.
fn workflow_page(tasks: usize, ranks: usize, name: &str) {
    let dir = tempfile::tempdir().unwrap();
    let job = Job { title: format!("a workflow of {tasks} tasks"), ..Job::default() };
    let file = written(dir.path(), "workflow.html", &page(&common::workflow(tasks, ranks, name), &job));
    for (width, dark) in [(1300, false), (1300, true), (400, false)] {
        let browser = Browser::start(width, dark);
        browser.open(&file);
        check_picture(&browser);
        // The plan of each rank must be directly above its run.
        let rows = browser.run(
            "const data = JSON.parse(document.querySelector('script.data').textContent).picture; \
             return data.lanes.find((l) => l.title.startsWith('Tasks')).rows.filter((r) => r.name).map((r) => [r.name, r.plan])",
        );
        assert_eq!((&rows[0], &rows[1]), (&json!(["rank 0", true]), &json!(["rank 0", false])), "{rows}");
        // The critical path must cover the run without gaps: each of its boxes begins at the end of the previous one.
        let gaps = browser.run(
            "const data = JSON.parse(document.querySelector('script.data').textContent).picture; const b = data.lanes.find((l) => l.title === 'Critical path').rows[0].boxes; \
             let gaps = b[0] === 0 ? 0 : 1; for (let n = 5; n < b.length; n += 5) if (b[n] !== b[n - 4]) gaps++; return gaps",
        );
        assert_eq!(gaps, json!(0));
        // Each node of the task graph must contain the number of its rank, and no two nodes may overlap.
        let nodes = browser.run(
            "return [...document.querySelectorAll('.graph .node')].map((n) => { const b = n.getBoundingClientRect(); \
             return [n.parentElement.querySelector('.in').textContent, b.left, b.top, b.width]; })",
        );
        let nodes = nodes.as_array().unwrap();
        let number = |node: &Value, n: usize| node[n].as_f64().unwrap();
        assert_eq!(nodes.len(), if tasks > 500 { ranks } else { tasks });
        assert!(nodes.iter().all(|node| node[0].as_str().unwrap().parse::<usize>().unwrap() < ranks));
        for (n, a) in nodes.iter().enumerate() {
            let near = |b: &&Value| {
                let apart = (number(a, 1) - number(b, 1)).hypot(number(a, 2) - number(b, 2));
                apart < 0.8 * number(a, 3).min(number(b, 3))
            };
            assert!(nodes[..n].iter().find(near).is_none(), "{a} is over another");
        }
        // Text on a node is readable if its contrast is at least 4.5 to 1.
        let contrast = browser.run(
            "const lum = (c) => { const v = c.match(/[\\d.]+/g).slice(0, 3).map((x) => { x /= 255; return x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4; }); return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; }; \
             return Math.min(...[...document.querySelectorAll('.graph .node')].map((n) => { const a = lum(getComputedStyle(n).fill), b = lum(getComputedStyle(n.parentElement.querySelector('.in')).fill); \
             return (Math.max(a, b) + .05) / (Math.min(a, b) + .05); }))",
        );
        assert!(contrast.as_f64().unwrap() >= 4.5, "{contrast}");
        assert_eq!(browser.complaints(), Vec::<Value>::new());
        browser.picture(&format!("workflow-{tasks}-{width}-{}.png", if dark { "dark" } else { "light" }));
    }
}

#[test]
#[ignore = "needs chromium and chromedriver"]
fn workflow_page_shows_plan_and_graph() {
    workflow_page(40, 4, "resample");
    workflow_page(400, 12, common::HOSTILE);
}

#[test]
#[ignore = "needs chromium and chromedriver"]
fn page_of_a_large_workflow_shows_the_graph_of_its_ranks() {
    workflow_page(3000, 10, "t");
}

/// Returns the time for which this thread has had a core.
fn own_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// The page of a million events, many of which are listed in the table, must open within three seconds and scroll
/// smoothly.
#[test]
#[ignore = "needs chromium and chromedriver"]
fn page_of_a_million_events_opens_and_scrolls() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = common::workflow(20_000, 60, "task");
    log.records.extend((0..200).flat_map(|n| common::rank(n, 200, 4700, 0.01, "square")));
    log.records.sort_by(|a, b| a.at.total_cmp(&b.at));
    assert!(log.records.len() > 1_000_000, "{} events", log.records.len());
    let begin = own_time();
    let page = page(&log, &Job::default());
    let build_time = own_time() - begin;
    assert!(build_time < Duration::from_secs(10), "{build_time:?}");
    assert!(page.len() < 5_000_000, "{}", page.len());
    let file = written(dir.path(), "large.html", &page);
    let browser = Browser::start(1300, false);
    let cdp =
        |cmd: &str, params: Value| browser.post("goog/cdp/execute", &json!({"cmd": cmd, "params": params}));
    cdp("Performance.enable", json!({"timeDomain": "threadTicks"}));
    let begin = Instant::now();
    browser.open(&file);
    // The page counts as opened when the browser has painted it, which is later than the end of loading.
    let painted = browser.post(
        "execute/async",
        &json!({"script": "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())))", "args": []}),
    );
    let opened = begin.elapsed();
    let metrics = cdp("Performance.getMetrics", json!({}));
    let computed =
        metrics["metrics"].as_array().unwrap().iter().find(|metric| metric["name"] == "ThreadTime");
    let computed = computed.and_then(|metric| metric["value"].as_f64()).unwrap();
    eprintln!(
        "{} events: {} bytes, made in {build_time:?}; opened and painted in {opened:?}, {painted} ms by the page's clock, for {computed:.3} s of which \
         its thread had a core",
        log.records.len(),
        page.len()
    );
    // The test limits the computing time and not the elapsed time, because other programs may delay the page. On a
    // quiet machine a page that computes for 1.5 s opens within three seconds.
    assert!(computed < 1.5, "the page computes for {computed} s");
    // This script scrolls the page from top to bottom in forty steps, each of which is painted.
    let frames = browser.post(
        "execute/async",
        &json!({"script": "const done = arguments[0], frames = [], high = document.documentElement.scrollHeight; let last = performance.now(), n = 0; \
            const step = () => { const now = performance.now(); frames.push(now - last); last = now; \
            if (++n > 40) return done([window.scrollY, high - window.innerHeight, Math.max(...frames.slice(1))]); \
            window.scrollTo(0, high * n / 40); requestAnimationFrame(step); }; requestAnimationFrame(step);", "args": []}),
    );
    let [at, end, longest] = [0, 1, 2].map(|n| frames[n].as_f64().unwrap());
    eprintln!("the longest frame of the scroll took {longest:.0} ms");
    assert!((at - end).abs() < 2.0 && end > 2000.0, "{at} of {end}");
    assert!(longest < 500.0, "a frame took {longest} ms");
    assert_eq!(browser.run("return document.querySelectorAll('canvas.time-line').length"), json!(1));
    assert_eq!(browser.complaints(), Vec::<Value>::new());
    browser.picture("page-large.png");
}
