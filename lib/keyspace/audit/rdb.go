package audit

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// This file reads the output of SAVE and BGSAVE, versions 1 to 12 (Redis 7.4 and 8.0). It decodes what an audit needs:
// names, types, TTLs, strings, and the size of everything else. https://rdb.fnordig.de documents the format up to
// version 7; later versions are documented in rdb.c and rdb.h of Redis.

// errDump is wrapped by every error about an invalid dump file.
var errDump = errors.New("audit: not a sound dump file")

// An rdbEntry is one key of a dump.
type rdbEntry struct {
	key     []byte // valid until the next call
	db      int
	typ     string
	expires time.Time // zero if the key never expires
	length  int64     // of a string; -1 for other types
	value   []byte    // of a string of at most maxRead bytes; valid until the next call
	bytes   int64     // its memory, by the formulas of MEMORY USAGE
	freq    int64     // -1 if not in the file
}

// An rdbReader reads the keys of a dump one by one.
type rdbReader struct {
	r        *bufio.Reader
	in       *checksumReader
	size     int64 // of the file
	consumed int64 // the number of bytes read

	db      int
	version int
	aux     map[string]string // the auxiliary fields of the file
	keyBuf  []byte
	valBuf  []byte
	packed  []byte // the compressed form of a string
}

// checksumReader computes the checksum of all but the last eight bytes of a file.
type checksumReader struct {
	r    io.Reader
	left int64 // the number of bytes still to be summed
	sum  uint64
	tail []byte // the bytes after them
}

// redisSum is the polynomial of Redis's CRC-64, reflected.
var redisSum = crc64.MakeTable(0x95ac9329ac4bc9b5)

func (s *checksumReader) Read(b []byte) (n int, err error) {
	n, err = s.r.Read(b)
	part := b[:min(int64(n), s.left)]
	s.sum = ^crc64.Update(^s.sum, redisSum, part) // Redis inverts neither before nor after
	s.left -= int64(len(part))
	s.tail = append(s.tail, b[len(part):n]...)
	return n, err
}

// newRDB reads the head of a dump of size bytes.
func newRDB(r io.Reader, size int64) (*rdbReader, error) {
	in := &checksumReader{r: r, left: max(size-8, 0)}
	d := &rdbReader{r: bufio.NewReaderSize(in, 1<<20), in: in, size: size, aux: map[string]string{}}
	head, err := d.bytes(9)
	if err != nil || string(head[:5]) != "REDIS" {
		return nil, fmt.Errorf("%w: it does not begin with REDIS", errDump)
	}
	if d.version, err = strconv.Atoi(string(head[5:])); err != nil || d.version < 1 {
		return nil, fmt.Errorf("%w: it has the version %q", errDump, head[5:])
	}
	return d, nil
}

// The opcodes that are not types of values.
const (
	opSlotInfo  = 0xf4
	opFunction2 = 0xf5
	opModuleAux = 0xf7
	opIdle      = 0xf8
	opFreq      = 0xf9
	opAux       = 0xfa
	opResize    = 0xfb
	opExpireMS  = 0xfc
	opExpire    = 0xfd
	opSelect    = 0xfe
	opEOF       = 0xff
)

// next reads one key, or returns io.EOF at the end of a complete file.
func (d *rdbReader) next(e *rdbEntry) (err error) {
	*e = rdbEntry{freq: -1, length: -1}
	for {
		op, err := d.byte()
		if err != nil {
			return err
		}
		switch op {
		case opEOF:
			return d.end()
		case opSelect:
			n, err := d.len()
			if err != nil {
				return err
			}
			d.db = int(n)
		case opExpireMS:
			b, err := d.bytes(8)
			if err != nil {
				return err
			}
			e.expires = time.UnixMilli(int64(binary.LittleEndian.Uint64(b)))
		case opExpire:
			b, err := d.bytes(4)
			if err != nil {
				return err
			}
			e.expires = time.Unix(int64(binary.LittleEndian.Uint32(b)), 0)
		case opFreq:
			n, err := d.byte()
			if err != nil {
				return err
			}
			e.freq = int64(n)
		case opIdle:
			err = d.skipLens(1)
		case opResize:
			err = d.skipLens(2)
		case opSlotInfo:
			err = d.skipLens(3)
		case opFunction2:
			_, err = d.skip()
		case opAux:
			err = d.readAux()
		case opModuleAux:
			if err = d.skipLens(3); err == nil { // the module, and the event: an opcode and a number
				err = d.module()
			}
		default:
			return d.entry(e, op)
		}
		if err != nil {
			return err
		}
	}
}

