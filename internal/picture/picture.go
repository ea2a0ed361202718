package picture

import (
	"bytes"
	"context"
	"encoding/binary"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/bep/imagemeta"
	"golang.org/x/image/draw"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/fairqueue"
)

// MaxBytes is the largest file that is looked at: a photo of a telephone, as a
// page or an app sends it.
const MaxBytes = 5 << 20

// The limits of an image's size. More pixels than a good telephone's make no
// portrait, and a strip shows nothing.
const (
	maxPixels = 25_000_000
	maxSide   = 10_000

	// maxSamples is the largest number of bytes of all samples. Of 16 bits they are twice as many; a file of that kind that is
	// not made to cost work has far fewer.
	maxSamples = 4 * maxPixels

	// maxScanned is the largest number of pixels of all scans of a JPEG: each scan costs as much as an image. Encoders make at
	// most a dozen scans.
	maxScanned = 16 * maxPixels
)

// Sizes are the sides of the pictures made, in pixels: in a list, on a card, on a
// page. The first is the largest.
var Sizes = [...]int{512, 256, 64}

// The refusals of this package.
var (
	ErrBytes      = errs.New(errs.Invalid, "picture.bytes", "The file is larger than 5 MiB.")
	ErrUnreadable = errs.New(errs.Invalid, "picture.unreadable", "That is not a PNG, JPEG, GIF or WebP image, or it is broken.")
	ErrDimensions = errs.New(errs.Invalid, "picture.dimensions", "At most 25 million pixels (16-bit: 12.5 million), 10,000 a side.")
	ErrBusy       = errs.New(errs.Unavailable, "picture.busy", "Too many images wait. Try again in some seconds.").Retry(5 * time.Second)
)

// Picture is one size of what was made.
type Picture struct {
	Size int    // of each side, in pixels
	Type string // image/jpeg, or image/png when something shows through
	Data []byte
}

// quality is the lowest at which artefacts are not visible at these sizes.
const quality = 88

// patience bounds the time in which a decoder gets something to read: ten times what the
// largest image takes on a slow machine.
const patience = 10 * time.Second

// waiting and waitingPerUser are the largest numbers of images that wait. An image may have [MaxPhoto] bytes.
const (
	waiting        = 64
	waitingPerUser = 16
)

// Time bounds an operation that makes pictures: the longest decoding, and what waits for a turn and for SQL.
const Time = patience + 5*time.Second

// Studio makes pictures, some at a time. It is safe for concurrent use.
type Studio struct {
	memory   *fairqueue.Queue // in bytes
	turn     int64            // bytes of a turn: the least that an image gets
	patience time.Duration
}

// studioMemory is the most that all images being decoded may take, as far as
// their headers tell. An image that alone may take more waits until it is the only one.
const studioMemory = 256 << 20

// large is from how many bytes on an image's memory is collected before the next one gets
// it: else the garbage of one adds to the next.
const large = 64 << 20

// New returns a studio that makes up to turns pictures at a time; 0 means half of
// the cores.
func New(turns int) *Studio {
	if turns <= 0 {
		turns = max(1, runtime.GOMAXPROCS(0)/2)
	}
	memory := fairqueue.New(fairqueue.Limits{Capacity: studioMemory, Waiting: waiting, PerUser: waitingPerUser, Full: ErrBusy})
	return &Studio{memory: memory, turn: studioMemory / int64(turns), patience: patience}
}

// Square returns the image in data in all [Sizes], cut to the square in its
// middle. It waits for its turn, in the share of a user, as long as ctx lasts. ErrBytes, ErrUnreadable,
// ErrDimensions, ErrBusy.
func (s *Studio) Square(ctx context.Context, user string, data []byte) (_ []Picture, err error) {
	defer errs.Wrap(&err, "picture.Square")
	if len(data) > MaxBytes {
		return nil, ErrBytes
	}
	var sizes []Picture
	err = s.decoded(ctx, user, data, func(cfg image.Config) int64 {
		side := int64(min(cfg.Width, cfg.Height, 2*enough))
		return side*side*4 + side*int64(Sizes[0])*32 // what shrink makes, and what CatmullRom keeps between its two passes
	}, func(img image.Image, cfg image.Config, _ format, o int) error {
		sizes, err = encode(upright(square(img, cfg), o))
		return err
	})
	return sizes, err
}

