package picture

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/draw"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"reflect"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/bep/imagemeta"
	"golang.org/x/image/webp"

	"github.com/stoa-dev/stoa/internal/base/fairqueue"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

var (
	red   = color.NRGBA{255, 0, 0, 255}
	green = color.NRGBA{0, 255, 0, 255}
	blue  = color.NRGBA{0, 0, 255, 255}
	white = color.NRGBA{255, 255, 255, 255}
	none  = color.NRGBA{}
)

// quarters paints an image: the upper quarters red and green, the lower ones blue and last.
func quarters(img draw.Image, last color.Color) draw.Image {
	b := img.Bounds()
	for y := range b.Dy() {
		for x := range b.Dx() {
			c := color.Color(red)
			switch right, below := x >= b.Dx()/2, y >= b.Dy()/2; {
			case right && below:
				c = last
			case right:
				c = green
			case below:
				c = blue
			}
			img.Set(b.Min.X+x, b.Min.Y+y, c)
		}
	}
	return img
}

func pngOf(t testing.TB, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func jpegOf(t testing.TB, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: 95}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gifOf(t testing.TB, canvas image.Point, frames ...*image.Paletted) []byte {
	t.Helper()
	g := gif.GIF{Image: frames, Delay: make([]int, len(frames)),
		Config: image.Config{ColorModel: frames[0].Palette, Width: canvas.X, Height: canvas.Y}}
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, &g); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var rect = image.Rect(0, 0, 60, 40)

func paletted(last color.Color) *image.Paletted {
	return quarters(image.NewPaletted(rect, color.Palette{red, green, blue, white, none}), last).(*image.Paletted)
}

// small reduces the sizes of pictures, so that they cost a sixteenth, for tests that do not depend on sizes.
func small(t testing.TB) {
	t.Helper()
	was := Sizes
	Sizes = [...]int{128, 64, 32}
	t.Cleanup(func() { Sizes = was })
}

// near reports whether two colours are equal within the error of JPEG.
func near(a, b color.Color) bool {
	ar, ag, ab, aa := a.RGBA()
	br, bg, bb, ba := b.RGBA()
	for _, d := range [...]int{int(ar) - int(br), int(ag) - int(bg), int(ab) - int(bb), int(aa) - int(ba)} {
		if max(d, -d) > 0x1800 {
			return false
		}
	}
	return true
}

// check compares the corners of each size: upper left and right, lower left and right.
func check(t *testing.T, what string, all []Picture, typ string, corners [4]color.NRGBA) {
	t.Helper()
	if len(all) != len(Sizes) {
		t.Fatalf("%s: got %d pictures", what, len(all))
	}
	for i, p := range all {
		img, kind, err := image.Decode(bytes.NewReader(p.Data))
		if err != nil || "image/"+kind != typ || p.Type != typ || p.Size != Sizes[i] || img.Bounds() != image.Rect(0, 0, p.Size, p.Size) {
			t.Errorf("%s: size %d is %s %v called %s, %v; want %s", what, p.Size, kind, img.Bounds(), p.Type, err, typ)
			continue
		}
		lo, hi := p.Size/4, p.Size*3/4
		for j, at := range [4]image.Point{{lo, lo}, {hi, lo}, {lo, hi}, {hi, hi}} {
			if got := img.At(at.X, at.Y); !near(got, corners[j]) {
				t.Errorf("%s: size %d at %v: got %v, want %v", what, p.Size, at, got, corners[j])
			}
		}
	}
}

func TestSquare_MakesAllSizesOfEveryFormat(t *testing.T) {
	part := quarters(image.NewPaletted(image.Rect(0, 0, 30, 20), color.Palette{red, green, blue, white, none}), white).(*image.Paletted)
	part.Rect = part.Rect.Add(image.Pt(30, 20)) // the last quarter of the canvas
	opaque, through := [4]color.NRGBA{red, green, blue, white}, [4]color.NRGBA{red, green, blue, none}
	for i, tc := range []struct {
		name, typ string
		data      []byte
		corners   [4]color.NRGBA
	}{
		{"png", "image/jpeg", pngOf(t, quarters(image.NewNRGBA(rect), white)), opaque},
		{"png, clear", "image/png", pngOf(t, quarters(image.NewNRGBA(rect), none)), through},
		{"png, 16 bits", "image/png", pngOf(t, quarters(image.NewNRGBA64(rect), none)), through},
		{"png, palette", "image/png", pngOf(t, paletted(none)), through},
		{"png, upright", "image/jpeg", pngOf(t, quarters(image.NewNRGBA(image.Rect(0, 0, 41, 997)), white)), opaque},
		{"jpeg", "image/jpeg", jpegOf(t, quarters(image.NewNRGBA(rect), white)), opaque},
		{"gif", "image/jpeg", gifOf(t, rect.Max, paletted(white)), opaque},
		{"gif that moves", "image/png", gifOf(t, rect.Max, paletted(none), paletted(white)), through},
		{"gif whose first frame is a part", "image/png", gifOf(t, rect.Max, part), [4]color.NRGBA{none, none, none, red}},
		{"webp", "image/jpeg", file(t, "lossy.webp"), opaque},
		{"webp, clear", "image/png", file(t, "alpha.webp"), through},
		{"webp, lossless", "image/png", file(t, "lossless.webp"), through},
	} {
		if i == 2 { // the sizes of an opaque and a transparent image are tested above
			small(t)
		}
		all, err := New(0).Square(t.Context(), "", tc.data)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if tc.name == "gif whose first frame is a part" {
			// Its own quarters are visible in the square's last one: red is next to the middle.
			img, _, err := image.Decode(bytes.NewReader(all[0].Data))
			left, mid := Sizes[0]*2/5, Sizes[0]*9/16
			if err != nil || !near(img.At(mid, mid), red) || !near(img.At(left, mid), none) {
				t.Errorf("%s: got %v, %v and %v", tc.name, err, img.At(mid, mid), img.At(left, mid))
			}
			continue
		}
		check(t, tc.name, all, tc.typ, tc.corners)
	}
	gray := image.NewGray(image.Rect(0, 0, 3, 1))
	gray.Pix = []byte{0, 200, 255}
	all, err := New(0).Square(t.Context(), "", pngOf(t, gray))
	c := color.NRGBA{200, 200, 200, 255}
	if err != nil {
		t.Fatal(err)
	}
	check(t, "the middle pixel of three", all, "image/jpeg", [4]color.NRGBA{c, c, c, c})
}

// exif returns a camera's metadata with an orientation, in either byte order, and a location.
func exif(order binary.AppendByteOrder, orientation int) []byte {
	b := []byte("II*\x00")
	if order == binary.AppendByteOrder(binary.BigEndian) {
		b = []byte("MM\x00*")
	}
	b = order.AppendUint32(b, 8)
	b = order.AppendUint16(b, 2)
	b = order.AppendUint16(b, 0x010e) // ImageDescription
	b = order.AppendUint16(b, 2)
	b = order.AppendUint32(b, 12)
	b = order.AppendUint32(b, 38)
	b = order.AppendUint16(b, 0x0112) // Orientation
	b = order.AppendUint16(b, 3)
	b = order.AppendUint32(b, 1)
	b = order.AppendUint16(b, uint16(orientation))
	b = order.AppendUint16(b, 0)
	b = order.AppendUint32(b, 0)
	return append(b, "37.97 23.72\x00"...)
}

func jpegWith(data, meta []byte) []byte {
	seg := append([]byte("Exif\x00\x00"), meta...)
	head := append([]byte{0xff, 0xd8, 0xff, 0xe1}, binary.BigEndian.AppendUint16(nil, uint16(len(seg)+2))...)
	return append(append(head, seg...), data[2:]...)
}

func pngWith(data, meta []byte) []byte {
	const head = 8 + 25 // signature and IHDR
	chunk := append([]byte("eXIf"), meta...)
	out := append(append([]byte{}, data[:head]...), binary.BigEndian.AppendUint32(nil, uint32(len(meta)))...)
	out = append(append(out, chunk...), binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(chunk))...)
	return append(out, data[head:]...)
}

