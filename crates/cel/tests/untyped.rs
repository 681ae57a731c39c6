//! Expressions over data without types: what is missing is absent, steps are limited, and functions are the same.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use settled_cel::value::{Data, List, Map, Text, Val};
use settled_cel::{
    Budget, CompileError, Fault, Function, Literal, Names, Plain, Program, Requirements, Result, Scope,
    Subject, Truth, holds, rest_holds, run,
};

/// JSON without a schema.
#[derive(Clone, Copy, Debug)]
struct Json<'a>(&'a Value);

fn value(json: &Value) -> Val<'_, Json<'_>> {
    match json {
        Value::Null => Val::Null,
        Value::Bool(value) => Val::Bool(*value),
        Value::Number(number) => {
            number.as_i64().map_or_else(|| Val::Double(number.as_f64().unwrap()), Val::Int)
        }
        Value::String(text) => Val::Text(Text::Borrowed(text)),
        Value::Array(_) => Val::List(List::of_data(Json(json))),
        Value::Object(_) => Val::Map(Map::Data(Json(json))),
    }
}

struct Items<'a>(std::slice::Iter<'a, Value>);

impl<'a> Iterator for Items<'a> {
    type Item = Result<Val<'a, Json<'a>>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|item| Ok(value(item)))
    }
}

impl<'a> Data<'a> for Json<'a> {
    const IS_TYPED: bool = false;

    type Items = Items<'a>;

    fn count(self) -> usize {
        self.0.as_array().map_or_else(|| self.0.as_object().map_or(0, serde_json::Map::len), Vec::len)
    }

    fn items(self) -> Items<'a> {
        Items(self.0.as_array().map_or(&[][..], Vec::as_slice).iter())
    }

    fn get(self, key: &str) -> Result<Option<Val<'a, Self>>> {
        Ok(self.0.get(key).map(value))
    }

    fn keys(self) -> Vec<Text<'a>> {
        self.0.as_object().into_iter().flat_map(|map| map.keys().map(|key| Text::Borrowed(key))).collect()
    }

    fn equals(self, other: &Map<'a, Self>, budget: &Budget, depth: usize) -> Result<bool> {
        for (key, mine) in self.0.as_object().into_iter().flatten() {
            let Some(found) = other.get(key)? else { return Ok(false) };
            if !value(mine).equals_at(&found, budget, depth)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

struct Root;

impl Names for Root {
    fn variable(&mut self, name: &str) -> Option<u32> {
        (name == "it").then_some(7)
    }

    fn unknown(&self, name: &str) -> String {
        format!("there is no {name}")
    }
}

struct Object<'a>(&'a Value);

impl<'a> Scope<'a> for Object<'a> {
    type Data = Json<'a>;

    fn variable(&self, variable: u32) -> Option<Result<Val<'a, Json<'a>>>> {
        (variable == 7).then(|| Ok(value(self.0)))
    }
}

/// The value as JSON, or why there is none.
fn shown(expression: &str, object: &Value, budget: &Budget) -> String {
    let program = match Program::compile(expression, &mut Root) {
        Ok(program) => program,
        Err(CompileError { message, at }) => return format!("refused at {at:?}: {message}"),
    };
    match run(&program, &Object(object), budget) {
        Ok(Val::Bool(value)) => value.to_string(),
        Ok(Val::Int(value)) => value.to_string(),
        Ok(Val::Text(text)) => format!("{:?}", &*text),
        Ok(other) => other.type_name().to_owned(),
        Err(Fault::Absent(place)) => format!("absent: {}", program.show(place, &|_| "it".to_owned())),
        Err(Fault::Error(error)) => format!("error: {error}"),
        Err(fault) => format!("{fault:?}"),
    }
}

