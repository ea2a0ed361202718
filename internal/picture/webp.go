package picture

import (
	"bytes"
	"encoding/binary"
	"image"
	"io"

	"golang.org/x/image/webp"
)

// webpConfig and webpDecode are those of package webp, which refuses animations; of an animation they read the first
// frame.
func webpConfig(r io.Reader) (image.Config, error) { return onStill(r, webp.DecodeConfig) }

func webpDecode(r io.Reader) (image.Image, error) { return onStill(r, webp.Decode) }

func onStill[T any](r io.Reader, decode func(io.Reader) (T, error)) (T, error) {
	still, err := firstFrame(r)
	if err != nil {
		var zero T
		return zero, err
	}
	return decode(still)
}

// The layout of an extended WebP file: https://developers.google.com/speed/webp/docs/riff_container
const (
	riffHead   = 12 // "RIFF", size, "WEBP"
	chunkHead  = 8  // name and size
	vp8xSize   = 10 // flags, three reserved bytes, width − 1 and height − 1
	frameHead  = 16 // place, size, duration and flags of a frame
	webpAlpha  = 1 << 4
	webpMoves  = 1 << 1
	maxPreface = 1 << 20 // bytes before the first frame: a colour profile, in practice at most some kilobytes
)

// firstFrame returns the first frame of an animation as a still image, and other files unchanged. It reads only the
// bytes before the first frame; the decoder reads the frame.
func firstFrame(r io.Reader) (io.Reader, error) {
	head := make([]byte, riffHead+chunkHead+vp8xSize)
	n, err := io.ReadFull(r, head)
	if err != nil && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	head = head[:n]
	if n < cap(head) || string(head[riffHead:riffHead+4]) != "VP8X" || head[riffHead+chunkHead]&webpMoves == 0 {
		return io.MultiReader(bytes.NewReader(head), r), nil
	}
	for skipped := int64(0); ; {
		var chunk [chunkHead]byte
		if _, err := io.ReadFull(r, chunk[:]); err != nil {
			return nil, err
		}
		size := int64(binary.LittleEndian.Uint32(chunk[4:]))
		if string(chunk[:4]) == "ANMF" && size >= frameHead+4 {
			return frame(io.LimitReader(r, size), size)
		}
		size += size & 1 // chunks are padded to an even size
		if skipped += size; skipped > maxPreface {
			return nil, ErrUnreadable
		}
		if _, err := io.CopyN(io.Discard, r, size); err != nil {
			return nil, err
		}
	}
}

// frame returns a frame of size bytes as a file of its own. A frame contains an alpha channel and an image, like a
// file.
func frame(r io.Reader, size int64) (io.Reader, error) {
	var head [frameHead + 4]byte // with the name of the frame's first chunk
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size -= frameHead
	var flags byte
	if string(head[frameHead:]) == "ALPH" {
		flags = webpAlpha // package webp requires the flag exactly if the chunk exists
	}
	file := make([]byte, 0, riffHead+chunkHead+vp8xSize)
	file = binary.LittleEndian.AppendUint32(append(file, "RIFF"...), uint32(4+chunkHead+vp8xSize+size))
	file = binary.LittleEndian.AppendUint32(append(file, "WEBPVP8X"...), vp8xSize)
	file = append(file, flags, 0, 0, 0)
	file = append(file, head[6:12]...) // width − 1 and height − 1
	return io.MultiReader(bytes.NewReader(append(file, head[frameHead:]...)), r), nil
}
