package audit

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// FuzzDump reads invalid files. Reading ends, with or without an error, after at most as many keys as the file has
// bytes.
func FuzzDump(f *testing.F) {
	for _, seed := range []string{"", "REDIS", "REDIS0011", "REDIS0011\xff\x00\x00\x00\x00\x00\x00\x00\x00",
		"REDIS0011\xfe\x00\x00\x01a\x01b\xff",
		"REDIS0011\xfa\x09redis-ver\x057.2.0\x00\x03key\xc0\x7f\xff", "REDIS0012\x00\x01k\xc3\x05\x0a\x00aaaaa\xff",
		"REDIS0011\x04\x01h\x81\xff\xff\xff\xff\xff\xff\xff\xff",
		"REDIS0011\xfc\xff\xff\xff\xff\xff\xff\xff\xff\x00\x01k\x01v\xff", "REDIS0011\x0f\x01s\x01\x10", "REDIS0011\x00\x80\x7f\xff\xff\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		d, err := newRDB(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return
		}
		for n := 0; ; n++ {
			var e rdbEntry
			err := d.next(&e)
			if errors.Is(err, io.EOF) || err != nil {
				return
			}
			if n > len(file) || int64(len(e.value)) > maxRead {
				t.Fatalf("%q: %d keys, a value of %d bytes", file, n, len(e.value))
			}
		}
	})
}