#[test]
fn what_is_missing_is_absent() {
    let object = json!({"a": {"b": [1, {"c": "x"}], "nothing": null}, "n": 3, "half": 1.5, "t": "text"});
    for (expression, wanted) in [
        ("it.n + 1", "4"),
        ("it.half < it.n", "true"),
        ("it.a.b[1].c", "\"x\""),
        ("it.a.b[1].d", "absent: it.a.b[1].d"),
        ("it.a.b[2].c", "absent: it.a.b[2]"),
        ("it.z.y == 1", "absent: it.z"),
        ("it.a.nothing", "absent: it.a.nothing"),
        ("it.z == 1 || true", "true"),
        ("it.z == 1 && it.n == 3", "absent: it.z"),
        ("has(it.z.y)", "false"),
        ("has(it.a.nothing)", "false"),
        ("it.?z.?y.orValue(5)", "5"),
        ("it.z.?y.orValue(6)", "6"),
        ("default(it.z, 'none')", "\"none\""),
        ("it.a.b.exists(x, x == 1)", "true"),
        ("it.a.b.all(x, x.c == 'x')", "error: no field `c` in int"),
        ("it.t.x", "error: no field `x` in string"),
        ("it == it", "true"),
        ("it.a.b == [1, {'c': 'x'}]", "true"),
        ("!it.n", "error: expected true or false, found int"),
        ("it.t + 1", "error: no `+` for string and int"),
        ("it.`a`.b.size()", "2"),
        ("it.t.matches('^te')", "true"),
        ("math.greatest(1, it.n, 2)", "3"),
        ("it.t.reverse()", "\"txet\""),
        ("base64.encode(b'hi!h')", "\"aGkhaA==\""),
    ] {
        assert_eq!(shown(expression, &object, &Budget::new(10_000, 10_000)), wanted, "{expression}");
    }
}

#[test]
fn quantifiers_absorb_errors() {
    let object = json!({"a": {"b": [1, {"c": "x"}]}, "n": 3});
    const NO_FIELD: &str = "error: no field `c` in int";
    const NO_BOOLEAN: &str = "error: expected true or false, found int";
    for (expression, wanted) in [
        // An element that ends it absorbs the errors of those before it.
        ("it.a.b.exists(x, x.c == 'x')", "true"),
        ("it.a.b.all(x, x.c == 'y')", "false"),
        // Otherwise the first error remains.
        ("it.a.b.exists(x, x.c == 'y')", NO_FIELD),
        ("it.a.b.all(x, x.c == 'x')", NO_FIELD),
        ("it.a.b.exists(x, x)", NO_BOOLEAN),
        ("it.a.b.all(x, x)", NO_BOOLEAN),
        ("it.a.b.exists(x, x == 1) && !it.a.b.all(x, x == 1)", "true"),
        ("it.a.b.exists(i, x, i == 1 && x.c == 'x')", "true"),
        ("it.a.exists(key, key == 'b')", "true"),
        ("[].exists(x, x)", "false"),
        ("[].all(x, x)", "true"),
        ("it.n.all(x, true)", "error: cannot iterate over int"),
        ("!(it.n == 4)", "true"),
        ("!it.z", "absent: it.z"),
        ("it.z || !it.n", "absent: it.z"),
    ] {
        assert_eq!(shown(expression, &object, &Budget::new(10_000, 10_000)), wanted, "{expression}");
    }
}

/// A condition is evaluated in another way than its value, which must not show.
#[test]
fn conditions_are_what_their_values_are() {
    let object = json!({"a": {"b": [1, {"c": "x"}]}, "n": 3, "t": "text", "yes": true});
    let as_truth = |program: &Program, steps: u64| {
        let budget = Budget::new(steps, 10_000);
        match holds(program, &Object(&object), &budget) {
            Truth::Is(value) => format!("{value}"),
            Truth::Fault(fault) => format!("{fault:?}"),
            Truth::Other(value) => value.type_name().to_owned(),
        }
    };
    let as_value = |program: &Program, steps: u64| {
        let budget = Budget::new(steps, 10_000);
        match run(program, &Object(&object), &budget) {
            Ok(Val::Bool(value)) => format!("{value}"),
            Ok(value) => value.type_name().to_owned(),
            Err(fault) => format!("{fault:?}"),
        }
    };
    for expression in [
        "it.yes",
        "!it.yes",
        "!it.n",
        "it.n",
        "it.z",
        "has(it.n) && !has(it.z)",
        "it.n == 3 && it.t != 'text' || it.yes",
        "it.z == 1 || it.n == 3",
        "it.z == 1 && it.n == 3",
        "it.n && it.yes",
        "it.t in ['text', 'other'] ? it.yes : it.n",
        "it.a.b.exists(x, x.c == 'x' || x == 2)",
        "!it.a.b.all(x, !(x == 2))",
        "it.t.startsWith('te') && it.t.matches('xt$')",
        // An optional member of what is absent is an empty optional, and not absent.
        "it.z.?y",
        "it.z.?y == optional.none()",
        "it.z.y.?x.hasValue() || it.yes",
        "it.a.?b.hasValue() && !it.a.?z.y.hasValue()",
    ] {
        let program = Program::compile(expression, &mut Root).expect(expression);
        for steps in 0..100 {
            assert_eq!(as_truth(&program, steps), as_value(&program, steps), "{expression} in {steps} steps");
        }
    }
    // As many steps as the expansion of the macros has.
    for (expression, wanted, steps) in
        [("[1, 2].all(x, true)", "true", 16), ("[1, 2].exists(x, false)", "false", 18)]
    {
        let program = Program::compile(expression, &mut Root).expect(expression);
        assert_eq!(as_truth(&program, steps - 1), "Limit", "{expression}");
        assert_eq!(as_truth(&program, steps), wanted, "{expression}");
    }
}

