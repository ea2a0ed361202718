package cache

import (
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Keys contains the family of tags.
var Keys = keyspace.New("cache")

var tagKey = keyspace.Def1[keyspace.Text](Keys, "cache:tag:{tag}",
	keyspace.BytesOf("T and a version of 8 random bytes, or a fence"), keyspace.Expire(24*time.Hour).Jitter(time.Hour),
	keyspace.Doc{Purpose: "version of a tag: values stored under another version are not used", MaxBytes: 256,
		InvalidatedBy: []string{"any change of what belongs to the tag"}})

// Keys that runtimes of [Open] share with each other in Redis.
var (
	shared       = keyspace.New("cache")
	sharedEvents = keyspace.DefChannel0(shared, "cache:events", keyspace.RawMessages("package bus"),
		keyspace.Doc{Purpose: "dropped keys, pushed to the processes"})
	sharedLog = keyspace.Def0(shared, "cache:events", keyspace.StreamOf("package bus"), keyspace.Forever("trimmed by package bus"),
		keyspace.Doc{Purpose: "dropped keys, from which processes catch up"})
)
