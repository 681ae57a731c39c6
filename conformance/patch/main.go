// Says what upstream makes of patches.
//
// Standard input is JSON lines, one case each; standard output has a line of JSON for each, in order: the distinct answers
// to the case, asked as often as it says. Upstream walks maps in random order, so there may be several.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
)

type input struct {
	// json, merge, value (merge without decoding) or strategic.
	Mode string `json:"mode"`
	// For strategic.
	Kind   string          `json:"kind"`
	Object json.RawMessage `json:"object"`
	// A text: it may be broken JSON.
	Patch string `json:"patch"`
	Tries int    `json:"tries"`
}

type answer struct {
	Result json.RawMessage `json:"result,omitempty"`
	Strict []string        `json:"strict,omitempty"`
	Status int             `json:"status,omitempty"`
	Error  string          `json:"error,omitempty"`
	Panic  string          `json:"panic,omitempty"`
}

// The structs that the API server takes patch strategies from.
var kinds = map[string]any{
	"Pod":            corev1.Pod{},
	"Service":        corev1.Service{},
	"Node":           corev1.Node{},
	"ServiceAccount": corev1.ServiceAccount{},
	"ConfigMap":      corev1.ConfigMap{},
	"Deployment":     appsv1.Deployment{},
}

// As in pkg/endpoints/handlers/patch.go of k8s.io/apiserver.
const (
	maxJSONPatchOperations = 10000
	maxCopied              = 3 * 1024 * 1024
)

type jsonPatchOp struct {
	Op    string      `json:"op"`
	Path  string      `json:"path"`
	From  string      `json:"from"`
	Value interface{} `json:"value"`
}

func main() {
	jsonpatch.AccumulatedCopySizeLimit = maxCopied
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
		var in input
		if err := json.Unmarshal(lines.Bytes(), &in); err != nil {
			return fmt.Errorf("expected a case: %w", err)
		}
		var answers []answer
		seen := map[string]bool{}
		for range max(in.Tries, 1) {
			one := ask(&in)
			text, err := json.Marshal(one)
			if err != nil {
				return err
			}
			if !seen[string(text)] {
				seen[string(text)] = true
				answers = append(answers, one)
			}
		}
		if err := encoder.Encode(answers); err != nil {
			return err
		}
		// Whoever asks may wait for each answer.
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return lines.Err()
}

func ask(in *input) (out answer) {
	// The API server answers a panic with 500.
	defer func() {
		if cause := recover(); cause != nil {
			out = answer{Panic: fmt.Sprint(cause)}
		}
	}()
	object := map[string]any{}
	if err := utiljson.Unmarshal(in.Object, &object); err != nil {
		return answer{Panic: "the object: " + err.Error()}
	}
	clip(object)
	// The API server encodes the object so before it is patched.
	document, err := json.Marshal(object)
	if err != nil {
		return answer{Panic: "the object: " + err.Error()}
	}
	switch in.Mode {
	case "json":
		return askJSON(document, []byte(in.Patch))
	case "merge":
		return askMerge(document, []byte(in.Patch))
	case "value":
		return merged(document, []byte(in.Patch), nil)
	case "strategic":
		return askStrategic(object, []byte(in.Patch), kinds[in.Kind])
	default:
		return answer{Panic: "there is no mode " + in.Mode}
	}
}

func failed(status int, err error) answer {
	return answer{Status: status, Error: strings.ReplaceAll(err.Error(), "main.jsonPatchOp", "handlers.jsonPatchOp")}
}

func askJSON(document, patch []byte) answer {
	var operations []jsonPatchOp
	strict, err := kjson.UnmarshalStrict(patch, &operations)
	if err != nil {
		return failed(http.StatusBadRequest, fmt.Errorf("error decoding patch: %v", err))
	}
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return failed(http.StatusBadRequest, err)
	}
	if len(decoded) > maxJSONPatchOperations {
		return failed(http.StatusRequestEntityTooLarge, fmt.Errorf(
			"The allowed maximum operations in a JSON patch is %d, got %d", maxJSONPatchOperations, len(decoded)))
	}
	patched, err := decoded.Apply(document)
	if err != nil {
		return failed(http.StatusUnprocessableEntity, err)
	}
	return result(patched, texts("json patch ", strict))
}

func askMerge(document, patch []byte) answer {
	strict, err := kjson.UnmarshalStrict(patch, &map[string]any{})
	if err != nil {
		return failed(http.StatusBadRequest, fmt.Errorf("error decoding patch: %v", err))
	}
	return merged(document, patch, texts("", strict))
}

func merged(document, patch []byte, strict []string) answer {
	patched, err := jsonpatch.MergePatch(document, patch)
	switch err {
	case nil:
		return result(patched, strict)
	case jsonpatch.ErrBadJSONPatch:
		return failed(http.StatusBadRequest, err)
	default:
		return failed(http.StatusInternalServerError, err)
	}
}

func askStrategic(object map[string]any, patch []byte, kind any) answer {
	changes := map[string]any{}
	strict, err := kjson.UnmarshalStrict(patch, &changes)
	if err != nil {
		return failed(http.StatusBadRequest, err)
	}
	clip(changes)
	patched, err := strategicpatch.StrategicMergeMapPatch(object, changes, kind)
	switch err {
	case nil:
	case mergepatch.ErrBadJSONDoc, mergepatch.ErrBadPatchFormatForPrimitiveList, mergepatch.ErrBadPatchFormatForRetainKeys,
		mergepatch.ErrBadPatchFormatForSetElementOrderList, mergepatch.ErrUnsupportedStrategicMergePatchFormat:
		return failed(http.StatusBadRequest, err)
	case mergepatch.ErrNoListOfLists, mergepatch.ErrPatchContentNotMatchRetainKeys:
		return failed(http.StatusUnprocessableEntity, err)
	default:
		return failed(http.StatusInternalServerError, err)
	}
	text, err := json.Marshal(patched)
	if err != nil {
		return answer{Panic: err.Error()}
	}
	return result(text, texts("", strict))
}

// The patched object as it is decoded next: numbers and texts are values again.
func result(patched []byte, strict []string) answer {
	var value any
	if err := utiljson.Unmarshal(patched, &value); err != nil {
		return answer{Panic: "the result: " + err.Error()}
	}
	text, err := json.Marshal(value)
	if err != nil {
		return answer{Panic: err.Error()}
	}
	return answer{Result: text, Strict: strict}
}

func texts(prefix string, errs []error) (texts []string) {
	for _, err := range errs {
		texts = append(texts, prefix+err.Error())
	}
	return texts
}

// Leaves lists no room to grow in: strategic merge writes into what room there is, and so its answer would depend on how
// the object was decoded.
func clip(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			value[name] = clip(field)
		}
	case []any:
		for place, item := range value {
			value[place] = clip(item)
		}
		return slices.Clip(value)
	}
	return value
}