func webpWith(data, meta []byte) []byte {
	out := append([]byte{}, data...)
	out[20] |= 1 << 3 // flag for EXIF
	out = append(append(append(out, "EXIF"...), binary.LittleEndian.AppendUint32(nil, uint32(len(meta)))...), meta...)
	if len(meta)%2 == 1 {
		out = append(out, 0)
	}
	binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-8))
	return out
}

// animated returns an animation whose only frame is a still WebP image.
func animated(t *testing.T, still []byte) []byte {
	t.Helper()
	cfg, err := webp.DecodeConfig(bytes.NewReader(still))
	if err != nil {
		t.Fatal(err)
	}
	chunks := still[bytes.Index(still, []byte("ICCP")):]
	chunks = chunks[8+binary.LittleEndian.Uint32(chunks[4:]):] // a frame has no colour profile
	out := append(webpHead(cfg.Width, cfg.Height, 1<<1|1<<4), "ICCP\x03\x00\x00\x00icc\x00ANIM\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00ANMF"...)
	out = binary.LittleEndian.AppendUint32(out, uint32(16+len(chunks)))
	w, h := cfg.Width-1, cfg.Height-1
	out = append(out, 0, 0, 0, 0, 0, 0, byte(w), byte(w>>8), byte(w>>16), byte(h), byte(h>>8), byte(h>>16), 100, 0, 0, 0)
	out = append(out, chunks...)
	binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-8))
	return out
}

