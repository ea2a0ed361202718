package audit

import (
	"fmt"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// facts are what is known of one key, from whatever source.
type facts struct {
	key     string
	group   *group
	typ     string
	life    time.Duration // left to live; 0 for ever
	bytes   int64         // memory; -1 unknown
	length  int64         // of a string's value; -1 unknown
	value   []byte        // of a string; meaningful if read
	read    bool
	freq    int64 // -1 unknown
	gone    bool
	moved   bool
	denied  bool
	expired bool // in a dump file
}

// maxRead bounds how much of a value is read.
const maxRead = 1 << 20

// largest returns the size up to which a value is as declared.
func largest(f *keyspace.Family) int64 {
	return int64(f.MaxValueBytes())
}

// judge holds a key against its family and calls fault for each thing that is
// wrong. slack is by how much the life may be off.
func judge(f *keyspace.Family, x *facts, slack time.Duration, fault func(fault, detail string)) {
	if x.typ != f.Type {
		fault(WrongType, fmt.Sprintf("%s, declared is %s", x.typ, f.Type))
	}
	longest := f.TTL.Longest()
	switch {
	case x.expired:
	case longest == 0 && x.life != 0:
		fault(LifeUndeclared, fmt.Sprintf("expires in %s", x.life.Round(time.Millisecond)))
	case longest != 0 && x.life == 0:
		fault(NoLife, fmt.Sprintf("declared are %s at most", longest))
	case longest != 0 && x.life > longest+slack:
		fault(LifeTooLong, fmt.Sprintf("expires in %s, declared are %s at most", x.life.Round(time.Millisecond), longest))
	}
	if x.typ != f.Type {
		return // its size is that of something else
	}
	size, what := x.length, "bytes"
	if x.typ != "string" {
		size, what = x.bytes, "bytes of memory"
	}
	if most := largest(f); size > most {
		fault(ValueTooBig, fmt.Sprintf("%d %s, declared are %d at most", size, what, most))
		return
	}
	if x.read && f.Check != nil {
		if err := f.Check(x.value); err != nil {
			fault(Undecodable, err.Error())
		}
	}
}
