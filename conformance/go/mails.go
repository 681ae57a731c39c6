package main

import (
	"bufio"
	"encoding/json"
	"math/rand"
	"net/mail"
)

type mailLine struct {
	Text  string `json:"text"`
	Error string `json:"error,omitempty"`
}

// mails writes what mail.ParseAddress makes of texts.
func mails(out *bufio.Writer) {
	texts := []string{
		"", "a", "a@b", "a@b.c", "<a@b>", "N <a@b>", "N N. <a@b>", `"N" <a@b>`, `"a b"@c`, "a.b@c", "a..b@c", ".a@b", "a.@b", "a@b.", "a@.b", "a@b..c", "a@[127.0.0.1]", "a@[::1]", "a@[x]", "a@[]",
		"a@b (c)", "(c) a@b", "a(c)@b", "a@b (c", "a@b ((c))", `a@b (\)`, "a@b, c@d", "g: a@b;", "g: a@b, c@d;", "g:;", "a @b", "a@ b", " a@b ", "a@b\n", "é@b", "a@é", `"é"@b`, "=?utf-8?q?x?= <a@b>", "=?x?q?x?= <a@b>",
		`"a\"b"@c`, `"a\`, `"a`, "a@b>", "<a@b", "<>", "@b", "a@", "a b@c", "a@b c", "a@b_c", "a@b-", "a!#$%&'*+-/=?^_`{|}~b@c", "a;b@c", `a\b@c`, "a@b\x7f", "\x00a@b", `""@b`, `"" <a@b>`, "\"a\tb\"@c", "N.N <a@b>", "N@M <a@b>",
	}
	parts := []string{"a", "b.c", "@", "@", "<", ">", "\"", "(", ")", " ", ".", ",", ":", ";", "[", "]", "1.2.3.4", "\\", "é", "=?utf-8?q?x?="}
	chance := rand.New(rand.NewSource(5))
	for range 800 {
		text := ""
		for range 1 + chance.Intn(8) {
			text += parts[chance.Intn(len(parts))]
		}
		texts = append(texts, text)
	}
	encoder := json.NewEncoder(out)
	for _, text := range texts {
		line := mailLine{Text: text}
		if _, err := mail.ParseAddress(text); err != nil {
			line.Error = err.Error()
		}
		if err := encoder.Encode(line); err != nil {
			panic(err)
		}
	}
}
