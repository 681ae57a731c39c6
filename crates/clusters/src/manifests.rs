//! Manifests: the objects that a cluster is created from, checked and sorted.

use serde_json::{Value, json};

use crate::kinds::{API_VERSION, KINDS};

/// Why manifests are not those of a cluster.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ManifestError {
    /// There must be exactly one.
    #[error("one Cluster is required, there are {0}")]
    Clusters(usize),
    /// A kind that does not belong to clusters.
    #[error("{kind} {name} does not belong to a cluster: {} do", kinds())]
    Kind {
        /// The kind.
        kind: String,
        /// The name.
        name: String,
    },
    /// An object has no name.
    #[error("a {0} has no name")]
    NoName(String),
    /// An object is of another cluster.
    #[error("{kind} {name} is of Cluster {of}, not of {cluster}")]
    OtherCluster {
        /// The kind.
        kind: String,
        /// The name.
        name: String,
        /// What it says.
        of: String,
        /// The Cluster of the manifests.
        cluster: String,
    },
    /// An object is in another namespace.
    #[error("{kind} {name} is in namespace {of}, the Cluster is in {namespace}")]
    OtherNamespace {
        /// The kind.
        kind: String,
        /// The name.
        name: String,
        /// Its namespace.
        of: String,
        /// That of the Cluster.
        namespace: String,
    },
    /// Nothing serves the API of the cluster.
    #[error("Cluster {0} has neither a Machine with versions.controlPlane nor controlPlane.endpoint")]
    NoControlPlane(String),
}

fn kinds() -> String {
    KINDS.map(|(_, kind)| kind).join(", ")
}

fn text<'v>(object: &'v Value, pointer: &str) -> Option<&'v str> {
    object.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
}

/// The objects of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifests {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What the others refer to: MachineClasses, Secrets, ConfigMaps, Hosts.
    pub references: Vec<Value>,
    /// The Cluster.
    pub cluster: Value,
    /// Machines of the control plane, in order.
    pub control_plane: Vec<Value>,
    /// Other Machines, their groups, and health checks.
    pub workers: Vec<Value>,
}

impl Manifests {
    /// Sorts objects. Machines and groups without a Cluster become those of the only one.
    ///
    /// # Errors
    /// They are not the objects of one cluster.
    pub fn new(objects: Vec<Value>) -> Result<Self, ManifestError> {
        let is_cluster = |object: &Value| object["kind"] == "Cluster" && object["apiVersion"] == API_VERSION;
        let clusters: Vec<&Value> = objects.iter().filter(|object| is_cluster(object)).collect();
        let [cluster] = clusters[..] else { return Err(ManifestError::Clusters(clusters.len())) };
        let name = text(cluster, "/metadata/name")
            .ok_or_else(|| ManifestError::NoName("Cluster".to_owned()))?
            .to_owned();
        let namespace = text(cluster, "/metadata/namespace").unwrap_or("default").to_owned();
        let mut manifests = Self {
            namespace,
            name,
            references: Vec::new(),
            cluster: Value::Null,
            control_plane: Vec::new(),
            workers: Vec::new(),
        };
        for object in objects {
            manifests.add(object)?;
        }
        let has_endpoint = manifests.cluster.pointer("/spec/controlPlane/endpoint").is_some();
        if manifests.control_plane.is_empty() && !has_endpoint {
            return Err(ManifestError::NoControlPlane(manifests.name));
        }
        Ok(manifests)
    }

    fn add(&mut self, mut object: Value) -> Result<(), ManifestError> {
        let kind = text(&object, "/kind").unwrap_or_default().to_owned();
        let name = text(&object, "/metadata/name").map(str::to_owned);
        let name = name.ok_or_else(|| ManifestError::NoName(kind.clone()))?;
        let known = (text(&object, "/apiVersion").unwrap_or_default(), kind.as_str());
        if !KINDS.contains(&known) {
            return Err(ManifestError::Kind { kind, name });
        }
        match text(&object, "/metadata/namespace") {
            Some(of) if of != self.namespace => {
                let (of, namespace) = (of.to_owned(), self.namespace.clone());
                return Err(ManifestError::OtherNamespace { kind, name, of, namespace });
            }
            _ => object["metadata"]["namespace"] = self.namespace.clone().into(),
        }
        let spec = match kind.as_str() {
            "Machine" => Some("/spec"),
            "MachineSet" | "MachineDeployment" => Some("/spec/template/spec"),
            _ => None,
        };
        if let Some(spec) = spec.and_then(|pointer| object.pointer_mut(pointer)) {
            match text(spec, "/clusterName") {
                Some(of) if of != self.name => {
                    let (of, cluster) = (of.to_owned(), self.name.clone());
                    return Err(ManifestError::OtherCluster { kind, name, of, cluster });
                }
                _ => spec["clusterName"] = self.name.clone().into(),
            }
        }
        // The server writes it.
        if let Some(members) = object.as_object_mut() {
            members.remove("status");
        }
        match kind.as_str() {
            "Cluster" => self.cluster = object,
            "Machine" if object.pointer("/spec/versions/controlPlane").is_some() => {
                self.control_plane.push(object)
            }
            "Machine" | "MachineSet" | "MachineDeployment" | "MachineHealthCheck" => {
                self.workers.push(object)
            }
            _ => self.references.push(object),
        }
        Ok(())
    }

    /// All objects, in the order of their creation.
    pub fn all(&self) -> impl Iterator<Item = &Value> {
        let first = self.references.iter().chain(std::iter::once(&self.cluster));
        first.chain(&self.control_plane).chain(&self.workers)
    }
}

/// `Kind name` of an object.
pub(crate) fn title(object: &Value) -> String {
    let empty = json!("");
    let field =
        |pointer: &str| object.pointer(pointer).unwrap_or(&empty).as_str().unwrap_or_default().to_owned();
    format!("{} {}", field("/kind"), field("/metadata/name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, name: &str, spec: Value) -> Value {
        json!({"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec})
    }

    #[test]
    fn manifests_are_those_of_one_cluster() {
        let cluster = || object("Cluster", "prod", json!({}));
        let master = || object("Machine", "prod-0", json!({"versions": {"controlPlane": "v1.36.3"}}));
        let worker = |of: &str| object("Machine", "w", json!({"clusterName": of}));
        let sorted =
            Manifests::new(vec![worker("prod"), master(), cluster()]).map_err(|error| error.to_string());
        let sorted = sorted.as_ref().map(|all| all.all().map(title).collect::<Vec<_>>());
        assert_eq!(
            sorted,
            Ok(vec!["Cluster prod".to_owned(), "Machine prod-0".to_owned(), "Machine w".to_owned()])
        );
        for (objects, message) in [
            (vec![master()], "one Cluster is required, there are 0"),
            (vec![cluster(), cluster()], "one Cluster is required, there are 2"),
            (
                vec![cluster()],
                "Cluster prod has neither a Machine with versions.controlPlane nor controlPlane.endpoint",
            ),
            (vec![cluster(), worker("other")], "Machine w is of Cluster other, not of prod"),
            (
                vec![cluster(), json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})],
                "Pod a does not belong",
            ),
        ] {
            let error = Manifests::new(objects).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
