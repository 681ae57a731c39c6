//! What a script can't reach, and can't leave behind.

use settled_lua::Script;

use crate::{LIMITS, message, run, said};

#[test]
fn absent() {
    let names = "os.execute os.exit os.getenv os.remove os.rename os.tmpname os.clock os.setlocale io package module debug dofile loadfile load loadstring getfenv setfenv collectgarbage \
         gcinfo newproxy coroutine string.dump string.gfind table.foreach table.foreachi math.random math.randomseed arg";
    for name in names.split_whitespace() {
        assert_eq!(said(&format!("say({name})")), "nil", "{name}");
    }
}

/// The names that there are: each new one needs a review.
#[test]
fn present() {
    assert_eq!(said("local n = 0 for k in pairs(_G) do n = n + 1 end say(n)"), "6");
    let libraries = [
        ("string", "byte char find format gmatch gsub len lower match rep reverse sub upper"),
        ("table", "concat getn insert maxn remove sort"),
        (
            "math",
            "abs acos asin atan atan2 ceil cos cosh deg exp floor fmod frexp huge ldexp log log10 max min mod modf pi \
             pow rad sin sinh sqrt tan tanh",
        ),
        ("os", "date time"),
    ];
    for (library, names) in libraries {
        for name in names.split_whitespace() {
            assert_ne!(said(&format!("say({library}.{name})")), "nil", "{library}.{name}");
        }
    }
}

/// Whatever a script does to its surroundings, the next one finds nothing of it.
#[test]
fn nothing_stays() {
    let attacks = [
        "leak = 'leaked'",
        "_G.leak = 'leaked'",
        "rawset(_G, 'leak', 'leaked')",
        "string.leak = 'leaked'",
        "string.find = function() return 'leaked' end",
        "rawset(string, 'find', function() return 'leaked' end)",
        "table.insert(string, 'leaked')",
        "table.insert(table, 'leaked')",
        "table.sort = function() leak = 1 end",
        "math.floor = nil math.pi = 3",
        "pairs = nil ipairs = nil tostring = nil pcall = nil error = nil",
        "_G = nil string = nil table = nil",
        "obj.leak = 'leaked'",
        "setmetatable(_G, { __index = function() return 'leaked' end })",
        "setmetatable(string, { __index = function() return 'leaked' end })",
        "getmetatable('').__index = function() return function() return 'leaked' end end",
        "getmetatable('').__index.upper = function() return 'leaked' end",
        "getmetatable('').__metatable = nil",
        "rawset(getmetatable(''), '__index', {})",
        "setmetatable('', {})",
        "getmetatable(_G).__index.leak = 'leaked'",
        "getmetatable(string).__index.find = nil",
        "getmetatable(print).__call = nil",
        "for name, value in pairs(_G) do if type(value) == 'table' then value.leak = 'leaked' end end",
        "for name in pairs(string) do string[name] = nil end",
        "xpcall(error, function(e) getmetatable(e).__tostring = nil end)",
        "local f = pcall leak = function() return f end",
        "string.gsub('a', 'a', function() leak = 'leaked' end)",
    ];
    let probe = "local found = {}
        for _, at in ipairs({ _G, string, table, math, obj }) do
          if at.leak ~= nil or at[1] ~= nil then found[#found + 1] = 'leak' end
        end
        local ok = ('x'):upper() == 'X' and string.find('ab', 'b') == 2 and math.floor(1.5) == 1
          and #string == 0 and getmetatable('') == false and getmetatable(_G) == false and getmetatable(string) == false
        local t = { 2, 1 } table.sort(t)
        return { status = 'Healthy', message = tostring(ok) .. #found .. t[1] }";
    for attack in attacks {
        let script = Script::new("attack", &format!("{attack} return {{ status = 'Healthy' }}")).unwrap();
        // It may fail, of course.
        script.run(b"{}", &LIMITS).ok();
        assert_eq!(message(probe, "{}"), "true01", "{attack}");
        script.run(b"{}", &LIMITS).ok();
        assert_eq!(message(probe, "{}"), "true01", "{attack}");
    }
}

#[test]
fn globals_are_fresh() {
    let script = Script::new(
        "x",
        "count = (count or 0) + 1 string.n = (string.n or 0) + 1 return { status = 'Healthy', message = count .. string.n }",
    );
    let script = script.unwrap();
    for _ in 0..3 {
        assert_eq!(script.run(b"{}", &LIMITS).unwrap().message, "11");
    }
}

#[test]
fn locals_are_fresh() {
    let script = Script::new(
        "x",
        "local f = function() n = (n or 0) + 1 return n end f() return { status = 'Healthy', message = '' .. f() }",
    );
    let script = script.unwrap();
    for _ in 0..3 {
        assert_eq!(script.run(b"{}", &LIMITS).unwrap().message, "2");
    }
}

/// The same on many threads, which share only the source.
#[test]
fn threads() {
    let script =
        Script::new("x", "seen = (seen or 0) + obj.n return { status = 'Healthy', message = '' .. seen }")
            .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let script = script.clone();
            scope.spawn(move || {
                for n in 0..200 {
                    let n = thread * 1000 + n;
                    let health = script.run(format!("{{\"n\":{n}}}").as_bytes(), &LIMITS).unwrap();
                    assert_eq!(health.message, n.to_string());
                }
            });
        }
    });
}

/// More scripts than a thread keeps compiled.
#[test]
fn many_scripts() {
    let scripts: Vec<Script> = (0..700)
        .map(|n| {
            Script::new(
                "x",
                &format!("return {{ status = 'Healthy', message = '{n}' }} --{}", " ".repeat(n * 10)),
            )
            .unwrap()
        })
        .collect();
    for _ in 0..2 {
        for (n, script) in scripts.iter().enumerate() {
            assert_eq!(script.run(b"{}", &LIMITS).unwrap().message, n.to_string());
        }
    }
}

#[test]
fn self_reference() {
    // Result tables that hold themselves, or are very deep, are not walked.
    assert!(run("local t = { status = 'Healthy' } t.t = t return t", "{}").is_ok());
    assert!(run("local t = { status = 'Healthy' } for i = 1, 1e4 do t = { status = 'Healthy', t = t } end return t", "{}").is_ok());
    assert!(run("return setmetatable({ status = 'Healthy' }, { __index = error, __tostring = error, __metatable = 1 })", "{}").is_ok());
}
