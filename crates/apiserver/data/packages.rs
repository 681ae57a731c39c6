// Written by `cargo xtask generate builtins`.
&[
    Package {
        name: "io.k8s.api.admissionregistration.v1",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.admissionregistration.v1.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.admissionregistration.v1.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.api.apps.v1",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.apps.v1.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.apps.v1.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.api.authentication.v1",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.authentication.v1.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.authentication.v1.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.api.authorization.v1",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.authorization.v1.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.authorization.v1.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.api.autoscaling.v1",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.autoscaling.v1.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.autoscaling.v1.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.api.autoscaling.v2",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.autoscaling.v2.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.autoscaling.v2.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.api.batch.v1",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.batch.v1.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.batch.v1.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.api.certificates.v1",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.certificates.v1.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.certificates.v1.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.api.coordination.v1",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.coordination.v1.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.coordination.v1.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.api.core.v1",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.core.v1.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.core.v1.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.api.discovery.v1",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.discovery.v1.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.discovery.v1.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.api.events.v1",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.events.v1.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.events.v1.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.api.flowcontrol.v1",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.flowcontrol.v1.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.flowcontrol.v1.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.api.networking.v1",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.networking.v1.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.networking.v1.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.api.node.v1",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.node.v1.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.node.v1.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.api.policy.v1",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.policy.v1.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.policy.v1.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.api.rbac.v1",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.rbac.v1.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.rbac.v1.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.api.resource.v1",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.resource.v1.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.resource.v1.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.api.scheduling.v1",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.scheduling.v1.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.scheduling.v1.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.api.storage.v1",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.storage.v1.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.api.storage.v1.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.apimachinery.pkg.api.resource",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.apimachinery.pkg.api.resource.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.apimachinery.pkg.api.resource.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.apimachinery.pkg.apis.meta.v1",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.apimachinery.pkg.runtime",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.apimachinery.pkg.runtime.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.apimachinery.pkg.runtime.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.apimachinery.pkg.util.intstr",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.apimachinery.pkg.util.intstr.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.apimachinery.pkg.util.intstr.descriptions.deflate")),
    },
    Package {
        name: "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1",
        schemas: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.schemas.deflate")),
        descriptions: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/data/schemas/io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.descriptions.deflate")),
    },
]
