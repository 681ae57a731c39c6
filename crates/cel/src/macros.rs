//! cel-go's macros, expanded into comprehensions during parsing.

use std::sync::Arc;

use crate::ast::{ACCU, Ast, Comprehension, Entry, Field, Id, Kind, Literal, MAX_NODES, MAX_TREE, Name};

/// One macro expansion; its nodes have the position of the opening bracket.
pub(crate) struct Macro<'p> {
    pub(crate) ast: &'p mut Ast,
    pub(crate) at: u32,
}

/// The expansion, or the offset and text of an error.
type Expanded<T = Id> = Result<T, (u32, String)>;
/// Names of one or two iteration variables.
type Names = (Arc<str>, Option<Arc<str>>);

impl Macro<'_> {
    /// Expands a macro call; `None` for other calls.
    pub(crate) fn expand(&mut self, function: &str, target: Id, args: &[Id]) -> Option<Expanded> {
        Some(match (function, args) {
            ("all" | "exists" | "exists_one" | "existsOne", [var, body]) => {
                self.quantifier(function, target, &[*var], *body)
            }
            ("all" | "exists" | "exists_one" | "existsOne", [var, var2, body]) => {
                self.quantifier(function, target, &[*var, *var2], *body)
            }
            ("map", [var, body]) => self.collect(target, *var, None, *body),
            ("map", [var, filter, body]) => self.collect(target, *var, Some(*filter), *body),
            ("filter", [var, filter]) => self.collect(target, *var, Some(*filter), *var),
            ("transformList", [var, var2, body]) => {
                self.transform(function, target, *var, *var2, None, *body)
            }
            ("transformMap" | "transformMapEntry", [var, var2, body]) => {
                self.transform(function, target, *var, *var2, None, *body)
            }
            ("transformList" | "transformMap" | "transformMapEntry", [var, var2, filter, body]) => {
                self.transform(function, target, *var, *var2, Some(*filter), *body)
            }
            ("optMap" | "optFlatMap", [var, body]) => self.optional(function, target, *var, *body),
            ("sortBy", [var, body]) => self.sort_by(target, *var, *body),
            _ => return None,
        })
    }

    fn push(&mut self, kind: Kind) -> Id {
        self.ast.push(self.at, kind)
    }

    fn call(&mut self, function: &'static str, args: Vec<Id>) -> Id {
        self.push(Kind::Call { function: Name::Known(function), target: None, args })
    }

    fn member(&mut self, function: &'static str, target: Id, args: Vec<Id>) -> Id {
        self.push(Kind::Call { function: Name::Known(function), target: Some(target), args })
    }

    fn ident(&mut self, name: &str) -> Id {
        self.push(Kind::Ident(name.into()))
    }

    fn literal(&mut self, literal: Literal) -> Id {
        self.push(Kind::Literal(literal))
    }

    fn empty_list(&mut self) -> Id {
        self.push(Kind::List { elements: Vec::new(), optional: Vec::new() })
    }

    fn list_of(&mut self, element: Id) -> Id {
        self.push(Kind::List { elements: vec![element], optional: vec![false] })
    }

    fn variable(&self, arg: Id, otherwise: &str) -> Expanded<Arc<str>> {
        let at = self.ast.at(arg);
        match self.ast.kind(arg) {
            Kind::Ident(name) if &**name == ACCU => {
                Err((at, "iteration variable overwrites accumulator variable".to_owned()))
            }
            Kind::Ident(name) => Ok(Arc::clone(name)),
            _ => Err((at, otherwise.to_owned())),
        }
    }

    fn variables(&self, args: &[Id], otherwise: &str) -> Expanded<Names> {
        let [first, rest @ ..] = args else { return Err((0, otherwise.to_owned())) };
        let var = self.variable(*first, otherwise)?;
        let var2 = rest.first().map(|second| self.variable(*second, otherwise)).transpose()?;
        if let Some(second) = rest.first()
            && var2.as_ref() == Some(&var)
        {
            return Err((self.ast.at(*second), format!("duplicate variable name: {var}")));
        }
        Ok((var, var2))
    }

    fn each(&mut self, name: &'static str, range: Id, vars: Names, parts: [Id; 4]) -> Id {
        let [init, condition, step, result] = parts;
        let (var, var2) = vars;
        let accu = ACCU.into();
        self.push(Kind::Comprehension(Box::new(Comprehension {
            name,
            range,
            var,
            var2,
            accu,
            init,
            condition,
            step,
            result,
        })))
    }

    fn quantifier(&mut self, function: &str, range: Id, vars: &[Id], body: Id) -> Expanded {
        let vars = self.variables(vars, "argument must be a simple name")?;
        let parts = match function {
            "all" => {
                let init = self.literal(Literal::Bool(true));
                let accu = self.ident(ACCU);
                let condition = self.call("@not_strictly_false", vec![accu]);
                let accu = self.ident(ACCU);
                let step = self.call("_&&_", vec![accu, body]);
                [init, condition, step, self.ident(ACCU)]
            }
            "exists" => {
                let init = self.literal(Literal::Bool(false));
                let accu = self.ident(ACCU);
                let not = self.call("!_", vec![accu]);
                let condition = self.call("@not_strictly_false", vec![not]);
                let accu = self.ident(ACCU);
                let step = self.call("_||_", vec![accu, body]);
                [init, condition, step, self.ident(ACCU)]
            }
            _ => {
                let init = self.literal(Literal::Int(0));
                let condition = self.literal(Literal::Bool(true));
                let accu = self.ident(ACCU);
                let one = self.literal(Literal::Int(1));
                let more = self.call("_+_", vec![accu, one]);
                let accu = self.ident(ACCU);
                let step = self.call("_?_:_", vec![body, more, accu]);
                let accu = self.ident(ACCU);
                let one = self.literal(Literal::Int(1));
                [init, condition, step, self.call("_==_", vec![accu, one])]
            }
        };
        let name = match function {
            "all" => "all",
            "exists" => "exists",
            _ => "exists_one",
        };
        Ok(self.each(name, range, vars, parts))
    }

    fn filtered(&mut self, filter: Option<Id>, step: Id) -> Id {
        match filter {
            None => step,
            Some(filter) => {
                let accu = self.ident(ACCU);
                self.call("_?_:_", vec![filter, step, accu])
            }
        }
    }

    fn collect(&mut self, range: Id, var: Id, filter: Option<Id>, body: Id) -> Expanded {
        let vars = self.variables(&[var], "argument is not an identifier")?;
        let init = self.empty_list();
        let condition = self.literal(Literal::Bool(true));
        let accu = self.ident(ACCU);
        let list = self.list_of(body);
        let step = self.call("_+_", vec![accu, list]);
        let step = self.filtered(filter, step);
        let result = self.ident(ACCU);
        let name = if filter.is_some_and(|_| body == var) { "filter" } else { "map" };
        Ok(self.each(name, range, vars, [init, condition, step, result]))
    }

    fn transform(
        &mut self,
        function: &str,
        range: Id,
        var: Id,
        var2: Id,
        filter: Option<Id>,
        body: Id,
    ) -> Expanded {
        let vars = self.variables(&[var, var2], "argument must be a simple name")?;
        let accu = self.ident(ACCU);
        let (init, step) = match function {
            "transformList" => {
                let list = self.list_of(body);
                let step = self.call("_+_", vec![accu, list]);
                (self.empty_list(), step)
            }
            _ => {
                let step = if function == "transformMap" {
                    let key = self.ident(&vars.0);
                    self.call("cel.@mapInsert", vec![accu, key, body])
                } else {
                    self.call("cel.@mapInsert", vec![accu, body])
                };
                (self.push(Kind::Map { entries: Vec::new() }), step)
            }
        };
        let step = self.filtered(filter, step);
        let condition = self.literal(Literal::Bool(true));
        let result = self.ident(ACCU);
        let name = match function {
            "transformList" => "transformList",
            "transformMap" => "transformMap",
            _ => "transformMapEntry",
        };
        Ok(self.each(name, range, vars, [init, condition, step, result]))
    }

    /// Binds a variable to a value: a comprehension over an empty list.
    fn bind(&mut self, name: &str, value: Id, body: Id) -> Id {
        let range = self.empty_list();
        let condition = self.literal(Literal::Bool(false));
        let step = self.ident(name);
        self.push(Kind::Comprehension(Box::new(Comprehension {
            name: "bind",
            range,
            var: "#unused".into(),
            var2: None,
            accu: name.into(),
            init: value,
            condition,
            step,
            result: body,
        })))
    }

    fn optional(&mut self, function: &str, target: Id, var: Id, body: Id) -> Expanded {
        let Kind::Ident(name) = self.ast.kind(var).clone() else {
            let message = format!("{function}() variable name must be a simple identifier");
            return Err((self.ast.at(var), message));
        };
        let has = self.member("hasValue", target, Vec::new());
        // Both use the target; nodes can be shared if neither use is modified.
        let copy =
            self.copy(target, 0).ok_or_else(|| (self.at, "max recursion depth exceeded".to_owned()))?;
        let value = self.member("value", copy, Vec::new());
        let bound = self.bind(&name, value, body);
        let yes = if function == "optMap" { self.call("optional.of", vec![bound]) } else { bound };
        let no = self.call("optional.none", Vec::new());
        Ok(self.call("_?_:_", vec![has, yes, no]))
    }

    fn sort_by(&mut self, target: Id, var: Id, body: Id) -> Expanded {
        const INPUT: &str = "@__sortBy_input__";
        let input = self.ident(INPUT);
        if matches!(self.ast.kind(target), Kind::Literal(_) | Kind::Map { .. } | Kind::Struct { .. }) {
            let message =
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return Err((self.ast.at(target), message.to_owned()));
        }
        let keys = self.collect(input, var, None, body)?;
        let input = self.ident(INPUT);
        let sorted = self.member("@sortByAssociatedKeys", input, vec![keys]);
        Ok(self.bind(INPUT, target, sorted))
    }

    /// Copies a subtree, since the checker assigns a type to each node.
    fn copy(&mut self, id: Id, depth: usize) -> Option<Id> {
        if depth > MAX_TREE || self.ast.len() > MAX_NODES {
            return None;
        }
        let kind = match self.ast.kind(id).clone() {
            Kind::Select { operand, field, is_test } => {
                Kind::Select { operand: self.copy(operand, depth + 1)?, field, is_test }
            }
            Kind::Call { function, target, args } => Kind::Call {
                function,
                target: match target {
                    Some(target) => Some(self.copy(target, depth + 1)?),
                    None => None,
                },
                args: self.copies(&args, depth)?,
            },
            Kind::List { elements, optional } => {
                Kind::List { elements: self.copies(&elements, depth)?, optional }
            }
            Kind::Map { entries } => {
                let mut copies = Vec::new();
                for entry in entries {
                    let (key, value) = (self.copy(entry.key, depth + 1)?, self.copy(entry.value, depth + 1)?);
                    copies.push(Entry { key, value, ..entry });
                }
                Kind::Map { entries: copies }
            }
            Kind::Struct { name, fields } => {
                let values: Vec<Id> = fields.iter().map(|field| field.value).collect();
                let fields = self.copies(&values, depth)?.into_iter().map(|value| Field { value }).collect();
                Kind::Struct { name, fields }
            }
            Kind::Comprehension(each) => Kind::Comprehension(Box::new(Comprehension {
                range: self.copy(each.range, depth + 1)?,
                init: self.copy(each.init, depth + 1)?,
                condition: self.copy(each.condition, depth + 1)?,
                step: self.copy(each.step, depth + 1)?,
                result: self.copy(each.result, depth + 1)?,
                ..*each
            })),
            leaf => leaf,
        };
        let at = self.ast.at(id);
        Some(self.ast.push(at, kind))
    }

    fn copies(&mut self, ids: &[Id], depth: usize) -> Option<Vec<Id>> {
        ids.iter().map(|id| self.copy(*id, depth + 1)).collect()
    }
}
