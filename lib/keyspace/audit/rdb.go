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

// This file reads what SAVE and BGSAVE write, versions 1 to 12 (Redis 7.4 and 8.0),
// as far as an audit needs it: names, types, lives, strings, and of everything else
// how large it is. https://rdb.fnordig.de has the format up to version 7; what came
// later is in rdb.c and rdb.h of Redis.

// errDump is in the tree of every error about a file that is no sound dump.
var errDump = errors.New("audit: not a sound dump file")

// An rdbEntry is one key of a dump.
type rdbEntry struct {
	key     []byte // valid until the next call
	db      int
	typ     string
	expires time.Time // zero: never
	length  int64     // of a string; else -1
	value   []byte    // of a string of at most maxRead bytes; valid until the next call
	bytes   int64     // what it would occupy, by the arithmetic of MEMORY USAGE
	freq    int64     // -1: not in the file
}

// An rdbReader reads the keys of a dump one by one.
type rdbReader struct {
	r    *bufio.Reader
	in   *summed
	size int64 // of the file
	took int64 // bytes of it

	db      int
	version int
	aux     map[string]string // what the file says of itself
	keyBuf  []byte
	valBuf  []byte
	packed  []byte // before decompression
}

// summed computes the checksum of all but the last eight bytes of a file.
type summed struct {
	r    io.Reader
	left int64 // bytes to be summed
	sum  uint64
	tail []byte // what comes behind them
}

// redisSum is the polynomial of Redis's CRC-64, reflected.
var redisSum = crc64.MakeTable(0x95ac9329ac4bc9b5)

func (s *summed) Read(b []byte) (n int, err error) {
	n, err = s.r.Read(b)
	part := b[:min(int64(n), s.left)]
	s.sum = ^crc64.Update(^s.sum, redisSum, part) // Redis inverts neither before nor after
	s.left -= int64(len(part))
	s.tail = append(s.tail, b[len(part):n]...)
	return n, err
}

// newRDB reads the head of a dump of size bytes.
func newRDB(r io.Reader, size int64) (*rdbReader, error) {
	in := &summed{r: r, left: max(size-8, 0)}
	d := &rdbReader{r: bufio.NewReaderSize(in, 1<<20), in: in, size: size, aux: map[string]string{}}
	head, err := d.take(9)
	if err != nil || string(head[:5]) != "REDIS" {
		return nil, fmt.Errorf("%w: it does not begin with REDIS", errDump)
	}
	if d.version, err = strconv.Atoi(string(head[5:])); err != nil || d.version < 1 {
		return nil, fmt.Errorf("%w: it has the version %q", errDump, head[5:])
	}
	return d, nil
}

// The opcodes that are no type of a value.
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

