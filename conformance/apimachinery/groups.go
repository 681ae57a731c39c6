package main

import "k8s.io/apimachinery/pkg/runtime/schema"

type groupLine struct {
	Text string `json:"text"`
	// ParseGroupVersion: group and version, or the error.
	Group   string `json:"group"`
	Version string `json:"version"`
	Error   string `json:"error,omitempty"`
	Written string `json:"written"`
	// ParseGroupKind and ParseGroupResource: group, then kind or resource, then as it is written.
	GroupKind     [3]string `json:"groupKind"`
	GroupResource [3]string `json:"groupResource"`
	// ParseKindArg and ParseResourceArg: group, version and kind or resource, then as it is written.
	Kind     []string `json:"kind,omitempty"`
	Resource []string `json:"resource,omitempty"`
}

func groups(put func(any)) {
	texts := []string{
		"", "/", "//", "v1", "/v1", "v1/", "apps/v1", "apps/v1/x", "a/b/c/d", "apps", "a.b", "a.b.c", "a.b.c.d", ".a", "a.", "..", "Deployment.apps", "Deployment.v1.apps",
		"deployments.apps", "deployments.v1.apps", "widgets.v1.example.com", "networking.k8s.io/v1", "Ingress.v1.networking.k8s.io", "é/v1", "pods", "pods.", ".v1.", "pods.v1.",
	}
	for _, text := range texts {
		line := groupLine{Text: text}
		version, err := schema.ParseGroupVersion(text)
		if err != nil {
			line.Error = err.Error()
		}
		line.Group, line.Version, line.Written = version.Group, version.Version, version.String()
		kind := schema.ParseGroupKind(text)
		line.GroupKind = [3]string{kind.Group, kind.Kind, kind.String()}
		resource := schema.ParseGroupResource(text)
		line.GroupResource = [3]string{resource.Group, resource.Resource, resource.String()}
		if full, _ := schema.ParseKindArg(text); full != nil {
			line.Kind = []string{full.Group, full.Version, full.Kind, full.String()}
		}
		if full, _ := schema.ParseResourceArg(text); full != nil {
			line.Resource = []string{full.Group, full.Version, full.Resource, full.String()}
		}
		put(line)
	}
}
