package cache

import (
	"reflect"
	"strings"
	"testing"
)

func FuzzSlot(f *testing.F) {
	whole := envelope{era: 1, id: 2, stored: 3, soft: 4, hard: 5, took: 6, tags: []uint64{7, 8}, payload: `{"a":1}`}
	f.Add("")
	f.Add(whole.text())
	f.Add(whole.text()[:headLen+7])
	f.Add("L" + strings.Repeat("0", keptAt-1) + whole.text())
	f.Fuzz(func(t *testing.T, slot string) {
		e, ok := parse(slot)
		if !ok {
			return
		}
		if again, ok := parse(e.text()); !ok || !reflect.DeepEqual(again, e) {
			t.Errorf("%q: got %+v, and of its own text %+v", slot, e, again)
		}
	})
}

func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"", "bQ", "cw", "c2E6MQ", "====", position{ordered: true, after: "é:\x00"}.cursor(), position{era: 9, at: "17"}.cursor()} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		p, err := positionOf(cursor)
		if err != nil || cursor == "" {
			return
		}
		if again, err := positionOf(p.cursor()); err != nil || again != p {
			t.Errorf("%q: got %+v, and of its own text %+v, %v", cursor, p, again, err)
		}
	})
}
