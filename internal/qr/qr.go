// Package qr draws QR codes.
package qr

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"

	"github.com/boombuler/barcode/qr"
)

// Quiet is the width of the white border in modules, which readers need to find a code: ISO/IEC 18004 requires four.
const Quiet = 4

// A Code is Side × Side modules.
type Code struct {
	Side int
	dark []bool // row by row
}

// New encodes up to about 2,000 bytes, with error correction level M, which tolerates a covered corner.
func New(text string) (Code, error) {
	b, err := qr.Encode(text, qr.M, qr.Unicode)
	if err != nil {
		return Code{}, err
	}
	c := Code{Side: b.Bounds().Dx()}
	for y := range c.Side {
		for x := range c.Side {
			r, _, _, _ := b.At(x, y).RGBA()
			c.dark = append(c.dark, r == 0)
		}
	}
	return c, nil
}

// PNG draws the code on size × size pixels, with the largest modules of a whole number of pixels. It fails if size is
// too small.
func (c Code) PNG(size int) ([]byte, error) {
	k := size / (c.Side + 2*Quiet)
	if k == 0 {
		return nil, fmt.Errorf("a code of %d modules does not fit on %d pixels", c.Side, size)
	}
	img := image.NewPaletted(image.Rect(0, 0, size, size), color.Palette{color.White, color.Black})
	margin := (size - k*c.Side) / 2
	for y := range k * c.Side {
		for x := range k * c.Side {
			if c.dark[y/k*c.Side+x/k] {
				img.SetColorIndex(margin+x, margin+y, 1)
			}
		}
	}
	var b bytes.Buffer
	err := png.Encode(&b, img)
	return b.Bytes(), err
}

// SVG draws the code with one unit for each module.
func (c Code) SVG() []byte {
	var b bytes.Buffer
	all := c.Side + 2*Quiet
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[1]d" shape-rendering="crispEdges"><path fill="#fff" d="M0 0h%[1]dv%[1]dH0z"/><path d="`, all)
	for y := range c.Side {
		for x := 0; x < c.Side; x++ {
			run := 0
			for x+run < c.Side && c.dark[y*c.Side+x+run] {
				run++
			}
			if run > 0 {
				fmt.Fprintf(&b, "M%d %dh%dv1h-%dz", Quiet+x, Quiet+y, run, run)
				x += run
			}
		}
	}
	b.WriteString(`"/></svg>`)
	return b.Bytes()
}
