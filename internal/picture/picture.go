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

// MaxBytes is the largest accepted file: a phone's photo, as a page or an app sends it.
const MaxBytes = 5 << 20

// Limits of an image's size: those of a good phone's camera, and a longest side.
const (
	maxPixels = 25_000_000
	maxSide   = 10_000

	// maxSamples is the largest number of bytes of all samples. With 16 bits a sample they are twice as many;
	// ordinary files of that kind have far fewer.
	maxSamples = 4 * maxPixels

	// maxScanned is the largest number of pixels of all scans of a JPEG, because each scan costs as much as an image.
	// Encoders write at most a dozen scans.
	maxScanned = 16 * maxPixels
)

// Sizes are the sides of the pictures in pixels, for a page, a card and a list. The first is the largest.
var Sizes = [...]int{512, 256, 64}

// Refusals of this package.
var (
	ErrBytes      = errs.New(errs.Invalid, "picture.bytes", "The file exceeds 5 MiB. Use a smaller one.")
	ErrUnreadable = errs.New(errs.Invalid, "picture.unreadable", "Not a valid PNG, JPEG, GIF or WebP image. Use another file.")
	ErrDimensions = errs.New(errs.Invalid, "picture.dimensions", "Use at most 25 million pixels (16-bit: 12.5 million), 10,000 per side.")
	ErrBusy       = errs.New(errs.Unavailable, "picture.busy", "Too many images are waiting. Try again in 5 seconds.").Retry(5 * time.Second)
)

// Picture is one size of the result.
type Picture struct {
	Size int    // length of each side, in pixels
	Type string // image/jpeg, or image/png for an image with transparency
	Data []byte
}

// quality is the lowest JPEG quality without visible artefacts at these sizes.
const quality = 88

// decodeTimeout bounds the input time of a decoder: ten times that of the largest image on a slow machine.
const decodeTimeout = 10 * time.Second

// maxWaiting and maxWaitingPerUser are the largest numbers of waiting images. An image may have [MaxPhoto] bytes.
const (
	maxWaiting        = 64
	maxWaitingPerUser = 16
)

// Time bounds an operation that makes pictures: the longest decoding, and the waits for a turn and for SQL.
const Time = decodeTimeout + 5*time.Second

// Studio makes a bounded number of pictures at a time. It is safe for concurrent use.
type Studio struct {
	memory  *fairqueue.Queue // in bytes
	turn    int64            // bytes of a turn: the smallest share of an image
	timeout time.Duration
}

// studioMemory bounds the memory of all images being decoded, as estimated from their headers. An image that may need
// more waits until it is the only one.
const studioMemory = 256 << 20

// large is the smallest image in bytes of memory that triggers a garbage collection before the next image runs, so
// that garbage does not accumulate.
const large = 64 << 20

// New returns a studio that makes up to turns pictures at a time; 0 means half of the cores.
func New(turns int) *Studio {
	if turns <= 0 {
		turns = max(1, runtime.GOMAXPROCS(0)/2)
	}
	memory := fairqueue.New(fairqueue.Limits{Capacity: studioMemory, Waiting: maxWaiting, PerUser: maxWaitingPerUser, Full: ErrBusy})
	return &Studio{memory: memory, turn: studioMemory / int64(turns), timeout: decodeTimeout}
}

// Square returns the image in data in all [Sizes], cropped to the square in its middle. It waits for its turn in the
// user's share until ctx ends. It returns ErrBytes, ErrUnreadable, ErrDimensions or ErrBusy.
func (s *Studio) Square(ctx context.Context, user string, data []byte) (_ []Picture, err error) {
	defer errs.Wrap(&err, "picture.Square")
	if len(data) > MaxBytes {
		return nil, ErrBytes
	}
	var sizes []Picture
	err = s.decoded(ctx, user, data, func(cfg image.Config) int64 {
		side := int64(min(cfg.Width, cfg.Height, 2*enough))
		return side*side*4 + side*int64(Sizes[0])*32 // memory of shrink's result, and of CatmullRom between its two passes
	}, func(img image.Image, cfg image.Config, _ format, o int) error {
		sizes, err = encode(upright(square(img, cfg), o))
		return err
	})
	return sizes, err
}