// end verifies the checksum.
func (d *rdbReader) end() error {
	if d.version < 5 { // without a checksum
		return io.EOF
	}
	if _, err := d.bytes(8); err != nil {
		return err
	}
	if d.in.left != 0 || len(d.in.tail) != 8 {
		return fmt.Errorf("%w: it ends before the file does", errDump)
	}
	if want := binary.LittleEndian.Uint64(d.in.tail); want != 0 && want != d.in.sum { // 0: the server is configured to write no checksum
		return fmt.Errorf("%w: its checksum is wrong", errDump)
	}
	return io.EOF
}

// readAux reads an auxiliary field of the file.
func (d *rdbReader) readAux() error {
	name, err := d.text(&d.keyBuf)
	if err != nil {
		return err
	}
	value, err := d.text(&d.valBuf)
	if err != nil {
		return err
	}
	d.aux[string(name)] = string(value)
	return nil
}

func (d *rdbReader) entry(e *rdbEntry, typ byte) (err error) {
	e.db = d.db
	if e.key, err = d.text(&d.keyBuf); err != nil {
		return err
	}
	var size int64
	switch typ {
	case 0:
		e.typ = "string"
		size, err = d.string(e)
	case 1:
		e.typ = "list"
		size, err = d.elements(1, quickEntry)
	case 2:
		e.typ = "set"
		size, err = d.table(1, 0)
	case 3:
		e.typ = "zset"
		size, err = d.table(1, scoreText)
	case 5:
		e.typ = "zset"
		size, err = d.table(1, scoreBinary)
	case 4:
		e.typ = "hash"
		size, err = d.table(2, 0)
	case 24:
		e.typ = "hash"
		if _, err = d.bytes(8); err == nil { // when the first field expires
			size, err = d.table(2, fieldLife)
		}
	case 7:
		e.typ = "module"
		if _, err = d.len(); err == nil {
			err = d.module()
		}
	case 10, 14, 18:
		e.typ = "list"
		size, err = d.list(typ)
	case 11, 20:
		e.typ = "set"
		size, err = d.blob()
	case 12, 17:
		e.typ = "zset"
		size, err = d.blob()
	case 9, 13, 16, 23:
		e.typ = "hash"
		size, err = d.blob()
	case 25:
		e.typ = "hash"
		if _, err = d.bytes(8); err == nil {
			size, err = d.blob()
		}
	case 15, 19, 21:
		e.typ = "stream"
		size, err = d.stream(typ)
	default:
		return fmt.Errorf("%w: the key %q has a value of the type %d, which is not supported", errDump, printable(string(e.key)), typ)
	}
	e.bytes = size + text(int64(len(e.key))) + dictEntry
	return err
}

// Sizes on a 64-bit machine, in bytes.
const (
	object     = 16
	dict       = 56
	dictEntry  = 24
	quickList  = 40
	quickNode  = 32
	quickEntry = 8
	skipNode   = 48            // with its average of 4/3 levels
	skipList   = 16 + 32 + 640 // with a head node of all levels
	streamHead = 88
	streamTail = 4096 // the last block of entries has room to grow
	groupHead  = 48
	pending    = 24
	consumer   = 40
)

// alloc returns the size class of jemalloc for n bytes.
func alloc(n int64) int64 {
	if n <= 8 {
		return 8
	}
	step := int64(16)
	if n > 128 {
		step = 1 << (bits.Len64(uint64(n-1)) - 3)
	}
	return (n + step - 1) / step * step
}

// tree returns the memory of a radix tree of n ids, as MEMORY USAGE estimates it.
func tree(n int64) int64 {
	const id, node = 16, 4 + 30*8
	return id*n + node*max(2*n, 1)
}

