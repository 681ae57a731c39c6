// Upstream's own answers: the files in crates/apimachinery/tests.
//
//	go run . names       texts, and what is wrong with them as names of all kinds
//	go run . quantities  quantities: read, written, compared, added
//	go run . durations   durations as tables show them
//	go run . groups      groups, versions, kinds and resources: read and written
//	go run . addresses   addresses and networks
//	go run . conditions  lists of conditions, and what is wrong with them
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	put := func(line any) {
		if err := encoder.Encode(line); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	asked := ""
	if len(os.Args) == 2 {
		asked = os.Args[1]
	}
	switch asked {
	case "names":
		names(put)
	case "quantities":
		quantities(put)
	case "durations":
		durations(put)
	case "groups":
		groups(put)
	case "addresses":
		addresses(put)
	case "conditions":
		conditions(put)
	default:
		fmt.Fprintln(os.Stderr, "usage: apimachinery names|quantities|durations|groups|addresses|conditions")
		os.Exit(2)
	}
}