func TestAnimatedWebP_FirstFrameIsDecoded(t *testing.T) {
	for _, name := range []string{"lossy.webp", "alpha.webp", "lossless.webp"} {
		still := file(t, name)
		want, err := New(0).Describe(t.Context(), "", still)
		if err != nil {
			t.Fatal(err)
		}
		got, err := New(0).Describe(t.Context(), "", animated(t, still))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %d × %d, %v, want the thumbnails of the still image", name, got.Width, got.Height, err)
		}
	}
}

func TestUpright_HandlesEachOrientation(t *testing.T) {
	upside := map[int][4]color.NRGBA{
		1: {red, green, blue, white},
		2: {green, red, white, blue},
		3: {white, blue, green, red},
		4: {blue, white, red, green},
		5: {red, blue, green, white},
		6: {blue, red, white, green},
		7: {white, green, blue, red},
		8: {green, white, red, blue},
	}
	stored := quarters(image.NewRGBA(image.Rect(0, 0, 8, 8)), white).(*image.RGBA)
	for o, want := range upside {
		img := upright(stored, o)
		for i, at := range [4]image.Point{{0, 0}, {7, 0}, {0, 7}, {7, 7}} {
			if got := img.At(at.X, at.Y); !near(got, want[i]) {
				t.Errorf("held as %d, at %v: got %v, want %v", o, at, got, want[i])
			}
		}
	}
}