// text returns the memory of a string of n bytes, with its header and final zero byte.
func text(n int64) int64 {
	switch {
	case n < 32:
		return alloc(1 + n + 1)
	case n < 1<<8:
		return alloc(3 + n + 1)
	case n < 1<<16:
		return alloc(5 + n + 1)
	}
	return alloc(9 + n + 1)
}

// string reads a string's value.
func (d *rdbReader) string(e *rdbEntry) (int64, error) {
	n, enc, err := d.lenOrEnc()
	if err != nil {
		return 0, err
	}
	if e.length, e.value, err = d.content(n, enc, &d.valBuf, maxRead); err != nil {
		return 0, err
	}
	if e.value != nil && e.length <= 20 {
		if _, err := strconv.ParseInt(string(e.value), 10, 64); err == nil {
			return object, nil
		}
	}
	const short = 44 // up to this length, the string and the object are one allocation
	if e.length <= short {
		return alloc(object + 3 + e.length + 1), nil
	}
	return object + text(e.length), nil
}

// The kinds of extra data with each element of a table.
const (
	scoreText = 1 + iota
	scoreBinary
	fieldLife
)

// table reads a hash table with per strings for each element, and the extra data.
func (d *rdbReader) table(per int, extra int) (size int64, err error) {
	n, err := d.len()
	if err != nil {
		return 0, err
	}
	for range n {
		if extra == fieldLife {
			if _, err := d.len(); err != nil {
				return 0, err
			}
		}
		for range per {
			length, err := d.skip()
			if err != nil {
				return 0, err
			}
			size += text(length)
		}
		switch extra {
		case scoreText:
			err = d.scoreText()
		case scoreBinary:
			_, err = d.bytes(8)
		}
		if err != nil {
			return 0, err
		}
		size += dictEntry
		if extra == scoreText || extra == scoreBinary {
			size += skipNode
		}
	}
	size += object + dict
	if n > 0 {
		size += 8 << bits.Len64(n-1)
	}
	if extra == scoreText || extra == scoreBinary {
		size += skipList
	}
	return size, nil
}

func (d *rdbReader) scoreText() error {
	n, err := d.byte()
	if err != nil || n >= 253 { // NaN and the infinities
		return err
	}
	_, err = d.bytes(int(n))
	return err
}

// elements reads a list of n elements with per strings each.
func (d *rdbReader) elements(per int, each int64) (size int64, err error) {
	n, err := d.len()
	if err != nil {
		return 0, err
	}
	for range n {
		for range per {
			length, err := d.skip()
			if err != nil {
				return 0, err
			}
			size += length + each
		}
	}
	return object + quickList + quickNode + size, nil
}

// list reads a list that is stored in blocks.
func (d *rdbReader) list(typ byte) (size int64, err error) {
	n := uint64(1)
	if typ != 10 {
		if n, err = d.len(); err != nil {
			return 0, err
		}
	}
	for range n {
		if typ == 18 {
			if err := d.skipLens(1); err != nil { // plain or packed
				return 0, err
			}
		}
		length, err := d.skip()
		if err != nil {
			return 0, err
		}
		size += quickNode + alloc(length)
	}
	return object + quickList + size, nil
}

// blob reads a small collection, which is stored in one block of memory.
func (d *rdbReader) blob() (int64, error) {
	n, err := d.skip()
	return object + alloc(n), err
}

func (d *rdbReader) stream(typ byte) (size int64, err error) {
	blocks, err := d.len()
	if err != nil {
		return 0, err
	}
	for i := range blocks {
		if _, err := d.skip(); err != nil { // the id of the first entry
			return 0, err
		}
		n, err := d.skip()
		if err != nil {
			return 0, err
		}
		if i == blocks-1 {
			n = max(n, streamTail)
		}
		size += alloc(n)
	}
	heads := 3 // the number of entries, and the id of the last one in two parts
	if typ >= 19 {
		heads += 5
	}
	if err := d.skipLens(heads); err != nil {
		return 0, err
	}
	groups, err := d.len()
	if err != nil {
		return 0, err
	}
	for range groups {
		n, err := d.group(typ)
		if err != nil {
			return 0, err
		}
		size += n
	}
	return object + streamHead + tree(int64(blocks)) + size, nil
}

