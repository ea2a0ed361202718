package civil

import (
	"strings"
	"testing"
	"time"
)

// A zone's name comes from clients and is opened as a file.
func FuzzZone(f *testing.F) {
	for _, seed := range []string{"", "Local", "UTC", "Europe/Athens", "../../../etc/passwd", "/etc/localtime", `..\x`, "europe/athens",
		"Europe/\x00", strings.Repeat("a", 65), "Etc/GMT+12", "zone.tab", "posix/UTC", "."} {
		f.Add(seed, int64(1_795_000_000_000))
	}
	f.Fuzz(func(t *testing.T, name string, ms int64) {
		loc, err := LoadZone(name)
		if err != nil {
			return
		}
		if name == "" || name == "Local" || strings.HasPrefix(name, "/") || strings.Contains(name, "..") || strings.ContainsAny(name, "\\\x00") ||
			loc.String() != name {
			t.Errorf("%q is a zone, called %s", name, loc)
		}
		at := time.UnixMilli(ms % 4e12)
		c, err := Clock{Zone: name}.Change("Pacific/Kiritimati", at)
		if err != nil {
			t.Fatal(err)
		}
		if c.Today(at) > c.Today(at.Add(time.Hour)) {
			t.Errorf("in %q the date decreases at %s", name, at)
		}
	})
}
