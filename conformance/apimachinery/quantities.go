package main

import (
	"math/rand"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

type quantityLine struct {
	Text  string         `json:"text"`
	Error string         `json:"error,omitempty"`
	Value *quantityValue `json:"value,omitempty"`
	// Rounded up, where that fits.
	Whole       *int64 `json:"whole,omitempty"`
	Thousandths *int64 `json:"thousandths,omitempty"`
	// With the quantity before it.
	Before  string         `json:"before,omitempty"`
	Compare int            `json:"compare"`
	Sum     *quantityValue `json:"sum,omitempty"`
	Less    *quantityValue `json:"less,omitempty"`
	Milli   string         `json:"milli,omitempty"`
}

type quantityValue struct {
	Text   string `json:"text"`
	Format string `json:"format"`
	Sign   int    `json:"sign"`
	Int    *int64 `json:"int,omitempty"`
	Float  string `json:"float"`
}

func valueOf(q resource.Quantity) *quantityValue {
	value := &quantityValue{Text: q.String(), Format: string(q.Format), Sign: q.Sign(), Float: strconv.FormatFloat(q.AsApproximateFloat64(), 'g', -1, 64)}
	if number, ok := q.AsInt64(); ok {
		value.Int = &number
	}
	return value
}

func quantities(put func(any)) {
	texts := []string{
		"", "0", "00", "-0", "+0", "0.0", ".0", "0.", ".", "+", "-", "-.", "+.", "1", "+1", "-1", "01", "-01", "1.", "1.0", "1.00", "1.000", "1.50", "1.500", "1.5000", "1.001", "0.5", ".5", "-.5",
		"0.001", "0.0001", "0.000000001", "0.0000000001", "1.0000000001", "-0.0000000001", "1000", "1000m", "1500m", "10000", "100000", "123456", "1e3", "1E3", "5E3", "1e-3", "1e+3", "1e", "e3", "E", "1E",
		"1e0", "12e6", "1.5e3", "15e2", "1e19", "1e20", "1e100", "1e-9", "1e-10", "1e-100", "1e4294967296", "1e4294967299", "1e9223372036854775808", "1e2147483647",
		"1Ki", "2Ki", "4Ki", "8Ki", "9Ki", "1024Ki", "1025Ki", "1000Ki", "0.5Ki", "0.5Mi", "1.5Ki", "1.5Gi", "0.1Ki", "0.0001Ki", "0.001Ki", "1024", "1023", "1Ei", "7Ei", "8Ei", "9Ei", "10Ei", "100000Ei", "-8Ei", "-9Ei", "+10Mi", "-10Mi",
		"0Mi", "0Ki", "0m", "Ki", "k", "m", "-m", "1n", "1u", "1m", "1k", "1M", "1G", "1T", "1P", "1000P", "1000E", "1000000E", "1.1E", "0.0001n", "999n", "1000n", "1000000000n",
		"1x", "1kk", "1.2.3", "1 ", " 1", "1i", "1mi", "1Kii", "1K", "1ki", "1ei", "--1", "+-1", "1-2", "1e3m", "1m3", "1E3E", "1e3.5", "1é", "é", "1e 3", "0x10", "1,5", "nan", "inf", ".e-10", "e-10", "-e-10", ".5e-10", "5.e-10", "0e-10", "+.e3", ".Ki", ".5Ki", "5.Ki", "Ei", ".Ei", "0.Ei",
		"9223372036854775807", "9223372036854775808", "-9223372036854775808", "123456789012345678", "1234567890123456789", "12345678901234567890", "999999999999999999", "1000000000000000000",
		"99999999999999999999999999999999999999999", "99999999999999999999999999999999999999999Ki", "0.12345678901234567890", "123456789.123456789", "123456789.1234567891", "100.035k", "18446744073709551616", "1000000000000000000000000000000",
		"1.0Gi", "1.00Mi", "2.5Ti", "1.3Mi", "1023.9Ki", "1e3Ki", "100m", "0.1", "0.25", "250m", "0.3", "1.1", "2.2k", "0.0000000009", "0.0000000019", "4611686018427387904", "16Ei", "0.5Ei", "1.5E", "1.5P",
	}
	suffixes := []string{"", "", "", "n", "u", "m", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Mi", "Gi", "Gi", "Ti", "Pi", "Ei", "e3", "E3", "e-3", "e2", "e1", "e-8", "e21", "x"}
	random := rand.New(rand.NewSource(1))
	digits := func(most int) string {
		var text strings.Builder
		for range random.Intn(most + 1) {
			if random.Intn(3) == 0 {
				text.WriteByte('0')
			} else {
				text.WriteByte(byte('0' + random.Intn(10)))
			}
		}
		return text.String()
	}
	for len(texts) < 1500 {
		text := []string{"", "", "", "", "-", "+"}[random.Intn(6)] + digits([]int{3, 3, 6, 12, 22, 40}[random.Intn(6)])
		if random.Intn(3) == 0 {
			text += "." + digits([]int{2, 4, 12, 20}[random.Intn(4)])
		}
		texts = append(texts, text+suffixes[random.Intn(len(suffixes))])
	}
	before, last := resource.MustParse("1500m"), "1500m"
	for _, text := range texts {
		parsed, err := resource.ParseQuantity(text)
		if err != nil {
			put(quantityLine{Text: text, Error: err.Error()})
			continue
		}
		line := quantityLine{Text: text, Value: valueOf(parsed.DeepCopy())}
		// Upstream says nothing of what does not fit: of negative decimals the billionths must.
		if size := parsed.AsApproximateFloat64(); size < 9e15 && size > -9e9 {
			whole, thousandths := parsed.Value(), parsed.MilliValue()
			line.Whole, line.Thousandths = &whole, &thousandths
		}
		// What would need more memory than there is.
		if !strings.ContainsAny(text, "eE") || len(text[strings.IndexAny(text, "eE"):]) < 5 {
			line.Before = last
			this, other := parsed.DeepCopy(), before.DeepCopy()
			line.Compare = this.Cmp(other)
			sum := parsed.DeepCopy()
			sum.Add(before.DeepCopy())
			line.Sum = valueOf(sum)
			less := parsed.DeepCopy()
			less.Sub(before.DeepCopy())
			line.Less = valueOf(less)
			milli := parsed.DeepCopy()
			milli.RoundUp(resource.Milli)
			line.Milli = milli.String()
			before, last = parsed, text
		}
		put(line)
	}
}
