//! OpenAPI v3 (`/openapi/v3`): the index, and one document for each group version. A document is made when it is asked for and kept
//! packed.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};

use crate::discovery::publish::{self, Version};
use crate::discovery::{digest, operations};
use crate::kinds::builtin;
use crate::kinds::definition::{Catalog, Definition};
use crate::kinds::names::{Names, api_version};

/// Raised when the same catalog gives other documents than before: clients keep documents by their hash.
const FORM: &[u8] = b"1";

/// The hash of what the server brings.
static BROUGHT: LazyLock<String> = LazyLock::new(|| {
    let mut parts: Vec<&[u8]> = vec![FORM, env!("CARGO_PKG_VERSION").as_bytes()];
    parts.push(include_bytes!("../../data/parameters.json"));
    parts.extend(builtin::packed());
    digest::sha512_hex(&parts)
});

/// The documents of all group versions.
#[derive(Default)]
pub(crate) struct Documents(Mutex<BTreeMap<String, Arc<Document>>>);

/// What there is to know of a group version.
pub(crate) struct Document {
    api_version: String,
    /// What it is made of. It is held, so that nothing else can be where it was.
    definitions: Vec<Arc<Definition>>,
    /// A hash of what it is made of: the document need not be made for it.
    pub(crate) hash: String,
    packed: Mutex<Option<Bytes>>,
}

impl Document {
    fn new(api_version: String, definitions: Vec<Arc<Definition>>) -> Self {
        let mut parts: Vec<Vec<u8>> = vec![BROUGHT.as_bytes().to_vec(), api_version.as_bytes().to_vec()];
        for definition in &definitions {
            let Definition { names: Names { kind, list_kind, plural, .. }, namespaced, verbs, .. } =
                &**definition;
            parts.push(format!("{kind} {list_kind} {plural} {namespaced} {verbs:?}").into_bytes());
            parts.push(format!("{:?}", definition.subresources).into_bytes());
            parts.push(definition.model.open_api_text().to_vec());
            if let Some(custom) = definition.model.custom() {
                parts.push(format!("{:?}", custom.selectable_paths).into_bytes());
            }
        }
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let hash = digest::sha512_hex(&parts);
        Self { api_version, definitions, hash, packed: Mutex::default() }
    }

    /// Is it made of these?
    fn is_of<'a>(&self, definitions: impl Iterator<Item = &'a Arc<Definition>>) -> bool {
        self.definitions.iter().map(Arc::as_ptr).eq(definitions.map(Arc::as_ptr))
    }

    /// `api/v1` or `apis/apps/v1`: its key in the index and the end of its path.
    fn path(&self) -> String {
        path(&self.api_version)
    }

    /// Where it is, with its hash.
    pub(crate) fn url(&self) -> String {
        format!("/openapi/v3/{}?hash={}", self.path(), self.hash)
    }

    /// The document, gzipped. It may take a tenth of a second to make it.
    pub(crate) fn packed(&self) -> Bytes {
        let mut packed = self.packed.lock().unwrap_or_else(PoisonError::into_inner);
        packed.get_or_insert_with(|| pack(&self.make())).clone()
    }

    /// The document as it is.
    pub(crate) fn unpacked(&self) -> Vec<u8> {
        let mut json = Vec::new();
        // It was packed here.
        match GzDecoder::new(self.packed().as_ref()).read_to_end(&mut json) {
            Ok(_) => json,
            Err(_) => Vec::new(),
        }
    }

    fn make(&self) -> Value {
        let (custom, built_in): (Vec<&Definition>, Vec<&Definition>) = self
            .definitions
            .iter()
            .map(|definition| &**definition)
            .partition(|definition| definition.model.is_custom());
        let mut schemas = match built_in.is_empty() {
            true => Map::new(),
            false => match builtin::document(&self.api_version) {
                Value::Object(schemas) => schemas,
                _ => Map::new(),
            },
        };
        if !custom.is_empty() {
            schemas.extend(publish::components(custom.iter().copied(), Version::V3));
        }
        let paths = operations::paths(self.definitions.iter().map(|definition| &**definition));
        json!({
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": crate::version::git_version()},
            "paths": paths,
            "components": {
                "schemas": schemas,
                "securitySchemes": {"BearerToken": {
                    "type": "apiKey", "description": "Bearer Token authentication", "name": "authorization",
                    "in": "header",
                }},
            },
        })
    }
}

fn pack(document: &Value) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(4));
    // Writing to memory can't fail.
    let written = serde_json::to_writer(std::io::BufWriter::new(&mut encoder), document);
    let finished = encoder.flush().and_then(|()| encoder.finish());
    match (written, finished) {
        (Ok(()), Ok(packed)) => packed.into(),
        _ => Bytes::new(),
    }
}

fn path(api_version: &str) -> String {
    match api_version.contains('/') {
        true => format!("apis/{api_version}"),
        false => format!("api/{api_version}"),
    }
}

impl Documents {
    /// That of `api/v1` or `apis/GROUP/VERSION`, if there is such.
    pub(crate) fn find(&self, catalog: &Catalog, path: &str) -> Option<Arc<Document>> {
        let (group, version) = match path.strip_prefix("apis/") {
            Some(rest) => rest.split_once('/')?,
            None => ("", path.strip_prefix("api/")?),
        };
        let mut documents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = Self::refresh(&mut documents, catalog, group, version);
        if found.is_none() {
            documents.remove(&api_version(group, version));
        }
        found
    }

    fn refresh(
        documents: &mut BTreeMap<String, Arc<Document>>,
        catalog: &Catalog,
        group: &str,
        version: &str,
    ) -> Option<Arc<Document>> {
        catalog.resources(group, version).next()?;
        let name = api_version(group, version);
        match documents.get(&name) {
            Some(known) if known.is_of(catalog.resources(group, version)) => Some(known.clone()),
            _ => {
                let definitions = catalog.resources(group, version).cloned().collect();
                let made = Arc::new(Document::new(name.clone(), definitions));
                documents.insert(name, made.clone());
                Some(made)
            }
        }
    }

    /// `/openapi/v3`: where the documents are. None is made for it.
    pub(crate) fn index(&self, catalog: &Catalog) -> Vec<u8> {
        let mut documents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut old = std::mem::take(&mut *documents);
        let mut paths = Map::new();
        for group in catalog.groups() {
            for version in catalog.versions(group) {
                let Some(document) = Self::refresh(&mut old, catalog, group, version) else { continue };
                paths.insert(document.path(), json!({"serverRelativeURL": document.url()}));
                // What is served no more is not kept.
                documents.insert(document.api_version.clone(), document);
            }
        }
        serde_json::to_vec(&json!({"paths": paths})).unwrap_or_default()
    }
}
