package main

import (
	"bufio"
	"encoding/json"
	"math/rand"
	"regexp"
)

// texts are what patterns are matched with.
var texts = []string{
	"", "a", "ab", "aab-1", "A", "é", "٣", "a\nb", "a&b", "a.b", "{,2}", "foo bar", "ſ", "K", "9_z", "[a", "😀A", "\\", "a{1}", "αβγ", "\x7f\t",
}

type regexpLine struct {
	Pattern string `json:"pattern"`
	// Matches are the indexes of the texts that match.
	Matches []int  `json:"matches,omitempty"`
	Error   string `json:"error,omitempty"`
}

// regexps writes what regexp.Compile makes of patterns, and which texts match: first the texts, then chosen patterns and random ones.
func regexps(out *bufio.Writer) {
	patterns := []string{
		``, `^$`, `^\d+$`, `^\w$`, `\W`, `\s`, `\D`, `^[a&&b]+$`, `^a{,2}$`, `^{,2}$`, `^[[a]+$`, `\Qa.b\E`, `\Qa.b`, `^a$`, `(?i)k`, `(?i)S`, `^\x{1F600}\101$`,
		`\bfoo\b`, `o\Bo`, `^[\d\-x]+$`, `^[^\W]+$`, `^é(?i)*A$`, `(abc`, `abc)`, `[abc`, `a**`, `a*?`, `a*??`, `*a`, `+`, `?`, `a{1001}`, `a{2,1}`, `a{1000}`, `(a{100}){100}`,
		`(?=a)`, `(?!a)`, `(?<n>a)`, `(?P<n>a)`, `(?P<n`, `(?P<>a)`, `(?P<n>a)(?P<n>b)`, `(?P=n)`, `\y`, `\1`, `\8`, `\01`, `\x4`, `\x{}`, `\x{110000}`, `\x{61}`, `[z-a]`, `[a-\d]`, `[\d-z]`,
		`[[:alpha:]]`, `[[:^alpha:]]`, `[[:foo:]]`, `[:alpha:]`, `[]a]`, `[^]a]`, `[]`, `[^]`, `[a`, `[a-`, `[a-]`, `[-a]`, `[a--]`, `[~~a]`, `[a--b]`, `a\`, `\p{Greek}`, `\P{Greek}`, `\pL`, `\p{^L}`, `\p{Nope}`,
		`\p{greek}`, `\p{Letter}`, `\p{Any}`, `\pX`, `\p{`, `\p`, `(?i)[k]`, `(?i)[^k]`, `(?s).`, `(?m)^b`, `^b`, `(?U)a+`, `(?x)a`, `(?i`, `(?-i:a)`, `(?i-:a)`, `(?--i)a`, `(?)a`, `(?:)`, `()`, `(|a)`, `a|`, `|`, `a||b`,
		`(?i)(?-i)A`, `\C`, `\A`, `\z`, `\Z`, `a{`, `a{1`, `a{1}`, `a{01}`, `a{1,}`, `a{1}{2}`, `a{1}?`, `a{1}??`, `{1}`, `^*`, `$*`, `^+`, `\b*`, `\b+`, `(?:a)*+`, `x{3,2}`, `a{99999999999}`, `#`, `a #b`, `\-`, `\_`, `\ `, `\"`, `\é`, `[\b]`, `[\Q]`, `\a\f\n\r\t\v`, `[^\n]`, `.`, `\/`,
	}
	parts := []string{
		"a", "b", "A", "é", ".", "^", "$", "(", "(", ")", ")", "[", "]", "^", "-", "|", "*", "+", "?", "{", "}", "{2}", "{1,3}", "{0}", ",", "2", `\d`, `\W`, `\b`, `\pL`, `\x41`, `\.`, `\`,
		"(?i)", "(?:", "(?P<n>", "[:digit:]", "[^a-c]", "[&&]", "&", "~", " ", "α",
	}
	chance := rand.New(rand.NewSource(4))
	for range 1500 {
		pattern := ""
		for range 1 + chance.Intn(7) {
			pattern += parts[chance.Intn(len(parts))]
		}
		patterns = append(patterns, pattern)
	}
	encoder := json.NewEncoder(out)
	if err := encoder.Encode(texts); err != nil {
		panic(err)
	}
	for _, pattern := range patterns {
		line := regexpLine{Pattern: pattern}
		if compiled, err := regexp.Compile(pattern); err != nil {
			line.Error = err.Error()
		} else {
			for index, text := range texts {
				if compiled.MatchString(text) {
					line.Matches = append(line.Matches, index)
				}
			}
		}
		if err := encoder.Encode(line); err != nil {
			panic(err)
		}
	}
}
