// Says what sigs.k8s.io/yaml makes of YAML documents: the JSON, or that it is an error.
//
// Standard input is a JSON array of strings. Standard output has a line of JSON for each, in order.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// An answer holds the JSON or the error of YAMLToJSON, which kubectl uses. Duplicate keys are an error only of the
// strict variant, which is what the API server warns about.
type answer struct {
	Yaml   string          `json:"yaml"`
	JSON   json.RawMessage `json:"json,omitempty"`
	Error  string          `json:"error,omitempty"`
	Strict string          `json:"strict,omitempty"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var cases []string
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil {
		return fmt.Errorf("expected a JSON array of strings: %w", err)
	}
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for _, document := range cases {
		if err := encoder.Encode(ask(document)); err != nil {
			return err
		}
	}
	return out.Flush()
}

func ask(document string) (result answer) {
	result.Yaml = document
	// The library panics on a few broken documents; for the question at hand that is an error, too.
	defer func() {
		if cause := recover(); cause != nil {
			result.JSON, result.Error = nil, fmt.Sprint("panic: ", cause)
		}
	}()
	converted, err := yaml.YAMLToJSON([]byte(document))
	if err != nil {
		result.Error = err.Error()
		return result
	}
	result.JSON = converted
	if _, err := yaml.YAMLToJSONStrict([]byte(document)); err != nil {
		result.Strict = err.Error()
	}
	return result
}
