package hazards

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/lib/cache/cachetest"
)

var (
	only   = flag.String("only", "", "part of a library's name")
	hazard = flag.String("hazard", "", "part of a hazard's name")
)

// TestPeers never fails: it prints a line for each library and hazard.
func TestPeers(t *testing.T) {
	for _, l := range peers {
		if !strings.Contains(l.Name, *only) {
			continue
		}
		t.Run(strings.ReplaceAll(l.Name, "/", " "), func(t *testing.T) {
			for _, v := range cachetest.Judge(t, l, *hazard) {
				word := "fails"
				if v.Held {
					word = "holds"
				} else if v.Not {
					word = "not offered"
				}
				fmt.Printf("VERDICT\t%s\t%s\t%s\t%s\t%s\n", l.Name, v.Hazard, word, v.Why, strings.Join(v.Notes, "; "))
			}
		})
	}
}
