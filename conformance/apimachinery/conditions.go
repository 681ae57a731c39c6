package main

import (
	"encoding/json"
	"math/rand"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type conditionsLine struct {
	Conditions json.RawMessage `json:"conditions"`
	Errors     []string        `json:"errors,omitempty"`
}

func conditions(put func(any)) {
	valid := map[string]any{"type": "Ready", "status": "True", "observedGeneration": 2, "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "AsExpected", "message": "all is well"}
	with := func(changes map[string]any) map[string]any {
		condition := map[string]any{}
		for name, value := range valid {
			condition[name] = value
		}
		for name, value := range changes {
			if value == nil {
				delete(condition, name)
			} else {
				condition[name] = value
			}
		}
		return condition
	}
	lists := [][]map[string]any{
		{}, {valid}, {{}},
		// Upstream's own cases, of TestValidateConditions.
		{{"type": ":invalid", "status": "unknown", "observedGeneration": -1, "reason": "invalid;val", "message": ""}},
		{{"type": "First"}, {"type": "Second"}, {"type": "First"}},
		{{"type": "First", "reason": "valid:val"}},
		{{"type": "First", "reason": "valid,val"}},
		{{"type": "First", "reason": "valid,val:"}},
		{valid, valid, valid}, {valid, with(map[string]any{"type": "Stored"}), with(map[string]any{"status": "False"})},
	}
	alone := func(name string, values ...any) {
		for _, value := range values {
			lists = append(lists, []map[string]any{with(map[string]any{name: value})})
		}
	}
	label := strings.Repeat("a", 63)
	alone("type", nil, "", "Ready", "ready", "example.com/Ready", "Example.com/Ready", "example.com/", "/Ready", "a/b/c", "-Ready", "Ready-", "Ready.", "a_b", "a b", "Bereit_é", label, label+"a",
		strings.Repeat("a.", 126)+"a/"+label, strings.Repeat("a.", 127)+"a/"+label)
	alone("status", nil, "", "True", "False", "Unknown", "true", "TRUE", "True ", "Maybe")
	alone("observedGeneration", nil, 0, 1, -1, int64(1)<<53, -int64(1)<<53)
	alone("lastTransitionTime", nil, "0001-01-01T00:00:00Z", "0001-01-01T00:00:01Z", "1970-01-01T00:00:00Z", "2026-01-01T12:34:56+02:00")
	alone("reason", nil, "", "A", "a", "_", "1", "a1", "a_", "a:", "a,", "a:b", "a,b", "a::b", "a-b", "a b", "aé", "ä", "a\n", "a_b:c,D9", strings.Repeat("a", 1024), strings.Repeat("a", 1025), strings.Repeat("-", 1025), strings.Repeat("é", 512))
	alone("message", nil, "", "line\nline", strings.Repeat("m", 32*1024), strings.Repeat("é", 16*1024)+"m")
	letters := []string{"a", "Z", "0", "_", ",", ":", "-", ".", "/", " ", "é"}
	random := rand.New(rand.NewSource(1))
	word := func() string {
		var text strings.Builder
		for range random.Intn(5) {
			text.WriteString(letters[random.Intn(len(letters))])
		}
		return text.String()
	}
	for len(lists) < 160 {
		lists = append(lists, []map[string]any{with(map[string]any{"type": word(), "reason": word()}), with(map[string]any{"type": word()})})
	}
	path := field.NewPath("status").Child("conditions")
	for _, list := range lists {
		text, err := json.Marshal(list)
		if err != nil {
			panic(err)
		}
		var conditions []metav1.Condition
		if err := json.Unmarshal(text, &conditions); err != nil {
			panic(err)
		}
		line := conditionsLine{Conditions: text}
		for _, err := range validation.ValidateConditions(conditions, path) {
			line.Errors = append(line.Errors, err.Error())
		}
		put(line)
	}
}