// group reads a consumer group.
func (d *rdbReader) group(typ byte) (size int64, err error) {
	const id = 16
	if _, err := d.skip(); err != nil { // its name
		return 0, err
	}
	heads := 2
	if typ >= 19 {
		heads++
	}
	if err := d.skipLens(heads); err != nil {
		return 0, err
	}
	n, err := d.len()
	if err != nil {
		return 0, err
	}
	for range n {
		if _, err := d.bytes(id + 8); err != nil { // the id and the delivery time
			return 0, err
		}
		if err := d.skipLens(1); err != nil { // the number of deliveries
			return 0, err
		}
	}
	size = groupHead + tree(int64(n)) + pending*int64(n)
	consumers, err := d.len()
	if err != nil {
		return 0, err
	}
	for range consumers {
		nameLen, err := d.skip()
		if err != nil {
			return 0, err
		}
		times := 8
		if typ >= 21 {
			times = 16
		}
		if _, err := d.bytes(times); err != nil {
			return 0, err
		}
		n, err := d.len()
		if err != nil {
			return 0, err
		}
		for range n {
			if _, err := d.bytes(id); err != nil {
				return 0, err
			}
		}
		size += consumer + nameLen + tree(int64(n))
	}
	return size, nil
}

// module skips a value of a module, whose parts have their type in front.
func (d *rdbReader) module() error {
	for {
		op, err := d.len()
		if err != nil {
			return err
		}
		switch op {
		case 0:
			return nil
		case 1, 2:
			err = d.skipLens(1)
		case 3:
			_, err = d.bytes(4)
		case 4:
			_, err = d.bytes(8)
		case 5:
			_, err = d.skip()
		default:
			err = fmt.Errorf("%w: a module's value has a part of the kind %d", errDump, op)
		}
		if err != nil {
			return err
		}
	}
}

func (d *rdbReader) byte() (byte, error) {
	b, err := d.r.ReadByte()
	if err != nil {
		return 0, truncated(err)
	}
	d.consumed++
	return b, nil
}

// bytes reads n bytes, where n is small. They are valid until the next read.
func (d *rdbReader) bytes(n int) ([]byte, error) {
	b, err := d.r.Peek(n)
	if err != nil {
		return nil, truncated(err)
	}
	_, _ = d.r.Discard(n) // Peek has already read them
	d.consumed += int64(n)
	return b, nil
}

func truncated(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: it is truncated", errDump)
	}
	return err
}

// The encodings of a string, from its first byte.
const (
	encInt8 = iota
	encInt16
	encInt32
	encLZF
	encNone = -1
)

func (d *rdbReader) lenOrEnc() (n uint64, enc int, err error) {
	b, err := d.byte()
	if err != nil {
		return 0, 0, err
	}
	switch b >> 6 {
	case 0:
		return uint64(b), encNone, nil
	case 1:
		low, err := d.byte()
		return uint64(b&0x3f)<<8 | uint64(low), encNone, err
	case 3:
		return 0, int(b & 0x3f), nil
	}
	width := 4
	if b == 0x81 {
		width = 8
	}
	raw, err := d.bytes(width)
	if err != nil {
		return 0, 0, err
	}
	if width == 8 {
		return binary.BigEndian.Uint64(raw), encNone, nil
	}
	return uint64(binary.BigEndian.Uint32(raw)), encNone, nil
}

func (d *rdbReader) len() (uint64, error) {
	n, enc, err := d.lenOrEnc()
	if err == nil && enc != encNone {
		err = fmt.Errorf("%w: a string instead of a length", errDump)
	}
	return n, err
}

// skipLens skips n lengths.
func (d *rdbReader) skipLens(n int) error {
	for range n {
		if _, err := d.len(); err != nil {
			return err
		}
	}
	return nil
}

// skip skips a string and returns its length.
func (d *rdbReader) skip() (int64, error) {
	n, enc, err := d.lenOrEnc()
	if err != nil {
		return 0, err
	}
	length, _, err := d.content(n, enc, nil, 0)
	return length, err
}

// text reads a short string into buf.
func (d *rdbReader) text(buf *[]byte) ([]byte, error) {
	n, enc, err := d.lenOrEnc()
	if err != nil {
		return nil, err
	}
	_, b, err := d.content(n, enc, buf, math.MaxInt64)
	return b, err
}