func TestSquare_IsUprightWithoutMetadata(t *testing.T) {
	small(t)
	stored := quarters(image.NewNRGBA(rect), white)
	for o := range 10 {
		want := o
		if o == 0 || o == 9 { // there is no such orientation
			want = 1
		}
		for name, f := range map[string]struct {
			data []byte
			kind imagemeta.ImageFormat
		}{
			"jpeg":                   {jpegWith(jpegOf(t, stored), exif(binary.LittleEndian, o)), imagemeta.JPEG},
			"jpeg, other byte order": {jpegWith(jpegOf(t, stored), exif(binary.BigEndian, o)), imagemeta.JPEG},
			"png":                    {pngWith(pngOf(t, stored), exif(binary.BigEndian, o)), imagemeta.PNG},
			"webp":                   {webpWith(file(t, "lossy.webp"), exif(binary.LittleEndian, o)), imagemeta.WebP},
		} {
			if got := orientation(f.data, f.kind); got != want {
				t.Errorf("%s held as %d: got %d", name, o, got)
			}
		}
	}
	held := [4]color.NRGBA{blue, red, white, green}
	for name, data := range map[string][]byte{
		"jpeg": jpegWith(jpegOf(t, stored), exif(binary.LittleEndian, 6)),
		"png":  pngWith(pngOf(t, stored), exif(binary.BigEndian, 6)),
		"webp": webpWith(file(t, "lossy.webp"), exif(binary.LittleEndian, 6)),
	} {
		all, err := New(0).Square(t.Context(), "", data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		check(t, name, all, "image/jpeg", held)
		for _, p := range all {
			if bytes.Contains(p.Data, []byte("37.97")) || bytes.Contains(p.Data, []byte("Exif")) || bytes.Contains(p.Data, []byte("ICC")) {
				t.Errorf("%s: size %d has metadata", name, p.Size)
			}
		}
	}
	broken := jpegWith(jpegOf(t, stored), []byte("II*\x00\xff\xff\xff\xff"))
	all, err := New(0).Square(t.Context(), "", broken)
	if err != nil {
		t.Fatalf("broken metadata: %v", err)
	}
	check(t, "broken metadata", all, "image/jpeg", [4]color.NRGBA{red, green, blue, white})
}

// pngHead returns a file with only the header of an image of that size.
func pngHead(w, h int) []byte {
	b := binary.BigEndian.AppendUint32([]byte("IHDR"), uint32(w))
	b = append(binary.BigEndian.AppendUint32(b, uint32(h)), 8, 6, 0, 0, 0)
	return append(append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), b...), binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(b))...)
}

func jpegHead(w, h int) []byte {
	b := []byte{0xff, 0xd8, 0xff, 0xc0, 0, 11, 8}
	b = binary.BigEndian.AppendUint16(b, uint16(h))
	b = binary.BigEndian.AppendUint16(b, uint16(w))
	return append(b, 1, 1, 0x11, 0, 0xff, 0xda, 0, 8)
}

func gifHead(w, h int) []byte {
	b := binary.LittleEndian.AppendUint16([]byte("GIF89a"), uint16(w))
	return append(binary.LittleEndian.AppendUint16(b, uint16(h)), 0, 0, 0)
}

func webpHead(w, h int, flags byte) []byte {
	b := append([]byte("RIFF\x16\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00"), flags, 0, 0, 0)
	b = append(b, byte(w-1), byte((w-1)>>8), byte((w-1)>>16))
	return append(b, byte(h-1), byte((h-1)>>8), byte((h-1)>>16))
}

