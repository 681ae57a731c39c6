//! Places of fields: the line and column of each field of an object in its file, by the path of the field.

use kstatus::{Node, NodeKind};
use settled_manifest::{Batch, Object, Position};

/// How deeply fields nest: `spec.jobTemplate.spec.template.spec.containers[].env[].valueFrom.secretKeyRef.name` has twelve levels.
const DEPTH_MAX: usize = 16;
/// How many fields of an object are noted.
const FIELDS_MAX: usize = 1 << 20;

/// Places of the fields of an object, by the hash of their path: most of them are never asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// Sorted by hash.
    fields: Vec<(u64, u32, u32)>,
    object: Option<Position>,
}

/// A hash that goes on: that of `a.b` is that of `a` with `.b` added (FNV-1a).
#[derive(Clone, Copy)]
struct Path(u64);

impl Path {
    const ROOT: Self = Self(0xcbf2_9ce4_8422_2325);

    fn with(self, text: &[u8]) -> Self {
        Self(text.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)))
    }

    fn field(self, name: &str) -> Self {
        let parent = if self.0 == Self::ROOT.0 { self } else { self.with(b".") };
        parent.with(name.as_bytes())
    }
}

impl Places {
    /// Those of an object in a batch; `root` is the object as it was parsed.
    pub(crate) fn of(batch: &Batch, object: &Object<'_>, root: Node<'_>) -> Self {
        let mut walk = Walk { json: object.json, paths: Vec::new(), offsets: Vec::new() };
        for (name, node) in root.members() {
            match &*name {
                "metadata" => {
                    for name in ["name", "namespace"] {
                        if let Some(node) = node.get(name) {
                            walk.note(Path::ROOT.field("metadata").field(name), node);
                        }
                    }
                    if let Some(owners) = node.get("ownerReferences") {
                        walk.node(Path::ROOT.field("metadata").field("ownerReferences"), owners, false, 0);
                    }
                }
                // What follows is generated, or long.
                "status" | "data" | "binaryData" | "stringData" => walk.note(Path::ROOT.field(&name), node),
                name => walk.node(Path::ROOT.field(name), node, false, 0),
            }
        }
        walk.offsets.push(0);
        let mut positions = batch.positions(object, &walk.offsets);
        let object = positions.pop();
        let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let fields = walk.paths.into_iter().zip(positions);
        let mut fields: Vec<(u64, u32, u32)> =
            fields.map(|(path, place)| (path, number(place.line), number(place.column))).collect();
        fields.sort_unstable();
        fields.shrink_to_fit();
        Self { fields, object }
    }

    /// Where the object begins.
    pub(crate) fn object(&self) -> Option<Position> {
        self.object
    }

    /// Where a field stands, or else the nearest one around it.
    pub(crate) fn find(&self, path: &str) -> Option<Position> {
        let mut path = path;
        loop {
            let hash = Path::ROOT.with(path.as_bytes()).0;
            if let Ok(index) = self.fields.binary_search_by_key(&hash, |(hash, ..)| *hash)
                && let Some((_, line, column)) = self.fields.get(index)
            {
                return Some(Position { line: (*line).into(), column: (*column).into() });
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = path.get(..end)?,
                None => return self.object,
            }
        }
    }
}

struct Walk<'j> {
    json: &'j [u8],
    paths: Vec<u64>,
    offsets: Vec<usize>,
}

impl Walk<'_> {
    fn note(&mut self, path: Path, node: Node<'_>) {
        let Node::Text(text) = node else { return };
        let offset = text.as_ptr().addr().wrapping_sub(self.json.as_ptr().addr());
        if offset < self.json.len() && self.paths.len() < FIELDS_MAX {
            self.paths.push(path.0);
            self.offsets.push(offset);
        }
    }

    /// A value and what is in it; the keys of labels stand in brackets.
    fn node(&mut self, path: Path, node: Node<'_>, has_keys: bool, depth: usize) {
        self.note(path, node);
        if depth >= DEPTH_MAX || self.paths.len() >= FIELDS_MAX {
            return;
        }
        match node.kind() {
            NodeKind::Map => {
                for (name, node) in node.members() {
                    let below = match has_keys {
                        true => path.with(b"[").with(name.as_bytes()).with(b"]"),
                        false => path.field(&name),
                    };
                    self.node(below, node, name == "matchLabels", depth + 1);
                }
            }
            NodeKind::List => {
                for (index, node) in node.elements().enumerate() {
                    let below = path.with(b"[").with(index.to_string().as_bytes()).with(b"]");
                    self.node(below, node, false, depth + 1);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use settled_manifest::{Item, Scratch, Splitter};

    use super::*;

    fn places(text: &str) -> Vec<Places> {
        let mut found = Vec::new();
        let mut splitter = Splitter::new(text.as_bytes());
        while let Some(batch) = splitter.next_batch(Batch::default()).unwrap() {
            batch.objects(&mut Scratch::with_places(), |item| {
                let Item::Object(object) = item else { panic!("malformed") };
                let parsed = kstatus::Object::parse(object.json).unwrap();
                found.push(Places::of(&batch, &object, parsed.root()));
            });
        }
        found
    }

    fn at(places: &Places, path: &str) -> String {
        places.find(path).unwrap().to_string()
    }

    #[test]
    fn fields_of_yaml_have_places() {
        let text = "# comment\nkind: NetworkPolicy\nmetadata:\n  name: a\nspec:\n  podSelector:\n    matchLabels: {app: x}\n  ingress:\n  \
                    - ports:\n    - port: 80\n      endPort: 90\n---\nkind: B\nspec: {egress: [{}]}\n";
        let all = places(text);
        assert_eq!(at(&all[0], "metadata.name"), "line 4, column 9");
        assert_eq!(at(&all[0], "spec.ingress[0].ports[0].endPort"), "line 11, column 16");
        assert_eq!(at(&all[0], "spec.podSelector.matchLabels[app]"), "line 7, column 24");
        // The nearest that is there.
        assert_eq!(at(&all[0], "spec.ingress[0].ports[0].protocol"), "line 10, column 7");
        // The object begins after the comment.
        assert_eq!(at(&all[0], "status"), "line 2, column 1");
        assert_eq!(at(&all[1], "spec.egress[0].to"), "line 14, column 17");
    }

    #[test]
    fn fields_of_json_and_of_items_have_places() {
        let item = "{\"spec\":\n  {\"ingress\": [\n{\"from\": [{\"ipBlock\": {\"cidr\": \"x\"}}]}]}}";
        let all = places(&format!("{{\"kind\":\"List\",\"items\":[\n{item},\n{item}]}}"));
        assert_eq!(at(&all[0], "spec.ingress[0].from[0].ipBlock.cidr"), "line 4, column 32");
        assert_eq!(at(&all[1], "spec.ingress[0].from[0].ipBlock.cidr"), "line 7, column 32");
        let all = places("kind: List\nitems:\n- spec:\n    a: 1\n- spec:\n    a: 2\n");
        assert_eq!(at(&all[1], "spec.a"), "line 6, column 8");
        assert_eq!(at(&all[1], ""), "line 5, column 3");
    }
}
