package main

import (
	"bufio"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math/rand"
)

type base64Line struct {
	Text   string  `json:"text"`
	Std    *string `json:"std,omitempty"`
	StdErr string  `json:"std_error,omitempty"`
	URL    *string `json:"url,omitempty"`
	URLErr string  `json:"url_error,omitempty"`
	Raw    *string `json:"raw_url,omitempty"`
	RawErr string  `json:"raw_url_error,omitempty"`
}

// base64s writes what base64.StdEncoding, base64.URLEncoding and base64.RawURLEncoding make of texts, in hexadecimal digits.
func base64s(out *bufio.Writer) {
	texts := []string{
		"", "a", "aG", "aGk", "aGk=", "aGkh", "aA==", "aB==", "aGl=", "aG\nkh", "aGk\r\n=", "aA=\n=", "aA==\n", "\n", "\r\n\r\n", "a\n", "aA=", "aA=\n",
		"a===", "=", "==", "====", "aA==aA==", "aA===", "aGk==", "aGk=x", "aA=x", "aA=\nx", "aA==x", "aA==\nx", "a k=", "!!", "YQ", "YQ=x", "YQ====", "+/+/", "-_-_",
		"aGk=\n\n=", "aG kh", "aGkhaGk", "aGkhaG", "aGkha", "aGkh\naGk", "aGkh\naG", "aGkh\na", "aGkh\n", "aGkha\nG\nk", "é", "aGé=", "aGkhaGkhaGkhaGkh!", "aGkhaGkhaGkh=",
	}
	chance := rand.New(rand.NewSource(3))
	parts := []string{"A", "b", "9", "z", "aGkh", "YWJj", "=", "=", "==", "\n", "\r\n", "+", "/", "-", "_", "!"}
	for range 600 {
		text := ""
		for range 1 + chance.Intn(8) {
			text += parts[chance.Intn(len(parts))]
		}
		texts = append(texts, text)
	}
	decode := func(encoding *base64.Encoding, text string) (*string, string) {
		data, err := encoding.DecodeString(text)
		if err != nil {
			return nil, err.Error()
		}
		digits := hex.EncodeToString(data)
		return &digits, ""
	}
	encoder := json.NewEncoder(out)
	for _, text := range texts {
		line := base64Line{Text: text}
		line.Std, line.StdErr = decode(base64.StdEncoding, text)
		line.URL, line.URLErr = decode(base64.URLEncoding, text)
		line.Raw, line.RawErr = decode(base64.RawURLEncoding, text)
		if err := encoder.Encode(line); err != nil {
			panic(err)
		}
	}
}