// content reads the rest of a string and returns its length. It also returns its bytes in buf, if there are no more
// than limit.
func (d *rdbReader) content(n uint64, enc int, buf *[]byte, limit int64) (length int64, b []byte, err error) {
	switch enc {
	case encNone:
		if n > uint64(d.size-d.consumed) {
			return 0, nil, fmt.Errorf("%w: it is truncated, or a length is wrong", errDump)
		}
		if buf == nil || int64(n) > limit {
			return int64(n), nil, d.discard(int64(n))
		}
		b, err = d.fill(buf, int64(n))
		return int64(n), b, err
	case encInt8, encInt16, encInt32:
		raw, err := d.bytes(1 << enc)
		if err != nil {
			return 0, nil, err
		}
		v := int64(int8(raw[0]))
		if enc == encInt16 {
			v = int64(int16(binary.LittleEndian.Uint16(raw)))
		} else if enc == encInt32 {
			v = int64(int32(binary.LittleEndian.Uint32(raw)))
		}
		var scratch []byte
		if buf == nil {
			buf = &scratch
		}
		*buf = strconv.AppendInt((*buf)[:0], v, 10)
		return int64(len(*buf)), *buf, nil
	case encLZF:
		packed, err := d.len()
		if err != nil {
			return 0, nil, err
		}
		whole, err := d.len()
		if err != nil {
			return 0, nil, err
		}
		// One byte of LZF expands to at most 264 bytes.
		if packed > uint64(d.size-d.consumed) || whole/264 > packed {
			return 0, nil, fmt.Errorf("%w: it is truncated, or a length is wrong", errDump)
		}
		if buf == nil || int64(whole) > limit {
			return int64(whole), nil, d.discard(int64(packed))
		}
		in, err := d.fill(&d.packed, int64(packed))
		if err != nil {
			return 0, nil, err
		}
		if *buf, err = unpack((*buf)[:0], in, int(whole)); err != nil {
			return 0, nil, err
		}
		return int64(whole), *buf, nil
	}
	return 0, nil, fmt.Errorf("%w: a string has the encoding %d, which is not supported", errDump, enc)
}

func (d *rdbReader) fill(buf *[]byte, n int64) ([]byte, error) {
	if int64(cap(*buf)) < n {
		*buf = make([]byte, n)
	}
	*buf = (*buf)[:n]
	if _, err := io.ReadFull(d.r, *buf); err != nil {
		return nil, truncated(err)
	}
	d.consumed += n
	return *buf, nil
}

func (d *rdbReader) discard(n int64) error {
	for n > 0 {
		done, err := d.r.Discard(int(min(n, 1<<30)))
		if err != nil {
			return truncated(err)
		}
		d.consumed += int64(done)
		n -= int64(done)
	}
	return nil
}

// unpack decompresses LZF. A control byte c under 32 is followed by c+1 literal bytes. Other control bytes are followed
// by a distance and a length of earlier output to repeat.
func unpack(out, in []byte, whole int) ([]byte, error) {
	bad := fmt.Errorf("%w: a compressed string is damaged", errDump)
	for i := 0; i < len(in); {
		c := int(in[i])
		i++
		if c < 32 {
			if i+c+1 > len(in) {
				return nil, bad
			}
			out = append(out, in[i:i+c+1]...)
			i += c + 1
			continue
		}
		n := c >> 5
		if n == 7 {
			if i == len(in) {
				return nil, bad
			}
			n += int(in[i])
			i++
		}
		if i == len(in) {
			return nil, bad
		}
		from := len(out) - (c&0x1f)<<8 - int(in[i]) - 1
		i++
		if from < 0 || len(out)+n+2 > whole {
			return nil, bad
		}
		for range n + 2 { // the source and the destination may overlap
			out = append(out, out[from])
			from++
		}
	}
	if len(out) != whole {
		return nil, bad
	}
	return out, nil
}

// created returns the time when the dump was started.
func (d *rdbReader) created() (time.Time, bool) {
	s, err := strconv.ParseInt(strings.TrimSpace(d.aux["ctime"]), 10, 64)
	return time.Unix(s, 0), err == nil
}
