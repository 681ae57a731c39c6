// Command unstructured times what every Go reader of Kubernetes objects pays
// before it can compute anything: unstructured.UnmarshalJSON into a fresh
// object.
//
// It is driven line by line, so that its rounds can alternate with the rounds
// of whoever it is compared with, and noise of the machine hits both:
//
//	load PATH              reads a file of JSON values, one after another, into memory
//	round THREADS MILLIS   decodes all of it in whole passes for at least MILLIS
//
// Each command is answered by one JSON line. The garbage collector runs with
// the settings that a Go program has by default.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type loaded struct {
	Objects int `json:"objects"`
	Bytes   int `json:"bytes"`
	// Refused counts the objects that UnmarshalJSON returns an error for.
	Refused      int    `json:"refused"`
	Go           string `json:"go"`
	Apimachinery string `json:"apimachinery"`
	Gomaxprocs   int    `json:"gomaxprocs"`
}

type round struct {
	Threads     int     `json:"threads"`
	Decodes     int64   `json:"decodes"`
	Nanos       int64   `json:"nanos"`
	NsPerObject float64 `json:"nsPerObject"`
	Allocations float64 `json:"allocationsPerObject"`
}

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "unstructured:", err)
		os.Exit(1)
	}
}

func serve() error {
	answers := json.NewEncoder(os.Stdout)
	var objects [][]byte
	commands := bufio.NewScanner(os.Stdin)
	commands.Buffer(nil, 1<<20)
	for commands.Scan() {
		words := bytes.SplitN(commands.Bytes(), []byte(" "), 2)
		if len(words) != 2 {
			return fmt.Errorf("no command: %q", commands.Text())
		}
		var answer any
		switch string(words[0]) {
		case "load":
			var err error
			if objects, err = load(string(words[1])); err != nil {
				return err
			}
			answer = describe(objects)
		case "round":
			var threads, millis int
			if _, err := fmt.Sscanf(string(words[1]), "%d %d", &threads, &millis); err != nil {
				return fmt.Errorf("no round: %q: %w", commands.Text(), err)
			}
			if len(objects) == 0 || threads < 1 {
				return fmt.Errorf("nothing to do: %q", commands.Text())
			}
			answer = measure(objects, threads, time.Duration(millis)*time.Millisecond)
		default:
			return fmt.Errorf("no command: %q", commands.Text())
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return commands.Err()
}

// load keeps each value's bytes as they are in the file, white space within included.
func load(path string) ([][]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var objects [][]byte
	for values := json.NewDecoder(bytes.NewReader(text)); ; {
		var object json.RawMessage
		if err := values.Decode(&object); err == io.EOF {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: value %d: %w", path, len(objects), err)
		}
		objects = append(objects, object)
	}
}

func describe(objects [][]byte) loaded {
	about := loaded{Objects: len(objects), Go: runtime.Version(), Gomaxprocs: runtime.GOMAXPROCS(0)}
	for _, object := range objects {
		about.Bytes += len(object)
		if new(unstructured.Unstructured).UnmarshalJSON(object) != nil {
			about.Refused++
		}
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if module.Path == "k8s.io/apimachinery" {
				about.Apimachinery = module.Version
			}
		}
	}
	return about
}

// kept is where each thread leaves its last object, so that no decode is dead code.
var kept sync.Map

func measure(objects [][]byte, threads int, atLeast time.Duration) round {
	var decodes atomic.Int64
	var done sync.WaitGroup
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	for thread := range threads {
		done.Go(func() {
			var last *unstructured.Unstructured
			for {
				for _, object := range objects {
					last = &unstructured.Unstructured{}
					// Refusals are counted when the file is loaded.
					_ = last.UnmarshalJSON(object)
				}
				decodes.Add(int64(len(objects)))
				if time.Since(start) >= atLeast {
					kept.Store(thread, last)
					return
				}
			}
		})
	}
	done.Wait()
	elapsed := time.Since(start)
	runtime.ReadMemStats(&after)
	return round{
		Threads:     threads,
		Decodes:     decodes.Load(),
		Nanos:       elapsed.Nanoseconds(),
		NsPerObject: float64(elapsed.Nanoseconds()) / float64(decodes.Load()),
		Allocations: float64(after.Mallocs-before.Mallocs) / float64(decodes.Load()),
	}
}