// decoded decodes the image in data when it is its turn, and calls use with what it is and how
// its camera was held. beside says how much memory use takes beside the image. ErrUnreadable, ErrDimensions, ErrBusy.
func (s *Studio) decoded(ctx context.Context, user string, data []byte, beside func(image.Config) int64, use func(img image.Image, cfg image.Config, f format, orientation int) error) error {
	i := slices.IndexFunc(formats, func(f format) bool { return f.matches(data) })
	if i < 0 {
		return ErrUnreadable
	}
	f := formats[i]
	cfg, err := f.config(bytes.NewReader(data))
	switch {
	case err != nil || cfg.Width <= 0 || cfg.Height <= 0:
		return ErrUnreadable
	case cfg.Width > maxSide || cfg.Height > maxSide || cfg.Width*cfg.Height > maxPixels || samples(cfg) > maxSamples:
		return ErrDimensions
	case f.typ == "image/jpeg" && scans(data)*cfg.Width*cfg.Height > maxScanned:
		return ErrUnreadable
	}
	// A share of the memory is a turn as well.
	needs := cost(cfg) + beside(cfg)
	release, err := s.memory.Acquire(ctx, user, max(s.turn, needs))
	if err != nil {
		return err
	}
	defer release()
	if needs >= large {
		defer runtime.GC()
	}
	hurried, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	img, err := f.decode(&reader{hurried, bytes.NewReader(data)})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return ErrUnreadable
	}
	return use(img, cfg, f, orientation(data, f.meta))
}

// reader gives a decoder nothing more once its time is up, and little at once, for
// some bytes can mean a second of work.
type reader struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p[:min(len(p), 256)])
}

// format is a kind of file. The registry of package image would take whatever
// kinds other packages have registered.
type format struct {
	head   string // '?' stands for any byte
	typ    string
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
	meta   imagemeta.ImageFormat // zero: it has no orientation
}

var formats = []format{
	{"\xff\xd8\xff", "image/jpeg", jpeg.DecodeConfig, jpeg.Decode, imagemeta.JPEG},
	{"\x89PNG\r\n\x1a\n", "image/png", png.DecodeConfig, png.Decode, imagemeta.PNG},
	{"RIFF????WEBP", "image/webp", webpConfig, webpDecode, imagemeta.WebP},
	{"GIF8", "image/gif", gif.DecodeConfig, gif.Decode, 0},
}

func (f format) matches(data []byte) bool {
	if len(data) < len(f.head) {
		return false
	}
	for i := range len(f.head) {
		if f.head[i] != '?' && f.head[i] != data[i] {
			return false
		}
	}
	return true
}

// scans returns the number of scans of a JPEG. It walks over markers: compressed data has none but restarts, and a phone may
// append a film.
func scans(data []byte) (n int) {
	const startOfScan, endOfImage = 0xda, 0xd9
	for i := 2; i+4 <= len(data); {
		marker := data[i+1]
		switch {
		case data[i] != 0xff, marker == 0xff:
			i++
		case marker == endOfImage:
			return n
		case marker <= 1, 0xd0 <= marker && marker <= 0xd8:
			i += 2
		default:
			if marker == startOfScan {
				n++
			}
			i += 2 + int(binary.BigEndian.Uint16(data[i+2:]))
		}
	}
	return n
}

// samples returns the bytes of the samples of an image with four channels, or less.
func samples(cfg image.Config) int {
	n := 4 * cfg.Width * cfg.Height
	switch cfg.ColorModel {
	case color.RGBA64Model, color.NRGBA64Model:
		return 2 * n
	default:
		return n
	}
}

// cost estimates the bytes that it takes to decode an image: the most that its kind can
// take, for a header does not tell all (a progressive JPEG holds four bytes for each
// sample until the end).
func cost(cfg image.Config) int64 {
	pixels, perPixel := int64(cfg.Width)*int64(cfg.Height), int64(8)
	switch cfg.ColorModel {
	case color.YCbCrModel:
		perPixel = 15
	case color.CMYKModel:
		perPixel = 24
	case color.RGBA64Model, color.NRGBA64Model:
		perPixel = 12
	}
	return pixels * perPixel
}

// enough pixels of a side for the largest size: of more, squares are averaged
// first, which is ten times as quick as to weigh all of them and looks the same.
const enough = 1024

