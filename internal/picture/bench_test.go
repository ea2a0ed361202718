package picture

import (
	"image"
	"image/color/palette"
	"testing"
)

// The benchmarks measure an upload of a page, of a phone, and of the largest size.
func BenchmarkSquare(b *testing.B) {
	benchmark(b, func(s *Studio, data []byte) error {
		_, err := s.Square(b.Context(), "", data)
		return err
	})
}

func BenchmarkLook(b *testing.B) {
	benchmark(b, func(s *Studio, data []byte) error {
		_, err := s.Describe(b.Context(), "", data)
		return err
	})
}

func benchmark(b *testing.B, do func(s *Studio, data []byte) error) {
	photo := func(w, h int) image.Image { return quarters(image.NewNRGBA(image.Rect(0, 0, w, h)), white) }
	for _, c := range []struct {
		name string
		data []byte
	}{
		{"jpeg 1 MP", jpegOf(b, photo(1200, 900))},
		{"jpeg 12 MP", jpegOf(b, photo(4000, 3000))},
		{"jpeg 25 MP", jpegOf(b, photo(5000, 5000))},
		{"png 25 MP", pngOf(b, photo(5000, 5000))},
		{"png 12 MP, 16 bits", pngOf(b, quarters(image.NewNRGBA64(image.Rect(0, 0, 5000, 2500)), none))},
		{"png 25 MP, palette", pngOf(b, quarters(image.NewPaletted(image.Rect(0, 0, 5000, 5000), palette.Plan9), none))},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := New(0)
			b.ReportAllocs()
			for b.Loop() {
				if err := do(s, c.data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
