package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// All versions have the same fields, and only apiVersion changes.
type plain struct{}

func (plain) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	u := unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion(gvk.GroupVersion().String())
	u.SetKind(gvk.Kind)
	return &u, nil
}

func (plain) Convert(in, out, context any) error { return errors.New("not implemented") }

func (plain) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	gvk, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{
		{Group: "example.com", Version: "v1", Kind: "Example"}, {Group: "example.com", Version: "v2", Kind: "Example"}})
	if !ok {
		return nil, runtime.NewNotRegisteredErrForTarget("plain", nil, target)
	}
	out := in.DeepCopyObject().(*unstructured.Unstructured)
	out.SetAPIVersion(gvk.GroupVersion().String())
	return out, nil
}

func (plain) ConvertFieldLabel(_ schema.GroupVersionKind, _, _ string) (string, string, error) {
	return "", "", errors.New("not implemented")
}

func (plain) Default(in runtime.Object) {}

func components(raw json.RawMessage) (map[string]*spec.Schema, error) {
	models := map[string]*spec.Schema{}
	return models, json.Unmarshal(raw, &models)
}

func askKubernetes(in *input) ([]answer, error) {
	converter := managedfields.NewDeducedTypeConverter()
	if len(in.Schemas) > 0 {
		models, err := components(in.Schemas[0])
		if err != nil {
			return nil, err
		}
		if converter, err = managedfields.NewTypeConverter(models, in.Preserve); err != nil {
			return nil, err
		}
	}
	filters := map[fieldpath.APIVersion]fieldpath.Filter{}
	for version, raw := range in.Ignored {
		set, err := fieldSet(raw)
		if err != nil {
			return nil, err
		}
		filters[fieldpath.APIVersion(version)] = fieldpath.NewExcludeSetFilter(set)
	}
	initial, err := decode(in.Live)
	if err != nil {
		return nil, err
	}
	live := &unstructured.Unstructured{Object: initial.(map[string]any)}
	answers := []answer{}
	for _, op := range in.Operations {
		out := answer{}
		result, err := oneKubernetes(converter, filters, live.DeepCopy(), &op)
		if err != nil {
			out.Error = err.Error()
			var status apierrors.APIStatus
			if errors.As(err, &status) && status.Status().Details != nil {
				for _, cause := range status.Status().Details.Causes {
					out.Conflicts = append(out.Conflicts, conflict{cause.Message, cause.Field})
				}
				sortConflicts(out.Conflicts)
			}
		} else {
			live = result
			out.Live = live.DeepCopy().Object
		}
		answers = append(answers, out)
	}
	return answers, nil
}

func oneKubernetes(converter managedfields.TypeConverter, filters map[fieldpath.APIVersion]fieldpath.Filter,
	live *unstructured.Unstructured, op *operation) (*unstructured.Unstructured, error) {
	gv, err := schema.ParseGroupVersion(op.Version)
	if err != nil {
		return nil, err
	}
	gvk := gv.WithKind("Example")
	manager, err := managedfields.NewDefaultCRDFieldManager(converter, plain{}, plain{}, plain{}, gvk, gv, op.Subresource,
		filters)
	if err != nil {
		return nil, err
	}
	decoded, err := decode(op.Object)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: decoded.(map[string]any)}
	var result runtime.Object
	if op.Apply {
		result, err = manager.Apply(live, object, op.Manager, op.Force)
	} else {
		result, err = manager.Update(live, object, op.Manager)
	}
	if err != nil {
		return nil, err
	}
	out, ok := result.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("unexpected %T", result)
	}
	// Upstream asks the clock. All times of a case are in the past, so what is new is found, and stands where the time of
	// the operation stands, which is later than all before.
	now := metav1.NewTime(time.Unix(op.Time, 0).UTC())
	entries := out.GetManagedFields()
	for i := range entries {
		if entries[i].Time != nil && entries[i].Time.Unix() > 1_600_000_000 {
			entries[i].Time = &now
		}
	}
	if entries != nil {
		out.SetManagedFields(entries)
	}
	return out, nil
}

func askSchema(in *input) ([]answer, error) {
	models, err := components(in.Schemas[0])
	if err != nil {
		return nil, err
	}
	converted, err := schemaconv.ToSchemaFromOpenAPI(models, in.Preserve)
	if err != nil {
		return nil, err
	}
	types := map[string]any{}
	for _, def := range converted.Types {
		types[def.Name] = atomOf(&def.Atom)
	}
	return []answer{{Schema: types}}, nil
}
