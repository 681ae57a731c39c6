package main

import (
	"math/rand"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
)

type nameLine struct {
	Text  string              `json:"text"`
	Wrong map[string][]string `json:"wrong"`
}

var nameChecks = map[string]func(string) []string{
	"is_dns1123_label":              validation.IsDNS1123Label,
	"is_dns1123_subdomain":          validation.IsDNS1123Subdomain,
	"is_dns1035_label":              validation.IsDNS1035Label,
	"is_wildcard_dns1123_subdomain": validation.IsWildcardDNS1123Subdomain,
	"is_qualified_name":             validation.IsQualifiedName,
	"is_valid_label_value":          validation.IsValidLabelValue,
	"is_path_segment_name":          content.IsPathSegmentName,
	"is_path_segment_prefix":        content.IsPathSegmentPrefix,
	"is_config_map_key":             validation.IsConfigMapKey,
	"is_relaxed_env_var_name":       validation.IsRelaxedEnvVarName,
	"is_valid_port_name":            validation.IsValidPortName,
	"is_valid_percent":              validation.IsValidPercent,
	"dns_subdomain_prefix":          func(s string) []string { return apivalidation.NameIsDNSSubdomain(s, true) },
	"dns_label_prefix":              func(s string) []string { return apivalidation.NameIsDNSLabel(s, true) },
	"dns1035_label_prefix":          func(s string) []string { return apivalidation.NameIsDNS1035Label(s, true) },
}

func names(put func(any)) {
	long := func(n int) string { return strings.Repeat("a", n) }
	texts := []string{
		"", "-", "--", "a", "A", "1", "a-", "-a", "a-b", "a.b", "a..b", ".a", "a.", "a_b", "_a", "A.b", "é", "aé", "é-", "aé-", "A-", "ab_-", "a.-", ".-",
		"a\n", "a b", "/", "a/", "/a", "a/b", "a/b/c", "//", "A/b", "a.b/c", "a.b/C_d.e", "a.b/-", "é/a", "a/é", ".", "..", "...", "..a", "%", "a%b", "a/%",
		"*", "*.", "*.a", "*.a.b", "*.A", "a.*", "**.a", "10%", "%10", "%%", "1%%", "-1%", "http", "80", "a--b", "-80", "80-", "a0", "A=b", "A_B", "A B", "a\tb", "~", "\x7f",
		long(15), long(16), long(63), long(64), long(62) + "-", long(63) + "-", long(64) + "-", long(253), long(254), long(252) + "-", long(253) + "-", long(254) + "-",
		long(64) + "." + long(3), long(63) + "/" + long(63), long(64) + "/" + long(64), long(253) + "/" + long(63), long(254) + "/a", "*." + long(251), "*." + long(252),
		long(62) + "é", long(61) + "é", long(251) + "é", long(64) + "A", long(254) + "_",
	}
	alphabet := []string{"a", "b", "A", "0", "1", "-", "-", ".", ".", "_", "/", "%", "*", "é", " ", "="}
	random := rand.New(rand.NewSource(1))
	for len(texts) < 400 {
		var text strings.Builder
		for range 1 + random.Intn(7) {
			text.WriteString(alphabet[random.Intn(len(alphabet))])
		}
		texts = append(texts, text.String())
	}
	for _, text := range texts {
		wrong := map[string][]string{}
		for name, check := range nameChecks {
			if found := check(text); len(found) > 0 {
				wrong[name] = found
			}
		}
		put(nameLine{text, wrong})
	}
}
