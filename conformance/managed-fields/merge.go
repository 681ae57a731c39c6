package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	yaml "go.yaml.in/yaml/v2"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/merge"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

var errMissing = errors.New("no such version")

// A converter renames fields of the root. The type of a version is named after it.
type converter struct {
	parser  *typed.Parser
	renames map[string]map[string]string
}

func (c *converter) typeOf(version string) typed.ParseableType {
	if version == "deduced" {
		return typed.DeducedParseableType
	}
	return c.parser.Type(version)
}

func (c *converter) Convert(object *typed.TypedValue, version fieldpath.APIVersion) (*typed.TypedValue, error) {
	if version == "gone" {
		return object, errMissing
	}
	from := *object.TypeRef().NamedType
	if from == string(version) || from == "__untyped_deduced_" {
		return object, nil
	}
	back := map[string]string{}
	for old, name := range c.renames[from] {
		back[name] = old
	}
	fields, ok := object.AsValue().Unstructured().(map[string]any)
	if !ok {
		return c.typeOf(string(version)).FromUnstructured(nil, typed.AllowDuplicates)
	}
	out := map[string]any{}
	for name, field := range fields {
		if old, ok := back[name]; ok {
			name = old
		}
		if renamed, ok := c.renames[string(version)][name]; ok {
			name = renamed
		}
		out[name] = field
	}
	return c.typeOf(string(version)).FromUnstructured(out, typed.AllowDuplicates)
}

func (c *converter) IsMissingVersionError(err error) bool { return err == errMissing }

func fieldSet(raw json.RawMessage) (*fieldpath.Set, error) {
	set := fieldpath.NewSet()
	return set, set.FromJSON(bytes.NewReader(raw))
}

func askMerge(in *input) ([]answer, error) {
	parsers := []*typed.Parser{}
	for _, raw := range in.Schemas {
		var parsed schema.Schema
		if err := yaml.Unmarshal(raw, &parsed); err != nil {
			return nil, err
		}
		// The types of what is not known belong to every schema.
		parsed.Types = append(parsed.Types, typed.DeducedParseableType.Schema.Types...)
		parser := &typed.Parser{}
		parsed.CopyInto(&parser.Schema)
		parsers = append(parsers, parser)
	}
	// Kubernetes uses filters, too. Upstream's ignored sets panic on a version that has none.
	ignored := map[fieldpath.APIVersion]fieldpath.Filter{}
	for version, raw := range in.Ignored {
		set, err := fieldSet(raw)
		if err != nil {
			return nil, err
		}
		ignored[fieldpath.APIVersion(version)] = fieldpath.NewExcludeSetFilter(set)
	}
	managers := fieldpath.ManagedFields{}
	for name, state := range in.Managers {
		set, err := fieldSet(state.Fields)
		if err != nil {
			return nil, err
		}
		managers[name] = fieldpath.NewVersionedSet(set, fieldpath.APIVersion(state.Version), state.Applied)
	}
	live, err := decode(in.Live)
	if err != nil {
		return nil, err
	}
	liveVersion := ""
	answers := []answer{}
	for _, op := range in.Operations {
		if liveVersion == "" {
			liveVersion = op.Version
		}
		out, err := oneMerge(in, parsers[op.Schema], ignored, &live, &liveVersion, &managers, &op)
		if err != nil {
			out = answer{Error: err.Error()}
			var conflicts merge.Conflicts
			if errors.As(err, &conflicts) {
				for _, one := range conflicts {
					out.Conflicts = append(out.Conflicts, conflict{one.Manager, one.Path.String()})
				}
				sortConflicts(out.Conflicts)
			}
		}
		answers = append(answers, out)
	}
	return answers, nil
}

func oneMerge(in *input, parser *typed.Parser, ignored map[fieldpath.APIVersion]fieldpath.Filter, live *any, liveVersion *string,
	managers *fieldpath.ManagedFields, op *operation) (out answer, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	conv := &converter{parser: parser, renames: in.Renames}
	builder := merge.UpdaterBuilder{Converter: conv, IgnoreFilter: ignored}
	updater := builder.BuildUpdater()

	typedLive, err := conv.typeOf(*liveVersion).FromUnstructured(value.NewValueInterface(*live).Unstructured(), typed.AllowDuplicates)
	if err != nil {
		return out, fmt.Errorf("live: %w", err)
	}
	typedLive, err = conv.Convert(typedLive, fieldpath.APIVersion(op.Version))
	if err != nil {
		return out, fmt.Errorf("live: %w", err)
	}
	object, err := decode(op.Object)
	if err != nil {
		return out, err
	}
	version := fieldpath.APIVersion(op.Version)
	var newManagers fieldpath.ManagedFields
	var result *typed.TypedValue
	if op.Apply {
		config, err := conv.typeOf(op.Version).FromUnstructured(object)
		if err != nil {
			return out, fmt.Errorf("config: %w", err)
		}
		result, newManagers, err = updater.Apply(typedLive, config, version, managers.Copy(), op.Manager, op.Force)
		if err != nil {
			return out, err
		}
	} else {
		written, err := conv.typeOf(op.Version).FromUnstructured(object, typed.AllowDuplicates)
		if err != nil {
			return out, fmt.Errorf("new: %w", err)
		}
		result, newManagers, err = updater.Update(typedLive, written, version, managers.Copy(), op.Manager)
		if err != nil {
			return out, err
		}
	}
	if result == nil {
		out.Same = true
		*live = typedLive.AsValue().Unstructured()
	} else {
		*live = result.AsValue().Unstructured()
		out.Live = *live
	}
	*liveVersion = op.Version
	// What is stored is read again.
	*managers = fieldpath.ManagedFields{}
	out.Managers = map[string]ownedState{}
	for name, owned := range newManagers {
		raw, err := owned.Set().ToJSON()
		if err != nil {
			return out, err
		}
		out.Managers[name] = ownedState{string(owned.APIVersion()), owned.Applied(), string(raw)}
		set, err := fieldSet(raw)
		if err != nil {
			return out, err
		}
		(*managers)[name] = fieldpath.NewVersionedSet(set, owned.APIVersion(), owned.Applied())
	}
	return out, nil
}
