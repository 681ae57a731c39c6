//! Scripts that want too much.

use std::time::{Duration, Instant};

use settled_lua::{Error, HealthStatus, Limits, Script};

use crate::{LIMITS, run};

fn instructions() -> Error {
    Error::Instructions { limit: LIMITS.instructions }
}

fn memory() -> Error {
    Error::Memory { limit: LIMITS.memory }
}

/// Runs it, and afterwards something harmless on the same thread.
#[track_caller]
fn ends(source: &str, expected: &[Error]) {
    let started = Instant::now();
    let done = run(source, r#"{"a":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}"#);
    let took = started.elapsed();
    assert!(expected.iter().any(|expected| done == Err(expected.clone())), "{done:?}\n{source}");
    // The budget counts steps. This is for scripts that would end, but not today: a busy machine takes ten seconds for some.
    assert!(took < Duration::from_secs(120), "{took:?}\n{source}");
    assert_eq!(run("return { status = 'Healthy' }", "{}").unwrap().status, HealthStatus::Healthy);
}

#[test]
fn loops() {
    let cases = [
        "while true do end",
        "repeat until false",
        "for i = 1, 1e300 do end",
        "for i = 1, 1, 0 do end",
        "local function f() return f() end f()",
        "while true do pcall(function() while true do end end) end",
        "while true do pcall(pcall, function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function(e) while true do end end) end",
        "while true do xpcall(function() while true do end end, function(e) return e end) end",
        "local function f() pcall(f) pcall(f) end while true do pcall(f) end",
        "local ok = pcall(function() while true do end end) return { status = 'Healthy' }",
        "local t = setmetatable({}, { __index = function(t, k) return t[k + 1] end }) while true do pcall(function() return t[1] end) end",
        "local t = setmetatable({}, { __tostring = function() while true do end end }) tostring(t)",
        "local t = setmetatable({}, { __lt = function() while true do end end }) table.sort({ t, t })",
        "table.sort({ 1, 2, 3 }, function() while true do end end)",
        "string.gsub('a', 'a', function() while true do end end)",
        "string.gsub('a', 'a', setmetatable({}, { __index = function() while true do end end }))",
        "while true do string.find('a', 'b') end",
        "while true do local t = {} end",
        "while true do local s = 'a' .. 1 end",
        "while true do pcall(error) end",
        "while true do pcall(string.rep) end",
        // One call of Lua's own functions that takes for ever.
        "string.rep('', 1e300) string.rep('', 2^31) while true do end",
        "table.insert({}, -2147483648, 1) while true do end",
    ];
    for source in cases {
        if source.contains("table.insert") {
            let why = run(source, "{}").unwrap_err().to_string();
            assert_eq!(why, "script failed on line 1: bad argument #2 to 'insert' (position out of bounds)");
        } else {
            ends(source, &[instructions()]);
        }
    }
}

#[test]
fn patterns() {
    let cases = [
        "string.find(('a'):rep(30), ('a?'):rep(30) .. ('a'):rep(31))",
        "string.find(('a'):rep(100), ('a*'):rep(20) .. 'b')",
        "string.match(('a'):rep(200), '.-.-.-.-.-.-.-b')",
        "string.gsub(('a'):rep(200), '(.*)(.*)(.*)(.*)(.*)(.*)(.*)b', '%1')",
        "for x in string.gmatch(('a'):rep(200), '(.*)(.*)(.*)(.*)(.*)(.*)(.*)b') do end",
        "string.gsub(('a'):rep(200), '(.*)(.*)(.*)(.*)(.*)(.*)(.*)b', function() end)",
        "string.find(('('):rep(100000), '%b()')",
        "string.find(('a'):rep(2000), '(.-)(.-)%2%1%1b')",
        "string.find(('a'):rep(100000), '[' .. ('b'):rep(100000) .. ']')",
        "string.find(('a'):rep(100000), '[' .. ('b'):rep(100000) .. ']*c')",
        "while true do pcall(string.find, ('a'):rep(100), ('a*'):rep(20) .. 'b') end",
        "while true do string.find(('a'):rep(100000), 'b', 1, true) end",
        "while true do string.gsub(('a'):rep(1000), 'a', 'b') end",
        "while true do string.gsub('', '', '') end",
    ];
    for source in cases {
        ends(source, &[instructions()]);
    }
    // Recursion in the matcher is bounded like the pattern.
    for source in [
        "string.find(('a'):rep(100000), ('a?'):rep(100000))",
        "string.find('', ('()'):rep(100000))",
        "string.find('', ('('):rep(100000))",
        "string.find(('a'):rep(1000), ('a-'):rep(1000))",
    ] {
        let why = run(source, "{}").unwrap_err().to_string();
        assert!(why.contains("pattern too complex") || why.contains("too many captures"), "{why}");
    }
}

#[test]
fn bombs() {
    let cases = [
        "string.rep('x', 1e9)",
        "string.rep('x', 1e300)",
        "string.rep(string.rep('x', 1e6), 1e6)",
        "('x'):rep(2^53)",
        "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end",
        "local t = {} while true do t = { t, {}, {}, {}, {}, {}, {}, {} } end",
        "local s = 'x' while true do s = s .. s end",
        "local s = 'x' while true do s = table.concat({ s, s, s, s }) end",
        "local s = 'x' while true do s = string.format('%s%s', s, s) end",
        "local s = ('x'):rep(1e5) s:gsub('.', s)",
        "local s = ('x'):rep(1e6) s:gsub('^.*', ('%0'):rep(5e5))",
        "local s = ('x'):rep(1e6) s:gsub('', ('%0'):rep(1e7))",
        "local s = ('x'):rep(1e5) s:gsub('.', function() return s end)",
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "local t = {} for i = 1, 25 do t[2^i] = {} for j = 1, 2^i do t[j] = i end end",
        "local s = 'x' while true do s = s:gsub('.', '%0%0%0%0%0%0%0%0%0%0') end",
        // Caught, and tried again.
        "local t = {} while true do pcall(function() while true do t[#t + 1] = ('x'):rep(1000) .. #t end end) end",
        "while true do pcall(string.rep, 'x', 1e9) end",
        "while true do pcall(function() local s = 'x' while true do s = s .. s end end) end",
        "local s = 'x' pcall(function() while true do s = s .. s end end) return { status = 'Healthy' }",
        "xpcall(function() local s = 'x' while true do s = s .. s end end, function(e) return 'mine' end) return { status = 'Healthy' }",
        "pcall(string.rep, 'x', 1e9) return { status = 'Healthy' }",
        "error('not enough memory', 0)",
    ];
    for source in cases {
        ends(source, &[memory(), instructions()]);
    }
    for source in &cases[..9] {
        ends(source, &[memory()]);
    }
}

/// Few instructions, each of which copies megabytes.
#[test]
fn time() {
    let script =
        Script::new("x", "local s = ('x'):rep(2^22) for i = 1, 1e9 do local t = s .. i end").unwrap();
    let limits = Limits { time: Duration::from_millis(50), ..LIMITS };
    let started = Instant::now();
    assert_eq!(script.run(b"{}", &limits), Err(Error::Time { limit: limits.time }));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[test]
fn recursion() {
    let cases = [
        ("local function f() return 1 + f() end f()", "stack overflow"),
        ("local function f() pcall(f) return f() + 1 end f()", "overflow"),
        ("local function f() return (('x'):gsub('x', f)) end f()", "stack overflow"),
        ("local function f(a, b) table.sort({ 1, 2 }, f) end f()", "stack overflow"),
        ("local t = {} setmetatable(t, { __index = t }) local x = t.a", "loop in gettable"),
        ("local t = {} setmetatable(t, { __newindex = t }) t.a = 1", "loop in settable"),
        (
            "local t = setmetatable({}, { __index = function(t, k) return t[k] end }) local x = t.a",
            "stack overflow",
        ),
        ("local t = {} setmetatable(t, { __tostring = tostring }) tostring(t)", "stack overflow"),
        (
            "local t = setmetatable({}, { __concat = function(a, b) return a .. b end }) local x = t .. t",
            "stack overflow",
        ),
        (
            "local t = setmetatable({}, { __eq = function(a, b) return a == b end }) local u = setmetatable({}, getmetatable(t)) local x = t == u",
            "stack overflow",
        ),
        ("local t = {} for i = 1, 9000 do t[i] = i end unpack(t)", "too many results"),
        ("('x'):rep(100000):byte(1, -1)", "string slice too long"),
        ("xpcall(function() error('x') end, function(e) error(e) end) error('past', 0)", "past"),
    ];
    // The stack of a thread as std makes it.
    for (source, expected) in cases {
        let why = std::thread::spawn(move || run(source, "{}").unwrap_err()).join().unwrap();
        let known = matches!(&why, Error::Instructions { .. }) || why.to_string().contains(expected);
        assert!(known, "{why}\n{source}");
    }
}

#[test]
fn objects() {
    let script = Script::new("x", "return { status = 'Healthy' }").unwrap();
    let limits = Limits { memory: 1 << 20, ..LIMITS };
    let expected = Err(Error::Memory { limit: limits.memory });
    for items in ["[1]", "{}", "1", "\"text\"", "{\"a\":null}"] {
        let object = format!("{{\"a\":[{}{items}]}}", format!("{items},").repeat(300_000));
        assert_eq!(script.run(object.as_bytes(), &limits), expected, "{items}");
    }
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(2 << 20));
    assert_eq!(script.run(long.as_bytes(), &limits), expected);
    assert!(script.run(b"{}", &limits).is_ok());
}

/// Strings that Lua can't tell apart by their hashes.
#[test]
fn colliding_objects() {
    let script = Script::new("x", "return { status = 'Healthy' }").unwrap();
    let limits = Limits { time: Duration::from_millis(50), ..LIMITS };
    let texts: Vec<String> =
        (0..20_000).map(|n| format!("{}{n:05}{}", "x".repeat(100), "x".repeat(10))).collect();
    let object = serde_json::json!({ "list": texts }).to_string();
    let started = Instant::now();
    assert_eq!(script.run(object.as_bytes(), &limits), Err(Error::Time { limit: limits.time }));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

/// Wherever the memory ends, nothing worse happens than an error that says so.
#[test]
fn any_memory() {
    let source = "local parts = {}
        for word in string.gmatch('some words to take apart, in a loop', '(%a+)') do
          parts[#parts + 1] = word:upper():gsub('[AEIOU]', function(c) return '<' .. c .. '>' end)
        end
        table.sort(parts, function(a, b) return a > b end)
        local ok, why = pcall(function() local t = {} for i = 1, 30 do t[i] = { i, tostring(i) } end error({ t }) end)
        local ok, why = xpcall(function() return obj.a.b.c end, function(e) return e .. '!' end)
        local x = string.rep('x', 100):find('x-y') or string.format('%s %d', 'a', 3) .. (string.gsub('abc', '%w', '%0%0'))
        return { status = 'Healthy', message = table.concat(parts, ' ') .. x }";
    let script = Script::new("x", source).unwrap();
    let object = br#"{"list":[1,2,{"a":["b"]}],"text":"something"}"#;
    let expected = script.run(object, &LIMITS).unwrap();
    let (mut refused, mut enough) = (0, 0);
    for memory in (0..40_000).step_by(37) {
        match script.run(object, &Limits { memory, ..LIMITS }) {
            Ok(health) => {
                assert_eq!(health, expected);
                enough += 1;
            }
            Err(why) => {
                assert_eq!(why, Error::Memory { limit: memory });
                refused += 1;
            }
        }
    }
    assert!(refused > 100 && enough > 100, "{refused} {enough}");
}

/// Wherever the instructions end.
#[test]
fn any_instructions() {
    let source = "local n = 0
        for i = 1, 20 do
          pcall(function() for j = 1, 20 do n = n + #string.gsub('abc', '%w', function(c) return c .. c end) end error('x') end)
        end
        return { status = 'Healthy', message = '' .. n }";
    let script = Script::new("x", source).unwrap();
    let mut enough = false;
    for instructions in (0..300_000).step_by(1009) {
        match script.run(b"{}", &Limits { instructions, ..LIMITS }) {
            Ok(health) => {
                assert_eq!(health.message, "2400");
                enough = true;
            }
            Err(why) => {
                assert_eq!(why, Error::Instructions { limit: instructions });
                assert!(!enough, "{instructions}");
            }
        }
    }
    assert!(enough);
}

/// What one run leaves behind is not counted against the next.
#[test]
fn garbage() {
    let script = Script::new(
        "x",
        "keep = {} for i = 1, 2000 do keep[i] = ('x'):rep(1000) .. i end return { status = 'Healthy' }",
    )
    .unwrap();
    let limits = Limits { memory: 4 << 20, ..LIMITS };
    for _ in 0..100 {
        script.run(b"{}", &limits).unwrap();
    }
}

/// Lua's parser appends jumps to lists that it walks every time.
#[test]
fn slow_syntax() {
    for (source, refused) in [
        (format!("x = {}1", "a or ".repeat(50_000)), true),
        (format!("x = {}1", "a and ".repeat(40_000)), true),
        (format!("x = {}1", "(1)or".repeat(40_000)), true),
        (format!("while 1 do {} end", "if a then break end ".repeat(12_000)), true),
        (format!("if a then {} end", "elseif a then ".repeat(18_000)), true),
        (format!("while 1 do {} ::c:: end", "if a then goto c end ".repeat(12_000)), true),
        // Every break leaves every loop that is made for a label.
        (
            format!(
                "while 1 do {} {} end",
                (0..1_000).map(|n| format!("goto l{n} break ")).collect::<String>(),
                (0..1_000).map(|n| format!("::l{n}:: ")).collect::<String>()
            ),
            true,
        ),
        (format!("while 1 do {} ::c:: end", "if a then goto c end ".repeat(4_900)), false),
        (format!("x = {}1", "a or ".repeat(4_900)), false),
        (format!("x = {{{}}}", "1,".repeat(120_000)), false),
        ("f()".repeat(80_000), false),
    ] {
        let started = Instant::now();
        assert_eq!(
            matches!(Script::new("x", &source), Err(Error::Source { .. })),
            refused,
            "{}",
            &source[..30]
        );
        assert!(started.elapsed() < Duration::from_secs(10), "{:?} {}", started.elapsed(), &source[..30]);
    }
}
