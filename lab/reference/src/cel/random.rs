//! Expressions and objects that nobody would write.

use serde_json::{Value, json};

struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % below as u64) as usize
    }

    fn of<'t>(&mut self, options: &[&'t str]) -> &'t str {
        options[self.next(options.len())]
    }

    /// `%b` and the like in a template stand for expressions of a type.
    fn fill(&mut self, template: &str, depth: usize) -> String {
        let mut out = String::new();
        let mut rest = template;
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            out.push_str(&self.expression(rest.as_bytes()[at + 1] as char, depth));
            rest = &rest[at + 2..];
        }
        out.push_str(rest);
        out
    }

    fn expression(&mut self, type_: char, depth: usize) -> String {
        let leaf = depth == 0 || self.next(5) == 0;
        // Now and then a wrong type, for the checker.
        let type_ = if self.next(60) == 0 { ['b', 'i', 's', 'l', 'd'][self.next(5)] } else { type_ };
        let template = match (type_, leaf) {
            ('b', true) => {
                self.of(&["true", "false", "self.b", "has(self.s)", "has(self.o.p)", "has(self.none)"])
            }
            ('b', false) => self.of(&[
                "%b && %b",
                "%b || %b",
                "!(%b)",
                "%i == %i",
                "%i < %i",
                "%s == %s",
                "%s <= %s",
                "%l == %l",
                "%s in %l",
                "%l.all(x, x != %s)",
                "%l.exists(x, x == %s)",
                "%l.exists_one(x, x > %s)",
                "%s.startsWith(%s)",
                "%s.contains(%s)",
                "%s.matches('^[a-z]*$')",
                "(%b ? %b : %b)",
                "self.m.all(k, self.m[k] > %i)",
                "self.x == %i",
                "self.x == %s",
                "%d != %d",
                "%u < %u",
                "type(%i) == int",
                "%l.all(i, v, i < %i || v == %s)",
                "quantity(%s).isLessThan(quantity('3'))",
                "isQuantity(%s)",
                "isURL(%s)",
                "duration(%s) > duration('1s')",
                "%l.isSorted()",
                "sets.contains(%l, %l)",
                "%s.matches(%s)",
                "ip.isCanonical('1.2.3.4')",
                "isIP(%s)",
                "self.?none.hasValue()",
                "[%i, %i] == [%i]",
                "%i in [1, 2, 3]",
                "'a' in self.m",
                "{%s: %i} == {%s: %i}",
            ]),
            ('i', true) => self.of(&[
                "0",
                "1",
                "-7",
                "42",
                "self.i",
                "self.o.p",
                "self.m['a']",
                "size(self.l)",
                "self.none",
            ]),
            ('i', false) => self.of(&[
                "%i + %i",
                "%i - %i",
                "%i * %i",
                "%i / %i",
                "%i % %i",
                "-(%i)",
                "size(%s)",
                "%l.size()",
                "(%b ? %i : %i)",
                "int(%s)",
                "int(%d)",
                "%s.indexOf(%s)",
                "[%i, %i].max()",
                "[%i, %i][%i]",
                "%l.map(x, size(x)).sum()",
                "self.?i.orValue(%i)",
                "self.o.?q.orValue(%i)",
                "self.m[?%s].orValue(%i)",
                "dyn(%i)",
                "int(self.x)",
                "optional.of(%i).optMap(v, v + %i).value()",
                "{'a': %i}['a']",
                "lists.range(%i).size()",
                "self.l2[%i].n",
            ]),
            ('s', true) => self.of(&[
                "''",
                "'a'",
                "'abc'",
                "'1'",
                "'2Gi'",
                "'1m'",
                "self.s",
                "self.l[0]",
                "'\\u00e9'",
                "self.x",
            ]),
            ('s', false) => self.of(&[
                "%s + %s",
                "string(%i)",
                "string(%d)",
                "string(%b)",
                "%s.upperAscii()",
                "%s.replace(%s, %s)",
                "%s.substring(%i)",
                "%l.join(%s)",
                "(%b ? %s : %s)",
                "%s.trim()",
                "%s.charAt(%i)",
                "%l[%i]",
                "'%%s-%%d'.format([%s, %i])",
                "%s.split(%s)[0]",
                "self.?s.orValue(%s)",
                "%s.find('[a-c]+')",
                "string(duration(%s))",
                "self.l2[0].t",
                "url(%s).getHost()",
                "%s.lowerAscii()",
                "type(%s) == string ? %s : %s",
            ]),
            ('l', true) => self.of(&["[]", "['a', 'b']", "self.l", "self.t", "[self.s]"]),
            ('l', false) => self.of(&[
                "%l + %l",
                "%l.map(x, x + %s)",
                "%l.filter(x, x != %s)",
                "[%s, %s]",
                "%s.split(%s)",
                "(%b ? %l : %l)",
                "self.m.map(k, k)",
                "%l.sort()",
                "%l.distinct()",
                "%l.slice(0, 1)",
                "%l.reverse()",
                "[?self.?s]",
                "%l.transformList(i, v, i > 0, v)",
                "self.l2.map(e, e.t)",
                "%l.sortBy(x, size(x))",
                "[%l, %l].flatten()",
            ]),
            ('u', _) => self.of(&["1u", "0u", "uint(%i)", "%u + %u", "%u - %u"]),
            (_, true) => self.of(&["1.5", "0.0", "-2.25", "self.d"]),
            (_, false) => {
                self.of(&["%d + %d", "%d / %d", "double(%i)", "double(%s)", "-(%d)", "[%d, %d].min()"])
            }
        };
        if template.contains("%i % %i") {
            let left = self.expression('i', depth.saturating_sub(1));
            return format!("{left} % {}", self.expression('i', depth.saturating_sub(1)));
        }
        if let Some(rest) = template.strip_prefix("'%%s-%%d'") {
            return format!("'%s-%d'{}", self.fill(rest, depth.saturating_sub(1)));
        }
        self.fill(template, depth.saturating_sub(1))
    }

    fn object(&mut self) -> Value {
        let mut object =
            json!({"b": self.next(2) == 0, "i": self.next(7) as i64 - 3, "o": {}, "m": {"a": 1}, "x": 3});
        for key in ["s", "l", "t", "d", "l2", "p"] {
            if self.next(5) == 0 {
                continue;
            }
            let text = self.of(&["", "a", "abc", "2Gi", "1m", "zz top"]);
            match key {
                "s" => object["s"] = text.into(),
                "l" => object["l"] = json!([text, "b"]),
                "t" => object["t"] = json!(["b", text]),
                "d" => object["d"] = json!(self.next(10) as f64 / 4.0),
                "l2" => object["l2"] = json!([{"n": 1, "t": text}, {"n": 2, "t": "u"}]),
                _ => object["o"]["p"] = 4.into(),
            }
        }
        if self.next(3) == 0 {
            object["x"] = "50%".into();
        }
        object
    }
}

pub(crate) fn cases(count: usize, seed: u64) -> Vec<Value> {
    let mut random = Random(seed);
    let text = json!({"type": "string", "maxLength": 20});
    let properties = json!({
        "b": {"type": "boolean"}, "i": {"type": "integer"}, "d": {"type": "number"}, "s": text, "none": {"type": "integer"},
        "x": {"x-kubernetes-int-or-string": true},
        "l": {"type": "array", "maxItems": 5, "items": text},
        "t": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "o": {"type": "object", "properties": {"p": {"type": "integer"}, "q": {"type": "integer"}}},
        "l2": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"], "maxItems": 4,
            "items": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}, "t": text}}},
    });
    let mut cases = Vec::new();
    for _ in 0..count {
        let rules: Vec<Value> = (0..2).map(|_| json!({"rule": random.expression('b', 3)})).collect();
        let spec = json!({"type": "object", "properties": properties, "x-kubernetes-validations": rules});
        let mut case = json!({
            "schema": {"type": "object", "properties": {"spec": spec}},
            "object": {"spec": random.object()},
        });
        if random.next(4) == 0 {
            case["old"] = json!({"spec": random.object()});
        }
        cases.push(case);
    }
    cases
}