func TestSquare_RefusesABombByItsHeader(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for name, tc := range map[string]struct {
		data []byte
		want error
	}{
		"png, wide":           {pngHead(10_001, 1), ErrDimensions},
		"png, high":           {pngHead(1, 10_001), ErrDimensions},
		"png, large":          {pngHead(5000, 5001), ErrDimensions},
		"png, enormous":       {pngHead(1<<31-1, 1<<31-1), ErrUnreadable}, // package png has its own limit
		"png, allowed":        {pngHead(5000, 5000), ErrUnreadable},       // the data is missing
		"jpeg":                {jpegHead(65_535, 65_535), ErrDimensions},
		"gif":                 {gifHead(65_535, 65_535), ErrDimensions},
		"webp":                {webpHead(1<<24, 1<<7-1, 0), ErrDimensions},
		"webp, small outside": {append(webpHead(10, 10, 0), "VP8L\x05\x00\x00\x00\x2f\xff\xff\xff\x0f\x00"...), ErrUnreadable},
		"no width":            {gifHead(0, 10), ErrUnreadable},
		"bytes":               {append(pngHead(1, 1), make([]byte, MaxBytes)...), ErrBytes},
	} {
		if _, err := New(0).Square(t.Context(), "", tc.data); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
	runtime.ReadMemStats(&after)
	// The allowed one may be decoded until its data ends: 100 MB for its pixels.
	if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 130 {
		t.Errorf("refusing took %d MiB", got)
	}
}

func TestSquare_RefusesOtherFiles(t *testing.T) {
	small(t)
	whole := jpegOf(t, quarters(image.NewNRGBA(rect), white))
	for name, data := range map[string][]byte{
		"nothing":                           {},
		"text":                              []byte("<html><script>alert(1)</script>"),
		"svg":                               []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`),
		"bmp":                               []byte("BM\x3a\x00\x00\x00\x00\x00"),
		"a head only":                       whole[:3],
		"cut off":                           whole[:len(whole)/2],
		"script as gif":                     []byte("GIF89a\x01\x00\x01\x00=1;alert(1)//"),
		"webp that moves without a frame":   append(webpHead(10, 10, 1<<1), "ANIM\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00"...),
		"webp whose first frame is cut off": animated(t, file(t, "lossy.webp"))[:100],
		"riff of music":                     []byte("RIFF\x16\x00\x00\x00WAVEfmt \x0a\x00\x00\x00"),
		"png without data":                  pngHead(1, 1),
	} {
		if all, err := New(0).Square(t.Context(), "", data); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%s: got %d pictures, %v", name, len(all), err)
		}
	}
	// A script after an image's end is dropped.
	all, err := New(0).Square(t.Context(), "", append(whole, "<script>alert(1)</script>"...))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if bytes.Contains(p.Data, []byte("script")) {
			t.Error("the data after the image is in the picture")
		}
	}
}

// manyScans returns a progressive JPEG of a million pixels with many scans of 12 bytes that leave all blocks
// unchanged: minutes of work in a megabyte.
func manyScans(bytes int) []byte {
	b := []byte{0xff, 0xd8, 0xff, 0xc2, 0, 11, 8}
	b = append(b, 4, 0, 4, 0, 1, 1, 0x11, 0) // 1024 × 1024, one component
	// One code of one bit: 0xe0, which ends 2¹⁴ blocks and as many more as the next 14 bits specify.
	b = append(b, 0xff, 0xc4, 0, 20, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xe0)
	scan := []byte{0xff, 0xda, 0, 8, 1, 1, 0, 1, 63, 0, 0, 0} // the 15 bits encode all 128 × 128 blocks
	for len(b) < bytes {
		b = append(b, scan...)
	}
	return append(b, 0xff, 0xd9)
}

func TestStudio_StopsDecoderThatIsNotDoneInTime(t *testing.T) {
	small(t)
	data := manyScans(300 * 12)
	if _, err := New(0).Square(t.Context(), "", manyScans(100)); err != nil {
		t.Fatalf("with few scans: %v", err) // otherwise the test would prove nothing
	}
	s := New(0)
	s.timeout = -1
	if _, err := s.Square(t.Context(), "", data); !errors.Is(err, ErrUnreadable) {
		t.Errorf("got %v, want that it cannot be read", err)
	}
	// A caller who disconnected may send the image again.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New(0).Square(ctx, "", data); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who left: got %v", err)
	}
}

func TestStudio_RefusesWorkBeyondItsPixels(t *testing.T) {
	small(t)
	if _, err := New(0).Square(t.Context(), "", append(jpegOf(t, image.NewGray(rect)),
		bytes.Repeat([]byte{0xff, 0xda, 0, 2}, 1<<18)...)); err != nil {
		t.Errorf("a photo with a film behind it: %v", err)
	}
	deep := pngHead(5000, 5000)
	deep[24] = 16 // bits a sample
	binary.BigEndian.PutUint32(deep[29:], crc32.ChecksumIEEE(deep[12:29]))
	for name, tc := range map[string]struct {
		data []byte
		want error
	}{
		"25 million pixels of 16 bits": {deep, ErrDimensions},
		"a JPEG with 87,000 scans":     {manyScans(1 << 20), ErrUnreadable},
	} {
		s := New(0)
		s.memory = nil // decoding would panic
		if _, err := s.Square(t.Context(), "", tc.data); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
}

// TestStudio_ServesUsersInRotation fills the studio and the queue with one user's images before another user comes.
func TestStudio_ServesUsersInRotation(t *testing.T) {
	small(t)
	data := pngOf(t, image.NewNRGBA(rect))
	bubble.Test(t, func(t *testing.T) {
		s := New(1)
		release, err := s.memory.Acquire(t.Context(), "ann", studioMemory)
		if err != nil {
			t.Fatal(err)
		}
		made := make(chan string, 2*maxWaiting)
		busy := 0
		send := func(user string) {
			go func() {
				_, err := s.Square(t.Context(), user, data)
				if errors.Is(err, ErrBusy) {
					user = "busy"
				} else if err != nil {
					t.Error(err)
				}
				made <- user
			}()
			synctest.Wait()
			if len(made) > 0 {
				busy++
				if got := <-made; got != "busy" {
					t.Errorf("%s has a picture before its turn", got)
				}
			}
		}
		for range maxWaitingPerUser + 4 {
			send("ann")
		}
		send("bob")
		if busy != 4 {
			t.Errorf("%d refused, want 4", busy)
		}
		release()
		if first, second := <-made, <-made; first != "ann" || second != "bob" {
			t.Errorf("first %s, then %s; want ann, then bob", first, second)
		}
		for range maxWaitingPerUser - 1 {
			<-made
		}
	})
}

func TestStudio_BoundsMemory(t *testing.T) {
	small(t)
	little, large := pngOf(t, image.NewNRGBA(rect)), pngOf(t, image.NewGray(image.Rect(0, 0, 1000, 2000)))
	// waits reports whether an image waits while other users have some of the memory.
	waits := func(s *Studio, others int64, data []byte) (waits bool) {
		bubble.Test(t, func(t *testing.T) {
			s.memory = fairqueue.New(fairqueue.Limits{Capacity: studioMemory, Waiting: 1, PerUser: 1})
			release, err := s.memory.Acquire(t.Context(), "others", others)
			if err != nil {
				t.Fatal(err)
			}
			made := make(chan error, 1)
			go func() {
				_, err := s.Square(t.Context(), "ann", data)
				made <- err
			}()
			synctest.Wait()
			waits = len(made) == 0
			release()
			if err := <-made; err != nil {
				t.Error(err)
			}
		})
		return waits
	}
	for name, tc := range map[string]struct {
		turns  int
		others int64
		data   []byte
		want   bool
	}{
		"a turn is free":                 {2, studioMemory / 2, little, false},
		"no turn is free":                {2, studioMemory/2 + 1, little, true},
		"20 MiB are free":                {1000, studioMemory - 20<<20, little, false},
		"20 MiB are free, 42 are needed": {1000, studioMemory - 20<<20, large, true},
	} {
		if got := waits(New(tc.turns), tc.others, tc.data); got != tc.want {
			t.Errorf("%s: waits %t, want %t", name, got, tc.want)
		}
	}
}

func FuzzSquare(f *testing.F) {
	img := quarters(image.NewNRGBA(rect), none)
	f.Add(pngWith(pngOf(f, img), exif(binary.BigEndian, 6)))
	f.Add(jpegWith(jpegOf(f, img), exif(binary.LittleEndian, 8)))
	f.Add(gifOf(f, rect.Max, paletted(none), paletted(white)))
	for _, name := range []string{"lossy.webp", "alpha.webp", "lossless.webp"} {
		f.Add(file(f, name))
	}
	small(f)
	s := New(0)
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := s.Square(t.Context(), "", data)
		if err != nil {
			if !errors.Is(err, ErrUnreadable) && !errors.Is(err, ErrDimensions) && !errors.Is(err, ErrBytes) {
				t.Fatal(err)
			}
			return
		}
		for i, p := range all {
			img, kind, err := image.DecodeConfig(bytes.NewReader(p.Data))
			if err != nil || "image/"+kind != p.Type || img.Width != Sizes[i] || img.Height != Sizes[i] {
				t.Fatalf("size %d: %s called %s, %v", p.Size, kind, p.Type, err)
			}
		}
	})
}
