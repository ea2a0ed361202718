package picture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"testing"
)

// smallSides reduces the sides of thumbnails to the size of the images in these tests.
func smallSides(t testing.TB) {
	t.Helper()
	was := Sides
	Sides = [...]int{128, 32}
	t.Cleanup(func() { Sides = was })
}

func (t Thumbnail) corners(test *testing.T) (got [4]color.Color) {
	test.Helper()
	img, kind, err := image.Decode(bytes.NewReader(t.Data))
	if err != nil || "image/"+kind != t.Type || img.Bounds() != image.Rect(0, 0, t.Width, t.Height) {
		test.Fatalf("side %d: %s called %s, %v, %v", t.Side, kind, t.Type, img, err)
	}
	w, h := t.Width, t.Height
	return [4]color.Color{img.At(w/8, h/8), img.At(w-1-w/8, h/8), img.At(w/8, h-1-h/8), img.At(w-1-w/8, h-1-h/8)}
}

func TestLook_ThumbnailsKeepTheShape(t *testing.T) {
	smallSides(t)
	for name, tc := range map[string]struct {
		w, h          int
		sides         []int
		width, height int // of the smallest
	}{
		"wide":               {400, 200, []int{128, 32}, 32, 16},
		"high":               {200, 400, []int{128, 32}, 16, 32},
		"between the sides":  {100, 50, []int{128, 32}, 32, 16},
		"small already":      {20, 10, []int{32}, 20, 10},
		"as long as a side":  {32, 32, []int{32}, 32, 32},
		"a strip":            {1000, 2, []int{128, 32}, 32, 1},
		"a dot":              {1, 1, []int{32}, 1, 1},
		"no multiple of any": {131, 97, []int{128, 32}, 32, 23},
	} {
		img := quarters(image.NewNRGBA(image.Rect(0, 0, tc.w, tc.h)), white)
		p, err := New(0).Describe(t.Context(), "", pngOf(t, img))
		if err != nil || p.Width != tc.w || p.Height != tc.h || len(p.Thumbnails) != len(tc.sides) {
			t.Errorf("%s: got %dx%d with %d thumbnails, %v", name, p.Width, p.Height, len(p.Thumbnails), err)
			continue
		}
		for i, thumb := range p.Thumbnails {
			if thumb.Side != tc.sides[i] || max(thumb.Width, thumb.Height) > thumb.Side {
				t.Errorf("%s: got one of %dx%d for side %d, want %d", name, thumb.Width, thumb.Height, thumb.Side, tc.sides[i])
			}
			if tc.w < 8 || tc.h < 8 {
				continue
			}
			for c, want := range [4]color.NRGBA{red, green, blue, white} {
				if got := thumb.corners(t)[c]; !near(got, want) {
					t.Errorf("%s, side %d, corner %d: got %v, want %v", name, thumb.Side, c, got, want)
				}
			}
		}
		if last := p.Thumbnails[len(p.Thumbnails)-1]; last.Width != tc.width || last.Height != tc.height {
			t.Errorf("%s: the smallest is %dx%d, want %dx%d", name, last.Width, last.Height, tc.width, tc.height)
		}
	}
}

func TestLook_ThumbnailsAreUprightWithoutMetadata(t *testing.T) {
	smallSides(t)
	stored := jpegOf(t, quarters(image.NewNRGBA(image.Rect(0, 0, 400, 200)), white))
	p, err := New(0).Describe(t.Context(), "", jpegWith(stored, exif(binary.BigEndian, 6)))
	if err != nil || p.Width != 200 || p.Height != 400 {
		t.Fatalf("got %dx%d, %v", p.Width, p.Height, err)
	}
	for _, thumb := range p.Thumbnails {
		for c, want := range [4]color.NRGBA{blue, red, white, green} {
			if got := thumb.corners(t)[c]; !near(got, want) {
				t.Errorf("side %d, corner %d: got %v, want %v", thumb.Side, c, got, want)
			}
		}
		if bytes.Contains(thumb.Data, []byte("Exif")) {
			t.Errorf("side %d keeps metadata", thumb.Side)
		}
	}
}

func TestLook_RefusesABomb(t *testing.T) {
	for name, tc := range map[string]struct {
		data []byte
		want error
	}{
		"a billion pixels": {jpegHead(65_535, 65_535), ErrDimensions},
		"too wide":         {pngHead(10_001, 1), ErrDimensions},
		"too large":        {pngHead(5000, 5001), ErrDimensions},
		"broken":           {pngHead(50, 50), ErrUnreadable},
		"no image":         {[]byte("<svg onload=alert(1)>"), ErrUnreadable},
		"nothing":          {nil, ErrUnreadable},
	} {
		if _, err := New(0).Describe(t.Context(), "", tc.data); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
}
