//! How do I take a field back? A schema without it hides what is stored at once, and the next write deletes it. A deprecated field stays.

use std::error::Error;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use serde_json::{Value, json};
use settled_apiserver::Server;

const CRD: &str = "shops.example.com";
/// For how long a schema may take to be served.
const PATIENCE: Duration = Duration::from_secs(30);

/// The CRD of shops, with these fields of the spec.
fn definition(fields: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": CRD},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "shops", "singular": "shop", "kind": "Shop"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": fields}},
            }}}],
        },
    })
}

struct Shops {
    client: Client,
    shops: Api<DynamicObject>,
}

impl Shops {
    /// Deploys a version of the CRD. It stays established meanwhile: that its schema is served shows in what the server publishes.
    async fn deploy(&self, fields: &Value) -> Result<(), Box<dyn Error>> {
        let crds: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let deployer = PatchParams::apply("deployer").force();
        crds.patch(CRD, &deployer, &Patch::Apply(definition(fields))).await?;
        await_condition(crds, CRD, is_crd_established()).await?;
        tokio::time::timeout(PATIENCE, self.is_published(fields)).await?
    }

    async fn is_published(&self, fields: &Value) -> Result<(), Box<dyn Error>> {
        while self.published().await? != *fields {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// The fields of the spec in the server's OpenAPI document.
    async fn published(&self) -> Result<Value, Box<dyn Error>> {
        let request = http::Request::get("/openapi/v3/apis/example.com/v1").body(Vec::new())?;
        let mut document: Value = self.client.request(request).await?;
        let fields = "/components/schemas/com.example.v1.Shop/properties/spec/properties";
        Ok(document.pointer_mut(fields).map(Value::take).unwrap_or_default())
    }

    async fn read(&self, what: &str) -> Result<String, Box<dyn Error>> {
        Ok(format!("{what}: spec {}", self.shops.get("corner").await?.data["spec"]))
    }

    /// Any write of the object by any client.
    async fn write(&self, label: &str) -> Result<(), Box<dyn Error>> {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"written": label}}}));
        self.shops.patch("corner", &PatchParams::default(), &patch).await?;
        Ok(())
    }
}

pub async fn answer() -> Result<Vec<String>, Box<dyn Error>> {
    let server = Server::in_memory().await?;
    let client = server.client();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Shop"));
    let shops = Shops { shops: Api::default_namespaced_with(client.clone(), &kind), client };
    let old = json!({"name": {"type": "string"}});
    let new = json!({"name": {"type": "string"}, "color": {"type": "string"}});
    let deprecated = json!({"name": {"type": "string"}, "color": {
        "type": "string", "description": "Deprecated: ignored, and removed in the next release.",
    }});

    // The new version stores a color.
    shops.deploy(&new).await?;
    let mut corner = DynamicObject::new("corner", &kind);
    corner.data = json!({"spec": {"name": "Corner", "color": "red"}});
    shops.shops.create(&PostParams::default(), &corner).await?;
    let mut lines = vec![shops.read("new version").await?];

    // It is rolled back, and forward again, and nobody writes the object meanwhile.
    shops.deploy(&old).await?;
    lines.push(shops.read("rolled back").await?);
    shops.deploy(&new).await?;
    lines.push(shops.read("rolled forward").await?);

    // Instead of removing the field, it is deprecated: whoever writes the object keeps it.
    shops.deploy(&deprecated).await?;
    shops.write("1").await?;
    lines.push(shops.read("deprecated, and written").await?);

    // Rolled back and written, it is lost for good.
    shops.deploy(&old).await?;
    shops.write("2").await?;
    shops.deploy(&new).await?;
    lines.push(shops.read("rolled back, written, and rolled forward").await?);
    Ok(lines)
}
