package keyspace

import (
	"testing"
	"time"
)

// The expected numbers are replies of CLUSTER KEYSLOT.
func TestSlot_MatchesCluster(t *testing.T) {
	for key, want := range map[string]uint16{
		"123456789":         12739, // the check value of the specification, 0x31C3
		"foo":               12182,
		"somekey":           11058,
		"foo{hash_tag}":     2515,
		"bar{hash_tag}":     2515,
		"hash_tag":          2515,
		"":                  0,
		"foo{}{bar}":        8363, // an empty tag does not count
		"foo{{bar}}zap":     4015, // the tag is {bar
		"foo{bar}{zap}":     Slot("bar"),
		"{user1000}.x":      3443,
		"stoa:{user1000}:y": 3443,
	} {
		if got := Slot(key); got != want {
			t.Errorf("Slot(%q) = %d, want %d", key, got, want)
		}
	}
}

func TestSameSlot_NeedsSameTag(t *testing.T) {
	s := New("test")
	doc := Doc{Purpose: "x"}
	state := Def1[id](s, "room:{{room}}:state", HashOf("x"), Expire(time.Hour), doc)
	seen := Def2[id, Int](s, "room:{{room}}:seen:{day}", CounterKind(), Expire(time.Hour), doc)
	info := Def1[id](s, "user:info:{uid}", CounterKind(), Expire(time.Hour), doc)
	last := Def2[Int, id](s, "user:last:{day}:{{uid}}", CounterKind(), Expire(time.Hour), doc)
	other := id{"V1StGXR8_Z5k"}
	for _, c := range []struct {
		name string
		keys []Key
		want bool
	}{
		{"none", nil, true},
		{"one without a tag", []Key{info.At(someone).Key}, true},
		{"the same twice", []Key{info.At(someone).Key, info.At(someone).Key}, true},
		{"one tag", []Key{state.At(someone).Key, seen.At(someone, Int{1}).Key, last.At(Int{1}, someone).Key}, true},
		{"two tags", []Key{state.At(someone).Key, state.At(other).Key}, false},
		{"no tag", []Key{info.At(someone).Key, info.At(other).Key}, false},
		{"a tag and none", []Key{state.At(someone).Key, info.At(someone).Key}, false},
		{"the zero key", []Key{{}, state.At(someone).Key}, false},
	} {
		if got := SameSlot(c.keys...); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	tx := Atomic(someone)
	if a, b := state.In(tx), seen.In(tx, Int{7}); a != state.At(someone) || b != seen.At(someone, Int{7}) {
		t.Errorf("In makes %v and %v", a, b)
	}
	mustPanic(t, "is not its hash tag", func() { info.In(tx) })
	mustPanic(t, "is not its hash tag", func() { last.In(Atomic(Int{1}), someone) })
}
