package cache

import (
	"slices"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

func TestInspectTellsWhatASlotHolds(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_123).UTC()
	at := now.UnixMilli()
	env := envelope{era: 7, id: 9, stored: at, soft: at + 1000, hard: at + 2000, took: 1500, tags: []uint64{1, 1<<64 - 1}, payload: `{"a":1}`}
	value := env.text()
	gone := env
	gone.missing, gone.tags, gone.payload = true, nil, ""
	lease, _ := acquireSlot("", "12345678", at, at+500, "")
	kept, _ := acquireSlot(value, "12345678", at, at+500, value[idAt:idAt+8])
	fence, _ := fenceSlot(value, "12345678", at, at+500)
	fences, _ := fenceSlot(fence, "abcdefgh", at, at+500)
	full := Slot{Kind: SlotValue, Stored: now, Soft: now.Add(time.Second), Hard: now.Add(2 * time.Second), Took: 1500 * time.Microsecond,
		Era: 7, Version: 9, Tags: []uint64{1, 1<<64 - 1}, Payload: `{"a":1}`}
	missing := full
	missing.Missing, missing.Tags, missing.Payload = true, nil, ""
	behind := full
	behind.Kind, behind.Kept, behind.Until = SlotLease, true, now.Add(500*time.Millisecond)
	for name, tt := range map[string]struct {
		slot string
		want Slot
	}{
		"nothing":            {"", Slot{Kind: SlotEmpty}},
		"a value":            {value, full},
		"no such thing":      {gone.text(), missing},
		"a lease":            {lease, Slot{Kind: SlotLease, Until: now.Add(500 * time.Millisecond)}},
		"a lease on a value": {kept, behind},
		"a fence":            {fence, Slot{Kind: SlotFence, Changes: 1}},
		"a shared fence":     {fences, Slot{Kind: SlotFence, Changes: 2}},
		"a tag":              {"T\x00\x00\x00\x00\x00\x00\x01\x00", Slot{Kind: SlotTag, Version: 256}},
		"a cut value":        {value[:30], Slot{Kind: SlotUnknown}},
		"a cut lease":        {lease[:12], Slot{Kind: SlotUnknown}},
		"an odd lease":       {"L12345678not a moment!", Slot{Kind: SlotUnknown}},
		"a cut fence":        {fence[:9], Slot{Kind: SlotUnknown}},
		"something else":     {"hello", Slot{Kind: SlotUnknown}},
	} {
		got := Inspect(tt.slot)
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

// FuzzInspect: whatever stands there, nothing panics.
func FuzzInspect(f *testing.F) {
	f.Add("V1" + string(make([]byte, 45)))
	f.Add("Labcdefgh1234567890123V")
	f.Add("F0")
	f.Fuzz(func(t *testing.T, slot string) {
		if s := Inspect(slot); s.Kind == "" {
			t.Errorf("%q is of no kind", slot)
		}
	})
}

func TestParseTagIsTheInverseOfTagOf(t *testing.T) {
	if got, ok := ParseTag("room:a:b"); !ok || got != TagOf("room", "a:b") {
		t.Errorf("got %v, %t", got, ok)
	}
	long := "k:" + string(make([]byte, keyspace.MaxText))
	for _, bad := range []string{"", "room", ":1", "room:", long} {
		if got, ok := ParseTag(bad); ok {
			t.Errorf("%q became %v", bad, got)
		}
	}
}
