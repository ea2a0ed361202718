package transfers

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"time"
)

// headLen is the number of bytes at a file's start that identify its type.
const headLen = 4 << 10

// recording returns the type and length of a voice recording; the type is empty for other files. The length is read
// from few bytes of the container: the header of WAV, the first and last page of Ogg with Opus, the movie header of
// MP4. It is 0 for WebM, which browsers write without a length. An error is an error of the reader.
func recording(r io.ReadSeeker) (typ string, d time.Duration, err error) {
	size, err := r.Seek(0, io.SeekEnd)
	if err != nil {
		return "", 0, err
	}
	head, err := readAt(r, 0, min(size, headLen))
	if err != nil {
		return "", 0, err
	}
	switch {
	case len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WAVE":
		return "audio/wav", wavLength(head, size), nil
	case bytes.HasPrefix(head, []byte("OggS")) && bytes.Contains(head, []byte("OpusHead")):
		d, err := oggLength(r, head, size)
		return "audio/ogg", d, err
	case bytes.HasPrefix(head, []byte("\x1a\x45\xdf\xa3")) && bytes.Contains(head, []byte("webm")) && bytes.Contains(head, []byte("A_OPUS")) &&
		!bytes.Contains(head, []byte("V_")):
		return "audio/webm", 0, nil
	case len(head) >= 12 && string(head[4:8]) == "ftyp" &&
		(string(head[8:11]) == "M4A" || string(head[8:11]) == "mp4" || string(head[8:11]) == "iso"):
		d, audio, err := mp4Length(r, size)
		if err != nil || !audio {
			return "", 0, err
		}
		return "audio/mp4", d, nil
	}
	return "", 0, nil
}

// readAt reads n bytes from an offset, or up to the end.
func readAt(r io.ReadSeeker, at, n int64) ([]byte, error) {
	if _, err := r.Seek(at, io.SeekStart); err != nil {
		return nil, err
	}
	b := make([]byte, n)
	got, err := io.ReadFull(r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return b[:got], err
}

// lasting converts a number of units to a duration. It returns 0 for an invalid rate, or for a day or more.
func lasting(units, perSecond uint64) time.Duration {
	if perSecond == 0 || units/perSecond >= 24*60*60 {
		return 0
	}
	return time.Duration(float64(units) / float64(perSecond) * float64(time.Second)).Round(time.Millisecond)
}

// wavLength computes the length from the bytes per second and the number of bytes.
func wavLength(head []byte, size int64) time.Duration {
	perSecond := uint64(0)
	for at := 12; at+8 <= len(head); {
		name, n := string(head[at:at+4]), int64(binary.LittleEndian.Uint32(head[at+4:]))
		at += 8
		switch {
		case name == "fmt " && at+12 <= len(head):
			perSecond = uint64(binary.LittleEndian.Uint32(head[at+8:]))
		case name == "data":
			return lasting(uint64(max(0, min(n, size-int64(at)))), perSecond)
		}
		if n > int64(len(head)) {
			return 0
		}
		at += int(n + n&1)
	}
	return 0
}

const (
	opusRate = 48_000
	oggPage  = 65_307 // bytes of the longest page
)

// oggLength computes the length from the position in the last page, minus the samples that decoders skip.
func oggLength(r io.ReadSeeker, head []byte, size int64) (time.Duration, error) {
	skip := uint64(0)
	if at := bytes.Index(head, []byte("OpusHead")); at+12 <= len(head) {
		skip = uint64(binary.LittleEndian.Uint16(head[at+10:]))
	}
	from := max(0, size-oggPage)
	tail, err := readAt(r, from, size-from)
	if err != nil {
		return 0, err
	}
	at := bytes.LastIndex(tail, []byte("OggS"))
	if at < 0 || at+14 > len(tail) {
		return 0, nil
	}
	position := binary.LittleEndian.Uint64(tail[at+6:])
	if position < skip || position == math.MaxUint64 {
		return 0, nil
	}
	return lasting(position-skip, opusRate), nil
}

const (
	mp4Boxes = 64 // the largest number of boxes at the top of a file
	mp4Movie = 64 << 10
)

// mp4Length reads the length from the movie header. audio reports whether the file has sound and no video.
func mp4Length(r io.ReadSeeker, size int64) (d time.Duration, audio bool, err error) {
	at := int64(0)
	for range mp4Boxes {
		head, err := readAt(r, at, min(16, size-at))
		if err != nil || len(head) < 8 {
			return 0, false, err
		}
		n, begins := int64(binary.BigEndian.Uint32(head)), int64(8)
		if n == 1 && len(head) == 16 {
			n, begins = int64(binary.BigEndian.Uint64(head[8:])&math.MaxInt64), 16
		} else if n == 0 {
			n = size - at
		}
		if n < begins || n > size-at {
			return 0, false, nil
		}
		if string(head[4:8]) != "moov" {
			if at += n; at >= size {
				return 0, false, nil
			}
			continue
		}
		moov, err := readAt(r, at+begins, min(n-begins, mp4Movie))
		return movieLength(moov), bytes.Contains(moov, []byte("soun")) && !bytes.Contains(moov, []byte("vide")), err
	}
	return 0, false, nil
}

// movieLength parses a movie header, the first box of a movie.
func movieLength(moov []byte) time.Duration {
	at := bytes.Index(moov, []byte("mvhd"))
	if at < 0 || at+36 > len(moov) {
		return 0
	}
	b := moov[at+4:]
	if b[0] == 1 {
		return lasting(binary.BigEndian.Uint64(b[24:]), uint64(binary.BigEndian.Uint32(b[20:])))
	}
	return lasting(uint64(binary.BigEndian.Uint32(b[16:])), uint64(binary.BigEndian.Uint32(b[12:])))
}