/// Members of an object as variables.
struct Members;

const MEMBERS: [&str; 7] = ["text", "empty", "yes", "no", "nothing", "number", "list"];

impl Names for Members {
    fn variable(&mut self, name: &str) -> Option<u32> {
        let known = MEMBERS.iter().position(|known| *known == name);
        known.or_else(|| (name == "absent").then_some(MEMBERS.len())).map(|at| at as u32)
    }

    fn field(&mut self, variable: u32, field: &str) -> Option<u32> {
        // `text.yes` is `yes`: only `has` needs a field.
        self.variable(field).filter(|_| variable == 0)
    }

    fn unknown(&self, name: &str) -> String {
        format!("there is no {name}")
    }
}

/// Inspects members in place if `PLAINLY`, and evaluates all of them otherwise.
struct MembersOf<'a, const PLAINLY: bool>(&'a Value);

impl<'a, const PLAINLY: bool> MembersOf<'a, PLAINLY> {
    fn get(&self, variable: u32) -> Option<&'a Value> {
        self.0.get(*MEMBERS.get(variable as usize)?).filter(|value| !value.is_null())
    }

    fn plainly(value: Option<&'a Value>) -> Option<Plain<'a>> {
        PLAINLY.then_some(match value {
            None | Some(Value::Null) => Plain::Absent,
            Some(Value::Bool(value)) => Plain::Bool(*value),
            Some(Value::String(text)) => Plain::Text(text.as_bytes()),
            Some(_) => Plain::Other,
        })
    }
}

impl<'a, const PLAINLY: bool> Scope<'a> for MembersOf<'a, PLAINLY> {
    type Data = Json<'a>;

    fn variable(&self, variable: u32) -> Option<Result<Val<'a, Json<'a>>>> {
        self.get(variable).map(|found| Ok(value(found)))
    }

    fn plain(&self, variable: u32) -> Option<Plain<'a>> {
        Self::plainly(self.get(variable))
    }

    fn plain_member(&self, map: Json<'a>, key: &str) -> Option<Plain<'a>> {
        Self::plainly(map.0.get(key))
    }
}

fn members() -> Value {
    json!({
        "text": "up", "empty": "", "yes": true, "no": false, "nothing": null, "number": 3,
        "list": [{"text": "up", "yes": true, "number": 1}, {"nothing": null, "no": false}],
    })
}

/// Conditions on each of the members, and on none.
fn conditions_on_members() -> Vec<String> {
    let fields = ["text", "empty", "yes", "no", "nothing", "number", "list", "absent"];
    let mut conditions = Vec::new();
    for field in fields {
        let defaults = ["'up'", "''", "false", "0", "text", "default(absent, 'up')"];
        let operands = defaults.iter().map(|fallback| format!("default({field}, {fallback})"));
        for operand in operands.chain([field.to_owned(), format!("default({field}, absent)")]) {
            for constant in ["'up'", "''", "true", "false", "3", "null", "text"] {
                conditions.extend([format!("{operand} == {constant}"), format!("{operand} != {constant}")]);
            }
            conditions.extend([
                operand.clone(),
                format!("!{operand}"),
                format!("{operand} && yes"),
                format!("has(text.{field}) && {operand} in ['up', 'down']"),
                format!("{operand} in ['down', 3, true]"),
                format!("list.exists(x, x.{field} == {operand})"),
                format!("list.all(x, default(x.{field}, 'up') == 'up')"),
                format!("list.exists(x, default(x.{field}, false))"),
                format!("list.exists(x, x.{field} in ['up'])"),
            ]);
        }
    }
    conditions
}

/// Operands inspected in place give the results of evaluated ones, in the same number of steps.
#[test]
fn operands_inspected_in_place_are_equal_to_evaluated_ones() {
    let object = members();
    for condition in conditions_on_members() {
        let program = Program::compile(&condition, &mut Members).expect(&condition);
        for steps in 0..70 {
            let [plainly, of_values] = [true, false].map(|plainly| {
                let budget = Budget::new(steps, 10_000);
                let truth = if plainly {
                    holds(&program, &MembersOf::<true>(&object), &budget)
                } else {
                    holds(&program, &MembersOf::<false>(&object), &budget)
                };
                match truth {
                    Truth::Is(value) => format!("{value}"),
                    Truth::Fault(fault) => format!("{fault:?}"),
                    Truth::Other(value) => value.type_name().to_owned(),
                }
            });
            assert_eq!(plainly, of_values, "{condition} in {steps} steps");
        }
    }
}