// square scales the middle of an image to the largest size.
func square(img image.Image, cfg image.Config) *image.RGBA {
	side := min(cfg.Width, cfg.Height)
	k := max(1, side/enough)
	n := side / k
	img = shrink(img, image.Pt((cfg.Width-n*k)/2, (cfg.Height-n*k)/2), n, n, k)
	return scale(img, Sizes[0])
}

// shrink returns w × h pixels, each the average of k × k of an image, from at on. What
// lies outside of the image is clear: the first frame of a GIF may be a part of it.
func shrink(img image.Image, at image.Point, w, h, k int) *image.RGBA {
	to := image.NewRGBA(image.Rect(0, 0, w, h))
	band := image.NewRGBA(image.Rect(0, 0, w*k, k))
	for y := range h {
		clear(band.Pix)
		draw.Draw(band, band.Bounds(), img, at.Add(image.Pt(0, y*k)), draw.Src)
		out := to.Pix[y*to.Stride:]
		for x := range w {
			var sum [4]int
			for row := range k {
				from := row*band.Stride + x*k*4
				for p := band.Pix[from : from+k*4]; len(p) >= 4; p = p[4:] {
					sum[0] += int(p[0])
					sum[1] += int(p[1])
					sum[2] += int(p[2])
					sum[3] += int(p[3])
				}
			}
			for c, v := range sum {
				out[x*4+c] = uint8((v + k*k/2) / (k * k))
			}
		}
	}
	return to
}

func scale(img image.Image, size int) *image.RGBA {
	to := image.NewRGBA(image.Rect(0, 0, size, size))
	draw.CatmullRom.Scale(to, to.Bounds(), img, img.Bounds(), draw.Src, nil)
	return to
}

// orientation returns how a camera was held, 1 to 8 as EXIF counts; 1 when it does
// not say.
func orientation(data []byte, f imagemeta.ImageFormat) (o int) {
	o = 1
	if f == 0 {
		return o
	}
	// An error is of no interest: an image without metadata is fine.
	_, _ = imagemeta.Decode(imagemeta.Options{
		R: bytes.NewReader(data), ImageFormat: f, Sources: imagemeta.EXIF,
		ShouldHandleTag: func(t imagemeta.TagInfo) bool { return t.Namespace == "IFD0" && t.Tag == "Orientation" },
		HandleTag: func(t imagemeta.TagInfo) error {
			if v, ok := t.Value.(uint16); ok && 1 <= v && v <= 8 {
				o = int(v)
			}
			return imagemeta.ErrStopWalking
		},
	})
	return o
}

// upright turns and mirrors an image as its orientation says. That comes after cutting
// and scaling, for the middle stays the middle.
func upright(from *image.RGBA, orientation int) *image.RGBA {
	if orientation == 1 {
		return from
	}
	w, h := from.Bounds().Dx()-1, from.Bounds().Dy()-1
	bounds := from.Bounds()
	if lies(orientation) {
		bounds = image.Rect(0, 0, h+1, w+1)
	}
	to := image.NewRGBA(bounds)
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			fx, fy := x, y
			switch orientation {
			case 2:
				fx = w - x
			case 3:
				fx, fy = w-x, h-y
			case 4:
				fy = h - y
			case 5:
				fx, fy = y, x
			case 6:
				fx, fy = y, h-x
			case 7:
				fx, fy = w-y, h-x
			case 8:
				fx, fy = w-y, x
			}
			to.SetRGBA(x, y, from.RGBAAt(fx, fy))
		}
	}
	return to
}

// lies reports that a camera was held on its side: upright, width and height change places.
func lies(orientation int) bool { return orientation >= 5 }

// encode makes all sizes, each of the next larger one.
func encode(img *image.RGBA) ([]Picture, error) {
	all := make([]Picture, 0, len(Sizes))
	for _, size := range Sizes {
		if size != img.Bounds().Dx() {
			img = scale(img, size)
		}
		p := Picture{Size: size}
		var err error
		if p.Type, p.Data, err = written(img); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// written encodes an image: as JPEG, or as PNG when something shows through.
func written(img *image.RGBA) (typ string, data []byte, err error) {
	var b bytes.Buffer
	if img.Opaque() {
		typ, err = "image/jpeg", jpeg.Encode(&b, img, &jpeg.Options{Quality: quality})
	} else {
		typ, err = "image/png", png.Encode(&b, img)
	}
	return typ, b.Bytes(), err
}
