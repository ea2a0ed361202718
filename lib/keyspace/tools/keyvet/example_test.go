package keyvet_test

import (
	"fmt"

	"golang.org/x/tools/go/analysis"

	"github.com/stoa-dev/stoa/lib/keyspace/tools/keyvet"
)

// The analyzer in a custom driver.
func ExampleAnalyzer() {
	analyzers := []*analysis.Analyzer{keyvet.Analyzer}
	fmt.Println(analyzers[0].Name, "finds what is wrong:", analysis.Validate(analyzers) == nil)
	// Output: keyvet finds what is wrong: true
}

// The complete command, for go vet -vettool.
func ExampleMain() {
	keyvet.Main()
}