/// What the requirements of a condition say of it; `None` if it must be evaluated.
fn decided(program: &Program, object: &Value) -> Option<bool> {
    let Requirements { clauses, rest, .. } = Requirements::of(program);
    let literal_holds = |literal: &Literal<'_>| match literal.subject {
        Subject::Variable(variable) => literal.holds(MembersOf::<true>(object).plain(variable)?),
        Subject::Call(..) => None,
    };
    if clauses.iter().any(|clause| clause.iter().all(|literal| literal_holds(literal) == Some(false))) {
        return Some(false);
    }
    let is_true =
        clauses.iter().all(|clause| clause.iter().any(|literal| literal_holds(literal) == Some(true)));
    if is_true {
        let (scope, budget) = (MembersOf::<true>(object), Budget::new(10_000, 10_000));
        let whole = holds(program, &scope, &budget);
        assert_eq!(format!("{:?}", rest_holds(program, &rest, &scope, &budget)), format!("{whole:?}"));
    }
    (is_true && rest.is_empty()).then_some(true)
}

#[test]
fn most_conditions_are_decided_by_their_requirements() {
    let object = members();
    for (condition, wanted) in [
        ("text == 'up'", Some(true)),
        ("text == 'down'", Some(false)),
        ("absent == 'up'", Some(false)),
        ("number == 'up'", None),
        ("no != 'up'", None),
        ("text != 'up'", Some(false)),
        ("text != 'down'", Some(true)),
        ("absent != 'up'", Some(false)),
        ("default(absent, 'up') == 'up'", Some(true)),
        ("default(absent, 'x') != 'up'", Some(true)),
        ("default(absent, 1) == 'up'", None),
        ("default(absent, text) == 'up'", None),
        ("text in ['up', 'down']", Some(true)),
        ("text in ['down', 3]", Some(false)),
        ("!(text in ['up'])", Some(false)),
        ("yes", Some(true)),
        ("no", Some(false)),
        ("!no", Some(true)),
        ("!absent", Some(false)),
        ("text", None),
        ("!text", None),
        ("default(absent, true)", Some(true)),
        ("default(no, true)", Some(false)),
        ("has(text.yes)", Some(true)),
        ("has(text.absent)", Some(false)),
        ("!has(text.nothing)", Some(true)),
        ("yes == true", Some(true)),
        ("no == false", Some(true)),
        ("yes != true", Some(false)),
        ("absent == false", Some(false)),
        ("text == true", None),
        ("default(absent, false) == false", Some(true)),
        ("default(absent, 1) != false", Some(true)),
        ("yes && text == 'up'", Some(true)),
        ("yes && text == 'down'", Some(false)),
        ("no || text == 'up'", Some(true)),
        ("no || absent == 'up'", Some(false)),
        ("!(yes && text == 'up')", Some(false)),
        ("!(text == 'x' || absent == 'up')", Some(false)),
        // What stands on the left may be no condition.
        ("!(no || absent == 'up')", None),
        ("(yes && text == 'up') || (no && text == 'down')", Some(true)),
        ("true", Some(true)),
        ("false || no", Some(false)),
        // Of any other operation, the operand that is read first has to be present.
        ("size(list) > 0", None),
        ("size(absent) > 0", Some(false)),
        ("absent.exists(x, true)", Some(false)),
        ("'x' in absent", Some(false)),
        ("number > absent", None),
        ("absent.x.y == 3", Some(false)),
        ("default(absent, 0) == 3", None),
        ("absent.?x.hasValue()", None),
        ("(yes ? absent : absent) == 'up'", None),
        // What is false absorbs an error, what is absent does not.
        ("number && text == 'down'", Some(false)),
        ("number && absent == 'up'", None),
        ("absent == 'up' && number", Some(false)),
        ("!(number || absent == 'up')", None),
        ("number || absent == 'up'", None),
    ] {
        let program = Program::compile(condition, &mut Members).expect(condition);
        assert_eq!(decided(&program, &object), wanted, "{condition}");
    }
}

