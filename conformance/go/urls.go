package main

import (
	"bufio"
	"encoding/json"
	"math/rand"
	"net/netip"
	"net/url"
	"slices"
)

type urlLine struct {
	Text    string   `json:"text"`
	Error   string   `json:"error,omitempty"`
	Request string   `json:"request,omitempty"`
	Scheme  string   `json:"scheme,omitempty"`
	Host    string   `json:"host,omitempty"`
	Name    string   `json:"hostname,omitempty"`
	Port    string   `json:"port,omitempty"`
	Path    string   `json:"path,omitempty"`
	Query   string   `json:"query,omitempty"`
	Values  []string `json:"values,omitempty"`
}

// urls writes what url.Parse makes of texts, and the error of url.ParseRequestURI.
func urls(out *bufio.Writer) {
	texts := []string{
		"", "*", "a", "/", "//", "///", "////a", "/a b", "/a%20b", "/a%2Fb/", "/a%zz", "/a%", "/a%4", "/é", "/%C3%A9", "/!'()*[]", "/a\"b", "/a^{}|`", "?", "?a", "/?a=b&c", "/?a;b=c&d=e", "/?%zz=a&b=%zz&c=d+e%20f", "/?=a&&b",
		"#f", "/a#f", "/a?b#c?d", "/a#%zz", "#%", ":", ":a", "1:a", "a:", "a:b", "a:/b", "a:b%zz", "A+b.c-1:d", "a_b:c", "a/b:c", "mailto:a@b", "http:", "http:a", "http:/a", "http://", "http:///a", "http://a", "HTTP://A/B",
		"http://a:80", "http://a:", "http://a:b", "http://a:80:90", "db://a:80,b:90/c", "http://:80", "http://a@b", "http://a:b@c", "http://a@b@c", "http://a b@c", "http://a%zz@c", "http://a%20:%20b@c", "http://@a", "http://a/b@c",
		"http://[::1]", "http://[::1]:80", "http://[::1]:", "http://[::1]a", "http://[::1", "http://::1]", "http://a[::1]", "http://[1.2.3.4]", "http://[::ffff:1.2.3.4]", "http://[a]", "http://[]", "http://[::1%25eth0]", "http://[::1%25]", "http://[::1%eth0]", "http://[::1%25%41]", "http://[::1%25%20]", "http://[::1%25%C3]", "http://[fe80::1%25e%2Fa]",
		"http://a b", "http://a%20b", "http://a%41", "http://%C3%A9", "http://é", "http://a%25b", "http://a%zz", "http://a<b>\"", "http://a^b", "http://a\\b", "http://a_b", "//a/b", "//a:b", "//a@b", "\x00", "a\x7f", "a\nb", " a", "http://a?b", "http://a#b", "http://a/b?c#d",
	}
	parts := []string{"http", "https", "ftp", ":", ":", "/", "//", "//", "a", "b.c", "@", "[", "]", "::1", "1.2.3.4", ":80", "?", "#", "%20", "%25", "%", "%zz", "=", "&", ";", "+", " ", "é", "*", "\"", "^", "|", "%C3%A9", "%41", "世", "_"}
	chance := rand.New(rand.NewSource(6))
	for range 1200 {
		text := ""
		if chance.Intn(2) == 0 {
			text = "http://"
		}
		for range 1 + chance.Intn(7) {
			text += parts[chance.Intn(len(parts))]
		}
		texts = append(texts, text)
	}
	encoder := json.NewEncoder(out)
	for _, text := range texts {
		line := urlLine{Text: text}
		if _, err := url.ParseRequestURI(text); err != nil {
			line.Request = err.Error()
		}
		if parsed, err := url.Parse(text); err != nil {
			line.Error = err.Error()
		} else {
			line.Scheme, line.Host, line.Name, line.Port = parsed.Scheme, parsed.Host, parsed.Hostname(), parsed.Port()
			line.Path, line.Query = parsed.EscapedPath(), parsed.RawQuery
			for key, values := range parsed.Query() {
				for _, value := range values {
					line.Values = append(line.Values, key+"="+value)
				}
			}
			slices.Sort(line.Values)
		}
		if err := encoder.Encode(line); err != nil {
			panic(err)
		}
	}
}

type addressLine struct {
	Text   string `json:"text"`
	Addr   string `json:"addr,omitempty"`
	Error  string `json:"error,omitempty"`
	Prefix string `json:"prefix,omitempty"`
	Wrong  string `json:"prefix_error,omitempty"`
}

// addresses writes what netip.ParseAddr and netip.ParsePrefix make of texts.
func addresses(out *bufio.Writer) {
	texts := []string{
		"", "1.2.3.4", "1.2.3", "1.2.3.4.5", "01.2.3.4", "0.0.0.0", "00.0.0.0", "256.1.1.1", "1..2.3", ".1.2.3", "1.2.3.", "1.2.3.a", "1.2.3.4%a", "a.b", "é.1", "1.2.é", "::", "::1", "1::", ":", ":1", "1:", ":::", "1::2::3", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::3:4:5:6:7:8", "::2:3:4:5:6:7:8", "1:2:3:4:5:6:7::",
		"1:2:3:4::5:6:7:8", "12345::", "FFFF::AbCd", "g::", "::é", "::1.2.3.4", "::ffff:1.2.3.4", "1:2:3:4:5:6:1.2.3.4", "1:2:1.2.3.4", "1:2:3:4:5:6:7:1.2.3.4", "::1.2.3", "::1.2.3.256", "::1.2.3.4:5", "::1%", "::1%eth0", "::1%a%b", "%a", "a%b", "::ffff:1.2.3.4%a", "a", "127.1", "1:0:0:2:0:0:0:3", "0:0:0:0:0:0:0:0", "1:0:2:3:4:5:6:7", "::1:2", "::12:34.5.6.7",
		"1.2.3.4/0", "1.2.3.4/32", "1.2.3.4/33", "1.2.3.4/", "1.2.3.4/01", "1.2.3.4/+1", "1.2.3.4/-1", "1.2.3.4/0x1", "1.2.3.4/a", "1.2.3.4/999999999999999999999", "::/128", "::/129", "::1%a/1", "::ffff:1.2.3.4/96", "/", "/1", "1.2.3/4", "1.2.3.4/5/6", "1.2.3.4/ 1", "1.2.3.4/1 ",
	}
	parts := []string{"1", "0", "255", "256", "12", ".", ".", ":", ":", "::", "ffff", "a", "g", "%", "/", "8", "1.2.3.4"}
	chance := rand.New(rand.NewSource(7))
	for range 1000 {
		text := ""
		for range 1 + chance.Intn(9) {
			text += parts[chance.Intn(len(parts))]
		}
		texts = append(texts, text)
	}
	encoder := json.NewEncoder(out)
	for _, text := range texts {
		line := addressLine{Text: text}
		if addr, err := netip.ParseAddr(text); err != nil {
			line.Error = err.Error()
		} else {
			line.Addr = addr.String()
		}
		if prefix, err := netip.ParsePrefix(text); err != nil {
			line.Wrong = err.Error()
		} else {
			line.Prefix = prefix.String()
		}
		if err := encoder.Encode(line); err != nil {
			panic(err)
		}
	}
}
