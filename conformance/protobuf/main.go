// Writes random objects of Kubernetes' kinds as its own libraries do, in protobuf and in JSON.
//
//	protobuf SEED COUNT [MISSING...] < KINDS
//
// A line of KINDS is an apiVersion and a kind. COUNT lines come out, the kinds in turn: the protobuf in base64, a tab,
// the JSON. MISSING are chances that what may be missing is, one for each round of kinds.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializerjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/randfill"
)

var groups = []func(*runtime.Scheme) error{
	admissionregistrationv1.AddToScheme, appsv1.AddToScheme, authenticationv1.AddToScheme,
	authorizationv1.AddToScheme, autoscalingv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme,
	certificatesv1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme,
	eventsv1.AddToScheme, flowcontrolv1.AddToScheme, networkingv1.AddToScheme, nodev1.AddToScheme,
	policyv1.AddToScheme, rbacv1.AddToScheme, resourcev1.AddToScheme, schedulingv1.AddToScheme,
	storagev1.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme,
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func pick(c randfill.Continue, from ...string) string {
	return from[c.Intn(len(from))]
}

func text(c randfill.Continue) string {
	return pick(c, "", "a", "web", "10%", "é", "<&>\u2028", "a\"b\\c\n", "\x00", "\U0001F600", c.String(8))
}

func rawJSON(c randfill.Continue) []byte {
	return []byte(pick(c, `{}`, `[]`, `"x"`, `1`, `-1.5`, `true`, `{"a":{"b":[1,2.5,null,{"c":"<é>"}]}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"b"}}`))
}

// A time between the years 1 and 9999, or none.
func instant(c randfill.Continue) time.Time {
	switch c.Intn(8) {
	case 0:
		return time.Time{}
	case 1:
		return time.Unix(0, 0)
	case 2:
		return time.Unix(c.Int63n(315537897599)-62135596800, c.Int63n(1e9))
	default:
		return time.Unix(c.Int63n(4e9), c.Int63n(1e9))
	}
}

// How deep schemas are within schemas: they have so many of them that chance alone never ends.
var depth int

var funcs = []any{
	func(s *string, c randfill.Continue) { *s = text(c) },
	func(b *[]byte, c randfill.Continue) {
		*b = nil
		if n := c.Intn(6); n > 0 {
			*b = make([]byte, n)
			c.Read(*b)
		}
	},
	func(n *int32, c randfill.Continue) {
		*n = []int32{0, 1, -1, 80, math.MaxInt32, math.MinInt32, c.Int31()}[c.Intn(7)]
	},
	func(n *int64, c randfill.Continue) {
		*n = []int64{0, 1, -1, 80, math.MaxInt64, math.MinInt64, c.Int63()}[c.Intn(7)]
	},
	func(n *float64, c randfill.Continue) {
		*n = []float64{0, 1, -1.5, 1e21, 1e-7, 9007199254740993, 1e18, 123456.75, -9.3e18}[c.Intn(9)]
	},
	func(t *metav1.TypeMeta, c randfill.Continue) {},
	func(t *metav1.Time, c randfill.Continue) { t.Time = instant(c) },
	func(t *metav1.MicroTime, c randfill.Continue) { t.Time = instant(c) },
	func(q *resource.Quantity, c randfill.Continue) {
		*q = resource.MustParse(pick(c, "0", "1", "100m", "1Gi", "1.5", "0.0001", "-3k", "1e3", "12345678901234567890", "5Mi", "250u"))
	},
	func(v *intstr.IntOrString, c randfill.Continue) {
		*v = intstr.FromInt32(c.Int31n(70000) - 1000)
		switch c.Intn(4) {
		case 0:
			*v = intstr.FromString(text(c))
		case 1:
			*v = intstr.FromInt32(0)
		}
	},
	func(r *runtime.RawExtension, c randfill.Continue) {
		*r = runtime.RawExtension{}
		if c.Intn(5) > 0 {
			r.Raw = rawJSON(c)
		}
	},
	func(r *metav1.FieldsV1, c randfill.Continue) {
		r.SetRawBytes([]byte(pick(c, `{}`, `{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}`)))
	},
	func(r *apiextensionsv1.JSON, c randfill.Continue) { r.Raw = rawJSON(c) },
	func(s *apiextensionsv1.JSONSchemaProps, c randfill.Continue) {
		*s = apiextensionsv1.JSONSchemaProps{}
		depth++
		if depth < 4 && c.Intn(3) > 0 {
			c.FillNoCustom(s)
		} else {
			s.Type = text(c)
			s.Nullable = c.Bool()
			c.Fill(&s.Maximum)
		}
		depth--
	},
	func(s *apiextensionsv1.JSONSchemaPropsOrBool, c randfill.Continue) {
		*s = apiextensionsv1.JSONSchemaPropsOrBool{Allows: c.Bool()}
		if c.Intn(3) == 0 {
			s.Allows = true
			c.Fill(&s.Schema)
		}
	},
}

func main() {
	if len(os.Args) < 3 {
		fail(fmt.Errorf("usage: protobuf SEED COUNT [MISSING...] < KINDS"))
	}
	seed, err := strconv.ParseInt(os.Args[1], 10, 64)
	fail(err)
	count, err := strconv.Atoi(os.Args[2])
	fail(err)
	// From almost everything to almost nothing.
	chances := []float64{0.1, 0.5, 0.9}
	if len(os.Args) > 3 {
		chances = nil
	}
	for _, text := range os.Args[min(3, len(os.Args)):] {
		chance, err := strconv.ParseFloat(text, 64)
		fail(err)
		chances = append(chances, chance)
	}

	scheme := runtime.NewScheme()
	for _, add := range groups {
		fail(add(scheme))
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	var kinds []schema.GroupVersionKind
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) != 2 {
			fail(fmt.Errorf("no apiVersion and kind: %q", lines.Text()))
		}
		kinds = append(kinds, schema.FromAPIVersionAndKind(words[0], words[1]))
	}
	fail(lines.Err())
	if len(kinds) == 0 {
		fail(fmt.Errorf("no kinds"))
	}

	toProtobuf := protobuf.NewSerializer(scheme, scheme)
	toJSON := serializerjson.NewSerializerWithOptions(serializerjson.DefaultMetaFactory, scheme, scheme, serializerjson.SerializerOptions{})
	output := bufio.NewWriterSize(os.Stdout, 1<<20)
	source := rand.NewSource(seed)
	for i := 0; i < count; i++ {
		missing := chances[i/len(kinds)%len(chances)]
		filler := randfill.New().RandSource(source).NilChance(missing).NumElements(0, 2).MaxDepth(30).Funcs(funcs...)
		kind := kinds[i%len(kinds)]
		object, err := scheme.New(kind)
		fail(err)
		filler.Fill(object)
		object.GetObjectKind().SetGroupVersionKind(kind)

		var message, text bytes.Buffer
		fail(toProtobuf.Encode(object, &message))
		// What JSON is to be compared with is what Go has read from the message.
		read, _, err := toProtobuf.Decode(message.Bytes(), nil, nil)
		fail(err)
		read.GetObjectKind().SetGroupVersionKind(kind)
		fail(toJSON.Encode(read, &text))
		var compact bytes.Buffer
		fail(json.Compact(&compact, text.Bytes()))
		fmt.Fprintf(output, "%s\t%s\n", base64.StdEncoding.EncodeToString(message.Bytes()), compact.Bytes())
	}
	fail(output.Flush())
}
