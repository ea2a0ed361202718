package accounts

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"

	"github.com/boombuler/barcode/qr"
)

// quiet is the white border, in modules, by which readers find a code: ISO/IEC
// 18004 asks for four.
const quiet = 4

// A qrCode is side × side modules, true for dark ones.
type qrCode struct {
	side int
	dark []bool
}

// newQR encodes up to some 2,000 bytes. Level M stands a thumb on the paper.
func newQR(text string) (qrCode, error) {
	b, err := qr.Encode(text, qr.M, qr.Unicode)
	if err != nil {
		return qrCode{}, err
	}
	c := qrCode{side: b.Bounds().Dx()}
	for y := range c.side {
		for x := range c.side {
			r, _, _, _ := b.At(x, y).RGBA()
			c.dark = append(c.dark, r == 0)
		}
	}
	return c, nil
}

// png draws the code on a square of size × size pixels, each module as large as a
// whole number of pixels allows.
func (c qrCode) png(size int) ([]byte, error) {
	k := size / (c.side + 2*quiet)
	if k == 0 {
		return nil, fmt.Errorf("a code of %d modules does not fit on %d pixels", c.side, size)
	}
	img := image.NewPaletted(image.Rect(0, 0, size, size), color.Palette{color.White, color.Black})
	margin := (size - k*c.side) / 2
	for y := range k * c.side {
		for x := range k * c.side {
			if c.dark[y/k*c.side+x/k] {
				img.SetColorIndex(margin+x, margin+y, 1)
			}
		}
	}
	var b bytes.Buffer
	err := png.Encode(&b, img)
	return b.Bytes(), err
}

// svg draws the code in its own size, one unit a module.
func (c qrCode) svg() []byte {
	var b bytes.Buffer
	all := c.side + 2*quiet
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[1]d" shape-rendering="crispEdges"><path fill="#fff" d="M0 0h%[1]dv%[1]dH0z"/><path d="`, all)
	for y := range c.side {
		for x := 0; x < c.side; x++ {
			run := 0
			for x+run < c.side && c.dark[y*c.side+x+run] {
				run++
			}
			if run > 0 {
				fmt.Fprintf(&b, "M%d %dh%dv1h-%dz", quiet+x, quiet+y, run, run)
				x += run
			}
		}
	}
	b.WriteString(`"/></svg>`)
	return b.Bytes()
}
