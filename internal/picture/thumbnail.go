package picture

import (
	"context"
	"image"

	"golang.org/x/image/draw"

	"github.com/stoa-dev/stoa/internal/base/errs"
)

// MaxPhoto is the largest file for [Studio.Describe], in bytes: the largest photo that it decodes at a camera's best
// setting.
const MaxPhoto = 20 << 20

// Sides are the longer sides of thumbnails in pixels, for a screen and for a chat. The first is the largest.
var Sides = [...]int{1280, 320}

// A Photo describes an image, upright.
type Photo struct {
	Type          string // image/png, image/jpeg, image/gif or image/webp, determined by its bytes
	Width, Height int
	Thumbnails    []Thumbnail // the largest first; the smallest is always present
}

// Thumbnail is a smaller copy of an image, upright and encoded again. A small image keeps its size.
type Thumbnail struct {
	Side          int // one of [Sides]
	Width, Height int
	Type          string // image/jpeg, or image/png for an image with transparency
	Data          []byte
}

// Describe returns the size of the image in data, with a thumbnail of the smallest side and those of larger sides that
// show more. It waits for its turn in the user's share until ctx ends. It returns ErrUnreadable, ErrDimensions or
// ErrBusy.
func (s *Studio) Describe(ctx context.Context, user string, data []byte) (p Photo, err error) {
	defer errs.Wrap(&err, "picture.Describe")
	extra := func(cfg image.Config) int64 { // memory of shrink's result, and the same for the rest
		longest := 2 * Sides[0]
		return 2 * 4 * int64(min(cfg.Width, longest)) * int64(min(cfg.Height, longest))
	}
	err = s.decoded(ctx, user, data, extra, func(img image.Image, cfg image.Config, f format, o int) error {
		p = Photo{Type: f.typ, Width: cfg.Width, Height: cfg.Height}
		if swapsSides(o) {
			p.Width, p.Height = p.Height, p.Width
		}
		longer, from := max(cfg.Width, cfg.Height), image.Rect(0, 0, cfg.Width, cfg.Height)
		for i, side := range Sides {
			smallest := i == len(Sides)-1
			if !smallest && longer <= Sides[i+1] {
				continue
			}
			scaled := fit(img, from, side)
			img, from = scaled, scaled.Bounds() // the next one is made of this one
			turned := upright(scaled, o)
			t := Thumbnail{Side: side, Width: turned.Bounds().Dx(), Height: turned.Bounds().Dy()}
			var err error
			if t.Type, t.Data, err = encodeOne(turned); err != nil {
				return err
			}
			p.Thumbnails = append(p.Thumbnails, t)
		}
		return nil
	})
	return p, err
}

// fit scales an image down so that its longer side is at most side. It averages squares of pixels until there are
// fewer than twice as many as needed, and interpolates the rest.
func fit(img image.Image, bounds image.Rectangle, side int) *image.RGBA {
	w, h := bounds.Dx(), bounds.Dy()
	k := max(1, max(w, h)/side)
	k = min(k, w, h) // a strip
	scaled := shrink(img, image.Point{}, w/k, h/k, k)
	longer := max(w, h)
	if longer <= side {
		return scaled
	}
	to := image.NewRGBA(image.Rect(0, 0, max(1, w*side/longer), max(1, h*side/longer)))
	draw.ApproxBiLinear.Scale(to, to.Bounds(), scaled, scaled.Bounds(), draw.Src, nil)
	return to
}
