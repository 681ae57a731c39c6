// Answers what Kubernetes' own libraries say about selectors, JSON paths and Accept headers: a question a line, as
// JSON, and an answer a line.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/munnerz/goautoneg"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"
)

type question struct {
	Labels   *string               `json:"labels"`
	Fields   *string               `json:"fields"`
	Selector *metav1.LabelSelector `json:"selector"`
	Path     *string               `json:"path"`
	Accept   *string               `json:"accept"`
	Duration *int64                `json:"duration"`
	Object   json.RawMessage       `json:"object"`
}

type answer struct {
	Error   string            `json:"error,omitempty"`
	Text    string            `json:"text"`
	Matches bool              `json:"matches"`
	Results []json.RawMessage `json:"results,omitempty"`
}

func main() {
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(make([]byte, 1<<20), 1<<26)
	output := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(output)
	encoder.SetEscapeHTML(false)
	for input.Scan() {
		var q question
		if err := json.Unmarshal(input.Bytes(), &q); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if err := encoder.Encode(q.answer()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if err := output.Flush(); err != nil {
		os.Exit(1)
	}
}

func (q *question) answer() answer {
	switch {
	case q.Labels != nil:
		selector, err := labels.Parse(*q.Labels)
		return q.labels(selector, err)
	case q.Selector != nil:
		selector, err := metav1.LabelSelectorAsSelector(q.Selector)
		return q.labels(selector, err)
	case q.Fields != nil:
		// Every field is known.
		selector, err := fields.ParseSelector(*q.Fields)
		if err != nil {
			return answer{Error: err.Error()}
		}
		return answer{Text: selector.String()}
	case q.Path != nil:
		return q.path()
	case q.Accept != nil:
		var text bytes.Buffer
		for _, clause := range goautoneg.ParseAccept(*q.Accept) {
			fmt.Fprintf(&text, "%s|%s|%v", clause.Type, clause.SubType, float32(clause.Q))
			names := make([]string, 0, len(clause.Params))
			for name := range clause.Params {
				names = append(names, name)
			}
			sort.Strings(names)
			for _, name := range names {
				fmt.Fprintf(&text, "|%s=%s", name, clause.Params[name])
			}
			text.WriteString("\n")
		}
		return answer{Text: text.String()}
	case q.Duration != nil:
		return answer{Text: duration.HumanDuration(time.Duration(*q.Duration))}
	}
	return answer{Error: "no question"}
}

func (q *question) labels(selector labels.Selector, err error) answer {
	if err != nil {
		return answer{Error: err.Error()}
	}
	var set labels.Set
	if err := json.Unmarshal(q.Object, &set); err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Text: selector.String(), Matches: selector.Matches(set)}
}

// What a printer column does: missing keys are allowed, and what is found is printed.
func (q *question) path() answer {
	var object map[string]interface{}
	if err := utiljson.Unmarshal(q.Object, &object); err != nil {
		return answer{Error: err.Error()}
	}
	path := jsonpath.New("path")
	if err := path.Parse("{" + *q.Path + "}"); err != nil {
		return answer{Error: "syntax"}
	}
	path.AllowMissingKeys(true)
	results, err := path.FindResults(object)
	if err != nil {
		return answer{Error: "mismatch: " + err.Error()}
	}
	if len(results) == 0 {
		return answer{}
	}
	var found []json.RawMessage
	var text bytes.Buffer
	for _, result := range results[0] {
		encoded, err := json.Marshal(result.Interface())
		if err != nil {
			return answer{Error: err.Error()}
		}
		found = append(found, encoded)
	}
	if err := path.PrintResults(&text, results[0]); err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Text: text.String(), Results: found}
}
