package cursor

import (
	"encoding/base64"
	"math"
	"slices"
	"testing"

	"github.com/stoa-dev/stoa/internal/base/ids"
)

func TestParse_AcceptsOnlyCursors(t *testing.T) {
	id := ids.New[any]().String()
	for _, numbers := range [][]int64{{-1_000_000, 1}, {0, 1_800_000_000_000}, {math.MaxInt64, math.MinInt64}, {5}} {
		if got, at, ok := Parse(Of(id, numbers...), len(numbers)); !ok || at != id || !slices.Equal(got, numbers) {
			t.Errorf("%d at %s came back as %d at %s, %v", numbers, id, got, at, ok)
		}
	}
	text := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for _, bad := range []string{"x", "===", text("1.2"), text("1.2.short"), text("+1.2." + id), text("01.2." + id), text("1.2." + id + "x"),
		text("1.x." + id), text("1." + id),
		text("1.2.3." + id), text("99999999999999999999.2." + id), text("1.2." + id + "' OR 1=1 --"), Of(id, 1, 2) + "A", Of(id, 1, 2) + "\n",
		""} {
		if got, at, ok := Parse(bad, 2); ok {
			t.Errorf("%q is read as %d at %s", bad, got, at)
		}
	}
}

func TestParse_AcceptsCursorsOfOtherVersions(t *testing.T) {
	for want, numbers := range map[string][]int64{"MS4yLmFhYWFhYWFhYWFhYQ": {1, 2}, "LTUuYWFhYWFhYWFhYWFh": {-5}} {
		if got := Of("aaaaaaaaaaaa", numbers...); got != want {
			t.Errorf("%d: got %s, want %s", numbers, got, want)
		}
	}
}

func FuzzCursor(f *testing.F) {
	f.Add(Of(ids.New[any]().String(), 1, 2))
	f.Add("MS4yLmFhYWFhYWFhYWFhYQ")
	f.Fuzz(func(t *testing.T, s string) {
		if numbers, id, ok := Parse(s, 2); ok && Of(id, numbers...) != s {
			t.Errorf("%q is read as %d at %s, which is %q", s, numbers, id, Of(id, numbers...))
		}
	})
}
