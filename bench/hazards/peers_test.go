package hazards

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/cache/cachetest"
)

func TestPeers(t *testing.T) {
	for _, l := range peers {
		t.Run(l.Name, func(t *testing.T) {
			for _, v := range cachetest.Judge(t, l) {
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