// next reads one key, or returns io.EOF at the end of a whole file.
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
			b, err := d.take(8)
			if err != nil {
				return err
			}
			e.expires = time.UnixMilli(int64(binary.LittleEndian.Uint64(b)))
		case opExpire:
			b, err := d.take(4)
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
			err = d.lens(1)
		case opResize:
			err = d.lens(2)
		case opSlotInfo:
			err = d.lens(3)
		case opFunction2:
			_, err = d.skip()
		case opAux:
			err = d.about()
		case opModuleAux:
			if err = d.lens(3); err == nil { // module, and when: an opcode and a number
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

// end checks the sum.
func (d *rdbReader) end() error {
	if d.version < 5 { // without a sum
		return io.EOF
	}
	if _, err := d.take(8); err != nil {
		return err
	}
	if d.in.left != 0 || len(d.in.tail) != 8 {
		return fmt.Errorf("%w: it ends before the file does", errDump)
	}
	if want := binary.LittleEndian.Uint64(d.in.tail); want != 0 && want != d.in.sum { // 0: the server was told to write none
		return fmt.Errorf("%w: its checksum is wrong", errDump)
	}
	return io.EOF
}

// about reads something that the file says of itself.
func (d *rdbReader) about() error {
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
		if _, err = d.take(8); err == nil { // when the first field dies
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
		if _, err = d.take(8); err == nil {
			size, err = d.blob()
		}
	case 15, 19, 21:
		e.typ = "stream"
		size, err = d.stream(typ)
	default:
		return fmt.Errorf("%w: the key %q has a value of the type %d, which is not known here", errDump, printable(string(e.key)), typ)
	}
	e.bytes = size + text(int64(len(e.key))) + dictEntry
	return err
}

// Sizes on a machine of 64 bits, in bytes.
const (
	object     = 16
	dict       = 56
	dictEntry  = 24
	quickList  = 40
	quickNode  = 32
	quickEntry = 8
	skipNode   = 48            // with the four thirds of a level that it has on average
	skipList   = 16 + 32 + 640 // with a first node of all levels
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

// tree returns what a radix tree of n ids occupies, as MEMORY USAGE guesses it.
func tree(n int64) int64 {
	const id, node = 16, 4 + 30*8
	return id*n + node*max(2*n, 1)
}

// text returns what a string of n bytes occupies, with its header and final zero.
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
	const short = 44 // up to here in one piece with the object
	if e.length <= short {
		return alloc(object + 3 + e.length + 1), nil
	}
	return object + text(e.length), nil
}

// The kinds of value beside each element of a table.
const (
	scoreText = 1 + iota
	scoreBinary
	fieldLife
)

// table reads a hash table: per strings for each element, and what stands beside
// them.
func (d *rdbReader) table(per int, beside int) (size int64, err error) {
	n, err := d.len()
	if err != nil {
		return 0, err
	}
	for range n {
		if beside == fieldLife {
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
		switch beside {
		case scoreText:
			err = d.scoreText()
		case scoreBinary:
			_, err = d.take(8)
		}
		if err != nil {
			return 0, err
		}
		size += dictEntry
		if beside == scoreText || beside == scoreBinary {
			size += skipNode
		}
	}
	size += object + dict
	if n > 0 {
		size += 8 << bits.Len64(n-1)
	}
	if beside == scoreText || beside == scoreBinary {
		size += skipList
	}
	return size, nil
}

func (d *rdbReader) scoreText() error {
	n, err := d.byte()
	if err != nil || n >= 253 { // not a number, and the infinities
		return err
	}
	_, err = d.take(int(n))
	return err
}

// elements reads n times per strings.
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

// list reads a list in blocks.
func (d *rdbReader) list(typ byte) (size int64, err error) {
	n := uint64(1)
	if typ != 10 {
		if n, err = d.len(); err != nil {
			return 0, err
		}
	}
	for range n {
		if typ == 18 {
			if err := d.lens(1); err != nil { // plain or packed
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

// blob reads a small collection, which is one piece of memory.
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
		if _, err := d.skip(); err != nil { // the first entry's id
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
	heads := 3 // how many entries, and the last one's id in two parts
	if typ >= 19 {
		heads += 5
	}
	if err := d.lens(heads); err != nil {
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
	if err := d.lens(heads); err != nil {
		return 0, err
	}
	n, err := d.len()
	if err != nil {
		return 0, err
	}
	for range n {
		if _, err := d.take(id + 8); err != nil { // and when it was delivered
			return 0, err
		}
		if err := d.lens(1); err != nil { // how often
			return 0, err
		}
	}
	size = groupHead + tree(int64(n)) + pending*int64(n)
	consumers, err := d.len()
	if err != nil {
		return 0, err
	}
	for range consumers {
		who, err := d.skip()
		if err != nil {
			return 0, err
		}
		times := 8
		if typ >= 21 {
			times = 16
		}
		if _, err := d.take(times); err != nil {
			return 0, err
		}
		n, err := d.len()
		if err != nil {
			return 0, err
		}
		for range n {
			if _, err := d.take(id); err != nil {
				return 0, err
			}
		}
		size += consumer + who + tree(int64(n))
	}
	return size, nil
}

// module reads over a value of a module, whose parts say what they are.
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
			err = d.lens(1)
		case 3:
			_, err = d.take(4)
		case 4:
			_, err = d.take(8)
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
		return 0, torn(err)
	}
	d.took++
	return b, nil
}

// take reads n bytes, few of them; they are valid until the next read.
func (d *rdbReader) take(n int) ([]byte, error) {
	b, err := d.r.Peek(n)
	if err != nil {
		return nil, torn(err)
	}
	_, _ = d.r.Discard(n) // they are there
	d.took += int64(n)
	return b, nil
}

func torn(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: it is torn off", errDump)
	}
	return err
}

// How the first byte says that a string is something else.
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
	raw, err := d.take(width)
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
		err = fmt.Errorf("%w: a string stands where a length has to be", errDump)
	}
	return n, err
}

// lens reads over lengths.
func (d *rdbReader) lens(n int) error {
	for range n {
		if _, err := d.len(); err != nil {
			return err
		}
	}
	return nil
}

// skip reads over a string and returns its length.
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

// content reads the rest of a string and returns its length, and its bytes in buf
// if there are at most most.
func (d *rdbReader) content(n uint64, enc int, buf *[]byte, most int64) (length int64, b []byte, err error) {
	switch enc {
	case encNone:
		if n > uint64(d.size-d.took) {
			return 0, nil, fmt.Errorf("%w: it is torn off, or a length is wrong", errDump)
		}
		if buf == nil || int64(n) > most {
			return int64(n), nil, d.discard(int64(n))
		}
		b, err = d.fill(buf, int64(n))
		return int64(n), b, err
	case encInt8, encInt16, encInt32:
		raw, err := d.take(1 << enc)
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
		// No byte of LZF stands for more than 264 of the text.
		if packed > uint64(d.size-d.took) || whole/264 > packed {
			return 0, nil, fmt.Errorf("%w: it is torn off, or a length is wrong", errDump)
		}
		if buf == nil || int64(whole) > most {
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
	return 0, nil, fmt.Errorf("%w: a string is written in the way %d, which is not known here", errDump, enc)
}

func (d *rdbReader) fill(buf *[]byte, n int64) ([]byte, error) {
	if int64(cap(*buf)) < n {
		*buf = make([]byte, n)
	}
	*buf = (*buf)[:n]
	if _, err := io.ReadFull(d.r, *buf); err != nil {
		return nil, torn(err)
	}
	d.took += n
	return *buf, nil
}

func (d *rdbReader) discard(n int64) error {
	for n > 0 {
		done, err := d.r.Discard(int(min(n, 1<<30)))
		if err != nil {
			return torn(err)
		}
		d.took += int64(done)
		n -= int64(done)
	}
	return nil
}

// unpack undoes LZF: a control byte under 32 is followed by that many bytes and one
// more; any other says how much to repeat from how far back.
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
		for range n + 2 { // what is repeated may be written just now
			out = append(out, out[from])
			from++
		}
	}
	if len(out) != whole {
		return nil, bad
	}
	return out, nil
}

// created returns when the dump was begun.
func (d *rdbReader) created() (time.Time, bool) {
	s, err := strconv.ParseInt(strings.TrimSpace(d.aux["ctime"]), 10, 64)
	return time.Unix(s, 0), err == nil
}