#[test]
fn requirements_decide_as_an_evaluation_does() {
    let object = members();
    let conditions = conditions_on_members();
    let mut counts = BTreeMap::new();
    let mut check = |condition: &str| {
        let program = Program::compile(condition, &mut Members).expect(condition);
        let decided = decided(&program, &object);
        *counts.entry(decided).or_insert(0) += 1;
        let evaluated = holds(&program, &MembersOf::<true>(&object), &Budget::new(10_000, 10_000));
        let is_right = match decided {
            Some(true) => matches!(evaluated, Truth::Is(true)),
            Some(false) => matches!(evaluated, Truth::Is(false) | Truth::Fault(Fault::Absent(_))),
            None => true,
        };
        assert!(is_right, "{condition}: {decided:?}, {evaluated:?}");
    };
    for (at, condition) in conditions.iter().enumerate() {
        check(condition);
        for step in [1, 7, 129, 641] {
            let other = &conditions[(at * 3 + step) % conditions.len()];
            check(&format!("({condition}) && ({other})"));
            check(&format!("({condition}) || ({other})"));
            check(&format!("!(({condition}) && ({other})) || ({other}) && !({condition})"));
            check(&format!("!(({condition}) || ({other}))"));
        }
    }
    // All answers come up.
    assert!(counts.len() == 3 && counts.values().all(|count| *count > 500), "{counts:?}");
}

#[test]
fn errors_have_places() {
    for (expression, wanted) in [
        ("it.n == other", "refused at Some(8): there is no other"),
        ("'ü' == other", "refused at Some(8): there is no other"),
        ("'ü' + €", "refused at Some(7): Syntax error: token recognition error at: '€'"),
        ("'ü\\€' + 1", "refused at Some(0): Syntax error: token recognition error at: ''ü\\€'"),
        ("it.sise()", "refused at Some(3): unknown function `sise`; did you mean `size`?"),
        ("it.size(1)", "refused at Some(3): `size` is written size(x) or x.size()"),
        ("allowed(it)", "refused at Some(0): unknown function `allowed`"),
    ] {
        assert_eq!(shown(expression, &json!({}), &Budget::new(10_000, 10_000)), wanted, "{expression}");
    }
}

/// A literal pattern that is wrong is an error of the expression, unless that is known to be right: then nothing is compiled before it is
/// used.
#[test]
fn patterns_are_compiled_with_the_expression_or_when_they_are_used() {
    const WRONG: &str = "error parsing regexp: missing closing ): `(`";
    let refused = Program::compile("it.t.matches('(')", &mut Root).map(drop);
    assert_eq!(refused.map_err(|error| error.message), Err(WRONG.to_owned()));
    let object = json!({"t": "text"});
    for (expression, wanted) in [
        ("it.t == 'text' || it.t.matches('(')", Ok(true)),
        ("it.t.matches('(')", Err(Fault::error(WRONG))),
        ("it.t.matches('^te')", Ok(true)),
        ("it.t.matches('^ex')", Ok(false)),
    ] {
        let program = Program::compile_known(expression, &mut Root).expect(expression);
        for _ in 0..2 {
            let value = run(&program, &Object(&object), &Budget::new(10_000, 10_000));
            assert_eq!(value.map(|value| matches!(value, Val::Bool(true))), wanted, "{expression}");
        }
    }
}

#[test]
fn steps_and_memory_are_limited() {
    let object = json!({"list": (0..200).collect::<Vec<_>>(), "text": "x".repeat(1000)});
    for (expression, steps, room, wanted) in [
        ("it.list.all(a, it.list.all(b, a + b >= 0))", 20_000, 10_000, "Limit"),
        ("it.list.all(a, it.list.all(b, a + b >= 0))", 2_000_000, 10_000, "true"),
        ("it.list.map(a, it.text + it.text).size()", 2_000_000, 100_000, "Room"),
        ("it.list.map(a, it.text + it.text).size()", 2_000_000, 1_000_000, "200"),
    ] {
        assert_eq!(shown(expression, &object, &Budget::new(steps, room)), wanted, "{expression}");
    }
}

/// A function of the table that nothing could call would be an error of every rule with it.
#[test]
fn every_function_of_the_table_can_be_called() {
    let table = include_str!("../src/functions.tsv");
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split('\t').next().unwrap();
        assert_eq!(Function::named(name).map(Function::name), Some(name));
    }
}

/// The functions of verdict rules are no functions of a CRD.
#[test]
fn crds_have_the_functions_of_upstream() {
    for rule in ["isTrue('Ready')", "math.abs(-1) == 1", "'ab'.reverse() == 'ba'", "default(1, 2) == 1"] {
        let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]});
        let (_, errors) = settled_cel::Validator::compile(&crate::structural(&schema), "schema");
        assert_eq!(errors.len(), 1, "{rule}");
    }
}
