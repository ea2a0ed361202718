package cache

import (
	"testing"
	"time"

	"github.com/stoa-dev/stoa/keyspace"
)

var undroppedKeys = keyspace.Def1[keyspace.Int](historySchema, "undropped:{id}", keyspace.CachedOf[string](), keyspace.Expire(time.Hour), keyspace.Doc{Purpose: "of the tests"})

func keysUpTo(n int) (keys []keyspace.Key) {
	for i := range n {
		keys = append(keys, undroppedKeys.At(keyspace.Int{N: int64(i)}).Key)
	}
	return keys
}

// A retry that began before a later change failed to drop the key says nothing of it.
func TestARetryOfAnEarlierDropLeavesALaterOne(t *testing.T) {
	var u undropped
	keys := keysUpTo(2)
	u.add(keys)
	before := u.before()
	u.add(keys[:1])
	u.done(keys, before)
	if !u.has(keys[0]) || u.has(keys[1]) {
		t.Errorf("got %v, %v", u.has(keys[0]), u.has(keys[1]))
	}
	if u.done(keys, u.before()); u.has(keys[0]) {
		t.Error("a key is left")
	}
}

func TestWhereTooManyKeysAreNotDroppedEachIsOne(t *testing.T) {
	var u undropped
	keys := keysUpTo(memoryKeys + 2)
	u.add(keys[:memoryKeys])
	if u.has(keys[memoryKeys]) {
		t.Error("a key is not dropped that nobody changed")
	}
	u.add(keys[:memoryKeys+1])
	if len(u.keys) != memoryKeys || !u.has(keys[memoryKeys+1]) {
		t.Errorf("%d keys", len(u.keys))
	}
	before := u.before()
	u.add([]keyspace.Key{keys[memoryKeys+1], keys[0]}) // the first has no room, the second is known
	if u.done(keys[:1], before); !u.has(keys[0]) || u.keys[keys[0].String()] == 0 {
		t.Error("a key of a later change was given up with those that have no room")
	}
	u.done(keys[:memoryKeys], u.before())
	u.add(keys[:1])
	if u.has(keys[memoryKeys+1]) {
		t.Error("there is no end of it")
	}
}
