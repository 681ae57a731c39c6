package main

import (
	"bufio"
	"encoding/json"
	"math/rand"
	"time"
)

type durationLine struct {
	Text        string `json:"text"`
	Nanoseconds *int64 `json:"nanoseconds,omitempty"`
	Error       string `json:"error,omitempty"`
}

// durations writes what time.ParseDuration makes of texts: chosen ones, then random ones.
func durations(out *bufio.Writer) {
	texts := []string{
		"", "0", "+0", "-0", "00", "0.", ".0", "1", "-", "+", "--1s", "+-1s", "s", ".", ".s", "-.s", "1x", "1 s", " 1s", "1s ", "1s2",
		"30s", "1m30s", "1.5h", ".5s", "1.s", "+2ms", "-1s", "1500us", "1µs", "1μs", "1.5µs", "1μ", "1ns", "0.5ns", "1.9ns", "1S", "1d", "∞", "1∞",
		"1..5s", "1.2.3s", "1e3s", "9999999999h", "9223372036854775807ns", "9223372036854775808ns", "-9223372036854775808ns",
		"9223372036854775809ns", "-9223372036854775809ns", "9223372036854775808ns9223372036854775808ns",
		"-9223372036854775808ns9223372036854775808ns", "9223372036.854775807s", "9223372036.854775808s", "-9223372036.854775808s",
		"2562047h47m16.854775807s", "2562047h47m16.854775808s", "2562048h", "0.3333333333333333333h", "0.1234567890123456789012345678901234567890h",
		"0.9223372036854775807h", "0.9223372036854775808h", "0.922337203685477580h", "0.9999999999999999999s", "100000000000000000000h",
		"1\"s", "1\\s", "1\ts", "1\x7fs", "1h1h1h", "1s1h", "3000000h.5s", "000000000000000000000000001s", "1.0000000000000000000000001s",
	}
	chance := rand.New(rand.NewSource(2))
	parts := []string{"0", "1", "59", "1234567", "9223372036854775", ".", ".", ".25", ".999999999999", "ns", "us", "µs", "μs", "ms", "s", "s", "m", "h", "-", "x"}
	for range 400 {
		text := ""
		for range 1 + chance.Intn(6) {
			text += parts[chance.Intn(len(parts))]
		}
		texts = append(texts, text)
	}
	for range 200 {
		texts = append(texts, time.Duration(chance.Uint64()).String())
	}
	encoder := json.NewEncoder(out)
	for _, text := range texts {
		line := durationLine{Text: text}
		if duration, err := time.ParseDuration(text); err != nil {
			line.Error = err.Error()
		} else {
			nanoseconds := int64(duration)
			line.Nanoseconds = &nanoseconds
		}
		if err := encoder.Encode(line); err != nil {
			panic(err)
		}
	}
}
