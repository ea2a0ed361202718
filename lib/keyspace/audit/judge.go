package audit

import (
	"fmt"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// facts are the known facts about one key, from a server or a dump.
type facts struct {
	key     string
	group   *group
	typ     string
	life    time.Duration // remaining TTL; 0 means that the key never expires
	bytes   int64         // memory; -1 if unknown
	length  int64         // of a string's value; -1 if unknown
	value   []byte        // of a string; only valid if read is set
	read    bool
	freq    int64 // -1 if unknown
	gone    bool
	moved   bool
	denied  bool
	expired bool // in a dump file
}

// maxRead is the largest number of bytes of a value that are read.
const maxRead = 1 << 20

// maxValueBytes returns the declared maximum size of a value.
func maxValueBytes(f *keyspace.Family) int64 {
	return int64(f.MaxValueBytes())
}

// judge compares a key with its family and calls fault for each fault. slack is the tolerance of the TTL.
func judge(f *keyspace.Family, x *facts, slack time.Duration, fault func(fault, detail string)) {
	if x.typ != f.Type {
		fault(WrongType, fmt.Sprintf("%s, the declared type is %s", x.typ, f.Type))
	}
	longest := f.TTL.Longest()
	switch {
	case x.expired:
	case longest == 0 && x.life != 0:
		fault(LifeUndeclared, fmt.Sprintf("expires in %s", x.life.Round(time.Millisecond)))
	case longest != 0 && x.life == 0:
		fault(NoLife, fmt.Sprintf("the declared maximum is %s", longest))
	case longest != 0 && x.life > longest+slack:
		fault(LifeTooLong, fmt.Sprintf("expires in %s, the declared maximum is %s", x.life.Round(time.Millisecond), longest))
	}
	if x.typ != f.Type {
		return // its size is that of another type
	}
	size, what := x.length, "bytes"
	if x.typ != "string" {
		size, what = x.bytes, "bytes of memory"
	}
	if limit := maxValueBytes(f); size > limit {
		fault(ValueTooBig, fmt.Sprintf("%d %s, the declared maximum is %d", size, what, limit))
		return
	}
	if x.read && f.Check != nil {
		if err := f.Check(x.value); err != nil {
			fault(Undecodable, err.Error())
		}
	}
}
