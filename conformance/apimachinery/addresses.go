package main

import (
	"math/rand"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

type addressLine struct {
	Text    string `json:"text"`
	Address string `json:"address,omitempty"`
	Network string `json:"network,omitempty"`
	Bits    int    `json:"bits"`
	// What is wrong with it as an address, and as a network.
	WrongAddress string `json:"wrongAddress,omitempty"`
	WrongNetwork string `json:"wrongNetwork,omitempty"`
}

func addresses(put func(any)) {
	texts := []string{
		"", "1", "1.2.3.4", "01.2.3.4", "001.002.003.004", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.-4", "1.2.3.4 ", ".1.2.3", "1..2.3", "1.2.3.", "0.0.0.0", "255.255.255.255", "0000000000001.2.3.4", "16777215.1.1.1",
		"::", "::1", "1::", "1::2", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1::2::3", ":::", ":", ":1", "1:", "1:::2", "00001::", "fffff::", "::ffff:1.2.3.4", "::ffff:01.2.3.4", "::1.2.3.4",
		"1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:7:1.2.3.4", "1:2:3:4:5:1.2.3.4", "::1.2.3", "::1.2.3.4.5", "::ffff:102:304", "fe80::1%eth0", "FE80::1", "g::", "1.2.3.4:80", "::12345", "::ffffff", "::0000000fff",
		"1.2.3.4/32", "1.2.3.4/24", "1.2.3.0/24", "1.2.3.0/024", "1.2.3.0/", "/24", "1.2.3.0/33", "1.2.3.0/-1", "1.2.3.0/+24", "1.2.3.0/24/24", "01.2.3.0/24", "::/0", "0.0.0.0/0", "::/128", "::/129", "::1/64", "2001:db8::/32", "2001:db8::1/32", "00001::/16", "::ffff:1.2.3.0/120", "::ffff:1.2.3.4/128", "1.2.3.0/ 24", "fe80::%1/64", "1/8", "1.2.3.0/16777215",
	}
	parts := []string{"0", "1", "00", "01", "255", "256", "ffff", "10000", ":", "::", ":", ".", ".", "/", "/24", "/64", "a", "1.2.3.4", "::1"}
	random := rand.New(rand.NewSource(1))
	for len(texts) < 600 {
		var text strings.Builder
		for range 1 + random.Intn(9) {
			text.WriteString(parts[random.Intn(len(parts))])
		}
		texts = append(texts, text.String())
	}
	path := field.NewPath("a")
	first := func(errors field.ErrorList) string {
		if len(errors) == 0 {
			return ""
		}
		return errors[0].Detail
	}
	for _, text := range texts {
		line := addressLine{Text: text}
		if ip := netutils.ParseIPSloppy(text); ip != nil {
			line.Address = ip.To16().String()
		}
		if ip, network, err := netutils.ParseCIDRSloppy(text); err == nil {
			line.Network = ip.String()
			line.Bits, _ = network.Mask.Size()
		}
		line.WrongAddress = first(validation.IsValidIPForLegacyField(path, text, true, nil))
		line.WrongNetwork = first(validation.IsValidCIDRForLegacyField(path, text, true, nil))
		put(line)
	}
}
