// Upstream's answers about validation rules of CRDs: JSON lines in, JSON lines out.
//
// In: {"schema": openAPIV3Schema, "object": ..., "old": ...}; object and old may be missing.
// Out: what compiling says, what each rule may cost, what validating says, what it cost.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
)

type request struct {
	Schema json.RawMessage `json:"schema"`
	Object json.RawMessage `json:"object"`
	Old    json.RawMessage `json:"old"`
}

type fieldError struct {
	Reason  string `json:"reason"`
	Field   string `json:"field"`
	Message string `json:"message"`
}

type estimate struct {
	Rule string `json:"rule"`
	Cost string `json:"cost"`
}

type answer struct {
	Failed  string       `json:"failed,omitempty"`
	Compile []fieldError `json:"compile"`
	// What is said about the rest of the schema: it keeps rules from being checked.
	Schema    []string     `json:"schema,omitempty"`
	Estimates []estimate   `json:"estimates"`
	Errors    []fieldError `json:"errors"`
	Cost      int64        `json:"cost"`
}

const where = "spec.validation.openAPIV3Schema"

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			b, err := json.Marshal(judge(line))
			if err != nil {
				b = []byte(fmt.Sprintf(`{"failed":%q}`, err.Error()))
			}
			out.Write(append(b, '\n'))
			out.Flush()
		}
		if err != nil {
			return
		}
	}
}

func value(raw json.RawMessage) interface{} {
	if len(raw) == 0 {
		return nil
	}
	var v interface{}
	if err := utiljson.Unmarshal(raw, &v); err != nil {
		panic(err)
	}
	return v
}

func judge(line []byte) (result answer) {
	defer func() {
		if r := recover(); r != nil {
			result = answer{Failed: fmt.Sprint(r)}
		}
	}()
	var req request
	if err := json.Unmarshal(line, &req); err != nil {
		return answer{Failed: err.Error()}
	}
	var v1Schema apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(req.Schema, &v1Schema); err != nil {
		return answer{Failed: err.Error()}
	}
	var schema apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&v1Schema, &schema, nil); err != nil {
		return answer{Failed: err.Error()}
	}
	result.Compile = compile(&schema, &result.Schema)

	structural, err := structuralschema.NewStructural(&schema)
	if err != nil {
		return answer{Failed: err.Error()}
	}
	estimates(structural, model.SchemaDeclType(structural, true), &result.Estimates)

	object, old := value(req.Object), value(req.Old)
	if object == nil {
		return result
	}
	validator := cel.NewValidator(structural, true, celconfig.PerCallLimit)
	var opts []cel.Option
	if old != nil {
		opts = append(opts, cel.WithRatcheting(common.NewCorrelatedObject(object, old, &model.Structural{Structural: structural})))
	}
	errs, left := validator.Validate(context.Background(), nil, structural, object, old, celconfig.RuntimeCELCostBudget, opts...)
	if left < 0 {
		left = 0
	}
	result.Cost = celconfig.RuntimeCELCostBudget - left
	result.Errors = shown(errs)
	return result
}

func shown(errs field.ErrorList) []fieldError {
	found := []fieldError{}
	for _, e := range errs {
		found = append(found, fieldError{Reason: string(e.Type), Field: e.Field, Message: e.ErrorBody()})
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].Field < found[j].Field })
	return found
}

// compile says what is said about the rules when the CRD is created.
func compile(schema *apiextensions.JSONSchemaProps, other *[]string) []fieldError {
	no := false
	crd := &apiextensions.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com", ResourceVersion: "1"},
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group: "example.com",
			Scope: apiextensions.NamespaceScoped,
			Names: apiextensions.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"},
			Versions: []apiextensions.CustomResourceDefinitionVersion{
				{Name: "v1", Served: true, Storage: true},
			},
			Validation:            &apiextensions.CustomResourceValidation{OpenAPIV3Schema: schema},
			PreserveUnknownFields: &no,
		},
		Status: apiextensions.CustomResourceDefinitionStatus{StoredVersions: []string{"v1"}},
	}
	errs := field.ErrorList{}
	for _, e := range validation.ValidateCustomResourceDefinition(context.Background(), crd) {
		if strings.Contains(e.Field, "x-kubernetes-validations[") || e.Field == where && strings.Contains(e.Detail, "estimated rule cost total") {
			errs = append(errs, e)
		} else {
			*other = append(*other, e.Error())
		}
	}
	return shown(errs)
}

func estimates(s *structuralschema.Structural, decl *apiservercel.DeclType, found *[]estimate) {
	if s == nil || decl == nil {
		return
	}
	env := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	results, err := cel.Compile(s, decl, celconfig.PerCallLimit, env, cel.NewExpressionsEnvLoader())
	if err == nil {
		for i, r := range results {
			*found = append(*found, estimate{Rule: s.XValidations[i].Rule, Cost: fmt.Sprint(r.MaxCost)})
		}
	}
	if s.Items != nil {
		estimates(s.Items, decl.ElemType, found)
	}
	if s.AdditionalProperties != nil {
		estimates(s.AdditionalProperties.Structural, decl.ElemType, found)
	}
	names := []string{}
	for name := range s.Properties {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		child := s.Properties[name]
		if escaped, ok := apiservercel.Escape(name); ok {
			if f, ok := decl.Fields[escaped]; ok {
				estimates(&child, f.Type, found)
			}
		} else {
			estimates(&child, model.SchemaDeclType(&child, child.XEmbeddedResource), found)
		}
	}
}
