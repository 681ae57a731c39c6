// Says what upstream's server-side apply makes of sequences of operations.
//
// Standard input is JSON lines, one case each; standard output has a line of JSON for each, in order. A case has one of
// three modes: "merge" drives structured-merge-diff itself, "kubernetes" the managers of apimachinery above it, and
// "schema" converts OpenAPI to a schema.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sort"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

type operation struct {
	Apply   bool   `json:"apply"`
	Force   bool   `json:"force"`
	Manager string `json:"manager"`
	Version string `json:"version"`
	// Which of the schemas counts from this operation on.
	Schema int             `json:"schema"`
	Object json.RawMessage `json:"object"`
	// Seconds since 1970. Only for kubernetes.
	Time int64 `json:"time"`
	// Only for kubernetes.
	Subresource string `json:"subresource"`
}

type input struct {
	Mode string `json:"mode"`
	// In upstream's own form; for schema, a map of OpenAPI components.
	Schemas []json.RawMessage `json:"schemas"`
	// By version, old names of fields of the root and new ones.
	Renames map[string]map[string]string `json:"renames"`
	// By version, FieldsV1.
	Ignored    map[string]json.RawMessage `json:"ignored"`
	Live       json.RawMessage            `json:"live"`
	Managers   map[string]managerState    `json:"managers"`
	Operations []operation                `json:"operations"`
	Preserve   bool                       `json:"preserve"`
}

type managerState struct {
	Version string          `json:"version"`
	Applied bool            `json:"applied"`
	Fields  json.RawMessage `json:"fields"`
}

// The fields are a text, since their bytes are compared.
type ownedState struct {
	Version string `json:"version"`
	Applied bool   `json:"applied"`
	Fields  string `json:"fields"`
}

type conflict struct {
	Manager string `json:"manager"`
	Path    string `json:"path"`
}

type answer struct {
	// The live object after the operation. It is left out if the operation failed or changed nothing.
	Live      any                   `json:"live,omitempty"`
	Same      bool                  `json:"same,omitempty"`
	Managers  map[string]ownedState `json:"managers,omitempty"`
	Conflicts []conflict            `json:"conflicts,omitempty"`
	Error     string                `json:"error,omitempty"`
	Schema    any                   `json:"schema,omitempty"`
}

func main() {
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
		answers, err := ask(&in)
		if err != nil {
			answers = []answer{{Error: err.Error()}}
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

func ask(in *input) (answers []answer, err error) {
	// The libraries panic on a few broken inputs; for the question at hand that is an error, too.
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	switch in.Mode {
	case "merge":
		return askMerge(in)
	case "kubernetes":
		return askKubernetes(in)
	case "schema":
		return askSchema(in)
	default:
		return nil, fmt.Errorf("there is no mode %q", in.Mode)
	}
}

// Integers stay integers, as in Kubernetes.
func decode(raw json.RawMessage) (value any, err error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	err = utiljson.Unmarshal(raw, &value)
	return value, err
}

func sortConflicts(conflicts []conflict) {
	sort.SliceStable(conflicts, func(i, j int) bool { return conflicts[i].Manager < conflicts[j].Manager })
}
