package inspect

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/internal/slots"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

func TestParse_EveryKindOfSlot(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_123).UTC()
	at := now.UnixMilli()
	env := slots.Envelope{Era: 7, ID: 9, Stored: at, Soft: at + 1000, Hard: at + 2000, Took: 1500, Tags: []uint64{1, 1<<64 - 1},
		Payload: `{"a":1}`}
	value := env.Text()
	gone := env
	gone.Missing, gone.Tags, gone.Payload = true, nil, ""
	until := fmt.Sprintf("%013d", at+500)
	lease := "L12345678" + until
	kept := lease + value
	fence := "F012345678" + until
	fences := "Fs12345678" + until + "abcdefgh" + until
	full := Slot{Kind: Value, Stored: now, Soft: now.Add(time.Second), Hard: now.Add(2 * time.Second), Took: 1500 * time.Microsecond,
		Era: 7, Version: 9, Tags: []uint64{1, 1<<64 - 1}, Payload: `{"a":1}`}
	missing := full
	missing.Missing, missing.Tags, missing.Payload = true, nil, ""
	behind := full
	behind.Kind, behind.Kept, behind.Until = Lease, true, now.Add(500*time.Millisecond)
	for name, tt := range map[string]struct {
		slot string
		want Slot
	}{
		"nothing":            {"", Slot{Kind: Empty}},
		"a value":            {value, full},
		"no such thing":      {gone.Text(), missing},
		"a lease":            {lease, Slot{Kind: Lease, Until: now.Add(500 * time.Millisecond)}},
		"a lease on a value": {kept, behind},
		"a fence":            {fence, Slot{Kind: Fence, Changes: 1}},
		"a shared fence":     {fences, Slot{Kind: Fence, Changes: 2}},
		"a tag":              {"T\x00\x00\x00\x00\x00\x00\x01\x00", Slot{Kind: Tag, Version: 256}},
		"a cut value":        {value[:30], Slot{Kind: Unknown}},
		"a cut lease":        {lease[:12], Slot{Kind: Unknown}},
		"an odd lease":       {"L12345678not a moment!", Slot{Kind: Unknown}},
		"a cut fence":        {fence[:9], Slot{Kind: Unknown}},
		"something else":     {"hello", Slot{Kind: Unknown}},
	} {
		got := Parse(tt.slot)
		if !slices.Equal(got.Tags, tt.want.Tags) {
			t.Errorf("%s: tags %v, want %v", name, got.Tags, tt.want.Tags)
		}
		got.Tags, tt.want.Tags = nil, nil
		if got.Kind != tt.want.Kind || got.Kept != tt.want.Kept || got.Missing != tt.want.Missing || got.Payload != tt.want.Payload ||
			!got.Stored.Equal(tt.want.Stored) || !got.Soft.Equal(tt.want.Soft) || !got.Hard.Equal(tt.want.Hard) || !got.Until.Equal(tt.want.Until) ||
			got.Took != tt.want.Took || got.Era != tt.want.Era || got.Version != tt.want.Version || got.Changes != tt.want.Changes {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}

// FuzzParse checks that no content makes Parse panic.
func FuzzParse(f *testing.F) {
	f.Add("V1" + string(make([]byte, 45)))
	f.Add("Labcdefgh1234567890123V")
	f.Add("F0")
	f.Fuzz(func(t *testing.T, slot string) {
		if s := Parse(slot); s.Kind == "" {
			t.Errorf("%q has no kind", slot)
		}
	})
}

func TestParseTag_InvertsTagOf(t *testing.T) {
	if got, ok := ParseTag("room:a:b"); !ok || got != cache.TagOf("room", "a:b") {
		t.Errorf("got %v, %t", got, ok)
	}
	long := "k:" + string(make([]byte, keyspace.MaxText))
	for _, bad := range []string{"", "room", ":1", "room:", long} {
		if got, ok := ParseTag(bad); ok {
			t.Errorf("%q became %v", bad, got)
		}
	}
}
