package checkin

import (
	"flag"
	"os"
	"testing"
)

// Most of these tests wait: for loads, rechecks and servers. By default, more of them run at once than there are cores.
func TestMain(m *testing.M) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", "6")
	}
	os.Exit(m.Run())
}
