package demo

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
)

// encode writes a picture as PNG.
func encode(img image.Image) []byte {
	var b bytes.Buffer
	_ = png.Encode(&b, img) // writes to memory
	return b.Bytes()
}

// avatar returns the picture of a member of the cast: a pattern of squares with equal left and right halves.
func avatar(i int) []byte {
	const side, cells, rim = 256, 5, 28
	random := rand.New(rand.NewPCG(7, uint64(i)))
	hue := float64(i) * 137.5 // neighbours in the cast get different colours
	back, front := shade(hue, 0.25, 0.97), shade(hue+20, 0.62, 0.62)
	img := image.NewRGBA(image.Rect(0, 0, side, side))
	var filled [cells][cells]bool
	for x := range (cells + 1) / 2 {
		for y := range cells {
			filled[x][y] = random.IntN(100) < 55
			filled[cells-1-x][y] = filled[x][y]
		}
	}
	for x := range side {
		for y := range side {
			c := back
			if cx, cy := (x-rim)*cells/(side-2*rim), (y-rim)*cells/(side-2*rim); x >= rim && y >= rim && cx < cells && cy < cells && filled[cx][cy] {
				c = front
			}
			img.SetRGBA(x, y, c)
		}
	}
	return encode(img)
}

// sunset returns a picture of a lake in front of hills. Each seed gives other hills, and the width is 1.5 times the
// height.
func sunset(seed, height int) []byte {
	width, unit := height*3/2, float64(height)/640
	shore, sunX, sunY, sun := height*5/8, height*31/32, height*31/64, height*13/160
	img := image.NewRGBA(image.Rect(0, 0, width, height))
	phase := float64(seed)
	hill := func(x int, n float64) int {
		at := float64(x)/unit/90 + phase
		return shore - int(unit*(42+18*n)*(1.1+math.Sin(at*0.6+n*2)+0.35*math.Sin(at*1.7+n)))/2
	}
	at := func(x, y int) color.RGBA {
		switch {
		case y > hill(x, 0):
			return shade(265, 0.45, 0.24)
		case y > hill(x, 2):
			return shade(285, 0.4, 0.4)
		case (x-sunX)*(x-sunX)+(y-sunY)*(y-sunY) < sun*sun:
			return shade(45, 0.35, 1)
		}
		down := float64(y) / float64(shore)
		return shade(250+130*down, 0.55, 0.45+0.5*down)
	}
	for x := range width {
		for y := range height {
			if y <= shore {
				img.SetRGBA(x, y, at(x, y))
				continue
			}
			wave := int(3 * unit * math.Sin(float64(y*y)/unit/unit/180+float64(x)/unit/60)) // the water mirrors the picture above it
			c := at(min(max(x+wave, 0), width-1), max(2*shore-y, 0))
			img.SetRGBA(x, y, color.RGBA{c.R / 5 * 4, c.G / 5 * 4, c.B / 8 * 7, 255})
		}
	}
	return encode(img)
}

// shade returns a colour by hue in degrees, saturation and value, both 0 to 1.
func shade(hue, saturation, value float64) color.RGBA {
	part := func(n float64) uint8 {
		k := math.Mod(n+hue/60, 6)
		return uint8(255 * (value - value*saturation*max(0, min(k, 4-k, 1))))
	}
	return color.RGBA{part(5), part(3), part(1), 255}
}