// decoded decodes the image in data when its turn comes, and passes the image, its configuration, format and
// orientation to use. extra returns the memory that use needs in addition to the image. It returns ErrUnreadable,
// ErrDimensions or ErrBusy.
func (s *Studio) decoded(ctx context.Context, user string, data []byte,
	extra func(image.Config) int64, use func(img image.Image, cfg image.Config, f format, orientation int) error) error {
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
	needs := cost(cfg) + extra(cfg)
	release, err := s.memory.Acquire(ctx, user, max(s.turn, needs))
	if err != nil {
		return err
	}
	defer release()
	if needs >= large {
		defer runtime.GC()
	}
	bounded, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	img, err := f.decode(&reader{bounded, bytes.NewReader(data)})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return ErrUnreadable
	}
	return use(img, cfg, f, orientation(data, f.meta))
}

// reader returns an error to a decoder after its time, and few bytes at once, because a few bytes can mean a second
// of work.
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

// format is a file format. The registry of package image is not used, because it accepts all formats that other
// packages registered.
type format struct {
	head   string // '?' matches any byte
	typ    string
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
	meta   imagemeta.ImageFormat // zero: no orientation
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

// scans returns the number of scans of a JPEG. It follows the markers, because compressed data contains only restart
// markers, and a phone may append a video.
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

// samples returns the bytes of the samples of an image with up to four channels.
func samples(cfg image.Config) int {
	n := 4 * cfg.Width * cfg.Height
	switch cfg.ColorModel {
	case color.RGBA64Model, color.NRGBA64Model:
		return 2 * n
	default:
		return n
	}
}

// cost estimates the memory for decoding an image, in bytes. It is the maximum of its kind, because a header does not
// contain all facts (a progressive JPEG needs four bytes for each sample until the end).
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

// enough is the number of pixels of a side that suffices for the largest size. Larger images are averaged over
// squares first, which is ten times as fast as weighting all pixels and looks the same.
const enough = 1024

// square scales the middle of an image to the largest size.
func square(img image.Image, cfg image.Config) *image.RGBA {
	side := min(cfg.Width, cfg.Height)
	k := max(1, side/enough)
	n := side / k
	img = shrink(img, image.Pt((cfg.Width-n*k)/2, (cfg.Height-n*k)/2), n, n, k)
	return scale(img, Sizes[0])
}

// shrink returns w × h pixels, each the average of k × k pixels of an image, starting at at. Pixels outside the image
// are transparent, because the first frame of a GIF may cover only a part.
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

// orientation returns the camera's orientation, 1 to 8 as in EXIF; 1 if the metadata does not contain it.
func orientation(data []byte, f imagemeta.ImageFormat) (o int) {
	o = 1
	if f == 0 {
		return o
	}
	// Errors are ignored, because an image without metadata is valid.
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

// upright rotates and mirrors an image by its orientation. It may follow cropping and scaling, because the middle
// stays the middle.
func upright(from *image.RGBA, orientation int) *image.RGBA {
	if orientation == 1 {
		return from
	}
	w, h := from.Bounds().Dx()-1, from.Bounds().Dy()-1
	bounds := from.Bounds()
	if swapsSides(orientation) {
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

// swapsSides reports whether upright swaps width and height.
func swapsSides(orientation int) bool { return orientation >= 5 }

// encode returns all sizes, each made of the next larger one.
func encode(img *image.RGBA) ([]Picture, error) {
	all := make([]Picture, 0, len(Sizes))
	for _, size := range Sizes {
		if size != img.Bounds().Dx() {
			img = scale(img, size)
		}
		p := Picture{Size: size}
		var err error
		if p.Type, p.Data, err = encodeOne(img); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// encodeOne encodes an image as JPEG, or as PNG if it has transparency.
func encodeOne(img *image.RGBA) (typ string, data []byte, err error) {
	var b bytes.Buffer
	if img.Opaque() {
		typ, err = "image/jpeg", jpeg.Encode(&b, img, &jpeg.Options{Quality: quality})
	} else {
		typ, err = "image/png", png.Encode(&b, img)
	}
	return typ, b.Bytes(), err
}
