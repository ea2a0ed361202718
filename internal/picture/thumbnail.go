package picture

import (
	"context"
	"image"

	"golang.org/x/image/draw"

	"github.com/stoa-dev/stoa/internal/base/errs"
)

// MaxPhoto is the largest file of which thumbnails are made: what the largest photo that
// [Studio.Look] decodes takes on a camera's best setting.
const MaxPhoto = 20 << 20

// Sides are the longer sides of thumbnails, in pixels: on a screen, and in a chat. The first
// is the largest.
var Sides = [...]int{1280, 320}

// A Photo is what an image is, upright.
type Photo struct {
	Type          string // image/png, image/jpeg, image/gif or image/webp, as its bytes say
	Width, Height int
	Thumbnails    []Thumbnail // the largest first; the last is always there
}

// Thumbnail is an image made smaller, upright and encoded anew. One that is small already keeps its
// size.
type Thumbnail struct {
	Side          int // one of [Sides]
	Width, Height int
	Type          string // image/jpeg, or image/png when something shows through
	Data          []byte
}

// Look returns how large the image in data is, with thumbnails: one of the smallest side, and those
// of larger sides that show more. It waits for its turn, in the share of a user, as long as ctx lasts. ErrUnreadable, ErrDimensions, ErrBusy.
func (s *Studio) Look(ctx context.Context, user string, data []byte) (p Photo, err error) {
	defer errs.Wrap(&err, "picture.Look")
	beside := func(cfg image.Config) int64 { // what shrink makes, and as much for the rest
		most := 2 * Sides[0]
		return 2 * 4 * int64(min(cfg.Width, most)) * int64(min(cfg.Height, most))
	}
	err = s.decoded(ctx, user, data, beside, func(img image.Image, cfg image.Config, f format, o int) error {
		p = Photo{Type: f.typ, Width: cfg.Width, Height: cfg.Height}
		if lies(o) {
			p.Width, p.Height = p.Height, p.Width
		}
		longer, from := max(cfg.Width, cfg.Height), image.Rect(0, 0, cfg.Width, cfg.Height)
		for i, side := range Sides {
			smallest := i == len(Sides)-1
			if !smallest && longer <= Sides[i+1] {
				continue
			}
			small := fit(img, from, side)
			img, from = small, small.Bounds() // the next one is made of this one
			turned := upright(small, o)
			t := Thumbnail{Side: side, Width: turned.Bounds().Dx(), Height: turned.Bounds().Dy()}
			var err error
			if t.Type, t.Data, err = written(turned); err != nil {
				return err
			}
			p.Thumbnails = append(p.Thumbnails, t)
		}
		return nil
	})
	return p, err
}

// fit scales an image down until its longer side is not longer than side: squares of pixels are averaged
// until there are less than twice as many as are wanted, of which the next ones do.
func fit(img image.Image, bounds image.Rectangle, side int) *image.RGBA {
	w, h := bounds.Dx(), bounds.Dy()
	k := max(1, max(w, h)/side)
	k = min(k, w, h) // a strip
	small := shrink(img, image.Point{}, w/k, h/k, k)
	longer := max(w, h)
	if longer <= side {
		return small
	}
	to := image.NewRGBA(image.Rect(0, 0, max(1, w*side/longer), max(1, h*side/longer)))
	draw.ApproxBiLinear.Scale(to, to.Bounds(), small, small.Bounds(), draw.Src, nil)
	return to
}
