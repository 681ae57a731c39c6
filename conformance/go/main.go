// Go's own texts: the golden file and the table of printable characters of crates/go.
//
//	go run . table   the ranges of strconv.IsPrint, as Rust
//	go run . golden  values in each of Go's ways to print them, a line of JSON each
//	go run . durations  texts as time.ParseDuration reads them
//	go run . base64  texts as encoding/base64 decodes them
//	go run . regexps  patterns as regexp compiles them, and what they match
//	go run . mails  addresses as net/mail parses them
//	go run . urls  URLs as net/url parses them
//	go run . addresses  addresses and prefixes as net/netip parses them
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	switch {
	case len(os.Args) == 2 && os.Args[1] == "table":
		table(out)
	case len(os.Args) == 2 && os.Args[1] == "golden":
		golden(out)
	case len(os.Args) == 2 && os.Args[1] == "durations":
		durations(out)
	case len(os.Args) == 2 && os.Args[1] == "base64":
		base64s(out)
	case len(os.Args) == 2 && os.Args[1] == "regexps":
		regexps(out)
	case len(os.Args) == 2 && os.Args[1] == "mails":
		mails(out)
	case len(os.Args) == 2 && os.Args[1] == "urls":
		urls(out)
	case len(os.Args) == 2 && os.Args[1] == "addresses":
		addresses(out)
	default:
		fmt.Fprintln(os.Stderr, "usage: go table|golden|durations|base64|regexps|mails|urls|addresses")
		os.Exit(2)
	}
}

func table(out *bufio.Writer) {
	fmt.Fprintf(out, "//! What `strconv.IsPrint` says of every character, for Unicode %s.\n", unicode.Version)
	fmt.Fprintln(out, "//!\n//! Made by `go run . table` in `conformance/go`; do not edit.")
	fmt.Fprintln(out, "\n/// Printable characters: ranges with both ends, in order.")
	fmt.Fprintln(out, "#[rustfmt::skip]\npub(crate) static PRINTABLE: &[(u32, u32)] = &[")
	width := 0
	put := func(from, to rune) {
		text := fmt.Sprintf("(0x%x, 0x%x),", from, to)
		switch {
		case width == 0:
			text = "    " + text
		case width+1+len(text) > 110:
			text, width = "\n    "+text, -1
		default:
			text = " " + text
		}
		width += len(text)
		fmt.Fprint(out, text)
	}
	start := rune(-1)
	for r := rune(0); r <= utf8.MaxRune+1; r++ {
		switch printable := r <= utf8.MaxRune && strconv.IsPrint(r); {
		case printable && start < 0:
			start = r
		case !printable && start >= 0:
			put(start, r-1)
			start = -1
		}
	}
	fmt.Fprintln(out, "\n];")
}

type line struct {
	Value  json.RawMessage `json:"value"`
	Type   string          `json:"type"`
	Plain  string          `json:"plain"`
	Text   string          `json:"text"`
	Syntax string          `json:"syntax"`
	JSON   string          `json:"json"`
	Quoted string          `json:"quoted,omitempty"`
}

// What decoders of Kubernetes make of a number: an int64 if it is one, else a float64.
func decoded(value any) any {
	switch value := value.(type) {
	case json.Number:
		if whole, err := value.Int64(); err == nil {
			return whole
		}
		float, _ := value.Float64()
		return float
	case []any:
		for at := range value {
			value[at] = decoded(value[at])
		}
	case map[string]any:
		for name := range value {
			value[name] = decoded(value[name])
		}
	}
	return value
}

func golden(out *bufio.Writer) {
	chance := rand.New(rand.NewSource(1))
	values := []string{
		`null`, `true`, `0`, `-1`, `9223372036854775807`, `18446744073709551615`, `0.0`, `-0.0`, `1.0`, `1e5`, `1e6`,
		`123456.5`, `1234567.5`, `1e20`, `1e21`, `1e-4`, `1e-5`, `0.000001`, `1e-7`, `1.25e-7`, `5e-324`, `1.7976931348623157e308`,
		`""`, `"a\"b\\"`, `"\u0007\u0008\u000c\n\r\t\u000b\u0000\u001b\u007f"`, `"é世\u0301"`, `"\u00a0\u00ad\u200b\ufffe\udbff\udfff"`,
		`"<a href='x'>&\u2028\u2029"`, `[]`, `{}`, `[1,"x",null,true,1.5]`, `{"b":[1.0,null],"a":{"x":"<y>"}}`, `[[],{}]`,
		`"%s"`, `"tab\tquote'"`,
	}
	for range 300 {
		bits := math.Float64frombits(chance.Uint64())
		if !math.IsNaN(bits) && !math.IsInf(bits, 0) {
			values = append(values, strconv.FormatFloat(bits, 'e', -1, 64))
		}
		near := math.Pow10(chance.Intn(30)-8) * math.Round(chance.Float64()*1e4)
		values = append(values, strconv.FormatFloat(near, 'e', -1, 64))
	}
	for range 300 {
		var text strings.Builder
		for range chance.Intn(6) {
			limit := []int{0x80, 0x300, 0x3000, 0x10000, 0x110000}[chance.Intn(5)]
			if r := rune(chance.Intn(limit)); utf8.ValidRune(r) {
				text.WriteRune(r)
			}
		}
		quoted, _ := json.Marshal(text.String())
		values = append(values, string(quoted))
	}
	encoder := json.NewEncoder(out)
	for _, raw := range values {
		decoder := json.NewDecoder(strings.NewReader(raw))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			panic(err)
		}
		value = decoded(value)
		encoded, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		shown := line{
			Value: json.RawMessage(raw), Type: fmt.Sprintf("%T", value), Plain: fmt.Sprintf("%v", value),
			Text: fmt.Sprintf("%s", value), Syntax: fmt.Sprintf("%#v", value), JSON: string(encoded),
		}
		if text, isText := value.(string); isText {
			shown.Quoted = strconv.Quote(text)
		}
		if err := encoder.Encode(shown); err != nil {
			panic(err)
		}
	}
}
