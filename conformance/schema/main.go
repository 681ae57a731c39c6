// Says what upstream's API server makes of schemas of CustomResourceDefinitions and of objects that have them.
//
// Standard input is JSON lines, a question each; standard output has a line of JSON for each, in order. Every operation is
// the function that the API server itself calls.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	apiservervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

type question struct {
	Op     string          `json:"op"`
	Schema json.RawMessage `json:"schema"`
	Object json.RawMessage `json:"object"`
	Old    json.RawMessage `json:"old"`
	// Whether the object is a whole resource.
	Root bool `json:"root"`
	// Only for coerce: malformed fields of metadata are dropped.
	Drop bool `json:"drop"`
	// Only for format and pattern.
	Name  string   `json:"name"`
	Texts []string `json:"texts"`
}

type answer struct {
	Object any         `json:"object,omitempty"`
	Paths  []string    `json:"paths,omitempty"`
	Errors [][3]string `json:"errors,omitempty"`
	Match  []bool      `json:"match,omitempty"`
	// The question could not be asked.
	Failed string `json:"failed,omitempty"`
}

var scheme = runtime.NewScheme()

func main() {
	install.Install(scheme)
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<26)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for lines.Scan() {
		var in question
		if err := json.Unmarshal(lines.Bytes(), &in); err != nil {
			return fmt.Errorf("expected a question: %w", err)
		}
		reply, err := ask(&in)
		if err != nil {
			reply = answer{Failed: err.Error()}
		}
		if err := encoder.Encode(reply); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return lines.Err()
}

func ask(in *question) (reply answer, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	switch in.Op {
	case "format":
		for _, text := range in.Texts {
			reply.Match = append(reply.Match, strfmt.Default.Validates(in.Name, text))
		}
		return reply, nil
	case "pattern":
		compiled, err := regexp.Compile(in.Name)
		if err != nil {
			return answer{}, err
		}
		for _, text := range in.Texts {
			reply.Match = append(reply.Match, compiled.MatchString(text))
		}
		return reply, nil
	case "definition":
		return askDefinition(in)
	case "default_definition":
		return askDefaultDefinition(in)
	}

	props, err := decodeProps(in.Schema)
	if err != nil {
		return answer{}, err
	}
	structural, err := schema.NewStructural(props)
	if err != nil {
		return answer{}, err
	}
	path := field.NewPath("openAPIV3Schema")
	if errs := schema.ValidateStructural(path, structural); len(errs) > 0 || in.Op == "parse" {
		if in.Op != "parse" {
			return answer{}, fmt.Errorf("not structural: %v", errs.ToAggregate())
		}
		reply.Errors = list(errs)
		return reply, nil
	}
	object, err := decode(in.Object)
	if err != nil {
		return answer{}, err
	}
	switch in.Op {
	case "prune":
		reply.Paths = pruning.PruneWithOptions(object, structural, in.Root, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
		reply.Object = object
	case "default":
		defaulting.PruneNonNullableNullsWithoutDefaults(object, structural)
		defaulting.Default(object, structural)
		reply.Object = object
	case "coerce":
		failure, paths := objectmeta.CoerceWithOptions(nil, object, structural, in.Root, objectmeta.CoerceOptions{
			DropInvalidFields: in.Drop, ReturnUnknownFieldPaths: true,
		})
		reply.Paths = paths
		if failure != nil {
			// What happened to the object until then depends on the order of a map.
			reply.Paths = nil
			reply.Errors = list(field.ErrorList{failure})
			return reply, nil
		}
		reply.Object = object
	case "validate":
		return askValidate(in, props, structural, object)
	default:
		return answer{}, fmt.Errorf("there is no operation %q", in.Op)
	}
	return reply, nil
}

// What a strategy of custom resources does, without the metadata of the root and without CEL.
func askValidate(in *question, props *apiextensions.JSONSchemaProps, structural *schema.Structural, object any) (reply answer, err error) {
	validator, _, err := apiservervalidation.NewSchemaValidator(props)
	if err != nil {
		return answer{}, err
	}
	old, err := decode(in.Old)
	if err != nil {
		return answer{}, err
	}
	asMap, _ := object.(map[string]any)
	oldMap, _ := old.(map[string]any)
	var errs field.ErrorList
	if old == nil {
		errs = append(errs, apiservervalidation.ValidateCustomResource(nil, object, validator)...)
	} else {
		correlated := common.NewCorrelatedObject(object, old, &model.Structural{Structural: structural})
		errs = append(errs, apiservervalidation.ValidateCustomResourceUpdate(nil, object, old, validator, apiservervalidation.WithRatcheting(correlated))...)
	}
	errs = append(errs, objectmeta.Validate(nil, object, structural, false)...)
	if old == nil || len(listtype.ValidateListSetsAndMaps(nil, structural, oldMap)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, structural, asMap)...)
	}
	reply.Errors = list(errs)
	return reply, nil
}

func askDefinition(in *question) (reply answer, err error) {
	decodeOne := func(raw json.RawMessage) (*apiextensions.CustomResourceDefinition, error) {
		external := &apiextensionsv1.CustomResourceDefinition{}
		if err := utiljson.Unmarshal(raw, external); err != nil {
			return nil, err
		}
		internal := &apiextensions.CustomResourceDefinition{}
		return internal, scheme.Convert(external, internal, nil)
	}
	object, err := decodeOne(in.Object)
	if err != nil {
		return answer{}, err
	}
	var errs field.ErrorList
	if len(in.Old) == 0 || string(in.Old) == "null" {
		errs = validation.ValidateCustomResourceDefinition(context.Background(), object)
	} else {
		old, err := decodeOne(in.Old)
		if err != nil {
			return answer{}, err
		}
		errs = validation.ValidateCustomResourceDefinitionUpdate(context.Background(), object, old)
	}
	reply.Errors = list(errs)
	return reply, nil
}

func askDefaultDefinition(in *question) (reply answer, err error) {
	object := &apiextensionsv1.CustomResourceDefinition{}
	if err := utiljson.Unmarshal(in.Object, object); err != nil {
		return answer{}, err
	}
	scheme.Default(object)
	text, err := utiljson.Marshal(object)
	if err != nil {
		return answer{}, err
	}
	reply.Object, err = decode(text)
	return reply, err
}

func decodeProps(raw json.RawMessage) (*apiextensions.JSONSchemaProps, error) {
	external := &apiextensionsv1.JSONSchemaProps{}
	if err := utiljson.Unmarshal(raw, external); err != nil {
		return nil, err
	}
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(external, internal, nil); err != nil {
		return nil, err
	}
	return internal, nil
}

// Integers stay integers, as in Kubernetes.
func decode(raw json.RawMessage) (value any, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	err = utiljson.Unmarshal(raw, &value)
	return value, err
}

func list(errs field.ErrorList) [][3]string {
	var all [][3]string
	for _, one := range errs {
		all = append(all, [3]string{string(one.Type), one.Field, one.ErrorBody()})
	}
	return all
}
